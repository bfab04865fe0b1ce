//! Random schemas, rows and statements made anonymous: each must do the same work, and none of the
//! users' words may be left.
//!
//! `anonymise` itself plays both traces and compares rows, changes, plans and pages; a case fails
//! where it refuses. More cases: `FATHOM_ANONYMISE_CASES=1000`, from `FATHOM_ANONYMISE_FROM`.

use std::collections::BTreeSet;

use super::*;
use crate::assemble::{Assembler, Execution};
use fathom_random::Random;

const SECRETS: [&str; 16] = [
    "Schneider",
    "Schneidewind",
    "Hallervorden",
    "Kunigunde",
    "kunigunde",
    "Zweig",
    "Zwerg",
    "Grüßgott",
    "비밀번호",
    "Donaudampf",
    "Liebesbrief",
    "Wolfgang",
    "Wolfram",
    "Annemarie",
    "ANNEMARIE",
    "Quasimodo",
];

struct Case {
    random: Random,
    tables: Vec<Table>,
    has_text_index: bool,
}

struct Table {
    name: String,
    columns: Vec<(String, Kind)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Integer,
    Real,
    Text,
    NoCase,
    Date,
    Json,
    Any,
    Blob,
    Id,
    Phone,
}

impl Case {
    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn word(&mut self) -> &'static str {
        SECRETS[self.below(SECRETS.len() as u64) as usize]
    }

    fn words(&mut self) -> String {
        let count = 1 + self.below(3);
        (0..count)
            .map(|_| self.word())
            .collect::<Vec<_>>()
            .join([" ", "-", ", ", "@"][self.below(4) as usize])
    }

    /// A value for a column, as a literal.
    fn value(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Key => "NULL".into(),
            Kind::Id => (100_000_000_000 + self.below(50) * 7919).to_string(),
            // Android binds arguments as texts.
            Kind::Integer => match self.below(3) {
                0 => format!("'{}'", self.below(30)),
                1 => format!("'{}'", 1_479_000_000_000 + self.below(1000) * 1000),
                _ => self.below(30).to_string(),
            },
            Kind::Real => match self.below(2) {
                0 => format!("'{}.5'", self.below(9)),
                _ => format!("{}.25", self.below(9)),
            },
            Kind::Text | Kind::NoCase => format!("'{}'", self.words()),
            Kind::Date => format!(
                "'2015-{:02}-{:02} 12:{:02}:00'",
                1 + self.below(12),
                1 + self.below(28),
                self.below(60)
            ),
            Kind::Json => format!(
                "'{{\"name\": \"{}\", \"n\": {}, \"tags\": [\"{}\", {}]}}'",
                self.word(),
                self.below(20),
                self.word(),
                10_000 + self.below(9)
            ),
            Kind::Any => match self.below(4) {
                0 => self.below(9).to_string(),
                1 => format!("'{}'", self.below(9)),
                2 => "NULL".into(),
                _ => format!("'{}'", self.word()),
            },
            Kind::Phone => match self.below(4) {
                0 => format!("'+49 {}-{}'", 30 + self.below(9), 123_000 + self.below(400) * 7),
                _ => format!("'0{}-{}'", 30 + self.below(9), 123_000 + self.below(400) * 7),
            },
            Kind::Blob => format!("x'{:08x}{:08x}'", self.below(1 << 32), self.below(1 << 32)),
        }
    }

    fn table(&mut self, number: usize) -> (Table, Vec<String>) {
        let kinds = [
            Kind::Integer,
            Kind::Real,
            Kind::Text,
            Kind::NoCase,
            Kind::Date,
            Kind::Json,
            Kind::Any,
            Kind::Blob,
            Kind::Id,
            Kind::Phone,
        ];
        let name = ["people", "my notes", "order", "t'quoted"][number].to_owned();
        let mut columns = vec![("_id".to_owned(), Kind::Key)];
        let mut defined = vec!["_id INTEGER PRIMARY KEY".to_owned()];
        for at in 0..2 + self.below(4) {
            let kind = kinds[self.below(kinds.len() as u64) as usize];
            let column = format!("{}{at}", ["begin", "name", "body", "state"][self.below(4) as usize]);
            let mut definition = match self.below(3) {
                0 => format!("'{column}'"),
                1 => format!("\"{column}\""),
                _ => column.clone(),
            };
            definition.push_str(match kind {
                Kind::Integer | Kind::Id => " INTEGER",
                Kind::Real => " REAL",
                Kind::Text | Kind::Json | Kind::Phone => " TEXT",
                Kind::NoCase => " TEXT COLLATE NOCASE",
                Kind::Date => " DATETIME",
                Kind::Blob => " BLOB",
                Kind::Any | Kind::Key => "",
            });
            match (kind, self.below(4)) {
                (Kind::Text, 0) => definition.push_str(&format!(
                    " CHECK (length(\"{column}\") > 1 AND typeof(\"{column}\") = 'text')"
                )),
                (Kind::Integer, 0) => definition.push_str(" DEFAULT '7'"),
                (Kind::Text, 1) => definition.push_str(&format!(" DEFAULT '{}'", SECRETS[0])),
                _ => {}
            }
            defined.push(definition);
            columns.push((column, kind));
        }
        let texts: Vec<String> = columns
            .iter()
            .filter(|(_, kind)| matches!(kind, Kind::Text | Kind::NoCase))
            .map(|(name, _)| name.clone())
            .collect();
        if let Some(text) = texts.first()
            && self.below(3) == 0
        {
            defined.push(format!("made TEXT GENERATED ALWAYS AS (upper(substr(\"{text}\", 1, 4))) STORED"));
        }
        let table = name.replace('"', "\"\"");
        let mut made = vec![format!("CREATE TABLE \"{table}\"({})", defined.join(", "))];
        for (at, (column, kind)) in columns.iter().enumerate().skip(1) {
            match (self.below(5), kind) {
                (0, _) => made
                    .push(format!("CREATE INDEX \"i{number} {at}\" ON \"{table}\"(\"{column}\", _id DESC)")),
                (1, Kind::Text) => {
                    made.push(format!("CREATE INDEX \"e{number} {at}\" ON \"{table}\"(lower(\"{column}\"))"))
                }
                (2, Kind::Integer) => made.push(format!(
                    "CREATE INDEX \"p{number} {at}\" ON \"{table}\"(\"{column}\") WHERE \"{column}\" > '5'"
                )),
                _ => {}
            }
        }
        if let Some(text) = texts.first() {
            made.push(format!("CREATE VIEW 'v{number}' AS SELECT _id AS '_id', \"{text}\" AS 'what' FROM \"{table}\" WHERE _id <> '3'"));
            if self.below(2) == 0 {
                made.push(format!(
                    "CREATE TRIGGER g{number} AFTER UPDATE ON \"{table}\" WHEN new.\"{text}\" = '{}' BEGIN DELETE FROM \"{table}\" WHERE _id = '2' OR \"{text}\" = 'Zwerg'; END",
                    self.word()
                ));
            }
        }
        (Table { name, columns }, made)
    }

    fn insert(&mut self, at: usize) -> String {
        let (name, columns) = (self.tables[at].name.clone(), self.tables[at].columns.clone());
        let mut values = Vec::new();
        for (_, kind) in &columns[1..] {
            values.push(self.value(*kind));
        }
        let names: Vec<String> = columns[1..].iter().map(|(name, _)| format!("\"{name}\"")).collect();
        format!("INSERT OR IGNORE INTO \"{name}\"({}) VALUES ({})", names.join(", "), values.join(", "))
    }

    fn condition(&mut self, column: &str, kind: Kind) -> String {
        let column = format!("\"{column}\"");
        let one = self.value(kind);
        let other = self.value(kind);
        let start: String = self.word().chars().take(2 + self.below(4) as usize).collect();
        match (kind, self.below(8)) {
            (Kind::Key, _) => format!("_id > '{}'", self.below(30)),
            (Kind::Text | Kind::NoCase, 0) => format!("{column} LIKE '{start}%'"),
            (Kind::Text | Kind::NoCase, 1) => format!("{column} GLOB '{start}*'"),
            (Kind::Text | Kind::NoCase, 2) => format!("lower({column}) = lower({one})"),
            (Kind::Text, 3) => format!("{column} COLLATE NOCASE >= {one} AND typeof({column}) = 'text'"),
            (Kind::Text, 4) => match self.below(3) {
                0 => format!("{column} GLOB '[A-Z]*'"),
                1 => format!("{column} LIKE '%{}%'", self.word().chars().skip(2).take(3).collect::<String>()),
                _ => format!(
                    "instr({column}, '{}') > 0",
                    self.word().chars().skip(1).take(4).collect::<String>()
                ),
            },
            (Kind::Date, 0) => format!("strftime('%Y-%m', {column}) = '2015-0{}'", 1 + self.below(9)),
            (Kind::Date, 1) => format!("date({column}, '+1 month') > '2015-06-01'"),
            (Kind::Date, 2) => format!("{column} LIKE '2015-0{}%'", 1 + self.below(9)),
            (Kind::Json, 0) => format!("json_extract({column}, '$.name') = '{}'", self.word()),
            (Kind::Json, 1) => format!("json_extract({column}, '$.n') > {}", self.below(20)),
            (Kind::Json, 2) => format!("{column} ->> '$.tags[1]' = {}", 10_000 + self.below(9)),
            (Kind::Json, 3) => format!("json_type({column}, '$.tags') = 'array' AND json_valid({column})"),
            (Kind::Integer, 0) => format!("{column} + 1 > '{}'", self.below(20)),
            (Kind::Integer, 1) => format!("{column} % 17 = {}", self.below(17)),
            (Kind::Integer, 2) => format!("{column} LIKE '1%'"),
            (Kind::Phone, 0) => {
                format!("replace({column}, '-', '') LIKE '0{}{}%'", 30 + self.below(9), 1 + self.below(2))
            }
            (Kind::Phone, 1) => format!("{column} LIKE '%{}%'", 12 + self.below(60)),
            (Kind::Phone, 2) => format!("substr({column}, 1, 3) = '0{}'", 30 + self.below(9)),
            (Kind::Phone, 3) => format!("{column} GLOB '0[34]{}*'", self.below(9)),
            (Kind::Phone, 4) => format!("{column} >= '0{}' AND length({column}) > 9", 30 + self.below(9)),
            (Kind::Any, 0) => format!("typeof({column}) IN ('text', 'null', 'real')"),
            (_, 5) => format!("{column} IN ({one}, {other}, {})", self.value(kind)),
            (_, 6) => format!("{column} BETWEEN {one} AND {other}"),
            (_, 7) => format!("{column} <> {one} AND {column} IS NOT NULL"),
            _ => format!("{column} {} {one}", ["=", "<", ">=", "="][self.below(4) as usize]),
        }
    }

    fn statement(&mut self) -> (String, Vec<Value>) {
        let at = self.below(self.tables.len() as u64) as usize;
        let (name, columns) = (self.tables[at].name.clone(), self.tables[at].columns.clone());
        let (column, kind) = columns[self.below(columns.len() as u64) as usize].clone();
        let condition = self.condition(&column, kind);
        let more = {
            let (column, kind) = columns[self.below(columns.len() as u64) as usize].clone();
            self.condition(&column, kind)
        };
        let plain = |sql: String| (sql, Vec::new());
        match self.below(16) {
            0 => plain(self.insert(at)),
            14 => {
                let (column, kind) = columns[1 + self.below(columns.len() as u64 - 1) as usize].clone();
                let (value, other) = (self.value(kind), self.value(kind));
                let (id, column) = (self.below(30), format!("\"{column}\""));
                plain(format!(
                    "INSERT INTO \"{name}\"(_id, {column}) VALUES ({id}, {value}) ON CONFLICT(_id) DO UPDATE SET {column} = excluded.{column} WHERE {column} < {other}"
                ))
            }
            15 => plain(format!(
                "SELECT name 'Table Name', \"Table Name\" FROM (SELECT name, name 'Table Name' FROM sqlite_master WHERE name LIKE '{}%') ORDER BY \"Table Name\"",
                ["peo", "my no", "search", "sqlite_", "i"][self.below(5) as usize]
            )),
            1 => plain(format!(
                "SELECT *, '_id' FROM \"{name}\" WHERE {condition} ORDER BY \"{column}\" LIMIT '{}'",
                1 + self.below(9)
            )),
            2 => plain(format!(
                "SELECT count(*), \"{column}\" FROM \"{name}\" WHERE {condition} OR {more} GROUP BY 2 HAVING count(*) > '1'"
            )),
            3 => {
                plain(format!("DELETE FROM \"main\".\"{name}\" WHERE {condition} AND {more} AND _id % 5 = 0"))
            }
            4 | 5 => {
                let (column, kind) = columns[1 + self.below(columns.len() as u64 - 1) as usize].clone();
                plain(format!(
                    "UPDATE OR IGNORE \"{name}\" SET \"{column}\" = {} WHERE {condition}",
                    self.value(kind)
                ))
            }
            6 => {
                let value = match kind {
                    Kind::Text | Kind::NoCase => Value::Text(self.words().into_bytes()),
                    Kind::Id => Value::Integer(100_000_000_000 + self.below(50) as i64 * 7919),
                    _ => Value::Text(self.below(30).to_string().into_bytes()),
                };
                (
                    format!("SELECT 1 FROM \"{name}\" WHERE \"{column}\" >= ?1 OR \"{column}\" = ?1"),
                    vec![value],
                )
            }
            7 => {
                let other = self.below(self.tables.len() as u64) as usize;
                let (other, columns) = (self.tables[other].name.clone(), self.tables[other].columns.clone());
                let join = &columns[self.below(columns.len() as u64) as usize].0;
                plain(format!(
                    "SELECT count(*) FROM \"{name}\" a JOIN \"{other}\" b ON a.\"{column}\" = b.\"{join}\""
                ))
            }
            8 => plain(format!(
                "WITH w AS (SELECT \"{column}\" AS x FROM \"{name}\" WHERE {condition}) SELECT x FROM w WHERE x IS NOT NULL UNION SELECT '{}'",
                self.word()
            )),
            9 => plain(format!(
                "SELECT what, _id FROM v{at} WHERE '_id' <> '3' AND what > '{}' ORDER BY 1",
                self.word()
            )),
            10 if self.has_text_index => plain(format!(
                "INSERT INTO search(title, body) VALUES ('{}', '{}')",
                self.words(),
                self.words()
            )),
            11 if self.has_text_index => {
                let start: String = self.word().chars().take(4).collect();
                plain(format!(
                    "SELECT rowid FROM search WHERE search MATCH '{}* OR title:{}' LIMIT 5",
                    start,
                    self.word()
                ))
            }
            12 => plain(format!(
                "SELECT CASE WHEN {condition} THEN '14' ELSE '15' END + 1 AS 'alias one' FROM \"{name}\" WHERE {more}"
            )),
            _ => plain(format!(
                "SELECT max(\"{column}\"), min(\"{column}\") FROM \"{name}\" WHERE {condition}"
            )),
        }
    }
}

/// A trace of random work; its databases begin as an image every other time.
fn made(number: u64, directory: &Path) -> PathBuf {
    let mut case =
        Case { random: Random::stream(7, "anonymise", number), tables: Vec::new(), has_text_index: false };
    let mut start = Vec::new();
    for table in 0..1 + case.below(4) as usize {
        let (table, made) = case.table(table);
        start.extend(made);
        case.tables.push(table);
    }
    if case.below(2) == 0 {
        case.has_text_index = true;
        start.push(format!(
            "CREATE VIRTUAL TABLE search USING {}(title, body)",
            ["fts4", "fts5"][case.below(2) as usize]
        ));
    }
    for _ in 0..case.below(150) {
        let at = case.below(case.tables.len() as u64) as usize;
        start.push(case.insert(at));
    }
    let mut statements: Vec<(String, Vec<Value>)> = (0..80).map(|_| case.statement()).collect();
    let path = directory.join("a.trace");
    let mut assembler = Assembler::new(Writer::create(&path).unwrap(), Origin::default()).unwrap();
    let thread = assembler.thread(1, 1, "Kunigunde's program").unwrap();
    let database = if number.is_multiple_of(2) {
        let image = directory.join("a.db");
        let _ = std::fs::remove_file(&image);
        let made = rusqlite::Connection::open(&image).unwrap();
        start.iter().for_each(|sql| {
            made.execute_batch(sql).unwrap_or_else(|error| panic!("{number}: {sql}: {error}"))
        });
        made.execute_batch("ANALYZE").unwrap();
        drop(made);
        let bytes = std::fs::metadata(&image).unwrap().len();
        let content = Some((image.as_path(), File::open(&image).unwrap()));
        assembler.database(b"/home/Kunigunde/a.db", Start::Image { bytes }, content).unwrap()
    } else {
        statements.splice(0..0, start.into_iter().map(|sql| (sql, Vec::new())));
        assembler.database(b"/home/Kunigunde/a.db", Start::Empty, None).unwrap()
    };
    let connection = assembler.open(thread, database, 0).unwrap();
    for (sql, values) in &statements {
        let execution = Execution { sql, values, start_ns: 0, duration_ns: 0, keep: false, counts: None };
        assembler.execute(connection, &execution).unwrap();
    }
    assembler.close(connection, 1).unwrap();
    assembler.finish().unwrap();
    path
}

fn everything(trace: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in Reader::open(trace).unwrap() {
        match record.unwrap() {
            Record::Content(content) => bytes.extend(content.bytes),
            Record::Event(Event {
                action: Action::Bind { value: Value::Text(text) | Value::Blob(text), .. },
                ..
            }) => bytes.extend(text),
            other => bytes.extend(format!("{other:?}").into_bytes()),
        }
    }
    bytes
}

fn asked(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().map_or(default, |text| text.parse().unwrap())
}

#[test]
fn random_work_stays_the_same_and_no_word_of_it_remains() {
    let directory = tempfile::tempdir().unwrap();
    let from = asked("FATHOM_ANONYMISE_FROM", 0);
    let (mut wrong, mut runs, mut keep) = (Vec::new(), 0, 0);
    for number in from..from + asked("FATHOM_ANONYMISE_CASES", 40) {
        let trace = made(number, directory.path());
        for numbers in [false, true] {
            let out = directory.path().join("b.trace");
            match anonymise(&trace, &out, &Wish { seed: number, numbers, ..Wish::default() }) {
                Err(error) => wrong.push(format!("case {number}, numbers {numbers}: {error}")),
                Ok(done) => {
                    runs += 1;
                    keep += u64::from(!done.suspects.is_empty());
                    let (before, after) = (everything(&trace), everything(&out));
                    for secret in SECRETS {
                        let is_in = |bytes: &[u8]| {
                            bytes
                                .windows(secret.len())
                                .any(|window| window.eq_ignore_ascii_case(secret.as_bytes()))
                        };
                        if is_in(&after) {
                            wrong.push(format!(
                                "case {number}: {secret} remains (was there: {})",
                                is_in(&before)
                            ));
                        }
                    }
                    // Ids begin with six digits that no other number does.
                    let ids = |bytes: &[u8]| -> BTreeSet<String> {
                        let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
                        text.split(|letter: char| !letter.is_ascii_digit())
                            .filter(|digit| digit.len() == 12 && digit.starts_with("100000"))
                            .map(str::to_owned)
                            .collect()
                    };
                    // Where a statement found something else, what stays is told.
                    if numbers && done.suspects.is_empty() && !ids(&after).is_empty() {
                        wrong.push(format!(
                            "case {number}: ids remain: {:?} of {}",
                            ids(&after),
                            ids(&before).len()
                        ));
                    }
                }
            }
        }
    }
    println!("{runs} do the same, of which {keep} keep numbers or texts without letters of some statements");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

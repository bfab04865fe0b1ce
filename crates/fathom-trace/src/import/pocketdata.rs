//! What the PocketData project recorded and published (Kennedy, Ajay, Challen, Ziarek: *Pocket
//! Data: The Need for TPC-MOBILE*, TPCTC 2015).
//!
//! **Its log**: lines of the phones' log with the tag SQLite-Query-PhoneLab, in columns (device,
//! time in ms, …, process, thread, level, tag) of which the last is a JSON object: `Action`
//! (SELECT, UPDATE …, and SCHEMA, TABLES, APP_NAME, which are no statements), `Results` (the SQL),
//! `Time` (ns), `Arguments`. Lines that are such an object alone, with `sql` or `query` for the SQL
//! and `timestamp` for the time (a number, or as RFC 3339 writes it), are read alike, and values of
//! parameters in a list `args`, `params` or the like, as what writes structured logs has them. What
//! a SCHEMA line says of a table makes the table, empty, before the first statement.
//!
//! **Its benchmark's workloads**: one JSON object with a list `init` of statements that make the
//! database, and a list `benchmark` of operations: `query` with `sql`, and `break` with a pause
//! `delta` in ms.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{Seek, Write};
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::bad::BadOnes;
use super::checker::Checker;
use super::iso;
use super::lines::{Lines, can_be_read_twice};
use super::loading::LoadingSettings;
use super::play::Player;
use super::private::{Compilation, Fault, Private, compile, execute, message_of};
use super::same_file::known_as;
use super::{ImportReport, Starts};
use crate::assemble::{Assembler, Execution};
use crate::error::TraceError;
use crate::model::{Start, Value};
use crate::sql::{TokenKind, Verb, tokens};

/// Names under which the SQL of a line stands.
const SQL: [&str; 5] = ["Results", "sql", "SQL", "query", "statement"];

/// Names under which its time stands, where no column has it.
const TIMES: [&str; 8] =
    ["timestamp", "Timestamp", "time_ms", "ts", "@timestamp", "time", "datetime", "asctime"];

/// Numbers under the name `time` from which on they are times of a day (2001, in seconds): smaller
/// ones say how long a statement took.
const DAYS_FROM: f64 = 1e9;

/// Names under which values of its parameters stand as a list, beside the log's own `Arguments`.
const VALUES: [&str; 6] = ["args", "params", "parameters", "bindings", "binds", "values"];

/// Actions that are no statements.
const NO_STATEMENTS: [&str; 3] = ["SCHEMA", "TABLES", "APP_NAME"];

/// Whether a line of a file is one of the log.
pub fn is_log_line(line: &str) -> bool {
    LogLine::of(line).is_some_and(|line| {
        line.sql().is_some()
            || line.text("Action").is_some_and(|action| NO_STATEMENTS.contains(&action.as_str()))
    })
}

/// Whether a file is a workload of the benchmark, by its beginning.
pub fn is_workload(beginning: &str) -> bool {
    let bare: String = beginning.split_whitespace().collect();
    bare.starts_with("{\"benchmark\":[") || bare.starts_with("{\"init\":[")
}

/// What a field says of the time.
enum Time {
    /// s, ms, µs or ns, since whenever.
    Number(f64),
    /// ns since 1970.
    Ns(u64),
}

/// A line of the log.
struct LogLine<'a> {
    columns: Vec<&'a str>,
    object: Map<String, Json>,
}

impl<'a> LogLine<'a> {
    fn of(line: &'a str) -> Option<LogLine<'a>> {
        let line = line.trim_end();
        let (columns, object) = line.rsplit_once('\t').unwrap_or(("", line));
        if !object.starts_with('{') {
            return None;
        }
        let object = serde_json::from_str(object).ok()?;
        Some(LogLine { columns: columns.split('\t').collect(), object })
    }

    fn text(&self, name: &str) -> Option<String> {
        match self.object.get(name)? {
            Json::String(text) => Some(text.clone()),
            Json::Number(number) => Some(number.to_string()),
            _ => None,
        }
    }

    /// The statement, where it is one.
    fn sql(&self) -> Option<String> {
        let action = self.text("Action").unwrap_or_default();
        if NO_STATEMENTS.contains(&action.as_str()) {
            return None;
        }
        let sql = SQL.iter().find_map(|name| self.object.get(*name)?.as_str())?;
        // As Java names the object whose statement it is.
        let sql = ["SQLiteProgram: ", "SQLiteQuery: ", "SQLiteStatement: "]
            .iter()
            .find_map(|prefix| sql.strip_prefix(prefix))
            .unwrap_or(sql);
        let sql = sql.trim().trim_end_matches(';').trim_end();
        (!sql.is_empty()).then(|| sql.to_owned())
    }

    /// ns, since whenever.
    fn at_ns(&self) -> Option<u64> {
        let column = self
            .columns
            .iter()
            .find(|column| column.len() >= 12 && column.bytes().all(|byte| byte.is_ascii_digit()));
        let number = match column {
            Some(column) => column.parse::<f64>().ok()?,
            None => match TIMES.iter().find_map(|name| self.time(name))? {
                Time::Number(number) => number,
                Time::Ns(at_ns) => return Some(at_ns),
            },
        };
        // Seconds, ms, µs or ns since 1970: three digits lie between each.
        let scale = match number {
            number if number < 1e11 => 1e9,
            number if number < 1e14 => 1e6,
            number if number < 1e17 => 1e3,
            _ => 1.0,
        };
        (0.0..1e19).contains(&number).then_some((number * scale) as u64)
    }

    /// What a field says of the time: a number, also one in quotes, or a text of a day.
    fn time(&self, name: &str) -> Option<Time> {
        let number = match self.object.get(name)? {
            Json::String(text) => match iso::ns_of(text) {
                Some(at_ns) => return Some(Time::Ns(at_ns)),
                None => text.parse::<f64>().ok()?,
            },
            other => other.as_f64()?,
        };
        (name != "time" || number >= DAYS_FROM).then_some(Time::Number(number))
    }

    /// Whether a field that should have its time has a text.
    fn has_text_for_time(&self) -> bool {
        TIMES.iter().any(|name| self.object.get(*name).is_some_and(Json::is_string))
    }

    /// Device, process and thread.
    fn place(&self) -> (String, u32, u32) {
        let is_level = |word: &&str| matches!(*word, "V" | "D" | "I" | "W" | "E");
        let number = |name: &str| self.text(name).and_then(|name| name.parse().ok());
        if let Some(level) = self.columns.iter().position(is_level).filter(|at| *at >= 2)
            && let (Ok(process), Ok(thread)) =
                (self.columns[level - 2].parse(), self.columns[level - 1].parse())
        {
            return (self.columns[0].to_owned(), process, thread);
        }
        let process = number("pid").unwrap_or(0);
        (String::new(), process, number("tid").unwrap_or(process))
    }

    fn database(&self) -> String {
        let (_, process, _) = self.place();
        let named = ["database", "db", "Database"].iter().find_map(|name| self.text(name));
        named.map_or_else(|| format!("process-{process}.db"), |name| known_as(&name).into_owned())
    }

    /// Values of `count` parameters, where there are so many: Android binds them as texts.
    fn values(&self, count: usize) -> Option<Vec<Value>> {
        let text =
            |text: &str| if text == "null" { Value::Null } else { Value::Text(text.as_bytes().to_vec()) };
        let list = |name: &&str| self.object.get(*name).filter(|values| values.is_array());
        let given = self.object.get("Arguments").or_else(|| VALUES.iter().find_map(list))?;
        let values: Vec<Value> = match given {
            Json::Array(values) => values.iter().map(value).collect(),
            Json::String(list) => list.strip_prefix('[')?.strip_suffix(']')?.split(", ").map(text).collect(),
            _ => return None,
        };
        (values.len() == count).then_some(values)
    }
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Number(number) if number.is_i64() => Value::Integer(number.as_i64().unwrap_or_default()),
        Json::Number(number) => Value::Real(number.as_f64().unwrap_or_default()),
        Json::String(text) => Value::Text(text.clone().into_bytes()),
        Json::Bool(is_true) => Value::Integer(i64::from(*is_true)),
        other => match buffer(other) {
            Some(bytes) => Value::Blob(bytes),
            None => Value::Text(other.to_string().into_bytes()),
        },
    }
}

/// The bytes of one of Node's buffers: `{"type":"Buffer","data":[0,255]}`.
fn buffer(json: &Json) -> Option<Vec<u8>> {
    json.get("type").and_then(Json::as_str).filter(|kind| *kind == "Buffer")?;
    let bytes = json.get("data")?.as_array()?;
    bytes.iter().map(|byte| u8::try_from(byte.as_u64()?).ok()).collect()
}

/// `CREATE TABLE` out of what `PRAGMA table_info` said, as a SCHEMA line has it:
/// `cid:0,name:_id,type:INTEGER,notnull:0,dflt_value:null,pk:1...`.
fn table(name: &str, schema: &str) -> Option<String> {
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let (mut columns, mut keys) = (Vec::new(), Vec::new());
    for column in schema.split("cid:").skip(1) {
        let field = |name: &str, next: &str| {
            let after = &column[column.find(name)? + name.len()..];
            Some(&after[..after.find(next)?])
        };
        let (name, kind) = (field("name:", ",type:")?, field("type:", ",notnull:")?);
        let key = column.rsplit_once("pk:").map_or("0", |(_, key)| key.trim_end_matches(['.', ',']));
        columns.push(format!("{} {kind}", quoted(name)));
        if key.parse::<u32>().is_ok_and(|key| key > 0) {
            keys.push((key.parse::<u32>().unwrap_or(0), quoted(name)));
        }
    }
    if columns.is_empty() || name.starts_with("sqlite_") {
        return None;
    }
    keys.sort();
    if !keys.is_empty() {
        let keys: Vec<_> = keys.into_iter().map(|(_, name)| name).collect();
        columns.push(format!("PRIMARY KEY({})", keys.join(", ")));
    }
    Some(format!("CREATE TABLE IF NOT EXISTS {}({});\n", quoted(name), columns.join(", ")))
}

/// Reads the log at `path`.
pub fn import(
    path: &Path,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    // Tables are told of whenever a database is opened, often after its first statements: twice
    // through.
    if !can_be_read_twice(path)? {
        return Err(TraceError::refused(path.display(), "is no file, and is read twice: write it to a file"));
    }
    let mut tables: HashMap<String, String> = HashMap::new();
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next_line()? {
        if !line.contains("\"SCHEMA\"") {
            continue;
        }
        let Some(line) = LogLine::of(line) else { continue };
        if let (Some(name), Some(schema)) = (line.text("TABLE_NAME"), line.text("SCHEMA"))
            && let Some(create) = table(&name, &schema)
        {
            let all = tables.entry(line.database()).or_default();
            if !all.contains(&create) {
                all.push_str(&create);
            }
        }
    }
    let mut imported = ImportReport::default();
    let mut checker = Checker::new(steps_max);
    let mut databases: HashMap<String, u32> = HashMap::new();
    let mut connections: HashMap<(String, u32, u32), u32> = HashMap::new();
    let (mut zero_ns, mut last_ns, mut without_values, mut no_json) = (None, 0, 0_u64, 0_u64);
    let mut with_other_times = 0_u64;
    let mut lines = Lines::open(path)?;
    let mut number = 0;
    while let Some(read) = lines.next_line()? {
        number += 1;
        let Some(line) = LogLine::of(read) else {
            no_json += u64::from(!read.trim().is_empty());
            continue;
        };
        let Some(sql) = line.sql() else { continue };
        if let Some(at_ns) = line.at_ns() {
            let zero = *zero_ns.get_or_insert(at_ns);
            last_ns = at_ns.saturating_sub(zero).max(last_ns);
        } else {
            with_other_times += u64::from(line.has_text_for_time());
        }
        let (device, process, thread) = line.place();
        let thread = assembler.thread(process, thread, &device)?;
        let name = line.database();
        let database = match databases.entry(name) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let made = tables.get(new.key());
                let (database, start) = match made.filter(|_| starts.files.is_empty()) {
                    Some(script) => (from_script(path, new.key(), script, assembler)?, None),
                    None => starts.database_and_file(new.key(), assembler)?,
                };
                checker.database(database, start)?;
                for create in made.into_iter().flat_map(|script| script.lines()) {
                    checker.is_good(database, create.trim_end_matches(';'), path, number, bad);
                }
                *new.insert(database)
            }
        };
        let connection = match connections.entry((device, process, database)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(assembler.open(thread, database, last_ns)?),
        };
        assembler.use_thread(connection, thread);
        if !checker.is_good(database, &sql, path, number, bad) {
            continue;
        }
        let parameters = tokens(&sql).filter(|token| token.kind == TokenKind::Parameter).count();
        let values = if parameters == 0 { Some(Vec::new()) } else { line.values(parameters) };
        without_values += u64::from(values.is_none());
        let duration_ns = line.object.get("Time").and_then(Json::as_u64).unwrap_or(0);
        let values = values.unwrap_or_default();
        super::attach::map(&sql, connection, last_ns, assembler, starts)?;
        let execution = Execution {
            sql: &sql,
            values: &values,
            start_ns: last_ns,
            duration_ns,
            keep: false,
            counts: None,
        };
        assembler.execute(connection, &execution)?;
        imported.statements += 1;
    }
    let mut all: Vec<u32> = connections.into_values().collect();
    all.sort_unstable();
    for connection in all {
        assembler.close(connection, last_ns)?;
    }
    if without_values > 0 {
        imported.warnings.push(format!(
            "{without_values} statements have parameters whose values the log does not tell clearly: they are NULL"
        ));
    }
    if with_other_times > 0 {
        imported.warnings.push(format!(
            "{with_other_times} statements have a time that is neither a number nor as RFC 3339 writes it \
             (2023-08-10T10:00:00.125Z): they begin when the last one before them that has such a time does"
        ));
    }
    if no_json > 0 {
        imported.warnings.push(format!("{no_json} lines hold no JSON object and are left out"));
    }
    Ok(imported)
}

/// A database that begins with what this script makes.
fn from_script(path: &Path, name: &str, script: &str, assembler: &mut Assembler) -> Result<u32, TraceError> {
    let mut file = tempfile::tempfile().map_err(TraceError::io(path))?;
    file.write_all(script.as_bytes()).and_then(|()| file.rewind()).map_err(TraceError::io(path))?;
    let start = Start::Script { bytes: script.len() as u64 };
    assembler.database(name.as_bytes(), start, Some((path, file)))
}

/// Reads the workload of the benchmark at `path`.
pub fn import_workload(
    path: &Path,
    assembler: &mut Assembler,
    starts: &mut Starts,
    bad: &mut BadOnes,
    steps_max: u64,
) -> Result<ImportReport, TraceError> {
    let file = std::fs::File::open(path).map_err(TraceError::io(path))?;
    let workload: Map<String, Json> = serde_json::from_reader(std::io::BufReader::new(file))
        .map_err(|error| TraceError::refused(path.display(), format!("is no JSON object: {error}")))?;
    let list = |name: &str| workload.get(name).and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let private = Private::new(None, 0, false, steps_max)?;
    let connection = private.open()?;
    let problem_of = |fault: Fault| match fault {
        Fault::Incomplete => "is the beginning of a statement (incomplete input)".to_owned(),
        Fault::Wrong(message) => message,
    };
    let (mut script, mut settings) = (String::new(), LoadingSettings::default());
    let place = |name: &str| {
        path.with_file_name(format!("{} {name}", path.file_name().unwrap_or_default().display()))
    };
    for (number, sql) in (1..).zip(list("init").iter().filter_map(|init| init.get("sql")?.as_str())) {
        let sql = sql.trim().trim_end_matches(';');
        let of_file = settings.of_file(sql);
        let problem = match compile(&connection, sql) {
            Ok(Compilation::Ready(mut statement)) => {
                execute(&connection, &mut statement, Verb::of(sql)).problem()
            }
            Ok(Compilation::Attach { .. } | Compilation::VacuumInto { .. }) => {
                Some(super::folder::ATTACHES.into())
            }
            Ok(Compilation::VirtualTable(table)) => {
                table.restore(&connection).err().map(|error| format!("fails: {}", message_of(&error)))
            }
            Ok(Compilation::NotHere) => {
                script.extend(of_file.map(|sql| format!("{sql}\n;\n")));
                continue;
            }
            Ok(Compilation::Nothing) => continue,
            Err(fault) => Some(problem_of(fault)),
        };
        match problem {
            Some(problem) => bad.add(&place("init"), number, sql, &problem),
            None => script.push_str(&format!("{sql}\n;\n")),
        }
    }
    let database = from_script(path, "SQLBenchmark", &script, assembler)?;
    let thread = assembler.thread(0, 0, "PocketData benchmark")?;
    let number = assembler.open(thread, database, 0)?;
    let mut player = Player::new(assembler, starts, private, bad, Some(0));
    for (operation, entry) in (1..).zip(list("benchmark")) {
        match entry.get("op").and_then(Json::as_str) {
            Some("query") => {
                let sql = entry.get("sql").and_then(Json::as_str).unwrap_or_default();
                let sql = sql.trim().trim_end_matches(';');
                match compile(&connection, sql) {
                    Ok(compiled) => {
                        player.execute(
                            &connection,
                            number,
                            sql,
                            compiled,
                            (&place("benchmark"), operation),
                        )?;
                    }
                    Err(fault) => player.bad.add(&place("benchmark"), operation, sql, &problem_of(fault)),
                }
            }
            Some("break") => {
                let ms = entry.get("delta").and_then(Json::as_f64).unwrap_or(0.0).clamp(0.0, 1e12);
                player.clock_ns = player.clock_ns.map(|at_ns| at_ns.saturating_add((ms * 1e6) as u64));
            }
            _ => {
                player.bad.add(&place("benchmark"), operation, &entry.to_string(), "is no query and no break")
            }
        }
    }
    let at_ns = player.clock_ns.unwrap_or(0);
    player.assembler.close(number, at_ns)?;
    let mut imported = ImportReport::default();
    imported.warnings.extend(settings.warning(&place("init").display().to_string()));
    player.finish(&mut imported);
    Ok(imported)
}

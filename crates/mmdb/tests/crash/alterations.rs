//! Schedules that change the definition of a table between commits, while calls of the disk fail:
//! columns come, go and get other names, the table gets another name, indexes are built and
//! dropped.
//!
//! Rows and definition are followed apart. A change that was acknowledged is durable at once, a
//! lazy commit later: after a crash the rows may be those of any moment since the last durable
//! commit, seen in the definition of today. A row has a cell for each column that there was when it
//! was written, under a number that no other column gets; where it has none, the column's default
//! shows.

use crate::rng::Rng;
use mmdb::medium::{CrashKind, CrashMedium, Faults};
use mmdb::{
    Column, ColumnType, Database, Decimal, Durability, Error, IndexKind, LogKind, NewIndex, OfflineDatabase,
    Options, Row, Sabotage, Schema, Table, Value,
};
use std::collections::BTreeMap;
use std::sync::Arc;

const KEYS: u64 = 24;
/// Values of a cell: few, so that unique indexes have something to refuse.
const VALUES: u64 = 40;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Cell {
    number: u32,
    name: String,
    kind: ColumnType,
    default: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Index {
    name: String,
    column: u32,
    kind: IndexKind,
    unique: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    name: String,
    cells: Vec<Cell>,
    indexes: Vec<Index>,
}

type Rows = BTreeMap<i64, BTreeMap<u32, i64>>;

impl Definition {
    fn new() -> Definition {
        let cell = |number, name: &str, kind| Cell { number, name: name.into(), kind, default: 0 };
        Definition {
            name: "t".into(),
            cells: vec![cell(0, "a", ColumnType::Int64), cell(1, "b", ColumnType::VarText(300))],
            indexes: Vec::new(),
        }
    }

    /// What shows of rows.
    fn view(&self, rows: &Rows) -> BTreeMap<i64, Vec<i64>> {
        let cell = |row: &BTreeMap<u32, i64>, c: &Cell| row.get(&c.number).copied().unwrap_or(c.default);
        rows.iter().map(|(id, row)| (*id, self.cells.iter().map(|c| cell(row, c)).collect())).collect()
    }

    fn place(&self, number: u32) -> usize {
        self.cells.iter().position(|c| c.number == number).unwrap()
    }

    /// Whether rows would be doubled in a unique index on this column; the least value.
    fn doubled(&self, rows: &Rows, number: u32) -> Option<i64> {
        let at = self.place(number);
        let mut all: Vec<i64> = self.view(rows).values().map(|row| row[at]).collect();
        all.sort_unstable();
        // Texts are in the order of their bytes, which is that of the numbers in them.
        all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
    }

    fn is_of(&self, table: &Table) -> bool {
        let s = table.schema();
        let columns = s.columns.iter().skip(1).map(|c| (&c.name, c.kind));
        let indexes = s.indexes.iter().skip(1).map(|i| (&i.name, i.columns[0], i.kind, i.unique));
        columns.eq(self.cells.iter().map(|c| (&c.name, c.kind)))
            && indexes.eq(self.indexes.iter().map(|i| (&i.name, self.place(i.column) + 1, i.kind, i.unique)))
    }
}

fn text(v: i64) -> String {
    // Long ones move rows to larger slots.
    let pad = if v % 3 == 0 { 200 } else { 4 };
    format!("{:04}{}", v + 100, "x".repeat(pad))
}

/// Types of columns that are added.
const TYPES: [ColumnType; 8] = [
    ColumnType::Int16,
    ColumnType::Time,
    ColumnType::VarText(300),
    ColumnType::UInt32,
    ColumnType::UInt64,
    ColumnType::Float64,
    ColumnType::Bool,
    ColumnType::Decimal(2),
];

fn draw(rng: &mut Rng, kind: ColumnType) -> i64 {
    rng.below(if kind == ColumnType::Bool { 2 } else { VALUES }) as i64
}

/// The number of a cell as a column of this type has it, in the same order.
fn value<'a>(kind: ColumnType, v: i64, text: &'a str) -> Value<'a> {
    match kind {
        ColumnType::VarText(_) => Value::Text(text),
        ColumnType::Time => Value::Time(v),
        ColumnType::Float64 => Value::Float(v as f64 / 4.0 - 2.0),
        ColumnType::Bool => Value::Bool(v != 0),
        ColumnType::Decimal(scale) => Decimal::new(25 * v - 300, scale).map(Value::Decimal).unwrap(),
        _ => Value::Int(v),
    }
}

/// What stands in a cell; a text that is not whole gives something that nobody expects.
fn shown(v: Value<'_>) -> i64 {
    match v {
        Value::Float(x) => ((x + 2.0) * 4.0) as i64,
        Value::Bool(x) => x.into(),
        Value::Decimal(x) if x.scale() == 2 => (x.unscaled() + 300) / 25,
        Value::Text(t) => {
            let number = t.get(..4).and_then(|n| n.parse::<i64>().ok()).map_or(i64::MIN, |n| n - 100);
            if number > i64::MIN && text(number) == t { number } else { i64::MIN }
        }
        _ => v.as_int().unwrap_or(i64::MIN),
    }
}

fn read(row: &Row) -> (i64, Vec<i64>) {
    let all = row.values();
    (shown(all[0]), all[1..].iter().map(|v| shown(*v)).collect())
}

struct World {
    rng: Rng,
    medium: CrashMedium,
    /// What the table may look like: the last that was acknowledged, and one whose fate is unknown.
    now: Vec<Definition>,
    /// Its rows after each commit that may be lost; the first is durable.
    rows: Vec<Rows>,
    numbers: u32,
    created: bool,
    trace: bool,
}

pub fn run(seed: u64, sabotage: Sabotage, trace: bool) -> Result<(), String> {
    let medium = CrashMedium::new(seed ^ 0xa17e);
    let mut w = World {
        rng: Rng(seed ^ 0xa17e5),
        medium: medium.clone(),
        now: vec![Definition::new()],
        rows: vec![Rows::new()],
        numbers: 2,
        created: false,
        trace,
    };
    let options = Options {
        medium: Arc::new(medium.clone()),
        streams: 1 + w.rng.below(2) as usize,
        log_kind: if w.rng.one_in(4) { LogKind::AfterImage } else { LogKind::Differential },
        segment_bytes: 16384,
        container_bytes: 4096,
        background: false,
        recovery_threads: 1,
        sabotage,
        ..Options::in_memory()
    };
    for life in 0..4 {
        let last = life == 3;
        let start = medium.calls();
        medium.set_faults(match w.rng.below(6) {
            _ if last => Faults::default(),
            0 => Faults { sync_error_at: Some(start + 1 + w.rng.below(120)), ..Faults::default() },
            1 => Faults { write_error_at: Some(start + 1 + w.rng.below(120)), ..Faults::default() },
            2 => Faults { error_at: Some(start + 1 + w.rng.below(120)), ..Faults::default() },
            _ => Faults { crash_at: Some(start + 1 + w.rng.below(250)), ..Faults::default() },
        });
        w.life(&options, last).map_err(|e| format!("life {life}: {e}"))?;
        medium.crash(if w.rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power });
    }
    Ok(())
}

impl World {
    fn life(&mut self, options: &Options, last: bool) -> Result<(), String> {
        let failed = self.medium.failed_calls();
        let db = match Database::open("/db", options.clone()) {
            Ok(db) => db,
            Err(e) if self.medium.failed_calls() > failed && !last => {
                return if matches!(e, Error::Corrupt { .. } | Error::CorruptTable { .. }) {
                    Err(format!("cannot open: {e}"))
                } else {
                    Ok(())
                };
            }
            Err(e) => return Err(format!("cannot open: {e}")),
        };
        if !self.recovered(&db)? {
            return Ok(());
        }
        if last {
            drop(db);
            let offline = OfflineDatabase::load("/db", options).map_err(|e| e.to_string())?;
            offline.check().map_err(|e| e.to_string())?;
            let mut seen = BTreeMap::new();
            let note = |row: &Row| seen.extend([read(row)]);
            offline.rows(&self.now[0].name, note).map_err(|e| e.to_string())?;
            let want = self.now[0].view(&self.rows[0]);
            return if seen == want { Ok(()) } else { Err(format!("dumped {seen:?}, expected {want:?}")) };
        }
        for _ in 0..20 + self.rng.below(60) {
            if self.medium.is_dead() || matches!(db.begin(), Err(Error::Poisoned { .. })) {
                return Ok(());
            }
            match self.rng.below(12) {
                0..=3 => self.alter(&db)?,
                4 => {
                    let done = db.checkpoint();
                    self.note(&format!("checkpoint {done:?}"));
                }
                _ => self.commit(&db)?,
            }
            if self.now.len() > 1 {
                return Ok(());
            }
        }
        Ok(())
    }

    fn note(&self, what: &str) {
        if self.trace {
            eprintln!("{what}");
        }
    }

    /// The table is one of those that may be there. False if no more can be done in this life.
    fn recovered(&mut self, db: &Database) -> Result<bool, String> {
        let tables = db.tables();
        let Some(table) = tables.first() else {
            if self.created {
                return Err("the table is gone".into());
            }
            let schema = Schema::new("t")
                .column("id", ColumnType::Int64)
                .column("a", ColumnType::Int64)
                .column("b", ColumnType::VarText(300))
                .ordered_primary_key(&["id"]);
            self.created = db.create_table(schema).is_ok();
            return Ok(self.created);
        };
        self.created = true;
        db.verify().map_err(|e| e.to_string())?;
        let is_it = |d: &&Definition| d.name == table.name() && d.is_of(table);
        let Some(now) = self.now.iter().find(is_it).cloned() else {
            return Err(format!("found {:?}, expected {:?}", table.schema(), self.now));
        };
        let seen = self.seen(db, table)?;
        let Some(rows) = self.rows.iter().find(|rows| now.view(rows) == seen).cloned() else {
            let want: Vec<_> = self.rows.iter().map(|rows| now.view(rows)).collect();
            return Err(format!("recovered {seen:?}, expected one of {want:?}"));
        };
        // By each index as well.
        for index in &now.indexes {
            let at = now.place(index.column);
            for row in seen.values() {
                let text = text(row[at]);
                let key = value(now.cells[at].kind, row[at], &text);
                let found = db.begin().and_then(|mut tx| tx.get_by(table, &index.name, &[key]));
                let found = found.map_err(|e| e.to_string())?.len();
                let want = seen.values().filter(|other| other[at] == row[at]).count();
                if found != want {
                    return Err(format!("index {} finds {found} rows of {want}", index.name));
                }
            }
        }
        (self.now, self.rows) = (vec![now], vec![rows]);
        Ok(true)
    }

    fn seen(&self, db: &Database, table: &Table) -> Result<BTreeMap<i64, Vec<i64>>, String> {
        let mut tx = db.begin().map_err(|e| e.to_string())?;
        let all = tx.scan(table).map_err(|e| e.to_string())?;
        all.map(|row| row.map(|row| read(&row)).map_err(|e| e.to_string())).collect()
    }

    fn commit(&mut self, db: &Database) -> Result<(), String> {
        let now = self.now[0].clone();
        let Ok(table) = db.table(&now.name) else { return Err(format!("{} is not there", now.name)) };
        let mut rows = self.rows.last().unwrap().clone();
        let mut tx = match db.begin() {
            Ok(tx) => tx,
            Err(_) => return Ok(()),
        };
        for _ in 0..1 + self.rng.below(4) {
            let id = self.rng.below(KEYS) as i64;
            let there = rows.contains_key(&id);
            let mut after = rows.clone();
            let done = match self.rng.below(4) {
                0 => {
                    after.remove(&id);
                    tx.delete(&table, &[id.into()])
                }
                1 => {
                    let cell = self.rng.of(&now.cells.iter().map(|c| c.number).collect::<Vec<_>>());
                    let at = now.place(cell);
                    let v = draw(&mut self.rng, now.cells[at].kind);
                    let text = text(v);
                    let view = now.view(&rows);
                    if let Some(row) = after.get_mut(&id) {
                        // It is written anew: what showed so far is in it from now on.
                        row.clear();
                        row.extend(now.cells.iter().map(|c| c.number).zip(view[&id].iter().copied()));
                        row.insert(cell, v);
                    }
                    let set = [(&*now.cells[at].name, value(now.cells[at].kind, v, &text))];
                    tx.update(&table, &[id.into()], &set)
                }
                _ => {
                    let cells: Vec<i64> = now.cells.iter().map(|c| draw(&mut self.rng, c.kind)).collect();
                    let texts: Vec<String> = cells.iter().map(|v| text(*v)).collect();
                    let mut values = vec![Value::Int(id)];
                    for ((c, v), text) in now.cells.iter().zip(&cells).zip(&texts) {
                        values.push(value(c.kind, *v, text));
                    }
                    after.insert(id, now.cells.iter().map(|c| c.number).zip(cells).collect());
                    tx.upsert(&table, &values)
                }
            };
            let refused = now.indexes.iter().any(|i| i.unique && now.doubled(&after, i.column).is_some());
            match done {
                Ok(was) if was == there && !refused => rows = after,
                Err(Error::DuplicateKey { .. }) if refused => {}
                Err(Error::Io { .. } | Error::LogFull { .. } | Error::Poisoned { .. }) => return Ok(()),
                done => return Err(format!("row {id}, there {there}, doubled {refused}: {done:?}")),
            }
        }
        let durable = self.rng.one_in(2);
        let how = if durable { Durability::Durable } else { Durability::Lazy };
        match tx.commit_with(how) {
            Ok(ticket) => {
                self.rows.push(rows.clone());
                if durable && ticket.wait_durable().is_ok() {
                    self.rows = vec![rows];
                }
            }
            Err(e) => self.note(&format!("commit: {e}")),
        }
        Ok(())
    }

    fn alter(&mut self, db: &Database) -> Result<(), String> {
        let before = self.now[0].clone();
        let rows = self.rows.last().unwrap().clone();
        let Ok(table) = db.table(&before.name) else { return Err(format!("{} is not there", before.name)) };
        let mut after = before.clone();
        let mut doubled = None;
        let some = self.rng.below(before.cells.len() as u64) as usize;
        let cell = before.cells[some].clone();
        let number = self.numbers;
        self.numbers += 1;
        let failed = self.medium.failed_calls();
        let faults = self.medium.faults();
        if self.rng.one_in(4) {
            let error_at = Some(self.medium.calls() + 1 + self.rng.below(6));
            self.medium.set_faults(Faults { error_at, ..faults });
        }
        let done = match self.rng.below(8) {
            0..=1 if before.cells.len() < 12 => {
                let kind = self.rng.of(&TYPES);
                let (name, default) = (format!("c{number}"), draw(&mut self.rng, kind));
                after.cells.push(Cell { number, name: name.clone(), kind, default });
                let text = text(default);
                let column = Column { name, kind, nullable: false };
                db.add_column(&table, column, value(kind, default, &text)).map(drop)
            }
            2 if before.cells.len() > 1 && before.indexes.iter().all(|i| i.column != cell.number) => {
                after.cells.remove(some);
                db.drop_column(&table, &cell.name).map(drop)
            }
            3 => {
                after.cells[some].name = format!("r{number}");
                db.rename_column(&table, &cell.name, &after.cells[some].name)
            }
            4 => {
                after.name = format!("t{number}");
                db.rename_table(&table, &after.name)
            }
            5 if !before.indexes.is_empty() => {
                let at = self.rng.below(before.indexes.len() as u64) as usize;
                let gone = after.indexes.remove(at);
                db.drop_index(&table, &gone.name)
            }
            _ => {
                let kind = self.rng.of(&[IndexKind::Hash, IndexKind::Ordered]);
                let (name, unique) = (format!("i{number}"), self.rng.one_in(2));
                let columns = [&*cell.name];
                let index = match kind {
                    IndexKind::Hash => NewIndex::hash(&name, &columns),
                    IndexKind::Ordered => NewIndex::ordered(&name, &columns),
                };
                doubled = if unique { before.doubled(&rows, cell.number) } else { None };
                after.indexes.push(Index { name, column: cell.number, kind, unique });
                db.create_index(&table, if unique { index.unique() } else { index })
            }
        };
        self.note(&format!("{done:?} for {after:?}"));
        let at_end = self.medium.faults();
        if !self.medium.is_dead() {
            self.medium.set_faults(Faults { error_at: faults.error_at, ..at_end });
        }
        match (&done, doubled) {
            (Ok(()), None) => self.now = vec![after],
            (Err(Error::DuplicateKey { key, .. }), Some(least)) => {
                let text = text(least);
                if *key != format!("({})", value(cell.kind, least, &text)) {
                    return Err(format!("the least doubled key is {least}, not {key}"));
                }
            }
            (Err(e), _) if self.medium.failed_calls() > failed || self.medium.is_dead() => {
                let over = self.medium.is_dead() || matches!(db.begin(), Err(Error::Poisoned { .. }));
                if over {
                    // Which of two manifests is on the disk, the next opening tells.
                    self.now.push(after);
                    return Ok(());
                }
                self.note(&format!("refused: {e}"));
            }
            (done, _) => return Err(format!("{done:?}, doubled {doubled:?}")),
        }
        let now = &self.now[0];
        let table = db.table(&now.name).map_err(|e| e.to_string())?;
        if !now.is_of(&table) {
            return Err(format!("{:?} where {now:?} is expected", table.schema()));
        }
        let seen = self.seen(db, &table)?;
        let want = now.view(&rows);
        if seen != want {
            return Err(format!("{seen:?} shows, expected {want:?}"));
        }
        db.verify().map_err(|e| e.to_string())
    }
}

//! The format's promise: a store that 0.1 has written opens in every later 0.x, with every row.
//!
//! `stores/0.1` was written by the engine of 0.1 before its format was changed for the first time,
//! and not closed: the process ended while its last commits were in the log only. Beside it lies
//! what it must hold, a line for each table and each row. Nobody makes that store again: an engine
//! of today would write another format. What wrote it stands at the end of this file, for the
//! stores of later formats; each format that is released gets one.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{
    ColumnType, Database, Decimal, IndexKind, Locking, Logging, OfflineDatabase, Options, Row, Schema,
    Transaction, Value,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// A store and what must be in it.
fn stored(version: &str) -> (PathBuf, BTreeSet<String>) {
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    let rows = std::fs::read_to_string(stores.join(format!("{version}.jsonl"))).unwrap();
    (stores.join(version), rows.lines().map(str::to_owned).collect())
}

fn row_line(table: &str, row: &Row) -> String {
    format!("{table} {}", row.to_json())
}

/// A table's definition in words that do not depend on how the engine prints it.
fn schema_line(s: &Schema) -> String {
    let columns: Vec<String> = s
        .columns
        .iter()
        .map(|c| format!("{} {:?}{}", c.name, c.kind, if c.nullable { " NULL" } else { "" }))
        .collect();
    let indexes: Vec<String> = s
        .indexes
        .iter()
        .map(|i| {
            let kind = if i.kind == IndexKind::Ordered { "ordered" } else { "hash" };
            format!("{}{} {kind} {:?}", if i.unique { "unique " } else { "" }, i.name, i.columns)
        })
        .collect();
    format!("{}: {}; {}; {:?} {:?}", s.name, columns.join(", "), indexes.join(", "), s.locking, s.logging)
}

/// All tables and rows, each a line.
fn lines(db: &Database) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let mut tx = db.begin().unwrap();
    for t in db.tables() {
        all.insert(schema_line(t.schema()));
        for row in tx.scan(&t).unwrap() {
            assert!(all.insert(row_line(t.name(), &row.unwrap())), "a row comes once");
        }
    }
    all
}

fn options() -> Options {
    Options { segment_bytes: 16 << 10, container_bytes: 4096, background: false, ..Options::default() }
}

#[test]
fn a_store_of_0_1_opens_with_every_table_and_every_row() {
    let (store, want) = stored("0.1");
    let place = tree::Place::new("format-promise");
    let dir = place.join("db");
    tree::copy(&store, &dir);
    // Read without changing it, as the tool does.
    let offline = OfflineDatabase::load(&dir, &options()).unwrap();
    offline.check().unwrap();
    let mut seen = BTreeSet::new();
    for (schema, _) in offline.tables() {
        seen.insert(schema_line(&schema));
        let mut see = |row: &Row| assert!(seen.insert(row_line(&schema.name, row)), "a row comes once");
        offline.rows(&schema.name, &mut see).unwrap();
    }
    assert_eq!(seen, want);
    drop(offline);
    // Opened, which writes the format of today; again from that; and once more after a checkpoint.
    for round in 0..3 {
        let db = Database::open(&dir, options()).unwrap();
        db.verify().unwrap();
        assert_eq!(lines(&db), want, "opening {round}");
        if round == 1 {
            db.checkpoint().unwrap();
        }
        db.close().unwrap();
    }
    // And it goes on: what 0.1 wrote can be changed.
    let db = Database::open(&dir, options()).unwrap();
    let t = db.table("message").unwrap();
    let first = [Value::Int(i64::MIN)];
    assert!(db.run(|tx| tx.update(&t, &first, &[("body", "changed".into())])).unwrap());
    let row = db.begin().unwrap().get(&t, &first).unwrap().unwrap();
    assert_eq!(row.get("body"), Some("changed".into()));
}

#[test]
fn the_stores_kept_are_small() {
    fn bytes(dir: &Path) -> u64 {
        let entries = std::fs::read_dir(dir).unwrap().map(Result::unwrap);
        entries
            .map(|entry| match entry.file_type().unwrap().is_dir() {
                true => bytes(&entry.path()),
                false => entry.metadata().unwrap().len(),
            })
            .sum()
    }
    let stores = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores");
    for entry in std::fs::read_dir(stores).unwrap() {
        let path = entry.unwrap().path();
        let size = if path.is_dir() { bytes(&path) } else { path.metadata().unwrap().len() };
        assert!((1..=64 << 10).contains(&size), "{} has {size} bytes", path.display());
    }
}

/// Every column type, every kind of index, locking and logging, extreme values, rows that
/// were changed, moved and deleted, some before the checkpoint and some after it.
#[test]
#[ignore = "writes a store of the format of today; see the top of the file"]
fn write_a_store() {
    let dir = PathBuf::from(std::env::var_os("MMDB_STORE").expect("MMDB_STORE names the directory to make"));
    let db = Database::open(&dir, options()).unwrap();
    let message = Schema::new("message")
        .column("id", ColumnType::Int64)
        .column("state", ColumnType::Int16)
        .nullable("tries", ColumnType::Int32)
        .nullable("due", ColumnType::Time)
        .column("digest", ColumnType::FixedBytes(4))
        .column("sender", ColumnType::FixedText(15))
        .nullable("payload", ColumnType::VarBytes(600))
        .column("body", ColumnType::VarText(600))
        .ordered_primary_key(&["id"])
        .ordered_index("by_due", &["due", "id"])
        .unique_hash_index("by_digest", &["digest"])
        .hash_index("by_sender", &["sender"]);
    let message = db.create_table(message).unwrap();
    let account = Schema::new("account")
        .column("name", ColumnType::VarText(40))
        .column("region", ColumnType::Int16)
        .column("balance", ColumnType::Int64)
        .primary_key(&["region", "name"])
        .unique_ordered_index("by_balance", &["balance"])
        .locking(Locking::Page);
    let account = db.create_table(account).unwrap();
    let gone = Schema::new("gone").column("id", ColumnType::Int32).primary_key(&["id"]);
    let gone = db.create_table(gone).unwrap();
    let count = Schema::new("count")
        .column("key", ColumnType::FixedText(8))
        .column("n", ColumnType::Int64)
        .primary_key(&["key"])
        .locking(Locking::Container)
        .logging(Logging::Checkpointed);
    let count = db.create_table(count).unwrap();
    let session = Schema::new("session")
        .column("id", ColumnType::Int64)
        .primary_key(&["id"])
        .locking(Locking::None)
        .logging(Logging::Volatile);
    let session = db.create_table(session).unwrap();
    let number = Schema::new("number")
        .column("id", ColumnType::UInt32)
        .column("large", ColumnType::UInt64)
        .nullable("float", ColumnType::Float64)
        .column("truth", ColumnType::Bool)
        .nullable("decimal", ColumnType::Decimal(4))
        .ordered_primary_key(&["id"])
        .ordered_index("by_float", &["float"])
        .unique_ordered_index("by_large", &["large"]);
    let number = db.create_table(number).unwrap();
    let text = "grüezi, \"welt\"\u{0}\n".repeat(12);
    let put = |tx: &mut Transaction<'_>, id: i64, n: u32, body: &str| {
        let digest = n.to_be_bytes();
        let payload = [n as u8, 0, 255].repeat(n as usize % 4);
        let row = [
            id.into(),
            Value::Int(if n.is_multiple_of(2) { i64::from(i16::MIN) } else { i64::from(i16::MAX) }),
            (!n.is_multiple_of(3)).then_some(i32::MIN).into(),
            if n.is_multiple_of(5) { Value::Null } else { Value::Time(i64::from(n) * 1_000_000 - 5_000_000) },
            Value::Bytes(&digest),
            if n.is_multiple_of(2) { "+41791234567".into() } else { "".into() },
            if n.is_multiple_of(4) { Value::Null } else { Value::Bytes(&payload) },
            body.into(),
        ];
        tx.upsert(&message, &row).unwrap();
    };
    // In few transactions, so that the store is small.
    let mut tx = db.begin().unwrap();
    for (n, id) in [i64::MIN, -1, 0, 1, 2, 3, 4, 5, 6, 7, i64::MAX].into_iter().enumerate() {
        put(&mut tx, id, n as u32, &text[..n / 6 * 50]);
    }
    for (n, name) in (0i64..).zip(["Ada", "Blaise", "Čapek", "", "Émilie"]) {
        tx.insert(&account, &[name.into(), (n - 2).into(), (-n * 100).into()]).unwrap();
    }
    tx.insert(&gone, &[1.into()]).unwrap();
    tx.insert(&count, &["before".into(), 1.into()]).unwrap();
    tx.insert(&session, &[1.into()]).unwrap();
    for (id, float) in (0u32..).zip([f64::NAN, f64::NEG_INFINITY, -0.0, 0.1, f64::MAX]) {
        let decimal = Decimal::new([i64::MIN, i64::MAX, 0, -1, 12_345][id as usize], 4);
        let large = u64::MAX - u64::from(id);
        let row = [id.into(), large.into(), float.into(), (id > 2).into(), decimal.into()];
        tx.insert(&number, &row).unwrap();
    }
    tx.insert(&number, &[u32::MAX.into(), 0u64.into(), Value::Null, true.into(), Value::Null]).unwrap();
    tx.commit().unwrap().wait().unwrap();
    db.drop_table(&gone).unwrap();
    db.checkpoint().unwrap();
    // From here on in the log only; one row outgrows its slot, one goes, two trade a unique value.
    let mut tx = db.begin().unwrap();
    put(&mut tx, 1, 3, &text);
    put(&mut tx, 100, 100, "after the checkpoint");
    tx.delete(&message, &[2.into()]).unwrap();
    for (region, name, balance) in [(-2, "Ada", 77), (-1, "Blaise", 0), (-2, "Ada", -100)] {
        let set = [("balance", Value::Int(balance))];
        assert!(tx.update(&account, &[name.into(), region.into()], &set).is_err(), "the region comes first");
        assert!(tx.update(&account, &[region.into(), name.into()], &set).unwrap());
    }
    tx.insert(&count, &["after".into(), 2.into()]).unwrap();
    tx.commit().unwrap().wait().unwrap();
    let mut all = lines(&db);
    // What a restart leaves of tables that are not logged.
    all.retain(|line| !line.starts_with("session {") && !line.contains("\"after\""));
    let all: Vec<String> = all.into_iter().collect();
    let rows = format!("{}.jsonl", dir.display());
    std::fs::write(rows, all.join("\n") + "\n").unwrap();
    // Not closed: as if the process had died here.
    std::mem::forget(db);
}

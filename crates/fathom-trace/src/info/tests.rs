//! The numbers of small traces whose numbers are known.

use std::path::PathBuf;

use super::*;
use crate::assemble::{Assembler, Execution};
use crate::format::Writer;

fn trace(make: impl FnOnce(&mut Assembler, u32)) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.trace");
    let origin = Origin { how: "capture".into(), ..Origin::default() };
    let mut assembler = Assembler::new(Writer::create(&path).expect("created"), origin).expect("begun");
    let thread = assembler.thread(1, 1, "test").expect("thread");
    let database = assembler.database(b"/a.db", Start::Empty, None).expect("database");
    let connection = assembler.open(thread, database, 0).expect("opened");
    make(&mut assembler, connection);
    assembler.close(connection, 90_000_000).expect("closed");
    assembler.finish().expect("finished");
    (directory, path)
}

#[test]
fn statements_transactions_and_think_times_are_counted() {
    let (_directory, path) = trace(|assembler, connection| {
        let mut at_ms = 1;
        let mut run = |sql: &str, values: &[Value], counts| {
            let execution = Execution {
                sql,
                values,
                start_ns: at_ms * 1_000_000,
                duration_ns: 500_000,
                keep: true,
                counts: Some(counts),
            };
            at_ms += 1;
            assembler.execute(connection, &execution).expect("written");
        };
        run("PRAGMA journal_mode = WAL", &[], (1, 0));
        run("INSERT INTO t VALUES (?)", &[Value::Text(vec![b'x'; 100])], (0, 1));
        run("BEGIN", &[], (0, 0));
        run("INSERT INTO t VALUES (?)", &[Value::Integer(1)], (0, 1));
        run("UPDATE u SET a = 'twelve bytes'", &[], (0, 7));
        run("SELECT * FROM t", &[], (3, 0));
        run("COMMIT", &[], (0, 0));
        run("BEGIN", &[], (0, 0));
        run("SELECT * FROM t, u", &[], (30, 0));
        run("COMMIT", &[], (0, 0));
        run("BEGIN", &[], (0, 0));
        run("DELETE FROM t", &[], (0, 5));
        run("ROLLBACK", &[], (0, 0));
    });
    let info = info(&path).expect("read");
    let of = |verb| info.statements[&verb].clone();
    assert_eq!((info.executed, info.executed_again, info.prepared, info.texts), (13, 4, 9, 9));
    assert_eq!((of(Verb::Insert).executions, of(Verb::Insert).changes), (2, 2));
    assert_eq!((of(Verb::Select).executions, of(Verb::Select).rows), (2, 33));
    assert_eq!((of(Verb::Begin).executions, of(Verb::Commit).executions), (3, 2));
    // Percentiles are right to 1 %.
    assert!((500..=505).contains(&of(Verb::Select).latency_us.at(0.5)));
    assert!((info.read_share - 2.0 / 6.0).abs() < 1e-9);
    let transactions = &info.transactions;
    assert_eq!((transactions.count, transactions.autocommit, transactions.rolled_back), (3, 1, 1));
    assert_eq!((transactions.writes.sum(), transactions.writes.max()), (4, 2));
    assert_eq!((transactions.changes.sum(), transactions.changes.max()), (14, 8));
    // A twelve-letter literal, a text of 100 bytes and an integer; the PRAGMA's value and the
    // SELECTs give nothing to be kept.
    assert_eq!(info.bytes_given, 120);
    // Half a millisecond after each execution, and what follows the last.
    assert_eq!(info.think_us.count(), 14);
    assert!((500..=505).contains(&info.think_us.at(0.5)));
    let tables: Vec<_> = info
        .tables
        .iter()
        .map(|table| (table.table.as_str(), table.reads, table.writes, table.changes))
        .collect();
    assert_eq!(tables, [("t", 2, 3, 7), ("u", 1, 1, 7)]);
    assert_eq!(info.settings["PRAGMA journal_mode=WAL"], 1);
    assert_eq!((info.connections, info.connections_at_once, info.torn), (1, 1, None));
}

/// What happened: a CREATE TABLE that another connection's lock refused was a writing transaction,
/// each time that it was tried.
#[test]
fn what_changes_the_schema_in_vain_is_no_transaction() {
    let (_directory, path) = trace(|assembler, connection| {
        for (start_ns, code) in [(1_000, 5), (2_000, 5), (3_000, crate::model::DONE)] {
            let (sql, values, counts) = ("CREATE TABLE t(a)", &[], Some((0, 0)));
            let execution = Execution { sql, values, start_ns, duration_ns: 10, keep: false, counts };
            let outcome = crate::model::Outcome::of(code);
            assembler.execute_as(connection, &execution, false, outcome).expect("written");
        }
    });
    let transactions = info(&path).expect("read").transactions;
    assert_eq!((transactions.count, transactions.autocommit), (1, 1));
}

/// What happened: of an application's first start, which makes its tables between BEGIN and COMMIT,
/// no transaction was counted, and `advise` said that the trace holds none that writes.
#[test]
fn tables_that_are_made_within_a_transaction_are_one() {
    let (_directory, path) = trace(|assembler, connection| {
        let texts = ["BEGIN", "CREATE TABLE t(a)", "CREATE INDEX i ON t(a)", "COMMIT", "BEGIN", "COMMIT"];
        for (start_ns, sql) in (1..).zip(texts) {
            let (values, counts) = (&[], Some((0, 0)));
            let execution = Execution { sql, values, start_ns, duration_ns: 1, keep: false, counts };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let transactions = info(&path).expect("read").transactions;
    assert_eq!((transactions.count, transactions.autocommit, transactions.writes.sum()), (1, 0, 1));
}

/// What happened: INSERT … RETURNING is mostly reset at its row, and commits by that. All such
/// statements together were no transaction, or a part of the next one.
#[test]
fn what_is_reset_at_a_row_that_it_returned_has_committed() {
    let (_directory, path) = trace(|assembler, connection| {
        let mut run = |sql: &str, start_ns, in_transaction, code| {
            let (values, counts) = (&[], Some((1, 0)));
            let execution = Execution { sql, values, start_ns, duration_ns: 2_000, keep: true, counts };
            let outcome = crate::model::Outcome::of(code);
            assembler.execute_as(connection, &execution, in_transaction, outcome).expect("written");
        };
        let returning = "INSERT INTO t VALUES (1) RETURNING rowid";
        for number in 0..3 {
            run(returning, 10_000 * number, false, ROW);
        }
        run("BEGIN", 30_000, true, crate::model::DONE);
        run(returning, 40_000, true, ROW);
        run("COMMIT", 50_000, false, crate::model::DONE);
        // One that reads has written nothing.
        run("SELECT a FROM t", 60_000, false, ROW);
    });
    let info = info(&path).expect("read");
    let transactions = &info.transactions;
    assert_eq!((transactions.count, transactions.autocommit, transactions.writes.sum()), (4, 3, 4));
    assert!((2..=3).contains(&info.statements[&Verb::Insert].latency_us.at(0.5)));
}

/// With more texts than are remembered, the numbers come from a second reading.
#[test]
fn forgetting_texts_changes_no_number() {
    let (_directory, path) = trace(|assembler, connection| {
        for number in 0..300_u64 {
            let sql = match number % 3 {
                0 => "INSERT INTO kept VALUES (1)".to_owned(),
                1 => format!("INSERT INTO fresh VALUES ({number}, 'text')"),
                _ => format!("PRAGMA user_version = {}", number / 30),
            };
            let (values, start_ns) = (&[], number * 10_000);
            let keep = number % 3 == 0;
            let counts = Some((0, u64::from(number % 3 < 2)));
            let execution = Execution { sql: &sql, values, start_ns, duration_ns: 5_000, keep, counts };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let whole = info(&path).expect("read");
    let prepared = Some(PreparationCounts::read(&path).expect("read"));
    let again = read(&path, Count { prepared, ..Count::default() }).expect("read").expect("known");
    assert_eq!(whole, again);
    assert_eq!((whole.executed, whole.texts), (300, 1 + 100 + 10));
    let few = read(&path, Count { prepared: Some(PreparationCounts::default()), ..Count::default() });
    assert_eq!(few.expect("read").expect("known").executed, 0, "without texts nothing is counted");
}

#[test]
fn a_torn_trace_is_counted_up_to_the_tear() {
    let (_directory, path) = trace(|assembler, connection| {
        for number in 0..40_000 {
            let sql = format!("SELECT {number}");
            let execution = Execution {
                sql: &sql,
                values: &[],
                start_ns: number,
                duration_ns: 1,
                keep: false,
                counts: None,
            };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let whole = info(&path).expect("read");
    assert_eq!((whole.executed, whole.torn), (40_000, None));
    let bytes = std::fs::read(&path).expect("readable");
    std::fs::write(&path, &bytes[..bytes.len() / 2]).expect("written");
    let half = info(&path).expect("read");
    assert!(half.executed > 5_000 && half.executed < 35_000, "{}", half.executed);
    assert!(half.torn.expect("torn").contains("torn at byte"));
}

/// `info` added up what a damaged file said, and overflowed.
#[test]
fn the_largest_numbers_add_up_to_the_largest() {
    let (_directory, path) = trace(|assembler, connection| {
        let counts = Some((u64::MAX, u64::MAX));
        for start_ns in [0, u64::MAX / 2] {
            let (sql, values) = ("INSERT INTO t VALUES (?)", &[Value::ZeroBlob(u64::MAX)][..]);
            let execution =
                Execution { sql, values, start_ns, duration_ns: u64::MAX / 2 + 1, keep: true, counts };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let info = info(&path).expect("counted");
    let statement = &info.statements[&Verb::Insert];
    assert_eq!((statement.rows, statement.changes, info.bytes_given), (u64::MAX, u64::MAX, u64::MAX));
}

#[test]
fn whether_a_file_gives_pages_back_stands_in_its_header() {
    let directory = tempfile::tempdir().expect("a directory");
    for (number, word) in ["none", "full", "incremental"].into_iter().enumerate() {
        let path = directory.path().join(word);
        let made = rusqlite::Connection::open(&path).expect("opened");
        let sql = format!("PRAGMA auto_vacuum = {number}; CREATE TABLE t(a);");
        made.execute_batch(&sql).expect("a table");
        drop(made);
        let file = std::fs::read(&path).expect("read");
        assert_eq!((auto_vacuum_of(&file), auto_vacuum_of(&file[..60])), (Some(word), None));
    }
}

/// What happened: nothing told that a connection had several files, over which WAL keeps no
/// transaction together at a power cut.
#[test]
fn files_of_one_connection_are_counted() {
    let (_directory, path) = trace(|assembler, connection| {
        let other = assembler.database(b"/b.db", Start::Empty, None).expect("database");
        let memory = assembler.database(b":memory:", Start::Memory, None).expect("database");
        for (schema, database) in [("b", other), ("m", memory), ("again", other)] {
            let action = Action::Attach { schema: schema.to_owned(), database };
            assembler.event(connection, 1000, 0, action).expect("written");
        }
    });
    let told = info(&path).expect("read");
    assert!(!told.is_in_memory());
    assert_eq!(told.files_at_once, 2);
    let (_directory, path) = trace(|_, _| {});
    assert_eq!(info(&path).expect("read").files_at_once, 1);
}

/// What happened: `PRAGMA cache.synchronous=OFF` of an attached file was taken for the connection's
/// own, and `PRAGMA synchronous` for that of all files, though it sets the connection's own alone.
#[test]
fn settings_are_of_the_file_that_they_are_said_of() {
    let told = |is_in_memory: bool, texts: &[&str]| {
        let (_directory, path) = trace(|assembler, connection| {
            let memory = assembler.database(b":memory:", Start::Memory, None).expect("database");
            let other = assembler.database(b"/b.db", Start::Empty, None).expect("database");
            let thread = assembler.thread(1, 2, "test").expect("thread");
            let of_memory = assembler.open(thread, memory, 0).expect("opened");
            let connection = if is_in_memory { of_memory } else { connection };
            let action = Action::Attach { schema: "Cache".to_owned(), database: other };
            assembler.event(connection, 1000, 0, action).expect("written");
            for sql in texts.iter().copied().chain(["INSERT INTO t VALUES (1)"]) {
                let counts = Some((0, 1));
                let execution =
                    Execution { sql, values: &[], start_ns: 2000, duration_ns: 500, keep: true, counts };
                assembler.execute(connection, &execution).expect("written");
            }
        });
        let info = info(&path).expect("read");
        (info.settings.into_keys().collect::<Vec<String>>(), info.unlike_files)
    };
    let own = |text: &str| vec![text.to_owned()];
    assert_eq!(told(false, &["PRAGMA synchronous=NORMAL"]), (own("PRAGMA synchronous=NORMAL"), 1));
    assert_eq!(told(false, &["PRAGMA main.synchronous = 2"]), (own("PRAGMA synchronous=2"), 0));
    let of_cache = "PRAGMA cache.synchronous=OFF";
    assert_eq!(told(false, &["PRAGMA \"cache\".synchronous = OFF"]), (own(of_cache), 1));
    let both = told(false, &["PRAGMA cache.synchronous=1", "PRAGMA synchronous=NORMAL"]);
    assert_eq!((both.0.len(), both.1), (2, 0), "they have the same");
    assert_eq!(told(false, &["PRAGMA cache.foreign_keys=1"]).0, ["PRAGMA foreign_keys=1"]);
    // Where the own database is in memory, the others are what the application has.
    assert_eq!(told(true, &[of_cache]), (own("PRAGMA synchronous=OFF"), 0));
}

/// What happened: nothing told that transactions of one file paid for all that were attached.
#[test]
fn transactions_that_lock_several_files_are_counted() {
    let (_directory, path) = trace(|assembler, connection| {
        let other = assembler.database(b"/b.db", Start::Empty, None).expect("database");
        let memory = assembler.database(b":memory:", Start::Memory, None).expect("database");
        let run = |assembler: &mut Assembler, texts: &[&str]| {
            for sql in texts {
                let execution = Execution {
                    sql,
                    values: &[],
                    start_ns: 1_000_000,
                    duration_ns: 500_000,
                    keep: true,
                    counts: Some((0, 1)),
                };
                assembler.execute(connection, &execution).expect("written");
            }
        };
        let insert = "INSERT INTO t VALUES (1)";
        let attach = |assembler: &mut Assembler, schema: &str, database| {
            let action = Action::Attach { schema: schema.to_owned(), database };
            assembler.event(connection, 1_000_000, 0, action).expect("written");
        };
        attach(assembler, "m", memory);
        run(assembler, &["BEGIN IMMEDIATE", insert, "COMMIT"]);
        attach(assembler, "Other", other);
        // Two of these count.
        run(assembler, &["BEGIN IMMEDIATE", insert, "COMMIT", "begin exclusive transaction", insert, "END"]);
        run(assembler, &["BEGIN", insert, "COMMIT", "BEGIN DEFERRED", insert, "COMMIT", insert]);
        run(assembler, &["BEGIN IMMEDIATE", insert, "ROLLBACK", "BEGIN IMMEDIATE", "COMMIT"]);
        run(assembler, &["DETACH other", "BEGIN IMMEDIATE", insert, "COMMIT"]);
        // What is read only is not locked for writing.
        attach(assembler, "r", other);
        run(assembler, &["ATTACH 'file:/b.db?mode=ro' AS r", "BEGIN IMMEDIATE", insert, "COMMIT"]);
    });
    let told = info(&path).expect("read");
    assert_eq!((told.locking_several, told.files_at_once, told.transactions.count), (2, 2, 9));
}

/// What happened: of a connection whose own database is in memory it was said that a rollback
/// journal keeps a transaction over the files that it attached together. SQLite writes no
/// super-journal then.
#[test]
fn files_of_a_connection_in_memory_are_counted_by_themselves() {
    let (_directory, path) = trace(|assembler, _| {
        let thread = assembler.thread(1, 2, "test").expect("thread");
        let memory = assembler.database(b":memory:", Start::Memory, None).expect("database");
        let connection = assembler.open(thread, memory, 0).expect("opened");
        for name in ["b", "c"] {
            let path = format!("/{name}.db");
            let database = assembler.database(path.as_bytes(), Start::Empty, None).expect("database");
            let action = Action::Attach { schema: name.to_owned(), database };
            assembler.event(connection, 1000, 0, action).expect("written");
        }
        for sql in ["BEGIN IMMEDIATE", "INSERT INTO t VALUES (1)", "COMMIT"] {
            let counts = Some((0, 1));
            let execution =
                Execution { sql, values: &[], start_ns: 2000, duration_ns: 500, keep: true, counts };
            assembler.execute(connection, &execution).expect("written");
        }
    });
    let told = info(&path).expect("read");
    assert_eq!((told.files_at_once, told.files_without_main, told.locking_several), (2, 2, 0));
}

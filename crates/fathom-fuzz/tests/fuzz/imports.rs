//! What `fathom trace import` takes: scripts, Android's log, logs of expanded SQL.

use fathom_fuzz::{Fuzz, Scratch, mutate};
use fathom_trace::Reader;
use fathom_trace::import::{Format, Request, import};
use fathom_trace::model::Record;

const SCRIPT: &str = "PRAGMA journal_mode = wal;\nCREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);\nBEGIN;\nINSERT INTO t VALUES(1, 'it''s'), (2, x'00ff');\n\
    -- a comment; with a semicolon\nCREATE TRIGGER r AFTER INSERT ON t BEGIN UPDATE t SET b = 'x;y' WHERE a = new.a; DELETE FROM t; END;\nCOMMIT;\n\
    SELECT [b], \"a\", `b` FROM t /* ; */ WHERE a = 1.5e3 OR b LIKE '%;%';\nROLLBACK TO s; RELEASE s;\n";
const ANDROID: &str = "01-13 12:00:01.123  1234  1250 V SQLiteStatements: /data/data/app/databases/a.db: \"SELECT * FROM t WHERE a = 1;\"\n\
    01-13 12:00:01.125  1234  1250 V SQLiteStatements: /data/data/app/databases/a.db: \"BEGIN EXCLUSIVE;\"\n\
    01-13 12:00:01.129  1234  1251 V SQLiteStatements: /data/data/app/databases/a.db: \"INSERT INTO t VALUES(1,'x')\"\n\
    01-13 12:00:01.130  1234  1250 V SQLiteStatements: /data/data/app/databases/a.db: \"COMMIT;\"\n";
const EXPANDED: &str = "2024-01-02 12:00:00 [sql] SELECT a FROM t WHERE b = 'x'\n[12] INSERT INTO t\n  VALUES(1, 2)\nDELETE FROM t; -- all\n";

const WORDS: &[&str] = &[
    "SELECT",
    "INSERT",
    "BEGIN",
    "END",
    "CREATE TRIGGER",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "ATTACH",
    "VACUUM",
    "PRAGMA",
    "EXPLAIN",
    "WITH",
    "x'",
    "'",
    "\"",
    "[",
    "/*",
    "--",
    ";",
    "V SQLiteStatements:",
    "01-13 12:00:01.123",
    "CASE",
    "key",
];

#[test]
fn logs_and_scripts_are_imported_or_refused() {
    let seeds = [SCRIPT, ANDROID, EXPANDED];
    let scratch = Scratch::new().expect("a scratch directory");
    let (path, out) = (scratch.path().join("in.log"), scratch.path().join("out.trace"));
    Fuzz::new("imports::logs_and_scripts_are_imported_or_refused", 3_000).memory(12 << 20, 400).run(
        |random| {
            let seed = *random.pick(&seeds);
            let times = 1 + random.below(5);
            let text = mutate::text(random, seed, times, WORDS, &seeds);
            let format =
                *random.pick(&[None, Some(Format::Script), Some(Format::Android), Some(Format::Expanded)]);
            let length = text.len();
            ((text, format), length)
        },
        |(text, format)| {
            std::fs::write(&path, text).map_err(|error| error.to_string())?;
            let request =
                Request { path: path.clone(), format: *format, out: out.clone(), starts: Vec::new() };
            if import(&request).is_err() {
                return Ok(());
            }
            let read: Result<Vec<Record>, _> =
                Reader::open(&out).map_err(|error| error.to_string())?.collect();
            read.map_err(|error| format!("what was imported cannot be read: {error}"))?;
            fathom_trace::info::info(&out).map_err(|error| error.to_string())?;
            scratch.outside_is_untouched(&[])
        },
    );
}

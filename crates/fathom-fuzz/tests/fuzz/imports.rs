//! What `fathom trace import` takes: scripts, folders of them, Android's log, logs of expanded SQL,
//! PocketData's logs and workloads, recordings of file calls.

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
const LINES: &str = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT)\nINSERT INTO t VALUES('1','x; y')\nBEGIN EXCLUSIVE;\nUPDATE t SET b='z' WHERE a='1'\nCOMMIT;\n\
    WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c LIMIT 9) SELECT count(*) FROM c, t\nVACUUM main INTO 'copy.db'\nDELETE FROM t\nWHERE a = 1\n";
const POCKET: &str = "0e\t1427025929324\t1427025929324.5\t2015-03-22 12:05:29.3\t810\t812\tI\tSQLite-Query-PhoneLab\t{\"Action\":\"SCHEMA\",\"TABLE_NAME\":\"t\",\
    \"SCHEMA\":\"cid:0,name:a,type:INTEGER,notnull:0,dflt_value:null,pk:1...\"}\n\
    0e\t1427025929400\t1427025929400.5\t2015-03-22 12:05:29.4\t810\t812\tI\tSQLite-Query-PhoneLab\t{\"Time\":1000,\"Arguments\":\"[1]\",\"Results\":\"SELECT a FROM t WHERE a=?\"}\n";
const WORKLOAD: &str = "{\"init\": [{\"sql\": \"CREATE TABLE y(k, v)\"}], \"benchmark\": [{\"op\": \"query\", \"sql\": \"INSERT INTO y VALUES (1, 'a')\"}, {\"op\": \"break\", \"delta\": 250}]}";
const STRACE: &str = "810 12:05:29.100000 openat(AT_FDCWD, \"/data/a.db\", O_RDWR|O_CREAT, 0660) = 7</data/a.db>\n\
    810 12:05:29.200000 pwrite64(7</data/a.db>, \"\"..., 4096, 8192) = 4096\n810 12:05:29.300000 fdatasync(7</data/a.db>) = 0\n810 12:05:29.400000 close(7) = 0\n";

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
    "VACUUM INTO",
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c)",
    "SELECT count(*) FROM c",
    "{\"sql\":",
    "pwrite64(7, ",
];

#[test]
fn logs_and_scripts_are_imported_or_refused() {
    let target = Fuzz::new("imports::logs_and_scripts_are_imported_or_refused", 3_000).memory(12 << 20, 400);
    let seeds = [SCRIPT, ANDROID, EXPANDED, LINES, POCKET, WORKLOAD, STRACE];
    let scratch = Scratch::new().expect("a scratch directory");
    let (log, out) = (scratch.path().join("in.log"), scratch.path().join("out.trace"));
    let folder = scratch.path().join("app");
    std::fs::create_dir_all(folder.join("benchset")).expect("made");
    target.run(
        |random| {
            let seed = *random.pick(&seeds);
            let times = 1 + random.below(5);
            let text = mutate::text(random, seed, times, WORDS, &seeds);
            let format = *random.pick(&[
                None,
                Some(Format::Script),
                Some(Format::Folder),
                Some(Format::Android),
                Some(Format::Expanded),
                Some(Format::PocketData),
                Some(Format::PocketWorkload),
                Some(Format::FileCalls),
            ]);
            let length = text.len();
            ((text, format, random.below(2) == 0), length)
        },
        |(text, format, skip_bad)| {
            let path = if *format == Some(Format::Folder) { &folder } else { &log };
            if path == &folder {
                // One text for all: what loads, and two streams that take turns.
                for name in ["loading.sql", "benchset/0.sql", "benchset/1.sql"] {
                    std::fs::write(folder.join(name), text).map_err(|error| error.to_string())?;
                }
            }
            std::fs::write(&log, text).map_err(|error| error.to_string())?;
            let request = Request {
                path: path.clone(),
                format: *format,
                out: out.clone(),
                skip_bad: *skip_bad,
                // What is imported is executed, and a case must end.
                max_steps: Some(1_000_000),
                ..Request::default()
            };
            let _ = std::fs::remove_file(&out);
            let Ok(imported) = import(&request) else { return scratch.outside_is_untouched(&[]) };
            if imported.connections == 0 {
                // File calls, which are no trace.
                return scratch.outside_is_untouched(&[]);
            }
            let read: Result<Vec<Record>, _> =
                Reader::open(&out).map_err(|error| error.to_string())?.collect();
            read.map_err(|error| format!("what was imported cannot be read: {error}"))?;
            fathom_trace::info::info(&out).map_err(|error| error.to_string())?;
            scratch.outside_is_untouched(&[])
        },
    );
}

//! The `mmdb` tool on a real directory.
#![allow(clippy::unwrap_used)]

use mmdb::{Column, ColumnType, Database, Options, Schema, TimeUnit, Value};
use std::process::{Command, Output, Stdio};

fn mmdb(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mmdb")).args(args).output().unwrap()
}

fn text(o: &Output) -> String {
    String::from_utf8(o.stdout.clone()).unwrap()
}

#[test]
fn the_tool_shows_checks_dumps_and_salvages() {
    let base = std::env::temp_dir().join(format!("mmdb-tool-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let dir = base.join("db");
    let options = Options { segment_bytes: 64 << 10, ..Options::default() };
    let db = Database::open(&dir, options).unwrap();
    let s = Schema::new("message").column("id", ColumnType::Int64).nullable("body", ColumnType::VarText(50));
    let t = db.create_table(s.primary_key(&["id"])).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into(), "say \"hi\"\n".into()])).unwrap();
    db.run(|tx| tx.insert(&t, &[2.into(), Value::Null])).unwrap();
    db.run(|tx| tx.delete(&t, &[1.into()])).unwrap();
    db.run(|tx| tx.insert(&t, &[3.into(), "x".into()])).unwrap();
    let path = dir.to_str().unwrap();
    let tries = Column { name: "tries".into(), kind: ColumnType::Int16, nullable: false };
    let other = Schema::new("other").column("id", ColumnType::Int64).primary_key(&["id"]);
    let other = db.create_table(other).unwrap();
    let wider = db.add_column(&other, tries, 0.into()).unwrap();
    drop((other, wider));
    // The database is open: the tool must not touch it.
    assert_eq!(mmdb(&["stat", path]).status.code(), Some(1));
    drop((t, db));

    let stat = text(&mmdb(&["stat", path]));
    assert!(stat.contains("\nrole               primary of epoch 1\n"), "{stat}");
    assert!(stat.contains("last commit        4") && stat.contains("table message: 2 rows"), "{stat}");
    assert_eq!(text(&mmdb(&["check", path])), "ok: 2 rows in 2 tables, last commit 4\n");
    let changed = "columns changed 1 times; 0 rows were written before the last time";
    assert!(stat.contains(changed), "{stat}");
    let dump = text(&mmdb(&["dump", path, "message"]));
    let mut lines: Vec<&str> = dump.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, [r#"{"id":2,"body":null}"#, r#"{"id":3,"body":"x"}"#]);
    assert!(text(&mmdb(&["dump", path])).contains(r#"{"table":"message","row":{"id":2,"body":null}}"#));
    let log = text(&mmdb(&["log", path]));
    assert_eq!(log.lines().count(), 4);
    assert!(log.lines().next().unwrap().contains("\"gsn\":1"), "{log}");

    // Break the second commit.
    let segment = dir.join("log-0/segment-0000000001");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 * 2 + 36] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    let check = mmdb(&["check", path]);
    assert_eq!(check.status.code(), Some(1));
    let why = String::from_utf8(check.stderr).unwrap();
    assert!(why.contains("segment-0000000001 is corrupt at offset 8192: commit 2 is missing"), "{why}");
    assert_eq!(mmdb(&["log", path]).status.code(), Some(1));
    let new = base.join("new");
    let end = mmdb(&["salvage", path, new.to_str().unwrap()]);
    let saved = text(&end);
    assert!(saved.starts_with("saved 1 rows, commits up to 1\nlost: "), "{saved}");
    // It ended with 0, and a script that saved and deleted was told that all was well.
    assert_eq!(end.status.code(), Some(1), "something was lost");
    let end = mmdb(&["salvage", new.to_str().unwrap(), base.join("newer").to_str().unwrap()]);
    assert_eq!((text(&end).as_str(), end.status.code()), ("saved 1 rows, commits up to 1\n", Some(0)));
    assert_eq!(
        text(&mmdb(&["dump", new.to_str().unwrap(), "message"])),
        "{\"id\":1,\"body\":\"say \\\"hi\\\"\\u000a\"}\n"
    );

    assert_eq!(mmdb(&[]).status.code(), Some(2));
    assert_eq!(mmdb(&["explode", path]).status.code(), Some(2));
    assert_eq!(mmdb(&["check", "/nowhere/at/all"]).status.code(), Some(1));
    std::fs::remove_dir_all(&base).unwrap();
}

/// `dump` prints each type as JSON has it; `salvage` and `check` know them, too.
#[test]
fn the_tool_knows_every_type_of_number() {
    let base = std::env::temp_dir().join(format!("mmdb-tool-numbers-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let dir = base.join("db");
    let db = Database::open(&dir, Options { segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    let s = Schema::new("number")
        .column("id", ColumnType::UInt32)
        .column("large", ColumnType::UInt64)
        .column("float", ColumnType::Float64)
        .column("truth", ColumnType::Bool)
        .column("decimal", ColumnType::Decimal(2));
    let s = s.ordered_primary_key(&["id"]).expire_by("id", TimeUnit::Seconds);
    let t = db.create_table(s).unwrap();
    let price = |text: &str| Value::Decimal(text.parse().unwrap());
    db.run(|tx| {
        tx.insert(&t, &[1u32.into(), u64::MAX.into(), f64::NAN.into(), true.into(), price("-0.05")])?;
        tx.insert(&t, &[u32::MAX.into(), 0u64.into(), 1.5e-7.into(), false.into(), price("7")])
    })
    .unwrap();
    let half = Column { name: "half".into(), kind: ColumnType::Float64, nullable: false };
    drop(db.add_column(&t, half, 0.5.into()).unwrap());
    drop((t, db));
    let (path, new) = (dir.to_str().unwrap(), base.join("new"));
    let rows = [
        r#"{"id":1,"large":18446744073709551615,"float":"NaN","truth":true,"decimal":-0.05,"half":0.5}"#,
        r#"{"id":4294967295,"large":0,"float":1.5e-7,"truth":false,"decimal":7.00,"half":0.5}"#,
    ];
    assert_eq!(text(&mmdb(&["dump", path, "number"])).lines().collect::<Vec<_>>(), rows);
    let stat = text(&mmdb(&["stat", path]));
    assert!(stat.contains("\n  rows expire by id, which counts Seconds\n"), "{stat}");
    assert_eq!(text(&mmdb(&["check", path])), "ok: 2 rows in 1 tables, last commit 1\n");
    assert_eq!(mmdb(&["salvage", path, new.to_str().unwrap()]).status.code(), Some(0));
    assert_eq!(text(&mmdb(&["dump", new.to_str().unwrap(), "number"])).lines().collect::<Vec<_>>(), rows);
    std::fs::remove_dir_all(&base).unwrap();
}

/// What happened: `mmdb stat` of a directory whose name is no UTF-8 was a panic, and so was help
/// where standard output was full. Names are now taken as the system has them, and whatever cannot
/// be printed is an error.
#[test]
fn a_name_that_is_no_text_and_a_full_output_are_no_panic() {
    use std::os::unix::ffi::OsStringExt;
    let base = std::env::temp_dir().join(format!("mmdb-tool-names-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let dir = base.join(std::ffi::OsString::from_vec(b"d\xffb".to_vec()));
    let db = Database::open(&dir, Options::default()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
    drop((t, db));
    let tool = || Command::new(env!("CARGO_BIN_EXE_mmdb"));
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let odd = std::ffi::OsString::from_vec(b"\xff".to_vec());
    for (words, code) in [
        (vec!["stat".into(), dir.clone().into_os_string()], 0),
        (vec!["check".into(), dir.clone().into_os_string()], 0),
        (vec!["dump".into(), dir.clone().into_os_string()], 0),
        (vec!["log".into(), dir.clone().into_os_string()], 0),
        (vec!["--help".into()], 0),
        (vec!["help".into()], 0),
        (vec!["dump".into(), dir.clone().into_os_string(), odd.clone()], 2),
        (vec![odd.clone()], 2),
        (vec!["stat".into(), odd.clone()], 1),
    ] {
        let end = tool().args(&words).output().unwrap();
        assert_eq!(end.status.code(), Some(code), "{words:?}: {end:?}");
        let end = tool().args(&words).stdout(full()).output().unwrap();
        let said = String::from_utf8_lossy(&end.stderr).into_owned();
        assert_eq!(end.status.code(), Some(code.max(1)), "{words:?}: {said}");
        assert!(!said.contains("panicked"), "{words:?}: {said}");
        // Nobody can be told of anything.
        let end = tool().args(&words).stdout(full()).stderr(full()).status().unwrap();
        assert_eq!(end.code(), Some(code.max(1)), "{words:?}");
    }
    std::fs::remove_dir_all(&base).unwrap();
}

/// What happened: `mmdb salvage OLD NEW | head` ended with 0 though rows were lost, because nobody
/// reading any more is no failure of `dump`. A script that asks for the end of each command of a
/// pipe went on and deleted OLD. `log` of a damaged one ended so, too.
#[test]
fn damage_is_told_by_the_end_though_nobody_reads_the_output() {
    let base = std::env::temp_dir().join(format!("mmdb-tool-pipe-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let (dir, new) = (base.join("db"), base.join("new"));
    let db = Database::open(&dir, Options { segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    (0..3i64).for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])).unwrap());
    drop((t, db));
    let ends = |words: &[&str]| {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_mmdb"));
        let mut tool = tool.args(words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        drop(tool.stdout.take());
        tool.wait().unwrap().code()
    };
    let (path, new) = (dir.to_str().unwrap(), new.to_str().unwrap());
    assert_eq!((ends(&["log", path]), ends(&["dump", path])), (Some(0), Some(0)));
    // Break the second commit.
    let segment = dir.join("log-0/segment-0000000001");
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[4096 * 2 + 36] ^= 1;
    std::fs::write(&segment, &bytes).unwrap();
    assert_eq!((ends(&["log", path]), ends(&["salvage", path, new])), (Some(1), Some(1)));
    std::fs::remove_dir_all(&base).unwrap();
}

/// What happened: `stat` showed names without what a terminal obeys, and the words for damage had
/// them as they stand in the store, which a stranger may have sent.
#[test]
fn what_is_said_of_damage_commands_no_terminal() {
    let base = std::env::temp_dir().join(format!("mmdb-tool-escapes-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let (dir, new) = (base.join("db"), base.join("new"));
    let db = Database::open(&dir, Options { segment_bytes: 64 << 10, ..Options::default() }).unwrap();
    let name = "\u{1b}[2Jred";
    let t = db.create_table(Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
    db.checkpoint().unwrap();
    drop((t, db));
    let images = dir.join("images-a");
    let mut bytes = std::fs::read(&images).unwrap();
    bytes[20] ^= 1;
    std::fs::write(&images, &bytes).unwrap();
    let path = dir.to_str().unwrap();
    let said = mmdb(&["salvage", path, new.to_str().unwrap()]);
    assert!(text(&said).contains("lost: ") && !said.stdout.contains(&0x1b), "{said:?}");
    // A table that is not there is told by its name.
    let said = mmdb(&["dump", new.to_str().unwrap(), "\u{1b}[2Jblue"]);
    let why = String::from_utf8(said.stderr).unwrap();
    assert!(why.contains("u{1b}[2Jblue") && !why.contains('\u{1b}'), "{why}");
    std::fs::remove_dir_all(&base).unwrap();
}

/// `mmdb salvage S S/new` and `S/log-0/new` wrote into the damaged database, which is only to be
/// read.
#[test]
fn what_is_saved_goes_nowhere_into_the_damaged_database() {
    let base = std::env::temp_dir().join(format!("mmdb-within-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&base);
    let (dir, elsewhere) = (base.join("db"), base.join("stream"));
    std::fs::create_dir_all(&base).unwrap();
    let options = Options { stream_dirs: vec![elsewhere.clone()], ..Options::default() };
    drop(Database::open(&dir, options).unwrap());
    std::os::unix::fs::symlink(&dir, base.join("link")).unwrap();
    let path = dir.to_str().unwrap();
    let files = || {
        let of = |at: &std::path::Path| {
            std::fs::read_dir(at).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>()
        };
        (of(&dir), of(&elsewhere), of(&base))
    };
    let before = files();
    for new in ["db/new", "db/a/b", "link/new", "stream/new", "db"] {
        let new = base.join(new);
        let words = ["salvage", path, new.to_str().unwrap(), "--stream", elsewhere.to_str().unwrap()];
        let saved = mmdb(&words);
        let why = String::from_utf8(saved.stderr).unwrap();
        assert_eq!(saved.status.code(), Some(2), "{why}");
        assert!(why.contains("lies in the damaged database"), "{why}");
    }
    assert_eq!(files(), before);
    let new = base.join("new");
    let words = ["salvage", path, new.to_str().unwrap(), "--stream", elsewhere.to_str().unwrap()];
    assert_eq!(mmdb(&words).status.code(), Some(0));
    std::fs::remove_dir_all(&base).unwrap();
}

//! Traces are other people's data: what is in one reaches nothing but the replay's own directory,
//! asks for no more than its size deserves, and what a replay lays down goes with it.
//!
//! Replaying one's own application's log emptied the live database, with exit code 0, because
//! `ATTACH` and `VACUUM INTO` ran on the paths that the log named; 6 of 6 replays that a signal
//! ended left the application's databases where everybody could read them; and files of some 200
//! bytes aborted a replay or filled the memory. Import maps ATTACH as capture does, a guard and the
//! VFS keep the statements to the directory, lengths and numbers of a file are believed in
//! proportion to it, and the directory is the user's alone and a stack like others.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use fathom_trace::model::{
    Action, Content, Database, Event, OK, Origin, Outcome, Record, Start, Step, Value,
};
use fathom_trace::{Assembler, Execution, Writer};
use place::{Place, gone_soon};

const PATIENCE: Duration = Duration::from_secs(60);

/// A database outside of every replay, which must stay as it is, byte for byte.
struct Precious {
    path: PathBuf,
    bytes: Vec<u8>,
}

impl Precious {
    fn new(place: &Place) -> Precious {
        std::fs::create_dir(place.path("home")).unwrap();
        place.sql("home/live.db", "CREATE TABLE t(a); INSERT INTO t VALUES (1), (2), (3)");
        let path = place.path("home/live.db");
        Precious { bytes: std::fs::read(&path).unwrap(), path }
    }

    #[track_caller]
    fn is_as_it_was(&self, after: &str) {
        assert_eq!(std::fs::read(&self.path).unwrap(), self.bytes, "{after}");
        let names: Vec<_> = std::fs::read_dir(self.path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["live.db"], "{after}");
    }
}

/// The bundled SQLite, and the system's, which may take file names for URIs.
fn libraries() -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let system = Path::new("/usr/lib/x86_64-linux-gnu/libsqlite3.so.0");
    match system.exists() {
        true => all.push(vec!["--set".to_owned(), format!("library={}", system.display())]),
        false => println!("SKIP: the same with the system's library: there is no {}", system.display()),
    }
    all
}

fn replay(place: &Place, trace: &str, more: &[String]) -> place::End {
    let words: Vec<&str> =
        ["trace", "replay", trace, "--dir", "."].into_iter().chain(more.iter().map(String::as_str)).collect();
    place.fathom(&words)
}

#[test]
fn replaying_an_applications_own_log_leaves_its_live_database_as_it_was() {
    let place = Place::new();
    let precious = Precious::new(&place);
    let live = precious.path.display();
    let backup = place.path("home/backup.db");
    place.write(
        "app.sql",
        &format!(
            "ATTACH '{live}' AS live;\nCREATE TABLE IF NOT EXISTS live.t(a);\nINSERT INTO live.t VALUES (7);\nDELETE FROM live.t;\n\
             CREATE TABLE mine(a);\nINSERT INTO mine VALUES (1);\nVACUUM INTO '{}';\nVACUUM main INTO 'relative.db';\n\
             DETACH live;\nATTACH DATABASE \"{live}\" AS again;\nSELECT count(*) FROM again.t;\nATTACH ':memory:' AS m;\n\
             CREATE TABLE m.x(a);\n",
            backup.display()
        ),
    );
    place
        .fathom(&["trace", "import", "app.sql", "--out", "app.trace"])
        .exits(0)
        .says("is attached, and empty");
    for library in libraries() {
        for mode in ["delete", "wal"] {
            let more = [library.clone(), vec!["--set".into(), format!("journal_mode={mode}")]].concat();
            replay(&place, "app.trace", &more).exits(0);
            precious.is_as_it_was(mode);
        }
    }
    assert_eq!(place.files(), ["app.sql", "app.trace", "home"], "nothing else was written");

    // What cannot be told from the text is not guessed.
    place.write("bound.sql", "ATTACH ? AS x; SELECT 1;");
    place
        .fathom(&["trace", "import", "bound.sql", "--out", "b.trace"])
        .exits(2)
        .says("cannot be told from the text");
    std::fs::create_dir(place.path("folder")).unwrap();
    place.write("folder/load.sql", &format!("CREATE TABLE t(a);\nATTACH '{live}' AS x;\n"));
    place.write("folder/one.sql", "SELECT 1;");
    place.fathom(&["trace", "import", "folder", "--out", "f.trace"]).exits(2).says("load.sql:2");
}

/// A trace whose one connection does `make`.
fn trace(place: &Place, name: &str, start: Start, make: impl FnOnce(&mut Assembler, u32)) {
    // What cannot be read may be a capture, and is never replaced.
    let _ = std::fs::remove_file(place.path(name));
    let mut assembler =
        Assembler::new(Writer::create(&place.path(name)).unwrap(), Origin::default()).unwrap();
    let thread = assembler.thread(1, 1, "test").unwrap();
    let database = assembler.database(b"/a.db", start, None).unwrap();
    let connection = assembler.open(thread, database, 0).unwrap();
    make(&mut assembler, connection);
    assembler.close(connection, 9_000_000).unwrap();
    assembler.finish().unwrap();
}

fn execute(assembler: &mut Assembler, connection: u32, sql: &str, values: &[Value]) {
    let execution = Execution { sql, values, start_ns: 1000, duration_ns: 10, keep: true, counts: None };
    assembler.execute(connection, &execution).unwrap();
}

#[test]
fn no_trace_gets_out_of_the_replays_directory() {
    let place = Place::new();
    let precious = Precious::new(&place);
    let live = precious.path.display().to_string();
    let fresh = place.path("home/fresh.db").display().to_string();
    let split = |path: &str| format!("{}' || '{}", &path[..path.len() - 5], &path[path.len() - 5..]);
    for sql in [
        format!("ATTACH '{live}' AS x"),
        format!("ATTACH '{}' AS x", split(&live)),
        format!("ATTACH '{fresh}' AS x"),
        format!("ATTACH 'file:{live}?vfs=unix' AS x"),
        format!("ATTACH 'file://localhost{live}?vfs=unix-none' AS x"),
        "ATTACH '../home/live.db' AS x".into(),
        format!(" ;ATTACH '{live}' AS x"),
        format!("EXPLAIN ATTACH '{live}' AS x"),
        format!("VACUUM INTO '{fresh}' || (SELECT load_extension('{live}'))"),
        format!("VACUUM INTO 1) ELSE '{fresh}' END --"),
        format!("VACUUM INTO 1) END || '{fresh}'"),
        format!("SELECT load_extension('{live}')"),
        format!("SELECT writefile('{live}', 'x')"),
        format!("SELECT * FROM fsdir('{live}')"),
        format!("CREATE VIRTUAL TABLE v USING csv(filename='{live}')"),
        format!("PRAGMA temp_store_directory='{}'; ", place.path("home").display()),
    ] {
        trace(&place, "a.trace", Start::Empty, |assembler, connection| {
            execute(assembler, connection, "CREATE TABLE mine(a)", &[]);
            execute(assembler, connection, &sql, &[]);
            for next in ["DELETE FROM x.t", "CREATE TABLE x.new(a)"] {
                execute(assembler, connection, next, &[]);
            }
        });
        for library in libraries() {
            replay(&place, "a.trace", &library).fails();
            precious.is_as_it_was(&sql);
        }
    }
    // A name that is bound, and one that says it is another database's.
    trace(&place, "a.trace", Start::Empty, |assembler, connection| {
        execute(assembler, connection, "ATTACH ? AS x", &[Value::Text(live.clone().into_bytes())]);
        execute(assembler, connection, "DELETE FROM x.t", &[]);
    });
    replay(&place, "a.trace", &[]).fails().says("import the log or script again");
    trace(&place, "a.trace", Start::Empty, |assembler, connection| {
        let schema = format!("x\"; ATTACH '{live}' AS \"x");
        assembler.event(connection, 1, 1, Action::Attach { schema, database: 3 }).unwrap();
        execute(assembler, connection, "ATTACH 'b' AS x", &[]);
        execute(assembler, connection, "DELETE FROM x.t", &[]);
    });
    replay(&place, "a.trace", &[]).fails();
    precious.is_as_it_was("bound");
    // VACUUM INTO of a parameter goes into the replay's directory, each time anew.
    trace(&place, "a.trace", Start::Empty, |assembler, connection| {
        execute(assembler, connection, "CREATE TABLE mine(a)", &[]);
        for path in [&fresh, &live, &fresh] {
            execute(assembler, connection, "VACUUM INTO ?1 -- x", &[Value::Text(path.clone().into_bytes())]);
        }
    });
    for library in libraries() {
        replay(&place, "a.trace", &library).exits(0);
        precious.is_as_it_was("VACUUM INTO");
    }
    // What a database held at the start may be hostile, too.
    for script in [
        format!("ATTACH '{live}' AS x; DELETE FROM x.t;"),
        format!("CREATE TABLE a(b);\nVACUUM INTO '{fresh}';"),
        format!(
            "CREATE TABLE a(b); CREATE TRIGGER g AFTER INSERT ON a BEGIN SELECT load_extension('{live}'); END; INSERT INTO a VALUES (1);"
        ),
    ] {
        let bytes = script.len() as u64;
        let mut writer = Writer::create(&place.path("a.trace")).unwrap();
        writer.write(&Record::Origin(Origin::default())).unwrap();
        writer
            .write(&Record::Database(Database {
                id: 0,
                path: b"/a.db".into(),
                start: Start::Script { bytes },
            }))
            .unwrap();
        writer
            .write(&Record::Content(Content { database: 0, offset: 0, bytes: script.clone().into() }))
            .unwrap();
        writer.finish().unwrap();
        // Nothing is replayed: the trace is refused as any file is that cannot be begun with.
        replay(&place, "a.trace", &[]).exits(2).says("loading script");
        precious.is_as_it_was(&script);
    }
    let mut files = place.files();
    files.retain(|name| name != "a.trace");
    assert_eq!(files, ["home"]);
}

/// What happened: a trace of 200 bytes, whose one statement inserts without an end, filled the disk
/// of `--dir` to its last byte, and whoever else wrote there failed meanwhile.
#[test]
fn a_replay_leaves_room_on_its_disk() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP: a small disk is mounted, which needs root");
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("small")).unwrap();
    let endless = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) \
                   INSERT INTO t SELECT zeroblob(100000) FROM c";
    trace(&place, "a.trace", Start::Empty, |assembler, connection| {
        execute(assembler, connection, "CREATE TABLE t(a)", &[]);
        execute(assembler, connection, endless, &[]);
    });
    for library in libraries() {
        let program = env!("CARGO_BIN_EXE_fathom");
        let words = format!("{program} trace replay a.trace --dir small {}", library.join(" "));
        let script = format!("mount -t tmpfs -o size=64m small small && {words}");
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &script]).current_dir(place.path(""));
        let end = command.env("FATHOM_STATE_DIR", place.path("state")).output().unwrap();
        let told = String::from_utf8_lossy(&end.stderr);
        assert_eq!(end.status.code(), Some(1), "{told}");
        assert!(told.contains("SQL of others leaves the last"), "{told}");
        assert!(told.contains("name a directory on a larger disk with --dir"), "{told}");
    }
}

fn event(connection: u32, action: Action) -> Record {
    Record::Event(Event { thread: 0, connection, start_ns: 0, duration_ns: 1, action })
}

/// The largest resident set of `fathom`, KiB.
fn memory_of(place: &Place, words: &[&str]) -> (Output, u64) {
    let output = Command::new("/usr/bin/time")
        .args(["-f", "maxrss %M", env!("CARGO_BIN_EXE_fathom")])
        .args(words)
        .current_dir(place.path(""))
        .output();
    let Ok(output) = output else {
        println!("SKIP: the memory is not looked at: there is no /usr/bin/time");
        return (
            Command::new(env!("CARGO_BIN_EXE_fathom"))
                .args(words)
                .current_dir(place.path(""))
                .output()
                .unwrap(),
            0,
        );
    };
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let memory = said
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("maxrss "))
        .map_or(0, |map| map.parse().unwrap());
    (output, memory)
}

#[test]
fn a_small_file_neither_aborts_nor_fills_the_memory() {
    let place = Place::new();
    let open = |database| Action::Open { database, flags: 6, vfs: String::new(), outcome: Outcome::of(OK) };
    let prepare = |handle, statement| Action::Prepare { handle, statement, outcome: Outcome::of(OK) };
    let step = |handle| {
        let outcome = Outcome::of(101);
        Action::Step(Step {
            handle,
            begins: true,
            is_counted: true,
            rows: u64::MAX,
            changes: u64::MAX,
            in_transaction: false,
            outcome,
        })
    };
    let statement = |id, sql: &str| Record::Statement(fathom_trace::model::Statement { id, sql: sql.into() });
    let database = |id| Record::Database(Database { id, path: b"/a".into(), start: Start::Empty });
    let bind = |value| Action::Bind { handle: 0, index: 1, value };
    let traces: [(&str, Vec<Record>, i32); 5] = [
        (
            "a zero-blob of 2^40",
            vec![
                database(0),
                statement(0, "SELECT ?"),
                event(0, open(0)),
                event(0, prepare(0, 0)),
                event(0, bind(Value::ZeroBlob(1 << 40))),
                event(0, bind(Value::ZeroBlob(u64::MAX))),
                event(0, step(0)),
                event(0, step(0)),
            ],
            1,
        ),
        (
            "the largest numbers",
            vec![
                database(u32::MAX),
                statement(u32::MAX, "INSERT INTO t VALUES (1)"),
                event(u32::MAX, open(u32::MAX)),
                event(u32::MAX, prepare(u32::MAX, u32::MAX)),
                event(u32::MAX, Action::Bind { handle: u32::MAX, index: u32::MAX, value: Value::Null }),
                event(u32::MAX, step(u32::MAX)),
                event(u32::MAX, step(u32::MAX)),
            ],
            1,
        ),
        (
            "a piece of an image far away",
            vec![
                Record::Database(Database {
                    id: 0,
                    path: b"/a".into(),
                    start: Start::Image { bytes: 1 << 60 },
                }),
                Record::Content(Content { database: 0, offset: (1 << 60) - 4096, bytes: vec![1; 4096] }),
            ],
            2,
        ),
        (
            "20,000 threads at the same time",
            {
                let mut all = vec![database(0)];
                let of = |thread: u32, start_ns, action| {
                    Record::Event(Event { thread, connection: thread, start_ns, duration_ns: 1, action })
                };
                all.extend((0..20_000).map(|thread| of(thread, 1, open(0))));
                all.extend(
                    (0..20_000).map(|thread| of(thread, 2, Action::Close { outcome: Outcome::of(OK) })),
                );
                // An ending belongs to no thread, so there is another call after all the others.
                all.extend((0..20_000).map(|thread| of(thread, 3, open(0))));
                all
            },
            2,
        ),
        (
            "2,000 threads one after the other",
            {
                let mut all = vec![database(0)];
                for thread in 0..2000 {
                    let at = u64::from(thread) * 10;
                    let of = |start_ns, action| {
                        Record::Event(Event { thread, connection: thread, start_ns, duration_ns: 1, action })
                    };
                    all.push(of(at, open(0)));
                    all.push(of(at + 2, Action::Close { outcome: Outcome::of(OK) }));
                }
                all
            },
            0,
        ),
    ];
    for (what, records, code) in traces {
        let _ = std::fs::remove_file(place.path("a.trace"));
        let mut writer = Writer::create(&place.path("a.trace")).unwrap();
        for record in &records {
            writer.write(record).unwrap();
        }
        writer.finish().unwrap();
        for words in [&["trace", "info", "a.trace"][..], &["trace", "replay", "a.trace", "--dir", "."]] {
            let (output, memory) = memory_of(&place, words);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let expected = if words[1] == "info" { 0 } else { code };
            assert!(
                output.status.code() == Some(expected)
                    || (code > 0 && expected > 0 && matches!(output.status.code(), Some(1 | 2))),
                "{what}: {words:?}: {:?} {said}",
                output.status
            );
            assert!(!said.contains("panicked"), "{what}: {said}");
            assert!(memory < 400 << 10, "{what}: {words:?} takes {memory} KiB");
        }
    }
    // What an application really binds goes on working.
    trace(&place, "a.trace", Start::Empty, |assembler, connection| {
        execute(assembler, connection, "CREATE TABLE t(a)", &[]);
        execute(assembler, connection, "INSERT INTO t VALUES (?)", &[Value::ZeroBlob(10 << 20)]);
        execute(assembler, connection, "INSERT INTO t VALUES (?)", &[Value::Blob(vec![0; 100 << 20])]);
    });
    replay(&place, "a.trace", &[]).exits(0);
    place.fathom(&["trace", "info", "a.trace"]).exits(0);
}

/// A replay that does not end by itself, with a state directory of its own.
struct Endless<'a> {
    place: &'a Place,
    child: Child,
}

impl Endless<'_> {
    fn start(place: &Place) -> Endless<'_> {
        trace(place, "a.trace", Start::Empty, |assembler, connection| {
            execute(assembler, connection, "CREATE TABLE secret(a)", &[]);
            execute(assembler, connection, "INSERT INTO secret VALUES ('what the user wrote')", &[]);
            let endless =
                "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c";
            execute(assembler, connection, endless, &[]);
        });
        let child = command(place, &["trace", "replay", "a.trace", "--dir", "."]).spawn().unwrap();
        let endless = Endless { place, child };
        let begin = Instant::now();
        while !endless
            .database()
            .is_some_and(|database| std::fs::metadata(database).is_ok_and(|metadata| metadata.len() > 4096))
        {
            assert!(begin.elapsed() < PATIENCE, "no database in {:?}", place.files());
            std::thread::sleep(Duration::from_millis(5));
        }
        endless
    }

    fn directory(&self) -> Option<PathBuf> {
        let name = self.place.files().into_iter().find(|name| name.starts_with("fathom-replay"))?;
        Some(self.place.path(&name))
    }

    fn database(&self) -> Option<PathBuf> {
        Some(self.directory()?.join("trace-0.db"))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: kill only takes numbers; the process is our own child.
        unsafe { libc::kill(i32::try_from(self.child.id()).unwrap(), signal) };
    }

    /// Child processes whose command line holds `word`.
    fn child_with(&self, word: &str) -> i32 {
        let path = format!("/proc/{0}/task/{0}/children", self.child.id());
        let of = |pid: &&str| {
            std::fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|value| String::from_utf8_lossy(&value).contains(word))
        };
        // The list may lack some where one of them ends meanwhile (proc(5)).
        let begin = Instant::now();
        loop {
            let children = std::fs::read_to_string(&path).unwrap();
            if let Some(child) = children.split_whitespace().find(of) {
                return child.parse().unwrap();
            }
            assert!(begin.elapsed() < PATIENCE, "no {word} in {children}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    fn directory_goes(&self) {
        let begin = Instant::now();
        while let Some(left) = self.directory() {
            assert!(begin.elapsed() < PATIENCE, "{} is left", left.display());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Endless<'_> {
    fn drop(&mut self) {
        // An error means that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(place: &Place, words: &[&str]) -> Command {
    // Under nohup a hangup is ignored, by children too, and the test that sends one hung for ever.
    // SAFETY: no handler of ours is installed.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
    let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
    command.args(words).current_dir(place.path("")).env("FATHOM_STATE_DIR", place.path("state"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_replay_that_a_signal_ends_leaves_nothing_and_shows_nothing_meanwhile() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let place = Place::new();
        let mut replay = Endless::start(&place);
        let mode = |path: PathBuf| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(replay.directory().unwrap()), 0o700);
        assert_eq!(mode(replay.database().unwrap()), 0o600);
        for file in std::fs::read_dir(replay.directory().unwrap()).unwrap() {
            // A journal goes with its transaction, also just now.
            if let Ok(about) = std::fs::metadata(file.unwrap().path()) {
                assert_eq!(about.permissions().mode() & 0o777, 0o600);
            }
        }
        let worker = replay.child_with("--within");
        replay.signal(signal);
        let status = replay.child.wait().unwrap();
        assert_eq!(status.signal(), Some(signal), "signal {signal}: {status:?}");
        assert!(replay.directory().is_none(), "gone when the command ends, not some time after");
        gone_soon(worker);
    }
}

#[test]
fn a_replay_that_is_killed_leaves_nothing_that_stack_down_does_not_find() {
    // Its guard removes the directory.
    let place = Place::new();
    let replay = Endless::start(&place);
    let worker = replay.child_with("--within");
    replay.signal(libc::SIGKILL);
    gone_soon(worker);
    replay.directory_goes();
    // Killed with its guard.
    let place = Place::new();
    let mut replay = Endless::start(&place);
    // What a living process uses is not touched.
    assert!(command(&place, &["stack", "down", "--all"]).status().unwrap().success());
    assert!(replay.database().is_some_and(|database| database.exists()), "the replay goes on");
    let (worker, guard) = (replay.child_with("--within"), replay.child_with("stack-guard"));
    // SAFETY: kill only takes numbers; the process is a child of our own child, which has not
    // ended.
    unsafe { libc::kill(guard, libc::SIGKILL) };
    replay.signal(libc::SIGKILL);
    replay.child.wait().unwrap();
    gone_soon(worker);
    gone_soon(guard);
    assert!(replay.directory().is_some(), "nobody is left to remove it");
    assert!(command(&place, &["stack", "down", "--all"]).status().unwrap().success());
    replay.directory_goes();
}

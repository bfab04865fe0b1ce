//! Traces longer than memory: what each command takes of it.
//! `FATHOM_LONG_TRACE=10000000 cargo test --release -p fathom --test trace_memory -- --nocapture`
//! prints the largest resident set of each command on traces of that many events; without it the
//! test takes small ones, to see that the commands work on them.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Instant;

use fathom_trace::model::{Origin, Start, Value};
use fathom_trace::{Assembler, Execution, Writer};
use place::Place;

/// Numbers that look drawn by chance, the same each time.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    /// A text as in a chat: words, of which some thousand occur.
    fn message(&mut self) -> String {
        let mut text = String::new();
        for _ in 0..8 {
            let mut word = self.next(5000) * 37 + 1000;
            while word > 0 {
                text.push(char::from(b'a' + (word % 19) as u8));
                word /= 19;
            }
            text.push(' ');
        }
        text
    }
}

/// Prepared statements, values bound, every message with a number of its own in 16 hexadecimal
/// digits; gives its events.
fn prepared(place: &Place, events: u64) -> u64 {
    let mut assembler =
        Assembler::new(Writer::create(&place.path("prepared.trace")).unwrap(), Origin::default()).unwrap();
    let thread = assembler.thread(1, 1, "test").unwrap();
    let database = assembler.database(b"/chat.db", Start::Empty, None).unwrap();
    let connection = assembler.open(thread, database, 0).unwrap();
    let (mut chance, mut at_ns) = (Chance(0x9e37_79b9), 0);
    let mut execute = |sql: &str, values: &[Value], counts| {
        at_ns += 20_000;
        let counts = Some(counts);
        let execution = Execution { sql, values, start_ns: at_ns, duration_ns: 9_000, keep: true, counts };
        assembler.execute(connection, &execution).unwrap();
    };
    execute(
        "CREATE TABLE m(id INTEGER PRIMARY KEY, who INT, guid TEXT, body TEXT, seen INT DEFAULT 0)",
        &[],
        (0, 0),
    );
    let text = |text: String| Value::Text(text.into_bytes());
    // A transaction has 17 events: five statements stepped and reset, seven values.
    for id in 1..=i64::try_from(events / 17).unwrap() {
        let who = Value::Integer(chance.next(200) as i64);
        let guid = text(format!("{:016x}", chance.next(u64::MAX)));
        let body = text(chance.message());
        execute("BEGIN", &[], (0, 0));
        execute("INSERT INTO m VALUES (?, ?, ?, ?, 0)", &[Value::Integer(id), who, guid, body], (0, 1));
        execute("SELECT * FROM m WHERE id = ?", &[Value::Integer(id)], (1, 0));
        let seen = [Value::Integer(at_ns_of(id)), Value::Integer(id)];
        execute("UPDATE m SET seen = ? WHERE id = ?", &seen, (0, 1));
        execute("COMMIT", &[], (0, 0));
    }
    assembler.close(connection, 1).unwrap();
    assembler.finish().unwrap().events
}

fn at_ns_of(id: i64) -> i64 {
    id * 1000
}

/// A script with its values written into the statements: no text occurs twice.
fn script(place: &Place, events: u64) {
    let mut out = std::io::BufWriter::new(std::fs::File::create(place.path("literal.sql")).unwrap());
    let mut chance = Chance(0xda94_2042);
    writeln!(out, "CREATE TABLE m(id INTEGER PRIMARY KEY, body TEXT);").unwrap();
    // Each statement has three events: prepared, stepped, finalised.
    for id in 0..events / 3 {
        let (begin, end) = if id % 100 == 0 {
            ("BEGIN;\n", "")
        } else if id % 100 == 99 {
            ("", "COMMIT;\n")
        } else {
            ("", "")
        };
        write!(out, "{begin}INSERT INTO m VALUES ({id}, '{}');\n{end}", chance.message()).unwrap();
    }
    if !(events / 3).is_multiple_of(100) {
        writeln!(out, "COMMIT;").unwrap();
    }
    out.flush().unwrap();
}

/// Runs a command to its end; gives its largest resident set in MiB.
#[allow(clippy::zombie_processes, reason = "wait4, which also tells its resources, waits for it")]
fn peak_mib(place: &Place, words: &[&str]) -> u64 {
    let begin = Instant::now();
    let child = Command::new(env!("CARGO_BIN_EXE_fathom"))
        .args(words)
        .current_dir(place.path("."))
        .stdin(Stdio::null())
        .stdout(std::fs::File::create(place.path("stdout")).unwrap())
        .stderr(std::fs::File::create(place.path("stderr")).unwrap())
        .spawn()
        .unwrap();
    // SAFETY: the process is this one's child, waited for once, here; both structures are valid and
    // all-zero is a value of them.
    let (status, usage) = unsafe {
        let (mut status, mut usage): (libc::c_int, libc::rusage) = (0, std::mem::zeroed());
        assert!(libc::wait4(child.id().try_into().unwrap(), &raw mut status, 0, &raw mut usage) > 0);
        (status, usage)
    };
    let text = |name: &str| String::from_utf8_lossy(&place.read(name)).into_owned();
    assert_eq!(status, 0, "{words:?}: {}", text("stderr"));
    // Linux gives ru_maxrss in KiB (getrusage(2)).
    let mib = usage.ru_maxrss as u64 / 1024;
    let mut line =
        format!("{mib:>6} MiB {:>7.1} s  fathom {}", begin.elapsed().as_secs_f64(), words.join(" "));
    for told in text("stdout")
        .lines()
        .chain(text("stderr").lines())
        .filter(|line| line.contains("waits for it") || line.contains(" a second"))
    {
        write!(line, "\n                    {told}").unwrap();
    }
    println!("{line}");
    mib
}

#[test]
fn no_command_holds_a_trace_in_memory() {
    let long = std::env::var("FATHOM_LONG_TRACE")
        .ok()
        .map(|events| events.parse::<u64>().expect("a number of events"));
    let events = long.unwrap_or(20_000);
    let place = Place::new();
    let written = prepared(&place, events);
    assert!(written > events - events / 100 - 20, "{written}");
    script(&place, events);
    // The program and SQLite's caches take some 20 MiB, and what is read ahead 64 MiB; 10 million
    // events in memory took 1.5 GiB.
    let limit_mib = 192;
    let settings = ["--set", "journal_mode=wal", "--set", "synchronous=off"];
    let mut peaks = vec![peak_mib(&place, &["trace", "import", "literal.sql", "--out", "literal.trace"])];
    for trace in ["prepared.trace", "literal.trace"] {
        let size = std::fs::metadata(place.path(trace)).unwrap().len() >> 20;
        println!("{trace}: {size} MiB");
        peaks.push(peak_mib(&place, &["trace", "info", trace]));
        let replay: Vec<&str> =
            ["trace", "replay", trace, "--dir", "."].into_iter().chain(settings).collect();
        peaks.push(peak_mib(&place, &replay));
        // Different words stay in memory; see docs/traces.md.
        peak_mib(&place, &["trace", "anonymise", trace, "--out", "public.trace", "--seed", "1"]);
    }
    assert!(peaks.iter().all(|peak| *peak < limit_mib), "{peaks:?} MiB");
}

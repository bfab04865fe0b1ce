//! The static program for another processor does the same as this one: traces that are made up are
//! the same octet by octet, and what workloads verify of their databases is the same. Under
//! qemu-user-static; skipped where that or the program (scripts/static.sh aarch64 armv7) is absent.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use std::io::Write;

/// A processor that this machine has not, and what runs its programs here.
struct Processor {
    name: &'static str,
    qemu: &'static str,
    /// Names its program.
    variable: &'static str,
}

const AARCH64: Processor =
    Processor { name: "aarch64", qemu: "/usr/bin/qemu-aarch64-static", variable: "FATHOM_AARCH64" };
/// Of 32 bits: what is as long as a pointer there is half as long as here.
const ARMV7: Processor =
    Processor { name: "armv7", qemu: "/usr/bin/qemu-arm-static", variable: "FATHOM_ARMV7" };

impl Processor {
    /// The program, where there is one.
    fn program(&self) -> Option<PathBuf> {
        let here = Path::new(env!("CARGO_BIN_EXE_fathom")).parent()?.parent()?;
        let name = self.name;
        let made = ["debug", "release"].map(|profile| here.join(format!("{profile}/machines/fathom-{name}")));
        let given = std::env::var_os(self.variable).map(PathBuf::from);
        let Some(program) = given.into_iter().chain(made).find(|path| path.is_file()) else {
            println!(
                "SKIP: no static program for {name}; to get it: FATHOM_PROFILE=dev scripts/static.sh {name}"
            );
            return None;
        };
        if !Path::new(self.qemu).is_file() {
            println!("SKIP: no {}; to get it: sudo apt-get install qemu-user-static", self.qemu);
            return None;
        }
        Some(program)
    }

    /// Starts a program of that processor.
    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(self.qemu);
        command.arg(program);
        command
    }
}

fn both(place: &Path, there: Command, words: &[&str], input: &str) -> [Output; 2] {
    [Command::new(env!("CARGO_BIN_EXE_fathom")), there].map(|mut command| {
        let mut child = command
            .args(words)
            .current_dir(place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Who refuses its words does not read.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    })
}

fn traces_are_the_same(processor: &Processor) {
    let Some(program) = processor.program() else { return };
    let other = || processor.command(&program);
    let place = tempfile::tempdir().unwrap();
    for profile in ["gmail", "androbench"] {
        let words = ["trace", "synthesise", profile, "--seed", "7", "--scale", "5", "--out", "-"];
        let [here, there] = both(place.path(), other(), &words, "");
        assert!(
            here.status.success() && there.status.success(),
            "{}",
            String::from_utf8_lossy(&there.stderr)
        );
        assert!(here.stdout.len() > 1000 && here.stdout == there.stdout, "{profile}");
        std::fs::write(place.path().join("a.trace"), &there.stdout).unwrap();
        let [here, there] = both(place.path(), other(), &["trace", "info", "a.trace"], "");
        assert!(here.status.success() && here.stdout == there.stdout, "{profile}");
    }
    let [_, doctor] = both(place.path(), other(), &["doctor", "--json"], "");
    assert!(doctor.status.success(), "{}", String::from_utf8_lossy(&doctor.stderr));
    // No package brings what a static program could load.
    let all: Vec<serde_json::Value> = serde_json::from_slice(&doctor.stdout).unwrap();
    let sqlcipher = all.iter().find(|capability| capability["name"] == "sqlcipher").unwrap();
    assert!(sqlcipher["detail"].as_str().unwrap().contains("linked statically"), "{sqlcipher}");
    assert_eq!(sqlcipher["remedy"], "");
}

#[test]
fn traces_that_are_made_up_are_the_same_on_aarch64() {
    traces_are_the_same(&AARCH64);
}

#[test]
fn traces_that_are_made_up_are_the_same_on_armv7() {
    traces_are_the_same(&ARMV7);
}

/// The variants of first-look.
const VARIANTS: [(&str, &str); 8] = [
    ("delete", "full"),
    ("delete", "extra"),
    ("truncate", "full"),
    ("persist", "full"),
    ("wal", "full"),
    ("wal", "normal"),
    ("wal", "off"),
    ("memory", "off"),
];

/// What a worker says that it has verified, and every row of what it leaves.
fn worked(
    program: &mut Command,
    directory: &Path,
    (mode, synchronous): (&str, &str),
) -> (Vec<String>, String) {
    let order = serde_json::json!({
        "protocol": 4,
        "cell": {
            "workload": {"name": "mobibench-sql", "tables": 1, "transactions": 50, "phases": ["insert", "update"]},
            "engine": {"name": "sqlite", "page_size": 4096, "journal_mode": mode, "synchronous": synchronous},
            "stack": {},
            "axes": {}
        },
        "seed": 7,
        "directory": directory
    });
    let mut child = program
        .arg("worker")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(order.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let found: Vec<String> =
        text.lines().filter(|line| line.contains("\"verified\"")).map(str::to_owned).collect();
    assert!(
        output.status.success() && !found.is_empty(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let mut rows = String::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "db") {
            continue;
        }
        let database = rusqlite::Connection::open(&path).unwrap();
        let names = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        let mut tables = database.prepare(names).unwrap();
        let tables: Vec<String> =
            tables.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        for table in tables {
            let mut select = database.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
            let columns = select.column_count();
            let mut all = select.query([]).unwrap();
            while let Some(row) = all.next().unwrap() {
                for column in 0..columns {
                    rows += &format!("{:?};", row.get_ref(column).unwrap());
                }
            }
        }
    }
    assert!(rows.len() > 1000, "{rows}");
    (found, rows)
}

/// The eight cells of first-look, each by the worker itself: qemu starts no second program of the
/// other processor.
fn what_a_worker_leaves_is_the_same(processor: &Processor) {
    let Some(program) = processor.program() else { return };
    for variant in VARIANTS {
        let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let here = worked(&mut Command::new(env!("CARGO_BIN_EXE_fathom")), one.path(), variant);
        let there = worked(&mut processor.command(&program), two.path(), variant);
        assert_eq!(here, there, "{variant:?}");
    }
}

#[test]
fn what_a_worker_leaves_is_the_same_on_aarch64() {
    what_a_worker_leaves_is_the_same(&AARCH64);
}

#[test]
fn what_a_worker_leaves_is_the_same_on_armv7() {
    what_a_worker_leaves_is_the_same(&ARMV7);
}

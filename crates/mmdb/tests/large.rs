//! Opening a large table after its process was killed: nothing acknowledged is missing, and it
//! takes seconds.
//!
//! 10 million rows with `FATHOM_LONG`, else 100,000; `MMDB_ROWS` sets another number:
//! `MMDB_ROWS=10000000 cargo test --release -p mmdb --test large -- --nocapture` prints times and
//! memory.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Options, Schema, Value};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Rows of one transaction.
const BATCH: i64 = 1000;

fn rows() -> i64 {
    let long = std::env::var_os("FATHOM_LONG").is_some();
    let given = std::env::var("MMDB_ROWS").ok().and_then(|v| v.parse().ok());
    given.unwrap_or(if long { 10_000_000 } else { 100_000 })
}

/// What stands in row `id`.
fn number(id: i64) -> i64 {
    id.wrapping_mul(0x5851_f42d_4c95_7f2d) >> 8
}

/// Peak memory of this process, MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() / 1024
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // On a line of its own: the test harness writes there, too.
    writeln!(out, "\n@{line}").unwrap();
    out.flush().unwrap();
}

/// The first child: fills the table, says so, and goes on changing it until it is killed.
fn fill(dir: &Path) {
    let db = Database::open(dir, Options::default()).unwrap();
    let s = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(s.primary_key(&["id"])).unwrap();
    let started = Instant::now();
    let mut tickets = Vec::new();
    for first in (0..rows()).step_by(BATCH as usize) {
        let batch = first..(first + BATCH).min(rows());
        let insert = |tx: &mut mmdb::Transaction<'_>| {
            batch.clone().try_for_each(|id| tx.insert(&t, &[id.into(), number(id).into()]))
        };
        tickets.push(db.run_with(mmdb::Durability::Durable, insert).unwrap().1);
    }
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    say(&format!("filled in {:.2} s, peak {} MiB", started.elapsed().as_secs_f64(), peak_mib()));
    loop {
        // Never acknowledged, never to be half there: both rows or none.
        let _ = db.run(|tx| {
            tx.upsert(&t, &[(-1).into(), 1.into()])?;
            tx.upsert(&t, &[(-2).into(), 1.into()])
        });
    }
}

/// The second child: opens what the first one left, and looks.
fn look(dir: &Path) {
    let started = Instant::now();
    let db = Database::open(dir, Options::default()).unwrap();
    let seconds = started.elapsed().as_secs_f64();
    let r = db.recovery();
    let t = db.table("t").unwrap();
    let mut tx = db.begin().unwrap();
    for i in 0..20_000 {
        let id = (i * 7_919) % rows();
        let row = tx.get(&t, &[id.into()]).unwrap();
        assert_eq!(row.map(|r| r.at(1) == Value::Int(number(id))), Some(true), "row {id}");
    }
    let extra = [-1, -2].map(|id| tx.get(&t, &[id.into()]).unwrap().is_some());
    assert_eq!(extra[0], extra[1], "half a transaction");
    let count = tx.scan(&t).unwrap().map(|r| r.unwrap()).filter(|r| r.at(0).as_int() >= Some(0)).count();
    assert_eq!(count as i64, rows());
    say(&format!(
        "opened in {seconds:.2} s (images {} in {:.2} s, {} records in {:.2} s, indexes {:.2} s), peak {} MiB",
        r.images,
        r.image_time.as_secs_f64(),
        r.records,
        r.replay_time.as_secs_f64(),
        r.index_time.as_secs_f64(),
        peak_mib()
    ));
}

fn child(role: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_large_table_is_whole_after_a_kill", "--nocapture"])
        .env("MMDB_LARGE_ROLE", role)
        .env("MMDB_LARGE_DIR", dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The first thing that a child says; nothing if it ends before. What it is read through must
/// outlive the child, which could not write otherwise.
fn told(child: &mut Child) -> (Option<String>, impl Iterator<Item = String> + use<>) {
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut lines = out.lines().map_while(Result::ok);
    (lines.find_map(|l| l.strip_prefix('@').map(str::to_owned)), lines)
}

#[test]
fn a_large_table_is_whole_after_a_kill() {
    if let (Ok(role), Some(dir)) = (std::env::var("MMDB_LARGE_ROLE"), std::env::var_os("MMDB_LARGE_DIR")) {
        return if role == "fill" { fill(Path::new(&dir)) } else { look(Path::new(&dir)) };
    }
    // Where the build is, as the benchmarks: the system's temporary directory may be memory.
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("mmdb-large-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let mut first = child("fill", &dir);
    let (filled, _pipe) = told(&mut first);
    first.kill().unwrap();
    first.wait().unwrap();
    println!("{} rows: {}", rows(), filled.expect("the first process filled the table"));
    // Twice: the second opening also has what the first one did to the files.
    for _ in 0..2 {
        let mut second = child("look", &dir);
        let (looked, _pipe) = told(&mut second);
        assert!(second.wait().unwrap().success());
        println!("{}", looked.expect("the second process found everything"));
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

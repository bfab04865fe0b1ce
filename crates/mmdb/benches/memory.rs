//! How well `memory_limit` holds: fills tables of several shapes up to a limit, and compares what
//! the database counts with the growth of the process's resident memory.
//!
//! `cargo bench -p mmdb --bench memory [MiB]`. Each shape runs in a process of its own, because an
//! allocator keeps what it was given.
#![allow(clippy::unwrap_used)]

use mmdb::{ColumnType, Database, Durability, Error, Options, Schema, Value};
use std::process::Command;

/// Resident memory, bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|l| l.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

fn schema(shape: &str) -> (Schema, usize) {
    let s = Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .column("text", ColumnType::VarText(60))
        .column("body", ColumnType::VarBytes(30_000));
    match shape {
        "small rows" => (s.primary_key(&["id"]), 0),
        "300 bytes" => (s.primary_key(&["id"]), 250),
        "large rows" => (s.primary_key(&["id"]), 20_000),
        "ordered" => (s.ordered_primary_key(&["n", "id"]), 50),
        _ => {
            let s = s.primary_key(&["id"]).hash_index("a", &["n"]).ordered_index("b", &["n"]);
            (s.ordered_index("c", &["text"]).unique_hash_index("d", &["text", "id"]), 50)
        }
    }
}

fn fill(shape: &str, limit: u64) {
    let dir = std::env::temp_dir().join(format!("mmdb-bench-memory-{}", std::process::id()));
    let options = Options { memory_limit: limit, ..Options::default() };
    let (schema, body) = schema(shape);
    let before = resident();
    let db = Database::open(&dir, options).unwrap();
    let t = db.create_table(schema).unwrap();
    let body = vec![7; body];
    let mut id = 0i64;
    let e = loop {
        let n = id.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64) >> 20;
        let text = format!("{n:020} of which there are many");
        let row = [id.into(), n.into(), text.as_str().into(), Value::Bytes(&body)];
        match db.run_with(Durability::Lazy, |tx| tx.insert(&t, &row)) {
            Ok(_) => id += 1,
            Err(e) => break e,
        }
    };
    assert!(matches!(e, Error::MemoryLimit { .. }), "{e}");
    let (grown, told) = (resident() - before, db.stats().memory_bytes);
    let mib = |n: u64| n as f64 / f64::from(1 << 20);
    println!(
        "{shape:14} {id:9} rows  limit {:6.1} MiB  counted {:6.1}  resident {:6.1}  resident/limit {:.3}",
        mib(limit),
        mib(told),
        mib(grown),
        grown as f64 / limit as f64
    );
    drop((t, db));
    std::fs::remove_dir_all(dir).unwrap();
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let mib: u64 = args.first().and_then(|a| a.parse().ok()).unwrap_or(64);
    if let Some(shape) = args.get(1) {
        return fill(shape, mib << 20);
    }
    for shape in ["small rows", "300 bytes", "large rows", "ordered", "many indexes"] {
        let me = std::env::current_exe().unwrap();
        let done = Command::new(me).args([&mib.to_string(), shape]).status().unwrap();
        assert!(done.success(), "{shape}");
    }
}

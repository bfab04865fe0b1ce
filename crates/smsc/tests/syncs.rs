//! Whether each message is synced before it is acknowledged, as the operating system sees it.
#![allow(clippy::unwrap_used)]

use std::collections::HashMap;
use std::process::Command;

/// One client that waits for each message: between any two acknowledgements the store's log was
/// synced, and before the first. The bench writes the numbers of acknowledged messages to the file
/// `accepted`, at once.
fn is_synced_before_it_is_acknowledged(store: &str, log: &str) {
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: strace is not installed");
        return;
    }
    if store.starts_with("postgresql")
        && let Err(error) = postgresql_server::find_programs(None)
    {
        eprintln!("skipped: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let bench = ["bench", "--store", store, "--side", "receiver", "--threads", "1", "--messages", "40"];
    let output = Command::new("strace")
        .args(["-f", "-y", "-e", "trace=fsync,fdatasync,write", "-o", trace.to_str().unwrap()])
        .arg(env!("CARGO_BIN_EXE_smsc"))
        .args(bench)
        .args(["--keep", "--no-check"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("ptrace") || said.contains("PTRACE") {
        eprintln!("skipped: strace may not trace here: {said}");
        return;
    }
    assert!(output.status.success(), "{said}");
    let trace = std::fs::read_to_string(&trace).unwrap();
    let (mut synced, mut acknowledged) = (false, 0);
    // What each thread or process waits for, where its call and its return are two lines.
    let mut under_way: HashMap<&str, bool> = HashMap::new();
    for line in trace.lines() {
        let Some((process, call)) = line.split_once(char::is_whitespace) else { continue };
        let call = call.trim_start();
        let is_sync = call.starts_with("fsync(") || call.starts_with("fdatasync(");
        if is_sync && call.contains("<unfinished") {
            under_way.insert(process, call.contains(log));
        } else if is_sync {
            synced |= call.contains(log) && call.ends_with("= 0");
        } else if call.starts_with("<... f") && call.contains("sync resumed") {
            synced |= under_way.remove(process).unwrap_or(false) && call.ends_with("= 0");
        } else if call.starts_with("write(") && call.contains("/accepted>") {
            acknowledged += 1;
            assert!(synced, "{store}: message {acknowledged} was acknowledged without a sync of its own");
            synced = false;
        }
    }
    assert_eq!(acknowledged, 40, "{store}");
}

#[test]
fn sqlite_syncs_before_it_acknowledges() {
    is_synced_before_it_is_acknowledged("sqlite", "/smsc.db-wal>");
}

#[test]
fn naive_sqlite_syncs_before_it_acknowledges() {
    is_synced_before_it_is_acknowledged("sqlite-naive", "/smsc.db-wal>");
}

#[test]
fn mmdb_syncs_before_it_acknowledges() {
    is_synced_before_it_is_acknowledged("mmdb", "log");
}

#[test]
fn postgresql_syncs_before_it_acknowledges() {
    for store in ["postgresql", "postgresql-grouped", "postgresql-batched", "postgresql-statements"] {
        is_synced_before_it_is_acknowledged(store, "/pg_wal/");
    }
}

//! The example for tokio, run: one thread awaits many commits at once, and nothing is lost.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/tokio.rs"]
mod example;

#[test]
fn one_thread_awaits_many_commits_at_once() {
    let dir = std::env::temp_dir().join(format!("mmdb-tokio-test-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    let report = example::run(&dir).unwrap();
    std::fs::remove_dir_all(&dir).unwrap();
    assert_eq!(report.total, 64_000, "{report:?}");
    assert_eq!(report.commits, 64 * 50 + 1, "{report:?}");
    // A thread that the disk blocks has one commit at a time to wait for, and as many flushes.
    assert!(report.most_awaited > 8, "{report:?}");
    assert!(report.flushes < report.commits / 2, "{report:?}");
}

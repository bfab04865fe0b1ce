//! The probe counts what a bundled SQLite does, and changes nothing that a user sees.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use fathom_probe::{FileClass, Op, Probe, StatementClock, sqlite_api, thread_io};
use rusqlite::{Connection, OpenFlags};

#[test]
fn a_transaction_shows_in_the_table_and_on_the_clock() {
    // SAFETY: the functions of the one bundled library.
    let probe = unsafe { Probe::install(sqlite_api!(libsqlite3_sys).unwrap()) }.unwrap();
    assert_eq!(probe.platform(), "unix");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.db");
    let db = Connection::open_with_flags_and_vfs(&path, OpenFlags::default(), Probe::VFS_NAME).unwrap();
    let before = thread_io();
    let clock = StatementClock::start();
    db.execute_batch("create table t(a); insert into t values (1)").unwrap();
    let split = clock.stop();
    let io = thread_io().since(&before);
    for (class, op, cell) in io.iter() {
        println!("{:16} {:8} {cell:?}", class.name(), op.name());
    }
    println!("{split:?}");
    assert_eq!(io.get(FileClass::RollbackJournal, Op::Delete).calls, 2);
    assert_eq!(io.get(FileClass::RollbackJournal, Op::Open).calls, 2);
    assert!(io.get(FileClass::Database, Op::Sync).calls >= 2);
    assert_eq!(split.sync_calls, io.of_op(Op::Sync).calls);
    assert_eq!(split.write_bytes, io.of_op(Op::Write).bytes);
}

//! A store that does not answer, and is given up.
#![allow(clippy::unwrap_used)]

mod foreign_server;

use smsc::centre::{Operation, Outcome, Rules};
use smsc::model::Account;
use smsc::store::{
    Acknowledge, MmdbOptions, MmdbStore, Opening, PostgresqlForm, PostgresqlStore, PostgresqlUrl, Session,
    Store, StoreError, StoreKind,
};
use std::time::{Duration, Instant};

fn put(account: u32) -> Operation {
    Operation::PutAccount(Box::new(Account::unlimited(account)))
}

/// Looks until there are so many sessions. Those that have asked whether the server is there, or
/// have made the tables, take a while to end, and one that ends gets no signal.
fn until(count: usize, mut look: impl FnMut() -> Vec<String>) -> Vec<String> {
    let begin = Instant::now();
    loop {
        let sessions = look();
        if sessions.len() == count {
            return sessions;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "{count} wanted: {sessions:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes of the server's sessions.
fn sessions(store: &dyn Store) -> Vec<String> {
    let server = store.server_process().unwrap().to_string();
    let mut sessions = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let process = entry.file_name().into_string().unwrap();
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let name = std::fs::read_to_string(entry.path().join("cmdline")).unwrap_or_default();
        let parent =
            stat.rsplit_once(')').and_then(|rest| rest.1.split_whitespace().nth(1)).map(str::to_owned);
        if parent.as_ref() == Some(&server) && name.contains("fathom postgres") {
            sessions.push(process);
        }
    }
    sessions
}

/// Sends a signal to processes.
fn send(signal: &str, processes: &[String]) {
    let sent = std::process::Command::new("kill").arg(signal).args(processes).status().unwrap();
    assert!(sent.success(), "{processes:?}");
}

/// Abandons a store while one session waits and another does not: both fail, and a new one.
fn give_up(store: &dyn Store, mut idle: Box<dyn Session + '_>, mut session: Box<dyn Session + '_>) {
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| session.call(put(2)));
        // It waits by then; otherwise it comes too late, and must fail all the same.
        std::thread::sleep(Duration::from_millis(100));
        store.abandon();
        assert!(matches!(waiting.join().unwrap(), Err(StoreError::Abandoned)));
    });
    assert!(matches!(idle.submit(put(3)), Err(StoreError::Abandoned)));
    assert!(matches!(store.session(Acknowledge::Durable).err(), Some(StoreError::Abandoned)));
}

/// A client read from a server that did not answer, and nothing could end that but a kill; and so
/// it was with the server's end.
#[test]
fn a_server_that_stands_still_is_given_up() {
    if let Err(error) = postgresql_server::find_programs(None) {
        eprintln!("skipped: {error}");
        return;
    }
    for kind in [StoreKind::PostgresqlGrouped, StoreKind::PostgresqlStatements] {
        let dir = tempfile::tempdir().unwrap();
        let open = || kind.open(dir.path(), &MmdbOptions::default(), kind.rules()).unwrap();
        let store = open();
        let idle = store.session(Acknowledge::Durable).unwrap();
        let mut session = store.session(Acknowledge::Durable).unwrap();
        session.call(put(1)).unwrap();
        send("-STOP", &until(2, || sessions(&*store)));
        give_up(&*store, idle, session);
        // Does not wait until sessions that stand still have said goodbye.
        drop(store);
        let found = open().session(Acknowledge::Durable).unwrap().call(Operation::Account(1)).unwrap();
        assert_eq!(found, Outcome::Account(Some(Account::unlimited(1))));
    }
}

/// The same where the server is somebody else's and goes on: its sessions end once they look.
#[test]
fn a_server_of_others_that_stands_still_is_given_up() {
    let Some(given) = foreign_server::ForeignServer::start(&[]) else { return };
    for form in PostgresqlForm::ALL {
        let parameters = format!("form={}", form.word());
        let url = PostgresqlUrl::parse(&given.checked_url("owner", &parameters)).unwrap();
        let open = || PostgresqlStore::at(&url, Rules::default(), 4, Opening::OrCreate).unwrap();
        let store = open();
        let idle = store.session(Acknowledge::Durable).unwrap();
        let mut session = store.session(Acknowledge::Durable).unwrap();
        session.call(put(1)).unwrap();
        let of_owner = "SELECT pid::text FROM pg_stat_activity WHERE usename = 'owner'";
        // Two, and the one that holds the lock.
        let sessions = until(3, || given.root("sms", of_owner));
        send("-STOP", &sessions);
        give_up(&store, idle, session);
        drop(store);
        // As long as they stand they have the store: what they were told may still be done.
        if form == PostgresqlForm::Calls {
            let busy = PostgresqlStore::at(&url, Rules::default(), 4, Opening::OrCreate).err();
            send("-CONT", &sessions);
            assert!(matches!(busy, Some(StoreError::Busy { .. })), "{busy:?}");
        }
        // What happened: those of a process that was killed were waited for for 5 s, which one sync
        // of a busy disk took.
        std::thread::scope(|scope| {
            if form != PostgresqlForm::Calls {
                scope.spawn(|| {
                    std::thread::sleep(Duration::from_secs(6));
                    send("-CONT", &sessions);
                });
            }
            let found = open().session(Acknowledge::Durable).unwrap().call(Operation::Account(1)).unwrap();
            assert_eq!(found, Outcome::Account(Some(Account::unlimited(1))));
        });
        given.root("sms", "DROP SCHEMA smsc CASCADE");
    }
}

#[test]
fn mmdb_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
    let store = MmdbStore::open(dir.path(), &options, Rules::default()).unwrap();
    let mut session = store.session(Acknowledge::Durable).unwrap();
    session.call(put(1)).unwrap();
    session.submit(put(2)).unwrap();
    store.abandon();
    assert!(matches!(session.settle(&mut Vec::new()), Err(StoreError::Abandoned)));
    assert!(matches!(session.submit(put(3)), Err(StoreError::Abandoned)));
    assert!(matches!(store.session(Acknowledge::Durable).err(), Some(StoreError::Abandoned)));
}

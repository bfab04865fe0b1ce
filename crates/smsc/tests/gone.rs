//! A store whose files are deleted while it serves. The system takes what is written to them as
//! ever: messages were acknowledged, for ten seconds with mmdb and without end with SQLite and a
//! private cluster, that no start would have found; and records left the store for an archive that
//! was not there.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use smpp_client::{Client, Server, config, message};
use smsc::centre::{Operation, Rules};
use smsc::model::Account;
use smsc::smpp::{Command, HEADER_OCTETS, Status};
use smsc::store::{Acknowledge, PrivateCluster, SqliteStore, Store};
use std::path::Path;

fn start(dir: &Path, options: &[&str]) -> Server {
    std::fs::write(dir.join("smsc.toml"), config("")).unwrap();
    Server::start(dir, options)
}

/// A server that writes meanwhile makes new files.
fn delete(dir: &Path) {
    while dir.exists() {
        let _ = std::fs::remove_dir_all(dir);
    }
}

/// The status that a message gets; none where the session ends without an answer.
fn submit(client: &mut Client) -> Option<u32> {
    let mut octets = Vec::new();
    message("491700000001", b"x", 0).write(&mut octets, 0);
    client.send(Command::SubmitSm as u32, &octets[HEADER_OCTETS..]);
    std::iter::from_fn(|| client.next())
        .find(|(header, _)| header.command == Command::SubmitSmResp as u32)
        .map(|(header, _)| header.status)
}

/// Serves on an engine, deletes the store, and submits until the centre ends: how many messages it
/// has acknowledged meanwhile, and what it said.
fn deleted(engine: &str) -> (usize, String) {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--engine", engine, "--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    assert_eq!(submit(&mut client), Some(Status::Ok as u32));
    delete(&dir.path().join("store"));
    let acknowledged = std::iter::from_fn(|| submit(&mut client)).take_while(|&status| status == 0).count();
    drop(client);
    let (code, said) = server.wait();
    assert_eq!(code, Some(1), "{engine}: {said}");
    (acknowledged, said)
}

#[test]
fn nothing_is_acknowledged_into_files_that_were_deleted() {
    for engine in ["mmdb", "sqlite", "sqlite-naive"] {
        let (acknowledged, said) = deleted(engine);
        assert_eq!(acknowledged, 0, "{engine}: {said}");
        let words = ["was deleted", "was replaced or emptied"];
        assert!(words.iter().any(|words| said.contains(words)), "{engine}: {said}");
    }
}

#[test]
fn sqlite_misses_each_of_its_files() {
    for (grouped, name) in [(true, "smsc.db"), (true, "smsc.db-wal"), (false, "smsc.db-wal")] {
        let dir = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(dir.path(), grouped, Rules::default()).unwrap();
        let mut session = store.session(Acknowledge::Durable).unwrap();
        let put = |number| Operation::PutAccount(Box::new(Account::unlimited(number)));
        session.call(put(1)).unwrap();
        std::fs::remove_file(dir.path().join(name)).unwrap();
        let error = session.call(put(2)).unwrap_err().to_string();
        assert!(error.contains(&format!("{name} was deleted, moved or replaced")), "{error}");
    }
}

/// Their servers do not tell, so the centre looks five times a second.
#[test]
fn a_private_server_whose_directory_was_deleted_is_not_gone_on_with() {
    if let Err(error) = postgresql_server::find_programs(None) {
        println!("SKIP PostgreSQL: {error}");
    } else {
        let (_, said) = deleted("postgresql");
        // Or the server has missed a file before, or ended for want of one.
        let words = ["was deleted", "SQLSTATE 58P01", "SQLSTATE 08006"];
        assert!(words.iter().any(|words| said.contains(words)), "{said}");
    }
    if let Err(error) = PrivateCluster::is_possible() {
        println!("SKIP Redis: {error}");
    } else {
        let (_, said) = deleted("redis-cluster");
        assert!(said.contains("was deleted"), "{said}");
    }
}

#[test]
fn records_do_not_leave_the_store_for_an_archive_that_was_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    std::fs::remove_file(dir.path().join("store/archive.jsonl")).unwrap();
    assert_eq!(submit(&mut client), Some(Status::Ok as u32));
    let (code, said) = server.wait();
    assert!(code == Some(1) && said.contains("archive.jsonl was deleted"), "{code:?}: {said}");
    let server = start(dir.path(), &["--segment-mib", "1"]);
    let mut client = Client::bound(&server.address, "app", Command::BindTransmitter);
    client.send(Command::QuerySm as u32, b"1\0\x01\x014900\0");
    let (header, body) = client.next_of(Command::QuerySmResp);
    assert_eq!((header.status, body.starts_with(b"1\0")), (0, true));
}

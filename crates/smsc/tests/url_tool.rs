//! `smsc` with the URL of a server that is there already, as a user calls it.
#![allow(clippy::unwrap_used)]

mod foreign_server;
mod smpp_client;

use foreign_server::ForeignServer;
use smpp_client::{Client, Server, config, message};
use smsc::smpp::{Command as Smpp, Status};
use std::process::{Command, Output};

fn smsc(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smsc")).args(words).output().unwrap()
}

/// Code, and all that was said.
fn said(output: &Output) -> (Option<i32>, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn a_bench_begins_with_an_empty_store_and_leaves_none() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let url = given.checked_url("owner", "").replace(":secret@", "@");
    let dir = tempfile::tempdir().unwrap();
    let bench = |more: &[&str]| {
        let words = ["bench", "--store", &url, "--messages", "500", "--stations", "100", "--window", "16"];
        let output = Command::new(env!("CARGO_BIN_EXE_smsc"))
            .args(words.iter().chain(more))
            .current_dir(dir.path())
            .env("PGPASSWORD", "secret")
            .output()
            .unwrap();
        said(&output)
    };
    let schemas = || given.root("sms", "SELECT 1 FROM pg_namespace WHERE nspname = 'smsc'").len();
    let (code, text) = bench(&["--threads", "1,2", "--repeat", "2", "--receipts", "50"]);
    assert_eq!((code, text.matches("postgresql-batched").count()), (Some(0), 4), "{text}");
    assert_eq!(schemas(), 0);
    let (code, text) = bench(&["--threads", "2", "--json", "--side", "sender"]);
    assert!(code == Some(0) && text.contains("\"violations\":0") && !text.contains("secret"), "{text}");
    // Kept, and so in the way of the next.
    let (code, text) = bench(&["--threads", "2", "--keep"]);
    assert!(code == Some(0) && text.contains("kept: postgresql://owner@localhost"), "{text}");
    let count = || given.root("sms", "SELECT count(*)::text FROM smsc.message").pop().unwrap();
    let kept = count();
    let (code, text) = bench(&["--threads", "2"]);
    assert!(code == Some(2) && text.contains("--discard-messages"), "{text}");
    assert_eq!(count(), kept);
    let check = |more: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_smsc"))
            .args(["check", &url].iter().chain(more))
            .env("PGPASSWORD", "secret")
            .output()
            .unwrap();
        said(&output)
    };
    let (code, text) = check(&["--json"]);
    assert!(code == Some(0) && text.contains("\"holds\":true"), "{text}");
    let (code, text) = bench(&["--threads", "2,3", "--discard-messages"]);
    assert_eq!(code, Some(0), "{text}");
    // The store was there, and is there.
    assert_eq!((schemas(), count().as_str()), (1, "0"));
    // What a role has measured that may not empty tables was lost with the error.
    given.root(
        "sms",
        "GRANT USAGE ON SCHEMA smsc TO guest; GRANT USAGE ON ALL SEQUENCES IN SCHEMA smsc TO guest;
         GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA smsc TO guest",
    );
    let of_guest = url.replace("//owner@", "//guest@");
    let output = Command::new(env!("CARGO_BIN_EXE_smsc"))
        .args(["bench", "--store", &of_guest, "--messages", "50", "--stations", "10", "--threads", "1"])
        .current_dir(dir.path())
        .env("PGPASSWORD", "secret")
        .output()
        .unwrap();
    let (code, text) = said(&output);
    assert!(code == Some(1) && text.contains("left behind: postgresql://guest@localhost"), "{text}");
    assert!(text.contains("postgresql-batched ") && text.contains("permission denied"), "{text}");
    for (more, words) in [
        (&["--keep", "--threads", "1,2"][..], "one number of --threads"),
        (&["--streams", "2"], "--streams is an axis of mmdb"),
        (&["--early", "--store-x"], "unexpected argument"),
    ] {
        let (code, text) = bench(more);
        assert!(code == Some(2) && text.contains(words), "{text}");
    }
    let (code, text) = said(&smsc(&["bench", "--discard-messages"]));
    assert!(code == Some(2) && text.contains("leave it out"), "{text}");
    given.root("sms", "DROP SCHEMA smsc CASCADE");
    let (code, text) = check(&[]);
    assert!(code == Some(2) && text.contains("there is no store in the schema"), "{text}");
}

/// A password that is written where it should not be is in no message, and in no list of processes.
#[test]
fn a_password_is_shown_nowhere() {
    for (words, told) in [
        (&["bench", "--store", "postgresql://u:pa%zz@h/"][..], "password: a %"),
        (&["check", "postgresql://u:s3cr3t@h:1x/"], "port of host 1"),
        (&["check", "mysql://u:s3cr3t@h/"], "known are postgresql"),
        (&["bench", "--store", "postgresql://u:s3cr3t@127.0.0.1:1/?schma=x"], "no parameter \"schma\""),
        (&["bench", "--store", "postgresql://u:s3cr3t@127.0.0.1:1/"], "cannot be reached: 127.0.0.1:1"),
        (&["check", ".", "--store", "postgresql://u:s3cr3t@h/"], "in the place of the directory"),
    ] {
        let (code, text) = said(&smsc(words));
        assert!(code != Some(0) && text.contains(told), "{words:?}: {text}");
        assert!(!text.contains("s3cr3t") && !text.contains("pa%zz"), "{text}");
    }
    let Some(given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config("")).unwrap();
    let server = Server::start_at(dir.path(), &given.checked_url("owner", ""), &[]);
    let shown = std::fs::read(format!("/proc/{}/cmdline", server.pid())).unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    assert!(!shown.contains("secret") && shown.contains("postgresql://..."), "{shown}");
    assert!(server.said.contains("PGPASSWORD or ~/.pgpass keep it"), "{}", server.said);
    server.signal("-TERM");
    let (code, rest) = server.wait();
    assert_eq!(code, Some(0), "{rest}");
    assert!(!rest.contains("secret"), "{rest}");
}

/// The centre on a schema of a server: what was accepted is there after a kill, a second centre is
/// refused, a check looks at it meanwhile, and one whose server goes ends and says what to do.
#[test]
fn a_centre_serves_from_a_schema_of_a_server() {
    let Some(mut given) = ForeignServer::start(&[]) else { return };
    let dir = tempfile::tempdir().unwrap();
    let url = given.checked_url("owner", "");
    std::fs::write(dir.path().join("smsc.toml"), config(&format!("[store]\nurl = \"{url}\""))).unwrap();
    let server = Server::start_configured(dir.path(), &[]);
    assert!(server.said.contains("store: url=\"postgresql://owner@localhost"), "{}", server.said);
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransmitter);
    for at in 0..5 {
        client.submit(&message(&format!("49170{at:07}"), b"x", 1));
    }
    let (code, text) = said(&smsc(&["check", &url]));
    assert!(code == Some(0) && text.contains("ok, these hold"), "{text}");
    let (code, text) = said(&smsc(&["bench", "--store", &url, "--threads", "1"]));
    assert!(code == Some(1) && text.contains("another process has this store open"), "{text}");
    server.signal("-KILL");
    server.wait();
    let server = Server::start_configured(dir.path(), &[]);
    let mut client = Client::bound(&server.address, "app", Smpp::BindTransceiver);
    for _ in 0..5 {
        client.deliver(Status::Ok);
    }
    given.server.stop();
    let (code, text) = server.wait();
    assert!(code == Some(1) && text.contains("start again when the server is there"), "{text}");
    assert!(!text.contains("secret"), "{text}");
    given.server.run().unwrap();
    let server = Server::start_configured(dir.path(), &[]);
    drop(client);
    server.signal("-TERM");
    assert_eq!(server.wait().0, Some(0));
    let serve = |words: &[&str]| {
        let path = dir.path().join("smsc.toml").display().to_string();
        said(&smsc(&[&["serve", "--config", &path], words].concat()))
    };
    for (words, told) in [
        (&["--engine", "mmdb"][..], "the URL says what it is"),
        (&["--segment-mib", "1"], "leave it out"),
        (&["--store", "http://x/"], "known are postgresql"),
    ] {
        let (code, text) = serve(words);
        assert!(code == Some(2) && text.contains(told), "{text}");
    }
}

//! The log, and what strangers make of it.
//!
//! Every refused bind was a line: whoever guessed, or only came with a wrong name, wrote as much as
//! it liked onto the disk of the log, and what mattered was lost in between. A count of lost lines
//! was itself lost where it found no room, and a disk that was full left half a line, which the
//! next one continued. Now strangers have a few lines in ten seconds, and the others are counted.
#![allow(clippy::unwrap_used)]

mod free_ports;
mod smpp_client;

use free_ports::free_ports;
use smpp_client::{Client, Server, config, connect_from, message};
use smsc::smpp::{Command, Status};
use std::net::TcpStream;
use std::process::{Command as Process, Stdio};
use std::time::Duration;

#[test]
fn refused_strangers_have_few_lines_and_a_count() {
    let (_dir, mut server) = Server::new("");
    for number in 0..300_u16 {
        let [high, low] = number.to_be_bytes();
        let mut client = Client::of(connect_from([127, 3, high, low], &server.address));
        assert_eq!(client.bind("nobody", "x", Command::BindReceiver), Status::SystemId as u32);
    }
    // Whoever is known is logged all the same.
    drop(Client::bound(&server.address, "app", Command::BindReceiver));
    let (mut refused, mut left_out, mut bound) = (0, 0, 0);
    while refused + left_out < 300 {
        let line = server.line();
        assert!(!line.is_empty(), "the server goes on");
        refused += u64::from(line.starts_with("bind_refused: "));
        bound += u64::from(line.starts_with("bind: "));
        if let Some(count) = line.strip_prefix("strangers_left_out: count=") {
            left_out += count.trim().parse::<u64>().unwrap();
        }
    }
    assert!(refused + left_out == 300 && refused < 150 && bound == 1, "{refused} {left_out} {bound}");
}

/// Standard error on a full disk: the centre serves, and ends in order.
#[test]
fn a_log_on_a_full_disk_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let [port] = free_ports();
    let text = config("").replacen("127.0.0.1:0", &format!("127.0.0.1:{port}"), 1);
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = Process::new(env!("CARGO_BIN_EXE_smsc"));
    command.args(["serve", "--segment-mib", "1", "--config"]).arg(dir.path().join("smsc.toml"));
    command.arg("--store").arg(dir.path().join("store"));
    let mut server = command.stderr(Stdio::from(full)).spawn().unwrap();
    let address = format!("127.0.0.1:{port}");
    while TcpStream::connect(&address).is_err() {
        assert!(server.try_wait().unwrap().is_none(), "the server ended");
        std::thread::sleep(Duration::from_millis(20));
    }
    for _ in 0..5 {
        let refused = Client::connect(&address).bind("app", "wrong", Command::BindReceiver);
        assert_eq!(refused, Status::Password as u32);
    }
    // Five wrong ones: the right one waits for a second.
    std::thread::sleep(Duration::from_millis(1500));
    let mut client = Client::bound(&address, "app", Command::BindTransceiver);
    assert_eq!(client.submit(&message("491700000001", b"x", 1)).0, 0);
    assert_eq!(client.deliver(Status::Ok).esm_class, 4);
    let pid = server.id().to_string();
    assert!(Process::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

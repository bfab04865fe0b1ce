//! Two centres whose routes lead to each other.
//!
//! A message for a mobile that each took for the other's went to and fro, stored and synced at
//! every turn, until its validity ended: a day, if it said nothing. Now a centre knows a message
//! that it has sent on before, and refuses it; the application is told that it was rejected.
#![allow(clippy::unwrap_used)]

mod free_ports;
mod smpp_client;

use free_ports::free_ports;
use smpp_client::{Client, PASSWORD, Server, config, message, metric};
use smsc::smpp::{Command, Status};

#[test]
fn a_message_goes_round_once() {
    let ports = free_ports::<2>();
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let [first, second] = [0, 1].map(|at| {
        let text = config("").replacen("127.0.0.1:0", &format!("127.0.0.1:{}", ports[at]), 1);
        let peer = format!(
            "[[peer]]\nnumber = 1\nname = \"other\"\naddress = \"127.0.0.1:{}\"\nsystem_id = \"other\"\n\
             password = \"{PASSWORD}\"\nreconnect_s = 0.1\nreconnect_max_s = 0.2\n\
             [[route]]\nto = \"other\"\n",
            ports[1 - at]
        );
        std::fs::write(dirs[at].path().join("smsc.toml"), text + &peer).unwrap();
        Server::start(dirs[at].path(), &["--segment-mib", "1"])
    });
    let mut client = Client::bound(&first.address, "app", Command::BindTransceiver);
    for _ in 0..3 {
        let (status, id) = client.submit(&message("491700000001", b"x", 1));
        assert_eq!(status, 0);
        let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
        assert!(receipt.starts_with(&format!("id:{id} ")) && receipt.contains("stat:REJECTD"), "{receipt}");
    }
    assert_eq!(metric(&first.http, "smsc_loops_total"), 3);
    let accepted = [&first, &second].map(|server| metric(&server.http, "smsc_accepted_total"));
    assert_eq!(accepted, [3, 3]);
}

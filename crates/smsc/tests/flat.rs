//! Memory and descriptors stay flat while clients come and go: by SMPP, with and without a word,
//! refused, half a PDU; by HTTP, with a token, a wrong one, half a request; and an operator who
//! looks. Forty seconds; `SMSC_FLAT_SECONDS` says otherwise, and FATHOM_LONG=1 is half an hour. With
//! `--nocapture` it tells both once a minute.
#![allow(clippy::unwrap_used)]

mod http_client;
mod smpp_client;

use http_client::{JSON, ask, basic};
use smpp_client::{Client, FOREVER, PASSWORD, Server, config, message};
use smsc::serve::{hash_token, new_token};
use smsc::smpp::{Command, Status};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Resident KiB and open descriptors of a process.
fn size_of(pid: u32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    (line.split_whitespace().next().unwrap().parse().unwrap(), descriptors)
}

#[test]
fn memory_and_descriptors_stay_flat_while_clients_come_and_go() {
    let long = std::env::var_os("FATHOM_LONG").is_some();
    let seconds: u64 = std::env::var("SMSC_FLAT_SECONDS")
        .ok()
        .and_then(|seconds| seconds.parse().ok())
        .unwrap_or(if long { 1800 } else { 40 });
    let dir = tempfile::tempdir().unwrap();
    let token = new_token().unwrap();
    let sections = format!(
        "[api]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\ntoken = \"{}\"\n[archive]\nrotate_mib = 1\n",
        hash_token(&token)
    );
    std::fs::write(dir.path().join("smsc.toml"), config(&sections).replace("sessions = 3", "sessions = 100"))
        .unwrap();
    let server = Server::start(dir.path(), &["--segment-mib", "1"]);
    // Who was right before goes on behind what strangers at the same address guess.
    for system_id in ["app", "other"] {
        drop(Client::bound(&server.address, system_id, Command::BindTransceiver));
    }
    let (ends, rounds, accepted) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let begin = Instant::now();
    let mut sizes = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Comes, submits, takes its receipts, goes: with unbind, or without a word.
            while !ends.load(Relaxed) {
                let round = rounds.fetch_add(1, Relaxed);
                let mut client = Client::bound(&server.address, "app", Command::BindTransceiver);
                for number in 0..20 {
                    let to = format!("49170{:06}", (round * 20 + number) % 5000);
                    assert_eq!(client.submit(&message(&to, b"hello", 1)).0, 0);
                    accepted.fetch_add(1, Relaxed);
                }
                (0..20).for_each(|_| drop(client.deliver(Status::Ok)));
                if round % 2 == 0 {
                    client.send(Command::Unbind as u32, b"");
                    client.next_of(Command::UnbindResp);
                }
            }
        });
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                // Refused: soon it waits for each answer.
                let mut stranger = Client::connect(&server.address);
                stranger.bind("nobody", "wrong", Command::BindReceiver);
            }
        });
        scope.spawn(|| {
            while !ends.load(Relaxed) {
                // Silent, in the middle of a PDU.
                let mut half = TcpStream::connect(&server.address).unwrap();
                half.write_all(&[0, 0, 0, 40, 0]).unwrap();
                drop(TcpStream::connect(&server.address).unwrap());
                let mut half = TcpStream::connect(&server.api).unwrap();
                half.write_all(b"POST /v1/messages HTTP/1.1\r\nCont").unwrap();
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        scope.spawn(|| {
            let authorization = basic("other", PASSWORD);
            let admin = format!("Bearer {token}");
            let mut number = 0;
            while !ends.load(Relaxed) {
                number += 1;
                let body =
                    format!("{{\"to\":\"49171{:06}\",\"from\":\"1\",\"text\":\"hello\"}}", number % 5000);
                let headers = [JSON, ("Authorization", authorization.as_str())];
                let answer = ask(&server.api, "POST", "/v1/messages", &headers, &body);
                assert_eq!(answer.status, 202, "{answer:?}");
                accepted.fetch_add(1, Relaxed);
                let state = ask(&server.admin, "GET", "/api/state", &[("Authorization", &admin)], "");
                assert_eq!(state.status, 200);
                assert_eq!(ask(&server.http, "GET", "/metrics", &[], "").status, 200);
                if number % 50 == 0 {
                    let _ =
                        ask(&server.api, "GET", "/v1/messages/1", &[("Authorization", "Bearer wrong")], "");
                }
            }
        });
        // A panic of a client ends the test only if the others end, too.
        // Once a minute, and twenty times at least.
        let samples = (seconds / 60).max(20);
        let each = Duration::from_secs_f64(seconds as f64 / samples as f64);
        for _ in 0..samples {
            std::thread::sleep(each);
            let (kib, descriptors) = size_of(server.pid());
            println!("{:5.0} s {kib:8} KiB {descriptors:5} descriptors", begin.elapsed().as_secs_f64());
            sizes.push((kib, descriptors));
        }
        // A busy disk may need longer for what is to have been done at least.
        let is_enough = || rounds.load(Relaxed) > seconds / 4 && accepted.load(Relaxed) > seconds * 5;
        while !is_enough() && begin.elapsed() < Duration::from_secs(seconds + 600) {
            std::thread::sleep(Duration::from_millis(100));
        }
        ends.store(true, Relaxed);
    });
    let (rounds, accepted) = (rounds.load(Relaxed), accepted.load(Relaxed));
    println!("{rounds} sessions, {accepted} messages in {:.0} s", begin.elapsed().as_secs_f64());
    assert!(rounds > seconds / 4 && accepted > seconds * 5, "{rounds} {accepted}");
    // The first third is for caches and pools to fill, and for stations to become known.
    let largest =
        |part: &[(u64, usize)]| part.iter().fold((0, 0), |max, size| (size.0.max(max.0), size.1.max(max.1)));
    let (first, second) = (sizes.len() * 3 / 10, sizes.len() * 13 / 20);
    let (early, late) = (largest(&sizes[first..second]), largest(&sizes[second..]));
    assert!(late.0 as f64 <= early.0 as f64 * 1.1 + 4096.0, "memory grows: {sizes:?}");
    assert!(late.1 <= early.1 + 20, "descriptors grow: {sizes:?}");
    // Once all have gone, nothing of them is left.
    std::thread::sleep(Duration::from_secs(1));
    let idle = size_of(server.pid());
    // Longer than any limit that a silent connection has, and as long as a busy machine may take.
    let begin = Instant::now();
    loop {
        let after = size_of(server.pid());
        if after.1 <= idle.1 && after.1 < 100 {
            break;
        }
        assert!(begin.elapsed() < FOREVER, "{idle:?} {after:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

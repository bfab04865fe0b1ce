//! The example for NATS JetStream, run against a server of its own: JetStream decides who is the
//! primary, and nothing is lost that it had.
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "../examples/nats.rs"]
mod example;

use mmdb::{ColumnType, Database, Options, Schema, Standby};
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Server(Child, PathBuf);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

/// Whether a server is there, which speaks first. A port that nobody has may connect to itself.
fn speaks(address: &str) -> bool {
    let Ok(mut stream) = TcpStream::connect(address) else { return false };
    let mut word = [0; 4];
    stream.set_read_timeout(Some(Duration::from_secs(5))).is_ok()
        && stream.read_exact(&mut word).is_ok()
        && word == *b"INFO"
}

/// A server with JetStream, and its address; `None` where there is none installed.
fn server() -> Option<(Server, String)> {
    let dir = std::env::temp_dir().join(format!("mmdb-nats-test-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    // Debian has it in /usr/sbin, which is not on everybody's path.
    let programs = ["nats-server", "/usr/sbin/nats-server"];
    // A port that is free now may be taken by then: another one is tried.
    for _ in 0..10 {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("127.0.0.1:{port}");
        let started = programs.iter().find_map(|program| {
            let mut command = Command::new(program);
            command.args(["-js", "-a", "127.0.0.1", "-p", &port.to_string(), "-sd"]).arg(&dir);
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
        });
        let mut server = Server(started?, dir.clone());
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(60) && server.0.try_wait().unwrap().is_none() {
            if speaks(&address) {
                return Some((server, address));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    panic!("nats-server does not start");
}

#[test]
fn jetstream_fences_a_deposed_primary_and_nothing_is_lost() {
    let Some((server, address)) = server() else {
        println!("SKIP: nats-server is not installed;  sudo apt-get install nats-server");
        return;
    };
    let dir = server.1.join("databases");
    let (acknowledged, found, end) = example::run(&dir, &address).unwrap();
    assert!(acknowledged > 0 && found >= acknowledged, "{found} found, {acknowledged} acknowledged");
    assert!(end.contains("deposed: this was the primary of epoch 1, and there is one of epoch 2"), "{end}");
    a_primary_that_was_closed_meanwhile_publishes_nothing(&server.1.join("closed"), &address);
}

/// A primary that was killed and opened again asked for the stream's last message only. That was
/// the claim of its successor: it published behind it, and acknowledged what nobody could apply.
fn a_primary_that_was_closed_meanwhile_publishes_nothing(dir: &Path, address: &str) {
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    let primary = dir.join("primary");
    let db = Database::open(&primary, options.clone()).unwrap();
    let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    db.backup_for_standby(dir.join("standby")).unwrap();
    let standby = Standby::open(dir.join("standby"), options.clone()).unwrap();
    let seed = standby.position();
    assert_eq!(example::resume(&db, seed, address, "closed").unwrap(), (seed, 0));
    db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
    let mut tail = db.tail(&seed).unwrap();
    let frames = tail.try_next().unwrap().unwrap();
    let mut nats = example::Nats::connect(address).unwrap();
    let last = nats.publish("closed", 0, frames.as_bytes()).unwrap().unwrap();
    drop((tail, t, db));
    // Nobody has taken over: it goes on behind what it had published.
    let db = Database::open(&primary, options.clone()).unwrap();
    assert_eq!(example::resume(&db, seed, address, "closed").unwrap(), (frames.end(), last));
    drop(db);
    let follower = example::Follower::new(address, "closed").unwrap();
    let (new, _) = follower.take_over(standby, address).unwrap();
    assert_eq!(new.begin().unwrap().scan(&new.table("t").unwrap()).unwrap().count(), 1);
    let db = Database::open(&primary, options.clone()).unwrap();
    let refused = example::resume(&db, seed, address, "closed").unwrap_err().to_string();
    assert_eq!(refused, "deposed by epoch 2");
    drop(db);
    let refused = Database::open(&primary, options).unwrap_err().to_string();
    assert!(refused.contains("deposed by the primary of epoch 2"), "{refused}");
}

//! A standby over a socket: frames one way, positions the other.
//!
//! mmdb has no network. What it asks of one is here: the standby says where it stands, the primary
//! opens a tail there and sends what it gives, the standby applies each batch and answers with its
//! position, which the primary counts as an acknowledgement. A connection that breaks is made
//! again, and goes on from the position of then.
//!
//! There is neither encryption nor authentication: use a network that has them.
//!
//! `cargo run -p mmdb --example standby` shows a fail-over in one process, and with arguments
//! the two sides in two:
//!
//! ```text
//! standby primary DIR ADDRESS [SEED]    opens DIR, makes a copy for a standby at SEED, counts, and
//!                                       prints each count that is durable on a standby, too
//! standby follow DIR ADDRESS            opens the standby DIR and follows the primary at ADDRESS
//! ```

use mmdb::{ColumnType, Database, Durability, Error, Frames, Options, Position, Schema, Standby, Table};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// No message is longer, bytes: a length that was damaged must not cost memory.
const LONGEST: u32 = 1 << 30;

fn send(to: &mut impl Write, message: &[u8]) -> io::Result<()> {
    to.write_all(&(message.len() as u32).to_le_bytes())?;
    to.write_all(message)?;
    to.flush()
}

fn receive(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut len = [0; 4];
    from.read_exact(&mut len)?;
    let len = u32::from_le_bytes(len);
    if len > LONGEST {
        return Err(io::Error::other(format!("a message of {len} bytes is none")));
    }
    let mut message = vec![0; len as usize];
    from.read_exact(&mut message)?;
    Ok(message)
}

/// The primary's side of one connection: returns when it breaks, or the database is deposed.
fn serve_one(db: &Database, mut socket: TcpStream) -> Done<()> {
    socket.set_nodelay(true)?;
    let name = String::from_utf8(receive(&mut socket)?)?;
    let mut tail = db.tail(&Position::from_bytes(&receive(&mut socket)?)?)?;
    let mut answers = socket.try_clone()?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> Done<()> {
            let done = (|| {
                loop {
                    db.acknowledge(&name, &Position::from_bytes(&receive(&mut answers)?)?)?;
                }
            })();
            is_over.store(true, Ordering::Release);
            done
        });
        let done = (|| {
            while !is_over.load(Ordering::Acquire) {
                if let Some(frames) = tail.next_within(Duration::from_millis(200))? {
                    send(&mut socket, frames.as_bytes())?;
                }
            }
            Ok(())
        })();
        // Whoever reads answers comes to an end with the connection.
        let _ = socket.shutdown(Shutdown::Both);
        reader.join().unwrap_or(Ok(())).and(done)
    })
}

/// The primary's side: serves standbys until `stop`.
pub fn serve(db: &Database, listener: &TcpListener, stop: &AtomicBool) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    std::thread::scope(|scope| {
        while !stop.load(Ordering::Acquire) {
            match listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(false)?;
                    scope.spawn(move || {
                        if let Err(e) = serve_one(db, socket) {
                            eprintln!("a standby has gone: {e}");
                        }
                    });
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(())
    })
}

/// The standby's side of one connection: applies what comes until it breaks, or `seen` says that it
/// is enough.
pub fn follow(
    standby: &Standby,
    name: &str,
    mut socket: TcpStream,
    mut seen: impl FnMut(&Position) -> bool,
) -> Done<()> {
    socket.set_nodelay(true)?;
    send(&mut socket, name.as_bytes())?;
    send(&mut socket, &standby.position().to_bytes())?;
    loop {
        let position = standby.apply(&Frames::from_bytes(receive(&mut socket)?)?)?;
        send(&mut socket, &position.to_bytes())?;
        if seen(&position) {
            return Ok(());
        }
    }
}

/// The table of the demonstration.
pub fn counters(db: &Database) -> Result<Table, Error> {
    let schema = Schema::new("counter").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    db.create_table_if_missing(schema.primary_key(&["id"]))
}

/// Counts one further, and returns the number once a standby has it.
pub fn count(db: &Database, t: &Table, id: i64) -> Result<i64, Error> {
    let (n, ticket) = db.run_with(Durability::Durable, |tx| {
        let n = tx.get(t, &[id.into()])?.and_then(|row| row.at(1).as_int()).unwrap_or(0) + 1;
        tx.upsert(t, &[id.into(), n.into()])?;
        Ok::<_, Error>(n)
    })?;
    ticket.wait_standbys(1, Duration::from_secs(60))?;
    Ok(n)
}

/// A primary by itself: serves standbys at `address`, prints where, and counts until it is ended.
pub fn primary(db: &Database, listener: &TcpListener, threads: i64) -> Done<()> {
    let (t, stop) = (counters(db)?, AtomicBool::new(false));
    println!("listening {}", listener.local_addr()?);
    std::thread::scope(|scope| {
        let server = scope.spawn(|| serve(db, listener, &stop));
        for id in 0..threads {
            let t = &t;
            scope.spawn(move || {
                while let Ok(n) = count(db, t, id) {
                    let mut out = io::stdout().lock();
                    if writeln!(out, "ack {id} {n}").and_then(|()| out.flush()).is_err() {
                        return;
                    }
                }
            });
        }
        Ok(server.join().unwrap_or(Ok(()))?)
    })
}

/// A fail-over, in one process: what it says of itself.
pub fn run(dir: &Path) -> Done<String> {
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    let (seed, standby_dir) = (dir.join("seed"), dir.join("standby"));
    let db = Database::open(dir.join("primary"), options.clone())?;
    let t = counters(&db)?;
    db.backup_for_standby(&seed)?;
    // To another machine the directory would be copied.
    std::fs::rename(&seed, &standby_dir)?;
    let standby = Standby::open(&standby_dir, options.clone())?;

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let (address, stop) = (listener.local_addr()?, AtomicBool::new(false));
    let counted = std::thread::scope(|scope| -> Done<i64> {
        scope.spawn(|| serve(&db, &listener, &stop));
        let follower =
            scope.spawn(|| follow(&standby, "one", TcpStream::connect(address)?, |p| p.gsn() >= 100));
        let counted = (0..100).try_fold(0, |_, _| count(&db, &t, 1));
        stop.store(true, Ordering::Release);
        follower.join().unwrap_or(Ok(()))?;
        Ok(counted?)
    })?;

    // The primary is thought to be gone. It is not, but it can do no harm: what waits for a standby
    // there is not acknowledged, and it hears of its successor as soon as anybody tells.
    let new = standby.promote(2)?;
    let n = new.begin()?.get(&new.table("counter")?, &[1.into()])?.and_then(|row| row.at(1).as_int());
    let told = db.acknowledge("one", &new.position()?);
    let deposed = told.err().map_or_else(|| "not deposed".to_owned(), |e| e.to_string());
    Ok(format!("counted to {counted}, found {} after the fail-over\n{deposed}", n.unwrap_or(0)))
}

fn main() -> Done<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        [] => {
            let dir = std::env::temp_dir().join(format!("mmdb-standby-{}", std::process::id()));
            let done = run(&dir);
            std::fs::remove_dir_all(&dir)?;
            println!("{}", done?);
            Ok(())
        }
        ["primary", dir, address] | ["primary", dir, address, _] => {
            let db = Database::open(dir, Options::default())?;
            counters(&db)?;
            if let Some(seed) = args.get(3) {
                db.backup_for_standby(seed)?;
            }
            primary(&db, &TcpListener::bind(address)?, 4)
        }
        ["follow", dir, address] => {
            let standby = Standby::open(dir, Options::default())?;
            loop {
                let connected = TcpStream::connect(address).map_err(Into::into);
                let gone = connected.and_then(|socket| follow(&standby, dir, socket, |_| false));
                eprintln!(
                    "at {}: {}",
                    standby.position(),
                    gone.err().map_or_else(String::new, |e| e.to_string())
                );
                std::thread::sleep(Duration::from_millis(500));
            }
        }
        _ => Err("usage: standby | standby primary DIR ADDRESS [SEED] | standby follow DIR ADDRESS".into()),
    }
}

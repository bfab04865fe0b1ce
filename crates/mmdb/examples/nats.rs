//! Frames over NATS JetStream: any number of standbys, and a fail-over that JetStream decides.
//!
//! JetStream keeps the frames in one stream and numbers them. Whoever publishes says which number
//! is the last one (`Nats-Expected-Last-Sequence`), and is refused if it is not: so of two primaries
//! one is. A standby that is to take over
//!
//! 1. reads all that the stream has, up to message `n`;
//! 2. publishes a claim, expecting `n` to be the last one. If that is refused, somebody has
//!    published meanwhile: again from 1. If it is not, the primary of before cannot publish any
//!    more: it hears "wrong last sequence", looks at who claimed, and deposes itself;
//! 3. applies what it has read, is promoted, and publishes its own frames behind the claim.
//!
//! A primary that was closed meanwhile, or killed, knows nothing of that. So whoever opens one
//! reads the stream first (`resume`): the number of its last message alone would let it publish
//! behind the claim.
//!
//! A commit is acknowledged once JetStream has its frame ([`mmdb::Ticket::wait_standbys`] of the
//! standby called `jetstream`), and whoever takes over has applied all that JetStream has. How
//! durable that is, is JetStream's matter: a server writes to its disk, but syncs it every two
//! minutes unless `sync_interval` says otherwise; a cluster of three keeps three copies.
//!
//! The protocol is text over TCP, and little of it is needed. There is no TLS and no
//! authentication here. A message has at most 1 MiB (`max_payload`): a transaction of more cannot
//! be sent.
//!
//! `nats-server -js` and then `cargo run -p mmdb --example nats` (it asks 127.0.0.1:4222, or what it
//! is given).

use mmdb::{ColumnType, Database, Durability, Error, Frames, Options, Position, Schema, Standby, Table};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

type Done<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Messages of one batch of frames stay below the server's limit.
const BATCH: usize = 256 << 10;
/// JetStream's code for a publisher that expected another last message.
const WRONG_LAST_SEQUENCE: &str = "\"err_code\":10071";
const CLAIM: &str = "claim ";
/// How long an answer of the server is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to a NATS server.
pub struct Nats {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    inbox: String,
    subscriptions: u32,
}

/// A message that came.
pub struct Message {
    /// Where an answer goes; JetStream tells the message's number here.
    pub reply: String,
    /// Its bytes.
    pub payload: Vec<u8>,
}

/// The number behind `"key":` in JSON as the server writes it.
fn number(json: &str, key: &str) -> Option<u64> {
    let from = json.split_once(&format!("\"{key}\":"))?.1;
    from.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Nats {
    /// Connects, and subscribes to an inbox of its own for answers.
    pub fn connect(address: &str) -> Done<Nats> {
        let help = "start one with  nats-server -js,  or name another as HOST:PORT";
        let writer = TcpStream::connect(address)
            .map_err(|e| format!("no NATS server answers at {address}: {e}; {help}"))?;
        writer.set_nodelay(true)?;
        let reader = BufReader::new(writer.try_clone()?);
        let port = writer.local_addr()?.port();
        let inbox = format!("_INBOX.mmdb.{}.{port}", std::process::id());
        let mut nats = Nats { reader, writer, inbox, subscriptions: 0 };
        let connect = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\"name\":\"mmdb\"}\r\n";
        nats.writer.write_all(connect.as_bytes())?;
        let inbox = nats.inbox.clone();
        nats.subscribe(&inbox)?;
        Ok(nats)
    }

    fn subscribe(&mut self, subject: &str) -> io::Result<()> {
        self.subscriptions += 1;
        write!(self.writer, "SUB {subject} {}\r\n", self.subscriptions)
    }

    /// The next message; `None` if none comes in time.
    pub fn receive(&mut self, at_most: Duration) -> Done<Option<Message>> {
        loop {
            self.reader.get_ref().set_read_timeout(Some(at_most.max(Duration::from_millis(1))))?;
            // A line is waited for; what follows it comes at once.
            match self.reader.fill_buf() {
                Ok([]) => return Err("the server has closed the connection".into()),
                Ok(_) => {}
                Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    return Ok(None);
                }
                Err(e) => return Err(e.into()),
            }
            self.reader.get_ref().set_read_timeout(Some(PATIENCE))?;
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let words: Vec<&str> = line.split_whitespace().collect();
            let (head, sizes) = match words[..] {
                ["PING"] => {
                    self.writer.write_all(b"PONG\r\n")?;
                    continue;
                }
                ["-ERR", ..] => return Err(format!("the server says {}", line.trim_end()).into()),
                ["MSG", _, _, size] => (String::new(), (0, size.parse()?)),
                ["MSG", _, _, reply, size] => (reply.to_owned(), (0, size.parse()?)),
                ["HMSG", _, _, head, size] => (String::new(), (head.parse()?, size.parse()?)),
                ["HMSG", _, _, reply, head, size] => (reply.to_owned(), (head.parse()?, size.parse()?)),
                // INFO, +OK, PONG.
                _ => continue,
            };
            let (headers, size): (usize, usize) = sizes;
            let mut payload = vec![0; size + 2];
            self.reader.read_exact(&mut payload)?;
            payload.truncate(size);
            payload.drain(..headers.min(size));
            return Ok(Some(Message { reply: head, payload }));
        }
    }

    /// Asks JetStream, and gives its answer, JSON.
    fn ask(&mut self, subject: &str, body: &str) -> Done<String> {
        write!(self.writer, "PUB {subject} {} {}\r\n{body}\r\n", self.inbox, body.len())?;
        let answer = self.receive(PATIENCE)?.ok_or("JetStream does not answer: is it on (-js)?")?;
        Ok(String::from_utf8_lossy(&answer.payload).into_owned())
    }

    /// Makes the stream `name` if it is not there.
    pub fn stream(&mut self, name: &str) -> Done<()> {
        let body = format!(
            "{{\"name\":\"{name}\",\"subjects\":[\"{name}.frames\"],\"retention\":\"limits\",\"storage\":\"file\",\
             \"discard\":\"new\",\"max_consumers\":-1,\"max_msgs\":-1,\"max_bytes\":-1,\"max_age\":0,\"num_replicas\":1}}"
        );
        let made = self.ask(&format!("$JS.API.STREAM.CREATE.{name}"), &body)?;
        if made.contains("\"error\"") {
            return Err(format!("the stream {name} cannot be made: {made}").into());
        }
        Ok(())
    }

    /// The number of the last message of a stream.
    fn last(&mut self, name: &str) -> Done<u64> {
        let info = self.ask(&format!("$JS.API.STREAM.INFO.{name}"), "")?;
        number(&info, "last_seq")
            .ok_or_else(|| format!("the stream {name} says nothing of itself: {info}").into())
    }

    /// Publishes behind message `last`; `None` if that is not the last one.
    pub fn publish(&mut self, name: &str, last: u64, payload: &[u8]) -> Done<Option<u64>> {
        let headers = format!("NATS/1.0\r\nNats-Expected-Last-Sequence: {last}\r\n\r\n");
        let (n, all) = (headers.len(), headers.len() + payload.len());
        write!(self.writer, "HPUB {name}.frames {} {n} {all}\r\n{headers}", self.inbox)?;
        self.writer.write_all(payload)?;
        self.writer.write_all(b"\r\n")?;
        let answer = self.receive(PATIENCE)?.ok_or("JetStream does not answer")?;
        let answer = String::from_utf8_lossy(&answer.payload);
        if answer.contains(WRONG_LAST_SEQUENCE) {
            return Ok(None);
        }
        match number(&answer, "seq") {
            Some(seq) if !answer.contains("\"error\"") => Ok(Some(seq)),
            _ => Err(format!("JetStream refuses the frames: {answer}").into()),
        }
    }

    /// From now on the stream's messages come here, from number `from` on.
    pub fn consume(&mut self, name: &str, from: u64) -> Done<()> {
        let deliver = format!("{}.deliver", self.inbox);
        let body = format!(
            "{{\"stream_name\":\"{name}\",\"config\":{{\"deliver_subject\":\"{deliver}\",\
             \"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":{from},\"ack_policy\":\"none\"}}}}"
        );
        let made = self.ask(&format!("$JS.API.CONSUMER.CREATE.{name}"), &body)?;
        if made.contains("\"error\"") {
            return Err(format!("the stream {name} cannot be read: {made}").into());
        }
        // Messages wait at the server until somebody listens.
        Ok(self.subscribe(&deliver)?)
    }
}

/// The number that JetStream gave a message: the stream's, in the subject of its answer.
fn sequence(message: &Message) -> Option<u64> {
    message.reply.strip_prefix("$JS.ACK.")?.split('.').nth(3)?.parse().ok()
}

/// Where a primary goes on that was just opened: what it has published by now, `seed` if that is
/// nothing, and the last message. Deposes it if somebody has taken over since. Who takes over after
/// this look publishes behind that message, and `publish` hears of it.
pub fn resume(db: &Database, seed: Position, address: &str, name: &str) -> Done<(Position, u64)> {
    let mut nats = Nats::connect(address)?;
    nats.stream(name)?;
    let last = nats.last(name)?;
    let (mut from, mut seen) = (seed, 0);
    if last > 0 {
        nats.consume(name, 1)?;
    }
    while seen < last {
        let message = nats.receive(PATIENCE)?.ok_or("the messages of the stream do not come")?;
        seen = sequence(&message).ok_or("a message without a number")?;
        let epoch = match Claim::read(&message.payload) {
            Some(claim) => claim.0,
            None => {
                let frames = Frames::from_bytes(message.payload)?;
                from = frames.end();
                frames.epoch()
            }
        };
        if epoch > db.position()?.epoch() {
            db.depose(epoch)?;
            return Err(format!("deposed by epoch {epoch}").into());
        }
    }
    Ok((from, last))
}

/// Publishes what the database makes durable, until `stop`, behind message `last`, as `resume` told
/// it. Deposes it if somebody else has published.
pub fn publish(
    db: &Database,
    from: &Position,
    address: &str,
    name: &str,
    mut last: u64,
    stop: &AtomicBool,
) -> Done<()> {
    let mut nats = Nats::connect(address)?;
    let mut tail = db.tail(from)?.batch_bytes(BATCH);
    while !stop.load(Ordering::Acquire) {
        let Some(frames) = tail.next_within(Duration::from_millis(50))? else { continue };
        let Some(seq) = nats.publish(name, last, frames.as_bytes())? else {
            let by = successor(address, name, last)?;
            db.depose(by)?;
            return Err(format!("deposed by epoch {by}").into());
        };
        last = seq;
        db.acknowledge("jetstream", &frames.end())?;
    }
    Ok(())
}

/// The epoch of who has published behind message `last`.
fn successor(address: &str, name: &str, last: u64) -> Done<u64> {
    let mut nats = Nats::connect(address)?;
    nats.consume(name, last + 1)?;
    let message = nats.receive(PATIENCE)?.ok_or("whoever has published is not seen")?;
    Ok(match Claim::read(&message.payload) {
        Some(claim) => claim.0,
        None => Frames::from_bytes(message.payload)?.epoch(),
    })
}

/// What a standby says before it is promoted to this epoch.
struct Claim(u64);

impl Claim {
    fn read(payload: &[u8]) -> Option<Claim> {
        std::str::from_utf8(payload).ok()?.strip_prefix(CLAIM)?.parse().ok().map(Claim)
    }
}

/// A standby that follows a stream.
pub struct Follower {
    nats: Nats,
    name: String,
    /// The last message that was applied.
    pub last: u64,
}

impl Follower {
    /// Reads the stream from its beginning: what the standby has is passed over.
    pub fn new(address: &str, name: &str) -> Done<Follower> {
        let mut nats = Nats::connect(address)?;
        nats.stream(name)?;
        nats.consume(name, 1)?;
        Ok(Follower { nats, name: name.to_owned(), last: 0 })
    }

    /// Applies the next message, if one comes in time. While a primary goes on there is no end of
    /// them.
    pub fn apply_next(&mut self, standby: &Standby, at_most: Duration) -> Done<()> {
        self.nats.receive(at_most)?.map_or(Ok(()), |message| self.apply_one(standby, message))
    }

    fn apply_one(&mut self, standby: &Standby, message: Message) -> Done<()> {
        let seq = sequence(&message).ok_or("a message without a number")?;
        match Claim::read(&message.payload) {
            // Nothing of an epoch below comes behind it.
            Some(claim) => match standby.fence(claim.0) {
                Ok(_) | Err(Error::FramesOutdated { .. }) => {}
                Err(e) => return Err(e.into()),
            },
            None => {
                let (frames, position) = (Frames::from_bytes(message.payload)?, standby.position());
                // The stream begins with what was before this standby's epoch.
                if frames.epoch() >= position.epoch() || frames.last_gsn() > position.gsn() {
                    standby.apply(&frames)?;
                }
            }
        }
        self.last = seq;
        Ok(())
    }

    /// Takes over: the primary of before cannot publish behind this. The database, and the message
    /// to publish behind.
    pub fn take_over(mut self, standby: Standby, address: &str) -> Done<(Database, u64)> {
        let mut nats = Nats::connect(address)?;
        loop {
            // While the primary of before goes on, its next message is a race. So what has come is
            // applied after the claim, which says that it is all there is.
            let message = self.nats.receive(Duration::from_millis(1))?;
            let is_claim = message.as_ref().is_some_and(|m| Claim::read(&m.payload).is_some());
            let last = message.as_ref().and_then(sequence).unwrap_or(self.last);
            let epoch = standby.position().fenced() + 1;
            let claim = format!("{CLAIM}{epoch}");
            let claimed = if is_claim { None } else { nats.publish(&self.name, last, claim.as_bytes())? };
            if let Some(message) = message {
                self.apply_one(&standby, message)?;
            }
            if let Some(seq) = claimed {
                return Ok((standby.promote(epoch)?, seq));
            }
        }
    }
}

/// The table of the demonstration.
fn counters(db: &Database) -> Result<Table, Error> {
    let schema = Schema::new("counter").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    db.create_table_if_missing(schema.primary_key(&["id"]))
}

/// Counts one further, and returns the number once JetStream has it.
fn count(db: &Database, t: &Table) -> Result<i64, Error> {
    let (n, ticket) = db.run_with(Durability::Durable, |tx| {
        let n = tx.get(t, &[1.into()])?.and_then(|row| row.at(1).as_int()).unwrap_or(0) + 1;
        tx.upsert(t, &[1.into(), n.into()])?;
        Ok::<_, Error>(n)
    })?;
    ticket.wait_standbys(1, Duration::from_secs(60))?;
    Ok(n)
}

/// A fail-over while the primary counts: what it had acknowledged, what its successor found, and
/// how the primary ended.
pub fn run(dir: &Path, address: &str) -> Done<(i64, i64, String)> {
    let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    // Each run has a stream of its own.
    let name = format!("mmdb-{}", std::process::id());
    let db = Database::open(dir.join("primary"), options.clone())?;
    let t = counters(&db)?;
    db.backup_for_standby(dir.join("standby"))?;
    let standby = Standby::open(dir.join("standby"), options)?;
    let stop = AtomicBool::new(false);
    let (from, last) = resume(&db, standby.position(), address, &name)?;
    let mut follower = Follower::new(address, &name)?;
    std::thread::scope(|scope| {
        let publisher = scope.spawn(|| publish(&db, &from, address, &name, last, &stop));
        let counter = scope.spawn(|| {
            let mut acknowledged = 0;
            loop {
                match count(&db, &t) {
                    Ok(n) => acknowledged = n,
                    Err(e) => return (acknowledged, e.to_string()),
                }
            }
        });
        let taken = (|| {
            while standby.position().gsn() < 20 {
                follower.apply_next(&standby, Duration::from_millis(20))?;
                if publisher.is_finished() {
                    return Err("the primary publishes nothing any more".into());
                }
            }
            // Nobody has told the primary.
            follower.take_over(standby, address)
        })();
        if taken.is_err() {
            stop.store(true, Ordering::Release);
            let _ = db.depose(u64::MAX);
        }
        let (acknowledged, end) = counter.join().unwrap_or_default();
        let published = publisher.join().unwrap_or(Ok(()));
        let (new, _) = taken?;
        let end = published.err().map_or(end.clone(), |e| format!("{end}\n{e}"));
        let row = new.begin()?.get(&new.table("counter")?, &[1.into()])?;
        Ok((acknowledged, row.and_then(|row| row.at(1).as_int()).unwrap_or(0), end))
    })
}

fn main() -> Done<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:4222".into());
    let dir = std::env::temp_dir().join(format!("mmdb-nats-{}", std::process::id()));
    let done = run(&dir, &address);
    std::fs::remove_dir_all(&dir)?;
    let (acknowledged, found, end) = done?;
    println!("counted to {acknowledged}, found {found} after the fail-over\n{end}");
    Ok(())
}

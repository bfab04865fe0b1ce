//! The nodes of a cluster: who has which slot, and calls that reach them whatever happens there.
//!
//! A call is repeated where it was not carried out (`MOVED`, `ASK`, `TRYAGAIN`, `CLUSTERDOWN`,
//! `NOREPLICAS` …), and where nobody knows (the connection broke, no replica vouched): then with a
//! word that says so, by which the function finds what it has done already.

use super::connection::{Connection, Reply, bulk, request, tls_of};
use super::url::RedisClusterUrl;
use crate::store::StoreError;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio_rustls::rustls::ClientConfig;

/// Slots of every Redis Cluster.
pub(super) const SLOTS: usize = 16_384;
/// How long a cluster may be without the shards that somebody needs: longer than a failover.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a reply may take; a node that is silent for longer is asked anew.
const REPLY: Duration = Duration::from_secs(10);
/// How long a node may take to tell the slots while there are others to be asked.
const MAP: Duration = Duration::from_secs(2);
/// How long one `WAIT` waits, ms; it is repeated.
const WAIT_MS: &str = "1000";
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// A node.
pub(super) type Address = (String, u16);

/// Who has which slot.
pub(super) struct Map {
    /// Masters, with their replicas that are not known to have failed.
    pub masters: Vec<(Address, Vec<Address>)>,
    /// Of each slot the master, or none.
    owners: Vec<u16>,
}

const NOBODY: u16 = u16::MAX;

impl Map {
    fn owner(&self, slot: u16) -> Option<usize> {
        self.owners.get(usize::from(slot)).copied().filter(|&owner| owner != NOBODY).map(usize::from)
    }

    /// Slots that no master has.
    pub fn uncovered(&self) -> usize {
        self.owners.iter().filter(|&&owner| owner == NOBODY).count()
    }

    fn read(reply: &Reply, asked: &Address) -> Option<Map> {
        let mut map = Map { masters: Vec::new(), owners: vec![NOBODY; SLOTS] };
        for range in reply.array() {
            let [first, last, master, replicas @ ..] = range.array() else { return None };
            let slots = usize::try_from(first.int()?).ok()?..=usize::try_from(last.int()?).ok()?;
            let address = |node: &Reply| -> Option<Address> {
                let [host, port, ..] = node.array() else { return None };
                let host = host.bulk().map(|host| String::from_utf8_lossy(host).into_owned());
                // A node that does not know its own name is where it was asked.
                let host =
                    host.filter(|host| !host.is_empty() && host != "?").unwrap_or_else(|| asked.0.clone());
                Some((host, u16::try_from(port.int()?).ok()?))
            };
            let master = address(master)?;
            let at = match map.masters.iter().position(|known| known.0 == master) {
                Some(at) => at,
                None => {
                    let replicas = replicas.iter().filter_map(address).collect();
                    map.masters.push((master, replicas));
                    map.masters.len() - 1
                }
            };
            for slot in slots {
                *map.owners.get_mut(slot)? = u16::try_from(at).ok()?;
            }
        }
        Some(map)
    }
}

/// CRC-16/XMODEM of the hash tag: the slot of its keys.
fn slot_of(tag: &str) -> u16 {
    let crc = tag.bytes().fold(0_u16, |crc, octet| {
        (0..8).fold(crc ^ (u16::from(octet) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS as u16
}

/// A cluster, as all sessions of a store know it.
pub(super) struct Cluster {
    pub url: RedisClusterUrl,
    pub shards: u16,
    pub abandoned: AtomicBool,
    tls: Option<Arc<ClientConfig>>,
    map: RwLock<Arc<Map>>,
    /// When the map was read last, and whom to ask next.
    read: Mutex<Instant>,
    turn: AtomicUsize,
    /// Slot and both keys of each shard, the keys as words of a request.
    places: Vec<(u16, Vec<u8>)>,
    library: String,
    code: String,
    /// Calls that were repeated.
    pub repeated: AtomicUsize,
}

/// A call of a function.
pub(super) struct Call {
    pub shard: u16,
    name: &'static str,
    writes: bool,
    args: Vec<u8>,
    count: usize,
    /// What the last argument is if the call may have been carried out.
    pub from: String,
}

impl Call {
    /// One that changes something.
    pub fn write(name: &'static str, shard: u16) -> Call {
        Call { shard, name, writes: true, args: Vec::with_capacity(256), count: 0, from: "0".into() }
    }

    /// One that only reads.
    pub fn read(name: &'static str, shard: u16) -> Call {
        Call { writes: false, ..Call::write(name, shard) }
    }

    pub fn arg(mut self, octets: &[u8]) -> Call {
        bulk(&mut self.args, octets);
        self.count += 1;
        self
    }

    pub fn number(self, number: i64) -> Call {
        self.arg(number.to_string().as_bytes())
    }
}

impl Cluster {
    /// Enters a cluster by one of the nodes that the URL names.
    pub fn enter(url: &RedisClusterUrl) -> Result<Cluster, StoreError> {
        let refused = |problem: String| StoreError::Refused { place: url.to_string(), problem };
        let tls = tls_of(url).map_err(&refused)?;
        let code = include_str!("functions.lua");
        let hash = Sha256::digest(code.as_bytes());
        let library: String = hash.iter().take(6).map(|octet| format!("{octet:02x}")).collect();
        let library = format!("smsc_{library}");
        let code = format!("#!lua name={library}\nlocal LIBRARY = '{library}_'\n{code}");
        let cluster = Cluster {
            url: url.clone(),
            shards: 1,
            abandoned: AtomicBool::new(false),
            tls,
            map: RwLock::new(Arc::new(Map { masters: Vec::new(), owners: vec![NOBODY; SLOTS] })),
            read: Mutex::new(Instant::now()),
            turn: AtomicUsize::new(0),
            places: Vec::new(),
            library,
            code,
            repeated: AtomicUsize::new(0),
        };
        let mut failed = String::new();
        // Each for a moment, as one may stand still; and then, as all may be busy, for as long as
        // any answer may take.
        for patience in [MAP, REPLY] {
            for entry in &url.entries {
                match cluster.ask_for_map(entry, patience) {
                    Ok(map) => {
                        *cluster.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(map);
                        return Ok(cluster.with_shards(url.shards));
                    }
                    Err(problem) => failed = format!("{}:{}: {problem}", entry.0, entry.1),
                }
            }
        }
        Err(refused(format!("no node of the cluster can be asked; the last one: {failed}")))
    }

    /// For a store of so many shards.
    pub fn with_shards(mut self, shards: u16) -> Cluster {
        self.shards = shards;
        self.places = (0..shards)
            .map(|shard| {
                let mut keys = Vec::new();
                for name in ["h", "z"] {
                    bulk(&mut keys, self.key(shard, name).as_bytes());
                }
                (slot_of(&shard.to_string()), keys)
            })
            .collect();
        self
    }

    /// A key of a shard.
    pub fn key(&self, shard: u16, name: &str) -> String {
        format!("{}:{{{shard}}}:{name}", self.url.prefix)
    }

    pub fn map(&self) -> Arc<Map> {
        Arc::clone(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn connect(&self, node: &Address) -> std::io::Result<Connection> {
        Connection::open((&node.0, node.1), &self.url, self.tls.as_ref(), &self.abandoned)
    }

    fn ask_for_map(&self, node: &Address, patience: Duration) -> Result<Map, String> {
        let mut connection = self.connect(node).map_err(|error| error.to_string())?;
        let deadline = Instant::now() + patience;
        match connection.ask(&[b"CLUSTER", b"SLOTS"], deadline, &self.abandoned) {
            Ok(Reply::Error(error)) if error.contains("cluster support disabled") => {
                Err("this Redis is no cluster (cluster-enabled no)".into())
            }
            Ok(Reply::Error(error)) => Err(error),
            Ok(reply) => Map::read(&reply, node).ok_or_else(|| "it tells no slots".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// Reads the map again, from another node than the last time.
    fn refresh(&self) {
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        // Another session may just have done it.
        if read.elapsed() < PAUSE {
            return;
        }
        let map = self.map();
        let known = map.masters.iter().flat_map(|(master, replicas)| std::iter::once(master).chain(replicas));
        let nodes: Vec<&Address> = known.chain(&self.url.entries).collect();
        for _ in 0..nodes.len() {
            let node = nodes[self.turn.fetch_add(1, Relaxed) % nodes.len()];
            if let Ok(found) = self.ask_for_map(node, MAP)
                && !found.masters.is_empty()
            {
                *self.map.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(found);
                break;
            }
            if self.abandoned.load(Relaxed) {
                break;
            }
        }
        *read = Instant::now();
    }

    /// Loads the functions on a node that lacks them. Their name has a hash of their text, so those
    /// of several versions of smsc stand beside each other.
    pub fn load(&self, connection: &mut Connection) -> Result<(), String> {
        let deadline = Instant::now() + REPLY;
        let words: [&[u8]; 3] = [b"FUNCTION", b"LOAD", self.code.as_bytes()];
        match connection.ask(&words, deadline, &self.abandoned) {
            Ok(Reply::Error(error)) if !error.contains("already exists") => Err(error),
            Ok(_) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }

    pub fn refused(&self, problem: impl Into<String>) -> StoreError {
        StoreError::Refused { place: self.url.to_string(), problem: problem.into() }
    }

    fn write_call(&self, out: &mut Vec<u8>, call: &Call, again: bool) {
        let words = 5 + call.count + usize::from(call.writes);
        let verb = if call.writes { "$5\r\nFCALL" } else { "$8\r\nFCALL_RO" };
        let name = self.library.len() + 1 + call.name.len();
        let head = format!("*{words}\r\n{verb}\r\n${name}\r\n{}_{}\r\n$1\r\n2\r\n", self.library, call.name);
        out.extend_from_slice(head.as_bytes());
        out.extend_from_slice(&self.places[usize::from(call.shard)].1);
        out.extend_from_slice(&call.args);
        if call.writes {
            bulk(out, if again { call.from.as_bytes() } else { b"" });
        }
    }
}

/// What is to be done about an error of a node.
enum Fault {
    /// It was not carried out: somebody else has the slot.
    Elsewhere,
    /// It was not carried out: this node takes it, just now.
    Ask(Address),
    /// It was not carried out; later.
    Later,
    /// The functions are not there.
    Unloaded,
    /// For good.
    Fatal,
}

fn fault(error: &str) -> Fault {
    let mut words = error.split(' ');
    match words.next().unwrap_or_default() {
        "MOVED" | "READONLY" => Fault::Elsewhere,
        "ASK" => {
            let node = words.nth(1).and_then(|word| word.rsplit_once(':'));
            match node.and_then(|(host, port)| Some((host.to_owned(), port.parse().ok()?))) {
                Some(node) => Fault::Ask(node),
                None => Fault::Later,
            }
        }
        "TRYAGAIN" | "CLUSTERDOWN" | "LOADING" | "MASTERDOWN" | "NOREPLICAS" | "MISCONF" | "BUSY" | "OOM" => {
            Fault::Later
        }
        "ERR" if error.contains("Function not found") => Fault::Unloaded,
        _ => Fault::Fatal,
    }
}

/// The connections of one session.
pub(super) struct Links {
    pub cluster: Arc<Cluster>,
    open: HashMap<Address, Connection>,
}

/// How far calls are: they stand beside it, always the same ones.
pub(super) struct Course {
    begin: Instant,
    replies: Vec<Option<Reply>>,
    /// Which may have been carried out.
    again: Vec<bool>,
    /// Where they are to go for once.
    ask: Vec<Option<Address>>,
    /// Shards of which one was refused in the last round, or may have been: only the first of each
    /// goes in the next one. A node that takes calls again in the middle of a round would change
    /// their order.
    careful: HashSet<u16>,
    /// What kept the last try from being the last.
    problem: String,
}

impl Course {
    /// Of so many calls, none of which has been sent.
    pub fn new(count: usize) -> Course {
        Course {
            begin: Instant::now(),
            replies: vec![None; count],
            again: vec![false; count],
            ask: vec![None; count],
            careful: HashSet::new(),
            problem: String::new(),
        }
    }

    /// The replies, once all are there.
    pub fn replies(self) -> Vec<Reply> {
        self.replies.into_iter().flatten().collect()
    }
}

impl Links {
    pub fn new(cluster: &Arc<Cluster>) -> Links {
        Links { cluster: Arc::clone(cluster), open: HashMap::new() }
    }

    /// Carries out calls, those of one shard in their order; their replies.
    pub fn run(&mut self, calls: &[Call]) -> Result<Vec<Reply>, StoreError> {
        let mut course = Course::new(calls.len());
        while !self.go_on(calls, &mut course, None)? {}
        Ok(course.replies())
    }

    /// One round to the nodes with what has no reply yet; whether all have one now. A node that
    /// answers takes milliseconds, one that is gone none. One that says nothing takes
    /// `CONNECT` + [`REPLY`] at most, and where its replicas say nothing one `WAIT` once `until` is
    /// over.
    pub fn go_on(
        &mut self,
        calls: &[Call],
        course: &mut Course,
        until: Option<Instant>,
    ) -> Result<bool, StoreError> {
        if self.cluster.abandoned.load(Relaxed) {
            return Err(StoreError::Abandoned);
        }
        if self.attempt(calls, course, until)? {
            return Ok(true);
        }
        if course.begin.elapsed() > PATIENCE {
            let problem = format!(
                "for {} s the cluster has not carried out what it was asked: {}; look at `redis-cli --cluster check`",
                PATIENCE.as_secs(),
                course.problem
            );
            return Err(self.cluster.refused(problem));
        }
        self.cluster.repeated.fetch_add(1, Relaxed);
        Ok(false)
    }

    /// One call.
    pub fn one(&mut self, call: Call) -> Result<Reply, StoreError> {
        let replies = self.run(std::slice::from_ref(&call))?;
        replies.into_iter().next().ok_or_else(|| StoreError::protocol("a call has no reply"))
    }

    /// Sends what has no reply yet, once; whether all have one now.
    fn attempt(
        &mut self,
        calls: &[Call],
        course: &mut Course,
        until: Option<Instant>,
    ) -> Result<bool, StoreError> {
        let cluster = Arc::clone(&self.cluster);
        let map = cluster.map();
        let mut groups: BTreeMap<(bool, Address), (Vec<usize>, usize)> = BTreeMap::new();
        let (mut stale, mut pause) = (false, false);
        let (mut tried, mut begun) = (Vec::new(), HashSet::new());
        for at in (0..calls.len()).filter(|&at| course.replies[at].is_none()) {
            let shard = calls[at].shard;
            if !begun.insert(shard) && course.careful.contains(&shard) {
                continue;
            }
            tried.push(at);
            let slot = cluster.places[usize::from(shard)].0;
            match (course.ask[at].take(), map.owner(slot)) {
                (Some(node), _) => groups.entry((true, node)).or_insert((Vec::new(), 1)).0.push(at),
                (None, Some(owner)) => {
                    let (node, replicas) = &map.masters[owner];
                    groups
                        .entry((false, node.clone()))
                        .or_insert((Vec::new(), replicas.len().max(1)))
                        .0
                        .push(at);
                }
                (None, None) => {
                    course.problem = format!("no node has slot {slot}");
                    (stale, pause) = (true, true);
                }
            }
        }
        let mut sent = Vec::with_capacity(groups.len());
        for ((asks, node), (members, replicas)) in groups {
            let waits = !cluster.url.without_replicas && members.iter().any(|&at| calls[at].writes);
            match self.send((calls, course), &node, &members, asks, waits.then_some(replicas)) {
                Ok(()) => sent.push((node, members, asks, waits.then_some(replicas))),
                Err(error) => {
                    self.open.remove(&node);
                    course.problem = format!("{}:{}: {error}", node.0, node.1);
                    (stale, pause) = (true, true);
                }
            }
        }
        for (node, members, asks, wait) in sent {
            match self.receive(course, &node, (&members, asks), (wait, until)) {
                Ok(Told { elsewhere, later }) => {
                    stale |= elsewhere;
                    pause |= later;
                }
                Err(Broken::Fatal(error)) => {
                    // Replies of others may be under way.
                    self.open.clear();
                    return Err(error);
                }
                Err(Broken::Link(error)) => {
                    self.open.remove(&node);
                    // Whether they were carried out, nobody knows.
                    members.iter().for_each(|&at| course.again[at] = true);
                    course.problem = format!("{}:{}: {error}", node.0, node.1);
                    (stale, pause) = (true, true);
                }
            }
        }
        if course.replies.iter().all(Option::is_some) {
            return Ok(true);
        }
        let refused = tried.into_iter().filter(|&at| course.replies[at].is_none());
        course.careful = refused.map(|at| calls[at].shard).collect();
        if pause {
            std::thread::sleep(PAUSE);
        }
        if stale {
            cluster.refresh();
        }
        Ok(false)
    }

    fn send(
        &mut self,
        (calls, course): (&[Call], &mut Course),
        node: &Address,
        members: &[usize],
        asks: bool,
        wait: Option<usize>,
    ) -> std::io::Result<()> {
        let mut out = Vec::with_capacity(512 * members.len());
        for &at in members {
            if asks {
                request(&mut out, &[b"ASKING"]);
            }
            self.cluster.write_call(&mut out, &calls[at], course.again[at]);
        }
        if let Some(replicas) = wait {
            request(&mut out, &[b"WAIT", replicas.to_string().as_bytes(), WAIT_MS.as_bytes()]);
        }
        if !self.open.contains_key(node) {
            let connection = self.cluster.connect(node)?;
            self.open.insert(node.clone(), connection);
        }
        let Some(connection) = self.open.get_mut(node) else { return Ok(()) };
        let written = connection.send(&out);
        if written.is_err() {
            members.iter().for_each(|&at| course.again[at] = true);
        }
        written
    }

    fn receive(
        &mut self,
        course: &mut Course,
        node: &Address,
        (members, asks): (&[usize], bool),
        (wait, until): (Option<usize>, Option<Instant>),
    ) -> Result<Told, Broken> {
        let cluster = Arc::clone(&self.cluster);
        let Some(connection) = self.open.get_mut(node) else { return Ok(Told::default()) };
        let mut told = Told::default();
        let (mut done, mut unloaded) = (Vec::with_capacity(members.len()), false);
        let mut fatal = None;
        for &at in members {
            let deadline = Instant::now() + REPLY;
            if asks {
                connection.reply(deadline, &cluster.abandoned)?;
            }
            let reply = connection.reply(deadline, &cluster.abandoned)?;
            let Reply::Error(error) = reply else {
                done.push((at, reply));
                continue;
            };
            match fault(&error) {
                Fault::Elsewhere => told.elsewhere = true,
                Fault::Ask(node) => course.ask[at] = Some(node),
                Fault::Later => (told.later, told.elsewhere) = (true, true),
                Fault::Unloaded => unloaded = true,
                Fault::Fatal => fatal = fatal.or(Some(error.clone())),
            }
            course.problem = format!("{}:{}: {error}", node.0, node.1);
        }
        if let Some(replicas) = wait {
            self.confirmed(node, replicas, until)?;
        }
        if let Some(error) = fatal {
            return Err(Broken::Fatal(match error.find("SMSC ") {
                Some(begin) => StoreError::inconsistent(error[begin + 5..].to_owned()),
                None => cluster.refused(format!("{}:{}: {error}", node.0, node.1)),
            }));
        }
        for (at, reply) in done {
            course.replies[at] = Some(reply);
        }
        if unloaded && let Some(connection) = self.open.get_mut(node) {
            cluster.load(connection).map_err(|error| {
                Broken::Fatal(cluster.refused(format!("{}:{}: FUNCTION LOAD: {error}", node.0, node.1)))
            })?;
        }
        Ok(told)
    }

    /// Waits until so many replicas have what was written. Where they do not answer, the cluster is
    /// asked whether this node is still the master: one that was cut off from the others would
    /// never hear of it.
    fn confirmed(&mut self, node: &Address, replicas: usize, until: Option<Instant>) -> Result<(), Broken> {
        let cluster = Arc::clone(&self.cluster);
        let Some(connection) = self.open.get_mut(node) else { return Ok(()) };
        let begin = Instant::now();
        let mut wanted = replicas;
        loop {
            let reply = connection.reply(Instant::now() + REPLY, &cluster.abandoned)?;
            match reply.int() {
                Some(count) if count >= i64::try_from(wanted).unwrap_or(i64::MAX) => return Ok(()),
                Some(_) => {}
                None => return Err(Broken::Link(format!("WAIT: {reply:?}"))),
            }
            cluster.refresh();
            let map = cluster.map();
            match map.masters.iter().find(|(master, _)| master == node) {
                // One that the cluster has given up is not waited for, as long as there is another.
                Some((_, replicas)) => wanted = replicas.len().max(1),
                None => return Err(Broken::Link("it is no master any more".into())),
            }
            // It is asked again, by the word that it may have been carried out.
            if until.is_some_and(|until| Instant::now() > until) {
                return Err(Broken::Link("no replica has confirmed what was written".into()));
            }
            if begin.elapsed() > PATIENCE {
                let problem = format!(
                    "{}:{}: no replica has confirmed what was written for {} s",
                    node.0,
                    node.1,
                    PATIENCE.as_secs()
                );
                return Err(Broken::Fatal(cluster.refused(problem)));
            }
            let mut out = Vec::new();
            request(&mut out, &[b"WAIT", wanted.to_string().as_bytes(), WAIT_MS.as_bytes()]);
            connection.send(&out)?;
        }
    }
}

/// What is to be done before the next try.
#[derive(Default)]
struct Told {
    elsewhere: bool,
    later: bool,
}

/// What ends a try at a node.
enum Broken {
    /// For good.
    Fatal(StoreError),
    /// The connection: in words.
    Link(String),
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Broken {
        Broken::Link(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first is the specification's own.
    #[test]
    fn slots_are_those_of_redis() {
        assert_eq!(slot_of("123456789"), 0x31c3);
        assert_eq!((slot_of("0"), slot_of("foo")), (13_907, 12_182));
    }

    /// A node that carries out all calls of functions but the first so many, which it refuses for
    /// now; its port, and the first argument of each that it has carried out.
    fn node(refused: usize) -> (u16, Arc<Mutex<Vec<Vec<u8>>>>) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (left, done) = (Arc::new(AtomicUsize::new(refused)), Arc::<Mutex<Vec<Vec<u8>>>>::default());
        let carried_out = Arc::clone(&done);
        let serve = move |mut client: Connection, left: Arc<AtomicUsize>, done: Arc<Mutex<Vec<Vec<u8>>>>| {
            let ever = Instant::now() + Duration::from_secs(3600);
            while let Ok(asked) = client.reply(ever, &AtomicBool::new(false)) {
                let words: Vec<&[u8]> = asked.array().iter().filter_map(Reply::bulk).collect();
                let answer = match words[0] {
                    b"CLUSTER" => {
                        format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n")
                    }
                    b"FCALL" if left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok() => {
                        "-NOREPLICAS Not enough good replicas to write.\r\n".into()
                    }
                    b"FCALL" => {
                        // Behind the name, the number of keys and both of them.
                        done.lock().unwrap().push(words[5].to_vec());
                        ":1\r\n".into()
                    }
                    _ => ":1\r\n".into(),
                };
                if client.send(answer.as_bytes()).is_err() {
                    return;
                }
            }
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let client = Connection::of(stream.unwrap());
                let (left, done) = (Arc::clone(&left), Arc::clone(&done));
                std::thread::spawn(move || serve(client, left, done));
            }
        });
        (port, carried_out)
    }

    /// What happened: a node that took calls again in the middle of a round refused the first of
    /// two messages for one mobile and took the second, so that they were accepted in the other
    /// order.
    #[test]
    fn calls_of_a_shard_keep_their_order_behind_a_refusal() {
        // Both, and then the first once more.
        let (port, carried_out) = node(3);
        let url = RedisClusterUrl::parse(&format!("redis-cluster://127.0.0.1:{port}/")).unwrap();
        let mut links = Links::new(&Arc::new(Cluster::enter(&url).unwrap()));
        let calls = [b"a", b"b"].map(|name| Call::write("x", 0).arg(name));
        assert_eq!(links.run(&calls).unwrap(), [Reply::Int(1), Reply::Int(1)]);
        assert_eq!(*carried_out.lock().unwrap(), [b"a", b"b"]);
    }

    /// What happened: nodes that took more than two seconds for their first answer, as beside other
    /// work, were no cluster.
    #[test]
    fn a_node_that_is_slow_at_the_start_is_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut client = Connection::of(stream.unwrap());
                std::thread::spawn(move || {
                    let ever = Instant::now() + Duration::from_secs(3600);
                    while client.reply(ever, &AtomicBool::new(false)).is_ok() {
                        std::thread::sleep(Duration::from_secs(3));
                        let answer =
                            format!("*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:{port}\r\n");
                        if client.send(answer.as_bytes()).is_err() {
                            return;
                        }
                    }
                });
            }
        });
        let url = RedisClusterUrl::parse(&format!("redis-cluster://127.0.0.1:{port}/")).unwrap();
        assert!(Cluster::enter(&url).is_ok());
    }

    #[test]
    fn errors_say_what_is_to_be_done() {
        assert!(matches!(fault("MOVED 1 a:2"), Fault::Elsewhere));
        assert!(matches!(fault("ASK 1 ::1:7000"), Fault::Ask((host, 7000)) if host == "::1"));
        assert!(matches!(fault("ASK 1"), Fault::Later));
        assert!(matches!(fault("CLUSTERDOWN The cluster is down"), Fault::Later));
        assert!(matches!(fault("ERR Function not found"), Fault::Unloaded));
        assert!(matches!(fault("NOPERM this user has no permissions"), Fault::Fatal));
    }
}

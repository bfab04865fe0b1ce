//! A Redis Cluster as a store: whose keys it takes, what it asks of the nodes, what several
//! processes do with one store, and what is left when nodes are killed.
//! `SMSC_REDIS_KILLS` sets how often (2).
#![allow(clippy::unwrap_used)]

mod common;
mod redis_nodes;

use common::{NOW_US, message, receive};
use redis_nodes::Nodes;
use smsc::centre::{
    Channel, Completion, CompletionResult, Delivery, Operation, Outcome, Rules, Submission, Verdict, receipt,
};
use smsc::check::check;
use smsc::housekeeping::recover;
use smsc::load::Clock;
use smsc::model::{ESME_LANES, Message, State, StationKey, shard_of};
use smsc::store::{
    Acknowledge, Durability, Opening, PrivateCluster, RedisClusterStore, RedisClusterUrl, Row, Session,
    Store, StoreError,
};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

fn open(url: &RedisClusterUrl) -> RedisClusterStore {
    RedisClusterStore::at(url, Rules::default(), Opening::OrCreate).unwrap()
}

fn refusal(url: &RedisClusterUrl) -> String {
    match RedisClusterStore::at(url, Rules::default(), Opening::OrCreate) {
        Ok(_) => panic!("{url} was opened"),
        Err(error) => error.to_string(),
    }
}

/// Asks redis-cli's question of the master that has a key.
fn redis(nodes: &Nodes, words: &[&str]) -> String {
    redis_at(nodes, 0, &[&["-c"], words].concat())
}

/// Asks redis-cli's question of one node.
fn redis_at(nodes: &Nodes, at: usize, words: &[&str]) -> String {
    let url = nodes.cluster.url("");
    let port = url.split("127.0.0.1:").nth(1 + at).unwrap().split([',', '/']).next().unwrap().to_owned();
    let told = Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", &port]).args(words).output().unwrap();
    String::from_utf8_lossy(&told.stdout).trim().to_owned()
}

fn redis_everywhere(nodes: &Nodes, words: &[&str]) {
    let url = nodes.cluster.url("");
    for part in url.split("127.0.0.1:").skip(1) {
        let port = part.split([',', '/']).next().unwrap();
        let told =
            Command::new("redis-cli").args(["-h", "127.0.0.1", "-p", port]).args(words).output().unwrap();
        assert!(told.status.success(), "{told:?}");
    }
}

#[test]
fn a_store_is_made_resumed_looked_at_and_taken_away() {
    let Some(nodes) = Nodes::start() else { return };
    // Somebody else's, in the same cluster.
    assert_eq!(redis(&nodes, &["SET", "precious", "keep"]), "OK");
    let url = nodes.url("shards=64");
    let missing = RedisClusterStore::at(&url, Rules::default(), Opening::Existing).err().unwrap();
    assert!(matches!(missing, StoreError::NoStore { .. }), "{missing}");
    assert!(RedisClusterStore::look(&url).is_err());
    let store = open(&url);
    assert_eq!((store.durability(), store.remarks()), (Durability::OneNode, Vec::<String>::new()));
    assert!(store.is_empty().unwrap());
    recover(&store, NOW_US).unwrap();
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let accepted: Vec<i64> =
        (0..200).map(|station| receive(&mut *session, message(station, b"hello"))).collect();
    let distinct: HashSet<i64> = accepted.iter().copied().collect();
    assert_eq!(distinct.len(), 200);
    // Who looks does not disturb.
    let seen = RedisClusterStore::look(&url).unwrap();
    let nothing = tempfile::tempdir().unwrap();
    assert_eq!(seen.identity(), store.identity());
    let report = check(&seen, nothing.path(), &accepted).unwrap();
    assert!(report.holds() && report.live == 200, "{report:#?}");
    drop(session);
    // A bench on the URL of a centre that had no messages just then took those of its applications,
    // and took the store away in the end.
    assert!(!store.is_used_by_others().unwrap(), "who looks takes nothing");
    let centre = open(&url);
    assert!(store.is_used_by_others().unwrap());
    drop(centre);
    assert!(!store.is_used_by_others().unwrap());
    drop(store);
    let store = open(&nodes.url(""));
    assert_eq!(seen.identity(), store.identity());
    assert!(refusal(&nodes.url("shards=256")).contains("made with shards=64"));
    assert!(!store.is_empty().unwrap());
    store.clear().unwrap();
    assert!(store.is_empty().unwrap());
    receive(&mut *store.session(Acknowledge::Durable).unwrap(), message(1, b"again"));
    drop(store);
    // One that was made for this time goes as a whole.
    let other = open(&nodes.url("prefix=other&shards=64"));
    assert_ne!(other.identity(), seen.identity());
    receive(&mut *other.session(Acknowledge::Durable).unwrap(), message(1, b"x"));
    other.clear().unwrap();
    drop(other);
    assert!(RedisClusterStore::look(&nodes.url("prefix=other")).is_err());
    assert_eq!(redis(&nodes, &["GET", "precious"]), "keep");
    // What has the prefix and is no store is somebody's.
    for (prefix, words) in [
        ("a", &["SET", "a:{3}:h", "x"][..]),
        ("b", &["SET", "b:{0}:h", "x"][..]),
        ("c", &["HSET", "c:{0}:h", "!", "not ours"][..]),
        ("d", &["SET", "d:anything", "x"][..]),
    ] {
        redis(&nodes, words);
        let error = refusal(&nodes.url(&format!("prefix={prefix}")));
        assert!(error.contains("somebody else's, and nothing was written"), "{error}");
    }
    redis(&nodes, &["HSET", "e:{0}:h", "!", "2 0123456789abcdef0123456789abcdef 64"]);
    assert!(refusal(&nodes.url("prefix=e")).contains("format 2, and this smsc knows 1"));
    // Nodes that would lose what they acknowledge.
    for (setting, value, back) in [
        ("appendfsync", "everysec", "always"),
        ("min-replicas-to-write", "0", "1"),
        ("maxmemory-policy", "allkeys-lru", "noeviction"),
    ] {
        redis_everywhere(&nodes, &["CONFIG", "SET", setting, value]);
        let error = refusal(&url);
        assert!(error.contains(&format!("set {setting} {back}")), "{error}");
        let less = RedisClusterStore::at(
            &nodes.url("durability=process-crash"),
            Rules::default(),
            Opening::Existing,
        );
        assert_eq!(less.is_ok(), setting != "maxmemory-policy", "{setting}");
        redis_everywhere(&nodes, &["CONFIG", "SET", setting, back]);
    }
    let nobody = RedisClusterUrl::parse("redis-cluster://127.0.0.1:1/").unwrap();
    assert!(refusal(&nobody).contains("no node of the cluster can be asked"));
}

/// A message, its station and its receipt are in one shard, whatever their numbers.
#[test]
fn receipts_are_where_their_messages_are() {
    let Some(nodes) = Nodes::start() else { return };
    let store = open(&nodes.url("shards=64"));
    let mut session = store.session(Acknowledge::Durable).unwrap();
    // What happened: a centre asked for 32 lanes of an application at a time, each time with a sync
    // of the nodes, and for the mobiles of 16 shards: thousands of receipts waited for minutes. All
    // lanes are one round.
    let lanes: Vec<StationKey> = (0..ESME_LANES).map(|lane| StationKey::lane(9, lane)).collect();
    assert_eq!((store.named_claim_max(), store.claim_max()), (lanes.len(), lanes.len()));
    for &lane in &lanes {
        let mut submission = Submission::to_account(message(0, b"x"), 9).unwrap();
        (submission.message.dst_key, submission.shard) = (lane, shard_of(lane));
        session.submit(Operation::Receive(Box::new(submission))).unwrap();
    }
    let mut outcomes = Vec::new();
    session.settle(&mut outcomes).unwrap();
    let received = |outcome: &Outcome| match outcome {
        Outcome::Received(id) => *id,
        other => panic!("{other:?}"),
    };
    let mut accepted: Vec<i64> = outcomes.iter().map(received).collect();
    let (channel, now_us) = (Channel::Stations(lanes), NOW_US + 30);
    let claim = Operation::Claim { channel, spread: 0, max: store.named_claim_max(), now_us };
    let Outcome::Claimed(flights) = session.call(claim).unwrap() else { panic!() };
    assert_eq!(flights.len(), store.named_claim_max());
    for station in 0..100 {
        let asks =
            Message { registered_delivery: 1, account: station as u32 % 7, ..message(station, b"hello") };
        let submission = match station % 3 {
            0 => Submission::to_account(asks, 5).unwrap(),
            _ => Submission::new(asks).unwrap(),
        };
        let Outcome::Received(id) = session.call(Operation::Receive(Box::new(submission))).unwrap() else {
            panic!()
        };
        accepted.push(id);
    }
    let mut receipts = 0;
    let begin = Instant::now();
    while receipts < 100 {
        assert!(begin.elapsed() < Duration::from_secs(60), "{receipts}");
        let claim = Operation::Claim { channel: Channel::All(0), spread: 0, max: 32, now_us: NOW_US + 30 };
        let Outcome::Claimed(flights) = session.call(claim).unwrap() else { panic!() };
        for flight in flights {
            receipts += usize::from(flight.message.receipt_of != 0);
            session.submit(Operation::Complete(Box::new(delivered(flight, NOW_US + 20)))).unwrap();
        }
        let mut outcomes = Vec::new();
        session.settle(&mut outcomes).unwrap();
        let is_final = |outcome: &Outcome| matches!(outcome, Outcome::Completed(CompletionResult::Final(_)));
        assert!(outcomes.iter().all(is_final), "{outcomes:?}");
    }
    let nothing = tempfile::tempdir().unwrap();
    let report = check(&store, nothing.path(), &accepted).unwrap();
    assert!(report.holds() && (report.finished, report.receipts) == (100, 100), "{report:#?}");
}

/// What happened: an smsc that was started on a directory whose private cluster another one had was
/// answered by that one's nodes before its own had ended for their ports. It served from them until
/// they ended with the other. A cluster of another directory that has the ports by now would have
/// been taken, too.
#[test]
fn nodes_of_another_process_are_not_taken_for_ones_own() {
    let Some(nodes) = Nodes::start() else { return };
    let error = match PrivateCluster::open(&nodes.dir.path().join("redis-cluster"), 3) {
        Ok(_) => panic!("the nodes of another process were taken"),
        Err(error) => error.to_string(),
    };
    assert!(error.contains("another process has that port"), "{error}");
    nodes.cluster.until_well().unwrap();
}

/// `smsc serve --engine redis-cluster` opened its store by a thread of a pool, which ended ten
/// seconds later as it had nothing to do; the kernel ended the nodes with it, and the centre waited
/// for them in vain.
#[test]
fn nodes_outlive_the_thread_that_opened_their_store() {
    let opened = std::thread::spawn(|| {
        let nodes = Nodes::start()?;
        let store = open(&nodes.url("shards=64"));
        Some((nodes, store))
    });
    let Some((nodes, store)) = opened.join().unwrap() else { return };
    let mut session = store.session(Acknowledge::Durable).unwrap();
    receive(&mut *session, message(1, b"hello"));
    nodes.cluster.until_well().unwrap();
}

/// One or two masters serve, too; but none of them can elect a replica when one dies, and whoever
/// runs them is told. What was under way then waits, a caller with a deadline does not, and goes on
/// once somebody takes over by hand.
#[test]
fn one_or_two_masters_serve_and_tell_that_they_elect_nobody() {
    for masters in [1, 2] {
        let Some(mut nodes) = Nodes::of(masters) else { return };
        let store = open(&nodes.url("shards=64"));
        let remarks = store.remarks();
        let count = if masters == 1 { "1 master cannot" } else { "2 masters cannot" };
        assert!(remarks.len() == 1 && remarks[0].contains(count), "{remarks:?}");
        let mut session = store.session(Acknowledge::Durable).unwrap();
        let mut accepted: Vec<i64> =
            (0..50).map(|station| receive(&mut *session, message(station, b"hello"))).collect();
        nodes.cluster.kill(0);
        for station in 50..100 {
            let submission = Submission::new(message(station, b"later")).unwrap();
            session.submit(Operation::Receive(Box::new(submission))).unwrap();
        }
        let (begin, mut outcomes) = (Instant::now(), Vec::new());
        session.settle_until(&mut outcomes, begin + Duration::from_millis(300)).unwrap();
        // A round of tries takes a while beside load, and not the two minutes of a failover.
        assert!(outcomes.is_empty() && begin.elapsed() < Duration::from_secs(100), "{outcomes:?}");
        // Long enough for an election, had there been one.
        std::thread::sleep(Duration::from_secs(5));
        assert!(!nodes.cluster.is_master(masters), "who has elected it?");
        assert_eq!(redis_at(&nodes, masters, &["CLUSTER", "FAILOVER", "TAKEOVER"]), "OK");
        // It wants a replica before it takes what is new.
        nodes.cluster.start(0).unwrap();
        while outcomes.len() < 50 {
            session.settle(&mut outcomes).unwrap();
        }
        accepted.extend(outcomes.iter().map(|outcome| match outcome {
            Outcome::Received(id) => *id,
            other => panic!("{other:?}"),
        }));
        let nothing = tempfile::tempdir().unwrap();
        let report = check(&store, nothing.path(), &accepted).unwrap();
        assert!(report.holds() && report.live == 100, "{report:#?}");
    }
}

/// What ends a delivery well; a message, but no receipt, has its receipt.
fn delivered(flight: Delivery, now_us: i64) -> Completion {
    let told = receipt(&flight.message, State::Delivered, 0, now_us);
    Completion {
        station: flight.station,
        epoch: flight.epoch,
        verdict: Verdict::Final { state: State::Delivered, error: 0 },
        receipt: told.filter(|_| flight.message.receipt_of == 0),
        message: flight.message,
        now_us,
    }
}

const CHILD: &str = "SMSC_REDIS_CHILD";

/// What a process that was killed had in flight goes on elsewhere, and what one that lives has does
/// not.
#[test]
fn what_a_killed_process_had_in_flight_goes_on_elsewhere() {
    let now_us = || Clock::default().now_us();
    let claim = |session: &mut dyn Session| {
        let claim = Operation::Claim { channel: Channel::All(0), spread: 0, max: 100, now_us: now_us() };
        let Outcome::Claimed(flights) = session.call(claim).unwrap() else { panic!() };
        flights
    };
    let claim_all = |session: &mut dyn Session, count: usize| {
        let (begin, mut flights) = (Instant::now(), Vec::new());
        while flights.len() < count {
            flights.extend(claim(session));
            assert!(begin.elapsed() < Duration::from_secs(60), "{} of {count}", flights.len());
        }
        flights
    };
    if let Ok(url) = std::env::var(CHILD) {
        let store = open(&RedisClusterUrl::parse(&url).unwrap());
        let flights = claim_all(&mut *store.session(Acknowledge::Early).unwrap(), 20);
        println!("claimed {}", flights.len());
        std::io::stdout().flush().unwrap();
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    let Some(nodes) = Nodes::start() else { return };
    let url = nodes.url("shards=64");
    let store = open(&url);
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let submit = |session: &mut dyn Session, stations: std::ops::Range<u64>| {
        for station in stations {
            let text =
                Message { submit_us: now_us(), expire_us: now_us() + 1_000_000_000, ..message(0, b"hello") };
            let address = format!("4917{station:06}");
            let submission = Submission::new(Message { dst: address, ..text }).unwrap();
            session.call(Operation::Receive(Box::new(submission))).unwrap();
        }
    };
    submit(&mut *session, 0..20);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "what_a_killed_process_had_in_flight_goes_on_elsewhere", "--nocapture"])
        .env(CHILD, url.written())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("claimed 20")), "the child did not claim");
    submit(&mut *session, 20..40);
    let own = claim_all(&mut *session, 20);
    // A third process begins meanwhile: it takes nothing from those that are there.
    let third = open(&url);
    assert_eq!(recover(&third, now_us()).unwrap().freed, 0);
    child.kill().unwrap();
    child.wait().unwrap();
    let taken = claim_all(&mut *third.session(Acknowledge::Early).unwrap(), 20);
    let stations: HashSet<StationKey> = taken.iter().map(|flight| flight.station).collect();
    assert_eq!(stations.len(), 20);
    assert!(own.iter().all(|flight| !stations.contains(&flight.station)), "one that lives lost a claim");
}

/// What a test knows of its own accord.
#[derive(Default)]
struct Ledger {
    accepted: BTreeMap<i64, String>,
    /// Final by an acknowledged settle.
    settled: HashSet<i64>,
    /// The last that was settled, by station.
    last: HashMap<StationKey, i64>,
    given: u64,
}

fn kills() -> u64 {
    std::env::var("SMSC_REDIS_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(2)
}

/// Submits until it is told to stop.
fn produce(store: &dyn Store, ledger: &Mutex<Ledger>, stop: &AtomicBool, number: u64, pace: Duration) {
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let mut count = 0;
    while !stop.load(Relaxed) {
        let mut texts = Vec::new();
        for _ in 0..16 {
            count += 1;
            let now_us = Clock::default().now_us();
            let text = format!("{number}-{count}");
            let plain = Message::plain(
                "4900".into(),
                format!("4917{:04}", (count * 7 + number) % 40),
                text.clone().into_bytes(),
                now_us,
                now_us + 3_600_000_000,
            );
            let asks = Message { registered_delivery: (count % 2) as u8, ..plain };
            session.submit(Operation::Receive(Box::new(Submission::new(asks).unwrap()))).unwrap();
            texts.push(text);
        }
        let mut outcomes = Vec::new();
        session.settle(&mut outcomes).unwrap();
        let mut ledger = ledger.lock().unwrap();
        for (outcome, text) in outcomes.into_iter().zip(texts) {
            match outcome {
                Outcome::Received(id) => assert!(ledger.accepted.insert(id, text).is_none(), "{id} twice"),
                other => panic!("{other:?}"),
            }
        }
        drop(ledger);
        std::thread::sleep(pace);
    }
}

/// Delivers until it is told to stop.
fn consume(store: &dyn Store, ledger: &Mutex<Ledger>, stop: &AtomicBool, alive: &AtomicU64) {
    let mut claims = store.session(Acknowledge::Early).unwrap();
    let mut completions = store.session(Acknowledge::Durable).unwrap();
    while !stop.load(Relaxed) {
        let now_us = Clock::default().now_us();
        let claim = Operation::Claim { channel: Channel::All(0), spread: 0, max: 24, now_us };
        let Outcome::Claimed(flights) = claims.call(claim).unwrap() else { panic!() };
        if flights.is_empty() {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        let mut sent = Vec::new();
        for flight in flights {
            let id = flight.message.msg_id;
            {
                let mut ledger = ledger.lock().unwrap();
                ledger.given += 1;
                assert!(!ledger.settled.contains(&id), "{id} is delivered after it was settled");
                let last = ledger.last.get(&flight.station).copied().unwrap_or(0);
                assert!(last < id, "{}: {id} after {last}", flight.station);
            }
            let completion = delivered(flight, Clock::default().now_us());
            sent.push((completion.station, id));
            completions.submit(Operation::Complete(Box::new(completion))).unwrap();
        }
        let mut outcomes = Vec::new();
        completions.settle(&mut outcomes).unwrap();
        let mut ledger = ledger.lock().unwrap();
        for (outcome, (station, id)) in outcomes.into_iter().zip(sent) {
            match outcome {
                Outcome::Completed(CompletionResult::Final(_)) => {
                    assert!(ledger.settled.insert(id), "{id} was settled twice");
                    // Who was given the station's next may be here before.
                    let last = ledger.last.entry(station).or_default();
                    *last = id.max(*last);
                    alive.fetch_add(1, Relaxed);
                }
                Outcome::Completed(CompletionResult::Fenced) => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// How a node goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// `kill -9`.
    Kill,
    /// SIGSTOP: its connections stay, and what was sent to it is done when it goes on, perhaps as a
    /// master that has been replaced.
    Stop,
}

impl Loss {
    /// Takes a node away for a while.
    fn of(self, nodes: &mut Nodes, at: usize, random: &mut fathom_random::Random) {
        match self {
            Loss::Kill => {
                nodes.cluster.kill(at);
                std::thread::sleep(Duration::from_millis(500 + random.below(5000)));
                nodes.cluster.start(at).unwrap();
            }
            Loss::Stop => {
                let about = redis_at(nodes, at, &["info", "server"]);
                let process = about.lines().find_map(|line| line.strip_prefix("process_id:")).unwrap();
                let signal = |name| Command::new("kill").args([name, process.trim()]).status().unwrap();
                assert!(signal("-STOP").success());
                // Of half of them the others think that they are gone.
                std::thread::sleep(Duration::from_millis(500 + random.below(10_000)));
                assert!(signal("-CONT").success());
            }
        }
    }
}

#[test]
fn kills_of_nodes_lose_nothing_and_double_nothing() {
    losses_of_nodes_lose_nothing_and_double_nothing(Loss::Kill);
}

#[test]
fn nodes_that_stand_still_lose_nothing_and_double_nothing() {
    losses_of_nodes_lose_nothing_and_double_nothing(Loss::Stop);
}

/// The loss of any node at any moment, one after the other, under load by two stores as two
/// processes have them: nothing that was acknowledged is lost, nothing settled comes again, the
/// order of each station is kept, and nothing is there twice.
fn losses_of_nodes_lose_nothing_and_double_nothing(loss: Loss) {
    let Some(mut nodes) = Nodes::start() else { return };
    let url = nodes.url("shards=64&keep=0");
    let stores = [open(&url), open(&url)];
    let (ledger, stop_clients, stop_senders, settled) =
        (Mutex::new(Ledger::default()), AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    let (kills, mut masters) = (kills(), 0);
    let seed =
        std::env::var("SMSC_REDIS_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(|| {
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64
        });
    eprintln!("SMSC_REDIS_SEED={seed}");
    let mut random = fathom_random::Random::stream(seed, "kills", 0);
    std::thread::scope(|scope| {
        let (ledger, stop_clients, stop_senders, settled) = (&ledger, &stop_clients, &stop_senders, &settled);
        for (number, store) in stores.iter().enumerate() {
            let pace = Duration::from_millis(10);
            scope.spawn(move || produce(store, ledger, stop_clients, number as u64, pace));
            scope.spawn(move || consume(store, ledger, stop_senders, settled));
        }
        for round in 0..kills {
            // Something has to be under way.
            let before = settled.load(Relaxed);
            let begin = Instant::now();
            while settled.load(Relaxed) < before + 200 && begin.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(5));
            }
            std::thread::sleep(Duration::from_millis(random.below(300)));
            // The first is a master, so that there is a failover in any case.
            let mut at = random.below(nodes.cluster.count() as u64) as usize;
            while round == 0 && !nodes.cluster.is_master(at) {
                at = (at + 1) % nodes.cluster.count();
            }
            masters += u64::from(nodes.cluster.is_master(at));
            loss.of(&mut nodes, at, &mut random);
            // One loss at a time is what is promised.
            nodes.cluster.until_well().unwrap();
        }
        stop_clients.store(true, Relaxed);
        let begin = Instant::now();
        // However long it takes beside other work, something is delivered now and then.
        let (mut since, mut before) = (begin, 0);
        loop {
            let (accepted, done) = {
                let ledger = ledger.lock().unwrap();
                let done = ledger.accepted.keys().filter(|id| ledger.settled.contains(id)).count();
                (ledger.accepted.len(), done)
            };
            if accepted == done && begin.elapsed() > Duration::from_secs(1) {
                break;
            }
            if done != before {
                (since, before) = (Instant::now(), done);
            }
            assert!(since.elapsed() < Duration::from_secs(120), "{done} of {accepted} were delivered");
            std::thread::sleep(Duration::from_millis(50));
        }
        std::thread::sleep(Duration::from_millis(500));
        stop_senders.store(true, Relaxed);
    });
    let ledger = ledger.into_inner().unwrap();
    let accepted: Vec<i64> = ledger.accepted.keys().copied().collect();
    let nothing = tempfile::tempdir().unwrap();
    let report = check(&stores[0], nothing.path(), &accepted).unwrap();
    assert!(report.holds(), "{report:#?}");
    // Each text once: a submission that was repeated was not stored twice.
    let mut texts = HashSet::new();
    let each = &mut |row| {
        if let Row::Message(message) = row
            && message.receipt_of == 0
        {
            assert!(texts.insert(message.body.clone()), "{:?} twice", String::from_utf8_lossy(&message.body));
        }
        Ok(())
    };
    stores[0].scan(each).unwrap();
    let repeated: usize = stores.iter().map(RedisClusterStore::repeated).sum();
    eprintln!(
        "{kills} times {loss:?}, {masters} of masters: {} accepted, {} settled with receipts, {} deliveries given, {repeated} rounds repeated",
        accepted.len(),
        ledger.settled.len(),
        ledger.given
    );
    assert_eq!(texts.len(), accepted.len());
}

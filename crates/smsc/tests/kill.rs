//! `kill -9` of the whole centre at random moments, on every store: whatever was acknowledged is
//! there, the invariants hold, and no more messages were delivered twice than were in flight.
//! `SMSC_KILLS` sets how often (3 for each store).
#![allow(clippy::unwrap_used)]

mod foreign_server;

use smsc::centre::{Archive, RetryPolicy};
use smsc::check::check;
use smsc::housekeeping::recover;
use smsc::load::{Clock, Figures, LoadProfile, Plan, Side, run};
use smsc::model::UnloggedTables;
use smsc::network::{NetworkProfile, Times};
use smsc::store::{MmdbOptions, Opening, PostgresqlForm, PostgresqlStore, PostgresqlUrl, Store, StoreKind};
use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const THREADS: usize = 4;
const WINDOW: usize = 8;

fn options(unlogged: UnloggedTables) -> MmdbOptions {
    // Checkpoints within a test, too, and segments that the log comes to the end of.
    MmdbOptions { unlogged, checkpoint_log_bytes: 1 << 20, segment_mib: 1, ..MmdbOptions::default() }
}

/// Which store is killed: one in a directory, or in a schema of a server that lives on.
#[derive(Clone)]
enum Victim {
    Private(StoreKind, UnloggedTables),
    Foreign(PostgresqlUrl),
}

impl Victim {
    fn open(&self, dir: &Path) -> Box<dyn Store> {
        match self {
            Victim::Private(kind, unlogged) => kind.open(dir, &options(*unlogged), kind.rules()).unwrap(),
            Victim::Foreign(url) => {
                let sessions = 4 * THREADS;
                let store = PostgresqlStore::at(url, url.kind().rules(), sessions, Opening::OrCreate);
                Box::new(store.unwrap())
            }
        }
    }

    fn kind(&self) -> StoreKind {
        match self {
            Victim::Private(kind, _) => *kind,
            Victim::Foreign(url) => url.kind(),
        }
    }
}

/// The child: everything at once, until it is killed. Tells what it accepted and what it delivered,
/// line by line, each written before the next step: a pipe keeps what a killed process wrote.
fn child(dir: &Path, victim: &Victim, seed: u64) {
    let store = victim.open(dir);
    recover(&*store, Clock::default().now_us()).unwrap();
    let mut archive = Archive::open(dir).unwrap();
    let tell = |word: &str, id: i64| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{word} {id}").unwrap();
        out.flush().unwrap();
    };
    println!("ready");
    let plan = Plan {
        side: Side::Both,
        receivers: THREADS,
        senders: THREADS,
        window: WINDOW,
        messages: u64::MAX,
        load: LoadProfile {
            seed,
            stations: 200,
            receipt_percent: 50,
            scheduled_permille: 50,
            accounts: 5,
            ..LoadProfile::default()
        },
        network: NetworkProfile {
            seed,
            absent: 1500,
            busy: 500,
            latency: Times::usual(300_000),
            absence_us: 20_000_000,
            time_factor: 1000,
            ..NetworkProfile::default()
        },
        retry: RetryPolicy::accelerated(10_000),
        on_accepted: Some(Arc::new(move |ids| ids.iter().for_each(|&id| tell("accepted", id)))),
        on_delivered: Some(Box::new(move |id| tell("delivered", id))),
        ..Plan::default()
    };
    run(&*store, &plan, &Figures::default(), Some(&mut archive), &mut |_| true).unwrap();
}

/// A generator of moments: splitmix64.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whether this process is a child, and has done what one does.
fn is_child(kind: StoreKind) -> bool {
    let Ok(dir) = std::env::var("SMSC_KILL_CHILD") else { return false };
    let told = |name| std::env::var(name).unwrap();
    let unlogged = match told("SMSC_KILL_UNLOGGED") {
        none if none.is_empty() => UnloggedTables::NONE,
        names => names.parse().unwrap(),
    };
    let victim = match std::env::var("SMSC_KILL_URL") {
        Ok(url) => Victim::Foreign(PostgresqlUrl::parse(&url).unwrap()),
        Err(_) => Victim::Private(kind, unlogged),
    };
    child(Path::new(&dir), &victim, told("SMSC_KILL_SEED").parse().unwrap());
    true
}

/// How often to kill.
fn kills() -> u64 {
    std::env::var("SMSC_KILLS").ok().and_then(|number| number.parse().ok()).unwrap_or(3)
}

fn survives(test: &str, kind: StoreKind, unlogged: UnloggedTables) {
    if !is_child(kind) {
        lives(test, &Victim::Private(kind, unlogged), 0..kills());
    }
}

/// Kills one store again and again, once for each seed.
fn lives(test: &str, victim: &Victim, seeds: Range<u64>) {
    if victim.kind().name().starts_with("postgresql")
        && let Err(error) = postgresql_server::find_programs(None)
    {
        eprintln!("skipped: {error}");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut accepted = Vec::new();
    // The life that delivered a message last, and for each life how many of its messages were
    // delivered again later.
    let mut by_life: HashMap<i64, usize> = HashMap::new();
    let (first, kills) = (seeds.start, seeds.end - seeds.start);
    let mut again = vec![0; kills as usize];
    for round in 0..kills {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command
            .args(["--exact", test, "--nocapture"])
            .env("SMSC_KILL_CHILD", dir.path())
            .env("SMSC_KILL_SEED", (first + round).to_string())
            .stdout(Stdio::piped());
        match victim {
            Victim::Private(_, unlogged) => command.env("SMSC_KILL_UNLOGGED", unlogged.to_string()),
            Victim::Foreign(url) => command.env("SMSC_KILL_UNLOGGED", "").env("SMSC_KILL_URL", url.written()),
        };
        let mut process = command.spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("ready")), "{test}: the child did not start");
        let (work, both) = std::sync::mpsc::sync_channel(1);
        let reader = std::thread::spawn(move || {
            let mut accepted = Vec::new();
            let mut delivered = Vec::new();
            for line in lines {
                match line.split_once(' ') {
                    Some(("accepted", id)) => accepted.extend(id.parse::<i64>()),
                    Some(("delivered", id)) => delivered.extend(id.parse::<i64>()),
                    _ => {}
                }
                // A message may be delivered before a sender that waits for a processor tells that
                // it was accepted.
                if !accepted.is_empty() && !delivered.is_empty() {
                    // Full once nobody waits for it any more.
                    _ = work.try_send(());
                }
            }
            (accepted, delivered)
        });
        // Every third life may end while it is still starting; the others have work under way,
        // however slow the machine.
        if round % 3 != 0 {
            _ = both.recv_timeout(Duration::from_secs(300));
        }
        std::thread::sleep(Duration::from_millis(30 + mix(first + round) % 300));
        process.kill().unwrap();
        process.wait().unwrap();
        let (fresh, delivered) = reader.join().unwrap();
        accepted.extend(fresh);
        // Within one life nothing is delivered twice; a message of an earlier life may be, if its
        // claim died with that.
        let mut now = HashSet::new();
        for id in delivered {
            assert!(now.insert(id), "{test}: message {id} was delivered twice in one life");
            // What is delivered again was in flight at the crash that ended its last life, which
            // may be some lives ago.
            if let Some(earlier) = by_life.insert(id, round as usize) {
                again[earlier] += 1;
                let most = THREADS * WINDOW;
                assert!(
                    again[earlier] <= most,
                    "{test}, kill {round}: more than {most} messages of life {earlier} came again"
                );
            }
        }
        let store = victim.open(dir.path());
        let recovered = recover(&*store, Clock::default().now_us()).unwrap();
        // What was in flight is given back, and nothing else is.
        assert!(recovered.freed <= THREADS * WINDOW, "{test}: {recovered:?}");
        let report = check(&*store, dir.path(), &accepted).unwrap();
        assert!(report.holds(), "{test}, kill {round}: {report:#?}");
    }
    let (accepted, delivered) = (accepted.len(), by_life.len());
    assert!(
        accepted > 0 && delivered > 0,
        "{test}: {accepted} accepted and {delivered} delivered in {kills} rounds"
    );
}

#[test]
fn mmdb_survives_kills() {
    survives("mmdb_survives_kills", StoreKind::Mmdb, UnloggedTables::NONE);
}

#[test]
fn mmdb_with_selective_logging_survives_kills() {
    survives("mmdb_with_selective_logging_survives_kills", StoreKind::Mmdb, UnloggedTables::ALL);
}

/// Two lives for each of some choices of tables that are not logged.
#[test]
fn mmdb_with_any_choice_of_tables_survives_kills() {
    let test = "mmdb_with_any_choice_of_tables_survives_kills";
    if is_child(StoreKind::Mmdb) {
        return;
    }
    let every: Vec<UnloggedTables> = UnloggedTables::every().collect();
    for pair in 0..kills().div_ceil(2) {
        // Other choices in each run of the test.
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        let unlogged = every[(mix(now.as_nanos() as u64) % every.len() as u64) as usize];
        eprintln!("without a log of {unlogged}");
        lives(test, &Victim::Private(StoreKind::Mmdb, unlogged), 2 * pair..2 * pair + 2);
    }
}

/// Stations wait as their timers tell.
#[test]
fn mmdb_without_a_log_of_stations_survives_kills() {
    let unlogged = "ms_state,to_delivery,sent".parse().unwrap();
    survives("mmdb_without_a_log_of_stations_survives_kills", StoreKind::Mmdb, unlogged);
}

/// Timers follow from the stations that wait.
#[test]
fn mmdb_without_a_log_of_timers_survives_kills() {
    let unlogged = "retry_timer,scheduled_msg,encoded_msg".parse().unwrap();
    survives("mmdb_without_a_log_of_timers_survives_kills", StoreKind::Mmdb, unlogged);
}

#[test]
fn sqlite_survives_kills() {
    survives("sqlite_survives_kills", StoreKind::Sqlite, UnloggedTables::NONE);
}

#[test]
fn naive_sqlite_survives_kills() {
    survives("naive_sqlite_survives_kills", StoreKind::SqliteNaive, UnloggedTables::NONE);
}

#[test]
fn postgresql_survives_kills() {
    survives("postgresql_survives_kills", StoreKind::Postgresql, UnloggedTables::NONE);
}

#[test]
fn grouped_postgresql_survives_kills() {
    survives("grouped_postgresql_survives_kills", StoreKind::PostgresqlGrouped, UnloggedTables::NONE);
}

#[test]
fn batched_postgresql_survives_kills() {
    survives("batched_postgresql_survives_kills", StoreKind::PostgresqlBatched, UnloggedTables::NONE);
}

#[test]
fn postgresql_statement_by_statement_survives_kills() {
    survives(
        "postgresql_statement_by_statement_survives_kills",
        StoreKind::PostgresqlStatements,
        UnloggedTables::NONE,
    );
}

/// In a schema of a server that lives on, with each form; the child's sessions end when their
/// server notices that it has gone.
#[test]
fn a_store_by_url_survives_kills() {
    let test = "a_store_by_url_survives_kills";
    if is_child(StoreKind::PostgresqlBatched) {
        return;
    }
    let Some(given) = foreign_server::ForeignServer::start(&[]) else { return };
    for form in PostgresqlForm::ALL {
        let parameters = format!("form={}&schema={}", form.word(), form.word());
        let url = PostgresqlUrl::parse(&given.checked_url("owner", &parameters)).unwrap();
        lives(test, &Victim::Foreign(url), 0..kills());
    }
}

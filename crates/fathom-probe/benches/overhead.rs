//! What measuring costs: the same statements with the probe and a clock per statement, and without
//! either.
//!
//! Method. Two connections to one database, one through the VFS "fathom" and one through the
//! platform's, in one process on one thread. (Two files would differ by where they lie on the
//! disk.) Blocks of a few milliseconds alternate in pairs, the first of each pair chosen at random,
//! so that a disturbance of the machine or of the disk hits both sides alike. Each pair gives one
//! ratio; the result is the median ratio with the bootstrap's 95 % interval (percentiles of the
//! medians of 2000 resamples). The median, because a sync now and then takes fifty times as long as
//! usual, on either side, and has nothing to do with the probe. Both connections are opened anew
//! every few pairs, in random order: where a connection's page cache comes to lie in memory makes a
//! scan up to 3 % faster or slower for as long as the connection lives. The row `nothing` compares
//! the plain side with itself: its distance from 1 is what the method cannot see.
//!
//! `cargo bench -p fathom-probe -- [insert|scan] [--pairs N] [--dir DIR]`. The bars are those of
//! the project: an insert may cost 1.01 times, a scan 1.03 times. The exit code is 1 if an interval
//! lies above its bar.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use fathom_probe::{Probe, Split, StatementClock, sqlite_api};
use rusqlite::{Connection, OpenFlags};

const RESAMPLES: usize = 2000;
/// Pairs with the same two connections, and blocks on each of them before the first pair.
const PAIRS_PER_OPENING: usize = 10;
const WARM_UP: usize = 2;

struct Case {
    name: &'static str,
    setup: &'static str,
    statement: &'static str,
    /// Statements in one block.
    block: u32,
    bar: f64,
    /// Both sides without the probe.
    null: bool,
}

const ROWS: &str = "CREATE TABLE t(id INTEGER PRIMARY KEY, value TEXT NOT NULL, number INTEGER);";
const FILL: &str = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
    INSERT INTO t SELECT i, printf('%0100d', i), i * 7919 % 50000 FROM n;";
const INSERT: &str = "INSERT INTO t(value, number) VALUES (hex(randomblob(50)), 1)";
const SCAN: &str = "SELECT sum(number), max(value), sum(length(value)) FROM t";

const CASES: [Case; 7] = [
    Case {
        name: "insert wal/full",
        setup: "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        statement: INSERT,
        block: 10,
        bar: 1.01,
        null: false,
    },
    Case {
        name: "insert delete/full",
        setup: "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL;",
        statement: INSERT,
        block: 10,
        bar: 1.01,
        null: false,
    },
    Case {
        name: "insert nothing",
        setup: "PRAGMA journal_mode=DELETE; PRAGMA synchronous=FULL;",
        statement: INSERT,
        block: 10,
        bar: 1.01,
        null: true,
    },
    Case {
        name: "scan cached",
        setup: "PRAGMA cache_size=-64000;",
        statement: SCAN,
        block: 1,
        bar: 1.03,
        null: false,
    },
    Case {
        name: "scan reading",
        setup: "PRAGMA cache_size=10;",
        statement: SCAN,
        block: 1,
        bar: 1.03,
        null: false,
    },
    Case {
        name: "scan mmap",
        setup: "PRAGMA cache_size=10; PRAGMA mmap_size=268435456;",
        statement: SCAN,
        block: 1,
        bar: 1.03,
        null: false,
    },
    Case {
        name: "scan nothing",
        setup: "PRAGMA cache_size=10;",
        statement: SCAN,
        block: 1,
        bar: 1.03,
        null: true,
    },
];

/// xorshift64: order of the pairs and choice of the resamples.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn open(path: &Path, probed: bool, case: &Case) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::default();
    let db = if probed {
        Connection::open_with_flags_and_vfs(path, flags, Probe::VFS_NAME)?
    } else {
        Connection::open_with_flags(path, flags)?
    };
    db.execute_batch(case.setup)?;
    Ok(db)
}

fn block(db: &Connection, case: &Case, probed: bool, sum: &mut Split) -> rusqlite::Result<f64> {
    let mut statement = db.prepare_cached(case.statement)?;
    if case.statement == INSERT {
        // The other side has written: this side's cache is void. Fill it outside of the timed
        // window.
        statement.execute([])?;
    }
    let begin = Instant::now();
    for _ in 0..case.block {
        if probed {
            let clock = StatementClock::start();
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
            drop(rows);
            sum.add(&clock.stop());
        } else {
            let mut rows = statement.query([])?;
            while rows.next()?.is_some() {}
        }
    }
    Ok(begin.elapsed().as_nanos() as f64 / f64::from(case.block))
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { (values[middle - 1] + values[middle]) / 2.0 }
}

fn run(case: &Case, pairs: usize, directory: &Path, random: &mut Random) -> rusqlite::Result<bool> {
    let probed = !case.null;
    let path = directory.join(format!("{}.db", case.name.replace([' ', '/'], "-")));
    let fill = if case.statement == SCAN { FILL } else { "" };
    Connection::open(&path)?.execute_batch(&format!("PRAGMA synchronous=OFF; {ROWS} {fill}"))?;
    let mut sum = Split::default();
    let mut both = |random: &mut Random| -> rusqlite::Result<(Connection, Connection)> {
        let (plain_db, probe_db) = if random.next() >> 63 == 0 {
            let plain_db = open(&path, false, case)?;
            (plain_db, open(&path, probed, case)?)
        } else {
            let probe_db = open(&path, probed, case)?;
            (open(&path, false, case)?, probe_db)
        };
        for _ in 0..WARM_UP {
            block(&plain_db, case, false, &mut sum)?;
            block(&probe_db, case, probed, &mut sum)?;
        }
        Ok((plain_db, probe_db))
    };
    let (mut plain_db, mut probe_db) = both(random)?;
    let mut clocked = Split::default();
    let (mut plain, mut ratios) = (Vec::new(), Vec::new());
    for pair in 0..pairs {
        if pair > 0 && pair % PAIRS_PER_OPENING == 0 {
            (plain_db, probe_db) = both(random)?;
        }
        let (with, without);
        if random.next() >> 63 == 0 {
            with = block(&probe_db, case, probed, &mut clocked)?;
            without = block(&plain_db, case, false, &mut clocked)?;
        } else {
            without = block(&plain_db, case, false, &mut clocked)?;
            with = block(&probe_db, case, probed, &mut clocked)?;
        }
        plain.push(without);
        ratios.push(with / without);
    }
    let openings: Vec<&[f64]> = ratios.chunks(PAIRS_PER_OPENING).collect();
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            // Whole openings, because what lies in the connections is common to their pairs.
            let mut resample: Vec<f64> = (0..openings.len())
                .flat_map(|_| openings[random.next() as usize % openings.len()])
                .copied()
                .collect();
            median(&mut resample)
        })
        .collect();
    medians.sort_unstable_by(f64::total_cmp);
    let (low, high) = (medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40]);
    let ratio = median(&mut ratios);
    let verdict = match () {
        () if case.null => "",
        () if high <= case.bar => "met",
        () if low <= case.bar => "not decided",
        () => "MISSED",
    };
    println!(
        "{:20} {:>9.1} us  {ratio:.4} [{low:.4}, {high:.4}]  bar {:.2} {verdict}",
        case.name,
        median(&mut plain) / 1e3,
        case.bar
    );
    Ok(case.null || low <= case.bar)
}

fn main() -> ExitCode {
    let mut pairs = None;
    let mut directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let mut filter = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--pairs" => pairs = arguments.next().and_then(|number| number.parse().ok()),
            "--dir" => directory = arguments.next().map(PathBuf::from).unwrap_or(directory),
            name => filter = Some(name.to_owned()),
        }
    }
    let directory = tempfile::tempdir_in(directory).expect("a directory for the databases");
    // SAFETY: the functions of the one bundled library.
    unsafe { Probe::install(sqlite_api!(libsqlite3_sys).expect("all functions")) }.expect("the probe");
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    println!("statement             without probe  with / without [95 %]");
    let mut good = true;
    for case in
        CASES.iter().filter(|case| filter.as_ref().is_none_or(|name| case.name.contains(name.as_str())))
    {
        let pairs = pairs.unwrap_or(if case.block > 1 { 4000 } else { 600 });
        good &= run(case, pairs, directory.path(), &mut random).expect("SQLite does the statements");
    }
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

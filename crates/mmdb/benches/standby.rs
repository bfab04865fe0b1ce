//! How far a standby is behind a primary that commits at a steady rate, and what the tail costs the
//! primary. Both databases are in this process and on one disk, frames go as bytes from one thread
//! to another; the primary's log and the standby's are synced.
//!
//! `cargo bench -p mmdb --bench standby [-- DIR [TX_PER_SECOND [SECONDS]]]`

use mmdb::{ColumnType, Database, Durability, Frames, Options, Schema, Standby, Table, Ticket, Value};
use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Done<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Rows, all there before the first measurement.
const ROWS: i64 = 200_000;
const BODY: usize = 100;
/// Until the standby, which was just opened, has its segments filled with zeros: 128 MiB on the
/// same disk, beside which the slowest commit of seven runs took 55 to 78 ms.
const SETTLE: Duration = Duration::from_secs(2);
/// One commit of so many is timed.
const SAMPLE: u64 = 500;

/// Commits at `rate` a second (0: as fast as it goes) until `until`; how many. `note` hears of one
/// commit of [`SAMPLE`], as soon as it is made.
fn load(db: &Database, t: &Table, rate: u64, until: Instant, note: &dyn Fn(u64, Instant)) -> Done<u64> {
    let (began, mut made) = (Instant::now(), 0u64);
    let mut last: Option<Ticket> = None;
    let mut body = [7u8; BODY];
    while Instant::now() < until {
        let due = if rate == 0 { made + 1000 } else { (began.elapsed().as_secs_f64() * rate as f64) as u64 };
        while made < due {
            let id = (made.wrapping_mul(2_654_435_761) % ROWS as u64) as i64;
            body[made as usize % BODY] = made as u8;
            let mut tx = db.begin()?;
            tx.update(t, &[id.into()], &[("n", (made as i64).into()), ("body", Value::Bytes(&body))])?;
            let ticket = tx.commit_with(Durability::Durable)?;
            ticket.poll()?;
            if made.is_multiple_of(SAMPLE) {
                note(ticket.gsn(), Instant::now());
            }
            last = Some(ticket);
            made += 1;
        }
        if rate != 0 {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    last.map_or(Ok(0), |ticket| ticket.wait())?;
    Ok(made)
}

fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = (sorted.len() as f64 * share) as usize;
    sorted.get(at.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}

fn primary(dir: &Path) -> Done<(Database, Table)> {
    let db = Database::open(dir, Options::default())?;
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let t = db.create_table(schema.column("body", ColumnType::VarBytes(BODY as u16)).primary_key(&["id"]))?;
    for from in (0..ROWS).step_by(1000) {
        drop(db.run_with(Durability::Lazy, |tx| {
            (from..from + 1000)
                .try_for_each(|id| tx.insert(&t, &[id.into(), 0.into(), Value::Bytes(&[0; BODY])]))
        })?);
    }
    db.flush()?;
    Ok((db, t))
}

/// Brings what the tail gives to the standby until all is there.
fn carry(db: &Database, standby: &Standby, stop: &AtomicBool, seen: &dyn Fn(u64)) -> Done<()> {
    let mut tail = db.tail(&standby.position())?;
    while !stop.load(Ordering::Acquire) || standby.position().gsn() < db.horizon() {
        let Some(frames) = tail.next_within(Duration::from_millis(10))? else { continue };
        let position = standby.apply(&Frames::from_bytes(frames.as_bytes().to_vec())?)?;
        db.acknowledge("s", &position)?;
        seen(position.gsn());
    }
    Ok(())
}

fn main() -> Done<()> {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let dir = args.first().map_or_else(std::env::temp_dir, PathBuf::from);
    let rate: u64 = args.get(1).map_or(Ok(100_000), |arg| arg.parse())?;
    let seconds: u64 = args.get(2).map_or(Ok(10), |arg| arg.parse())?;
    let dir = dir.join(format!("mmdb-standby-bench-{}", std::process::id()));
    std::fs::create_dir(&dir)?;
    let (db, t) = primary(&dir.join("primary"))?;
    let run = |rate| load(&db, &t, rate, Instant::now() + Duration::from_secs(seconds), &|_, _| {});
    let alone = run(0)?;
    println!("no tail, as fast as it goes:     {:>9.0} commits/s", alone as f64 / seconds as f64);

    db.backup_for_standby(dir.join("standby"))?;
    let standby = Standby::open(dir.join("standby"), Options::default())?;
    std::thread::sleep(SETTLE);
    let (open, behind, stop) = (Mutex::new(VecDeque::new()), Mutex::new(Vec::new()), AtomicBool::new(false));
    let made = std::thread::scope(|scope| -> Done<u64> {
        let carrier = scope.spawn(|| {
            carry(&db, &standby, &stop, &|gsn| {
                let (mut open, now) = (open.lock().expect("no panic"), Instant::now());
                while let Some((_, at)) = open.front().copied().filter(|(of, _): &(u64, Instant)| *of <= gsn)
                {
                    open.pop_front();
                    behind.lock().expect("no panic").push((now - at).as_secs_f64() * 1e3);
                }
            })
        });
        let until = Instant::now() + Duration::from_secs(seconds);
        let made = load(&db, &t, rate, until, &|gsn, at| open.lock().expect("no panic").push_back((gsn, at)));
        stop.store(true, Ordering::Release);
        carrier.join().expect("no panic")?;
        made
    })?;
    let mut behind = behind.into_inner()?;
    behind.sort_by(f64::total_cmp);
    println!("with a standby, {rate}/s wanted: {:>9.0} commits/s", made as f64 / seconds as f64);
    println!(
        "from commit to acknowledgement:  p50 {:.1} ms, p99 {:.1} ms, greatest {:.1} ms ({} timed)",
        percentile(&behind, 0.5),
        percentile(&behind, 0.99),
        percentile(&behind, 1.0),
        behind.len()
    );

    stop.store(false, Ordering::Release);
    let made = std::thread::scope(|scope| -> Done<u64> {
        let carrier = scope.spawn(|| carry(&db, &standby, &stop, &|_| {}));
        let made = run(0);
        let late = db.horizon() - standby.position().gsn();
        println!("behind at the end of full speed: {late:>9} commits");
        stop.store(true, Ordering::Release);
        carrier.join().expect("no panic")?;
        made
    })?;
    println!("with a standby, at full speed:   {:>9.0} commits/s", made as f64 / seconds as f64);
    drop((t, db, standby));
    Ok(std::fs::remove_dir_all(&dir)?)
}

//! One cell: one peer, one mode, one number of clients. It runs in a process of its own, which ends
//! by being killed; a second process opens what is left, times that, and checks every row.

use crate::catalog::{self, Mode};
use crate::message::{Digest, Messages};
use crate::mix::{self, Mix};
use crate::peer::{Peer, Transaction};
use crate::usage::{self, Usage};
use anyhow::{Context, Result, anyhow, ensure};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What to run.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct CellSpec {
    /// Name of the peer in the catalog.
    pub peer: String,
    /// Blocking or asynchronous.
    pub mode: Mode,
    /// Threads, each with its own client.
    pub clients: usize,
    /// Transactions that one client has under way at most.
    pub window: usize,
    /// Length of the receive phase, s.
    pub receive_s: f64,
    /// Length of the deliver phase, s; it ends earlier when all is delivered. 0 leaves it out.
    pub deliver_s: f64,
    /// Length of the mix, s, in the place of both phases; 0 for those.
    #[serde(default)]
    pub mix_s: f64,
    /// With checkpoints, flushes and compaction as in a long run.
    #[serde(default)]
    pub sustained: bool,
    /// Directory of the store.
    pub dir: PathBuf,
}

/// One measured phase.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Phase {
    /// Receive or deliver.
    pub transaction: Transaction,
    /// Durable transactions.
    pub count: u64,
    /// From the start of all clients to the last acknowledgement.
    pub seconds: f64,
    /// Latency from submission to acknowledgement, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// 99.9th percentile, µs.
    #[serde(default)]
    pub p999_us: f64,
    /// Greatest, µs.
    pub max_us: f64,
    /// Bytes of log for one transaction (see `Peer::log_bytes`).
    pub log_bytes: f64,
    /// Bytes that the device wrote, for one transaction; file system and others' writes included.
    pub disk_bytes: Option<f64>,
    /// Processor time of clients and store, µs for one transaction.
    pub cpu_us: f64,
}

/// What the first process reports before it is killed.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Measurement {
    /// Receive, and deliver if it was run.
    pub phases: Vec<Phase>,
    /// The mix, if it was run.
    #[serde(default)]
    pub mix: Option<Mix>,
    /// Messages received by each client.
    pub received: Vec<u64>,
    /// Messages delivered by each client.
    pub delivered: Vec<u64>,
}

/// What the second process reports.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Reopened {
    /// From the start of opening (or of the server) until the store answers, s.
    pub recovery_s: f64,
    /// What the store holds.
    pub digest: Digest,
}

/// Transactions that each client runs before a phase is timed: sessions, statements and log files
/// are warm then.
const WARM_UP: u64 = 10;

/// Opens the store, runs the phases. The caller reports, and is then killed with the store.
pub fn measure(spec: &CellSpec) -> Result<(Box<dyn Peer>, Measurement)> {
    let peer = catalog::open(spec)?;
    let messages = Messages::new(spec.clients);
    if spec.mix_s > 0.0 {
        let (mix, received, delivered) = mix::run(&*peer, spec, &messages)?;
        return Ok((peer, Measurement { phases: Vec::new(), mix: Some(mix), received, delivered }));
    }
    let (phase, received) = run_phase(&*peer, spec, &messages, Transaction::Receive, None)?;
    let mut measured =
        Measurement { phases: vec![phase], mix: None, received, delivered: vec![0; spec.clients] };
    if spec.deliver_s > 0.0 {
        let limits = Some(&measured.received[..]);
        let (phase, delivered) = run_phase(&*peer, spec, &messages, Transaction::Deliver, limits)?;
        measured.phases.push(phase);
        measured.delivered = delivered;
    }
    Ok((peer, measured))
}

/// Opens what the first process left, and reads all of it.
pub fn reopen(spec: &CellSpec) -> Result<(Box<dyn Peer>, Reopened)> {
    let begin = Instant::now();
    let peer = catalog::open(spec)?;
    let recovery_s = begin.elapsed().as_secs_f64();
    let mut digest = Digest::default();
    peer.scan(&mut digest)?;
    Ok((peer, Reopened { recovery_s, digest }))
}

/// Says where two digests differ.
pub fn check(found: &Digest, measured: &Measurement) -> Result<()> {
    let expected = Digest::expected(&measured.received, &measured.delivered);
    ensure!(
        *found == expected,
        "after the crash the store holds {found:?}, but acknowledged were {expected:?}"
    );
    Ok(())
}

/// Waits until what opening set off is on the disk, so that it is no part of the run: a store that
/// prepares log files in the background is given the time for it. 3 s at most.
pub fn quiesce(dir: &Path) {
    let mut last = None;
    for _ in 0..60 {
        // SAFETY: no arguments, cannot fail.
        unsafe { libc::sync() }
        let written = usage::device_written(dir);
        if last == Some(written) {
            return;
        }
        last = Some(written);
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Runs one phase with all clients; returns it with the number of transactions of each client, the
/// warm-up included.
fn run_phase(
    peer: &dyn Peer,
    spec: &CellSpec,
    messages: &Messages,
    transaction: Transaction,
    limits: Option<&[u64]>,
) -> Result<(Phase, Vec<u64>)> {
    let barrier = Barrier::new(spec.clients + 1);
    let seconds = if transaction == Transaction::Receive { spec.receive_s } else { spec.deliver_s };
    let length = Duration::from_secs_f64(seconds);
    let (results, begin, before, log_before, disk_before) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..spec.clients)
            .map(|number| {
                let barrier = &barrier;
                let limit = limits.map_or(u64::MAX, |l| l[number]);
                scope.spawn(move || {
                    let mut driver =
                        Driver { messages, number, transaction, sequence: 0, latency: new_histogram()? };
                    let warm = peer.client().and_then(|mut client| {
                        driver.run(&mut *client, 1, limit.min(WARM_UP), None)?;
                        Ok(client)
                    });
                    driver.latency.reset();
                    barrier.wait();
                    // The main thread reads its counters while all wait here.
                    barrier.wait();
                    driver.run(&mut *warm?, spec.window, limit, Some(Instant::now() + length))?;
                    Ok::<_, anyhow::Error>((driver, Instant::now()))
                })
            })
            .collect();
        barrier.wait();
        quiesce(&spec.dir);
        let before = Usage::now(peer.server());
        let log_before = peer.log_bytes();
        let disk_before = usage::device_written(&spec.dir);
        let begin = Instant::now();
        barrier.wait();
        let results: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a client thread panicked"))))
            .collect();
        (results, begin, before, log_before, disk_before)
    });
    let disk_after = usage::device_written(&spec.dir);
    let log_bytes = peer.log_bytes()?.saturating_sub(log_before?);
    let usage = Usage::now(peer.server())?.since(before?);
    let mut latency = new_histogram()?;
    let mut sequences = Vec::with_capacity(spec.clients);
    let mut end = begin;
    for result in results {
        let (driver, last) = result?;
        latency.add(&driver.latency).context("adding histograms")?;
        sequences.push(driver.sequence);
        end = end.max(last);
    }
    let count = latency.len();
    ensure!(count > 0, "no transaction finished in time");
    let each = |sum: u64| sum as f64 / count as f64;
    let us = |ns: u64| ns as f64 / 1000.0;
    let phase = Phase {
        transaction,
        count,
        seconds: (end - begin).as_secs_f64(),
        p50_us: us(latency.value_at_quantile(0.5)),
        p99_us: us(latency.value_at_quantile(0.99)),
        p999_us: us(latency.value_at_quantile(0.999)),
        max_us: us(latency.max()),
        log_bytes: each(log_bytes),
        disk_bytes: disk_before.zip(disk_after).map(|(before, after)| each(after - before)),
        cpu_us: each(usage.cpu_us),
    };
    Ok((phase, sequences))
}

/// Nanoseconds up to 100 s, three digits.
pub fn new_histogram() -> Result<Histogram<u64>> {
    Histogram::new_with_bounds(1, 100_000_000_000, 3).context("histogram")
}

/// The loop of one client.
struct Driver<'a> {
    messages: &'a Messages,
    number: usize,
    transaction: Transaction,
    /// Messages done.
    sequence: u64,
    latency: Histogram<u64>,
}

impl Driver<'_> {
    /// Keeps the window full until the deadline or until `limit` messages are done, then waits for
    /// what is under way.
    fn run(
        &mut self,
        client: &mut dyn crate::peer::Client,
        window: usize,
        limit: u64,
        deadline: Option<Instant>,
    ) -> Result<()> {
        let mut under_way: VecDeque<Instant> = VecDeque::with_capacity(window);
        let mut open = true;
        loop {
            while open && under_way.len() < window {
                let message = self.messages.message(self.number, self.sequence);
                let now = Instant::now();
                if self.sequence >= limit || deadline.is_some_and(|deadline| now >= deadline) {
                    open = false;
                    break;
                }
                client.submit(self.transaction, &message)?;
                under_way.push_back(now);
                self.sequence += 1;
            }
            if under_way.is_empty() {
                return Ok(());
            }
            let settled = client.settle()?;
            let now = Instant::now();
            ensure!(settled <= under_way.len(), "the peer acknowledges more than was submitted");
            for began in under_way.drain(..settled) {
                self.latency.saturating_record((now - began).as_nanos() as u64);
            }
        }
    }
}

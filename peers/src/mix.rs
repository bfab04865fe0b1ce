//! The mix: each client receives, reads, looks at the head of a queue and delivers in turn, so that
//! the store neither grows nor empties, however long it runs.
//!
//! Two transactions, [`READS`] reads of a message by its key and one scan of the first [`HEAD`] rows
//! of a station's queue make a turn; nothing of it is asynchronous. What is read is compared with
//! what was received: a store that shows a wrong row, or none, fails the cell.

use crate::cell::{CellSpec, new_histogram, quiesce};
use crate::message::{Message, Messages};
use crate::peer::{Client, Peer, Transaction};
use crate::usage::Usage;
use anyhow::{Context, Result, anyhow, ensure};
use fathom_random::Random;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// Messages that each client has in the store.
const BACKLOG: u64 = 500;
/// Reads of a message in a turn.
const READS: usize = 8;
/// Rows of a queue that are looked at.
const HEAD: usize = 10;

/// What a client does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Receive or deliver one message.
    Write,
    /// Read a message by its key.
    Read,
    /// Read the head of a queue.
    Scan,
}

const OPERATIONS: [Operation; 3] = [Operation::Write, Operation::Read, Operation::Scan];

/// One kind of operation.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Part {
    /// Which.
    pub operation: Operation,
    /// How many.
    pub count: u64,
    /// Median latency, µs.
    pub p50_us: f64,
    /// 99th percentile, µs.
    pub p99_us: f64,
    /// 99.9th percentile, µs.
    pub p999_us: f64,
    /// Greatest, µs.
    pub max_us: f64,
}

/// A mix that was run.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct Mix {
    /// From the start of all clients to the last answer.
    pub seconds: f64,
    /// Each kind of operation.
    pub parts: Vec<Part>,
    /// Processor time of clients and store, µs for one operation.
    pub cpu_us: f64,
}

impl Mix {
    /// Operations a second, of all kinds.
    pub fn rate(&self) -> f64 {
        self.parts.iter().map(|part| part.count).sum::<u64>() as f64 / self.seconds
    }

    /// What there is of one kind.
    pub fn part(&self, operation: Operation) -> Option<&Part> {
        self.parts.iter().find(|part| part.operation == operation)
    }
}

/// Runs it with all clients: what came of it, and the messages that each has received and
/// delivered.
pub fn run(peer: &dyn Peer, spec: &CellSpec, messages: &Messages) -> Result<(Mix, Vec<u64>, Vec<u64>)> {
    let barrier = Barrier::new(spec.clients + 1);
    let length = Duration::from_secs_f64(spec.mix_s);
    let (results, begin, before) = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..spec.clients)
            .map(|number| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut worker = Worker::new(messages, number)?;
                    let filled = peer.client().and_then(|mut client| {
                        (0..BACKLOG).try_for_each(|_| worker.receive(&mut *client))?;
                        Ok(client)
                    });
                    worker.latencies.iter_mut().for_each(Histogram::reset);
                    barrier.wait();
                    // The main thread reads its counters while all wait here.
                    barrier.wait();
                    let (mut client, deadline) = (filled?, Instant::now() + length);
                    while Instant::now() < deadline {
                        worker.turn(&mut *client)?;
                    }
                    Ok::<_, anyhow::Error>((worker, Instant::now()))
                })
            })
            .collect();
        barrier.wait();
        quiesce(&spec.dir);
        let before = Usage::now(peer.server());
        let begin = Instant::now();
        barrier.wait();
        let results: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err(anyhow!("a client thread panicked"))))
            .collect();
        (results, begin, before)
    });
    let usage = Usage::now(peer.server())?.since(before?);
    let mut latencies = [new_histogram()?, new_histogram()?, new_histogram()?];
    let (mut received, mut delivered, mut end) = (Vec::new(), Vec::new(), begin);
    for result in results {
        let (worker, last) = result?;
        for (all, own) in latencies.iter_mut().zip(&worker.latencies) {
            all.add(own).context("adding histograms")?;
        }
        received.push(worker.received);
        delivered.push(worker.delivered);
        end = end.max(last);
    }
    let us = |ns: u64| ns as f64 / 1000.0;
    let part = |(&operation, latency): (&Operation, &Histogram<u64>)| Part {
        operation,
        count: latency.len(),
        p50_us: us(latency.value_at_quantile(0.5)),
        p99_us: us(latency.value_at_quantile(0.99)),
        p999_us: us(latency.value_at_quantile(0.999)),
        max_us: us(latency.max()),
    };
    let parts: Vec<Part> = OPERATIONS.iter().zip(&latencies).map(part).collect();
    let count: u64 = parts.iter().map(|part| part.count).sum();
    ensure!(count > 0, "no operation finished in time");
    let cpu_us = usage.cpu_us as f64 / count as f64;
    Ok((Mix { seconds: (end - begin).as_secs_f64(), parts, cpu_us }, received, delivered))
}

/// The loop of one client.
struct Worker<'a> {
    messages: &'a Messages,
    number: usize,
    received: u64,
    delivered: u64,
    random: Random,
    /// In the order of [`OPERATIONS`].
    latencies: [Histogram<u64>; 3],
    value: Vec<u8>,
    expected: Vec<u8>,
}

impl<'a> Worker<'a> {
    fn new(messages: &'a Messages, number: usize) -> Result<Self> {
        Ok(Worker {
            messages,
            number,
            received: 0,
            delivered: 0,
            random: Random::new(number as u64 + 1),
            latencies: [new_histogram()?, new_histogram()?, new_histogram()?],
            value: Vec::new(),
            expected: Vec::new(),
        })
    }

    fn timed<T>(&mut self, operation: Operation, f: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let began = Instant::now();
        let done = f(self)?;
        self.latencies[operation as usize].saturating_record(began.elapsed().as_nanos() as u64);
        Ok(done)
    }

    fn write(&mut self, client: &mut dyn Client, transaction: Transaction, message: &Message) -> Result<()> {
        self.timed(Operation::Write, |_| {
            client.submit(transaction, message)?;
            ensure!(client.settle()? == 1, "one transaction was submitted, and another number is durable");
            Ok(())
        })
    }

    fn receive(&mut self, client: &mut dyn Client) -> Result<()> {
        let message = self.messages.message(self.number, self.received);
        self.write(client, Transaction::Receive, &message)?;
        self.received += 1;
        Ok(())
    }

    /// One of the messages of this client that are in the store.
    fn any(&mut self) -> Message {
        let at = self.delivered + self.random.bits() % (self.received - self.delivered);
        self.messages.message(self.number, at)
    }

    fn turn(&mut self, client: &mut dyn Client) -> Result<()> {
        self.receive(client)?;
        for _ in 0..READS {
            let message = self.any();
            let there = self.timed(Operation::Read, |worker| {
                worker.value.clear();
                client.read(message.msg_id, &mut worker.value)
            })?;
            ensure!(there, "message {} is not there", message.msg_id);
            self.expected.clear();
            message.message_value(&mut self.expected);
            ensure!(self.value == self.expected, "message {} is another one", message.msg_id);
        }
        let message = self.any();
        let rows = self.timed(Operation::Scan, |_| client.head(message.dst_key, HEAD))?;
        ensure!((1..=HEAD).contains(&rows), "the queue of station {} shows {rows} rows", message.dst_key);
        let oldest = self.messages.message(self.number, self.delivered);
        self.write(client, Transaction::Deliver, &oldest)?;
        self.delivered += 1;
        Ok(())
    }
}

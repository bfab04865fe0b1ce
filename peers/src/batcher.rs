//! A writer thread in front of a single-writer engine: whatever clients are waiting becomes one
//! transaction.
//!
//! This is how such engines are used where many threads write. It is greedy, as group commit is: as
//! soon as one batch is durable, all that has arrived meanwhile is the next. Clients of one batch
//! sleep on one futex word, so that waking all of them is one call.

use crate::futex;
use crate::message::{Digest, Message};
use crate::peer::{Client, Engine, Peer, Transaction};
use anyhow::{Result, anyhow};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// One batch: what its clients wait for.
#[derive(Default)]
struct Batch {
    /// 0 = under way, 1 = durable, 2 = failed.
    outcome: AtomicU32,
}

#[derive(Default)]
struct Waiting {
    transactions: Vec<(Transaction, Message)>,
    batch: Arc<Batch>,
    closing: bool,
}

struct Shared<E> {
    engine: E,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Why a batch failed, for the clients' error.
    failure: Mutex<Option<String>>,
}

/// An [`Engine`] behind a writer thread.
pub struct Batcher<E> {
    shared: Arc<Shared<E>>,
    writer: Option<std::thread::JoinHandle<()>>,
}

impl<E: Engine + 'static> Batcher<E> {
    /// Starts the writer thread.
    pub fn new(engine: E) -> Self {
        let shared = Arc::new(Shared {
            engine,
            waiting: Mutex::default(),
            arrived: Condvar::new(),
            failure: Mutex::default(),
        });
        let of_writer = Arc::clone(&shared);
        let writer = Some(std::thread::spawn(move || write_batches(&of_writer)));
        Batcher { shared, writer }
    }
}

fn write_batches<E: Engine>(shared: &Shared<E>) {
    let mut transactions = Vec::new();
    loop {
        let mut waiting = shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        while waiting.transactions.is_empty() {
            if waiting.closing {
                return;
            }
            waiting = shared.arrived.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        transactions.clear();
        std::mem::swap(&mut transactions, &mut waiting.transactions);
        let batch = std::mem::take(&mut waiting.batch);
        drop(waiting);
        let outcome = match shared.engine.apply(&transactions) {
            Ok(()) => 1,
            Err(error) => {
                *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!("{error:#}"));
                2
            }
        };
        batch.outcome.store(outcome, Ordering::Release);
        futex::wake_all(&batch.outcome);
    }
}

impl<E> Drop for Batcher<E> {
    fn drop(&mut self) {
        self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner).closing = true;
        self.shared.arrived.notify_one();
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has nothing left to say here: its clients got the failure.
            let _ = writer.join();
        }
    }
}

impl<E: Engine> Peer for Batcher<E> {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(BatchClient { shared: &self.shared, batches: VecDeque::new() }))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        self.shared.engine.scan(digest)
    }
}

struct BatchClient<'a, E> {
    shared: &'a Shared<E>,
    /// Batches under way and how many transactions of this client each holds, oldest first.
    batches: VecDeque<(Arc<Batch>, usize)>,
}

impl<E: Engine> Client for BatchClient<'_, E> {
    fn submit(&mut self, transaction: Transaction, message: &Message) -> Result<()> {
        let mut waiting = self.shared.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.transactions.push((transaction, *message));
        let first = waiting.transactions.len() == 1;
        match self.batches.back_mut() {
            Some((batch, count)) if Arc::ptr_eq(batch, &waiting.batch) => *count += 1,
            _ => self.batches.push_back((Arc::clone(&waiting.batch), 1)),
        }
        drop(waiting);
        if first {
            self.shared.arrived.notify_one();
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<usize> {
        let mut settled = 0;
        while let Some((batch, count)) = self.batches.front() {
            let mut outcome = batch.outcome.load(Ordering::Acquire);
            while outcome == 0 && settled == 0 {
                futex::wait(&batch.outcome, 0);
                outcome = batch.outcome.load(Ordering::Acquire);
            }
            match outcome {
                0 => break,
                1 => settled += count,
                _ => {
                    let failure = self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner);
                    return Err(anyhow!("batch: {}", failure.as_deref().unwrap_or("failed")));
                }
            }
            self.batches.pop_front();
        }
        Ok(settled)
    }

    fn read(&mut self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        self.shared.engine.read(msg_id, out)
    }

    fn head(&mut self, dst_key: u64, most: usize) -> Result<usize> {
        self.shared.engine.head(dst_key, most)
    }
}

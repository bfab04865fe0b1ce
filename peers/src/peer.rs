//! The one trait behind which every store stands.

use crate::message::{Digest, Message};
use anyhow::{Result, bail};

/// A transaction of the workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transaction {
    /// Insert the message, insert its queue row.
    Receive,
    /// Delete the queue row, delete the message, upsert the state of the station.
    Deliver,
}

/// A store, open. Opening recovers first; how a peer is configured is said at the top of its file.
pub trait Peer: Sync {
    /// A new client: a connection of a server, a handle of an engine in the process.
    fn client(&self) -> Result<Box<dyn Client + '_>>;

    /// Reads every row of every table into `digest`.
    fn scan(&self, digest: &mut Digest) -> Result<()>;

    /// Bytes that the log has taken so far; only differences count. The default is for engines in
    /// the process that write with `write(2)` and its kin: everything that this process handed to
    /// them.
    fn log_bytes(&self) -> Result<u64> {
        crate::usage::written_by_calls()
    }

    /// Process number of the server, where the store is one.
    fn server(&self) -> Option<u32> {
        None
    }

    /// Ends without any farewell to the store: kills a server. An engine in the process is killed
    /// with the process.
    fn kill(self: Box<Self>) -> Result<()> {
        std::mem::forget(self);
        Ok(())
    }
}

/// One client of a [`Peer`]. A client that waits for each transaction submits one and settles one;
/// an asynchronous client has a window of them under way.
pub trait Client: Send {
    /// Starts a transaction. It is acknowledged when [`Client::settle`] counts it, not before.
    fn submit(&mut self, transaction: Transaction, message: &Message) -> Result<()>;

    /// Waits until at least one transaction that was submitted is durable, and returns how many
    /// more are, oldest first. Called only while some are under way.
    fn settle(&mut self) -> Result<usize>;

    /// Reads one message by its key; its columns but the key, as the key-value peers hold them, go
    /// to `out`. Whether it is there. Peers that do not are left out of the mix (`Entry::reads`).
    fn read(&mut self, _msg_id: u64, _out: &mut Vec<u8>) -> Result<bool> {
        bail!("this peer has no reads")
    }

    /// Reads the first `most` rows of a station's queue in order; how many there were. As
    /// [`Client::read`].
    fn head(&mut self, _dst_key: u64, _most: usize) -> Result<usize> {
        bail!("this peer has no reads")
    }
}

/// An engine that takes any number of transactions as one durable unit: what a
/// [`crate::batcher::Batcher`] drives, and what a single client drives with units of one.
pub trait Engine: Send + Sync {
    /// Applies all of them, in order, as one durable transaction.
    fn apply(&self, batch: &[(Transaction, Message)]) -> Result<()>;

    /// As [`Client::read`], by any thread.
    fn read(&self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool>;

    /// As [`Client::head`], by any thread.
    fn head(&self, dst_key: u64, most: usize) -> Result<usize>;

    /// Reads every row of every table into `digest`.
    fn scan(&self, digest: &mut Digest) -> Result<()>;
}

/// An engine as it comes: every client applies its own transactions.
pub struct AsIs<E>(pub E);

impl<E: Engine> Peer for AsIs<E> {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(AsIsClient(&self.0)))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        self.0.scan(digest)
    }
}

struct AsIsClient<'a, E>(&'a E);

impl<E: Engine> Client for AsIsClient<'_, E> {
    fn submit(&mut self, transaction: Transaction, message: &Message) -> Result<()> {
        self.0.apply(&[(transaction, *message)])
    }

    fn settle(&mut self) -> Result<usize> {
        Ok(1)
    }

    fn read(&mut self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        self.0.read(msg_id, out)
    }

    fn head(&mut self, dst_key: u64, most: usize) -> Result<usize> {
        self.0.head(dst_key, most)
    }
}

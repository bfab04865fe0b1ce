//! Stores: the centre's whole transactions as operations, submitted and settled in order, so that
//! any number can be under way.
//!
//! mmdb, SQLite and PostgreSQL's statement form implement [`crate::transaction::Transaction`], and
//! run the centre's own code in it. PostgreSQL's other forms do not: **the three transactions of
//! every message are written again there, in SQL and PL/pgSQL** (`postgresql/procedures.sql`),
//! because a server would pay a round trip for each row otherwise; and so are they for a Redis
//! Cluster, in Lua (`redis_cluster/functions.lua`). `tests/model.rs` holds all to the same outcomes
//! and rows.

mod engine;
mod mmdb;
mod postgresql;
mod recognise;
mod redis_cluster;
mod shared;
mod spec;
mod sql;
mod sqlite;
mod waits;

pub use crate::transaction::StoreError;

pub use self::mmdb::{MmdbOptions, MmdbStore};
pub use postgresql::{PostgresqlForm, PostgresqlSnapshot, PostgresqlStore, PostgresqlUrl};
pub use redis_cluster::{PrivateCluster, RedisClusterStore, RedisClusterUrl, RedisClusterUrlError};
pub use shared::{SILENCE, SharedStore, StartedOperation, WatchedSession};
pub use spec::{Opening, Place, SESSIONS, StoreKind};
pub use sqlite::SqliteStore;

use crate::centre::{Operation, Outcome};
use crate::model::{
    Account, EncodedPart, Forwarded, IdBlock, Message, Queued, RetryTimer, Scheduled, Sent, Station,
    UnloggedTables,
};
use std::time::{Duration, Instant};

/// What of acknowledged operations survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// A power cut takes nothing back.
    PowerCut,
    /// A power cut, or a crash of the process that has the store, takes back the last acknowledged
    /// operations at most: those of which each later one is taken back, too.
    PowerCutPrefix,
    /// The loss of any one node, its disk included, takes nothing back, nor does a power cut of all
    /// at once. What two losses in a row may take, `docs/redis-cluster.md` says.
    OneNode,
    /// A crash of the processes that have the store takes nothing back. A power cut may take back
    /// anything, and damage what is left.
    ProcessCrash,
}

impl Durability {
    /// As tables show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Durability::PowerCut => "power-cut",
            Durability::PowerCutPrefix => "power-cut-prefix",
            Durability::OneNode => "one-node",
            Durability::ProcessCrash => "process-crash",
        }
    }
}

/// How a session acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledge {
    /// An outcome is handed out once the store's durability holds for it.
    Durable,
    /// At once. It becomes durable with the next durable operation at the latest; a crash takes it
    /// back only together with all that came later. For claims: what a crash takes back there is
    /// delivered again.
    Early,
}

/// Any row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Row {
    /// `message`
    Message(Message),
    /// `encoded_msg`
    EncodedPart(EncodedPart),
    /// `to_delivery`
    Queued(Queued),
    /// `scheduled_msg`
    Scheduled(Scheduled),
    /// `ms_state`
    Station(Station),
    /// `retry_timer`
    RetryTimer(RetryTimer),
    /// `sent`
    Sent(Sent),
    /// `id_block`
    IdBlock(IdBlock),
    /// `account`
    Account(Account),
    /// `forwarded`
    Forwarded(Forwarded),
}

/// What a reader of rows is called with, row by row.
pub type EachRow<'a> = &'a mut dyn FnMut(Row) -> Result<(), StoreError>;

/// A store, open. Opening recovers the store; [`crate::housekeeping::recover`] then recovers the
/// centre.
pub trait Store: Send + Sync {
    /// Its name, as in `--store`.
    fn name(&self) -> &str;

    /// What it promises for acknowledged operations.
    fn durability(&self) -> Durability;

    /// What an operator should know of it besides, in sentences.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }

    /// What tells it from all other stores, where it has something that does.
    fn identity(&self) -> Option<String> {
        None
    }

    /// Whether other processes may use it at the same time: a claim may then be alive that this
    /// process knows nothing of, also when it begins.
    fn is_shared(&self) -> bool {
        false
    }

    /// Whether final messages go through `sent` to the archive. A disk store keeps them in
    /// `message`.
    fn has_flusher(&self) -> bool;

    /// Whether final messages may have left it by now that are in no archive either: it keeps them
    /// for a time only.
    fn may_have_forgotten(&self) -> bool {
        false
    }

    /// How rows of tables are made again that a restart loses, if there are any. Before anything
    /// else uses the store.
    ///
    /// # Errors
    /// The store's.
    fn rebuild(&self) -> Result<Option<Box<dyn Rebuild + '_>>, StoreError> {
        Ok(None)
    }

    /// A new client. It may live in a thread of its own.
    ///
    /// # Errors
    /// A server refuses the connection; [`StoreError::Abandoned`].
    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError>;

    /// Sessions that are made from now on fail ([`StoreError::Silent`]) where a server that owes
    /// them an answer says nothing for longer than this. A store in this process has nothing that
    /// could be given up so.
    fn limit_silence(&self, _at_most: Duration) {}

    /// How long its server has said nothing to anybody, where its answers are noted: an operation
    /// that takes many of them may take long, and is no silence.
    fn unheard(&self) -> Option<Duration> {
        None
    }

    /// Gives the store up, from any thread and any number of times, so that whoever waits for it
    /// need not wait any longer.
    ///
    /// Every call that waits in a session ([`Session::submit`], [`Session::settle`],
    /// [`Store::session`]) fails at once, and so does every later one; what was under way may have
    /// happened or not, as after a crash. Outcomes that are here already may still be handed out.
    /// Never blocks. The store is then only to be dropped, which does not wait for work under way
    /// either: a server is stopped without a word to its clients. What was acknowledged is there
    /// when it is opened again.
    ///
    /// Not even this ends a call that is inside the operating system in this process, as a sync to
    /// a disk that does not answer is (mmdb, and SQLite's thread that commits): it fails when it
    /// comes back.
    fn abandon(&self);

    /// Reads every row of every table, table by table; meaningful while nothing is under way.
    ///
    /// # Errors
    /// A row cannot be read; what `each` returns.
    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError>;

    /// Bytes that the log has taken since the store was opened; none where nobody counts.
    fn log_bytes(&self) -> Option<u64> {
        None
    }

    /// Times that the log was synced since the store was opened, and how long that took, ns; none
    /// where nobody counts.
    fn flushes(&self) -> Option<(u64, u64)> {
        None
    }

    /// Operations that were rolled back and ran again since the store was opened, as they would
    /// have been a deadlock; none where nobody counts.
    fn ran_again(&self) -> Option<u64> {
        None
    }

    /// Bytes of memory that the rows and indexes take; none for a disk store.
    fn memory_bytes(&self) -> Option<u64> {
        None
    }

    /// Messages that a claim should take at most, where many are ready: a store's own bookkeeping
    /// of a transaction grows with what it changes, and so does a server's share in a call that
    /// does not.
    fn claim_max(&self) -> usize {
        16
    }

    /// The same of a claim of stations by name, or of those of a peer: where a server is asked of
    /// each of them by itself, whoever else claims waits meanwhile.
    fn named_claim_max(&self) -> usize {
        32
    }

    /// A process whose CPU time belongs to the store besides this one's.
    fn server_process(&self) -> Option<u32> {
        None
    }

    /// Makes the store write back its log, so that a restart is short; where it has such a thing.
    ///
    /// # Errors
    /// I/O.
    fn checkpoint(&self) -> Result<(), StoreError> {
        Ok(())
    }
}

/// What a reader of the rows of one table is called with, row by row.
pub type EachOf<'a, R> = &'a mut dyn FnMut(R) -> Result<(), StoreError>;

/// Takes rows, one by one.
pub type RowWriter<'a> = Box<dyn FnMut(Row) -> Result<(), StoreError> + 'a>;

/// A store some of whose derivable tables are empty, while they are filled by several threads.
///
/// What is read is read in parts, `(part, parts)`: part `part`, from 0, of `parts`, in any order.
pub trait Rebuild: Sync {
    /// The tables that are empty. No other may be written.
    fn lost(&self) -> UnloggedTables;

    /// Gives a part of all messages to `each`.
    ///
    /// # Errors
    /// A row cannot be read; what `each` returns.
    fn messages(&self, part: (usize, usize), each: EachOf<'_, Message>) -> Result<(), StoreError>;

    /// Gives a part of all stations to `each`, if they are not lost.
    ///
    /// # Errors
    /// As [`Rebuild::messages`].
    fn stations(&self, part: (usize, usize), each: EachOf<'_, Station>) -> Result<(), StoreError>;

    /// Gives a part of all retry timers to `each`, if they are not lost.
    ///
    /// # Errors
    /// As [`Rebuild::messages`].
    fn timers(&self, part: (usize, usize), each: EachOf<'_, RetryTimer>) -> Result<(), StoreError>;

    /// Takes rows of the lost tables, in any order, for one thread.
    fn writer(&self) -> RowWriter<'_>;

    /// Makes the rows findable.
    ///
    /// # Errors
    /// Two rows share a key.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}

/// One client of a store.
pub trait Session: Send {
    /// Starts an operation. It is done, and acknowledged, when [`Session::settle`] gives its
    /// outcome.
    ///
    /// # Errors
    /// The store failed; the session is of no use any more.
    fn submit(&mut self, operation: Operation) -> Result<(), StoreError>;

    /// Waits until at least one operation is acknowledged, and appends the outcomes of all that
    /// are, in the order of submission. Only while something is under way.
    ///
    /// # Errors
    /// The store failed. What was under way may have happened or not.
    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError>;

    /// As [`Session::settle`], but waits until `deadline` at most: appends nothing if nothing is
    /// acknowledged by then. What was submitted is on its way afterwards, or goes with the next
    /// call, if it is to share a commit: so a deadline that is over makes it go without waiting for
    /// anything.
    ///
    /// # Errors
    /// As [`Session::settle`].
    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError>;

    /// Submits one operation and waits for it; only while nothing is under way.
    ///
    /// # Errors
    /// As [`Session::settle`].
    fn call(&mut self, operation: Operation) -> Result<Outcome, StoreError> {
        self.submit(operation)?;
        let mut outcomes = Vec::with_capacity(1);
        self.settle(&mut outcomes)?;
        outcomes.pop().ok_or_else(|| StoreError::protocol("an operation ended without an outcome"))
    }
}

/// Reads all tables of a lower-level store in the order of the model; `$read` is a generic method
/// that takes a wrapper.
macro_rules! scan_all {
    ($self:ident . $read:ident, $each:ident) => {{
        use crate::store::Row;
        $self.$read(Row::Message, $each)?;
        $self.$read(Row::EncodedPart, $each)?;
        $self.$read(Row::Queued, $each)?;
        $self.$read(Row::Scheduled, $each)?;
        $self.$read(Row::Station, $each)?;
        $self.$read(Row::RetryTimer, $each)?;
        $self.$read(Row::Sent, $each)?;
        $self.$read(Row::IdBlock, $each)?;
        $self.$read(Row::Account, $each)?;
        $self.$read(Row::Forwarded, $each)
    }};
}
use scan_all;

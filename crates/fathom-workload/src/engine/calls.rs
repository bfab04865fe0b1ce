//! Call by call: what a replay asks of a connection that other workloads do not. Handles are the
//! caller's numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use fathom_trace::model::BlobCall;

use super::EngineError;

/// A value to bind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument<'a> {
    /// SQL NULL.
    Null,
    /// 64-bit integer.
    Integer(i64),
    /// Double.
    Real(f64),
    /// Text.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
    /// That many zero bytes.
    ZeroBlob(u64),
}

/// What steps of a statement came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepResult {
    /// Rows that were read, each column of each.
    pub rows: u64,
    /// Rows changed, where the statement ended and changes rows.
    pub changes: u64,
    /// The last step's (extended) result code.
    pub code: i32,
}

/// What a call on an incremental blob came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlobResult {
    /// The (extended) result code.
    pub code: i32,
    /// Length of the blob, where one was opened.
    pub bytes: u64,
}

/// A connection's calls, each on its own. A failed call's result code is in its error.
pub trait Calls {
    /// Prepares `sql` as statement `handle`.
    ///
    /// # Errors
    /// What the engine says.
    fn prepare_as(&mut self, handle: u32, sql: &str) -> Result<(), EngineError>;
    /// Binds a value. Text and blobs are copied.
    ///
    /// # Errors
    /// No such parameter, a value that is too large.
    fn bind(&mut self, handle: u32, index: u32, value: Argument<'_>) -> Result<(), EngineError>;
    /// Makes all parameters NULL.
    fn clear_bindings(&mut self, handle: u32);
    /// Steps until `rows` rows were read or, where `to_end`, the statement has ended. An error is
    /// told as its code.
    fn step(&mut self, handle: u32, rows: u64, to_end: bool) -> StepResult;
    /// Steps a statement while every lock that it asks for is refused, as if another connection
    /// held it. It stays active until it is reset.
    fn step_refused(&mut self, handle: u32) -> StepResult;
    /// The text of a statement.
    fn sql(&self, handle: u32) -> String;
    /// The message of the last call that failed.
    fn message(&self) -> String;
    /// Brings a statement to rest.
    fn reset(&mut self, handle: u32);
    /// Forgets a statement.
    fn finalize(&mut self, handle: u32);
    /// Makes a call on the incremental blob with this number. What SQLite refuses is told as its
    /// code.
    ///
    /// # Errors
    /// A library without incremental blobs; a table that a confined connection must not write.
    fn blob(&mut self, blob: u32, call: &BlobCall) -> Result<BlobResult, EngineError>;
    /// Begins to read the database attached as `schema`: what later statements read of it is its
    /// state now, until [`Calls::release`].
    ///
    /// # Errors
    /// What the engine says.
    fn hold(&mut self, schema: &str) -> Result<(), EngineError>;
    /// Ends what [`Calls::hold`] began; a transaction that is open goes on.
    fn release(&mut self);
    /// Rolls the open transaction back; nothing where there is none.
    ///
    /// # Errors
    /// What the engine says.
    fn roll_back(&mut self) -> Result<(), EngineError>;
    /// Turns one of the options of [`fathom_trace::confine::MEANING`] on or off. A library that does
    /// not know it leaves everything as it is.
    fn set_meaning(&mut self, option: u32, is_on: bool);
    /// Whether statements wait for locks from now on, as the engine's settings say, or are refused
    /// at once.
    fn wait_for_locks(&mut self, waits: bool);
    /// From now on `pauses` knows whether a statement pauses for a lock.
    fn tell_pauses(&mut self, pauses: Arc<Pauses>);
}

/// The pauses that a connection's statements make for locks, for who looks on.
#[derive(Debug, Default)]
pub struct Pauses {
    /// One higher during a pause.
    waiting: Arc<AtomicUsize>,
    /// Raised where the wait for a lock begins.
    waits: Arc<AtomicU64>,
    /// Pauses that have begun or ended: odd during one.
    number: AtomicU64,
}

impl Pauses {
    /// None yet; `waiting` is one higher during each, `waits` is raised by the first one for a
    /// lock.
    pub fn new(waiting: Arc<AtomicUsize>, waits: Arc<AtomicU64>) -> Pauses {
        Pauses { waiting, waits, number: AtomicU64::new(0) }
    }

    /// An attempt was refused, the first one for this lock or another one, and the statement
    /// pauses.
    pub fn begin(&self, is_first: bool) {
        self.waits.fetch_add(u64::from(is_first), Ordering::AcqRel);
        self.number.fetch_add(1, Ordering::AcqRel);
        self.waiting.fetch_add(1, Ordering::AcqRel);
    }

    /// It tries again.
    pub fn end(&self) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.number.fetch_add(1, Ordering::AcqRel);
    }

    /// Pauses that have begun or ended so far.
    pub fn number(&self) -> u64 {
        self.number.load(Ordering::Acquire)
    }
}

//! The measuring SQLite VFS of Fathom, its clocks and its counters.
//!
//! [`Probe::install`] registers a VFS named "fathom" over the platform's own, in any SQLite
//! library: one that is linked, one opened by path, or the host of this crate as a loadable
//! extension. Databases opened through it behave as without it, and every call is counted and timed
//! by file class and operation. [`StatementClock`] divides the time of a statement, or of a whole
//! phase, into CPU, reads, writes, syncs and the rest. [`thread_io`] and [`process_io`] give the
//! counters.
//!
//! The crate links no SQLite: see [`sqlite_api!`] and [`Api`].

mod abi;
mod api;
mod attach;
mod clock;
mod clocks;
mod cpu;
mod extension;
mod extents;
mod file;
mod histogram;
mod installed;
mod kind;
mod marks;
mod meter;
mod refuse;
mod split;
mod statements;
mod table;
mod vfs;
mod vtab;
mod watch;

pub use api::{Api, MissingSymbol};
pub use clock::{Account, StatementClock};
pub use extents::{Extent, extents};
pub use kind::{FileClass, Op};
pub use marks::{CallKind, Mark, Marks, SLOW_NS, keep_marks, mark, mark_again, mark_call, take_marks};
pub use meter::{CpuCheck, check_cpu_in_calls, process_io, reset_thread_io, thread_io};
pub use refuse::RefusesLocks;
pub use split::Split;
pub use statements::{
    StatementExecution, StatementTimer, Statements, TEXT_OCTETS_MAX, keep_statements, statement_number,
    take_statements,
};
pub use table::{IoCell, IoTable};
pub use vfs::{InstallError, Probe};
pub use watch::{Call, FileActivity, Note, PlainFile, Watch, WatchedFile, take_watched, watch};

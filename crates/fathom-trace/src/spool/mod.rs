//! What captured processes leave, and how it becomes one trace. `docs/spool.md` gives the bytes.

mod commits;
mod file;
mod inherited;
mod merge;
mod record;
#[cfg(test)]
mod tests;

pub use merge::{MergeReport, UnknownStart, merge, running};
pub(crate) use merge::{WHOLE, copy};

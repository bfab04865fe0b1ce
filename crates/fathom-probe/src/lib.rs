//! The measuring SQLite VFS of Fathom, its clocks and its counters.

mod split;

pub use split::Split;

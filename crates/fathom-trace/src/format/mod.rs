//! The trace file. `docs/format.md` gives every byte; the tests here hold the code to it.

mod chunk;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use chunk::CONTENT_BYTES;
pub use reader::Reader;
pub use writer::{Totals, Writer};

/// The format's version that this crate writes, and the newest that it reads.
pub const VERSION: u16 = 2;

/// The oldest that it reads: version 1 has no locks.
const VERSION_MIN: u16 = 1;

/// What a trace begins with: a byte that no text has, the name, and a line end that a transfer as
/// text would change.
pub(crate) const MAGIC: [u8; 8] = *b"\x89FTRACE\n";

/// Bytes of the file's header: magic, version, zero, CRC-32C of these.
const HEADER_BYTES: usize = 16;

//! Chunks: the unit of compression, of checking and of losing.

use crate::wire::WireError;

/// What every chunk begins with.
pub const MARK: [u8; 4] = *b"CHNK";

/// Bytes of a chunk's header.
pub const HEADER_BYTES: usize = 24;

/// Largest content of a chunk before compression: SQLite's largest value (2 GiB) and what stands
/// around it.
pub const RAW_MAX: u32 = i32::MAX as u32;

/// Bytes of database content in one chunk.
pub(crate) const CONTENT_BYTES: usize = 1 << 20;

/// Bytes of a database's content in one chunk, and the two numbers before them.
pub const CONTENT_RAW_MAX: u32 = CONTENT_BYTES as u32 + 20;

/// Three numbers.
pub const END_RAW_MAX: u32 = 30;

/// Records of a file whose compression is not looked at, bytes.
pub const RECORDS_FREE: u64 = 64 << 20;

/// Beyond these: bytes of records for each byte of the file up to them. A value of zeros compresses
/// 32,000 times, so a file of 33 KB could ask for a gibibyte.
pub const RECORDS_RATIO: u64 = 1000;

/// Whether a file of so many bytes may hold so many bytes of records. A writer stores a chunk as it
/// is where compressing it would go beyond.
pub fn is_in_proportion(records: u64, file: u64) -> bool {
    records <= RECORDS_FREE.saturating_add(file.saturating_mul(RECORDS_RATIO))
}

/// What a chunk holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Records.
    Records = 1,
    /// A piece of a database's content.
    Content = 2,
    /// Totals; nothing follows.
    End = 3,
}

/// How a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// As it is, because compressing would not have made it smaller.
    Plain = 0,
    /// One Zstandard frame.
    Zstd = 1,
}

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What it holds.
    pub kind: Kind,
    /// How it is stored.
    pub storage: Storage,
    /// Bytes that follow.
    pub stored_bytes: u32,
    /// Bytes after decompression.
    pub raw_bytes: u32,
    /// CRC-32C of the bytes that follow.
    pub checksum: u32,
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..4].copy_from_slice(&MARK);
        out[4] = self.kind as u8;
        out[5] = self.storage as u8;
        out[8..12].copy_from_slice(&self.stored_bytes.to_le_bytes());
        out[12..16].copy_from_slice(&self.raw_bytes.to_le_bytes());
        out[16..20].copy_from_slice(&self.checksum.to_le_bytes());
        let own = crc32c::crc32c(&out[..20]);
        out[20..].copy_from_slice(&own.to_le_bytes());
        out
    }

    /// From its bytes; else what is wrong with them.
    pub fn decode(bytes: &[u8; HEADER_BYTES]) -> Result<Header, String> {
        let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        if bytes[..4] != MARK {
            return Err("no chunk begins here".into());
        }
        if crc32c::crc32c(&bytes[..20]) != word(20) {
            return Err("the chunk's header does not match its checksum".into());
        }
        let kind = match bytes[4] {
            1 => Kind::Records,
            2 => Kind::Content,
            3 => Kind::End,
            other => return Err(format!("unknown kind of chunk {other}")),
        };
        let storage = match bytes[5] {
            0 => Storage::Plain,
            1 => Storage::Zstd,
            other => return Err(format!("unknown compression {other}")),
        };
        let header = Header { kind, storage, stored_bytes: word(8), raw_bytes: word(12), checksum: word(16) };
        if header.raw_bytes > RAW_MAX || header.stored_bytes > RAW_MAX {
            return Err("a chunk is longer than 2 GiB".into());
        }
        let most = match kind {
            Kind::Records => RAW_MAX,
            Kind::Content => CONTENT_RAW_MAX,
            Kind::End => END_RAW_MAX,
        };
        if header.raw_bytes > most {
            return Err(format!("its content is {} bytes long, and {most} is the most", header.raw_bytes));
        }
        if storage == Storage::Plain && header.stored_bytes != header.raw_bytes {
            return Err("the chunk is not as long as its header says".into());
        }
        Ok(header)
    }
}

/// Chunk number and place of a record that cannot be read.
pub fn in_record(position: usize, error: WireError) -> String {
    format!("a record at byte {position} of the uncompressed chunk: {error}")
}

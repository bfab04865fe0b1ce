//! The manifest: what is where. Replaced whole and atomically; everything else is found through it.
//!
//! ```text
//! offset size
//!      0    8  magic "MMDBMAN1"
//!      8    4  format = 6; 2 lacks `begun`, 2 and 3 the generations of columns, 4 expiry, 5 the lineage
//!     12   16  identity of the database
//!     28    4  container size
//!     32    4  streams
//!     36    1  log kind (0 differences, 1 after-images)
//!     37    1  1 if the database was closed and not opened since
//!     38    8  horizon: every commit up to this is durable
//!     46   12  the life before the last, while a stream's mark may still name it: number u32, salt u64; else zeros
//!     58    …  lives varint, each: number u32, salt u64, cut u64 (all ones while open); none before the first opening is done
//!           4  next table
//!           …  tables varint, each: id u32, schema (`schema.rs`), generations of its columns (`generations.rs`), expiry
//!           …  each stream: next segment u64, begun u64, segments varint, each: number u64, rising
//!           …  checkpoint u8 (0 none, 1 side a, 2 side b); if any: G0 u64, G1 u64, containers varint,
//!              each: table u32, number u32, class u8, image u32, CRC32C u32
//!           …  lineage: what its standbys share with it (`standby/lineage.rs`)
//!           4  CRC32C of all before
//! ```
//! A stream's directory must hold each segment named, and those from `next segment` on without a
//! gap. What is not named was only prepared when the manifest was written, or holds nothing that
//! the checkpoint does not. Each one named up to the number `begun` must hold frames; in the others
//! there may be some.

use crate::codec::{Reader, put_u32, put_u64, put_varint, u32_at};
use crate::error::{Error, Result};
use crate::format::{BEGUN, FORMAT, LINEAGE, OLDEST};
use crate::identity::{Identity, Life};
use crate::log::frame::MAX_GSN;
use crate::log::segment::MAX_NUMBER;
use crate::medium::{self, Medium};
use crate::options::{LogKind, MAX_STREAMS};
use crate::schema::Schema;
use crate::standby::Lineage;
use std::io;
use std::path::Path;

pub(crate) const NAME: &str = "MANIFEST";
const MAGIC: &[u8; 8] = b"MMDBMAN1";
/// No manifest is longer, bytes: room for more than 200 million images. Whatever states more is
/// damaged.
const MAX_BYTES: u64 = 1 << 32;
/// Most tables that a database creates in its life: what a damaged number may cost is bounded.
pub(crate) const MAX_TABLES: u32 = 1 << 20;

/// One life of the database: from an opening to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Epoch {
    pub(crate) number: u32,
    pub(crate) salt: u64,
    /// Last commit of this life that counts.
    pub(crate) cut: u64,
}

impl Epoch {
    pub(crate) fn life(self) -> Life {
        Life { number: self.number, salt: self.salt }
    }
}

/// The segments of one stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Inventory {
    /// The number that the next segment made will have: those from here on come without a gap.
    pub(crate) next: u64,
    /// Those that must be there up to this number must hold commits: some of each were made
    /// durable, and perhaps acknowledged.
    pub(crate) begun: u64,
    /// Those that must be there, rising.
    pub(crate) segments: Vec<u64>,
}

impl Default for Inventory {
    fn default() -> Self {
        Inventory { next: 1, begun: 0, segments: Vec::new() }
    }
}

/// Where the image of a container is, and its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) table: u32,
    pub(crate) number: u32,
    pub(crate) class: u8,
    pub(crate) image: u32,
    pub(crate) crc: u32,
}

/// The last good checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PublishedCheckpoint {
    pub(crate) side: usize,
    pub(crate) g0: u64,
    pub(crate) g1: u64,
    pub(crate) images: Vec<Image>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) identity: Identity,
    pub(crate) container_size: u32,
    pub(crate) kind: LogKind,
    /// Nothing came after it: what `horizon` states is all there is.
    pub(crate) closed: bool,
    /// Every commit up to this was durable when the manifest was written.
    pub(crate) horizon: u64,
    /// The life before the last, until the marks of all streams name the last.
    pub(crate) before: Option<Life>,
    /// Empty until the first opening is done: the streams' directories may not be made yet, and
    /// nothing is logged.
    pub(crate) epochs: Vec<Epoch>,
    pub(crate) next_table: u32,
    pub(crate) tables: Vec<(u32, Schema)>,
    /// One for each stream.
    pub(crate) logs: Vec<Inventory>,
    pub(crate) checkpoint: Option<PublishedCheckpoint>,
    pub(crate) lineage: Lineage,
}

impl Manifest {
    /// The life that wrote the manifest; `None` if the first opening was not done.
    pub(crate) fn life(&self) -> Option<Life> {
        self.epochs.last().map(|e| e.life())
    }

    /// Whether there are durable commits in a segment of a stream.
    pub(crate) fn has_begun(&self, stream: usize, number: u64) -> bool {
        let log = self.logs.get(stream);
        log.is_some_and(|l| number <= l.begun && l.segments.binary_search(&number).is_ok())
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        put_u32(&mut b, FORMAT);
        self.identity.put(&mut b);
        put_u32(&mut b, self.container_size);
        put_u32(&mut b, self.logs.len() as u32);
        b.push(u8::from(self.kind == LogKind::AfterImage));
        b.push(u8::from(self.closed));
        put_u64(&mut b, self.horizon);
        Life::put(self.before, &mut b);
        put_varint(&mut b, self.epochs.len() as u64);
        for e in &self.epochs {
            put_u32(&mut b, e.number);
            put_u64(&mut b, e.salt);
            put_u64(&mut b, e.cut);
        }
        put_u32(&mut b, self.next_table);
        put_varint(&mut b, self.tables.len() as u64);
        for (id, schema) in &self.tables {
            put_u32(&mut b, *id);
            schema.encode(&mut b);
        }
        for log in &self.logs {
            put_u64(&mut b, log.next);
            put_u64(&mut b, log.begun);
            put_varint(&mut b, log.segments.len() as u64);
            log.segments.iter().for_each(|&n| put_u64(&mut b, n));
        }
        match &self.checkpoint {
            None => b.push(0),
            Some(c) => {
                b.push(c.side as u8 + 1);
                put_u64(&mut b, c.g0);
                put_u64(&mut b, c.g1);
                put_varint(&mut b, c.images.len() as u64);
                for i in &c.images {
                    put_u32(&mut b, i.table);
                    put_u32(&mut b, i.number);
                    b.push(i.class);
                    put_u32(&mut b, i.image);
                    put_u32(&mut b, i.crc);
                }
            }
        }
        self.lineage.encode(&mut b);
        let crc = crc32c::crc32c(&b);
        put_u32(&mut b, crc);
        b
    }

    fn decode(b: &[u8]) -> Option<Manifest> {
        let mut r = Reader::new(b);
        if r.take(8)? != MAGIC {
            return None;
        }
        let format = r.u32()?;
        if !(OLDEST..=FORMAT).contains(&format) {
            return None;
        }
        let identity = Identity::read(&mut r)?;
        let (container_size, streams) = (r.u32()?, r.u32()?);
        let kind = if r.u8()? == 0 { LogKind::Differential } else { LogKind::AfterImage };
        let (closed, horizon) = (r.u8()? != 0, r.u64()?);
        let before = Life::read(&mut r)?;
        let mut epochs = Vec::new();
        for _ in 0..r.varint()? {
            epochs.push(Epoch { number: r.u32()?, salt: r.u64()?, cut: r.u64()? });
        }
        let next_table = r.u32()?;
        let mut tables = Vec::new();
        for _ in 0..r.varint()? {
            tables.push((r.u32()?, Schema::decode(&mut r, format)?));
        }
        if !(1..=MAX_STREAMS as u32).contains(&streams) {
            return None;
        }
        let mut logs = Vec::new();
        for _ in 0..streams {
            let (next, begun) = (r.u64()?, if format >= BEGUN { r.u64()? } else { 0 });
            let mut log = Inventory { next, begun, segments: Vec::new() };
            for _ in 0..r.varint()? {
                log.segments.push(r.u64()?);
            }
            logs.push(log);
        }
        let checkpoint = match r.u8()? {
            0 => None,
            side @ (1 | 2) => {
                let (g0, g1) = (r.u64()?, r.u64()?);
                let mut images = Vec::new();
                for _ in 0..r.varint()? {
                    images.push(Image {
                        table: r.u32()?,
                        number: r.u32()?,
                        class: r.u8()?,
                        image: r.u32()?,
                        crc: r.u32()?,
                    });
                }
                Some(PublishedCheckpoint { side: usize::from(side) - 1, g0, g1, images })
            }
            _ => return None,
        };
        let lineage =
            if format >= LINEAGE { Lineage::decode(&mut r, format)? } else { Lineage::new(identity) };
        let manifest = Manifest {
            identity,
            lineage,
            container_size,
            kind,
            closed,
            horizon,
            before,
            epochs,
            next_table,
            tables,
            logs,
            checkpoint,
        };
        // The next life has a number, too.
        let is_followed = manifest.epochs.iter().all(|e| e.number < u32::MAX - 1);
        (r.is_empty() && manifest.is_sane() && is_followed).then_some(manifest)
    }

    /// Whether the numbers can be what they are called: asked before a manifest is written, and
    /// again when it is read.
    fn is_sane(&self) -> bool {
        let commit = |n: u64| n <= MAX_GSN;
        (4096..=65536).contains(&self.container_size)
            && self.container_size.is_power_of_two()
            && self.next_table <= MAX_TABLES
            && commit(self.horizon)
            && self.epochs.iter().all(|e| e.number < u32::MAX && (commit(e.cut) || e.cut == u64::MAX))
            // Only the last one may go on.
            && self.epochs.is_sorted_by(|a, b| a.number < b.number && a.cut != u64::MAX)
            && self.logs.iter().all(|log| {
                log.begun < log.next && log.next <= MAX_NUMBER && log.segments.is_sorted_by(|a, b| a < b)
            })
            && self.checkpoint.as_ref().is_none_or(|c| c.g0 <= c.g1 && commit(c.g1))
            && are_distinct(self.tables.iter().map(|(_, schema)| &schema.name))
            && are_distinct(self.tables.iter().map(|(id, _)| id))
            && are_distinct(self.images().map(|i| i.image))
            && self.lineage.is_sane()
    }

    /// The images of the checkpoint, if there is one.
    fn images(&self) -> impl Iterator<Item = &Image> {
        self.checkpoint.iter().flat_map(|c| &c.images)
    }

    /// Reads the manifest of a database; `None` if there is none.
    pub(crate) fn load(medium: &dyn Medium, dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(NAME);
        let file = match medium.open_to_read(&path) {
            Ok(f) => f,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path)(e)),
        };
        let len = file.len().map_err(Error::io("measure", &path))?;
        if len > MAX_BYTES {
            return Err(Error::corrupt(&path, MAX_BYTES, format!("no manifest has {len} bytes")));
        }
        let b = medium::read_all(&*file, len).map_err(Error::io("read", &path))?;
        let n = b.len().saturating_sub(4);
        if crc32c::crc32c(&b[..n]) != u32_at(&b, n) || n == 0 {
            return Err(Error::corrupt(&path, 0, "the checksum of the manifest does not match"));
        }
        if &b[..n.min(8)] != MAGIC {
            return Err(Error::corrupt(&path, 0, "this is not the manifest of a database"));
        }
        let format = u32_at(&b[..n], 8);
        if !(OLDEST..=FORMAT).contains(&format) {
            let what = format!(
                "the manifest has format {format} and this version of mmdb reads format {OLDEST} to {FORMAT}; `mmdb dump` of the version \
                 that wrote it gives the rows, and nothing was changed"
            );
            return Err(Error::corrupt(&path, 8, what));
        }
        let m = Manifest::decode(&b[..n]);
        m.map(Some).ok_or_else(|| Error::corrupt(&path, 0, "the manifest contradicts itself"))
    }

    /// Replaces the stored manifest. Returns its length in bytes; an error comes with whether the
    /// new one may be in place.
    pub(crate) fn store(&self, medium: &dyn Medium, dir: &Path) -> std::result::Result<u64, (bool, Error)> {
        assert!(self.is_sane(), "a manifest that is stored can be read again");
        let bytes = self.encode();
        if bytes.len() as u64 > MAX_BYTES {
            let e =
                io::Error::other(format!("the manifest would have {} bytes, above {MAX_BYTES}", bytes.len()));
            return Err((false, Error::io("replace", &dir.join(NAME))(e)));
        }
        let done = medium::replace(medium, dir, NAME, &bytes).map(|()| bytes.len() as u64);
        done.map_err(|(maybe, e)| (maybe, Error::io("replace", &dir.join(NAME))(e)))
    }
}

/// Whether nothing occurs twice.
fn are_distinct<T: Ord>(items: impl Iterator<Item = T>) -> bool {
    let mut items: Vec<T> = items.collect();
    items.sort_unstable();
    items.is_sorted_by(|a, b| a < b)
}

/// The file that holds the images of one checkpoint side.
pub(crate) fn image_name(side: usize) -> &'static str {
    if side == 0 { "images-a" } else { "images-b" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::ColumnType;

    fn sample() -> Manifest {
        let schema = Schema::new("t").column("a", ColumnType::VarText(9)).primary_key(&["a"]);
        let image = Image { table: 3, number: 4, class: 5, image: 6, crc: 7 };
        let identity = Identity::random();
        Manifest {
            identity,
            lineage: Lineage::new(identity),
            container_size: 8192,
            kind: LogKind::AfterImage,
            closed: true,
            horizon: 9,
            before: Some(Life { number: 1, salt: 3 }),
            epochs: vec![Epoch { number: 2, salt: 2, cut: u64::MAX }],
            next_table: 4,
            tables: vec![(3, schema)],
            logs: vec![Inventory { next: 8, begun: 4, segments: vec![3, 4, 7] }, Inventory::default()],
            checkpoint: Some(PublishedCheckpoint { side: 1, g0: 1, g1: 2, images: vec![image] }),
        }
    }

    #[test]
    fn a_manifest_reads_back_and_notices_every_flipped_bit() {
        let m = crate::medium::MemoryMedium::new();
        let dir = Path::new("/d");
        assert!(Manifest::load(&m, dir).unwrap().is_none());
        let sample = sample();
        sample.store(&m, dir).unwrap();
        let good = sample.encode();
        assert_eq!(Manifest::load(&m, dir).unwrap(), Some(sample));
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            m.create(&dir.join(NAME)).unwrap().write_at(0, &bad).unwrap();
            assert!(matches!(Manifest::load(&m, dir), Err(Error::Corrupt { .. })), "bit {bit}");
        }
    }

    /// Stores of format 4 have no word about expiry: without it they read back as they were.
    #[test]
    fn a_manifest_of_format_4_is_read() {
        let (m, dir) = (crate::medium::MemoryMedium::new(), Path::new("/d"));
        let sample = sample();
        let mut table = Vec::new();
        sample.tables[0].1.encode(&mut table);
        let mut older = sample.encode();
        let at = older.windows(table.len()).position(|bytes| bytes == table).unwrap();
        assert_eq!(older.remove(at + table.len() - 1), 0, "no expiry");
        let mut lineage = Vec::new();
        sample.lineage.encode(&mut lineage);
        older.truncate(older.len() - 4 - lineage.len());
        older[8..12].copy_from_slice(&4u32.to_le_bytes());
        let crc = crc32c::crc32c(&older);
        put_u32(&mut older, crc);
        m.create(&dir.join(NAME)).unwrap().write_at(0, &older).unwrap();
        assert_eq!(Manifest::load(&m, dir).unwrap(), Some(sample));
    }

    /// Lives in another order, two that both go on, and one behind which there is no number were
    /// believed, and an opening broke off at what it takes for granted of them.
    #[test]
    fn lives_that_contradict_each_other_are_refused() {
        let reads = |lives: &[(u32, u64)]| {
            let epochs = lives.iter().map(|&(number, cut)| Epoch { number, salt: 1, cut }).collect();
            let bytes = Manifest { epochs, ..sample() }.encode();
            Manifest::decode(&bytes[..bytes.len() - 4]).is_some()
        };
        const OPEN: u64 = u64::MAX;
        assert!(reads(&[(2, 5), (3, OPEN)]) && reads(&[(1, 5), (2, 5), (7, OPEN)]) && reads(&[]));
        for lives in [[(3, 5), (2, OPEN)], [(2, 5), (2, OPEN)], [(2, OPEN), (3, OPEN)]] {
            assert!(!reads(&lives), "{lives:?}");
        }
        assert!(reads(&[(u32::MAX - 2, OPEN)]) && !reads(&[(u32::MAX - 1, OPEN)]));
    }

    #[test]
    fn no_bytes_make_decoding_panic() {
        let good = sample().encode();
        for at in 0..good.len() {
            for v in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] = v;
                Manifest::decode(&bad);
                Manifest::decode(&bad[..at]);
            }
        }
    }
}

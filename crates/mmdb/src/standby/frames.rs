//! Frames under way: consecutive commits and changes of definitions, as bytes for a transport.
//!
//! ```text
//! offset size
//!      0    8  magic "MMDBFRM1"
//!      8   16  lineage
//!     24    1  kind of the records (0 differences, 1 after-images)
//!     25    …  fences varint, each: epoch, after, changes, token, u64 each; the last one is the sender's
//!           16  begins behind: commit u64, change u64
//!           16  ends with: commit u64, change u64
//!           …  entries: u8 0, length varint, body of the next commit's frame
//!                       u8 1, length varint, a change (`lineage.rs`)
//!           4  CRC32C of all before
//! ```
//! Commits are numbered without a gap, so a frame's number is not repeated.

use super::lineage::{Change, Fence, put_fences, read_fences};
use super::position::Position;
use crate::codec::{Reader, put_bytes, put_u64, u32_at};
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::format::FORMAT;
use crate::identity::Identity;
use crate::log::frame::MAX_GSN;
use crate::options::LogKind;

const MAGIC: &[u8; 8] = b"MMDBFRM1";
const FRAME: u8 = 0;
const CHANGE: u8 = 1;

/// A place between two entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) gsn: u64,
    pub(crate) change: u64,
}

/// What a batch is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) lineage: Identity,
    pub(crate) kind: LogKind,
    pub(crate) fences: Vec<Fence>,
    pub(crate) from: Place,
}

/// Consecutive durable commits of a primary, made by a [`crate::Tail`] for [`crate::Standby::apply`].
/// A checksum covers all of it. There may be none in it: then it says which epoch the primary is
/// in.
///
/// ```
/// use mmdb::{ColumnType, Database, Frames, Schema};
/// let db = Database::in_memory()?;
/// let mut tail = db.tail(&db.position()?)?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// let frames = tail.try_next()?.expect("two entries are there");
/// assert_eq!((frames.first_gsn(), frames.last_gsn(), frames.epoch()), (1, 1, 1));
/// assert_eq!(Frames::from_bytes(frames.as_bytes().to_vec())?, frames);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frames {
    bytes: Vec<u8>,
    pub(crate) head: Head,
    pub(crate) to: Place,
    /// Where the entries begin in `bytes`.
    entries: usize,
}

/// One thing to be done.
pub(crate) enum Entry<'a> {
    /// A commit: its number, and the records.
    Frame(u64, &'a [u8]),
    Change(Box<Change>),
}

impl Frames {
    /// Number of the first commit in it; above [`Frames::last_gsn`] if there is none.
    ///
    /// ```
    /// # use mmdb::Database;
    /// let db = Database::in_memory()?;
    /// let first = db.tail(&db.position()?)?.try_next()?.expect("the first batch introduces the primary");
    /// assert_eq!((first.first_gsn(), first.last_gsn()), (1, 0));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn first_gsn(&self) -> u64 {
        self.head.from.gsn + 1
    }

    /// Number of the last commit in it.
    ///
    /// ```
    /// # use mmdb::Database;
    /// let db = Database::in_memory()?;
    /// let first = db.tail(&db.position()?)?.try_next()?.expect("the first batch introduces the primary");
    /// assert_eq!(first.last_gsn(), 0);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn last_gsn(&self) -> u64 {
        self.to.gsn
    }

    /// The fencing epoch of the primary that gave it.
    ///
    /// ```
    /// # use mmdb::Database;
    /// let db = Database::in_memory()?;
    /// let first = db.tail(&db.position()?)?.try_next()?.expect("the first batch introduces the primary");
    /// assert_eq!(first.epoch(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.head.fences.last().map_or(0, |fence| fence.epoch)
    }

    /// The position of who has these frames and all before: what a transport acknowledges that
    /// keeps them durably itself.
    ///
    /// ```
    /// # use mmdb::Database;
    /// let db = Database::in_memory()?;
    /// let first = db.tail(&db.position()?)?.try_next()?.expect("the first batch introduces the primary");
    /// assert_eq!(first.end(), db.position()?);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn end(&self) -> Position {
        let fence = self.head.fences.last().copied().unwrap_or(Fence::FIRST);
        let (gsn, change) = (self.to.gsn, self.to.change);
        Position { lineage: self.head.lineage, fence, fenced: 0, gsn, change }
    }

    /// Whether there is neither a commit nor a change of a definition in it.
    ///
    /// ```
    /// # use mmdb::Database;
    /// let db = Database::in_memory()?;
    /// let first = db.tail(&db.position()?)?.try_next()?.expect("the first batch introduces the primary");
    /// assert!(first.is_empty());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.to == self.head.from
    }

    /// The bytes that a transport carries.
    ///
    /// ```
    /// # use mmdb::{Database, Frames};
    /// let db = Database::in_memory()?;
    /// let first = db.tail(&db.position()?)?.try_next()?.expect("the first batch introduces the primary");
    /// assert!(Frames::from_bytes(first.as_bytes().to_vec()).is_ok());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes what a transport brought.
    ///
    /// ```
    /// use mmdb::{Error, Frames};
    /// assert!(matches!(Frames::from_bytes(vec![0; 100]), Err(Error::FramesDamaged { .. })));
    /// ```
    ///
    /// # Errors
    /// [`Error::FramesDamaged`] if they are not as they were sent.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Frames> {
        documented("Frames::from_bytes", || {
            let damaged = |what: &str| Error::FramesDamaged { what: what.to_owned() };
            let end = bytes.len().checked_sub(4).ok_or_else(|| damaged("they are cut off"))?;
            if crc32c::crc32c(&bytes[..end]) != u32_at(&bytes, end) {
                return Err(damaged("their checksum does not match"));
            }
            let read = Frames::read(&bytes[..end]);
            let (head, to, entries) = read.ok_or_else(|| damaged("they contradict themselves"))?;
            Ok(Frames { bytes, head, to, entries })
        })
    }

    /// The head, where it ends, and where the entries begin; all of them are there.
    fn read(bytes: &[u8]) -> Option<(Head, Place, usize)> {
        let mut r = Reader::new(bytes);
        if r.take(8)? != MAGIC {
            return None;
        }
        let lineage = Identity::read(&mut r)?;
        let kind = match r.u8()? {
            0 => LogKind::Differential,
            1 => LogKind::AfterImage,
            _ => return None,
        };
        let fences = read_fences(&mut r)?;
        let mut place = || {
            Some(Place {
                gsn: r.u64().filter(|&n| n <= MAX_GSN)?,
                change: r.u64().filter(|&n| n <= MAX_GSN)?,
            })
        };
        let (from, to) = (place()?, place()?);
        let entries = r.at();
        let mut at = from;
        while !r.is_empty() {
            match next_entry(&mut r, at.gsn)? {
                Entry::Frame(gsn, _) => at.gsn = gsn,
                Entry::Change(change) => {
                    at.change = at.change.checked_add(1).filter(|&number| number == change.number)?;
                }
            }
        }
        (at == to).then_some((Head { lineage, kind, fences, from }, to, entries))
    }

    /// What is in it, in order.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let mut r = Reader::new(&self.bytes[self.entries..self.bytes.len() - 4]);
        let mut gsn = self.head.from.gsn;
        std::iter::from_fn(move || {
            if r.is_empty() {
                return None;
            }
            let entry = next_entry(&mut r, gsn)?;
            if let Entry::Frame(number, _) = entry {
                gsn = number;
            }
            Some(entry)
        })
    }
}

fn next_entry<'a>(r: &mut Reader<'a>, before: u64) -> Option<Entry<'a>> {
    let (tag, bytes) = (r.u8()?, r.bytes()?);
    match tag {
        FRAME => Some(Entry::Frame(before + 1, bytes)),
        CHANGE => {
            let mut r = Reader::new(bytes);
            let change = Change::read(&mut r, FORMAT)?;
            r.is_empty().then(|| Entry::Change(Box::new(change)))
        }
        _ => None,
    }
}

/// Frames that are being put together.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    head: Head,
    to: Place,
    /// Where the end is stated.
    ends: usize,
}

impl Builder {
    pub(crate) fn new(head: Head) -> Builder {
        let mut bytes = MAGIC.to_vec();
        head.lineage.put(&mut bytes);
        bytes.push(u8::from(head.kind == LogKind::AfterImage));
        put_fences(&head.fences, &mut bytes);
        put_u64(&mut bytes, head.from.gsn);
        put_u64(&mut bytes, head.from.change);
        let (ends, to) = (bytes.len(), head.from);
        bytes.extend_from_slice(&[0; 16]);
        Builder { bytes, head, to, ends }
    }

    pub(crate) fn frame(&mut self, body: &[u8]) {
        self.bytes.push(FRAME);
        put_bytes(&mut self.bytes, body);
        self.to.gsn += 1;
    }

    pub(crate) fn change(&mut self, change: &Change) {
        let mut bytes = Vec::new();
        change.put(&mut bytes);
        self.bytes.push(CHANGE);
        put_bytes(&mut self.bytes, &bytes);
        self.to.change += 1;
        assert_eq!(self.to.change, change.number, "changes come in order");
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn finish(mut self) -> Frames {
        let entries = self.ends + 16;
        self.bytes[self.ends..self.ends + 8].copy_from_slice(&self.to.gsn.to_le_bytes());
        self.bytes[self.ends + 8..entries].copy_from_slice(&self.to.change.to_le_bytes());
        let crc = crc32c::crc32c(&self.bytes);
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        Frames { bytes: self.bytes, head: self.head, to: self.to, entries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sample() -> Frames {
        let head = Head {
            lineage: Identity::random(),
            kind: LogKind::AfterImage,
            fences: vec![Fence::FIRST],
            from: Place { gsn: 7, change: 2 },
        };
        let mut builder = Builder::new(head);
        builder.frame(b"eight");
        builder.change(&Change { number: 3, after: 8, table: 1, next_table: 2, schema: None });
        builder.frame(&[]);
        builder.finish()
    }

    #[test]
    fn frames_read_back_and_notice_every_flipped_bit_and_every_cut() {
        let frames = sample();
        let bytes = frames.as_bytes().to_vec();
        assert_eq!(Frames::from_bytes(bytes.clone()).unwrap(), frames);
        assert_eq!((frames.first_gsn(), frames.last_gsn(), frames.to.change), (8, 9, 3));
        let numbers: Vec<u64> = frames
            .entries()
            .map(|entry| match entry {
                Entry::Frame(gsn, _) => gsn,
                Entry::Change(change) => 100 + change.number,
            })
            .collect();
        assert_eq!(numbers, [8, 103, 9]);
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(matches!(Frames::from_bytes(bad), Err(Error::FramesDamaged { .. })), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert!(matches!(Frames::from_bytes(bytes[..cut].to_vec()), Err(Error::FramesDamaged { .. })));
        }
    }

    proptest! {
        /// Under a right checksum too.
        #[test]
        fn no_bytes_make_the_reader_panic(mut bytes: Vec<u8>, flips: Vec<(usize, u8)>) {
            let mut good = sample().as_bytes().to_vec();
            good.truncate(good.len() - 4);
            for (at, with) in flips {
                let at = at % good.len();
                good[at] ^= with;
            }
            for mut bytes in [std::mem::take(&mut bytes), good] {
                let crc = crc32c::crc32c(&bytes);
                bytes.extend_from_slice(&crc.to_le_bytes());
                if let Ok(frames) = Frames::from_bytes(bytes) {
                    frames.entries().for_each(drop);
                }
            }
        }
    }
}

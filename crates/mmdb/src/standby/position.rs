//! How far somebody has come in a lineage.

use super::lineage::{Fence, Lineage};
use crate::codec::{Reader, put_u64, u32_at};
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::identity::Identity;
use std::fmt;

const MAGIC: &[u8; 8] = b"MMDBPOS1";

/// How far a standby has come: which history it follows, the epoch it is in, the last commit and
/// the last change of a definition that are durable there. It goes to the primary, which begins a
/// [`crate::Tail`] with it or counts it as an acknowledgement.
///
/// ```
/// use mmdb::{Database, Position};
/// let db = Database::in_memory()?;
/// let position = db.position()?;
/// assert_eq!((position.gsn(), position.epoch()), (0, 1));
/// assert_eq!(Position::from_bytes(&position.to_bytes())?, position);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub(crate) lineage: Identity,
    pub(crate) fence: Fence,
    /// It takes nothing of an epoch below this.
    pub(crate) fenced: u64,
    pub(crate) gsn: u64,
    pub(crate) change: u64,
}

impl Position {
    pub(crate) fn of(lineage: &Lineage, gsn: u64) -> Position {
        Position {
            lineage: lineage.id,
            fence: lineage.fence(),
            fenced: lineage.fenced,
            gsn,
            change: lineage.last_change,
        }
    }

    /// Number of the last commit that is durable there.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// assert_eq!(db.position()?.gsn(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn gsn(&self) -> u64 {
        self.gsn
    }

    /// The fencing epoch that it is in.
    ///
    /// ```
    /// assert_eq!(mmdb::Database::in_memory()?.position()?.epoch(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.fence.epoch
    }

    /// The least epoch that a primary must have to be followed by who has this position; see
    /// [`crate::Standby::fence`].
    ///
    /// ```
    /// assert_eq!(mmdb::Database::in_memory()?.position()?.fenced(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn fenced(&self) -> u64 {
        self.fenced.max(self.fence.epoch)
    }

    /// The position as 84 bytes, for a transport.
    ///
    /// ```
    /// assert_eq!(mmdb::Database::in_memory()?.position()?.to_bytes().len(), 84);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        self.lineage.put(&mut out);
        self.fence.put(&mut out);
        [self.fenced, self.gsn, self.change].iter().for_each(|&n| put_u64(&mut out, n));
        let crc = crc32c::crc32c(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads what [`Position::to_bytes`] gave.
    ///
    /// ```
    /// use mmdb::{Database, Error, Position};
    /// let bytes = Database::in_memory()?.position()?.to_bytes();
    /// assert!(matches!(Position::from_bytes(&bytes[1..]), Err(Error::FramesDamaged { .. })));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::FramesDamaged`] if it is not whole.
    pub fn from_bytes(bytes: &[u8]) -> Result<Position> {
        documented("Position::from_bytes", || {
            Position::read(bytes).ok_or_else(|| Error::FramesDamaged {
                what: format!("{} bytes are no whole position", bytes.len()),
            })
        })
    }

    fn read(bytes: &[u8]) -> Option<Position> {
        let body = bytes.get(..bytes.len().checked_sub(4)?)?;
        if crc32c::crc32c(body) != u32_at(bytes, body.len()) {
            return None;
        }
        let mut r = Reader::new(body);
        if r.take(8)? != MAGIC {
            return None;
        }
        let position = Position {
            lineage: Identity::read(&mut r)?,
            fence: Fence::read(&mut r)?,
            fenced: r.u64()?,
            gsn: r.u64()?,
            change: r.u64()?,
        };
        r.is_empty().then_some(position)
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "commit {} of epoch {} of lineage {}", self.gsn, self.fence.epoch, self.lineage)
    }
}

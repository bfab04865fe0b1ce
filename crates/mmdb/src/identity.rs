//! Who a database is, and which of its lives it is in.

use crate::codec::{Reader, put_u32, put_u64};
use std::fmt;
use std::hash::{BuildHasher, Hasher};

/// A number that no other database has: made at creation, kept in the manifest and in every
/// stream's directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity([u8; 16]);

impl Identity {
    /// Bytes of an identity.
    pub(crate) const LEN: usize = 16;

    pub(crate) fn random() -> Identity {
        let mut b = [0; Self::LEN];
        b[..8].copy_from_slice(&random().to_le_bytes());
        b[8..].copy_from_slice(&random().to_le_bytes());
        Identity(b)
    }

    pub(crate) fn put(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    pub(crate) fn read(r: &mut Reader<'_>) -> Option<Identity> {
        r.take(Self::LEN)?.try_into().ok().map(Identity)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Enough for people to tell two apart.
        self.0[..4].iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// One life of a database, from an opening to the next. Its salt tells it from a life of the same
/// number that a copy of the database had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Life {
    pub(crate) number: u32,
    pub(crate) salt: u64,
}

impl Life {
    /// Writes a life, or zeros for none: the first one has number 1.
    pub(crate) fn put(life: Option<Life>, out: &mut Vec<u8>) {
        put_u32(out, life.map_or(0, |l| l.number));
        put_u64(out, life.map_or(0, |l| l.salt));
    }

    /// `None` if the bytes end, `Some(None)` for no life.
    pub(crate) fn read(r: &mut Reader<'_>) -> Option<Option<Life>> {
        let life = Life { number: r.u32()?, salt: r.u64()? };
        Some((life.number > 0).then_some(life))
    }
}

/// A random number. The standard library's hash keys come from the system's random numbers.
pub(crate) fn random() -> u64 {
    let mut h = std::collections::hash_map::RandomState::new().build_hasher();
    // A process that forked has its parent's keys.
    h.write_u32(std::process::id());
    h.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_and_lives_read_back() {
        let many: Vec<Identity> = (0..100).map(|_| Identity::random()).collect();
        for (i, a) in many.iter().enumerate() {
            assert!(many[..i].iter().all(|b| a != b && a.0[..8] != b.0[8..]));
        }
        for life in [None, Some(Life { number: 7, salt: u64::MAX })] {
            let mut b = Vec::new();
            Life::put(life, &mut b);
            assert_eq!(Life::read(&mut Reader::new(&b)), Some(life));
            assert_eq!(Life::read(&mut Reader::new(&b[..11])), None);
        }
    }
}

//! Little-endian numbers, varints and checked reading: the one place where bytes become numbers.

/// Appends `v` as a LEB128 varint (7 bits a byte, least significant first).
pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push((v as u8) | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

pub(crate) fn put_u16(out: &mut Vec<u8>, v: u16) {
    out.extend_from_slice(&v.to_le_bytes());
}

pub(crate) fn put_u32(out: &mut Vec<u8>, v: u32) {
    out.extend_from_slice(&v.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, v: u64) {
    out.extend_from_slice(&v.to_le_bytes());
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, v: &[u8]) {
    put_varint(out, v.len() as u64);
    out.extend_from_slice(v);
}

/// The little-endian `u32` at `at`, or 0 past the end (callers check lengths where it matters).
pub(crate) fn u32_at(b: &[u8], at: usize) -> u32 {
    match b.get(at..at + 4).and_then(|s| s.try_into().ok()) {
        Some(a) => u32::from_le_bytes(a),
        None => 0,
    }
}

/// The little-endian `u64` at `at`, or 0 past the end.
pub(crate) fn u64_at(b: &[u8], at: usize) -> u64 {
    match b.get(at..at + 8).and_then(|s| s.try_into().ok()) {
        Some(a) => u64::from_le_bytes(a),
        None => 0,
    }
}

/// The little-endian `u16` at `at`, or 0 past the end.
pub(crate) fn u16_at(b: &[u8], at: usize) -> u16 {
    match b.get(at..at + 2).and_then(|s| s.try_into().ok()) {
        Some(a) => u16::from_le_bytes(a),
        None => 0,
    }
}

/// Reads forward through a slice; every getter is `None` past the end instead of a panic.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.at >= self.bytes.len()
    }

    #[inline]
    pub(crate) fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let end = self.at.checked_add(n)?;
        let s = self.bytes.get(self.at..end)?;
        self.at = end;
        Some(s)
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Option<u8> {
        let b = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(b)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut v = 0u64;
        let mut shift = 0u32;
        loop {
            let b = self.u8()?;
            if shift == 63 && b > 1 {
                return None;
            }
            v |= u64::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                return Some(v);
            }
            shift += 7;
            if shift > 63 {
                return None;
            }
        }
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.varint()?).ok()?;
        self.take(n)
    }

    pub(crate) fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_reads_back(v: u64) {
            let mut b = Vec::new();
            put_varint(&mut b, v);
            prop_assert_eq!(Reader::new(&b).varint(), Some(v));
            for cut in 0..b.len() {
                prop_assert_eq!(Reader::new(&b[..cut]).varint(), None);
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(b: Vec<u8>) {
            let mut r = Reader::new(&b);
            while r.varint().is_some() && r.bytes().is_some() && r.u32().is_some() {}
        }
    }
}

//! The primitives of the encoding: numbers of variable length, lengths before bytes.

/// Appends primitives to a buffer.
pub trait Put {
    /// An unsigned number: 7 bits a byte, the lowest first, the top bit set in all but the last
    /// (LEB128).
    fn put_u64(&mut self, value: u64);
    /// A signed number, folded so that small ones stay short (0, -1, 1, -2 … become 0, 1, 2, 3 …).
    fn put_i64(&mut self, value: i64);
    /// A double: 8 bytes, little-endian.
    fn put_f64(&mut self, value: f64);
    /// A length and that many bytes.
    fn put_bytes(&mut self, bytes: &[u8]);
}

impl Put for Vec<u8> {
    fn put_u64(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.push(value as u8);
    }

    fn put_i64(&mut self, value: i64) {
        self.put_u64((value << 1 ^ value >> 63) as u64);
    }

    fn put_f64(&mut self, value: f64) {
        self.extend_from_slice(&value.to_bits().to_le_bytes());
    }

    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_u64(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }
}

/// What is wrong with encoded bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// They end too early.
    #[error("ends in the middle of a record")]
    Short,
    /// A number of more than its bits.
    #[error("a number is too large")]
    TooLarge,
    /// Text that is not UTF-8 where it must be.
    #[error("a text is not UTF-8")]
    NotText,
    /// A tag that this version does not know.
    #[error("unknown tag {0}")]
    Tag(u8),
}

/// Takes primitives from bytes.
#[derive(Clone, Debug)]
pub struct Take<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Take<'a> {
    /// From the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Take { bytes, at: 0 }
    }

    /// Whether nothing is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Bytes taken so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// One byte.
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn u8(&mut self) -> Result<u8, WireError> {
        let byte = *self.bytes.get(self.at).ok_or(WireError::Short)?;
        self.at += 1;
        Ok(byte)
    }

    /// As [`Put::put_u64`].
    ///
    /// # Errors
    /// Too few bytes, or more than 64 bits.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return Err(WireError::TooLarge);
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::TooLarge)
    }

    /// A number of 32 bits.
    ///
    /// # Errors
    /// As [`Take::u64`], or more than 32 bits.
    pub fn u32(&mut self) -> Result<u32, WireError> {
        u32::try_from(self.u64()?).map_err(|_| WireError::TooLarge)
    }

    /// As [`Put::put_i64`].
    ///
    /// # Errors
    /// As [`Take::u64`].
    pub fn i64(&mut self) -> Result<i64, WireError> {
        let folded = self.u64()?;
        Ok((folded >> 1) as i64 ^ -((folded & 1) as i64))
    }

    /// A signed number of 32 bits.
    ///
    /// # Errors
    /// As [`Take::u64`], or more than 32 bits.
    pub fn i32(&mut self) -> Result<i32, WireError> {
        i32::try_from(self.i64()?).map_err(|_| WireError::TooLarge)
    }

    /// As [`Put::put_f64`].
    ///
    /// # Errors
    /// [`WireError::Short`].
    pub fn f64(&mut self) -> Result<f64, WireError> {
        let bytes = self.exactly(8)?;
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        Ok(f64::from_bits(u64::from_le_bytes(word)))
    }

    /// As [`Put::put_bytes`].
    ///
    /// # Errors
    /// As [`Take::u64`].
    pub fn bytes(&mut self) -> Result<&'a [u8], WireError> {
        let length = usize::try_from(self.u64()?).map_err(|_| WireError::TooLarge)?;
        self.exactly(length)
    }

    /// Bytes that must be text.
    ///
    /// # Errors
    /// As [`Take::u64`], or no UTF-8.
    pub fn text(&mut self) -> Result<String, WireError> {
        std::str::from_utf8(self.bytes()?).map(str::to_owned).map_err(|_| WireError::NotText)
    }

    /// All that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    fn exactly(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let end =
            self.at.checked_add(length).filter(|end| *end <= self.bytes.len()).ok_or(WireError::Short)?;
        let bytes = &self.bytes[self.at..end];
        self.at = end;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn primitives_come_back_as_they_were_put(a: u64, b: i64, c: u64, bytes: Vec<u8>) {
            let mut out = Vec::new();
            out.put_u64(a);
            out.put_i64(b);
            out.put_f64(f64::from_bits(c));
            out.put_bytes(&bytes);
            let mut take = Take::new(&out);
            prop_assert_eq!(take.u64(), Ok(a));
            prop_assert_eq!(take.i64(), Ok(b));
            prop_assert_eq!(take.f64().map(f64::to_bits), Ok(c));
            prop_assert_eq!(take.bytes(), Ok(&bytes[..]));
            prop_assert!(take.is_empty());
            for cut in 0..out.len() {
                let mut take = Take::new(&out[..cut]);
                let all = take.u64().and_then(|_| take.i64()).and_then(|_| take.f64()).and_then(|_| take.bytes());
                prop_assert_eq!(all, Err(WireError::Short));
            }
        }
    }

    #[test]
    fn numbers_that_do_not_fit_are_refused() {
        assert_eq!(Take::new(&[0xff; 12]).u64(), Err(WireError::TooLarge));
        let mut out = Vec::new();
        out.put_u64(1 << 32);
        assert_eq!(Take::new(&out).u32(), Err(WireError::TooLarge));
        assert_eq!(
            Take::new(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2]).u64(),
            Err(WireError::TooLarge)
        );
        assert_eq!(Take::new(&[5, 1]).bytes(), Err(WireError::Short));
    }
}

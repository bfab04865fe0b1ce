//! FNV-1a of 64 bits: a short name for a content, against no enemy.

/// The hash of nothing.
pub const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of what has this hash and of these bytes behind it.
#[must_use]
pub fn fnv1a(before: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(before, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Those of its authors' list.
    #[test]
    fn hashes_are_those_of_fnv_1a() {
        assert_eq!(fnv1a(EMPTY, b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(fnv1a(EMPTY, b"foo"), b"bar"), 0x8594_4171_f739_67e8);
    }
}

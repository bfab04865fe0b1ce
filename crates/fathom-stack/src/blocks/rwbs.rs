//! The kernel's letters for what a request is (`blk_fill_rwbs` in `kernel/trace/blktrace.c`): an
//! `F` for a flush before it, the operation, then `F` forced unit access, `A` read ahead, `S`
//! synchronous, `M` metadata.

use super::request::BlockOp;

/// What the letters say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rwbs {
    pub op: BlockOp,
    pub preflush: bool,
    pub fua: bool,
    pub ahead: bool,
    pub sync: bool,
    pub meta: bool,
}

impl Rwbs {
    /// Reads the letters up to the first NUL.
    pub fn parse(letters: &[u8]) -> Rwbs {
        let end = letters.iter().position(|&letter| letter == 0).unwrap_or(letters.len());
        let letters = &letters[..end];
        // A leading F is a flush before the request, unless it is the operation itself.
        let (preflush, rest) = match letters {
            [b'F', rest @ ..] if rest.first().is_some_and(|letter| b"RWDFNZ".contains(letter)) => {
                (true, rest)
            }
            all => (false, all),
        };
        let (op, rest) = match rest {
            [b'R', rest @ ..] => (BlockOp::Read, rest),
            // Write zeroes has a Z behind it in newer kernels; it moves no data.
            [b'W', b'Z', rest @ ..] => (BlockOp::Discard, rest),
            [b'W', rest @ ..] => (BlockOp::Write, rest),
            [b'F', rest @ ..] => (BlockOp::Flush, rest),
            // Secure erase is DE.
            [b'D', b'E', rest @ ..] | [b'D', rest @ ..] => (BlockOp::Discard, rest),
            [_, rest @ ..] => (BlockOp::Other, rest),
            [] => (BlockOp::Other, rest),
        };
        let has = |letter| rest.contains(&letter);
        Rwbs { op, preflush, fua: has(b'F'), ahead: has(b'A'), sync: has(b'S'), meta: has(b'M') }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_mean_what_the_kernel_means() {
        let plain =
            Rwbs { op: BlockOp::Write, preflush: false, fua: false, ahead: false, sync: false, meta: false };
        let cases = [
            ("W", plain),
            ("WS", Rwbs { sync: true, ..plain }),
            ("WFS", Rwbs { fua: true, sync: true, ..plain }),
            ("WSM", Rwbs { sync: true, meta: true, ..plain }),
            ("FWFSM", Rwbs { preflush: true, fua: true, sync: true, meta: true, ..plain }),
            ("FWS", Rwbs { preflush: true, sync: true, ..plain }),
            ("FF", Rwbs { op: BlockOp::Flush, preflush: true, ..plain }),
            ("F", Rwbs { op: BlockOp::Flush, ..plain }),
            ("FS", Rwbs { op: BlockOp::Flush, sync: true, ..plain }),
            ("RAM", Rwbs { op: BlockOp::Read, ahead: true, meta: true, ..plain }),
            ("D", Rwbs { op: BlockOp::Discard, ..plain }),
            ("DES", Rwbs { op: BlockOp::Discard, sync: true, ..plain }),
            ("N", Rwbs { op: BlockOp::Other, ..plain }),
            ("", Rwbs { op: BlockOp::Other, ..plain }),
        ];
        for (letters, expected) in cases {
            assert_eq!(Rwbs::parse(letters.as_bytes()), expected, "{letters}");
            assert_eq!(Rwbs::parse(format!("{letters}\0rest").as_bytes()), expected, "{letters} and NUL");
        }
    }
}

//! Dots as text, small enough for a page: each is four numbers of variable length (seven bits to a
//! byte, the lowest first, the highest bit set where more follow), the bytes in base64.
//!
//! For each dot: units of time since the one before; units of address from the one before's begin
//! (zigzag: 0, -1, 1, -2 …); units of length; kind.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::thin::Dot;

/// Encodes dots in order of time. `unit_ns` and `unit_bytes` divide times and places.
pub fn encode(dots: &[Dot], unit_ns: u64, unit_bytes: u64) -> String {
    let mut bytes = Vec::with_capacity(dots.len() * 6);
    let (mut time, mut place) = (0_u64, 0_i64);
    for dot in dots {
        let now = dot.at_ns / unit_ns;
        let here = i64::try_from(dot.offset / unit_bytes).unwrap_or(i64::MAX);
        number(&mut bytes, now.saturating_sub(time));
        let step = here - place;
        number(&mut bytes, (step << 1 ^ step >> 63).cast_unsigned());
        number(&mut bytes, dot.bytes.div_ceil(unit_bytes));
        number(&mut bytes, dot.kind.into());
        (time, place) = (now, here);
    }
    STANDARD.encode(bytes)
}

fn number(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_are_differences() {
        let dot = |at_ns, offset, bytes, kind| Dot { at_ns, offset, bytes, kind };
        let text = encode(&[dot(2000, 8192, 4096, 1), dot(202_000, 0, 4096 * 200, 17)], 1000, 4096);
        assert_eq!(text, STANDARD.encode([2, 4, 1, 1, 0xc8, 1, 3, 0xc8, 1, 17]));
    }
}

//! Septets in octets: TS 23.038 §6.1.2.1. Septet n occupies bits 7n to 7n + 6 of the octets, least
//! significant bit first.

/// Appends `septets` to `octets`, packed, after `fill_bits` zero bits (0 to 6) that bring them to a
/// septet boundary behind a user data header.
pub fn pack(septets: &[u8], fill_bits: u32, octets: &mut Vec<u8>) {
    let mut waiting = 0u32; // bits that do not fill an octet yet, the oldest lowest
    let mut bits = fill_bits;
    for &septet in septets {
        waiting |= u32::from(septet & 0x7f) << bits;
        bits += 7;
        if bits >= 8 {
            octets.push(waiting as u8);
            waiting >>= 8;
            bits -= 8;
        }
    }
    if bits > 0 {
        octets.push(waiting as u8);
    }
}

/// The first `count` septets in `octets` behind `fill_bits` bits, fewer if there are not so many.
#[must_use]
pub fn unpack(octets: &[u8], fill_bits: u32, count: usize) -> Vec<u8> {
    let mut septets = Vec::with_capacity(count);
    let mut waiting = 0u32;
    let mut bits = 0;
    let mut skip = fill_bits;
    for &octet in octets {
        // What is behind the last septet is not looked at: its bits would be gathered without end.
        if septets.len() == count {
            break;
        }
        waiting |= u32::from(octet) << bits;
        bits += 8;
        let skipped = skip.min(bits);
        waiting >>= skipped;
        bits -= skipped;
        skip -= skipped;
        while bits >= 7 && septets.len() < count {
            septets.push((waiting & 0x7f) as u8);
            waiting >>= 7;
            bits -= 7;
        }
    }
    septets
}

/// Zero bits between a user data header of `header_octets` (its length octet included) and the
/// first septet.
#[must_use]
pub fn fill_bits(header_octets: usize) -> u32 {
    // At most 6, so the cast is exact.
    ((7 - header_octets * 8 % 7) % 7) as u32
}

//! Frames: command_length cuts the stream of octets into PDUs, whatever their bodies hold.

/// Octets of a header.
pub const HEADER_OCTETS: usize = 16;
/// Octets of the longest PDU that is read: a message_payload of 64 KiB and everything else at its
/// longest.
pub const PDU_OCTETS_MAX: usize = 80 << 10;
/// A PDU that is longer than [`PDU_OCTETS_MAX`] is refused and skipped up to this length. A length
/// beyond it is no length: the sender has lost its place, and so have we.
const SKIP_OCTETS_MAX: usize = 1 << 20;

/// The first 16 octets of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Octets of the whole PDU.
    pub length: u32,
    /// command_id, as it came.
    pub command: u32,
    /// command_status, as it came.
    pub status: u32,
    /// sequence_number.
    pub sequence: u32,
}

/// What the octets that have come begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Not all of a PDU, and so many octets are needed before it makes sense to look again.
    Incomplete(usize),
    /// A PDU of so many octets.
    Pdu(Header),
    /// A PDU that is too long; its octets are to be skipped.
    TooLong(Header),
    /// A length that cannot be one: what follows cannot be found.
    Lost(Header),
}

/// What `input` begins with.
#[must_use]
pub fn frame(input: &[u8]) -> Framing {
    let Some(first) = input.first_chunk::<HEADER_OCTETS>() else {
        return Framing::Incomplete(HEADER_OCTETS);
    };
    let word = |at: usize| u32::from_be_bytes([first[at], first[at + 1], first[at + 2], first[at + 3]]);
    let header = Header { length: word(0), command: word(4), status: word(8), sequence: word(12) };
    let length = header.length as usize;
    match length {
        ..HEADER_OCTETS => Framing::Lost(header),
        _ if length > SKIP_OCTETS_MAX => Framing::Lost(header),
        _ if length > PDU_OCTETS_MAX => Framing::TooLong(header),
        _ if input.len() < length => Framing::Incomplete(length),
        _ => Framing::Pdu(header),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_decides_what_a_pdu_is() {
        let octets = |length: u32, more: usize| {
            let mut octets = length.to_be_bytes().to_vec();
            octets.extend_from_slice(&[0, 0, 0, 0x15, 0, 0, 0, 0, 0, 0, 0, 7]);
            octets.resize(octets.len() + more, 0);
            octets
        };
        let header = |length| Header { length, command: 0x15, status: 0, sequence: 7 };
        assert_eq!(frame(&[]), Framing::Incomplete(16));
        assert_eq!(frame(&octets(16, 0)[..15]), Framing::Incomplete(16));
        assert_eq!(frame(&octets(16, 9)), Framing::Pdu(header(16)));
        assert_eq!(frame(&octets(20, 3)), Framing::Incomplete(20));
        for length in [0, 4, 15, 1 << 20 | 1, u32::MAX] {
            assert_eq!(frame(&octets(length, 0)), Framing::Lost(header(length)));
        }
        let long = PDU_OCTETS_MAX as u32;
        assert_eq!(frame(&octets(long, 0)), Framing::Incomplete(PDU_OCTETS_MAX));
        assert_eq!(frame(&octets(long + 1, 0)), Framing::TooLong(header(long + 1)));
    }
}

//! Text: alphabets, packing, and the cutting of long messages into parts.

mod alphabet;
mod segment;
mod septets;

pub use alphabet::{ESCAPE, decode_septets, encode_septets};
pub use segment::{
    BODY_OCTETS_MAX, Coding, ESM_UDHI, PART_OCTETS_MAX, PARTS_MAX, Part, Reference, TextError, segment,
};
pub use septets::{fill_bits, pack, unpack};

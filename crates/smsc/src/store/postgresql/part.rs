//! A part of a message as one `bytea`: alphabet, header flag, TP-UDL, octets.

use crate::model::EncodedPart;
use crate::store::StoreError;

pub(super) fn packed(part: &EncodedPart) -> Vec<u8> {
    let mut packed = vec![part.alphabet, part.has_header.into(), part.user_data_length];
    packed.extend_from_slice(&part.octets);
    packed
}

pub(super) fn unpacked(msg_id: i64, number: u8, packed: &[u8]) -> Result<EncodedPart, StoreError> {
    let [alphabet, has_header, user_data_length, ref octets @ ..] = packed[..] else {
        return Err(StoreError::row(3, "part"));
    };
    let (has_header, octets) = (has_header != 0, octets.to_vec());
    Ok(EncodedPart { msg_id, part: number, alphabet, has_header, user_data_length, octets })
}

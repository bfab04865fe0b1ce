//! Optional parameters: tag, length, value.

use super::Status;

/// Tags (SMPP 3.4 §5.3.2) that mean something to a centre; all others are passed on as they came.
pub mod tag {
    /// qos_time_to_live: seconds, 4 octets.
    pub const QOS_TIME_TO_LIVE: u16 = 0x0017;
    /// additional_status_info_text: C-Octet String.
    pub const ADDITIONAL_STATUS: u16 = 0x001d;
    /// receipted_message_id: C-Octet String.
    pub const RECEIPTED_MESSAGE_ID: u16 = 0x001e;
    /// sar_msg_ref_num: 2 octets.
    pub const SAR_REFERENCE: u16 = 0x020c;
    /// sar_total_segments: 1 octet.
    pub const SAR_TOTAL: u16 = 0x020e;
    /// sar_segment_seqnum: 1 octet.
    pub const SAR_NUMBER: u16 = 0x020f;
    /// sc_interface_version: 1 octet.
    pub const SC_INTERFACE_VERSION: u16 = 0x0210;
    /// set_dpf: 1 octet, whether the delivery pending flag is to be set.
    pub const SET_DPF: u16 = 0x0421;
    /// ms_availability_status: 1 octet.
    pub const MS_AVAILABILITY: u16 = 0x0422;
    /// delivery_failure_reason: 1 octet.
    pub const DELIVERY_FAILURE: u16 = 0x0425;
    /// network_error_code: 3 octets.
    pub const NETWORK_ERROR_CODE: u16 = 0x0423;
    /// message_payload.
    pub const MESSAGE_PAYLOAD: u16 = 0x0424;
    /// The centres of this kind that a message has passed, 8 octets each: a parameter of the
    /// vendor's own (SMPP 3.4 §5.3.2).
    pub const CENTRES_PASSED: u16 = 0x1590;
    /// message_state: 1 octet.
    pub const MESSAGE_STATE: u16 = 0x0427;
}

/// The optional parameters of a PDU, known to be whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tlvs<'a>(&'a [u8]);

impl<'a> Tlvs<'a> {
    /// Takes what follows the mandatory fields.
    ///
    /// # Errors
    /// A parameter is cut off: ESME_RINVOPTPARSTREAM.
    pub fn new(octets: &'a [u8]) -> Result<Tlvs<'a>, Status> {
        let mut rest = octets;
        while !rest.is_empty() {
            let (_, _, after) = split(rest).ok_or(Status::OptionalStream)?;
            rest = after;
        }
        Ok(Tlvs(octets))
    }

    /// Takes what follows short_message. Some end that with a NUL that is not counted in sm_length,
    /// as PHP's php-smpp does if nobody tells it not to: it is left out where the rest alone is
    /// whole.
    ///
    /// # Errors
    /// As [`Tlvs::new`].
    pub fn behind_text(octets: &'a [u8]) -> Result<Tlvs<'a>, Status> {
        Tlvs::new(octets).or_else(|status| match octets {
            [0, rest @ ..] => Tlvs::new(rest),
            _ => Err(status),
        })
    }

    /// Tag and value of each.
    pub fn iter(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (tag, value, after) = split(rest)?;
            rest = after;
            Some((tag, value))
        })
    }

    /// The value of the first parameter of a tag.
    #[must_use]
    pub fn find(self, tag: u16) -> Option<&'a [u8]> {
        self.iter().find(|parameter| parameter.0 == tag).map(|parameter| parameter.1)
    }

    /// The number in a parameter of `octets` octets, if it is there.
    ///
    /// # Errors
    /// It has another length: ESME_RINVPARLEN.
    pub fn number(self, tag: u16, octets: usize) -> Result<Option<u32>, Status> {
        let Some(value) = self.find(tag) else { return Ok(None) };
        if value.len() != octets {
            return Err(Status::ParameterLength);
        }
        Ok(Some(value.iter().fold(0, |number, &octet| number << 8 | u32::from(octet))))
    }

    /// All but those of a tag, as they came.
    #[must_use]
    pub fn without(self, tag: u16) -> Vec<u8> {
        let mut left = Vec::new();
        for (other, value) in self.iter().filter(|parameter| parameter.0 != tag) {
            write_tlv(&mut left, other, value);
        }
        left
    }
}

/// Tag, value and what follows.
fn split(octets: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (&[t0, t1, l0, l1], rest) = octets.split_first_chunk::<4>()?;
    let (value, rest) = rest.split_at_checked(u16::from_be_bytes([l0, l1]).into())?;
    Some((u16::from_be_bytes([t0, t1]), value, rest))
}

/// Appends a parameter. A value of more than 65,535 octets does not exist: it came in such a
/// parameter.
pub fn write_tlv(out: &mut Vec<u8>, tag: u16, value: &[u8]) {
    out.extend_from_slice(&tag.to_be_bytes());
    out.extend_from_slice(&u16::try_from(value.len()).unwrap_or(u16::MAX).to_be_bytes());
    out.extend_from_slice(&value[..value.len().min(u16::MAX.into())]);
}

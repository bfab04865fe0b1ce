//! The centres that a message has passed: one that comes back to a centre is not sent on again.
//!
//! Two centres whose routes lead to each other would send a message to and fro until it expires. So
//! each one adds its number to a parameter of its own, which others pass on as they pass on what
//! they do not know. The number is of this life of the centre: a message that is on its way round
//! when it is started again goes round once more.

use crate::smpp::{Tlvs, tag, write_tlv};

/// Octets of a number.
const OCTETS: usize = 8;
/// Centres that a message may pass.
const MANY: usize = 16;

/// A centre's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Centre([u8; OCTETS]);

impl Centre {
    /// A new one.
    ///
    /// # Errors
    /// The system gives no random octets.
    pub fn new() -> std::io::Result<Centre> {
        let mut number = [0; OCTETS];
        getrandom::fill(&mut number).map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Centre(number))
    }

    /// Whether a message with these optional parameters may go on to another centre: it has not
    /// been here, and has not passed too many.
    pub fn may_send_on(self, tlvs: &[u8]) -> bool {
        let Ok(tlvs) = Tlvs::new(tlvs) else { return true };
        let Some(passed) = tlvs.find(tag::CENTRES_PASSED) else { return true };
        passed.len() < MANY * OCTETS && !passed.chunks(OCTETS).any(|number| number == self.0)
    }

    /// Adds the parameter of a message that goes on to another centre.
    pub fn sign(self, tlvs: &[u8], out: &mut Vec<u8>) {
        let passed = Tlvs::new(tlvs).ok().and_then(|tlvs| tlvs.find(tag::CENTRES_PASSED));
        let mut passed = passed.unwrap_or_default().to_vec();
        passed.extend_from_slice(&self.0);
        write_tlv(out, tag::CENTRES_PASSED, &passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_that_was_here_does_not_go_on() {
        let [here, there] = [Centre([1; 8]), Centre([2; 8])];
        assert!(here.may_send_on(b"") && here.may_send_on(b"\x15\x90\0\0"));
        let mut out = Vec::new();
        there.sign(b"", &mut out);
        assert!(here.may_send_on(&out) && !there.may_send_on(&out));
        let mut both = Vec::new();
        here.sign(&out, &mut both);
        assert!(!here.may_send_on(&both) && !there.may_send_on(&both));
        // However they are called, they are not too many.
        let mut passed = Vec::new();
        for number in 3..19 {
            assert!(here.may_send_on(&passed), "{number}");
            let before = std::mem::take(&mut passed);
            Centre([number; 8]).sign(&before, &mut passed);
        }
        assert!(!here.may_send_on(&passed));
    }
}

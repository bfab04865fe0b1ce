//! What another centre answers and reports: message_id, and the receipts that it sends.

use super::reader::Reader;
use super::{Status, Tlvs, tag};
use crate::model::{MessageState, PEER_ID_MAX};

/// message_id in the body of submit_sm_resp or data_sm_resp. Empty where it was left out, as some
/// centres do.
///
/// # Errors
/// It is too long, or not printable: ESME_RINVMSGID.
pub fn response_message_id(body: &[u8]) -> Result<String, Status> {
    if body.is_empty() {
        return Ok(String::new());
    }
    if !body.contains(&0) {
        // Others leave the NUL out: then it ends with the body.
        return Reader(&[body, b"\0"].concat()).ascii(PEER_ID_MAX + 1, Status::MessageId);
    }
    Reader(body).ascii(PEER_ID_MAX + 1, Status::MessageId)
}

/// Whether the answer to a bind names a version before 3.4, whose centres take no optional
/// parameters (SMPP 3.4 §3.4). Of those that name none many are of 3.4 all the same.
#[must_use]
pub fn names_old_version(body: &[u8]) -> bool {
    let mut reader = Reader(body);
    let is_whole = reader.text(16, Status::SystemId).is_ok();
    let tlvs = Tlvs::new(reader.0).ok().filter(|_| is_whole);
    let version = tlvs.and_then(|tlvs| tlvs.find(tag::SC_INTERFACE_VERSION));
    matches!(version, Some(&[version]) if version < 0x34)
}

/// What a delivery receipt or an intermediate notification says, in its optional parameters or in
/// the customary text (SMPP 3.4 appendix B). Where both say something, the parameter counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerReceipt {
    /// The centre's number of the message.
    pub message_id: String,
    /// The final state; none if the message is still on its way.
    pub state: Option<MessageState>,
    /// Error; 0 for none.
    pub error: u32,
}

impl PeerReceipt {
    /// The receipt in a body and the optional parameters beside it; none if it names no message or
    /// no state.
    #[must_use]
    pub fn of(body: &[u8], tlvs: &[u8]) -> Option<PeerReceipt> {
        let tlvs = Tlvs::new(tlvs).ok()?;
        let text = text_of(body);
        let named = tlvs.find(tag::RECEIPTED_MESSAGE_ID).map(|id| {
            // Some leave the NUL out.
            String::from_utf8_lossy(id.split(|&octet| octet == 0).next().unwrap_or_default()).into_owned()
        });
        let message_id = named.filter(|id| !id.is_empty()).or_else(|| word(&text, "id:").map(str::to_owned));
        let message_id = message_id.filter(|id| !id.is_empty() && id.len() <= PEER_ID_MAX)?;
        let number = match tlvs.find(tag::MESSAGE_STATE) {
            Some(&[number]) => Some(number),
            _ => word(&text, "stat:").and_then(state_of_word),
        };
        let state = match number? {
            // ENROUTE and ACCEPTED, and SMPP 5.0's SCHEDULED.
            0 | 1 | 6 => None,
            2 => Some(MessageState::Delivered),
            3 => Some(MessageState::Expired),
            4 => Some(MessageState::Deleted),
            5 => Some(MessageState::Undeliverable),
            8 => Some(MessageState::Rejected),
            _ => Some(MessageState::Unknown),
        };
        let error = match tlvs.find(tag::NETWORK_ERROR_CODE) {
            Some(&[_, high, low]) => u16::from_be_bytes([high, low]).into(),
            _ => word(&text, "err:").and_then(|digits| digits.parse::<u16>().ok()).unwrap_or(0).into(),
        };
        Some(PeerReceipt { message_id, state, error })
    }

    /// Whether optional parameters are those of a receipt: whose, and what became of it.
    #[must_use]
    pub fn is_told_by(tlvs: &[u8]) -> bool {
        let told = [tag::RECEIPTED_MESSAGE_ID, tag::MESSAGE_STATE];
        Tlvs::new(tlvs).is_ok_and(|tlvs| told.iter().all(|&tag| tlvs.find(tag).is_some()))
    }

    /// The number that the text alone says.
    #[must_use]
    pub fn id_in_text(body: &[u8]) -> Option<String> {
        word(&text_of(body), "id:").map(str::to_owned)
    }
}

/// The text of a receipt. Some centres write it in UCS2, where letters of ASCII have a NUL before
/// them. Its data_coding does not count: others say UCS2 there and write ASCII.
fn text_of(body: &[u8]) -> String {
    if body.first() != Some(&0) {
        return String::from_utf8_lossy(body).into_owned();
    }
    let units: Vec<u16> = body.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

/// The word behind `name`, which begins the text or stands behind a space. Centres differ in the
/// case of names, and what follows `text:` is the sender's.
fn word<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    // Lower case of ASCII alone, so that places stay the same.
    let lower = text.to_ascii_lowercase();
    let end = lower.find("text:").unwrap_or(lower.len());
    let is_there = |at: &usize| *at == 0 || lower.as_bytes()[at - 1] == b' ';
    let begin = lower[..end].match_indices(name).map(|found| found.0).find(is_there)? + name.len();
    text[begin..].split([' ', '\0', '\r', '\n']).next()
}

/// message_state of the word in `stat:`.
fn state_of_word(word: &str) -> Option<u8> {
    let word = word.to_ascii_uppercase();
    let known = [
        ("ENROUTE", 1),
        ("DELIVRD", 2),
        ("EXPIRED", 3),
        ("DELETED", 4),
        ("UNDELIV", 5),
        ("ACCEPTD", 6),
        ("UNKNOWN", 7),
        ("REJECTD", 8),
    ];
    // Written out (DELIVERED), or cut.
    let full = [("DELIVERED", 2), ("UNDELIVERABLE", 5), ("ACCEPTED", 6), ("REJECTED", 8), ("BUFFERED", 1)];
    known.iter().chain(&full).find(|state| state.0 == word).map(|state| state.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::smpp::write_tlv;

    /// Receipts as centres of the field write them.
    #[test]
    fn receipts_are_read() {
        use MessageState::{Delivered, Rejected, Undeliverable, Unknown};
        let appendix = "id:0123456789 sub:001 dlvrd:001 submit date:2611250130 done date:2611250131 stat:DELIVRD err:000 text:hello";
        for (text, id, state, error) in [
            (appendix, "0123456789", Some(Delivered), 0),
            ("id:4f2a sub:001 dlvrd:000 stat:UNDELIV err:027 Text:id:9", "4f2a", Some(Undeliverable), 27),
            ("ID:7 SUB:001 STAT:rejectd ERR:8", "7", Some(Rejected), 8),
            ("id:7 stat:ACCEPTD", "7", None, 0),
            ("id:7 stat:ENROUTE err:00B", "7", None, 0),
            ("id:7 stat:UNKNOWN err:99999", "7", Some(Unknown), 0),
            ("sub:001 id:a-b stat:DELIVERED\0", "a-b", Some(Delivered), 0),
        ] {
            let receipt = PeerReceipt::of(text.as_bytes(), &[]).unwrap();
            assert_eq!((receipt.message_id.as_str(), receipt.state, receipt.error), (id, state, error));
        }
        for text in
            ["", "id: stat:DELIVRD", "stat:DELIVRD", "id:7", "id:7 stat:WHAT", "text:id:7 stat:DELIVRD"]
        {
            assert_eq!(PeerReceipt::of(text.as_bytes(), &[]), None, "{text}");
        }
        assert_eq!(PeerReceipt::of(format!("id:{} stat:DELIVRD", "9".repeat(65)).as_bytes(), &[]), None);
    }

    /// One in UCS2 was taken for none, and refused for good: its message ended as UNKNOWN.
    #[test]
    fn a_receipt_may_be_in_ucs2() {
        let text = "id:4f2a sub:001 dlvrd:000 stat:UNDELIV err:027 text:Жук";
        let ucs2: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let receipt = PeerReceipt::of(&ucs2, &[]).unwrap();
        let state = Some(MessageState::Undeliverable);
        assert_eq!(receipt, PeerReceipt { message_id: "4f2a".into(), state, error: 27 });
        assert_eq!(PeerReceipt::id_in_text(&ucs2).as_deref(), Some("4f2a"));
        assert_eq!(PeerReceipt::of(&[0], &[]), None);
    }

    #[test]
    fn a_centre_of_an_old_version_says_so_or_nothing() {
        for (body, old) in [
            (&b"smsc\0\x02\x10\0\x01\x33"[..], true),
            (b"smsc\0\x02\x10\0\x01\x34", false),
            (b"smsc\0\x02\x10\0\x01\x50", false),
            (b"smsc\0\x02\x10\0\x02\x33\0", false),
            (b"smsc\0", false),
            (b"smsc", false),
            (b"", false),
        ] {
            assert_eq!(names_old_version(body), old, "{body:?}");
        }
    }

    #[test]
    fn parameters_go_before_the_text() {
        let mut tlvs = Vec::new();
        write_tlv(&mut tlvs, tag::RECEIPTED_MESSAGE_ID, b"77\0");
        write_tlv(&mut tlvs, tag::MESSAGE_STATE, &[5]);
        write_tlv(&mut tlvs, tag::NETWORK_ERROR_CODE, &[3, 1, 2]);
        let receipt = PeerReceipt::of(b"id:7 stat:DELIVRD err:001", &tlvs).unwrap();
        let state = Some(MessageState::Undeliverable);
        assert_eq!(receipt, PeerReceipt { message_id: "77".into(), state, error: 258 });
        assert_eq!(PeerReceipt::of(b"", &tlvs), Some(receipt));
        assert_eq!(PeerReceipt::id_in_text(b"id:7 stat:DELIVRD err:001").as_deref(), Some("7"));
        assert_eq!(PeerReceipt::id_in_text(b"stat:DELIVRD text:id:7"), None);
        assert_eq!(PeerReceipt::of(b"", &tlvs[..5]), None, "cut off");
        assert!(PeerReceipt::is_told_by(&tlvs) && !PeerReceipt::is_told_by(&tlvs[..5]));
        // The first of the three alone.
        assert!(!PeerReceipt::is_told_by(&tlvs[..7]) && !PeerReceipt::is_told_by(b""));
    }

    /// One without its NUL was taken for none: the message ended as UNKNOWN, and its receipt found
    /// nothing.
    #[test]
    fn an_answers_number_may_be_left_out_and_so_may_its_nul() {
        assert_eq!(response_message_id(b""), Ok(String::new()));
        assert_eq!(response_message_id(b"a7\0"), Ok("a7".into()));
        assert_eq!(response_message_id(b"a7"), Ok("a7".into()));
        assert_eq!(response_message_id(&[b'9'; PEER_ID_MAX]), Ok("9".repeat(PEER_ID_MAX)));
        assert_eq!(response_message_id(&[b'9'; PEER_ID_MAX + 1]), Err(Status::MessageId));
        assert_eq!(response_message_id(b"a\x07"), Err(Status::MessageId));
        assert_eq!(response_message_id(&[b'9'; 70]), Err(Status::MessageId));
    }
}

//! Delivery receipts: SMPP 3.4 appendix B.

use crate::model::{Message, MessageState, StationKey};
use crate::text::{Coding, decode_septets, encode_septets};

/// esm_class of a message that is a delivery receipt.
pub const RECEIPT_ESM_CLASS: u8 = 0x04;
/// esm_class of an intermediate notification.
pub const NOTIFICATION_ESM_CLASS: u8 = 0x20;
/// How long a receipt waits for its application, µs.
const VALIDITY_US: i64 = 3 * 86_400_000_000;
/// Letters of the message that its receipt repeats.
const TEXT_LETTERS: usize = 20;

/// The receipt for `message`, which gets `state` now; none if its sender wants none.
#[must_use]
pub fn receipt(message: &Message, state: MessageState, error: u32, now_us: i64) -> Option<Box<Message>> {
    message.wants_receipt(state).then(|| report(message, state, error, now_us, RECEIPT_ESM_CLASS))
}

/// The intermediate notification that `message` was tried in vain and is tried again; none if its
/// sender wants none. One message has one at most: that of its first attempt.
#[must_use]
pub fn notification(message: &Message, error: u32, now_us: i64) -> Option<Box<Message>> {
    let is_first = message.attempts == 0 && message.wants_notification();
    is_first.then(|| report(message, MessageState::Enroute, error, now_us, NOTIFICATION_ESM_CLASS))
}

fn report(message: &Message, state: MessageState, error: u32, now_us: i64, esm_class: u8) -> Box<Message> {
    let delivered = u8::from(state == MessageState::Delivered);
    let body = format!(
        "id:{} sub:001 dlvrd:00{delivered} submit date:{} done date:{} stat:{} err:{:03} text:{}",
        message.msg_id,
        date(message.submit_us),
        date(now_us),
        state.receipt_word(),
        error % 1000,
        beginning(message),
    );
    Box::new(Message {
        msg_id: 0,
        state: MessageState::Enroute,
        account: message.account,
        src: message.dst.clone(),
        src_ton: message.dst_ton,
        src_npi: message.dst_npi,
        dst_key: StationKey::of_account(message.account, message.msg_id),
        dst: message.src.clone(),
        dst_ton: message.src_ton,
        dst_npi: message.src_npi,
        service_type: String::new(),
        esm_class,
        protocol_id: 0,
        priority: 0,
        registered_delivery: 0,
        data_coding: 0,
        submit_us: now_us,
        schedule_us: 0,
        expire_us: now_us + VALIDITY_US,
        done_us: 0,
        attempts: 0,
        last_error: 0,
        receipt_of: message.msg_id,
        parts: 0,
        tlvs: Vec::new(),
        body: body.into_bytes(),
    })
}

/// The first letters of a text that ASCII has. Applications read a receipt as ASCII or in the
/// default alphabet: what has another octet in one than in the other becomes `?`.
fn beginning(message: &Message) -> String {
    let header = if message.esm_class & crate::text::ESM_UDHI != 0 {
        message.body.first().map_or(0, |&length| usize::from(length) + 1)
    } else {
        0
    };
    let body = message.body.get(header..).unwrap_or_default();
    let text: String = match Coding::of_data_coding(message.data_coding) {
        Some(Coding::Gsm7) => decode_septets(&body[..body.len().min(2 * TEXT_LETTERS)]),
        Some(Coding::Ascii | Coding::Latin1) => {
            body.iter().take(TEXT_LETTERS).map(|&octet| char::from(octet)).collect()
        }
        _ => String::new(),
    };
    let is_alike = |c: char| encode_septets(c.encode_utf8(&mut [0; 4])).is_ok_and(|s| s == [c as u8]);
    let readable = |c| if is_alike(c) { c } else { '?' };
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(TEXT_LETTERS).map(readable).collect()
}

/// `YYMMDDhhmm`, UTC.
fn date(us: i64) -> String {
    let minutes = us.div_euclid(60_000_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    let (year, month, day) = civil(days);
    format!("{:02}{month:02}{day:02}{:02}{:02}", year.rem_euclid(100), minute / 60, minute % 60)
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar: years are
/// counted from March, so that the leap day is the last of its year (H. Hinnant, "chrono-compatible
/// low-level date algorithms").
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// A time in RFC 3339, UTC, with µs.
#[must_use]
pub fn rfc3339(us: i64) -> String {
    const DAY_US: i64 = 86_400_000_000;
    let (year, month, day) = civil(us.div_euclid(DAY_US));
    let of_day = us.rem_euclid(DAY_US);
    let (second, micro) = (of_day / 1_000_000, of_day % 1_000_000);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micro:06}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "7001010000");
        assert_eq!(date(951_782_399_999_999), "0002282359"); // the minute before a leap day
        assert_eq!(date(951_782_400_000_000), "0002290000");
        assert_eq!(date(1_700_000_000_000_000), "2311142213");
    }

    fn message() -> Message {
        Message {
            msg_id: 4711,
            state: MessageState::Enroute,
            account: 7,
            src: "4900".into(),
            src_ton: 1,
            src_npi: 2,
            dst_key: StationKey(1_491),
            dst: "491".into(),
            dst_ton: 3,
            dst_npi: 4,
            service_type: "CMT".into(),
            esm_class: 0,
            protocol_id: 5,
            priority: 2,
            registered_delivery: 1,
            data_coding: 0,
            submit_us: 1_800_000_059_000_000,
            schedule_us: 0,
            expire_us: 1_900_000_000_000_000,
            done_us: 0,
            attempts: 3,
            last_error: 27,
            receipt_of: 0,
            parts: 1,
            tlvs: vec![1, 2],
            body: b"hello, world".to_vec(),
        }
    }

    fn text(message: &Message, state: MessageState, error: u32) -> String {
        let receipt = receipt(message, state, error, 1_800_003_600_000_000).unwrap();
        String::from_utf8(receipt.body).unwrap()
    }

    #[test]
    fn a_receipt_is_that_of_appendix_b() {
        for (state, error, dlvrd, stat, err) in [
            (MessageState::Delivered, 0, "001", "DELIVRD", "000"),
            (MessageState::Expired, 27, "000", "EXPIRED", "027"),
            (MessageState::Deleted, 0, "000", "DELETED", "000"),
            (MessageState::Undeliverable, 1, "000", "UNDELIV", "001"),
            (MessageState::Undeliverable, 65_535, "000", "UNDELIV", "535"),
        ] {
            let wanted = format!(
                "id:4711 sub:001 dlvrd:{dlvrd} submit date:2701150800 done date:2701150900 stat:{stat} err:{err} text:hello, world"
            );
            assert_eq!(text(&message(), state, error), wanted);
        }
    }

    #[test]
    fn a_receipt_repeats_twenty_letters_that_ascii_has() {
        let text_of = |data_coding, esm_class, body: &[u8]| {
            let message = Message { data_coding, esm_class, body: body.to_vec(), ..message() };
            let text = text(&message, MessageState::Delivered, 0);
            text.split_once(" text:").unwrap().1.to_owned()
        };
        assert_eq!(text_of(0, 0, b"abcdefghijklmnopqrstuvwxyz"), "abcdefghijklmnopqrst");
        // Septets: '@' is 0, '[' an escape and one more, 'é' is not in ASCII.
        // What follows was given in ASCII: who read it as septets saw `[` as `Ä`.
        assert_eq!(text_of(0, 0, &[0x00, 0x1b, 0x3c, 0x05, b'a']), "??a");
        assert_eq!(text_of(0, 0, &[0x1b, 0x3c].repeat(30)), "?".repeat(20));
        assert_eq!(text_of(1, 0, b"a%b_c`"), "a%b?c?", "ASCII, which was read as septets");
        assert_eq!(text_of(3, 0, b"a\xe9#\nb"), "a#b");
        assert_eq!(text_of(0, 0x40, &[2, 0x70, 0, b'h', b'i']), "hi", "behind the user data header");
        assert_eq!(text_of(8, 0, &[0, b'a']), "");
        assert_eq!(text_of(4, 0, b"abc"), "");
        assert_eq!(text_of(0, 0x40, &[9, 1]), "", "no header, and no panic");
    }

    #[test]
    fn a_receipt_goes_back_to_a_lane_of_the_application() {
        let receipt = receipt(&message(), MessageState::Delivered, 0, 1_800_003_600_000_000).unwrap();
        let Message { src, src_ton, src_npi, dst, dst_ton, dst_npi, .. } = &*receipt;
        assert_eq!((src.as_str(), *src_ton, *src_npi), ("491", 3, 4));
        assert_eq!((dst.as_str(), *dst_ton, *dst_npi), ("4900", 1, 2));
        assert_eq!(
            (receipt.account, receipt.receipt_of, receipt.esm_class, receipt.priority),
            (7, 4711, 4, 0)
        );
        assert_eq!(receipt.dst_key.to_string(), "E7.103", "4711 modulo 256");
        assert_eq!(
            (receipt.registered_delivery, receipt.data_coding, receipt.state),
            (0, 0, MessageState::Enroute)
        );
        assert_eq!(receipt.submit_us, 1_800_003_600_000_000);
        assert_eq!(receipt.expire_us - receipt.submit_us, 3 * 86_400_000_000);
    }

    #[test]
    fn a_receipt_is_for_who_asked_for_it() {
        use MessageState::{Deleted, Delivered, Expired, Undeliverable};
        for (registered_delivery, told) in [
            (0, &[][..]),
            (1, &[Delivered, Expired, Deleted, Undeliverable]),
            (2, &[Expired, Deleted, Undeliverable]),
            (3, &[Delivered]),
            // Bits 2 to 4 ask for other things.
            (0x10, &[]),
            (0x11, &[Delivered, Expired, Deleted, Undeliverable]),
        ] {
            let message = Message { registered_delivery, ..message() };
            for state in [Delivered, Expired, Deleted, Undeliverable] {
                let is_told = receipt(&message, state, 0, 0).is_some();
                assert_eq!(is_told, told.contains(&state), "{registered_delivery} {state:?}");
            }
        }
    }
}

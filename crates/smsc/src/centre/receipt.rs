//! Delivery receipts: SMPP 3.4 appendix B.

use crate::model::{Message, MessageState, StationKey};
use crate::text::{Coding, decode_septets};

/// esm_class of a message that is a delivery receipt.
pub const RECEIPT_ESM_CLASS: u8 = 0x04;
/// How long a receipt waits for its application, µs.
const VALIDITY_US: i64 = 3 * 86_400_000_000;
/// Letters of the message that its receipt repeats.
const TEXT_LETTERS: usize = 20;

/// The receipt for `message`, which gets `state` now; none if its sender wants none.
#[must_use]
pub fn receipt(message: &Message, state: MessageState, error: u32, now_us: i64) -> Option<Box<Message>> {
    if !message.wants_receipt(state) {
        return None;
    }
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
    Some(Box::new(Message {
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
        esm_class: RECEIPT_ESM_CLASS,
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
    }))
}

/// The first letters of a text that ASCII has; the receipt itself is in the default alphabet.
fn beginning(message: &Message) -> String {
    let header = if message.esm_class & crate::text::ESM_UDHI != 0 {
        message.body.first().map_or(0, |&length| usize::from(length) + 1)
    } else {
        0
    };
    let body = message.body.get(header..).unwrap_or_default();
    let text: String = match Coding::of_data_coding(message.data_coding) {
        Some(Coding::Gsm7) => decode_septets(&body[..body.len().min(2 * TEXT_LETTERS)]),
        Some(Coding::Latin1) => body.iter().take(TEXT_LETTERS).map(|&octet| char::from(octet)).collect(),
        _ => String::new(),
    };
    text.chars().filter(|c| c.is_ascii_graphic() || *c == ' ').take(TEXT_LETTERS).collect()
}

/// `YYMMDDhhmm`, UTC.
fn date(us: i64) -> String {
    let minutes = us.div_euclid(60_000_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    let (year, month, day) = civil(days);
    format!("{:02}{month:02}{day:02}{:02}{:02}", year.rem_euclid(100), minute / 60, minute % 60)
}

/// Year, month and day of a number of days since 1970-01-01, in the Gregorian calendar: years are counted from March, so that
/// the leap day is the last of its year (H. Hinnant, "chrono-compatible low-level date algorithms").
fn civil(days: i64) -> (i64, i64, i64) {
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
}

//! Times in PDUs (SMPP 3.4 §7.1): `YYMMDDhhmmsstnnp`.

/// µs of a second.
const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

/// A time of a PDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Time {
    /// Left out.
    None,
    /// µs since 1970.
    Absolute(i64),
    /// So many µs after now.
    Relative(i64),
}

impl Time {
    /// As a time of day; none if it was left out.
    #[must_use]
    pub fn at(self, now_us: i64) -> Option<i64> {
        match self {
            Time::None => None,
            Time::Absolute(us) => Some(us),
            Time::Relative(us) => Some(now_us.saturating_add(us)),
        }
    }
}

/// Reads a time; `None` if it is none.
///
/// Relative times count years of 365 and months of 30 days, as nothing is said about them.
#[must_use]
pub fn parse_time(text: &[u8]) -> Option<Time> {
    if text.is_empty() {
        return Some(Time::None);
    }
    let (&digits, &[direction]) = text.split_first_chunk::<15>()? else { return None };
    if !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number = |at: usize| i64::from(digits[at] - b'0') * 10 + i64::from(digits[at + 1] - b'0');
    let [year, month, day, hour, minute, second] = [0, 2, 4, 6, 8, 10].map(number);
    let (tenths, quarters) = (i64::from(digits[12] - b'0'), number(13));
    let of_day_us = ((hour * 60 + minute) * 60 + second) * SECOND_US + tenths * SECOND_US / 10;
    match direction {
        b'R' if tenths == 0 && quarters == 0 => {
            Some(Time::Relative((year * 365 + month * 30 + day) * DAY_US + of_day_us))
        }
        b'+' | b'-' => {
            let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
            if !is_date || hour > 23 || minute > 59 || second > 59 || quarters > 48 {
                return None;
            }
            let days = days_of(2000 + year, month, day);
            if civil_of(days) != (2000 + year, month, day) {
                return None;
            }
            // nn quarters of an hour that local time is in advance of UTC, or behind.
            let offset_us = quarters * 900 * SECOND_US * if direction == b'+' { 1 } else { -1 };
            Some(Time::Absolute(days * DAY_US + of_day_us - offset_us))
        }
        _ => None,
    }
}

/// Writes an absolute time, UTC; empty for 0.
#[must_use]
pub fn format_time(us: i64) -> String {
    if us == 0 {
        return String::new();
    }
    let (year, month, day) = civil_of(us.div_euclid(DAY_US));
    let second = us.rem_euclid(DAY_US) / SECOND_US;
    let tenth = us.rem_euclid(SECOND_US) / (SECOND_US / 10);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    let year = year.rem_euclid(100);
    format!("{year:02}{month:02}{day:02}{hour:02}{minute:02}{second:02}{tenth}00+")
}

/// Days since 1970-01-01 of a date of the Gregorian calendar; years are counted from March (H.
/// Hinnant, "chrono-compatible low-level date algorithms").
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The date of a number of days since 1970-01-01.
fn civil_of(days: i64) -> (i64, i64, i64) {
    crate::centre::civil(days)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_the_specification_says() {
        for (text, time) in [
            ("", Some(Time::None)),
            ("700101000000000+", Some(Time::Absolute(3_155_760_000_000_000))),
            ("240229120000000+", Some(Time::Absolute(1_709_208_000_000_000))),
            // 4 quarters in advance of UTC.
            ("240229130000004+", Some(Time::Absolute(1_709_208_000_000_000))),
            ("240229110000004-", Some(Time::Absolute(1_709_208_000_000_000))),
            ("240229120000500+", Some(Time::Absolute(1_709_208_000_500_000))),
            ("000000000100000R", Some(Time::Relative(60_000_000))),
            ("000002610000000R", Some(Time::Relative(2 * DAY_US + 61 * 3600 * SECOND_US))),
            ("000000000100100R", None),
            ("230229120000000+", None),
            ("241301000000000+", None),
            ("240001000000000+", None),
            ("240100000000000+", None),
            ("240101240000000+", None),
            ("240101006000000+", None),
            ("240101000060000+", None),
            ("240101000000049+", None),
            ("240101000000000", None),
            ("240101000000000X", None),
            ("24010100000000a+", None),
            ("240101000000000++", None),
            ("1", None),
        ] {
            assert_eq!(parse_time(text.as_bytes()), time, "{text}");
        }
        for us in [1_709_208_000_500_000, 1_800_000_000_000_000] {
            assert_eq!(parse_time(format_time(us).as_bytes()), Some(Time::Absolute(us)));
        }
        assert_eq!(format_time(0), "");
    }
}

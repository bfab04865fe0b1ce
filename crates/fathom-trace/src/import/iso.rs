//! Times as RFC 3339 and ISO 8601 write them, and loggers do who are near to that:
//! `2023-08-10T10:00:00.125Z`, `2023-08-10 10:00:00,125+02:00`.

/// What a time zone that is UTC is called behind a time.
const UTC: [&str; 4] = ["Z", "z", "UTC", "GMT"];

/// Time of a text, ns since 1970; none where it is no whole time of a day, or of one before. What
/// has no zone counts as UTC: gaps between times of one clock are the same in each.
pub fn ns_of(text: &str) -> Option<u64> {
    let text = text.trim();
    let bytes = text.as_bytes();
    let is_between = |at: usize, marks: &[u8]| bytes.get(at).is_some_and(|byte| marks.contains(byte));
    let is_form = is_between(4, b"-/")
        && is_between(7, b"-/")
        && is_between(10, b"Tt ")
        && is_between(13, b":")
        && is_between(16, b":");
    if !is_form {
        return None;
    }
    let [year, month, day] = [(0, 4), (5, 7), (8, 10)].map(|(from, to)| number(text.get(from..to)));
    let [hour, minute, second] = [(11, 13), (14, 16), (17, 19)].map(|(from, to)| number(text.get(from..to)));
    let (year, month, day) = (year?, month?, day?);
    let (hour, minute, second) = (hour?, minute?, second?);
    // A leap second is one of its minute.
    let is_time = (1..=12).contains(&month)
        && (1..=days_in(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !is_time {
        return None;
    }
    let (fraction_ns, zone) = fraction(text.get(19..)?)?;
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second
        - offset_seconds(zone.trim_start())?;
    let ns = i128::from(seconds) * 1_000_000_000 + i128::from(fraction_ns);
    u64::try_from(ns).ok()
}

fn number(digits: Option<&str>) -> Option<i64> {
    let digits = digits?;
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

/// The fraction of a second at the beginning, ns, and what is behind it. Digits beyond the ninth
/// are less than a nanosecond.
fn fraction(text: &str) -> Option<(i64, &str)> {
    let Some(digits) = text.strip_prefix(['.', ',']) else { return Some((0, text)) };
    let length = digits.bytes().take_while(u8::is_ascii_digit).count();
    let (digits, behind) = digits.split_at(length);
    let ns = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    let ns = ns.fold(0, |ns, digit| ns * 10 + i64::from(digit - b'0'));
    (length > 0).then_some((ns, behind))
}

/// How far a zone is before UTC, s: `+02:00`, `-0530`, `+02`.
fn offset_seconds(zone: &str) -> Option<i64> {
    if zone.is_empty() || UTC.contains(&zone) {
        return Some(0);
    }
    let sign = if zone.starts_with('+') { 1 } else { -1 };
    let digits = zone.strip_prefix(['+', '-'])?;
    let (hours, minutes) = match digits.len() {
        2 => (number(digits.get(..2)), Some(0)),
        4 => (number(digits.get(..2)), number(digits.get(2..))),
        5 if digits.as_bytes()[2] == b':' => (number(digits.get(..2)), number(digits.get(3..))),
        _ => return None,
    };
    let (hours, minutes) = (hours?, minutes?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    // Days of the years 1 to `year - 1`, of which 719,162 are before 1970.
    let before = year - 1;
    let of_years = before * 365 + before / 4 - before / 100 + before / 400 - 719_162;
    let of_months: i64 = (1..month).map(|month| days_in(year, month)).sum();
    of_years + of_months + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_their_instants() {
        const AT: u64 = 1_691_661_600_000_000_000;
        for (text, ns) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600_000_000_000),
            ("2023-08-10T10:00:00Z", AT),
            ("2023-08-10 10:00:00 UTC", AT),
            ("2023/08/10 10:00:00", AT),
            ("2023-08-10t12:00:00.125+02:00", AT + 125_000_000),
            ("2023-08-10T04:30:00,5-0530", AT + 500_000_000),
            ("2023-08-10 12:00:00.000000001 +02", AT + 1),
            ("2023-08-10T10:00:00.1234567899Z", AT + 123_456_789),
        ] {
            assert_eq!(ns_of(text), Some(ns), "{text}");
        }
        for text in [
            "",
            "10:00:00",
            "12.5ms",
            "2023-08-10",
            "2023-08-10T10:00Z",
            "2023-02-29T10:00:00Z",
            "2023-13-01T10:00:00Z",
            "2023-08-10T24:00:01Z",
            "2023-08-10T10:00:00.Z",
            "2023-08-10T10:00:00 CEST",
            "2023-08-10T10:00:00+2",
            "2023-08-10T10:00:00 größe",
            "é023-08-10T10:00:00Z",
            "1969-12-31T23:59:59Z",
            "0000-01-01T00:00:00Z",
        ] {
            assert_eq!(ns_of(text), None, "{text}");
        }
    }
}

//! Lines of Android's log.

use super::studio;

/// The tag of what says how long a statement took.
pub const TIME: &str = "SQLiteTime";

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LogLine<'a> {
    /// None where the log has no times.
    pub at: Option<LogTime>,
    pub pid: u32,
    pub tid: u32,
    /// The tag [`TIME`] instead of another one.
    pub is_time: bool,
    pub message: &'a str,
    /// Byte at which the message's further lines begin, where they have no head of their own.
    pub column: Option<usize>,
}

/// When a line was written, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogTime {
    /// Since the start of a year that is not told, as if each had a 29 February.
    OfYear(u64),
    /// Since one moment: 1970, or the device's start.
    Since(u64),
}

/// A line with this tag, of `logcat` in the formats brief, tag, time and threadtime (with year,
/// microseconds, uid, epoch, monotonic or colours, where asked for), of Android Studio, or of the
/// monitor before it.
pub fn tagged<'a>(line: &'a str, tag: &str) -> Option<LogLine<'a>> {
    let line = without_colour(line.trim_end_matches(['\r', '\n']));
    let at = line.find(tag)?;
    let (before, after) = (&line[..at], &line[at + tag.len()..]);
    if !before.ends_with(['/', ' ']) {
        return None;
    }
    let is_time = tag == TIME;
    let words: Vec<&str> = before.split_whitespace().collect();
    let at = words
        .windows(2)
        .find_map(|pair| time_of(pair[0], pair[1]))
        .or_else(|| words.first().and_then(|word| seconds_of(word)).map(LogTime::Since));
    // Behind the date and the time; where these are not shown, before the level alone.
    let first = words.first().filter(|_| words.len() == 2);
    let ids = words.get(2).or(first).and_then(|word| studio::ids(word));
    if let Some((pid, tid)) = ids
        && let Some(message) = studio::message(after)
    {
        let column = Some(line.len() - message.len());
        return Some(LogLine { at, pid, tid, is_time, message, column });
    }
    // The first colon ends the tag, which `(pid)` and spaces may follow. Android Studio had a small
    // one in its first years.
    let colon = after.find([':', SMALL_COLON])?;
    let pid_behind = after[..colon].trim().trim_start_matches('(').trim_end_matches(')').trim();
    let mut message = after[colon..].chars();
    message.next();
    let message = message.as_str().strip_prefix(' ').unwrap_or(message.as_str());
    let numbers: Vec<u32> = words.iter().filter_map(|word| word.parse().ok()).collect();
    let (pid, tid) = match (pid_behind.parse(), ids, &numbers[..]) {
        (Ok(pid), ..) => (pid, pid),
        (_, Some(ids), _) => ids,
        // With a uid it comes first.
        (_, _, [.., pid, tid]) => (*pid, *tid),
        _ => (0, 0),
    };
    Some(LogLine { at, pid, tid, is_time, message, column: ids.map(|_| studio::INDENT) })
}

const SMALL_COLON: char = '\u{fe55}';

/// A line without the colour that its level has in the format `color`.
fn without_colour(line: &str) -> &str {
    let Some((_, rest)) = line.strip_prefix("\u{1b}[").and_then(|rest| rest.split_once('m')) else {
        return line;
    };
    rest.strip_suffix("\u{1b}[0m").unwrap_or(rest)
}

/// `MM-DD` or `YYYY-MM-DD`, and `HH:MM:SS.fraction`.
fn time_of(date: &str, time: &str) -> Option<LogTime> {
    const DAYS_BEFORE: [u64; 12] = [0, 31, 60, 91, 121, 152, 182, 213, 244, 274, 305, 335];
    let mut date = date.rsplit('-').map(str::parse::<u64>);
    let (day, month) = (date.next()?.ok()?, date.next()?.ok()?);
    // The monitor has a colon behind it.
    let (clock, fraction) = time.trim_end_matches(':').split_once('.')?;
    let mut clock = clock.split(':').map(str::parse::<u64>);
    let (hour, minute, second) = (clock.next()?.ok()?, clock.next()?.ok()?, clock.next()?.ok()?);
    let days = DAYS_BEFORE.get(usize::try_from(month.checked_sub(1)?).ok()?)? + day.checked_sub(1)?;
    if day > 31 || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let fraction_ns = fraction_of(fraction)?;
    let ns_of = |days: u64| (((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000_000_000 + fraction_ns;
    let year = date.next().and_then(Result::ok).filter(|year| YEARS.contains(year));
    let Some(year) = year else { return Some(LogTime::OfYear(ns_of(days))) };
    let is_leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let leap_days = |before: u64| (before - 1) / 4 - (before - 1) / 100 + (before - 1) / 400;
    let days_before = (year - YEARS.start()) * 365 + leap_days(year) - leap_days(*YEARS.start());
    let days = if month > 2 && !is_leap { days - 1 } else { days };
    Some(LogTime::Since(ns_of(days_before + days)))
}

/// Years whose ns since 1970 are a number of 64 bits.
const YEARS: std::ops::RangeInclusive<u64> = 1970..=2500;

/// `SECONDS.fraction`, as the formats epoch and monotonic have it, as ns.
fn seconds_of(word: &str) -> Option<u64> {
    let (seconds, fraction) = word.split_once('.')?;
    seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(fraction_of(fraction)?)
}

/// The digits behind the point of a number of seconds, as ns.
fn fraction_of(digits: &str) -> Option<u64> {
    if digits.is_empty() || digits.len() > 9 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse::<u64>().ok()? * 10_u64.pow(9 - digits.len() as u32))
}

const DAY_NS: u64 = 86_400_000_000_000;
/// As [`LogTime::OfYear`] counts.
const YEAR_NS: u64 = 366 * DAY_NS;
/// Its 29 February, and what comes behind it.
const LEAP_DAY_NS: std::ops::Range<u64> = 59 * DAY_NS..60 * DAY_NS;

/// Times of a log, of which most have no year.
#[derive(Debug, Default)]
pub struct Clock {
    first_ns: Option<u64>,
    last_ns: u64,
    /// How long the years were that have passed, ns.
    years: Vec<u64>,
    /// Whether this year has a 29 February: where a line is of it.
    is_leap: bool,
}

impl Clock {
    /// ns since the log's first time.
    pub fn since_first(&mut self, at: LogTime) -> u64 {
        let at_ns = match at {
            LogTime::OfYear(ns) => self.over_the_years(ns),
            LogTime::Since(ns) => ns,
        };
        at_ns.saturating_sub(*self.first_ns.get_or_insert(at_ns))
    }

    /// On New Year the days begin again; a line that is a little late is one of the old year.
    /// Behind 28 February comes 1 March, unless there is a line of the day between.
    fn over_the_years(&mut self, ns: u64) -> u64 {
        let is_begin = |ns: u64| ns < 2 * DAY_NS;
        let is_end = |ns: u64| (YEAR_NS - 3 * DAY_NS..YEAR_NS).contains(&ns);
        if is_begin(ns) && is_end(self.last_ns) {
            self.years.push(if self.is_leap { YEAR_NS } else { YEAR_NS - DAY_NS });
            self.is_leap = false;
        } else if is_end(ns) && is_begin(self.last_ns) {
            self.is_leap = self.years.pop() == Some(YEAR_NS);
        }
        self.last_ns = ns;
        self.is_leap |= LEAP_DAY_NS.contains(&ns);
        let skipped_ns = if ns >= LEAP_DAY_NS.end && !self.is_leap { DAY_NS } else { 0 };
        (ns - skipped_ns).saturating_add(self.years.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: all that a log had after New Year was at the last time of the old one.
    #[test]
    fn time_goes_on_in_a_new_year() {
        let mut clock = Clock::default();
        let mut ms =
            |date: &str, time: &str| clock.since_first(time_of(date, time).expect("a time")) / 1_000_000;
        assert_eq!(ms("12-31", "23:59:59.500"), 0);
        assert_eq!(ms("01-01", "00:00:00.250"), 750);
        assert_eq!(ms("12-31", "23:59:59.900"), 400);
        assert_eq!(ms("01-01", "00:00:02.500"), 3000);
        assert_eq!(ms("01-03", "23:59:59.500"), 3 * 86_400_000);
        // Seconds since 1970 have their years.
        let mut clock = Clock::default();
        let times = [1_767_225_599_u64, 1_767_225_600, 1_767_225_601];
        let since = |second: u64| clock.since_first(LogTime::Since(second * 1_000_000_000));
        assert_eq!(times.map(since).map(|ns| ns / 1_000_000_000), [0, 1, 2]);
    }

    /// What happened: each year had a 29 February. Between 28 February and 1 March, and on New Year
    /// of a log that tells its years, there was a day in which nobody did anything.
    #[test]
    fn a_day_that_a_year_has_not_is_none_in_a_log() {
        let ms = |lines: &[(&str, &str)]| -> Vec<u64> {
            let mut clock = Clock::default();
            let times = lines.iter().map(|(date, time)| time_of(date, time).expect("a time"));
            times.map(|at| clock.since_first(at) / 1_000_000).collect()
        };
        let (late, early) = ("23:59:59.500", "00:00:00.500");
        assert_eq!(ms(&[("02-28", late), ("03-01", early), ("02-28", late)]), [0, 1000, 0]);
        assert_eq!(ms(&[("02-28", late), ("02-29", early), ("03-01", early)]), [0, 1000, 86_401_000]);
        assert_eq!(ms(&[("02-29", late), ("12-31", late), ("01-01", early)])[2], 306 * 86_400_000 + 1000);
        assert_eq!(ms(&[("2025-02-28", late), ("2025-03-01", early)]), [0, 1000]);
        assert_eq!(ms(&[("2024-02-28", late), ("2024-03-01", early)]), [0, 86_401_000]);
        for year in [2023, 2024, 2025, 2099] {
            let (old, new) = (format!("{year}-12-31"), format!("{}-01-01", year + 1));
            assert_eq!(ms(&[(old.as_str(), late), (new.as_str(), early)]), [0, 1000], "{year}");
        }
        assert_eq!(time_of("1970-01-02", "00:00:00.0"), Some(LogTime::Since(DAY_NS)));
    }

    #[test]
    fn lines_of_all_formats_are_read() {
        let message = "/data/a.db: \"BEGIN EXCLUSIVE;\"";
        for (line, pid, tid, has_time) in [
            (format!("11-21 16:26:38.123  1234  1240 V SQLiteStatements: {message}\r\n"), 1234, 1240, true),
            (
                format!("2026-11-21 16:26:38.123456 10031  1234  1240 V SQLiteStatements: {message}"),
                1234,
                1240,
                true,
            ),
            (format!("11-21 16:26:38.123 V/SQLiteStatements( 1234): {message}"), 1234, 1234, true),
            (format!("V/SQLiteStatements(1234): {message}"), 1234, 1234, false),
            (
                format!("2020-03-19 20:45:58.981 788-883/com.example.app V/SQLiteStatements: {message}"),
                788,
                883,
                true,
            ),
            (
                format!(
                    "2022-12-29 04:00:18.823   788-883   SQLiteStatements        com.example.app      V  {message}"
                ),
                788,
                883,
                true,
            ),
            (format!("03-23 09:34:49.709    788-883/? V/SQLiteStatements\u{fe55} {message}"), 788, 883, true),
            (format!("788-883/com.example.app V/SQLiteStatements\u{fe55} {message}"), 788, 883, false),
            (format!("01-21 15:09:56.957: V/SQLiteStatements(240): {message}"), 240, 240, true),
            (
                format!(
                    "\u{1b}[38;5;231m11-21 16:26:38.123  1234  1240 V SQLiteStatements: {message}\u{1b}[0m"
                ),
                1234,
                1240,
                true,
            ),
            (format!("V/SQLiteStatements: {message}"), 0, 0, false),
            (format!("  1574325998.123  1234  1240 V SQLiteStatements: {message}"), 1234, 1240, true),
        ] {
            let read = tagged(&line, "SQLiteStatements").unwrap_or_else(|| panic!("{line}"));
            assert_eq!(
                (read.pid, read.tid, read.at.is_some(), read.message),
                (pid, tid, has_time, message),
                "{line}"
            );
        }
        assert_eq!(
            tagged("11-21 16:26:38.123  1234  1240 I ActivityManager: start", "SQLiteStatements"),
            None
        );
        assert_eq!(time_of("01-02", "00:00:01.5"), Some(LogTime::OfYear(86_401_500_000_000)));
        assert_eq!(time_of("13-02", "00:00:01.5"), None);
        assert_eq!(seconds_of("1574325998.123"), Some(1_574_325_998_123_000_000));
        for no_time in ["1234", "1.+5", "99999999999999.5"] {
            assert_eq!(seconds_of(no_time), None, "{no_time}");
        }
        assert_eq!(time_of("00-00", "00:00:01.5"), None);
    }
}

//! Numbers as people read them: thousands separated, three significant digits, the unit that fits.
//!
//! The same rules are written once more in `page/page.js`; a browser test holds both to the same
//! table of examples.

use fathom_lab::stats::Interval;

/// A number with thousands separators and no more digits than carry meaning (three, or all digits
/// before the point).
pub fn plain(value: f64) -> String {
    if !value.is_finite() {
        return "n/a".into();
    }
    let magnitude = value.abs();
    let digits = if magnitude >= 99.95 || magnitude == 0.0 || magnitude.fract() == 0.0 {
        0
    } else if magnitude >= 9.995 {
        1
    } else if magnitude >= 0.9995 {
        2
    } else {
        // 0.0123: three significant digits, at most nine decimals.
        ((-magnitude.log10()).ceil() as usize + 2).min(9)
    };
    separate(&format!("{value:.digits$}"))
}

/// Nanoseconds with the unit that fits: `840 ns`, `81.3 µs`, `1.25 ms`, `12.5 s`.
pub fn time(ns: f64) -> String {
    let (divisor, unit) = time_unit(ns);
    format!("{} {unit}", plain(ns / divisor))
}

/// Divisor and name of the unit in which `ns` reads best.
pub fn time_unit(ns: f64) -> (f64, &'static str) {
    match ns.abs() {
        v if v < 999.5 => (1.0, "ns"),
        v if v < 999.5e3 => (1e3, "µs"),
        v if v < 999.5e6 => (1e6, "ms"),
        _ => (1e9, "s"),
    }
}

/// `[low, high]` of times, both in the unit of `mid`, the unit not repeated.
pub fn time_interval(mid: f64, low: f64, high: f64) -> String {
    let divisor = time_unit(mid).0;
    format!("[{}, {}]", plain(low / divisor), plain(high / divisor))
}

/// `[low, high]` of plain numbers.
pub fn interval(low: f64, high: f64) -> String {
    format!("[{}, {}]", plain(low), plain(high))
}

/// What stands in the place of an interval where a single run has none.
pub const ONE_RUN: &str = "one run";

/// The interval of a rate or a count, as [`interval`], where there is one.
pub fn interval_of(value: &Interval) -> String {
    if value.n < 2 { ONE_RUN.into() } else { interval(value.low, value.high) }
}

/// The interval of a time, as [`time_interval`], where there is one.
pub fn time_interval_of(value: &Interval) -> String {
    if value.n < 2 { ONE_RUN.into() } else { time_interval(value.mid, value.low, value.high) }
}

/// A share of one as whole percent; `<1` where it would read as nothing.
pub fn percent(share: f64) -> String {
    match share * 100.0 {
        p if !p.is_finite() => "n/a".into(),
        p if p > 0.0 && p < 0.5 => "<1 %".into(),
        p => format!("{p:.0} %"),
    }
}

/// Bytes in binary units.
pub fn bytes(value: f64) -> String {
    match value {
        v if v < 1024.0 => format!("{} B", plain(v)),
        v if v < 1024.0 * 1024.0 => format!("{} KiB", plain(v / 1024.0)),
        v => format!("{} MiB", plain(v / (1024.0 * 1024.0))),
    }
}

/// `[low, high]` of bytes.
pub fn bytes_interval(low: f64, high: f64) -> String {
    format!("[{}, {}]", bytes(low), bytes(high))
}

/// A day and minute in UTC, `2026-11-21 07:37 UTC`, from milliseconds since 1970 (Howard Hinnant's
/// `civil_from_days`).
pub fn moment(ms: i64) -> String {
    let minutes = ms.div_euclid(60_000);
    let (days, minute) = (minutes.div_euclid(1440), minutes.rem_euclid(1440));
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minute / 60, minute % 60)
}

fn separate(digits: &str) -> String {
    let (sign, rest) = digits.strip_prefix('-').map_or(("", digits), |rest| ("-", rest));
    let (whole, fraction) = rest.split_once('.').map_or((rest, None), |(w, f)| (w, Some(f)));
    let mut out = String::from(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

#[cfg(test)]
mod tests {
    use fathom_lab::stats::mean_interval;

    use super::*;

    /// What happened: "71.1 [71.1, 71.1]" stood under "[95 %]" for a cell of which one run was
    /// good.
    #[test]
    fn a_single_run_has_no_interval() {
        let of = |values: &[f64]| mean_interval(values).unwrap();
        assert_eq!(interval_of(&of(&[71.1])), ONE_RUN);
        assert_eq!(time_interval_of(&of(&[1.0e6])), ONE_RUN);
        assert_eq!(interval_of(&of(&[2.0, 2.0])), "[2, 2]");
        assert!(time_interval_of(&of(&[0.9e6, 1.1e6])).starts_with('['));
    }

    #[test]
    fn numbers_read_well() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (1716.4, "1,716"),
            (78_400.0, "78,400"),
            (1_234_567.8, "1,234,568"),
            (0.9, "0.900"),
            (4.215, "4.21"),
            (42.15, "42.1"),
            (0.012_34, "0.0123"),
            (-1716.0, "-1,716"),
            (99.96, "100"),
        ] {
            assert_eq!(plain(value), text, "{value}");
        }
        assert_eq!(plain(f64::NAN), "n/a");
        assert_eq!(time(81_300.0), "81.3 µs");
        assert_eq!(time(999_600.0), "1.00 ms");
        assert_eq!(time(12.5e9), "12.5 s");
        assert_eq!(time_interval(1.0e6, 0.9e6, 1.2e6), "[0.900, 1.20]");
        assert_eq!(percent(0.881), "88 %");
        assert_eq!(percent(0.001), "<1 %");
        assert_eq!(bytes(4096.0), "4 KiB");
    }

    #[test]
    fn moments_are_civil_dates() {
        assert_eq!(moment(0), "1970-01-01 00:00 UTC");
        assert_eq!(moment(951_826_500_000), "2000-02-29 12:15 UTC");
        assert_eq!(moment(1_795_246_620_000), "2026-11-21 07:37 UTC");
    }
}

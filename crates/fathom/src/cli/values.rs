//! Values that options of several commands take: shares and times.

use std::time::Duration;

/// `10%` or `10`: a share that is allowed.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=10_000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give percent from 0 to 10000, as 10% or 2.5".into()),
    }
}

/// `5%` or `5`: how narrow intervals are to be.
pub(super) fn precision(text: &str) -> Result<f64, String> {
    match percent(text) {
        Ok(share) if (0.0001..=1.0).contains(&share) => Ok(share),
        _ => Err("give percent from 0.01 to 100, as 5% or 2.5".into()),
    }
}

/// `90s`, `2m`, `1h30m`; a number alone is seconds.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time such as 90s, 2m or 1h30m, a year at most".to_owned();
    let (mut rest, mut seconds) = (text.trim(), 0.0_f64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        rest = rest[end..].trim_start();
        let letters = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        seconds += number * unit;
        rest = rest[letters..].trim_start();
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if (1.0..=366.0 * 86_400.0).contains(&seconds) => Ok(time),
        _ => Err(wrong()),
    }
}

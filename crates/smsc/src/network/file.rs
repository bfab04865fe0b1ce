//! A network written in a file: `docs/network.toml` is one, with every key explained.

use super::{NetworkProfile, Times};
use crate::centre::{Failure, RetryPolicy};
use fathom_diagnostic::Diagnostic;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::ops::{Range, RangeInclusive};
use std::path::Path;
use toml::Spanned;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    outcomes: WrittenOutcomes,
    #[serde(default)]
    latency_ms: WrittenLatency,
    #[serde(default)]
    absence: WrittenAbsence,
    #[serde(default)]
    retry: WrittenRetry,
    #[serde(default)]
    prefixes: BTreeMap<Spanned<String>, Spanned<String>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenOutcomes {
    absent: Option<Spanned<f64>>,
    busy: Option<Spanned<f64>>,
    memory_full: Option<Spanned<f64>>,
    unknown: Option<Spanned<f64>>,
    later: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLatency {
    delivered: Option<Spanned<f64>>,
    absent: Option<Spanned<f64>>,
    busy: Option<Spanned<f64>>,
    memory_full: Option<Spanned<f64>>,
    unknown: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAbsence {
    mean_s: Option<Spanned<f64>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRetry {
    absent_s: Option<Spanned<Vec<Spanned<f64>>>>,
    busy_s: Option<Spanned<Vec<Spanned<f64>>>>,
}

/// A problem at a place of the text.
type Problem = (Range<usize>, String);

/// The largest file, octets: a device, or a pipe that never ends, is not read for ever. The example
/// has 2 KiB.
const FILE_MAX: u64 = 1 << 20;
/// The longest latency: an hour, ms.
const LATENCY_MAX_MS: f64 = 3_600_000.0;
/// The longest absence and delay: a year, s.
const WAIT_MAX_S: f64 = 31_536_000.0;
/// Digits of the longest prefix: those of the longest number.
const PREFIX_DIGITS_MAX: usize = 17;
const OUTCOMES: [&str; 5] = ["delivered", "absent", "busy", "memory_full", "unknown"];

/// A number within limits, times `unit`, as a whole number.
fn number(
    written: Option<&Spanned<f64>>,
    otherwise: f64,
    limits: RangeInclusive<f64>,
    unit: f64,
) -> Result<u64, Problem> {
    let value = written.map_or(otherwise, |written| *written.get_ref());
    if limits.contains(&value) {
        return Ok((value * unit).round() as u64);
    }
    let (from, to) = limits.into_inner();
    let span = written.map_or(0..0, Spanned::span);
    Err((span, format!("{value} is out of range: from {from} to {to}")))
}

/// Percents as shares of 10,000.
fn share(written: Option<&Spanned<f64>>) -> Result<u32, Problem> {
    // At most 10,000.
    number(written, 0.0, 0.0..=100.0, 100.0).map(|share| share as u32)
}

fn delays(written: Option<Spanned<Vec<Spanned<f64>>>>, usual: Vec<i64>) -> Result<Vec<i64>, Problem> {
    let Some(written) = written else { return Ok(usual) };
    if written.get_ref().is_empty() {
        return Err((written.span(), "give at least one delay".into()));
    }
    // At most a year.
    let us =
        |delay: &Spanned<f64>| number(Some(delay), 0.0, 0.001..=WAIT_MAX_S, 1e6).map(|delay| delay as i64);
    written.get_ref().iter().map(us).collect()
}

fn outcome(written: &Spanned<String>) -> Result<Option<Failure>, Problem> {
    Ok(match written.get_ref().as_str() {
        "delivered" => None,
        "absent" => Some(Failure::Absent),
        "busy" => Some(Failure::Busy),
        "memory_full" => Some(Failure::MemoryFull),
        "unknown" => Some(Failure::Unknown),
        other => {
            let near =
                OUTCOMES.into_iter().max_by(|a, b| strsim::jaro(other, a).total_cmp(&strsim::jaro(other, b)));
            let near = near.filter(|name| strsim::jaro(other, name) > 0.7);
            let hint = near.map_or(String::new(), |name| format!(" (did you mean {name}?)"));
            let problem = format!("there is no outcome {other:?}{hint}; there are {}", OUTCOMES.join(", "));
            return Err((written.span(), problem));
        }
    })
}

impl Written {
    fn checked(self) -> Result<(NetworkProfile, RetryPolicy), Problem> {
        let Written { outcomes, latency_ms: latency, absence, retry, prefixes } = self;
        let (absent, busy) = (share(outcomes.absent.as_ref())?, share(outcomes.busy.as_ref())?);
        let memory_full = share(outcomes.memory_full.as_ref())?;
        let failing = absent + busy + memory_full;
        if failing > 10_000 {
            let last = [&outcomes.memory_full, &outcomes.busy, &outcomes.absent].into_iter().flatten().next();
            let sum = f64::from(failing) / 100.0;
            let problem = format!("absent, busy and memory_full are {sum} % together: 100 at most");
            return Err((last.map_or(0..0, Spanned::span), problem));
        }
        let ms = |median: Option<Spanned<f64>>| number(median.as_ref(), 0.0, 0.0..=LATENCY_MAX_MS, 1000.0);
        let mut known = Vec::with_capacity(prefixes.len());
        for (prefix, always) in &prefixes {
            let digits = prefix.get_ref();
            if digits.is_empty()
                || digits.len() > PREFIX_DIGITS_MAX
                || !digits.bytes().all(|digit| digit.is_ascii_digit())
            {
                let problem = format!("{digits:?} begins no number: give 1 to {PREFIX_DIGITS_MAX} digits");
                return Err((prefix.span(), problem));
            }
            known.push((digits.clone(), outcome(always)?));
        }
        // The first that fits counts.
        known.sort_by_key(|prefix| std::cmp::Reverse(prefix.0.len()));
        let usual = RetryPolicy::accelerated(1);
        let retry = RetryPolicy {
            absent_us: delays(retry.absent_s, usual.absent_us)?,
            busy_us: delays(retry.busy_s, usual.busy_us)?,
        };
        let profile = NetworkProfile {
            absent,
            busy,
            memory_full,
            unknown: share(outcomes.unknown.as_ref())?,
            // At most 1000.
            later_permille: number(outcomes.later.as_ref(), 0.25, 0.0..=1.0, 1000.0)? as u32,
            latency: Times {
                delivered_us: ms(latency.delivered)?,
                absent_us: ms(latency.absent)?,
                busy_us: ms(latency.busy)?,
                memory_full_us: ms(latency.memory_full)?,
                unknown_us: ms(latency.unknown)?,
            },
            absence_us: number(absence.mean_s.as_ref(), 1800.0, 0.0..=WAIT_MAX_S, 1e6)?,
            prefixes: known,
            ..NetworkProfile::default()
        };
        Ok((profile, retry))
    }
}

impl NetworkProfile {
    /// Reads a network's file: how mobiles behave, and when the centre tries again.
    ///
    /// # Errors
    /// [`Diagnostic`]
    pub fn read(path: &Path) -> Result<(NetworkProfile, RetryPolicy), Diagnostic> {
        let file = path.display().to_string();
        let refused = |problem: String| Diagnostic::of(&file, problem);
        let mut text = String::new();
        let opened = File::open(path).and_then(|file| file.take(FILE_MAX + 1).read_to_string(&mut text));
        opened.map_err(|error| refused(error.to_string()))?;
        if text.len() as u64 > FILE_MAX {
            return Err(refused(format!("it has more than {} KiB, and so is no network", FILE_MAX >> 10)));
        }
        NetworkProfile::parse(&file, &text)
    }

    /// As [`NetworkProfile::read`], of the text of `file`.
    ///
    /// # Errors
    /// [`Diagnostic`] with the line and the reason.
    pub fn parse(file: &str, text: &str) -> Result<(NetworkProfile, RetryPolicy), Diagnostic> {
        let (span, problem) = match toml::from_str::<Written>(text) {
            Ok(written) => match written.checked() {
                Ok(read) => return Ok(read),
                Err(problem) => problem,
            },
            Err(error) => (error.span().unwrap_or(0..0), error.message().to_owned()),
        };
        Err(Diagnostic::in_line_of(file, text, span.start, problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = include_str!("../../docs/network.toml");

    #[test]
    fn the_example_is_the_field_with_prefixes() {
        let (profile, retry) = NetworkProfile::parse("network.toml", EXAMPLE).unwrap();
        let prefixes = vec![
            ("49170000090".into(), None),
            ("4917000009".into(), Some(Failure::Absent)),
            ("491700008".into(), Some(Failure::Unknown)),
        ];
        assert_eq!(profile, NetworkProfile { prefixes, ..NetworkProfile::default() });
        assert_eq!(retry, RetryPolicy::accelerated(1));
        // What may be left out.
        let (profile, retry) = NetworkProfile::parse("x", "").unwrap();
        let nothing = NetworkProfile { absence_us: 1_800_000_000, ..NetworkProfile::perfect(1) };
        assert_eq!((profile, retry), (nothing, RetryPolicy::accelerated(1)));
    }

    /// The example put wrong in a way of its own, with the line at which the message must point and
    /// a word of it.
    #[test]
    fn bad_files_are_refused_with_line_and_reason() {
        let line_of = |word: &str| EXAMPLE.lines().position(|line| line.starts_with(word)).unwrap() + 1;
        for (from, to, at, word) in [
            ("absent = 7 ", "absent = 107 ", "absent", "0 to 100"),
            ("absent = 7 ", "absent = nan ", "absent", "0 to 100"),
            ("absent = 7 ", "absent = \"many\" ", "absent", "string"),
            ("busy = 2\n", "busy = 99\n", "memory_full", "106 % together: 100 at most"),
            ("unknown = 1 ", "unknwon = 1 ", "unknown", "unknwon"),
            ("later = 0.25 ", "later = 4 ", "later", "0 to 1"),
            ("delivered = 3000", "delivered = -1", "delivered", "0 to 3600000"),
            ("[absence]", "[presence]", "[absence]", "presence"),
            ("mean_s = 1800 ", "mean_s = 1e9 ", "mean_s", "0 to 31536000"),
            ("absent_s = [300, 600", "absent_s = [300, 0", "absent_s", "0.001 to"),
            ("busy_s = [60, 120, 300, 900]", "busy_s = []", "busy_s", "at least one"),
            ("4917000009 = \"absent\"", "\"49a\" = \"absent\"", "4917000009", "1 to 17 digits"),
            (
                "491700008 = \"unknown\"",
                "491700008 = \"unknow\"",
                "491700008",
                "\"unknow\" (did you mean unknown?); there are delivered, absent",
            ),
            (
                "491700008 = \"unknown\"",
                "491700008 = \"nowhere\"",
                "491700008",
                "\"nowhere\"; there are delivered,",
            ),
            ("491700008 = \"unknown\"", "491700008 = 3", "491700008", "string"),
            ("[prefixes]", "[prefixes", "[prefixes]", ""),
        ] {
            assert!(EXAMPLE.contains(from), "{from}");
            let error = NetworkProfile::parse("mine.toml", &EXAMPLE.replacen(from, to, 1)).unwrap_err();
            assert_eq!(error.line, line_of(at), "{to}: {error}");
            assert!(error.message.contains(word), "{to}: {error}");
            assert!(error.to_string().starts_with(&format!("mine.toml:{}: ", error.line)), "{error}");
        }
    }
}

//! The settings that are advised on, with the values that SQLite takes, and `--now`, which says what
//! an application has.

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_lab::advise::Candidate;
use fathom_output::shown;

use crate::outcome::Error;

/// Settings that an application makes and that are kept as they are in everything that is tried, or
/// advised on.
pub(super) const TAKEN_OVER: [&str; 8] = [
    "journal_mode",
    "synchronous",
    "page_size",
    "wal_autocheckpoint",
    "locking_mode",
    "cache_size",
    "mmap_size",
    "auto_vacuum",
];

/// The settings of `--now`, as the engine takes them.
///
/// # Errors
/// A setting that is none of those that are advised on, or a value that SQLite would not take.
pub(super) fn now(words: &[String]) -> Result<Vec<(String, String)>, Error> {
    let mut all: Vec<(String, String)> = Vec::new();
    for word in words {
        let refused = |problem: String| Error::usage(format!("--now {}: {problem}", shown(word)));
        let Some((key, value)) = word.split_once('=') else {
            return Err(refused("give SETTING=VALUE, such as journal_mode=wal".into()));
        };
        let key = key.trim().to_ascii_lowercase();
        if !TAKEN_OVER.contains(&key.as_str()) {
            let hint = did_you_mean(nearest(&key, TAKEN_OVER));
            return Err(refused(format!(
                "nothing is advised on of this name{hint}; there are {}",
                TAKEN_OVER.join(", ")
            )));
        }
        let Some(value) = value_of(&key, &value.to_ascii_lowercase()) else {
            let there_are = values_of(&key);
            return Err(refused(format!("SQLite does not take this value; there are {there_are}")));
        };
        if all.iter().any(|pair| pair.0 == key) {
            return Err(refused(format!("{key} is given twice")));
        }
        all.push((key, value));
    }
    Ok(all)
}

/// Words that a setting takes; none of one that takes numbers.
fn words_of(key: &str) -> &'static [&'static str] {
    match key {
        "journal_mode" => &["delete", "truncate", "persist", "memory", "wal", "off"],
        "synchronous" => &["off", "normal", "full", "extra"],
        "locking_mode" => &["normal", "exclusive"],
        "auto_vacuum" => &["none", "full", "incremental"],
        _ => &[],
    }
}

/// How much a value takes care of what is written, where that is what a setting is for: of two that
/// are set as often, one is for a time.
pub(super) fn care(key: &str, value: &str) -> usize {
    let words: &[&str] = if key == "synchronous" { words_of(key) } else { &[] };
    words.iter().position(|word| *word == value).unwrap_or_default()
}

/// Values that a setting takes, for people.
fn values_of(key: &str) -> String {
    match (words_of(key), key) {
        ([], "page_size") => PAGE_SIZES.map(|size| size.to_string()).join(", "),
        ([], _) => {
            let (least, most) = range_of(key);
            format!("the whole numbers from {least} to {most}")
        }
        (words, _) => words.join(", "),
    }
}

/// The sizes that a page may have.
const PAGE_SIZES: [i64; 8] = [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536];

/// The least and the most of a setting that takes numbers.
fn range_of(key: &str) -> (i64, i64) {
    match key {
        "cache_size" => (i64::from(i32::MIN) + 1, i64::from(i32::MAX)),
        "mmap_size" => (0, 0x7fff_0000),
        _ => (0, i64::from(i32::MAX)),
    }
}

/// Gives an application what is said of it.
pub(super) fn take_over(baseline: &mut Candidate, now: &[(String, String)]) {
    for (key, value) in now {
        set(baseline, key, value);
    }
    // It is of WAL alone.
    if baseline.journal_mode != "wal" {
        baseline.more.remove("wal_autocheckpoint");
    }
}

/// Gives an application one setting; SQLite's default is not named.
pub(super) fn set(baseline: &mut Candidate, key: &str, value: &str) {
    match is_default(key, value) {
        true => drop(baseline.more.remove(key)),
        false => baseline.set(key, value),
    }
}

/// Whether that is SQLite's default, which a candidate does not name.
fn is_default(key: &str, value: &str) -> bool {
    matches!((key, value), ("locking_mode", "normal") | ("auto_vacuum", "none"))
}

/// The value as the engine takes it; none where SQLite would ignore it.
pub(super) fn value_of(key: &str, value: &str) -> Option<String> {
    let value = match (key, value.trim_matches(['\'', '"', '`', ' ', ';'])) {
        // SQLite takes these words, too.
        ("synchronous", "on" | "yes" | "true") => "normal",
        ("synchronous", "no" | "false") => "off",
        (_, value) => value,
    };
    let words = words_of(key);
    if !words.is_empty() {
        let by_number = value.parse::<usize>().ok().filter(|_| matches!(key, "synchronous" | "auto_vacuum"));
        let word = by_number
            .and_then(|number| words.get(number))
            .or_else(|| words.iter().find(|word| **word == value));
        return word.map(|word| (*word).to_owned());
    }
    let number: i64 = value.parse().ok()?;
    if key == "page_size" {
        return PAGE_SIZES.contains(&number).then(|| number.to_string());
    }
    // A log that is never checkpointed has 0 or less.
    let number = if key == "wal_autocheckpoint" { number.max(0) } else { number };
    let (least, most) = range_of(key);
    (least..=most).contains(&number).then(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(words: &[&str]) -> Result<Vec<(String, String)>, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        now(&words).map_err(|error| format!("{error:?}"))
    }

    /// What happened: of recordings `--now locking_mode=normal`, which is what every application has
    /// that says nothing, was a setting of which they had none.
    #[test]
    fn what_is_a_default_is_not_named_and_a_length_of_a_log_is_of_wal() {
        let of = |words: &[&str]| {
            let mut baseline = Candidate::new("wal", "full").with("locking_mode", "exclusive");
            take_over(&mut baseline, &said(words).unwrap());
            baseline.key()
        };
        assert_eq!(of(&["locking_mode=NORMAL", "auto_vacuum=0"]), "wal/full/4096");
        let said = of(&["wal_autocheckpoint=100", "locking_mode=normal"]);
        assert_eq!(said, "wal/full/4096/wal_autocheckpoint=100");
        let said = of(&["journal_mode=delete", "wal_autocheckpoint=100"]);
        assert_eq!(said, "delete/full/4096/locking_mode=exclusive");
    }

    /// What happened: who turns checkpoints off with -1, or sync with FALSE, was taken to have
    /// SQLite's defaults.
    #[test]
    fn a_value_means_what_sqlite_takes_it_for() {
        let of = |key: &str, value: &str| value_of(key, value);
        assert_eq!(of("wal_autocheckpoint", "-1").as_deref(), Some("0"));
        assert_eq!(of("synchronous", "'false'").as_deref(), Some("off"));
        assert_eq!(of("synchronous", "on").as_deref(), Some("normal"));
        assert_eq!((of("mmap_size", "-1"), of("journal_mode", "on")), (None, None));
    }

    #[test]
    fn what_now_cannot_be_is_refused() {
        for (words, says) in [
            (&["journal_mode"][..], "SETTING=VALUE"),
            (&[""], "SETTING=VALUE"),
            (&["jornal_mode=wal"], "journal_mode"),
            (&["busy_timeout=5"], "nothing is advised on"),
            (&["journal_mode=wla"], "delete, truncate"),
            (&["page_size=1000"], "there are 512, 1024, 2048"),
            (&["mmap_size=-1"], "the whole numbers from 0 to 2147418112"),
            (&["synchronous=full", "synchronous=off"], "twice"),
        ] {
            let problem = said(words).unwrap_err();
            assert!(problem.contains(says), "{words:?}: {problem}");
        }
    }
}

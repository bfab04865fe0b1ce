//! What a trace tells of its application: what it sets itself, and what matters for the choice.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_lab::advise::{AppUse, Candidate, DeviceAdvice};
use fathom_output::shown_path;
use fathom_trace::info::{Info, info};

use crate::outcome::Error;

/// Settings that an application makes and that are kept as they are in everything that is tried, or
/// advised on.
const TAKEN_OVER: [&str; 8] = [
    "journal_mode",
    "synchronous",
    "page_size",
    "wal_autocheckpoint",
    "locking_mode",
    "cache_size",
    "mmap_size",
    "auto_vacuum",
];

/// The application.
pub struct Application {
    info: Info,
    /// What it has now.
    pub baseline: Candidate,
    /// Where that is known from.
    pub baseline_source: String,
    /// What must be known.
    pub notes: Vec<String>,
}

impl Application {
    /// Of a trace that can be read to its end and writes something.
    ///
    /// # Errors
    /// One that cannot, or does not.
    pub fn of(trace: &Path) -> Result<Application, Error> {
        let info = info(trace).map_err(Error::usage)?;
        let file = shown_path(trace).to_string();
        if let Some(reason) = &info.torn {
            return Err(Error::usage(format!("{file}: {reason}")));
        }
        if info.transactions.count == 0 {
            return Err(Error::usage(format!(
                "{file}: it holds no transaction that writes, so that journal modes and flushes cost it nothing: there is \
                 nothing to advise"
            )));
        }
        let (baseline, source, mut notes) = own_settings(&info.settings);
        let mut baseline = baseline;
        if !info.settings.keys().any(|key| key.to_ascii_lowercase().starts_with("pragma page_size="))
            && let Some(size) = info.databases.iter().find_map(|database| database.page_bytes)
        {
            baseline.page_size = size;
        }
        if info.lost > 0 {
            notes.push("the trace lacks calls that its capture lost".into());
        }
        if info.databases.iter().filter(|database| database.start != "memory").count() > 1 {
            notes.push(
                "the application has several databases, and the settings are for each of them. A transaction over several \
                 that are attached to one connection is atomic at a power cut with a rollback journal, and with WAL only \
                 within each file (https://sqlite.org/lang_attach.html)"
                    .into(),
            );
        }
        Ok(Application { info, baseline, baseline_source: source, notes })
    }

    /// What decides which settings make sense.
    pub fn use_of(&self) -> AppUse {
        AppUse {
            has_one_connection: self.info.connections_at_once <= 1 && self.info.processes <= 1,
            reads_most: self.info.read_share > 0.5,
        }
    }

    /// What it might do besides.
    pub fn hints(&self, advised: &[DeviceAdvice]) -> Vec<String> {
        let mut all = Vec::new();
        let transactions = &self.info.transactions;
        if transactions.autocommit * 2 > transactions.count {
            all.push(format!(
                "{} of {} writing transactions are single statements, and each pays for a commit of its own: where they belong \
                 together, BEGIN … COMMIT around ten of them takes about a tenth of the commits.",
                transactions.autocommit, transactions.count
            ));
        }
        let is_named = |key: &str| {
            advised
                .iter()
                .filter_map(DeviceAdvice::best_trial)
                .any(|tried| tried.candidate.more.contains_key(key))
        };
        if is_named("locking_mode") {
            all.push(
                "locking_mode = EXCLUSIVE lets no other connection or program open the database meanwhile: not a backup, \
                 not the sqlite3 shell."
                    .into(),
            );
        }
        // The lengths of logs that are advised, but for the application's own.
        let mut logs = advised
            .iter()
            .filter_map(DeviceAdvice::best_trial)
            .filter_map(|trial| trial.candidate.more.get("wal_autocheckpoint"))
            .filter(|frames| self.baseline.more.get("wal_autocheckpoint") != Some(*frames))
            .filter_map(|frames| frames.parse::<u64>().ok());
        if logs.clone().any(|frames| frames < 1000) {
            all.push(
                "With a short wal_autocheckpoint the log soon stops growing, and while it grows each commit costs one flush more. \
                 That pays in sessions as long as the trace, for the log goes with the last connection. Whoever keeps the database \
                 open for thousands of commits gains less, and may lose where checkpoints cost more: capture such a session and \
                 ask again."
                    .into(),
            );
        }
        if logs.any(|frames| frames >= 1000) {
            all.push(
                "A larger wal_autocheckpoint makes the log longer, and with it the first start after a crash and reads while it is long."
                    .into(),
            );
        }
        all
    }
}

/// What the trace's own PRAGMAs and calls set: SQLite's default where it sets nothing.
fn own_settings(settings: &BTreeMap<String, u64>) -> (Candidate, String, Vec<String>) {
    let mut own: BTreeMap<&str, BTreeMap<String, u64>> = BTreeMap::new();
    for (text, count) in settings {
        let lower = text.to_ascii_lowercase();
        let Some((name, value)) = lower.split_once('=') else { continue };
        let name = name.trim_start_matches("pragma ").trim_start_matches("sqlite3_").trim();
        let Some(key) = TAKEN_OVER.iter().find(|setting| **setting == name) else { continue };
        if let Some(value) = plain(key, value) {
            *own.entry(key).or_default().entry(value).or_default() += count;
        }
    }
    let mut baseline = Candidate::default();
    let mut notes = Vec::new();
    for (key, values) in &own {
        let most = values.iter().max_by_key(|value| value.1).map(|value| value.0.clone());
        let Some(most) = most else { continue };
        if values.len() > 1 {
            let all: Vec<&str> = values.keys().map(String::as_str).collect();
            notes.push(format!(
                "the application sets {key} to {}: it is taken to have {most}, the most often",
                all.join(" and ")
            ));
        }
        baseline.set(key, &most);
    }
    if baseline.journal_mode != "wal" {
        baseline.more.remove("wal_autocheckpoint");
    }
    let source = match own.len() {
        0 => "SQLite's defaults: the trace sets nothing of these".to_owned(),
        _ => format!("as the trace sets {}", own.keys().copied().collect::<Vec<_>>().join(", ")),
    };
    (baseline, source, notes)
}

/// The value as the engine takes it; none where SQLite would ignore it, or it is its default.
fn plain(key: &str, value: &str) -> Option<String> {
    let value = value.trim_matches(['\'', '"', '`', ' ', ';']);
    let words: &[&str] = match key {
        "journal_mode" => &["delete", "truncate", "persist", "memory", "wal", "off"],
        "synchronous" => &["off", "normal", "full", "extra"],
        "locking_mode" => &["normal", "exclusive"],
        "auto_vacuum" => &["none", "full", "incremental"],
        _ => &[],
    };
    if !words.is_empty() {
        let by_number = value.parse::<usize>().ok().filter(|_| matches!(key, "synchronous" | "auto_vacuum"));
        let word = by_number
            .and_then(|number| words.get(number))
            .or_else(|| words.iter().find(|word| **word == value));
        let is_default =
            matches!((key, word), ("locking_mode", Some(&"normal")) | ("auto_vacuum", Some(&"none")));
        return word.filter(|_| !is_default).map(|word| (*word).to_owned());
    }
    let number: i64 = value.parse().ok()?;
    let (least, most) = match key {
        "page_size" if [512, 1024, 2048, 4096, 8192, 16384, 32768, 65536].contains(&number) => {
            return Some(number.to_string());
        }
        "page_size" => return None,
        "cache_size" => (i64::from(i32::MIN) + 1, i64::from(i32::MAX)),
        "mmap_size" => (0, 0x7fff_0000),
        _ => (0, i64::from(i32::MAX)),
    };
    (least..=most).contains(&number).then(|| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(settings: &[(&str, u64)]) -> (Candidate, String, Vec<String>) {
        own_settings(&settings.iter().map(|(text, count)| ((*text).to_owned(), *count)).collect())
    }

    #[test]
    fn what_an_application_sets_itself_is_what_it_has() {
        let (own, source, notes) = of(&[
            ("PRAGMA journal_mode=WAL", 2),
            ("PRAGMA synchronous=1", 2),
            ("PRAGMA page_size=1024", 1),
            ("sqlite3_wal_autocheckpoint=100", 1),
            ("PRAGMA user_version=7", 1),
            ("PRAGMA cache_size='-8000'", 1),
        ]);
        assert_eq!(own.key(), "wal/normal/1024/cache_size=-8000/wal_autocheckpoint=100");
        assert!(source.contains("journal_mode") && !source.contains("user_version"), "{source}");
        assert!(notes.is_empty());
    }

    #[test]
    fn who_sets_nothing_has_the_defaults_and_what_sqlite_ignores_is_nothing() {
        for settings in [
            &[][..],
            &[("PRAGMA journal_mode=wla", 3), ("PRAGMA page_size=1000", 1), ("PRAGMA synchronous=9", 1)],
            &[("PRAGMA locking_mode=NORMAL", 1), ("PRAGMA mmap_size=x", 1), ("PRAGMA foreign_keys=1", 1)],
        ] {
            let (own, ..) = of(settings);
            assert_eq!(own, Candidate::default(), "{settings:?}");
        }
        assert!(of(&[]).1.contains("SQLite's defaults"));
    }

    #[test]
    fn of_two_values_the_more_frequent_is_taken_and_said() {
        let (own, _, notes) = of(&[("PRAGMA journal_mode=WAL", 5), ("PRAGMA journal_mode=delete", 1)]);
        assert_eq!(own.journal_mode, "wal");
        assert!(notes[0].contains("delete and wal"), "{notes:?}");
        // An autocheckpoint is WAL's alone.
        let (own, ..) = of(&[("sqlite3_wal_autocheckpoint=100", 1)]);
        assert_eq!(own, Candidate::default());
    }
}

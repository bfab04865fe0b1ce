//! What has to be known of the settings that are named.

use fathom_lab::advise::{Candidate, DeviceAdvice};
use fathom_report::number;
use fathom_trace::info::TransactionInfo;

use crate::outcome::Error;

/// Single statements that are said to belong into one transaction; of fewer nothing is said.
const TOGETHER: u64 = 10;

/// Bytes before each page in the log.
const FRAME_HEADER: u32 = 24;

/// Why there is no advice where nothing writes to a file.
pub(super) fn nothing_written(trace: &str) -> Error {
    Error::usage(format!(
        "{trace}: it holds no transaction that writes to a file, so that journal modes and flushes cost it nothing: there \
         is nothing to advise"
    ))
}

/// Transactions that wrote to a file, the fewest of all that was recorded. What a trace counts may
/// write nothing: a CREATE TABLE IF NOT EXISTS of a table that is there, or what is rolled back.
pub(super) fn writing(advised: &[DeviceAdvice]) -> Option<u64> {
    advised.iter().flat_map(|device| &device.tried).filter_map(|trial| trial.writing).min()
}

/// That single statements pay for a commit each, where most do. Of those that the trace counts only
/// so many are `writing`; the others may all be single ones.
pub(super) fn of_singles(counted: &TransactionInfo, writing: Option<u64>) -> Option<String> {
    let all = writing.map_or(counted.count, |writing| writing.min(counted.count));
    let idle = counted.count - all;
    let singles = counted.autocommit.saturating_sub(idle);
    (singles >= TOGETHER && singles * 2 > all).then(|| {
        format!(
            "{}{singles} of {all} writing transactions are single statements, and each pays for a commit of its own: where they \
             belong together, BEGIN … COMMIT around ten of them takes about a tenth of the commits.",
            if idle > 0 { "At least " } else { "" }
        )
    })
}

/// That transactions which lock all attached files pay for all, where a rollback journal is named,
/// or what the application has where nothing is: SQLite writes a super-journal for as many files as
/// are locked. With WAL there is none.
pub(super) fn of_locking(
    locking: u64,
    writing: Option<u64>,
    baseline: &Candidate,
    advised: &[DeviceAdvice],
) -> Option<String> {
    let locking = writing.map_or(locking, |writing| writing.min(locking));
    let mut used: Vec<&Candidate> =
        advised.iter().filter_map(DeviceAdvice::best_trial).map(|trial| &trial.candidate).collect();
    if used.is_empty() {
        used.push(baseline);
    }
    let is_paid = used.into_iter().any(has_super_journal);
    (locking >= TOGETHER && is_paid).then(|| {
        format!(
            "{locking} writing transactions begin with BEGIN IMMEDIATE or EXCLUSIVE on a connection that has several files. That \
             locks all of them, and with a rollback journal the commit then pays for a super-journal, some three syncs, also \
             where one file alone is changed. For those that change one, plain BEGIN with a first statement that writes, or a \
             connection of their own, saves that (docs/several-files.md)."
        )
    })
}

/// Whether a transaction over several files is bound together by a journal of its own with it.
fn has_super_journal(candidate: &Candidate) -> bool {
    ["delete", "truncate", "persist"].contains(&candidate.journal_mode.as_str())
        && candidate.synchronous != "off"
}

/// What has to be known of the settings that are named, beside what the application has now: of
/// recordings that are asked again as of a trace.
pub(super) fn of_settings(baseline: &Candidate, advised: &[DeviceAdvice]) -> Vec<String> {
    let named = || advised.iter().filter_map(DeviceAdvice::best_trial).map(|trial| &trial.candidate);
    let mut all = Vec::new();
    if named().any(|candidate| candidate.more.contains_key("locking_mode")) {
        all.push(
            "locking_mode = EXCLUSIVE lets no other connection or program open the database meanwhile: not a backup, \
             not the sqlite3 shell."
                .into(),
        );
    }
    let is_new = |key: &str| {
        named().any(|candidate| {
            candidate.more.get(key).is_some_and(|value| baseline.more.get(key) != Some(value))
        })
    };
    if is_new("cache_size") {
        all.push(
            "A cache_size is of each connection and each file, and may take that much memory in each.".into(),
        );
    }
    if is_new("mmap_size") {
        all.push(
            "With mmap_size an I/O error of the device ends the program with a signal (SIGBUS), where a call would have failed \
             (https://sqlite.org/mmap.html)."
                .into(),
        );
    }
    all.extend(of_cards(advised));
    // The lengths of logs that are advised, with their pages, but for the application's own.
    let logs = named()
        .filter_map(|candidate| Some((candidate.more.get("wal_autocheckpoint")?, candidate.page_size)))
        .filter(|(frames, _)| baseline.more.get("wal_autocheckpoint") != Some(*frames))
        .filter_map(|(frames, page_size)| Some((frames.parse::<u64>().ok()?, page_size)));
    if logs.clone().any(|(frames, _)| frames < 1000) {
        all.push(
            "With a short wal_autocheckpoint the log soon stops growing, and while it grows each commit costs one flush more. \
             That pays in sessions as long as the trace, for the log goes with the last connection. Whoever keeps the database \
             open for thousands of commits gains less, and may lose where checkpoints cost more: capture such a session and \
             ask again."
                .into(),
        );
    }
    let log_bytes = |(frames, page_size): (u64, u32)| frames as f64 * f64::from(page_size + FRAME_HEADER);
    let longest = logs.filter(|(frames, _)| *frames >= 1000).map(log_bytes).reduce(f64::max);
    all.extend(longest.map(|bytes| {
        format!(
            "A larger wal_autocheckpoint makes the log longer, and with it the first start after a crash and reads while it is \
             long: beside each database it takes {} and more.",
            number::bytes(bytes)
        )
    }));
    all
}

/// Cards are sold with other file systems than the one that was asked for.
fn of_cards(advised: &[DeviceAdvice]) -> Option<String> {
    let is_card = |device: &&DeviceAdvice| {
        let is_called = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "sd");
        is_called(&device.device.as_deref().unwrap_or_default().to_lowercase())
            || is_called(&device.title.to_lowercase())
    };
    let trial = advised.iter().filter(is_card).find_map(DeviceAdvice::best_trial)?;
    let is_fat = ["vfat", "exfat"].contains(&trial.filesystem.as_str());
    (!is_fat).then(|| {
        format!(
            "Cards often carry FAT or exFAT, and this is for {}. On those, power cuts left databases that cannot be opened \
             with any journal mode (docs/power-cut.md). `--fs vfat` or `--fs exfat` asks of them where this machine's kernel \
             mounts them; `fathom cut --set filesystem=vfat,exfat --set journal_mode=wal` shows what is lost anywhere.",
            trial.filesystem
        )
    })
}

#[cfg(test)]
mod tests {
    use fathom_lab::advise::Trial;
    use fathom_lab::stats::mean_interval;
    use fathom_workload::spec::Durability;

    use super::*;

    /// What happened: a program that says CREATE TABLE IF NOT EXISTS each time that it starts was
    /// told that 19 of its 35 writing transactions are single statements, beside "20 write".
    #[test]
    fn what_writes_nothing_pays_for_no_commit() {
        let counted = |count, autocommit| TransactionInfo { count, autocommit, ..TransactionInfo::default() };
        assert_eq!(of_singles(&counted(35, 19), Some(20)), None, "4 of 20 at the least");
        let told = of_singles(&counted(35, 30), Some(20)).unwrap();
        assert!(told.starts_with("At least 15 of 20 writing transactions"), "{told}");
        let told = of_singles(&counted(200, 150), Some(200)).unwrap();
        assert!(told.starts_with("150 of 200 "), "{told}");
        // A PRAGMA that writes is none of those that a trace counts.
        assert_eq!(of_singles(&counted(200, 150), Some(210)), Some(told.clone()));
        assert_eq!(of_singles(&counted(200, 150), None), Some(told));
        assert_eq!(of_singles(&counted(101, 101), Some(0)), None);
        // Ten of them in one transaction were asked of a trace of one statement.
        assert_eq!(of_singles(&counted(1, 1), Some(1)), None);
    }

    /// What happened: an application with three attached files that begins each transaction with
    /// BEGIN IMMEDIATE was told journal modes, and not that it pays for all three in each of them.
    #[test]
    fn locking_all_attached_files_is_told_where_it_costs_a_super_journal() {
        let told = |locking, writing, journal, synchronous| {
            of_locking(locking, writing, &Candidate::new(journal, synchronous), &[])
        };
        let text = told(300, Some(290), "persist", "full").unwrap();
        assert!(
            text.starts_with("290 writing transactions begin") && text.contains("super-journal"),
            "{text}"
        );
        assert!(told(300, None, "delete", "normal").is_some());
        assert_eq!(told(300, None, "wal", "full"), None, "WAL has no super-journal");
        assert_eq!(told(300, None, "delete", "off"), None, "nothing is synced");
        assert_eq!(told(9, None, "delete", "full"), None, "too few");
    }

    /// What happened: `mmap_size 268435456` and a larger cache were named, and nothing said what
    /// they take.
    #[test]
    fn what_a_cache_and_a_memory_map_take_is_told() {
        let trial = |candidate: Candidate, ms: f64| {
            let ns = [ms * 1e6, ms * 1.001e6, ms * 0.999e6];
            Trial {
                filesystem: "ext4".into(),
                label: candidate.key(),
                candidate,
                durability: Some(Durability::PowerCut),
                runs: (0..).zip(ns).collect(),
                time_ns: mean_interval(&ns).unwrap(),
                cpu_ns: 0.0,
                count: 1000,
                p99_ns: None,
                flushes: 1.0,
                written_bytes: 4096.0,
                writing: Some(500),
                loss: None,
                is_log_felt: None,
                is_apart: false,
            }
        };
        let own = Candidate::new("wal", "full").with("cache_size", "-8000");
        let told = |named: &Candidate| {
            let tried = vec![trial(own.clone(), 10.0), trial(named.clone(), 4.0)];
            let must = Durability::PowerCut;
            let device = DeviceAdvice::of(Some("emmc".into()), "eMMC".into(), tried, &own, must);
            of_settings(&own, &[device]).join(" ")
        };
        let text = told(&own.with("cache_size", "-16000").with("mmap_size", "268435456"));
        assert!(text.contains("A cache_size is of each") && text.contains("SIGBUS"), "{text}");
        let text = told(&own.with("wal_autocheckpoint", "100"));
        assert!(!text.contains("cache_size") && !text.contains("mmap_size"), "it has that cache now: {text}");
        assert!(!text.contains("beside each database"), "{text}");
        // Nothing said how much room a longer log takes.
        let text = told(&own.with("wal_autocheckpoint", "10000"));
        assert!(text.contains("beside each database it takes 39.3 MiB and more"), "{text}");
    }
}

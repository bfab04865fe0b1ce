//! File systems on which explored power cuts took more than SQLite's settings promise
//! (docs/power-cut.md): there a promise is not what is kept.

use fathom_workload::spec::Durability;

use super::Candidate;
use crate::store::{CellRow, Results};

/// The journal modes with which ext2 kept every commit: the name of `-shm` is durable there before
/// what it leads to is, and WAL cannot be opened.
const ALL_BUT_WAL: &[&str] = &["delete", "truncate", "persist"];

/// By file system the journal modes with which every commit was kept all the same.
const LOSING: [(&str, &[&str]); 8] = [
    // Where a file grows, its length or its entry may be durable before what they lead to.
    ("vfat", &[]),
    ("exfat", &[]),
    ("ntfs3", &[]),
    ("ext2", ALL_BUT_WAL),
    ("udf", &["persist"]),
    ("minix", &["persist"]),
    // Longer names are cut off, too, so that journal and log have one name.
    ("msdos", &[]),
    // Its driver never flushes a device.
    ("jfs", &[]),
];

/// The journal modes that keep what they promise on a file system that is known to lose databases;
/// none of one of which nothing of the kind is known.
#[must_use]
pub fn kept_on(filesystem: &str) -> Option<&'static [&'static str]> {
    LOSING.iter().find(|known| known.0 == filesystem).map(|known| known.1)
}

/// Whether a power cut is known to take databases there with that journal mode, whatever the
/// settings promise.
#[must_use]
pub fn is_losing(filesystem: &str, journal_mode: &str) -> bool {
    kept_on(filesystem).is_some_and(|kept| !kept.contains(&journal_mode))
}

/// The file system on which explored power cuts took databases with a cell's journal mode, although
/// its settings promise something at a power cut; none where nothing of the kind is known. It is
/// that of the runs: a directory lies on one that nobody asked for by its name.
#[must_use]
pub fn losing_filesystem<'a>(results: &'a Results, cell: &'a CellRow) -> Option<&'a str> {
    let run = results.good_runs(cell.id).next();
    let name = run.map_or(cell.spec.stack.place.name(), |run| results.filesystem(run));
    breaks_promise(cell, name).then_some(name)
}

/// Whether what a cell's settings promise at a power cut is known not to be kept on a file system.
fn breaks_promise(cell: &CellRow, filesystem: &str) -> bool {
    let promises = cell.durability.is_some_and(|promise| promise > Durability::ProcessCrash);
    let own = cell.spec.engine.as_ref().and_then(Candidate::of);
    promises && own.is_some_and(|own| is_losing(filesystem, &own.journal_mode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_every_commit_is_told_from_what_did_not() {
        assert!(is_losing("vfat", "wal") && is_losing("exfat", "truncate") && is_losing("ntfs3", "delete"));
        assert!(is_losing("ext2", "wal") && !is_losing("ext2", "persist") && !is_losing("ext4", "wal"));
        assert_eq!((kept_on("ext4"), kept_on("ext2")), (None, Some(ALL_BUT_WAL)));
    }

    /// What happened: on FAT and exFAT PERSIST was named, and on NTFS TRUNCATE, too, for 600 states
    /// had all been kept. Of 4,000, with other parts of what was in flight missing, some cannot be
    /// opened with any journal mode.
    #[test]
    fn no_journal_mode_keeps_all_where_the_file_system_has_no_log_of_its_own() {
        for filesystem in ["vfat", "msdos", "exfat", "ntfs3"] {
            assert_eq!(kept_on(filesystem), Some(&[][..]), "{filesystem}");
        }
    }

    /// What happened: of the file systems on which power cuts had taken databases only three were
    /// known here. `WAL/FULL` on ext2, which could be opened after none of 300 cuts, was named as
    /// what keeps every commit, and stood without a mark in every table; so did all on JFS.
    #[test]
    fn all_that_broke_a_promise_in_the_tables_is_known() {
        for filesystem in ["ext2", "udf", "minix"] {
            assert!(is_losing(filesystem, "wal") && !is_losing(filesystem, "persist"), "{filesystem}");
            for mode in ["delete", "truncate"] {
                assert_eq!(is_losing(filesystem, mode), filesystem != "ext2", "{filesystem} {mode}");
            }
        }
        assert!(["delete", "truncate", "persist", "wal"].iter().all(|mode| is_losing("jfs", mode)));
        assert_eq!(kept_on("jfs").map(<[_]>::len), Some(0));
        for filesystem in ["ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2"] {
            assert_eq!(kept_on(filesystem), None, "{filesystem}");
        }
    }

    /// What happened: of WAL on FAT the page said that a power cut keeps every commit, and nothing
    /// of the databases that explored power cuts took there.
    #[test]
    fn a_promise_that_a_file_system_is_known_to_break_is_known() {
        let of = |filesystem: &str, journal: &str, durability: Durability| {
            let spec = serde_json::json!({
                "workload": {"name": "update"},
                "engine": {"name": "sqlite", "journal_mode": journal},
                "stack": fathom_stack::StackSpec::default(),
                "axes": {}
            });
            let cell = CellRow {
                id: 1,
                label: String::new(),
                title: String::new(),
                axes: Default::default(),
                spec: serde_json::from_value(spec).unwrap(),
                durability: Some(durability),
                skipped: None,
            };
            breaks_promise(&cell, filesystem)
        };
        assert!(of("vfat", "wal", Durability::PowerCut));
        assert!(!of("ext2", "persist", Durability::PowerCut));
        assert!(!of("ext4", "wal", Durability::PowerCut));
        assert!(!of("vfat", "wal", Durability::ProcessCrash), "it promises nothing");
    }
}

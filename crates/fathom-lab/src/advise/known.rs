//! File systems on which explored power cuts took more than SQLite's settings promise
//! (docs/power-cut.md): there a promise is not what is kept.

/// By file system the journal modes with which every commit was kept all the same.
const LOSING: [(&str, &[&str]); 3] =
    [("vfat", &["persist"]), ("exfat", &["persist"]), ("ntfs3", &["persist", "truncate"])];

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kept_every_commit_is_told_from_what_did_not() {
        assert!(is_losing("vfat", "wal") && is_losing("exfat", "truncate") && is_losing("ntfs3", "delete"));
        assert!(
            !is_losing("vfat", "persist") && !is_losing("ntfs3", "truncate") && !is_losing("ext4", "wal")
        );
        assert_eq!((kept_on("ext4"), kept_on("vfat")), (None, Some(&["persist"][..])));
    }
}

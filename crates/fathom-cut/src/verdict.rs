//! What became of a database at a power cut.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The verdict on a state, from good to bad.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// All that acknowledged commits changed is there, whole.
    Kept,
    /// What the last so many acknowledged commits changed is missing, the others are there, whole.
    /// A commit that changed nothing is none of them.
    Lost(u64),
    /// The file system could be mounted, and has noted an error of its own; what was lost beside
    /// that.
    NeedsRepair(String),
    /// The database can be opened and holds what was at no moment committed: part of a commit, or
    /// something nobody wrote; or `integrity_check` says what is wrong.
    Corrupt(String),
    /// SQLite cannot open or read it.
    CannotBeOpened(String),
    /// The file system cannot be mounted or read.
    CannotBeMounted(String),
}

/// A verdict without what is particular.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// As [`Verdict::Kept`].
    Kept,
    /// Exactly the last acknowledged commit is missing.
    LostLast,
    /// Several of the last acknowledged commits are missing.
    LostSeveral,
    /// As [`Verdict::NeedsRepair`].
    NeedsRepair,
    /// As [`Verdict::Corrupt`].
    Corrupt,
    /// As [`Verdict::CannotBeOpened`].
    CannotBeOpened,
    /// As [`Verdict::CannotBeMounted`].
    CannotBeMounted,
}

impl Class {
    /// All, from good to bad.
    pub const ALL: [Class; 7] = [
        Class::Kept,
        Class::LostLast,
        Class::LostSeveral,
        Class::NeedsRepair,
        Class::Corrupt,
        Class::CannotBeOpened,
        Class::CannotBeMounted,
    ];

    /// In the words of tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Kept => "kept",
            Class::LostLast => "last commit lost",
            Class::LostSeveral => "last commits lost",
            Class::NeedsRepair => "file system needs repair",
            Class::Corrupt => "corrupt",
            Class::CannotBeOpened => "cannot be opened",
            Class::CannotBeMounted => "cannot be mounted",
        }
    }
}

impl Verdict {
    /// Its class.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Verdict::Kept | Verdict::Lost(0) => Class::Kept,
            Verdict::Lost(1) => Class::LostLast,
            Verdict::Lost(_) => Class::LostSeveral,
            Verdict::NeedsRepair(_) => Class::NeedsRepair,
            Verdict::Corrupt(_) => Class::Corrupt,
            Verdict::CannotBeOpened(_) => Class::CannotBeOpened,
            Verdict::CannotBeMounted(_) => Class::CannotBeMounted,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Kept | Verdict::Lost(0) => f.write_str("kept"),
            Verdict::Lost(1) => f.write_str("last commit lost"),
            Verdict::Lost(commits) => write!(f, "last {commits} commits lost"),
            Verdict::NeedsRepair(said) => write!(f, "file system needs repair: {said}"),
            Verdict::Corrupt(said) => write!(f, "corrupt: {said}"),
            Verdict::CannotBeOpened(said) => write!(f, "cannot be opened: {said}"),
            Verdict::CannotBeMounted(said) => write!(f, "cannot be mounted: {said}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_stand_from_good_to_bad_as_their_classes_do() {
        let said = || "x".to_owned();
        let all = [
            Verdict::Kept,
            Verdict::Lost(1),
            Verdict::Lost(2),
            Verdict::NeedsRepair(said()),
            Verdict::Corrupt(said()),
            Verdict::CannotBeOpened(said()),
            Verdict::CannotBeMounted(said()),
        ];
        assert!(all.is_sorted());
        assert_eq!(all.each_ref().map(Verdict::class), Class::ALL);
    }
}

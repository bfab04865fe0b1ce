//! What a power cut must leave.

use fathom_workload::spec::Durability;

use crate::cli::Advise;

/// What must be kept: as asked, else what the application's own settings promise, and a sound
/// database at the least.
pub(super) fn must(asked: &Advise, own: Option<Durability>) -> Durability {
    let own = own.unwrap_or(Durability::PowerCutAllButLast).max(Durability::PowerCutPrefix);
    asked.must.unwrap_or(own)
}

/// Whether a transaction over several files must be in all of them after a power cut, or in none:
/// where whoever asks says that no commit, or the last one alone, may be lost. WAL keeps each file
/// by itself, and is not named then to an application that has it now either. Without a word of
/// that its own promise is kept, which is no more than it has.
pub(super) fn is_whole(asked: &Advise, over_files: bool) -> bool {
    over_files && !asked.each_file && asked.must.is_some_and(|must| must >= Durability::PowerCutAllButLast)
}

/// Why WAL is not named to who has it.
pub(super) const NO_WAL_NOW: &str = "a connection has several files, and with WAL, which the application has now, a \
                                     power cut may leave a transaction over them in some and not in the others: WAL is \
                                     not named; without --must the promise that it has now is kept, and --each-file \
                                     allows WAL";

/// Words of what must be kept, as `--must` has them.
pub(super) fn word_of(must: Durability) -> &'static str {
    match must {
        Durability::PowerCut => "keep=all",
        Durability::PowerCutAllButLast => "keep=all-but-last",
        _ => "keep=prefix",
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// What happened: `--must keep=all` named WAL, which keeps each file by itself, to an
    /// application with attached databases that has WAL now.
    #[test]
    fn transactions_are_kept_whole_where_that_is_asked_for() {
        let is_whole = |words: &[&str], over_files| {
            let words = [&["fathom", "advise", "app.trace"][..], words].concat();
            match Cli::try_parse_from(words).unwrap().command {
                Command::Advise(asked) => is_whole(&asked, over_files),
                _ => panic!("it is advise"),
            }
        };
        for must in ["keep=all", "all-but-last"] {
            assert!(is_whole(&["--must", must], true) && !is_whole(&["--must", must], false), "{must}");
            assert!(!is_whole(&["--must", must, "--each-file"], true), "{must}");
        }
        assert!(!is_whole(&["--must", "prefix"], true), "less is asked for");
        assert!(!is_whole(&[], true), "what it has now promises no more");
    }
}

//! Settings of which a recording failed, and what that says of them.

use fathom_lab::advise::Candidate;
use fathom_lab::failure::{FailureKind, LOCKED};
use fathom_lab::store::Results;

/// What a replay says of an option that `fathom advise` does not have.
const OF_REPLAYS: &str = "`--set extension=FILE` loads an extension that has it";

/// What does the same here.
const OF_ADVICE: &str = "`fathom simulate TRACE --set extension=FILE --set journal_mode=delete,persist,wal --out RECORDED.db` \
                         records it with an extension that has it, and `fathom advise RECORDED.db` names the best of that";

/// A setting of which a recording failed.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    pub(super) name: String,
    kind: FailureKind,
    /// As the run says it.
    why: String,
}

impl Failure {
    /// The first of each setting whose runs failed.
    pub(super) fn of(results: &Results) -> Vec<Failure> {
        let mut all: Vec<Failure> = Vec::new();
        let places: Vec<&str> = results.cells.iter().map(|cell| cell.spec.stack.place.name()).collect();
        for run in results.failed_runs() {
            let Some(cell) = results.cell(run.cell) else { continue };
            let candidate = cell.spec.engine.as_ref().and_then(Candidate::of);
            let name = candidate.map_or_else(|| cell.label.clone(), |candidate| candidate.name());
            let name = on_its_own(name, cell.spec.stack.place.name(), &places);
            if !all.iter().any(|known| known.name == name) {
                let why = run.message.clone().unwrap_or_else(|| "no message".into());
                all.push(Failure { name, kind: run.failure.unwrap_or_default(), why });
            }
        }
        all
    }

    /// Why, as far as it concerns who reads it: which of Fathom's own statements found out first
    /// that the database is locked does not.
    pub(super) fn reason(&self) -> String {
        match self.kind {
            FailureKind::Locked => LOCKED.to_owned(),
            // The image that it is recorded on has a size of its own.
            _ => super::super::full::without_size(&self.why).replace(OF_REPLAYS, OF_ADVICE),
        }
    }

    /// What it says of the settings: that they break the application where its replay found that
    /// out, and nothing where the machine did not do its part.
    pub(super) fn told(&self) -> String {
        let (name, why) = (&self.name, self.reason());
        match self.kind.is_of_settings() {
            true => format!("{name} breaks the application: {why}"),
            false => format!(
                "a recording of {name} failed and is left out, which says nothing of these settings: {why}"
            ),
        }
    }
}

/// A setting with its file system where there are several: on another one it may do all that is
/// asked of it.
fn on_its_own(name: String, filesystem: &str, all: &[&str]) -> String {
    if all.iter().any(|other| *other != filesystem) { format!("{name} on {filesystem}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: with `--fs ext4,xfs` a recording failed on xfs alone, and "WAL/FULL breaks the
    /// application" was said beside an answer that named WAL/FULL on ext4.
    #[test]
    fn what_failed_on_one_of_several_file_systems_is_said_of_that_one() {
        let of = |all: &[&str]| on_its_own("WAL/FULL".into(), "xfs", all);
        assert_eq!(of(&["ext4", "xfs"]), "WAL/FULL on xfs");
        assert_eq!(of(&["xfs", "xfs"]), "WAL/FULL");
    }

    fn failure(kind: FailureKind, why: &str) -> Failure {
        Failure { name: "WAL/FULL".into(), kind, why: why.into() }
    }

    #[test]
    fn why_settings_break_an_application_is_said_without_what_found_it_out() {
        let why =
            "engine sqlite: PRAGMA \"main\".auto_vacuum: database is locked: /run/fathom/stacks/x/mnt/w.db";
        let told = failure(FailureKind::Locked, why).reason();
        assert!(!told.contains("/run/") && !told.contains("auto_vacuum"), "{told}");
        assert_eq!(failure(FailureKind::Differs, "rows differ").reason(), "rows differ");
    }

    /// What happened: who asked for advice on a trace with a REGEXP of its application's own was
    /// told to give `--set extension=FILE`, which `fathom advise` refuses.
    #[test]
    fn an_extension_is_asked_for_where_it_can_be_given() {
        let why = "no such function: REGEXP (code 1); the application brought its own function REGEXP, which a replay does \
                   not have; `--set extension=FILE` loads an extension that has it";
        let told = failure(FailureKind::Engine, why).reason();
        assert!(
            told.contains("function REGEXP, which a replay does not have; `fathom simulate TRACE"),
            "{told}"
        );
        assert!(told.ends_with("`fathom advise RECORDED.db` names the best of that"), "{told}");
    }

    /// What happened: on a busy machine the device's server did not answer for 30 s, and "WAL/FULL
    /// breaks the application" was said of that.
    #[test]
    fn a_machine_that_fails_is_no_setting_that_breaks_the_application() {
        for (kind, why) in [
            (
                FailureKind::Machine,
                "/run/fathom/stacks/x/x.device: fathom device-server has not answered for 30s",
            ),
            (FailureKind::Storage, "engine sqlite: COMMIT: database or disk is full"),
            // By its kind, whatever words it begins with.
            (FailureKind::Machine, "engine sqlite: `INSERT INTO \"database is locked\"`: out of memory"),
        ] {
            let told = failure(kind, why).told();
            assert!(told.starts_with("a recording of WAL/FULL failed") && !told.contains("breaks"), "{told}");
        }
        for (kind, why) in [
            (FailureKind::Differs, "verification failed: rows differ"),
            (FailureKind::Engine, "`INSERT` on w.db: no such table: t"),
            (FailureKind::Locked, "result 5"),
        ] {
            let told = failure(kind, why).told();
            assert!(told.starts_with("WAL/FULL breaks the application: "), "{told}");
        }
    }
}

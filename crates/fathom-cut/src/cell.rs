//! One cell: a recorded run, and what a power cut leaves of it.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use fathom_stack::{Machine, StackRecord, StackSpec};
use fathom_workload::spec::Durability;
use serde::{Deserialize, Serialize};

use crate::acknowledged::{AcknowledgedContents, Script};
use crate::centre_store;
use crate::check::Checker;
use crate::error::CutError;
use crate::explain::{Explanation, explain};
use crate::explore::{Limits, Tally, explore};
use crate::findings::Findings;
use crate::fingerprint::Fingerprints;
use crate::history::History;
use crate::medium::{FileSystem, is_mountable};
use crate::mmdb_store;
use crate::owner::Owners;
use crate::postgresql_store;
use crate::record::{Recording, promise_where};
use crate::safe::Side;
use crate::states::{Behaviour, Keeps, States};
use crate::subject::Subject;
use crate::verdict::{Class, Verdict};

/// Where Btrfs says what it can.
const BTRFS_FEATURES: &str = "/sys/fs/btrfs/features";
/// Page size of SQLite's where nothing else is set, bytes.
const PAGE_BYTES: u64 = 4096;

/// Most commits of a run.
pub const COMMITS_MAX: u64 = 100_000;
/// Largest device, bytes: as large as an image of a stack may be.
const LARGEST_BYTES: u64 = 16 << 40;

/// What of a recorded run is needed to judge its states again, but for the log itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedRun {
    /// How the file system is mounted.
    pub filesystem: FileSystem,
    /// The database's path below its root.
    pub database: PathBuf,
    /// Size of the device, bytes.
    pub device_bytes: u64,
    /// The same of the device of an external log, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_bytes: Option<u64>,
    /// Operations in its log, or in both.
    pub operations: u64,
    /// What [`History::checksum`] says of them; empty in a recording of before it was kept.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub checksum: String,
    /// Whose data it is.
    #[serde(default)]
    pub subject: Subject,
    /// Commits of the built-in script, after the one that makes the tables.
    pub commits: u64,
    /// Its seed, and that of the states.
    pub seed: u64,
    /// What was done instead of the built-in script.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// How the device behaves at a cut.
    pub behaviour: Behaviour,
    /// The engine's settings as they were read back.
    pub settings: BTreeMap<String, String>,
    /// What they promise.
    pub promise: Durability,
    /// Whether the file system was synced beside the run, as the kernel writes back of its own
    /// accord.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub write_back: bool,
}

impl RecordedRun {
    /// Of a recording of the built-in script, or of another.
    #[must_use]
    pub fn of(
        recording: &Recording,
        commits: u64,
        seed: u64,
        script: Option<Script>,
        behaviour: Behaviour,
    ) -> RecordedRun {
        let bytes = |side| {
            let places = recording.history.places_of(side);
            places.end - places.start
        };
        RecordedRun {
            filesystem: recording.filesystem.clone(),
            database: recording.database.clone(),
            device_bytes: bytes(Side::Main),
            log_bytes: recording.filesystem.log_sector_bytes.map(|_| bytes(Side::Log)),
            operations: recording.history.answers,
            checksum: recording.history.checksum(),
            subject: recording.subject.clone(),
            commits,
            seed,
            script,
            behaviour,
            settings: recording.engine.settings.clone(),
            promise: promise_where(behaviour.keeps, recording.promise, &recording.stack),
            write_back: recording.write_back,
        }
    }

    /// Refuses what no recording of Fathom's says. Recordings are passed on, and what one says is
    /// mounted, opened and done again by root.
    ///
    /// # Errors
    /// [`CutError::Usage`], which names the key and says what is wrong with it.
    pub fn check(&self) -> Result<(), CutError> {
        let wrong =
            |key: &str, problem: String| Err(CutError::Usage(format!("the recording's {key}: {problem}")));
        let FileSystem { driver, options, .. } = &self.filesystem;
        // `proc`, `debugfs` and their like take no image, and are the machine's own.
        if !is_mountable(driver) {
            return wrong("driver", format!("{driver:?} is no file system of a kernel's that Fathom makes"));
        }
        if ![512, 4096].contains(&self.behaviour.tear_bytes) {
            return wrong("bytes that are never torn", format!("{}: 512 or 4096", self.behaviour.tear_bytes));
        }
        // What harms more than a stack harms it whatever file system is mounted.
        let mounted =
            StackSpec { place: "ext4".into(), mount: Some(options.clone()), ..StackSpec::default() };
        let problems = mounted.check(&Machine::unknown());
        if let Some(found) = problems.into_iter().find(|found| found.field == "mount") {
            return wrong("mount options", found.problem);
        }
        let mut parts = self.database.components();
        let is_name = !self.database.as_os_str().as_encoded_bytes().contains(&0);
        let is_below = parts.all(|part| matches!(part, Component::Normal(_)));
        if self.database.as_os_str().is_empty() || !is_name || !is_below {
            return wrong("database", format!("{:?} is no path below a file system's root", self.database));
        }
        if let Some(bytes) = self.sizes().find(|&bytes| bytes > LARGEST_BYTES) {
            return wrong("size of the device", format!("{bytes} bytes are too many"));
        }
        if self.log_bytes.is_some() != self.filesystem.log_sector_bytes.is_some() {
            let problem = "its size and the bytes of its sectors are said both or not at all";
            return wrong("external log", problem.into());
        }
        if self.commits > COMMITS_MAX {
            return wrong("commits", format!("{} are too many: {COMMITS_MAX} at most", self.commits));
        }
        Ok(())
    }

    /// Reads the log again.
    ///
    /// # Errors
    /// As [`RecordedRun::check`] and [`History::read`]; the log is not the one that was recorded.
    pub fn history(&self, log: &Path) -> Result<History, CutError> {
        self.check()?;
        let history = History::read(log, self.device_bytes, self.log_bytes)?;
        let wrong = |problem: String| Err(CutError::Log { path: log.to_owned(), problem });
        if history.answers != self.operations {
            return wrong(format!(
                "it has {} operations, and {} were recorded",
                history.answers, self.operations
            ));
        }
        // A damaged byte would be taken for what the database had written, or for when or where.
        let is_it = || self.checksum == history.checksum() || self.checksum == history.checksum_of_data();
        if !self.checksum.is_empty() && !is_it() {
            let problem = "its operations or data are not those that were recorded: the recording is damaged";
            return wrong(problem.into());
        }
        Ok(history)
    }

    /// The states of its run, from the moment at which what it prepares was there.
    #[must_use]
    pub fn states(&self, history: &History) -> States {
        let last = history.marks.iter().map(|mark| mark.number).max();
        States::of(history, self.behaviour, self.seed, self.prepared(), last)
    }

    /// Steps that prepare what the others do.
    fn prepared(&self) -> u64 {
        self.script.as_ref().map_or(1, |script| script.prepared)
    }

    /// What was asked of the database.
    #[must_use]
    pub fn script(&self) -> Script {
        self.script.clone().unwrap_or_else(|| Script::built_in(self.commits, self.seed))
    }

    /// What it held after each step.
    ///
    /// # Errors
    /// SQLite's, of a step that it does not take.
    pub fn acknowledged(&self) -> Result<AcknowledgedContents, CutError> {
        match &self.subject {
            Subject::Sqlite => AcknowledgedContents::of(&self.script()),
            Subject::Mmdb { .. } => Ok(mmdb_store::acknowledged(self.commits, self.seed)),
            Subject::Postgresql { .. } => postgresql_store::acknowledged(&self.script()),
            Subject::Smsc { settings } => centre_store::acknowledged(settings, self.commits, self.seed),
        }
    }

    /// Sizes of its devices.
    fn sizes(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.device_bytes).chain(self.log_bytes)
    }

    fn page_bytes(&self) -> u64 {
        self.settings.get("page_size").and_then(|text| text.parse().ok()).unwrap_or(PAGE_BYTES)
    }

    /// Whether the file system's metadata are whole at each cut, once it is mounted: where what it
    /// flushes to keep an order stays. A device that lies, or a mount without barriers, may leave a
    /// bitmap that takes blocks for free which a file has.
    #[must_use]
    pub fn keeps_order(&self) -> bool {
        let FileSystem { driver, options, .. } = &self.filesystem;
        match self.behaviour.keeps {
            Keeps::Answered => true,
            Keeps::Lies => false,
            Keeps::Flushed => {
                let (filesystem, mount) = (driver.clone(), options.clone());
                StackRecord { filesystem, mount, ..StackRecord::default() }.volatile().is_none()
            }
        }
    }

    /// Explains the verdict on a state.
    ///
    /// # Errors
    /// There is no such state, or it cannot be made.
    pub fn explain(&self, history: &History, number: usize) -> Result<Explanation, CutError> {
        let acknowledged = self.acknowledged()?;
        let states = self.states(history);
        let checker = Checker::new(history, &acknowledged, &self.filesystem, &self.database, &self.subject)?;
        let fingerprints = Arc::new(Fingerprints::of(history, &states));
        let mut checker = checker.sharing(&fingerprints, &Arc::default(), self.keeps_order());
        let owners = Owners::of(&self.filesystem.driver, history, self.page_bytes())?;
        explain(&mut checker, history, &states, number, &owners, &|| false)
    }

    /// Writes a device's image of a state, zeros too.
    ///
    /// # Errors
    /// There is no such state, or the file cannot be written.
    pub fn copy_to(
        &self,
        history: &History,
        number: usize,
        side: Side,
        out: &mut dyn std::io::Write,
    ) -> Result<(), CutError> {
        let acknowledged = AcknowledgedContents::of(&Script::of_steps(Vec::new()))?;
        let states = self.states(history);
        let state = states.get(number).ok_or_else(|| CutError::no_such_state(number, states.len()))?;
        let mut checker =
            Checker::new(history, &acknowledged, &self.filesystem, &self.database, &self.subject)?;
        let epoch =
            states.epochs.get(state.epoch).ok_or_else(|| CutError::no_such_state(number, states.len()))?;
        checker.copy_to(epoch, &state, side, out)
    }
}

/// What a power cut leaves of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// What was acknowledged of the script; all that it prepares counts as one.
    pub acknowledged: u64,
    /// Moments at which the power was cut.
    pub moments: usize,
    /// The largest number of blocks in flight at one of them.
    pub in_flight_max: usize,
    /// Of how many of them all subsets are states.
    pub exhaustive: usize,
    /// States that there are, by their numbers: of many blocks in flight some were chosen.
    pub states_possible: usize,
    /// Whether these are all that a power cut can leave; none in what was written before that was
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states_are_all: Option<bool>,
    /// What became of those that were judged.
    #[serde(flatten)]
    pub tally: Tally,
    /// Images of them that were mounted: the others held what one of these did.
    #[serde(default)]
    pub mounted: u64,
    /// Time that judging took, ns.
    pub wall_ns: u64,
    /// Why the worst is as it is, or why that was not found out; none where everything is kept, or
    /// where it was stopped from outside.
    pub explanation: Option<Explanation>,
    /// Whether something is lost that the settings promise on a device that keeps what it says.
    pub breaks_promise: bool,
    /// Whether it was stopped from outside.
    pub interrupted: bool,
}

impl Outcome {
    /// Whether all was judged that a power cut can leave. Of what was written before that was kept
    /// it is known only where nothing was in flight.
    #[must_use]
    pub fn judged_all(&self) -> bool {
        let are_all = self.states_are_all.unwrap_or(self.in_flight_max == 0);
        are_all && self.tally.states >= self.states_possible as u64
    }
}

/// How many states of a run this kernel mounts at once. They are images of one file system, which
/// Btrfs (before Linux 6.7) and bcachefs take for one that is mounted already.
fn mounted_at_once(filesystem: &FileSystem, features: &Path) -> usize {
    let is_alone = match filesystem.driver.as_str() {
        // Each guest has one.
        _ if filesystem.guest => false,
        "btrfs" => !features.join("temp_fsid").exists(),
        driver => driver == "bcachefs",
    };
    if is_alone { 1 } else { usize::MAX }
}

/// Judges the states of a run, and explains the worst.
///
/// # Errors
/// A state could not be made.
pub fn judge(
    recorded: &RecordedRun,
    history: &History,
    threads: usize,
    limits: Limits,
    stop: &(dyn Fn() -> bool + Sync),
    on_progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Outcome, CutError> {
    let acknowledged = recorded.acknowledged()?;
    let states = recorded.states(history);
    let known = Arc::new(Findings::default());
    let fingerprints = Arc::new(Fingerprints::of(history, &states));
    let checker = || {
        let RecordedRun { filesystem, database, subject, .. } = recorded;
        let made = Checker::new(history, &acknowledged, filesystem, database, subject);
        made.map(|checker| checker.sharing(&fingerprints, &known, recorded.keeps_order()))
    };
    let at_once = mounted_at_once(&recorded.filesystem, Path::new(BTRFS_FEATURES));
    let mut checkers = (0..threads.clamp(1, at_once)).map(|_| checker()).collect::<Result<Vec<_>, _>>()?;
    let explored = explore(&states, &mut checkers, limits, stop, on_progress)?;
    let mounted = known.mounted();
    let worst = explored.tally.worst.as_ref().filter(|worst| worst.1.class() != Class::Kept);
    let explanation = match (worst, checkers.first_mut()) {
        (Some((number, verdict)), Some(checker)) if !explored.interrupted => {
            let owners = Owners::of(&recorded.filesystem.driver, history, recorded.page_bytes());
            let why = owners.and_then(|owners| explain(checker, history, &states, *number, &owners, stop));
            Some(explained(verdict, why))
        }
        _ => None,
    };
    let last = history.marks.iter().map(|mark| mark.number).max();
    let in_flight = || states.epochs.iter().map(|epoch| epoch.in_flight.len());
    let breaks = explored.tally.worst.as_ref().is_some_and(|worst| breaks(recorded.promise, &worst.1));
    Ok(Outcome {
        acknowledged: last.map_or(0, |last| last.saturating_sub(recorded.prepared().saturating_sub(1))),
        moments: states.epochs.len(),
        in_flight_max: in_flight().max().unwrap_or(0),
        exhaustive: in_flight().filter(|&blocks| blocks <= crate::states::EXHAUSTIVE).count(),
        states_possible: states.len(),
        states_are_all: Some(states.are_all()),
        breaks_promise: breaks && recorded.behaviour.keeps != Keeps::Lies,
        tally: explored.tally,
        mounted,
        wall_ns: explored.wall_ns,
        explanation,
        interrupted: explored.interrupted,
    })
}

/// Whatever keeps the fewest blocks from being found, the verdicts stand without them: those of a
/// cell may have taken a night.
fn explained(verdict: &Verdict, why: Result<Explanation, CutError>) -> Explanation {
    why.unwrap_or_else(|error| Explanation::unexplained(verdict, &error))
}

/// Whether a verdict is worse than what was promised.
#[must_use]
pub fn breaks(promise: Durability, verdict: &Verdict) -> bool {
    verdict.class() > allowed(promise)
}

/// The worst that a promise allows.
#[must_use]
pub fn allowed(promise: Durability) -> Class {
    match promise {
        Durability::None | Durability::ProcessCrash => Class::CannotBeMounted,
        Durability::PowerCutPrefix => Class::LostSeveral,
        Durability::PowerCutAllButLast => Class::LostLast,
        Durability::PowerCut | Durability::OneNode => Class::Kept,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Several states of a run were mounted at once, each by a thread. Btrfs of Linux before 6.7
    /// (Debian 12) refuses the second, for both have the same number: *cannot be mounted*, it would
    /// have been said.
    #[test]
    fn images_of_one_btrfs_are_mounted_at_once_only_where_the_kernel_does_so() {
        let features = tempfile::tempdir().unwrap();
        let of = |driver: &str, guest| {
            let filesystem = FileSystem {
                driver: driver.into(),
                options: String::new(),
                sector_bytes: 512,
                log_sector_bytes: None,
                guest,
            };
            mounted_at_once(&filesystem, features.path())
        };
        assert_eq!((of("btrfs", false), of("bcachefs", false)), (1, 1));
        assert_eq!(
            (of("btrfs", true), of("ext4", false), of("xfs", false)),
            (usize::MAX, usize::MAX, usize::MAX)
        );
        std::fs::write(features.path().join("temp_fsid"), "0").unwrap();
        assert_eq!((of("btrfs", false), of("bcachefs", false)), (usize::MAX, 1));
    }

    /// What happened: where memory ran short while the fewest blocks were looked for, or a guest
    /// did not come up again, or the region of a block was not to be read, all verdicts of the cell
    /// were thrown away.
    #[test]
    fn an_explanation_that_is_not_to_be_had_takes_no_verdict_away() {
        let machine = CutError::Machine { problem: "out of memory".into(), before: String::new() };
        for (error, told) in
            [(machine, "not found out: out of memory"), (CutError::Usage("x".into()), "out: x")]
        {
            let why = explained(&Verdict::Lost(2), Err(error));
            assert_eq!((&why.verdict, why.missing.len(), why.torn), (&Verdict::Lost(2), 0, None));
            assert!(why.lines.len() == 1 && why.lines[0].ends_with(told), "{why:?}");
        }
    }

    /// What happened: with `--keeps lying` or `nobarrier` states of ext4 whose files hold the same
    /// were looked at once, although a bitmap may lack the blocks of a journal in one of them.
    /// SQLite deletes it, and the file system notes an error or takes no more writes: as the first
    /// state went, so it was said of all.
    #[test]
    fn states_are_known_by_their_files_only_where_flushes_keep_an_order() {
        let of = |keeps, options: &str| {
            let recorded: RecordedRun = serde_json::from_value(serde_json::json!({
                "filesystem": { "driver": "ext4", "options": options, "sector_bytes": 512 },
                "database": "work/cut.db", "device_bytes": 64 << 20, "operations": 3, "commits": 25, "seed": 1,
                "behaviour": { "keeps": keeps, "tear_bytes": 512 },
                "settings": {}, "promise": "power-cut"
            }))
            .unwrap();
            recorded.keeps_order()
        };
        assert!(of("flushed", "") && of("flushed", "noatime,data=journal"));
        assert!(!of("lies", "") && !of("flushed", "noatime,nobarrier") && !of("flushed", "barrier=0"));
        assert!(of("answered", "nobarrier"), "what was answered is there in order");
    }

    #[test]
    fn a_promise_is_broken_by_what_is_worse_than_it() {
        let lost = Verdict::Lost;
        assert!(!breaks(Durability::PowerCut, &Verdict::Kept));
        assert!(breaks(Durability::PowerCut, &lost(1)));
        assert!(!breaks(Durability::PowerCutAllButLast, &lost(1)));
        assert!(breaks(Durability::PowerCutAllButLast, &lost(2)));
        assert!(!breaks(Durability::PowerCutPrefix, &lost(400)));
        assert!(breaks(Durability::PowerCutPrefix, &Verdict::Corrupt("page".into())));
        assert!(!breaks(Durability::ProcessCrash, &Verdict::Corrupt("page".into())));
    }
}

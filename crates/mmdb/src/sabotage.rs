//! Defects that tests switch on to see that they notice.
//!
//! They are there with the feature `sabotage` only, which the tests of this crate turn on for
//! themselves: nothing that is released has a way to leave a rule out. Without the feature
//! [`Defect`] has no size, and what asks it is a constant.

/// What is switched off or done wrongly, so that tests see that they notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub enum Sabotage {
    /// Everything as designed.
    #[default]
    None,
    /// Recovery applies a change whatever version the slot has.
    NoVersionFilter,
    /// Recovery applies frames behind a missing one.
    NoGapFreeCut,
    /// A checkpoint is published before its changes are durable.
    NoPublishRule,
    /// Commits are acknowledged before the sync.
    NoSync,
    /// Recovery keeps the salt, so that frames behind the cut come back.
    NoNewSalt,
    /// Recovery does not make durable what it found in the page cache.
    NoRecoverySync,
    /// The images of a table that is not logged are of different moments.
    NoMoment,
    /// A flush that spans segments makes only the last one durable.
    LastSegmentOnly,
    /// A checkpoint releases log that its images do not hold.
    RecyclesTooMuch,
    /// A checkpoint writes the side that the manifest names.
    OneSide,
    /// A checkpoint leaves out the tables that are not logged.
    NoCheckpointedTables,
    /// Rows of volatile tables are in checkpoints, and come back from them.
    VolatileTablesKept,
    /// A table is created without a manifest that names it.
    CreatesWithoutManifest,
    /// A table that could not be created stays in the next manifest.
    CreatesHalf,
    /// A table's images are forgotten before the manifest says that it is dropped.
    ForgetsBeforeManifest,
    /// A table is dropped without a manifest that says so.
    DropsWithoutManifest,
    /// Recovery builds no secondary unique index.
    NoUniqueIndex,
    /// An update leaves the old key in the secondary indexes.
    StaleIndex,
    /// Secondary unique keys are not checked.
    NoUniqueCheck,
    /// Opening does not look whose directories it is given.
    NoIdentity,
    /// Closing does not state how far the log goes.
    ClosesWithoutHorizon,
    /// A backup lacks the oldest piece of the log.
    BackupLacksLog,
    /// A backup has whatever the log holds when it is copied, commits after its images too.
    BackupTakesMore,
    /// A backup does not wait for the commits that its images may hold.
    BackupWithoutFlush,
    /// Segments are used, and commits in them acknowledged, that no manifest names.
    UsesBeforeManifest,
    /// Commits in a segment are acknowledged though no manifest says that there are any.
    BeginsWithoutManifest,
    /// Commits keep no versions for the snapshots that are open.
    NoVersions,
    /// Indexes keep no ghosts for the snapshots that are open.
    NoGhosts,
    /// Commits that take a key away and give it back do not say so.
    AnnouncesNoMoves,
    /// Where the row at a place that a hash has led to has another key, there is none of this key.
    BelievesHashes,
    /// A read by a key takes whatever row is at the place that it was led to.
    ReadsAnyRow,
    /// Who brings a key into an index does not look who has read an interval with it.
    NoRangeClaims,
    /// A range that has come to its end locks nothing behind its last row.
    RangeEndsAtRow,
    /// A range locks the keys of its rows and not what is between them.
    RangeOfOneKey,
    /// A row that is read in a range is not locked.
    NoRangeRowLocks,
    /// A table's definition changes without a manifest that says so.
    AltersWithoutManifest,
    /// A change of a definition that could not be stated is in memory, and in the next manifest.
    AltersHalf,
    /// A unique index is stated before the rows are durable that it was checked with.
    StatesUniqueEarly,
    /// Commits do not maintain an index that is being built.
    BuildsAlone,
    /// The build of a unique index does not wait for those who looked for their key before it had
    /// come to the row that has it.
    OutlastsNobody,
    /// Recovery does not ask whether there are commits in a segment in which the manifest knows of
    /// some.
    BelievesEmptySegments,
    /// A standby acknowledges what it has applied, durable or not.
    AcknowledgesUndurable,
    /// A standby applies frames behind a commit that it does not have.
    AppliesGaps,
    /// A standby follows a primary that was deposed, or fenced off.
    FollowsDeposed,
    /// A standby follows a primary of another history.
    FollowsForeign,
    /// A standby leaves the old key of a row in the indexes.
    AppliesStaleIndex,
    /// A standby states a change of a definition before the commits that came before it.
    StatesChangeEarly,
    /// A standby that gives up rows which contradict a change finds them again when it is opened.
    KeepsContradictingRows,
    /// A standby is promoted without a manifest that says so.
    PromotesWithoutManifest,
    /// A standby promises to follow no older epoch without a manifest that says so.
    FencesWithoutManifest,
    /// A primary that hears of a later epoch goes on.
    DeposedGoesOn,
    /// A primary that hears of a later epoch ends, and no manifest says why.
    DeposesWithoutManifest,
    /// A primary counts acknowledgements of another history.
    CountsForeign,
    /// A commit that waits for standbys counts those that are behind it.
    CountsBehind,
    /// Log is released though a standby needs it.
    ForgetsTails,
}

/// The defect of an open database: none, but in tests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defect(#[cfg(feature = "sabotage")] pub(crate) Sabotage);

/// Whether a database has one of the defects named.
#[cfg(feature = "sabotage")]
macro_rules! has_defect {
    ($defect:expr, $($name:ident)|+) => {
        matches!($defect.0, $($crate::sabotage::Sabotage::$name)|+)
    };
}

/// Without the feature, the answer.
#[cfg(not(feature = "sabotage"))]
#[inline(always)]
pub(crate) fn none(_: Defect) -> bool {
    false
}

/// No database has a defect.
#[cfg(not(feature = "sabotage"))]
macro_rules! has_defect {
    ($defect:expr, $($name:ident)|+) => {
        $crate::sabotage::none($defect)
    };
}

pub(crate) use has_defect;

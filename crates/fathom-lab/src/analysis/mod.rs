//! What the measured numbers say: means with intervals, comparisons, and sentences.
//!
//! Everything here is computed from a [`Results`](crate::store::Results), never measured again.
//! [`Analysis::of`] gives one [`Measure`] per cell, phase and abscissa; [`headlines`] puts the
//! experiment's comparisons into words; [`changes`] compares two results files; [`cautions`] says
//! what a reader must be careful about.

mod alike;
mod apart;
mod baseline;
mod blocks;
mod cautions;
mod change;
mod conditions;
mod devices;
mod headline;
mod measure;
mod places;
mod side;
mod unlike;

pub use apart::apart;
pub use baseline::{BaselineError, is_baseline, says_baseline};
pub use blocks::{ALL_PHASES, BlockStudy, Ladder, block_studies, ratio, unattributed};
pub use cautions::{Caution, CautionKind, Weight, cautions};
pub use change::{Change, Changes, Judgement, Question, changes, compare};
pub use devices::{DeviceRole, DeviceRun, DeviceStudy, device_studies};
pub use headline::{Finding, figure, headlines, times};
pub use measure::{Analysis, Clock, Measure, ModelShare, OfRun, Shares, WallOfRun};
pub use side::{CellValues, PhaseValues, Quantity, Side};

use fathom_workload::spec::Durability;

/// What survives, in words that follow "a power cut keeps" or stand alone in a column.
#[must_use]
pub fn durability_words(durability: Durability) -> &'static str {
    match durability {
        Durability::None => "promises nothing, not even an intact database after a crash",
        Durability::ProcessCrash => {
            "keeps its commits when the process crashes, and promises nothing at a power cut"
        }
        Durability::PowerCutPrefix => "may lose the last commits at a power cut, never the database",
        Durability::PowerCutAllButLast => "keeps all commits but at most the last one at a power cut",
        Durability::PowerCut => "keeps every commit at a power cut",
        Durability::OneNode => "keeps every commit where one node is lost with its disk",
    }
}

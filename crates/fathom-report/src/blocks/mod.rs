//! The block trace in the report: the write ladder, who wrote how much, the pattern, and address
//! over time.

mod encode;
mod export;
mod html;
mod picture;
pub mod svg;
mod terminal;
mod thin;

pub use export::{requests_csv, requests_json, studies_csv, studies_json};
pub use html::{data, section};
pub use picture::{Picture, pictures};
pub use terminal::table;

use fathom_lab::analysis::{ALL_PHASES, BlockStudy};
use fathom_stack::attribution::Cause;

use crate::number;
use crate::palette::Colour;

/// Colour of each cause, in the order of [`Cause::ALL`]. Files are strong, the file system's own
/// warm and light, and what is not known is grey; in pictures they also lie in different places,
/// and each has its row in a table.
pub const CAUSE_COLOURS: [Colour; 8] = [
    Colour { light: "#7a1f4b", dark: "#e0559a" },
    Colour { light: "#12a07f", dark: "#7fe0c8" },
    Colour { light: "#8250df", dark: "#9d6bf0" },
    Colour { light: "#4e632c", dark: "#dfe07a" },
    Colour { light: "#c57f12", dark: "#d39a45" },
    Colour { light: "#d0705e", dark: "#f5a898" },
    Colour { light: "#6b7280", dark: "#8b949e" },
    Colour { light: "#0b5a9c", dark: "#58aef0" },
];

/// A cause as people read it.
pub fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Database => "database",
        Cause::RollbackJournal => "rollback journal",
        Cause::Wal => "WAL",
        Cause::OtherFile => "other file",
        Cause::Metadata => "file system metadata",
        Cause::FileSystemJournal => "file system journal",
        Cause::Unattributed => "unattributed",
        Cause::Flush => "flush",
    }
}

/// The causes that have written anything in these studies.
fn causes_of(studies: &[BlockStudy]) -> Vec<Cause> {
    let any = |cause: &Cause| studies.iter().any(|study| study.written[cause.number() as usize] > 0.0);
    Cause::ALL.into_iter().filter(any).collect()
}

/// Bytes for each execution.
fn each(study: &BlockStudy, bytes: f64) -> f64 {
    if study.executions > 0.0 { bytes / study.executions } else { bytes }
}

/// What is told to be of files: `≥ 2.3 KiB` where some bytes have no known owner.
fn files(study: &BlockStudy, shown: String) -> String {
    if study.ladder.is_files_at_least() { format!("≥ {shown}") } else { shown }
}

fn of_all_phases(studies: &[BlockStudy]) -> impl Iterator<Item = &BlockStudy> {
    studies.iter().filter(|study| study.phase == ALL_PHASES)
}

/// `3.2×`; `?` where it is not known.
fn factor(value: Option<f64>) -> String {
    value.map_or_else(|| "?".into(), |value| format!("{}×", number::plain(value)))
}

//! What a power cut must leave.

use fathom_workload::spec::Durability;

use crate::cli::Advise;

/// What must be kept: as asked, else what the application's own settings promise, and a sound
/// database at the least.
pub(super) fn must(asked: &Advise, own: Option<Durability>) -> Durability {
    let own = own.unwrap_or(Durability::PowerCutAllButLast).max(Durability::PowerCutPrefix);
    asked.must.unwrap_or(own)
}

/// Words of what must be kept, as `--must` has them.
pub(super) fn word_of(must: Durability) -> &'static str {
    match must {
        Durability::PowerCut => "keep=all",
        Durability::PowerCutAllButLast => "keep=all-but-last",
        _ => "keep=prefix",
    }
}

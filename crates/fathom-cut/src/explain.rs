//! Why a state has its verdict: the fewest blocks that have to be missing, whose they are, and what
//! their absence does to the files.

use serde::{Deserialize, Serialize};

use crate::check::Checker;
use crate::error::CutError;
use crate::explore::Judge;
use crate::found_file::FoundFile;
use crate::history::{History, Unit};
use crate::owner::Owners;
use crate::states::{Epoch, State, States};
use crate::verdict::{Class, Verdict};

/// States that are judged at most to find the fewest blocks.
const JUDGED_MAX: usize = 400;
/// Blocks that are named at most.
const NAMED_MAX: usize = 3;
/// Files that are told of at most.
const FILES_MAX: usize = 3;
/// Moments behind a cut at which the state is looked for that the cut took away.
const LATER_MAX: usize = 12;

/// Why a state has its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The fewest units in flight that have to be missing, as offsets on the device, bytes; empty:
    /// with all that had been sent the verdict is the same, or the lines say why they were not
    /// found.
    pub missing: Vec<u64>,
    /// One of them is there in part.
    pub torn: Option<u64>,
    /// At most three lines.
    pub lines: Vec<String>,
}

impl Explanation {
    /// Of a verdict that stands, and whose fewest blocks could not be found.
    pub(crate) fn unexplained(verdict: &Verdict, error: &CutError) -> Explanation {
        let problem = match error {
            CutError::Machine { problem, .. } => problem.clone(),
            error => error.to_string(),
        };
        let line = format!("which blocks have to be missing for that was not found out: {problem}");
        Explanation { verdict: verdict.clone(), missing: Vec::new(), torn: None, lines: vec![line] }
    }
}

/// The fewest of some units that have to be missing for a verdict's class to stay (delta debugging:
/// Zeller, Hildebrandt: Simplifying and isolating failure-inducing input, 2002, its `ddmin`).
/// `stays` says whether it does with these missing.
pub(crate) fn fewest(
    missing: Vec<u32>,
    stays: &mut dyn FnMut(&[u32]) -> Result<bool, CutError>,
) -> Result<Vec<u32>, CutError> {
    if missing.is_empty() || stays(&[])? {
        return Ok(Vec::new());
    }
    let mut all = missing;
    let mut parts = 2;
    while all.len() > 1 {
        let size = all.len().div_ceil(parts);
        let chunks: Vec<Vec<u32>> = all.chunks(size).map(<[u32]>::to_vec).collect();
        let mut smaller = None;
        for chunk in &chunks {
            if stays(chunk)? {
                smaller = Some((chunk.clone(), 2));
                break;
            }
        }
        if smaller.is_none() && chunks.len() > 2 {
            for without in 0..chunks.len() {
                let rest: Vec<u32> = chunks
                    .iter()
                    .enumerate()
                    .filter(|chunk| chunk.0 != without)
                    .flat_map(|without| without.1.clone())
                    .collect();
                if stays(&rest)? {
                    smaller = Some((rest, (parts - 1).max(2)));
                    break;
                }
            }
        }
        match smaller {
            Some((found, next)) => (all, parts) = (found, next),
            None if parts >= all.len() => break,
            None => parts = (parts * 2).min(all.len()),
        }
    }
    Ok(all)
}

/// Explains a state's verdict.
///
/// # Errors
/// A state could not be made, or `stop` says so: a database with a server takes minutes.
pub fn explain(
    checker: &mut Checker<'_>,
    history: &History,
    states: &States,
    number: usize,
    owners: &Owners,
    stop: &dyn Fn() -> bool,
) -> Result<Explanation, CutError> {
    let none = || CutError::no_such_state(number, states.len());
    let state = states.get(number).ok_or_else(none)?;
    let epoch = states.epochs.get(state.epoch).ok_or_else(none)?;
    let verdict = checker.judge(epoch, &state)?;
    if verdict == Verdict::Kept {
        return Ok(Explanation {
            verdict,
            missing: Vec::new(),
            torn: None,
            lines: vec!["every acknowledged commit is there".into()],
        });
    }
    let class = verdict.class();
    let with = |missing: &[u32], torn: Option<(u32, u8)>| {
        let is_there =
            |unit: &u32| missing.binary_search(unit).is_err() && torn.is_none_or(|value| value.0 != *unit);
        State { epoch: state.epoch, present: epoch.in_flight.iter().filter(is_there).collect(), torn }
    };
    let mut missing: Vec<u32> = epoch
        .in_flight
        .iter()
        .filter(|unit| {
            state.present.binary_search(unit).is_err() && state.torn.is_none_or(|value| value.0 != *unit)
        })
        .collect();
    // Whether the torn unit matters: without it, and with it as a whole.
    let mut torn = state.torn;
    if torn.is_some() && checker.judge(epoch, &with(&missing, None))?.class() == class {
        torn = None;
    }
    let mut judged = 0;
    let mut stays = |missing: &[u32]| {
        if stop() {
            return Err(CutError::Usage("it was stopped".into()));
        }
        judged += 1;
        Ok(judged <= JUDGED_MAX && checker.judge(epoch, &with(missing, torn))?.class() == class)
    };
    missing = fewest(missing, &mut stays)?;
    let smallest = with(&missing, torn);
    let here = checker.files(epoch, &smallest)?;
    let sent = checker.files(epoch, &with(&[], None))?;
    let mut lines = Vec::new();
    let unit = |number: &u32| history.units.get(*number as usize);
    let mut named: Vec<String> = Vec::new();
    let files = sent.as_ref().or(here.as_ref()).map(Vec::as_slice).unwrap_or_default();
    if let Some((number, sectors)) = torn {
        let whose = unit(&number).map(|number| owners.name(history, number, files)).unwrap_or_default();
        named.push(format!("torn ({} of 8 sectors there): {whose}", sectors.count_ones()));
    }
    named.extend(
        missing.iter().filter_map(unit).take(NAMED_MAX).map(|unit| owners.name(history, unit, files)),
    );
    let more = missing.len().saturating_sub(NAMED_MAX);
    if named.is_empty() {
        lines.push(nothing_missing(class, epoch.in_flight.len()));
    } else {
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        lines.push(format!("missing: {}{more}", named.join("; ")));
    }
    // The files as they should have been: with all that was sent, or where that is not enough, as
    // they came to be a little later.
    let should = match (missing.is_empty() && torn.is_none(), sent) {
        (false, Ok(files)) => Some((files, "had it not been missing")),
        _ => later(checker, states, epoch)?.map(|files| (files, "after the next writes")),
    };
    match (&here, should) {
        (Err(said), _) => {
            lines.push(format!("the file system cannot be mounted, or not all of it read: {said}"))
        }
        (Ok(here), Some((should, when))) => lines.extend(differences(here, &should, when)),
        (Ok(_), None) => {}
    }
    lines.truncate(3);
    Ok(Explanation {
        verdict,
        missing: missing.iter().filter_map(unit).map(|unit: &Unit| unit.offset).collect(),
        torn: torn.and_then(|torn| unit(&torn.0)).map(|unit| unit.offset),
        lines,
    })
}

/// The files at the next moment at which a cut that takes nothing in flight keeps all that had been
/// acknowledged at `epoch`.
fn later(
    checker: &mut Checker<'_>,
    states: &States,
    epoch: &Epoch,
) -> Result<Option<Vec<FoundFile>>, CutError> {
    let after = states.epochs.iter().enumerate().filter(|value| value.1.answers > epoch.answers);
    for (place, next) in after.take(LATER_MAX) {
        let all = State { epoch: place, present: next.in_flight.iter().collect(), torn: None };
        let as_then = Epoch { acknowledged: epoch.acknowledged, ..next.clone() };
        // One commit more than one that was under way would not be judged: what counts is that
        // nothing is lost.
        if matches!(checker.judge(&as_then, &all)?, Verdict::Kept | Verdict::Corrupt(_)) {
            return Ok(checker.files(next, &all)?.ok());
        }
    }
    Ok(None)
}

/// What differs between the files of a state and those that should be there: first names, then
/// lengths, then contents.
fn differences(here: &[FoundFile], should: &[FoundFile], when: &str) -> Vec<String> {
    let of = |all: &'_ [FoundFile], name: &str| all.iter().find(|file| file.name == name).cloned();
    let mut names: Vec<&str> = here.iter().chain(should).map(|should| should.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let mut found: Vec<(u8, String)> = Vec::new();
    for name in names {
        let directory = name.rsplit_once('/').map_or("/", |parts| parts.0);
        let is_hot = |file: &FoundFile| name.ends_with("-journal") && file.begins && file.bytes > 0;
        let rolls_back = "SQLite finds a hot journal and rolls its commit back";
        match (of(here, name), of(should, name)) {
            (Some(there), None) if !there.is_directory => {
                let hot = if is_hot(&there) { format!(": {rolls_back}") } else { String::new() };
                found.push((
                    0,
                    format!(
                        "the directory entry of {name} is still in {directory} ({} bytes), which is removed {when}{hot}",
                        there.bytes
                    ),
                ));
            }
            // Removed and made anew in between.
            (Some(there), Some(wanted)) if is_hot(&there) && there.content != wanted.content => {
                found.push((
                    0,
                    format!(
                        "the directory entry of {name} is still in {directory} and leads to the old journal ({} bytes); {when} it is \
                         removed, and a new one there: {rolls_back}",
                        there.bytes
                    ),
                ));
            }
            (None, Some(wanted)) => found.push((
                0,
                format!(
                    "the directory entry of {name} is not in {directory}, where it is {when} ({} bytes)",
                    wanted.bytes
                ),
            )),
            (Some(there), Some(wanted)) if there.bytes != wanted.bytes => {
                found.push((1, format!("{name} has {} bytes, and {} {when}", there.bytes, wanted.bytes)));
            }
            (Some(there), Some(wanted)) if there.content != wanted.content => {
                found.push((2, format!("{name} holds something else than {when}")));
            }
            _ => {}
        }
    }
    found.sort();
    found.into_iter().map(|sort| sort.1).take(FILES_MAX).collect()
}

/// Where nothing of what was in flight is missing: what was not sent is to blame.
fn nothing_missing(class: Class, in_flight: usize) -> String {
    let state = match in_flight {
        0 => "nothing was in flight".to_owned(),
        blocks => format!("state of all {blocks} blocks in flight"),
    };
    let why = match class {
        Class::Kept | Class::LostLast | Class::LostSeveral => "what is lost had not been sent",
        _ => "what is wrong comes of what had not been sent",
    };
    format!("nothing that had been sent to the device is missing ({state}): {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_units_are_found_wherever_they_are() {
        for wanted in [vec![3], vec![0, 7], vec![1, 2, 9], vec![], vec![19]] {
            let mut asked = 0;
            let mut stays = |missing: &[u32]| {
                asked += 1;
                Ok(wanted.iter().all(|wanted| missing.contains(wanted)))
            };
            assert_eq!(fewest((0..20).collect(), &mut stays).unwrap(), wanted);
            assert!(asked < 120, "{asked}");
        }
    }

    /// What happened: of ext4 without a journal, whose superblock noted an error and whose database
    /// had kept all, "state of all 0 blocks in flight: what is lost had not been sent" was said.
    #[test]
    fn what_is_wrong_is_not_said_to_be_lost() {
        let lost = nothing_missing(Class::LostLast, 7);
        assert!(
            lost.ends_with("(state of all 7 blocks in flight): what is lost had not been sent"),
            "{lost}"
        );
        let wrong = nothing_missing(Class::NeedsRepair, 0);
        assert!(wrong.contains("(nothing was in flight): what is wrong comes of"), "{wrong}");
        assert!(!wrong.contains("lost"), "{wrong}");
    }

    #[test]
    fn a_journal_that_came_back_is_said_first() {
        let file = |name: &str, bytes: u64| FoundFile {
            name: name.into(),
            bytes,
            content: u128::from(bytes),
            begins: true,
            is_directory: false,
            extents: Vec::new(),
        };
        let here = [file("work/cut.db", 7), file("work/cut.db-journal", 512)];
        let lines = differences(&here, &[file("work/cut.db", 8)], "later");
        assert!(lines[0].contains("directory entry of work/cut.db-journal is still in work"), "{lines:?}");
        assert!(lines[0].contains("hot journal"), "{lines:?}");
        assert!(lines[1].contains("7 bytes"), "{lines:?}");
        let lines = differences(&[], &here, "later");
        assert!(lines[1].contains("directory entry of work/cut.db-journal is not in work"), "{lines:?}");
        assert!(differences(&here, &here, "later").is_empty());
    }
}

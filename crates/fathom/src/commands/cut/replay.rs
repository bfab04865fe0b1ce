//! `fathom cut --replay`: the states of recorded runs again, all of them or one.

use std::path::Path;
use std::time::{Duration, Instant};

use fathom_cut::{CutError, Explanation, Side};
use fathom_device::external_of;
use fathom_lab::schedule::Interrupt;
use fathom_output::{Access, OutputError, shown_path, tell};
use fathom_report::{Cut, Cuts};

use super::cells::label_again;
use super::findings::show;
use super::judgement::{check_machine, check_piece, judged};
use super::recordings::{log_of, recorded_in};
use crate::cli::CutArgs;
use crate::commands;
use crate::outcome::{Error, Outcome};

/// One state of a recorded run again.
pub(super) fn replay(asked: &CutArgs, directory: &Path, interrupt: &Interrupt) -> commands::Result {
    let Some(state) = &asked.state else {
        return judge_again(asked, directory, interrupt);
    };
    let numbers =
        state.split_once('/').and_then(|(cell, state)| Some((cell.parse().ok()?, state.parse().ok()?)));
    let Some((cell, number)): Option<(usize, usize)> = numbers else {
        return Err(Error::usage(format!("--state {state}: two numbers are asked for, as in 1/17")));
    };
    let cells = recorded_in(directory)?;
    let Some(recorded) = cells.get(&cell) else {
        let known: Vec<String> = cells.keys().map(usize::to_string).collect();
        return Err(Error::usage(format!(
            "--state {state}: there is no cell {cell}, but {}",
            known.join(", ")
        )));
    };
    check_machine()?;
    commands::open_stdout()?;
    commands::tidy_up_on_signals()?;
    let history = recorded.history(&log_of(directory, cell)).map_err(asked_or_failed)?;
    if let Some(image) = &asked.image {
        if fathom_output::is_standard_output(image) {
            return Err(Error::usage(
                "--image -: the explanation goes to standard output; name a file for the image",
            ));
        }
        let devices = std::iter::once((image.clone(), Side::Main))
            .chain(recorded.log_bytes.map(|_| (external_of(image), Side::Log)));
        for (file, side) in devices {
            // What is asked for is a new file: another one of that name would be gone.
            if file.symlink_metadata().is_ok_and(|found| found.is_file() || found.is_symlink()) {
                return Err(Error::usage(format!(
                    "--image {}: is there already; give a new name",
                    shown_path(&file)
                )));
            }
            fathom_output::write(&file, &[directory], Access::Private, |out| {
                recorded.copy_to(&history, number, side, out).map_err(ImageError::Cut)
            })
            .map_err(|error| match error {
                ImageError::Cut(error) => asked_or_failed(error),
                ImageError::Output(error) => commands::refused_or_failed("--image", error),
            })?;
            tell!("Image: {}", shown_path(&file));
        }
    }
    let explanation = recorded.explain(&history, number).map_err(asked_or_failed)?;
    if asked.json {
        return commands::print_json(&explanation);
    }
    fathom_output::raw(&shown(state, &explanation));
    Ok(Outcome::Good)
}

/// The states of recorded runs again, all or a piece.
fn judge_again(asked: &CutArgs, directory: &Path, interrupt: &Interrupt) -> commands::Result {
    if asked.image.is_some() {
        return Err(Error::usage("--image is of one state: --state CELL/STATE, as the table names it"));
    }
    check_piece(asked)?;
    let recorded_cells = recorded_in(directory)?;
    check_machine()?;
    commands::open_stdout()?;
    commands::stop_on_signals(interrupt)?;
    let mut cuts = Cuts::default();
    let begin = Instant::now();
    let cells = recorded_cells.len();
    let mut first_error: Option<CutError> = None;
    let labels: Vec<String> =
        recorded_cells.values().map(|recorded| label_again(recorded, &recorded_cells)).collect();
    for (place, ((number, recorded), label)) in recorded_cells.into_iter().zip(labels).enumerate() {
        let left = Duration::from_secs(asked.time).saturating_sub(begin.elapsed());
        let share = left / u32::try_from(cells - place).unwrap_or(1).max(1);
        let history = recorded.history(&log_of(directory, number));
        match history.and_then(|history| judged(asked, &recorded, &history, share, interrupt)) {
            Ok(outcome) => cuts.cells.push(Cut::new(number, label, recorded, outcome)),
            // What was found of the others may have taken a night.
            Err(error) => {
                cuts.without.push((label, error.to_string()));
                first_error.get_or_insert(error);
            }
        }
        if interrupt.is_raised() {
            break;
        }
    }
    match first_error {
        Some(error) if cuts.cells.is_empty() => Err(asked_or_failed(error)),
        _ => show(asked, &cuts, interrupt, Some(directory)),
    }
}

/// Why there is no image.
enum ImageError {
    Cut(CutError),
    Output(OutputError),
}

impl From<OutputError> for ImageError {
    fn from(error: OutputError) -> ImageError {
        ImageError::Output(error)
    }
}

fn shown(state: &str, explanation: &Explanation) -> String {
    let style = commands::style();
    let head = fathom_output::shown(&format!("{state}: {}", explanation.verdict)).to_string();
    let lines: Vec<String> = explanation
        .lines
        .iter()
        .map(|line| style.paragraph("    ", &fathom_output::shown(line).to_string()))
        .collect();
    format!("  {}\n{}", style.bold(&head), lines.concat())
}

fn asked_or_failed(error: CutError) -> Error {
    match error {
        CutError::Usage(_) | CutError::Log { .. } => Error::usage(error),
        error => Error::failed(error),
    }
}

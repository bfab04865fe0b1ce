//! Experiment files: from the text to the order of the runs.

use fathom_fuzz::{Fuzz, mutate};
use fathom_lab::experiment::{Experiment, Selection, Vocabulary, builtin};
use fathom_lab::plan::{Machine, Plan};

const WORDS: &[&str] = &[
    "name",
    "title",
    "repeats",
    "seed",
    "timeout_s",
    "workload",
    "engine",
    "stack",
    "instruments",
    "matrix",
    "variants",
    "exclude",
    "quick",
    "headline",
    "figure",
    "id",
    "x",
    "y",
    "kind",
    "\"engine.journal_mode\"",
    "\"stack.filesystem\"",
    "\"stack.device\"",
    "\"workload.name\"",
    "update",
    "trace",
    "chat",
    "mobibench-sql",
    "sqlite",
    "ext4",
    "dir",
    "../x",
    "/dev/zero",
    "/dev/null",
    "/",
    "blocks",
    "optional",
    "label",
    "4 KiB",
    "1 GiB",
    "10 s",
    "1 h",
    "true",
    "false",
    "[matrix]",
    "[[figure]]",
    "[[exclude]]",
    "rows = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]",
    "image_mib",
    "mkfs",
    "mount",
    "model",
];

#[test]
fn experiments_are_planned_or_refused() {
    let target = Fuzz::new("experiments::experiments_are_planned_or_refused", 1_500).memory(64 << 20, 4000);
    let seeds: Vec<&str> = builtin().iter().map(|experiment| experiment.source).collect();
    assert!(seeds.len() > 5);
    let vocabulary = Vocabulary::here();
    // A matrix is a product: its cells are bounded by a number, not by the file's length.
    target.run(
        |random| {
            let seed = *random.pick(&seeds);
            let times = 1 + random.below(4);
            let text = mutate::text(random, seed, times, WORDS, &seeds);
            let length = text.len();
            ((text, random.below(2) == 0), length)
        },
        |(text, quick)| {
            let experiment = match Experiment::parse("mine.toml", text) {
                Ok(experiment) => experiment,
                Err(diagnostic) if diagnostic.to_string().trim().is_empty() => {
                    return Err("an error without words".into());
                }
                Err(_) => return Ok(()),
            };
            // Names and figure ids become names of files.
            let ids = experiment.figures.iter().map(|figure| figure.id.as_str());
            let is_path = |name: &&str| {
                name.is_empty()
                    || name.starts_with(['.', '-'])
                    || name.contains(|letter: char| !letter.is_ascii_graphic() || letter == '/')
            };
            if let Some(path) = ids.chain([experiment.name.as_str()]).find(is_path) {
                return Err(format!("{path:?} passes for a name"));
            }
            let selection = Selection { quick: *quick, ..Selection::default() };
            let Ok(cells) = experiment.cells(&selection, &vocabulary) else { return Ok(()) };
            let plan = Plan::new(&experiment, &cells, *quick, 7, &Machine::of(Vec::new()));
            if plan.cells.len() != cells.cells.len() {
                return Err(format!("{} cells of {}", plan.cells.len(), cells.cells.len()));
            }
            if plan.cells.len() * plan.repeats as usize <= 10_000 {
                let turns = plan.turns().len();
                let asked =
                    plan.cells.iter().filter(|cell| cell.skipped.is_none()).count() * plan.repeats as usize;
                if turns != asked {
                    return Err(format!("{turns} turns, not {asked}"));
                }
            }
            Ok(())
        },
    );
}

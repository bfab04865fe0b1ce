//! `fathom compare A B.db`: what changed, with intervals; `~` where nothing is proven. With
//! `--fail-if-slower` a gate.

use std::path::{Path, PathBuf};

use fathom_lab::analysis::{
    Analysis, Changes, Judgement, Quantity, Question, Side, apart, changes, is_baseline,
};
use fathom_output::{shown_path, tell};
use fathom_report::Comparison;

use crate::cli::Compare;
use crate::outcome::{Error, Outcome};

/// Prints the comparison. As a gate: 0 where nothing is slower than allowed, 1 where something is,
/// 2 where that cannot be told, whatever the reason: a file that is missing or damaged, or a full
/// disk, too.
pub fn run(asked: &Compare) -> super::Result {
    let is_gate = asked.fail_if_slower.is_some();
    let done = compare(asked).map_err(|error| match error {
        Error::Failed(message) if is_gate => Error::Usage(message),
        other => other,
    })?;
    match fathom_output::end() {
        // What could not be printed is nothing that is slower.
        Err(error) if is_gate && matches!(done, Outcome::Good) => {
            Err(Error::usage(format!("standard output: {error}")))
        }
        Err(error) => {
            tell!("error: standard output: {error}");
            Ok(done.or_failed())
        }
        Ok(()) => Ok(done),
    }
}

fn compare(asked: &Compare) -> super::Result {
    let inputs: [&Path; 2] = [&asked.a, &asked.b];
    let outputs = [("--html", asked.html.as_deref()), ("--junit", asked.junit.as_deref())];
    let printed = if asked.json { Some("--json") } else { asked.markdown.then_some("--markdown") };
    super::check_outputs(&outputs, printed, &inputs)?;
    let mut named = Vec::new();
    let sides = [side(&asked.a, &mut named)?, side(&asked.b, &mut named)?];
    let inputs = super::all_inputs(&inputs, &named);
    super::check_outputs(&outputs, printed, &inputs)?;
    let quantities =
        Quantity::ALL.into_iter().filter(|kind| asked.metric.iter().any(|name| name == kind.name()));
    let question =
        Question { quantities: quantities.collect(), phase: asked.phase.clone(), cell: asked.cell.clone() };
    let mut found = changes(&sides[0], &sides[1], &question).map_err(Error::usage)?;
    if fathom_output::is_same_file(&asked.a, &asked.b) {
        found.cautions.push("A and B are the same file: nothing can have changed".into());
    }
    if asked.fail_if_slower.is_some() && sides[1].started_ms < sides[0].started_ms {
        found.cautions.push(
            "A was measured after B, and A is the baseline: if the two were exchanged, what became slower counts as faster"
                .into(),
        );
    }
    if found.changes.is_empty() && asked.fail_if_slower.is_none() {
        return Err(Error::failed(why_nothing(asked, &sides, &found)));
    }
    let names = [&asked.a, &asked.b].map(|path| path.display().to_string());
    let compared = Comparison { names, sides, changes: found, allowed: asked.fail_if_slower };
    if let Some(file) = &asked.junit {
        super::write_text("--junit", file, &inputs, &compared.junit())?;
    }
    if let Some(file) = &asked.html {
        super::write_text("--html", file, &inputs, &compared.html())?;
    }
    // By people, and not by a program.
    let is_read = printed.is_none() && !super::takes_stdout(&outputs.map(|(_, file)| file));
    if asked.json {
        super::print_json(&compared.json())?;
    } else if asked.markdown {
        fathom_output::raw(&compared.markdown());
    } else if is_read {
        fathom_output::raw(&compared.terminal(&super::style()));
    }
    let judgement = compared.judged();
    for sentence in compared.decision() {
        // Why a command fails stands where errors do, whatever it prints.
        if judgement != Judgement::Fine {
            tell!("{sentence}");
        } else if is_read {
            fathom_output::raw(&format!("{sentence}\n"));
        }
    }
    Ok(match judgement {
        Judgement::Fine => Outcome::Good,
        Judgement::Slower => Outcome::Failed,
        Judgement::Unknown => Outcome::Usage,
    })
}

/// Why there is nothing to compare.
fn why_nothing(asked: &Compare, sides: &[Side; 2], found: &Changes) -> String {
    let names = format!("{} and {}", asked.a.display(), asked.b.display());
    let only = [("A", &found.only_a), ("B", &found.only_b)];
    let of_one = only.iter().find_map(|(which, titles)| Some((which, titles.first()?)));
    if let Some(lacking) = found.lacking.first() {
        format!("nothing to compare: {lacking}")
    } else if let Some(why) = apart(&sides[0], &sides[1]) {
        format!("{names} have no cell in common: {why}")
    } else if let Some((which, title)) = of_one {
        format!("nothing to compare: {which} alone has results of {title}")
    } else {
        format!("nothing to compare: A has not measured this phase in any cell that {names} have in common")
    }
}

/// A results file, or a baseline; `named` gets what the results name.
fn side(path: &Path, named: &mut Vec<PathBuf>) -> Result<Side, Error> {
    if is_baseline(path) {
        return Side::of_baseline(path).map_err(Error::failed);
    }
    // The first run of a gate, before anybody has made one.
    if path.extension().is_some_and(|end| end == "toml") && !path.exists() {
        return Err(Error::usage(format!(
            "{path}: there is no such baseline. Measure on the branch that is good, make one (`fathom baseline RESULTS.db --out {path}`), \
             and commit it",
            path = shown_path(path)
        )));
    }
    let results = super::load(path)?;
    named.extend(super::named_inputs(&results));
    let analysis = Analysis::of(&results).map_err(Error::failed)?;
    Ok(Side::of(&results, &analysis))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the first run of a gate was told that "there is no such results file", and
    /// not what makes a baseline.
    #[test]
    fn who_has_no_baseline_yet_is_told_how_to_make_one() {
        let place = tempfile::tempdir().unwrap();
        let told = |name: &str| side(&place.path().join(name), &mut Vec::new()).unwrap_err();
        let missing = told("fathom-baseline.toml");
        assert!(matches!(missing, Error::Usage(_)), "a gate ends with 2");
        assert!(missing.message().contains("`fathom baseline RESULTS.db --out "), "{missing:?}");
        assert!(told("new.db").message().contains("no such results file"));
    }
}

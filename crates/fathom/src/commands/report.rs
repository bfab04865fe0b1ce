//! `fathom report RESULTS.db`: tables, the HTML report, figures and exports.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use fathom_lab::store::Results;
use fathom_output::{EscapingWriter, shown_path, tell};

use crate::cli::Report;
use crate::outcome::{Error, Outcome};

/// Prints or writes what was asked for; without an option, the tables.
pub fn run(asked: &Report) -> super::Result {
    check_outputs(asked, &[&asked.results])?;
    super::tidy_up_on_signals()?;
    let results = super::load(&asked.results)?;
    let named = super::named_inputs(&results);
    let inputs = super::all_inputs(&[&asked.results], &named);
    check_outputs(asked, &inputs)?;
    let figures = figures_in(asked, &results)?;
    check_figures(asked, &figures, &inputs)?;
    // What is asked wrongly is told before anything is written.
    let drawn = asked.figure.as_deref().map(|id| figure(&results, id)).transpose()?;
    if (asked.blocks || asked.requests) && results.traces.is_empty() {
        return Err(Error::usage(format!(
            "{}: these results hold no block trace: run with `--set instruments.blocks=true`",
            fathom_output::shown_path(&asked.results)
        )));
    }
    if let Some(file) = &asked.html {
        super::write_html("--html", &results, file, &inputs)?;
        tell!("Report: {}", shown_path(file));
    }
    if let Some(file) = &asked.excerpt {
        super::write_excerpt("--excerpt", &results, file, &inputs)?;
        tell!("Excerpt: {}", shown_path(file));
    }
    // What was just written is not overwritten by the figure.
    let inputs: Vec<&Path> =
        inputs.into_iter().chain(asked.html.as_deref()).chain(asked.excerpt.as_deref()).collect();
    match (drawn, &asked.svg) {
        (Some(drawn), Some(file)) => {
            super::write_text("--svg", file, &inputs, &drawn)?;
            let id = asked.figure.as_deref().unwrap_or_default();
            tell!("Figure {id}: {}", shown_path(file));
        }
        (Some(drawn), None) => fathom_output::raw(&drawn),
        (None, Some(directory)) => {
            std::fs::create_dir_all(directory).map_err(|error| {
                Error::failed(format!("--svg {}: {error}", fathom_output::shown_path(directory)))
            })?;
            // All of them before the first is written.
            for (file, _) in &figures {
                super::check_unnamed("--svg", file, &inputs, fathom_report::SVG_MARK)?;
            }
            for (file, id) in figures {
                super::write_text("--svg", &file, &inputs, &figure(&results, &id)?)?;
                tell!("Figure {id}: {}", shown_path(&file));
            }
        }
        (None, None) => {}
    }
    if asked.csv || asked.json || asked.blocks || asked.requests {
        super::open_stdout()?;
    }
    let stdout = std::io::stdout().lock();
    // A person at a terminal is shown what it would obey; a program gets what is there.
    let out: &mut dyn Write =
        if stdout.is_terminal() { &mut EscapingWriter::new(stdout) } else { &mut { stdout } };
    if asked.blocks {
        fathom_report::blocks_csv(&results, out).map_err(Error::failed)?;
    } else if asked.requests && asked.json {
        fathom_report::requests_json(&results, out).map_err(Error::failed)?;
    } else if asked.requests {
        fathom_report::requests_csv(&results, out).map_err(Error::failed)?;
    } else if asked.csv {
        fathom_report::csv(&results, out).map_err(Error::failed)?;
    } else if asked.json {
        fathom_report::json(&results, asked.samples, out).map_err(Error::failed)?;
    } else if asked.html.is_none() && asked.excerpt.is_none() && asked.figure.is_none() && asked.svg.is_none()
    {
        let text = fathom_report::terminal(&results, &super::style()).map_err(Error::failed)?;
        fathom_output::raw(&text);
    }
    out.flush().map_err(|error| Error::failed(format!("standard output: {error}")))?;
    Ok(Outcome::Good)
}

/// The files of all figures, where a directory is named for them.
fn figures_in(asked: &Report, results: &Results) -> Result<Vec<(PathBuf, String)>, Error> {
    let Some(directory) = asked.svg.as_deref().filter(|_| asked.figure.is_none()) else {
        return Ok(Vec::new());
    };
    let figures = fathom_report::figures(results).map_err(Error::failed)?;
    Ok(figures.into_iter().map(|(id, _)| (directory.join(format!("{id}.svg")), id)).collect())
}

/// Says what is wrong with them before anything is written. A directory that is not there yet holds
/// nothing that could be.
fn check_figures(asked: &Report, figures: &[(PathBuf, String)], inputs: &[&Path]) -> Result<(), Error> {
    if !asked.svg.as_deref().is_some_and(Path::is_dir) {
        return Ok(());
    }
    for (file, _) in figures {
        super::check_unnamed("--svg", file, inputs, fathom_report::SVG_MARK)?;
        for (option, other) in [("--html", &asked.html), ("--excerpt", &asked.excerpt)] {
            if other.as_deref().is_some_and(|other| fathom_output::is_same_file(other, file)) {
                let file = shown_path(file);
                return Err(Error::usage(format!(
                    "{option} and --svg: both would write {file}: name another file"
                )));
            }
        }
    }
    Ok(())
}

fn figure(results: &Results, id: &str) -> Result<String, Error> {
    fathom_report::figure_svg(results, id).map_err(|error| match error {
        fathom_report::ReportError::NoSuchFigure { .. } => Error::usage(error),
        other => Error::failed(other),
    })
}

/// Says what is wrong with the outputs before any of them is written.
fn check_outputs(asked: &Report, inputs: &[&Path]) -> Result<(), Error> {
    let figure = asked.svg.as_deref().filter(|_| asked.figure.is_some());
    let files =
        [("--html", asked.html.as_deref()), ("--excerpt", asked.excerpt.as_deref()), ("--svg", figure)];
    super::check_outputs(&files, None, inputs)?;
    let mut to_stdout = Vec::new();
    for (option, path) in [("--html", &asked.html), ("--excerpt", &asked.excerpt), ("--svg", &asked.svg)] {
        let Some(path) = path else { continue };
        if fathom_output::is_standard_output(path) {
            to_stdout.push(option);
        }
        // Without --figure, --svg names a directory.
        let is_directory = option == "--svg" && asked.figure.is_none();
        if is_directory && (path.exists() && !path.is_dir() || path.as_os_str() == "-") {
            return Err(Error::usage(format!(
                "--svg {}: no directory: name one for all figures, or with --figure ID a file for that one",
                fathom_output::shown_path(path)
            )));
        }
    }
    if asked.figure.is_some() && asked.svg.is_none() {
        to_stdout.push("--figure");
    }
    let data = [
        ("--csv", asked.csv),
        ("--json", asked.json),
        ("--blocks", asked.blocks),
        ("--requests", asked.requests),
    ];
    to_stdout.extend(data.iter().filter(|(_, is_asked)| *is_asked).map(|(option, _)| *option));
    // `--requests --json` is one output.
    let several = to_stdout.iter().filter(|option| !(asked.requests && **option == "--json")).count() > 1;
    let is_whole = |option: &&str| matches!(*option, "--html" | "--excerpt" | "--svg" | "--figure");
    if several && to_stdout.iter().any(is_whole) {
        return Err(Error::usage(format!(
            "{}: both would go to standard output; name a file for one",
            to_stdout.join(" and ")
        )));
    }
    Ok(())
}

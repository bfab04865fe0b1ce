//! `fathom report RESULTS.db`: tables, the HTML report, figures and exports.

use std::io::Write;
use std::path::Path;

use fathom_lab::store::Results;

use crate::cli::Report;
use crate::outcome::{Error, Outcome};

/// Prints or writes what was asked for; without an option, the tables.
pub fn run(asked: &Report) -> super::Result {
    let results = super::load(&asked.results)?;
    if let Some(file) = &asked.html {
        super::write_html(&results, file)?;
        eprintln!("Report: {}", file.display());
    }
    match (&asked.figure, &asked.svg) {
        (Some(id), Some(file)) => {
            write_text(file, &figure(&results, id)?)?;
            eprintln!("Figure {id}: {}", file.display());
        }
        (Some(id), None) => print!("{}", figure(&results, id)?),
        (None, Some(directory)) => {
            std::fs::create_dir_all(directory)
                .map_err(|error| Error::failed(format!("{}: {error}", directory.display())))?;
            for (id, _) in fathom_report::figures(&results).map_err(Error::failed)? {
                let file = directory.join(format!("{id}.svg"));
                write_text(&file, &figure(&results, &id)?)?;
                eprintln!("Figure {id}: {}", file.display());
            }
        }
        (None, None) => {}
    }
    let out = &mut std::io::stdout().lock();
    if (asked.blocks || asked.requests) && results.traces.is_empty() {
        return Err(Error::asked(format!(
            "{}: these results hold no block trace: run with `--set instruments.blocks=true`",
            asked.results.display()
        )));
    }
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
    } else if asked.html.is_none() && asked.figure.is_none() && asked.svg.is_none() {
        let text = fathom_report::terminal(&results, &super::style()).map_err(Error::failed)?;
        out.write_all(text.as_bytes()).map_err(Error::failed)?;
    }
    Ok(Outcome::Good)
}

fn figure(results: &Results, id: &str) -> Result<String, Error> {
    fathom_report::figure_svg(results, id).map_err(|error| match error {
        fathom_report::ReportError::NoSuchFigure { .. } => Error::asked(error),
        other => Error::failed(other),
    })
}

fn write_text(file: &Path, text: &str) -> Result<(), Error> {
    fathom_report::write_whole(file, |out| Ok(out.write_all(text.as_bytes())?)).map_err(Error::failed)
}

//! `fathom papers`: the page of the papers, printed from published data.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fathom_output::{say, shown_path, tell};
use fathom_report::{Papers, PapersError, PrintedPage};

use crate::cli::PapersArgs;
use crate::outcome::{Error, Outcome};

/// Prints, writes or checks the page; with `--with` says which verdicts come out again.
pub fn run(asked: &PapersArgs) -> super::Result {
    let mut papers = Papers::load(&asked.source).map_err(refused)?;
    if asked.list {
        for (name, dataset) in papers.datasets() {
            say!("{name}\n  {}\n  {}", dataset.file, dataset.command());
        }
        for (name, simulated) in papers.simulated() {
            say!("{name}\n  {}\n  {}", simulated.files.join(" "), simulated.command);
        }
        return Ok(Outcome::Good);
    }
    let printed = papers.print().map_err(refused)?;
    if !asked.with.is_empty() {
        let mut names = BTreeSet::new();
        for pair in &asked.with {
            let (name, results) = pair.split_once('=').ok_or_else(|| {
                Error::usage(format!("--with {pair}: name a data set and its new results: NAME=RESULTS.db"))
            })?;
            papers.replace(name, Path::new(results)).map_err(refused)?;
            names.insert(name);
        }
        let judged = names.iter().map(|name| papers.judged_by(name)).sum();
        return again(&printed, &papers.print().map_err(refused)?, &names, judged);
    }
    match (&asked.out, &asked.check) {
        (Some(out), None) => write(&printed, out, &asked.source),
        (None, Some(page)) => check(&printed, page),
        _ => {
            fathom_output::raw(&printed.page);
            Ok(Outcome::Good)
        }
    }
}

/// The files of a page that is kept as `page`: itself and its figures.
fn files<'a>(printed: &'a PrintedPage, page: &Path) -> Vec<(PathBuf, &'a str)> {
    let beside = page.parent().unwrap_or(Path::new("")).join("figures");
    let mut files = vec![(page.to_path_buf(), printed.page.as_str())];
    files.extend(printed.figures.iter().map(|(name, svg)| (beside.join(name), svg.as_str())));
    files
}

fn write(printed: &PrintedPage, out: &Path, source: &Path) -> super::Result {
    let sources = [source.join("page.md")];
    let inputs: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
    let files = files(printed, out);
    super::check_output("--out", out, &inputs)?;
    if let Some((figure, _)) = files.get(1)
        && let Some(directory) = figure.parent()
    {
        std::fs::create_dir_all(directory)
            .map_err(|error| Error::failed(format!("--out {}: {error}", shown_path(directory))))?;
    }
    // All of them before the first is written.
    for (file, _) in &files {
        super::check_output("--out", file, &inputs)?;
    }
    for (file, text) in files {
        super::write_text("--out", &file, &inputs, text)?;
        tell!("{}", shown_path(&file));
    }
    Ok(Outcome::Good)
}

/// Says where the page that is kept is not what the data print.
fn check(printed: &PrintedPage, page: &Path) -> super::Result {
    let mut differs = false;
    for (file, text) in files(printed, page) {
        let kept = match std::fs::read_to_string(&file) {
            Ok(kept) => kept,
            Err(error) => {
                differs = true;
                tell!("{}: {error}", shown_path(&file));
                continue;
            }
        };
        if kept == text {
            continue;
        }
        differs = true;
        let mut lines = kept.lines().zip(text.lines()).enumerate();
        match lines.find(|(_, (kept, printed))| kept != printed) {
            Some((number, (kept, printed))) => tell!(
                "{}:{}: is not what the data print\n  there:   {kept}\n  printed: {printed}",
                shown_path(&file),
                number + 1
            ),
            None => tell!("{}: is not what the data print: one ends before the other", shown_path(&file)),
        }
    }
    match differs {
        false => Ok(Outcome::Good),
        true => {
            tell!("`fathom papers --out {}` prints it anew", shown_path(page));
            Ok(Outcome::Failed)
        }
    }
}

/// Lists every verdict of the published data beside that of the new, by which so many are judged.
/// Of rows that the new data sets measured the numbers of both stand below.
fn again(published: &PrintedPage, new: &PrintedPage, names: &BTreeSet<&str>, judged: usize) -> super::Result {
    let (mut changed, mut others) = (0, 0);
    for (before, now) in published.findings.iter().zip(&new.findings) {
        let is_same = before.verdict == now.verdict;
        let is_other = now.is_another_number(before);
        changed += usize::from(!is_same);
        others += usize::from(is_other);
        let mark = match (is_same, is_other) {
            (false, _) => "!",
            (true, true) => "~",
            (true, false) => " ",
        };
        let was = if is_same { String::new() } else { format!("  (published: {})", before.verdict) };
        say!("{mark} {}: {}: {}{was}", now.table, now.finding, now.verdict);
        if now.data.as_deref().is_some_and(|data| names.contains(data)) {
            say!("    {}  (published: {})", now.measured, before.measured);
        }
    }
    say!(
        "{} verdicts, {judged} of them by the new results; {changed} of them another than the published (!), and of {others} \
         findings the number, whatever the verdict (~ or !): the intervals share nothing, or one of them holds 1 and the \
         other does not",
        published.findings.len()
    );
    Ok(if changed == 0 { Outcome::Good } else { Outcome::Failed })
}

/// What cannot be read has failed; what is not understood was asked wrongly.
fn refused(error: PapersError) -> Error {
    match error {
        PapersError::Unreadable { .. } | PapersError::Data { .. } => Error::failed(error),
        other => Error::usage(other),
    }
}

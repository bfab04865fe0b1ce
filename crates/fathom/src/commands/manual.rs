//! `fathom completions` and `fathom man`: what a shell and `man` know of the command line, made
//! from the command line itself.

use std::path::Path;

use clap::CommandFactory;
use fathom_output::say;

use crate::cli::Cli;
use crate::outcome::{Error, Outcome};

/// Prints the completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> super::Result {
    let mut text = Vec::new();
    let mut command = without_hidden(&Cli::command()).version(env!("CARGO_PKG_VERSION"));
    clap_complete::generate(shell, &mut command, "fathom", &mut text);
    print(text)
}

/// A command with what people are to know of it: shells are told hidden commands and options, too.
fn without_hidden(whole: &clap::Command) -> clap::Command {
    // Clap's names live as long as the process, which ends when these are printed.
    let name: &'static str = whole.get_name().to_owned().leak();
    clap::Command::new(name)
        .about(whole.get_about().cloned().unwrap_or_default())
        .args(whole.get_arguments().filter(|argument| !argument.is_hide_set()).cloned())
        .subcommands(whole.get_subcommands().filter(|inner| !inner.is_hide_set()).map(without_hidden))
}

/// Prints the manual page of `fathom`, or writes one for each command into a directory.
pub fn man(directory: Option<&Path>) -> super::Result {
    let command = built();
    let Some(directory) = directory else { return print(page(&command)?) };
    if !directory.is_dir() {
        let directory = fathom_output::shown_path(directory);
        return Err(Error::usage(format!("--out {directory}: no directory; make it first")));
    }
    let mut pages = Vec::new();
    collect(&command, &mut pages)?;
    // All names are looked at before the first file is made.
    for (name, _) in &pages {
        super::check_unnamed("--out", &directory.join(name), &[], MARK)?;
    }
    for (name, text) in &pages {
        super::write_text("--out", &directory.join(name), &[], text)?;
    }
    say!(
        "{} pages in {}      man -l {}",
        pages.len(),
        fathom_output::shown_path(directory),
        fathom_output::shown_path(&directory.join("fathom.1"))
    );
    Ok(Outcome::Good)
}

/// What shows that a file is a page of ours.
const MARK: &str = ".TH fathom";

/// The whole command line with the names that its pages have: `fathom-stack-up`.
fn built() -> clap::Command {
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    command
}

/// A command's page and those of its subcommands, by file name.
fn collect(command: &clap::Command, pages: &mut Vec<(String, String)>) -> Result<(), Error> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let text = String::from_utf8(page(command)?).map_err(Error::failed)?;
    pages.push((format!("{name}.1"), text));
    for inner in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        collect(inner, pages)?;
    }
    Ok(())
}

/// The page of one command. It ends with the release, in the place of which a subcommand has its
/// own name otherwise.
fn page(command: &clap::Command) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let mut command = command.clone();
    let is_whole = command.get_name() == "fathom";
    // Of what stands below the whole command each line is one by itself, and `man` makes one
    // paragraph of all that begin with no blank.
    let below = command.get_after_help().map(|help| help.to_string().replace('\n', "\n "));
    if let Some(below) = below.filter(|_| is_whole) {
        command = command.after_help(below);
    }
    let page = clap_mangen::Man::new(command)
        // An empty one is not quoted, and the release would stand in its place.
        .date(" ")
        .source(concat!("fathom ", env!("CARGO_PKG_VERSION")))
        .manual("Fathom");
    page.render(&mut text).map_err(Error::failed)?;
    text.extend_from_slice(super::variables::section(is_whole).as_bytes());
    Ok(text)
}

fn print(text: Vec<u8>) -> super::Result {
    fathom_output::raw(&String::from_utf8(text).map_err(Error::failed)?);
    Ok(Outcome::Good)
}

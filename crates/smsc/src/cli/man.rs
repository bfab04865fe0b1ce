//! `smsc man`: the manual pages, made from the command line itself.

use super::wrong::Wrong;
use clap::{Args, Command};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

/// What shows that a file is a page of ours.
const MARK: &str = ".TH smsc";

/// Print the manual page of smsc, or write one for each command into a directory.
#[derive(Args)]
pub struct Man {
    /// Directory for smsc.1, smsc-serve.1 and so on; it must be there.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

impl Man {
    /// Prints or writes the pages of `command`.
    pub fn run(&self, command: Command) -> Result<bool, Box<dyn Error>> {
        let mut command = command.disable_help_subcommand(true);
        command.build();
        let Some(directory) = &self.out else {
            std::io::stdout().write_all(&page(&command)?)?;
            return Ok(true);
        };
        if !directory.is_dir() {
            return Err(Wrong(format!("--out {}: no directory; make it first", directory.display())).into());
        }
        let mut pages = vec![("smsc.1".to_owned(), page(&command)?)];
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            let name = inner.get_display_name().unwrap_or(inner.get_name());
            pages.push((format!("{name}.1"), page(inner)?));
        }
        // All names are looked at before the first file is made.
        for (name, _) in &pages {
            let checked = fathom_output::check_unnamed(&directory.join(name), &[], MARK);
            checked.map_err(|error| Wrong(format!("--out: {error}")))?;
        }
        for (name, text) in &pages {
            let fill = |out: &mut dyn Write| {
                out.write_all(text)?;
                Ok::<_, Box<dyn Error>>(())
            };
            fathom_output::write(&directory.join(name), &[], fathom_output::Access::Public, fill)?;
        }
        tell!("{} pages in {}", pages.len(), directory.display());
        Ok(true)
    }
}

/// The page of one command.
fn page(command: &clap::Command) -> Result<Vec<u8>, std::io::Error> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

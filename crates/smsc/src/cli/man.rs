//! `smsc man`: the manual pages, made from the command line itself.

use super::wrong::Wrong;
use clap::{Args, Command};
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;

/// What shows that a file is a page of ours.
const MARK: &str = ".TH smsc";

/// The variables of the environment that smsc reads, each with what it is for.
const VARIABLES: [(&str, &str); 5] = [
    ("SMSC_PASSWORD", "the password of the account that smsc load logs in with"),
    ("REDISCLI_AUTH", "the password of a Redis Cluster, where the store's URL has none"),
    ("PGPASSWORD", "the password of a PostgreSQL server, where the store's URL has none"),
    ("PGPASSFILE", "a file of passwords of PostgreSQL servers in the place of .pgpass in your home"),
    ("TMPDIR", "where smsc check copies a store, to look at the copy, in the place of /tmp"),
];

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
    text.extend_from_slice(environment(command.get_name() == "smsc").as_bytes());
    Ok(text)
}

/// The section of the environment: on the page of smsc itself all, on others where that is.
fn environment(is_whole: bool) -> String {
    let mut text = ".SH ENVIRONMENT\n".to_owned();
    if !is_whole {
        text.push_str("The variables are on the page smsc(1).\n");
        return text;
    }
    for (name, purpose) in VARIABLES {
        for part in [".TP\n\\fB", name, "\\fR\n", purpose, "\n"] {
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// The variables that the files below a directory read.
    fn read(directory: &Path, found: &mut Vec<String>) {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                read(&path, found);
                continue;
            }
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            for call in ["env::var(\"", "env::var_os(\""] {
                let named = code.split(call).skip(1).filter_map(|rest| rest.split('"').next());
                found.extend(named.map(str::to_owned));
            }
            if code.contains("env::temp_dir()") {
                found.push("TMPDIR".into());
            }
        }
    }

    /// What happened: the manual pages named no variable but, in passing, `SMSC_PASSWORD`.
    #[test]
    fn each_variable_that_is_read_is_told_here_and_in_the_guide() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut found = Vec::new();
        read(&crates.join("smsc/src"), &mut found);
        read(&crates.join("postgresql-server/src/connection"), &mut found);
        assert!(found.iter().any(|name| name == "PGPASSWORD"), "{found:?}");
        let page = environment(true);
        // PATH finds programs, as everywhere.
        let is_told = |name: &String| name == "PATH" || page.contains(&format!("\\fB{name}\\fR\n"));
        assert!(found.iter().all(is_told), "read, and in no manual page: {found:?}");
        let guide: String = ["../docs/smsc-serve.md", "../docs/redis-cluster.md", "smsc/README.md"]
            .map(|page| std::fs::read_to_string(crates.join(page)).unwrap())
            .concat();
        let untold: Vec<&str> =
            VARIABLES.iter().map(|(name, _)| *name).filter(|name| !guide.contains(*name)).collect();
        assert_eq!(untold, Vec::<&str>::new());
    }
}

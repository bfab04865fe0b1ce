//! The experiment that is run: a built-in one, or a file.

use std::io::Read;
use std::path::Path;

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_lab::experiment;

use crate::outcome::Error;

/// The largest experiment file, octets: a device, or a pipe that never ends, is not read for ever.
/// Those that come with Fathom have 10 KiB at most.
const EXPERIMENT_MAX: u64 = 4 << 20;
/// What every SQLite database begins with, and so results do.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// A built-in experiment by name, or a file: what looks like a path or exists is a file.
pub(super) fn read_source(name: &str) -> Result<(String, String), Error> {
    if let Some(builtin) = experiment::builtin_named(name) {
        return Ok(("built-in".into(), builtin.source.into()));
    }
    let path = Path::new(name);
    if !path.exists() && !name.contains('/') && path.extension().is_none() {
        let names = experiment::builtin().iter().map(|builtin| builtin.name);
        let hint = did_you_mean(nearest(name, names));
        return Err(Error::usage(format!(
            "no built-in experiment and no file is called \"{name}\"{hint}\n`fathom list experiments` shows what there is"
        )));
    }
    let mut text = Vec::new();
    let file =
        std::fs::File::open(path).and_then(|file| file.take(EXPERIMENT_MAX + 1).read_to_end(&mut text));
    file.map_err(|error| Error::usage(format!("{name}: {error}")))?;
    if text.len() as u64 > EXPERIMENT_MAX {
        let most = EXPERIMENT_MAX >> 20;
        return Err(Error::usage(format!("{name}: it has more than {most} MiB, and so is no experiment")));
    }
    if text.starts_with(DATABASE) {
        return Err(Error::usage(format!(
            "{name}: a database, not an experiment file; results are gone on with by naming their experiment \
             again: `fathom run NAME --out {name} --resume`"
        )));
    }
    let text =
        String::from_utf8(text).map_err(|error| Error::usage(format!("{name}: not a text file: {error}")))?;
    Ok((name.into(), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: `fathom run --resume results.db`, where the experiment is to be named, was
    /// told of an "invalid utf-8 sequence of 1 bytes from index 98".
    #[test]
    fn results_in_the_place_of_an_experiment_are_told_as_such() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("results.db");
        std::fs::write(&path, [DATABASE, &[0x10, 0xff, 0x80]].concat()).unwrap();
        let error = read_source(path.to_str().unwrap()).unwrap_err().message().to_owned();
        assert!(error.contains("a database, not an experiment file"), "{error}");
        assert!(error.contains("--out") && error.contains("--resume"), "{error}");
    }
}

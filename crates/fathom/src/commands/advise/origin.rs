//! What a file of recordings was made for: by the command that stands in it.

use std::path::{Path, PathBuf};

use clap::Parser;
use fathom_device::Model;
use fathom_lab::advise::Candidate;
use fathom_lab::remote::file_hash;
use fathom_lab::store::Results;
use fathom_output::shown_path;
use fathom_workload::spec::Durability;

use super::super::{quoted, record, simulate};
use super::durability::{is_whole, must, word_of};
use super::recorded::promise_of;
use crate::cli::{Advise, Cli, Command};

/// A recording of `fathom advise`.
pub struct Origin {
    /// As it was asked.
    pub asked: Advise,
    /// What the application had, which is recorded first.
    pub baseline: Candidate,
    /// Devices that the settings were chosen for, by name.
    devices: Vec<String>,
    /// When it began, ms since 1970.
    started_ms: i64,
    /// The trace, or the profile of one that was made up.
    trace: PathBuf,
    /// SHA-256 of the trace, where the results say it.
    hash: Option<String>,
}

impl Origin {
    /// Of results; none where they are not those of `fathom advise`.
    pub fn of(results: &Results) -> Option<Origin> {
        let words = shlex::split(&results.experiment.command)?;
        let Command::Advise(asked) = Cli::try_parse_from(words).ok()?.command else { return None };
        let first = results.cells.first()?;
        let devices = simulate::devices(&asked.device).ok()?.into_iter().map(|model| model.name).collect();
        let file = first.spec.workload.params.get("file").and_then(serde_json::Value::as_str);
        // What was made up lay in a directory that is gone.
        let is_made_up = fathom_trace::synthesise::profile(&asked.input.to_string_lossy()).is_ok()
            && file.is_none_or(|file| !Path::new(file).exists());
        let trace = if is_made_up { asked.input.clone() } else { PathBuf::from(file?) };
        Some(Origin {
            baseline: Candidate::of(first.spec.engine.as_ref()?)?,
            devices,
            started_ms: results.experiment.started_ms,
            trace,
            hash: record::trace_hash(results).map(str::to_owned),
            asked,
        })
    }

    /// What had to be kept.
    fn must(&self, results: &Results) -> Durability {
        must(&self.asked, promise_of(results, &self.baseline))
    }

    /// Whether the settings were chosen for this question.
    pub fn answers(
        &self,
        results: &Results,
        must: Durability,
        baseline: &Candidate,
        devices: &[Model],
    ) -> bool {
        self.must(results) == must
            && self.baseline == *baseline
            && devices.iter().all(|model| self.devices.contains(&model.name))
    }

    /// What it was made for, in words.
    pub fn words(&self, results: &Results) -> String {
        let on = match self.devices.len() {
            1..=4 => self.devices.join(", "),
            all => format!("{all} devices"),
        };
        format!("{} on {on}", word_of(self.must(results)))
    }

    /// What is asked, of the trace. What the application had when it was recorded it has still, but
    /// for what is said to be other now.
    pub fn again(&self, asked: &Advise, trace: &Path) -> Advise {
        let key = |word: &str| word.split('=').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_said = |word: &str| asked.now.iter().any(|other| key(other) == key(word));
        let own = self.asked.now.iter().filter(|word| !is_said(word));
        let now = own.chain(&asked.now).cloned().collect();
        let each_file = self.asked.each_file || asked.each_file;
        Advise { input: trace.to_owned(), fs: self.asked.fs.clone(), now, each_file, ..asked.clone() }
    }

    /// The trace, where what is missing can be recorded here.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn trace(&self) -> Result<&Path, String> {
        if let Some(machine) = &self.asked.on {
            return Err(format!("it was recorded on {machine}"));
        }
        let shown = shown_path(&self.trace);
        if fathom_trace::synthesise::profile(&self.trace.to_string_lossy()).is_err() {
            let file = std::fs::metadata(&self.trace)
                .map_err(|_| format!("its trace is not at {shown} any more"))?;
            if self.has_changed(&file) {
                return Err(format!("{shown} has changed since it was recorded"));
            }
        }
        match record::why_not_here() {
            Some(why) => Err(why),
            None => Ok(&self.trace),
        }
    }

    /// Whether other settings may be named now than then, of an application whose transactions may
    /// be over several files.
    pub fn is_asked_otherwise(&self, asked: &Advise) -> bool {
        let each_file = self.asked.each_file || asked.each_file;
        let again = Advise { each_file, ..asked.clone() };
        each_file != self.asked.each_file || is_whole(&again, true) != is_whole(&self.asked, true)
    }

    /// Whether a connection of the application had several files at a time; none where its trace is
    /// gone, or another one by now.
    pub fn over_files(&self) -> Option<bool> {
        // What is made up has one file.
        if fathom_trace::synthesise::profile(&self.trace.to_string_lossy()).is_ok() {
            return Some(false);
        }
        let file = std::fs::metadata(&self.trace).ok().filter(std::fs::Metadata::is_file)?;
        if self.has_changed(&file) {
            return None;
        }
        Some(fathom_trace::info::info(&self.trace).ok()?.files_at_once > 1)
    }

    /// By what is in it; by its time alone where nothing else is known of it.
    fn has_changed(&self, file: &std::fs::Metadata) -> bool {
        let written = file.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let is_older =
            written.is_some_and(|at| at.as_millis() <= u128::from(self.started_ms.cast_unsigned()));
        match &self.hash {
            Some(hash) => !file_hash(&self.trace).is_ok_and(|now| now == *hash),
            None => !is_older,
        }
    }

    /// The command that records what is missing: of the same file systems, and of an application
    /// that has the same now. What must be kept is said where it was said: that all is to be kept
    /// asks more than what an application has that promises all.
    pub fn command(&self, asked: &Advise) -> String {
        let asked = self.again(asked, &self.trace);
        let mut words = vec!["fathom advise".to_owned(), quoted(&self.trace.to_string_lossy())];
        words.extend(asked.device.iter().map(|device| format!("--device {}", quoted(device))));
        words.extend(asked.fs.iter().map(|filesystem| format!("--fs {}", quoted(filesystem))));
        words.extend(asked.now.iter().map(|setting| format!("--now {}", quoted(setting))));
        words.extend(asked.each_file.then(|| "--each-file".to_owned()));
        words.extend(asked.must.map(|must| format!("--must {}", word_of(must))));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(words: &[&str]) -> Advise {
        let words = [&["fathom", "advise"][..], words].concat();
        match Cli::try_parse_from(words).unwrap().command {
            Command::Advise(asked) => asked,
            _ => panic!("it is advise"),
        }
    }

    /// What happened: recordings on vfat of an application that has WAL/NORMAL named a command that
    /// asks of ext4, and of an application with SQLite's defaults. And `--now synchronous=full`
    /// made of that application one that has DELETE/FULL, where its recordings were asked as
    /// WAL/FULL.
    #[test]
    fn the_command_that_compares_all_asks_the_same_question() {
        let origin = Origin {
            asked: asked(&["app.trace", "--fs", "vfat", "--now", "journal_mode=wal,synchronous=normal"]),
            baseline: Candidate::new("wal", "normal"),
            devices: Vec::new(),
            started_ms: 0,
            trace: "/x/app.trace".into(),
            hash: None,
        };
        let of = |words: &[&str]| {
            let command = origin.command(&asked(words));
            command.strip_prefix("fathom advise ").and_then(shlex::split).unwrap().join(" ")
        };
        assert_eq!(
            of(&["recorded.db", "--device", "sd-slow", "--must", "all"]),
            "/x/app.trace --device sd-slow --fs vfat --now journal_mode=wal --now synchronous=normal --must keep=all"
        );
        assert_eq!(
            of(&["recorded.db", "--now", "synchronous=full"]),
            "/x/app.trace --fs vfat --now journal_mode=wal --now synchronous=full"
        );
    }

    /// What happened: recordings of an application with attached databases, for which WAL was not
    /// tried, answered with `--each-file` as without it: the settings that it allows were not among
    /// them, and nothing said so.
    #[test]
    fn what_each_file_and_must_ask_of_several_files_is_another_question() {
        let is_otherwise = |then: &[&str], now: &[&str]| {
            let origin = Origin {
                asked: asked(&[&["app.trace"], then].concat()),
                baseline: Candidate::new("wal", "full"),
                devices: Vec::new(),
                started_ms: 0,
                trace: "/x/app.trace".into(),
                hash: None,
            };
            origin.is_asked_otherwise(&asked(&[&["recorded.db"], now].concat()))
        };
        assert!(is_otherwise(&[], &["--each-file"]) && is_otherwise(&[], &["--must", "all"]));
        assert!(!is_otherwise(&[], &[]) && !is_otherwise(&["--must", "all"], &["--must", "all"]));
        assert!(!is_otherwise(&["--each-file"], &["--must", "all"]), "it was allowed then");
    }
}

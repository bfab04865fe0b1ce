//! The page's sources: a directory with `page.md`, `*.toml` and published data.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::PapersError;
use super::dataset::{Dataset, Datasets, Source as DatasetSource};
use super::finding::Finding;
use super::simulated::Simulated;

/// The page's sources, read.
#[derive(Debug)]
pub struct Papers {
    pub(super) directory: PathBuf,
    pub(super) page: String,
    pub(super) datasets: Datasets,
    pub(super) findings: Vec<Finding>,
    /// Exports of simulated runs by name.
    pub(super) simulated: BTreeMap<String, SimulatedExports>,
}

/// What a file `*.toml` of the directory holds.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    #[serde(default)]
    data: BTreeMap<String, DatasetSource>,
    #[serde(default)]
    finding: Vec<Finding>,
    #[serde(default)]
    simulated: BTreeMap<String, SimulatedSource>,
}

/// Exports of `fathom simulate --json` under one name.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct SimulatedSource {
    /// The files, beside the source.
    files: Vec<String>,
    /// What made them.
    #[serde(default)]
    command: String,
}

/// Published exports of simulated runs, and what made them.
#[derive(Debug)]
pub struct SimulatedExports {
    /// The files, beside the page's sources.
    pub files: Vec<String>,
    /// The commands.
    pub command: String,
    pub(super) exports: Simulated,
}

impl Papers {
    /// Reads a directory with `page.md`, `*.toml` and the excerpts that these name.
    ///
    /// # Errors
    /// What is missing or not understood, with file and line.
    pub fn load(directory: &Path) -> Result<Papers, PapersError> {
        let text = |path: &Path| {
            std::fs::read_to_string(path)
                .map_err(|source| PapersError::Unreadable { path: path.to_path_buf(), source })
        };
        let page = text(&directory.join("page.md"))?;
        let entries = std::fs::read_dir(directory)
            .map_err(|source| PapersError::Unreadable { path: directory.to_path_buf(), source })?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
            .collect();
        files.sort();
        let mut datasets = Datasets::default();
        let mut findings = Vec::new();
        let mut simulated = BTreeMap::new();
        for file in files {
            let source = text(&file)?;
            let parsed: Source =
                toml::from_str(&source).map_err(|error| PapersError::of_toml(&file, &source, &error))?;
            for (name, described) in parsed.data {
                let dataset = Dataset::load(&name, described, directory)?;
                if !datasets.add(dataset) {
                    return Err(PapersError::Twice { path: file, name });
                }
            }
            for (name, exports) in parsed.simulated {
                let paths: Vec<PathBuf> = exports.files.iter().map(|file| directory.join(file)).collect();
                let read = Simulated::read(&paths)
                    .map_err(|problem| PapersError::Choice { name: name.clone(), problem })?;
                let SimulatedSource { files, command } = exports;
                let found = SimulatedExports { files, command, exports: read };
                if simulated.insert(name.clone(), found).is_some() {
                    return Err(PapersError::Twice { path: file, name });
                }
            }
            findings.extend(parsed.finding.into_iter().map(|finding| finding.of(&file)));
        }
        Ok(Papers { directory: directory.to_path_buf(), page, datasets, findings, simulated })
    }

    /// The data sets by name.
    #[must_use]
    pub fn datasets(&self) -> &BTreeMap<String, Dataset> {
        self.datasets.all()
    }

    /// Exports of simulated runs by name. Nothing is judged by them.
    #[must_use]
    pub fn simulated(&self) -> &BTreeMap<String, SimulatedExports> {
        &self.simulated
    }

    /// How many findings are judged by ratios of a data set. None are by what a CSV file counts or
    /// a document quotes, nor where the verdict is stated.
    #[must_use]
    pub fn judged_by(&self, name: &str) -> usize {
        let is_judged =
            |finding: &&Finding| finding.verdict.is_none() && finding.data.as_deref() == Some(name);
        self.findings.iter().filter(is_judged).count()
    }

    /// Puts other results in the place of a data set's, to see whether its verdicts come out again.
    ///
    /// # Errors
    /// A name that no data set has; results that cannot be read.
    pub fn replace(&mut self, name: &str, results: &Path) -> Result<(), PapersError> {
        self.datasets.replace(name, results)
    }
}

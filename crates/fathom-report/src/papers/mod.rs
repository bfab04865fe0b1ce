//! The page that puts each paper's finding beside what was measured here, printed from published
//! data.
//!
//! A directory holds three kinds of files. `page.md` is the page with *directives* in double braces
//! where numbers stand ([`page`]). Files `*.toml` name the *data sets*, excerpts of results with
//! the commands that measured them, and the *findings* of a paper, each with the paper's words, the
//! band of values that would bear them out, and the ratio that is to lie in it ([`finding`]).
//! Everything that the page says in numbers is computed here by the laboratory's own estimators, so
//! that a number cannot outlive its data, and a verdict cannot outlive its number ([`verdict`]).

mod dataset;
mod directive;
mod error;
mod finding;
mod page;
mod select;
mod verdict;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use dataset::Dataset;
pub use error::PapersError;
pub use verdict::Verdict;

use finding::Finding;

/// The page's sources, read.
#[derive(Debug)]
pub struct Papers {
    directory: PathBuf,
    page: String,
    datasets: BTreeMap<String, Dataset>,
    findings: Vec<Finding>,
}

/// What a page consists of.
#[derive(Debug)]
pub struct PrintedPage {
    /// The page, Markdown.
    pub page: String,
    /// Its figures: name of the file, SVG.
    pub figures: Vec<(String, String)>,
    /// Every finding with its verdict, in the order of the page: table, finding, verdict.
    pub verdicts: Vec<(String, String, Verdict)>,
}

/// What a file `*.toml` of the directory holds.
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Source {
    #[serde(default)]
    data: BTreeMap<String, dataset::Source>,
    #[serde(default)]
    finding: Vec<Finding>,
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
        let mut datasets = BTreeMap::new();
        let mut findings = Vec::new();
        for file in files {
            let source = text(&file)?;
            let parsed: Source =
                toml::from_str(&source).map_err(|error| PapersError::of_toml(&file, &source, &error))?;
            for (name, described) in parsed.data {
                let dataset = Dataset::load(&name, described, directory)?;
                if datasets.insert(name.clone(), dataset).is_some() {
                    return Err(PapersError::Twice { path: file, name });
                }
            }
            findings.extend(parsed.finding.into_iter().map(|finding| finding.of(&file)));
        }
        Ok(Papers { directory: directory.to_path_buf(), page, datasets, findings })
    }

    /// The data sets by name.
    #[must_use]
    pub fn datasets(&self) -> &BTreeMap<String, Dataset> {
        &self.datasets
    }

    /// Puts other results in the place of a data set's, to see whether its verdicts come out again.
    ///
    /// # Errors
    /// A name that no data set has; results that cannot be read.
    pub fn replace(&mut self, name: &str, results: &Path) -> Result<(), PapersError> {
        let known = self.datasets.keys().cloned().collect();
        let Some(dataset) = self.datasets.get_mut(name) else {
            return Err(PapersError::NoSuchData { name: name.into(), known });
        };
        dataset.replace(results)
    }

    /// Prints the page.
    ///
    /// # Errors
    /// A directive that is not understood or chooses nothing, a finding that no table shows, data
    /// that no directive uses.
    pub fn print(&self) -> Result<PrintedPage, PapersError> {
        page::Printer::new(self).print()
    }

    fn dataset(&self, name: &str) -> Result<&Dataset, PapersError> {
        self.datasets.get(name).ok_or_else(|| PapersError::NoSuchData {
            name: name.into(),
            known: self.datasets.keys().cloned().collect(),
        })
    }
}

//! A finding of a paper, and the ratio that bears it out or does not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathom_lab::stats::{Comparison, paired_ratio};
use serde::Deserialize;

use super::PapersError;
use super::counted::{Counts, quoted};
use super::dataset::{Dataset, Datasets};
use super::given::GivenWords;
use super::select::{Choice, Show, ratio_text, share_text};
use super::verdict::{AuthorVerdict, Verdict, of as verdict_of};

/// One row of a table of findings, as its source states it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Finding {
    /// The table that shows it.
    pub table: String,
    /// The paper's figure or table.
    pub figure: String,
    /// What the paper says, in words.
    pub finding: String,
    /// What the paper measured.
    pub paper: String,
    /// The band of ratios that would bear the paper out, both ends included. Stated before the
    /// ratio is known.
    pub holds: Option<[f64; 2]>,
    /// The data set; none where nothing was measured.
    pub data: Option<String>,
    /// The phase that is compared.
    #[serde(default)]
    pub phase: String,
    /// The phase that it is compared with, where that is another.
    pub over_phase: Option<String>,
    /// The abscissa, in a phase that has some: rows of a range, columns, threads.
    pub x: Option<f64>,
    /// The abscissa that it is compared with, where that is another.
    pub over_x: Option<f64>,
    /// The mean over all abscissas is compared: of each run their sum.
    #[serde(default)]
    pub every_x: bool,
    /// The processor is taken to be this many times as slow as the one that measured: a phone's.
    /// CPU time that was measured is multiplied, the device's is left as it is.
    pub slowed: Option<f64>,
    /// What is compared.
    #[serde(default)]
    pub show: Show,
    /// The cell that is compared …
    #[serde(default)]
    pub of: Choice,
    /// … with this one.
    #[serde(default)]
    pub over: Choice,
    /// What both have in common.
    #[serde(default, rename = "where")]
    pub at: Choice,
    /// An axis of whose every value there is a ratio.
    pub each: Option<String>,
    /// Counts that are compared, in the place of a data set.
    pub counts: Option<Counts>,
    /// Ratios with their brackets that a document states, in the place of a data set …
    #[serde(default)]
    pub quoted: Vec<String>,
    /// … the document, beside the source …
    pub quoted_from: Option<String>,
    /// … and of each ratio words that stand in the one line or paragraph that has it.
    #[serde(default)]
    pub quoted_at: Vec<String>,
    /// A verdict that no ratio gives.
    pub verdict: Option<AuthorVerdict>,
    /// The measurement that shows why a finding is not reproduced.
    pub cause: Option<String>,
    /// What is to be known besides.
    pub remark: Option<String>,
    /// The file that states it.
    #[serde(skip)]
    pub file: PathBuf,
}

/// A finding with what was measured.
#[derive(Debug)]
pub(super) struct FindingResult {
    /// The ratios in words.
    pub measured: String,
    /// The ratios.
    pub ratios: Vec<Comparison>,
    /// What they say.
    pub verdict: Verdict,
    /// Cause or remark, else empty.
    pub remark: String,
}

impl FindingResult {
    fn of(ratios: &[(String, Comparison)], show: Show, verdict: Verdict, remark: String) -> FindingResult {
        let text = |value: &Comparison| match show.is_share() {
            true => share_text(value),
            false => ratio_text(value),
        };
        let one = |(name, ratio): &(String, Comparison)| match name.is_empty() {
            true => text(ratio),
            false => format!("{name} {}", text(ratio)),
        };
        let measured = ratios.iter().map(one).collect::<Vec<_>>().join(", ");
        let ratios = ratios.iter().map(|(_, ratio)| *ratio).collect();
        FindingResult { measured, ratios, verdict, remark }
    }
}

impl Finding {
    pub fn of(self, file: &Path) -> Finding {
        Finding { file: file.to_path_buf(), ..self }
    }

    fn wrong(&self, problem: &str) -> PapersError {
        let problem = format!("the finding {:?} of table {:?}: {problem}", self.finding, self.table);
        PapersError::Unused { path: self.file.clone(), problem }
    }

    /// What it quotes, and the passages in which that has to stand.
    pub fn quotes<'a>(&'a self, directory: &Path) -> Result<Vec<(&'a str, GivenWords)>, PapersError> {
        let Some(document) = &self.quoted_from else { return Ok(Vec::new()) };
        if self.quoted.len() != self.quoted_at.len() {
            return Err(self.wrong("`quoted_at` has words for each of what is `quoted`"));
        }
        let quote = |(words, at): (&'a String, &String)| {
            let passage = GivenWords::of_file(document, None, Some(at), directory);
            passage.map(|passage| (words.as_str(), passage)).map_err(|problem| self.wrong(&problem))
        };
        self.quoted.iter().zip(&self.quoted_at).map(quote).collect()
    }

    /// Computes its ratios, and judges. `directory` is that of the sources.
    pub fn judge(&self, datasets: &Datasets, directory: &Path) -> Result<FindingResult, PapersError> {
        let words = [self.cause.as_deref(), self.remark.as_deref()];
        let remark = words.into_iter().flatten().collect::<Vec<_>>().join(" ");
        if self.verdict.is_some() && self.cause.is_some() {
            return Err(self.wrong("a stated verdict needs a `remark`, and no `cause`"));
        }
        if self.verdict.is_some() && self.remark.is_none() {
            return Err(self.wrong("a stated verdict needs a `remark` that says why"));
        }
        let Some(ratios) = self.found(datasets, directory)? else {
            let (Some(AuthorVerdict::CannotBeTested | AuthorVerdict::NotMeasured), None) =
                (self.verdict, self.holds)
            else {
                let problem = "without `data` its verdict is `cannot-be-tested` or `not-measured`, without \
                               `holds`";
                return Err(self.wrong(problem));
            };
            let stated = self.verdict.map_or(Verdict::NotMeasured, AuthorVerdict::verdict);
            return Ok(FindingResult::of(&[], self.show, stated, remark));
        };
        if self.verdict.is_none() && self.holds.is_none() {
            return Err(self.wrong("`holds = [low, high]` states what would bear it out"));
        }
        let only: Vec<Comparison> = ratios.iter().map(|(_, ratio)| *ratio).collect();
        let verdict = match self.verdict {
            Some(stated) => stated.verdict(),
            None => verdict_of(&only, self.holds, self.cause.is_some()),
        };
        // New results may bring out what the published did not, and whoever asks for them is told
        // so.
        let is_new = |data: &String| datasets.get(data).is_ok_and(Dataset::is_replaced);
        if verdict == Verdict::Reproduced && self.cause.is_some() && !self.data.as_ref().is_some_and(is_new) {
            return Err(self.wrong("it is reproduced, and needs no `cause` of why it is not"));
        }
        let result = FindingResult::of(&ratios, self.show, verdict, remark);
        match self.quoted.is_empty() {
            true => Ok(result),
            // With the digits that stand there.
            false => Ok(FindingResult { measured: self.quoted.join(", "), ..result }),
        }
    }

    /// What was measured, counted or quoted; none where nothing was.
    fn found(
        &self,
        datasets: &Datasets,
        directory: &Path,
    ) -> Result<Option<Vec<(String, Comparison)>>, PapersError> {
        match (&self.data, &self.counts, &self.quoted[..]) {
            (Some(data), None, []) => self.ratios(datasets, data).map(Some),
            (None, Some(counts), []) => {
                let ratio = counts.ratio(directory).map_err(|problem| self.wrong(&problem))?;
                Ok(Some(vec![(String::new(), ratio)]))
            }
            (None, None, []) => Ok(None),
            (None, None, several) if self.quoted_from.is_some() => {
                let ratios = several.iter().map(|text| quoted(text)).collect::<Result<_, String>>();
                ratios.map(Some).map_err(|problem| self.wrong(&problem))
            }
            _ => Err(self.wrong("one of `data`, `counts`, and `quoted` with `quoted_from`, and no two")),
        }
    }

    fn ratios(&self, datasets: &Datasets, data: &str) -> Result<Vec<(String, Comparison)>, PapersError> {
        let dataset = datasets.get(data)?;
        let mut places = vec![(String::new(), self.at.clone())];
        if let Some(axis) = &self.each {
            let values = dataset.values(axis, &self.at.and(&self.of));
            if values.is_empty() {
                return Err(self.wrong(&format!("no cell has a value on the axis {axis:?}")));
            }
            let at = |value: String| {
                let also = Choice(vec![(axis.clone(), value.clone())]);
                (value, self.at.and(&also))
            };
            places = values.into_iter().map(at).collect();
        }
        let slowed = self.slowed.unwrap_or(1.0);
        if !(slowed.is_finite() && slowed >= 1.0) {
            return Err(self.wrong("`slowed` is how many times as slow the processor is: 1 or more"));
        }
        let ratio = |(name, at): (String, Choice)| {
            if self.every_x {
                let ratio = self.over_all(dataset, &at)?.map(|ratio| (name, ratio));
                return ratio.ok_or_else(|| self.wrong("the two cells share no block"));
            }
            let of = dataset.measure(&at.and(&self.of), &self.phase, self.x)?;
            if self.show.is_share() {
                let share = self.show.share(of, slowed);
                let share = share.ok_or_else(|| {
                    self.wrong("that share is not told for single runs: use device-share or cpu-share")
                })?;
                return Ok((name, share));
            }
            let phase = self.over_phase.as_deref().unwrap_or(&self.phase);
            let over = dataset.measure(&at.and(&self.over), phase, self.over_x.or(self.x))?;
            let ratio = self.show.ratio(of, over, slowed);
            let ratio = ratio.ok_or_else(|| self.wrong("the two cells share no block"))?;
            Ok((name, ratio))
        };
        places.into_iter().map(ratio).collect()
    }

    /// How the sums over all abscissas compare, block by block: so do the means.
    fn over_all(&self, dataset: &Dataset, at: &Choice) -> Result<Option<Comparison>, PapersError> {
        let over_phase = self.over_phase.as_deref().unwrap_or(&self.phase);
        let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        for x in dataset.abscissas(&self.phase, at) {
            let of = dataset.measure(&at.and(&self.of), &self.phase, Some(x))?;
            let over = dataset.measure(&at.and(&self.over), over_phase, Some(x))?;
            let pairs = self.show.pairs(of, over).ok_or_else(|| {
                self.wrong("over all abscissas there are device, fastest, and flushes and bytes")
            })?;
            for (block, of, over) in pairs {
                let sum = sums.entry(block).or_default();
                *sum = (sum.0 + of, sum.1 + over);
            }
        }
        Ok(paired_ratio(&sums.into_values().collect::<Vec<_>>()))
    }
}

//! Prints the page.
//!
//! # Directives
//! A directive may go over several lines; its words are a shell's.
//!
//! - `{{about DATA}}`: how the data was measured, how many runs are marked, where it is.
//! - `{{findings TABLE}}`: the findings of a table with the paper's words, what was measured, and
//!   the verdict. Every finding has to be shown somewhere.
//! - `{{table DATA phase=P rows=AXIS columns=AXIS [where=CHOICE] [show=WHAT]}}`: values. `x` as an
//!   axis is the phase's abscissa, `phases=P,Q` with `columns=phase` are several phases.
//! - `{{figure DATA ID file=NAME.svg}}`: one of the report's figures, with its title.
//! - `{{ratio DATA phase=P [over_phase=P] of=CHOICE over=CHOICE [where=CHOICE] [show=WHAT]}}` and
//!   `{{value DATA phase=P where=CHOICE [show=WHAT]}}`, within a sentence.
//! - `{{chart DATA phase=P rows=AXIS columns=AXIS show=WHAT file=NAME.svg title=WORDS about=WORDS}}`:
//!   the same as a picture; with `pace=FILE.csv hours=N` table and picture are of the bytes that so
//!   many hours of use write ([`super::pace`]).
//! - `{{cuts DATA rows=AXIS columns=AXIS}}`: what power cuts left of each cell.
//! - `{{all WHAT}}`, within a sentence: of all data sets the `cpu`, the `load`, its `load-medians`, the
//!   `late` runs, and the `days`.
//! - `{{blocks FILE}}`: the counts of `fathom report --blocks`, a column for each cell.
//! - `{{simulated DATA show=WHAT [where=LABEL]}}`: of exports of `fathom simulate --json`, which
//!   `[simulated.DATA]` names, a row for each cell whose label begins so and a column for each
//!   device; with `device=NAME` a column for each WHAT, of which there may be several with commas.
//!   With `of=LABEL device=NAME` one value within a sentence, with `of=END over=END device=NAME` how
//!   each cell whose label ends so compares with the one that ends otherwise, and with
//!   `device=NAME file=NAME.svg title=WORDS` a figure. WHAT is `slower` (the mean), `p50`, `p99`,
//!   `p999`, `max`, `total` (of all runs), `executions`, `flushes`, `written`, and of what the
//!   slowest thousandth did `slowest-` and `others-` with `reads`, `writes`, `flushes`,
//!   `more-flushes` and `after-writes`.
//! - `{{spread DATA phase=P where=CHOICE show=WHAT}}`: the smallest and the largest of single runs.
//! - `{{counted FILE.csv column=NAME [where=CHOICE] [show=least|most]}}`: a number of a published
//!   table of counts; with `rows=NAME,NAME values=NAME,NAME [columns=NAME] [heads=A|B]` a table of it
//!   ([`super::sheet`]).
//! - `{{given SOURCE}}…{{end}}`: words with numbers that no data print, and who says them: `paper`,
//!   `rule`, `author`, `withdrawn`, or a file with the place in which they have to stand, `key=NAME`
//!   or `at=WORDS` ([`super::given`]).
//! - `{{plain two}}`: words of quantity that are not of what was measured: how an experiment is made,
//!   an order, a manner of speaking.
//! - `{{verdicts}}`, `{{papers}}`: how many findings have which verdict, all together and by paper.
//!   `{{numbers}}`: how many numbers are given.
//!
//! A number outside of all directives is refused, in digits or in words ([`super::prose`]), in the
//! page and in the remarks of findings and data, in which `value`, `ratio`, `counted`, `given` and
//! `plain` may stand as well.
//!
//! A CHOICE is `axis:value,axis:value`; WHAT is `faster` (the default; a rate), `slower` (a time),
//! `elapsed` (a time by the wall's clock), `flushes`, `written`, `read`, `requests` (that write),
//! `device` (time at the device), `processor` (its time), `device-share`, `cpu-share`, `fastest`, `p50`,
//! `p999`, `sync` or `cpu`.
//! `x=N` is an abscissa, `slowed=N` a processor that is so many times as slow.

use std::collections::BTreeSet;
use std::ops::Range;

use super::block_counts::BlockCounts;
use super::directive::Directive;
use super::failure::Failure;
use super::finding::Finding;
use super::given::{GivenCounts, GivenWords};
use super::pace::Pace;
use super::printed::PrintedFinding;
use super::prose;
use super::select::{Choice, Show, ratio_text};
use super::sheet::Sheet;
use super::simulated::Quantity;
use super::table::Table;
use super::tally::Tally;
use super::{Papers, PapersError};

/// What stands at the head of the page, for whoever would mend it by hand.
const GENERATED: &str = "<!-- Printed by `fathom papers` from docs/papers/; change it there. -->\n\n";

/// What a page consists of.
#[derive(Debug)]
pub struct PrintedPage {
    /// The page, Markdown.
    pub page: String,
    /// Its figures: name of the file, SVG.
    pub figures: Vec<(String, String)>,
    /// Every finding, in the order of the page.
    pub findings: Vec<PrintedFinding>,
}

impl Papers {
    /// Prints the page.
    ///
    /// # Errors
    /// A directive that is not understood or chooses nothing, a finding that no table shows, data
    /// that no directive uses.
    pub fn print(&self) -> Result<PrintedPage, PapersError> {
        Printer::new(self).print()
    }
}

/// The page under way.
pub(super) struct Printer<'a> {
    papers: &'a Papers,
    figures: Vec<(String, String)>,
    verdicts: Tally,
    /// Tables of findings that were printed, and data sets that something was printed of.
    shown: BTreeSet<String>,
    used: BTreeSet<String>,
    /// Numbers of sentences that no data print.
    given: GivenCounts,
}

impl<'a> Printer<'a> {
    pub fn new(papers: &'a Papers) -> Printer<'a> {
        let (figures, verdicts, given) = (Vec::new(), Tally::default(), GivenCounts::default());
        Printer { papers, figures, verdicts, shown: BTreeSet::new(), used: BTreeSet::new(), given }
    }

    pub fn print(mut self) -> Result<PrintedPage, PapersError> {
        let source = self.papers.directory.join("page.md");
        let text = self.papers.page.as_str();
        let printed = self
            .expand(text)
            .map_err(|(place, failure)| PapersError::at(&source, text, place, failure.words()))?;
        let mut page = GENERATED.to_owned() + &printed;
        // Counted last, where all are known.
        let (verdicts, papers) = (self.verdicts.words(), self.verdicts.table());
        for (mark, counted) in [(VERDICTS, verdicts), (PAPERS, papers), (NUMBERS, self.given.words())] {
            if page.contains(mark) {
                page = page.replace(mark, &counted);
            }
        }
        self.check_used(&source)?;
        Ok(PrintedPage { page, figures: self.figures, findings: self.verdicts.0 })
    }

    /// Prints a text with directives. What fails is told with its place in the text.
    fn expand(&mut self, text: &str) -> Result<String, (Range<usize>, Failure)> {
        let mut printed = String::new();
        let mut given: Option<(Range<usize>, GivenWords)> = None;
        let mut done = 0;
        loop {
            let begin = text[done..].find("{{").map_or(text.len(), |offset| done + offset);
            let words = &text[done..begin];
            match &given {
                Some((place, given)) => {
                    given.count(words, &mut self.given).map_err(|message| (place.clone(), message.into()))?;
                }
                None => {
                    if let Some((place, message)) = prose::by_hand(words) {
                        return Err((done + place.start..done + place.end, message.into()));
                    }
                }
            }
            printed += words;
            if begin == text.len() {
                break;
            }
            let end = text[begin..].find("}}").map(|offset| begin + offset + 2);
            // Braces that open within braces were not closed before.
            let Some(end) = end.filter(|end| !text[begin + 2..*end].contains("{{")) else {
                let message = "braces that are opened and not closed".to_owned();
                return Err((begin..begin + 2, message.into()));
            };
            let place = begin..end;
            let fail = |failure: Failure| (place.clone(), failure);
            let directive = Directive::parse(&text[begin + 2..end - 2]).map_err(Failure::from);
            let directive = directive.map_err(fail)?;
            match (directive.name.as_str(), given.is_some()) {
                ("given", false) => {
                    let opened = GivenWords::open(&directive, &self.papers.directory);
                    given = Some((place.clone(), opened.map_err(Failure::from).map_err(fail)?));
                }
                ("given", true) => return Err(fail("`given` within `given`".to_owned().into())),
                ("end", true) => given = None,
                ("end", false) => return Err(fail("`end` of what?".to_owned().into())),
                _ => printed += &self.directive(&directive).map_err(fail)?,
            }
            done = end;
        }
        match given {
            Some((place, _)) => Err((place, "`given` without {{end}}".to_owned().into())),
            None => Ok(printed),
        }
    }

    /// Prints a sentence of a finding or of a data set.
    fn sentence(&mut self, text: &str, of: &str) -> Result<String, Failure> {
        self.expand(text).map_err(|(_, failure)| format!("{of}: {}", failure.words()).into())
    }

    fn directive(&mut self, directive: &Directive) -> Result<String, Failure> {
        let papers = self.papers;
        match directive.name.as_str() {
            "verdicts" | "papers" | "numbers" => {
                directive.knows(&[])?;
                let mark =
                    [VERDICTS, PAPERS, NUMBERS].into_iter().find(|mark| mark.contains(&directive.name));
                return Ok(mark.unwrap_or(NUMBERS).to_owned());
            }
            "plain" => return Ok(self.given.plain(directive)?),
            "counted" => {
                return Ok(Sheet::read(directive.argument()?, &papers.directory)?.print(directive)?);
            }
            "findings" => {
                directive.knows(&[])?;
                return self.findings(directive.argument()?);
            }
            "blocks" => {
                directive.knows(&[])?;
                let path = papers.directory.join(directive.argument()?);
                return Ok(BlockCounts::read(&path)?.table());
            }
            "simulated" => return Ok(self.simulated(directive)?),
            "all" => {
                directive.knows(&[])?;
                return Ok(papers.datasets.of_all(directive.argument()?)?);
            }
            _ => {}
        }
        let name = directive.arguments.first().ok_or_else(|| format!("{} of what data?", directive.name))?;
        let dataset = papers.datasets.get(name)?;
        self.used.insert(name.clone());
        let show = directive.options.get("show").map_or(Ok(Show::default()), |word| Show::parse(word))?;
        let choice = |key: &str| Choice::parse(directive.options.get(key).map_or("", String::as_str));
        let at = choice("where")?;
        let number = |key: &str| match directive.options.get(key) {
            None => Ok(None),
            Some(text) => text.parse::<f64>().map(Some).map_err(|_| format!("{key}={text} is no number")),
        };
        let (x, slowed) = (number("x")?, number("slowed")?.unwrap_or(1.0));
        match directive.name.as_str() {
            "about" => {
                directive.knows(&[])?;
                let remark = self.sentence(&dataset.remark, &format!("data set {name:?}"))?;
                Ok(dataset.about(&remark))
            }
            "ratio" => {
                let known = ["phase", "over_phase", "of", "over", "where", "show", "x", "slowed"];
                directive.knows(&known)?;
                directive.argument()?;
                let phase = directive.wanted("phase")?;
                let over_phase = directive.options.get("over_phase").map_or(phase, String::as_str);
                let of = dataset.measure(&at.and(&choice("of")?), phase, x)?;
                let over = dataset.measure(&at.and(&choice("over")?), over_phase, x)?;
                let ratio =
                    show.ratio(of, over, slowed).ok_or_else(|| "the two share no block".to_owned())?;
                Ok(ratio_text(&ratio))
            }
            "value" => {
                directive.knows(&["phase", "where", "show", "x", "slowed"])?;
                directive.argument()?;
                let measure = dataset.measure(&at, directive.wanted("phase")?, x)?;
                Ok(show.value(measure, slowed).ok_or_else(|| "it was not measured".to_owned())?)
            }
            "spread" => {
                directive.knows(&["phase", "where", "show", "x", "slowed"])?;
                directive.argument()?;
                let measure = dataset.measure(&at, directive.wanted("phase")?, x)?;
                Ok(show.spread(measure, slowed).ok_or_else(|| "it is not told for single runs".to_owned())?)
            }
            "table" | "chart" | "cuts" => {
                let known = ["phase", "phases", "rows", "columns", "where", "show", "x", "slowed"];
                let known = [&known[..], &["pace", "hours", "file", "title", "about"]].concat();
                directive.knows(&known)?;
                directive.argument()?;
                let pace = match (directive.options.get("pace"), number("hours")?) {
                    (Some(file), Some(hours)) => Some(Pace::read(&papers.directory.join(file), hours)?),
                    (None, None) => None,
                    _ => return Err("a pace=FILE.csv is one of so many hours=".to_owned().into()),
                };
                let table = Table { dataset, directive, at, show, x, slowed, pace };
                match directive.name.as_str() {
                    "table" => table.print(),
                    "cuts" => table.print_cuts(),
                    _ => {
                        let (file, title) = (figure_file(directive)?, directive.wanted("title")?);
                        self.figures.push((file.to_owned(), table.draw(title)?));
                        Ok(format!("![{title}](figures/{file})"))
                    }
                }
            }
            "figure" => {
                directive.knows(&["file"])?;
                let [_, id] = &directive.arguments[..] else {
                    return Err("figure DATA ID file=NAME.svg".to_owned().into());
                };
                let file = figure_file(directive)?;
                let titles = crate::figures(&dataset.results).map_err(|error| error.to_string())?;
                let title = titles.into_iter().find(|(known, _)| known == id).map(|(_, title)| title);
                let svg = crate::figure_svg(&dataset.results, id).map_err(|error| error.to_string())?;
                self.figures.push((file.to_owned(), svg));
                Ok(format!(
                    "![{}](figures/{file})",
                    title.unwrap_or_else(|| id.clone()).replace(['[', ']'], "")
                ))
            }
            other => Err(format!(
                "{other:?} is no directive; there are: about, findings, table, chart, cuts, figure, ratio, \
                 value, all, blocks, simulated, given, end, verdicts, numbers"
            )
            .into()),
        }
    }

    /// A table, a value, ratios or a figure of simulated runs.
    fn simulated(&mut self, directive: &Directive) -> Result<String, String> {
        directive.knows(&["show", "where", "of", "over", "device", "file", "title"])?;
        let name = directive.argument()?;
        let exports = self.papers.simulated.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.papers.simulated.keys().map(String::as_str).collect();
            format!("nothing simulated is called {name:?}; there are: {}", known.join(", "))
        })?;
        let simulated = &exports.exports;
        self.used.insert(name.to_owned());
        let option = |key: &str| directive.options.get(key).map(String::as_str);
        if option("file").is_some() {
            let (file, title) = (figure_file(directive)?, directive.wanted("title")?);
            let svg = simulated.figure(directive.wanted("device")?, title)?;
            self.figures.push((file.to_owned(), svg));
            return Ok(format!("![{title}](figures/{file})"));
        }
        let words = directive.wanted("show")?.split(',');
        let quantities: Vec<_> = words.map(Quantity::parse).collect::<Result<_, String>>()?;
        let begin = option("where").unwrap_or("");
        match (option("of"), option("over"), &quantities[..]) {
            (Some(of), Some(over), _) => simulated.ratios(of, over, directive.wanted("device")?, &quantities),
            (Some(of), None, [(quantity, _)]) => simulated.value(of, directive.wanted("device")?, *quantity),
            (None, None, [(quantity, _)]) if option("device").is_none() => simulated.table(*quantity, begin),
            (None, None, _) => simulated.table_of(directive.wanted("device")?, &quantities, begin),
            _ => Err("simulated takes of= with one show=, or of= and over=".to_owned()),
        }
    }

    fn findings(&mut self, table: &str) -> Result<String, Failure> {
        let papers = self.papers;
        let rows: Vec<&Finding> = papers.findings.iter().filter(|finding| finding.table == table).collect();
        if rows.is_empty() {
            let known: BTreeSet<&str> =
                papers.findings.iter().map(|finding| finding.table.as_str()).collect();
            let known: Vec<&str> = known.into_iter().collect();
            return Err(format!("no finding of a table {table:?}; there are: {}", known.join(", ")).into());
        }
        let mut printed = "| figure | finding | paper | reproduced if | measured here | verdict |\n|---|---|---|---|---|---|".to_owned();
        for finding in rows {
            let judged = finding.judge(&papers.datasets, &papers.directory)?;
            for (words, passage) in finding.quotes(&papers.directory)? {
                passage.count(words, &mut self.given)?;
            }
            let band = finding.holds.map_or(String::new(), |[low, high]| format!("{low} to {high}"));
            let verdict = match judged.remark.is_empty() {
                true => format!("**{}**", judged.verdict),
                false => {
                    let of = format!("the finding {:?} of table {table:?}", finding.finding);
                    format!("**{}**: {}", judged.verdict, self.sentence(&judged.remark, &of)?)
                }
            };
            printed += &format!(
                "\n| {} | {} | {} | {band} | {} | {verdict} |",
                finding.figure, finding.finding, finding.paper, judged.measured
            );
            self.used.extend(finding.data.clone());
            self.verdicts.0.push(PrintedFinding {
                table: table.to_owned(),
                finding: finding.finding.clone(),
                data: finding.data.clone(),
                measured: judged.measured,
                ratios: judged.ratios,
                verdict: judged.verdict,
            });
        }
        self.shown.insert(table.to_owned());
        Ok(printed)
    }

    /// Refuses findings that no table shows and data that nothing is printed of: what is published
    /// and hidden misleads as much as what is wrong.
    fn check_used(&self, page: &std::path::Path) -> Result<(), PapersError> {
        let hidden = self.papers.findings.iter().find(|finding| !self.shown.contains(&finding.table));
        if let Some(finding) = hidden {
            let problem = format!(
                "the finding {:?} is in no table of the page: {{{{findings {}}}}} is missing",
                finding.finding, finding.table
            );
            return Err(PapersError::Unused { path: finding.file.clone(), problem });
        }
        let mut names = self.papers.datasets.all().keys().chain(self.papers.simulated.keys());
        match names.find(|name| !self.used.contains(*name)) {
            Some(name) => {
                let problem = format!("nothing is printed of the data set {name:?}");
                Err(PapersError::Unused { path: page.to_path_buf(), problem })
            }
            None => Ok(()),
        }
    }
}

/// The name of the file that a figure goes into.
fn figure_file(directive: &Directive) -> Result<&str, String> {
    let file = directive.wanted("file")?;
    let is_plain = file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
    if !is_plain || !file.ends_with(".svg") || file.starts_with('.') {
        return Err(format!("{file:?} is no plain name of a file that ends in .svg"));
    }
    Ok(file)
}

/// Holds the place of the count of verdicts until all are known.
const VERDICTS: &str = "\u{0}verdicts\u{0}";

/// Holds the place of the table of verdicts by paper.
const PAPERS: &str = "\u{0}papers\u{0}";

/// Holds the place of the count of numbers that are given.
const NUMBERS: &str = "\u{0}numbers\u{0}";

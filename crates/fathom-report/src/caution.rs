//! What to be careful about, in the order in which it matters: first what may change the answer,
//! then all else, each thing once.

use fathom_lab::analysis::{Analysis, Finding, Weight};
use fathom_lab::store::{CellRow, Results};

use crate::words::{distinct, joined};

/// Something to be careful about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    /// How much it weighs; noise where the answer is not proven weighs as much as the answer.
    pub weight: Weight,
    /// In bold before the text, or empty.
    pub about: String,
    /// In words a reader can act on.
    pub text: String,
}

impl Caution {
    fn new(weight: Weight, about: impl Into<String>, text: &str) -> Caution {
        Caution { weight, about: about.into(), text: sentence(text) }
    }

    /// Whether the answer may change by it.
    pub fn decides(&self) -> bool {
        self.weight == Weight::Answer
    }
}

/// Everything to be careful about, the gravest first. `compared` are the comparisons of which the
/// answer consists: what is proven in spite of noise is not doubted because of it. `unowned` is
/// what block traces could not tell.
pub fn cautions(
    results: &Results,
    analysis: &Analysis,
    compared: &[Finding],
    trouble: Option<&str>,
    unowned: Option<String>,
) -> Vec<Caution> {
    let is_proven = !compared.is_empty() && compared.iter().all(|compared| compared.faster.proven);
    let mut all: Vec<Caution> = Vec::new();
    if results.experiment.quick {
        let text = "Made with --quick: less work and fewer runs than the experiment asks for.";
        all.push(Caution::new(Weight::Note, "Quick.", text));
    }
    let said = fathom_lab::analysis::cautions(results, analysis);
    for caution in &said {
        let is_doubted = caution.weight == Weight::Noise && !is_proven;
        let weight = if is_doubted { Weight::Answer } else { caution.weight };
        all.push(Caution::new(weight, "", &caution.text));
    }
    // What the stack said of itself, unless the worker's warnings said it already: there it may
    // stand among others with other numbers.
    let made = distinct(results.runs.iter().flat_map(|run| run.stack.warnings.iter().cloned()));
    let is_said = |warning: &str| {
        said.iter().any(|said| said.text.contains(warning))
            || results.warnings.iter().any(|said| said.text == warning)
    };
    for warning in made.iter().filter(|warning| !is_said(warning)) {
        all.push(Caution::new(Weight::Note, "", warning));
    }
    for run in results.failed_runs() {
        let label = results.cell(run.cell).map_or_else(String::new, |cell| cell.title.clone());
        let message = run.message.as_deref().unwrap_or("no message");
        all.push(Caution::new(Weight::Note, format!("{label}, run {} failed:", run.block + 1), message));
    }
    all.extend(many_compared(compared.len()).map(|text| Caution::new(Weight::Note, "", &text)));
    let reason = |cell: &CellRow| cell.skipped.clone().unwrap_or_default();
    for why in distinct(results.cells.iter().map(reason)) {
        let skipped = results.cells.iter().filter(|cell| reason(cell) == why);
        let names: Vec<String> = skipped.map(|cell| cell.title.clone()).collect();
        all.push(Caution { weight: Weight::Note, about: format!("Skipped: {}:", joined(&names)), text: why });
    }
    if let Some(trouble) = trouble {
        let text = format!("so the figures are general ones and no comparison is made: {trouble}");
        let about = "The experiment file stored in the results cannot be read by this version,";
        all.push(Caution { weight: Weight::Answer, about: about.into(), text });
    }
    all.extend(unowned.map(|text| Caution { weight: Weight::Note, about: String::new(), text }));
    all.sort_by_key(|caution| caution.weight);
    all
}

/// Of so many intervals of 95 % one is expected to leave out what is the same.
const MANY: usize = 20;

/// What many comparisons are to be read with.
fn many_compared(number: usize) -> Option<String> {
    (number >= MANY).then(|| {
        format!(
            "{number} comparisons: each interval is for itself. Of {number} of things that are the same about {} would look \
             different, and the largest differences are told first",
            number / MANY
        )
    })
}

/// Whether the answer stands, in one sentence. `is_assumed`: whether numbers decide that nobody has
/// published.
pub fn verdict(cautions: &[Caution], is_answered: bool, is_assumed: bool) -> String {
    let grave = cautions.iter().filter(|caution| caution.decides()).count();
    match (is_answered, grave) {
        (false, _) => "There is no comparison whose answer could stand or fall.".into(),
        (true, 0) if is_assumed => {
            "The answer stands if the assumed numbers do: nothing else was noticed that would change it."
                .into()
        }
        (true, 0) => "The answer stands: nothing was noticed that would change it.".into(),
        (true, 1) => "The answer may change for one reason:".into(),
        (true, _) => format!("The answer may change for {grave} reasons:"),
    }
}

/// The text with a capital and a full stop; several lines, as a tool's message has, become one.
pub fn sentence(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let text = lines.join(" ");
    let mut chars = text.chars();
    let mut out: String = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    out.push_str(chars.as_str());
    if !out.ends_with(['.', '!', '?', ')', ':']) {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: "nothing was noticed that would change it" stood beside "Assumed, and it
    /// decides".
    #[test]
    fn an_answer_stands_no_surer_than_what_it_assumes() {
        assert!(verdict(&[], true, false).starts_with("The answer stands: nothing was noticed"));
        assert!(verdict(&[], true, true).starts_with("The answer stands if the assumed numbers do"));
        let few = Caution::new(Weight::Answer, "", "too few repeats");
        assert_eq!(verdict(&[few], true, true), "The answer may change for one reason:");
        assert!(verdict(&[], false, true).starts_with("There is no comparison"));
    }

    /// What happened: `compare` said so of twenty intervals, and of the thirty comparisons of a
    /// report, of which it tells the largest first, nothing did.
    #[test]
    fn of_many_comparisons_it_is_said_that_each_is_for_itself() {
        assert_eq!(many_compared(19), None);
        let told = many_compared(45).unwrap();
        assert!(
            told.starts_with("45 comparisons: ") && told.contains("about 2 would look different"),
            "{told}"
        );
    }

    /// What happened: of a mount that failed the report said "…/mnt? it said: mount: … or other
    /// error.? dmesg(1) may have more": a terminal is given no line break of a message's own.
    #[test]
    fn a_message_of_several_lines_is_one_sentence() {
        assert_eq!(sentence("mount failed\n  it said: bad option\n\n"), "Mount failed it said: bad option.");
        assert_eq!(sentence("kept"), "Kept.");
        assert_eq!(sentence(""), ".");
    }
}

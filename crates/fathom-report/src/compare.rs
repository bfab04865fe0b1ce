//! What changed between two measurements: for the terminal, as Markdown, as JUnit's XML; and what a
//! gate says of it.

mod html;

use std::fmt::Write as _;

use fathom_lab::analysis::{Change, Changes, Clock, Judgement, Quantity, Side, figure, times};
use fathom_lab::stats::{Comparison as Quotient, Difference, Interval};
use serde::Serialize;

use crate::number;
use crate::style::{Align, Style, Table, tame};

/// Of so many intervals of 95 % one is expected to leave out what is the same.
const MANY: usize = 20;

/// A comment of a pull request has room for 65,536 letters; longer Markdown leaves rows out.
const MARKDOWN_MOST: usize = 60_000;

/// Sentences of the gate that stand in Markdown; more are counted.
const SENTENCES: usize = 20;

/// Two measurements, compared.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// What each side is called: its file.
    pub names: [String; 2],
    /// The sides.
    pub sides: [Side; 2],
    /// What changed.
    pub changes: Changes,
    /// By how much B may be slower: 0.1 is 10 %; none where nothing is asked.
    pub allowed: Option<f64>,
}

/// What a gate says of one quantity, or of what is missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Whether it passes.
    pub judgement: Judgement,
    /// What it is about: `WAL/FULL, update, model time`.
    pub about: String,
    /// The sentence that says why.
    pub sentence: String,
}

/// What a quantity is called in a sentence.
fn words(change: &Change) -> String {
    let unit = &change.unit;
    let of_wall = if change.clock == Clock::Wall { "wall" } else { "model" };
    match change.quantity {
        Quantity::Model => format!("model time of one {unit}"),
        // A rate that is 10 % lower is a time that is 11 % longer: what is judged is how many times
        // as long it takes.
        Quantity::Rate => format!("{of_wall} time for each {unit}"),
        Quantity::Time => format!("{of_wall} time within one {unit}"),
        Quantity::Flushes => format!("flushes of one {unit}"),
        Quantity::Bytes => format!("bytes written by one {unit}"),
    }
}

/// What a quantity does in that sentence: flushes *are* so many times as many.
fn verb(change: &Change) -> &'static str {
    if change.quantity.is_count() { "are" } else { "is" }
}

/// The same in a column.
fn head(change: &Change) -> &'static str {
    match (change.quantity, change.clock) {
        (Quantity::Model, _) => "model time",
        (Quantity::Rate, Clock::Model) => "per s, model",
        (Quantity::Rate, Clock::Wall) => "per s, wall",
        (Quantity::Time, Clock::Model) => "time, model",
        (Quantity::Time, Clock::Wall) => "time, wall",
        (Quantity::Flushes, _) => "flushes",
        (Quantity::Bytes, _) => "bytes",
    }
}

fn value(change: &Change, value: f64) -> String {
    match change.quantity {
        Quantity::Model | Quantity::Time => number::time(value),
        Quantity::Rate | Quantity::Bytes => number::plain(value),
        Quantity::Flushes if (0.01..100.0).contains(&value) => format!("{value:.2}"),
        Quantity::Flushes => number::plain(value),
    }
}

fn interval(change: &Change, of: &Interval) -> String {
    match change.quantity {
        _ if of.n < 2 => number::ONE_RUN.to_owned(),
        // The smallest and the largest of a few runs, of which some are zero, are none.
        _ if of.coverage == 0.0 && of.low < of.high => "no interval".to_owned(),
        Quantity::Model | Quantity::Time => number::time_interval_of(of),
        Quantity::Flushes => format!("[{}, {}]", value(change, of.low), value(change, of.high)),
        Quantity::Rate | Quantity::Bytes => number::interval_of(of),
    }
}

/// `WAL/FULL, update at 512`.
fn place(change: &Change) -> String {
    let x = change.x.map_or_else(String::new, |x| format!(" at {}", number::plain(x)));
    format!("{}, {}{x}", change.title, change.phase)
}

/// How many times as much, to the percent where that is what a limit is given in: 25 % more was
/// "1.2x, more than the 20 % allowed".
fn exactly(comparison: &Quotient) -> String {
    in_hundredths(comparison, 2.0, 10.0)
}

/// As [`exactly`], beside a limit, which is given in percent where it is large, too.
fn beside_limit(comparison: &Quotient) -> String {
    in_hundredths(comparison, 10.0, 100.0)
}

/// Whether hundredths say nothing of it, or next to nothing.
fn is_tiny(ratio: f64) -> bool {
    ratio > 0.0 && ratio < 0.01
}

/// `1.25x`; a smaller one with as many digits as say something.
fn hundredths(ratio: f64) -> String {
    if is_tiny(ratio) { figure(ratio) } else { format!("{ratio:.2}x") }
}

/// To the percent, below these: of the ratio, and of the end of its interval.
fn in_hundredths(comparison: &Quotient, most: f64, most_high: f64) -> String {
    let Quotient { ratio, low, high, n, proven } = *comparison;
    // A count of one run of each has its quotient, and no interval.
    if n < 2 && low == high && ratio.is_finite() {
        return format!("{} ({})", hundredths(ratio), number::ONE_RUN);
    }
    // What is proven is not told as "1.00x [1.00, 1.01]".
    let looks_alike = proven && [low, high].into_iter().any(|end| (end - 1.0).abs() < 0.005);
    if ratio < most && high < most_high && !looks_alike && ![ratio, low, high].into_iter().any(is_tiny) {
        return format!("{ratio:.2}x [{low:.2}, {high:.2}]");
    }
    times(comparison)
}

/// `0.20 [0.05, 0.35] more`; `+0.01 [-0.02, 0.04]` where nothing is proven.
fn difference_told(difference: &Difference) -> String {
    let Difference { low, mid, high, .. } = *difference;
    let [mid, low, high] = [mid, low, high].map(number::plain);
    if !difference.is_proven() {
        let sign = if mid.starts_with('-') { "" } else { "+" };
        return format!("{sign}{mid} [{low}, {high}]");
    }
    match mid.strip_prefix('-') {
        None => format!("{mid} [{low}, {high}] more"),
        Some(mid) => {
            // From the end that is nearer to 0.
            let ends = [&high, &low].map(|end| end.trim_start_matches('-'));
            format!("{mid} [{}, {}] less", ends[0], ends[1])
        }
    }
}

/// `1.12x [1.10, 1.14] of A's`, or what nothing became.
fn slower_told(change: &Change) -> String {
    if let Some(difference) = &change.difference {
        let told = difference_told(difference);
        return if difference.is_proven() {
            format!("{told} than A's")
        } else {
            format!("{told} beside A's")
        };
    }
    if change.a.mid == 0.0 && change.b.mid > 0.0 {
        return "something where A has nothing".into();
    }
    let slower = change.slower();
    if slower.high.is_finite() {
        format!("{} of A's", beside_limit(&slower))
    } else {
        format!("{} of A's, with too few runs for an interval", hundredths(slower.ratio))
    }
}

/// `1.12x [1.10, 1.14] faster`; with a `~` where nothing is proven, and with a word where the two do
/// not promise the same.
fn verdict_of(change: &Change) -> String {
    let promise = match change {
        Change { promise_unknown: true, .. } => " (B's promise is not known)",
        Change { same_durability: true, .. } => "",
        _ => " (not the same promise)",
    };
    told_of(change) + promise
}

fn told_of(change: &Change) -> String {
    if let Some(difference) = &change.difference {
        let unproven = if difference.is_proven() { "" } else { "~ " };
        return format!("{unproven}{}", difference_told(difference));
    }
    let (better, worse) = if change.quantity.is_count() { ("less", "more") } else { ("faster", "slower") };
    let slower = change.slower();
    match change.faster {
        faster if !faster.proven && faster.ratio.is_infinite() => format!("~ {better}: none"),
        faster if !faster.proven => format!("~ {}", exactly(&faster)),
        faster if faster.ratio > 1.0 && faster.ratio.is_finite() => {
            format!("{} {better}", exactly(&faster))
        }
        faster if faster.ratio > 1.0 => format!("{better}: none"),
        _ if slower.ratio.is_finite() => format!("{} {worse}", exactly(&slower)),
        _ => format!("{worse}: A has none"),
    }
}

fn percent(share: f64) -> String {
    let text = format!("{:.2}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

impl Comparison {
    /// What the gate says of each quantity, then of what B lacks. Nothing where nothing was asked.
    #[must_use]
    pub fn verdicts(&self) -> Vec<Verdict> {
        let Some(allowed) = self.allowed else { return Vec::new() };
        let of = |change: &Change| {
            let judgement = change.judged(allowed);
            let per_second = if change.quantity == Quantity::Rate { " per second" } else { "" };
            let values =
                format!("{} → {}{per_second}", value(change, change.a.mid), value(change, change.b.mid));
            let told = slower_told(change);
            let sentence = match judgement {
                Judgement::Slower if change.is_beyond(allowed) => format!(
                    "{}: {} {} {told} ({values}), more than the {} allowed.",
                    place(change),
                    words(change),
                    verb(change),
                    percent(allowed)
                ),
                Judgement::Slower => format!(
                    "{}: {} {} {told} ({values}), proven to be {} than A's; by its value it is beyond the {} allowed, by its \
                     interval it may be within them.",
                    place(change),
                    words(change),
                    verb(change),
                    if change.quantity.is_count() { "more" } else { "slower" },
                    percent(allowed)
                ),
                Judgement::Fine => format!(
                    "{}: {} {} {told} ({values}), within the {} allowed.",
                    place(change),
                    words(change),
                    verb(change),
                    percent(allowed)
                ),
                Judgement::Unknown if change.promises_less => format!(
                    "{}: B promises less at a power cut or a crash than A, so its speed is no progress and no fault.",
                    place(change)
                ),
                Judgement::Unknown if change.promise_unknown => format!(
                    "{}: what B promises at a power cut or a crash is not known, and may be less than what A does, so its speed is no \
                     progress and no fault.",
                    place(change)
                ),
                Judgement::Unknown => format!(
                    "{}: {} {} {told} ({values}): this cannot tell whether that is within the {} allowed. {}.",
                    place(change),
                    words(change),
                    verb(change),
                    percent(allowed),
                    // No limit is larger than what has no end.
                    if change.difference.is_none() && change.slower().high.is_infinite() {
                        "Three runs of each and more (--repeat) tell it"
                    } else {
                        "More repeats (--repeat) tell it, or a larger limit"
                    }
                ),
            };
            Verdict { judgement, about: format!("{}, {}", place(change), head(change)), sentence }
        };
        let mut all: Vec<Verdict> = self.changes.changes.iter().map(of).collect();
        let unknown = |about: &str, sentence: String| Verdict {
            judgement: Judgement::Unknown,
            about: about.to_owned(),
            sentence,
        };
        all.extend(self.changes.only_a.iter().map(|title| {
            unknown(title, format!("{title}: A has results of it and B has none: nothing can be told of it."))
        }));
        // Each by a name of its own, for of test cases of one name some readers show the last.
        let about = |text: &str| text.split(", which takes").next().unwrap_or(text).to_owned();
        let lacking = self.changes.lacking.iter();
        all.extend(lacking.map(|text| unknown(&about(text), format!("{text}."))));
        all
    }

    /// What the gate says of the whole; fine where nothing was asked.
    #[must_use]
    pub fn judged(&self) -> Judgement {
        self.allowed.map_or(Judgement::Fine, |allowed| self.changes.judged(allowed))
    }

    /// The sentences that decide: those of the whole's judgement, or that all is fine.
    #[must_use]
    pub fn decision(&self) -> Vec<String> {
        let Some(allowed) = self.allowed else { return Vec::new() };
        let verdicts = self.verdicts();
        let judgement = self.judged();
        let deciding = |judgement| -> Vec<String> {
            verdicts
                .iter()
                .filter(|verdict| verdict.judgement == judgement)
                .map(|verdict| verdict.sentence.clone())
                .collect()
        };
        match judgement {
            Judgement::Fine => {
                vec![format!("Fine: none of {} is slower by more than {}.", verdicts.len(), percent(allowed))]
            }
            Judgement::Slower => {
                deciding(judgement).into_iter().map(|reason| format!("Slower: {reason}")).collect()
            }
            Judgement::Unknown if verdicts.is_empty() => {
                vec!["Cannot tell: A and B have nothing in common that could be compared.".into()]
            }
            Judgement::Unknown => {
                deciding(judgement).into_iter().map(|reason| format!("Cannot tell: {reason}")).collect()
            }
        }
    }

    /// Why there is no row.
    fn nothing(&self) -> &'static str {
        if self.changes.lacking.is_empty() {
            "The files have no cell with a good run in common, so there is nothing to compare."
        } else {
            "What the files have in common has not what is asked for, so there is nothing to compare."
        }
    }

    fn titles(&self) -> [String; 2] {
        let title = |which: usize| {
            let side = &self.sides[which];
            let path = tame(&self.names[which]);
            let engines = side.engines().map_or_else(String::new, |engines| format!(", {}", tame(engines)));
            format!("{path} ({}, {}{engines})", tame(&side.experiment), number::moment(side.started_ms))
        };
        [title(0), title(1)]
    }

    /// How many have changed, of those that promise the same.
    fn summary(&self) -> String {
        let changes = &self.changes.changes;
        let alike: Vec<&Change> = changes.iter().filter(|change| change.same_durability).collect();
        let count = |faster: bool| {
            alike
                .iter()
                .filter(|change| change.faster.proven && (change.faster.ratio > 1.0) == faster)
                .count()
        };
        let (faster, slower) = (count(true), count(false));
        // Who flushes less is not faster by that.
        let (good, bad) = match changes.iter().any(|change| change.quantity.is_count()) {
            true => ("better", "worse"),
            false => ("faster", "slower"),
        };
        let mut text = format!(
            "B against A: {faster} {good}, {slower} {bad}, {} not proven different (~), of {}.",
            alike.len() - faster - slower,
            alike.len()
        );
        let others = changes.len() - alike.len();
        if others > 0 {
            let _ = write!(
                text,
                " Not counted: {others} of which A and B do not promise the same at a power cut or a crash."
            );
        }
        // A count takes no luck.
        let timed = alike.iter().filter(|change| !change.quantity.is_count()).count();
        if timed >= MANY {
            let _ = write!(
                text,
                " Each interval is for itself: of {timed} times or rates that are the same in both, about {} look changed.",
                timed / 20
            );
        }
        text
    }

    /// Head and rows of the table, the same everywhere.
    fn rows(&self) -> (Vec<String>, Vec<(Vec<String>, bool)>) {
        let changes = &self.changes.changes;
        let has_x = changes.iter().any(|change| change.x.is_some());
        let mut head_row: Vec<String> = ["cell", "phase"].map(str::to_owned).into();
        if has_x {
            head_row.push("size".into());
        }
        head_row.extend(["what", "A", "[95 %]", "B", "[95 %]", "B is"].map(str::to_owned));
        let row = |change: &Change| {
            let mut fields = vec![tame(&change.title), tame(&change.phase)];
            if has_x {
                fields.push(change.x.map_or_else(String::new, number::plain));
            }
            fields.push(head(change).to_owned());
            for side in [&change.a, &change.b] {
                fields.push(value(change, side.mid));
                fields.push(interval(change, side));
            }
            fields.push(verdict_of(change));
            (fields, change.faster.proven)
        };
        (head_row, changes.iter().map(row).collect())
    }

    /// The table of changes with a summary first; `~` where nothing is proven. What the gate says
    /// is [`Comparison::decision`].
    #[must_use]
    pub fn terminal(&self, style: &Style) -> String {
        let mut out = String::new();
        for (letter, title) in ["A", "B"].iter().zip(self.titles()) {
            out += &style.paragraph("  ", &format!("{letter}  {title}"));
        }
        out.push('\n');
        if self.changes.changes.is_empty() {
            out += &format!("  {}\n", self.nothing());
        } else {
            out += &style.paragraph("  ", &style.bold(&self.summary()));
            let (head, rows) = self.rows();
            let mut table = Table::default();
            for name in &head {
                let is_number = matches!(name.as_str(), "A" | "B" | "size");
                table.column(name.as_str(), if is_number { Align::Right } else { Align::Left });
            }
            for (mut fields, proven) in rows {
                for (field, name) in fields.iter_mut().zip(&head) {
                    if name == "[95 %]" {
                        *field = style.dim(field);
                    }
                }
                if proven && let Some(last) = fields.last_mut() {
                    *last = style.bold(last);
                }
                table.row(fields);
            }
            out += &table.text(style);
        }
        for (cells, which) in [(&self.changes.only_a, "A"), (&self.changes.only_b, "B")] {
            if !cells.is_empty() {
                out += &style.paragraph("  ", &format!("Only in {which}: {}.", tame(&cells.join(", "))));
            }
        }
        for caution in self.changes.cautions.iter().chain(&self.changes.lacking) {
            out += &style.paragraph("  ! ", &tame(caution));
        }
        out
    }

    /// The same as Markdown, for a comment of a pull request.
    #[must_use]
    pub fn markdown(&self) -> String {
        let cell = |text: &str| plain_in_markdown(text).replace('|', "\\|");
        let safe = plain_in_markdown;
        let mut out = String::new();
        let decision = self.decision();
        for sentence in decision.iter().take(SENTENCES) {
            let _ = writeln!(out, "**{}**\n", safe(sentence));
        }
        let more = decision.len().saturating_sub(SENTENCES);
        if more > 0 {
            let _ = writeln!(out, "And {more} more like these.\n");
        }
        let [a, b] = self.titles();
        let _ = writeln!(out, "{}\n\nA: {}  \nB: {}\n", self.summary(), safe(&a), safe(&b));
        let (head, rows) = self.rows();
        let _ = writeln!(out, "| {} |\n|{}", head.join(" | "), " --- |".repeat(head.len()));
        let row = |(fields, proven): (Vec<String>, bool)| {
            let last = fields.len() - 1;
            let shown: Vec<String> = fields
                .iter()
                .enumerate()
                .map(|(at, text)| {
                    let text = cell(text);
                    if at == last && proven { format!("**{text}**") } else { text }
                })
                .collect();
            (format!("| {} |\n", shown.join(" | ")), proven)
        };
        let lines: Vec<(String, bool)> = rows.into_iter().map(row).collect();
        let is_long = out.len() + lines.iter().map(|line| line.0.len()).sum::<usize>() > MARKDOWN_MOST;
        let mut left_out = 0;
        for (line, proven) in &lines {
            // What has changed is what a comment is for.
            if is_long && (!proven || out.len() + line.len() > MARKDOWN_MOST) {
                left_out += 1;
            } else {
                out += line;
            }
        }
        if left_out > 0 {
            let _ = writeln!(
                out,
                "\n{left_out} of {} rows are left out, first those that are not proven different: a comment has no room for \
                 more. `--html` and `--json` have all.",
                lines.len()
            );
        }
        for (cells, which) in [(&self.changes.only_a, "A"), (&self.changes.only_b, "B")] {
            if !cells.is_empty() {
                let _ = writeln!(out, "\nOnly in {which}: {}.", safe(&cells.join(", ")));
            }
        }
        for caution in self.changes.cautions.iter().chain(&self.changes.lacking) {
            let _ = writeln!(out, "\n- {}", safe(caution));
        }
        out
    }

    /// The verdicts as a JUnit test suite: a test case for each quantity; what is slower failed,
    /// what cannot be told is an error. Some readers want the outer element, a time of each case
    /// and the type of what failed.
    #[must_use]
    pub fn junit(&self) -> String {
        let verdicts = self.verdicts();
        let count = |judgement| verdicts.iter().filter(|verdict| verdict.judgement == judgement).count();
        let (failures, errors) = (count(Judgement::Slower), count(Judgement::Unknown));
        let nothing = usize::from(verdicts.is_empty());
        let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
        let _ = writeln!(
            out,
            "<testsuites>\n<testsuite name=\"fathom compare\" tests=\"{}\" failures=\"{failures}\" errors=\"{}\" \
             skipped=\"0\" time=\"0\">",
            verdicts.len() + nothing,
            errors + nothing
        );
        let mut case = |about: &str, outcome: Option<(&str, &str)>| {
            let _ = write!(out, "  <testcase classname=\"fathom\" time=\"0\" name=\"{}\"", xml(about));
            match outcome {
                None => out.push_str("/>\n"),
                Some((kind, text)) => {
                    let text = xml(text);
                    let class = if kind == "failure" { "slower" } else { "unknown" };
                    let _ = writeln!(
                        out,
                        ">\n    <{kind} type=\"{class}\" message=\"{text}\">{text}</{kind}>\n  </testcase>"
                    );
                }
            }
        };
        for verdict in &verdicts {
            let kind = match verdict.judgement {
                Judgement::Fine => None,
                Judgement::Slower => Some("failure"),
                Judgement::Unknown => Some("error"),
            };
            case(&verdict.about, kind.map(|kind| (kind, verdict.sentence.as_str())));
        }
        if nothing == 1 {
            case("compared", Some(("error", "A and B have nothing in common that could be compared.")));
        }
        out.push_str("</testsuite>\n</testsuites>\n");
        out
    }

    /// The same as JSON: what is compared, and what the gate says.
    #[must_use]
    pub fn json(&self) -> serde_json::Value {
        let mut whole = serde_json::to_value(&self.changes).unwrap_or_default();
        whole["a"] = serde_json::json!(self.names[0]);
        whole["b"] = serde_json::json!(self.names[1]);
        if let Some(allowed) = self.allowed {
            whole["gate"] = serde_json::json!({
                "allowed": allowed, "judgement": self.judged(), "verdicts": self.verdicts(), "decision": self.decision(),
            });
        }
        whole
    }
}

/// Text of others for Markdown, as it is: no markup, no link, no struck out words. A `~` before a
/// space is none.
fn plain_in_markdown(text: &str) -> String {
    let text = tame(text).replace('\\', "\\\\").replace('<', "&lt;").replace('>', "&gt;");
    let text = text.replace('*', "\\*").replace('`', "\\`").replace("](", "]\\(");
    text.replace('~', "\\~").replace("\\~ ", "~ ")
}

/// Text for XML 1.0: markup characters as entities; characters that it does not allow are replaced.
fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in tame(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if (c as u32) < 0x20 => out.push(' '),
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use fathom_lab::stats::{mean_interval, unpaired_difference};

    use super::*;

    /// A change of flushes of which nothing is proven.
    fn flushes(a: Interval, b: Interval, ratio: f64) -> Change {
        Change {
            label: "wal".into(),
            title: "WAL".into(),
            phase: "update".into(),
            x: None,
            unit: "transaction".into(),
            quantity: Quantity::Flushes,
            clock: Clock::Model,
            a,
            b,
            faster: Quotient { ratio, low: 0.0, high: f64::INFINITY, proven: false, n: a.n },
            difference: None,
            same_durability: true,
            promises_less: false,
            promise_unknown: false,
        }
    }

    /// What happened: the smallest and the largest of two runs stood under "[95 %]".
    #[test]
    fn what_has_no_interval_is_given_none() {
        let of = |counts: &[f64]| {
            let counted = mean_interval(counts).unwrap();
            interval(&flushes(counted, counted, 1.0), &counted)
        };
        assert_eq!((of(&[0.0, 0.5]), of(&[0.5])), ("no interval".into(), "one run".into()));
        assert_eq!((of(&[0.0, 0.0]), of(&[2.0, 2.0])), ("[0, 0]".into(), "[2.00, 2.00]".into()));
    }

    #[test]
    fn a_difference_is_told_from_its_nearer_end() {
        let told = |a: &[f64], b: &[f64]| difference_told(&unpaired_difference(a, b).unwrap());
        let (none, one) = ([0.0, 1.0, 0.0], [20.0, 21.0, 20.0]);
        let more = told(&none, &one);
        assert!(
            more.starts_with("20") && more.contains("[18.7, 21.3]") && more.ends_with("] more"),
            "{more}"
        );
        assert_eq!(told(&one, &none), more.replace("more", "less"));
        let same = told(&none, &none);
        assert!(same.starts_with("+0 [-") && same.ends_with(']'), "{same}");
    }

    /// A count of one run is for a large part of a timer's making where few executions flush: a
    /// quotient of nothing has no digits, and no limit is large enough.
    #[test]
    fn what_nothing_is_proven_of_is_told_without_numbers_that_say_more() {
        let counted = |count: f64| mean_interval(&[count]).unwrap();
        let change = |a: f64, b: f64| flushes(counted(a), counted(b), a / b);
        assert_eq!(verdict_of(&change(0.03, 0.0)), "~ less: none");
        assert_eq!(verdict_of(&change(0.03, 0.04)), "~ 0.75x (too few runs for an interval)");
        let side = || Side {
            experiment: "e".into(),
            started_ms: 0,
            environment: std::collections::BTreeMap::new(),
            cells: Vec::new(),
            empty: Vec::new(),
            is_rounded: false,
        };
        let changes = Changes { changes: vec![change(0.03, 0.04)], ..Changes::default() };
        let names = ["a.db".to_owned(), "b.db".to_owned()];
        let compared = Comparison { names, sides: [side(), side()], changes, allowed: Some(0.1) };
        assert_eq!(
            compared.decision(),
            [
                "Cannot tell: WAL, update: flushes of one transaction are 1.33x of A's, with too few runs for an interval \
              (0.03 → 0.04): this cannot tell whether that is within the 10 % allowed. Three runs of each and more \
              (--repeat) tell it."
            ]
        );
    }

    /// What happened: "2.0x [2.0, 2.1] of A's, more than the 100 % allowed".
    #[test]
    fn beside_a_limit_a_ratio_is_told_to_the_percent() {
        let told = |ratio, low, high| beside_limit(&Quotient { ratio, low, high, proven: true, n: 5 });
        assert_eq!(told(2.04, 2.01, 2.07), "2.04x [2.01, 2.07]");
        assert_eq!(told(1.251, 1.25, 1.252), "1.25x [1.25, 1.25]");
        assert_eq!(told(12.4, 11.0, 14.0), "12x [11, 14]");
        // A hundredth of a percent was "0.00x [0.00, 0.00]", and of one run "0.00x (one run)".
        assert_eq!(told(0.0043, 0.004, 0.0046), "0.0043x [0.004, 0.005]");
        assert_eq!(told(0.02, 0.004, 0.1), "0.02x [0.004, 0.10]");
        let tiny = Quotient { ratio: 0.0043, low: 0.0043, high: 0.0043, proven: true, n: 1 };
        assert_eq!(exactly(&tiny), "0.0043x (one run)");
        // "1.25x [1.25, 1.25]" looked as if it were known to the percent.
        let one = Quotient { ratio: 1.25, low: 1.25, high: 1.25, proven: true, n: 1 };
        assert_eq!((beside_limit(&one), exactly(&one)), ("1.25x (one run)".into(), "1.25x (one run)".into()));
    }
}

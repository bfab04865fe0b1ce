//! The comparison as a page: what changed in a sentence, a picture of every ratio with its
//! interval, the table. It needs no script but for sorting, and takes head and style from the
//! report.

use fathom_lab::analysis::Change;
use maud::{Markup, html};

use super::{Comparison, head, percent, place};
use crate::page::{Page, column, folded, label, scrolled, sorting};
use crate::style::tame;

/// No ratio is drawn further from 1 than this.
const FARTHEST: f64 = 1000.0;
/// The axis goes at least so far: 5 % either way, so that noise does not fill the picture.
const NEAREST: f64 = 1.05;

/// Sentences of the gate that are seen before somebody asks for all.
const SENTENCES: usize = 3;

/// The logarithmic axis of all ratios, 1 in its middle.
struct Ruler {
    /// Logarithm of its right end.
    most: f64,
}

impl Ruler {
    fn of(changes: &[Change], allowed: Option<f64>) -> Ruler {
        let faster = changes.iter().map(|change| change.faster);
        let ends = faster
            .flat_map(|faster| [faster.low, faster.ratio, faster.high])
            .chain(allowed.map(|limit| 1.0 + limit));
        let logs = ends.map(|ratio| ratio.ln().abs()).filter(|abs| abs.is_finite());
        let most = logs.fold(NEAREST.ln(), f64::max).min(FARTHEST.ln());
        Ruler { most: most * 1.08 }
    }

    /// Percent from the left; what lies beyond is at the end.
    fn at(&self, ratio: f64) -> f64 {
        let log = if ratio > 0.0 { ratio.ln() } else { f64::NEG_INFINITY };
        50.0 + 50.0 * (log / self.most).clamp(-1.0, 1.0)
    }

    /// Ratios that are named under the axis: three or more, as round as there are, the farthest
    /// nearly half of the way out at least.
    fn ticks(&self) -> Vec<f64> {
        const STEPS: [&[f64]; 8] = [
            &[10.0, 100.0, 1000.0],
            &[3.0, 10.0, 30.0],
            &[2.0, 5.0],
            &[1.5, 2.0, 3.0],
            &[1.2, 1.5],
            &[1.1, 1.2],
            &[1.05, 1.1],
            &[1.02, 1.05],
        ];
        let named = |steps: &&[f64]| steps.iter().filter(|step| step.ln() <= self.most).count();
        let steps = STEPS.iter().find(|steps| named(steps) > 1).unwrap_or(&STEPS[STEPS.len() - 1]);
        let mut ticks = vec![1.0];
        for step in steps.iter().filter(|step| step.ln() <= self.most) {
            ticks.insert(0, 1.0 / step);
            ticks.push(*step);
        }
        ticks
    }

    /// Whether an end of an interval is not on it.
    fn is_beyond(&self, ratio: f64) -> bool {
        ratio.is_nan() || ratio <= 0.0 || ratio.ln().abs() > self.most
    }
}

impl Comparison {
    /// The whole as one HTML page that needs no server and no network.
    #[must_use]
    pub fn html(&self) -> String {
        let title = "B against A";
        let [a, b] = self.titles();
        let page = Page {
            title,
            version: env!("CARGO_PKG_VERSION"),
            header: html! {
                p.brand { strong { "Fathom" } " " span { "compare" } }
                h1 { (title) }
                p.question { "A: " (label(&a)) br; "B: " (label(&b)) }
            },
            main: html! {
                (self.answer())
                @if self.changes.changes.is_empty() {
                    p { (self.nothing()) }
                } @else {
                    (self.picture())
                    (self.table())
                }
                (self.careful())
            },
            credits: html! {},
            scripts: sorting(),
        };
        page.html()
    }

    fn answer(&self) -> Markup {
        let decision = self.decision();
        let (first, more) = decision.split_at(decision.len().min(SENTENCES));
        html! {
            div.answer id="answer" role="region" aria-labelledby="h-answer" {
                h2 id="h-answer" { "The answer" }
                p.finding { (self.summary()) }
                @for sentence in first { p.promise { (tame(sentence)) } }
                @if !more.is_empty() {
                    (folded(&format!("{} more", more.len()), &html! {
                        ul { @for sentence in more { li { (tame(sentence)) } } }
                    }))
                }
            }
        }
    }

    /// Every ratio with its interval, a panel for each quantity, all on one axis.
    fn picture(&self) -> Markup {
        let changes = &self.changes.changes;
        let ruler = Ruler::of(changes, self.allowed);
        let mut heads: Vec<&str> = Vec::new();
        for change in changes {
            if !heads.contains(&head(change)) {
                heads.push(head(change));
            }
        }
        html! {
            figure.figure.ratios id="ratios" aria-labelledby="h-ratios" {
                figcaption {
                    h3 id="h-ratios" { "How many times as fast, or as little, B is" }
                    p {
                        "Ratio of the geometric means with its 95 % interval; logarithmic axis. Right of the line \
                         B is better. Hollow: not proven."
                        @if let Some(allowed) = self.allowed {
                            " Dashed: the " (percent(allowed)) " that are allowed."
                        }
                    }
                }
                @for quantity in heads {
                    h4 { (quantity) }
                    ol {
                        @for change in changes.iter().filter(|change| head(change) == quantity) {
                            (self.ratio(change, &ruler))
                        }
                    }
                }
                p.scale aria-hidden="true" {
                    span.track {
                        @for tick in ruler.ticks() { span style=(left(ruler.at(tick))) { (tick_name(tick)) "x" } }
                    }
                }
            }
        }
    }

    fn ratio(&self, change: &Change, ruler: &Ruler) -> Markup {
        let faster = &change.faster;
        let kind = match (faster.proven, faster.ratio >= 1.0) {
            (false, _) => "same",
            (true, true) => "better",
            (true, false) => "worse",
        };
        let (low, high) = (ruler.at(faster.low), ruler.at(faster.high));
        let range = format!("left:{low:.2}%;width:{:.2}%", (high - low).max(0.0));
        html! {
            li class=(kind) {
                span.name { (label(&tame(&place(change)))) }
                span.track aria-hidden="true" {
                    b.one {}
                    @if let Some(allowed) = self.allowed {
                        b.limit style=(left(ruler.at(1.0 / (1.0 + allowed)))) {}
                    }
                    // Of counts with zeros there is no quotient that could be drawn.
                    @if change.difference.is_none() {
                        b.range.cut-low[ruler.is_beyond(faster.low)].cut-high[ruler.is_beyond(faster.high)]
                            style=(range) {}
                    }
                    i style=(left(ruler.at(faster.ratio))) {}
                }
                span.value { (super::verdict_of(change)) }
            }
        }
    }

    fn table(&self) -> Markup {
        let (heads, rows) = self.rows();
        html! {
            section aria-labelledby="h-values" {
                h2 id="h-values" { "Every value" }
                (scrolled("Every value", &html! {
                    table.sortable {
                        thead { tr { @for name in &heads { (column(name, is_number(name))) } } }
                        tbody {
                            @for ((fields, _), change) in rows.iter().zip(&self.changes.changes) {
                                (row(&heads, fields, change))
                            }
                        }
                    }
                }))
            }
        }
    }

    fn careful(&self) -> Markup {
        let mut all: Vec<String> = Vec::new();
        for (cells, which) in [(&self.changes.only_a, "A"), (&self.changes.only_b, "B")] {
            if !cells.is_empty() {
                all.push(format!("Only in {which}: {}.", cells.join(", ")));
            }
        }
        all.extend(self.changes.cautions.iter().chain(&self.changes.lacking).cloned());
        html! {
            @if !all.is_empty() {
                section.careful aria-labelledby="h-careful" {
                    h2 id="h-careful" { "What to be careful about" }
                    ul { @for text in &all { li { (tame(text)) } } }
                }
            }
        }
    }
}

fn left(percent: f64) -> String {
    format!("left:{percent:.2}%")
}

/// `1/2`, as far on one side as `2` on the other.
fn tick_name(tick: f64) -> String {
    let digits = |value: f64| {
        let text = crate::number::plain((100.0 * value).round() / 100.0);
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    };
    if tick < 1.0 { format!("1/{}", digits(1.0 / tick)) } else { digits(tick) }
}

fn is_number(column: &str) -> bool {
    matches!(column, "A" | "B" | "size" | "[95 %]")
}

fn row(heads: &[String], fields: &[String], change: &Change) -> Markup {
    // What the first two intervals' columns sort by is their own low end.
    let mut lows = [change.a.low, change.b.low].into_iter();
    let mut key = |name: &str| {
        let key = match name {
            "A" => Some(change.a.mid),
            "B" => Some(change.b.mid),
            "[95 %]" => lows.next(),
            "size" => change.x,
            "B is" => Some(change.faster.ratio),
            _ => None,
        };
        key.filter(|value| value.is_finite())
    };
    html! {
        tr {
            @for (name, field) in heads.iter().zip(fields) {
                @let key = key(name);
                @if name == "cell" {
                    th scope="row" { (label(field)) }
                } @else {
                    td class=[is_number(name).then_some("n")] data-v=[key] { (field) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_has_one_in_its_middle_and_its_ends_hold_what_is_beyond() {
        let ruler = Ruler::of(&[], Some(1.0));
        assert!((ruler.at(1.0) - 50.0).abs() < 1e-9);
        assert!((ruler.at(2.0) - 50.0 - (50.0 - ruler.at(0.5))).abs() < 1e-9, "the same either way");
        assert!(ruler.at(2.0) < 100.0 && ruler.at(1e9) == 100.0 && ruler.at(0.0) == 0.0);
        assert_eq!(ruler.ticks().iter().filter(|tick| **tick > 1.0).count(), 2, "{:?}", ruler.ticks());
        assert!(Ruler::of(&[], Some(0.01)).ticks().len() >= 3);
        // What happened: with ratios of 1.5 the axis was named up to 1.2, and of 4.9 up to 2.
        for percent in 1..=50_000 {
            let ruler = Ruler::of(&[], Some(f64::from(percent) / 100.0));
            let farthest = ruler.ticks().into_iter().fold(1.0, f64::max);
            assert!(ruler.at(farthest) >= 72.0, "{percent} %: {:?}", ruler.ticks());
        }
        assert!(!ruler.is_beyond(2.0) && ruler.is_beyond(f64::INFINITY) && ruler.is_beyond(0.0));
    }
}

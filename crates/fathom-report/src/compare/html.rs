//! The comparison as a page: what changed in a sentence, a picture of every ratio with its interval,
//! the table. It needs no script but for sorting, and takes head and style from the report.

use std::fmt::Write as _;

use fathom_lab::analysis::Change;

use super::{Comparison, head, percent, place};
use crate::html::{self, escape, label};
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
        let faster = changes.iter().map(|it| it.faster);
        let ends = faster.flat_map(|it| [it.low, it.ratio, it.high]).chain(allowed.map(|it| 1.0 + it));
        let logs = ends.map(|it| it.ln().abs()).filter(|it| it.is_finite());
        let most = logs.fold(NEAREST.ln(), f64::max).min(FARTHEST.ln());
        Ruler { most: most * 1.08 }
    }

    /// Percent from the left; what lies beyond is at the end.
    fn at(&self, ratio: f64) -> f64 {
        let log = if ratio > 0.0 { ratio.ln() } else { f64::NEG_INFINITY };
        50.0 + 50.0 * (log / self.most).clamp(-1.0, 1.0)
    }

    /// Ratios that are named under the axis: three or more, as round as there are.
    fn ticks(&self) -> Vec<f64> {
        const STEPS: [&[f64]; 5] =
            [&[10.0, 100.0, 1000.0], &[2.0, 5.0, 10.0], &[1.5, 2.0], &[1.1, 1.2], &[1.02, 1.05]];
        let named = |steps: &&[f64]| steps.iter().filter(|it| it.ln() <= self.most).count();
        let steps = STEPS.iter().find(|it| named(it) > 1).unwrap_or(&STEPS[4]);
        let mut ticks = vec![1.0];
        for step in steps.iter().filter(|it| it.ln() <= self.most) {
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
        let mut out = html::page_head("B against A", env!("CARGO_PKG_VERSION"));
        let [a, b] = self.titles();
        let _ = writeln!(
            out,
            "<header class=\"page\"><p class=\"brand\"><strong>Fathom</strong> <span>compare</span></p>\n\
             <h1>B against A</h1>\n<p class=\"question\">A: {}<br>B: {}</p></header>\n<main>",
            label(&a),
            label(&b)
        );
        let _ = writeln!(
            out,
            "<div class=\"answer\" id=\"answer\" role=\"region\" aria-labelledby=\"h-answer\"><h2 id=\"h-answer\">The answer</h2>\n\
             <p class=\"finding\">{}</p>",
            escape(&self.summary())
        );
        let decision = self.decision();
        let (first, more) = decision.split_at(decision.len().min(SENTENCES));
        for sentence in first {
            let _ = writeln!(out, "<p class=\"promise\">{}</p>", escape(&tame(sentence)));
        }
        if !more.is_empty() {
            let _ = write!(out, "<details class=\"rest\"><summary>{} more</summary><ul>", more.len());
            for sentence in more {
                let _ = write!(out, "<li>{}</li>", escape(&tame(sentence)));
            }
            out.push_str("</ul></details>\n");
        }
        out.push_str("</div>\n");
        if self.changes.changes.is_empty() {
            out.push_str(
                "<p>The files have no cell with a good run in common, so there is nothing to compare.</p>\n",
            );
        } else {
            self.picture(&mut out);
            self.table(&mut out);
        }
        self.careful(&mut out);
        let _ = writeln!(
            out,
            "</main>\n<footer class=\"page\"><p>Made by Fathom {}. This file asks the network for nothing.</p></footer>\n\
             <script>{}</script>\n</body>\n</html>",
            env!("CARGO_PKG_VERSION"),
            html::SORT_JS
        );
        out
    }

    /// Every ratio with its interval, a panel for each quantity, all on one axis.
    fn picture(&self, out: &mut String) {
        let changes = &self.changes.changes;
        let ruler = Ruler::of(changes, self.allowed);
        let _ = writeln!(
            out,
            "<figure class=\"figure ratios\" id=\"ratios\" aria-labelledby=\"h-ratios\"><figcaption><h3 id=\"h-ratios\">How many times \
             as fast, or as little, B is</h3><p>Ratio of the geometric means with its 95 % interval; logarithmic axis. Right of the \
             line B is better. Hollow: not proven.{}</p></figcaption>",
            match self.allowed {
                Some(allowed) => format!(" Dashed: the {} that are allowed.", percent(allowed)),
                None => String::new(),
            }
        );
        let mut heads: Vec<&str> = Vec::new();
        for change in changes {
            if !heads.contains(&head(change)) {
                heads.push(head(change));
            }
        }
        for of in heads {
            let _ = writeln!(out, "<h4>{}</h4><ol>", escape(of));
            for change in changes.iter().filter(|it| head(it) == of) {
                self.ratio(change, &ruler, out);
            }
            out.push_str("</ol>\n");
        }
        out.push_str("<p class=\"scale\" aria-hidden=\"true\"><span class=\"track\">");
        for tick in ruler.ticks() {
            // 1/2 is as far on one side as 2 on the other.
            let told = if tick < 1.0 {
                format!("1/{}", crate::number::plain((100.0 / tick).round() / 100.0))
            } else {
                crate::number::plain((tick * 100.0).round() / 100.0)
            };
            let told =
                if told.contains('.') { told.trim_end_matches('0').trim_end_matches('.') } else { &told };
            let _ = write!(out, "<span style=\"left:{:.2}%\">{told}x</span>", ruler.at(tick));
        }
        out.push_str("</span></p></figure>\n");
    }

    fn ratio(&self, change: &Change, ruler: &Ruler, out: &mut String) {
        let it = &change.faster;
        let kind = match (it.proven, it.ratio >= 1.0) {
            (false, _) => "same",
            (true, true) => "better",
            (true, false) => "worse",
        };
        let (low, high) = (ruler.at(it.low), ruler.at(it.high));
        let open =
            |end: f64, class: &str| if ruler.is_beyond(end) { format!(" {class}") } else { String::new() };
        let limit = self.allowed.map_or_else(String::new, |allowed| {
            format!("<b class=\"limit\" style=\"left:{:.2}%\"></b>", ruler.at(1.0 / (1.0 + allowed)))
        });
        let _ = writeln!(
            out,
            "<li class=\"{kind}\"><span class=\"name\">{}</span><span class=\"track\" aria-hidden=\"true\"><b class=\"one\"></b>{limit}\
             <b class=\"range{}{}\" style=\"left:{low:.2}%;width:{:.2}%\"></b><i style=\"left:{:.2}%\"></i></span>\
             <span class=\"value\">{}</span></li>",
            label(&tame(&place(change))),
            open(it.low, "cut-low"),
            open(it.high, "cut-high"),
            (high - low).max(0.0),
            ruler.at(it.ratio),
            escape(&super::verdict_of(change)),
        );
    }

    fn table(&self, out: &mut String) {
        let (heads, rows) = self.rows();
        out.push_str(
            "<section aria-labelledby=\"h-values\"><h2 id=\"h-values\">Every value</h2>\n\
             <div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"Every value\"><table class=\"sortable\"><thead><tr>",
        );
        let is_number = |name: &str| matches!(name, "A" | "B" | "size" | "[95 %]");
        for name in &heads {
            let class = if is_number(name) { " class=\"n\"" } else { "" };
            let _ = write!(out, "<th scope=\"col\"{class}>{}</th>", escape(name));
        }
        out.push_str("</tr></thead><tbody>\n");
        for ((fields, _), change) in rows.iter().zip(&self.changes.changes) {
            out.push_str("<tr>");
            // What the first two intervals' columns sort by is their own low end.
            let mut lows = [change.a.low, change.b.low].into_iter();
            for (name, field) in heads.iter().zip(fields) {
                let text = escape(field);
                let key = match name.as_str() {
                    "A" => Some(change.a.mid),
                    "B" => Some(change.b.mid),
                    "[95 %]" => lows.next(),
                    "size" => change.x,
                    "B is" => Some(change.faster.ratio),
                    _ => None,
                };
                let key = key.filter(|it| it.is_finite()).map_or_else(String::new, html::sort_key);
                let _ = match name.as_str() {
                    "cell" => write!(out, "<th scope=\"row\">{}</th>", label(field)),
                    other if is_number(other) => write!(out, "<td class=\"n\"{key}>{text}</td>"),
                    _ => write!(out, "<td{key}>{text}</td>"),
                };
            }
            out.push_str("</tr>\n");
        }
        out.push_str("</tbody></table></div></section>\n");
    }

    fn careful(&self, out: &mut String) {
        let mut all: Vec<String> = Vec::new();
        for (cells, which) in [(&self.changes.only_a, "A"), (&self.changes.only_b, "B")] {
            if !cells.is_empty() {
                all.push(format!("Only in {which}: {}.", cells.join(", ")));
            }
        }
        all.extend(self.changes.cautions.iter().chain(&self.changes.lacking).cloned());
        if all.is_empty() {
            return;
        }
        out.push_str(
            "<section class=\"careful\" aria-labelledby=\"h-careful\"><h2 id=\"h-careful\">What to be careful about</h2>\n<ul>",
        );
        for text in all {
            let _ = writeln!(out, "<li>{}</li>", escape(&tame(&text)));
        }
        out.push_str("</ul></section>\n");
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
        assert_eq!(ruler.ticks().iter().filter(|it| **it > 1.0).count(), 2, "{:?}", ruler.ticks());
        assert!(Ruler::of(&[], Some(0.01)).ticks().len() >= 3);
        assert!(!ruler.is_beyond(2.0) && ruler.is_beyond(f64::INFINITY) && ruler.is_beyond(0.0));
    }
}

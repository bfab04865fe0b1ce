//! The ranked bars in the page: plain elements, so that they need no script, wrap on a phone,
//! print, and go with the filters.

use std::io::{self, Write};

use super::{Bar, Group, Panel, Ranking, interval, value};
use crate::html::{escape, label};

/// Panels that are seen before somebody asks for all.
const PANELS_SEEN: usize = 3;

/// Writes the figure.
pub fn write(ranking: &Ranking, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<figure class=\"ranking\" id=\"{}\" aria-labelledby=\"h-ranking\"><figcaption><h3 id=\"h-ranking\">{}</h3><p>{}</p></figcaption>",
        super::ID,
        escape(&ranking.title),
        escape(&ranking.note)
    )?;
    for (number, panel) in ranking.panels.iter().enumerate() {
        if number == PANELS_SEEN {
            let more = ranking.panels.len() - PANELS_SEEN;
            writeln!(out, "<details class=\"rest\"><summary>{more} more</summary>")?;
        }
        if !panel.name.is_empty() {
            writeln!(out, "<h4>{}</h4>", label(&panel.name))?;
        }
        bars(ranking, panel, false, out)?;
        let (all, folded) = panel.counts();
        if folded > 0 {
            writeln!(out, "<details class=\"rest\"><summary>The other {folded} of {all}</summary>")?;
            bars(ranking, panel, true, out)?;
            writeln!(out, "</details>")?;
        }
    }
    if ranking.panels.len() > PANELS_SEEN {
        writeln!(out, "</details>")?;
    }
    writeln!(out, "</figure>")
}

fn bars(ranking: &Ranking, panel: &Panel, folded: bool, out: &mut dyn Write) -> io::Result<()> {
    for group in &panel.groups {
        let mut own = group.bars.iter().filter(|bar| bar.is_folded == folded).peekable();
        if own.peek().is_none() {
            continue;
        }
        let Group { keeps, colour, .. } = group;
        writeln!(
            out,
            "<section class=\"promise-group\" style=\"--c:{};--d:{}\"><h5><span class=\"swatch\"></span>{keeps}</h5><ol>",
            colour.light, colour.dark
        )?;
        for bar in own {
            row(ranking, panel, bar, out)?;
        }
        writeln!(out, "</ol></section>")?;
    }
    Ok(())
}

fn row(ranking: &Ranking, panel: &Panel, bar: &Bar, out: &mut dyn Write) -> io::Result<()> {
    let percent = |it: f64| panel.share(it) * 100.0;
    let (low, high) = (percent(bar.low.max(0.0)), percent(bar.high));
    let high = if high.is_finite() { high } else { 100.0 };
    // Of a bar that is cut the interval lies beyond the scale.
    let whisker = if panel.is_cut(bar) {
        String::new()
    } else {
        let cut = if bar.high.is_nan() || bar.high > panel.most { " cut" } else { "" };
        format!("<b class=\"whisker{cut}\" style=\"left:{low:.2}%;width:{:.2}%\"></b>", (high - low).max(0.0))
    };
    let open = if panel.is_cut(bar) { " class=\"open\"" } else { "" };
    writeln!(
        out,
        "<li data-cell=\"{}\"><span class=\"name\">{}</span><span class=\"track\" aria-hidden=\"true\"><i{open} style=\"width:{:.2}%\"></i>\
         {whisker}</span><span class=\"value\">{} <span class=\"iv\">{}</span></span></li>",
        bar.cell,
        label(&bar.name),
        percent(bar.mid),
        value(ranking.metric, bar.mid),
        interval(ranking.metric, bar),
    )
}

//! The ranked bars in the page: plain elements, so that they need no script, wrap on a phone,
//! print, and go with the filters.

use maud::{Markup, html};

use super::{Bar, Group, Panel, Ranking, interval, value};
use crate::page::{colours, folded, label};

/// Panels that are seen before somebody asks for all.
const PANELS_SEEN: usize = 3;

/// Characters of a name from which names get the room of two in the column of usual ones.
const LONG_NAME: usize = 30;

/// The figure.
pub fn figure(ranking: &Ranking) -> Markup {
    let (seen, more) = ranking.panels.split_at(ranking.panels.len().min(PANELS_SEEN));
    let bars = ranking.panels.iter().flat_map(|panel| &panel.groups).flat_map(|group| &group.bars);
    let has_long = bars.map(|bar| bar.name.chars().count()).any(|length| length >= LONG_NAME);
    html! {
        figure.ranking.long-names[has_long] id=(super::ID) aria-labelledby="h-ranking" {
            figcaption { h3 id="h-ranking" { (ranking.title) } p { (ranking.note) } }
            @for shown in seen { (panel(ranking, shown)) }
            @if !more.is_empty() {
                (folded(&format!("{} more", more.len()), &html! {
                    @for hidden in more { (panel(ranking, hidden)) }
                }))
            }
        }
    }
}

fn panel(ranking: &Ranking, panel: &Panel) -> Markup {
    let (all, hidden) = panel.counts();
    html! {
        @if !panel.name.is_empty() { h4 { (label(&panel.name)) } }
        (bars(ranking, panel, false))
        @if hidden > 0 {
            (folded(&format!("The other {hidden} of {all}"), &bars(ranking, panel, true)))
        }
    }
}

fn bars(ranking: &Ranking, panel: &Panel, is_folded: bool) -> Markup {
    // Below the figure's own heading where no panel has one between them: readers step by levels.
    let level = panel.name.is_empty().then_some("4");
    html! {
        @for Group { keeps, colour, bars } in &panel.groups {
            @let mut own = bars.iter().filter(|bar| bar.is_folded == is_folded).peekable();
            @if own.peek().is_some() {
                section.promise-group style=(colours(colour)) {
                    h5 aria-level=[level] { span.swatch {} (keeps) }
                    ol { @for bar in own { (row(ranking, panel, bar)) } }
                }
            }
        }
    }
}

fn row(ranking: &Ranking, panel: &Panel, bar: &Bar) -> Markup {
    let percent = |value: f64| panel.share(value) * 100.0;
    let (low, high) = (percent(bar.low.max(0.0)), percent(bar.high));
    let high = if high.is_finite() { high } else { 100.0 };
    let whisker = format!("left:{low:.2}%;width:{:.2}%", (high - low).max(0.0));
    let is_cut = panel.is_cut(bar);
    html! {
        li data-cell=(bar.cell) {
            span.name { (label(&bar.name)) }
            span.track aria-hidden="true" {
                i class=[is_cut.then_some("open")] style={ (format!("width:{:.2}%", percent(bar.mid))) } {}
                // Of a bar that is cut the interval lies beyond the scale, and a single run has
                // none.
                @if !is_cut && bar.low < bar.high {
                    b.whisker.cut[bar.high.is_nan() || bar.high > panel.most] style=(whisker) {}
                }
            }
            span.value { (value(ranking.metric, bar.mid)) " " span.iv { (interval(ranking.metric, bar)) } }
        }
    }
}

//! The ranked bars as a static SVG, for `fathom report --figure ranking --svg FILE`.

use super::{Ranking, interval, value};
use crate::canvas::{Canvas, INK, MUTED, WIDTH, document, shortened, text_width};

const ROW: f64 = 20.0;

/// Draws every bar, those that the page folds too.
pub fn draw(ranking: &Ranking) -> String {
    let mut body = Canvas::default();
    let bars = || ranking.panels.iter().flat_map(|panel| &panel.groups).flat_map(|group| &group.bars);
    // Some faces are wider than `text_width` has them.
    let names = bars().map(|bar| text_width(&bar.name, 11.0) * 1.15).fold(60.0, f64::max).min(WIDTH * 0.4);
    let values = bars()
        .map(|bar| {
            text_width(&format!("{} {}", value(ranking.metric, bar.mid), interval(ranking.metric, bar)), 11.0)
        })
        .fold(60.0, f64::max)
        .min(WIDTH * 0.3);
    let (left, width) = (names + 10.0, WIDTH - names - values - 26.0);
    let mut y = 20.0;
    y = body.paragraph(y, &ranking.title, INK, 15, true);
    y = body.paragraph(y + 16.0, &ranking.note, MUTED, 10, false);
    for panel in &ranking.panels {
        if !panel.name.is_empty() {
            y += 24.0;
            body.text(0.0, y, &shortened(&panel.name, 12.0, WIDTH / 1.15), "start", INK, 12, true);
        }
        for group in &panel.groups {
            y += 24.0;
            body.rect(0.0, y - 9.0, 10.0, 10.0, group.colour.light);
            body.text(15.0, y, group.keeps, "start", MUTED, 11, true);
            y += 6.0;
            for bar in &group.bars {
                let middle = y + ROW / 2.0;
                let name = shortened(&bar.name, 11.0, names / 1.14);
                body.text(names, middle + 4.0, &name, "end", INK, 11, false);
                body.rect(left, middle - 6.0, panel.share(bar.mid) * width, 12.0, group.colour.light);
                let [low, high] = [bar.low.max(0.0), bar.high].map(|bound| left + panel.share(bound) * width);
                if panel.is_cut(bar) {
                    // Two strokes through the end: it goes on.
                    for x in [left + width - 10.0, left + width - 5.0] {
                        body.line(x, middle + 8.0, x + 4.0, middle - 8.0, "#ffffff", 2.0);
                    }
                } else {
                    body.line(low, middle, high, middle, INK, 1.0);
                }
                let told = format!("{} {}", value(ranking.metric, bar.mid), interval(ranking.metric, bar));
                body.text(left + width + 10.0, middle + 4.0, &told, "start", INK, 11, false);
                y += ROW;
            }
        }
    }
    document(&ranking.title, &description(ranking), y + 8.0, &body)
}

/// The bars in words.
fn description(ranking: &Ranking) -> String {
    let mut text = format!("Ranked bars: {}. ", ranking.title);
    for group in ranking.panels.iter().flat_map(|panel| &panel.groups) {
        let named = group.bars.iter().map(|bar| format!("{} {}", bar.name, value(ranking.metric, bar.mid)));
        text += &format!("{}: {}. ", group.keeps, named.collect::<Vec<_>>().join(", "));
    }
    text
}

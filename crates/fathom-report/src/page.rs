//! What all pages are made of: one file, no server, no network.
//!
//! Pages are templates of `maud`, which escapes whatever is put into them. What is not to be
//! escaped says so with [`PreEscaped`] and is Fathom's own: style, scripts, drawings, and JSON from
//! [`json_block`]. A content security policy forbids every request, so that "works offline" is
//! enforced by the browser and not only intended.

use fathom_lab::store::Results;
use maud::{Markup, PreEscaped, html};

use crate::palette::Colour;

const CSS: &str = include_str!("page/page.css");
const SORT_JS: &str = include_str!("page/sort.js");
const PRINT_JS: &str = include_str!("page/print.js");

const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; \
    img-src data: blob:; base-uri 'none'; form-action 'none'";

/// How every page begins.
pub const DOCTYPE: PreEscaped<&str> = PreEscaped("<!doctype html>");

/// A page, ready to be laid out.
pub struct Page<'a> {
    /// Stands in the window's frame.
    pub title: &'a str,
    /// The Fathom that made what is shown.
    pub version: &'a str,
    /// The inside of the header.
    pub header: Markup,
    /// The inside of the main part.
    pub main: Markup,
    /// Follows "Made by Fathom …" in the footer.
    pub credits: Markup,
    /// What stands behind the footer.
    pub scripts: Markup,
}

impl Page<'_> {
    /// The whole file.
    pub fn html(self) -> String {
        let Page { title, version, header, main, credits, scripts } = self;
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta http-equiv="Content-Security-Policy" content=(POLICY);
                    meta name="color-scheme" content="light dark";
                    (generator(version))
                    link rel="icon" href="data:,";
                    title { (title) " · Fathom" }
                    style { (PreEscaped(CSS)) }
                }
                body {
                    a.skip href="#answer" { "To the answer" }
                    header.page { (header) }
                    main { (main) }
                    footer.page {
                        p { "Made by Fathom " (version) ". " (credits) "This file asks the network for nothing." }
                    }
                    (script(PRINT_JS))
                    (scripts)
                }
            }
        };
        finished(page)
    }
}

/// What shows that a file is a page of Fathom's: [`crate::HTML_MARK`].
pub fn generator(version: &str) -> Markup {
    html! { meta name="generator" content={ "Fathom " (version) }; }
}

/// The file: no page has a NUL, which HTML forbids and editors take for a mark of binary files, nor
/// what [`turns`] the text behind it.
pub fn finished(page: Markup) -> String {
    page.into_string().replace(|c: char| c == '\0' || turns(c), "\u{fffd}") + "\n"
}

/// Whether text behind this character is read in another direction than it is written in, until
/// another one ends that: a name with one of them turns the numbers of its sentence around.
pub fn turns(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A label from the results, its direction kept to itself: text that is read from right to left
/// must not reorder the numbers beside it.
pub fn label(text: &str) -> Markup {
    html! { bdi { (text) } }
}

/// A square of the colour.
pub fn swatch(colour: &Colour) -> Markup {
    html! { span.swatch style=(colours(colour)) {} }
}

/// A colour on light and on dark ground as the style sheet takes it.
pub fn colours(colour: &Colour) -> String {
    format!("--c:{};--d:{}", colour.light, colour.dark)
}

/// The head of a column.
pub fn column(name: &str, is_number: bool) -> Markup {
    html! { th scope="col" class=[is_number.then_some("n")] { (name) } }
}

/// A number of a table: what it is sorted by, where there is any, and how it is shown.
pub fn number_cell(value: Option<f64>, shown: &str) -> Markup {
    html! { td.n data-v=[value.filter(|value| value.is_finite())] { (shown) } }
}

/// A filter's button for a value on an axis.
pub fn chip(axis: &str, value: &str, inside: &Markup) -> Markup {
    html! {
        button.chip type="button" aria-pressed="false" data-axis=(axis) data-value=(value) { (inside) }
    }
}

/// A table that scrolls in its own frame where the window is narrow.
pub fn scrolled(about: &str, table: &Markup) -> Markup {
    html! { div.scroll role="region" tabindex="0" aria-label=(about) { (table) } }
}

/// A list behind a fold.
pub fn folded(summary: &str, inside: &Markup) -> Markup {
    html! { details.rest { summary { (summary) } (inside) } }
}

/// A script of Fathom's own.
pub fn script(source: &'static str) -> Markup {
    html! { script { (PreEscaped(source)) } }
}

/// Sorts the tables of the page at a click on a heading.
pub fn sorting() -> Markup {
    script(SORT_JS)
}

/// What a script works on: JSON without a `<`, so that no end tag and no comment can be in it.
pub fn json_block(id: &str, value: &serde_json::Value) -> Markup {
    let json = value
        .to_string()
        .replace('<', "\\u003c")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    html! { script type="application/json" id=(id) { (PreEscaped(json)) } }
}

/// The name of a cell by its number.
pub fn cell_name(results: &Results, cell: i64) -> Markup {
    html! { @if let Some(cell) = results.cell(cell) { (label(&cell.title)) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNTRUSTED: &str = "</title></script><script>x</script>&\"'\0\u{202e}";

    #[test]
    fn a_page_says_who_made_it_and_holds_no_text_that_was_not_escaped() {
        let page = Page {
            title: UNTRUSTED,
            version: UNTRUSTED,
            header: label(UNTRUSTED),
            main: scrolled(UNTRUSTED, &column(UNTRUSTED, true)),
            credits: folded(UNTRUSTED, &html! {}),
            scripts: json_block("data", &serde_json::json!({ "text": UNTRUSTED })),
        };
        let text = page.html();
        assert!(!text.contains("<script>x") && !text.contains(['\0', '\u{202e}']), "{text}");
        // That which prints what is folded, and the block of JSON.
        assert_eq!(text.matches("</script>").count(), 2, "{text}");
        assert!(text.contains("<th scope=\"col\" class=\"n\">&lt;/title&gt;"), "{text}");
        let plain = Page {
            title: "t",
            version: "1",
            header: html! {},
            main: html! {},
            credits: html! {},
            scripts: html! {},
        };
        assert!(plain.html()[..4096.min(CSS.len())].contains(crate::HTML_MARK));
    }
}

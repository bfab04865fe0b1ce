//! What all SVG figures are drawn on: for papers, for machines without a browser.
//!
//! By hand (rectangles, lines, symbols and text: a plotting crate would bring more code than this
//! file has), on white, in the light colours of the page, 720 units wide. Text is text, so it can
//! be searched and set in another font; it is escaped here and nowhere else.

use std::fmt::Write;

use maud::html;

use crate::page::turns;
use crate::palette::Colour;

/// Width of every figure.
pub const WIDTH: f64 = 720.0;
/// As much of the width as a bold text may have by [`text_width`].
const BOLD: f64 = 0.86;
/// Colour of what is to be read first.
pub const INK: &str = "#1b1f24";
/// Colour of what is to be read second.
pub const MUTED: &str = "#59616b";
/// Colour of the lines of an axis.
pub const RULE: &str = "#dcdfe3";

/// What is behind everything.
const GROUND: &str = "#ffffff";

/// A whole file of this height with what is drawn.
pub fn document(title: &str, description: &str, height: f64, body: &Canvas) -> String {
    put_together("", "", title, description, height, body)
}

/// The same within a page: where the reader's is dark it is drawn in the dark colours, but not on
/// paper. `colours` are those of the drawing that the canvas does not know itself.
pub fn within_page(title: &str, description: &str, height: f64, body: &Canvas, colours: &[Colour]) -> String {
    let own = [
        Colour { light: INK, dark: "#e8eaed" },
        Colour { light: MUTED, dark: "#a7afb9" },
        Colour { light: RULE, dark: "#31373e" },
    ];
    // On bars, which are lighter in the dark, white words become dark ones.
    let mut rules = format!(
        "rect[fill=\"{GROUND}\"]{{fill:#1b1f24}}.drawing text[fill=\"{GROUND}\"]{{fill:#14171b}}\
         .drawing [stroke=\"{GROUND}\"]{{stroke:#1b1f24}}"
    );
    for Colour { light, dark } in own.iter().chain(colours) {
        rules += &format!(
            ".drawing [fill=\"{light}\"]{{fill:{dark}}}.drawing [stroke=\"{light}\"]{{stroke:{dark}}}"
        );
    }
    let style =
        format!("<style>@media screen and (prefers-color-scheme: dark){{.drawing {rules}}}</style>\n");
    put_together("class=\"drawing\" ", &style, title, description, height, body)
}

fn put_together(
    class: &str,
    style: &str,
    title: &str,
    description: &str,
    height: f64,
    body: &Canvas,
) -> String {
    format!(
        "<svg {class}xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\" {}\n<title>{}</title>\n<desc>{}</desc>\n{style}\
         <rect width=\"100%\" height=\"100%\" fill=\"{GROUND}\"/>\n{}</svg>\n",
        crate::SVG_MARK,
        escaped(title),
        escaped(description),
        body.0
    )
}

/// Text for XML: without markup, without the control characters that XML forbids, and without what
/// turns the text behind it.
fn escaped(text: &str) -> String {
    let is_forbidden = |c: char| c.is_control() && c != '\n' || turns(c);
    let text: String = text.chars().map(|c| if is_forbidden(c) { '\u{fffd}' } else { c }).collect();
    html! { (text) }.into_string()
}

/// About how wide a text is in a sans-serif face at `size`, px; rather too wide than too narrow.
/// The page that shows an SVG chooses the face, so this cannot be exact.
pub fn text_width(text: &str, size: f64) -> f64 {
    let width = |c: char| match c {
        'A'..='Z' | 'm' | 'w' => 0.72,
        'f' | 'i' | 'j' | 'l' | 't' | 'r' | '/' | ',' | '.' | ' ' => 0.36,
        _ => 0.58,
    };
    text.chars().map(width).sum::<f64>() * size
}

/// The text in lines that are not wider than `width`; a word is never cut.
pub fn lines_of(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line)
                if text_width(line, size) + text_width(" ", size) + text_width(word, size) <= width =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// The name in lines that are not wider than `width`, broken behind blanks, slashes, dashes and
/// underscores; what stands between two of them is never cut.
pub fn name_lines(name: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for piece in name.split_inclusive([' ', '/', '-', '_']) {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(piece.trim_end(), size) <= width => {
                line.push_str(piece);
            }
            _ => lines.push(piece.to_owned()),
        }
    }
    lines
}

/// The text with `…` in its middle where it has no room: names differ at their ends.
pub fn shortened(text: &str, size: f64, room: f64) -> String {
    if text_width(text, size) <= room {
        return text.to_owned();
    }
    let letters: Vec<char> = text.chars().collect();
    // The narrowest letters have a third of the size.
    let most = (room / size * 3.0).max(0.0) as usize;
    for kept in (0..=most.min(letters.len())).rev() {
        let (head, tail) = (&letters[..kept - kept / 2], &letters[letters.len() - kept / 2..]);
        let short: String = head.iter().chain(&['…']).chain(tail).collect();
        if text_width(&short, size) <= room {
            return short;
        }
    }
    String::new()
}

/// The inside of an SVG.
#[derive(Default)]
pub struct Canvas(String);

impl Canvas {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.0.write_fmt(element);
        self.0.push('\n');
    }

    /// Draws all of another canvas over what is here.
    pub fn put_all(&mut self, over: &Canvas) {
        self.0.push_str(&over.0);
    }

    /// A line of text; `anchor` is `start`, `middle` or `end`.
    #[allow(clippy::too_many_arguments)]
    pub fn text(&mut self, x: f64, y: f64, text: &str, anchor: &str, fill: &str, size: u32, bold: bool) {
        if !text.is_empty() {
            let weight = if bold { " font-weight=\"600\"" } else { "" };
            self.put(format_args!(
                "<text x=\"{x:.1}\" y=\"{y:.1}\" font-size=\"{size}\" text-anchor=\"{anchor}\" fill=\"{fill}\"{weight}>{}</text>",
                escaped(text)
            ));
        }
    }

    /// A text from the left edge in as many lines as it needs, the first at `y`; gives the last
    /// one's `y`.
    pub fn paragraph(&mut self, y: f64, text: &str, fill: &str, size: u32, bold: bool) -> f64 {
        let height = f64::from(size) * 1.3;
        // Bold letters are wider than `text_width` has them, those of DejaVu by a seventh.
        let width = if bold { WIDTH * BOLD } else { WIDTH };
        let mut at = y;
        for (number, line) in lines_of(text, f64::from(size), width).iter().enumerate() {
            at = y + number as f64 * height;
            self.text(0.0, at, line, "start", fill, size, bold);
        }
        at
    }

    /// A straight line.
    pub fn line(&mut self, x1: f64, y1: f64, x2: f64, y2: f64, stroke: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>"
        ));
    }

    /// A line through these points, with dashes (`6 3`) where they are given.
    pub fn polyline(
        &mut self,
        points: impl Iterator<Item = (f64, f64)>,
        stroke: &str,
        width: f64,
        dashes: Option<&str>,
    ) {
        let words: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dashes = dashes.map_or_else(String::new, |dashes| format!(" stroke-dasharray=\"{dashes}\""));
        self.put(format_args!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\"{dashes}/>",
            words.join(" ")
        ));
    }

    /// A bar with an edge, so that two of one colour are told apart.
    pub fn rect(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{fill}\" stroke=\"#ffffff\" stroke-width=\"0.5\"/>",
            width.max(0.3),
            height.max(0.3)
        ));
    }

    /// A bar whose filling tells its series, too: see [`crate::palette::PATTERNS`].
    #[allow(clippy::too_many_arguments)]
    pub fn bar(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str, pattern: usize) {
        const STRIPE: f64 = 4.0;
        if pattern == 1 {
            self.put(format_args!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"{GROUND}\" stroke=\"{fill}\" stroke-width=\"1.6\"/>",
                x + 0.8,
                y + 0.8,
                (width - 1.6).max(0.3),
                (height - 1.6).max(0.3)
            ));
            return;
        }
        self.rect(x, y, width, height, fill);
        let stripes = |length: f64| (1..(length / STRIPE).ceil() as usize).map(|n| n as f64 * STRIPE);
        match pattern {
            2 => stripes(height).for_each(|at| self.line(x, y + at, x + width, y + at, GROUND, 1.4)),
            3 => stripes(width).for_each(|at| self.line(x + at, y, x + at, y + height, GROUND, 1.4)),
            _ => {}
        }
    }

    /// A rectangle of one colour, without an edge.
    pub fn area(&mut self, x: f64, y: f64, width: f64, height: f64, fill: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{fill}\"/>"
        ));
    }

    /// The edge of a rectangle.
    pub fn outline(&mut self, x: f64, y: f64, width: f64, height: f64, stroke: &str) {
        self.put(format_args!(
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"none\" stroke=\"{stroke}\"/>"
        ));
    }

    /// Many small rectangles of one colour, (x, y, width, height) each: the colour is said once.
    pub fn dots(&mut self, fill: &str, opacity: f64, dots: impl Iterator<Item = [f64; 4]>) {
        self.put(format_args!("<g fill=\"{fill}\" fill-opacity=\"{opacity}\">"));
        for [x, y, width, height] in dots {
            self.put(format_args!(
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width}\" height=\"{height:.1}\"/>"
            ));
        }
        self.put(format_args!("</g>"));
    }

    /// An interval, upright: where its ends are, and whether each is cut there, which then has no
    /// bar across it.
    pub fn whisker(&mut self, x: f64, ends: [(f64, bool); 2], half: f64, stroke: &str) {
        let [(low, _), (high, _)] = ends;
        self.line(x, low, x, high, stroke, 1.0);
        for (end, _) in ends.into_iter().filter(|(_, is_cut)| !is_cut) {
            self.line(x - half, end, x + half, end, stroke, 1.0);
        }
    }

    /// A mark whose shape, too, tells the series.
    pub fn symbol(&mut self, index: usize, x: f64, y: f64, fill: &str) {
        match index % 4 {
            0 => self.put(format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{fill}\"/>")),
            1 => self.put(format_args!(
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"5.6\" height=\"5.6\" fill=\"{fill}\"/>",
                x - 2.8,
                y - 2.8
            )),
            2 => self.put(format_args!("<path d=\"M{x:.1} {:.1}l3.6 6.2h-7.2z\" fill=\"{fill}\"/>", y - 3.8)),
            _ => self.put(format_args!(
                "<path d=\"M{x:.1} {:.1}l3.8 3.8l-3.8 3.8l-3.8 -3.8z\" fill=\"{fill}\"/>",
                y - 3.8
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_is_markup_or_what_xml_forbids() {
        let untrusted = "</text><script>x</script>&\"'\u{1b}";
        let mut canvas = Canvas::default();
        canvas.text(0.0, 0.0, untrusted, "start", INK, 10, false);
        let svg = document(untrusted, untrusted, 10.0, &canvas);
        assert!(!svg.contains("<script") && !svg.contains('\u{1b}'), "{svg}");
        assert_eq!(svg.matches("&lt;/text&gt;&lt;script&gt;x&lt;/script&gt;&amp;").count(), 3, "{svg}");
    }

    /// What happened: titles ended at the right edge in the middle of a word ("… on 4 de").
    #[test]
    fn a_text_that_is_too_wide_takes_more_lines() {
        let title =
            "Journal mode and synchronous setting: one-row commits where you are on 4 devices".repeat(2);
        let lines = lines_of(&title, 16.0, WIDTH);
        assert!(lines.len() > 1 && lines.iter().all(|line| text_width(line, 16.0) <= WIDTH), "{lines:?}");
        assert_eq!(lines.join(" "), title);
        let mut canvas = Canvas::default();
        assert!(canvas.paragraph(20.0, &title, INK, 16, true) > 20.0);
        assert_eq!(canvas.0.matches("<text").count(), lines_of(&title, 16.0, WIDTH * BOLD).len());
    }

    /// What happened: of a name of 60 letters the drawn figures showed the last ones only, or lines
    /// over each other.
    #[test]
    fn a_long_name_keeps_its_ends() {
        assert_eq!(shortened("wal-full", 10.0, 200.0), "wal-full");
        assert_eq!(shortened(&("w".repeat(30) + "-2"), 10.0, 60.0), "wwww…w-2");
        assert_eq!(shortened("wal", 10.0, 1.0), "");
    }

    /// What happened: names under bars lay over each other ("update-chat_id" over
    /// "update-is_temp"), and the last was cut at the edge of the figure ("btrfs-single-ssd").
    #[test]
    fn a_name_is_broken_where_its_words_are_joined() {
        assert_eq!(name_lines("update-chat_id", 10.0, 42.0), ["update-", "chat_id"]);
        assert_eq!(name_lines("btrfs-single-ssd", 10.0, 32.0), ["btrfs-", "single-", "ssd"]);
        assert_eq!(name_lines("WAL/FULL", 10.0, 200.0), ["WAL/FULL"]);
        assert!(name_lines("", 10.0, 42.0).is_empty());
    }

    /// What happened: the anatomy of a commit was a white block in a dark page.
    #[test]
    fn a_drawing_within_a_page_has_dark_colours_and_a_file_has_not() {
        let mut canvas = Canvas::default();
        canvas.rect(0.0, 0.0, 5.0, 5.0, "#c57f12");
        let colours = [Colour { light: "#c57f12", dark: "#d39a45" }];
        let page = within_page("t", "d", 10.0, &canvas, &colours);
        assert!(page.contains("@media screen and (prefers-color-scheme: dark)"), "{page}");
        assert!(
            page.contains("[fill=\"#c57f12\"]{fill:#d39a45}") && page.contains("class=\"drawing\""),
            "{page}"
        );
        assert!(!document("t", "d", 10.0, &canvas).contains("prefers-color-scheme"));
    }
}

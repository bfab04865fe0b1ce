//! What all SVG figures are drawn on: for papers, for machines without a browser.
//!
//! By hand (rectangles, lines, symbols and text: a plotting crate would bring more code than this
//! file has), on white, in the light colours of the page, 720 units wide. Text is text, so it can
//! be searched and set in another font; it is escaped here and nowhere else.

use std::fmt::Write;

use maud::html;

/// Width of every figure.
pub const WIDTH: f64 = 720.0;
/// Colour of what is to be read first.
pub const INK: &str = "#1b1f24";
/// Colour of what is to be read second.
pub const MUTED: &str = "#59616b";
/// Colour of the lines of an axis.
pub const RULE: &str = "#dcdfe3";

/// A whole file of this height with what is drawn.
pub fn document(title: &str, description: &str, height: f64, body: &Canvas) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height:.0}\" width=\"{WIDTH}\" \
         height=\"{height:.0}\" role=\"img\" {}\n<title>{}</title>\n<desc>{}</desc>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n{}</svg>\n",
        crate::SVG_MARK,
        escaped(title),
        escaped(description),
        body.0
    )
}

/// Text for XML: without markup, and without the control characters that XML forbids.
fn escaped(text: &str) -> String {
    let is_forbidden = |c: char| c.is_control() && c != '\n';
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

    /// An interval, upright.
    pub fn whisker(&mut self, x: f64, low: f64, high: f64, half: f64, stroke: &str) {
        self.line(x, low, x, high, stroke, 1.0);
        self.line(x - half, low, x + half, low, stroke, 1.0);
        self.line(x - half, high, x + half, high, stroke, 1.0);
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
}

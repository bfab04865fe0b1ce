//! How text goes to a terminal, and tables with aligned columns.

use std::io::IsTerminal;

/// What the reader's terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns; lines are kept within it where that is possible without cutting numbers.
    pub width: usize,
    /// Whether bars may use block characters; ASCII otherwise.
    pub unicode: bool,
    /// Whether ANSI colours may be used.
    pub colour: bool,
}

impl Style {
    /// For files and pipes: 120 columns, ASCII bars, no colours.
    pub const PLAIN: Style = Style { width: 120, unicode: false, colour: false };

    /// What standard output can show: bars when it is a terminal in a UTF-8 locale, colours when it
    /// is a terminal and neither `NO_COLOR` is set nor `TERM` is `dumb`, the width from `COLUMNS`
    /// where the shell exports it.
    pub fn of_stdout() -> Style {
        let terminal = std::io::stdout().is_terminal();
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_lowercase();
        Style {
            width: set("COLUMNS").and_then(|c| c.parse().ok()).unwrap_or(120).clamp(40, 400),
            unicode: terminal && (locale.contains("utf-8") || locale.contains("utf8")),
            colour: terminal && set("NO_COLOR").is_none() && set("TERM").is_none_or(|term| term != "dumb"),
        }
    }

    fn wrap(&self, code: &str, text: &str) -> String {
        if self.colour && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Headings.
    pub fn bold(&self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// What may be overlooked.
    pub fn dim(&self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// fsync, as in the figures.
    pub fn accent(&self, text: &str) -> String {
        self.wrap("34", text)
    }

    /// A share of one as a bar of ten.
    pub fn bar(&self, share: f64) -> String {
        let full = (share.clamp(0.0, 1.0) * 10.0).round() as usize;
        let (on, off) = if self.unicode { ("▇", "░") } else { ("#", ".") };
        format!("{}{}", self.accent(&on.repeat(full)), self.dim(&off.repeat(10 - full)))
    }

    /// Text in lines of at most the width, each after `indent`; words are never cut.
    pub fn paragraph(&self, indent: &str, text: &str) -> String {
        let mut out = String::new();
        let mut line = String::from(indent);
        let mut empty = true;
        // A number stays with its percent sign.
        let bound = text.replace(" %", "\u{a0}%");
        for word in bound.split([' ', '\n', '\t']).filter(|word| !word.is_empty()) {
            if !empty && visible(&line) + 1 + visible(word) > self.width {
                out.push_str(line.trim_end());
                out.push('\n');
                line = String::from(indent);
                empty = true;
            }
            if !empty {
                line.push(' ');
            }
            line.push_str(word);
            empty = false;
        }
        out.push_str(line.trim_end());
        out.push('\n');
        out.replace('\u{a0}', " ")
    }
}

/// Text from results without what a terminal would obey or hide: control characters (escape
/// sequences among them) and marks of direction and of no width become `?`.
pub fn tame(text: &str) -> String {
    text.chars().map(|c| if fathom_output::is_obeyed(c) { '?' } else { c }).collect()
}

/// Columns that `text` takes, escape sequences not counted. One a character: the report writes no
/// wide ones of its own.
fn visible(text: &str) -> usize {
    let mut inside = false;
    text.chars()
        .filter(|c| match (inside, c) {
            (false, '\x1b') => {
                inside = true;
                false
            }
            (false, _) => true,
            (true, c) => {
                inside = *c != 'm';
                false
            }
        })
        .count()
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Words.
    Left,
    /// Numbers.
    Right,
}

/// A table that is laid out when it is complete.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heads: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Adds a column.
    pub fn column(&mut self, head: impl Into<String>, align: Align) {
        self.heads.push((head.into(), align));
    }

    /// Adds a row; missing fields are empty.
    pub fn row(&mut self, fields: Vec<String>) {
        self.rows.push(fields);
    }

    fn widths(&self) -> Vec<usize> {
        let rows = |column: usize| self.rows.iter().filter_map(move |row| Some(visible(row.get(column)?)));
        self.heads
            .iter()
            .enumerate()
            .map(|(i, (head, _))| rows(i).max().unwrap_or(0).max(visible(head)))
            .collect()
    }

    /// Columns of the terminal that the table takes.
    pub fn width(&self) -> usize {
        self.widths().iter().map(|width| width + 2).sum()
    }

    /// The table, two spaces before and between columns, no rules.
    pub fn text(&self, style: &Style) -> String {
        let field = |row: &Vec<String>, column: usize| row.get(column).cloned().unwrap_or_default();
        let widths = self.widths();
        let line = |fields: Vec<String>| {
            let mut out = String::new();
            for (i, text) in fields.iter().enumerate() {
                let room = " ".repeat(widths[i].saturating_sub(visible(text)));
                out.push_str("  ");
                match self.heads[i].1 {
                    Align::Left => out.extend([text.as_str(), room.as_str()]),
                    Align::Right => out.extend([room.as_str(), text.as_str()]),
                }
            }
            out.trim_end().to_string() + "\n"
        };
        let mut out = style.bold(line(self.heads.iter().map(|h| h.0.clone()).collect()).trim_end()) + "\n";
        for row in &self.rows {
            out += &line((0..self.heads.len()).map(|i| field(row, i)).collect());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_and_colours_take_no_room() {
        let mut table = Table::default();
        table.column("name", Align::Left);
        table.column("n", Align::Right);
        table.row(vec!["a".into(), "10".into()]);
        table.row(vec![Style { colour: true, ..Style::PLAIN }.bold("abcdef"), "7".into()]);
        let text = table.text(&Style::PLAIN);
        assert_eq!(text, "  name     n\n  a       10\n  \x1b[1mabcdef\x1b[0m   7\n");
    }

    #[test]
    fn paragraphs_keep_the_width_and_hostile_text_is_tamed() {
        let style = Style { width: 20, ..Style::PLAIN };
        let text = style.paragraph("  ", "one two three four five six seven");
        assert!(text.lines().all(|line| line.len() <= 20), "{text}");
        assert_eq!(style.paragraph("", "one two three four 5 % x"), "one two three four\n5 % x\n");
        assert_eq!(tame("a\x1b[2J\u{202e}b\u{61c}\n"), "a?[2J?b??");
        assert_eq!(Style::PLAIN.bar(0.31), "###.......");
    }
}

//! Text of others on a terminal.

/// Text in one line without anything that a terminal would obey or hide: control characters (escape sequences begin with one, and a line
/// break could pretend to be a message of ours) and marks of direction and of no width are shown by their code, as in `\u{1b}`.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' => out.push_str("\\n"),
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

/// As [`shown`], for text of several lines: line breaks and tabulators stay.
#[must_use]
pub fn lines(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' | '\t' => out.push(c),
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

fn is_obeyed(c: char) -> bool {
    let invisible = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
    c.is_control() || invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(
            shown("a\x1b[2Jb\n\u{202e}c\u{9b}\u{7f}\té"),
            "a\\u{1b}[2Jb\\n\\u{202e}c\\u{9b}\\u{7f}\\u{9}é"
        );
        assert_eq!(lines("a\x1b]0;x\x07\n\tb\r"), "a\\u{1b}]0;x\\u{7}\n\tb\\u{d}");
    }
}

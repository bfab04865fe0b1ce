//! Where a statement ends, byte by byte: what `sqlite3_complete` knows, for a text that grows line
//! by line.

/// What the scan is within.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Within {
    #[default]
    Nothing,
    /// A text, name or blob, up to this byte.
    Quote(u8),
    LineComment,
    /// And whether the byte before was a star.
    Comment(bool),
}

/// A statement that is fed piece by piece; each byte is looked at once.
#[derive(Debug, Default)]
pub struct Ends {
    within: Within,
    /// The word that is being read, in lower case, at most as long as `trigger`.
    word: Vec<u8>,
    words: u32,
    is_create: bool,
    is_trigger: bool,
    after_semicolon: bool,
    after_end: bool,
}

/// Length of the longest word that means something here: `trigger`.
const WORD_MAX: usize = 8;

impl Ends {
    /// Takes more of the statement; gives the number of bytes up to and with the semicolon that
    /// ends it, where there is one.
    pub fn feed(&mut self, text: &str) -> Option<usize> {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let byte = bytes[at];
            at += 1;
            match self.within {
                Within::Quote(end) if byte == end => self.within = Within::Nothing,
                Within::LineComment if byte == b'\n' => self.within = Within::Nothing,
                Within::Comment(true) if byte == b'/' => self.within = Within::Nothing,
                Within::Comment(_) => self.within = Within::Comment(byte == b'*'),
                Within::Quote(_) | Within::LineComment => {}
                Within::Nothing => {
                    if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80 {
                        if self.word.len() <= WORD_MAX {
                            self.word.push(byte.to_ascii_lowercase());
                        }
                        continue;
                    }
                    self.end_word();
                    match (byte, bytes.get(at)) {
                        (b'-', Some(b'-')) => self.within = Within::LineComment,
                        (b'/', Some(b'*')) => {
                            at += 1;
                            self.within = Within::Comment(false);
                        }
                        (b'\'' | b'"' | b'`', _) => self.begin_quote(byte),
                        (b'[', _) => self.begin_quote(b']'),
                        (b';', _) => {
                            if !self.is_trigger || self.after_end {
                                return Some(at);
                            }
                            (self.after_semicolon, self.after_end) = (true, false);
                        }
                        (b' ' | b'\t' | b'\n' | b'\r' | 0x0c, _) => {}
                        _ => (self.after_semicolon, self.after_end) = (false, false),
                    }
                }
            }
        }
        // A word does not go on in the next piece, which is a line.
        if self.within == Within::Nothing {
            self.end_word();
        }
        None
    }

    /// Whether the text cannot end here: within a text, name, comment or trigger.
    pub fn is_open(&self) -> bool {
        self.is_quote() || self.is_trigger
    }

    /// Whether it is within a text, name or comment.
    pub fn is_quote(&self) -> bool {
        matches!(self.within, Within::Quote(_) | Within::Comment(_))
    }

    /// Whether it is a trigger, whose own semicolons do not end it.
    pub fn is_trigger(&self) -> bool {
        self.is_trigger
    }

    /// Whether it is a trigger that lacks nothing but its semicolon.
    pub fn is_whole_trigger(&self) -> bool {
        self.is_trigger && self.after_end && !self.is_quote()
    }

    fn begin_quote(&mut self, end: u8) {
        self.within = Within::Quote(end);
        (self.after_semicolon, self.after_end) = (false, false);
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        self.words += 1;
        match self.words {
            // EXPLAIN may stand before all.
            1 if self.word == b"explain" => self.words = 0,
            1 => self.is_create = self.word == b"create",
            2 | 3 if self.is_create && self.word == b"trigger" => self.is_trigger = true,
            _ => {}
        }
        // A trigger ends with `; END ;`. The END of a CASE never follows a semicolon.
        self.after_end = self.after_semicolon && self.word == b"end";
        self.after_semicolon = false;
        self.word.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::Splitter;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_statement_ends_where_the_splitter_of_scripts_ends_it(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("SELECT 1"), Just(";"), Just("'a;'"), Just("''"), Just("\"q;\""), Just("[;]"), Just(" "), Just("-- c;\n"),
                    Just("/* ; */"), Just("\n"), Just(" CREATE TEMP TRIGGER t BEGIN "), Just(" END"), Just("CASE x END"), Just("é"), Just("(")
                ],
                0..12,
            )
        ) {
            let text = pieces.concat();
            let end = Ends::default().feed(&text);
            let mut splitter = Splitter::default();
            let first = splitter.line(&text).into_iter().next();
            if let (Some(at), Some((_, sql))) = (end, first)
                && !text[..at].trim_matches([';', ' ', '\n']).is_empty()
                && text[..at].contains(|letter: char| letter.is_alphanumeric() && letter != 'c')
            {
                prop_assert_eq!(text[..at].trim(), sql);
            }
        }
    }

    #[test]
    fn pieces_are_one_text() {
        let mut ends = Ends::default();
        for open in ["CREATE TRIGGER r AFTER INSERT ON t BEGIN\n", "UPDATE t SET a = 'x;\n", "';\n"] {
            assert_eq!(ends.feed(open), None, "{open}");
            assert!(ends.is_open(), "{open}");
        }
        assert_eq!(ends.feed("END; SELECT 1;"), Some(4));
        let mut ends = Ends::default();
        assert_eq!(ends.feed("SELECT 'a''b\n"), None);
        assert!(ends.is_quote());
        assert_eq!(ends.feed("' -- ;\n"), None);
        assert!(!ends.is_open());
        assert_eq!(ends.feed("/* ; *\n"), None);
        assert_eq!(ends.feed("/; */;"), Some(6));
    }
}

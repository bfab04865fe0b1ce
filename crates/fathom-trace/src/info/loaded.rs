//! What a script that makes a database sets of its file.

use crate::import::Ends;
use crate::sql::pragma;

/// No PRAGMA is longer, bytes.
const PRAGMA_MAX: usize = 4096;

/// A line that is longer is taken in pieces, bytes.
const LINE_MAX: usize = 1 << 20;

/// A script that comes piece by piece; of each statement its beginning is kept.
#[derive(Debug, Default)]
pub(super) struct LoadedSettings {
    ends: Ends,
    begun: String,
    /// What is no whole line yet.
    rest: Vec<u8>,
    page_bytes: Option<u32>,
    is_wal: bool,
    auto_vacuum: &'static str,
    /// Whether something is in the file: what auto_vacuum then says changes nothing.
    has_content: bool,
}

impl LoadedSettings {
    /// The next bytes of the script.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let whole = match self.rest.iter().rposition(|byte| *byte == b'\n') {
            Some(last) => last + 1,
            None if self.rest.len() > LINE_MAX => self.rest.len(),
            None => return,
        };
        let later = self.rest.split_off(whole);
        let text = String::from_utf8_lossy(&std::mem::replace(&mut self.rest, later)).into_owned();
        for line in text.split_inclusive('\n') {
            let mut line = line;
            while let Some(end) = self.ends.feed(line) {
                let (statement, after) = line.split_at(end);
                self.begin(statement);
                self.statement();
                line = after;
            }
            self.begin(line);
        }
    }

    fn begin(&mut self, text: &str) {
        let room = PRAGMA_MAX.saturating_sub(self.begun.len());
        self.begun.extend(text.chars().take(room));
    }

    fn statement(&mut self) {
        self.ends = Ends::default();
        let statement = std::mem::take(&mut self.begun);
        let first = statement.trim_start().get(..6).unwrap_or_default();
        self.has_content = self.has_content || first.eq_ignore_ascii_case("create");
        match pragma(&statement) {
            Some((name, Some(value))) if name == "journal_mode" => {
                self.is_wal = value.eq_ignore_ascii_case("wal");
            }
            Some((name, Some(value))) if name == "page_size" => {
                self.page_bytes = value.parse().ok().or(self.page_bytes);
            }
            Some((name, Some(value))) if name == "auto_vacuum" && !self.has_content => {
                self.auto_vacuum = match value.to_ascii_lowercase().trim_matches(['\'', '"']) {
                    "0" | "none" => "none",
                    "1" | "full" => "full",
                    "2" | "incremental" => "incremental",
                    _ => self.auto_vacuum,
                };
            }
            _ => {}
        }
    }

    /// Whether the file gives free pages back.
    pub fn auto_vacuum(&self) -> &'static str {
        if self.auto_vacuum.is_empty() { "none" } else { self.auto_vacuum }
    }

    /// Page size and journal mode of the file so far.
    pub fn of_file(&self) -> (Option<u32>, Option<String>) {
        (self.page_bytes, self.is_wal.then(|| "wal".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_of_a_script_is_told_whatever_pieces_it_comes_in() {
        let script = "PRAGMA page_size = 1024\n;\nCREATE TABLE t(a);\nINSERT INTO t VALUES ('größe;\nPRAGMA journal_mode=delete;');\n\
                      PRAGMA journal_mode = wal\n;\nINSERT INTO t VALUES (1);\n";
        for size in [1, 7, 64, 1000] {
            let mut loaded = LoadedSettings::default();
            script.as_bytes().chunks(size).for_each(|piece| loaded.feed(piece));
            assert_eq!(loaded.of_file(), (Some(1024), Some("wal".into())), "in pieces of {size}");
        }
        let mut loaded = LoadedSettings::default();
        loaded.feed(b"PRAGMA journal_mode = wal;\nPRAGMA journal_mode = delete;\nPRAGMA page_size = ?;\n");
        assert_eq!(loaded.of_file(), (None, None));
        loaded.feed(&[0xff, 0xfe, b';', b'\n']);
    }

    #[test]
    fn pages_are_given_back_where_that_is_said_before_the_first_table() {
        let of = |script: &str| {
            let mut loaded = LoadedSettings::default();
            loaded.feed(script.as_bytes());
            loaded.auto_vacuum()
        };
        assert_eq!(of("CREATE TABLE t(a);\n"), "none");
        assert_eq!(of("PRAGMA auto_vacuum = Incremental;\nCREATE TABLE t(a);\n"), "incremental");
        assert_eq!(of("PRAGMA auto_vacuum=1;\ncreate table t(a);\nPRAGMA auto_vacuum=0;\n"), "full");
        assert_eq!(of("CREATE TABLE t(a);\nPRAGMA auto_vacuum=FULL;\n"), "none");
    }
}

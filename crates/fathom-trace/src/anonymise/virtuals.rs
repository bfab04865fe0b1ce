//! Virtual tables whose storage is known: full-text tables and R-trees.
//!
//! A full-text table keeps its texts in a table of its own (or an ordinary one), which is rewritten
//! as any, and an index of their words, which is made again from them (`rebuild`). An R-tree holds
//! numbers, which stay; texts that it carries along stand in an ordinary table.

use rusqlite::Connection;

use crate::dump::unquoted;
use crate::sql::{Token, TokenKind, tokens};

/// A virtual table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Virtual {
    /// Its name.
    pub name: String,
    kind: Kind,
    /// Whether it has its texts nowhere, so that its index cannot be made again.
    is_contentless: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    FullText,
    RTree,
    /// Shows what another table stores.
    View,
    Unknown,
}

/// Tables with the index of a full-text table, and with the nodes of an R-tree: of FTS3 to FTS5,
/// R-tree and geopoly.
const INDEXES: [&str; 6] = ["_data", "_idx", "_docsize", "_segments", "_segdir", "_stat"];
const NODES: [&str; 2] = ["_node", "_parent"];
/// Settings of FTS5, which are no texts.
const SETTINGS: &str = "_config";

impl Virtual {
    /// Takes a CREATE VIRTUAL TABLE apart; none where it is another statement.
    pub fn of(sql: &str) -> Option<Virtual> {
        let mut words = tokens(sql).filter(|token| !token.is_blank()).peekable();
        for word in ["create", "virtual", "table"] {
            words.next().filter(|token| token.is(word))?;
        }
        if words.next_if(|token| token.is("if")).is_some() {
            words.nth(1)?;
        }
        let mut name = unquoted(words.next()?.text);
        if words.next_if(|token| token.text == ".").is_some() {
            name = unquoted(words.next()?.text);
        }
        words.next().filter(|token| token.is("using"))?;
        let kind = match unquoted(words.next()?.text).to_ascii_lowercase().as_str() {
            "fts3" | "fts4" | "fts5" => Kind::FullText,
            "rtree" | "rtree_i32" | "geopoly" => Kind::RTree,
            "fts3tokenize" | "fts4aux" | "fts5vocab" | "dbstat" | "bytecode" | "sqlite_stmt" => Kind::View,
            _ => Kind::Unknown,
        };
        let rest: Vec<Token<'_>> = words.collect();
        let is_contentless = rest.windows(3).any(|three| {
            three[0].is("content")
                && three[1].text == "="
                && matches!(three[2].text, "''" | "\"\"" | "``" | "[]")
        });
        Some(Virtual { name, kind, is_contentless })
    }

    /// Why it cannot be made anonymous.
    pub fn problem(&self) -> Option<String> {
        match self.kind {
            Kind::Unknown => Some(format!(
                "table {} is virtual, and what it stores only its module understands, so it cannot be made anonymous; capture without it",
                self.name
            )),
            Kind::FullText if self.is_contentless => Some(format!(
                "table {} is a full-text table without content, whose index cannot be made again, so it cannot be made anonymous; capture without it",
                self.name
            )),
            _ => None,
        }
    }

    /// Whether a table holds what is no text of this one: its index, nodes or settings.
    pub fn has_own(&self, table: &str) -> bool {
        let Some((name, end)) = table.split_at_checked(self.name.len()) else { return false };
        let ends: &[&str] = match self.kind {
            Kind::FullText if end.eq_ignore_ascii_case(SETTINGS) => {
                return name.eq_ignore_ascii_case(&self.name);
            }
            Kind::FullText => &INDEXES,
            Kind::RTree => &NODES,
            Kind::View | Kind::Unknown => &[],
        };
        name.eq_ignore_ascii_case(&self.name) && ends.iter().any(|value| end.eq_ignore_ascii_case(value))
    }

    /// Whether a table is a part of this one.
    pub fn carries(&self, table: &str) -> bool {
        table
            .split_at_checked(self.name.len())
            .is_some_and(|(name, end)| name.eq_ignore_ascii_case(&self.name) && end.starts_with('_'))
    }

    /// Whether a statement fills the index of this one with what its words were.
    pub fn is_filled_by(&self, sql: &str) -> bool {
        let mut words = tokens(sql).filter(|token| !token.is_blank());
        self.kind == Kind::FullText
            && words.next().is_some_and(|token| token.is("insert"))
            && words.next().is_some_and(|token| token.is("into"))
            && words.next().is_some_and(|token| {
                let table = unquoted(token.text);
                matches!(token.kind, TokenKind::Word | TokenKind::Quoted | TokenKind::Text)
                    && self.has_own(&table)
                    && !table.to_ascii_lowercase().ends_with(SETTINGS)
            })
    }

    /// The statement that makes the index again; none where there is none.
    pub fn rebuild(&self) -> Option<String> {
        let name = self.name.replace('"', "\"\"");
        (self.kind == Kind::FullText)
            .then(|| format!("INSERT INTO \"{name}\"(\"{name}\") VALUES ('rebuild')"))
    }

    /// Makes the index again; what it held is overwritten.
    ///
    /// # Errors
    /// SQLite's: a tokenizer of the application.
    pub fn make_again(&self, database: &Connection) -> rusqlite::Result<()> {
        self.rebuild().map_or(Ok(()), |sql| database.execute_batch(&sql))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_is_known_by_its_table_and_module() {
        let fts =
            Virtual::of("CREATE VIRTUAL TABLE IF NOT EXISTS main.\"my f\" USING FTS5(a, content = 'notes')")
                .expect("one");
        assert_eq!(fts, Virtual { name: "my f".into(), kind: Kind::FullText, is_contentless: false });
        assert!(
            fts.has_own("my f_data")
                && fts.has_own("MY F_config")
                && !fts.has_own("my f_content")
                && !fts.has_own("f")
        );
        assert!(fts.is_filled_by("INSERT INTO 'my f_idx' VALUES(1, x'', 2)"));
        assert!(
            !fts.is_filled_by("INSERT INTO 'my f_content' VALUES(1)")
                && !fts.is_filled_by("INSERT INTO 'my f_config' VALUES(1)")
        );
        assert_eq!(fts.rebuild().as_deref(), Some("INSERT INTO \"my f\"(\"my f\") VALUES ('rebuild')"));
        let contentless = Virtual::of("CREATE VIRTUAL TABLE f USING fts5(a, content='')").expect("one");
        assert!(contentless.problem().is_some() && fts.problem().is_none());
        let rtree = Virtual::of("create virtual table r using rtree(id, x0, x1)").expect("one");
        assert!(rtree.has_own("r_node") && !rtree.has_own("r_rowid") && rtree.rebuild().is_none());
        assert!(
            Virtual::of("CREATE VIRTUAL TABLE c USING csv(filename='x')").expect("one").problem().is_some()
        );
        assert_eq!(Virtual::of("CREATE TABLE t(a)"), None);
    }
}

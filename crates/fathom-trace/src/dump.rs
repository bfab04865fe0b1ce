//! Virtual tables in what `.dump` of the `sqlite3` shell wrote.
//!
//! A dump makes a full-text or R-tree table by writing its row of the schema itself (`INSERT INTO
//! sqlite_schema(type,name,tbl_name,rootpage,sql) VALUES('table',…)`), and its storage as ordinary
//! tables, so that nothing is indexed a second time. No statement of other people may write the
//! schema, so this one form is recognised and done for them, and nothing else: where what it says
//! is a CREATE VIRTUAL TABLE that they could have written themselves.

use std::ffi::c_int;
use std::ptr;

use libsqlite3_sys as ffi;

use crate::confine::{ConfinedConnection, DEFENSIVE};
use crate::model::Value;
use crate::sql::{Token, TokenKind, tokens, value_of};

/// What comes before the values.
const BEFORE: [&str; 16] = [
    "insert",
    "into",
    "sqlite_schema",
    "(",
    "type",
    ",",
    "name",
    ",",
    "tbl_name",
    ",",
    "rootpage",
    ",",
    "sql",
    ")",
    "values",
    "(",
];

/// The row of a virtual table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VirtualTable {
    /// Its name.
    pub name: String,
    /// The statement that would make it.
    pub create: String,
}

impl VirtualTable {
    /// Takes a statement apart; none where it is another one.
    #[must_use]
    pub fn of(sql: &str) -> Option<VirtualTable> {
        // Most statements of a dump are not this one.
        if !sql.trim_start().get(..6)?.eq_ignore_ascii_case("insert") || !sql.contains("CREATE VIRTUAL TABLE")
        {
            return None;
        }
        let mut all = tokens(sql).filter(|token| !token.is_blank() && token.kind != TokenKind::Semicolon);
        for expected in BEFORE {
            let token = all.next()?;
            let is_master = expected == "sqlite_schema" && token.is("sqlite_master");
            if !is_master && !token.text.eq_ignore_ascii_case(expected) {
                return None;
            }
        }
        let text = |token: Token<'_>| match value_of(&token)? {
            Value::Text(text) => String::from_utf8(text).ok(),
            _ => None,
        };
        let mut value = |end: &str| {
            let token = all.next()?;
            all.next().filter(|token| token.text == end)?;
            Some(token)
        };
        let kind = text(value(",")?)?;
        let (name, table) = (text(value(",")?)?, text(value(",")?)?);
        let root = value(",")?;
        let create = text(value(")")?)?;
        let is_whole = all.next().is_none() && kind == "table" && name == table && root.text == "0";
        is_whole.then_some(VirtualTable { name, create })
    }

    /// Whether it makes the table that it names, with a module that may be.
    ///
    /// # Errors
    /// SQLite's.
    pub fn check(&self, connection: &ConfinedConnection) -> rusqlite::Result<()> {
        let mut words = tokens(&self.create).filter(|token| !token.is_blank());
        let is_create = ["create", "virtual", "table"]
            .iter()
            .all(|word| words.next().is_some_and(|token| token.is(word)));
        let named = words.next().map(|token| unquoted(token.text)).unwrap_or_default();
        if !is_create
            || !named.eq_ignore_ascii_case(&self.name)
            || words.any(|word| word.kind == TokenKind::Semicolon)
        {
            let message = format!("what the schema is to say of {} does not make it", self.name);
            return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_ERROR), Some(message)));
        }
        // The authorizer is asked about the module.
        connection.prepare(&self.create).map(drop)
    }

    /// Writes the row, after [`Self::check`]. The table is there when the schema is read again.
    ///
    /// # Errors
    /// What `check` says; a table of this name; a full disk.
    pub fn restore(&self, connection: &ConfinedConnection) -> rusqlite::Result<()> {
        self.check(connection)?;
        let switch = |value: c_int| {
            // SAFETY: the handle is open; the option takes one number, and a null pointer says that
            // no result is wanted.
            unsafe {
                ffi::sqlite3_db_config(connection.handle(), DEFENSIVE.0, value, ptr::null_mut::<c_int>());
            }
        };
        switch(0);
        let written = connection.execute_batch("PRAGMA writable_schema = ON").and_then(|()| {
            let row = "INSERT INTO sqlite_schema(type, name, tbl_name, rootpage, sql) VALUES ('table', ?1, ?1, 0, ?2)";
            connection.execute(row, (&self.name, &self.create))
        });
        let off = connection.execute_batch("PRAGMA writable_schema = OFF");
        switch(DEFENSIVE.1);
        written.and(off)
    }
}

/// A name without its quotes.
pub fn unquoted(name: &str) -> String {
    let Some(quote) = name.chars().next().filter(|first| "\"'`[".contains(*first)) else {
        return name.to_owned();
    };
    let inner = name.get(1..name.len() - 1).unwrap_or_default();
    if quote == '[' {
        inner.to_owned()
    } else {
        inner.replace(&format!("{quote}{quote}"), &quote.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, create: &str) -> String {
        let create = create.replace('\'', "''");
        format!(
            "INSERT INTO sqlite_schema(type,name,tbl_name,rootpage,sql)VALUES('table','{name}','{name}',0,'{create}');"
        )
    }

    fn open(place: &tempfile::TempDir) -> ConfinedConnection {
        ConfinedConnection::open(&place.path().join("a.db")).expect("opens")
    }

    #[test]
    fn a_virtual_table_of_a_dump_is_restored_with_what_it_stored() {
        let place = tempfile::tempdir().expect("a directory");
        let create = "CREATE VIRTUAL TABLE \"my f\" USING fts4(body, tokenize=porter)";
        let table = VirtualTable::of(&row("my f", create)).expect("it is one");
        assert_eq!(table, VirtualTable { name: "my f".into(), create: create.into() });
        let database = open(&place);
        database.execute_batch("BEGIN").expect("begun");
        table.restore(&database).expect("restored");
        database
            .execute_batch(
                "CREATE TABLE 'my f_content'(docid INTEGER PRIMARY KEY, 'c0body'); INSERT INTO 'my f_content' VALUES(1, 'running');
                 CREATE TABLE 'my f_segments'(blockid INTEGER PRIMARY KEY, block BLOB);
                 CREATE TABLE 'my f_segdir'(level INTEGER, idx INTEGER, start_block INTEGER, leaves_end_block INTEGER, end_block INTEGER, root BLOB, PRIMARY KEY(level, idx));
                 INSERT INTO 'my f_segdir' VALUES(0,0,0,0,'0 8',x'000372756e03010200');
                 CREATE TABLE 'my f_docsize'(docid INTEGER PRIMARY KEY, size BLOB); INSERT INTO 'my f_docsize' VALUES(1, x'01');
                 CREATE TABLE 'my f_stat'(id INTEGER PRIMARY KEY, value BLOB); INSERT INTO 'my f_stat' VALUES(0, x'010107'); COMMIT",
            )
            .expect("its storage");
        drop(database);
        let database = open(&place);
        let found = database
            .query_row("SELECT rowid FROM \"my f\" WHERE \"my f\" MATCH 'runs'", [], |row| row.get(0));
        assert_eq!(found, Ok(1));
        // All else is as it was: nobody writes the schema or the storage of a virtual table.
        assert!(database.execute_batch("DELETE FROM 'my f_content'").is_err());
        assert!(database.execute_batch("PRAGMA writable_schema = ON; DELETE FROM sqlite_schema").is_err());
    }

    /// The row of a schema is code: what is written there without a look runs later, in whoever
    /// opens the database.
    #[test]
    fn nothing_else_gets_into_the_schema_this_way() {
        let create = "CREATE VIRTUAL TABLE f USING fts4(a)";
        for sql in [
            row("f", create).replace("'table'", "'view'"),
            row("f", create).replace(",0,", ",5,"),
            row("f", create).replace("'f','f'", "'f','g'"),
            row("f", create) + "DELETE FROM sqlite_schema",
            row("f", create).replace("INSERT", "INSERT OR REPLACE"),
            row("f", create).replace("sqlite_schema", "other"),
            row("f", "CREATE TABLE f(a)"),
            "INSERT INTO t VALUES('CREATE VIRTUAL TABLE')".into(),
        ] {
            assert_eq!(VirtualTable::of(&sql), None, "{sql}");
        }
        let place = tempfile::tempdir().expect("a directory");
        let database = open(&place);
        for (name, create) in [
            ("f", "CREATE VIRTUAL TABLE g USING fts4(a)"),
            ("f", "CREATE VIRTUAL TABLE f USING csv(filename='/etc/passwd')"),
            ("f", "CREATE VIRTUAL TABLE f USING fts4(a); DELETE FROM sqlite_schema"),
            ("f", "SELECT 'CREATE VIRTUAL TABLE'"),
            ("sqlite_f", "CREATE VIRTUAL TABLE sqlite_f USING fts4(a)"),
        ] {
            let table = VirtualTable::of(&row(name, create)).expect("its form is right");
            assert!(table.restore(&database).is_err(), "{create}");
        }
        let rows = database.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0));
        assert_eq!(rows, Ok(0));
    }
}

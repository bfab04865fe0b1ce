//! What a connection's schema calls things, and where SQLite's programs find them.

use std::collections::HashSet;
use std::rc::Rc;

use rusqlite::Connection;

use super::flow::{Columns, Roots, Source};

/// The names of a connection's databases, tables, columns, indexes, triggers and views.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// Names in lower case.
    pub names: HashSet<String>,
    /// Tables and indexes by where they begin.
    pub roots: Rc<Roots>,
    /// Tables and views as a statement names them, and whether it is a view.
    pub tables: Vec<(String, bool)>,
    /// Whether a column is declared to hold dates or times.
    pub has_dates: bool,
}

/// A row of a schema: its type, name, table, and the page where it begins.
type Object = (String, String, String, i64);

impl Schema {
    /// Reads it.
    ///
    /// # Errors
    /// A database that cannot be read.
    pub fn of(connection: &Connection) -> rusqlite::Result<Schema> {
        let mut schema = Schema::default();
        let mut databases = connection.prepare("PRAGMA database_list")?;
        let databases =
            databases.query_map([], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
        for database in databases {
            let (number, name) = database?;
            schema.add(connection, number, &name)?;
            schema.names.insert(name.to_lowercase());
        }
        // It is there as soon as something is in it.
        schema.names.insert("temp".into());
        Ok(schema)
    }

    fn add(&mut self, connection: &Connection, number: i64, database: &str) -> rusqlite::Result<()> {
        let quoted = database.replace('"', "\"\"");
        let mut objects = connection.prepare_cached(&format!(
            "SELECT type, name, tbl_name, coalesce(rootpage, 0) FROM \"{quoted}\".sqlite_schema"
        ))?;
        let objects: Vec<Object> = objects
            .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))?
            .collect::<rusqlite::Result<_>>()?;
        for (kind, name, table, root) in objects {
            self.names.insert(name.to_lowercase());
            if kind == "table" || kind == "view" {
                let name = name.replace('"', "\"\"");
                self.tables.push((format!("\"{quoted}\".\"{name}\""), kind == "view"));
            }
            let columns = match kind.as_str() {
                "table" | "view" => self.columns_of(connection, database, &name),
                "index" => index(connection, database, &table, &name),
                _ => continue,
            };
            // A view may name what is gone, and an index a collation that is not here.
            if let Ok(columns) = columns
                && root > 0
            {
                Rc::make_mut(&mut self.roots).insert((number, root), Rc::new(columns));
            }
        }
        Ok(())
    }

    /// The columns of a table as they are stored; their names are added.
    fn columns_of(
        &mut self,
        connection: &Connection,
        database: &str,
        table: &str,
    ) -> rusqlite::Result<Columns> {
        let mut columns = Columns { table: table.into(), ..Columns::default() };
        let mut rows = connection
            .prepare_cached("SELECT name, type, hidden, pk FROM pragma_table_xinfo(?1, ?2) ORDER BY cid")?;
        let mut rows = rows.query((table, database))?;
        while let Some(row) = rows.next()? {
            let (name, kind, hidden): (String, String, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            self.names.insert(name.to_lowercase());
            let declared = kind.to_ascii_uppercase();
            self.has_dates |= declared.contains("DATE") || declared.contains("TIME");
            // A generated column that is not stored has no place in the record.
            if hidden != 2 {
                columns.sources.push(Some(source(table, &name, &kind)));
            }
        }
        // The records of a table without rowid are those of its key.
        let keyed = index(connection, database, table, table)?;
        Ok(if keyed.sources.is_empty() { columns } else { keyed })
    }
}

/// The columns of an index of a table, or (under the table's own name) of a table without rowid, as
/// they are stored.
fn index(connection: &Connection, database: &str, table: &str, name: &str) -> rusqlite::Result<Columns> {
    let mut columns = connection.prepare_cached(
        "SELECT x.name, t.type FROM pragma_index_xinfo(?1, ?2) x LEFT JOIN pragma_table_xinfo(?3, ?2) t ON t.cid = x.cid ORDER BY x.seqno",
    )?;
    let sources = columns.query_map((name, database, table), |row| {
        let (name, kind): (Option<String>, Option<String>) = (row.get(0)?, row.get(1)?);
        // Without a name it is an expression.
        Ok(name.zip(kind).map(|(name, kind)| source(table, &name, &kind)))
    })?;
    Ok(Columns { table: table.into(), sources: sources.collect::<rusqlite::Result<_>>()? })
}

/// What a column of this declared type is, by SQLite's rules of affinity.
fn source(table: &str, column: &str, kind: &str) -> Source {
    let kind = kind.to_ascii_uppercase();
    let is_one_of = |words: &[&str]| words.iter().any(|word| kind.contains(word));
    let (table, column) = (table.into(), column.into());
    if is_one_of(&["INT"]) {
        Source::Numbers(table, column)
    } else if is_one_of(&["CHAR", "CLOB", "TEXT"]) {
        Source::Column(table, column)
    } else if kind.is_empty() || is_one_of(&["BLOB"]) {
        Source::Any(table, column)
    } else {
        Source::Numbers(table, column)
    }
}

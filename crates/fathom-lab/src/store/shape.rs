//! What a results file is made of: tables, and indexes over their columns.
//!
//! Other definitions are programs that SQLite executes when the file is looked at: a view in the
//! place of a table, a computed column, an index over an expression or of some rows, a trigger, a
//! virtual table. Results have none, but for a view that is there for people and never read. What a
//! CHECK says is not asked either (`PRAGMA ignore_check_constraints`): each row is checked as it is
//! read.

use rusqlite::Connection;

use super::checksum;

/// The definition that no results have, in words; none where all are as they should be. It is
/// asked before anything is read.
pub(super) fn problem(db: &Connection) -> rusqlite::Result<Option<String>> {
    let mut select = db.prepare("SELECT type, name, rootpage FROM sqlite_schema")?;
    let objects = select.query_map([], |row| {
        Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<i64>>(2)?))
    })?;
    for object in objects {
        let (kind, name, root) = object?;
        let of_ours = checksum::tables().chain(["checksum"]).find(|own| own.eq_ignore_ascii_case(&name));
        let problem = match kind.as_str() {
            "table" if root.unwrap_or_default() == 0 => Some(format!("table {name} is a virtual one")),
            // SQLite finds it by this name, and the checksums leave it out.
            "table" if of_ours.is_some_and(|own| own != name) => Some(format!("a table is called {name}")),
            "table" => of_table(db, &name)?,
            "index" => of_index(db, &name)?,
            "view" if of_ours.is_some() => Some(format!("{name} is a view")),
            "view" => None,
            _ => Some(format!("there is a {kind}, {name}")),
        };
        if problem.is_some() {
            return Ok(problem);
        }
    }
    Ok(None)
}

/// Columns that are computed, and indexes of some rows only.
fn of_table(db: &Connection, table: &str) -> rusqlite::Result<Option<String>> {
    let mut problem = None;
    db.pragma(None, "table_xinfo", table, |row| {
        // 0: a column; 1: one of a virtual table; 2 and 3: computed when it is read or written.
        if row.get::<_, i64>("hidden")? > 1 {
            problem = Some(format!("column {} of table {table} is computed", row.get::<_, String>("name")?));
        }
        Ok(())
    })?;
    db.pragma(None, "index_list", table, |row| {
        if row.get::<_, bool>("partial")? {
            problem = Some(format!("index {} has a condition", row.get::<_, String>("name")?));
        }
        Ok(())
    })?;
    Ok(problem)
}

/// Parts of an index that are expressions.
fn of_index(db: &Connection, index: &str) -> rusqlite::Result<Option<String>> {
    let mut problem = None;
    db.pragma(None, "index_xinfo", index, |row| {
        // -1 is the row's number, and -2 an expression.
        if row.get::<_, i64>("cid")? < -1 {
            problem = Some(format!("index {index} is over an expression"));
        }
        Ok(())
    })?;
    Ok(problem)
}

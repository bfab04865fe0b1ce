//! What the server's catalog says of the store's tables, against what was made: an administrator
//! may have changed them, and then messages would fail in the middle of the day, or be found by no
//! index.

use super::quote::{identifier, literal};
use super::url::PostgresqlUrl;
use super::wire::Wire;
use super::{column_type, names};
use crate::model::{FIRST_TABLES, Index, Kind, TABLES, Table};
use crate::store::StoreError;
use std::collections::HashMap;

/// A row of the catalog, as texts.
type Texts = Vec<String>;

/// Compares the store's tables with those that this version makes. Gives what is odd and does no
/// harm.
pub(super) fn check(wire: &mut Wire, url: &PostgresqlUrl) -> Result<Vec<String>, StoreError> {
    let schema = identifier(&url.schema);
    let names: Vec<String> = TABLES.iter().map(|table| literal(table.name)).collect();
    let ours = format!(
        "pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = {} AND c.relkind = 'r' \
         AND c.relname IN ({})",
        literal(&url.schema),
        names.join(", ")
    );
    let columns = by_table(
        wire,
        &format!(
            "SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull, \
             a.attgenerated <> '' OR a.attidentity <> '', coalesce(l.collname, '') FROM {ours} \
             JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_collation l ON l.oid = a.attcollation \
             WHERE a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname, a.attnum"
        ),
    )?;
    let indexes = by_table(
        wire,
        &format!(
            "SELECT c.relname, i.relname, x.indisprimary, x.indisunique, x.indisvalid AND x.indisready AND \
             x.indpred IS NULL AND x.indexprs IS NULL AND m.amname = 'btree' AND x.indoption::text !~ '[1-9]', \
             array_to_string(ARRAY(SELECT a.attname FROM unnest(x.indkey) WITH ORDINALITY k(number, place) \
             JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.number WHERE k.place <= x.indnkeyatts \
             ORDER BY k.place), ', ') FROM {ours} JOIN pg_index x ON x.indrelid = c.oid \
             JOIN pg_class i ON i.oid = x.indexrelid JOIN pg_am m ON m.oid = i.relam ORDER BY c.relname, i.relname"
        ),
    )?;
    let mut remarks = Vec::new();
    for (at, &table) in TABLES.iter().enumerate() {
        match columns.get(table.name) {
            Some(found) => {
                check_columns(table, found, &schema).map_err(|problem| wire.refused(problem))?;
            }
            // An earlier version had fewer, and who only looks does not make them.
            None if at >= FIRST_TABLES => continue,
            None => return Err(wire.refused(format!("the store has lost its table {}", table.name))),
        }
        let found = indexes.get(table.name).map_or(&[][..], Vec::as_slice);
        check_indexes(table, found, &schema, &mut remarks).map_err(|problem| wire.refused(problem))?;
    }
    // A constraint of another table counts where it refers to one of ours: rows could not go.
    let asked = format!(
        "SELECT quote_ident(o.nspname) || '.' || quote_ident(t.relname), quote_ident(k.conname), \
         pg_get_constraintdef(k.oid) FROM {ours} JOIN pg_constraint k ON c.oid IN (k.conrelid, k.confrelid) \
         JOIN pg_class t ON t.oid = k.conrelid JOIN pg_namespace o ON o.oid = t.relnamespace \
         WHERE k.contype NOT IN ('p', 'n') ORDER BY 1, 2 LIMIT 1"
    );
    if let Some([table, name, definition]) = wire.texts(&asked)?.first().map(Vec::as_slice) {
        return Err(wire.refused(format!(
            "constraint {name} of table {table} is not the store's, and messages would fail by it ({definition}): \
             ALTER TABLE {table} DROP CONSTRAINT {name}"
        )));
    }
    let asked = format!(
        "SELECT c.relname, quote_ident(t.tgname), t.tgtype & 66 <> 0, 'TRIGGER' FROM {ours} \
         JOIN pg_trigger t ON t.tgrelid = c.oid WHERE NOT t.tgisinternal AND t.tgenabled <> 'D' UNION ALL \
         SELECT c.relname, quote_ident(r.rulename), true, 'RULE' FROM {ours} JOIN pg_rewrite r \
         ON r.ev_class = c.oid WHERE r.ev_enabled <> 'D' ORDER BY 1, 2"
    );
    for row in wire.texts(&asked)? {
        match &row[..] {
            [table, name, changes, kind] if changes == "t" => {
                return Err(wire.refused(format!(
                    "{} {name} on table {table} is not the store's, and may change what is written: DROP {kind} \
                     {name} ON {schema}.{table}",
                    kind.to_lowercase()
                )));
            }
            [table, name, _, _] => remarks.push(format!(
                "trigger {name} on table {table} is not the store's, and runs with each message"
            )),
            _ => {}
        }
    }
    Ok(remarks)
}

/// Rows by their first column, which is the name of a table.
fn by_table(wire: &mut Wire, sql: &str) -> Result<HashMap<String, Vec<Texts>>, StoreError> {
    let mut found: HashMap<String, Vec<Texts>> = HashMap::new();
    for mut row in wire.texts(sql)? {
        let rest = row.split_off(1);
        found.entry(row.pop().unwrap_or_default()).or_default().push(rest);
    }
    Ok(found)
}

/// Rows are written and read by the places of their columns, so all of them count.
fn check_columns(table: &Table, found: &[Texts], schema: &str) -> Result<(), String> {
    let of = |name: &str| found.iter().find(|row| row.first().is_some_and(|other| other == name));
    let name = table.name;
    let alter = format!("ALTER TABLE {schema}.{name}");
    let is_ours = |other: &str| table.columns.iter().any(|column| column.name == other);
    if let Some(other) = found.iter().filter_map(|row| row.first()).find(|other| !is_ours(other)) {
        let other = identifier(other);
        return Err(format!(
            "table {name} has a column {other} that is not the store's, and rows are read by their places: {alter} \
             DROP COLUMN {other}"
        ));
    }
    for column in table.columns {
        let Some(row) = of(column.name) else {
            return Err(format!(
                "table {name} has lost its column {}: restore the schema from a backup",
                column.name
            ));
        };
        let [_, kind, not_null, is_made, collation] = &row[..] else {
            return Err(format!("the server does not tell what column {} of {name} is", column.name));
        };
        let wanted = column_type(column.kind);
        let (wanted_kind, of_text) = wanted.split_once(' ').unwrap_or((wanted, ""));
        let is_right = kind == wanted_kind && (of_text.is_empty() || collation == "C");
        let problem = match (is_right, not_null.as_str(), is_made.as_str()) {
            (false, _, _) => format!(
                "is {kind}{}, not {wanted}: {alter} ALTER COLUMN {} TYPE {wanted}",
                if matches!(column.kind, Kind::Text(_)) {
                    format!(" COLLATE \"{collation}\"")
                } else {
                    String::new()
                },
                column.name
            ),
            (_, "f", _) => format!("may be NULL: {alter} ALTER COLUMN {} SET NOT NULL", column.name),
            (_, _, "t") => format!(
                "is made by the server: {alter} ALTER COLUMN {} DROP IDENTITY, or DROP EXPRESSION",
                column.name
            ),
            _ => continue,
        };
        return Err(format!("column {} of table {name} {problem}", column.name));
    }
    let in_order = found.iter().zip(table.columns).all(|(row, column)| row[0] == column.name);
    if in_order {
        return Ok(());
    }
    Err(format!(
        "the columns of table {name} are in another order than they were made in, and rows are read by their places: \
         restore the schema from a backup"
    ))
}

/// Each index of the table's has to be there, under whatever name.
fn check_indexes(
    table: &Table,
    found: &[Texts],
    schema: &str,
    remarks: &mut Vec<String>,
) -> Result<(), String> {
    let name = table.name;
    let columns = |index: &Index| names(table, index.columns.iter().copied());
    let mut left: Vec<&Texts> = found.iter().collect();
    for (at, index) in table.indexes.iter().enumerate() {
        let is_primary = at == 0;
        let fits = |row: &&Texts| match &row[..] {
            [_, primary, unique, whole, of] => {
                (primary == "t") == is_primary
                    && (is_primary || unique == "f")
                    && whole == "t"
                    && *of == columns(index)
            }
            _ => false,
        };
        match left.iter().position(fits) {
            Some(place) => _ = left.remove(place),
            None if is_primary => {
                return Err(format!(
                    "table {name} has not its primary key: ALTER TABLE {schema}.{name} ADD PRIMARY KEY ({}), without \
                     another one",
                    columns(index)
                ));
            }
            None => {
                return Err(format!(
                    "table {name} lacks its index {}, or it is not valid: CREATE INDEX {} ON {schema}.{name}({})",
                    index.name,
                    index.name,
                    columns(index)
                ));
            }
        }
    }
    for row in left {
        let index = row.first().map_or_else(String::new, |index| identifier(index));
        if row.get(2).is_some_and(|unique| unique == "t") {
            return Err(format!(
                "the unique index {index} on table {name} is not the store's, and messages would fail by it: DROP \
                 INDEX {schema}.{index}"
            ));
        }
        remarks
            .push(format!("index {index} on table {name} is not the store's: each message has to write it"));
    }
    Ok(())
}

//! What a database holds, as a number that is equal for equal contents.

use rusqlite::types::ValueRef;
use rusqlite::{Connection, Result};

/// 128 bits of a hash that is fast and good against chance (not against malice: the contents are of
/// this program's own making). Two multiplicative lanes, as in MurmurHash3's 128-bit form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hasher {
    lanes: [u64; 2],
    bytes: u64,
}

impl Hasher {
    pub fn new() -> Hasher {
        Hasher { lanes: [0x8764_23f6_14ab_d6b1, 0x3c6e_f372_fe94_f82b], bytes: 0 }
    }

    pub fn add(&mut self, bytes: &[u8]) {
        let (pairs, rest) = bytes.as_chunks::<16>();
        for pair in pairs {
            let pair = u128::from_le_bytes(*pair);
            self.mix(pair as u64, (pair >> 64) as u64);
        }
        let mut last = [0; 16];
        last[..rest.len()].copy_from_slice(rest);
        let last = u128::from_le_bytes(last);
        self.mix(last as u64, (last >> 64) as u64);
        // Where one part ends is part of the content.
        self.mix(bytes.len() as u64, 0x9e37_79b9_7f4a_7c15);
        self.bytes += bytes.len() as u64;
    }

    fn mix(&mut self, first: u64, second: u64) {
        const BY: [u64; 2] = [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f];
        let [a, b] = self.lanes;
        let one = first.wrapping_mul(BY[0]).rotate_left(31).wrapping_mul(BY[1]);
        let two = second.wrapping_mul(BY[1]).rotate_left(33).wrapping_mul(BY[0]);
        let a = (a ^ one).rotate_left(27).wrapping_add(b).wrapping_mul(5).wrapping_add(0x52dc_e729);
        let b = (b ^ two).rotate_left(31).wrapping_add(a).wrapping_mul(5).wrapping_add(0x3849_5ab5);
        self.lanes = [a, b];
    }

    pub fn end(mut self) -> u128 {
        self.mix(self.bytes, self.bytes);
        self.mix(0, 0);
        u128::from(self.lanes[0]) << 64 | u128::from(self.lanes[1])
    }
}

/// Hashes the schema and every row of every table, in order of the tables' names and of all
/// columns.
///
/// # Errors
/// SQLite's, where something cannot be read.
pub(crate) fn content_of(database: &Connection) -> Result<u128> {
    content(database, true)
}

/// As [`content_of`], of all but what its reals are: that there is one counts.
///
/// # Errors
/// As [`content_of`].
pub(crate) fn content_but_reals(database: &Connection) -> Result<u128> {
    content(database, false)
}

fn content(database: &Connection, has_reals: bool) -> Result<u128> {
    let mut hasher = Hasher::new();
    let mut schema = database.prepare(
        "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type, name",
    )?;
    let mut rows = schema.query([])?;
    let mut tables: Vec<String> = Vec::new();
    while let Some(row) = rows.next()? {
        let [kind, name, sql] = [0, 1, 2].map(|column| row.get::<_, Option<String>>(column));
        let (kind, name, sql) =
            (kind?.unwrap_or_default(), name?.unwrap_or_default(), sql?.unwrap_or_default());
        [&kind, &name, &sql].iter().for_each(|text| hasher.add(text.as_bytes()));
        if kind == "table" {
            tables.push(name);
        }
    }
    for table in tables {
        let quoted = table.replace('"', "\"\"");
        let named = database.prepare(&format!("SELECT * FROM \"{quoted}\""))?;
        let columns: Vec<String> = (1..=named.column_count()).map(|column| column.to_string()).collect();
        let mut all =
            database.prepare(&format!("SELECT * FROM \"{quoted}\" ORDER BY {}", columns.join(", ")))?;
        let columns = all.column_count();
        let mut rows = all.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                match row.get_ref(column)? {
                    ValueRef::Null => hasher.add(b"n"),
                    ValueRef::Integer(integer) => {
                        hasher.add(b"i");
                        hasher.add(&integer.to_le_bytes());
                    }
                    ValueRef::Real(real) => {
                        hasher.add(b"r");
                        if has_reals {
                            hasher.add(&real.to_le_bytes());
                        }
                    }
                    ValueRef::Text(text) => {
                        hasher.add(b"t");
                        hasher.add(text);
                    }
                    ValueRef::Blob(blob) => {
                        hasher.add(b"b");
                        hasher.add(blob);
                    }
                }
            }
        }
    }
    Ok(hasher.end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_equal_where_the_rows_are_and_nowhere_else() {
        let of = |sql: &str| {
            let database = Connection::open_in_memory().unwrap();
            database.execute_batch(sql).unwrap();
            content_of(&database).unwrap()
        };
        let table = "CREATE TABLE t(a, b);";
        let first = of(&format!("{table} INSERT INTO t VALUES(1, 'x'), (2, 'y')"));
        let moved = of(&format!(
            "{table} INSERT INTO t VALUES(2, 'y'), (3, 'z'), (1, 'x'); DELETE FROM t WHERE a = 3; VACUUM"
        ));
        assert_eq!(first, moved, "not where they lie");
        let others = [
            table.to_owned(),
            String::new(),
            format!("{table} INSERT INTO t VALUES(1, 'x')"),
            format!("{table} INSERT INTO t VALUES(1, 'x'), (2, 'z')"),
            format!("{table} INSERT INTO t VALUES('1', 'x'), (2, 'y')"),
            format!("{table} INSERT INTO t VALUES(1, 'x'), (2, 'y'), (2, 'y')"),
            "CREATE TABLE u(a, b); INSERT INTO u VALUES(1, 'x'), (2, 'y')".to_owned(),
            format!("{table} CREATE INDEX i ON t(a); INSERT INTO t VALUES(1, 'x'), (2, 'y')"),
        ];
        let mut all: Vec<u128> = others.iter().map(|sql| of(sql)).collect();
        all.push(first);
        let number = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), number);
    }

    #[test]
    fn reals_count_where_they_are_asked_for() {
        let of = |value: &str| {
            let database = Connection::open_in_memory().unwrap();
            database
                .execute_batch(&format!("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, {value})"))
                .unwrap();
            (content_of(&database).unwrap(), content_but_reals(&database).unwrap())
        };
        let (third, rounded, whole) = (of("0.33333333333333331"), of("0.333333333333333"), of("0"));
        assert!(third.0 != rounded.0 && third.1 == rounded.1);
        assert!(whole.1 != third.1, "a whole number is no real");
    }
}

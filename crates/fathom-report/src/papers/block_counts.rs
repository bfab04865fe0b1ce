//! What `fathom report --blocks` counted, as a table: block traces themselves are too large to be
//! published.

use std::path::Path;

use crate::number;

/// One export of block counts.
pub(super) struct BlockCounts {
    head: Vec<String>,
    cells: Vec<Vec<String>>,
}

/// How a column is shown.
enum Unit {
    /// Bytes of all executions.
    Bytes,
    /// A number of all executions.
    Count,
    /// A number of one execution.
    Each,
    /// A part of one.
    Share,
}

/// What is shown, row by row; one that is nothing in every cell is left out.
const ROWS: &[(&str, &str, Unit)] = &[
    ("sqlite_bytes", "written by SQLite", Unit::Bytes),
    ("written_database_bytes", "of the database, at the device", Unit::Bytes),
    ("written_rollback_journal_bytes", "of the rollback journal", Unit::Bytes),
    ("written_wal_bytes", "of the write-ahead log", Unit::Bytes),
    ("written_other_file_bytes", "of other files", Unit::Bytes),
    ("written_file_system_journal_bytes", "of the file system's journal", Unit::Bytes),
    ("written_metadata_bytes", "of the file system's metadata", Unit::Bytes),
    ("written_unattributed_bytes", "of nobody known", Unit::Bytes),
    ("device_bytes", "at the device", Unit::Bytes),
    ("write_requests", "requests that write", Unit::Count),
    ("read_requests", "requests that read", Unit::Count),
    ("flushes_per_execution", "flushes", Unit::Each),
    ("sequential_share", "requests that follow the one before", Unit::Share),
];

impl BlockCounts {
    /// Reads an export.
    pub fn read(path: &Path) -> Result<BlockCounts, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        if text.contains('"') {
            return Err(format!("{name}: a cell's name with a comma or a quote cannot be shown"));
        }
        let mut lines = text.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
        let head = lines.next().unwrap_or_default();
        let counts = BlockCounts { head, cells: lines.collect() };
        let wanted = ["label", "executions"].into_iter().chain(ROWS.iter().map(|(column, ..)| *column));
        for column in wanted {
            if counts.cells.is_empty() || counts.cells.iter().any(|cell| counts.field(cell, column).is_none())
            {
                return Err(format!("{name}: no column {column:?}: is it of `fathom report --blocks`?"));
            }
        }
        for cell in &counts.cells {
            let number = |column: &str| counts.number(cell, column);
            let strange = ROWS.iter().find(|(column, ..)| !number(column).is_finite());
            if let Some((column, ..)) = strange {
                return Err(format!("{name}: {column} is no number"));
            }
            if number("executions").is_nan() || number("executions") < 1.0 {
                return Err(format!("{name}: nothing was executed"));
            }
        }
        Ok(counts)
    }

    fn field<'a>(&self, cell: &'a [String], column: &str) -> Option<&'a str> {
        let at = self.head.iter().position(|name| name == column)?;
        cell.get(at).map(String::as_str)
    }

    fn number(&self, cell: &[String], column: &str) -> f64 {
        self.field(cell, column).and_then(|field| field.parse().ok()).unwrap_or(f64::NAN)
    }

    /// A column for each cell; bytes and requests are those of one execution.
    pub fn table(&self) -> String {
        let labels: Vec<&str> = self.cells.iter().filter_map(|cell| self.field(cell, "label")).collect();
        let mut table = format!("| | {} |\n|---|", labels.join(" | "));
        table += &"---|".repeat(labels.len());
        for (column, words, unit) in ROWS {
            let value = |cell: &Vec<String>| {
                let whole = self.number(cell, column);
                match unit {
                    Unit::Bytes | Unit::Count => whole / self.number(cell, "executions"),
                    Unit::Each | Unit::Share => whole,
                }
            };
            let values: Vec<f64> = self.cells.iter().map(value).collect();
            if values.iter().all(|value| *value == 0.0) {
                continue;
            }
            let shown = |value: &f64| match unit {
                _ if *value == 0.0 => String::new(),
                Unit::Bytes => number::bytes(*value),
                Unit::Count | Unit::Each => number::plain(*value),
                Unit::Share => number::percent(*value),
            };
            let shown: Vec<String> = values.iter().map(shown).collect();
            table += &format!("\n| {words} | {} |", shown.join(" | "));
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<BlockCounts, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("blocks.csv");
        std::fs::write(&path, text).unwrap();
        BlockCounts::read(&path)
    }

    fn export(change: impl Fn(&str) -> &'static str) -> String {
        let columns: Vec<&str> =
            ["label", "executions"].into_iter().chain(ROWS.iter().map(|(column, ..)| *column)).collect();
        let fields: Vec<&str> = columns.iter().map(|column| change(column)).collect();
        format!("{}\n{}\n", columns.join(","), fields.join(","))
    }

    #[test]
    fn counts_are_those_of_one_execution() {
        let text = export(|column| match column {
            "label" => "ext4",
            "executions" => "10",
            "device_bytes" => "102400",
            "flushes_per_execution" => "4",
            "sequential_share" => "0.25",
            _ => "0",
        });
        let table = read(&text).unwrap().table();
        assert!(table.starts_with("| | ext4 |\n|---|---|\n| at the device | 10 KiB |"), "{table}");
        assert!(table.contains("| flushes | 4 |") && table.ends_with("| 25 % |"), "{table}");
        assert!(!table.contains("write-ahead"), "{table}");
    }

    #[test]
    fn what_is_no_export_is_refused() {
        let refused = |text: &str| read(text).err().unwrap();
        assert!(refused("").contains("no column \"label\""));
        assert!(refused(&export(|_| "x")).contains("is no number"));
        assert!(refused(&export(|_| "0")).contains("nothing was executed"));
        assert!(refused(&export(|_| "\"a\"")).contains("cannot be shown"));
        assert!(read(&export(|_| "1")).is_ok());
    }
}

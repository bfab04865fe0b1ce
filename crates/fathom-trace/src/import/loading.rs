//! What a loading script sets: of its file, which stays, or of its own connection, which goes.

use crate::sql::pragma;

/// Journal modes; each ends WAL, which alone is kept in the file.
const JOURNAL_MODES: [&str; 6] = ["delete", "truncate", "persist", "memory", "wal", "off"];

/// PRAGMAs that hold for the connection that gives them, and that change what commits cost.
const OF_CONNECTION: [&str; 5] =
    ["synchronous", "wal_autocheckpoint", "locking_mode", "cache_size", "mmap_size"];

/// Settings of a loading script.
#[derive(Debug, Default)]
pub struct LoadingSettings {
    of_connection: Vec<String>,
}

impl LoadingSettings {
    /// Takes a statement; the PRAGMA as it is put into the trace's script where it sets something
    /// of the file that the import itself does not do.
    pub fn of_file(&mut self, sql: &str) -> Option<String> {
        let (name, value) = pragma(sql)?;
        let value = value?.trim_matches(['\'', '"', '`', ' ']).to_ascii_lowercase();
        let is_of_file = match name.as_str() {
            "journal_mode" => JOURNAL_MODES.contains(&value.as_str()),
            "page_size" => value.parse::<u32>().is_ok(),
            _ => {
                if OF_CONNECTION.contains(&name.as_str()) && !self.of_connection.contains(&name) {
                    self.of_connection.push(name.clone());
                }
                false
            }
        };
        is_of_file.then(|| format!("PRAGMA {name} = {value}"))
    }

    /// What a user must know of the settings that are not the application's.
    pub fn warning(&self, file: &str) -> Option<String> {
        if self.of_connection.is_empty() {
            return None;
        }
        Some(format!(
            "{file} sets {}: that holds for the connection that loads alone, and not for those of the streams. Where the \
             application sets it too, say so to advice: `fathom advise … --now {}=…`",
            self.of_connection.join(", "),
            self.of_connection.join("=…,")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_file_keeps_is_told_from_what_the_connection_takes_along() {
        let mut settings = LoadingSettings::default();
        for (sql, kept) in [
            ("PRAGMA journal_mode=WAL", Some("PRAGMA journal_mode = wal")),
            ("pragma main.page_size('1024')", Some("PRAGMA page_size = 1024")),
            ("PRAGMA journal_mode=wla", None),
            ("PRAGMA page_size=", None),
            ("PRAGMA journal_mode", None),
            ("PRAGMA synchronous = NORMAL", None),
            ("PRAGMA synchronous = 1", None),
            ("PRAGMA foreign_keys=OFF", None),
            ("INSERT INTO t VALUES ('PRAGMA journal_mode=WAL')", None),
        ] {
            assert_eq!(settings.of_file(sql).as_deref(), kept, "{sql}");
        }
        let warning = settings.warning("load.sql").unwrap();
        assert!(warning.contains("load.sql sets synchronous:") && warning.contains("--now synchronous=…"));
        assert_eq!(LoadingSettings::default().warning("load.sql"), None);
    }
}

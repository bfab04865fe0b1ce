//! Lines of Android's log as Android Studio shows, copies and saves them:
//!
//! ```text
//! 2020-03-19 20:45:59.040 599-604/com.example.app V/SQLiteStatements: MESSAGE
//! 2022-12-29 04:00:18.823   599-604   SQLiteStatements        com.example.app      V  MESSAGE
//! ```
//!
//! The first is of versions up to 2022. Both have a head before the first line of a message only,
//! and put its other lines below, behind spaces.

/// Spaces before the other lines of a message, where its head has no columns.
pub const INDENT: usize = 4;

/// Process and thread out of the word behind the time: `599-604`, `599-604/com.example.app`.
pub fn ids(word: &str) -> Option<(u32, u32)> {
    let (pid, tid) = word.split('/').next()?.split_once('-')?;
    Some((pid.parse().ok()?, tid.parse().ok()?))
}

/// The message where columns follow the tag: the package, the level, and it.
pub fn message(after_tag: &str) -> Option<&str> {
    let columns = after_tag.strip_prefix(' ')?.trim_start_matches(' ');
    let (_, level) = columns.split_once(' ')?;
    let (level, message) = level.trim_start_matches(' ').split_once(' ')?;
    let is_level = matches!(level, "V" | "D" | "I" | "W" | "E" | "A" | "F");
    is_level.then(|| message.strip_prefix(' ').unwrap_or(message))
}

/// A further line of a message whose lines begin at this byte; none where it has a head.
pub fn further(line: &str, column: usize) -> Option<&str> {
    let line = line.trim_end_matches(['\r', '\n']);
    if line.trim().is_empty() {
        return Some(line.get(column..).unwrap_or_default());
    }
    // Spaces are a byte each.
    match line.len() - line.trim_start_matches(' ').len() {
        0 => None,
        spaces => line.get(spaces.min(column)..),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_and_further_lines_are_taken_apart() {
        assert_eq!(ids("599-604"), Some((599, 604)));
        assert_eq!(ids("599-604/?"), Some((599, 604)));
        assert_eq!(ids("-0500"), None);
        assert_eq!(ids("V/"), None);
        let columns = "        com.example.app                      V  /data/a.db: \"SELECT 1\"";
        assert_eq!(message(columns), Some("/data/a.db: \"SELECT 1\""));
        assert_eq!(message(": /data/a.db: \"SELECT 1\""), None);
        assert_eq!(message("( 1234): x y z"), None);
        assert_eq!(further("      FROM t\r\n", 4), Some("  FROM t"));
        assert_eq!(further("  FROM t", 4), Some("FROM t"));
        assert_eq!((further("\n", 4), further("      \n", 4)), (Some(""), Some("  ")));
        assert_eq!(further("2020-03-19 20:45:59.040 599-599/? I/Proximity: distance", 4), None);
    }
}

//! What Android's log drops: up to Android 10 it leaves out lines that repeat, and lines of
//! processes that log much, and says how many with the tag `chatty`.

/// How many lines this one says were dropped.
pub fn dropped(line: &str) -> u64 {
    let Some((before, message)) = line.split_once("chatty") else { return 0 };
    let is_tag = before.ends_with([' ', '/']) && message.contains("uid=");
    match message.split_whitespace().collect::<Vec<_>>()[..] {
        [.., "identical" | "expire", number, "line" | "lines"] if is_tag => number.parse().unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dropped_is_counted() {
        for (line, lines) in [
            ("11-21 16:26:38.123  1234  1240 I chatty  : uid=10012(u0_a12) com.app identical 2 lines\n", 2),
            ("I/chatty  ( 1234): uid=10012(u0_a12) com.app.mail expire 1 line\r\n", 1),
            ("2020-03-19 20:45:59.439 599-599/? I/chatty: uid=1000(system) sensors expire 40 lines", 40),
            ("11-21 16:26:38.123  1234  1240 I MyTag: a chatty user sent identical 2 lines", 0),
            ("11-21 16:26:38.123  1234  1240 I chatty  : uid=10012 hello", 0),
        ] {
            assert_eq!(dropped(line), lines, "{line}");
        }
    }
}

//! What a program says, of which the beginning and the end are kept.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read};

/// Reads to the end, so that whoever writes is never kept from it, and gives what was said: of more
/// than `most` octets the first and the last half of so many, and between them how many are left
/// out. What cannot be read is missing. Why a program failed it says at its end.
pub fn both_ends(mut from: impl Read, most: usize) -> String {
    let half = most / 2;
    let (mut head, mut tail): (Vec<u8>, VecDeque<u8>) = (Vec::new(), VecDeque::new());
    let mut total = 0_u64;
    let mut buffer = vec![0; 1 << 13];
    loop {
        let read = match from.read(&mut buffer) {
            Ok(read @ 1..) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            _ => break,
        };
        let said = buffer.get(..read).unwrap_or_default();
        total += read as u64;
        let (first, rest) = said.split_at(read.min(half - head.len()));
        head.extend_from_slice(first);
        tail.extend(rest);
        let excess = tail.len().saturating_sub(most - half);
        tail.drain(..excess);
    }
    let left_out = total - (head.len() + tail.len()) as u64;
    if left_out > 0 {
        head.extend_from_slice(format!("\n[{left_out} octets are left out here]\n").as_bytes());
    }
    head.extend(&tail);
    String::from_utf8_lossy(&head).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_short_is_kept_whole_and_of_what_is_long_both_ends() {
        for (said, kept) in
            [("", ""), ("12345678", "12345678"), ("123456789", "1234\n[1 octets are left out here]\n6789")]
        {
            assert_eq!(both_ends(said.as_bytes(), 8), kept);
        }
        let long = format!("begin{}end", "x".repeat(1 << 16));
        let kept = both_ends(long.as_bytes(), 1000);
        assert!(kept.starts_with("beginx") && kept.ends_with("xend") && kept.len() < 1100, "{kept}");
    }
}

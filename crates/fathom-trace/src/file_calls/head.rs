//! What stands before a call in a line of `strace`: its process, its time, and what options add.

/// Process (0 without), time in µs and whether it is one of the day, and the rest.
pub fn head(line: &str) -> (u32, Option<(u64, bool)>, &str) {
    let mut rest = line.trim_start();
    let mut thread = 0;
    if let Some(after) = rest.strip_prefix("[pid") {
        if let Some((number, after)) = process(after.trim_start())
            && let Some(after) = after.strip_prefix(']')
        {
            thread = number;
            rest = after.trim_start();
        }
    } else if let Some((number, after)) = process(rest)
        && after.starts_with(' ')
    {
        thread = number;
        rest = after.trim_start();
    }
    if let Some((word, after)) = rest.split_once(' ')
        && let Some(at_us) = time_us(word)
    {
        let after = after.trim_start();
        // With `-r` beside it: `(+     0.000100)`.
        let since = after.strip_prefix("(+").and_then(|since| since.split_once(')'));
        let call = since.map_or(after, |(_, call)| call.trim_start());
        return (thread, Some((at_us, word.contains(':'))), without_numbers(call));
    }
    (thread, None, without_numbers(rest))
}

/// The number of a process and what stands behind it. With `-Y` its name is between, `101<app>`, in
/// which `>` is written as a number.
fn process(text: &str) -> Option<(u32, &str)> {
    let end = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text[..end].parse().ok()?;
    let behind = &text[end..];
    let named = behind.strip_prefix('<').and_then(|name| name.split_once('>'));
    Some((number, named.map_or(behind, |(_, after)| after)))
}

/// A call without its number (`-n`: `[  18]`) and the place of its instruction (`-i`:
/// `[00007f0123456789]`).
fn without_numbers(mut call: &str) -> &str {
    const LEAST: usize = 4;
    let is_number = |inner: &str| {
        inner.len() >= LEAST
            && inner.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b' ' | b'?'))
    };
    while let Some((inner, after)) = call.strip_prefix('[').and_then(|inner| inner.split_once("] "))
        && is_number(inner)
    {
        call = after.trim_start();
    }
    call
}

/// `HH:MM:SS`, with a fraction or without, or seconds with one.
fn time_us(word: &str) -> Option<u64> {
    let (whole, fraction) = word.split_once('.').unwrap_or((word, ""));
    if fraction.len() > 9 || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction_us = format!("{fraction:0<6}").get(..6)?.parse::<u64>().ok()?;
    let seconds = match whole.split(':').collect::<Vec<_>>()[..] {
        [seconds] if !fraction.is_empty() => seconds.parse::<u64>().ok()?,
        [hours, minutes, seconds] => {
            let number = |text: &str| text.parse::<u64>().ok().filter(|number| *number < 100);
            (number(hours)? * 60 + number(minutes)?) * 60 + number(seconds)?
        }
        _ => return None,
    };
    seconds.checked_mul(1_000_000)?.checked_add(fraction_us).filter(|at_us| *at_us < 1 << 60)
}

//! Mutations of bytes and of text.

use crate::Random;

/// Numbers at which code goes wrong: ends of types, powers of two, and their neighbours.
#[must_use]
pub fn number(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.below(4),
        1 => random.below(300),
        2 | 3 => (1_u64 << random.below(64)).wrapping_add(random.below(3)).wrapping_sub(1),
        4 => u64::MAX - random.below(3),
        5 => *random.pick(&[
            0x7f,
            0x80,
            0xff,
            0x7fff,
            0xffff,
            0x7fff_ffff,
            0xffff_ffff,
            i64::MAX as u64,
            1 << 63,
            4096,
            65_536,
        ]),
        6 => random.bits() >> random.below(64),
        _ => 0_u64.wrapping_sub(random.below(300)),
    }
}

/// Does `times` things to `bytes`: flips, numbers, pieces cut out, doubled, moved, or taken from
/// `others`. Never longer than four times what it was, and 4 KiB.
pub fn bytes(random: &mut Random, bytes: &mut Vec<u8>, times: u64, others: &[Vec<u8>]) {
    let most = bytes.len() * 4 + 4096;
    for _ in 0..times {
        let length = bytes.len() as u64;
        if length == 0 {
            bytes.extend(random.bits().to_le_bytes());
            continue;
        }
        let at = random.below(length) as usize;
        // Short pieces are likelier.
        let longest = 1 << random.below(12);
        let piece = (random.below(longest) as usize + 1).min(bytes.len() - at);
        match random.below(16) {
            0..=2 => bytes[at] ^= 1 << random.below(8),
            3 | 4 => bytes[at] = random.bits() as u8,
            5..=7 => {
                let wide = number(random).to_le_bytes();
                let count = *random.pick(&[1_usize, 2, 4, 8]);
                for (to, from) in bytes[at..].iter_mut().zip(&wide[..count]) {
                    *to = *from;
                }
            }
            8 => bytes[at] = bytes[at].wrapping_add(*random.pick(&[1, 255])),
            9 => drop(bytes.drain(at..at + piece)),
            10 => {
                let copy = bytes[at..at + piece].to_vec();
                let to = random.below(length) as usize;
                bytes.splice(to..to, copy);
            }
            11 => {
                let to = random.below(length - piece as u64 + 1) as usize;
                bytes.copy_within(at..at + piece, to);
            }
            12 => bytes[at..at + piece].fill(*random.pick(&[0, 0xff, b'0', b'[', b'('])),
            13 => {
                // A number of variable length, as the trace has them.
                let mut value = number(random);
                let mut number = Vec::new();
                while value >= 0x80 {
                    number.push(value as u8 | 0x80);
                    value >>= 7;
                }
                number.push(value as u8);
                bytes.splice(at..(at + 1).min(bytes.len()), number);
            }
            14 if !others.is_empty() => {
                let other = random.pick(others);
                let from = random.below(other.len() as u64 + 1) as usize;
                let count = piece.min(other.len() - from);
                bytes.splice(at..at + piece, other[from..from + count].iter().copied());
            }
            14 => bytes.insert(at, random.bits() as u8),
            _ if random.below(4) == 0 => bytes.truncate(at),
            _ => bytes.insert(at, random.bits() as u8),
        }
        bytes.truncate(most);
    }
}

/// Numbers as people write them, and as they do not.
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "0.0",
    "1e308",
    "-1e308",
    "1e-320",
    "1e999",
    "nan",
    "inf",
    "-inf",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
    "4294967295",
    "4294967296",
    "2147483648",
    "0xffffffff",
    "0o777",
    "0b1",
    "1_000",
    "1979-05-27T07:32:00Z",
    "0.001",
    "100",
    "65536",
    "1e18",
];

/// Does `times` things to a text of lines (TOML, SQL, logs): other numbers, words of `words`, lines
/// doubled, moved or left out, pieces of `others`, deep nesting, and now and then bytes as
/// [`bytes`] does, repaired to UTF-8. Never longer than four times what it was, and 4 KiB.
#[must_use]
pub fn text(random: &mut Random, text: &str, times: u64, words: &[&str], others: &[&str]) -> String {
    let most = text.len() * 4 + 4096;
    let mut text = text.to_owned();
    for _ in 0..times {
        match random.below(12) {
            0..=2 => replace_run(random, &mut text, |c| c.is_ascii_digit() || c == '.', &numeral),
            3 | 4 => {
                let word = |random: &mut Random| random.pick(words).to_string();
                replace_run(random, &mut text, |c| c.is_alphanumeric() || "_-".contains(c), &word);
            }
            5 | 6 => {
                let mut lines: Vec<&str> = text.split('\n').collect();
                let (from, to) =
                    (random.below(lines.len() as u64) as usize, random.below(lines.len() as u64) as usize);
                match random.below(4) {
                    0 => drop(lines.remove(from)),
                    1 => lines.insert(to, lines[from]),
                    2 => lines.swap(from, to),
                    _ if !others.is_empty() => {
                        let other: Vec<&str> = random.pick(others).split('\n').collect();
                        let begin = random.below(other.len() as u64) as usize;
                        let count = random.below(6) as usize + 1;
                        lines.splice(to..to, other[begin..].iter().take(count).copied());
                    }
                    _ => lines.truncate(from),
                }
                text = lines.join("\n");
            }
            7 => {
                let (open, close) = *random.pick(&[
                    ("[", "]"),
                    ("{a=", "}"),
                    ("(", ")"),
                    ("[[", "]]"),
                    ("\"", "\""),
                    ("a.", ""),
                ]);
                let depth = 1 << random.below(10);
                let at = place(random, &text);
                let close = if random.below(2) == 0 { close } else { "" };
                text.insert_str(at, &format!("{}1{}", open.repeat(depth), close.repeat(depth)));
            }
            8 => {
                let at = place(random, &text);
                let odd = *random.pick(&[
                    "\"",
                    "'",
                    "\"\"\"",
                    "\\",
                    "\\u0000",
                    "\0",
                    "\u{1b}[2J",
                    "\u{202e}",
                    "é",
                    "😀",
                    "#",
                    "\r",
                    "=",
                    "../",
                    "/",
                    "<script>",
                    "]]>",
                    "--",
                    "/*",
                ]);
                text.insert_str(at, odd);
            }
            9 => {
                let at = place(random, &text);
                let word = *random.pick(words);
                let value = numeral(random);
                text.insert_str(at, &format!("\n{word} = {value}\n"));
            }
            _ => {
                let mut raw = text.into_bytes();
                bytes(random, &mut raw, 1, &[]);
                text = String::from_utf8_lossy(&raw).into_owned();
            }
        }
        while text.len() > most {
            let at = (most..).find(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
            if at == text.len() {
                break;
            }
            text.truncate(at);
        }
    }
    text
}

fn numeral(random: &mut Random) -> String {
    match random.below(3) {
        0 => (number(random) as i64).to_string(),
        _ => (*random.pick(NUMBERS)).to_owned(),
    }
}

/// A place between two characters.
fn place(random: &mut Random, text: &str) -> usize {
    let mut at = random.below(text.len() as u64 + 1) as usize;
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

/// Puts something else in the place of a run of characters that `belongs` likes, the first behind a
/// random place.
fn replace_run(
    random: &mut Random,
    text: &mut String,
    belongs: impl Fn(char) -> bool,
    other: &dyn Fn(&mut Random) -> String,
) {
    let from = place(random, text);
    let Some(begin) = text[from..].find(&belongs).map(|offset| from + offset) else { return };
    let end = text[begin..].find(|c| !belongs(c)).map_or(text.len(), |offset| begin + offset);
    text.replace_range(begin..end, &other(random));
}

//! Numbers that somebody wrote into a sentence.
//!
//! What is written by hand outlives its data. Names have digits, too, and are none: what begins
//! with a letter (`ext4`, `p99.9`), versions, numbers of figures and tables, dates and years, and
//! whatever stands as code or as the target of a link. Words are numbers, too: half of the bytes is
//! as much a measurement as 0.5 of them.

use std::ops::Range;

/// Words before a number that make it a name.
const NAMED: &[&str] = &[
    "SQLite",
    "Linux",
    "Debian",
    "Android",
    "Oracle",
    "PostgreSQL",
    "Nexus",
    "Fathom",
    "version",
    "versions",
    "seed",
    "Figure",
    "Figures",
    "figure",
    "figures",
    "Table",
    "XFS",
];

/// Words before four digits that make them a year.
const BEFORE_A_YEAR: &[&str] = &["in", "of", "until", "since", "from", "by"];

const MONTHS: &[&str] = &[
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Words that say how many or how much. *One* is an article as well and is not among them, and
/// whoever writes *most*, *hardly* or *next to nothing* is not caught.
const QUANTITIES: &str = "\
    two three four five six seven eight nine ten eleven twelve dozen dozens hundred hundreds \
    thousand thousands million millions half halves halved third thirds quarter quarters fifth \
    fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths twentieth \
    thirtieth fortieth fiftieth hundredth hundredths thousandth thousandths twice thrice double \
    doubles doubled triple factor";

/// How a number of times begins that is written in one word: `fourfold`.
const FOLDS: &str = "two three four five six seven eight nine ten twelve hundred thousand many";

/// A word of a text: its place, and whether it is set as code or leads elsewhere.
struct Word<'a> {
    place: Range<usize>,
    text: &'a str,
    /// What stands between the word before and this one.
    gap: &'a str,
}

/// The places of all words that say how many or how much.
pub(super) fn quantities(text: &str) -> Vec<Range<usize>> {
    let is_quantity = |word: &&Word<'_>| {
        let word = word.text.to_lowercase();
        let is_fold = word.strip_suffix("fold").is_some_and(|begin| is_one_of(FOLDS, begin));
        is_fold || is_one_of(QUANTITIES, &word)
    };
    words(text).iter().filter(is_quantity).map(|word| word.place.clone()).collect()
}

fn is_one_of(words: &str, wanted: &str) -> bool {
    words.split(' ').any(|word| word == wanted)
}

/// The first number that is written into a sentence, in digits or in words, and what to do about
/// it.
pub(super) fn by_hand(words: &str) -> Option<(Range<usize>, String)> {
    let digits = numbers(words).into_iter().next();
    let spoken = quantities(words).into_iter().next();
    let place = digits.iter().chain(&spoken).min_by_key(|place| place.start)?.clone();
    let number = &words[place.clone()];
    let plain = match digits == Some(place.clone()) {
        true => String::new(),
        false => format!(", or, if it is of nothing that was measured: {{{{plain {number}}}}}"),
    };
    let message = format!(
        "the number {number} is written by hand: print it from data ({{{{value …}}}}, {{{{ratio …}}}}), or say \
         who gives it: {{{{given SOURCE}}}}{number}{{{{end}}}}{plain}"
    );
    Some((place, message))
}

/// Whether a text has a word by itself, in whatever case.
pub(super) fn has_word(text: &str, wanted: &str) -> bool {
    words(text).iter().any(|word| word.text.eq_ignore_ascii_case(wanted))
}

/// The places of all numbers that a text states in digits.
pub(super) fn numbers(text: &str) -> Vec<Range<usize>> {
    let words = words(text);
    let mut found = Vec::new();
    // Whether the number before was a name, which "Figures 1 to 7" goes on with.
    let mut is_named_before = false;
    for (index, word) in words.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|at| words.get(at));
        let after = words.get(index + 1);
        if !word.text.starts_with(|first: char| first.is_ascii_digit()) {
            let is_joint = ["to", "and", "or"].contains(&word.text) && is_blank(word.gap);
            is_named_before &= is_joint;
            continue;
        }
        let follows =
            |names: &[&str]| before.is_some_and(|before| is_blank(word.gap) && names.contains(&before.text));
        let is_version = word.text.matches('.').count() >= 2 && word.text.bytes().all(|byte| byte != b',');
        let is_day = after.is_some_and(|after| is_blank(after.gap) && MONTHS.contains(&after.text));
        let is_year = word.text.len() == 4
            && word.text.parse().is_ok_and(|year: u32| (1990..2100).contains(&year))
            && (follows(BEFORE_A_YEAR) || follows(MONTHS));
        // The tail of a name with a hyphen: ntfs-3g.
        let is_tail = word.gap == "-"
            && before.is_some_and(|before| before.text.starts_with(|first: char| first.is_alphabetic()));
        let goes_on = is_named_before && (is_blank(word.gap) || word.gap == ", ");
        let is_name = is_version || is_day || is_year || is_tail || follows(NAMED) || goes_on;
        is_named_before = is_name;
        if !is_name {
            found.push(word.place.clone());
        }
    }
    found
}

fn is_blank(gap: &str) -> bool {
    !gap.is_empty() && gap.chars().all(char::is_whitespace)
}

/// Letters and digits, with the points and commas between digits; nothing of code and of targets.
fn words(text: &str) -> Vec<Word<'_>> {
    let mut words = Vec::new();
    let bytes = text.as_bytes();
    let (mut at, mut end_before) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == b'`' {
            // A span ends in its paragraph, or the quote is one by itself.
            let rest = &text[at + 1..];
            let paragraph = rest.find("\n\n").unwrap_or(rest.len());
            at += rest[..paragraph].find('`').map_or(1, |length| length + 2);
        } else if text[at..].starts_with("](") {
            at += text[at..].find(')').map_or(2, |length| length + 1);
        } else if bytes[at].is_ascii_alphanumeric() || bytes[at] >= 0x80 {
            let begin = at;
            let is_of_word = |at: usize| {
                let byte = bytes[at];
                byte.is_ascii_alphanumeric()
                    || byte >= 0x80
                    || byte == b'_'
                    || (byte == b'.' || byte == b',')
                        && bytes.get(at + 1).is_some_and(u8::is_ascii_digit)
                        && bytes[at - 1].is_ascii_alphanumeric()
            };
            while at < bytes.len() && is_of_word(at) {
                at += 1;
            }
            words.push(Word { place: begin..at, text: &text[begin..at], gap: &text[end_before..begin] });
            end_before = at;
        } else {
            at += 1;
        }
    }
    words
}

/// A number without what groups its digits, and without the `x` of a ratio: `10,251` and `10_251`
/// are one number.
pub(super) fn plain(number: &str) -> String {
    number
        .chars()
        .filter(|digit| !matches!(digit, ',' | '_'))
        .collect::<String>()
        .trim_end_matches('x')
        .into()
}

/// Whether a text holds a number by itself, however its digits are grouped.
pub(super) fn holds(text: &str, number: &str) -> bool {
    let text: String = text.chars().filter(|digit| !matches!(digit, ',' | '_')).collect();
    let number = plain(number);
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    text.match_indices(&number).any(|(at, found)| {
        let (before, after) = (&text.as_bytes()[..at], &text.as_bytes()[at + found.len()..]);
        let is_fraction = after.first() == Some(&b'.') && is_digit(after.get(1));
        let is_after_point = before.last() == Some(&b'.') && is_digit(before.get(at.wrapping_sub(2)));
        !is_digit(before.last()) && !is_after_point && !is_digit(after.first()) && !is_fraction
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<&str> {
        numbers(text).into_iter().map(|place| &text[place]).collect()
    }

    #[test]
    fn numbers_are_found_and_names_are_not() {
        assert_eq!(found("It takes 0.16 s, 10,251 times a day: 2.4x."), ["0.16", "10,251", "2.4x"]);
        assert_eq!(found("| a | 29.9 KiB | 5 |"), ["29.9", "5"]);
        assert_eq!(found("80 to 95 %, (12) and 1.5*"), ["80", "95", "12", "1.5"]);
        for name in [
            "ext4 and NILFS2 at p99.9 of P1",
            "SQLite 3.28 under Linux 2.6.32, and 3.8.11.1",
            "Figures 1 to 7, Table 3, Figures 1, 2 and 4",
            "on 25 November 2026, in 2012 and of 2014",
            "the driver ntfs-3g, Oracle8i, Oracle 11g",
            "with `sleep 5` or `a\nb 7`, see [here](x.md#12)",
            "one of two processors",
            "four flushes",
        ] {
            assert_eq!(found(name), [""; 0], "{name}");
        }
        assert_eq!(found("2009 against 129"), ["2009", "129"]);
        assert_eq!(found("a quote ` alone, then 7"), ["7"]);
        assert_eq!(found("Table 3 holds 5 rows"), ["5"]);
    }

    /// "Less than half of what ext4 does" stood in the page where it was more, of one application
    /// of two: words escaped the check that numbers are printed.
    #[test]
    fn quantities_are_found_in_words() {
        let found = |text| quantities(text).into_iter().map(|place| &text[place]).collect::<Vec<&str>>();
        assert_eq!(found("Half of it, by a factor of two, a third"), ["Half", "factor", "two", "third"]);
        assert_eq!(
            found("the eightfold, twice, a two-way hundredth"),
            ["eightfold", "twice", "two", "hundredth"]
        );
        assert_eq!(found("one of manifold ways to unfold, at `ten` or [here](two.md), p99.9"), [""; 0]);
        assert!(has_word("| Two | rounds |", "two") && !has_word("twofold", "two"));
    }

    #[test]
    fn a_file_holds_a_number_only_as_a_whole() {
        assert!(holds("rows = 1_000_000", "1,000,000") && holds("16x", "16x") && holds("2.14x", "2.14"));
        assert!(!holds("rows = 1_000_000", "1,000") && !holds("2.14", "14") && !holds("2.14", "2"));
        assert!(!holds("", "1") && holds("1.", "1"));
    }
}

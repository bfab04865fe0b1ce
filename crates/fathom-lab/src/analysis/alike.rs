//! Texts that say the same of other numbers: the battery was at 17 % after one run, and at 16 %
//! after the next.

/// Texts that differ in their numbers only.
#[derive(Debug)]
pub(super) struct AlikeTexts<'a> {
    /// What stands around the numbers.
    words: Vec<&'a str>,
    /// The numbers of each text.
    numbers: Vec<Vec<&'a str>>,
    /// The texts themselves.
    pub texts: Vec<&'a str>,
}

impl AlikeTexts<'_> {
    /// All of them as one text: where their numbers differ, from the least to the greatest.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (place, words) in self.words.iter().enumerate() {
            text.push_str(words);
            let mut found: Vec<&str> =
                self.numbers.iter().filter_map(|of_text| of_text.get(place)).copied().collect();
            found.sort_by(|one, other| value(one).total_cmp(&value(other)));
            if let (Some(least), Some(greatest)) = (found.first(), found.last()) {
                text.push_str(least);
                if least != greatest {
                    text.push('–');
                    text.push_str(greatest);
                }
            }
        }
        text
    }
}

/// The texts, those that are alike together, in the order in which the first of each came.
pub(super) fn alike<'a>(texts: impl IntoIterator<Item = &'a str>) -> Vec<AlikeTexts<'a>> {
    let mut all: Vec<AlikeTexts<'a>> = Vec::new();
    for text in texts {
        let (words, numbers) = parts(text);
        match all.iter_mut().find(|known| known.words == words) {
            Some(known) => {
                known.texts.push(text);
                known.numbers.push(numbers);
            }
            None => all.push(AlikeTexts { words, numbers: vec![numbers], texts: vec![text] }),
        }
    }
    all
}

/// What a number comes to.
fn value(number: &str) -> f64 {
    number.parse().unwrap_or(0.0)
}

/// What stands around the numbers of a text, one more than there are numbers, and these. A number
/// stands alone: what belongs to a name (`cpu7`, `/dev/loop0`, `1.2.3`), to a number with commas or
/// to code in backticks is none.
fn parts(text: &str) -> (Vec<&str>, Vec<&str>) {
    let octet = |at: usize| text.as_bytes().get(at).copied().unwrap_or(b' ');
    let digits = |from: usize| (from..).take_while(|at| octet(*at).is_ascii_digit()).count();
    let is_of_a_name =
        |octet: u8| octet.is_ascii_alphanumeric() || !octet.is_ascii() || b"_-/#='\"".contains(&octet);
    let is_mark = |octet: u8| b".,:".contains(&octet);
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let (mut begin, mut at, mut is_code) = (0, 0, false);
    while at < text.len() {
        let whole = digits(at);
        if whole == 0 {
            is_code ^= octet(at) == b'`';
            at += 1;
            continue;
        }
        let from = at;
        at += whole;
        if octet(at) == b'.' && octet(at + 1).is_ascii_digit() {
            at += 1 + digits(at + 1);
        }
        let before = if from == 0 { b' ' } else { octet(from - 1) };
        let goes_on = is_of_a_name(octet(at)) || (is_mark(octet(at)) && octet(at + 1).is_ascii_digit());
        if !is_code && !is_of_a_name(before) && !is_mark(before) && !goes_on {
            // Both ends are ASCII digits' own, and so boundaries of letters.
            words.push(&text[begin..from]);
            numbers.push(&text[from..at]);
            begin = at;
        }
    }
    words.push(&text[begin..]);
    (words, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: &[&str]) -> Vec<String> {
        alike(texts.iter().copied()).iter().map(AlikeTexts::text).collect()
    }

    /// What happened: a phone that was measured while it ran from its battery, or while it was hot,
    /// had as many cautions as it had runs, each with another number.
    #[test]
    fn texts_with_other_numbers_are_one_with_the_least_and_the_greatest() {
        let battery =
            |percent: u32| format!("the battery is at {percent} % and discharging; charge it above 25 %");
        let (some, more, less) = (battery(17), battery(102), battery(9));
        assert_eq!(
            told(&[
                some.as_str(),
                "it is hot (cpu-thermal: 84.5 °C)",
                more.as_str(),
                less.as_str(),
                "it is hot (cpu-thermal: 81 °C)"
            ]),
            [
                "the battery is at 9–102 % and discharging; charge it above 25 %",
                "it is hot (cpu-thermal: 81–84.5 °C)"
            ]
        );
        assert_eq!(told(&[some.as_str()]), [some.as_str()]);
        assert_eq!(told(&["12", "7"]), ["7–12"]);
        assert_eq!(told(&[]), Vec::<String>::new());
    }

    #[test]
    fn what_belongs_to_a_name_or_to_code_is_no_number() {
        for (one, other) in [
            ("cpu7 was slow", "cpu3 was slow"),
            ("discards of /dev/loop0 (busy)", "discards of /dev/loop1 (busy)"),
            ("of /tmp/1/db", "of /tmp/2/db"),
            ("SQLite 3.46.1 here", "SQLite 3.46.2 here"),
            ("`LIMIT 10` scans", "`LIMIT 20` scans"),
            ("10,000 rows", "20,000 rows"),
            ("at 10:30", "at 10:31"),
            ("sd-1 is worn", "sd-2 is worn"),
            ("given commit=5", "given commit=30"),
            ("µ4 x", "µ5 x"),
            ("4µs", "5µs"),
        ] {
            assert_eq!(told(&[one, other]), [one, other]);
        }
        // A mark that ends a sentence, or a part of it, belongs to no number.
        assert_eq!(told(&["of 3, or 4. (5)", "of 6, or 4. (7)"]), ["of 3–6, or 4. (5–7)"]);
    }
}

//! "Did you mean …?": the known word nearest to an unknown one.

/// The candidate nearest to `word` by edit distance, if it is near enough to be a likely slip: at most a third of the
/// letters (rounded up) differ, upper and lower case and `-` and `_` being the same. Among equals the one whose letters are
/// closest in the alphabet wins: `ext5` is rather meant as `ext4` than as `ext2`.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normal(word);
    let limit = word.len().div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &normal(candidate)), apart(&word, &normal(candidate)), candidate))
        .filter(|&(edits, _, _)| edits <= limit)
        .min_by_key(|&(edits, apart, _)| (edits, apart))
        .map(|(_, _, candidate)| candidate)
}

/// How far the letters at the same places lie apart in the alphabet, summed.
fn apart(a: &[char], b: &[char]) -> u32 {
    a.iter().zip(b).map(|(&a, &b)| u32::from(a).abs_diff(u32::from(b))).sum()
}

fn normal(word: &str) -> Vec<char> {
    word.chars().map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() }).collect()
}

/// Levenshtein distance, with two neighbouring letters swapped counted as one edit (optimal string alignment).
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before_last[j - 2] + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["journal_mode", "synchronous", "page_size", "cache_size"];

    #[test]
    fn a_slip_finds_its_word() {
        assert_eq!(nearest("journal-mode", KNOWN), Some("journal_mode"));
        assert_eq!(nearest("jurnal_mode", KNOWN), Some("journal_mode"));
        assert_eq!(nearest("Synchronuos", KNOWN), Some("synchronous"));
        assert_eq!(nearest("pagesize", KNOWN), Some("page_size"));
    }

    #[test]
    fn of_equally_near_words_the_nearest_letter_wins() {
        assert_eq!(nearest("ext5", ["ext2", "ext3", "ext4"]), Some("ext4"));
    }

    #[test]
    fn a_strange_word_finds_none() {
        assert_eq!(nearest("colour", KNOWN), None);
        assert_eq!(nearest("", KNOWN), None);
    }
}

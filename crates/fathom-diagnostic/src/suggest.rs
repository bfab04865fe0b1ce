//! "Did you mean …?": the known word nearest to an unknown one.

/// The candidate nearest to `word` by edit distance (two neighbouring letters swapped are one
/// edit), if it is near enough to be a likely slip: at most a third of the letters (rounded up)
/// differ, upper and lower case and `-` and `_` being the same. Among equals the one whose letters
/// are closest in the alphabet wins: `ext5` is rather meant as `ext4` than as `ext2`.
#[must_use]
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = normal(word);
    let limit = word.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .map(|candidate| {
            let normal = normal(candidate);
            (strsim::osa_distance(&word, &normal), apart(&word, &normal), candidate)
        })
        .filter(|&(edits, _, _)| edits <= limit)
        .min_by_key(|&(edits, apart, _)| (edits, apart))
        .map(|(_, _, candidate)| candidate)
}

/// The end of an error message: "; did you mean `ext4`?", or nothing where no word is near.
#[must_use]
pub fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |word| format!("; did you mean `{word}`?"))
}

/// `did you mean "ext4"?`, for a hint that stands by itself; empty where nothing is near.
#[must_use]
pub fn did_you_mean_hint(suggestion: Option<&str>) -> String {
    suggestion.map_or_else(String::new, |word| format!("did you mean \"{word}\"?"))
}

/// How far the letters at the same places lie apart in the alphabet, summed.
fn apart(a: &str, b: &str) -> u32 {
    a.chars().zip(b.chars()).map(|(a, b)| u32::from(a).abs_diff(u32::from(b))).sum()
}

fn normal(word: &str) -> String {
    word.chars().map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() }).collect()
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

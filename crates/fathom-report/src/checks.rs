//! What was verified in every run, in words.

use std::collections::{BTreeMap, BTreeSet};

use fathom_lab::store::Results;

use crate::words::joined;

/// Checks that are named; more are counted.
const NAMED: usize = 8;

/// What a check of a database's content says between its path and its hash.
const HOLDS: &str = " holds ";

/// The checks of all runs, each once; none where nothing was checked.
pub fn told(results: &Results) -> Option<String> {
    let block_of = |run: i64| results.runs.iter().find(|row| row.id == run).map(|row| row.block);
    let all = results.verified.iter().map(|check| (block_of(check.run), check.text.as_str()));
    let checks = gathered(all);
    if checks.is_empty() {
        return None;
    }
    let (named, more) = checks.split_at(checks.len().min(NAMED));
    let more = if more.is_empty() { String::new() } else { format!(" and {} more", more.len()) };
    Some(format!("{}{more}", named.join(", ")))
}

/// What was held in each block: hashes by path and what follows them.
type Held<'a> = BTreeMap<(&'a str, &'a str), BTreeSet<(Option<u32>, &'a str)>>;

/// The checks in order, each once. Each block has data of its own, so a path has another hash in
/// each: that is one check, which names them together.
fn gathered<'a>(checks: impl Iterator<Item = (Option<u32>, &'a str)>) -> Vec<String> {
    let mut held: Held<'_> = BTreeMap::new();
    let mut texts: BTreeSet<String> = BTreeSet::new();
    for (block, text) in checks {
        match parts(text) {
            Some((path, hash, rest)) => {
                held.entry((path, rest)).or_default().insert((block, hash));
            }
            None => {
                texts.insert(text.to_owned());
            }
        }
    }
    for ((path, rest), of_blocks) in held {
        let mut hashes: Vec<String> = Vec::new();
        for (_, hash) in &of_blocks {
            if !hashes.iter().any(|known| known == hash) {
                hashes.push((*hash).to_owned());
            }
        }
        let blocks: BTreeSet<Option<u32>> = of_blocks.iter().map(|(block, _)| *block).collect();
        // Where runs of one block hold different content, or two blocks the same, nothing is said.
        let is_one_each = hashes.len() == blocks.len() && of_blocks.len() == blocks.len();
        let why = if hashes.len() > 1 && is_one_each { ", one hash for each block's data" } else { "" };
        texts.insert(format!("{path}{HOLDS}{}{rest}{why}", joined(&hashes)));
    }
    texts.into_iter().collect()
}

/// Path, hash, and what follows it.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let (path, after) = text.rsplit_once(HOLDS)?;
    let end = after.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(after.len());
    let (hash, rest) = after.split_at(end);
    (hash.len() >= 16).then_some((path, hash, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOW: &str = "(.sha3sum --sha3-256)";

    fn hash(digit: char) -> String {
        digit.to_string().repeat(64)
    }

    /// What happened: "verified in every run" named one path three times, each time with another
    /// hash, as if two of them were wrong.
    #[test]
    fn hashes_of_one_path_are_one_check_that_says_why_they_differ() {
        let text = |digit: char| format!("mail.db holds {} {HOW}", hash(digit));
        let texts = [text('a'), text('b'), text('a'), text('b')];
        let blocks = [0, 1, 0, 1].map(Some);
        let all = || blocks.into_iter().zip(texts.iter().map(String::as_str));
        let told = gathered(all().chain([(Some(0), "mail.db: integrity_check ok")]));
        let both = format!("{} and {}", hash('a'), hash('b'));
        assert_eq!(
            told,
            [
                format!("mail.db holds {both} {HOW}, one hash for each block's data"),
                "mail.db: integrity_check ok".to_owned()
            ]
        );
        // One block's runs that hold different content are not excused.
        let odd = gathered([(Some(0), texts[0].as_str()), (Some(0), texts[1].as_str())].into_iter());
        assert_eq!(odd, [format!("mail.db holds {both} {HOW}")]);
        let one = gathered([(Some(0), texts[0].as_str())].into_iter());
        assert_eq!(one, [texts[0].clone()]);
    }

    #[test]
    fn other_words_are_left_as_they_are() {
        let told =
            gathered([(None, "the table holds 10 rows"), (None, "rows 10"), (None, "rows 10")].into_iter());
        assert_eq!(told, ["rows 10", "the table holds 10 rows"]);
    }
}

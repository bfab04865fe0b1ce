//! The replacement of words: same length, same classes of characters, and the order and common beginnings of all words kept.
//!
//! All words of a trace are put into one tree by their letters. In each node the letters that occur are replaced by as many others of
//! their class, drawn at random and in the same order; so two words keep their order and share as many first letters as before,
//! and upper and lower case of a letter stay the same letter (LIKE and NOCASE compare them so). Where all letters of a class occur
//! in a node there is nothing to choose; a word of at least [`CHANGED_FROM`] letters that would stay as it is for that reason gives up
//! its order among its nearest neighbours.

use std::collections::BTreeMap;

use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};

/// Words of this length and more are never left as they are. Shorter ones may be: there are not enough of them to choose from.
pub const CHANGED_FROM: usize = 4;

/// Letters of a word that the tree holds. Those behind are drawn from what stands before them.
const DEPTH_MAX: usize = 24;

/// How often a choice is made again to find one that leaves fewer letters as they are.
const DRAWS: u32 = 16;

/// The replacement of every word that was added.
#[derive(Debug)]
pub struct Words {
    seed: u64,
    nodes: Vec<Node>,
    /// Words that gave up their order among their neighbours.
    disordered: u64,
    is_drawn: bool,
}

#[derive(Debug, Default)]
struct Node {
    children: BTreeMap<char, Child>,
}

#[derive(Debug)]
struct Child {
    node: usize,
    becomes: char,
    ends_word: bool,
}

impl Words {
    /// No words yet. The same seed and words give the same replacements.
    pub fn new(seed: u64) -> Words {
        Words { seed, nodes: vec![Node::default()], disordered: 0, is_drawn: false }
    }

    /// Adds a word, before the first is replaced.
    pub fn add(&mut self, word: &str) {
        debug_assert!(!self.is_drawn, "words are added before any is replaced");
        let mut at = 0;
        let last = word.chars().count().min(DEPTH_MAX).saturating_sub(1);
        for (number, letter) in word.chars().take(DEPTH_MAX).enumerate() {
            let letter = letter.to_ascii_lowercase();
            let fresh = self.nodes.len();
            let child = self.nodes[at].children.entry(letter);
            let child = child.or_insert(Child { node: fresh, becomes: letter, ends_word: false });
            child.ends_word |= number == last;
            at = child.node;
            if at == fresh {
                self.nodes.push(Node::default());
            }
        }
    }

    /// Draws the replacements. Gives how many words gave up their order among their neighbours.
    pub fn draw(&mut self) -> u64 {
        for number in 0..self.nodes.len() {
            let mut random =
                SmallRng::seed_from_u64(self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            self.nodes[number].draw(&mut random);
        }
        self.change_the_unchanged(0, 1);
        self.is_drawn = true;
        self.disordered
    }

    /// Turns the letters of a node round where a word would end there that is as it was.
    fn change_the_unchanged(&mut self, node: usize, length: usize) {
        let stuck = |child: &Child, letter: char| child.ends_word && child.becomes == letter;
        let has_stuck = length >= CHANGED_FROM
            && self.nodes[node].children.iter().any(|(letter, child)| stuck(child, *letter));
        if has_stuck {
            let mut classes: Vec<Class> = self.nodes[node]
                .children
                .iter()
                .filter(|(letter, child)| stuck(child, **letter))
                .map(|(letter, _)| Class::of(*letter))
                .collect();
            self.disordered += classes.len() as u64;
            classes.dedup(); // in the order of their letters, so those of one class stand together
            for class in classes {
                self.nodes[node].turn(class);
            }
        }
        // Only where all letters so far are as they were can a word be.
        let unchanged: Vec<usize> = self.nodes[node]
            .children
            .iter()
            .filter(|(letter, child)| child.becomes == **letter)
            .map(|(_, child)| child.node)
            .collect();
        for child in unchanged {
            self.change_the_unchanged(child, length + 1);
        }
    }

    /// The replacement of a word; of one that was not added, something of its length and classes.
    pub fn replace(&self, word: &str, out: &mut String) {
        let mut at = Some(0);
        let mut before = self.seed;
        for letter in word.chars() {
            let small = letter.to_ascii_lowercase();
            let child = at.and_then(|at: usize| self.nodes[at].children.get(&small));
            let becomes = match child {
                Some(child) => child.becomes,
                None => {
                    let letters = Class::of(small).letters();
                    *letters.choose(&mut SmallRng::seed_from_u64(before ^ u64::from(small))).unwrap_or(&small)
                }
            };
            at = child.map(|child| child.node);
            before = before.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(small);
            out.push(if letter.is_ascii_uppercase() { becomes.to_ascii_uppercase() } else { becomes });
        }
    }
}

impl Node {
    fn draw(&mut self, random: &mut SmallRng) {
        let mut classes: BTreeMap<Class, Vec<char>> = BTreeMap::new();
        for letter in self.children.keys() {
            classes.entry(Class::of(*letter)).or_default().push(*letter);
        }
        for (class, present) in classes {
            let letters = class.letters();
            let mut best: Option<(usize, Vec<char>)> = None;
            for _ in 0..DRAWS {
                let drawn = choose(&letters, present.len(), random);
                let same = drawn.iter().zip(&present).filter(|(a, b)| a == b).count();
                if best.as_ref().is_none_or(|(least, _)| same < *least) {
                    best = Some((same, drawn));
                }
            }
            for (letter, becomes) in present.into_iter().zip(best.map_or_else(Vec::new, |(_, drawn)| drawn)) {
                if let Some(child) = self.children.get_mut(&letter) {
                    child.becomes = becomes;
                }
            }
        }
    }

    /// Gives each letter of a class the next one's replacement, so that none stays what it was.
    fn turn(&mut self, class: Class) {
        let present: Vec<char> =
            self.children.keys().copied().filter(|letter| Class::of(*letter) == class).collect();
        let mut drawn: Vec<char> = present.iter().map(|letter| self.children[letter].becomes).collect();
        if drawn.len() > 1 {
            drawn.rotate_left(1);
        } else if let Some(other) = class.letters().into_iter().find(|letter| !drawn.contains(letter)) {
            drawn[0] = other;
        }
        for (letter, becomes) in present.into_iter().zip(drawn) {
            if let Some(child) = self.children.get_mut(&letter) {
                child.becomes = becomes;
            }
        }
    }
}

/// `count` of `letters`, in their order.
fn choose(letters: &[char], count: usize, random: &mut SmallRng) -> Vec<char> {
    let mut chosen: Vec<char> = letters.choose_multiple(random, count).copied().collect();
    chosen.sort_unstable();
    chosen
}

/// Characters that may replace each other: same length in UTF-8 and in UTF-16.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Digit,
    Letter,
    /// Letters beyond ASCII: 64 neighbours, which differ in the last byte of UTF-8 only.
    Block(u32),
}

impl Class {
    fn of(letter: char) -> Class {
        match letter {
            '0'..='9' => Class::Digit,
            'a'..='z' | 'A'..='Z' => Class::Letter,
            other => Class::Block(u32::from(other) / 64),
        }
    }

    fn letters(self) -> Vec<char> {
        match self {
            Class::Digit => ('0'..='9').collect(),
            Class::Letter => ('a'..='z').collect(),
            Class::Block(block) => (block * 64..block * 64 + 64)
                .filter_map(char::from_u32)
                .filter(|letter| letter.is_alphanumeric())
                .collect(),
        }
    }
}

/// The replacement of blobs, by their first bytes in order, and by their whole content.
#[derive(Debug)]
pub struct Blobs {
    seed: u64,
    nodes: Vec<BTreeMap<u8, (usize, u8)>>,
}

/// Bytes of a blob whose order is kept.
const BLOB_DEPTH: usize = 16;

impl Blobs {
    /// None yet.
    pub fn new(seed: u64) -> Blobs {
        Blobs { seed, nodes: vec![BTreeMap::new()] }
    }

    /// Adds a blob, before the first is replaced.
    pub fn add(&mut self, blob: &[u8]) {
        let mut at = 0;
        for byte in blob.iter().take(BLOB_DEPTH) {
            let fresh = self.nodes.len();
            let next = self.nodes[at].entry(*byte).or_insert((fresh, *byte)).0;
            if next == fresh {
                self.nodes.push(BTreeMap::new());
            }
            at = next;
        }
    }

    /// Draws the replacements.
    pub fn draw(&mut self) {
        let all: Vec<u8> = (0..=255).collect();
        for (number, node) in self.nodes.iter_mut().enumerate() {
            let mut random =
                SmallRng::seed_from_u64(!self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut drawn: Vec<u8> = all.choose_multiple(&mut random, node.len()).copied().collect();
            drawn.sort_unstable();
            for ((_, becomes), byte) in node.values_mut().zip(drawn) {
                *becomes = byte;
            }
        }
    }

    /// Replaces a blob in place.
    pub fn replace(&self, blob: &mut [u8]) {
        let mut hash = self.seed;
        for byte in blob.iter() {
            hash = (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        let mut random = SmallRng::seed_from_u64(hash);
        let mut at = Some(0);
        for (number, byte) in blob.iter_mut().enumerate() {
            let known = at.filter(|_| number < BLOB_DEPTH).and_then(|at: usize| self.nodes[at].get(byte));
            at = known.map(|(next, _)| *next);
            *byte = known.map_or_else(|| random.random(), |(_, becomes)| *becomes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn class_of(letter: char) -> u8 {
        match letter {
            '0'..='9' => 0,
            'a'..='z' => 1,
            'A'..='Z' => 2,
            _ => 3,
        }
    }

    proptest! {
        #[test]
        fn words_keep_length_classes_equality_order_and_beginnings(
            words in prop::collection::vec("[a-fA-F0-9äöß]{1,9}", 1..80), seed: u64,
        ) {
            let mut tree = Words::new(seed);
            words.iter().for_each(|word| tree.add(word));
            let disordered = tree.draw();
            let replaced: Vec<String> = words
                .iter()
                .map(|word| {
                    let mut out = String::new();
                    tree.replace(word, &mut out);
                    out
                })
                .collect();
            for (a, x) in words.iter().zip(&replaced) {
                prop_assert_eq!(a.len(), x.len());
                prop_assert!(a.chars().zip(x.chars()).all(|(a, x)| class_of(a) == class_of(x)), "{} {}", a, x);
                prop_assert!(a.chars().count() < CHANGED_FROM || a != x, "{} stays", a);
                for (b, y) in words.iter().zip(&replaced) {
                    prop_assert_eq!(a == b, x == y);
                    prop_assert_eq!(a.eq_ignore_ascii_case(b), x.eq_ignore_ascii_case(y));
                    if disordered == 0 {
                        prop_assert_eq!(a.cmp(b), x.cmp(y), "{} {} → {} {}", a, b, x, y);
                    }
                    let common = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
                    let common_now = x.bytes().zip(y.bytes()).take_while(|(a, b)| a == b).count();
                    // Letters beyond ASCII share their first byte with their neighbours.
                    prop_assert!(common_now >= common);
                    if a.is_ascii() && b.is_ascii() {
                        prop_assert_eq!(common_now, common);
                    }
                }
            }
        }

        #[test]
        fn blobs_keep_length_equality_and_order(blobs in prop::collection::vec(prop::collection::vec(0..6_u8, 0..12), 1..40), seed: u64) {
            let mut tree = Blobs::new(seed);
            blobs.iter().for_each(|blob| tree.add(blob));
            tree.draw();
            let mut replaced = blobs.clone();
            replaced.iter_mut().for_each(|blob| tree.replace(blob));
            for (a, x) in blobs.iter().zip(&replaced) {
                for (b, y) in blobs.iter().zip(&replaced) {
                    prop_assert_eq!((a.len(), a.cmp(b)), (x.len(), x.cmp(y)));
                }
            }
        }
    }

    #[test]
    fn where_all_letters_occur_a_long_word_still_changes() {
        let mut tree = Words::new(1);
        let words: Vec<String> = (0..10_000).map(|number| format!("{number:04}")).collect();
        words.iter().for_each(|word| tree.add(word));
        assert_eq!(tree.draw(), 10_000, "there is no other way");
        for word in &words {
            let mut out = String::new();
            tree.replace(word, &mut out);
            assert_ne!(out, *word);
        }
    }
}

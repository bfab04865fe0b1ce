//! The replacement of words: same length, same classes of characters, and the order and common
//! beginnings of all words kept.
//!
//! All words of a trace are put into one tree by their letters. In each node the letters that occur
//! are replaced by as many others of their class, drawn at random and in the same order; so two
//! words keep their order and share as many first letters as before, and upper and lower case of a
//! letter stay the same letter (LIKE and NOCASE compare them so). Where all letters of a class
//! occur in a node there is nothing to choose; a word of at least [`CHANGED_FROM`] letters that
//! would stay as it is for that reason gives up its order among its nearest neighbours.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use fathom_random::Random;

/// Words of this length and more are never left as they are. Of shorter ones there are so few that
/// in most traces all occur: to change them would take the order from all words that begin with
/// them.
pub const CHANGED_FROM: usize = 3;

/// Letters of a word that the tree holds. Those behind are drawn from what stands before them.
const DEPTH_MAX: usize = 24;

/// How often a choice is made again to find one that leaves fewer letters as they are.
const DRAWS: u32 = 16;

/// The replacement of every word that was added.
#[derive(Debug)]
pub struct Words {
    seed: u64,
    /// The tree: from a node by a letter. One flat table, because there is an entry for every
    /// letter of every different word.
    children: HashMap<(u32, char), Child>,
    /// Words that gave up their order among their neighbours.
    disordered: u64,
    is_drawn: bool,
    /// Letters that are looked for within words: they become the same ones wherever they stand.
    shared: Shared,
}

#[derive(Debug)]
struct Child {
    node: u32,
    becomes: char,
    ends_word: bool,
}

/// All edges of a tree by node and letter.
struct Edges(Vec<(u32, char)>);

impl Edges {
    /// The letters that lead on from a node, in their order.
    fn of(&self, node: u32) -> &[(u32, char)] {
        let from = self.0.partition_point(|(other, _)| *other < node);
        &self.0[from..][..self.0[from..].partition_point(|(other, _)| *other == node)]
    }
}

impl Words {
    /// No words yet. The same seed and words give the same replacements.
    pub fn new() -> Words {
        Words { seed: 0, children: HashMap::new(), disordered: 0, is_drawn: false, shared: Shared::default() }
    }

    /// Adds a word, before the first is replaced.
    pub fn add(&mut self, word: &str) {
        debug_assert!(!self.is_drawn, "words are added before any is replaced");
        let mut at = 0;
        let last = word.chars().count().min(DEPTH_MAX).saturating_sub(1);
        for (number, letter) in word.chars().take(DEPTH_MAX).enumerate() {
            let letter = letter.to_ascii_lowercase();
            // The root is 0, and every edge leads to a node of its own.
            let fresh = self.children.len() as u32 + 1;
            let child = self.children.entry((at, letter));
            let child = child.or_insert(Child { node: fresh, becomes: letter, ends_word: false });
            child.ends_word |= number == last;
            at = child.node;
        }
    }

    /// Pieces of words that are looked for within words (`LIKE '%mid%'`), before the replacements
    /// are drawn.
    pub fn look_for(&mut self, pieces: &BTreeSet<String>) {
        self.shared.pieces = pieces.iter().take(PIECES_MAX).map(|piece| piece.chars().collect()).collect();
    }

    /// Draws the replacements, once more where they were drawn with another seed. Gives how many
    /// words gave up their order among their neighbours.
    pub fn draw(&mut self, seed: u64) -> u64 {
        (self.seed, self.disordered) = (seed, 0);
        let mut edges = Edges(self.children.keys().copied().collect());
        edges.0.sort_unstable();
        let next = |edge: &(u32, char)| self.children.get(edge).map(|child| child.node);
        self.shared.choose(&edges, next, seed);
        for of_node in edges.0.chunk_by(|(a, _), (b, _)| a == b) {
            self.draw_node(of_node, 0);
        }
        self.part_accidents(&edges);
        self.change_the_unchanged(&edges, 0, 1);
        self.is_drawn = true;
        self.disordered
    }

    fn draw_node(&mut self, edges: &[(u32, char)], again: u64) {
        let node = u64::from(edges[0].0);
        let mut random = Random::new(self.seed ^ (node ^ again << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut classes: BTreeMap<Class, Vec<(u32, char)>> = BTreeMap::new();
        for edge in edges {
            classes.entry(Class::of(edge.1)).or_default().push(*edge);
        }
        for (class, present) in classes {
            let letters = class.letters();
            // What is shared divides the rest: each part has the letters between.
            let mut from = 0;
            let mut part: Vec<(u32, char)> = Vec::new();
            for edge in &present {
                let fixed =
                    self.shared.of(edge).and_then(|edge| letters.iter().position(|letter| *letter == edge));
                match fixed {
                    None => part.push(*edge),
                    Some(at) => {
                        self.draw_part(&part, &letters[from.min(at)..at], &mut random);
                        self.give(&[*edge], &letters[at..=at]);
                        part.clear();
                        from = at + 1;
                    }
                }
            }
            self.draw_part(&part, &letters[from.min(letters.len())..], &mut random);
        }
    }

    /// Some neighbours in a node, to be replaced by some of these letters.
    fn draw_part(&mut self, present: &[(u32, char)], letters: &[char], random: &mut Random) {
        let mut best: Option<(usize, Vec<char>)> = None;
        for _ in 0..DRAWS {
            let drawn = choose(letters, present.len(), random);
            let same = drawn.iter().zip(present).filter(|(a, (_, b))| *a == b).count();
            if best.as_ref().is_none_or(|(least, _)| same < *least) {
                best = Some((same, drawn));
            }
        }
        self.give(present, &best.map_or_else(Vec::new, |(_, drawn)| drawn));
    }

    /// Other words must not hold by accident what is looked for: their letters are drawn again.
    fn part_accidents(&mut self, edges: &Edges) {
        const ROUNDS: u64 = 40;
        let pieces = std::mem::take(&mut self.shared.pieces);
        for again in 1..=ROUNDS {
            let mut wrong = BTreeSet::new();
            for piece in &pieces {
                let becomes: Vec<char> = piece.iter().map(|letter| self.shared.letter(*letter)).collect();
                for (node, _) in &edges.0 {
                    self.accident(edges, *node, piece, &becomes, &mut Vec::new(), &mut wrong);
                }
            }
            if wrong.is_empty() {
                break;
            }
            for node in wrong {
                self.draw_node(edges.of(node), again);
            }
        }
        self.shared.pieces = pieces;
    }

    /// Finds the node whose letter makes a piece of what was none, from `node` on.
    fn accident(
        &self,
        edges: &Edges,
        node: u32,
        piece: &[char],
        becomes: &[char],
        path: &mut Vec<(u32, char)>,
        wrong: &mut BTreeSet<u32>,
    ) {
        let Some(wanted) = becomes.get(path.len()) else {
            let is_piece = path.iter().zip(piece).all(|((_, letter), piece)| letter == piece);
            let free = path.iter().rev().find(|edge| self.shared.of(edge).is_none());
            wrong.extend(free.filter(|_| !is_piece).map(|(node, _)| *node));
            return;
        };
        for edge in edges.of(node) {
            let child = &self.children[edge];
            if child.becomes == *wanted {
                path.push(*edge);
                self.accident(edges, child.node, piece, becomes, path, wrong);
                path.pop();
            }
        }
    }

    fn give(&mut self, edges: &[(u32, char)], letters: &[char]) {
        for (edge, becomes) in edges.iter().zip(letters) {
            if let Some(child) = self.children.get_mut(edge) {
                child.becomes = *becomes;
            }
        }
    }

    /// Turns the letters of a node round where a word would end there that is as it was.
    fn change_the_unchanged(&mut self, edges: &Edges, node: u32, length: usize) {
        let of_node = edges.of(node);
        let stays = |words: &Words, edge: &(u32, char)| words.children[edge].becomes == edge.1;
        let stuck: Vec<Class> = of_node
            .iter()
            .filter(|edge| length >= CHANGED_FROM && self.children[edge].ends_word && stays(self, edge))
            .map(|(_, letter)| Class::of(*letter))
            .collect();
        self.disordered += stuck.len() as u64;
        let mut classes = stuck;
        classes.dedup(); // in the order of their letters, so those of one class stand together
        for class in classes {
            self.turn(of_node, class);
        }
        // Only where all letters so far are as they were can a word be.
        for edge in of_node {
            if stays(self, edge) {
                self.change_the_unchanged(edges, self.children[edge].node, length + 1);
            }
        }
    }

    /// Gives each letter of a class the next one's replacement, so that none stays what it was.
    fn turn(&mut self, edges: &[(u32, char)], class: Class) {
        let present: Vec<(u32, char)> = edges
            .iter()
            .copied()
            .filter(|edge| Class::of(edge.1) == class && self.shared.of(edge).is_none())
            .collect();
        let mut drawn: Vec<char> = present.iter().map(|edge| self.children[edge].becomes).collect();
        if drawn.len() > 1 {
            drawn.rotate_left(1);
        } else if let (Some(first), Some(other)) =
            (drawn.first().copied(), class.letters().into_iter().find(|letter| self.is_free(edges, *letter)))
        {
            debug_assert_ne!(first, other);
            drawn[0] = other;
        }
        self.give(&present, &drawn);
    }

    /// Whether no letter of a node becomes this one.
    fn is_free(&self, edges: &[(u32, char)], letter: char) -> bool {
        edges.iter().all(|edge| self.children[edge].becomes != letter)
    }

    /// The replacement of a word; of one that was not added, something of its length and classes.
    pub fn replace(&self, word: &str, out: &mut String) {
        let mut at = Some(0);
        let mut before = self.seed;
        for letter in word.chars() {
            let small = letter.to_ascii_lowercase();
            let child = at.and_then(|at: u32| self.children.get(&(at, small)));
            let becomes = match child {
                Some(child) => child.becomes,
                None => {
                    let letters = Class::of(small).letters();
                    if letters.is_empty() {
                        small
                    } else {
                        *Random::new(before ^ u64::from(small)).pick(&letters)
                    }
                }
            };
            at = child.map(|child| child.node);
            before = before.rotate_left(7).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(small);
            out.push(if letter.is_ascii_uppercase() { becomes.to_ascii_uppercase() } else { becomes });
        }
    }
}

/// Pieces of words that are looked for, at most.
const PIECES_MAX: usize = 200;

/// Letters that must become the same ones in several places, because they are looked for within
/// words.
#[derive(Debug, Default)]
struct Shared {
    pieces: Vec<Vec<char>>,
    /// Places in the tree where a piece stands.
    places: BTreeSet<(u32, char)>,
    becomes: BTreeMap<char, char>,
}

impl Shared {
    /// What the letter at a place has to become; none where that is free.
    fn of(&self, edge: &(u32, char)) -> Option<char> {
        self.places.contains(edge).then(|| self.letter(edge.1))
    }

    fn letter(&self, letter: char) -> char {
        self.becomes.get(&letter).copied().unwrap_or(letter)
    }

    /// Finds the places, and letters that leave the order of each node as it is. Beginning with
    /// every letter as it is, which always does, each is moved at random as far as its neighbours
    /// let it.
    fn choose(&mut self, edges: &Edges, next: impl Fn(&(u32, char)) -> Option<u32>, seed: u64) {
        const MOVES: usize = 60;
        self.places.clear();
        self.becomes.clear();
        if self.pieces.is_empty() {
            return;
        }
        let mut nodes: Vec<u32> = edges.0.iter().map(|(node, _)| *node).collect();
        nodes.dedup();
        for piece in &self.pieces {
            for node in &nodes {
                let mut at = Some(*node);
                let mut path = Vec::with_capacity(piece.len());
                for letter in piece {
                    let edge = at.map(|node| (node, *letter));
                    at = edge.as_ref().and_then(&next);
                    path.extend(edge.filter(|_| at.is_some()));
                }
                if path.len() == piece.len() {
                    self.places.extend(path);
                }
            }
        }
        let letters: BTreeSet<char> = self.pieces.iter().flatten().copied().collect();
        let mut random = Random::new(seed ^ 0x7368_6172_6564);
        for _ in 0..MOVES {
            for letter in &letters {
                let all = Class::of(*letter).letters();
                if all.is_empty() {
                    continue;
                }
                let other = *random.pick(&all);
                let before = self.becomes.insert(*letter, other);
                let is_taken = letters.iter().any(|value| value != letter && self.letter(*value) == other);
                if is_taken || !self.fits(edges, *letter) {
                    self.becomes.insert(*letter, before.unwrap_or(*letter));
                }
            }
        }
    }

    /// Whether in every node where this letter is shared there is room for the others, in their
    /// order.
    fn fits(&self, edges: &Edges, letter: char) -> bool {
        let class = Class::of(letter);
        let all = class.letters();
        let place_of = |wanted: char| all.iter().position(|letter| *letter == wanted).unwrap_or(usize::MAX);
        self.places.iter().filter(|(_, place)| *place == letter).all(|(node, _)| {
            // The least place that the next letter may have.
            let mut least = 0;
            for edge in edges.of(*node).iter().filter(|edge| Class::of(edge.1) == class) {
                match self.of(edge).map(place_of) {
                    Some(place) if place < least => return false,
                    Some(place) => least = place + 1,
                    None => least += 1,
                }
            }
            least <= all.len()
        })
    }
}

/// `count` of `letters`, in their order.
fn choose(letters: &[char], count: usize, random: &mut Random) -> Vec<char> {
    let mut places = random.distinct(count as u64, letters.len() as u64);
    places.sort_unstable();
    places.into_iter().map(|place| letters[place as usize]).collect()
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
    /// As the tree of [`Words`]: the next node, and what the byte becomes.
    children: HashMap<(u32, u8), (u32, u8)>,
}

/// Bytes of a blob whose order is kept.
const BLOB_DEPTH: usize = 16;

impl Blobs {
    /// None yet.
    pub fn new() -> Blobs {
        Blobs { seed: 0, children: HashMap::new() }
    }

    /// Adds a blob, before the first is replaced.
    pub fn add(&mut self, blob: &[u8]) {
        let mut at = 0;
        for byte in blob.iter().take(BLOB_DEPTH) {
            let fresh = self.children.len() as u32 + 1;
            at = self.children.entry((at, *byte)).or_insert((fresh, *byte)).0;
        }
    }

    /// Draws the replacements.
    pub fn draw(&mut self, seed: u64) {
        self.seed = seed;
        let mut edges: Vec<(u32, u8)> = self.children.keys().copied().collect();
        edges.sort_unstable();
        for of_node in edges.chunk_by(|(a, _), (b, _)| a == b) {
            let node = u64::from(of_node[0].0);
            let mut random = Random::new(!self.seed ^ node.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let mut drawn = random.distinct(of_node.len() as u64, 256);
            drawn.sort_unstable();
            for (edge, byte) in of_node.iter().zip(drawn) {
                if let Some((_, becomes)) = self.children.get_mut(edge) {
                    *becomes = byte as u8;
                }
            }
        }
    }

    /// Replaces a blob in place.
    pub fn replace(&self, blob: &mut [u8]) {
        let mut hash = self.seed;
        for byte in blob.iter() {
            hash = (hash.rotate_left(5) ^ u64::from(*byte)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        }
        let mut random = Random::new(hash);
        let mut at = Some(0);
        for (number, byte) in blob.iter_mut().enumerate() {
            let known =
                at.filter(|_| number < BLOB_DEPTH).and_then(|at: u32| self.children.get(&(at, *byte)));
            at = known.map(|(next, _)| *next);
            *byte = known.map_or_else(|| random.bits() as u8, |(_, becomes)| *becomes);
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
            let mut tree = Words::new();
            words.iter().for_each(|word| tree.add(word));
            let disordered = tree.draw(seed);
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
            let mut tree = Blobs::new();
            blobs.iter().for_each(|blob| tree.add(blob));
            tree.draw(seed);
            let mut replaced = blobs.clone();
            replaced.iter_mut().for_each(|blob| tree.replace(blob));
            for (a, x) in blobs.iter().zip(&replaced) {
                for (b, y) in blobs.iter().zip(&replaced) {
                    prop_assert_eq!((a.len(), a.cmp(b)), (x.len(), x.cmp(y)));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_looked_for_within_words_is_found_in_the_same_ones(
            words in prop::collection::vec("[a-eA-E]{1,8}|[a-z]{2,12}", 1..60), pieces in prop::collection::btree_set("[a-e]{2,3}", 1..4), seed: u64,
        ) {
            let mut tree = Words::new();
            words.iter().for_each(|word| tree.add(word));
            // A piece is a word of its statement.
            pieces.iter().for_each(|piece| tree.add(piece));
            tree.look_for(&pieces);
            let disordered = tree.draw(seed);
            let of = |word: &str| {
                let mut out = String::new();
                tree.replace(word, &mut out);
                out.to_lowercase()
            };
            for word in &words {
                let is = of(word);
                for piece in &pieces {
                    let (was, is) = (word.to_lowercase().contains(piece), is.contains(&of(piece)));
                    prop_assert!(!was || is, "{} in {}: {} {}", piece, word, of(piece), of(word));
                }
                for other in &words {
                    if disordered == 0 {
                        prop_assert_eq!(word.to_lowercase().cmp(&other.to_lowercase()), is.cmp(&of(other)), "{} {}", word, other);
                    }
                }
            }
        }
    }

    /// An accident would be found by the statement: a word that holds the new letters although it
    /// did not hold the old ones.
    #[test]
    fn no_other_word_holds_what_is_looked_for_by_accident() {
        let mut tree = Words::new();
        let mut random = Random::new(1);
        let mut word = || (0..7).map(|_| char::from(b'a' + random.below(13) as u8)).collect::<String>();
        let words: Vec<String> = (0..2000).map(|_| word()).collect();
        words.iter().for_each(|word| tree.add(word));
        let pieces = BTreeSet::from(["mid".to_owned(), "fg".to_owned()]);
        pieces.iter().for_each(|piece| tree.add(piece));
        tree.look_for(&pieces);
        tree.draw(3);
        let of = |word: &str| {
            let mut out = String::new();
            tree.replace(word, &mut out);
            out
        };
        let holders = |piece: &str| words.iter().filter(|word| word.contains(piece)).count();
        assert!(holders("fg") > 5, "{}", holders("fg"));
        for piece in &pieces {
            let now = words.iter().filter(|word| of(word).contains(&of(piece))).count();
            assert_eq!(now, holders(piece), "{piece} {}", of(piece));
        }
    }

    #[test]
    fn where_all_letters_occur_a_long_word_still_changes() {
        let mut tree = Words::new();
        let words: Vec<String> = (0..1000).map(|number| format!("{number:03}")).collect();
        words.iter().for_each(|word| tree.add(word));
        assert_eq!(tree.draw(1), 1000, "there is no other way");
        for word in &words {
            let mut out = String::new();
            tree.replace(word, &mut out);
            assert_ne!(out, *word);
        }
    }
}

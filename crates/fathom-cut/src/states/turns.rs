//! In which order states are judged, where perhaps not all of them are.
//!
//! By their numbers the first ones are, of each moment, the state with nothing of what was in
//! flight, and then the one with all of it, which is mostly the first of the next moment. A run of
//! some hundred commits has more moments than are judged in half a minute: whoever judged states by
//! their numbers would try no other subset of what was in flight, and no torn block. So only every
//! second turn is the next number's. Those between are drawn: of each moment one of its states, of
//! each another one, and so on.

use super::States;
use crate::random::stream;

impl States {
    /// The numbers of the states that have the first so many turns. Each state has a turn, which is
    /// the same however many are asked for.
    #[must_use]
    pub fn turns(&self, most: usize) -> Vec<usize> {
        let end = self.len.min(most);
        let mut has_turn = vec![false; self.len];
        let mut turns = Vec::with_capacity(end);
        let (mut by_number, mut drawn) = (0..self.len, self.drawn().into_iter());
        while turns.len() < end {
            let is_free = |number: &usize| !has_turn[*number];
            let next = match turns.len().is_multiple_of(2) {
                true => by_number.find(is_free),
                false => drawn.find(is_free),
            };
            // Each of the two has all numbers, so that one that ends leaves none without a turn.
            let Some(number) = next else { break };
            has_turn[number] = true;
            turns.push(number);
        }
        turns
    }

    /// All numbers: of each epoch one, and then of each that has more another one …, drawn.
    fn drawn(&self) -> Vec<usize> {
        let mut rank = vec![0; self.epochs.len()];
        let mut states: Vec<Vec<usize>> = vec![Vec::new(); self.epochs.len()];
        for (place, epoch) in self.order.iter().enumerate() {
            rank[*epoch] = place;
        }
        for (number, pass) in self.passes.iter().enumerate() {
            pass.epochs.iter().for_each(|epoch| states[*epoch].push(number));
        }
        for (epoch, passes) in states.iter_mut().enumerate() {
            stream(&[self.seed, 4, epoch as u64]).shuffle(passes);
        }
        let number = |pass: usize, epoch: usize| {
            let pass = &self.passes[pass];
            // Epochs of a pass are in the seeded order, and the epoch is one of them.
            let (Ok(place) | Err(place)) =
                pass.epochs.binary_search_by_key(&rank[epoch], |other| rank[*other]);
            pass.begins + place
        };
        let passes = self.passes.iter().enumerate();
        passes
            // From the other end: the first turns are of as many epochs as there are.
            .flat_map(|(turn, pass)| pass.epochs.iter().rev().map(move |epoch| (turn, *epoch)))
            .map(|(turn, epoch)| number(states[epoch][turn], epoch))
            .collect()
    }
}

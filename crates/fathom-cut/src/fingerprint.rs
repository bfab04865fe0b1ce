//! A number that is equal for states whose images hold the same, found without making an image.
//!
//! It is the sum of a hash of every block's place and content, zeros left out. Of two states only
//! the blocks that are in flight can differ from what is safe, so that only they are hashed for a
//! state. Many states are equal: what is in flight is often what the block holds already, and the
//! state of one moment that has everything is that of the next that has nothing. What is safe only
//! grows along the run, so that the sums of all moments take one pass over what was written.

use std::collections::HashMap;

use crate::content::Hasher;
use crate::history::{History, Present, Unit};
use crate::safe::Safe;
use crate::states::{Epoch, State, States};

/// Blocks in flight up to which a fingerprint costs less than what it may save.
const BLOCKS_MAX: usize = 512;

/// Fingerprints of one history's states.
#[derive(Debug)]
pub struct Fingerprints<'a> {
    history: &'a History,
    /// Of an image that holds what is safe, at each moment of the states.
    of_safe: HashMap<Safe, u128>,
}

/// Nothing of what is in flight.
struct Nothing;

impl Present for Nothing {
    fn sectors(&self, _: u32) -> u8 {
        0
    }
}

impl<'a> Fingerprints<'a> {
    /// Of the states of a history.
    #[must_use]
    pub fn of(history: &'a History, states: &States) -> Fingerprints<'a> {
        let at = |sum: u128, block: u64, safe| sum.wrapping_add(part(history, block, safe, &Nothing));
        let mut of_safe = HashMap::new();
        let mut last: Option<(Safe, u128)> = None;
        for safe in states.epochs.iter().map(|epoch| epoch.safe) {
            let sum = match last {
                None => {
                    let all = history.with_content(0..history.blocks());
                    all.iter().fold(0, |sum, &block| at(sum, block, safe))
                }
                Some((before, sum)) => blocks_of(history, history.newly_safe(before, safe)).into_iter().fold(
                    sum,
                    |sum, block| {
                        let without = sum.wrapping_sub(part(history, block, before, &Nothing));
                        at(without, block, safe)
                    },
                ),
            };
            last = Some((safe, sum));
            of_safe.insert(safe, sum);
        }
        Fingerprints { history, of_safe }
    }

    /// A state's; none where so much is in flight that it takes longer than it may save, or at
    /// another moment than those that it was made for.
    #[must_use]
    pub fn get(&self, epoch: &Epoch, state: &State) -> Option<u128> {
        let (history, safe) = (self.history, epoch.safe);
        if epoch.in_flight.len() > BLOCKS_MAX {
            return None;
        }
        let of_safe = *self.of_safe.get(&safe)?;
        let units = epoch.in_flight.iter().filter_map(|number| history.units.get(number as usize));
        Some(blocks_of(history, units).into_iter().fold(of_safe, |sum, block| {
            let without = sum.wrapping_sub(part(history, block, safe, &Nothing));
            without.wrapping_add(part(history, block, safe, state))
        }))
    }
}

/// The blocks that units lie in, each once, without those that only ever hold zeros.
fn blocks_of<'a>(history: &History, units: impl Iterator<Item = &'a Unit>) -> Vec<u64> {
    let mut blocks: Vec<u64> =
        units.flat_map(|unit| history.with_content(unit.blocks()).iter().copied()).collect();
    blocks.sort_unstable();
    blocks.dedup();
    blocks
}

/// What a block adds: nothing where it is zero.
fn part(history: &History, block: u64, safe: Safe, present: &impl Present) -> u128 {
    match history.block(block, safe, present) {
        Some(content) if content.iter().any(|&byte| byte != 0) => {
            let mut hasher = Hasher::new();
            hasher.add(&block.to_le_bytes());
            hasher.add(&content);
            hasher.end()
        }
        _ => 0,
    }
}

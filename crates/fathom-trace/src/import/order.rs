//! In which order the streams of a folder take their turns, so that a replay has one outcome.

use fathom_random::Random;

/// The order. A turn is a whole transaction, or one statement outside of one: what is in a
/// transaction always stays together, because another stream's statement between would wait for its
/// lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Each turn is drawn by the seed, a stream as likely as the share of its file in what is left
    /// of all files: all end about together.
    #[default]
    Transaction,
    /// One turn each, in the order of the streams' names.
    RoundRobin,
    /// One stream after the other, in the order of their names.
    Sequential,
}

impl Order {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Order::Transaction => "transaction",
            Order::RoundRobin => "round-robin",
            Order::Sequential => "sequential",
        }
    }
}

/// Who is next.
pub struct Turns {
    order: Order,
    random: Random,
    last: Option<usize>,
}

impl Turns {
    /// Before the first turn.
    pub fn new(order: Order, seed: u64) -> Turns {
        Turns { order, random: Random::stream(seed, "order of streams", 0), last: None }
    }

    /// The stream whose turn is next; `left` is what is left of each in bytes, none where it has
    /// ended.
    pub fn next(&mut self, left: &[Option<u64>]) -> Option<usize> {
        let mut open = left.iter().enumerate().filter_map(|(at, left)| Some((at, (*left)?)));
        let next = match self.order {
            Order::Sequential => open.next().map(|(at, _)| at),
            Order::RoundRobin => {
                let after = |at: &usize| self.last.is_none_or(|last| *at > last);
                let mut all = open.clone().map(|(at, _)| at);
                all.find(after).or(open.next().map(|(at, _)| at))
            }
            Order::Transaction => {
                // What was read ahead of a stream leaves nothing of its file; it still has its
                // turn.
                let mut drawn = self.random.below(open.clone().map(|(_, left)| left + 1).sum());
                open.find_map(|(at, left)| {
                    if drawn <= left {
                        return Some(at);
                    }
                    drawn -= left + 1;
                    None
                })
            }
        };
        self.last = next;
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(order: Order, seed: u64, mut left: Vec<u64>) -> Vec<usize> {
        let mut turns = Turns::new(order, seed);
        let mut taken = Vec::new();
        loop {
            let open: Vec<_> = left.iter().map(|left| (*left > 0).then_some(*left)).collect();
            let Some(next) = turns.next(&open) else { return taken };
            left[next] -= 1;
            taken.push(next);
        }
    }

    #[test]
    fn every_order_is_stated_and_takes_all_turns() {
        assert_eq!(turns(Order::Sequential, 1, vec![2, 0, 1]), [0, 0, 2]);
        assert_eq!(turns(Order::RoundRobin, 1, vec![3, 1, 2]), [0, 1, 2, 0, 2, 0]);
        let drawn = turns(Order::Transaction, 1, vec![500, 500]);
        assert_eq!(drawn, turns(Order::Transaction, 1, vec![500, 500]));
        assert_ne!(drawn, turns(Order::Transaction, 2, vec![500, 500]));
        assert_eq!(drawn.len(), 1000);
        let first = drawn[..500].iter().filter(|stream| **stream == 0).count();
        assert!((200..300).contains(&first), "{first}");
    }
}

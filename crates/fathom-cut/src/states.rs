//! Which states a power cut can leave.
//!
//! **Safe** is what was answered before a flush came that was then done; a device that lies about
//! flushes has nothing safe but what was before the lie, one with power-loss protection all that it
//! answered. **In flight** is everything else that had come: any part of it may be there. A unit of
//! it is a block of 4 KiB of a write (or a whole discard). A file system with an external log has
//! two devices, each with a cache of its own: a flush makes safe what its own device had answered.
//!
//! **Cuts.** What is in flight only grows until a flush (or, with protection, an answer) makes some
//! of it safe, and so does what was acknowledged. So the moment just before that holds every state
//! of the moments before it, judged by more acknowledgements: only those moments are cut at, and
//! the end. An [`Epoch`] is one of them.
//!
//! **Subsets.** Of an epoch with at most [`EXHAUSTIVE`] units in flight all subsets are states. Of
//! a larger one: nothing of it, all, all but one, each one alone, every prefix, and a number of
//! seeded samples. Where the device tears at less than a block, each unit is torn as well, in a
//! seeded way, with all the others and with none of them.
//!
//! **Numbers.** States have an order: each epoch's first, then each epoch's second …, epochs in
//! seeded order. So the first thousand are spread over the whole run, and a seed and a number name
//! a state. They are not judged in this order: `turns`.

mod turns;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::history::{Flush, History, Present, Unit};
use crate::random::stream;
use crate::safe::Safe;

/// Units in flight up to which every subset is a state.
pub const EXHAUSTIVE: usize = 8;
/// Samples of a larger epoch's subsets.
const SAMPLES: usize = 32;
/// Units of an epoch that are alone, missing, the last of a prefix or torn at most: of more, so
/// many at even distances.
const SINGLED_OUT: usize = 64;

/// What a device keeps when its power goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Keeps {
    /// What was flushed.
    Flushed,
    /// What was flushed before its first lie; every flush since then was one.
    Lies,
    /// All that it answered (power-loss protection).
    Answered,
}

/// How a device behaves at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behaviour {
    /// What it keeps.
    pub keeps: Keeps,
    /// What it never tears, bytes: 512 or 4096.
    pub tear_bytes: u32,
}

/// A moment at which the power may go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epoch {
    /// Operations answered until then.
    pub answers: u64,
    /// What of them is safe.
    pub safe: Safe,
    /// Units that may be there or not.
    pub in_flight: InFlight,
    /// The largest mark until then.
    pub acknowledged: u64,
}

/// Units in flight: those that were answered, in order of their answers, and behind them those that
/// had come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InFlight {
    answered: Range<u32>,
    later: Vec<u32>,
}

impl InFlight {
    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.answered.len() + self.later.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The unit of a place; none beyond the last.
    #[must_use]
    pub fn get(&self, place: usize) -> Option<u32> {
        match place.checked_sub(self.answered.len()) {
            None => Some(self.answered.start + place as u32),
            Some(later) => self.later.get(later).copied(),
        }
    }

    /// All, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.answered.clone().chain(self.later.iter().copied())
    }
}

/// What is there of an epoch's units in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// The epoch's place in [`States::epochs`].
    pub epoch: usize,
    /// Units that are there as a whole, in order.
    pub present: Vec<u32>,
    /// One of which only these sectors of 512 bytes are there, as bits.
    pub torn: Option<(u32, u8)>,
}

impl State {
    /// The units of which anything is there.
    pub(crate) fn units(&self) -> impl Iterator<Item = u32> + '_ {
        self.present.iter().copied().chain(self.torn.map(|torn| torn.0))
    }
}

impl Present for State {
    fn sectors(&self, unit: u32) -> u8 {
        match self.torn {
            Some((torn, sectors)) if torn == unit => sectors,
            _ if self.present.binary_search(&unit).is_ok() => 0xff,
            _ => 0,
        }
    }
}

/// All states of a history, numbered.
#[derive(Debug)]
pub struct States {
    /// In order of time.
    pub epochs: Vec<Epoch>,
    tears: bool,
    seed: u64,
    /// Epochs in their seeded order.
    order: Vec<usize>,
    /// Of pass p: how many states there are before it, and how many epochs take part; those are the
    /// first of `order` that are left.
    passes: Vec<Pass>,
    /// Number of states.
    len: usize,
}

#[derive(Debug)]
struct Pass {
    begins: usize,
    epochs: Vec<usize>,
}

impl States {
    /// The states between the first mark that says `from` and the last mark that says `until`, or
    /// the end.
    #[must_use]
    pub fn of(history: &History, behaviour: Behaviour, seed: u64, from: u64, until: Option<u64>) -> States {
        let begin = history.marks.iter().find(|mark| mark.number == from).map_or(0, |mark| mark.came);
        let end = until.and_then(|until| history.marks.iter().rfind(|mark| mark.number == until));
        let end = end.map_or(history.answers, |mark| mark.came);
        let epochs = epochs(history, behaviour.keeps, begin, end);
        let tears = behaviour.tear_bytes < 4096;
        let mut order: Vec<usize> = (0..epochs.len()).collect();
        stream(&[seed, 1]).shuffle(&mut order);
        let counts: Vec<usize> = epochs.iter().map(|epoch| count(epoch.in_flight.len(), tears)).collect();
        let (mut passes, mut len) = (Vec::new(), 0);
        let mut taking_part = order.clone();
        for pass in 0.. {
            taking_part.retain(|&epoch| counts[epoch] > pass);
            if taking_part.is_empty() {
                break;
            }
            passes.push(Pass { begins: len, epochs: taking_part.clone() });
            len += taking_part.len();
        }
        States { epochs, tears, seed, order, passes, len }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether they are all that a power cut can leave. Else of some moment subsets of what was in
    /// flight were chosen, or the sectors that a torn block has were drawn.
    #[must_use]
    pub fn are_all(&self) -> bool {
        let most = if self.tears { 0 } else { EXHAUSTIVE };
        self.epochs.iter().all(|epoch| epoch.in_flight.len() <= most)
    }

    /// Epochs in the order in which the first states have them.
    #[must_use]
    pub fn order(&self) -> &[usize] {
        &self.order
    }

    /// The pass and the epoch of a state's number; none beyond the last.
    fn place(&self, number: usize) -> Option<(usize, usize)> {
        let pass = self.passes.partition_point(|pass| pass.begins <= number).checked_sub(1)?;
        let epoch = self.passes[pass].epochs.get(number - self.passes[pass].begins)?;
        Some((pass, *epoch))
    }

    /// The epoch of a state's number; none beyond the last.
    #[must_use]
    pub fn epoch_of(&self, number: usize) -> Option<usize> {
        self.place(number).map(|place| place.1)
    }

    /// The state of a number; none beyond the last.
    #[must_use]
    pub fn get(&self, number: usize) -> Option<State> {
        let (pass, epoch) = self.place(number)?;
        let in_flight = &self.epochs[epoch].in_flight;
        let whole = whole_states(in_flight.len());
        if pass < whole {
            let chosen = subset(in_flight.len(), pass, self.seed, epoch as u64);
            let present =
                in_flight.iter().zip(chosen).filter(|chosen| chosen.1).map(|chosen| chosen.0).collect();
            return Some(State { epoch, present, torn: None });
        }
        // Of a prefix or a suffix of its sectors, or of any, one to seven are there.
        let unit = single((pass - whole) / 2, in_flight.len());
        let with_others = (pass - whole).is_multiple_of(2);
        let mut random = stream(&[self.seed, 3, epoch as u64, pass as u64]);
        let sectors = match random.below(3) {
            0 => (1u8 << (1 + random.below(7))) - 1,
            1 => !((1u8 << (1 + random.below(7))) - 1),
            _ => 1 + random.below(0xfe) as u8,
        };
        let others = in_flight.iter().enumerate().filter(|in_flight| with_others && in_flight.0 != unit);
        let present = others.map(|present| present.1).collect();
        Some(State { epoch, present, torn: in_flight.get(unit).map(|torn| (torn, sectors)) })
    }

    /// Whether units are torn.
    #[must_use]
    pub fn tears(&self) -> bool {
        self.tears
    }
}

/// The moments at which the power goes, from `begin` answers to `end`.
fn epochs(history: &History, keeps: Keeps, begin: u64, end: u64) -> Vec<Epoch> {
    // What flushes made safe before `begin`, when every device still told the truth.
    let done = history.flushes.partition_point(|flush| flush.answer < begin);
    let at_begin =
        history.flushes[..done].iter().fold(Safe::all_before(0), |safe, flush| history.after(safe, flush));
    let mut cuts: Vec<(u64, Safe)> = Vec::new();
    match keeps {
        Keeps::Flushed => {
            let mut safe = at_begin;
            for flush in history.flushes.iter().filter(|flush| (begin..end).contains(&flush.answer)) {
                if makes_safe(history, flush, safe) {
                    cuts.push((flush.answer, safe));
                    safe = history.after(safe, flush);
                }
            }
            cuts.push((end, safe));
        }
        // Nothing becomes safe, so that the end alone would do; but there every subset has all of
        // the run in flight.
        Keeps::Lies => {
            let flushes = history.flushes.iter().filter(|flush| (begin..end).contains(&flush.answer));
            cuts.extend(flushes.map(|flush| (flush.answer, at_begin)));
            cuts.push((end, at_begin));
        }
        Keeps::Answered => cuts.extend((begin..=end).map(|answers| (answers, Safe::all_before(answers)))),
    }
    // The largest mark among the first so many.
    let running = history.marks.iter().scan(0, |largest, mark| {
        *largest = mark.number.max(*largest);
        Some(*largest)
    });
    let largest: Vec<u64> = std::iter::once(0).chain(running).collect();
    let epoch = |(answers, safe): (u64, Safe)| {
        // Units come in order of answers, and their operations in no order: one may have come
        // before many that were answered first.
        let first = history.units.partition_point(|unit| unit.answer < safe.least());
        let open = history.units.partition_point(|unit| unit.answer < answers);
        // Nothing that is answered so much later was under way.
        let rest = history.units.iter().enumerate().skip(open);
        let near = rest.take_while(|near| near.1.answer < answers + MOST_AT_ONCE);
        let later = near.filter(|near| near.1.came <= answers).map(|answer| answer.0 as u32);
        let answered = first as u32..open.max(first) as u32;
        let in_flight = match history.log_begins {
            None => InFlight { answered, later: later.collect() },
            // What is safe of one device lies among what is not of the other.
            Some(_) => {
                let is_open = |unit: &u32| !history.is_safe(&history.units[*unit as usize], safe);
                InFlight { answered: 0..0, later: answered.filter(is_open).chain(later).collect() }
            }
        };
        let marks = history.marks.partition_point(|mark| mark.came <= answers);
        Epoch { answers, safe, in_flight, acknowledged: largest.get(marks).copied().unwrap_or(0) }
    };
    let mut epochs: Vec<Epoch> = cuts.into_iter().map(epoch).collect();
    // The same medium as a moment later, judged by fewer acknowledgements.
    if keeps == Keeps::Answered {
        let mut kept: Vec<Epoch> = Vec::new();
        for epoch in epochs.drain(..).rev() {
            let told = |epoch: &Epoch| (epoch.in_flight.is_empty(), epoch.acknowledged);
            if kept.last().is_none_or(|last| !epoch.in_flight.is_empty() || told(last) != told(&epoch)) {
                kept.push(epoch);
            }
        }
        kept.reverse();
        epochs = kept;
    }
    epochs
}

/// Whether a flush makes anything safe that was not. Of a single device's each is asked only for
/// answers, reads too: the numbers of states of recordings that are kept stay what they are.
fn makes_safe(history: &History, flush: &Flush, safe: Safe) -> bool {
    let from = safe.of(flush.side);
    let place = |answer: u64| history.units.partition_point(|unit| unit.answer < answer);
    let is_own = |unit: &Unit| history.side_of(unit.offset) == flush.side;
    flush.came > from
        && (history.log_begins.is_none() || history.units[place(from)..place(flush.came)].iter().any(is_own))
}

/// Operations under way at once at most (the server's connection allows 256 in the background).
const MOST_AT_ONCE: u64 = 4096;

fn singled_out(units: usize) -> usize {
    units.min(SINGLED_OUT)
}

/// Which unit is the `number`th of those that are singled out.
fn single(number: usize, units: usize) -> usize {
    number * units / singled_out(units).max(1)
}

fn whole_states(units: usize) -> usize {
    match units {
        ..=EXHAUSTIVE => 1 << units,
        _ => 2 + 3 * singled_out(units) + SAMPLES,
    }
}

fn count(units: usize, tears: bool) -> usize {
    whole_states(units) + if tears { 2 * singled_out(units) } else { 0 }
}

/// Which units are there in an epoch's `number`th state.
fn subset(units: usize, number: usize, seed: u64, epoch: u64) -> Vec<bool> {
    if units <= EXHAUSTIVE {
        let mask = masks(units)[number];
        return (0..units).map(|unit| mask >> unit & 1 == 1).collect();
    }
    let singles = singled_out(units);
    let chosen: Option<Vec<bool>> = match number.checked_sub(2) {
        None => Some(vec![number == 1; units]),
        Some(nth) if nth < 3 * singles => {
            let one = single(nth % singles, units);
            let is_there = |unit: usize| match nth / singles {
                0 => unit != one,
                1 => unit == one,
                _ => unit < one,
            };
            Some((0..units).map(is_there).collect())
        }
        Some(_) => None,
    };
    if let Some(chosen) = chosen {
        return chosen;
    }
    let mut random = stream(&[seed, 2, epoch, number as u64]);
    // Few, half or most of them.
    let share = [1, 2, 4, 6, 7][random.below(5) as usize];
    (0..units).map(|_| random.below(8) < share).collect()
}

/// All subsets of so few units: none, all, all but one, each alone, prefixes, and then the others.
fn masks(units: usize) -> Vec<u32> {
    let all = (1u32 << units) - 1;
    let one = |unit: usize| 1u32 << unit;
    let first = [0, all].into_iter();
    let first = first.chain((0..units).map(|unit| all & !one(unit))).chain((0..units).map(one));
    let ordered = first.chain((1..units).map(|length| (1 << length) - 1)).chain(0..=all);
    let mut masks = Vec::with_capacity(1 << units);
    for mask in ordered {
        if !masks.contains(&mask) {
            masks.push(mask);
        }
    }
    masks
}

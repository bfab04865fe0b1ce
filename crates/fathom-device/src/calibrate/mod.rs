//! Measures a device and writes the model of it.
//!
//! All operations go past the page cache (O_DIRECT), one at a time unless said otherwise:
//!
//! - 4 KiB random and sequential reads and writes: their quantiles are the model's; more of them
//!   where their times differ much;
//! - the same at random places in sizes up to 1 MiB, and 1 MiB in sequence: what the 1 MiB in
//!   sequence takes beyond 4 KiB is the bandwidth, the sizes between tell how well the model's
//!   straight line fits (comments of the file);
//! - 4 KiB random reads by 1 to 32 threads in turns: the best rate times the mean time of one is
//!   the number of channels, as far as no other work of the machine is in these;
//! - sequential reads of 1 to 8 streams in turn: how many streams the device still recognises;
//! - a flush after 4 KiB to 4 MiB of writes: the slope over what is dirty (Theil and Sen: the
//!   median of the slopes of all pairs, of lower quartiles), and the quantiles of what remains;
//! - single writes of all sizes after a flush and a rest: where they stay flat up to a size and
//!   then rise, there is a cache of that size, and the rise is the rate at which it empties.
//!
//! Where the target is served through FUSE, as a modelled device is, a device without delays is
//! measured alike beside it: its times are what this machine takes at the least, and a comment says
//! so.
//!
//! Nothing is corrected: what the kernel (and a file system, if there is one) adds to an operation
//! is in the model.

mod bandwidth;
mod cache;
mod channels;
mod described;
mod error;
mod flush;
mod path;
mod place;
mod sizes;
mod sorted;
mod target;
mod text;

use std::path::PathBuf;
use std::time::Duration;

use cache::cache_in;
use channels::{ChannelCount, WaitMeter, streams};
use flush::{Flushes, flush_cost};
use sizes::{BLOCK, By, LARGEST, ROUNDS, STREAMS};
use sorted::{SortedTimes, median};
use target::{Direction, Target};

pub use error::CalibrateError;

/// What is to be measured, and how long it may take.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// A directory (a file of its own is measured there and goes again), or with `destroy` a block
    /// device or file.
    pub path: PathBuf,
    /// How much of it is used, MiB.
    pub size_mib: u64,
    /// Some seconds instead of a minute or two: fewer operations, coarser tails.
    pub quick: bool,
    /// What is on a block device or in a file may be overwritten.
    pub destroy: bool,
    /// The model's name.
    pub name: String,
    /// When it is measured, for the model's source.
    pub when: String,
    /// The program `fathom`, which serves a device without delays beside one that is served through
    /// FUSE; without it nothing is said of the path to that.
    pub program: Option<PathBuf>,
}

/// How many operations a part makes and how long it may go on.
#[derive(Clone, Copy)]
struct Effort {
    operations: usize,
    sized: usize,
    flushes: usize,
    most: Duration,
}

/// Everything that was measured.
struct Measured {
    read: SortedTimes,
    read_next: SortedTimes,
    reads: By,
    write: SortedTimes,
    write_next: SortedTimes,
    writes: By,
    /// Of 1 MiB in sequence, read and written, ns.
    mib: [f64; 2],
    rates: By,
    channels: ChannelCount,
    streams: usize,
    cache: Option<cache::CacheEstimate>,
    flush: Flushes,
    /// What the path to it takes by itself: read, write, flush, ns.
    path: Option<[f64; 3]>,
}

impl Calibration {
    /// Measures, and gives the model's text. `on_step` is told what is measured; `stopped` is asked
    /// whether to stop.
    ///
    /// # Errors
    /// [`CalibrateError`]; nothing is left behind.
    pub fn run(
        &self,
        on_step: &mut dyn FnMut(&str),
        stopped: &dyn Fn() -> bool,
    ) -> Result<String, CalibrateError> {
        let (mut target, described) = self.open(stopped)?;
        on_step("writing the file");
        target.prepare()?;
        let sectors = target.sector_bytes();
        let measured = self.measure(&mut target, on_step)?;
        Ok(self.written(&measured, &described, target.bytes >> 20, sectors))
    }

    fn measure(
        &self,
        target: &mut Target<'_>,
        on_step: &mut dyn FnMut(&str),
    ) -> Result<Measured, CalibrateError> {
        let Effort { operations, sized, flushes, most } = match self.quick {
            true => Effort { operations: 100, sized: 7, flushes: 7, most: Duration::from_millis(800) },
            false => Effort { operations: 4000, sized: 31, flushes: 41, most: Duration::from_secs(12) },
        };
        let well = !self.quick;
        on_step("4 KiB random reads");
        let meter = WaitMeter::start();
        let read = target.random_with_quantiles(Direction::Read, operations, most, well)?;
        let waited_by_one = meter.share();
        on_step("4 KiB sequential reads");
        let read_next = target.sequential(Direction::Read, BLOCK, 1, operations, most)?;
        let mut turns = Vec::new();
        for number in STREAMS {
            let times = target.sequential(Direction::Read, BLOCK, number, 10 * sized, most / 8)?;
            turns.push((number, times.median()));
        }
        on_step("larger reads");
        let reads = target.sizes(Direction::Read, sized, most)?;
        let read_mib = target.sequential(Direction::Read, LARGEST, 1, sized, most)?.median();
        on_step("reads by 1 to 32 threads");
        let each = most / 4 / ROUNDS as u32;
        let meter = WaitMeter::start();
        let rates = target.rates(ROUNDS, (operations / 4 / ROUNDS).max(100), each)?;
        let waited = [waited_by_one, meter.share()];

        on_step("4 KiB random writes");
        target.flush()?;
        let write = target.random_with_quantiles(Direction::Write, operations, most, well)?;
        target.flush()?;
        on_step("4 KiB sequential writes");
        let write_next = target.sequential(Direction::Write, BLOCK, 1, operations, most)?;
        target.flush()?;
        on_step("larger writes");
        let writes = target.sizes(Direction::Write, sized, most)?;
        target.flush()?;
        let write_mib = target.sequential(Direction::Write, LARGEST, 1, sized, most)?.median();
        let mut cache = cache_in(&target.single((sized / 2).max(3))?);
        if let Some(found) = &mut cache {
            found.write_ns = target.cached(*found, sized)?;
        }
        on_step("flushes");
        let flush = flush_cost(&target.flushes(flushes, most * 2, cache, well)?);
        on_step("the path to the device");
        let path = path::of(target, operations / 4, self.program.as_deref());
        Ok(Measured {
            channels: ChannelCount::of(&rates, &read, waited),
            streams: streams(&turns, read.median()),
            mib: [read_mib, write_mib],
            read,
            read_next,
            reads,
            write,
            write_next,
            writes,
            rates: rates.into_iter().map(|(depth, rounds)| (depth, median(rounds))).collect(),
            cache,
            flush,
            path,
        })
    }
}

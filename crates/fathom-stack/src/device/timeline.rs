//! When an operation is done: the rules of the model, without a clock, a thread or a device.
//!
//! A device has *channels*; each serves one operation at a time, and an operation takes the channel that is free first. Its service
//! time is
//!
//! ```text
//! latency of a 4 KiB operation (random or sequential) + bytes beyond 4096 / bandwidth (+ a stall, if one is due)
//! ```
//!
//! An operation is *sequential* if it begins where one of the last `streams` of its kind ended. With a write cache, a write whose
//! bytes fit takes the cache's time instead, and its bytes are dirty until a flush or until the cache, which drains at its own rate
//! whenever it holds something, has written them. A write that does not fit waits until enough has drained. A flush waits for all
//! operations before it, occupies all channels, and takes `base + dirty KiB × per KiB`; afterwards nothing is dirty. Without a
//! cache every write is dirty all the same until the next flush, for the price of a flush is what it must make safe (mapping
//! tables, parity, the tail of a block).

use super::model::{Kind, Model, Side};
use super::random::Random;

/// What is asked of the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads bytes.
    Read,
    /// Writes bytes.
    Write,
    /// Makes everything written before safe.
    Flush,
    /// Says that bytes are not needed any more. Takes no time and dirties nothing.
    Discard,
}

/// When the device serves an operation, ns of the clock of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// A channel (for a flush: all of them) begins with it.
    pub start_ns: u64,
    /// It is done.
    pub finish_ns: u64,
    /// It continued a stream.
    pub sequential: bool,
    /// A stall of the device (garbage collection) is part of it.
    pub stalled: bool,
}

/// Ends of the last streams of one kind, the newest first.
#[derive(Clone, Debug)]
struct Streams {
    ends: Vec<u64>,
    most: usize,
}

impl Streams {
    /// Whether the operation continues one of the streams, which goes on with it either way.
    fn follow(&mut self, offset: u64, bytes: u64) -> bool {
        let known = self.ends.iter().position(|&end| end == offset);
        match known {
            Some(at) => {
                self.ends.remove(at);
            }
            None => self.ends.truncate(self.most.saturating_sub(1)),
        }
        if self.most > 0 {
            self.ends.insert(0, offset + bytes);
        }
        known.is_some()
    }
}

/// A device in time: what is under way on it, what is dirty, where its streams are.
#[derive(Clone, Debug)]
pub struct Timeline {
    model: Model,
    random: Random,
    free_ns: Vec<u64>,
    reads: Streams,
    writes: Streams,
    dirty_bytes: f64,
    /// When `dirty_bytes` was right.
    dirty_at_ns: u64,
    /// Bytes written since the last stall.
    since_stall: u64,
}

impl Timeline {
    /// A device that has been idle. The same seed gives the same times for the same operations.
    #[must_use]
    pub fn new(model: Model, seed: u64) -> Timeline {
        let streams = Streams { ends: Vec::new(), most: model.streams };
        Timeline {
            random: Random(seed),
            free_ns: vec![0; model.channels.max(1)],
            reads: streams.clone(),
            writes: streams,
            dirty_bytes: 0.0,
            dirty_at_ns: 0,
            since_stall: 0,
            model,
        }
    }

    /// Bytes that a flush at `now_ns` would have to make safe.
    #[must_use]
    pub fn dirty_bytes_at(&self, now_ns: u64) -> f64 {
        let drained = self
            .model
            .cache
            .map_or(0.0, |cache| cache.drain_bytes_per_ns * now_ns.saturating_sub(self.dirty_at_ns) as f64);
        (self.dirty_bytes - drained).max(0.0)
    }

    /// Gives the device an operation that arrives at `now_ns`. Calls come in order of arrival.
    pub fn submit(&mut self, now_ns: u64, operation: Operation, offset: u64, bytes: u64) -> Service {
        match operation {
            Operation::Discard => {
                Service { start_ns: now_ns, finish_ns: now_ns, sequential: false, stalled: false }
            }
            Operation::Flush => self.flush(now_ns),
            Operation::Read => {
                let sequential = self.reads.follow(offset, bytes);
                let share = self.random.share();
                let took_ns = duration_ns(&self.model.read, sequential, share, bytes);
                self.serve(now_ns, took_ns, sequential, false)
            }
            Operation::Write => self.write(now_ns, offset, bytes),
        }
    }

    fn write(&mut self, now_ns: u64, offset: u64, bytes: u64) -> Service {
        let sequential = self.writes.follow(offset, bytes);
        let share = self.random.share();
        let mut took_ns = duration_ns(&self.model.write, sequential, share, bytes);
        self.dirty_bytes = self.dirty_bytes_at(now_ns);
        self.dirty_at_ns = now_ns;
        if let Some(cache) = self.model.cache {
            let beyond = self.dirty_bytes + bytes as f64 - cache.bytes as f64;
            let wait_ns = match beyond > 0.0 {
                true if cache.drain_bytes_per_ns > 0.0 => beyond / cache.drain_bytes_per_ns,
                // A cache that drains only when flushed is passed by once it is full.
                true => took_ns,
                false => 0.0,
            };
            took_ns = cache.write_ns + wait_ns;
        }
        self.dirty_bytes += bytes as f64;
        let mut stalled = false;
        if let Some(stall) = &self.model.stall {
            self.since_stall += bytes;
            if self.since_stall >= stall.every_bytes {
                self.since_stall -= stall.every_bytes;
                stalled = true;
                let share = self.random.share();
                took_ns += self.model.stall.as_ref().map_or(0.0, |stall| stall.latency.quantile_ns(share));
            }
        }
        self.serve(now_ns, took_ns, sequential, stalled)
    }

    /// Waits for the channel that is free first.
    fn serve(&mut self, now_ns: u64, took_ns: f64, sequential: bool, stalled: bool) -> Service {
        let channel = (0..self.free_ns.len()).min_by_key(|&channel| self.free_ns[channel]).unwrap_or(0);
        let start_ns = now_ns.max(self.free_ns[channel]);
        let finish_ns = start_ns + took_ns.round() as u64;
        self.free_ns[channel] = finish_ns;
        Service { start_ns, finish_ns, sequential, stalled }
    }

    /// Waits for all channels.
    fn flush(&mut self, now_ns: u64) -> Service {
        let busy_ns = self.free_ns.iter().copied().max().unwrap_or(0);
        let start_ns = now_ns.max(busy_ns);
        let dirty_kib = self.dirty_bytes_at(start_ns) / 1024.0;
        let share = self.random.share();
        let flush = &self.model.flush;
        let took_ns = flush.base.quantile_ns(share) + dirty_kib * flush.per_dirty_kib_ns;
        let finish_ns = start_ns + took_ns.round() as u64;
        self.free_ns.fill(finish_ns);
        (self.dirty_bytes, self.dirty_at_ns) = (0.0, finish_ns);
        Service { start_ns, finish_ns, sequential: false, stalled: false }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }
}

/// Service time without queueing, ns.
fn duration_ns(side: &Side, sequential: bool, share: f64, bytes: u64) -> f64 {
    let latency = if sequential { &side.sequential } else { &side.random };
    latency.quantile_ns(share) + bytes.saturating_sub(4096) as f64 * side.ns_per_byte
}

impl Kind {
    /// What the device does with data that was acknowledged and not flushed, when the power goes.
    #[must_use]
    pub fn loses_unflushed(self) -> bool {
        // A device with power-loss protection answers a flush at once because nothing can be lost.
        !matches!(self, Kind::Protected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Discard, Flush, Read, Write};
    use proptest::prelude::*;

    fn model(text: &str) -> Model {
        let head = "name = \"t\"\ntitle = \"t\"\nkind = \"sd\"\nsources = [\"test\"]\n";
        Model::parse("test", &format!("{head}{text}")).unwrap()
    }

    const PLAIN: &str = "
        [read]
        random_us = 300
        sequential_us = 100
        mb_per_s = 20
        [write]
        random_us = 1000
        sequential_us = 200
        mb_per_s = 10
        [flush]
        base_us = 2000
        per_dirty_kib_us = 10
    ";

    #[test]
    fn one_operation_after_the_other_takes_what_the_model_says() {
        let mut device = Timeline::new(model(PLAIN), 1);
        let us = |service: Service| (service.finish_ns - service.start_ns) / 1000;
        assert_eq!(us(device.submit(0, Read, 8192, 4096)), 300);
        let next = device.submit(1_000_000, Read, 12288, 4096);
        assert_eq!((us(next), next.sequential), (100, true));
        // 16 KiB beyond the first 4 at 20 MB/s are 819.2 µs.
        assert_eq!(us(device.submit(2_000_000, Read, 0, 20480)), 300 + 819);
        assert_eq!(us(device.submit(10_000_000, Write, 0, 4096)), 1000);
        assert_eq!(us(device.submit(20_000_000, Write, 4096, 4096)), 200);
        assert_eq!(us(device.submit(30_000_000, Flush, 0, 0)), 2000 + 80);
        assert_eq!(us(device.submit(40_000_000, Flush, 0, 0)), 2000, "nothing is dirty any more");
        assert_eq!(us(device.submit(50_000_000, Discard, 0, 1 << 20)), 0);
    }

    #[test]
    fn a_queue_is_served_by_as_many_channels_as_there_are() {
        for (channels, done_us) in [(1, 1200), (2, 600), (4, 300)] {
            let mut device = Timeline::new(model(&format!("channels = {channels}\n{PLAIN}")), 1);
            let last = (0..4).map(|i| device.submit(0, Read, i * 1_000_000, 4096).finish_ns).max();
            assert_eq!(last, Some(done_us * 1000), "{channels} channels");
            let flush = device.submit(0, Flush, 0, 0);
            assert_eq!(flush.start_ns, done_us * 1000, "a flush waits for all before it");
            assert_eq!(
                device.submit(0, Read, 0, 4096).start_ns,
                flush.finish_ns,
                "and all after it wait for it"
            );
        }
    }

    #[test]
    fn a_cache_takes_writes_until_it_is_full() {
        let cache = "[cache]\nkib = 64\nwrite_us = 20\ndrain_mb_per_s = 4.096\n";
        let mut device = Timeline::new(model(&format!("{PLAIN}{cache}")), 1);
        let mut took = Vec::new();
        for i in 0..20u64 {
            let service = device.submit(0, Write, i * 1_000_000, 4096);
            took.push((service.finish_ns - service.start_ns) / 1000);
        }
        assert!(took[..16].iter().all(|&us| us == 20), "{took:?}");
        // 4096 bytes drain in 1 ms; the 17th write waits for room.
        assert_eq!(took[16], 1020, "{took:?}");
        assert_eq!(device.dirty_bytes_at(1_000_000_000), 0.0, "an idle cache empties itself");
    }

    #[test]
    fn stalls_come_after_so_many_bytes() {
        let stall = "[stall]\nevery_mib = 1\nus = 50000\n";
        let mut device = Timeline::new(model(&format!("{PLAIN}{stall}")), 1);
        let stalls: Vec<u64> = (0..600u64)
            .filter(|i| device.submit(*i * 1_000_000_000, Write, i * 8192, 4096).stalled)
            .collect();
        assert_eq!(stalls, [255, 511]);
    }

    proptest! {
        /// Whatever comes, no operation ends before it began, none begins before it came, a channel serves one at a time, and the
        /// same seed gives the same times.
        #[test]
        fn time_runs_forward(
            operations in proptest::collection::vec((0u64..3_000_000, 0u8..4, 0u64..64, 1u64..9), 1..60),
            channels in 1usize..5,
            seed: u64,
        ) {
            let text = format!("channels = {channels}\nstreams = 2\n{PLAIN}[cache]\nkib = 32\nwrite_us = 15\ndrain_mb_per_s = 2\n[stall]\nevery_mib = 1\nus = 900\n");
            let mut device = Timeline::new(model(&text), seed);
            let mut again = Timeline::new(model(&text), seed);
            let (mut now, mut served, mut flushed) = (0, Vec::new(), 0);
            for (gap, kind, page, pages) in operations {
                now += gap;
                let operation = [Read, Write, Flush, Discard][usize::from(kind)];
                let service = device.submit(now, operation, page * 4096, pages * 4096);
                prop_assert_eq!(service, again.submit(now, operation, page * 4096, pages * 4096));
                prop_assert!(service.start_ns >= now && service.finish_ns >= service.start_ns);
                if operation == Discard {
                    continue;
                }
                prop_assert!(service.start_ns >= flushed, "nothing overtakes a flush");
                if operation == Flush {
                    prop_assert!(served.iter().all(|&(_, end)| end <= service.start_ns));
                    flushed = service.finish_ns;
                }
                served.push((service.start_ns, service.finish_ns));
                let busy = served.iter().filter(|&&(start, end)| start <= service.start_ns && service.start_ns < end).count();
                prop_assert!(busy <= channels, "{} at once on {} channels", busy, channels);
            }
        }
    }
}

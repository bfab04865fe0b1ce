//! When an operation is done: the rules of the model, without a clock, a thread or a device.
//!
//! A device has *channels*; each serves one operation at a time, and an operation takes the channel
//! that is free first. Its service time is
//!
//! ```text
//! latency of a 4 KiB operation (random or sequential) + bytes beyond 4096 / bandwidth (+ a stall, if one is due)
//! ```
//!
//! The bandwidth is the whole device's, one for reads and one for writes: what operations on
//! several channels have beyond 4 KiB is transferred in the order in which they begin. An operation
//! is *sequential* if it begins where one of the last `streams` of its kind ended. With a write
//! cache, a write whose bytes fit takes the cache's time instead, and its bytes are dirty until a
//! flush or until the cache, which drains at its own rate whenever it holds something, has written
//! them. A write that does not fit waits until enough has drained, whatever the number of writes
//! that wait with it; what `[write]` says is then not asked. A flush waits for all operations
//! before it, occupies all channels, and takes `base + dirty KiB × per KiB`; afterwards nothing is
//! dirty. Without a cache every write is dirty all the same until the next flush, for the price of
//! a flush is what it must make safe (mapping tables, parity, the tail of a block).

use super::latency::Latency;
use super::model::{Cache, Kind, Model, Side};
use fathom_random::Random;

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
            self.ends.insert(0, offset.saturating_add(bytes));
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
    /// When all that was transferred so far could have been, by the bandwidth alone: of reads, of
    /// writes.
    transferred_ns: [f64; 2],
    /// Bytes written since the last flush, where nothing drains.
    dirty_bytes: f64,
    /// When a cache that drains will be empty.
    empty_ns: f64,
    /// Bytes written since the last stall.
    since_stall: u64,
}

impl Timeline {
    /// A device that has been idle. The same seed gives the same times for the same operations.
    #[must_use]
    pub fn new(model: Model, seed: u64) -> Timeline {
        let streams = Streams { ends: Vec::new(), most: model.streams };
        Timeline {
            random: Random::new(seed),
            free_ns: vec![0; model.channels.max(1)],
            reads: streams.clone(),
            writes: streams,
            transferred_ns: [0.0; 2],
            dirty_bytes: 0.0,
            empty_ns: 0.0,
            since_stall: 0,
            model,
        }
    }

    /// Bytes that a flush at `now_ns` would have to make safe.
    #[must_use]
    pub fn dirty_bytes_at(&self, now_ns: u64) -> f64 {
        match self.drain() {
            Some((_, bytes_per_ns)) => (self.empty_ns - now_ns as f64).max(0.0) * bytes_per_ns,
            None => self.dirty_bytes,
        }
    }

    /// The cache that drains, and its rate, bytes per ns.
    fn drain(&self) -> Option<(Cache, f64)> {
        self.model.cache.map(|cache| (cache, cache.drain_bytes_per_ns)).filter(|(_, rate)| *rate > 0.0)
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
                let share = self.random.unit();
                let latency_ns = self.model.read.latency(sequential).quantile_ns(share);
                let transfer_ns = self.model.read.transfer_ns(bytes);
                self.serve(now_ns, sequential, false, |device, start_ns| {
                    device.transferred(0, start_ns, latency_ns, transfer_ns)
                })
            }
            Operation::Write => self.write(now_ns, offset, bytes),
        }
    }

    fn write(&mut self, now_ns: u64, offset: u64, bytes: u64) -> Service {
        let sequential = self.writes.follow(offset, bytes);
        let share = self.random.unit();
        let latency_ns = self.model.write.latency(sequential).quantile_ns(share);
        let transfer_ns = self.model.write.transfer_ns(bytes);
        let (stalled, stall_ns) = self.stall(bytes);
        if let Some((cache, rate)) = self.drain() {
            let capacity_ns = cache.bytes as f64 / rate;
            return self.serve(now_ns, sequential, stalled, |device, start_ns| {
                device.empty_ns = device.empty_ns.max(start_ns) + bytes as f64 / rate;
                start_ns.max(device.empty_ns - capacity_ns) + cache.write_ns + stall_ns
            });
        }
        let beyond = |cache: &Cache| self.dirty_bytes + bytes as f64 > cache.bytes as f64;
        let cached = self.model.cache.map(|cache| (cache.write_ns, beyond(&cache)));
        self.dirty_bytes += bytes as f64;
        self.serve(now_ns, sequential, stalled, |device, start_ns| match cached {
            Some((write_ns, false)) => start_ns + write_ns + stall_ns,
            // A cache that drains only when flushed is passed by once it is full.
            Some((write_ns, true)) => {
                device.transferred(1, start_ns, write_ns + latency_ns + stall_ns, transfer_ns)
            }
            None => device.transferred(1, start_ns, latency_ns + stall_ns, transfer_ns),
        })
    }

    /// Whether writing so many bytes makes the device pause, and for how long, ns.
    fn stall(&mut self, bytes: u64) -> (bool, f64) {
        let Some(stall) = &self.model.stall else { return (false, 0.0) };
        self.since_stall += bytes;
        if self.since_stall < stall.every_bytes {
            return (false, 0.0);
        }
        self.since_stall -= stall.every_bytes;
        let share = self.random.unit();
        (true, stall.latency.quantile_ns(share))
    }

    /// When an operation is done that begins at `start_ns` and shares the bandwidth of its kind (0
    /// reads, 1 writes).
    fn transferred(&mut self, kind: usize, start_ns: f64, latency_ns: f64, transfer_ns: f64) -> f64 {
        if transfer_ns == 0.0 {
            return start_ns + latency_ns;
        }
        let all_ns = self.transferred_ns[kind].max(start_ns) + transfer_ns;
        self.transferred_ns[kind] = all_ns;
        (start_ns + latency_ns + transfer_ns).max(all_ns)
    }

    /// Waits for the channel that is free first; `finish` tells when an operation that begins then
    /// is done.
    fn serve(
        &mut self,
        now_ns: u64,
        sequential: bool,
        stalled: bool,
        finish: impl FnOnce(&mut Timeline, f64) -> f64,
    ) -> Service {
        let channel = (0..self.free_ns.len()).min_by_key(|&channel| self.free_ns[channel]).unwrap_or(0);
        let start_ns = now_ns.max(self.free_ns[channel]);
        let finish_ns = start_ns.max(finish(self, start_ns as f64).round() as u64);
        self.free_ns[channel] = finish_ns;
        Service { start_ns, finish_ns, sequential, stalled }
    }

    /// Waits for all channels.
    fn flush(&mut self, now_ns: u64) -> Service {
        let busy_ns = self.free_ns.iter().copied().max().unwrap_or(0);
        let start_ns = now_ns.max(busy_ns);
        let dirty_kib = self.dirty_bytes_at(start_ns) / 1024.0;
        let share = self.random.unit();
        let flush = &self.model.flush;
        let took_ns = flush.base.quantile_ns(share) + dirty_kib * flush.per_dirty_kib_ns;
        let finish_ns = start_ns.saturating_add(took_ns.round() as u64);
        self.free_ns.fill(finish_ns);
        (self.dirty_bytes, self.empty_ns) = (0.0, finish_ns as f64);
        Service { start_ns, finish_ns, sequential: false, stalled: false }
    }

    /// The model.
    #[must_use]
    pub fn model(&self) -> &Model {
        &self.model
    }
}

impl Side {
    fn latency(&self, sequential: bool) -> &Latency {
        if sequential { &self.sequential } else { &self.random }
    }

    /// What the bytes beyond the first 4 KiB take at the device's bandwidth, ns.
    fn transfer_ns(&self, bytes: u64) -> f64 {
        bytes.saturating_sub(4096) as f64 * self.ns_per_byte
    }
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
        // 4096 bytes drain in 1 ms; the 17th write, which begins after 16 x 20 us, waits for room
        // until then, and is taken.
        assert_eq!(took[16], 1020 - 320, "{took:?}");
        assert!(took[17..].iter().all(|&us| us == 1000), "{took:?}");
        assert_eq!(device.dirty_bytes_at(1_000_000_000), 0.0, "an idle cache empties itself");
    }

    /// Each of the writes that were under way waited for all that was dirty when it came, on top of
    /// the writes before it: eight at once were slower than one after the other, and twice as many
    /// took four times as long.
    #[test]
    fn what_drains_takes_the_same_time_in_any_number_at_once() {
        let cache = "[cache]\nkib = 64\nwrite_us = 20\ndrain_mb_per_s = 4.096\n";
        let last_us = |channels: u64, depth: usize, writes: u64, bytes: u64| {
            let mut device = Timeline::new(model(&format!("channels = {channels}\n{PLAIN}{cache}")), 1);
            let mut under_way = std::collections::VecDeque::new();
            let mut last = 0;
            for i in 0..writes {
                let now = if under_way.len() == depth { under_way.pop_front().unwrap() } else { 0 };
                last = device.submit(now, Write, i * 10_000_000, bytes).finish_ns;
                under_way.push_back(last);
            }
            last / 1000
        };
        for (channels, depth) in [(1, 1), (1, 32), (2, 1), (2, 8), (4, 32)] {
            // A millisecond for each 4 KiB beyond the 64 KiB that stay in the cache.
            for (writes, bytes) in [(200, 4096), (400, 4096), (20, 131_072)] {
                let expected = (writes * bytes / 4096 - 16) * 1000;
                let last = last_us(channels, depth, writes, bytes);
                assert!(
                    last.abs_diff(expected) <= expected / 100 + 20,
                    "{writes} of {bytes} bytes, {depth} at once, {channels} channels: {last} of {expected} us"
                );
            }
        }
    }

    /// Channels each had the whole bandwidth to themselves.
    #[test]
    fn the_bandwidth_is_shared_by_all_channels() {
        let mib = 1u64 << 20;
        for (operation, mb_per_s) in [(Read, 20), (Write, 10)] {
            for channels in [1, 2, 6] {
                let mut device = Timeline::new(model(&format!("channels = {channels}\n{PLAIN}")), 1);
                let ends = (0..24u64).map(|i| device.submit(0, operation, i * 7 * mib, mib).finish_ns);
                let took_ms = ends.max().unwrap() / 1_000_000;
                let at_least = 24 * (mib - 4096) / (mb_per_s * 1000);
                assert!((at_least..at_least + at_least / 20).contains(&took_ms), "{channels}: {took_ms} ms");
            }
        }
        // What is small needs no bandwidth, and one operation alone takes what it took.
        let mut device = Timeline::new(model(&format!("channels = 4\n{PLAIN}")), 1);
        let long = device.submit(0, Read, 0, 4096 + 20_000_000).finish_ns;
        assert_eq!(long, 1_000_300_000);
        assert_eq!(device.submit(0, Read, 1 << 30, 4096).finish_ns, 300_000);
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

    /// The fuzzer's case 8,472,250 of 10,000,000: a model whose times are so long that the clock
    /// ended, and a flush that began then ended 3 ms after 0.
    #[test]
    fn nothing_ends_before_it_began_at_the_end_of_time() {
        let mut device = Timeline::new(model(PLAIN), 1);
        for operation in [Flush, Write, Read, Flush, Discard] {
            let service = device.submit(u64::MAX, operation, u64::MAX - 4095, 4096);
            assert_eq!((service.start_ns, service.finish_ns), (u64::MAX, u64::MAX), "{operation:?}");
        }
    }

    proptest! {
        /// Whatever comes, no operation ends before it began, none begins before it came, a channel
        /// serves one at a time, and the same seed gives the same times.
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

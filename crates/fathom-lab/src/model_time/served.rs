//! What the devices did, to be asked for spans of time.

use fathom_device::RequestTimes;

use super::interval::{Interval, merged, within};

/// The operations of all devices of a stack.
#[derive(Debug, Default)]
pub struct Operations {
    /// In order of their arrival.
    all: Vec<RequestTimes>,
    /// When the last answer of those up to here was begun.
    begun_ns: Vec<u64>,
    /// When the model has the last of those up to here done.
    asked_ns: Vec<u64>,
}

impl Operations {
    pub fn of(served: &[Vec<RequestTimes>]) -> Operations {
        let mut all = served.concat();
        all.sort_unstable_by_key(|operation| operation.arrival_ns);
        let so_far = |of: fn(&RequestTimes) -> u64| {
            let mut last = 0;
            let each = all.iter().map(|operation| {
                last = of(operation).max(last);
                last
            });
            each.collect()
        };
        Operations {
            begun_ns: so_far(RequestTimes::begun_ns),
            asked_ns: so_far(|operation| operation.asked_ns),
            all,
        }
    }

    /// Those that came before the span's end and whose answers were begun after its begin.
    fn in_span(&self, (from, to): Interval) -> impl Iterator<Item = &RequestTimes> {
        let first = self.begun_ns.partition_point(|&begun| begun <= from);
        let end = self.all.partition_point(|operation| operation.arrival_ns < to).max(first);
        self.all[first..end].iter().filter(move |operation| operation.begun_ns() > from)
    }

    /// Those that came in the span: how many, and bytes; reads, writes, flushes, discards.
    pub fn totals(&self, (from, to): Interval) -> ([u64; 4], [u64; 4]) {
        let first = self.all.partition_point(|operation| operation.arrival_ns < from);
        let end = self.all.partition_point(|operation| operation.arrival_ns < to).max(first);
        let (mut operations, mut bytes) = ([0; 4], [0; 4]);
        for request in &self.all[first..end] {
            if let (Some(count), Some(sum)) =
                (operations.get_mut(usize::from(request.kind)), bytes.get_mut(usize::from(request.kind)))
            {
                *count += 1;
                *sum += u64::from(request.bytes);
            }
        }
        (operations, bytes)
    }

    /// When the devices had something to do in a span: by the model, and as measured.
    pub fn busy(&self, span: Interval) -> (Vec<Interval>, Vec<Interval>) {
        let model = self.in_span(span).map(|span| (span.arrival_ns, span.asked_ns)).collect();
        let measured =
            self.in_span(span).map(|span| (span.arrival_ns, span.given_ns.max(span.asked_ns))).collect();
        (within(&merged(model), span), within(&merged(measured), span))
    }

    /// When the devices worked by the model while a call on a file was made, as the caller saw it.
    ///
    /// The device sees an operation later than the program made it, and has it done as much later:
    /// by the way there, which is hidden because the answer is begun earlier by the whole way. So
    /// the last operation that the call waited for is done after the call's end by exactly that
    /// much, and all of them are moved earlier by it. An operation that is not answered when the
    /// call ends is somebody else's, or nobody's.
    ///
    /// Where the way was taken for longer than it is (it was measured on a busy machine), an
    /// operation comes before the model has the one done that was answered last, and waits for it
    /// by the model. That time was counted in the call before.
    ///
    /// Gives also by how much the call was shorter than the model has it (ns): so much earlier than
    /// they should were answers given.
    pub fn during_call(&self, call: Interval) -> (Vec<Interval>, u64) {
        let (mut own, mut beyond) = (Vec::new(), 0);
        let first = self.begun_ns.partition_point(|&begun| begun <= call.0);
        let counted_ns = first.checked_sub(1).map_or(0, |last| self.asked_ns[last]);
        for request in self.in_span(call) {
            let is_answered = request.begun_ns() <= call.1;
            let asked_ns = if is_answered { request.asked_ns } else { request.asked_ns.min(call.1) };
            beyond = beyond.max(asked_ns.saturating_sub(call.1));
            own.push((request.arrival_ns.max(counted_ns), asked_ns));
        }
        let earlier = |ns: u64| ns.saturating_sub(beyond);
        let moved: Vec<Interval> =
            merged(own).into_iter().map(|(from, to)| (earlier(from), earlier(to))).collect();
        // Of what the call found under way, what lies before it is not its own.
        let came_within = |interval: &&Interval| interval.0 + beyond >= call.0;
        let short_ns =
            moved.iter().filter(came_within).map(|pair| pair.1.min(call.0).saturating_sub(pair.0)).sum();
        (within(&moved, call), short_ns)
    }
}

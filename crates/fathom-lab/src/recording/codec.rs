//! The bytes of a recording.
//!
//! ```text
//! recording   u8 format (2) | windows | executions | threads | devices | statements
//! windows     count | each: text phase | u8 has x, [f64 x] | start, end | count | changed bytes
//!             | lanes: count, each: thread, marked: count, numbers; start, end | excluded: count, each: start, end
//! executions  count | each: window | lane | start (after the one before) | wall
//! threads     count | each: number | marks: count, each: at (after the one before) | call | CPU, queue (more than before)
//!             | u8 kind of the call (0 = none or not known)
//! devices     count | each: count, each operation: u8 kind | bytes | place (from the end of the one before)
//!             | arrival (after the one before) | asked, given (after the arrival) | early
//! statements  texts: count, each: text | count, each: thread | number of its text | start (after the one before) | took
//! ```
//! Numbers are LEB128 (seven bits a byte, the lowest first); those that may be negative are
//! zigzag-coded (0, -1, 1, -2 …). A text is its length and its bytes. Nothing may follow.
//! Format 1 has no kinds of calls and no statements.

use std::collections::BTreeMap;

use fathom_device::RequestTimes;
use fathom_probe::{CallKind, Mark, StatementExecution, Statements};
use fathom_workload::sample::{LaneSpan, Window};

use super::{Execution, Recording};

const FORMAT: u8 = 2;

/// Why bytes are no recording.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// Of a later format.
    #[error(
        "the recording has format {0}, and this Fathom knows {FORMAT} only: use the Fathom that wrote it"
    )]
    Later(u8),
    /// It ends early, goes on after its end, or has a number that cannot be.
    #[error("the recording is damaged at byte {0}")]
    At(usize),
}

impl Recording {
    /// As it is kept.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// From what was kept.
    ///
    /// # Errors
    /// Bytes that are no recording, or of a later format.
    pub fn decode(bytes: &[u8]) -> Result<Recording, CodecError> {
        decode(bytes)
    }
}

fn encode(recording: &Recording) -> Vec<u8> {
    let mut out = Out(vec![FORMAT]);
    out.count(recording.windows.len());
    for window in &recording.windows {
        out.text(&window.phase);
        match window.x {
            None => out.0.push(0),
            Some(x) => {
                out.0.push(1);
                out.0.extend(x.to_le_bytes());
            }
        }
        out.span(window.start_ns, window.end_ns);
        out.number(window.count);
        out.number(window.changed_bytes);
        out.count(window.lanes.len());
        for lane in &window.lanes {
            out.number(lane.thread.into());
            out.count(lane.marked.len());
            lane.marked.iter().for_each(|thread| out.number((*thread).into()));
            out.span(lane.start_ns, lane.end_ns);
        }
        out.count(window.excluded.len());
        window.excluded.iter().for_each(|(from, to)| out.span(*from, *to));
    }
    out.count(recording.executions.len());
    let mut before = 0;
    for execution in &recording.executions {
        out.number(execution.window.into());
        out.number(execution.lane.into());
        out.change(before, execution.start_ns);
        out.number(execution.wall_ns);
        before = execution.start_ns;
    }
    out.count(recording.threads.len());
    for (thread, marks) in &recording.threads {
        out.number((*thread).into());
        out.count(marks.len());
        let mut before = Mark::default();
        for mark in marks {
            out.change(before.at_ns, mark.at_ns);
            out.number(mark.call_ns);
            out.change(before.cpu_ns, mark.cpu_ns);
            out.change(before.queue_ns, mark.queue_ns);
            out.0.push(CallKind::code(mark.call));
            before = *mark;
        }
    }
    out.count(recording.served.len());
    for of_device in &recording.served {
        out.count(of_device.len());
        let (mut end, mut arrival_ns) = (0_u64, 0);
        for request in of_device {
            out.0.push(request.kind);
            out.number(request.bytes.into());
            out.change(end, request.offset);
            out.change(arrival_ns, request.arrival_ns);
            out.change(request.arrival_ns, request.asked_ns);
            out.change(request.arrival_ns, request.given_ns);
            out.number(request.early_ns);
            end = request.offset.wrapping_add(request.bytes.into());
            arrival_ns = request.arrival_ns;
        }
    }
    let Statements { texts, executions } = &recording.statements;
    out.count(texts.len());
    texts.iter().for_each(|text| out.text(text));
    out.count(executions.len());
    let mut before_ns = 0;
    for execution in executions {
        out.number(execution.thread.into());
        out.number(execution.text.into());
        out.change(before_ns, execution.start_ns);
        out.number(execution.wall_ns);
        before_ns = execution.start_ns;
    }
    out.0
}

fn decode(bytes: &[u8]) -> Result<Recording, CodecError> {
    let mut from = In { bytes, at: 0 };
    let format = match from.byte()? {
        format @ 1..=FORMAT => format,
        0 => return Err(CodecError::At(0)),
        later => return Err(CodecError::Later(later)),
    };
    let windows = from.list(|from| {
        let phase = from.text()?;
        let x = match from.byte()? {
            0 => None,
            1 => Some(f64::from_le_bytes(from.array()?)),
            _ => return Err(from.wrong()),
        };
        let (start_ns, end_ns) = from.span()?;
        let (count, changed_bytes) = (from.number()?, from.number()?);
        let lanes = from.list(|from| {
            let thread = from.small()?;
            let marked = from.list(In::small)?;
            let (start_ns, end_ns) = from.span()?;
            Ok(LaneSpan { thread, marked, start_ns, end_ns })
        })?;
        let excluded = from.list(In::span)?;
        Ok(Window { phase, x, start_ns, end_ns, count, changed_bytes, lanes, excluded })
    })?;
    let mut before = 0;
    let executions = from.list(|from| {
        let (window, lane) = (from.small()?, from.small()?);
        let start_ns = from.changed(before)?;
        before = start_ns;
        Ok(Execution { window, lane, start_ns, wall_ns: from.number()? })
    })?;
    if executions.iter().any(|execution| execution.window as usize >= windows.len()) {
        return Err(from.wrong());
    }
    let threads = from.list(|from| {
        let thread = from.small()?;
        let mut before = Mark { thread, ..Mark::default() };
        let marks = from.list(|from| {
            let at_ns = from.changed(before.at_ns)?;
            let call_ns = from.number()?;
            let (cpu_ns, queue_ns) = (from.changed(before.cpu_ns)?, from.changed(before.queue_ns)?);
            let call = if format > 1 { CallKind::of_code(from.byte()?) } else { None };
            before = Mark { thread, at_ns, call_ns, cpu_ns, queue_ns, call };
            Ok(before)
        })?;
        Ok((thread, marks))
    })?;
    let served = from.list(|from| {
        let (mut end, mut before_ns) = (0_u64, 0);
        from.list(|from| {
            let kind = from.byte()?;
            if kind > 3 {
                return Err(from.wrong());
            }
            let bytes = from.small()?;
            let offset = from.changed(end)?;
            let arrival_ns = from.changed(before_ns)?;
            let (asked_ns, given_ns) = (from.changed(arrival_ns)?, from.changed(arrival_ns)?);
            let early_ns = from.number()?;
            end = offset.wrapping_add(bytes.into());
            before_ns = arrival_ns;
            Ok(RequestTimes { kind, bytes, arrival_ns, asked_ns, given_ns, early_ns, offset })
        })
    })?;
    let statements = if format > 1 { from.statements()? } else { Statements::default() };
    if from.at != bytes.len() {
        return Err(from.wrong());
    }
    let threads: BTreeMap<u32, Vec<Mark>> = threads.into_iter().collect();
    Ok(Recording { windows, executions, threads, served, statements })
}

struct Out(Vec<u8>);

impl Out {
    fn number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn count(&mut self, count: usize) {
        self.number(count as u64);
    }

    /// What a number is more than the one before.
    fn change(&mut self, before: u64, number: u64) {
        let change = number.wrapping_sub(before).cast_signed();
        self.number(((change << 1) ^ (change >> 63)).cast_unsigned());
    }

    fn span(&mut self, from: u64, to: u64) {
        self.number(from);
        self.change(from, to);
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }
}

struct In<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl In<'_> {
    fn wrong(&self) -> CodecError {
        CodecError::At(self.at)
    }

    fn byte(&mut self) -> Result<u8, CodecError> {
        let byte = *self.bytes.get(self.at).ok_or(CodecError::At(self.at))?;
        self.at += 1;
        Ok(byte)
    }

    fn array(&mut self) -> Result<[u8; 8], CodecError> {
        let array = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk).ok_or(CodecError::At(self.at))?;
        self.at += 8;
        Ok(*array)
    }

    fn number(&mut self) -> Result<u64, CodecError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            // Of the tenth byte one bit has room.
            if shift == 63 && part > 1 {
                break;
            }
            number |= part << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.wrong())
    }

    fn small(&mut self) -> Result<u32, CodecError> {
        u32::try_from(self.number()?).map_err(|_| self.wrong())
    }

    fn changed(&mut self, before: u64) -> Result<u64, CodecError> {
        let coded = self.number()?;
        let change = (coded >> 1).cast_signed() ^ -(coded & 1).cast_signed();
        Ok(before.wrapping_add(change.cast_unsigned()))
    }

    fn span(&mut self) -> Result<(u64, u64), CodecError> {
        let from = self.number()?;
        Ok((from, self.changed(from)?))
    }

    fn text(&mut self) -> Result<String, CodecError> {
        let length = usize::try_from(self.number()?).map_err(|_| self.wrong())?;
        let end = self.at.checked_add(length).ok_or_else(|| self.wrong())?;
        let bytes = self.bytes.get(self.at..end).ok_or_else(|| self.wrong())?;
        let text = str::from_utf8(bytes).map_err(|_| self.wrong())?.to_owned();
        self.at = end;
        Ok(text)
    }

    fn statements(&mut self) -> Result<Statements, CodecError> {
        let texts = self.list(In::text)?;
        let mut before_ns = 0;
        let executions = self.list(|from| {
            let (thread, text) = (from.small()?, from.small()?);
            let start_ns = from.changed(before_ns)?;
            before_ns = start_ns;
            Ok(StatementExecution { thread, text, start_ns, wall_ns: from.number()? })
        })?;
        if executions.iter().any(|execution| execution.text as usize >= texts.len()) {
            return Err(self.wrong());
        }
        Ok(Statements { texts, executions })
    }

    fn list<T>(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Result<T, CodecError>,
    ) -> Result<Vec<T>, CodecError> {
        let count = self.number()?;
        // Each takes a byte at least: what claims more than there is, is damaged.
        if count > (self.bytes.len() - self.at) as u64 {
            return Err(self.wrong());
        }
        (0..count).map(|_| each(self)).collect()
    }
}

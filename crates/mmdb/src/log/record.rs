//! Records: one changed slot each.
//!
//! ```text
//! kind u8 (0 difference, 1 after-image) | class u8 | table varint | container varint | slot varint
//! version after the change varint | length of the payload varint | payload
//! ```
//! The payload of a difference is `(zeros varint, bytes varint, that many bytes)*`: the XOR of the
//! slot's body before and after, without its runs of zeros. The payload of an after-image is meta
//! and row; zeros follow to the slot's end.

use crate::codec::{Reader, put_varint};
use crate::container::{LIVE, META, SLOT_HEAD, Slot, meta_of};

/// XOR of before and after, or the state after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Difference,
    After,
}

/// Where a record belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) class: u8,
    pub(crate) table: u32,
    pub(crate) container: u32,
    pub(crate) slot: u16,
    pub(crate) version: u64,
}

/// A record in a frame's body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) kind: Kind,
    pub(crate) target: Target,
    pub(crate) payload: &'a [u8],
}

/// A run of zeros shorter than this costs less inside its neighbours than as a run of its own,
/// bytes.
const MIN_RUN: usize = 4;

fn put_target(out: &mut Vec<u8>, kind: Kind, t: Target) {
    out.push(u8::from(kind == Kind::After));
    out.push(t.class);
    put_varint(out, t.table.into());
    put_varint(out, t.container.into());
    put_varint(out, t.slot.into());
    put_varint(out, t.version);
}

/// Appends a payload whose length is not known before: one length byte is enough nearly always.
fn put_payload(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend_from_slice(&[0, 0]);
    write(out);
    let n = out.len() - at - 2;
    if n < 1 << 14 {
        // A varint padded to two bytes.
        out[at] = (n & 0x7f) as u8 | 0x80;
        out[at + 1] = (n >> 7) as u8;
    } else {
        let payload = out.split_off(at + 2);
        out.truncate(at);
        put_varint(out, n as u64);
        out.extend_from_slice(&payload);
    }
}

/// Appends the record of `before` becoming the live row `row`, written in this generation.
#[inline]
pub(crate) fn put_write(
    out: &mut Vec<u8>,
    kind: Kind,
    target: Target,
    before: Slot<'_>,
    row: &[u8],
    generation: u16,
) {
    put_target(out, kind, target);
    let meta = meta_of(row.len(), generation).to_le_bytes();
    put_payload(out, |out| match kind {
        Kind::After => {
            out.extend_from_slice(&meta);
            out.extend_from_slice(row);
        }
        Kind::Difference => {
            let old = before.body();
            let n = before.len().max(row.len());
            let start = out.len();
            // XOR in place behind `start`, then pack: zip over slices vectorises.
            out.extend_from_slice(&meta);
            out.extend_from_slice(row);
            out.resize(start + META + n, 0);
            out[start..].iter_mut().zip(old).for_each(|(a, b)| *a ^= b);
            pack(out, start);
        }
    });
}

/// Appends the record of a delete. `scrub` also zeroes the row.
pub(crate) fn put_delete(out: &mut Vec<u8>, kind: Kind, target: Target, before: Slot<'_>, scrub: bool) {
    put_target(out, kind, target);
    put_payload(out, |out| match kind {
        Kind::After => out.extend_from_slice(&[0; META]),
        Kind::Difference if scrub => {
            let start = out.len();
            out.extend_from_slice(&before.body()[..META + before.len()]);
            pack(out, start);
        }
        Kind::Difference => {
            // Only the flag byte changes.
            put_varint(out, 3);
            put_varint(out, 1);
            out.push((LIVE >> 24) as u8);
        }
    });
}

/// Most bytes of a record that changes `changed` bytes of a row. Each of the head's numbers is as
/// long as it can be. A run of zeros is left out where it saves at least [`MIN_RUN`] bytes, which
/// is as much as the two numbers in its place take; only the first two numbers of a payload save
/// nothing.
pub(crate) fn most(changed: usize) -> usize {
    const HEAD: usize = 2 + 5 + 5 + 3 + 10 + 3;
    const FIRST: usize = 2 * 3;
    HEAD + FIRST + META + changed
}

fn is_zero_run(b: &[u8], at: usize) -> bool {
    b.get(at..at + MIN_RUN).is_some_and(|s| s == [0; MIN_RUN])
}

/// Packs the raw difference that stands from `start` to the end of `out`, in place of it.
fn pack(out: &mut Vec<u8>, start: usize) {
    let end = out.len();
    let mut at = start;
    while at < end {
        let mut lit = at;
        while lit + 8 <= end && out[lit..lit + 8] == [0; 8] {
            lit += 8;
        }
        while lit < end && out[lit] == 0 {
            lit += 1;
        }
        if lit == end {
            break;
        }
        let mut stop = lit + 1;
        while stop < end && !(out[stop] == 0 && is_zero_run(&out[..end], stop)) {
            stop += 1;
        }
        // Zeros at the very end need no bytes.
        if stop == end {
            while out[stop - 1] == 0 {
                stop -= 1;
            }
        }
        put_varint(out, (lit - at) as u64);
        put_varint(out, (stop - lit) as u64);
        out.extend_from_within(lit..stop);
        at = stop;
    }
    out.drain(start..end);
}

/// XORs a packed difference into a slot's body. False, with the body unspecified, if it does not
/// fit.
#[must_use]
pub(crate) fn apply_difference(body: &mut [u8], payload: &[u8]) -> bool {
    let mut r = Reader::new(payload);
    let mut at = 0usize;
    while !r.is_empty() {
        let (Some(skip), Some(bytes)) = (r.varint(), r.bytes()) else { return false };
        let Some(start) = usize::try_from(skip).ok().and_then(|s| at.checked_add(s)) else { return false };
        let Some(part) = start.checked_add(bytes.len()).and_then(|end| body.get_mut(start..end)) else {
            return false;
        };
        part.iter_mut().zip(bytes).for_each(|(a, b)| *a ^= b);
        at = start + bytes.len();
    }
    true
}

/// Replaces a slot's body by an after-image. False if it does not fit.
#[must_use]
pub(crate) fn apply_after(body: &mut [u8], payload: &[u8]) -> bool {
    if payload.len() < META || payload.len() > body.len() {
        return false;
    }
    let (head, tail) = body.split_at_mut(payload.len());
    head.copy_from_slice(payload);
    tail.fill(0);
    true
}

/// Reads the next record; `None` if the bytes are not one.
#[inline]
pub(crate) fn next<'a>(r: &mut Reader<'a>) -> Option<Record<'a>> {
    let kind = match r.u8()? {
        0 => Kind::Difference,
        1 => Kind::After,
        _ => return None,
    };
    let class = r.u8()?;
    let table = u32::try_from(r.varint()?).ok()?;
    let container = u32::try_from(r.varint()?).ok()?;
    let slot = u16::try_from(r.varint()?).ok()?;
    let version = r.varint()?;
    let payload = r.bytes()?;
    Some(Record { kind, target: Target { class, table, container, slot, version }, payload })
}

/// True if the slot is whole after recovery: its length fits and zeros follow the row.
pub(crate) fn is_canonical(slot: &[u8]) -> bool {
    let len = (Slot(slot).meta() & 0xffff) as usize;
    SLOT_HEAD + len <= slot.len() && slot[SLOT_HEAD + len..].iter().all(|&b| b == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::{BODY, clear_slot, write_slot};
    use proptest::prelude::*;

    #[test]
    fn no_record_is_larger_than_the_bound_says() {
        let target =
            Target { class: 23, table: u32::MAX, container: u32::MAX, slot: u16::MAX, version: u64::MAX };
        // Every pattern of zeros and others in runs of all lengths near those that matter.
        for (zeros, others) in
            (0..9).flat_map(|z| (1..9).map(move |o| (z, o))).chain([(200, 200), (17_000, 20_000)])
        {
            for len in [0, 1, 5, 200, 5000, 65_000] {
                let row: Vec<u8> = (0..len).map(|i| u8::from(i % (zeros + others) >= zeros)).collect();
                let before = vec![0; SLOT_HEAD + len];
                for kind in [Kind::Difference, Kind::After] {
                    let mut out = Vec::new();
                    put_write(&mut out, kind, target, Slot(&before), &row, 0);
                    assert!(out.len() <= most(len), "{kind:?} {zeros} {others} {len}: {}", out.len());
                }
            }
        }
    }

    #[derive(Clone, Debug)]
    enum Step {
        Write(Vec<u8>),
        Delete(bool),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let row = proptest::collection::vec(prop_oneof![Just(0u8), 0u8..4], 0..100);
        let step = prop_oneof![3 => row.prop_map(Step::Write), 1 => any::<bool>().prop_map(Step::Delete)];
        proptest::collection::vec(step, 1..20)
    }

    proptest! {
        /// The log's effect on a slot equals the engine's, in both kinds; differences in any order.
        #[test]
        fn replaying_records_gives_the_same_slot(steps in steps(), after: bool, shuffle: u64) {
            let kind = if after { Kind::After } else { Kind::Difference };
            let mut live = vec![0u8; 128];
            let mut log = Vec::new();
            let mut starts = Vec::new();
            for s in &steps {
                let version = Slot(&live).version() + 1;
                let t = Target { class: 5, table: 300, container: 2, slot: 9, version };
                starts.push(log.len());
                match s {
                    Step::Write(row) => {
                        put_write(&mut log, kind, t, Slot(&live), row, row.len() as u16 % 3);
                        write_slot(&mut live, row, row.len() as u16 % 3);
                    }
                    Step::Delete(scrub) => {
                        if !Slot(&live).is_live() {
                            starts.pop();
                            continue;
                        }
                        let scrub = *scrub || after;
                        put_delete(&mut log, kind, t, Slot(&live), scrub);
                        clear_slot(&mut live, scrub);
                    }
                }
                prop_assert!(is_canonical(&live));
            }
            let mut body = vec![0u8; 128 - BODY];
            if !after {
                // XOR commutes: rotate the order.
                let n = starts.len().max(1);
                starts.rotate_left((shuffle as usize) % n);
            }
            for at in starts {
                let r = next(&mut Reader::new(&log[at..])).unwrap();
                prop_assert_eq!(r.kind, kind);
                let fits = match kind {
                    Kind::Difference => apply_difference(&mut body, r.payload),
                    Kind::After => apply_after(&mut body, r.payload),
                };
                prop_assert!(fits);
            }
            prop_assert_eq!(&body[..], &live[BODY..]);
        }

        #[test]
        fn no_payload_makes_apply_panic(payload: Vec<u8>) {
            let mut body = [0; 24];
            let _ = apply_difference(&mut body, &payload);
            let _ = apply_after(&mut body, &payload);
            let mut r = Reader::new(&payload);
            while next(&mut r).is_some() {}
        }
    }

    #[test]
    fn a_small_change_of_a_large_row_is_a_small_record() {
        let mut s = vec![0u8; 1024];
        write_slot(&mut s, &[5; 900], 0);
        let mut row = vec![5; 900];
        row[700] = 6;
        let t = Target { class: 14, table: 1, container: 1, slot: 1, version: 2 };
        let mut out = Vec::new();
        put_write(&mut out, Kind::Difference, t, Slot(&s), &row, 0);
        assert!(out.len() < 16, "{}", out.len());
    }
}

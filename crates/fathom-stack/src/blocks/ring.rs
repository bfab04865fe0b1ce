//! Pages of the kernel's trace buffer, as `trace_pipe_raw` gives them (`events/header_page`,
//! `events/header_event`, and <https://docs.kernel.org/trace/ring-buffer-design.html>).
//!
//! A page begins with a time stamp and the number of bytes used; records follow, each with a header
//! of 32 bits: 5 bits type or length, 27 bits time since the record before.

/// Bytes of a page's header on a 64-bit kernel: time stamp and commit.
const HEADER_BYTES: usize = 16;
/// Of the commit word, the bytes used; above are marks for events that were missed (which the
/// statistics count).
const USED_MASK: u64 = 0x0fff_ffff;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;

/// Hands each record of a page, with its time (ns on the trace's clock), to `each`. A damaged page
/// ends the reading of that page.
pub(super) fn records(page: &[u8], mut each: impl FnMut(u64, &[u8])) {
    let Some((header, rest)) = page.split_at_checked(HEADER_BYTES) else { return };
    let page_ns = word64(header, 0);
    let used = usize::try_from(word64(header, 8) & USED_MASK).unwrap_or(0);
    let mut data = rest.get(..used).unwrap_or(rest);
    let mut at_ns = page_ns;
    while let Some((header, after)) = data.split_first_chunk::<4>() {
        let header = u32::from_ne_bytes(*header);
        // Bit fields lie from the low end on little-endian machines, from the high end on
        // big-endian ones.
        let (kind, delta) = if cfg!(target_endian = "big") {
            (header >> 27, u64::from(header & 0x07ff_ffff))
        } else {
            (header & 0x1f, u64::from(header >> 5))
        };
        let (skip, payload) = match kind {
            PADDING if delta == 0 => return,
            PADDING => {
                // A record that was discarded: only its time counts.
                at_ns = at_ns.wrapping_add(delta);
                (array(after), None)
            }
            TIME_EXTEND => {
                at_ns = at_ns.wrapping_add(delta + (u64::from(array(after)) << 27));
                (4, None)
            }
            TIME_STAMP => {
                // 59 bits of an absolute time; the rest is that of the page.
                let low = delta + (u64::from(array(after)) << 27);
                at_ns = (page_ns & (0x1f << 59)) | low;
                (4, None)
            }
            0 => {
                let length = array(after);
                (length.checked_next_multiple_of(4).unwrap_or(u32::MAX), Some((4, length)))
            }
            words => (words * 4, Some((0, words * 4))),
        };
        if let Some((begin, end)) = payload {
            at_ns = at_ns.wrapping_add(delta);
            let Some(record) = after.get(begin..end as usize) else { return };
            each(at_ns, record);
        }
        let Some(next) = after.get(skip as usize..) else { return };
        data = next;
    }
}

/// The word behind a record's header; 0 where there is none.
fn array(after: &[u8]) -> u32 {
    after.first_chunk::<4>().map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(|field| field.first_chunk::<8>()).map_or(0, |field| u64::from_ne_bytes(*field))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: u32, delta: u32) -> [u8; 4] {
        let word = if cfg!(target_endian = "big") { kind << 27 | delta } else { kind | delta << 5 };
        word.to_ne_bytes()
    }

    fn page(at_ns: u64, data: &[u8]) -> Vec<u8> {
        let mut page = at_ns.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | 1 << 31).to_ne_bytes());
        page.extend(data);
        page.resize(4096, 0xee);
        page
    }

    fn read(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut all = Vec::new();
        records(page, |at, record| all.push((at, record.to_vec())));
        all
    }

    #[test]
    fn records_of_every_kind_are_read() {
        let mut data = Vec::new();
        data.extend(header(2, 5)); // eight bytes
        data.extend([1; 8]);
        data.extend(header(TIME_EXTEND, 3));
        data.extend(1_u32.to_ne_bytes()); // + 2^27 + 3
        data.extend(header(0, 7)); // long form: 4 + 5 bytes, padded to 4
        data.extend(9_u32.to_ne_bytes());
        data.extend([2, 2, 2, 2, 2, 0, 0, 0]);
        data.extend(header(PADDING, 1)); // a discarded record
        data.extend(8_u32.to_ne_bytes());
        data.extend([0xdd; 4]);
        data.extend(header(TIME_STAMP, 11));
        data.extend(0_u32.to_ne_bytes());
        data.extend(header(1, 1));
        data.extend([3; 4]);
        data.extend(header(PADDING, 0)); // the rest is empty
        data.extend(header(1, 1));
        let extended = 1000 + 5 + (1 << 27) + 3 + 7; // the time stamp below starts anew
        assert_eq!(read(&page(1000, &data)), [(1005, vec![1; 8]), (extended, vec![2; 5]), (12, vec![3; 4])]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            for (_, record) in read(&bytes) {
                prop_assert!(record.len() <= bytes.len());
            }
        }
    }
}

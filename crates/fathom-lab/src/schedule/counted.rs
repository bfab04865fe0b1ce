//! A block trace against what the modelled device itself has counted meanwhile.
//!
//! Two instruments that know nothing of each other: the kernel's block layer (of this machine or of the guest) tells of requests
//! before they leave it, and the device's server counts what arrives. Bytes and flushes must be the same. Numbers of reads and writes
//! need not, because what lies between them may cut a request into several.

use fathom_stack::blocks::{BlockOp, Request};
use fathom_stack::device::Statistics;

/// What both can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    read_bytes: u64,
    written_bytes: u64,
    flushes: u64,
}

/// One sentence, without its full stop, on whether the device of this number (0 the file system's, 1 its external log's) counted what was
/// traced on it. `requests` are those to all devices.
pub(super) fn remark<'a>(
    requests: impl Iterator<Item = &'a Request>,
    number: u8,
    device: &Statistics,
) -> String {
    let mut traced = Counted::default();
    for request in requests.filter(|it| it.device == number) {
        match request.op {
            BlockOp::Read => traced.read_bytes += request.bytes(),
            BlockOp::Write => traced.written_bytes += request.bytes(),
            BlockOp::Flush => traced.flushes += 1,
            BlockOp::Discard | BlockOp::Other => {}
        }
    }
    let [read_bytes, written_bytes, ..] = device.bytes;
    let counted = Counted { read_bytes, written_bytes, flushes: device.operations[2] };
    let told = |it: Counted| {
        format!("{} bytes read, {} written, {} flushes", it.read_bytes, it.written_bytes, it.flushes)
    };
    let name = if number == 0 { "modelled device" } else { "modelled log device" };
    if traced == counted {
        format!("the {name} counted the same as this trace: {}", told(counted))
    } else {
        format!("the {name} counted {}, and this trace {}", told(counted), told(traced))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(device: u8, op: BlockOp, sectors: u32) -> Request {
        Request {
            device,
            op,
            fua: false,
            sync: false,
            meta: false,
            ahead: false,
            submit_ns: 0,
            issue_ns: 0,
            complete_ns: 0,
            sector: 0,
            sectors,
            error: 0,
        }
    }

    #[test]
    fn what_agrees_and_what_differs_is_told_with_both_numbers() {
        let requests = [
            request(0, BlockOp::Write, 8),
            request(0, BlockOp::Write, 1),
            request(0, BlockOp::Flush, 0),
            request(0, BlockOp::Read, 2),
            // Another device, and operations that the model need not see.
            request(1, BlockOp::Write, 100),
            request(0, BlockOp::Discard, 100),
        ];
        let mut device =
            Statistics { operations: [2, 3, 1, 0], bytes: [1024, 4608, 0, 0], ..Statistics::default() };
        let same = remark(requests.iter(), 0, &device);
        assert!(
            same.contains("the same") && same.contains("1024 bytes read, 4608 written, 1 flushes"),
            "{same}"
        );
        device.operations[2] = 2;
        let other = remark(requests.iter(), 0, &device);
        assert!(!other.contains("the same"), "{other}");
        assert!(
            other.contains("4608 written, 2 flushes") && other.contains("4608 written, 1 flushes"),
            "{other}"
        );
    }
}

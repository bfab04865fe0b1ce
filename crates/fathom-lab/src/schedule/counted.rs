//! A block trace against what the modelled device itself has counted meanwhile.
//!
//! Two instruments that know nothing of each other: the kernel's block layer (of this machine or of
//! the guest) tells of requests before they leave it, and the device's server counts what arrives.
//! Bytes and flushes must be the same. Numbers of reads and writes need not, because what lies
//! between them may cut a request into several.

use fathom_device::Statistics;
use fathom_stack::blocks::{BlockOp, Request};
use std::fmt;

/// What both can tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counted {
    read_bytes: u64,
    written_bytes: u64,
    flushes: u64,
}

impl Counted {
    fn between(before: &Statistics, after: &Statistics) -> Counted {
        let since = after.since(before);
        let [read_bytes, written_bytes, ..] = since.bytes;
        Counted { read_bytes, written_bytes, flushes: since.operations[2] }
    }

    fn is_between(&self, least: Counted, most: Counted) -> bool {
        (least.read_bytes..=most.read_bytes).contains(&self.read_bytes)
            && (least.written_bytes..=most.written_bytes).contains(&self.written_bytes)
            && (least.flushes..=most.flushes).contains(&self.flushes)
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes read, {} written, {} flushes", self.read_bytes, self.written_bytes, self.flushes)
    }
}

/// What a stack's modelled devices had counted right before and right after a moment.
///
/// The device cannot be asked in the same moment in which a trace begins or ends, and a file system
/// may write on its own account meanwhile.
#[derive(Clone, Debug, Default)]
pub(super) struct DeviceCounts {
    pub before: Vec<Statistics>,
    pub after: Vec<Statistics>,
}

/// One sentence, without its full stop, for each device (number 0 the file system's, 1 its external
/// log's), on whether it counted what was traced on it. `requests` are those to all devices;
/// `begun` and `ended` lie around the trace's two ends.
pub(super) fn remarks<'a>(
    requests: impl Iterator<Item = &'a Request> + Clone,
    begun: &DeviceCounts,
    ended: &DeviceCounts,
) -> Vec<String> {
    let ends = begun.before.iter().zip(&begun.after).zip(ended.before.iter().zip(&ended.after));
    let each = (0..).zip(ends).map(|(number, ((first, second), (third, fourth)))| {
        let traced = requests.clone().filter(|request| request.device == number);
        remark(number, traced, Counted::between(second, third), Counted::between(first, fourth))
    });
    each.collect()
}

fn remark<'a>(
    number: u8,
    requests: impl Iterator<Item = &'a Request>,
    least: Counted,
    most: Counted,
) -> String {
    let mut traced = Counted::default();
    for request in requests {
        match request.op {
            BlockOp::Read => traced.read_bytes += request.bytes(),
            BlockOp::Write => traced.written_bytes += request.bytes(),
            BlockOp::Flush => traced.flushes += 1,
            BlockOp::Discard | BlockOp::Other => {}
        }
    }
    let name = if number == 0 { "modelled device" } else { "modelled log device" };
    if traced == most {
        format!("the {name} counted the same as this trace: {traced}")
    } else if traced.is_between(least, most) {
        format!(
            "the {name} counted the same as this trace: {traced}; what reached it just while the trace began or ended is not in it \
             (with that: {most})"
        )
    } else if least == most {
        format!("the {name} counted {most}, and this trace {traced}")
    } else {
        format!(
            "the {name} counted {least}, with what reached it while the trace began or ended {most}, and this trace {traced}"
        )
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
        let at = |operations, bytes| vec![Statistics { operations, bytes, ..Statistics::default() }];
        let exactly =
            |operations, bytes| DeviceCounts { before: at(operations, bytes), after: at(operations, bytes) };
        let begun = exactly([1, 1, 1, 0], [512, 512, 0, 0]);
        let told = |begun: &DeviceCounts, ended: &DeviceCounts| {
            let [one] = remarks(requests.iter(), begun, ended).try_into().unwrap();
            one
        };
        let same = told(&begun, &exactly([3, 4, 2, 0], [1536, 5120, 0, 0]));
        assert_eq!(
            same,
            "the modelled device counted the same as this trace: 1024 bytes read, 4608 written, 1 flushes"
        );
        let other = told(&begun, &exactly([3, 4, 3, 0], [1536, 5120, 0, 0]));
        assert_eq!(
            other,
            "the modelled device counted 1024 bytes read, 4608 written, 2 flushes, \
             and this trace 1024 bytes read, 4608 written, 1 flushes"
        );
        // A flush that came between the two questions at the end may be in the trace or not; one
        // that came before them must be.
        for flushes in [0, 1] {
            let ended = DeviceCounts {
                before: at([3, 4, 1 + flushes, 0], [1536, 5120, 0, 0]),
                after: at([3, 4, 3, 0], [1536, 5120, 0, 0]),
            };
            let near = told(&begun, &ended);
            assert!(
                near.contains("the same as this trace") && near.contains("4608 written, 2 flushes"),
                "{near}"
            );
        }
        let ended = DeviceCounts {
            before: at([3, 4, 3, 0], [1536, 5120, 0, 0]),
            after: at([3, 4, 4, 0], [1536, 5120, 0, 0]),
        };
        let lost = told(&begun, &ended);
        assert!(
            !lost.contains("the same") && lost.contains("1 flushes") && lost.contains("3 flushes"),
            "{lost}"
        );
        let late = DeviceCounts { before: begun.before.clone(), after: at([1, 1, 2, 0], [512, 512, 0, 0]) };
        let near = told(&late, &exactly([3, 4, 3, 0], [1536, 5120, 0, 0]));
        assert!(near.contains("the same as this trace"), "{near}");
    }
}

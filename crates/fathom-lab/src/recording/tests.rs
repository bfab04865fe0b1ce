//! A recording comes back as it was, and damaged bytes are told, not believed.

use proptest::prelude::*;

use super::*;
use fathom_workload::sample::LaneSpan;

fn served() -> impl Strategy<Value = RequestTimes> {
    (0_u8..4, any::<u32>(), any::<[u64; 5]>()).prop_map(|(kind, bytes, times)| RequestTimes {
        kind,
        bytes,
        arrival_ns: times[0],
        asked_ns: times[1],
        given_ns: times[2],
        early_ns: times[3],
        offset: times[4],
    })
}

fn window() -> impl Strategy<Value = Window> {
    let lane = (any::<u32>(), prop::collection::vec(any::<u32>(), 0..3), any::<[u64; 2]>())
        .prop_map(|(thread, marked, [start_ns, end_ns])| LaneSpan { thread, marked, start_ns, end_ns });
    let excluded = prop::collection::vec(any::<(u64, u64)>(), 0..3);
    let lanes = prop::collection::vec(lane, 0..3);
    ("[a-z ä]{0,9}", prop::option::of(-1e9..1e9), any::<[u64; 4]>(), lanes, excluded).prop_map(
        |(phase, x, [start_ns, end_ns, count, changed_bytes], lanes, excluded)| Window {
            phase,
            x,
            start_ns,
            end_ns,
            count,
            changed_bytes,
            lanes,
            excluded,
        },
    )
}

fn recording() -> impl Strategy<Value = Recording> {
    let mark = any::<(u32, u64, u64, u64, u64)>().prop_map(Mark::from);
    let threads = prop::collection::btree_map(any::<u32>(), prop::collection::vec(mark, 0..5), 0..3)
        .prop_map(|threads| {
            let own = |(number, marks): (u32, Vec<Mark>)| {
                (number, marks.into_iter().map(|mark| Mark { thread: number, ..mark }).collect())
            };
            threads.into_iter().map(own).collect::<BTreeMap<u32, Vec<Mark>>>()
        });
    let devices = prop::collection::vec(prop::collection::vec(served(), 0..6), 0..3);
    let executions = prop::collection::vec(any::<(u32, u64, u64)>(), 0..6);
    (prop::collection::vec(window(), 1..3), executions, threads, devices).prop_map(
        |(windows, executions, threads, served)| {
            let execution = |(lane, start_ns, wall_ns)| Execution { window: 0, lane, start_ns, wall_ns };
            let executions = executions.into_iter().map(execution).collect();
            Recording { windows, executions, threads, served }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn a_recording_comes_back_and_no_beginning_of_it_does(recording in recording(), cut in any::<u16>()) {
        let bytes = recording.encode();
        prop_assert_eq!(&Recording::decode(&bytes), &Ok(recording));
        let cut = usize::from(cut) % bytes.len();
        prop_assert!(Recording::decode(&bytes[..cut]).is_err(), "cut at {}", cut);
        let longer = [&bytes[..], &[0]].concat();
        prop_assert_eq!(Recording::decode(&longer), Err(CodecError::At(bytes.len())));
    }

    #[test]
    fn damaged_bytes_are_an_error_or_another_recording_and_never_a_panic(
        recording in recording(), at in any::<u16>(), flip in 1_u8..=255,
    ) {
        let mut bytes = recording.encode();
        let at = usize::from(at) % bytes.len();
        bytes[at] ^= flip;
        let _ = Recording::decode(&bytes);
    }
}

#[test]
fn a_count_that_cannot_be_asks_for_no_memory() {
    let bytes = [1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    assert_eq!(Recording::decode(&bytes), Err(CodecError::At(bytes.len())));
    assert_eq!(Recording::decode(&[9]), Err(CodecError::Later(9)));
    assert_eq!(Recording::decode(&[]), Err(CodecError::At(0)));
}

#[test]
fn a_device_that_kept_not_all_makes_no_recording() {
    let full = vec![RequestTimes::default(); SERVED_MAX];
    assert_eq!(Recording::of_run(&[], &[], None, &[full]), None);
}

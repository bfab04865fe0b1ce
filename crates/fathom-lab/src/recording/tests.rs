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
    let mark = any::<(u32, u64, u64, u64, u64, u8)>().prop_map(Mark::from);
    let execution = (any::<u32>(), 0_u32..2, any::<u64>(), any::<u64>()).prop_map(StatementExecution::from);
    let texts = || vec!["BEGIN".to_owned(), "INSERT INTO größe VALUES (?)".to_owned()];
    let statements = prop::collection::vec(execution, 0..5)
        .prop_map(move |executions| Statements { texts: texts(), executions });
    let threads = prop::collection::btree_map(any::<u32>(), prop::collection::vec(mark, 0..5), 0..3)
        .prop_map(|threads| {
            let own = |(number, marks): (u32, Vec<Mark>)| {
                (number, marks.into_iter().map(|mark| Mark { thread: number, ..mark }).collect())
            };
            threads.into_iter().map(own).collect::<BTreeMap<u32, Vec<Mark>>>()
        });
    let devices = prop::collection::vec(prop::collection::vec(served(), 0..6), 0..3);
    let executions = prop::collection::vec(any::<(u32, u64, u64)>(), 0..6);
    (prop::collection::vec(window(), 1..3), executions, threads, devices, statements).prop_map(
        |(windows, executions, threads, served, statements)| {
            let execution = |(lane, start_ns, wall_ns)| Execution { window: 0, lane, start_ns, wall_ns };
            let executions = executions.into_iter().map(execution).collect();
            Recording { windows, executions, threads, served, statements }
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
    assert_eq!(Recording::of_run(&[], &[], None, &Statements::default(), &[full]), None);
}

/// Recordings that were made before calls and statements were told stay readable.
#[test]
fn a_recording_of_format_1_is_read() {
    #[rustfmt::skip]
    let bytes = [
        1, // the format
        1, 1, b'p', 0, 10, 40, 1, 0, 0, 0, // a window "p" from 10 to 30, one execution
        1, 0, 0, 20, 5, // an execution at 10 that took 5
        1, 3, 1, 24, 2, 8, 0, // a mark of thread 3 at 12, of a call of 2, CPU 4
        0, // no device
    ];
    let read = Recording::decode(&bytes).unwrap();
    let mark = Mark { thread: 3, at_ns: 12, call_ns: 2, cpu_ns: 4, queue_ns: 0, call: None };
    assert_eq!((read.threads[&3].as_slice(), read.windows[0].end_ns), (&[mark][..], 30));
    assert_eq!(read.statements, Statements::default());
}

#[test]
fn of_the_statements_those_within_a_phase_are_kept_with_their_texts() {
    let execution = |text, start_ns| StatementExecution { thread: 0, text, start_ns, wall_ns: 1 };
    let statements = Statements {
        texts: ["CREATE", "BEGIN", "COMMIT"].map(str::to_owned).to_vec(),
        executions: vec![execution(0, 5), execution(2, 25), execution(1, 15), execution(2, 30)],
    };
    let window = Window {
        phase: "p".into(),
        x: None,
        start_ns: 10,
        end_ns: 30,
        count: 1,
        changed_bytes: 0,
        lanes: Vec::new(),
        excluded: Vec::new(),
    };
    let kept = Recording::of_run(&[window], &[], None, &statements, &[]).unwrap().statements;
    assert_eq!(kept.texts, ["COMMIT", "BEGIN"]);
    assert_eq!(kept.executions, [execution(1, 15), execution(0, 25)]);
}

//! Timelines whose model time is known by hand. Times are µs in the helpers, so that a case can be
//! read.

use fathom_probe::Split;

use super::*;

const US: u64 = 1000;

/// A mark of thread 0 in a story: the threads' clocks go on as it says.
struct Thread {
    number: u32,
    at: u64,
    cpu: u64,
    queue: u64,
    marks: Vec<Mark>,
}

impl Thread {
    fn at(number: u32, at: u64) -> Thread {
        let mut thread = Thread { number, at, cpu: 7, queue: 3, marks: Vec::new() };
        thread.mark(0);
        thread
    }

    fn mark(&mut self, call: u64) {
        self.marks.push(Mark {
            thread: self.number,
            at_ns: self.at * US,
            call_ns: call * US,
            cpu_ns: self.cpu * US,
            queue_ns: self.queue * US,
            call: None,
        });
    }

    /// Outside of calls: it slept, waited for a processor, ran.
    fn gap(&mut self, slept: u64, ready: u64, ran: u64) -> &mut Thread {
        self.at += slept + ready + ran;
        self.queue += ready;
        self.cpu += ran;
        self
    }

    /// A call on a file of so long, in which it ran for so long.
    fn call(&mut self, long: u64, ran: u64) -> &mut Thread {
        self.at += long;
        self.cpu += ran;
        self.mark(long);
        self
    }

    fn end(&mut self) -> &mut Thread {
        self.mark(0);
        self
    }
}

/// A flush that came at `arrival`, was to take `asked` and took `given`, its answer begun `early`
/// earlier.
fn flush(arrival: u64, asked: u64, given: u64, early: u64) -> RequestTimes {
    RequestTimes {
        kind: 2,
        bytes: 0,
        arrival_ns: arrival * US,
        asked_ns: (arrival + asked) * US,
        given_ns: (arrival + given) * US,
        early_ns: early * US,
        offset: 0,
    }
}

fn window(from: u64, to: u64, lanes: u32) -> Window {
    let lane = |thread| LaneSpan { thread, marked: vec![thread], start_ns: from * US, end_ns: to * US };
    Window {
        phase: "insert".into(),
        x: None,
        start_ns: from * US,
        end_ns: to * US,
        count: 1,
        changed_bytes: 0,
        lanes: (0..lanes).map(lane).collect(),
        excluded: Vec::new(),
    }
}

fn sample(thread: u32, from: u64, to: u64) -> Sample {
    let split = Split { wall_ns: (to - from) * US, ..Split::default() };
    let (phase, start_ns) = ("insert".into(), from * US);
    Sample { phase, x: None, seq: 0, thread, rows: 1, split, database: None, start_ns }
}

fn model(window: &Window, samples: &[Sample], threads: &[&Thread], served: &[RequestTimes]) -> PhaseModel {
    let marks = threads.iter().flat_map(|thread| thread.marks.clone()).collect();
    let marks = Marks { marks, lost: 0, knows_queue: true };
    phase_models(std::slice::from_ref(window), samples, Some(&marks), &[served.to_vec()]).remove(0)
}

#[test]
fn each_execution_has_its_own_model_time_where_its_begin_is_told() {
    let mut thread = Thread::at(0, 100);
    thread.gap(0, 0, 20).mark(0);
    let samples = [sample(0, 100, 110), Sample { start_ns: 0, ..sample(0, 110, 120) }];
    let marks = Marks { marks: thread.marks.clone(), lost: 0, knows_queue: true };
    let (models, each) = models_of_run(&[window(100, 120, 1)], &samples, Some(&marks), &[]);
    assert_eq!((models.len(), each), (1, vec![Some(10 * US), None]));
    // Another phase's window holds none of them.
    let other = Window { phase: "other".into(), ..window(100, 120, 1) };
    assert_eq!(models_of_run(&[other], &samples, Some(&marks), &[]).1, [None, None]);
}

/// Seen live: of sixteen commits that synced nothing, on a busy machine, fifteen had no model time
/// at all, and the median of the run was 0 ns. Their thread had been kept from its processor in the
/// sixteenth, and that was taken off the first.
#[test]
fn waiting_for_a_processor_is_taken_off_the_executions_that_took_longest() {
    let each_of = |ready: u64, ran: u64, spans: &[(u64, u64)]| {
        let mut thread = Thread::at(0, 100);
        thread.gap(0, ready, ran).end();
        let samples: Vec<Sample> = spans.iter().map(|(from, to)| sample(0, *from, *to)).collect();
        let marks = Marks { marks: thread.marks, lost: 0, knows_queue: true };
        let window = window(100, 100 + ready + ran, 1);
        let (models, each) = models_of_run(&[window], &samples, Some(&marks), &[]);
        assert_eq!(parts(&models[0]), [ready + ran, ran, ran, 0, 0]);
        each.into_iter().map(|ns| ns.unwrap() / US).collect::<Vec<_>>()
    };
    // 2000 in the third of five that take 30 each.
    let spans = [(100, 130), (130, 160), (160, 2190), (2190, 2220), (2220, 2250)];
    assert_eq!(each_of(2000, 150, &spans), [30, 30, 30, 30, 30]);
    // 2000 in two of three, and 5 between them.
    assert_eq!(each_of(2000, 105, &[(100, 130), (135, 1165), (1165, 2205)]), [30, 35, 35]);
    // What lies within an execution is as long as it was.
    assert_eq!(each_of(1000, 60, &[(100, 130), (130, 1160), (102, 112)]), [30, 30, 10]);
}

/// Wall, model, CPU, device, other, µs.
fn parts(model: &PhaseModel) -> [u64; 5] {
    [model.wall_ns, model.model_ns, model.cpu_ns, model.device_ns, model.other_ns].map(|ns| ns / US)
}

#[test]
fn on_a_quiet_machine_it_is_the_wall_time() {
    // 200 of computing, and a sync of 1030: 30 of computing in it, and a flush of 1000 whose way
    // there takes 20, and back 40, by which its answer is begun earlier.
    let mut thread = Thread::at(0, 1000);
    thread.gap(0, 0, 200).call(1030, 30).gap(0, 0, 100).end();
    let found =
        model(&window(1000, 2330, 1), &[sample(0, 1000, 2230)], &[&thread], &[flush(1250, 1000, 1000, 60)]);
    assert_eq!(parts(&found), [1330, 1330, 330, 1000, 0]);
    assert_eq!((found.each_ns / 1e3, found.latency_ns[1] / US, found.basis), (1230.0, 1230, Basis::Threads));
    assert_eq!((found.operations, found.busy_model_ns / US), ([0, 0, 1, 0], 1000));
}

#[test]
fn waiting_for_a_processor_and_a_late_answer_are_left_out() {
    // As above, but it waits 5000 for a processor before it computes, the request 3000 for the
    // device's server, and the answer is 4000 late.
    let mut thread = Thread::at(0, 1000);
    thread.gap(0, 5000, 200).call(1030 + 3000 + 4000, 30).gap(0, 700, 100).end();
    let end = 1000 + 5200 + 8030 + 800;
    let served = [flush(6250 + 3000, 1000, 5000, 60)];
    let found = model(&window(1000, end, 1), &[sample(0, 1000, end - 800)], &[&thread], &served);
    assert_eq!(parts(&found), [1330 + 12_700, 1330, 330, 1000, 0]);
    assert_eq!(found.each_ns / 1e3, 1230.0);
    assert_eq!((found.busy_measured_ns / US, found.held_ns() / US), (5000, 12_700));
}

#[test]
fn a_lock_and_a_timer_count_as_they_were_waited_for() {
    // SQLite's sleep between two attempts to get a lock, within which the scheduler's count grows
    // by what the wake-up took.
    let mut thread = Thread::at(0, 0);
    thread.gap(2000, 150, 50).end();
    let found = model(&window(0, 2200, 1), &[sample(0, 0, 2200)], &[&thread], &[]);
    assert_eq!(parts(&found), [2200, 2050, 50, 0, 2000]);
}

#[test]
fn what_the_device_does_while_the_thread_computes_is_counted_once_and_what_nobody_waits_for_not_at_all() {
    // Written back while the thread computes for 3000, then is kept from its processor for 2000; of
    // a second write 500 are left when it waits for a flush, which the device begins when it has
    // done them.
    let mut thread = Thread::at(0, 0);
    thread.gap(0, 2000, 3000).call(1500, 0).end();
    let served = [flush(1000, 3000, 3000, 0), flush(4500, 1000, 1000, 0), flush(5000, 1500, 1500, 0)];
    let found = model(&window(0, 6500, 1), &[sample(0, 0, 6500)], &[&thread], &served);
    assert_eq!(parts(&found), [6500, 4500, 3000, 1500, 0]);
    assert_eq!(found.busy_model_ns / US, 3000 + 2000);
}

#[test]
fn several_requests_of_one_call_are_the_time_in_which_any_was_under_way() {
    // Eight writes at once on two channels, then a flush, in one sync: 4 x 250 and 500, with 40 of
    // the file system's between.
    let mut thread = Thread::at(0, 0);
    thread.call(1540, 0).end();
    let mut served: Vec<_> =
        (1..=8).map(|number| flush(0, number / 2 * 250 + number % 2 * 250, 1000, 0)).collect();
    served.push(flush(1040, 500, 500, 0));
    let found = model(&window(0, 1540, 1), &[sample(0, 0, 1540)], &[&thread], &served);
    assert_eq!(parts(&found), [1540, 1500, 0, 1500, 0]);
}

#[test]
fn threads_that_wait_for_one_flush_wait_once() {
    // Four threads compute for 100 and wait for the same flush of 2000, which comes 900 late to
    // all.
    let mut threads: Vec<Thread> = (0..4).map(|number| Thread::at(number, 0)).collect();
    for thread in &mut threads {
        thread.gap(0, 0, 100).call(2900, 0).end();
    }
    let samples: Vec<_> = (0..4).map(|number| sample(number, 0, 3000)).collect();
    let all: Vec<_> = threads.iter().collect();
    let found = model(&window(0, 3000, 4), &samples, &all, &[flush(100, 2000, 2900, 0)]);
    assert_eq!(parts(&found), [3000, 2100, 100, 2000, 0]);
    assert_eq!(found.each_ns / 1e3, 2100.0, "each of the four");
}

#[test]
fn a_moment_counts_where_one_thread_gets_on_whatever_holds_the_others_up() {
    // The first is kept from its processor for 1000 while the second computes 600 of them; the
    // second then sleeps 400, waiting for the first. That is held up: 400. After that the first
    // computes 200 while the second still sleeps.
    let (mut first, mut second) = (Thread::at(0, 0), Thread::at(1, 0));
    first.gap(0, 1000, 200).end();
    second.gap(0, 0, 600).end();
    second.gap(600, 0, 0).end();
    let samples = [sample(0, 0, 1200), sample(1, 0, 1200)];
    let found = model(&window(0, 1200, 2), &samples, &[&first, &second], &[]);
    assert_eq!(parts(&found), [1200, 800, 800, 0, 0]);
    // The second's own: 600 of computing, and of its sleep the 200 in which the first got on.
    assert_eq!(found.each_ns / 1e3, (200.0 + 800.0) / 2.0);
}

#[test]
fn two_threads_with_requests_of_their_own_overlap_as_they_did() {
    // Two channels: the second's read of 1000 begins 400 after the first's; both are late by 300.
    let (mut first, mut second) = (Thread::at(0, 0), Thread::at(1, 0));
    first.call(1300, 0).end();
    second.gap(0, 0, 400).call(1300, 0).end();
    let served = [flush(0, 1000, 1300, 0), flush(400, 1000, 1300, 0)];
    let mut window = window(0, 1700, 2);
    window.lanes[0].end_ns = 1300 * US;
    let samples = [sample(0, 0, 1300), sample(1, 400, 1700)];
    let found = model(&window, &samples, &[&first, &second], &served);
    // 0 to 400 the second runs, to 1400 a read is under way, to 1700 the second's answer is late.
    assert_eq!(parts(&found), [1700, 1400, 400, 1000, 0]);
    // Whose a request is nobody tells: what the first waits longer for its own while the second's
    // is under way, is in its own time.
    assert_eq!(found.each_ns / 1e3, (1300.0 + 1000.0) / 2.0);
}

#[test]
fn what_is_excluded_is_in_no_number() {
    let mut thread = Thread::at(0, 0);
    thread.gap(0, 0, 500).call(1000, 0).end();
    let mut window = window(0, 1500, 1);
    window.excluded = vec![(100 * US, 300 * US)];
    let found = model(&window, &[sample(0, 300, 1500)], &[&thread], &[flush(500, 1000, 1000, 0)]);
    assert_eq!(parts(&found), [1300, 1300, 300, 1000, 0]);
}

#[test]
fn an_operation_of_a_call_before_does_not_stand_in_for_the_next() {
    // The device has the first flush done 20 after the program has it (the way there). The next
    // call, which asks the device for nothing, begins within those: it is this machine's alone.
    let mut thread = Thread::at(0, 0);
    thread.call(1000, 0).gap(0, 0, 5).call(400, 0).end();
    let found = model(&window(0, 1405, 1), &[sample(0, 0, 1405)], &[&thread], &[flush(20, 1000, 1000, 60)]);
    assert_eq!(parts(&found), [1405, 1005, 5, 1000, 0]);
}

#[test]
fn where_threads_are_not_seen_only_the_devices_lateness_is_left_out() {
    let served = vec![flush(500, 1000, 1700, 0), flush(3000, 1000, 1000, 0)];
    let found = phase_models(&[window(0, 5000, 1)], &[sample(0, 0, 2500)], None, &[served]).remove(0);
    assert_eq!(parts(&found), [5000, 4300, 2300, 2000, 0]);
    assert_eq!((found.basis, found.each_ns / 1e3), (Basis::Device, 1800.0));
    // Marks that are not all there tell nothing.
    let mut thread = Thread::at(0, 0);
    thread.gap(0, 3000, 2000).end();
    let some = Marks { marks: thread.marks, lost: 1, knows_queue: true };
    let found = phase_models(&[window(0, 5000, 1)], &[], Some(&some), &[]).remove(0);
    assert_eq!((found.basis, found.model_ns / US), (Basis::Device, 5000));
}

#[test]
fn a_lane_counts_from_its_first_execution_to_its_last() {
    // What a thread did before the phase and after it is in none of its numbers, however long its
    // marks are apart.
    let mut thread = Thread::at(0, 0);
    thread.gap(0, 0, 1000).end();
    thread.gap(0, 0, 300).call(500, 0).gap(0, 40_000, 0).end();
    let found =
        model(&window(1000, 1900, 1), &[sample(0, 1000, 1900)], &[&thread], &[flush(1300, 500, 500, 0)]);
    // The last 100 lie before a mark that is 39,900 away: that much of its waiting is taken to be
    // after the end, and the rest within.
    assert_eq!(parts(&found), [900, 800, 300, 500, 0]);
}

/// Seen live: on a machine so busy that the way to the program was measured as 5 ms, DELETE's
/// flushes came to 2420 ms where 120 of 20 ms were made: each came before the model had the one
/// before done, and waited for it a second time.
#[test]
fn a_way_that_is_taken_for_longer_than_it_is_counts_nothing_twice() {
    let mut thread = Thread::at(0, 100_000);
    thread.call(17_000, 0).gap(0, 0, 500).call(22_000, 0).end();
    // The first is begun 5000 earlier and is with the program 2000 later; the second comes 2000
    // before the model has the first done.
    let served = [flush(101_000, 20_000, 20_000, 5000), flush(118_000, 23_000, 23_000, 5000)];
    let window = window(100_000, 139_500, 1);
    let found = model(&window, &[sample(0, 100_000, 139_500)], &[&thread], &served);
    // The first was answered 3000 before the model has it done: they are its time all the same.
    assert_eq!(parts(&found), [39_500, 20_000 + 500 + 20_000, 500, 40_000, 0]);
    assert_eq!(found.each_ns / 1e3, 40_500.0);
}

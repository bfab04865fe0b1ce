//! A store that any number of tasks share. An operation is started, and completes by waker.
//!
//! mmdb runs a transaction in the call that starts it, and its ticket is a future, so nothing
//! stands between. SQLite and PostgreSQL have sessions that wait; threads of their own drive those,
//! and share each commit among all that came while the one before was under way.

use super::waits::{Flow, FlowingOperation, Wait};
use super::{
    Acknowledge, MmdbOptions, MmdbStore, Opening, PostgresqlStore, PostgresqlUrl, RedisClusterStore,
    RedisClusterUrl, SESSIONS, Session, Store, StoreError, StoreKind,
};
use crate::centre::{Operation, Outcome, Rules};
use crate::model::StationKey;
use std::collections::VecDeque;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;

/// Threads that drive durable sessions. What concerns one station goes through one of them, so that
/// it keeps its order.
const THREADS: usize = 4;
/// Sessions besides: one that acknowledges early, those of timers, recovery and readers of tables.
const OTHERS: usize = 8;
/// Operations that a thread has under way at most.
const UNDER_WAY: usize = 1024;
/// How long a private server may owe an answer: as long as another one, where nothing is said.
pub const SILENCE: Duration = Duration::from_secs(15);

/// A store, shared.
#[derive(Clone)]
pub struct SharedStore {
    store: Arc<dyn Store>,
    way: Way,
}

#[derive(Clone)]
enum Way {
    /// Transactions run in the call.
    Direct(Arc<MmdbStore>, Arc<Flow>),
    /// Threads run them; `watched` is how long the session of a thread of somebody else's waits.
    Threads { durable: Vec<Driver>, early: Driver, watched: Arc<Wait> },
}

/// A session of a thread that waits for it, whose silence is the store's.
pub struct WatchedSession<'store> {
    session: Box<dyn Session + 'store>,
    wait: Arc<Wait>,
}

impl WatchedSession<'_> {
    /// As [`Session::call`].
    ///
    /// # Errors
    /// As [`Session::call`].
    pub fn call(&mut self, operation: Operation) -> Result<Outcome, StoreError> {
        self.wait.begins();
        let outcome = self.session.call(operation);
        self.wait.ends();
        outcome
    }
}

/// A thread that runs operations.
#[derive(Clone)]
struct Driver {
    jobs: mpsc::Sender<Job>,
    wait: Arc<Wait>,
}

struct Job {
    operation: Operation,
    to: oneshot::Sender<Result<Outcome, StoreError>>,
}

/// An operation that was started. Its outcome comes when it is acknowledged; one that is dropped
/// takes place all the same.
pub struct StartedOperation(State);

enum State {
    /// The outcome is here; it is acknowledged when the ticket is durable.
    Ticket(
        Option<Outcome>,
        mmdb::Ticket,
        #[expect(dead_code, reason = "its end counts it")] FlowingOperation,
    ),
    /// Acknowledged, or failed.
    Done(Option<Result<Outcome, StoreError>>),
    /// A thread will say.
    Waits(oneshot::Receiver<Result<Outcome, StoreError>>),
}

impl SharedStore {
    /// Opens the store in `directory`, which is made if need be.
    ///
    /// # Errors
    /// The store's; a thread cannot be started.
    pub fn open(
        kind: StoreKind,
        directory: &Path,
        mmdb: &MmdbOptions,
        rules: Rules,
    ) -> Result<SharedStore, StoreError> {
        if kind == StoreKind::Mmdb {
            std::fs::create_dir_all(directory).map_err(StoreError::io(directory))?;
            let rules = Rules { has_flusher: true, ..rules };
            let store = Arc::new(MmdbStore::open(directory, mmdb, rules)?);
            let shared = Arc::clone(&store) as Arc<dyn Store>;
            return Ok(SharedStore { store: shared, way: Way::Direct(store, Flow::new()) });
        }
        let store = kind.open_with(directory, mmdb, rules, SESSIONS, Opening::OrCreate)?;
        store.limit_silence(SILENCE);
        SharedStore::of(store)
    }

    /// Opens the store of a server that is there already; it is made if need be.
    ///
    /// # Errors
    /// As [`SharedStore::open`].
    pub fn at(url: &PostgresqlUrl, rules: Rules) -> Result<SharedStore, StoreError> {
        let sessions = THREADS + OTHERS;
        SharedStore::of(Box::new(PostgresqlStore::at(url, rules, sessions, Opening::OrCreate)?))
    }

    /// Opens the store of a Redis Cluster that is there already; it is made if need be.
    ///
    /// # Errors
    /// As [`SharedStore::open`].
    pub fn at_cluster(url: &RedisClusterUrl, rules: Rules) -> Result<SharedStore, StoreError> {
        SharedStore::of(Box::new(RedisClusterStore::at(url, rules, Opening::OrCreate)?))
    }

    /// Shares a store whose sessions wait.
    fn of(store: Box<dyn Store>) -> Result<SharedStore, StoreError> {
        let store: Arc<dyn Store> = store.into();
        let thread = |acknowledge| drive(&store, acknowledge);
        let durable = (0..THREADS).map(|_| thread(Acknowledge::Durable)).collect::<Result<_, _>>()?;
        let early = thread(Acknowledge::Early)?;
        Ok(SharedStore { store, way: Way::Threads { durable, early, watched: Arc::new(Wait::new()) } })
    }

    /// The store itself, for sessions of threads that wait.
    #[must_use]
    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// A session of one thread that works beside the operations, whose waiting counts as the
    /// store's silence: that of timers asks all the time, so that a server that is silent is
    /// noticed when nobody sends anything.
    ///
    /// # Errors
    /// The store's.
    pub fn watched_session(&self, acknowledge: Acknowledge) -> Result<WatchedSession<'_>, StoreError> {
        let wait = match &self.way {
            // What a disk lets wait is seen by the operations.
            Way::Direct(..) => Arc::new(Wait::new()),
            Way::Threads { watched, .. } => Arc::clone(watched),
        };
        wait.begins();
        let session = self.store.session(acknowledge);
        wait.ends();
        Ok(WatchedSession { session: session?, wait })
    }

    /// How long the store has let somebody wait, if it does now: for mmdb, as far as it was asked
    /// again and again.
    #[must_use]
    pub fn silence(&self) -> Duration {
        match &self.way {
            Way::Direct(_, flow) => flow.stands(),
            Way::Threads { durable, early, watched } => {
                let drivers = || durable.iter().chain([early]).map(|driver| &driver.wait);
                let waited = drivers().map(|wait| wait.elapsed()).max().unwrap_or_default();
                // What takes long by itself, as a look through many rows, is no silence while
                // others are answered, or it is with each of its statements.
                let unmoved = drivers().map(|wait| wait.unmoved()).min().unwrap_or_default();
                let unheard = self.store.unheard().unwrap_or(Duration::MAX);
                waited.max(watched.elapsed().min(unmoved).min(unheard))
            }
        }
    }

    /// Starts an operation.
    pub fn start(&self, mut operation: Operation, acknowledge: Acknowledge) -> StartedOperation {
        match &self.way {
            Way::Direct(store, flow) => {
                let flowing = flow.start();
                StartedOperation(match store.start(&mut operation, acknowledge) {
                    Ok((outcome, ticket)) if acknowledge == Acknowledge::Durable => {
                        State::Ticket(Some(outcome), ticket, flowing)
                    }
                    Ok((outcome, _)) => State::Done(Some(Ok(outcome))),
                    Err(error) => State::Done(Some(Err(error))),
                })
            }
            Way::Threads { durable, early, .. } => {
                let thread = match acknowledge {
                    Acknowledge::Durable => {
                        &durable[station(&operation).0.unsigned_abs() as usize % durable.len()]
                    }
                    Acknowledge::Early => early,
                };
                let (to, from) = oneshot::channel();
                // A thread that has ended drops what it is given: the receiver tells.
                let _ = thread.jobs.send(Job { operation, to });
                StartedOperation(State::Waits(from))
            }
        }
    }
}

/// The station whose order an operation must keep.
fn station(operation: &Operation) -> StationKey {
    match operation {
        Operation::Receive(submission) => submission.message.dst_key,
        Operation::Complete(completion) => completion.station,
        Operation::Forward(forward) => forward.station,
        Operation::PutBack(back) => back.station,
        Operation::Alert { station, .. } => *station,
        // What waits there: behind what was submitted before.
        Operation::Find { station, .. } => *station,
        _ => StationKey(0),
    }
}

impl Future for StartedOperation {
    type Output = Result<Outcome, StoreError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let twice = || Err(StoreError::protocol("an outcome was taken twice"));
        match &mut self.0 {
            State::Ticket(outcome, ticket, _) => match Pin::new(ticket).poll(context) {
                Poll::Ready(Ok(_)) => Poll::Ready(outcome.take().map_or_else(twice, Ok)),
                Poll::Ready(Err(error)) => Poll::Ready(Err(error.into())),
                Poll::Pending => Poll::Pending,
            },
            State::Done(done) => Poll::Ready(done.take().unwrap_or_else(twice)),
            State::Waits(from) => match Pin::new(from).poll(context) {
                Poll::Ready(Ok(done)) => Poll::Ready(done),
                Poll::Ready(Err(_)) => Poll::Ready(Err(StoreError::WriterEnded)),
                Poll::Pending => Poll::Pending,
            },
        }
    }
}

/// Starts a thread that drives a session; it ends when nobody can give it work any more.
fn drive(store: &Arc<dyn Store>, acknowledge: Acknowledge) -> Result<Driver, StoreError> {
    let (send, jobs) = mpsc::channel();
    let (ready, is_ready) = mpsc::sync_channel(1);
    let (store, wait) = (Arc::clone(store), Arc::new(Wait::new()));
    let of_thread = Arc::clone(&wait);
    let run = move || {
        let mut session = match store.session(acknowledge) {
            Ok(session) => session,
            Err(error) => return drop(ready.send(Err(error))),
        };
        let _ = ready.send(Ok(()));
        let mut under_way = VecDeque::new();
        let failed = loop {
            match round(&mut *session, &jobs, &mut under_way, &of_thread) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => break error,
            }
        };
        of_thread.ends();
        // Whoever comes later hears why.
        for job in jobs {
            let _ = job.to.send(Err(failed.of_group()));
        }
    };
    let named = std::thread::Builder::new().name("smsc-session".into());
    named.spawn(run).map_err(StoreError::io(Path::new("a thread")))?;
    is_ready.recv().map_err(|_| StoreError::WriterEnded)??;
    Ok(Driver { jobs: send, wait })
}

type UnderWay = VecDeque<oneshot::Sender<Result<Outcome, StoreError>>>;

/// Submits what waits, and hands out what is acknowledged; whether there may be more.
fn round(
    session: &mut dyn Session,
    jobs: &mpsc::Receiver<Job>,
    under_way: &mut UnderWay,
    wait: &Wait,
) -> Result<bool, StoreError> {
    let submit = |session: &mut dyn Session, under_way: &mut UnderWay, job: Job| {
        let submitted = session.submit(job.operation);
        if let Err(error) = submitted {
            let failed = error.of_group();
            // Whoever does not wait any more need not be told.
            let _ = job.to.send(Err(error));
            under_way.drain(..).for_each(|to| _ = to.send(Err(failed.of_group())));
            return Err(failed);
        }
        under_way.push_back(job.to);
        Ok(())
    };
    if under_way.is_empty() {
        wait.ends();
        match jobs.recv() {
            Ok(job) => {
                wait.begins();
                submit(session, under_way, job)?;
            }
            Err(_) => return Ok(false),
        }
    } else {
        wait.begins();
    }
    while under_way.len() < UNDER_WAY
        && let Ok(job) = jobs.try_recv()
    {
        submit(session, under_way, job)?;
    }
    let mut outcomes = Vec::new();
    if let Err(error) = session.settle(&mut outcomes) {
        under_way.drain(..).for_each(|to| _ = to.send(Err(error.of_group())));
        return Err(error);
    }
    for outcome in outcomes {
        if let Some(to) = under_way.pop_front() {
            let _ = to.send(Ok(outcome));
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::centre::Submission;
    use crate::model::Message;
    use crate::store::{Durability, EachRow};
    use std::sync::Barrier;
    use std::time::Instant;

    /// A store whose operations begin and end with those who wait at its gate.
    struct Slow {
        gate: Arc<Barrier>,
        unheard: Option<Duration>,
    }

    struct SlowSession(Arc<Barrier>);

    impl Session for SlowSession {
        fn submit(&mut self, _: Operation) -> Result<(), StoreError> {
            self.0.wait();
            self.0.wait();
            Ok(())
        }

        fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
            outcomes.push(Outcome::Count(0));
            Ok(())
        }

        fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, _: Instant) -> Result<(), StoreError> {
            self.settle(outcomes)
        }
    }

    impl Store for Slow {
        fn name(&self) -> &str {
            "slow"
        }

        fn durability(&self) -> Durability {
            Durability::ProcessCrash
        }

        fn has_flusher(&self) -> bool {
            false
        }

        fn session(&self, _: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
            Ok(Box::new(SlowSession(Arc::clone(&self.gate))))
        }

        fn unheard(&self) -> Option<Duration> {
            self.unheard
        }

        fn abandon(&self) {}

        fn scan(&self, _: EachRow<'_>) -> Result<(), StoreError> {
            Ok(())
        }
    }

    /// What happened: hundreds of scheduled messages that are due are one transaction of two
    /// thousand statements. Where each took 2 ms, and nobody else asked, as at the end of a centre,
    /// that was taken for a silence of four seconds, and the store was given up.
    #[test]
    fn an_operation_of_many_answers_is_no_silence() {
        for (unheard, is_silent) in
            [(None, true), (Some(Duration::ZERO), false), (Some(Duration::from_secs(9)), true)]
        {
            let gate = Arc::new(Barrier::new(2));
            let store = SharedStore::of(Box::new(Slow { gate: Arc::clone(&gate), unheard })).unwrap();
            let silence = std::thread::scope(|scope| {
                scope.spawn(|| {
                    let mut session = store.watched_session(Acknowledge::Early).unwrap();
                    session.call(Operation::NextDue).unwrap();
                });
                gate.wait();
                // The drivers may just be beginning, which moves them.
                let patience = if is_silent { Duration::from_secs(60) } else { Duration::from_millis(20) };
                let (begin, mut silence) = (Instant::now(), store.silence());
                while silence.is_zero() && begin.elapsed() < patience {
                    std::thread::sleep(Duration::from_millis(1));
                    silence = store.silence();
                }
                gate.wait();
                silence
            });
            assert_eq!(!silence.is_zero(), is_silent, "{unheard:?}: {silence:?}");
        }
    }

    /// What happened: of two submit_sm with replace_if_present that came one behind the other the
    /// second looked for the first through another thread, before that had stored it: nothing
    /// waited, so the mobile got both.
    #[test]
    fn what_waits_is_looked_for_behind_what_was_submitted() {
        let message = Message::plain("4900".into(), "491700000009".into(), b"x".to_vec(), 1, 2);
        let submission = Submission::new(message).unwrap();
        let key = submission.message.dst_key;
        assert_ne!(key, StationKey(0));
        let (src, service_type) = ("4900".to_owned(), None);
        let find = Operation::Find { account: 1, src, service_type, station: key, max: 1 };
        assert_eq!(station(&find), station(&Operation::Receive(Box::new(submission))));
    }
}

//! What all sessions and routes of a server share.

use super::account::{self, AccountEvent};
use super::authenticator::{Attempt, Authenticator, Verdict};
use super::brake::Owner;
use super::config::{AccountConfig, Config, Timers};
use super::descriptors::{self, ConnectionLimits};
use super::log::{Level, Log};
use super::metrics::{Counter, Metrics};
use super::peer::Peers;
use super::places::{Places, UnboundConnection};
use super::queues::{Depth, Queues};
use super::rates::Rates;
use super::route::Target;
use super::sessions::Sessions;
use super::source::Source;
use super::trace::Centre;
use super::turns::Turns;
use crate::centre::ArchiveReader;
use crate::load::Clock;
use crate::model::StationKey;
use crate::smpp::{Bind, Status};
use crate::store::SharedStore;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};

/// How long whoever guesses waits at most to hear that it has to wait.
const BRAKED: Duration = Duration::from_secs(1);

/// An application, while the server runs.
pub struct Account {
    /// Its number.
    pub number: u32,
    /// What the configuration says now.
    config: RwLock<AccountConfig>,
    /// Sessions bound now.
    sessions: AtomicU32,
    /// The second that is being counted, and the messages in it.
    second: AtomicI64,
    in_second: AtomicU32,
    /// Messages that were refused for its rate.
    pub(super) throttled: Counter,
    /// Receipts and messages that waited for it when they were counted last.
    waiting: AtomicU64,
    /// Requests of the HTTP API that are under way.
    pub(super) requests: Arc<AtomicUsize>,
    /// To whoever delivers to it.
    events: mpsc::UnboundedSender<AccountEvent>,
    /// Deliveries in its sessions and completions of theirs that are under way.
    pub(super) under_way: Arc<AtomicUsize>,
}

impl Account {
    /// What the configuration says now.
    #[must_use]
    pub fn config(&self) -> AccountConfig {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How many messages it may have under way in a session, and submit in a second, as the
    /// configuration says now: sessions that are bound heed another one, too.
    pub(super) fn window_and_rate(&self) -> (usize, u32) {
        let config = self.config.read().unwrap_or_else(PoisonError::into_inner);
        (config.window as usize, config.rate)
    }

    /// Sessions bound now.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.sessions.load(Relaxed) as usize
    }

    /// Tells whoever delivers to it.
    pub(super) fn tell(&self, event: AccountEvent) {
        // Nobody delivers any more once the server ends.
        let _ = self.events.send(event);
    }

    /// Takes a place among its sessions.
    fn enter(&self) -> bool {
        let most = self.config.read().unwrap_or_else(PoisonError::into_inner).sessions;
        self.sessions.fetch_update(Relaxed, Relaxed, |now| (now < most).then_some(now + 1)).is_ok()
    }

    /// Gives that place back.
    pub(super) fn leave(&self) {
        self.sessions.fetch_sub(1, Relaxed);
    }

    /// Whether one more message may be submitted in this second.
    pub(super) fn may_submit(&self, rate: u32, now_us: i64) -> bool {
        if rate == 0 {
            return true;
        }
        let second = now_us.div_euclid(1_000_000);
        if self.second.swap(second, Relaxed) != second {
            self.in_second.store(0, Relaxed);
        }
        let may = self.in_second.fetch_add(1, Relaxed) < rate;
        if !may {
            self.throttled.add(1);
        }
        may
    }

    /// Whether it is called when something waits for it.
    fn takes_calls(&self) -> bool {
        self.config.read().unwrap_or_else(PoisonError::into_inner).outbind.is_some()
    }

    /// Whether so much waits for this application that nothing may be added.
    pub(super) fn is_full(&self) -> bool {
        let most = self.config.read().unwrap_or_else(PoisonError::into_inner).receipts;
        self.waiting.load(Relaxed) >= most.into()
    }
}

/// The applications, by name and by number, and whose the numbers are.
#[derive(Default)]
struct Accounts {
    by_system_id: HashMap<String, Arc<Account>>,
    by_number: HashMap<u32, Arc<Account>>,
    by_address: HashMap<String, u32>,
    by_token: HashMap<String, u32>,
}

/// What all sessions and routes share.
pub struct Front {
    pub(super) store: SharedStore,
    pub(super) archive: Option<ArchiveReader>,
    pub(super) clock: Clock,
    /// Counters.
    pub metrics: Metrics,
    config: RwLock<Arc<Config>>,
    accounts: RwLock<Accounts>,
    authenticator: Authenticator,
    /// What messages that have been here are known by.
    pub(super) centre: Centre,
    /// Who submits next.
    pub(super) turns: Arc<Turns>,
    /// Sessions that may still be bound.
    connections: Arc<Semaphore>,
    /// Places of connections that are not bound.
    unbound: Arc<Places>,
    /// How many connections there may be.
    pub(super) room: ConnectionLimits,
    /// Centres to which this one binds.
    pub(super) peers: Peers,
    /// Wakes the route to mobiles.
    pub(super) mobiles: Notify,
    /// Submissions, deliveries and completions that are under way.
    pub(super) under_way: Arc<AtomicUsize>,
    /// The server ends: nothing new is begun.
    stopping: watch::Sender<bool>,
    /// Another configuration holds.
    reloads: watch::Sender<()>,
    /// It has ended: tasks and threads go.
    ended: AtomicBool,
    failed: watch::Sender<String>,
    /// How long the store has been silent, ms; 0 where it answers.
    silence_ms: AtomicU64,
    next_session: AtomicU64,
    /// Connections.
    pub(super) sessions: Arc<Sessions>,
    /// What is queued.
    pub queues: Queues,
    pub(super) rates: Rates,
    pub(super) log: Arc<Log>,
    /// When it was started, µs.
    pub(super) begin_us: i64,
    /// The store's engine.
    pub(super) engine: &'static str,
}

impl Front {
    pub(super) fn new(
        config: Config,
        (store, engine): (SharedStore, &'static str),
        archive: Option<ArchiveReader>,
        log: Arc<Log>,
    ) -> std::io::Result<Arc<Front>> {
        let room = ConnectionLimits::of(&config, descriptors::limit());
        if let Some(complaint) = room.complaint(&config) {
            log.at(Level::Warn, "few_descriptors").text("message", &complaint);
        }
        let front = Arc::new(Front {
            store,
            archive,
            clock: Clock::default(),
            metrics: Metrics::default(),
            config: RwLock::new(Arc::new(config.clone())),
            accounts: RwLock::default(),
            authenticator: Authenticator::start()?,
            centre: Centre::new()?,
            turns: Turns::new(std::thread::available_parallelism().map_or(1, NonZero::get)),
            connections: Arc::new(Semaphore::new(room.connections)),
            unbound: Places::new(room.unbound),
            room,
            peers: Peers::default(),
            mobiles: Notify::new(),
            under_way: Arc::default(),
            stopping: watch::Sender::new(false),
            reloads: watch::Sender::new(()),
            ended: AtomicBool::new(false),
            failed: watch::Sender::new(String::new()),
            silence_ms: AtomicU64::new(0),
            next_session: AtomicU64::new(1),
            sessions: Arc::default(),
            queues: Queues::default(),
            rates: Rates::default(),
            log,
            begin_us: Clock::default().now_us(),
            engine,
        });
        front.set_accounts(&config);
        front.peers.set(&front, &config.peers);
        Ok(front)
    }

    /// Makes the accounts those of `config`. One that is there already goes on with its new limits.
    fn set_accounts(self: &Arc<Self>, config: &Config) {
        let mut accounts = self.accounts.write().unwrap_or_else(PoisonError::into_inner);
        let mut now = Accounts::default();
        for config in &config.accounts {
            let account = match accounts.by_number.get(&config.number) {
                Some(account) => {
                    *account.config.write().unwrap_or_else(PoisonError::into_inner) = config.clone();
                    Arc::clone(account)
                }
                None => self.start_account(config),
            };
            now.by_system_id.insert(config.system_id.clone(), Arc::clone(&account));
            now.by_number.insert(config.number, account);
            for number in &config.numbers {
                now.by_address.insert(number.clone(), config.number);
            }
            for token in &config.tokens {
                now.by_token.insert(token.clone(), config.number);
            }
        }
        for (number, account) in &accounts.by_number {
            if !now.by_number.contains_key(number) {
                account.tell(AccountEvent::Closed);
            }
        }
        *accounts = now;
    }

    fn start_account(self: &Arc<Self>, config: &AccountConfig) -> Arc<Account> {
        let (events, received) = mpsc::unbounded_channel();
        let account = Arc::new(Account {
            number: config.number,
            config: RwLock::new(config.clone()),
            sessions: AtomicU32::new(0),
            second: AtomicI64::new(0),
            in_second: AtomicU32::new(0),
            throttled: Counter::default(),
            waiting: AtomicU64::new(0),
            requests: Arc::default(),
            events,
            under_way: Arc::clone(&self.under_way),
        });
        tokio::spawn(account::run(Arc::clone(self), Arc::clone(&account), received));
        account
    }

    /// Takes another configuration; not all of it can be taken while the server runs.
    pub(super) fn reload(self: &Arc<Self>, config: &Config) -> Result<(), String> {
        let before = self.config();
        let admin_listen = |config: &Config| config.admin.as_ref().map(|admin| admin.listen);
        for (name, differs) in [
            ("listen", before.listen != config.listen),
            ("http", before.http != config.http),
            ("connections", before.connections != config.connections),
            ("unbound", before.unbound != config.unbound),
            ("queue", before.queue != config.queue),
            ("store", before.store != config.store),
            ("[archive]", before.archive != config.archive),
            ("[api]", before.api != config.api),
            ("[admin] listen", admin_listen(&before) != admin_listen(config)),
            ("tls.listen", before.tls != config.tls),
        ] {
            if differs {
                return Err(format!("`{name}` takes a restart to be changed; the old configuration holds"));
            }
        }
        self.set_accounts(config);
        // Who has no account any more has no business here.
        for entry in self.sessions.all() {
            let is_gone = |number| self.account(number).is_none();
            if entry.bound.get().is_some_and(|bound| is_gone(bound.account.number)) {
                entry.kick.notify_one();
            }
        }
        self.log.set(config.log);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config.clone());
        self.peers.set(self, &config.peers);
        self.reloads.send_replace(());
        Ok(())
    }

    /// The configuration that holds.
    #[must_use]
    pub fn config(&self) -> Arc<Config> {
        Arc::clone(&self.config.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn timers(&self) -> Timers {
        self.config().timers
    }

    pub(super) fn validity_us(&self) -> i64 {
        // At most ten years.
        self.config().validity.as_micros() as i64
    }

    /// A place for a connection that is not bound yet, if there is one.
    pub(super) async fn enter(&self, source: Source) -> Option<UnboundConnection> {
        let stranger = self.unbound.enter(source).await;
        if stranger.is_none() {
            self.metrics.connections_refused.add(1);
        }
        stranger
    }

    /// A place for a bound session, if there is one.
    pub(super) fn place(&self) -> Option<OwnedSemaphorePermit> {
        let permit = Arc::clone(&self.connections).try_acquire_owned().ok();
        if permit.is_none() {
            self.metrics.connections_refused.add(1);
        }
        permit
    }

    /// A number for a session.
    pub(super) fn next_session(&self) -> u64 {
        self.next_session.fetch_add(1, Relaxed)
    }

    /// Lets an application in that comes from there, or says why not.
    pub(super) async fn bind(&self, bind: &Bind, source: Source) -> Result<Arc<Account>, Status> {
        let account = self.account_of_system_id(&bind.system_id);
        match (self.verdict(source, account.as_deref(), &bind.password).await, account) {
            (Verdict::Right, Some(account)) if !*self.stopping.borrow() && account.enter() => Ok(account),
            (Verdict::Right, _) => Err(Status::BindFailed),
            (Verdict::Wrong, Some(_)) => Err(Status::Password),
            (Verdict::Wrong, None) => Err(Status::SystemId),
            (Verdict::Braked(wait), _) => {
                tokio::time::sleep(wait.min(BRAKED)).await;
                Err(Status::Throttled)
            }
            (Verdict::Busy, _) => Err(Status::Throttled),
        }
    }

    /// Whether the password of an account is right; `account` is none for a name that nobody has.
    pub(super) async fn verdict(&self, source: Source, account: Option<&Account>, password: &str) -> Verdict {
        let Some(account) = account else { return self.stranger(source) };
        let (owner, hash) = (Owner::Account(account.number), account.config().password);
        self.look(Attempt { source, owner, hash, password: password.to_owned() }).await
    }

    /// Whether a password is that of the admin page.
    pub(super) async fn verdict_of_operator(&self, source: Source, password: &str) -> Verdict {
        let hash = self.config().admin.as_ref().and_then(|admin| admin.password.clone());
        let Some(hash) = hash else { return self.stranger(source) };
        let owner = Owner::Operator;
        self.look(Attempt { source, owner, hash, password: password.to_owned() }).await
    }

    async fn look(&self, attempt: Attempt) -> Verdict {
        let verdict = self.authenticator.verdict(attempt).await;
        self.count(verdict)
    }

    /// Somebody came with a name that nobody has, or a wrong token.
    pub(super) fn stranger(&self, source: Source) -> Verdict {
        self.count(self.authenticator.stranger(source))
    }

    fn count(&self, verdict: Verdict) -> Verdict {
        match verdict {
            Verdict::Right | Verdict::Wrong => {}
            Verdict::Braked(_) => self.metrics.guesses_braked.add(1),
            Verdict::Busy => self.metrics.passwords_busy.add(1),
        }
        verdict
    }

    /// The account of this name.
    pub(super) fn account_of_system_id(&self, system_id: &str) -> Option<Arc<Account>> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        accounts.by_system_id.get(system_id).cloned()
    }

    /// The account one of whose tokens has this hash.
    pub(super) fn account_of_token(&self, hash: &str) -> Option<Arc<Account>> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        // Whoever guesses learns at most how the digest of a guess begins.
        accounts.by_token.get(hash).and_then(|number| accounts.by_number.get(number)).cloned()
    }

    /// All accounts, by number.
    pub(super) fn all_accounts(&self) -> Vec<Arc<Account>> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = accounts.by_number.values().cloned().collect();
        all.sort_by_key(|account| account.number);
        all
    }

    /// So much waits for each account. One that takes calls hears whether something can be
    /// delivered to it.
    pub(super) fn count_waiting(&self, depths: &BTreeMap<u32, Depth>) {
        // Where others have the store, too, it may be bound there.
        let is_own = !self.store.store().is_shared();
        for account in self.all_accounts() {
            let depth = depths.get(&account.number).copied().unwrap_or_default();
            account.waiting.store(depth.messages, Relaxed);
            if is_own && account.takes_calls() {
                account.tell(AccountEvent::Waits(depth.ready > 0));
            }
        }
    }

    /// The account of a number.
    pub(super) fn account(&self, number: u32) -> Option<Arc<Account>> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).by_number.get(&number).cloned()
    }

    /// Whose messages to this address are, if they are an application's.
    pub(super) fn account_of_number(&self, address: &str) -> Option<u32> {
        self.accounts.read().unwrap_or_else(PoisonError::into_inner).by_address.get(address).copied()
    }

    /// Names of the applications and how many sessions each has.
    #[must_use]
    pub fn bound(&self) -> Vec<(String, usize)> {
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        let mut bound: Vec<_> =
            accounts.by_system_id.iter().map(|(name, account)| (name.clone(), account.sessions())).collect();
        bound.sort();
        bound
    }

    /// Wakes whoever delivers to a station.
    pub(super) fn wake(&self, station: StationKey, target: Target) {
        match station.account() {
            None => self.wake_target(target),
            Some(number) => {
                if let Some(account) = self.account(number) {
                    account.tell(AccountEvent::Ready(station));
                }
            }
        }
    }

    /// A message was taken back: its receipt waits for its application, if there is one.
    pub(super) fn wake_for_receipt(&self, account: u32, msg_id: i64) {
        if let Some(application) = self.account(account) {
            application.tell(AccountEvent::Ready(StationKey::of_account(account, msg_id)));
        }
    }

    /// Something may have become ready for delivery somewhere.
    pub(super) fn look_everywhere(&self) {
        self.wake_all(|| AccountEvent::Look);
    }

    /// The same, of what happens all the time: scheduled messages, and the ends of others.
    pub(super) fn look_soon(&self) {
        self.wake_all(|| AccountEvent::LookSoon);
    }

    /// What waited for another attempt may be ready, somewhere.
    pub(super) fn look_again(&self) {
        self.wake_all(|| AccountEvent::LookAgain);
    }

    fn wake_all(&self, event: impl Fn() -> AccountEvent) {
        self.mobiles.notify_one();
        self.peers.wake_all();
        let accounts = self.accounts.read().unwrap_or_else(PoisonError::into_inner);
        accounts.by_number.values().for_each(|account| account.tell(event()));
    }

    /// Whether the server ends, and how to hear of it.
    pub(super) fn stopping(&self) -> watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    /// How to hear that another configuration holds.
    pub(super) fn reloads(&self) -> watch::Receiver<()> {
        self.reloads.subscribe()
    }

    /// The end begins: nothing new is taken.
    pub(super) fn stop(&self) {
        self.stopping.send_replace(true);
        self.mobiles.notify_one();
    }

    /// Everything ends now.
    pub(super) fn end(&self) {
        self.ended.store(true, Relaxed);
        self.mobiles.notify_one();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Relaxed)
    }

    /// Whether submissions or deliveries are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way.load(Relaxed) > 0
            || self.metrics.connections.get() > self.metrics.connections_ended.get()
    }

    /// The store or a part of the server has failed: it must end.
    pub(super) fn fail(&self, message: impl std::fmt::Display) {
        let message = message.to_string();
        // Several threads tell the same of one server.
        if *self.failed.borrow() != message {
            self.log.at(Level::Error, "failed").text("message", &message);
        }
        self.failed.send_if_modified(|first| {
            let is_first = first.is_empty();
            if is_first {
                *first = message;
            }
            is_first
        });
    }

    pub(super) fn has_failed(&self) -> bool {
        !self.failed.borrow().is_empty()
    }

    /// Notes that the store does not answer, or that it does.
    pub(super) fn set_silence(&self, silence: Option<Duration>) {
        let ms = silence.map_or(0, |silence| silence.as_millis().max(1) as u64);
        self.silence_ms.store(ms, Relaxed);
    }

    /// How long the store has not answered; none where it does.
    pub(super) fn silence(&self) -> Option<Duration> {
        match self.silence_ms.load(Relaxed) {
            0 => None,
            ms => Some(Duration::from_millis(ms)),
        }
    }

    /// Why nothing can be accepted now, if nothing can.
    pub(super) fn trouble(&self) -> Option<String> {
        let failed = self.failed.borrow().clone();
        if !failed.is_empty() {
            return Some(format!("it ends: {failed}"));
        }
        if *self.stopping.borrow() {
            return Some("it ends, as it was told to".into());
        }
        self.silence().map(|silence| format!("the store has not answered for {:.1} s", silence.as_secs_f32()))
    }

    pub(super) fn failures(&self) -> watch::Receiver<String> {
        self.failed.subscribe()
    }

    /// Waits until the server has failed, or has already: why.
    pub(super) async fn failure(&self) -> String {
        first_failure(&self.failed).await
    }
}

/// The first failure, also one that was told before anybody waited for it.
async fn first_failure(failed: &watch::Sender<String>) -> String {
    let mut told = failed.subscribe();
    let first = told.wait_for(|message| !message.is_empty()).await;
    // Whoever tells is here, and so has not gone.
    first.map(|message| message.clone()).unwrap_or_default()
}

/// One of those that the end waits for.
pub(super) struct UnderWay(Arc<AtomicUsize>);

impl UnderWay {
    pub fn new(count: &Arc<AtomicUsize>) -> UnderWay {
        count.fetch_add(1, Relaxed);
        UnderWay(Arc::clone(count))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the server's threads begin before it waits for their failures. One that
    /// failed meanwhile, as that of timers whose server had no connection left, was not heard of,
    /// nor was any later failure: the centre went on without timers, and said that it ended.
    #[tokio::test]
    async fn a_failure_is_heard_of_that_came_before_anybody_waited() {
        let failed = watch::Sender::new(String::new());
        failed.send_replace("at once".to_owned());
        let soon = Duration::from_secs(60);
        assert_eq!(tokio::time::timeout(soon, first_failure(&failed)).await.unwrap(), "at once");
        // One that comes later is waited for.
        let failed = Arc::new(watch::Sender::new(String::new()));
        let waits = tokio::spawn({
            let failed = Arc::clone(&failed);
            async move { first_failure(&failed).await }
        });
        tokio::task::yield_now().await;
        failed.send_replace("later".to_owned());
        assert_eq!(tokio::time::timeout(soon, waits).await.unwrap().unwrap(), "later");
    }
}

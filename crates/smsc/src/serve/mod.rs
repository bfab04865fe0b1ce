//! The centre as a server of SMPP 3.4.
//!
//! ```text
//!   connection ── session ──submit──▶ store ──claim──▶ network route (mobiles), peers
//!                    ▲                  │
//!                    └──deliver_sm── account ◀──claim── receipts, messages to its numbers
//! ```
//!
//! - `session`: one connection; a task that reads, one that writes.
//! - `places`: of connections whose client is not known yet, by `source`; `descriptors`: how many
//!   connections there may be at all.
//! - `authenticator`: passwords; `brake`: guesses at them.
//! - `turns`: who submits next.
//! - `account`: what is delivered to an application, over all its sessions; `lanes`: where to look.
//! - `looks`: whether what seems overdue is, where this process stood still.
//! - `network`: what is delivered to mobiles.
//! - `trace`: the centres that a message has passed.
//! - `peer`: what goes through other centres, and comes from them; `route` says which way.
//! - `upkeep`: timers and the Flusher, in threads; `watchdog`: whether the store answers.
//! - `web`: metrics, the HTTP API, the admin page; `sections` is their configuration.
//! - `sessions`, `queues`, `rates`, `gauges`: what an operator sees; `log`: what is logged.
//!
//! A submit_sm is answered once its commit is durable. What is under way when the server ends was
//! not answered, or is delivered again.

mod account;
mod answers;
mod authenticator;
mod brake;
mod config;
mod descriptors;
mod front;
mod gauges;
mod lanes;
mod log;
mod looks;
mod lookup;
mod metrics;
mod network;
mod outbind;
mod password;
mod peer;
mod places;
mod queues;
mod rates;
mod route;
mod sections;
mod session;
mod sessions;
mod source;
mod store;
mod stream;
mod submission;
mod tls;
mod token;
mod trace;
mod turns;
mod upkeep;
mod watchdog;
mod web;

pub use config::{AccountConfig, Config, ConfigError, Timers};
pub(crate) use descriptors::limit as descriptor_limit;
pub use front::Front;
pub use log::{Format, Level, Line, Log};
pub use metrics::Metrics;
pub use outbind::OutbindConfig;
pub use password::{PASSWORD_OCTETS_MAX, hash_admin_password, hash_password, is_hash, is_password};
pub use peer::{MessageIds, Peer, PeerConfig};
pub use route::{Route, Routes, Target};
pub use sections::{AdminConfig, ApiConfig, ArchiveConfig, LogConfig};
pub use tls::{PeerTls, TlsConfig};
pub use token::{hash_token, is_token, is_token_hash, new_token};

use self::places::{Places, UnboundConnection};
use self::session::Seat;
use self::source::Source;
use crate::centre::{Archive, RetryPolicy, Rules};
use crate::file_identity::FileIdentity;
use crate::housekeeping::{catch_up, recover};
use crate::load::Clock;
use crate::network::NetworkProfile;
use crate::store::{MmdbOptions, Place, SharedStore, StoreError, StoreKind};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// How long a store may take to be opened before that is said, and said again.
const OPENING: Duration = Duration::from_secs(5);
/// How long the end waits for what is under way, if the store answers.
const GRACE: Duration = Duration::from_secs(10);
/// How long a store may be silent then.
const LAST_PATIENCE: Duration = Duration::from_secs(5);
/// How long the end waits for a cluster that is silent: it may be making a replica its master. That
/// takes `cluster-node-timeout` and a second, and 12 s where a node says nothing.
const FAILOVER: Duration = Duration::from_secs(15);
/// How long the end waits after a failure: for those who have to be told of it.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a server is started with.
pub struct Serve {
    /// Configuration.
    pub config: Config,
    /// Where the store is; one that is there is gone on with.
    pub place: Place,
    /// Its kind.
    pub kind: StoreKind,
    /// mmdb's axes.
    pub mmdb: MmdbOptions,
    /// The mobiles.
    pub network: NetworkProfile,
    /// When a mobile is tried again.
    pub retry: RetryPolicy,
    /// What happens is logged there.
    pub log: Arc<Log>,
}

/// A server that cannot start, or had to end.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive.
    #[error(transparent)]
    Archive(#[from] crate::centre::ArchiveError),
    /// An address cannot be listened at.
    #[error("{address}: {source}; is another server there, or does the port need rights?")]
    Listen {
        /// The address.
        address: String,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// The operating system refuses something else.
    #[error("{0}")]
    Io(#[from] std::io::Error),
    /// A task or thread of the server failed.
    #[error("{0}")]
    Failed(String),
}

/// What the server tells whoever started it.
#[derive(Debug)]
pub enum Event<'a> {
    /// It listens.
    Listens {
        /// Where SMPP is spoken.
        smpp: std::net::SocketAddr,
        /// Where it is spoken with TLS.
        tls: Option<std::net::SocketAddr>,
        /// Where metrics are.
        http: Option<std::net::SocketAddr>,
        /// Where the HTTP API is.
        api: Option<std::net::SocketAddr>,
        /// Where the admin page is.
        admin: Option<std::net::SocketAddr>,
        /// Messages that were in flight when the store was closed.
        freed: usize,
    },
    /// It ends, and waits for what is under way.
    Stops,
    /// Another configuration holds, or why not.
    Reloads(Result<(), &'a str>),
}

/// Why the server ends, or what it does besides.
#[derive(Clone, Debug)]
pub enum Wish {
    /// Nothing.
    None,
    /// End in order.
    Stop,
    /// Another configuration.
    Reload(Arc<Config>),
}

/// Serves until `wishes` says stop, or something fails.
///
/// # Errors
/// [`ServeError`]
pub async fn serve(
    serve: Serve,
    mut wishes: watch::Receiver<Wish>,
    mut tell: impl FnMut(Event<'_>),
) -> Result<(), ServeError> {
    let Serve { config, place, kind, mmdb, network, retry, log } = serve;
    let rules = Rules { queue_max: config.queue, ..kind.rules() };
    // A server may take its time to be reached, and a long log to be read: signals are heard
    // meanwhile. Whoever ends it in the middle leaves what kill -9 would.
    let whereabouts = place.clone();
    let mut opened = tokio::task::spawn_blocking(move || {
        let store = match &whereabouts {
            Place::Directory(directory) => SharedStore::open(kind, directory, &mmdb, rules)?,
            Place::Server(url) => SharedStore::at(url, rules)?,
            Place::Cluster(url) => SharedStore::at_cluster(url, rules)?,
        };
        let now_us = Clock::default().now_us();
        let freed = recover(store.store(), now_us)?.freed;
        catch_up(store.store(), now_us)?;
        Ok::<_, ServeError>((store, freed))
    });
    let mut stops = wishes.clone();
    let begin = tokio::time::Instant::now();
    let (store, freed) = loop {
        tokio::select! {
            opened = &mut opened => {
                break opened.map_err(|error| ServeError::Failed(error.to_string()))??;
            }
            _ = stops.wait_for(|wish| matches!(wish, Wish::Stop)) => {
                tell(Event::Stops);
                return Ok(());
            }
            () = tokio::time::sleep(OPENING) => {
                let why = match &place {
                    Place::Directory(_) if !kind.has_server() => "what it has logged is read",
                    Place::Directory(_) | Place::Server(_) | Place::Cluster(_) => "its server is waited for",
                };
                let message = format!("{why}, since {} s", begin.elapsed().as_secs());
                log.at(Level::Warn, "store_opens").text("message", &message);
            }
        }
    };
    let url = match &place {
        Place::Directory(_) => None,
        Place::Server(url) => Some(url.to_string()),
        Place::Cluster(url) => Some(url.to_string()),
    };
    if let Some((url, identity)) = url.zip(store.store().identity()) {
        log.at(Level::Info, "store").text("url", &url).text("identity", &identity);
    }
    for remark in store.store().remarks() {
        log.at(Level::Warn, "store").text("message", &remark);
    }
    let has_flusher = store.store().has_flusher();
    let archive = match &place {
        Place::Directory(directory) if has_flusher => {
            Some(Archive::open_with(directory, config.archive.rotation, store.store().identity())?)
        }
        _ => None,
    };
    let directory = match &place {
        Place::Directory(directory) => Some(FileIdentity::of(directory)?),
        Place::Server(_) | Place::Cluster(_) => None,
    };
    let reader = archive.as_ref().map(Archive::reader).transpose()?;
    let listener = listen(config.listen).await?;
    let sites = Sites::listen(&config).await?;
    let [http, api, admin] = sites.addresses()?;
    let tls_listener = match &config.tls {
        Some(tls) => Some(listen(tls.listen).await?),
        None => None,
    };
    let tls = tls_listener.as_ref().map(TcpListener::local_addr).transpose()?;
    let smpp = listener.local_addr()?;
    let front = Front::new(config, (store, kind.name()), reader, log)?;
    let upkeep = upkeep::start(&front, directory, archive)?;
    let route = tokio::spawn(network::run(Arc::clone(&front), network, retry));
    let detour = tokio::spawn(peer::detour(Arc::clone(&front)));
    tokio::spawn(queues::run(Arc::clone(&front)));
    tokio::spawn(rates::run(Arc::clone(&front)));
    // When the store's own sessions give up; a disk is not given up, and a cluster may be silent
    // while it makes a replica its master.
    let timeout = match &place {
        Place::Server(url) => Some(url.timeout()),
        Place::Directory(_) if kind.has_server() && kind != StoreKind::RedisCluster => {
            Some(crate::store::SILENCE)
        }
        Place::Directory(_) | Place::Cluster(_) => None,
    };
    // At the end; what a disk was told it does, and nobody else could have done it.
    let may_abandon = timeout.is_some() || kind == StoreKind::RedisCluster;
    tokio::spawn(watchdog::run(Arc::clone(&front), timeout));
    let admin_site = sites.serve(&front)?;
    tell(Event::Listens { smpp, tls, http, api, admin, freed });
    let outcome = loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => if let Some(stranger) = front.enter(Source::of(peer.ip())).await {
                    // Answers are written whole; without this a small one waits for the other
                    // side's acknowledgement.
                    let _ = stream.set_nodelay(true);
                    let (front, stream) = (Arc::clone(&front), stream::plain(stream));
                    drop(tokio::spawn(session::run(front, Some(peer), stream, Seat::Unbound(stranger))));
                },
                // No descriptors are left, or the other side has gone: others are served meanwhile.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            accepted = accept(tls_listener.as_ref()) => match accepted {
                Ok((stream, peer)) => if let Some(stranger) = front.enter(Source::of(peer.ip())).await {
                    drop(tokio::spawn(secured(Arc::clone(&front), stream, stranger)));
                },
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            changed = wishes.changed() => {
                let wish = wishes.borrow_and_update().clone();
                match wish {
                    Wish::Reload(config) => {
                        let reloaded = front.reload(&config);
                        if reloaded.is_ok() {
                            admin_site.forget();
                        }
                        tell(Event::Reloads(reloaded.as_ref().map(|_| ()).map_err(String::as_str)));
                    }
                    Wish::Stop => break Ok(()),
                    Wish::None if changed.is_ok() => {}
                    Wish::None => break Ok(()),
                }
            }
            // Also what failed before this: threads and tasks work already.
            message = front.failure() => break Err(ServeError::Failed(message)),
        }
    };
    drop((listener, tls_listener));
    tell(Event::Stops);
    front.stop();
    let give_up = || {
        if may_abandon {
            front.store.store().abandon();
        }
    };
    if outcome.is_err() {
        // Whoever waits for an answer gets one: that there is none.
        give_up();
    }
    let grace = if outcome.is_ok() { GRACE } else { FAREWELL };
    let is_cluster = kind == StoreKind::RedisCluster && outcome.is_ok();
    let failover = if is_cluster { FAILOVER } else { Duration::ZERO };
    let patience = LAST_PATIENCE.max(failover);
    let begin = tokio::time::Instant::now();
    while front.is_busy() && begin.elapsed() < grace && front.store.silence() < patience {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    front.end();
    let mut ending = pin!(async {
        // It ends when it has put down what was in the air.
        let _ = tokio::time::timeout(GRACE, route).await;
        detour.abort();
        // The Flusher may have much to do.
        let _ = tokio::task::spawn_blocking(move || upkeep.join()).await;
    });
    tokio::select! {
        () = &mut ending => {}
        // A server that says nothing is not waited for; a disk that hangs cannot be given up.
        () = watchdog::silent(&front, begin + failover), if may_abandon => {
            give_up();
            ending.await;
        }
    }
    let failure = front.failures().borrow().clone();
    if outcome.is_ok() && !failure.is_empty() { Err(ServeError::Failed(failure)) } else { outcome }
}

/// The next connection for TLS; never, where none is spoken.
async fn accept(listener: Option<&TcpListener>) -> std::io::Result<(TcpStream, std::net::SocketAddr)> {
    match listener {
        Some(listener) => listener.accept().await,
        None => std::future::pending().await,
    }
}

/// Serves a connection with TLS. Its handshake has the time of a bind: half-open ones hold their
/// place no longer.
async fn secured(front: Arc<Front>, stream: TcpStream, stranger: UnboundConnection) {
    let _ = stream.set_nodelay(true);
    let peer = stream.peer_addr().ok();
    // Each connection has the certificate that holds when it comes.
    let Some(server) = front.config().tls.as_ref().map(|tls| Arc::clone(&tls.server)) else { return };
    let handshake = tokio_rustls::TlsAcceptor::from(server).accept(stream);
    let handshake = tokio::time::timeout(front.timers().session_init, handshake);
    let driven_out = Arc::clone(&stranger.driven_out);
    let shaken = tokio::select! {
        shaken = handshake => shaken.ok().and_then(Result::ok),
        () = driven_out.notified() => return front.metrics.driven_out.add(1),
    };
    match shaken {
        Some(stream) => {
            session::run(front, peer, stream::secured(stream), Seat::Unbound(stranger)).await;
        }
        None => front.metrics.tls_failed.add(1),
    }
}

async fn listen(address: std::net::SocketAddr) -> Result<TcpListener, ServeError> {
    let failed = |source| ServeError::Listen { address: address.to_string(), source };
    TcpListener::bind(address).await.map_err(failed)
}

/// What speaks HTTP, where it is wanted.
struct Sites {
    http: Option<TcpListener>,
    api: Option<TcpListener>,
    admin: Option<TcpListener>,
}

impl Sites {
    async fn listen(config: &Config) -> Result<Sites, ServeError> {
        let at = async |address: Option<std::net::SocketAddr>| match address {
            Some(address) => listen(address).await.map(Some),
            None => Ok(None),
        };
        Ok(Sites {
            http: at(config.http).await?,
            api: at(config.api.as_ref().map(|api| api.listen)).await?,
            admin: at(config.admin.as_ref().map(|admin| admin.listen)).await?,
        })
    }

    /// Where they are: metrics, API, admin page.
    fn addresses(&self) -> std::io::Result<[Option<std::net::SocketAddr>; 3]> {
        let at = |listener: &Option<TcpListener>| listener.as_ref().map(TcpListener::local_addr).transpose();
        Ok([at(&self.http)?, at(&self.api)?, at(&self.admin)?])
    }

    /// Begins to answer. The API and the admin page give passwords in clear to whoever listens in
    /// between: away from loopback a proxy with TLS belongs before them.
    fn serve(self, front: &Arc<Front>) -> Result<Arc<web::Admin>, ServeError> {
        for (name, listener) in [("[api]", &self.api), ("[admin]", &self.admin)] {
            if let Some(address) = listener.as_ref().and_then(|listener| listener.local_addr().ok())
                && !address.ip().is_loopback()
            {
                let message =
                    format!("{name} listens at {address} without TLS: put a proxy with TLS before it");
                front.log.at(Level::Warn, "not_encrypted").text("message", &message);
            }
        }
        let places = || Places::new(front.room.http);
        let admin = Arc::new(web::Admin::new(front));
        if let Some(listener) = self.http {
            let site = Arc::new(web::MetricsSite(Arc::clone(front)));
            tokio::spawn(web::run(site, listener, places(), front.stopping()));
        }
        if let Some(listener) = self.api {
            let site = Arc::new(web::Api::new(front));
            tokio::spawn(web::run(site, listener, places(), front.stopping()));
        }
        if let Some(listener) = self.admin {
            tokio::spawn(web::run(Arc::clone(&admin), listener, places(), front.stopping()));
        }
        Ok(admin)
    }
}

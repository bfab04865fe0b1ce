//! The centre as a server of SMPP 3.4.
//!
//! ```text
//!   connection ── session ──submit──▶ store ──claim──▶ network route (mobiles), peers
//!                    ▲                  │
//!                    └──deliver_sm── account ◀──claim── receipts, messages to its numbers
//! ```
//!
//! - `session`: one connection; a task that reads, one that writes.
//! - `account`: what is delivered to an application, over all its sessions.
//! - `network`: what is delivered to mobiles.
//! - `peer`: what goes through other centres, and comes from them; `route` says which way.
//! - `upkeep`: timers and the Flusher, in threads.
//!
//! A submit_sm is answered once its commit is durable. What is under way when the server ends was
//! not answered, or is delivered again.

mod account;
mod config;
mod front;
mod http;
mod metrics;
mod network;
mod outbind;
mod password;
mod peer;
mod route;
mod session;
mod stream;
mod submission;
mod tls;
mod upkeep;

pub use config::{AccountConfig, Config, ConfigError, Timers};
pub use front::Front;
pub use metrics::Metrics;
pub use outbind::OutbindConfig;
pub use password::{PASSWORD_OCTETS_MAX, hash_password, is_hash, is_password};
pub use peer::{MessageIds, Peer, PeerConfig};
pub use route::{Route, Routes, Target};
pub use tls::{PeerTls, TlsConfig};

use crate::centre::{Archive, RetryPolicy, Rules};
use crate::housekeeping::recover;
use crate::load::Clock;
use crate::network::NetworkProfile;
use crate::store::{MmdbOptions, SharedStore, StoreError, StoreKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, mpsc, watch};

/// How long the end waits for what is under way.
const GRACE: Duration = Duration::from_secs(10);

/// What a server is started with.
pub struct Serve {
    /// Configuration.
    pub config: Config,
    /// Directory of the store; one that is there is gone on with.
    pub directory: PathBuf,
    /// Its kind.
    pub kind: StoreKind,
    /// mmdb's axes.
    pub mmdb: MmdbOptions,
    /// The mobiles.
    pub network: NetworkProfile,
    /// When a mobile is tried again.
    pub retry: RetryPolicy,
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
        /// Messages that were in flight when the store was closed.
        freed: usize,
    },
    /// Something about a peer or an application.
    Remark(&'a str),
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
    let Serve { config, directory, kind, mmdb, network, retry } = serve;
    let rules = Rules { queue_max: config.queue, ..kind.rules() };
    let store = SharedStore::open(kind, &directory, &mmdb, rules)?;
    let freed = recover(store.store(), Clock::default().now_us())?.freed;
    let archive = if store.store().has_flusher() { Some(Archive::open(&directory)?) } else { None };
    let reader = archive.as_ref().map(Archive::reader).transpose()?;
    let listener = listen(config.listen).await?;
    let http = match config.http {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let tls = match &config.tls {
        Some(tls) => Some(listen(tls.listen).await?),
        None => None,
    };
    let (smpp_address, http_address, tls_address) = (
        listener.local_addr()?,
        http.as_ref().map(TcpListener::local_addr).transpose()?,
        tls.as_ref().map(TcpListener::local_addr).transpose()?,
    );
    let (say, mut remarks) = mpsc::unbounded_channel();
    let front = Front::new(config, store, reader, say);
    let upkeep = upkeep::start(&front, archive)?;
    let route = tokio::spawn(network::run(Arc::clone(&front), network, retry));
    if let Some(http) = http {
        tokio::spawn(http::run(Arc::clone(&front), http));
    }
    let detour = tokio::spawn(peer::detour(Arc::clone(&front)));
    tell(Event::Listens { smpp: smpp_address, tls: tls_address, http: http_address, freed });
    let mut failed = front.failures();
    let outcome = loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => if let Some(permit) = front.place() {
                    let _ = stream.set_nodelay(true);
                    drop(tokio::spawn(session::run(Arc::clone(&front), stream::plain(stream), permit)));
                },
                // No descriptors are left, or the other side has gone: others are served meanwhile.
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            accepted = accept(tls.as_ref()) => match accepted {
                Ok((stream, _)) => if let Some(permit) = front.place() {
                    drop(tokio::spawn(secured(Arc::clone(&front), stream, permit)));
                },
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            },
            Some(remark) = remarks.recv() => tell(Event::Remark(&remark)),
            changed = wishes.changed() => {
                let wish = wishes.borrow_and_update().clone();
                match wish {
                    Wish::Reload(config) => {
                        let reloaded = front.reload(&config);
                        tell(Event::Reloads(reloaded.as_ref().map(|_| ()).map_err(String::as_str)));
                    }
                    Wish::Stop => break Ok(()),
                    Wish::None if changed.is_ok() => {}
                    Wish::None => break Ok(()),
                }
            }
            _ = failed.changed() => {
                let message = failed.borrow_and_update().clone();
                break Err(ServeError::Failed(message));
            }
        }
    };
    drop((listener, tls));
    tell(Event::Stops);
    front.stop();
    let begin = tokio::time::Instant::now();
    while front.is_busy() && begin.elapsed() < GRACE && outcome.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    front.end();
    // It ends when it has put down what was in the air.
    let _ = tokio::time::timeout(GRACE, route).await;
    detour.abort();
    upkeep.join();
    outcome
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
async fn secured(front: Arc<Front>, stream: TcpStream, permit: OwnedSemaphorePermit) {
    let _ = stream.set_nodelay(true);
    // Each connection has the certificate that holds when it comes.
    let Some(server) = front.config().tls.as_ref().map(|tls| Arc::clone(&tls.server)) else { return };
    let handshake = tokio_rustls::TlsAcceptor::from(server).accept(stream);
    match tokio::time::timeout(front.timers().session_init, handshake).await {
        Ok(Ok(stream)) => session::run(front, stream::secured(stream), permit).await,
        Ok(Err(_)) | Err(_) => front.metrics.tls_failed.add(1),
    }
}

async fn listen(address: std::net::SocketAddr) -> Result<TcpListener, ServeError> {
    let failed = |source| ServeError::Listen { address: address.to_string(), source };
    TcpListener::bind(address).await.map_err(failed)
}

//! outbind: an application that takes calls is called when something waits for it and none of its
//! sessions receives. It then binds on that connection, as on any other.

use super::front::{Account, Front};
use super::log::Level;
use super::session::{self, Seat};
use super::stream::plain;
use crate::smpp::Outbind;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// How long a connection may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where an application takes calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutbindConfig {
    /// Host and port.
    pub address: String,
    /// The password that the application knows the centre by.
    pub password: String,
}

/// Calls an application, and serves the session that comes of it until it ends.
pub(super) async fn call(front: Arc<Front>, account: Arc<Account>, config: OutbindConfig) {
    let Some(permit) = front.place() else { return };
    front.metrics.outbinds.add(1);
    let name = account.config().system_id;
    let connect = TcpStream::connect(&config.address);
    let problem = match tokio::time::timeout(PATIENCE, connect).await {
        Ok(Ok(mut stream)) => {
            let peer = stream.peer_addr().ok();
            let outbind = Outbind { system_id: front.config().system_id.clone(), password: config.password };
            let mut out = Vec::new();
            outbind.write(&mut out, 1);
            match stream.write_all(&out).await {
                Ok(()) => return session::run(front, peer, plain(stream), Seat::Bound(permit)).await,
                Err(error) => error.to_string(),
            }
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer in {} s", PATIENCE.as_secs()),
    };
    let line = front.log.at(Level::Warn, "outbind_failed").text("system_id", &name);
    line.text("address", &config.address).text("message", &problem);
}

//! Waiting for standbys.

use crate::documented::documented;
use crate::error::{Error, Result};
use crate::log::Ticket;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

impl Ticket {
    /// Blocks until the commit is durable here and `standbys` standbys have acknowledged it
    /// ([`crate::Database::acknowledge`]), lazy or not. Returns its number.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Schema};
    /// use std::time::Duration;
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let ticket = db.run_with(mmdb::Durability::Durable, |tx| tx.insert(&t, &[1.into()]))?.1;
    /// let alone = ticket.wait_standbys(1, Duration::from_millis(1));
    /// assert!(matches!(alone, Err(Error::StandbysMissing { standbys: 0, wanted: 1, .. })));
    /// db.acknowledge("s", &db.position()?)?;
    /// assert_eq!(ticket.wait_standbys(1, Duration::from_secs(10))?, 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::StandbysMissing`] if they have not after `at_most`; [`Error::Indeterminate`] if the
    /// flush failed; [`Error::Deposed`], [`Error::Poisoned`].
    pub fn wait_standbys(&self, standbys: usize, at_most: Duration) -> Result<u64> {
        documented("Ticket::wait_standbys", || {
            self.wait_durable()?;
            self.log().tails.wait(self.log(), self.gsn(), standbys, at_most)?;
            Ok(self.gsn())
        })
    }

    /// The same for a task: resolves once the commit, lazy or not, is durable here and `standbys`
    /// standbys have acknowledged it. It has no time limit of its own, but ends when the database
    /// is closed, with [`Error::StandbysMissing`]; the other errors are those of
    /// [`Ticket::wait_standbys`].
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// use std::future::Future;
    /// use std::pin::pin;
    /// use std::task::{Context, Poll, Waker};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let ticket = db.run_with(mmdb::Durability::Durable, |tx| tx.insert(&t, &[1.into()]))?.1;
    /// ticket.wait()?;
    /// let mut task = Context::from_waker(Waker::noop());
    /// let mut confirmed = pin!(ticket.standbys(1));
    /// assert!(confirmed.as_mut().poll(&mut task).is_pending());
    /// db.acknowledge("s", &db.position()?)?;
    /// assert!(matches!(confirmed.as_mut().poll(&mut task), Poll::Ready(Ok(1))));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    pub fn standbys(self, standbys: usize) -> Confirmation {
        Confirmation { ticket: self, standbys, number: None, began: Instant::now() }
    }
}

/// A commit that waits for standbys; see [`Ticket::standbys`].
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// let ticket = db.run_with(mmdb::Durability::Durable, |tx| tx.insert(&t, &[1.into()]))?.1;
/// let confirmed = async { ticket.standbys(1).await };
/// # drop(confirmed);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Confirmation {
    ticket: Ticket,
    standbys: usize,
    /// Of its waker among those that wait for acknowledgements, once it was one.
    number: Option<u64>,
    began: Instant,
}

impl Drop for Confirmation {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.ticket.log().tails.forget_commit(number);
        }
    }
}

impl Future for Confirmation {
    type Output = Result<u64>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<u64>> {
        let gsn = self.ticket.gsn();
        if self.ticket.log().horizon() < gsn {
            match self.ticket.poll_durable(cx) {
                Poll::Ready(Ok(_)) => {}
                other => return other,
            }
        }
        let Confirmation { ticket, standbys, number, began } = &mut *self;
        let log = ticket.log();
        if !log.tails.register_commit(number, gsn, *standbys, cx.waker()) {
            return Poll::Ready(Ok(gsn));
        }
        // Registered first: who poisons or closes wakes whoever is registered.
        match log.check() {
            Err(Error::Poisoned { .. }) => Poll::Ready(Err(ticket.failed())),
            Err(e) => Poll::Ready(Err(e)),
            // Nobody can acknowledge anything any more.
            Ok(()) if log.is_stopping() => Poll::Ready(Err(log.tails.missing(gsn, *standbys, *began))),
            Ok(()) => Poll::Pending,
        }
    }
}

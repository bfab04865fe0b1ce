//! Tickets: how a commit learns that it is durable.

use crate::argument::{place, put};
use crate::failure::guard;
use crate::handle::{content, give, take};
use crate::status::mmdb_status;
use mmdb::Ticket;

/// What a commit gives: whoever waits for it knows that the commit is durable. Any number of
/// threads may use it at once.
pub struct mmdb_ticket {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_ticket, Ticket, b"mmdbTIC\x01");

/// A ticket for the caller.
pub(crate) fn give_ticket(ticket: Ticket) -> *mut mmdb_ticket {
    give(ticket)
}

/// Waits until the commit is durable; a lazy one is not waited for. `gsn`, which may be NULL,
/// becomes its number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_ticket_wait(ticket: *const mmdb_ticket, gsn: *mut u64) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        put(gsn, content(ticket)?.wait()?);
        Ok(())
    })
}

/// As mmdb_ticket_wait, for a lazy commit too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_ticket_wait_durable(ticket: *const mmdb_ticket, gsn: *mut u64) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        put(gsn, content(ticket)?.wait_durable()?);
        Ok(())
    })
}

/// Whether the commit is durable. Does not wait, and sees to it that it becomes so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_ticket_poll(ticket: *const mmdb_ticket, done: *mut bool) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        put(place(done, "done")?, content(ticket)?.poll()?);
        Ok(())
    })
}

/// The number of the commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_ticket_gsn(ticket: *const mmdb_ticket, gsn: *mut u64) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        put(place(gsn, "gsn")?, content(ticket)?.gsn());
        Ok(())
    })
}

/// Frees a ticket. The commit becomes durable all the same.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_ticket_free(ticket: *mut mmdb_ticket) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if ticket.is_null() { Ok(()) } else { take(ticket).map(drop) } })
}

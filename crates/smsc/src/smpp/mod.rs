//! SMPP 3.4, as far as a centre speaks it: frames, fields, status codes, times.
//!
//! Why not `rusmpp-core`'s `Command::decode` (0.4.0, tried): its error does not name the field in
//! which decoding stopped, and SMPP answers each field's error with a status of its own
//! (ESME_RINVSRCADR, ESME_RINVEXPIRY …); an optional parameter of an unexpected length fails the
//! whole PDU, where it is to be passed on as it came; an address that is not ASCII is refused
//! before anybody can say why.

mod command;
mod frame;
mod pdu;
mod reader;
mod status;
#[cfg(test)]
mod tests;
mod time;
mod tlv;

pub use command::Command;
pub use frame::{Framing, HEADER_OCTETS, Header, PDU_OCTETS_MAX, frame};
pub use pdu::{
    Address, Bind, BindKind, Cancel, Deliver, Destination, MultiResponse, Query, Replace, Submit,
    SubmitMulti, bind_response, deliver, message_response, pdu, query_response,
};
pub use status::Status;
pub use time::{Time, format_time, parse_time};
pub use tlv::{Tlvs, tag, write_tlv};

//! SMPP 3.4, as far as a centre speaks it: frames, fields, status codes, times.
//!
//! Why not `rusmpp-core`'s `Command::decode` (0.4.0; its source was read, nothing was built on it):
//! SMPP answers each field's error with a status of its own (ESME_RINVSRCADR, ESME_RINVEXPIRY …),
//! and its error names the field with the feature `verbose` only, not the status; optional
//! parameters become values of types that it knows, where they are to be passed on as they came.

mod alert;
mod command;
mod frame;
mod pdu;
mod reader;
mod receipt;
mod status;
#[cfg(test)]
mod tests;
mod time;
mod tlv;

pub use alert::{Alert, Outbind};
pub use command::Command;
pub use frame::{Framing, HEADER_OCTETS, Header, PDU_OCTETS_MAX, frame};
pub use pdu::{
    Address, Bind, BindKind, Cancel, Deliver, Destination, MultiResponse, Query, Replace, Submit,
    SubmitMulti, bind_response, deliver, message_response, pdu, query_response,
};
pub use receipt::{PeerReceipt, names_old_version, response_message_id};
pub use status::Status;
pub use time::{Time, format_time, parse_time};
pub use tlv::{Tlvs, tag, write_tlv};

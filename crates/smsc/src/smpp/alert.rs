//! What a centre sends unasked besides messages: alert_notification and outbind. Neither has an
//! answer of its own.

use super::pdu::{Address, LONG_ADDRESS_MAX, pdu, text};
use super::reader::Reader;
use super::{Command, Status, Tlvs, tag, write_tlv};

/// alert_notification (SMPP 3.4 §4.12): a mobile whose delivery pending flag an application has set
/// is there again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alert {
    /// The mobile.
    pub source: Address,
    /// The application's address, with which it had submitted.
    pub esme: Address,
    /// ms_availability_status: 0 available, 1 denied, 2 unavailable; none if it was left out.
    pub availability: Option<u8>,
}

impl Alert {
    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Alert, Status> {
        let mut reader = Reader(body);
        let source = Address::of_centre(&mut reader, LONG_ADDRESS_MAX, Status::SourceAddress)?;
        let esme = Address::of_centre(&mut reader, LONG_ADDRESS_MAX, Status::DestinationAddress)?;
        let availability = Tlvs::new(reader.0)?.number(tag::MS_AVAILABILITY, 1)?;
        // It came in one octet.
        Ok(Alert { source, esme, availability: availability.map(|status| status as u8) })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>, sequence: u32) {
        pdu(out, Command::AlertNotification as u32, Status::Ok, sequence, |out| {
            self.source.write(out);
            self.esme.write(out);
            if let Some(status) = self.availability {
                write_tlv(out, tag::MS_AVAILABILITY, &[status]);
            }
        });
    }
}

/// outbind (SMPP 3.4 §4.1.7): a centre asks an application to bind as a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbind {
    /// The centre's name.
    pub system_id: String,
    /// The centre's password, by which the application knows it.
    pub password: String,
}

impl Outbind {
    /// Reads a body.
    ///
    /// # Errors
    /// The status that the first wrong field has.
    pub fn read(body: &[u8]) -> Result<Outbind, Status> {
        let mut reader = Reader(body);
        let system_id = reader.ascii(16, Status::SystemId)?;
        Ok(Outbind { system_id, password: reader.ascii(9, Status::Password)? })
    }

    /// Appends it.
    pub fn write(&self, out: &mut Vec<u8>, sequence: u32) {
        pdu(out, Command::Outbind as u32, Status::Ok, sequence, |out| {
            text(out, &self.system_id);
            text(out, &self.password);
        });
    }
}

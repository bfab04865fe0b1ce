//! Numbers of operations (SMPP 3.4 §5.1.2.1).

/// An operation; its response has the same number and the highest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
#[expect(missing_docs, reason = "the names are SMPP's")]
pub enum Command {
    GenericNack = 0x8000_0000,
    BindReceiver = 0x01,
    BindReceiverResp = 0x8000_0001,
    BindTransmitter = 0x02,
    BindTransmitterResp = 0x8000_0002,
    QuerySm = 0x03,
    QuerySmResp = 0x8000_0003,
    SubmitSm = 0x04,
    SubmitSmResp = 0x8000_0004,
    DeliverSm = 0x05,
    DeliverSmResp = 0x8000_0005,
    Unbind = 0x06,
    UnbindResp = 0x8000_0006,
    ReplaceSm = 0x07,
    ReplaceSmResp = 0x8000_0007,
    CancelSm = 0x08,
    CancelSmResp = 0x8000_0008,
    BindTransceiver = 0x09,
    BindTransceiverResp = 0x8000_0009,
    Outbind = 0x0b,
    EnquireLink = 0x15,
    EnquireLinkResp = 0x8000_0015,
    SubmitMulti = 0x21,
    SubmitMultiResp = 0x8000_0021,
    AlertNotification = 0x102,
    DataSm = 0x103,
    DataSmResp = 0x8000_0103,
}

/// The bit of responses.
const RESPONSE: u32 = 0x8000_0000;

impl Command {
    const ALL: [Command; 27] = {
        use Command::*;
        [
            GenericNack,
            BindReceiver,
            BindReceiverResp,
            BindTransmitter,
            BindTransmitterResp,
            QuerySm,
            QuerySmResp,
            SubmitSm,
            SubmitSmResp,
            DeliverSm,
            DeliverSmResp,
            Unbind,
            UnbindResp,
            ReplaceSm,
            ReplaceSmResp,
            CancelSm,
            CancelSmResp,
            BindTransceiver,
            BindTransceiverResp,
            Outbind,
            EnquireLink,
            EnquireLinkResp,
            SubmitMulti,
            SubmitMultiResp,
            AlertNotification,
            DataSm,
            DataSmResp,
        ]
    };

    /// The operation of this number.
    #[must_use]
    pub fn of(number: u32) -> Option<Command> {
        Command::ALL.into_iter().find(|command| *command as u32 == number)
    }

    /// The operation that answers this one; generic_nack for those that have none.
    #[must_use]
    pub fn response(self) -> Command {
        Command::of(self as u32 | RESPONSE).unwrap_or(Command::GenericNack)
    }

    /// Whether it is an answer.
    #[must_use]
    pub fn is_response(self) -> bool {
        self as u32 & RESPONSE != 0
    }
}

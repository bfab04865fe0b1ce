//! What an answer says: command_status (SMPP 3.4 §5.1.3).

macro_rules! statuses {
    ($($name:ident $number:literal $smpp:literal;)*) => {
        /// command_status of an answer.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u32)]
        #[expect(missing_docs, reason = "`name` gives SMPP's")]
        pub enum Status { $($name = $number,)* }

        impl Status {
            /// The name in the specification.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Status::$name => $smpp,)* }
            }

            /// The status of this number.
            #[must_use]
            pub fn of(number: u32) -> Option<Status> {
                match number { $($number => Some(Status::$name),)* _ => None }
            }
        }
    };
}

statuses! {
    Ok 0x00 "ESME_ROK";
    MessageLength 0x01 "ESME_RINVMSGLEN";
    CommandLength 0x02 "ESME_RINVCMDLEN";
    CommandId 0x03 "ESME_RINVCMDID";
    BindStatus 0x04 "ESME_RINVBNDSTS";
    AlreadyBound 0x05 "ESME_RALYBND";
    PriorityFlag 0x06 "ESME_RINVPRTFLG";
    RegisteredDelivery 0x07 "ESME_RINVREGDLVFLG";
    SystemError 0x08 "ESME_RSYSERR";
    SourceAddress 0x0a "ESME_RINVSRCADR";
    DestinationAddress 0x0b "ESME_RINVDSTADR";
    MessageId 0x0c "ESME_RINVMSGID";
    BindFailed 0x0d "ESME_RBINDFAIL";
    Password 0x0e "ESME_RINVPASWD";
    SystemId 0x0f "ESME_RINVSYSID";
    CancelFailed 0x11 "ESME_RCANCELFAIL";
    ReplaceFailed 0x13 "ESME_RREPLACEFAIL";
    QueueFull 0x14 "ESME_RMSGQFUL";
    ServiceType 0x15 "ESME_RINVSERTYP";
    NumberOfDestinations 0x33 "ESME_RINVNUMDESTS";
    DistributionList 0x34 "ESME_RINVDLNAME";
    DestinationFlag 0x40 "ESME_RINVDESTFLAG";
    EsmClass 0x43 "ESME_RINVESMCLASS";
    SubmitFailed 0x45 "ESME_RSUBMITFAIL";
    SourceTon 0x48 "ESME_RINVSRCTON";
    SourceNpi 0x49 "ESME_RINVSRCNPI";
    DestinationTon 0x50 "ESME_RINVDSTTON";
    DestinationNpi 0x51 "ESME_RINVDSTNPI";
    SystemType 0x53 "ESME_RINVSYSTYP";
    ReplaceFlag 0x54 "ESME_RINVREPFLAG";
    Throttled 0x58 "ESME_RTHROTTLED";
    ScheduleTime 0x61 "ESME_RINVSCHED";
    Validity 0x62 "ESME_RINVEXPIRY";
    DefaultMessage 0x63 "ESME_RINVDFTMSGID";
    TemporaryApplication 0x64 "ESME_RX_T_APPN";
    PermanentApplication 0x65 "ESME_RX_P_APPN";
    RejectedByApplication 0x66 "ESME_RX_R_APPN";
    QueryFailed 0x67 "ESME_RQUERYFAIL";
    OptionalStream 0xc0 "ESME_RINVOPTPARSTREAM";
    OptionalNotAllowed 0xc1 "ESME_ROPTPARNOTALLWD";
    ParameterLength 0xc2 "ESME_RINVPARLEN";
    OptionalMissing 0xc3 "ESME_RMISSINGOPTPARAM";
    OptionalValue 0xc4 "ESME_RINVOPTPARAMVAL";
    DeliveryFailure 0xfe "ESME_RDELIVERYFAILURE";
    Unknown 0xff "ESME_RUNKNOWNERR";
}

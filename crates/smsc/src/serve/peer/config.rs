//! `[[peer]]`: a centre to which this one binds as an application does.

use crate::model::PEERS_MAX;
use crate::serve::config::{Problem, read_file, system_id, within};
use crate::serve::tls::{PeerTls, WrittenPeerTls};
use crate::smpp::BindKind;
use serde::Deserialize;
use std::path::PathBuf;
use std::time::Duration;
use toml::Spanned;

/// How a peer writes its numbers of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageIds {
    /// The same in its answers and in its receipts.
    Same,
    /// Hexadecimal in answers, decimal in receipts.
    HexadecimalInAnswers,
    /// Decimal in answers, hexadecimal in receipts.
    HexadecimalInReceipts,
}

impl MessageIds {
    /// A number of an answer or of a receipt as both are compared: numbers without zeros in front,
    /// letters in lower case.
    #[must_use]
    pub fn comparable(self, id: &str, is_receipt: bool) -> String {
        let is_hexadecimal = match self {
            MessageIds::Same => false,
            MessageIds::HexadecimalInAnswers => !is_receipt,
            MessageIds::HexadecimalInReceipts => is_receipt,
        };
        if is_hexadecimal && let Ok(number) = u128::from_str_radix(id, 16) {
            return number.to_string();
        }
        let lower = id.to_ascii_lowercase();
        let short = lower.trim_start_matches('0');
        if short.is_empty() && !lower.is_empty() { "0".into() } else { short.into() }
    }
}

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerConfig {
    /// Its number, which the store's messages carry: never to be changed.
    pub number: u16,
    /// Its name, which routes say.
    pub name: String,
    /// Host and port.
    pub address: String,
    /// This centre's name there.
    pub system_id: String,
    /// Its password there.
    pub password: String,
    /// system_type.
    pub system_type: String,
    /// Sessions, and what each is bound as.
    pub binds: Vec<BindKind>,
    /// Messages under way in each session.
    pub window: usize,
    /// Messages in a second in each session; 0 for no limit.
    pub rate: u32,
    /// Silence before the peer is asked whether it is there; twice that ends the session.
    pub enquire_link: Duration,
    /// How long an answer is waited for.
    pub response: Duration,
    /// How long a session that ended is waited for at first, and at most.
    pub reconnect: (Duration, Duration),
    /// How long a peer may be away before messages go another way.
    pub failover: Duration,
    /// Whether it gets optional parameters; none if the version counts that it names.
    pub parameters: Option<bool>,
    /// Whether it sends receipts.
    pub receipts: bool,
    /// Whether what has the parameters of a receipt is one although its esm_class says that it is a
    /// message.
    pub unmarked_receipts: bool,
    /// How long a receipt is waited for beyond the end of validity.
    pub receipt_wait: Duration,
    /// How it writes numbers.
    pub message_ids: MessageIds,
    /// TLS, if it is spoken.
    pub tls: Option<PeerTls>,
}

/// `[[peer]]` as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::serve) struct WrittenPeer {
    number: Spanned<u16>,
    name: Spanned<String>,
    address: Spanned<String>,
    system_id: Spanned<String>,
    password: Option<Spanned<String>>,
    password_file: Option<Spanned<PathBuf>>,
    system_type: Option<Spanned<String>>,
    binds: Option<Spanned<Vec<Spanned<String>>>>,
    window: Option<Spanned<u32>>,
    rate: Option<Spanned<u32>>,
    enquire_link_s: Option<Spanned<f64>>,
    response_s: Option<Spanned<f64>>,
    reconnect_s: Option<Spanned<f64>>,
    reconnect_max_s: Option<Spanned<f64>>,
    failover_s: Option<Spanned<f64>>,
    parameters: Option<bool>,
    receipts: Option<bool>,
    unmarked_receipts: Option<bool>,
    receipt_wait_s: Option<Spanned<f64>>,
    message_id: Option<Spanned<String>>,
    tls: Option<Spanned<WrittenPeerTls>>,
}

/// Sessions with a peer at most.
const BINDS_MAX: usize = 16;
/// The longest wait for an answer: a claim holds a minute, in which its end must be stored.
const RESPONSE_MAX_S: f64 = 45.0;

/// Checks all peers.
pub(in crate::serve) fn checked(written: &[Spanned<WrittenPeer>]) -> Result<Vec<PeerConfig>, Problem> {
    let mut peers: Vec<PeerConfig> = Vec::with_capacity(written.len());
    for spanned in written {
        let written = spanned.get_ref();
        let peer = written.checked(spanned)?;
        if peers.iter().any(|other| other.number == peer.number) {
            return Err((
                written.number.span(),
                format!("number {} belongs to another peer already", peer.number),
            ));
        }
        if peers.iter().any(|other| other.name == peer.name) {
            return Err((
                written.name.span(),
                format!("the name {:?} belongs to another peer already", peer.name),
            ));
        }
        peers.push(peer);
    }
    Ok(peers)
}

impl WrittenPeer {
    fn checked(&self, whole: &Spanned<WrittenPeer>) -> Result<PeerConfig, Problem> {
        let name = self.name.get_ref();
        let is_name = (1..=32).contains(&name.len())
            && name.bytes().all(|octet| octet.is_ascii_alphanumeric() || octet == b'-' || octet == b'_');
        // Routes and metrics have these for the simulated mobiles.
        if !is_name || ["network", "mobiles"].contains(&name.as_str()) {
            let problem = format!(
                "{name:?}: a peer's name has 1 to 32 letters, digits, - or _, and is not network or mobiles"
            );
            return Err((self.name.span(), problem));
        }
        let address = self.address.get_ref();
        let is_address = address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty()
                && !host.contains(char::is_whitespace)
                && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !is_address {
            let problem = format!("{address:?} is no address: give a host and a port, as smsc.example:2775");
            return Err((self.address.span(), problem));
        }
        let reconnect = seconds(&self.reconnect_s, 1.0, 0.1..=3600.0)?;
        let reconnect_max = seconds(&self.reconnect_max_s, 60.0, 0.1..=86_400.0)?;
        if reconnect_max < reconnect {
            let span = self.reconnect_max_s.as_ref().or(self.reconnect_s.as_ref());
            let span = span.map_or(whole.span(), Spanned::span);
            return Err((span, "reconnect_max_s is less than reconnect_s".into()));
        }
        Ok(PeerConfig {
            number: within(Some(&self.number), 1, 1..=PEERS_MAX)?,
            name: name.clone(),
            address: address.clone(),
            system_id: system_id(&self.system_id)?,
            password: self.password(whole)?,
            system_type: word(self.system_type.as_ref(), 12, "system_type")?,
            binds: self.binds()?,
            window: within(self.window.as_ref(), 10, 1..=10_000)? as usize,
            rate: within(self.rate.as_ref(), 0, 0..=1_000_000)?,
            enquire_link: seconds(&self.enquire_link_s, 30.0, 0.1..=86_400.0)?,
            response: seconds(&self.response_s, 30.0, 0.1..=RESPONSE_MAX_S)?,
            reconnect: (reconnect, reconnect_max),
            failover: seconds(&self.failover_s, 5.0, 0.0..=86_400.0)?,
            parameters: self.parameters,
            receipts: self.receipts.unwrap_or(true),
            unmarked_receipts: self.unmarked_receipts.unwrap_or(false),
            receipt_wait: seconds(&self.receipt_wait_s, 3600.0, 0.0..=31_536_000.0)?,
            message_ids: self.message_ids()?,
            tls: self.tls.as_ref().map(|tls| tls.get_ref().checked(host(address))).transpose()?,
        })
    }

    fn password(&self, whole: &Spanned<WrittenPeer>) -> Result<String, Problem> {
        let (text, span) = match (&self.password, &self.password_file) {
            (Some(_), Some(file)) => {
                return Err((file.span(), "give password or password_file, not both".into()));
            }
            (Some(password), None) => (password.get_ref().clone(), password.span()),
            (None, Some(file)) => {
                let path = file.get_ref().display();
                let read = read_file(file.get_ref());
                let text = read.map_err(|error| (file.span(), format!("password_file {path}: {error}")))?;
                (text.trim_end_matches(['\r', '\n']).to_owned(), file.span())
            }
            (None, None) => {
                return Err((whole.span(), "the peer has neither password nor password_file".into()));
            }
        };
        if text.len() > super::super::PASSWORD_OCTETS_MAX || !is_printable(&text) {
            // Not the password itself: a log may have more readers than the file.
            return Err((span, "a password of SMPP has at most 8 printable letters of ASCII".into()));
        }
        Ok(text)
    }

    fn binds(&self) -> Result<Vec<BindKind>, Problem> {
        let Some(written) = &self.binds else { return Ok(vec![BindKind::Transceiver]) };
        let count = written.get_ref().len();
        if !(1..=BINDS_MAX).contains(&count) {
            return Err((written.span(), format!("{count} binds: a peer has 1 to {BINDS_MAX}")));
        }
        let kind = |word: &Spanned<String>| match word.get_ref().as_str() {
            "transceiver" => Ok(BindKind::Transceiver),
            "transmitter" => Ok(BindKind::Transmitter),
            "receiver" => Ok(BindKind::Receiver),
            other => Err((
                word.span(),
                format!("there is no bind {other:?}: transceiver, transmitter or receiver"),
            )),
        };
        written.get_ref().iter().map(kind).collect()
    }

    fn message_ids(&self) -> Result<MessageIds, Problem> {
        let Some(word) = &self.message_id else { return Ok(MessageIds::Same) };
        match word.get_ref().as_str() {
            "same" => Ok(MessageIds::Same),
            "hexadecimal-in-answers" => Ok(MessageIds::HexadecimalInAnswers),
            "hexadecimal-in-receipts" => Ok(MessageIds::HexadecimalInReceipts),
            other => Err((
                word.span(),
                format!("message_id = {other:?}: same, hexadecimal-in-answers or hexadecimal-in-receipts"),
            )),
        }
    }
}

/// The host of an address, without the brackets of IPv6.
fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']'])
}

fn is_printable(text: &str) -> bool {
    text.bytes().all(|octet| (b' '..=b'~').contains(&octet))
}

fn word(written: Option<&Spanned<String>>, max: usize, name: &str) -> Result<String, Problem> {
    let Some(written) = written else { return Ok(String::new()) };
    let text = written.get_ref();
    if text.len() <= max && is_printable(text) {
        return Ok(text.clone());
    }
    Err((written.span(), format!("{text:?}: {name} has at most {max} printable letters of ASCII")))
}

fn seconds(
    written: &Option<Spanned<f64>>,
    otherwise: f64,
    limits: std::ops::RangeInclusive<f64>,
) -> Result<Duration, Problem> {
    within(written.as_ref(), otherwise, limits).map(Duration::from_secs_f64)
}

#[cfg(test)]
mod tests {
    use super::MessageIds::{HexadecimalInAnswers, HexadecimalInReceipts, Same};

    #[test]
    fn numbers_of_answers_and_receipts_are_compared_as_the_field_writes_them() {
        for (ids, answer, receipt) in [
            (Same, "0000012345", "12345"),
            (Same, "4F2A", "4f2a"),
            (Same, "a-b-c", "A-B-C"),
            (Same, "0", "000"),
            (HexadecimalInAnswers, "4F2A", "20266"),
            (HexadecimalInAnswers, "00ff", "0000000255"),
            (HexadecimalInReceipts, "20266", "4f2a"),
            (HexadecimalInReceipts, "20266", "00004F2A"),
            (HexadecimalInAnswers, "no-number", "no-number"),
        ] {
            assert_eq!(ids.comparable(answer, false), ids.comparable(receipt, true), "{answer} {receipt}");
        }
        for (ids, answer, receipt) in
            [(Same, "10", "a"), (Same, "16", "10"), (HexadecimalInAnswers, "10", "10"), (Same, "", "0")]
        {
            assert_ne!(ids.comparable(answer, false), ids.comparable(receipt, true), "{answer} {receipt}");
        }
    }
}

//! `POST /v1/messages`.

use super::super::super::front::{Account, Front, UnderWay};
use super::super::super::submission::{refusal_status, submission, target_of};
use super::super::super::turns::SLICE;
use super::super::auth::failed;
use super::super::server::{Answer, Request};
use super::Api;
use crate::centre::{Operation, Outcome};
use crate::smpp::{Address, HEADER_OCTETS, Status, Submit, Time, parse_time};
use crate::store::Acknowledge;
use crate::text::encode_septets;
use hyper::{StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Destinations of a request at most, as of submit_multi.
const DESTINATIONS_MAX: usize = 254;

/// The body of a request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with the fields of a message")]
struct Written {
    from: Option<String>,
    to: Destinations,
    text: Option<String>,
    binary: Option<String>,
    data_coding: Option<u8>,
    receipt: Option<Receipt>,
    deliver_at: Option<String>,
    validity_s: Option<u32>,
    #[serde(default)]
    priority: u8,
    #[serde(default)]
    service_type: String,
    #[serde(default)]
    esm_class: u8,
    #[serde(default)]
    protocol_id: u8,
    from_ton: Option<u8>,
    from_npi: Option<u8>,
    to_ton: Option<u8>,
    to_npi: Option<u8>,
}

/// One, or several.
#[derive(Deserialize)]
#[serde(untagged, expecting = "`to` is a number, or an array of numbers, each in quotes")]
enum Destinations {
    One(String),
    Many(Vec<String>),
}

/// registered_delivery in a word.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Receipt {
    None,
    Always,
    Failure,
    Success,
}

/// A mistake in a request: what is wrong.
struct Wrong(String);

impl From<&str> for Wrong {
    fn from(problem: &str) -> Wrong {
        Wrong(problem.into())
    }
}

impl Wrong {
    fn answer(&self) -> Answer {
        Answer::error(StatusCode::BAD_REQUEST, "bad_request", &self.0)
    }
}

/// Octets of pairs of hexadecimal digits.
fn octets(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let pair = |pair: &[u8]| {
        let is_pair = pair.len() == 2 && pair.iter().all(u8::is_ascii_hexdigit);
        let text = std::str::from_utf8(pair).ok().filter(|_| is_pair)?;
        u8::from_str_radix(text, 16).ok()
    };
    pairs.map(pair).collect()
}

/// The body of a text and its data_coding: the default alphabet where it has all letters, else
/// UCS2.
fn encoded(text: &str) -> (Vec<u8>, u8) {
    match encode_septets(text) {
        Ok(septets) => (septets, 0),
        Err(_) => (text.encode_utf16().flat_map(u16::to_be_bytes).collect(), 8),
    }
}

/// A time of RFC 3339 as one of SMPP, which has the years 2000 to 2099.
fn time_of(text: &str) -> Option<Time> {
    let octets = text.as_bytes();
    let (date, rest) = octets.split_first_chunk::<19>()?;
    let marks = [(4, b'-'), (7, b'-'), (13, b':'), (16, b':')];
    let is_date = marks.iter().all(|&(at, mark)| date[at] == mark) && matches!(date[10], b'T' | b't' | b' ');
    let rest = std::str::from_utf8(rest).ok()?;
    let fraction =
        rest.strip_prefix('.').map_or(0, |digits| 1 + digits.bytes().take_while(u8::is_ascii_digit).count());
    let (tenth, zone) =
        (rest.as_bytes().get(1).filter(|_| fraction > 1).copied().unwrap_or(b'0'), &rest[fraction..]);
    let (sign, quarters) = match (zone, zone.as_bytes()) {
        ("Z" | "z", _) => (b'+', 0),
        (_, [sign @ (b'+' | b'-'), a, b, b':', c, d]) => {
            let digits = [a, b, c, d].map(|digit| digit.wrapping_sub(b'0'));
            // Before they are multiplied: what is no digit may be any number.
            if digits.iter().any(|&digit| digit > 9) || digits[2] > 5 {
                return None;
            }
            let minutes = u16::from(digits[0]) * 600
                + u16::from(digits[1]) * 60
                + u16::from(digits[2]) * 10
                + u16::from(digits[3]);
            if minutes % 15 != 0 || minutes > 48 * 15 {
                return None;
            }
            (*sign, minutes / 15)
        }
        _ => return None,
    };
    if !is_date || &date[..2] != b"20" {
        return None;
    }
    let mut smpp: Vec<u8> = [2, 5, 8, 11, 14, 17].iter().flat_map(|&at| [date[at], date[at + 1]]).collect();
    smpp.push(tenth);
    smpp.extend_from_slice(format!("{quarters:02}").as_bytes());
    smpp.push(sign);
    parse_time(&smpp)
}

/// An address with its type of number: letters are an alphanumeric name, digits are international.
fn address(text: &str, ton: Option<u8>, npi: Option<u8>) -> Address {
    let is_number = text.trim_start_matches('+').bytes().all(|octet| octet.is_ascii_digit());
    let usual = if is_number { (1, 1) } else { (5, 0) };
    Address { ton: ton.unwrap_or(usual.0), npi: npi.unwrap_or(usual.1), text: text.to_owned() }
}

impl Written {
    fn read(request: &Request) -> Result<Written, Answer> {
        let kind = request.header(header::CONTENT_TYPE).unwrap_or_default();
        if !kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json") {
            let message = "the header Content-Type must say application/json";
            return Err(Answer::error(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type", message));
        }
        serde_json::from_slice(&request.body).map_err(|error| Wrong(error.to_string()).answer())
    }

    /// The message, but for its destination.
    fn submit(&self, account: &Account) -> Result<Submit, Wrong> {
        let (body, data_coding) = match (&self.text, &self.binary) {
            (Some(text), None) if self.data_coding.is_none() => encoded(text),
            (Some(_), None) => {
                return Err("`data_coding` goes with `binary`: a text is encoded by the centre".into());
            }
            (None, Some(digits)) => {
                let octets = octets(digits).ok_or("`binary` is no pairs of hexadecimal digits")?;
                (octets, self.data_coding.unwrap_or(4))
            }
            (None, None) => return Err("there is neither `text` nor `binary`".into()),
            (Some(_), Some(_)) => return Err("there are both `text` and `binary`: give one".into()),
        };
        let from = match &self.from {
            Some(from) => from.clone(),
            None => account
                .config()
                .numbers
                .first()
                .cloned()
                .ok_or("`from` is left out, and the account has no number")?,
        };
        let schedule = match &self.deliver_at {
            Some(text) => time_of(text).ok_or("`deliver_at` is no time such as 2030-01-31T12:00:00Z")?,
            None => Time::None,
        };
        let validity = self.validity_s.map_or(Time::None, |s| Time::Relative(i64::from(s) * 1_000_000));
        let registered_delivery = self.receipt.map_or(0, |receipt| receipt as u8);
        Ok(Submit {
            service_type: self.service_type.clone(),
            source: address(&from, self.from_ton, self.from_npi),
            destination: Address::default(),
            esm_class: self.esm_class,
            protocol_id: self.protocol_id,
            priority: self.priority,
            schedule,
            validity,
            registered_delivery,
            replaces: false,
            data_coding,
            body,
            tlvs: Vec::new(),
            segment: None,
        })
    }
}

/// The same as SMPP would bring it: whatever field is wrong has its status.
fn checked(submit: Submit) -> Result<Submit, Status> {
    let fields = [&submit.service_type, &submit.source.text, &submit.destination.text];
    // A NUL would end the field, and another begin.
    let wrong = [Status::ServiceType, Status::SourceAddress, Status::DestinationAddress];
    if let Some((_, status)) = fields.into_iter().zip(wrong).find(|(field, _)| field.contains('\0')) {
        return Err(status);
    }
    let mut octets = Vec::new();
    // Times are kept as they are: SMPP's have a tenth of a second at least, and some have no form
    // there.
    let without = Submit { schedule: Time::None, validity: Time::None, ..submit.clone() };
    without.write(&mut octets, 1);
    let read = Submit::read(octets.get(HEADER_OCTETS..).unwrap_or_default())?;
    Ok(Submit { schedule: submit.schedule, validity: submit.validity, ..read })
}

/// A place among an account's requests that are under way.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

impl Api {
    pub(super) async fn send(&self, account: Arc<Account>, request: &Request) -> Answer {
        let written = match Written::read(request) {
            Ok(written) => written,
            Err(answer) => return answer,
        };
        let submit = match written.submit(&account) {
            Ok(submit) => submit,
            Err(wrong) => return wrong.answer(),
        };
        let address = |to: &String| address(to, written.to_ton, written.to_npi);
        let (destinations, is_one) = match &written.to {
            Destinations::One(to) => (vec![address(to)], true),
            Destinations::Many(to) => (to.iter().map(address).collect(), false),
        };
        if destinations.is_empty() || destinations.len() > DESTINATIONS_MAX {
            return Wrong(format!("`to` has 1 to {DESTINATIONS_MAX} numbers")).answer();
        }
        let front = Arc::clone(&self.front);
        if let Some(silence) = front.silence() {
            front.metrics.store_silent.add(destinations.len() as u64);
            let message = format!("the store has not answered for {} s", silence.as_secs());
            return Answer::error(StatusCode::SERVICE_UNAVAILABLE, "store_silent", &message)
                .with(header::RETRY_AFTER, "5");
        }
        // Goes on where the client goes: what was begun is stored, and counted.
        let sent = tokio::spawn(async move { send_all(&front, &account, submit, destinations).await });
        let Ok(sent) = sent.await else { return failed(Status::SystemError, "") };
        answer(&sent, is_one)
    }
}

/// What became of a message to an address.
type Sent = (String, Result<(i64, u8), Status>);

fn answer(sent: &[Sent], is_one: bool) -> Answer {
    let accepted = |(to, done): &Sent| match done {
        Ok((msg_id, parts)) => json!({ "id": msg_id.to_string(), "to": to, "parts": parts }),
        Err(status) => json!({ "to": to, "error": { "code": status.name() } }),
    };
    match sent {
        [(_, Err(status))] => failed(*status, ""),
        [outcome] if is_one => Answer::json(StatusCode::ACCEPTED, &accepted(outcome)),
        _ => match sent.iter().find_map(|outcome| outcome.1.err()) {
            // Nothing was accepted: as of one.
            Some(status) if sent.iter().all(|outcome| outcome.1.is_err()) => failed(status, ""),
            _ => {
                let all: Vec<Value> = sent.iter().map(accepted).collect();
                Answer::json(StatusCode::ACCEPTED, &json!({ "messages": all }))
            }
        },
    }
}

/// Stores messages to all destinations; each is durable when this is done.
async fn send_all(
    front: &Arc<Front>,
    account: &Account,
    submit: Submit,
    destinations: Vec<Address>,
) -> Vec<Sent> {
    let _one = UnderWay::new(&front.under_way);
    account.requests.fetch_add(1, Relaxed);
    let _place = Place(Arc::clone(&account.requests));
    let config = account.config();
    let fits = account.requests.load(Relaxed) <= config.window as usize;
    let since = Instant::now();
    let mut started = Vec::with_capacity(destinations.len());
    let mut turn = None;
    for (at, destination) in destinations.into_iter().enumerate() {
        if at % SLICE as usize == 0 {
            drop(turn.take());
            turn = Some(front.turns.take(account.number).await);
        }
        let to = destination.text.clone();
        let now_us = front.clock.now_us();
        let ready = checked(Submit { destination, ..submit.clone() }).and_then(|submit| {
            if !fits || !account.may_submit(config.rate, now_us) {
                front.metrics.throttled.add(1);
                return Err(Status::Throttled);
            }
            submission(front, account.number, submit, now_us)
        });
        started.push((
            to,
            ready.map(|submission| {
                let to = (submission.message.dst_key, target_of(&submission));
                let parts = submission.message.parts;
                let receive = Operation::Receive(Box::new(submission));
                (to, parts, front.store.start(receive, Acknowledge::Durable))
            }),
        ));
    }
    drop(turn);
    let mut sent = Vec::with_capacity(started.len());
    for (to, started) in started {
        let done = match started {
            Err(status) => Err(status),
            Ok(((station, target), parts, started)) => {
                // It is on its way by now; whoever delivers need not wait for the commit.
                front.wake(station, target);
                match started.await {
                    Ok(Outcome::Received(msg_id)) => Ok((msg_id, parts)),
                    Ok(Outcome::Refused(refusal)) => Err(refusal_status(&refusal, Status::SubmitFailed)),
                    Ok(_) => Err(Status::SystemError),
                    Err(error) => {
                        front.fail(error);
                        Err(Status::SystemError)
                    }
                }
            }
        };
        match &done {
            Ok(_) => {
                front.metrics.accepted.add(1);
                front.metrics.submit.add(since.elapsed().as_micros() as u64);
            }
            Err(_) => front.metrics.refused.add(1),
        }
        sent.push((to, done));
    }
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_rfc_3339_are_read() {
        for (text, us) in [
            ("2024-02-29T12:00:00Z", Some(1_709_208_000_000_000)),
            ("2024-02-29T13:00:00+01:00", Some(1_709_208_000_000_000)),
            ("2024-02-29t11:15:00.5-00:45", Some(1_709_208_000_500_000)),
            ("2024-02-29T12:00:00.123456789z", Some(1_709_208_000_100_000)),
            ("2023-02-29T12:00:00Z", None),
            ("2024-02-29T12:00:00", None),
            ("2024-02-29T12:00:00+01:07", None),
            ("2024-02-29T12:00:00+99:00", None),
            // Neither an offset nor a product that fits, and one that was taken for +02:15.
            ("2024-02-29T12:00:00+ 1:00", None),
            ("2024-02-29T12:00:00+01:75", None),
            ("1999-12-31T23:59:59Z", None),
            ("2024-13-01T00:00:00Z", None),
            ("2024-02-29T12:00:00.Zé", None),
            ("", None),
        ] {
            assert_eq!(time_of(text), us.map(Time::Absolute), "{text}");
        }
    }

    #[test]
    fn a_text_takes_the_alphabet_that_has_it() {
        assert_eq!(encoded("a€"), (vec![0x61, 0x1b, 0x65], 0));
        assert_eq!(encoded("ж"), (vec![0x04, 0x36], 8));
        assert_eq!(octets("00fF"), Some(vec![0, 255]));
        assert_eq!((octets("0"), octets("+1"), octets("é0")), (None, None, None));
    }
}

//! The HTTP API: send, query, cancel. What SMPP's fields may have and what an account may do holds
//! here, too: a message is written as a submit_sm and read as one.

mod page;
mod send;

use super::super::front::{Account, Front, UnderWay};
use super::super::lookup::{self, FoundMessage};
use super::auth::{Accounts, failed};
use super::server::{Answer, Request, Site};
use crate::centre::{Operation, Outcome, Refusal, rfc3339};
use crate::model::MessageState;
use crate::smpp::Status;
use crate::store::Acknowledge;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use std::sync::Arc;

/// Where messages are.
const MESSAGES: &str = "/v1/messages";

/// The site.
pub(in crate::serve) struct Api {
    front: Arc<Front>,
    accounts: Accounts,
}

impl Api {
    /// The API of a server.
    pub fn new(front: &Arc<Front>) -> Api {
        Api { front: Arc::clone(front), accounts: Accounts::new() }
    }
}

impl Site for Api {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        if let Some(answer) = page::answer(&request) {
            return answer;
        }
        let Some(below) = request.path.strip_prefix(MESSAGES) else {
            return Answer::not_found("there are /v1/messages, /openapi.json and a page at /");
        };
        self.front.metrics.api_requests.add(1);
        let account = match self.accounts.account(&self.front, &request).await {
            Ok(account) => account,
            Err(answer) => return answer,
        };
        request.settle();
        match (below.strip_prefix('/'), &request.method) {
            (None, &Method::POST) if below.is_empty() => self.send(account, &request).await,
            (None, _) if below.is_empty() => Answer::not_allowed("POST"),
            (Some(number), method) => match (number.parse(), method) {
                (Err(_), _) => Answer::not_found("a message's id is a number"),
                (Ok(msg_id), &Method::GET) => self.query(&account, msg_id).await,
                (Ok(msg_id), &Method::DELETE) => self.cancel(account, msg_id).await,
                (Ok(_), _) => Answer::not_allowed("GET, DELETE"),
            },
            (None, _) => Answer::not_found("there is /v1/messages"),
        }
    }
}

/// A message's state in a word.
pub(super) fn state_name(state: MessageState) -> &'static str {
    if state == MessageState::Scheduled {
        return "scheduled";
    }
    match state.receipt_word() {
        "ENROUTE" => "enroute",
        "DELIVRD" => "delivered",
        "EXPIRED" => "expired",
        "DELETED" => "deleted",
        "UNDELIV" => "undeliverable",
        "REJECTD" => "rejected",
        _ => "unknown",
    }
}

/// A time, or null for none.
pub(super) fn time(us: i64) -> Value {
    if us == 0 { Value::Null } else { rfc3339(us).into() }
}

/// A message as the API shows it.
fn shown(found: &FoundMessage) -> Value {
    let (msg_id, state, error, times, addresses) = match found {
        FoundMessage::Live(live) => (
            live.msg_id,
            Some(live.state),
            live.last_error,
            [live.submit_us, live.done_us],
            [&live.src, &live.dst],
        ),
        FoundMessage::Archived(record) => (
            record.msg_id,
            MessageState::of(record.state.into()),
            record.error,
            [record.submit_us, record.done_us],
            [&record.src, &record.dst],
        ),
    };
    json!({
        "id": msg_id.to_string(),
        "from": addresses[0],
        "to": addresses[1],
        "state": state.map_or("unknown", state_name),
        "final": state.is_none_or(MessageState::is_final),
        "error": error,
        "accepted": time(times[0]),
        "done": time(times[1]),
    })
}

impl Api {
    /// The account's message of this number.
    async fn own_message(&self, account: u32, msg_id: i64) -> Result<Option<FoundMessage>, Status> {
        let found = lookup::message(&self.front, msg_id).await?;
        Ok(found.filter(|found| match found {
            FoundMessage::Live(live) => live.account == account && live.receipt_of == 0,
            FoundMessage::Archived(record) => record.account == account && record.receipt_of == 0,
        }))
    }

    async fn query(&self, account: &Account, msg_id: i64) -> Answer {
        let _one = UnderWay::new(&self.front.under_way);
        match self.own_message(account.number, msg_id).await {
            Ok(Some(found)) => Answer::json(StatusCode::OK, &shown(&found)),
            Ok(None) => no_such_message(),
            Err(status) => failed(status, ""),
        }
    }

    async fn cancel(&self, account: Arc<Account>, msg_id: i64) -> Answer {
        let (front, number) = (Arc::clone(&self.front), account.number);
        // Goes on where the client goes.
        let cancelled = tokio::spawn(async move {
            let _one = UnderWay::new(&front.under_way);
            let cancel = Operation::Cancel { account: account.number, msg_id, now_us: front.clock.now_us() };
            let outcome = front.store.start(cancel, Acknowledge::Durable).await;
            if let Ok(Outcome::Count(_)) = &outcome {
                front.wake_for_receipt(account.number, msg_id);
            }
            outcome.inspect_err(|error| front.fail(error))
        });
        let conflict = |message| Answer::error(StatusCode::CONFLICT, Status::CancelFailed.name(), message);
        match cancelled.await {
            Ok(Ok(Outcome::Count(_))) => {
                Answer::json(StatusCode::OK, &json!({ "id": msg_id.to_string(), "state": "deleted" }))
            }
            Ok(Ok(Outcome::Refused(Refusal::Final))) => conflict("the message has its final state"),
            Ok(Ok(Outcome::Refused(Refusal::InFlight))) => {
                conflict("the message is being delivered just now")
            }
            // One that has left the store is in the archive.
            Ok(Ok(Outcome::Refused(_))) => match self.own_message(number, msg_id).await {
                Ok(Some(_)) => conflict("the message has its final state"),
                Ok(None) => no_such_message(),
                Err(status) => failed(status, ""),
            },
            _ => failed(Status::SystemError, ""),
        }
    }
}

fn no_such_message() -> Answer {
    Answer::not_found("this account has no such message")
}

//! The admin page: what goes on, who is bound, where a message is; ending a session, taking a
//! message back.
//!
//! The page itself has nothing that is secret and is given to anybody. What it shows comes from
//! `/api/`, for whoever has signed in (`auth`). A request that changes something must be JSON and
//! have the header `X-Smsc`: no other page can make a browser send that without being asked first,
//! and nobody answers that question.

use super::super::front::{Front, UnderWay};
use super::super::gauges::Process;
use super::super::log::Level;
use super::super::lookup::{self, FoundMessage};
use super::super::queues::Depth;
use super::super::sessions::kind_name;
use super::super::submission::shown_text;
use super::api::{state_name, time};
use super::auth::{Operators, failed};
use super::server::{Answer, Request, Site};
use crate::centre::{Operation, Outcome, Refusal};
use crate::model::MessageState;
use crate::smpp::Status;
use crate::store::Acknowledge;
use hyper::{Method, StatusCode, header};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Seconds of rates that the page draws.
const SECONDS: usize = 120;
/// Sessions, and messages, that an answer has at most.
const SESSIONS_MAX: usize = 500;
const MESSAGES_MAX: usize = 50;

/// The site.
pub(in crate::serve) struct Admin {
    front: Arc<Front>,
    operators: Operators,
}

impl Admin {
    pub fn new(front: &Arc<Front>) -> Admin {
        Admin { front: Arc::clone(front), operators: Operators::new() }
    }

    /// Another configuration holds: whoever has signed in signs in again.
    pub fn forget(&self) {
        self.operators.forget();
    }
}

fn file(path: &str) -> Option<Answer> {
    Some(match path {
        "/" => Answer::of("text/html; charset=utf-8", include_str!("admin/admin.html")),
        "/admin.css" => {
            let text = concat!(include_str!("base.css"), include_str!("admin/admin.css"));
            Answer::of("text/css; charset=utf-8", text)
        }
        "/admin.js" => Answer::of("text/javascript; charset=utf-8", include_str!("admin/admin.js")),
        _ => return None,
    })
}

/// Whether a request that changes something comes from the page, or from a program.
fn is_meant(request: &Request) -> bool {
    let kind = request.header(header::CONTENT_TYPE).unwrap_or_default();
    let is_json =
        kind.split(';').next().is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
    // A browser says from where it asks.
    let from_here = match (request.header(header::ORIGIN), request.header(header::HOST)) {
        (Some(origin), Some(host)) => origin.split_once("://").is_some_and(|parts| parts.1 == host),
        (Some(_), None) => false,
        (None, _) => true,
    };
    is_json && from_here && request.headers.contains_key("x-smsc")
}

/// The body of a request.
fn body<'a, T: Deserialize<'a>>(request: &'a Request) -> Result<T, Answer> {
    serde_json::from_slice(&request.body)
        .map_err(|error| Answer::error(StatusCode::BAD_REQUEST, "bad_request", &error.to_string()))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    password: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Kick {
    session: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cancel {
    id: String,
}

impl Site for Admin {
    async fn answer(self: Arc<Self>, request: Request) -> Answer {
        if let Some(file) = file(&request.path) {
            return if request.method == Method::GET { file } else { Answer::not_allowed("GET") };
        }
        let Some(what) = request.path.strip_prefix("/api/") else {
            return Answer::not_found("there are / and /api/");
        };
        let method = match what {
            "state" | "messages" => Method::GET,
            "sign-in" | "sign-out" | "kick" | "cancel" => Method::POST,
            _ => return Answer::not_found("there is no such thing below /api/"),
        };
        if request.method != method {
            return Answer::not_allowed(if method == Method::GET { "GET" } else { "POST" });
        }
        if method == Method::POST && !is_meant(&request) {
            let message =
                "Content-Type must be application/json, X-Smsc must be there, Origin must be this page's";
            return Answer::error(StatusCode::FORBIDDEN, "forbidden", message);
        }
        if what == "sign-in" {
            return self.sign_in(&request).await;
        }
        if let Err(answer) = self.operators.check(&self.front, &request).await {
            return answer;
        }
        request.settle();
        match what {
            "state" => Answer::json(StatusCode::OK, &self.state(&request)),
            "messages" => self.messages(&request).await,
            "sign-out" => {
                self.operators.sign_out(&request);
                Answer::json(StatusCode::OK, &json!({}))
            }
            "kick" => match body(&request) {
                Ok(kick) => self.kick(&kick, &request),
                Err(answer) => answer,
            },
            _ => match body(&request) {
                Ok(cancel) => self.cancel(&cancel, &request).await,
                Err(answer) => answer,
            },
        }
    }
}

/// Milliseconds with two digits behind the point, or null.
fn ms(us: Option<u64>) -> Value {
    us.map_or(Value::Null, |us| json!((us as f64 / 10.0).round() / 100.0))
}

impl Admin {
    async fn sign_in(&self, request: &Request) -> Answer {
        let SignIn { password } = match body(request) {
            Ok(sign_in) => sign_in,
            Err(answer) => return answer,
        };
        let peer = request.peer.to_string();
        match self.operators.sign_in(&self.front, request, &password).await {
            Ok(session) => {
                self.front.log.at(Level::Info, "admin_sign_in").text("peer", &peer);
                Answer::json(StatusCode::OK, &json!({ "session": session }))
            }
            Err(answer) => {
                self.front.log.of_stranger(Level::Warn, "admin_refused").text("peer", &peer);
                answer
            }
        }
    }

    /// All that the page shows at a glance.
    fn state(&self, request: &Request) -> Value {
        let front = &self.front;
        let metrics = &front.metrics;
        let depths = front.queues.depths();
        let rates: serde_json::Map<String, Value> = front
            .rates
            .series(SECONDS)
            .into_iter()
            .map(|series| {
                let rounded: Vec<f64> =
                    series.per_s.iter().map(|rate| (rate * 10.0).round() / 10.0).collect();
                (series.name.to_owned(), json!(rounded))
            })
            .collect();
        let [submit, delivery] = front.rates.quantiles_us(&[0.5, 0.99]);
        let accounts: Vec<Value> = front
            .all_accounts()
            .iter()
            .map(|account| {
                let config = account.config();
                let Depth { messages, busy, .. } =
                    depths.accounts.get(&account.number).copied().unwrap_or_default();
                json!({
                    "number": account.number, "system_id": config.system_id,
                    "sessions": account.sessions(), "sessions_max": config.sessions,
                    "queued": messages, "in_flight": busy, "queue_max": config.receipts,
                    "rate_max": config.rate, "throttled": account.throttled.get(),
                })
            })
            .collect();
        let routes: Vec<Value> = depths
            .routes
            .iter()
            .map(|(name, Depth { messages, ready, busy, waiting })| {
                json!({ "name": name, "queued": messages, "ready": ready, "in_flight": busy, "waiting": waiting })
            })
            .collect();
        let wanted = request.parameter("system_id").filter(|wanted| !wanted.is_empty());
        let all = front.sessions.all();
        let mut bound = 0;
        let mut sessions = Vec::new();
        for entry in &all {
            let Some(as_whom) = entry.bound.get() else { continue };
            bound += 1;
            if wanted.as_ref().is_some_and(|wanted| !as_whom.system_id.contains(wanted.as_str()))
                || sessions.len() == SESSIONS_MAX
            {
                continue;
            }
            sessions.push(json!({
                "session": entry.number, "system_id": as_whom.system_id, "as": kind_name(as_whom.kind),
                "peer": entry.peer, "seconds": entry.since.elapsed().as_secs(),
                "submitted": entry.submitted.get(),
                "accepted": entry.accepted.get(), "refused": entry.refused.get(),
                "submissions": entry.window.load(Relaxed), "deliveries": entry.deliveries.load(Relaxed),
                "window": as_whom.account.config().window,
            }));
        }
        let store = front.store.store();
        let Process { resident, descriptors } = Process::now();
        let flushes = store.flushes();
        let admin = front.config().admin.clone();
        json!({
            "name": front.config().system_id,
            "version": env!("CARGO_PKG_VERSION"),
            "engine": front.engine,
            "uptime_s": (front.clock.now_us() - front.begin_us) / 1_000_000,
            "rates": rates,
            "latency_ms": {
                "submit": { "p50": ms(submit[0]), "p99": ms(submit[1]) },
                "delivery": { "p50": ms(delivery[0]), "p99": ms(delivery[1]) },
            },
            "totals": {
                "accepted": metrics.accepted.get(), "refused": metrics.refused.get(),
                "throttled": metrics.throttled.get(), "delivered": metrics.delivered.get(),
                "undeliverable": metrics.undeliverable.get(), "expired": metrics.expired.get(),
                "deliver_sm": metrics.deliver_sm.get(), "archived": metrics.archived.get(),
                "binds": metrics.binds.get(), "binds_refused": metrics.binds_refused.get(),
                "malformed": metrics.malformed.get(),
            },
            "accounts": accounts,
            "routes": routes,
            "routes_age_s": depths.counted.map(|counted| counted.elapsed().as_secs()),
            "sessions": sessions,
            "sessions_bound": bound,
            "connections": all.len(),
            "process": { "resident": resident, "descriptors": descriptors },
            "store": {
                "memory": store.memory_bytes(), "log": store.log_bytes(),
                "flushes": flushes.map(|flushes| flushes.0),
                "flush_ms": ms(flushes.and_then(|(count, ns)| (ns / 1000).checked_div(count))),
            },
            "shows_text": admin.is_some_and(|admin| admin.text),
        })
    }

    async fn messages(&self, request: &Request) -> Answer {
        let number = |name: &str| request.parameter(name).filter(|text| !text.trim().is_empty());
        let found = match (number("id"), number("to")) {
            (Some(id), _) => match id.trim().parse() {
                Ok(msg_id) => {
                    lookup::message(&self.front, msg_id).await.map(|found| found.into_iter().collect())
                }
                Err(_) => Ok(Vec::new()),
            },
            (None, Some(to)) => lookup::to_number(&self.front, to.trim(), MESSAGES_MAX).await,
            (None, None) => {
                let message = "give id=NUMBER or to=NUMBER";
                return Answer::error(StatusCode::BAD_REQUEST, "bad_request", message);
            }
        };
        let found: Vec<FoundMessage> = match found {
            Ok(found) => found,
            Err(Status::DestinationAddress) => Vec::new(),
            Err(status) => return failed(status, ""),
        };
        let with_text = self.front.config().admin.as_ref().is_some_and(|admin| admin.text);
        let shown: Vec<Value> = found.iter().map(|found| self.shown(found, with_text)).collect();
        Answer::json(StatusCode::OK, &json!({ "messages": shown, "max": MESSAGES_MAX }))
    }

    fn shown(&self, found: &FoundMessage, with_text: bool) -> Value {
        let system_id = |number| {
            let account = self.front.account(number);
            account.map_or_else(|| format!("account {number}"), |account| account.config().system_id)
        };
        match found {
            FoundMessage::Live(live) => {
                let mut value = json!({
                    "id": live.msg_id.to_string(), "where": "store", "system_id": system_id(live.account),
                    "from": live.src, "to": live.dst, "state": state_name(live.state),
                    "final": live.state.is_final(), "is_receipt": live.receipt_of != 0,
                    "accepted": time(live.submit_us), "deliver_at": time(live.schedule_us),
                    "expires": time(live.expire_us), "done": time(live.done_us),
                    "attempts": live.attempts, "error": live.last_error, "octets": live.body.len(),
                });
                if with_text {
                    value["text"] = shown_text(live.data_coding, live.esm_class, &live.body).into();
                }
                value
            }
            FoundMessage::Archived(record) => json!({
                "id": record.msg_id.to_string(), "where": "archive", "system_id": system_id(record.account),
                "from": record.src, "to": record.dst,
                "state": MessageState::of(record.state.into()).map_or("unknown", state_name),
                "final": true, "is_receipt": record.receipt_of != 0,
                "accepted": time(record.submit_us), "deliver_at": time(record.schedule_us),
                "expires": Value::Null, "done": time(record.done_us),
                "attempts": record.attempts, "error": record.error, "octets": record.octets,
            }),
        }
    }

    fn kick(&self, kick: &Kick, request: &Request) -> Answer {
        let Kick { session } = *kick;
        if !self.front.sessions.kick(session) {
            return Answer::not_found("there is no such session any more");
        }
        self.front.metrics.kicked.add(1);
        let line = self.front.log.at(Level::Warn, "session_kicked").number("session", session as i64);
        drop(line.text("by", &request.peer.to_string()));
        Answer::json(StatusCode::OK, &json!({ "session": session }))
    }

    async fn cancel(&self, cancel: &Cancel, request: &Request) -> Answer {
        let conflict =
            |message: &str| Answer::error(StatusCode::CONFLICT, Status::CancelFailed.name(), message);
        let missing = || Answer::not_found("there is no such message that waits");
        let Ok(msg_id) = cancel.id.parse() else { return missing() };
        let front = &self.front;
        let _one = UnderWay::new(&front.under_way);
        let account = match lookup::message(front, msg_id).await {
            Ok(Some(FoundMessage::Live(live))) if live.receipt_of == 0 => live.account,
            Ok(Some(FoundMessage::Live(_))) => return conflict("a receipt cannot be taken back"),
            Ok(Some(FoundMessage::Archived(_))) => return conflict("the message has its final state"),
            Ok(None) => return missing(),
            Err(status) => return failed(status, ""),
        };
        let (front, by) = (Arc::clone(front), request.peer.to_string());
        // Goes on where the operator's browser goes.
        let cancelled = tokio::spawn(async move {
            let _one = UnderWay::new(&front.under_way);
            let operation = Operation::Cancel { account, msg_id, now_us: front.clock.now_us() };
            let outcome = front.store.start(operation, Acknowledge::Durable).await;
            if let Ok(Outcome::Count(_)) = &outcome {
                front.wake_for_receipt(account, msg_id);
                let line = front.log.at(Level::Warn, "message_cancelled").number("id", msg_id);
                drop(line.text("by", &by));
            }
            outcome.inspect_err(|error| front.fail(error))
        });
        match cancelled.await {
            Ok(Ok(Outcome::Count(_))) => Answer::json(StatusCode::OK, &json!({ "id": cancel.id })),
            Ok(Ok(Outcome::Refused(Refusal::InFlight))) => {
                conflict("the message is being delivered just now")
            }
            Ok(Ok(Outcome::Refused(Refusal::Final))) => conflict("the message has its final state"),
            Ok(Ok(_)) => missing(),
            _ => failed(Status::SystemError, ""),
        }
    }
}

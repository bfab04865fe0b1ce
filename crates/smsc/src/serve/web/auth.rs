//! Who asks: the account of a password or a token, and the operator.

use super::super::authenticator::Verdict;
use super::super::front::{Account, Front};
use super::super::token::{hash_token, is_token, new_token};
use super::server::{Answer, Request};
use crate::smpp::Status;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hyper::{StatusCode, header};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Sessions of the admin page at most.
const MANY: usize = 1024;
/// How long whoever gave a wrong password waits for the answer.
const WRONG: Duration = Duration::from_secs(1);
/// Wrong passwords that wait for their answer at a time; others are sent away at once.
const WAITING: usize = 16;
/// How long a session of the admin page lasts without a request.
const IDLE: Duration = Duration::from_secs(1800);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What follows the name of a scheme in the header Authorization.
fn credentials<'a>(request: &'a Request, scheme: &str) -> Option<&'a str> {
    let (name, rest) = request.header(header::AUTHORIZATION)?.split_once(' ')?;
    name.eq_ignore_ascii_case(scheme).then(|| rest.trim())
}

/// Accounts by what they come with.
pub(super) struct Accounts {
    waiting: Semaphore,
}

impl Accounts {
    pub fn new() -> Accounts {
        Accounts { waiting: Semaphore::new(WAITING) }
    }

    /// The account that asks.
    ///
    /// # Errors
    /// The answer that it gets instead.
    pub async fn account(&self, front: &Front, request: &Request) -> Result<Arc<Account>, Answer> {
        let source = request.source();
        let verdict = if let Some(token) = credentials(request, "bearer") {
            match front.account_of_token(&hash_token(token)) {
                Some(account) => return Ok(account),
                None => Some(front.stranger(source)),
            }
        } else if let Some((system_id, password)) = credentials(request, "basic").and_then(name_and_password)
        {
            let account = front.account_of_system_id(&system_id);
            match (front.verdict(source, account.as_deref(), &password).await, account) {
                (Verdict::Right, Some(account)) => return Ok(account),
                (verdict, _) => Some(verdict),
            }
        } else {
            request.headers.contains_key(header::AUTHORIZATION).then(|| front.stranger(source))
        };
        front.metrics.api_unauthorized.add(1);
        let message = "give an account's system_id and password (Basic), or a token of it (Bearer)";
        let answer = Answer::error(StatusCode::UNAUTHORIZED, "unauthorized", message)
            .with(header::WWW_AUTHENTICATE, "Basic realm=\"smsc\", charset=\"UTF-8\"");
        match verdict {
            // Who says nothing is told at once what to say.
            None => Err(answer),
            Some(verdict) => Err(refused(&self.waiting, verdict, answer).await),
        }
    }
}

/// What Basic has: a name and a password, in base 64.
fn name_and_password(text: &str) -> Option<(String, String)> {
    let text = String::from_utf8(STANDARD.decode(text).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// What whoever is not let in is told: `answer` after a while, or when to try again.
async fn refused(waiting: &Semaphore, verdict: Verdict, answer: Answer) -> Answer {
    let (wait, message) = match verdict {
        Verdict::Right | Verdict::Wrong => return slowly(waiting, answer).await,
        Verdict::Braked(wait) => (wait, "too many wrong passwords or tokens from this address"),
        Verdict::Busy => (WRONG, "too many passwords wait to be looked at"),
    };
    Answer::error(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", message)
        .with_number(header::RETRY_AFTER, wait.as_secs() + 1)
}

/// Lets whoever guesses wait, as long as not too many do.
async fn slowly(waiting: &Semaphore, answer: Answer) -> Answer {
    let Ok(_one) = waiting.try_acquire() else {
        let message = "too many wrong passwords at a time";
        return Answer::error(StatusCode::TOO_MANY_REQUESTS, "too_many_attempts", message)
            .with(header::RETRY_AFTER, "1");
    };
    tokio::time::sleep(WRONG).await;
    answer
}

/// What HTTP says for a command_status.
pub(super) fn failed(status: Status, message: &str) -> Answer {
    let (code, words) = match status {
        Status::Throttled => {
            (StatusCode::TOO_MANY_REQUESTS, "more messages than the account's rate or window allows")
        }
        Status::QueueFull => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too much is queued for the destination, or waits for the account",
        ),
        Status::SystemError => (StatusCode::INTERNAL_SERVER_ERROR, "the centre has failed"),
        Status::MessageLength => (StatusCode::UNPROCESSABLE_ENTITY, "the message is too long"),
        Status::SourceAddress => (StatusCode::UNPROCESSABLE_ENTITY, "`from` is no address"),
        Status::DestinationAddress => {
            (StatusCode::UNPROCESSABLE_ENTITY, "`to` is no number of 1 to 17 digits")
        }
        Status::Validity => {
            (StatusCode::UNPROCESSABLE_ENTITY, "the validity ends before the message is to be delivered")
        }
        Status::ScheduleTime => {
            (StatusCode::UNPROCESSABLE_ENTITY, "`deliver_at` is more than ten years away")
        }
        Status::SubmitFailed => (
            StatusCode::UNPROCESSABLE_ENTITY,
            "the message cannot be submitted: its data_coding is not known, or \
              the account's quota is used up",
        ),
        Status::PriorityFlag => (StatusCode::UNPROCESSABLE_ENTITY, "`priority` is from 0 to 3"),
        Status::ServiceType => {
            (StatusCode::UNPROCESSABLE_ENTITY, "`service_type` has at most 5 characters of ASCII")
        }
        Status::EsmClass => (StatusCode::UNPROCESSABLE_ENTITY, "this `esm_class` is not one to submit with"),
        Status::SourceTon | Status::SourceNpi => {
            (StatusCode::UNPROCESSABLE_ENTITY, "`from_ton` or `from_npi` is none of SMPP 3.4")
        }
        Status::DestinationTon | Status::DestinationNpi => {
            (StatusCode::UNPROCESSABLE_ENTITY, "`to_ton` or `to_npi` is none of SMPP 3.4")
        }
        _ => (StatusCode::UNPROCESSABLE_ENTITY, "the message cannot be submitted"),
    };
    let message = if message.is_empty() { words } else { message };
    let answer = Answer::error(code, status.name(), message);
    match status {
        Status::Throttled | Status::QueueFull => answer.with(header::RETRY_AFTER, "1"),
        _ => answer,
    }
}

/// The operator's sessions: a random number for each, which the page has in its memory and sends
/// with each request. There is no cookie, so no other page can make a browser send it.
pub(super) struct Operators {
    /// By the hash of their number: when they were seen last.
    sessions: Mutex<HashMap<String, Instant>>,
    waiting: Semaphore,
}

impl Operators {
    pub fn new() -> Operators {
        Operators { sessions: Mutex::default(), waiting: Semaphore::new(WAITING) }
    }

    /// Lets an operator in who knows the password: the number of a new session.
    ///
    /// # Errors
    /// The answer that is given instead.
    pub async fn sign_in(&self, front: &Front, request: &Request, password: &str) -> Result<String, Answer> {
        let verdict = front.verdict_of_operator(request.source(), password).await;
        if verdict != Verdict::Right {
            front.metrics.admin_unauthorized.add(1);
            let answer = Answer::error(StatusCode::UNAUTHORIZED, "unauthorized", "this is not the password");
            return Err(refused(&self.waiting, verdict, answer).await);
        }
        let session = new_token()
            .map_err(|problem| Answer::error(StatusCode::INTERNAL_SERVER_ERROR, "no_random", &problem))?;
        let mut sessions = lock(&self.sessions);
        sessions.retain(|_, seen| seen.elapsed() < IDLE);
        if sessions.len() >= MANY {
            sessions.clear();
        }
        sessions.insert(hash_token(&session), Instant::now());
        Ok(session)
    }

    /// Ends the session that asks.
    pub fn sign_out(&self, request: &Request) {
        if let Some(session) = credentials(request, "bearer") {
            lock(&self.sessions).remove(&hash_token(session));
        }
    }

    /// Whether an operator asks, or a program with the token.
    ///
    /// # Errors
    /// The answer that is given instead.
    pub async fn check(&self, front: &Front, request: &Request) -> Result<(), Answer> {
        let Some(given) = credentials(request, "bearer") else {
            return Err(Answer::error(
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "sign in, or give the token (Bearer)",
            ));
        };
        let hash = hash_token(given);
        // Digests of random numbers are looked up: what a guess's digest begins with tells nothing.
        if let Some(seen) = lock(&self.sessions).get_mut(&hash)
            && seen.elapsed() < IDLE
        {
            *seen = Instant::now();
            return Ok(());
        }
        let token = front.config().admin.as_ref().and_then(|admin| admin.token.clone());
        if token.is_some_and(|token| is_token(&token, given)) {
            return Ok(());
        }
        front.metrics.admin_unauthorized.add(1);
        let answer = Answer::error(
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "the session has ended, or the token is wrong",
        );
        Err(slowly(&self.waiting, answer).await)
    }

    /// Forgets all sessions: the password or the token has changed.
    pub fn forget(&self) {
        lock(&self.sessions).clear();
    }
}

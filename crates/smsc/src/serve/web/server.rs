//! Connections of HTTP/1.1 and their limits.
//!
//! hyper reads and writes; what a site gets is a whole request. So that no client takes more than
//! its share: connections at a time, seconds for the head and for the body, octets of both, and
//! minutes of a connection are limited.

use super::super::places::{Places, UnboundConnection};
use super::super::source::Source;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// From a connection, or an answer, to the end of the next request's head.
const HEAD: Duration = Duration::from_secs(10);
/// From there to the end of its body.
const BODY: Duration = Duration::from_secs(10);
/// How long a connection may be there.
const CONNECTION: Duration = Duration::from_secs(600);
/// How long the end of the server waits for a connection.
const FAREWELL: Duration = Duration::from_secs(5);
/// Octets of a head at most.
const HEAD_OCTETS: usize = 16 << 10;
/// Octets of a body at most: the longest message as JSON, and some more.
pub(super) const BODY_OCTETS: usize = 256 << 10;

/// A whole request.
pub(in crate::serve) struct Request {
    pub method: Method,
    /// The path, as it came.
    pub path: String,
    /// What follows `?`.
    pub query: String,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub peer: SocketAddr,
    place: Arc<UnboundConnection>,
}

impl Request {
    /// A header, if it is there and text.
    pub fn header(&self, name: HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Whoever asks has shown who it is: its connection does not make room for others any more.
    pub fn settle(&self) {
        self.place.settle();
    }

    /// Where it comes from, as far as limits go.
    pub fn source(&self) -> Source {
        Source::of(self.peer.ip())
    }

    /// A parameter of the query, decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let mut pairs = self.query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        pairs.find(|pair| pair.0 == name).map(|pair| decoded(pair.1))
    }
}

/// Percent-encoding undone; what is no encoding stays, and what is no UTF-8 shows as such.
fn decoded(text: &str) -> String {
    let octets = text.as_bytes();
    let mut out = Vec::with_capacity(octets.len());
    let mut at = 0;
    while at < octets.len() {
        // A sign is no digit, though it may stand before a number.
        let digits = octets.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        match (octets[at], digits.and_then(|digits| u8::from_str_radix(digits, 16).ok())) {
            (b'%', Some(octet)) => {
                out.push(octet);
                at += 2;
            }
            (b'+', _) => out.push(b' '),
            (octet, _) => out.push(octet),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// What is answered.
pub(in crate::serve) struct Answer {
    pub status: StatusCode,
    kind: &'static str,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Bytes,
}

impl Answer {
    /// Text or a file of this kind.
    pub fn of(kind: &'static str, body: impl Into<Bytes>) -> Answer {
        Answer { status: StatusCode::OK, kind, headers: Vec::new(), body: body.into() }
    }

    /// Words.
    pub fn text(status: StatusCode, text: String) -> Answer {
        Answer { status, ..Answer::of("text/plain; charset=utf-8", text) }
    }

    /// JSON.
    pub fn json(status: StatusCode, value: &Value) -> Answer {
        let mut text = value.to_string();
        text.push('\n');
        Answer { status, ..Answer::of("application/json", text) }
    }

    /// A mistake, in words; `code` names it for programs.
    pub fn error(status: StatusCode, code: &str, message: &str) -> Answer {
        Answer::json(status, &json!({ "error": { "code": code, "message": message } }))
    }

    /// Nothing is there.
    pub fn not_found(message: &str) -> Answer {
        Answer::error(StatusCode::NOT_FOUND, "not_found", message)
    }

    /// Another method is meant.
    pub fn not_allowed(methods: &'static str) -> Answer {
        let answer = Answer::error(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", methods);
        answer.with(header::ALLOW, methods)
    }

    /// With one more header; the value is the centre's own.
    pub fn with(mut self, name: HeaderName, value: &'static str) -> Answer {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    /// With one more header, a number.
    pub fn with_number(mut self, name: HeaderName, value: u64) -> Answer {
        self.headers.push((name, value.into()));
        self
    }
}

/// What answers requests.
pub(in crate::serve) trait Site: Send + Sync + 'static {
    /// Answers one.
    fn answer(self: Arc<Self>, request: Request) -> impl Future<Output = Answer> + Send;
}

/// Serves a site until the server ends, with so many connections at a time as there are places.
pub(in crate::serve) async fn run(
    site: Arc<impl Site>,
    listener: TcpListener,
    places: Arc<Places>,
    mut stopping: watch::Receiver<bool>,
) {
    let until = stopping.clone();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopping.wait_for(|stops| *stops) => return,
        };
        match accepted {
            Ok((stream, peer)) => {
                // One more than there may be is closed.
                if let Some(place) = places.enter(Source::of(peer.ip())).await {
                    tokio::spawn(serve(Arc::clone(&site), stream, (peer, place), until.clone()));
                }
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}

async fn serve(
    site: Arc<impl Site>,
    stream: TcpStream,
    (peer, place): (SocketAddr, UnboundConnection),
    mut until: watch::Receiver<bool>,
) {
    let _ = stream.set_nodelay(true);
    let (driven_out, place) = (Arc::clone(&place.driven_out), Arc::new(place));
    let service = service_fn(move |request| {
        let (site, place) = (Arc::clone(&site), Arc::clone(&place));
        async move { Ok::<_, Infallible>(response(answer(site, request, (peer, place)).await)) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(HEAD_OCTETS)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // How a connection ends is its client's affair.
    tokio::select! {
        _ = connection.as_mut() => return,
        // Somebody else wants its place.
        () = driven_out.notified() => return,
        () = tokio::time::sleep(CONNECTION) => {}
        _ = until.wait_for(|stops| *stops) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = tokio::time::timeout(FAREWELL, connection).await;
}

async fn answer(
    site: Arc<impl Site>,
    request: hyper::Request<Incoming>,
    (peer, place): (SocketAddr, Arc<UnboundConnection>),
) -> Answer {
    let (head, body) = request.into_parts();
    let body = match tokio::time::timeout(BODY, Limited::new(body, BODY_OCTETS).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let message = format!("a body has {BODY_OCTETS} octets at most");
            let answer = Answer::error(StatusCode::PAYLOAD_TOO_LARGE, "too_large", &message);
            return answer.with(header::CONNECTION, "close");
        }
        Ok(Err(_)) => {
            return Answer::error(StatusCode::BAD_REQUEST, "bad_request", "the body did not come whole");
        }
        Err(_) => {
            let message = "the body took too long";
            let answer = Answer::error(StatusCode::REQUEST_TIMEOUT, "timeout", message);
            return answer.with(header::CONNECTION, "close");
        }
    };
    let request = Request {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        headers: head.headers,
        body,
        peer,
        place,
    };
    site.answer(request).await
}

/// With what holds for all answers: nothing is kept by a cache, framed by another page, taken for
/// what it is not, or loaded from elsewhere.
fn response(answer: Answer) -> hyper::Response<Full<Bytes>> {
    const ALL: [(HeaderName, &str); 5] = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
             base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        ),
    ];
    let Answer { status, kind, headers, body } = answer;
    let mut response = hyper::Response::new(Full::new(body));
    *response.status_mut() = status;
    let set = response.headers_mut();
    set.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    ALL.into_iter().for_each(|(name, value)| _ = set.insert(name, HeaderValue::from_static(value)));
    headers.into_iter().for_each(|(name, value)| _ = set.insert(name, value));
    response
}

#[cfg(test)]
mod tests {
    use super::decoded;

    #[test]
    fn percent_encoding_is_undone() {
        for (from, to) in [
            ("a+b%20c", "a b c"),
            ("%2B49170", "+49170"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("%c3%a9", "é"),
            ("%ff", "\u{fffd}"),
            ("%+1", "% 1"),
        ] {
            assert_eq!(decoded(from), to, "{from}");
        }
    }
}

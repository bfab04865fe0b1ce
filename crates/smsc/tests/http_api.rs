//! The HTTP API as programs use it: what is accepted is delivered, what is wrong is said, and
//! whoever is slow, large or a stranger gets nothing.
#![allow(clippy::unwrap_used)]

mod http_client;
mod smpp_client;

use http_client::{Answer, JSON, ask, basic, raw};
use serde_json::{Value, json};
use smpp_client::{Client, FOREVER, PASSWORD, Server, config};
use smsc::serve::{hash_token, new_token};
use smsc::smpp::{Command, Status};
use std::io::Write;
use std::time::{Duration, Instant};

const API: &str = "[api]\nlisten = \"127.0.0.1:0\"\n";

/// A server with the API; `more` goes before the accounts.
fn server(more: &str) -> (tempfile::TempDir, Server) {
    Server::new(&format!("{more}\n{API}"))
}

fn send(server: &Server, system_id: &str, body: &Value) -> Answer {
    let authorization = basic(system_id, PASSWORD);
    let headers = [JSON, ("Authorization", authorization.as_str())];
    ask(&server.api, "POST", "/v1/messages", &headers, &body.to_string())
}

fn of(server: &Server, method: &str, id: &str) -> Answer {
    let authorization = basic("app", PASSWORD);
    ask(&server.api, method, &format!("/v1/messages/{id}"), &[("Authorization", &authorization)], "")
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < FOREVER, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_message_is_accepted_delivered_and_its_receipt_comes() {
    let (_dir, server) = server("");
    let mut client = Client::bound(&server.address, "app", Command::BindReceiver);
    let body = json!({ "from": "4900", "to": "+491700000001", "text": "hello €", "receipt": "always" });
    let answer = send(&server, "app", &body);
    assert_eq!(answer.status, 202, "{answer:?}");
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.json()["parts"], 1);
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.starts_with(&format!("id:{id} ")) && receipt.contains("stat:DELIVRD"), "{receipt}");
    let state = of(&server, "GET", &id).json();
    assert_eq!(
        (state["state"].as_str(), state["final"].as_bool()),
        (Some("delivered"), Some(true)),
        "{state}"
    );
    assert_eq!(state["to"], "+491700000001");
    // The archive knows it, too, and another account knows nothing of it.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(of(&server, "GET", &id).json()["state"], "delivered");
    let stranger = basic("other", PASSWORD);
    let path = format!("/v1/messages/{id}");
    for method in ["GET", "DELETE"] {
        let answer = ask(&server.api, method, &path, &[("Authorization", &stranger)], "");
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"));
    }
    let answer = of(&server, "DELETE", &id);
    assert_eq!((answer.status, answer.code().as_str()), (409, "ESME_RCANCELFAIL"), "{answer:?}");
    // Letters that the default alphabet lacks: UCS2, in parts.
    let answer =
        send(&server, "app", &json!({ "from": "Bank", "to": "491700000002", "text": "ж".repeat(100) }));
    assert_eq!((answer.status, answer.json()["parts"].as_i64()), (202, Some(2)), "{answer:?}");
}

#[test]
fn a_message_that_waits_is_taken_back() {
    let (_dir, server) = server("");
    let body = json!({ "from": "1", "to": "491700000001", "text": "later", "deliver_at": "2098-01-31T12:00:00+01:00" });
    let answer = send(&server, "app", &body);
    assert_eq!((answer.status, answer.code().as_str()), (422, "ESME_RINVSCHED"), "ten years at most");
    let later = smsc::centre::rfc3339(smsc::load::Clock::default().now_us() + 3_600_000_000);
    let answer = send(
        &server,
        "app",
        &json!({ "from": "1", "to": "491700000001", "text": "later", "deliver_at": later }),
    );
    let id = answer.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(of(&server, "GET", &id).json()["state"], "scheduled");
    let answer = of(&server, "DELETE", &id);
    assert_eq!((answer.status, answer.json()["state"].as_str()), (200, Some("deleted")), "{answer:?}");
    until("it is deleted", || of(&server, "GET", &id).json()["state"] == "deleted");
    let answer = of(&server, "DELETE", &id);
    assert_eq!(answer.status, 409, "{answer:?}");
}

/// What is wrong, and what is said to it.
#[test]
fn what_is_wrong_is_said() {
    let (_dir, server) = server("");
    let long = "x".repeat(50_000);
    for (body, status, code) in [
        (json!({}), 400, "bad_request"),
        (json!([]), 400, "bad_request"),
        (json!({ "to": "1" }), 400, "bad_request"),
        (json!({ "to": 1, "text": "x" }), 400, "bad_request"),
        (json!({ "to": [], "from": "1", "text": "x" }), 400, "bad_request"),
        (json!({ "to": vec!["1"; 255], "from": "1", "text": "x" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "binary": "00" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "data_coding": 8 }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "binary": "0" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "binary": "0g" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "recipt": "always" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "receipt": "yes" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "deliver_at": "tomorrow" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "priority": 256 }), 400, "bad_request"),
        (json!({ "to": "1", "text": "x" }), 400, "bad_request"),
        (json!({ "to": "1", "from": "1", "text": "x", "priority": 4 }), 422, "ESME_RINVPRTFLG"),
        (json!({ "to": "", "from": "1", "text": "x" }), 422, "ESME_RINVDSTADR"),
        (json!({ "to": "Bank", "from": "1", "text": "x" }), 422, "ESME_RINVDSTADR"),
        (json!({ "to": "1\u{0}2", "from": "1", "text": "x" }), 422, "ESME_RINVDSTADR"),
        (json!({ "to": "1", "from": "a name that is far too long", "text": "x" }), 422, "ESME_RINVSRCADR"),
        (json!({ "to": "1", "from": "1\u{0}\u{0}\u{0}", "text": "x" }), 422, "ESME_RINVSRCADR"),
        (json!({ "to": "1", "from": "1", "text": "x", "service_type": "toolong" }), 422, "ESME_RINVSERTYP"),
        (json!({ "to": "1", "from": "1", "text": "x", "esm_class": 2 }), 422, "ESME_RINVESMCLASS"),
        (json!({ "to": "1", "from": "1", "text": "x", "from_ton": 7 }), 422, "ESME_RINVSRCTON"),
        (json!({ "to": "1", "from": "1", "text": "x", "to_npi": 2 }), 422, "ESME_RINVDSTNPI"),
        (json!({ "to": "1", "from": "1", "binary": "00", "data_coding": 14 }), 422, "ESME_RSUBMITFAIL"),
        (json!({ "to": "1", "from": "1", "binary": "00", "data_coding": 8 }), 422, "ESME_RINVMSGLEN"),
        (json!({ "to": "1", "from": "1", "text": long }), 422, "ESME_RINVMSGLEN"),
    ] {
        let answer = send(&server, "app", &body);
        let shown: String = body.to_string().chars().take(100).collect();
        assert_eq!((answer.status, answer.code().as_str()), (status, code), "{shown}: {answer:?}");
    }
    // Of several some are accepted.
    let answer = send(&server, "app", &json!({ "to": ["491700000001", "Bank"], "from": "1", "text": "x" }));
    let messages = answer.json()["messages"].clone();
    assert_eq!(answer.status, 202);
    assert!(messages[0]["id"].is_string() && messages[1]["error"]["code"] == "ESME_RINVDSTADR", "{messages}");
    let answer = send(&server, "app", &json!({ "to": ["Bank", "Post"], "from": "1", "text": "x" }));
    assert_eq!((answer.status, answer.code().as_str()), (422, "ESME_RINVDSTADR"));
    // Paths, methods, kinds.
    let authorization = basic("app", PASSWORD);
    let with = |method, path, kind: Option<&str>, body| {
        let mut headers = vec![("Authorization", authorization.as_str())];
        headers.extend(kind.map(|kind| ("Content-Type", kind)));
        ask(&server.api, method, path, &headers, body)
    };
    let message = "{\"to\":\"1\",\"from\":\"1\",\"text\":\"x\"}";
    assert_eq!(with("POST", "/v1/messages", Some("text/plain"), message).status, 415);
    assert_eq!(with("POST", "/v1/messages", None, message).status, 415);
    assert_eq!(with("POST", "/v1/messages", Some("application/json; charset=utf-8"), message).status, 202);
    let answer = with("PUT", "/v1/messages", None, "");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("POST")));
    assert_eq!(with("POST", "/v1/messages/1", None, "").status, 405);
    assert_eq!(with("GET", "/v1/messages/x", None, "").status, 404);
    assert_eq!(with("GET", "/v1/messages/99999999999999999999", None, "").status, 404);
    assert_eq!(with("GET", "/v1/messages/-1", None, "").status, 404);
    assert_eq!(with("GET", "/v1/messagesx", None, "").status, 404);
    assert_eq!(with("GET", "/v2", None, "").status, 404);
}

#[test]
fn strangers_get_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let token = new_token().unwrap();
    let text = config(API).replacen(
        "sessions = 3",
        &format!("sessions = 3\ntokens = [\"{}\"]", hash_token(&token)),
        1,
    );
    std::fs::write(dir.path().join("smsc.toml"), text).unwrap();
    let mut server = Server::start(dir.path(), &["--segment-mib", "1"]);
    let message = json!({ "to": "491700000001", "from": "1", "text": "x" }).to_string();
    let api = server.api.clone();
    let with = |authorization: &str| {
        let headers = [JSON, ("Authorization", authorization)];
        ask(&api, "POST", "/v1/messages", &headers, &message)
    };
    let answer = ask(&api, "POST", "/v1/messages", &[JSON], &message);
    assert_eq!((answer.status, answer.code().as_str()), (401, "unauthorized"));
    assert!(answer.header("www-authenticate").unwrap().starts_with("Basic"), "{answer:?}");
    for wrong in [
        basic("app", "wrong"),
        basic("nobody", PASSWORD),
        basic("", ""),
        "Basic !".into(),
        "Basic".into(),
        "Bearer ".into(),
        format!("Bearer {}", hash_token(&token)),
        format!("Bearer {}x", token),
        format!("Digest {token}"),
    ] {
        let begin = Instant::now();
        assert_eq!(with(&wrong).status, 401, "{wrong}");
        assert!(begin.elapsed() >= Duration::from_millis(900), "{wrong}: whoever guesses waits");
    }
    assert_eq!(with(&format!("Bearer {token}")).status, 202);
    assert_eq!(with(&format!("bearer {token}")).status, 202);
    // A password that was right is remembered: the second time costs no 20 ms of a processor.
    assert_eq!(with(&basic("app", PASSWORD)).status, 202);
    assert_eq!(with(&basic("app", PASSWORD)).status, 202);
    // ... until it is another.
    let text = std::fs::read_to_string(dir.path().join("smsc.toml")).unwrap();
    let other = smsc::serve::hash_password("another").unwrap();
    std::fs::write(dir.path().join("smsc.toml"), text.replacen(smpp_client::hash(), &other, 1)).unwrap();
    server.signal("-HUP");
    // Guesses before it holds would have to wait, longer each time.
    assert_eq!(server.line_with("reloaded"), "reloaded\n");
    assert_eq!(with(&basic("app", "another")).status, 202);
    assert_eq!(with(&basic("app", PASSWORD)).status, 401);
}

#[test]
fn limits_are_those_of_smpp() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config(&format!("queue = 3\n{API}"))).unwrap();
    std::fs::write(dir.path().join("network.toml"), "[prefixes]\n49171 = \"absent\"\n").unwrap();
    let network = dir.path().join("network.toml").display().to_string();
    let server = Server::start(dir.path(), &["--segment-mib", "1", "--network", &network]);
    let to = |system_id, to: &str| send(&server, system_id, &json!({ "to": to, "from": "1", "text": "x" }));
    let answers: Vec<Answer> = (0..4).map(|_| to("app", "4917100000")).collect();
    assert!(answers[..3].iter().all(|answer| answer.status == 202), "{answers:?}");
    assert_eq!((answers[3].status, answers[3].code().as_str()), (503, "ESME_RMSGQFUL"));
    assert_eq!(answers[3].header("retry-after"), Some("1"));
    // Five in a second; a new second may begin between twelve that come at once.
    let numbers: Vec<String> = (0..12).map(|number| format!("4917200{number:02}")).collect();
    let body = json!({ "to": numbers, "from": "1", "text": "x" });
    let messages = send(&server, "limited", &body).json()["messages"].clone();
    let refused: Vec<&Value> =
        messages.as_array().unwrap().iter().filter(|message| message["error"].is_object()).collect();
    assert!((2..=7).contains(&refused.len()), "{messages}");
    assert!(refused.iter().all(|message| message["error"]["code"] == "ESME_RTHROTTLED"), "{messages}");
    let answer = to("limited", "491720000");
    assert!(answer.status == 429 && answer.code() == "ESME_RTHROTTLED" || answer.status == 202, "{answer:?}");
}

/// A head or body that does not come, one that is too large, and what is no HTTP end the
/// connection; others are served meanwhile.
#[test]
fn whoever_is_slow_or_large_is_sent_away() {
    let (_dir, server) = server("");
    let authorization = basic("app", PASSWORD);
    let head = |length: usize| {
        format!(
            "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: {authorization}\r\nContent-Type: application/json\r\n\
             Content-Length: {length}\r\n\r\n"
        )
    };
    let large = raw(&server.api, (head(300 << 10) + &"x".repeat(300 << 10)).as_bytes());
    assert_eq!(large.status, 413, "{large:?}");
    let lines = "X-A: b\r\n".repeat(4000);
    let long = raw(&server.api, format!("GET / HTTP/1.1\r\nHost: x\r\n{lines}\r\n").as_bytes());
    assert!(matches!(long.status, 431 | 400), "{long:?}");
    assert_eq!(
        raw(&server.api, b"\x00\x00\x00\x10\x00\x00\x00\x15\x00\x00\x00\x00\x00\x00\x00\x01").status,
        400
    );
    let begin = Instant::now();
    let slow: Vec<_> = ["GET / HT".to_owned(), String::new(), head(100) + "{"]
        .into_iter()
        .map(|octets| {
            let address = server.api.clone();
            std::thread::spawn(move || {
                let mut stream = std::net::TcpStream::connect(address).unwrap();
                stream.write_all(octets.as_bytes()).unwrap();
                stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
                let mut answer = Vec::new();
                std::io::Read::read_to_end(&mut stream, &mut answer).unwrap();
                String::from_utf8(answer).unwrap()
            })
        })
        .collect();
    let answer = send(&server, "app", &json!({ "to": "491700000001", "from": "1", "text": "x" }));
    assert_eq!(answer.status, 202);
    let slow: Vec<String> = slow.into_iter().map(|thread| thread.join().unwrap()).collect();
    // At most a minute, after which a read fails.
    assert!(begin.elapsed().as_secs() >= 8, "{:?}", begin.elapsed());
    assert!(slow[2].starts_with("HTTP/1.1 408"), "{slow:?}");
}

/// The description has every path and method that is there, and only those; the page has no script
/// or style from elsewhere.
#[test]
fn the_description_is_of_what_is_there() {
    let (_dir, server) = server("");
    let answer = ask(&server.api, "GET", "/openapi.json", &[], "");
    assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
    let description = answer.json();
    let authorization = basic("app", PASSWORD);
    let mut there = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in ["get", "post", "put", "delete", "patch"] {
            let path = path.replace("{id}", "1");
            let answer =
                ask(&server.api, &method.to_uppercase(), &path, &[("Authorization", &authorization)], "");
            assert_eq!(methods[method].is_object(), answer.status != 405, "{method} {path}: {answer:?}");
            there.extend((answer.status != 405).then(|| format!("{method} {path}")));
        }
    }
    assert_eq!(there, ["post /v1/messages", "get /v1/messages/1", "delete /v1/messages/1"]);
    // Every field that is described is taken.
    let schema = &description["components"]["schemas"]["Message"]["properties"];
    let values = json!({
        "from": "1", "to": "491700000001", "binary": "00", "data_coding": 4, "receipt": "none", "validity_s": 60,
        "deliver_at": smsc::centre::rfc3339(smsc::load::Clock::default().now_us()), "priority": 1, "service_type": "CMT",
        "esm_class": 0, "protocol_id": 0, "from_ton": 1, "from_npi": 1, "to_ton": 1, "to_npi": 1,
    });
    let described: Vec<&String> = schema.as_object().unwrap().keys().filter(|key| *key != "text").collect();
    assert_eq!(described.len(), values.as_object().unwrap().len());
    assert!(described.iter().all(|key| values[key.as_str()] != Value::Null), "{described:?}");
    let answer = send(&server, "app", &values);
    assert_eq!(answer.status, 202, "{answer:?}");
    for (path, kind) in [("/", "text/html"), ("/page.css", "text/css"), ("/page.js", "text/javascript")] {
        let answer = ask(&server.api, "GET", path, &[], "");
        assert!(
            answer.status == 200 && answer.header("content-type").unwrap().starts_with(kind),
            "{path}: {answer:?}"
        );
        assert!(
            answer.header("content-security-policy").unwrap().starts_with("default-src 'none'"),
            "{path}"
        );
        assert!(!answer.body.contains("//cdn") && !answer.body.contains("src=\"http"), "{path}");
        assert_eq!(ask(&server.api, "POST", path, &[], "").status, 405);
    }
}

/// What was answered with 202 is there after a kill.
#[test]
fn what_was_accepted_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("smsc.toml"), config(API)).unwrap();
    std::fs::write(dir.path().join("network.toml"), "[prefixes]\n49171 = \"absent\"\n").unwrap();
    let network = dir.path().join("network.toml").display().to_string();
    let mut server = Server::start(dir.path(), &["--segment-mib", "1", "--network", &network]);
    let ids: Vec<String> = (0..20)
        .map(|number| {
            let body = json!({ "to": format!("4917100{number:03}"), "from": "1", "text": "x" });
            send(&server, "app", &body).json()["id"].as_str().unwrap().to_owned()
        })
        .collect();
    server.kill();
    drop(server);
    let server = Server::start(dir.path(), &["--segment-mib", "1", "--network", &network]);
    for id in ids {
        assert_eq!(of(&server, "GET", &id).json()["state"], "enroute", "{id}");
    }
}

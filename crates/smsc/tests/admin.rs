//! The admin page: who may see it, what it tells, what it does, and how it looks in a real headless
//! Chromium. Without one the test of its looks says so and passes.
#![allow(clippy::unwrap_used)]

// The report's tests have the same browser; they use more of it.
#[allow(dead_code)]
#[path = "../../fathom-report/tests/browser/chromium.rs"]
mod chromium;
mod http_client;
mod smpp_client;

use chromium::{Chromium, Page};
use http_client::{Answer, JSON, ask};
use serde_json::{Value, json};
use smpp_client::{Client, FOREVER, Server, config, message};
use smsc::serve::{hash_admin_password, hash_token, new_token};
use smsc::smpp::{Command, Status};
use std::io::Write;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const SECRET: &str = "a long password of the admin page";

struct Centre {
    _dir: tempfile::TempDir,
    server: Server,
    token: String,
}

/// A centre with an admin page; mobiles of 49171 are absent.
fn centre(text: bool, network: &str) -> Centre {
    let dir = tempfile::tempdir().unwrap();
    let token = new_token().unwrap();
    let admin = format!(
        "[api]\nlisten = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\npassword = \"{}\"\ntoken = \"{}\"\ntext = {text}\n",
        hash_admin_password(SECRET).unwrap(),
        hash_token(&token)
    );
    std::fs::write(dir.path().join("smsc.toml"), config(&admin)).unwrap();
    std::fs::write(dir.path().join("network.toml"), network).unwrap();
    let network = dir.path().join("network.toml").display().to_string();
    let server = Server::start(dir.path(), &["--segment-mib", "1", "--network", &network]);
    Centre { _dir: dir, server, token }
}

const ABSENT: &str = "[prefixes]\n49171 = \"absent\"\n";

impl Centre {
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        ask(&self.server.admin, method, path, headers, body)
    }

    fn get(&self, path: &str) -> Value {
        let authorization = format!("Bearer {}", self.token);
        let answer = self.ask("GET", path, &[("Authorization", &authorization)], "");
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        let authorization = format!("Bearer {}", self.token);
        let headers = [JSON, ("X-Smsc", "1"), ("Authorization", authorization.as_str())];
        self.ask("POST", path, &headers, &body.to_string())
    }
}

fn until(what: &str, holds: impl Fn() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < FOREVER, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn strangers_see_the_door_only() {
    let centre = centre(false, "");
    for (path, words) in [("/", "Sign in"), ("/admin.js", "use strict"), ("/admin.css", ":root")] {
        let answer = centre.ask("GET", path, &[], "");
        assert!(answer.status == 200 && answer.body.contains(words), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    for path in ["/api/state", "/api/messages?id=1"] {
        assert_eq!(centre.ask("GET", path, &[], "").status, 401, "{path}");
        let begin = Instant::now();
        assert_eq!(centre.ask("GET", path, &[("Authorization", "Bearer x")], "").status, 401);
        assert!(begin.elapsed() >= Duration::from_millis(900), "whoever guesses waits");
        assert_eq!(centre.ask("POST", path, &[], "").status, 405, "{path}");
    }
    // What another page could make a browser send is not taken, whoever has signed in.
    let authorization = format!("Bearer {}", centre.token);
    let signed = ("Authorization", authorization.as_str());
    let kick = "{\"session\":1}";
    for headers in [
        vec![signed, JSON],
        vec![signed, ("X-Smsc", "1")],
        vec![signed, ("X-Smsc", "1"), ("Content-Type", "text/plain")],
        vec![signed, ("X-Smsc", "1"), JSON, ("Origin", "http://elsewhere.example")],
        vec![signed, ("X-Smsc", "1"), JSON, ("Origin", "null")],
    ] {
        for path in ["/api/kick", "/api/cancel", "/api/sign-in", "/api/sign-out"] {
            assert_eq!(centre.ask("POST", path, &headers, kick).status, 403, "{path} {headers:?}");
        }
    }
    assert_eq!(centre.ask("POST", "/api/kick", &[JSON, ("X-Smsc", "1")], kick).status, 401);
    let origin = format!("http://{}", centre.server.admin);
    let headers = [signed, ("X-Smsc", "1"), JSON, ("Origin", origin.as_str())];
    assert_eq!(centre.ask("POST", "/api/kick", &headers, kick).status, 404, "this page's own");
    assert_eq!(centre.post("/api/kick", &json!({ "session": "1" })).status, 400);
    assert_eq!(centre.post("/api/kick", &json!({ "session": -1 })).status, 400);
    // Signing in and out.
    let sign_in = |password: &str| {
        let body = json!({ "password": password }).to_string();
        centre.ask("POST", "/api/sign-in", &[JSON, ("X-Smsc", "1")], &body)
    };
    for wrong in ["", "secret", &SECRET[1..], &format!("{SECRET} ")] {
        assert_eq!(sign_in(wrong).status, 401, "{wrong}");
    }
    let session = sign_in(SECRET).json()["session"].as_str().unwrap().to_owned();
    assert_ne!(session, sign_in(SECRET).json()["session"].as_str().unwrap());
    let authorization = format!("Bearer {session}");
    let signed = ("Authorization", authorization.as_str());
    assert_eq!(centre.ask("GET", "/api/state", &[signed], "").status, 200);
    assert_eq!(centre.ask("POST", "/api/sign-out", &[signed, JSON, ("X-Smsc", "1")], "{}").status, 200);
    assert_eq!(centre.ask("GET", "/api/state", &[signed], "").status, 401);
}

/// What the page tells agrees with what happens; a session is ended with unbind; a message is found
/// by its number and by that of its mobile, and taken back.
/// What came by submit_multi was left out of what a session had submitted.
#[test]
fn what_a_session_submits_by_submit_multi_is_counted() {
    let centre = centre(false, ABSENT);
    let mut client = Client::bound(&centre.server.address, "app", Command::BindTransmitter);
    let addresses = b"\x01\x01\x01491720001\0\x01\x01\x01491720002\0";
    let body = [&b"\0\x01\x014900\0\x02"[..], addresses, b"\0\0\0\0\0\0\0\0\0\x02hi"].concat();
    client.send(Command::SubmitMulti as u32, &body);
    assert_eq!(client.next_of(Command::SubmitMultiResp).0.status, 0);
    let state = centre.get("/api/state");
    assert_eq!(state["sessions"][0]["submitted"], 2, "{state}");
}

#[test]
fn an_operator_sees_sessions_queues_and_messages() {
    let centre = centre(false, ABSENT);
    let mut client = Client::bound(&centre.server.address, "app", Command::BindTransceiver);
    let _other = Client::bound(&centre.server.address, "other", Command::BindTransmitter);
    let id = client.submit(&message("4917100000", b"waits", 1)).1;
    assert_eq!(client.submit(&message("4917100000", b"waits, too", 1)).0, 0);
    let delivered = client.submit(&message("491720000", b"goes", 0)).1;
    until("queues are counted", || centre.get("/api/state")["routes"][0]["queued"] == 2);
    let state = centre.get("/api/state");
    assert_eq!(state["routes"][0]["waiting"], 1, "{state}");
    assert_eq!((state["sessions_bound"].as_i64(), state["totals"]["accepted"].as_i64()), (Some(2), Some(3)));
    let session = &state["sessions"][0];
    assert_eq!((session["system_id"].as_str(), session["as"].as_str()), (Some("app"), Some("transceiver")));
    assert_eq!((session["submitted"].as_i64(), session["submissions"].as_i64()), (Some(3), Some(0)));
    assert!(session["peer"].as_str().unwrap().starts_with("127.0.0.1:"), "{session}");
    assert_eq!(centre.get("/api/state?system_id=oth")["sessions"].as_array().unwrap().len(), 1);
    // Rates add up to what was accepted, once the second is over.
    until("rates have it", || {
        let rates = centre.get("/api/state")["rates"]["accepted"].clone();
        let sum: f64 = rates.as_array().unwrap().iter().filter_map(Value::as_f64).sum();
        (2.5..=3.5).contains(&sum)
    });
    let found = centre.get(&format!("/api/messages?id={id}"))["messages"][0].clone();
    assert_eq!(
        (found["state"].as_str(), found["to"].as_str()),
        (Some("enroute"), Some("4917100000")),
        "{found}"
    );
    assert_eq!((found["system_id"].as_str(), found.get("text")), (Some("app"), None), "no text unless asked");
    let waiting = centre.get("/api/messages?to=%2B4917100000")["messages"].clone();
    assert_eq!(waiting.as_array().unwrap().len(), 2, "{waiting}");
    until("it is archived", || {
        let found = centre.get("/api/messages?to=491720000")["messages"].clone();
        found.as_array().unwrap().len() == 1 && found[0]["where"] == "archive" && found[0]["id"] == delivered
    });
    assert_eq!(centre.get("/api/messages?id=999999")["messages"], json!([]));
    assert_eq!(centre.get("/api/messages?to=Bank")["messages"], json!([]));
    let answer = centre.post("/api/cancel", &json!({ "id": id }));
    assert_eq!(answer.status, 200, "{answer:?}");
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.starts_with(&format!("id:{id} ")) && receipt.contains("stat:DELETED"), "{receipt}");
    assert!(matches!(centre.post("/api/cancel", &json!({ "id": id })).status, 404 | 409));
    assert_eq!(centre.post("/api/cancel", &json!({ "id": delivered })).status, 409);
    assert_eq!(centre.post("/api/cancel", &json!({ "id": "1; --" })).status, 404);
    let session = session["session"].as_u64().unwrap();
    assert_eq!(centre.post("/api/kick", &json!({ "session": session })).status, 200);
    client.next_of(Command::Unbind);
    until("it has gone", || centre.get("/api/state")["sessions_bound"] == 1);
    assert_eq!(centre.post("/api/kick", &json!({ "session": session })).status, 404);
    until("queues are counted again", || centre.get("/api/state")["routes"][0]["queued"] == 1);
    let metrics = ask(&centre.server.http, "GET", "/metrics", &[], "").body;
    for line in [
        "smsc_sessions_kicked_total 1",
        "smsc_queue_messages{route=\"mobiles\"} 1",
        "smsc_queue_messages{account=\"other\"} 0",
        "smsc_delivery_seconds_count 1",
        "smsc_info{version=\"0.1.0\",engine=\"mmdb\"} 1",
    ] {
        assert!(metrics.lines().any(|other| other == line), "{line} in {metrics}");
    }
    for name in ["smsc_flushes_total", "smsc_flush_seconds_total", "smsc_log_bytes_total", "process_open_fds"]
    {
        let value = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} "))).unwrap();
        assert!(value.parse::<f64>().unwrap() > 0.0, "{name} {value}");
    }
}

/// What happened: where the operator's browser went while a message was taken back, so did what was
/// to follow: no line of the log said who had done it, and its receipt waited for up to a minute.
#[test]
fn a_message_that_is_taken_back_is_told_of_although_the_operator_has_gone() {
    let centre = centre(false, ABSENT);
    let mut client = Client::bound(&centre.server.address, "app", Command::BindTransceiver);
    let id = client.submit(&message("4917100000", b"waits", 1)).1;
    let body = json!({ "id": id }).to_string();
    let request = format!(
        "POST /api/cancel HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nX-Smsc: 1\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        centre.token,
        body.len()
    );
    // It may be in flight just then, or not be read any more.
    until("it is taken back", || {
        let mut stream = TcpStream::connect(&centre.server.admin).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        drop(stream);
        std::thread::sleep(Duration::from_millis(200));
        centre.get(&format!("/api/messages?id={id}"))["messages"][0]["state"] == "deleted"
    });
    // Not after up to a minute.
    client.stream.set_read_timeout(Some(Duration::from_secs(25))).unwrap();
    let receipt = String::from_utf8(client.deliver(Status::Ok).body).unwrap();
    assert!(receipt.starts_with(&format!("id:{id} ")) && receipt.contains("stat:DELETED"), "{receipt}");
}

/// What a message says is shown only where the configuration says so, and never as markup.
#[test]
fn a_text_is_shown_where_it_is_asked_for() {
    let centre = centre(true, ABSENT);
    let mut client = Client::bound(&centre.server.address, "app", Command::BindTransceiver);
    let id = client.submit(&message("4917100000", b"<b>hi</b>", 0)).1;
    assert_eq!(centre.get(&format!("/api/messages?id={id}"))["messages"][0]["text"], "<b>hi</b>");
}

/// Where the pictures of the last run that was to take some are left to be looked at.
fn pictures() -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("admin");
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// No sideways scrolling, and nothing on the console but what is meant.
fn assert_sound(page: &mut Page<'_>, what: &str) {
    let overflow = page.number("document.documentElement.scrollWidth - document.documentElement.clientWidth");
    let widest = page.text(
        "[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > \
         document.documentElement.clientWidth + 1).map(e => e.tagName + '.' + e.className).slice(0, 5).join(' ')",
    );
    assert!(overflow <= 0.0, "{what}: {overflow} px too wide: {widest}");
    let complaints = page.complaints();
    assert_eq!(complaints, Vec::<String>::new(), "{what}");
}

fn sign_in(page: &mut Page<'_>) {
    page.wait("!document.getElementById('door').hidden");
    page.run(&format!(
        "document.getElementById('password').value = '{SECRET}'; document.getElementById('sign-in').requestSubmit()"
    ));
    page.wait("!document.getElementById('inside').hidden && document.querySelectorAll('#sessions tbody tr').length > 0");
}

#[test]
fn the_page_is_good_in_light_dark_and_on_a_phone() {
    let mut chromium = match Chromium::launch() {
        Ok(chromium) => chromium,
        Err(reason) => return println!("SKIP: {reason}"),
    };
    let pictures = pictures();
    let centre = centre(true, "[prefixes]\n49171 = \"absent\"\n49172 = \"unknown\"\n");
    let mut client = Client::bound(&centre.server.address, "app", Command::BindTransceiver);
    let _others: Vec<Client> = [Command::BindTransmitter, Command::BindReceiver, Command::BindTransceiver]
        .into_iter()
        .map(|kind| Client::bound(&centre.server.address, "other", kind))
        .collect();
    // Something for the chart: more in each second.
    let markup = "<img src=x onerror=alert(1)> & <b>bold</b>";
    let id = client.submit(&message("4917100000", markup.as_bytes(), 0)).1;
    for second in 0..6 {
        for number in 0..20 * second {
            let to = format!("491{}0{number:05}", 71 + number % 9);
            assert_eq!(client.submit(&message(&to, b"hello", 0)).0, 0);
        }
        std::thread::sleep(Duration::from_millis(900));
    }
    let origin = format!("http://{}/", centre.server.admin);
    for (look, width, dark) in
        [("light", 1280, false), ("dark", 1280, true), ("phone", 390, false), ("phone-dark", 390, true)]
    {
        let mut page = chromium.open_url(&origin, width, dark);
        assert_sound(&mut page, look);
        page.screenshot(&pictures.join(format!("door-{look}.png")));
        sign_in(&mut page);
        page.wait("document.querySelectorAll('#chart path').length === 3 && document.querySelectorAll('#routes tbody tr').length > 0");
        let ground = page.text("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground == "rgb(20, 23, 27)", dark, "{look}: {ground}");
        assert_eq!(page.number("document.querySelectorAll('.tile').length"), 6.0);
        page.run(&format!(
            "document.getElementById('wanted').value = '#{id}'; document.getElementById('find').requestSubmit()"
        ));
        page.wait("document.querySelectorAll('#found .message').length === 1");
        // What somebody has written into a message is a text.
        assert_eq!(page.text("document.querySelector('#found .said').textContent"), markup);
        assert_eq!(page.number("document.querySelectorAll('#found img, #found b').length"), 0.0);
        assert_sound(&mut page, look);
        page.screenshot(&pictures.join(format!("inside-{look}.png")));
        page.run("document.querySelector('#sessions button').click()");
        page.wait("document.getElementById('confirm').open");
        assert_sound(&mut page, look);
        page.screenshot(&pictures.join(format!("confirm-{look}.png")));
        page.run("document.querySelector('#confirm button[value=no]').click()");
        // What is asked for just then was shown when it came, behind the door.
        page.run("refresh(); document.getElementById('sign-out').click()");
        page.wait("!document.getElementById('door').hidden && !waits");
        assert_eq!(page.number("document.querySelectorAll('#sessions tr').length"), 0.0, "{look}");
    }
    // A wrong password is said; then a session is ended as a person would.
    let mut page = chromium.open_url(&origin, 1280, false);
    page.run("document.getElementById('password').value = 'wrong'; document.getElementById('sign-in').requestSubmit()");
    page.wait("document.getElementById('refusal').textContent === 'This is not the password.'");
    sign_in(&mut page);
    let before = page.number("document.querySelectorAll('#sessions tbody tr').length");
    page.run("document.querySelector('#sessions button').click()");
    page.wait("document.getElementById('confirm').open");
    page.run("document.getElementById('confirm-yes').click()");
    page.wait(&format!("document.querySelectorAll('#sessions tbody tr').length === {}", before - 1.0));
    client.next_of(Command::Unbind);
    // The centre ends: the page says so, and does not lose what it has.
    drop(centre);
    page.wait("document.getElementById('pulse').classList.contains('lost')");
    assert!(page.number("document.querySelectorAll('#sessions tbody tr').length") > 0.0);
}

/// The page of the API, likewise; a message is sent from it.
#[test]
fn the_page_of_the_api_is_good_and_sends() {
    let mut chromium = match Chromium::launch() {
        Ok(chromium) => chromium,
        Err(reason) => return println!("SKIP: {reason}"),
    };
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("api-page");
    std::fs::create_dir_all(&directory).unwrap();
    let centre = centre(false, "");
    let origin = format!("http://{}/", centre.server.api);
    for (look, width, dark) in [("light", 1280, false), ("dark", 1280, true), ("phone", 390, false)] {
        let mut page = chromium.open_url(&origin, width, dark);
        page.wait("document.querySelectorAll('.operation').length === 3");
        page.run("system_id.value = 'app'; password.value = 'secret'; document.getElementById('try').requestSubmit()");
        page.wait("document.getElementById('answer').textContent.startsWith('202')");
        page.run("document.getElementById('query').click()");
        page.wait("document.getElementById('answer').textContent.includes('delivered')");
        assert_sound(&mut page, look);
        page.screenshot(&directory.join(format!("{look}.png")));
    }
}

//! As much of the DevTools protocol as the report's tests need: a browser, a page, what it says.
//!
//! The large drivers bring an asynchronous runtime and generated bindings for the whole protocol;
//! these tests need a dozen commands, sent and answered one after the other over one WebSocket.

// Not inside a #[test] function, but only there for them: a panic is how a test fails.
#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Error, Message, WebSocket};

/// For one answer: a picture or the print of a long page takes a minute where four browsers share
/// two processors.
const PATIENCE: Duration = Duration::from_secs(240);

/// A browser of its own with a profile of its own; gone when dropped.
pub struct Chromium {
    process: Child,
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    next: u64,
    complaints: Vec<String>,
    /// What a page of a server may ask of it; empty for a file.
    origin: String,
    _profile: tempfile::TempDir,
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.socket.send(Message::text(json!({ "id": 0, "method": "Browser.close" }).to_string()));
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if matches!(self.process.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Chromium {
    /// Starts the first browser found, or says why there is none.
    pub fn launch() -> Result<Chromium, String> {
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path)
            .flat_map(|directory| names.map(|name| directory.join(name)))
            .find(|candidate| candidate.is_file())
            .ok_or("no Chromium on this machine: `apt-get install chromium` brings it")?;
        let profile = tempfile::tempdir().map_err(|e| e.to_string())?;
        let process = Command::new(&program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--hide-scrollbars",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-dev-shm-usage",
            ])
            .args(["--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|e| format!("{}: {e}", program.display()))?;
        // The browser writes its port and its address into its profile when it listens.
        let file = profile.path().join("DevToolsActivePort");
        let deadline = Instant::now() + PATIENCE;
        let address = loop {
            let mut text = String::new();
            if let Ok(mut opened) = std::fs::File::open(&file) {
                let _ = opened.read_to_string(&mut text);
            }
            if let Some((port, path)) = text.trim().split_once('\n') {
                break format!("ws://127.0.0.1:{port}{path}");
            }
            assert!(Instant::now() < deadline, "{} did not open its DevTools port", program.display());
            std::thread::sleep(Duration::from_millis(20));
        };
        let (socket, _) = tungstenite::connect(&address).map_err(|e| format!("{address}: {e}"))?;
        if let MaybeTlsStream::Plain(stream) = socket.get_ref() {
            stream.set_read_timeout(Some(PATIENCE)).map_err(|e| e.to_string())?;
        }
        Ok(Chromium {
            process,
            socket,
            next: 1,
            complaints: Vec::new(),
            origin: String::new(),
            _profile: profile,
        })
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: Value) -> Value {
        let id = self.next;
        self.next += 1;
        let mut request = json!({ "id": id, "method": method, "params": params });
        if let Some(session) = session {
            request["sessionId"] = session.into();
        }
        self.socket.send(Message::text(request.to_string())).unwrap();
        loop {
            let message = match self.socket.read() {
                // A machine that was frozen and woken ends a read with a time limit so (signal(7)).
                Err(Error::Io(error)) if error.kind() == ErrorKind::Interrupted => continue,
                message => message.unwrap(),
            };
            let Message::Text(text) = message else { continue };
            let message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].clone();
            }
            self.listen(&message);
        }
    }

    /// Remembers what a good page never makes the browser say.
    fn listen(&mut self, event: &Value) {
        let params = &event["params"];
        let complaint = match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => Some(params["exceptionDetails"].to_string()),
            Some("Runtime.consoleAPICalled") if params["type"] == "error" || params["type"] == "warning" => {
                Some(params["args"].to_string())
            }
            Some("Log.entryAdded")
                if params["entry"]["level"] == "error" || params["entry"]["level"] == "warning" =>
            {
                Some(params["entry"]["text"].to_string())
            }
            Some("Network.requestWillBeSent") => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                let own = ["file:", "data:", "blob:", "about:"].iter().any(|scheme| url.starts_with(scheme));
                let of_server = !self.origin.is_empty() && url.starts_with(&self.origin);
                (!own && !of_server).then(|| format!("asked the network for {url}"))
            }
            _ => None,
        };
        self.complaints.extend(complaint);
    }

    /// Opens a file in a fresh page and waits until it is ready.
    pub fn open(&mut self, path: &Path, hash: &str, width: u32, dark: bool) -> Page<'_> {
        self.origin.clear();
        self.open_at(&format!("file://{}{hash}", path.display()), width, dark)
    }

    /// The same with the page of a server; `origin` is all that it may ask.
    #[allow(dead_code)]
    pub fn open_url(&mut self, origin: &str, width: u32, dark: bool) -> Page<'_> {
        origin.clone_into(&mut self.origin);
        self.open_at(origin, width, dark)
    }

    fn open_at(&mut self, url: &str, width: u32, dark: bool) -> Page<'_> {
        self.complaints.clear();
        let target = self.call(None, "Target.createTarget", json!({ "url": "about:blank" }));
        let target = target["targetId"].as_str().unwrap().to_string();
        let session =
            self.call(None, "Target.attachToTarget", json!({ "targetId": target, "flatten": true }));
        let session = session["sessionId"].as_str().unwrap().to_string();
        let mut page = Page { chromium: self, target, session };
        for domain in ["Page", "Runtime", "Log", "Network"] {
            page.call(&format!("{domain}.enable"), json!({}));
        }
        page.call(
            "Emulation.setDeviceMetricsOverride",
            json!({ "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500 }),
        );
        let scheme = if dark { "dark" } else { "light" };
        page.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] }),
        );
        page.call("Page.navigate", json!({ "url": url }));
        // The script of the block traces comes after the one that says it is ready.
        page.wait("document.readyState === 'complete' && document.documentElement.dataset.ready === 'true'");
        page
    }
}

/// One page; closed when dropped.
pub struct Page<'a> {
    chromium: &'a mut Chromium,
    target: String,
    session: String,
}

impl Drop for Page<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.chromium.call(None, "Target.closeTarget", json!({ "targetId": self.target }));
        }
    }
}

impl Page<'_> {
    fn call(&mut self, method: &str, params: Value) -> Value {
        let session = self.session.clone();
        self.chromium.call(Some(&session), method, params)
    }

    /// The value of an expression.
    pub fn eval(&mut self, expression: &str) -> Value {
        let answer =
            self.call("Runtime.evaluate", json!({ "expression": expression, "returnByValue": true }));
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Runs statements.
    pub fn run(&mut self, statements: &str) {
        self.eval(&format!("(() => {{ {statements}; }})()"));
    }

    /// The value of an expression that is a number.
    pub fn number(&mut self, expression: &str) -> f64 {
        self.eval(expression).as_f64().unwrap_or_else(|| panic!("{expression} is no number"))
    }

    /// The value of an expression that is a text.
    pub fn text(&mut self, expression: &str) -> String {
        let value = self.eval(expression);
        value.as_str().unwrap_or_else(|| panic!("{expression} is no text: {value}")).to_string()
    }

    /// Waits until an expression holds.
    pub fn wait(&mut self, expression: &str) {
        let deadline = Instant::now() + PATIENCE;
        while self.eval(&format!("Boolean({expression})")) != Value::Bool(true) {
            assert!(Instant::now() < deadline, "{expression} never held; {:?}", self.chromium.complaints);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// What the browser complained of so far.
    pub fn complaints(&mut self) -> Vec<String> {
        self.eval("0");
        self.chromium.complaints.clone()
    }

    /// Lays the page out for paper or, with `screen`, again for a screen; no script hears of it.
    pub fn media(&mut self, media: &str) {
        self.call("Emulation.setEmulatedMedia", json!({ "media": media }));
    }

    /// Presses a key as a person would.
    pub fn key(&mut self, key: &str, code: u32) {
        let text = match key {
            "Enter" => "\r",
            "Tab" => "",
            other => other,
        };
        let event = |kind: &str| {
            let mut event = json!({ "type": kind, "key": key, "windowsVirtualKeyCode": code });
            if kind == "keyDown" && !text.is_empty() {
                event["text"] = text.into();
            }
            event
        };
        self.call("Input.dispatchKeyEvent", event("keyDown"));
        self.call("Input.dispatchKeyEvent", event("keyUp"));
    }

    /// Moves the pointer to the point that the expression gives, rests there, and clicks; gives
    /// what it showed while resting.
    pub fn click_on(&mut self, point: &str) -> String {
        let point = self.eval(point);
        let (x, y) = (point[0].as_f64().unwrap(), point[1].as_f64().unwrap());
        let event = |kind: &str, count: u32| {
            let button = if count > 0 { "left" } else { "none" };
            json!({ "type": kind, "x": x, "y": y, "button": button, "clickCount": count })
        };
        self.call("Input.dispatchMouseEvent", event("mouseMoved", 0));
        self.wait("[...document.querySelectorAll('.tip')].some(e => e.textContent.length > 0)");
        let tip = self.text("[...document.querySelectorAll('.tip')].map(e => e.textContent).join('|')");
        self.call("Input.dispatchMouseEvent", event("mousePressed", 1));
        self.call("Input.dispatchMouseEvent", event("mouseReleased", 1));
        tip
    }

    /// A picture of the whole page, to be looked at: only where `FATHOM_PICTURES` or `FATHOM_LONG`
    /// asks for pictures. Nothing is asserted of one, and that of a long page takes a processor for
    /// seconds.
    pub fn screenshot(&mut self, path: &Path) {
        if !["FATHOM_PICTURES", "FATHOM_LONG"].iter().any(|name| std::env::var_os(name).is_some()) {
            return;
        }
        let answer = self.call(
            "Page.captureScreenshot",
            json!({ "format": "png", "captureBeyondViewport": true, "fromSurface": true }),
        );
        std::fs::write(path, decode(&answer["data"])).unwrap();
    }

    /// The page as it prints.
    pub fn pdf(&mut self) -> Vec<u8> {
        let answer =
            self.call("Page.printToPDF", json!({ "preferCSSPageSize": true, "printBackground": false }));
        decode(&answer["data"])
    }
}

fn decode(value: &Value) -> Vec<u8> {
    base64::engine::general_purpose::STANDARD.decode(value.as_str().unwrap()).unwrap()
}

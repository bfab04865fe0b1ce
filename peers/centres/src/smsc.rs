//! `smsc serve`: its HTTP API, and a route to a peer that is away.

use crate::Failure;
use crate::centre::{Request, Running};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The token "example" (docs/smsc.toml of the crate).
const TOKEN_HASH: &str = "sha256:50d858e0985ecc7f60418aaf0cc5ab587f42c2570a884095a9e8ccacd0f6545c";

struct Smsc {
    program: PathBuf,
    child: Option<Child>,
    port: u16,
}

/// Starts one on a new store.
pub fn start(dir: &Path, program: &Path, engine: &str) -> Result<Box<dyn Running>, Failure> {
    let password = Command::new(program).arg("password").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut password = password?;
    std::io::Write::write_all(&mut password.stdin.take().ok_or("no standard input")?, b"secret\n")?;
    let hash = String::from_utf8(password.wait_with_output()?.stdout)?;
    let config = format!(
        "listen = \"127.0.0.1:0\"\n[api]\nlisten = \"127.0.0.1:0\"\n[[account]]\nnumber = 1\nsystem_id = \"u\"\n\
         password = \"{}\"\ntokens = [\"{TOKEN_HASH}\"]\nwindow = 1000\n\
         [[peer]]\nnumber = 1\nname = \"away\"\naddress = \"127.0.0.1:1\"\nsystem_id = \"a\"\npassword = \"b\"\n\
         [[route]]\nto = \"away\"\n",
        hash.trim()
    );
    std::fs::write(dir.join("smsc.toml"), config)?;
    // A private server of PostgreSQL is run by another user.
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755))?;
    let mut child = Command::new(program)
        .args(["serve", "--engine", engine, "--config"])
        .arg(dir.join("smsc.toml"))
        .arg("--store")
        .arg(dir.join("store"))
        .stderr(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(child.stderr.take().ok_or("no standard error")?);
    let (mut port, mut line, mut all) = (0, String::new(), String::new());
    while !line.starts_with("listening") {
        line.clear();
        if said.read_line(&mut line)? == 0 {
            return Err(format!("smsc serve has ended: {all}").into());
        }
        if let Some(address) = line.strip_prefix("api: http://127.0.0.1:") {
            port = address.trim().trim_end_matches('/').parse()?;
        }
        all.push_str(&line);
    }
    // Nothing is to wait for who does not read.
    std::thread::spawn(move || _ = said.read_to_end(&mut Vec::new()));
    Ok(Box::new(Smsc { program: program.into(), child: Some(child), port }))
}

impl Running for Smsc {
    fn request(&self) -> Request {
        let of = |to: &str| {
            let body = format!(
                "{{\"from\":\"4900\",\"to\":\"{to}\",\"text\":\"a message of some forty octets as usual\"}}"
            );
            format!(
                "POST /v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer example\r\nContent-Type: \
                 application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        Request { port: self.port, of, accepted: "HTTP/1.1 202" }
    }

    fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn kept(&mut self, dir: &Path) -> Result<u64, Failure> {
        // A private server ends a little later than the process whose it is.
        for _ in 0..50 {
            let store = dir.join("store");
            let check = Command::new(&self.program).args(["check", "--json"]).arg(&store).output()?;
            let text = String::from_utf8(check.stdout)?;
            if let Some((_, rest)) = text.split_once("\"live\":") {
                let digits = rest.split(|letter: char| !letter.is_ascii_digit()).next().unwrap_or_default();
                return Ok(digits.parse()?);
            }
            std::thread::sleep(std::time::Duration::from_millis(200));
        }
        Err("smsc check does not tell what is in the store".into())
    }
}

impl Drop for Smsc {
    fn drop(&mut self) {
        self.kill();
    }
}

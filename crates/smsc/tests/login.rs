//! Who gets into a server of PostgreSQL that is there already, and which server is believed.
#![allow(clippy::unwrap_used)]

mod foreign_server;

use foreign_server::{ForeignServer, certificates, connect, rows};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection};

/// What a connection with this URL comes to: "in", or its error.
fn outcome(url: &str) -> String {
    match connect(url) {
        Ok(mut connection) => {
            assert_eq!(rows(&mut connection, "SELECT 1").unwrap(), ["1"]);
            "in".into()
        }
        Err(error) => error.to_string(),
    }
}

#[test]
fn servers_and_roles_are_checked() {
    let Some(given) = ForeignServer::start(&[]) else { return };
    let port = given.port;
    let ca = |name: &str| given.path(&format!("{name}-ca.pem")).display().to_string();
    let is = |url: &str, words: &str| {
        let outcome = outcome(url);
        assert!(outcome.contains(words), "{url}: {outcome}");
        assert!(!outcome.contains("secret") && !outcome.contains("wr0ng"), "{outcome}");
    };
    let full = |root: &str| format!("sslmode=verify-full&sslrootcert={root}");
    // TLS, as much of it as is asked for.
    is(&given.checked_url("owner", "channel_binding=require"), "in");
    is(&given.url("owner", "sslmode=require&channel_binding=require"), "in");
    is(&given.url("owner", ""), "in");
    is(&given.url("plain", "sslmode=disable"), "in");
    is(&given.url("owner", "sslmode=disable"), "no pg_hba.conf entry");
    is(&given.url("owner", &full(&ca("elsewhere"))), "UnknownIssuer; sslrootcert names");
    is(&given.url("owner", &format!("sslmode=require&sslrootcert={}", ca("elsewhere"))), "UnknownIssuer");
    is(&given.url("owner", &full("/nowhere")), "/nowhere: No such file");
    is(&given.url("owner", &full(&given.path("right.key").display().to_string())), "no certificate");
    let by_number = format!("postgresql://owner:secret@127.0.0.1:{port}/sms?");
    is(&format!("{by_number}{}", full(&ca("right"))), "the host of the URL has to be a subjectAltName");
    is(&format!("{by_number}sslmode=verify-ca&sslrootcert={}", ca("right")), "in");
    // Passwords.
    let wrong = given.checked_url("owner", "").replace(":secret@", ":wr0ng@");
    is(&wrong, "password authentication failed for user \"owner\"");
    is(&given.checked_url("nobody", ""), "password authentication failed");
    is(&given.checked_url("owner", "require_auth=md5"), "does not allow scram-sha-256");
    is(&given.checked_url("hashed", ""), "MD5 hashes of passwords are broken");
    is(&given.checked_url("hashed", "require_auth=md5"), "in");
    is(&given.checked_url("clear", ""), "in");
    is(&given.checked_url("clear", "require_auth=!password"), "does not allow password");
    is(&given.url("clear", "sslmode=require"), "has not shown who it is");
    is(&given.url("clear", "sslmode=disable&require_auth=password"), "has not shown who it is");
    is(&given.url("plain", "sslmode=disable&channel_binding=prefer"), "in");
    // Certificates of roles.
    let shows = |name: &str| {
        let at = |end: &str| given.path(&format!("{name}-role.{end}")).display().to_string();
        let pair = format!("sslcert={}&sslkey={}", at("pem"), at("key"));
        given.checked_url("shown", &pair).replace(":secret@", "@")
    };
    is(&shows("right"), "in");
    is(&given.checked_url("shown", ""), "requires a valid client certificate");
    // Told in TLS, or by a connection that breaks.
    assert_ne!(outcome(&shows("elsewhere")), "in");
    let (one, other) = ("right-role.key", "elsewhere-role.key");
    is(&shows("right").replace(one, other), "not the key of");
    is(&shows("right").replace(one, "right.key"), "chmod 600");
    // A file of passwords.
    let none = given.checked_url("owner", "").replace(":secret@", "@");
    let file = given.path("passwords");
    std::fs::write(&file, format!("localhost:{port}:sms:owner:secret\n")).unwrap();
    let mode = |mode| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&file, mode).unwrap();
    };
    mode(0o600);
    is(&format!("{none}&passfile={}", file.display()), "in");
    mode(0o644);
    is(&format!("{none}&passfile={}", file.display()), "chmod 600");
    is(&format!("{none}&passfile=/nowhere"), "none was given: PGPASSWORD");
    // Several hosts: the first that will do.
    let two = given.checked_url("owner", "").replace("localhost:", "localhost:1,localhost:");
    is(&two, "in");
    let both = given.checked_url("owner", "").replace(&format!(":{port}/"), ":1,localhost:2/");
    is(&both, "localhost:1: cannot be reached");
    is(&both, "localhost:2: cannot be reached");
    is(&given.checked_url("owner", "target_session_attrs=read-write"), "in");
    let read_only = "target_session_attrs=read-write&options=-cdefault_transaction_read_only%3Don";
    is(&given.checked_url("owner", read_only), "is a standby or read-only");
    is(&given.checked_url("owner", "application_name=x&options=-cwork_mem%3D1MB"), "in");
    is(&given.checked_url("owner", "").replace("/sms?", "/none?"), "database \"none\" does not exist");
    // Certificates that were right once, and are of another machine.
    given.show("expired");
    is(&given.url("owner", &full(&ca("expired"))), "xpired");
    is(&given.url("owner", "sslmode=require"), "in");
    given.show("elsewhere");
    is(&given.url("owner", &full(&ca("elsewhere"))), "has to be a subjectAltName");
    // The socket, which is not encrypted and need not be.
    let socket = given.server.data().display().to_string().replace('/', "%2F");
    is(&format!("postgresql://fathom@{socket}:{port}/sms?sslmode=verify-full"), "in");
}

/// A message of the server.
fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut octets = vec![tag];
    octets.extend((body.len() as u32 + 4).to_be_bytes());
    octets.extend(body);
    octets
}

/// Whatever comes instead of a server is refused, in little time and memory.
#[test]
fn what_is_no_server_is_refused() {
    let sasl = |mechanisms: &[u8]| message(b'R', &[&[0, 0, 0, 10], mechanisms].concat());
    let ok = message(b'R', &[0, 0, 0, 0]);
    let scram = sasl(b"SCRAM-SHA-256\0\0");
    let first = |text: &[u8]| message(b'R', &[&[0, 0, 0, 11], text].concat());
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("sslmode=disable", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "H of 1414811695 octets"),
        ("sslmode=disable", vec![0; 64], "broke"),
        ("sslmode=disable", message(b'R', &[0, 0, 0, 99]), "unknown authentication tag"),
        ("sslmode=disable", message(b'R', &[0, 0, 0, 7]), "not supported"),
        ("sslmode=disable", b"R\x7f\xff\xff\xff".to_vec(), "unexpected message"),
        ("sslmode=disable", b"R\0\x01\0\x10".to_vec(), "unexpected message"),
        ("sslmode=disable", sasl(b"OTHER\0\0"), "SASL"),
        ("sslmode=disable", sasl(b"SCRAM-SHA-256-PLUS\0\0"), "SASL"),
        ("sslmode=disable", sasl(b"SCRAM-SHA-256"), "broke"),
        ("sslmode=disable", first(b"r=x,s=eA==,i=1"), "SASL"),
        // It lets in who has not seen that it knows the password.
        ("sslmode=disable", [scram.clone(), ok.clone()].concat(), "before it has shown"),
        ("sslmode=disable", [scram.clone(), first(b"r=x,s=eA==,i=4096")].concat(), "has not shown"),
        ("sslmode=disable", [scram.clone(), first(b"junk")].concat(), "has not shown"),
        ("sslmode=disable&require_auth=scram-sha-256", ok.clone(), "does not allow no"),
        ("sslmode=prefer&channel_binding=require", [b"N".to_vec(), ok].concat(), "channel_binding"),
        ("sslmode=disable", message(b'E', b"SFATAL\0C57P03\0Mstarting up\0\0"), "starting up"),
        ("sslmode=require", b"N".to_vec(), "does not speak TLS"),
        ("sslmode=require", message(b'E', b"Myour password please\0\0"), "TLS with an error"),
        // What stands in clear behind the agreement is not taken to be the server's.
        ("sslmode=require", [b"S".to_vec(), message(b'R', &[0, 0, 0, 0])].concat(), "TLS: "),
        ("sslmode=require", b"S".to_vec(), "handshake"),
        ("sslmode=require", Vec::new(), "broke"),
    ];
    for (parameters, octets, words) in cases {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let server = std::thread::spawn(move || {
            // Who prefers TLS comes a second time.
            let (mut stream, _) = listener.accept().unwrap();
            let mut asked = [0; 1024];
            assert!(stream.read(&mut asked).unwrap() > 0);
            stream.write_all(&octets).unwrap();
            // Whoever has read enough may be gone.
            _ = stream.shutdown(std::net::Shutdown::Write);
            _ = stream.read_to_end(&mut Vec::new());
        });
        let error = outcome(&format!("postgresql://u:secret@127.0.0.1:{port}/d?{parameters}"));
        assert!(error.contains(words), "{parameters}, {words}: {error}");
        assert!(!error.contains("password please"), "{error}");
        server.join().unwrap();
    }
    // One that says nothing is not waited for without an end.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    for mode in ["disable", "require"] {
        let url = format!("postgresql://u@127.0.0.1:{port}/d?sslmode={mode}&connect_timeout=2");
        assert!(outcome(&url).contains("no answer within connect_timeout"));
    }
}

/// What came behind the end of TLS was looked at for ever, at the full speed of a processor and
/// beyond every limit of time.
#[test]
fn what_follows_the_end_of_tls_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    certificates(dir.path(), "right", "localhost", 2100);
    let chain = CertificateDer::from_pem_file(dir.path().join("right.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(dir.path().join("right.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![chain], key)
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // The request for TLS.
        stream.read_exact(&mut [0; 8]).unwrap();
        stream.write_all(b"S").unwrap();
        let mut tls = ServerConnection::new(Arc::new(config)).unwrap();
        while tls.is_handshaking() {
            tls.complete_io(&mut stream).unwrap();
        }
        tls.send_close_notify();
        let mut octets = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut octets).unwrap();
        }
        // More than is read at a time.
        octets.resize(octets.len() + (32 << 10), 0);
        stream.write_all(&octets).unwrap();
        _ = stream.read_to_end(&mut Vec::new());
    });
    let error = outcome(&format!("postgresql://u:secret@127.0.0.1:{port}/d?sslmode=require"));
    assert!(error.contains("broke"), "{error}");
    server.join().unwrap();
}

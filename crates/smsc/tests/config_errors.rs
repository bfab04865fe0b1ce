//! Mistakes in `[tls]`, `[[peer]]`, `[[route]]` and outbind: each is told with its line, and with
//! what would be right.
#![allow(clippy::unwrap_used)]

mod smpp_client;

use smsc::serve::{Config, MessageIds, Target};

/// Lines are counted from here on.
const PEER: &str = "[[peer]]\nnumber = 1\nname = \"north\"\naddress = \"smsc.example:2775\"\n\
                    system_id = \"us\"\npassword = \"secret\"\nwindow = 20\nrate = 5\n\
                    binds = [\"transmitter\", \"receiver\"]\nmessage_id = \"same\"\n\
                    response_s = 20\nenquire_link_s = 10\nreconnect_s = 2\nreconnect_max_s = 30\n\
                    failover_s = 3\nreceipt_wait_s = 60\nreceipts = true\nsystem_type = \"x\"\n\
                    [[route]]\nto = \"north\"\nprefix = \"49\"\naccount = \"app\"\ncost = 3\n\
                    [[route]]\nto = \"network\"\nprefix = \"49\"\naccount = \"app\"\n";

fn account() -> String {
    let hash = smpp_client::hash();
    format!("[[account]]\nnumber = 1\nsystem_id = \"app\"\npassword = \"{hash}\"\n")
}

/// The example explains every key; those that are left out can be written.
#[test]
fn the_example_is_right() {
    let example = include_str!("../docs/peers.toml");
    let config = Config::parse("peers.toml", &(example.to_owned() + &account())).unwrap();
    assert_eq!((config.peers.len(), config.peers[0].name.as_str()), (1, "north"));
    let of_account = "outbind = \"app.example:2776\"\noutbind_password = \"letmein\"\n";
    let whole = account() + of_account + &example.replace("# account =", "account =");
    let config = Config::parse("peers.toml", &whole).unwrap();
    assert!(config.accounts[0].outbind.is_some());
}

#[test]
fn what_is_right_is_taken() {
    let config = Config::parse("smsc.toml", &(PEER.to_owned() + &account())).unwrap();
    let peer = &config.peers[0];
    assert_eq!((peer.number, peer.name.as_str(), peer.binds.len()), (1, "north", 2));
    assert_eq!((peer.window, peer.rate, peer.message_ids), (20, 5, MessageIds::Same));
    let targets: Vec<Target> = config.routes.targets(1, "4917").collect();
    assert_eq!(targets, [Target::Network, Target::Peer(1)], "the cheaper first");
}

#[test]
fn mistakes_are_told_with_their_line() {
    let long = "x".repeat(33);
    let named = format!("name = \"{long}\"");
    let cases: &[(&str, &str, usize, &str)] = &[
        ("number = 1\n", "number = 0\n", 2, "from 1 to 32"),
        ("number = 1\n", "number = 33\n", 2, "from 1 to 32"),
        ("number = 1\n", "number = -1\n", 2, ""),
        ("number = 1\n", "number = \"1\"\n", 2, "invalid type"),
        ("number = 1\n", "", 1, "missing field `number`"),
        ("name = \"north\"", "name = \"\"", 3, "1 to 32 letters"),
        ("name = \"north\"", "name = \"network\"", 3, "is not network"),
        // Its queue and that of the simulated mobiles were counted as one.
        ("name = \"north\"", "name = \"mobiles\"", 3, "is not network or mobiles"),
        ("name = \"north\"", "name = \"a b\"", 3, "1 to 32 letters"),
        ("name = \"north\"", &named, 3, "1 to 32 letters"),
        ("smsc.example:2775", "smsc.example", 4, "give a host and a port"),
        ("smsc.example:2775", ":2775", 4, "give a host and a port"),
        ("smsc.example:2775", "smsc.example:0", 4, "give a host and a port"),
        ("smsc.example:2775", "smsc.example:70000", 4, "give a host and a port"),
        ("smsc.example:2775", "smsc example:1", 4, "give a host and a port"),
        ("\"us\"", "\"a system_id of 17\"", 5, "1 to 15"),
        ("\"secret\"", "\"secretsec\"", 6, "at most 8"),
        ("\"secret\"", "\"sécret\"", 6, "printable"),
        ("password = \"secret\"\n", "", 1, "neither password nor password_file"),
        (
            "password = \"secret\"",
            "password_file = \"/nowhere/x\"",
            6,
            "password_file /nowhere/x: No such file",
        ),
        ("password = \"secret\"", "password = \"a\"\npassword_file = \"b\"", 7, "not both"),
        ("window = 20", "window = 0", 7, "from 1 to 10000"),
        ("window = 20", "windows = 1", 7, "unknown field `windows`"),
        ("rate = 5", "rate = 2000000", 8, "from 0 to 1000000"),
        ("\"receiver\"", "\"both\"", 9, "there is no bind \"both\""),
        ("[\"transmitter\", \"receiver\"]", "[]", 9, "0 binds"),
        ("\"same\"", "\"hex\"", 10, "hexadecimal-in-answers"),
        ("response_s = 20", "response_s = 46", 11, "from 0.1 to 45"),
        ("enquire_link_s = 10", "enquire_link_s = 0", 12, "from 0.1"),
        ("reconnect_s = 2", "reconnect_s = 0", 13, "from 0.1"),
        ("reconnect_max_s = 30", "reconnect_max_s = 1", 14, "less than reconnect_s"),
        ("failover_s = 3", "failover_s = -1", 15, "from 0 to"),
        ("receipt_wait_s = 60", "receipt_wait_s = nan", 16, "out of range"),
        // Its messages would have waited until they had expired.
        ("\"transmitter\", \"receiver\"", "\"receiver\"", 20, "nothing is submitted to this peer"),
        ("receipts = true", "receipts = 1", 17, "boolean"),
        ("system_type = \"x\"", "system_type = \"a system type\"", 18, "at most 12"),
        ("to = \"north\"", "to = \"south\"", 20, "there is no such [[peer]]"),
        ("to = \"north\"\n", "", 19, "missing field `to`"),
        ("prefix = \"49\"", "prefix = \"4x\"", 21, "begins with digits"),
        ("prefix = \"49\"", "prefix = \"123456789012345678\"", 21, "begins with digits"),
        ("account = \"app\"", "account = \"nobody\"", 22, "there is no such system_id"),
        ("cost = 3", "cost = 2000000", 23, "from 0 to 1000000"),
        ("to = \"network\"", "to = \"north\"", 24, "is there already"),
        ("[[route]]", "[[routes]]", 19, "unknown field `routes`"),
        ("[[route]]", "[route]", 24, "duplicate key"),
    ];
    for (from, to, line, words) in cases {
        assert!(PEER.contains(from), "{from}");
        let text = PEER.replacen(from, to, 1) + &account();
        let error = Config::parse("smsc.toml", &text).unwrap_err();
        assert_eq!(error.line, *line, "{to}: {error}");
        assert!(error.problem.contains(words), "{to}: {error}");
        assert!(!error.to_string().contains("secret"), "a password is said: {error}");
    }
    let twice = |change: (&str, &str)| {
        let second = PEER.split("[[route]]").next().unwrap().replacen(change.0, change.1, 1);
        Config::parse("smsc.toml", &(PEER.to_owned() + &second + &account())).unwrap_err()
    };
    let error = twice(("\"north\"", "\"south\""));
    assert!(error.line == 29 && error.problem.contains("number 1 belongs to another peer"), "{error}");
    let error = twice(("number = 1", "number = 2"));
    assert!(error.line == 30 && error.problem.contains("belongs to another peer"), "{error}");
}

#[test]
fn mistakes_about_tls_and_outbind_are_told_with_their_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    std::fs::write(dir.path().join("empty.pem"), "").unwrap();
    std::fs::write(
        dir.path().join("bad.pem"),
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    )
    .unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let other = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    std::fs::write(dir.path().join("a.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
    std::fs::write(dir.path().join("a.key"), key.serialize_pem()).unwrap();
    std::fs::write(dir.path().join("b.key"), other.serialize_pem()).unwrap();
    let tls = |certificate: &str, key: &str, more: &str| {
        format!(
            "[tls]\nlisten = \"127.0.0.1:3550\"\ncertificate = \"{}\"\nkey = \"{}\"\n{more}\n",
            path(certificate),
            path(key)
        )
    };
    let peer = |tls: &str| {
        format!(
            "[[peer]]\nnumber = 1\nname = \"n\"\naddress = \"h:1\"\nsystem_id = \"u\"\npassword = \"p\"\n[peer.tls]\n{tls}\n"
        )
    };
    let ca = format!("ca = \"{}\"", path("a.pem"));
    let ca_name = |name: &str| format!("{ca}\nname = \"{name}\"");
    for (text, line, words) in [
        (tls("none.pem", "a.key", ""), 3, "none.pem: No such file"),
        (tls("empty.pem", "a.key", ""), 3, "there is no certificate"),
        (tls("a.key", "a.key", ""), 3, "there is no certificate"),
        (tls("a.pem", "none.key", ""), 4, "none.key: No such file"),
        (tls("a.pem", "a.pem", ""), 4, "there is no private key"),
        (tls("a.pem", "b.key", ""), 4, "not that of the certificate"),
        (tls("bad.pem", "a.key", ""), 4, "not that of the certificate"),
        (tls("a.pem", "a.key", &format!("client_ca = \"{}\"", path("x"))), 5, "No such file"),
        (tls("a.pem", "a.key", &format!("client_ca = \"{}\"", path("bad.pem"))), 5, "no certificate of a CA"),
        (tls("a.pem", "a.key", "ca = \"x\""), 5, "unknown field `ca`"),
        (tls("a.pem", "a.key", "").replace("127.0.0.1:3550", "3550"), 2, "is no address"),
        ("[tls]\nlisten = \"127.0.0.1:3550\"\n".into(), 1, "missing field"),
        (peer("ca = \"/none\""), 8, "/none: No such file"),
        (peer(&format!("ca = \"{}\"", path("bad.pem"))), 8, "no certificate of a CA"),
        (peer(&ca_name("a b")), 9, "is no name that a certificate can have"),
        (peer(&format!("{ca}\nkey = \"{}\"", path("a.key"))), 9, "or neither"),
        (peer(&format!("{ca}\ncertificate = \"{}\"", path("a.pem"))), 9, "or neither"),
        (peer("name = \"x\""), 7, "missing field `ca`"),
        (account() + "outbind = \"here\"\n", 5, "is no address"),
        (account() + "outbind_password = \"x\"\n", 5, "without outbind"),
        (account() + "outbind = \"h:1\"\noutbind_password = \"more than 8\"\n", 6, "at most 8"),
    ] {
        let whole = if text.contains("[[account]]") { text } else { text + &account() };
        let error = Config::parse("smsc.toml", &whole).unwrap_err();
        assert_eq!(error.line, line, "{error}\n{whole}");
        assert!(error.problem.contains(words), "{error}");
        assert!(error.to_string().starts_with(&format!("smsc.toml:{line}: ")), "{error}");
    }
    assert!(Config::parse("x", &(tls("a.pem", "a.key", "") + &account())).unwrap().tls.is_some());
}

/// Both passed `--check`: the one ended the start with "Address already in use", the other let a
/// message go round through the centre for ever.
#[test]
fn addresses_do_not_clash() {
    let api = "[api]\nlisten = \"127.0.0.1:4001\"\n";
    for (text, words) in [
        (format!("listen = \"127.0.0.1:4001\"\nhttp = \"127.0.0.1:4001\"\n{}", account()), "listen and http"),
        (format!("http = \"127.0.0.1:4001\"\n{}{api}", account()), "http and [api] listen"),
        (
            format!(
                "listen = \"127.0.0.1:4001\"\n{}{}",
                account(),
                PEER.replace("smsc.example:2775", "127.0.0.1:4001")
            ),
            "is this centre",
        ),
        // Reached by another name, where all addresses of the machine are listened at.
        (
            format!(
                "listen = \"0.0.0.0:4001\"\n{}{}",
                account(),
                PEER.replace("smsc.example:2775", "127.0.0.1:4001")
            ),
            "is this centre",
        ),
        (
            format!(
                "listen = \"127.0.0.1:4001\"\n{}{}",
                account(),
                PEER.replace("smsc.example:2775", "localhost:4001")
            ),
            "is this centre",
        ),
    ] {
        let error = Config::parse("smsc.toml", &text).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
    // Any free port is another one each time.
    let free = format!("listen = \"127.0.0.1:0\"\nhttp = \"127.0.0.1:0\"\n{}", account());
    Config::parse("smsc.toml", &free).unwrap();
}

/// SIGHUP with a FIFO in the configuration's place let the whole centre wait, SIGTERM too.
#[test]
fn a_configuration_is_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let fifo = dir.path().join("smsc.toml");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    for path in [&*fifo, dir.path(), std::path::Path::new("/dev/zero")] {
        let error = Config::read(path).unwrap_err().to_string();
        assert!(error.contains("no regular file"), "{error}");
    }
    let peer = PEER.replace("password = \"secret\"", "password_file = \"/dev/zero\"");
    let error = Config::parse("smsc.toml", &(peer + &account())).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
}

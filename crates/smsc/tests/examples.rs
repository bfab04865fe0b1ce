//! What is shipped beside the program is right: every example of a configuration, the unit of
//! systemd, the manual pages.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn smsc(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smsc")).args(words).output().unwrap()
}

fn check(path: &Path) -> Output {
    smsc(&["serve", "--check", "--config", path.to_str().unwrap()])
}

#[test]
fn every_example_is_right() {
    let examples = std::fs::read_dir(here("docs/examples")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        examples.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    assert!(files.len() >= 3, "{files:?}");
    files.push(here("docs/smsc.toml"));
    for file in files {
        let output = check(&file);
        assert!(output.status.success(), "{}: {output:?}", file.display());
        assert!(String::from_utf8_lossy(&output.stderr).ends_with("no mistake\n"), "{output:?}");
    }
    // The two centres run on one machine: what one listens at, the other does not.
    let ports = |name: &str| {
        let text = std::fs::read_to_string(here("docs/examples").join(name)).unwrap();
        let addresses = text.lines().filter(|line| line.contains("127.0.0.1:"));
        addresses.map(|line| line.split('"').nth(1).unwrap().to_owned()).collect::<Vec<_>>()
    };
    let (east, west) = (ports("centre-east.toml"), ports("centre-west.toml"));
    // Each listens at three, and the fourth is where the other does.
    let own = |ports: &[String], other: &str| -> Vec<String> {
        let own = ports.iter().filter(|port| *port != other);
        own.cloned().collect()
    };
    let (east_own, west_own) = (own(&east, "127.0.0.1:2776"), own(&west, "127.0.0.1:2775"));
    assert_eq!((east.len(), west.len(), east_own.len(), west_own.len()), (4, 4, 3, 3), "{east:?} {west:?}");
    assert!(east_own.iter().all(|port| !west_own.contains(port)), "{east:?} {west:?}");
}

/// The example with every key that it only mentions, too.
#[test]
fn every_key_of_the_example_is_one() {
    let text = std::fs::read_to_string(here("docs/smsc.toml")).unwrap();
    let lines = text.lines().map(|line| {
        let bare = line.strip_prefix("# ").unwrap_or(line);
        let is_key =
            bare.starts_with('[') || bare.split_once(" = ").is_some_and(|pair| !pair.0.contains(' '));
        if is_key { bare } else { line }
    });
    let every: String = lines.flat_map(|line| [line, "\n"]).collect();
    assert_ne!(every, text);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("smsc.toml");
    std::fs::write(&file, &every).unwrap();
    assert!(check(&file).status.success(), "{:?}", check(&file));
    for section in ["[api]", "[admin]", "[log]", "[archive]", "[timers]", "http =", "store =", "tokens ="] {
        assert!(every.lines().any(|line| line.starts_with(section)), "{section}");
    }
    // What is wrong in the sections is said with its line.
    for (from, to, words) in [
        ("listen = \"127.0.0.1:9276\"", "listen = \"9276\"", "is no address"),
        ("level = \"info\"", "level = \"loud\"", "is none of error, warn, info, debug"),
        ("format = \"text\"", "format = \"xml\"", "is none of text, logfmt, json"),
        ("format = \"jsonl\"", "format = \"xml\"", "is none of jsonl, csv"),
        ("rotate_mib = 1024", "rotate_mib = -1", "invalid value"),
        ("rotate_s = 0", "rotate_s = 999999999", "is out of range"),
        ("receipts = 100000", "receipts = 0", "is out of range"),
        ("tokens = [\"sha256:5", "tokens = [\"sha256:", "is no hash of a token"),
        ("token = \"sha256:", "token = \"sha:", "is no hash of a token"),
        ("text = false                # whether it", "txt = false # whether it", "unknown field `txt`"),
        ("[archive]", "[archives]", "unknown field `archives`"),
    ] {
        let wrong = every.replacen(from, to, 1);
        assert_ne!(wrong, every, "{from}");
        let line = 1 + every[..every.find(from).unwrap()].matches('\n').count();
        std::fs::write(&file, wrong).unwrap();
        let said = String::from_utf8(check(&file).stderr).unwrap();
        assert!(
            said.contains(words) && said.contains(&format!("smsc.toml:{line}: ")),
            "{from} {line}: {said}"
        );
        assert_eq!(check(&file).status.code(), Some(2));
    }
    // A page without a password is no page.
    let open = "[[account]]\nnumber = 1\nsystem_id = \"a\"\npassword = \"HASH\"\n[admin]\n";
    let hash = every.lines().find_map(|line| line.strip_prefix("password = \"")?.split('"').next()).unwrap();
    std::fs::write(&file, open.replace("HASH", hash)).unwrap();
    let said = String::from_utf8(check(&file).stderr).unwrap();
    assert!(said.contains("neither password nor token"), "{said}");
}

#[test]
fn the_unit_is_one_of_systemd_and_closed() {
    let unit = std::fs::read_to_string(here("packaging/smsc.service")).unwrap();
    let dir = tempfile::tempdir().unwrap();
    // The program is not installed where the tests run.
    let file = dir.path().join("smsc.service");
    std::fs::write(&file, unit.replace("/usr/local/bin/smsc", env!("CARGO_BIN_EXE_smsc"))).unwrap();
    let analyse = |words: &[&str]| {
        Command::new("systemd-analyze").args(words).arg(&file).env("SYSTEMD_PAGER", "").output()
    };
    let Ok(verified) = analyse(&["verify", "--man=no"]) else {
        return println!("SKIP: systemd-analyze is not installed (apt-get install systemd)");
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    assert!(!said.contains("smsc.service:") && verified.status.success(), "{said}");
    let security = analyse(&["security", "--offline=true", "--threshold=20"]).unwrap();
    assert!(security.status.success(), "{}", String::from_utf8_lossy(&security.stdout));
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().to_str().unwrap();
    for _ in 0..2 {
        let output = smsc(&["man", "--out", out]);
        assert!(output.status.success(), "{output:?}");
    }
    for command in ["", "-bench", "-check", "-serve", "-load", "-password", "-token", "-man"] {
        let page = std::fs::read_to_string(dir.path().join(format!("smsc{command}.1"))).unwrap();
        assert!(page.contains(".TH smsc") && page.contains(".SH NAME"), "{page}");
    }
    let serve = std::fs::read_to_string(dir.path().join("smsc-serve.1")).unwrap();
    assert!(serve.contains("SIGHUP") && serve.contains("\\-\\-config"), "{serve}");
    assert!(String::from_utf8_lossy(&smsc(&["man"]).stdout).contains(".TH smsc"));
    // What is there and no page of this program stays.
    std::fs::write(dir.path().join("smsc-load.1"), "precious").unwrap();
    let output = smsc(&["man", "--out", out]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert_eq!(std::fs::read_to_string(dir.path().join("smsc-load.1")).unwrap(), "precious");
    assert_eq!(smsc(&["man", "--out", "/nowhere/at/all"]).status.code(), Some(2));
}

#[test]
fn a_token_and_its_hash_go_together() {
    let output = String::from_utf8(smsc(&["token"]).stdout).unwrap();
    let (token, hash) = output.trim_end().split_once('\n').unwrap();
    assert!(smsc::serve::is_token(hash, token) && token.len() == 64, "{output}");
    assert_ne!(output, String::from_utf8(smsc(&["token"]).stdout).unwrap());
}

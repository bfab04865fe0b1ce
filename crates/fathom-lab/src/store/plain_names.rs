//! Names of files without the directories of whose machine measured.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::experiment::MACHINE_AXIS;

/// Where a path begins in a text: at its begin, after a blank, or after one of these.
const BEFORE: &str = "'\"=,[";

/// In words also after these. After a colon two slashes are an address's.
const BEFORE_IN_WORDS: &str = "'\"=,[({<`:";

/// Directories of the system's, which say nothing of a user: `/dev/loop0`, `/usr/lib/libssl.so`.
const OF_THE_SYSTEM: [&str; 9] = ["bin", "dev", "etc", "lib", "lib64", "proc", "sbin", "sys", "usr"];

/// Directories with the homes of users, whose names these have.
const HOMES: [&str; 5] = ["/home", "/Users", "/var/home", "/export/home", "/run/media"];

/// Names of files by their whole paths: without directories, and those of two files are two.
#[derive(Default)]
pub(super) struct PlainNames {
    known: BTreeMap<String, String>,
    taken: BTreeSet<String>,
}

impl PlainNames {
    /// Gives no path this name: something else is called so.
    pub(super) fn reserve(&mut self, name: &str) {
        self.taken.insert(name.to_owned());
    }

    pub(super) fn of(&mut self, path: &str) -> String {
        if let Some(known) = self.known.get(path) {
            return known.clone();
        }
        let plain = path.trim_end_matches('/');
        let (directory, own) = plain.rsplit_once('/').unwrap_or(("", plain));
        let own = match own {
            "" => "/",
            // The user's name.
            _ if HOMES.contains(&directory) => "home",
            _ => own,
        };
        let (mut name, mut number) = (own.to_owned(), 1);
        while !self.taken.insert(name.clone()) {
            number += 1;
            name = format!("{own} ({number})");
        }
        self.known.insert(path.to_owned(), name.clone());
        name
    }

    /// In all texts of a value: whole paths, and those behind a colon as of `unix:/run/user/a`.
    pub(super) fn in_value(&mut self, value: &mut Value) {
        in_texts(value, &mut |text| {
            *text = if text.starts_with('/') { self.of(text) } else { self.in_words(text) };
        });
    }

    /// In all texts of a value that are words.
    pub(super) fn in_words_of(&mut self, value: &mut Value) {
        in_texts(value, &mut |text| *text = self.in_words(text));
    }

    /// In a cell's values on axes.
    pub(super) fn in_axes(&mut self, axes: &mut Value) {
        for (axis, value) in axes.as_object_mut().into_iter().flatten() {
            in_texts(value, &mut |text| *text = self.in_axis(axis, text));
        }
    }

    /// A value on an axis: a whole path, or settings with paths in them. A machine keeps its name.
    pub(super) fn in_axis(&mut self, axis: &str, text: &str) -> String {
        if axis == MACHINE_AXIS {
            return text.to_owned();
        }
        if text.starts_with('/') { self.of(text) } else { self.in_file(text) }
    }

    /// In an experiment file: its values, and its remarks.
    pub(super) fn in_file(&mut self, text: &str) -> String {
        let values = self.in_text(text);
        self.in_words(&values)
    }

    /// In a command line or the values of an experiment file: each word, or what stands behind `=`
    /// or a comma in it.
    pub(super) fn in_text(&mut self, text: &str) -> String {
        let begins = |before: char, _: &str| BEFORE.contains(before);
        let ends = |letter: char| "'\",]".contains(letter);
        self.replaced(text, &begins, &ends, &|_| true)
    }

    /// In what is said: messages, warnings. Paths of the system's stay, and so does what has no
    /// directory.
    pub(super) fn in_words(&mut self, text: &str) -> String {
        let begins = |before: char, from: &str| {
            BEFORE_IN_WORDS.contains(before) && !(before == ':' && from.starts_with("//"))
        };
        let ends = |letter: char| "'\",;:]})>`".contains(letter);
        let is_told = |path: &str| {
            let mut parts = path.split('/').filter(|part| !part.is_empty());
            parts.next().is_some_and(|first| !OF_THE_SYSTEM.contains(&first)) && parts.next().is_some()
        };
        self.replaced(text, &begins, &ends, &is_told)
    }

    /// The text with the names of the paths in it. `begins` tells of what stands before a slash,
    /// and what begins there, whether that is a path; `ends` of a letter whether it is none of the
    /// path's any more, as no blank is; `is_told` whether a path gets its name.
    fn replaced(
        &mut self,
        text: &str,
        begins: &dyn Fn(char, &str) -> bool,
        ends: &dyn Fn(char) -> bool,
        is_told: &dyn Fn(&str) -> bool,
    ) -> String {
        let (mut out, mut rest) = (String::new(), text);
        // Of the text, not of what is written for it.
        let mut last = None;
        while let Some(at) = rest.find('/') {
            let (before, from) = rest.split_at(at);
            out.push_str(before);
            last = before.chars().last().or(last);
            if last.is_some_and(|last| !last.is_whitespace() && !begins(last, from)) {
                out.push('/');
                (last, rest) = (Some('/'), &from[1..]);
                continue;
            }
            // In quotes a path may have blanks; a quote that is not closed in its line is none.
            let quoted = last.filter(|last| "'\"`".contains(*last)).and_then(|quote| {
                let line = from.split('\n').next().unwrap_or_default();
                line.find(quote)
            });
            let unquoted = || from.find(|letter: char| letter.is_whitespace() || ends(letter));
            let (path, after) = from.split_at(quoted.or_else(unquoted).unwrap_or(from.len()));
            match is_told(path) {
                true => out.push_str(&self.of(path)),
                false => out.push_str(path),
            }
            last = path.chars().last();
            rest = after;
        }
        out + rest
    }
}

/// Goes through all texts of a value.
fn in_texts(value: &mut Value, each: &mut dyn FnMut(&mut String)) {
    match value {
        Value::String(text) => each(text),
        Value::Array(all) => all.iter_mut().for_each(|value| in_texts(value, each)),
        Value::Object(all) => all.values_mut().for_each(|value| in_texts(value, each)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a message named the home of whoever published it, and a home alone was
    /// called by its user's name.
    #[test]
    fn what_is_said_names_no_home() {
        let mut names = PlainNames::default();
        names.reserve("b.db");
        for (said, expected) in [
            ("cannot open /home/alice/a.db: no", "cannot open a.db: no"),
            ("open(/srv/x/b.db) failed", "open(b.db (2)) failed"),
            ("file:/home/alice/a.db", "file:a.db"),
            ("in \"/home/alice/my card/c.db\".", "in \"c.db\"."),
            ("Alice's '/home/alice/d and more", "Alice's 'd and more"),
            ("pi@board:/home/pi", "pi@board:home"),
            ("/home/alice", "home (2)"),
            ("/dev/loop0 on /usr/lib/x.so at https://sqlite.org/wal.html", ""),
            ("wal/full, 3 / 4, /x and /", ""),
        ] {
            assert_eq!(names.in_words(said), if expected.is_empty() { said } else { expected });
        }
        assert_eq!(names.in_axis("store", "unix:/home/alice/e.sock"), "unix:e.sock");
        assert_eq!(names.in_axis("on", "ssh:pi@board:/home/pi/card"), "ssh:pi@board:/home/pi/card");
        assert_eq!(names.in_text("a = \"/home/alice/a.db\"\nb = '/usr/x'"), "a = \"a.db\"\nb = 'x'");
    }
}

//! The variables of the environment that Fathom reads: of one list for the manual pages and for
//! docs/files.md.

/// Each with what it is for, in one line without marks.
pub const VARIABLES: [(&str, &str); 16] = [
    (
        "FATHOM_STATE_DIR",
        "where what is up is written down, and found again after a kill [default: /run/fathom for root, \
         else fathom in XDG_STATE_HOME]",
    ),
    ("FATHOM_CACHE_DIR", "where guest kernels lie [default: fathom in XDG_CACHE_HOME]"),
    (
        "FATHOM_REMOTE_CACHE",
        "an absolute directory of the other machine for Fathom's files there, with --on ssh:… [default: \
         fathom in its XDG_CACHE_HOME]",
    ),
    ("FATHOM_SSH_CONFIG", "a configuration for ssh in the place of ~/.ssh/config, with --on ssh:…"),
    (
        "FATHOM_TRACE_EXTENSION",
        "set by trace capture for the program that it starts: the extension that a program with an SQLite \
         of its own can load",
    ),
    (
        "FATHOM_TRACE_SPOOL",
        "where a program with that extension writes what it executes; set by trace capture, and by you \
         outside of it",
    ),
    ("XDG_STATE_HOME", "an absolute directory [default: ~/.local/state; without a home TMPDIR]"),
    ("XDG_CACHE_HOME", "an absolute directory [default: ~/.cache]"),
    ("HOME", "what ~ stands for"),
    ("TMPDIR", "where temporary files lie: recordings, spools, made traces [default: /tmp]"),
    ("SQLITE_TMPDIR", "where SQLite puts temporary files of its own, before TMPDIR"),
    (
        "PATH",
        "where mkfs, mount, ssh, adb, postgres and captured programs are found, and after it the system's \
         own directories",
    ),
    ("LD_LIBRARY_PATH", "where libraries such as SQLCipher's are looked for before the system's directories"),
    ("LD_PRELOAD", "kept for captured programs, behind the library that captures"),
    ("NO_COLOR, TERM", "no colours on a terminal where the first is set or the second is dumb"),
    (
        "COLUMNS, LC_ALL, LC_CTYPE, LANG",
        "how wide tables are [default: 120], and whether a terminal shows UTF-8",
    ),
];

/// The section of a manual page: on that of `fathom` itself all, on others where that is.
pub fn section(is_whole: bool) -> String {
    let mut text = ".SH ENVIRONMENT\n".to_owned();
    if !is_whole {
        text.push_str("The variables are on the page fathom(1).\n");
        return text;
    }
    for (names, purpose) in VARIABLES {
        let purpose = purpose.replace('-', "\\-").replace('…', "...").replace('~', "\\(ti");
        for part in [".TP\n\\fB", names, "\\fR\n", purpose.as_str(), "\n"] {
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Set for others, or by Android for all that it starts.
    const NOT_FOR_USERS: [&str; 3] = ["ANDROID_ROOT", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"];

    fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
        for path in std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                sources(&path, found);
            } else if path.to_string_lossy().ends_with(".rs") && !path.to_string_lossy().ends_with("tests.rs")
            {
                found.push(path);
            }
        }
    }

    /// What stands in quotation marks and could be the name of a variable.
    fn names(text: &str) -> impl Iterator<Item = &str> {
        let is_name = |word: &&str| {
            word.len() > 2
                && word.starts_with(|c: char| c.is_ascii_uppercase())
                && word.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
                && !word.starts_with("CARGO_")
        };
        text.split('"').filter(is_name)
    }

    /// What happened: the manual pages named no variable at all.
    #[test]
    fn each_variable_that_is_read_is_told() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut all = Vec::new();
        for entry in std::fs::read_dir(&crates).unwrap().map(Result::unwrap) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with("fathom") && name != "fathom-fuzz" {
                sources(&entry.path().join("src"), &mut all);
            }
        }
        let mut read = BTreeSet::new();
        for path in all {
            let text = std::fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if code.contains("env::var(") || code.contains("env::var_os(") {
                read.extend(names(code).map(str::to_owned));
            }
            if code.contains("env::temp_dir()") {
                read.insert("TMPDIR".to_owned());
            }
        }
        let told: Vec<&str> = VARIABLES.iter().flat_map(|(names, _)| names.split(", ")).collect();
        let untold: Vec<&String> = read
            .iter()
            .filter(|name| !told.contains(&name.as_str()) && !NOT_FOR_USERS.contains(&name.as_str()))
            .collect();
        assert!(read.contains("FATHOM_STATE_DIR") && read.contains("NO_COLOR"), "{read:?}");
        assert!(untold.is_empty(), "read, and in no manual page: {untold:?}");
    }

    #[test]
    fn the_guide_and_the_manual_page_have_one_list() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/files.md");
        let page = std::fs::read_to_string(page).unwrap();
        let quoted = |names: &str| names.replace(", ", "`, `");
        let rows: String = VARIABLES
            .iter()
            .map(|(names, purpose)| format!("| `{}` | {purpose} |\n", quoted(names)))
            .collect();
        assert!(
            page.contains(&format!("|---|---|\n{rows}\n")),
            "docs/files.md is to have these rows:\n{rows}"
        );
        let section = section(true);
        assert!(section.contains("\n\\fBFATHOM_SSH_CONFIG\\fR\n") && section.contains("with \\-\\-on ssh:"));
        // A line with one of these in front would be a command of roff.
        assert!(VARIABLES.iter().all(|(_, purpose)| !purpose.starts_with(['.', '\''])));
    }
}

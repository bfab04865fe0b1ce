//! Which Fathom measured.

/// The release, and behind a `+` the commit that it was built from, if whoever built it said so:
/// `FATHOM_COMMIT=$(git describe --always --dirty --exclude '*') cargo build --release`. Nothing asks
/// git by itself, so that the same sources make the same program where there is none.
#[must_use]
pub fn version() -> String {
    with_commit(env!("CARGO_PKG_VERSION"), option_env!("FATHOM_COMMIT"))
}

fn with_commit(release: &str, commit: Option<&str>) -> String {
    match commit.map(str::trim).filter(|commit| !commit.is_empty()) {
        Some(commit) => format!("{release}+{commit}"),
        None => release.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No published data set named the commit that it was measured with.
    #[test]
    fn a_commit_stands_behind_the_release() {
        assert_eq!(with_commit("0.1.0", Some("b6ff0ea1-dirty\n")), "0.1.0+b6ff0ea1-dirty");
        assert_eq!(with_commit("0.1.0", Some("")), "0.1.0");
        assert_eq!(with_commit("0.1.0", None), "0.1.0");
        assert!(version().starts_with(env!("CARGO_PKG_VERSION")));
    }
}

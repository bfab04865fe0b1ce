//! Names of one file on Android: an application's directory is `/data/data/APP`, and by the user
//! that it is of `/data/user/0/APP`; the shared storage has four.

use std::borrow::Cow;

/// Beginnings of names, and the one that leads to the same directory.
const ALIKE: [(&str, &str); 4] = [
    ("/data/user/0/", "/data/data/"),
    ("/sdcard/", "/storage/emulated/0/"),
    ("/mnt/sdcard/", "/storage/emulated/0/"),
    ("/storage/self/primary/", "/storage/emulated/0/"),
];

/// The name under which a file is known, whichever of its names this is.
pub fn known_as(path: &str) -> Cow<'_, str> {
    let of = |(begin, known): &(&str, &str)| Some(format!("{known}{}", path.strip_prefix(begin)?));
    ALIKE.iter().find_map(of).map_or(Cow::Borrowed(path), Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_one_file_are_known_as_one() {
        for (path, known) in [
            ("/data/user/0/com.app/databases/a.db", "/data/data/com.app/databases/a.db"),
            ("/data/data/com.app/databases/a.db", "/data/data/com.app/databases/a.db"),
            ("/sdcard/a.db", "/storage/emulated/0/a.db"),
            ("/storage/self/primary/a.db", "/storage/emulated/0/a.db"),
            // Another user's, and what only looks alike.
            ("/data/user/10/com.app/databases/a.db", "/data/user/10/com.app/databases/a.db"),
            ("/home/me/data/user/0/a.db", "/home/me/data/user/0/a.db"),
            (":memory:", ":memory:"),
        ] {
            assert_eq!(known_as(path), known, "{path}");
        }
    }
}

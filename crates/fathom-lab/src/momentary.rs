//! What an environment says of a moment and not of a machine: its temperature, its battery's
//! charge.

/// Keys of what is another every time that it is asked.
const MOMENTARY: [&str; 6] =
    ["battery", "frequencies", "not_answered", "temperature", "thermal_status", "throttled"];
/// Behind the key of what was found when the runs were over.
const AT_END: &str = "_at_end";

/// A key without its machine's name, which follows it where there are several, and that name.
pub(crate) fn parted(key: &str) -> (&str, &str) {
    key.split_at(key.find(' ').unwrap_or(key.len()))
}

/// Whether a key is of what is another every time.
pub(crate) fn is_momentary(key: &str) -> bool {
    let (key, _) = parted(key);
    MOMENTARY.contains(&key.strip_suffix(AT_END).unwrap_or(key))
}

/// The same key for the moment in which the runs are over.
pub(crate) fn at_end(key: &str) -> String {
    let (key, machine) = parted(key);
    format!("{key}{AT_END}{machine}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_same_name_at_its_end_on_each_machine() {
        for (key, end) in
            [("battery", "battery_at_end"), ("temperature (ssh:a board)", "temperature_at_end (ssh:a board)")]
        {
            assert_eq!(at_end(key), end);
            assert!(is_momentary(key) && is_momentary(end));
        }
        for key in ["cpu", "governor (local)", "at_end", ""] {
            assert!(!is_momentary(key), "{key}");
        }
    }
}

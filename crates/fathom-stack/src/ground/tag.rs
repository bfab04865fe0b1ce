//! Tags: names that carry their owner, so that what is found on the machine tells whose it is.
//!
//! A tag is `fathom-LABEL-PID-START-N`: the process that made it by number and start time, and a
//! number of its own.

use std::sync::atomic::{AtomicU32, Ordering};

use super::process::start_time;

/// A label as part of a file name: at most 32 characters of `[A-Za-z0-9._]` and `-`.
pub fn clean(label: &str) -> String {
    const LONGEST: usize = 32;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
    let text: String = label.chars().take(LONGEST).map(plain).collect();
    if text.is_empty() { "stack".into() } else { text }
}

/// A tag that is this process's alone: `fathom-LABEL-PID-START-N`.
pub fn tag_of(label: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let sequence = NEXT.fetch_add(1, Ordering::Relaxed);
    // A label of `named-` and 32 more letters is not cut: the mark of a named stack must stay, and
    // so must its label.
    let label: String = label.chars().map(|c| if c == '/' || c.is_control() { '-' } else { c }).collect();
    format!("fathom-{label}-{}-{}-{sequence}", std::process::id(), start_time("self").unwrap_or(0))
}

/// Whether this is a tag as [`tag_of`] makes them, and so a name that nothing else has.
pub fn is_tag(tag: &str) -> bool {
    let whole = tag.starts_with("fathom-") && !tag.chars().any(|c| c == '/' || c.is_control());
    whole && owner_in(tag).is_some() && label_in(tag).is_some()
}

/// The label in a tag.
pub fn label_in(tag: &str) -> Option<&str> {
    let mut parts = tag.strip_prefix("fathom-")?.rsplitn(4, '-');
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let numbers = parts.by_ref().take(3).filter(|part| numeric(part)).count();
    parts.next().filter(|label| numbers == 3 && !label.is_empty())
}

/// Process id and start time in a tag (`fathom-LABEL-PID-START-N`).
pub fn owner_in(tag: &str) -> Option<(u32, u64)> {
    let mut parts = tag.rsplit('-').skip(1);
    let start = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, start))
}

/// The tag in a backing file's name: `/dir/.fathom-LABEL-PID-START-N.img (deleted)`.
pub fn tag_in(backing: &str) -> Option<&str> {
    let name = backing.strip_suffix(" (deleted)").unwrap_or(backing).rsplit_once('/')?.1;
    let tag = name.strip_prefix('.')?.strip_suffix(".img")?;
    let tag = tag.strip_suffix(".log").unwrap_or(tag);
    is_tag(tag).then_some(tag)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tags_are_read_from_backing_files() {
        let tag = "fathom-ext4-wal-12-345-0";
        for end in [".img (deleted)", ".img", ".log.img (deleted)"] {
            assert_eq!(tag_in(&format!("/tmp/a b/.{tag}{end}")), Some(tag), "{end}");
        }
        for other in
            ["/tmp/disk.img", "/tmp/.fathom-x.img", "/.fathom-a-b-c-d.img", "", "/tmp/fathom-a-1-2-3.img"]
        {
            assert_eq!(tag_in(other), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_label_makes_a_safe_name(label: String) {
            let label = clean(&label);
            prop_assert!(!label.is_empty() && label.len() <= 32 && !label.contains('/'));
            prop_assert_eq!(owner_in(&format!("fathom-{label}-12-345-6")), Some((12, 345)));
        }
    }
}

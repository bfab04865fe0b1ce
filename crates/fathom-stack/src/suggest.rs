//! "Did you mean …?"

/// `; did you mean "ext4"?` for the nearest name, or empty when none is near.
pub(crate) fn hint(asked: &str, names: &[&str]) -> String {
    // Of equally near names the last: ext4 rather than ext2 for ext5.
    let near =
        names.iter().rev().map(|name| (distance(asked, name), name)).min_by_key(|(distance, _)| *distance);
    match near {
        Some((distance, name)) if distance <= 2 && distance < name.len() => {
            format!(" (did you mean {name:?}?)")
        }
        _ => String::new(),
    }
}

/// Levenshtein distance in bytes, ASCII case aside.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.to_ascii_lowercase().into_bytes(), b.to_ascii_lowercase().into_bytes());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let cost = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_corrected_and_nonsense_is_not() {
        let names = ["dir", "ext2", "ext4", "xfs", "btrfs"];
        assert_eq!(hint("ext5", &names), " (did you mean \"ext4\"?)");
        assert_eq!(hint("XFS", &names), " (did you mean \"xfs\"?)");
        assert_eq!(hint("reiserfs", &names), "");
        assert_eq!((distance("kitten", "sitting"), distance("", "abc")), (3, 3));
    }
}

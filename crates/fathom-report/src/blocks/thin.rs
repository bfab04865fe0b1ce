//! Fewer dots, same picture: what is drawn of a long trace.

use std::collections::HashMap;

/// A request (or several that lie together) in a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dot {
    /// When it was submitted, ns since the trace began.
    pub at_ns: u64,
    /// First byte.
    pub offset: u64,
    /// Bytes from the first to the last.
    pub bytes: u64,
    /// Cause and operation: dots of different kinds are never joined.
    pub kind: u8,
}

/// The finest grid that dots are joined on; each coarser one has half of both.
const TIMES: u64 = 1 << 16;
const PLACES: u64 = 1 << 15;

/// At most `limit` dots, or one for each kind where those are more, in order of time. Where there
/// are more, time and place are divided by a grid, as fine as the limit allows, and what shares a
/// field becomes one dot that covers them all: no area that was touched is lost, and none appears
/// that was not within a field of one that was.
pub fn thin(dots: Vec<Dot>, limit: usize) -> Vec<Dot> {
    if dots.len() <= limit {
        return dots;
    }
    let (first, last) = dots.iter().fold((u64::MAX, 0), |(a, b), dot| (a.min(dot.at_ns), b.max(dot.at_ns)));
    let low = dots.iter().map(|dot| dot.offset).min().unwrap_or(0);
    let high = dots.iter().map(|dot| dot.offset + dot.bytes).max().unwrap_or(0);
    let mut kept = dots;
    for level in 0..=16 {
        let column = ((last - first) / (TIMES >> level)).max(1) + 1;
        let row = ((high - low) / (PLACES >> level).max(1)).max(1) + 1;
        let mut fields: HashMap<(u8, u64, u64), usize> = HashMap::with_capacity(kept.len());
        let mut joined: Vec<Dot> = Vec::new();
        for dot in kept {
            let field = (dot.kind, (dot.at_ns - first) / column, (dot.offset - low) / row);
            match fields.get(&field).and_then(|&index| joined.get_mut(index)) {
                Some(other) => {
                    let end = (other.offset + other.bytes).max(dot.offset + dot.bytes);
                    other.offset = other.offset.min(dot.offset);
                    other.bytes = end - other.offset;
                    other.at_ns = other.at_ns.min(dot.at_ns);
                }
                None => {
                    fields.insert(field, joined.len());
                    joined.push(dot);
                }
            }
        }
        kept = joined;
        if kept.len() <= limit {
            break;
        }
    }
    kept.sort_by_key(|dot| dot.at_ns);
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_place_that_was_touched_stays_covered(
            seeds in prop::collection::vec((0_u64..1_000_000, 0_u64..1 << 30, 1_u64..65536, 0_u8..3), 1..800),
            limit in 3_usize..200,
        ) {
            let mut dots: Vec<Dot> =
                seeds.iter().map(|&(at_ns, offset, bytes, kind)| Dot { at_ns, offset, bytes, kind }).collect();
            dots.sort_by_key(|dot| dot.at_ns);
            let kept = thin(dots.clone(), limit);
            prop_assert!(kept.len() <= limit.max(dots.len().min(limit)), "{} of {limit}", kept.len());
            prop_assert!(kept.windows(2).all(|pair| pair[0].at_ns <= pair[1].at_ns));
            for dot in &dots {
                let covered = |other: &Dot| {
                    other.kind == dot.kind && other.offset <= dot.offset && dot.offset + dot.bytes <= other.offset + other.bytes
                };
                prop_assert!(kept.iter().any(covered), "{dot:?}");
            }
        }
    }

    #[test]
    fn few_dots_stay_as_they_are() {
        let dots = vec![Dot { at_ns: 5, offset: 1, bytes: 2, kind: 0 }; 3];
        assert_eq!(thin(dots.clone(), 3), dots);
        assert_eq!(thin(Vec::new(), 3), []);
    }
}

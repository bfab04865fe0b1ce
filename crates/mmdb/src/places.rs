//! Places in the checkpoint files: which of them no container has.

use std::ops::Range;

/// Places are given out from the first one on. Those in between that are free are kept as
/// intervals: what there is of them says how many images there are, and not how far apart they are.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// All from here on are free.
    next: u64,
    free: Vec<Range<u32>>,
}

impl Places {
    /// Those that are left where these are taken.
    pub(crate) fn beside(mut taken: Vec<u32>) -> Places {
        taken.sort_unstable();
        let mut places = Places::default();
        for place in taken {
            if let Ok(next) = u32::try_from(places.next)
                && next < place
            {
                places.free.push(next..place);
            }
            places.next = places.next.max(u64::from(place) + 1);
        }
        places
    }

    pub(crate) fn take(&mut self) -> u32 {
        if let Some(last) = self.free.last_mut() {
            last.end -= 1;
            let (place, is_last) = (last.end, last.start == last.end);
            if is_last {
                self.free.pop();
            }
            return place;
        }
        // Every place below has a container, in memory, and so many are 16 TiB at least.
        assert!(self.next <= u64::from(u32::MAX), "places have numbers of 32 bits");
        self.next += 1;
        (self.next - 1) as u32
    }

    pub(crate) fn give(&mut self, place: u32) {
        assert!(u64::from(place) < self.next, "place {place} of the images was given out");
        match place.checked_add(1) {
            Some(end) => self.free.push(place..end),
            // The last one of all.
            None => self.next = u64::from(place),
        }
        assert!(self.free.len() as u64 <= self.next, "no place is given back twice");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_given_out_once() {
        let mut places = Places::beside(vec![5, 1, 1]);
        let taken: Vec<u32> = (0..7).map(|_| places.take()).collect();
        assert_eq!(taken, [4, 3, 2, 0, 6, 7, 8]);
        [3, 7, 1].into_iter().for_each(|place| places.give(place));
        assert_eq!((0..4).map(|_| places.take()).collect::<Vec<_>>(), [1, 7, 3, 9]);
        let mut places = Places::beside(Vec::new());
        assert_eq!((places.take(), places.take()), (0, 1));
    }

    /// A manifest names the place of each image, and one may be far behind all others, in a file
    /// with a hole. An opening took memory for every place before it, gigabytes, and with the last
    /// number that there is it ended in an overflow.
    #[test]
    fn a_place_far_behind_the_others_costs_no_memory() {
        let mut places = Places::beside(vec![u32::MAX, 7, 0]);
        assert_eq!(places.free, [1..7, 8..u32::MAX]);
        assert_eq!((places.take(), places.take()), (u32::MAX - 1, u32::MAX - 2));
        places.give(u32::MAX);
        assert_eq!((places.take(), places.next), (u32::MAX - 3, u64::from(u32::MAX)));
    }
}

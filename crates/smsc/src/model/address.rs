//! Where a message goes: a station is a mobile, or an application (ESME) that is waiting for
//! receipts and answers.

use std::fmt;

/// Lanes of an ESME: what is queued for one account is spread over so many stations, each with one
/// message in flight. So this is the widest window of an account: at 20 ms a message, 12,800/s.
pub const ESME_LANES: u32 = 256;

/// Digits of the longest number. E.164 allows 15.
const DIGITS_MAX: usize = 17;

/// Key of a station: `dst_key` of the tables.
///
/// A mobile is its international number with a 1 before it, as a decimal number (so that leading
/// zeros count); lane `l` of the account `a` is −(a × 256 + l + 1). Both fit 64 bits with a sign,
/// which every store sorts and hashes natively.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StationKey(pub i64);

/// An address that no station has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("destination address {0:?} is no number of 1 to 17 digits")]
pub struct AddressError(pub String);

impl StationKey {
    /// The station with this number; a leading `+` is ignored.
    ///
    /// # Errors
    /// It is not 1 to 17 digits.
    ///
    /// ```
    /// use smsc::model::StationKey;
    /// assert_eq!(StationKey::of_address("+491701234567").unwrap().0, 1_491_701_234_567);
    /// assert_ne!(StationKey::of_address("0123").unwrap(), StationKey::of_address("123").unwrap());
    /// assert!(StationKey::of_address("Bank").is_err());
    /// ```
    pub fn of_address(address: &str) -> Result<StationKey, AddressError> {
        let digits = address.strip_prefix('+').unwrap_or(address);
        if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(AddressError(address.to_owned()));
        }
        Ok(StationKey(digits.bytes().fold(1, |key, digit| key * 10 + i64::from(digit - b'0'))))
    }

    /// The lane of an account's station that a message about `msg_id` takes.
    #[must_use]
    pub fn of_account(account: u32, msg_id: i64) -> StationKey {
        let lane = msg_id.rem_euclid(i64::from(ESME_LANES));
        StationKey(-(i64::from(account) * i64::from(ESME_LANES) + lane + 1))
    }

    /// The lane of an account's station that messages from an address take, so that they keep their
    /// order.
    #[must_use]
    pub fn of_source(account: u32, source: &str) -> StationKey {
        // The last octets have reached its lower bits alone: a product spreads them over the upper
        // ones, of which the first eight are the lane.
        let spread = hash_of(source).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        StationKey::of_account(account, (spread >> 56) as i64)
    }

    /// The lanes in which messages from an address may wait: [`StationKey::of_source`], and the one
    /// that releases up to 0.1 took. What they have queued stays there, and one of them may have
    /// the same store still.
    #[must_use]
    pub fn all_of_source(account: u32, source: &str) -> Vec<StationKey> {
        let former = StationKey::of_account(account, (hash_of(source) >> 16) as i64);
        let mut all = vec![StationKey::of_source(account, source), former];
        all.dedup();
        all
    }

    /// A lane of an account's station, by its number; numbers beyond the last begin again.
    #[must_use]
    pub fn lane(account: u32, lane: u32) -> StationKey {
        StationKey::of_account(account, lane.into())
    }

    /// Whom to lock for an account itself: a key that no station has.
    pub(crate) fn lock_of_account(account: u32) -> StationKey {
        StationKey(i64::MIN + i64::from(account))
    }

    /// The account, if this is an ESME's station.
    #[must_use]
    pub fn account(self) -> Option<u32> {
        (self.0 < 0).then(|| u32::try_from((-self.0 - 1) / i64::from(ESME_LANES)).unwrap_or(u32::MAX))
    }
}

/// `49170…`, or `E7.3` for lane 3 of account 7.
impl fmt::Display for StationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.account() {
            Some(account) => write!(f, "E{account}.{}", (-self.0 - 1) % i64::from(ESME_LANES)),
            None => f.write_str(self.0.to_string().get(1..).unwrap_or("?")),
        }
    }
}

impl fmt::Debug for StationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// FNV-1a.
fn hash_of(source: &str) -> u64 {
    source.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Addresses that differ in their last digit took one lane, and a thousand in a row 89 of 256:
    /// an application that answers in 20 ms got 44 messages a second from eight of them, and 298
    /// from eight others.
    #[test]
    fn addresses_in_a_row_are_spread_over_the_lanes() {
        for (count, least) in [(10_u32, 9), (100, 80), (1000, 240)] {
            let addresses = (0..count).map(|number| format!("49170123{number:04}"));
            let lanes: BTreeSet<StationKey> =
                addresses.map(|address| StationKey::of_source(7, &address)).collect();
            assert!(lanes.len() >= least, "{count} addresses took {} lanes", lanes.len());
            assert!(lanes.iter().all(|lane| lane.account() == Some(7)));
        }
        assert_eq!(StationKey::of_source(7, "4900"), StationKey::of_source(7, "4900"));
    }

    /// What happened: of messages that had been queued before addresses were spread over the lanes
    /// a cancel_sm without a number took none back, as it looked in the new lane alone.
    #[test]
    fn what_an_earlier_release_has_queued_is_found() {
        let lanes = |source| StationKey::all_of_source(7, source);
        assert_eq!(lanes("491701230000"), [StationKey::lane(7, 17), StationKey::lane(7, 238)]);
        assert_eq!(lanes("491701230009"), [StationKey::lane(7, 30), StationKey::lane(7, 238)]);
        assert_eq!(lanes("49170000000"), [StationKey::of_source(7, "49170000000")], "both are one");
    }

    #[test]
    fn keys_show_what_they_stand_for() {
        assert_eq!(StationKey::of_address("0049").unwrap().to_string(), "0049");
        let esme = StationKey::of_account(7, 35);
        assert_eq!((esme.to_string().as_str(), esme.account()), ("E7.35", Some(7)));
        assert_eq!(StationKey::of_account(0, 0).account(), Some(0));
        assert_eq!(StationKey::of_account(u32::MAX, 255).account(), Some(u32::MAX));
        for wrong in ["", "+", "12a", "123456789012345678", "１２"] {
            assert_eq!(StationKey::of_address(wrong), Err(AddressError(wrong.into())));
        }
    }
}

//! Decimal numbers: a whole number and how many of its digits stand behind the point.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

/// A decimal number, exact: `unscaled / 10^scale`, with `unscaled` in 64 bits. So it has 18 digits
/// at least, wherever the point is. Numbers are equal whatever zeros they end with: 1.5 is 1.50.
///
/// ```
/// use mmdb::Decimal;
/// let price: Decimal = "12.50".parse()?;
/// assert_eq!((price.unscaled(), price.scale()), (1250, 2));
/// assert_eq!(Some(price), Decimal::new(125, 1));
/// assert_eq!(price.to_string(), "12.50");
/// assert!("-0.01".parse::<Decimal>()? < Decimal::from(0));
/// # Ok::<(), mmdb::ParseDecimalError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Decimal {
    unscaled: i64,
    scale: u8,
}

/// A text is no decimal number, or has more digits than one can have.
///
/// ```
/// let e = "1,5".parse::<mmdb::Decimal>().unwrap_err();
/// assert_eq!(e.to_string(), "1,5 is no decimal number of at most 18 digits behind the point and 64 bits");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no decimal number of at most {max} digits behind the point and 64 bits", max = Decimal::MAX_SCALE)]
pub struct ParseDecimalError(String);

impl Decimal {
    /// Most digits behind the point.
    pub const MAX_SCALE: u8 = 18;

    /// The number `unscaled / 10^scale`; `None` if that has more digits behind the point than
    /// [`Decimal::MAX_SCALE`].
    ///
    /// ```
    /// use mmdb::Decimal;
    /// assert_eq!(Decimal::new(-5, 2).map(|d| d.to_string()), Some("-0.05".into()));
    /// assert_eq!(Decimal::new(1, 19), None);
    /// ```
    #[must_use]
    pub const fn new(unscaled: i64, scale: u8) -> Option<Decimal> {
        if scale <= Decimal::MAX_SCALE { Some(Decimal { unscaled, scale }) } else { None }
    }

    /// The number without its point.
    ///
    /// ```
    /// assert_eq!(mmdb::Decimal::new(1250, 2).map(|d| d.unscaled()), Some(1250));
    /// ```
    #[must_use]
    pub const fn unscaled(self) -> i64 {
        self.unscaled
    }

    /// How many digits stand behind the point.
    ///
    /// ```
    /// assert_eq!(mmdb::Decimal::new(1250, 2).map(|d| d.scale()), Some(2));
    /// ```
    #[must_use]
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// The same number with so many digits behind the point; `None` if it has none of that form:
    /// nothing is rounded.
    ///
    /// ```
    /// use mmdb::Decimal;
    /// let d: Decimal = "1.50".parse()?;
    /// assert_eq!(d.with_scale(4).map(|d| d.unscaled()), Some(15_000));
    /// assert_eq!(d.with_scale(1).map(|d| d.unscaled()), Some(15));
    /// assert_eq!(d.with_scale(0), None);
    /// # Ok::<(), mmdb::ParseDecimalError>(())
    /// ```
    #[must_use]
    pub fn with_scale(self, scale: u8) -> Option<Decimal> {
        let power = |digits: u8| 10i64.checked_pow(digits.into());
        let unscaled = if scale >= self.scale {
            self.unscaled.checked_mul(power(scale - self.scale)?)?
        } else {
            let by = power(self.scale - scale)?;
            if self.unscaled % by != 0 {
                return None;
            }
            self.unscaled / by
        };
        Decimal::new(unscaled, scale)
    }

    /// The number times `10^MAX_SCALE`: the same for all forms of one number. It has 123 bits.
    fn normal(self) -> i128 {
        i128::from(self.unscaled) * 10i128.pow((Decimal::MAX_SCALE - self.scale).into())
    }
}

impl PartialEq for Decimal {
    fn eq(&self, other: &Decimal) -> bool {
        self.normal() == other.normal()
    }
}

impl Eq for Decimal {}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Decimal) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Decimal) -> Ordering {
        self.normal().cmp(&other.normal())
    }
}

impl Hash for Decimal {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.normal().hash(state);
    }
}

impl From<i64> for Decimal {
    fn from(whole: i64) -> Decimal {
        Decimal { unscaled: whole, scale: 0 }
    }
}

/// With all digits behind the point that its scale states.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unscaled < 0 {
            f.write_str("-")?;
        }
        let (digits, scale) = (self.unscaled.unsigned_abs(), usize::from(self.scale));
        if scale == 0 {
            return write!(f, "{digits}");
        }
        let by = 10u64.pow(self.scale.into());
        write!(f, "{}.{:0scale$}", digits / by, digits % by)
    }
}

/// A sign or none, digits, and perhaps a point and digits: `12`, `-0.50`, `+3.0`.
impl FromStr for Decimal {
    type Err = ParseDecimalError;

    fn from_str(text: &str) -> Result<Decimal, ParseDecimalError> {
        let parse = || {
            let (is_negative, digits) = match text.as_bytes().first()? {
                b'-' => (true, &text[1..]),
                b'+' => (false, &text[1..]),
                _ => (false, text),
            };
            let (whole, part) = digits.split_once('.').unwrap_or((digits, "0"));
            if whole.is_empty() || part.is_empty() {
                return None;
            }
            let scale = if digits.contains('.') { u8::try_from(part.len()).ok()? } else { 0 };
            let part = if scale == 0 { "" } else { part };
            let mut unscaled = 0i64;
            for digit in whole.chars().chain(part.chars()) {
                let digit = i64::from(digit.to_digit(10)?);
                let signed = if is_negative { -digit } else { digit };
                unscaled = unscaled.checked_mul(10)?.checked_add(signed)?;
            }
            Decimal::new(unscaled, scale)
        };
        parse().ok_or_else(|| ParseDecimalError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decimal() -> impl Strategy<Value = Decimal> {
        let unscaled = prop_oneof![any::<i64>(), -2000i64..2000, Just(i64::MIN), Just(i64::MAX)];
        (unscaled, 0..=Decimal::MAX_SCALE).prop_filter_map("a scale", |(u, s)| Decimal::new(u, s))
    }

    proptest! {
        #[test]
        fn a_decimal_reads_back(d in decimal()) {
            let again: Decimal = d.to_string().parse().unwrap();
            prop_assert_eq!((again.unscaled(), again.scale()), (d.unscaled(), d.scale()));
        }

        #[test]
        fn decimals_are_ordered_as_their_difference(a in decimal(), b in decimal()) {
            // Whole parts first, then what is behind the point, in as many digits as the longer
            // has.
            let parts = |d: Decimal| {
                let by = 10i64.pow(d.scale().into());
                (d.unscaled().div_euclid(by), i128::from(d.unscaled().rem_euclid(by)) * 10i128.pow((18 - d.scale()).into()))
            };
            prop_assert_eq!(a.cmp(&b), parts(a).cmp(&parts(b)));
            for scale in 0..=Decimal::MAX_SCALE {
                prop_assert!(a.with_scale(scale).is_none_or(|same| same == a && same.scale() == scale));
            }
        }

        #[test]
        fn no_text_makes_parsing_panic(text: String, digits in "[-+]?[0-9]{0,25}[.]?[0-9]{0,25}") {
            let _ = (text.parse::<Decimal>(), digits.parse::<Decimal>());
        }
    }

    #[test]
    fn what_is_no_decimal_is_refused() {
        for text in
            ["", "-", ".", "1.", ".5", "1e3", "1.2.3", "--1", "9223372036854775808", "0.0000000000000000001"]
        {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
        assert_eq!("-9223372036854775808".parse(), Ok(Decimal::from(i64::MIN)));
    }
}

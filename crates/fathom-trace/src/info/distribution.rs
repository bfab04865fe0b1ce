//! How numbers are distributed, in little memory.

use hdrhistogram::Histogram;
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

/// Count, sum and percentiles (to 1 %) of whole numbers.
#[derive(Clone, Debug)]
pub struct Distribution {
    histogram: Histogram<u64>,
    sum: u64,
}

impl Default for Distribution {
    fn default() -> Self {
        // Two digits; it grows with the largest number. Two is within the bounds that `new` checks.
        let histogram = Histogram::new(2).unwrap_or_else(|_| unreachable!("0 to 5 digits are allowed"));
        Distribution { histogram, sum: 0 }
    }
}

impl PartialEq for Distribution {
    fn eq(&self, other: &Self) -> bool {
        self.sum == other.sum && self.histogram == other.histogram
    }
}

impl Distribution {
    /// One more number.
    pub fn add(&mut self, value: u64) {
        if self.histogram.record(value).is_err() {
            self.histogram.saturating_record(value);
        }
        self.sum = self.sum.saturating_add(value);
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// Their mean; 0 of none.
    #[must_use]
    pub fn mean(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum as f64 / self.count() as f64 }
    }

    /// Their sum.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.sum
    }

    /// The number below or at which this share of them lies.
    #[must_use]
    pub fn at(&self, share: f64) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.value_at_quantile(share) }
    }

    /// The largest.
    #[must_use]
    pub fn max(&self) -> u64 {
        if self.count() == 0 { 0 } else { self.histogram.max() }
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Distribution", 7)?;
        fields.serialize_field("count", &self.count())?;
        fields.serialize_field("sum", &self.sum)?;
        fields.serialize_field("mean", &self.mean())?;
        fields.serialize_field("p50", &self.at(0.5))?;
        fields.serialize_field("p90", &self.at(0.9))?;
        fields.serialize_field("p99", &self.at(0.99))?;
        fields.serialize_field("max", &self.max())?;
        fields.end()
    }
}

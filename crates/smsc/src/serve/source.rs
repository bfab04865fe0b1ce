//! Where a connection comes from, as far as limits go.

use std::net::{IpAddr, Ipv4Addr};

/// A source of connections: an address of IPv4, or a network of IPv6 of 64 bits, within which
/// whoever has one address has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Source(u64);

impl Source {
    /// The source that an address belongs to.
    pub fn of(address: IpAddr) -> Source {
        match address.to_canonical() {
            // No network of IPv6 that is in use begins with 32 zeros.
            IpAddr::V4(address) => Source(u64::from(u32::from(address))),
            IpAddr::V6(address) => Source((u128::from(address) >> 64) as u64),
        }
    }

    /// That of a connection whose address the system does not tell.
    pub fn unknown() -> Source {
        Source::of(IpAddr::V4(Ipv4Addr::UNSPECIFIED))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_one_host_may_have_are_one_source() {
        let source = |text: &str| Source::of(text.parse().unwrap());
        assert_eq!(source("2001:db8::1"), source("2001:db8::ffff:1"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("192.0.2.1"), source("::ffff:192.0.2.1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
    }
}

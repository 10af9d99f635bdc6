//! Ranges of addresses (CIDRs), and the groups that they form.
//!
//! 1. A CIDR is an address and how many of its leading bits count.
//! 2. An address belongs to the groups of the narrowest range around it: of 10.0.0.0/8 and 10.1.0.0/16 the
//!    second counts for 10.1.2.3.
//!
//! Invariants: the bits after the prefix are 0; what is no CIDR is `None`, never a panic.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cidr {
    address: IpAddr,
    prefix: u8,
}

impl Cidr {
    /// The range of the addresses whose first `prefix` bits are those of `address`; `None` if it has not as many.
    pub fn new(address: IpAddr, prefix: u8) -> Option<Cidr> {
        let address = match address {
            IpAddr::V4(v4) => {
                let host = u32::MAX.checked_shr(prefix.into()).unwrap_or(0);
                (prefix <= 32).then(|| IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & !host)))?
            }
            IpAddr::V6(v6) => {
                let host = u128::MAX.checked_shr(prefix.into()).unwrap_or(0);
                (prefix <= 128).then(|| IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & !host)))?
            }
        };
        Some(Cidr { address, prefix })
    }

    /// Reads `address/prefix`.
    pub fn parse(text: &str) -> Option<Cidr> {
        let (address, prefix) = text.split_once('/')?;
        let is_number = !prefix.is_empty() && prefix.len() <= 3 && prefix.bytes().all(|byte| byte.is_ascii_digit());
        Cidr::new(address.parse().ok()?, prefix.parse().ok().filter(|_| is_number)?)
    }

    /// The first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// How many leading bits the addresses share.
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// Whether an address lies in the range.
    pub fn contains(self, address: IpAddr) -> bool {
        self.address.is_ipv4() == address.is_ipv4() && Cidr::new(address, self.prefix) == Some(self)
    }
}

/// As Cassandra shows it: the parts of an IPv6 address are all written, and without leading zeros.
impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            IpAddr::V4(v4) => write!(f, "{v4}/{}", self.prefix),
            IpAddr::V6(v6) => {
                let parts: Vec<String> = v6.segments().iter().map(|part| format!("{part:x}")).collect();
                write!(f, "{}/{}", parts.join(":"), self.prefix)
            }
        }
    }
}

/// Groups of ranges.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CidrGroups {
    /// The groups of each range, by the length of its prefix and its first address.
    ranges: BTreeMap<u8, BTreeMap<IpAddr, BTreeSet<String>>>,
}

impl CidrGroups {
    /// Adds a range to a group.
    pub fn add(&mut self, group: &str, range: Cidr) {
        let of_length = self.ranges.entry(range.prefix).or_default();
        of_length.entry(range.address).or_default().insert(group.to_owned());
    }

    /// The groups of the narrowest range around an address; `None` if no range is.
    pub fn of(&self, address: IpAddr) -> Option<&BTreeSet<String>> {
        let address = address.to_canonical();
        let mut narrowest_first = self.ranges.iter().rev();
        narrowest_first.find_map(|(prefix, ranges)| ranges.get(&Cidr::new(address, *prefix)?.address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn ranges_are_read_and_shown_as_in_cassandra() {
        for (text, shown) in [
            ("10.1.2.3/16", "10.1.0.0/16"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("1.2.3.4/32", "1.2.3.4/32"),
            ("2001:db8::5/32", "2001:db8:0:0:0:0:0:0/32"),
            ("::1/128", "0:0:0:0:0:0:0:1/128"),
        ] {
            assert_eq!(Cidr::parse(text).map(|cidr| cidr.to_string()).as_deref(), Some(shown));
        }
        for text in
            ["", "/", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "1.2.3.4/-1", "1.2.3.4/+1", "::1/129", "nope/8", "::1/999"]
        {
            assert_eq!(Cidr::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_range_has_the_addresses_with_its_prefix() {
        let range = |text| Cidr::parse(text).expect("a range");
        assert!(range("10.0.0.0/8").contains(address("10.255.255.255")));
        assert!(!range("10.0.0.0/8").contains(address("11.0.0.0")));
        assert!(range("0.0.0.0/0").contains(address("255.255.255.255")));
        assert!(!range("0.0.0.0/0").contains(address("::1")));
        assert!(!range("::/0").contains(address("1.2.3.4")));
        assert!(range("2001:db8::/32").contains(address("2001:db8:ffff::1")));
    }

    #[test]
    fn the_narrowest_range_counts() {
        let mut groups = CidrGroups::default();
        for (group, range) in
            [("wide", "10.0.0.0/8"), ("narrow", "10.1.0.0/16"), ("also", "10.1.0.0/16"), ("six", "::/0")]
        {
            groups.add(group, Cidr::parse(range).expect("a range"));
        }
        let of = |text| groups.of(address(text)).map(|groups| groups.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(of("10.2.0.1"), Some(vec!["wide"]));
        assert_eq!(of("10.1.0.1"), Some(vec!["also", "narrow"]));
        assert_eq!(of("11.0.0.1"), None);
        assert_eq!(of("fe80::1"), Some(vec!["six"]));
        assert_eq!(of("::ffff:10.2.0.1"), Some(vec!["wide"]));
    }

    /// Numbers from a fixed seed as ranges and as texts that are nearly ranges.
    #[test]
    fn what_is_read_is_read_again_as_it_is_shown() {
        let mut state = 1u64;
        let mut roll = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        let mut read = 0;
        for _ in 0..50_000 {
            let address = match roll(2) {
                0 => IpAddr::from([roll(256) as u8, roll(256) as u8, 0, roll(256) as u8]),
                _ => IpAddr::from([0x2001, 0xdb8, roll(65_536) as u16, 0, 0, 0, 0, roll(65_536) as u16]),
            };
            let mut text = format!("{address}/{}", roll(140));
            if roll(2) == 0 {
                let at = roll(text.len() as u64) as usize;
                let other = char::from(b"0123456789abcdef:./+- x"[roll(23) as usize]);
                text.replace_range(at..=at, other.encode_utf8(&mut [0; 4]));
            }
            let Some(range) = Cidr::parse(&text) else { continue };
            read += 1;
            assert_eq!(Cidr::parse(&range.to_string()), Some(range), "{text}");
            assert!(range.contains(range.address()), "{text}");
            let mut groups = CidrGroups::default();
            groups.add("g", range);
            assert!(
                groups.of(range.address()).is_some() || range.address().to_canonical() != range.address(),
                "{text}"
            );
        }
        assert!((10_000..45_000).contains(&read), "{read}");
    }
}

//! Any text as ranges of addresses: what is read is read again as it is shown, and groups of it find its addresses.
#![no_main]

use libfuzzer_sys::fuzz_target;
use model::access::{Cidr, CidrGroups};

fuzz_target!(|text: &str| {
    let mut groups = CidrGroups::default();
    let ranges: Vec<Cidr> = text.split([' ', ',']).filter_map(Cidr::parse).collect();
    for range in &ranges {
        assert_eq!(Cidr::parse(&range.to_string()), Some(*range));
        assert!(range.contains(range.address()));
        groups.add(&range.to_string(), *range);
    }
    for range in &ranges {
        let found = groups.of(range.address()).is_some_and(|names| {
            names.iter().all(|name| Cidr::parse(name).is_some_and(|named| named.prefix() >= range.prefix()))
        });
        // An IPv4 address within IPv6 is looked up as IPv4.
        assert!(found || range.address().to_canonical() != range.address());
    }
});

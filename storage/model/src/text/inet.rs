//! Addresses as text: IPv4 with one to four parts (the last one fills the remaining bytes), IPv6 with a scope or in
//! brackets. An IPv4-mapped IPv6 address is an IPv4 address, as in Java.

use crate::value::ValueError;
use std::net::{Ipv4Addr, Ipv6Addr};

pub(super) fn parse(text: &str) -> Result<Vec<u8>, ValueError> {
    let v6 = || {
        parse_v6(text).map(|address| match address.to_ipv4_mapped() {
            Some(mapped) => mapped.octets().to_vec(),
            None => address.octets().to_vec(),
        })
    };
    parse_v4(text)
        .map(|address| address.octets().to_vec())
        .or_else(v6)
        .ok_or_else(|| ValueError(format!("Unable to make inet address from '{text}'")))
}

fn parse_v4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = text.splitn(5, '.').map(super::digits).collect::<Option<_>>()?;
    let (&last, first) = parts.split_last()?;
    let last_bits = 32u32.checked_sub(8 * first.len() as u32).filter(|&bits| bits > 0)?;
    if first.iter().any(|&part| part > 255) || last >> last_bits != 0 {
        return None;
    }
    let high = first.iter().fold(0, |high, part| (high << 8) | part);
    Some(Ipv4Addr::from_bits(((high << last_bits) | last) as u32))
}

fn parse_v6(text: &str) -> Option<Ipv6Addr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let (address, scope) = bare.split_once('%').unwrap_or((bare, "0"));
    address.parse().ok().filter(|_| !scope.is_empty())
}

/// Formats an address; `None` if it has neither 4 nor 16 bytes.
pub(crate) fn format(bytes: &[u8]) -> Option<String> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(octets).to_string());
    }
    let address = Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?);
    if let Some(mapped) = address.to_ipv4_mapped() {
        return Some(mapped.to_string());
    }
    // Java does not shorten runs of zeros.
    Some(address.segments().map(|segment| format!("{segment:x}")).join(":"))
}

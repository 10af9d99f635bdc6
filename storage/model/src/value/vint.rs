//! Variable-length integers: the first byte has one leading 1 bit per byte that follows; signed numbers are
//! zigzag-encoded.

pub(super) fn read_unsigned(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = bytes.split_first()?;
    let extra = first.leading_ones() as usize;
    let (tail, rest) = rest.split_at_checked(extra)?;
    *bytes = rest;
    let head = if extra < 8 { u64::from(first) & (0xff >> extra) } else { 0 };
    Some(tail.iter().fold(head, |raw, &byte| (raw << 8) | u64::from(byte)))
}

pub(super) fn read_signed(bytes: &mut &[u8]) -> Option<i64> {
    let raw = read_unsigned(bytes)?;
    Some((raw >> 1) as i64 ^ -((raw & 1) as i64))
}

pub(super) fn push_unsigned(out: &mut Vec<u8>, raw: u64) {
    let bits = 64 - (raw | 1).leading_zeros() as usize;
    let extra = ((bits - 1) / 7).min(8);
    let bytes = raw.to_be_bytes();
    match extra {
        8 => out.push(0xff),
        _ => out.push(bytes[7 - extra] | !(0xffu16 >> extra) as u8),
    }
    out.extend_from_slice(&bytes[8 - extra..]);
}

pub(super) fn push_signed(out: &mut Vec<u8>, number: i64) {
    push_unsigned(out, ((number << 1) ^ (number >> 63)) as u64);
}

//! Ids of SSTables: time UUIDs in Cassandra's text form (`UUIDBasedSSTableId`), unique across shards and runs.

use uuid::Uuid;

/// The number of intervals of 100 ns from 1582-10-15 to 1970-01-01.
const UUID_EPOCH: u64 = 0x01b2_1dd2_1381_4000;

/// A time UUID of this moment; its other bits are random.
pub(crate) fn time_uuid() -> Uuid {
    let (ticks, random) = moment();
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&(ticks as u32).to_be_bytes());
    bytes[4..6].copy_from_slice(&((ticks >> 32) as u16).to_be_bytes());
    bytes[6..8].copy_from_slice(&((ticks >> 48) as u16 & 0x0fff | 0x1000).to_be_bytes());
    bytes[8..].copy_from_slice(&random.to_be_bytes());
    Uuid::from_bytes(bytes)
}

/// The text of a new id for an SSTable.
pub(crate) fn sstable_id() -> String {
    let (ticks, random) = moment();
    text(ticks, random)
}

fn moment() -> (u64, u64) {
    let ticks = UUID_EPOCH + runtime::wall_micros().max(0) as u64 * 10;
    // The variant bits of RFC 4122, and in the node id the multicast bit, which no network card's address has.
    let random = runtime::rng::u64() & 0x3fff_ffff_ffff_ffff | 0x8000_0100_0000_0000;
    (ticks, random)
}

/// The text of an id, in base 36: days, seconds and the rest of the timestamp, then the other half of the UUID.
fn text(ticks: u64, random: u64) -> String {
    let (seconds, rest) = (ticks / 10_000_000, ticks % 10_000_000);
    let (days, seconds) = (seconds / 86_400, seconds % 86_400);
    format!("{}_{}_{}{}", base_36(days, 4), base_36(seconds, 4), base_36(rest, 5), base_36(random, 13))
}

/// When an id was made, seconds since 1970; `None` if it is not a time UUID but a plain number.
pub(crate) fn made_at(id: &str) -> Option<i64> {
    let mut parts = id.split('_');
    let (days, seconds) = (parts.next()?, parts.next()?);
    parts.next()?;
    let number = |digits: &str| u64::from_str_radix(digits, 36).ok();
    let since_1582 = number(days)?.checked_mul(86_400)?.checked_add(number(seconds)?)?;
    i64::try_from(since_1582.checked_sub(UUID_EPOCH / 10_000_000)?).ok()
}

fn base_36(mut value: u64, width: usize) -> String {
    let mut digits = Vec::new();
    while value > 0 || digits.len() < width {
        digits.push(b"0123456789abcdefghijklmnopqrstuvwxyz"[(value % 36) as usize]);
        value /= 36;
    }
    digits.reverse();
    digits.into_iter().map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_written_as_cassandra_does() {
        let id = text(0x01ee_c1a1_2345_6789, 0x9f12_3456_789a_bcde);
        assert_eq!(id.len(), 28);
        let (random, rest) = (&id[15..], &id[10..15]);
        assert_eq!(u64::from_str_radix(random, 36), Ok(0x9f12_3456_789a_bcde));
        assert_eq!(u64::from_str_radix(rest, 36), Ok(0x01ee_c1a1_2345_6789 % 10_000_000));
        let made = (0x01ee_c1a1_2345_6789 - UUID_EPOCH) / 10_000_000;
        assert_eq!(made_at(&id), Some(made as i64));
        assert_eq!(made_at("17"), None);
        assert!(sstable::Descriptor::parse(&format!("da-{id}-bti-Data.db")).is_some());
    }
}

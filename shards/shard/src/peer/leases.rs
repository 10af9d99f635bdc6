//! Units that a coordinating core leases from the keeper of a scope.
//!
//! The request:
//! ```text
//! core u16: the core that keeps the bucket
//! table [16]; of a quota, what stands for the keyspace or role: 16 bytes of the SHA-256 of its name
//! measure u8: 0 request units, 1 reads of 4 KB, 2 writes of 1 KB, 3 reads, 4 writes
//! scope u8
//!   0 the table
//!   1 a physical partition: host id [16], core u16
//!   2 a partition key: the first 64 bits of its token, i64
//!   3 a keyspace by its quota, 4 a role by its quota: the rate u64, hundredths a second, at least 1, at most 10^11
//! holder: host id [16], core u16
//! wanted u64, least u64, hundredths, at most 2^56 each
//! round trip u64, microseconds
//! ```
//! The answer:
//! ```text
//! granted u64, hundredths, at most 2^56
//! ask again after u64, microseconds, at most 1,000,000
//! ```

use super::bytes::Reader;
use crate::messages::units::LeaseRequest;
use cluster::units::keeper::{ASK_AGAIN_MICROS_MAX, HUNDREDTHS_MAX};
use cluster::units::limits::{Measure, Scope};
use cluster::units::{Ask, Grant, HUNDREDTHS};
use model::TableId;
use model::quota::QUOTA_UNITS_MAX;
use uuid::Uuid;

/// Most bytes of a request.
pub(crate) const REQUEST_BYTES: usize = 2 + 16 + 1 + 1 + 18 + 18 + 24;

const TABLE: u8 = 0;
const PHYSICAL: u8 = 1;
const KEY: u8 = 2;
const KEYSPACE: u8 = 3;
const ROLE: u8 = 4;
/// Most hundredths a second of a quota.
const QUOTA_RATE_MAX: u64 = QUOTA_UNITS_MAX as u64 * HUNDREDTHS;

/// Writes a request.
pub(crate) fn push(out: &mut Vec<u8>, request: &LeaseRequest, core: u16) {
    out.extend_from_slice(&core.to_le_bytes());
    out.extend_from_slice(&request.table.0);
    out.push(request.measure as u8);
    match request.scope {
        Scope::Table => out.push(TABLE),
        Scope::Physical { host_id, core } => {
            out.push(PHYSICAL);
            out.extend_from_slice(host_id.as_bytes());
            out.extend_from_slice(&core.to_le_bytes());
        }
        Scope::Key(token) => {
            out.push(KEY);
            out.extend_from_slice(&token.to_le_bytes());
        }
        Scope::Keyspace => out.push(KEYSPACE),
        Scope::Role => out.push(ROLE),
    }
    if let Some(rate) = request.quota_rate {
        out.extend_from_slice(&rate.to_le_bytes());
    }
    out.extend_from_slice(request.holder.0.as_bytes());
    out.extend_from_slice(&request.holder.1.to_le_bytes());
    let Ask { wanted, least, round_trip_micros } = request.ask;
    [wanted, least, round_trip_micros].iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Reads a request, and the core that it is for.
pub(crate) fn decode(bytes: &[u8]) -> Option<(LeaseRequest, u16)> {
    let mut reader = Reader::new(bytes);
    let core = reader.u16()?;
    let table = TableId(reader.chunk()?);
    let measure = Measure::of(reader.u8()?)?;
    let scope = match reader.u8()? {
        TABLE => Scope::Table,
        PHYSICAL => Scope::Physical { host_id: Uuid::from_bytes(reader.chunk()?), core: reader.u16()? },
        KEY => Scope::Key(reader.i64()?),
        KEYSPACE => Scope::Keyspace,
        ROLE => Scope::Role,
        _ => return None,
    };
    let quota_rate = match scope.is_of_quota() {
        true => Some(reader.u64()?),
        false => None,
    };
    if quota_rate.is_some_and(|rate| !(1..=QUOTA_RATE_MAX).contains(&rate)) {
        return None;
    }
    let holder = (Uuid::from_bytes(reader.chunk()?), reader.u16()?);
    let ask = Ask { wanted: reader.u64()?, least: reader.u64()?, round_trip_micros: reader.u64()? };
    let is_valid = ask.wanted <= HUNDREDTHS_MAX && ask.least <= HUNDREDTHS_MAX && reader.rest().is_empty();
    is_valid.then_some((LeaseRequest { table, measure, scope, quota_rate, holder, ask }, core))
}

/// Writes an answer.
pub(crate) fn push_grant(out: &mut Vec<u8>, grant: &Grant) {
    out.extend_from_slice(&grant.units.to_le_bytes());
    out.extend_from_slice(&grant.ask_again_micros.to_le_bytes());
}

/// Reads an answer.
pub(crate) fn grant(bytes: &[u8]) -> Option<Grant> {
    let mut reader = Reader::new(bytes);
    let grant = Grant { units: reader.u64()?, ask_again_micros: reader.u64()? };
    let is_valid = grant.units <= HUNDREDTHS_MAX && grant.ask_again_micros <= ASK_AGAIN_MICROS_MAX;
    (is_valid && reader.rest().is_empty()).then_some(grant)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes() {
        let ask = Ask { wanted: 0x0102, least: 3, round_trip_micros: 4 };
        let holder = (Uuid::from_bytes(*b"ABCDEFGHIJKLMNOP"), 9);
        let table = TableId(*b"0123456789abcdef");
        let of = |measure, scope| LeaseRequest { table, measure, scope, quota_rate: None, holder, ask };
        let of_quota = |scope| LeaseRequest { quota_rate: Some(0x0304), ..of(Measure::Units, scope) };
        let tail = b"ABCDEFGHIJKLMNOP\x09\0\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0";
        for (request, middle) in [
            (of(Measure::Units, Scope::Table), &b"\0\0"[..]),
            (of(Measure::Writes, Scope::Key(-2)), &b"\x04\x02\xfe\xff\xff\xff\xff\xff\xff\xff"[..]),
            (of_quota(Scope::Keyspace), &b"\0\x03\x04\x03\0\0\0\0\0\0"[..]),
            (of_quota(Scope::Role), &b"\0\x04\x04\x03\0\0\0\0\0\0"[..]),
            (
                of(Measure::ReadUnits, Scope::Physical { host_id: holder.0, core: 5 }),
                &b"\x01\x01ABCDEFGHIJKLMNOP\x05\0"[..],
            ),
        ] {
            let mut out = Vec::new();
            push(&mut out, &request, 7);
            assert_eq!(out, [&b"\x07\x000123456789abcdef"[..], middle, tail].concat());
            assert_eq!(decode(&out), Some((request, 7)));
            assert!((0..out.len()).all(|len| decode(&out[..len]).is_none()), "too short");
            assert!(out.len() <= REQUEST_BYTES);
        }
        let mut out = Vec::new();
        push_grant(&mut out, &Grant { units: 0x0102, ask_again_micros: 3 });
        assert_eq!(out, b"\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0");
        assert_eq!(grant(&out), Some(Grant { units: 0x0102, ask_again_micros: 3 }));
        assert!((0..out.len()).all(|len| grant(&out[..len]).is_none()), "too short");
    }

    #[test]
    fn amounts_and_times_are_bounded() {
        let asked = |wanted, least| {
            let ask = Ask { wanted, least, round_trip_micros: u64::MAX };
            let holder = (Uuid::nil(), 0);
            let (table, measure, scope) = (TableId([7; 16]), Measure::Units, Scope::Table);
            let mut out = Vec::new();
            push(&mut out, &LeaseRequest { table, measure, scope, quota_rate: None, holder, ask }, 0);
            decode(&out).is_some()
        };
        assert!(asked(HUNDREDTHS_MAX, HUNDREDTHS_MAX));
        assert!(!asked(HUNDREDTHS_MAX + 1, 0) && !asked(0, HUNDREDTHS_MAX + 1));
        let rated = |scope, rate| {
            let ask = Ask { wanted: 1, least: 1, round_trip_micros: 0 };
            let (table, measure, holder) = (TableId([7; 16]), Measure::Units, (Uuid::nil(), 0));
            let mut out = Vec::new();
            push(&mut out, &LeaseRequest { table, measure, scope, quota_rate: Some(rate), holder, ask }, 0);
            decode(&out).is_some()
        };
        for scope in [Scope::Keyspace, Scope::Role] {
            assert!(rated(scope, 1) && rated(scope, QUOTA_RATE_MAX));
            assert!(!rated(scope, 0) && !rated(scope, QUOTA_RATE_MAX + 1));
        }
        assert!(!rated(Scope::Table, 1), "a table has no quota");
        let granted = |units, ask_again_micros| {
            let mut out = Vec::new();
            push_grant(&mut out, &Grant { units, ask_again_micros });
            grant(&out).is_some()
        };
        assert!(granted(HUNDREDTHS_MAX, ASK_AGAIN_MICROS_MAX));
        assert!(!granted(HUNDREDTHS_MAX + 1, 0) && !granted(0, ASK_AGAIN_MICROS_MAX + 1));
    }
}

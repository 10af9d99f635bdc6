//! Plans: statements with all names resolved, which need only the values of their markers.

mod access;
mod cell_attributes;
mod composite;
mod condition;
mod counter;
mod define;
mod json_insert;
mod modify;
mod projection;
mod select;
mod term;
mod transaction;
mod virtual_change;

pub use access::{required, required_by_definition};
pub use composite::{Composite, encode as encode_composite, part_type, reserialized};
pub use condition::*;
pub use counter::check_kinds;
pub(crate) use counter::no_insert;
pub use define::*;
pub use json_insert::{JsonInsert, JsonValue, json_values};
pub use modify::*;
pub use projection::{Expression, Group, Grouping, Projection};
pub use select::*;
pub use term::{EvaluationContext, Term, Value};
pub(crate) use transaction::NULL_COMPARISON;
pub use transaction::{Let, ONE_ROW, Reference, Returning, Transaction, TransactionCondition};
pub use virtual_change::check_virtual;

use crate::ast::AccessStatement;
use model::key::push_composite;
use model::{ColumnSpec, Failure, Partitioner, RingToken, Table};
use std::sync::Arc;
use std::time::Duration;

/// A prepared statement: a plan, and the description of its markers and results.
#[derive(Clone, PartialEq, Debug)]
pub struct Prepared {
    /// The plan.
    pub plan: Plan,
    /// The bind markers in order of appearance.
    pub markers: Vec<ColumnSpec>,
    /// The marker that alone gives the value of each partition key column, if every column has one; else empty. Drivers
    /// route by these. In a batch on one table the last such markers count.
    pub partition_key_markers: Vec<u16>,
    /// The columns of the result, for statements that return rows.
    pub result: Option<Arc<[ColumnSpec]>>,
    /// Whether every table was named with its keyspace. The id of the prepared statement then does not depend on the
    /// session's keyspace.
    pub fully_qualified: bool,
    /// Warnings for the client that depend on the text alone.
    pub warnings: Vec<String>,
    /// The duration of `USING TIMEOUT`, if given.
    pub timeout: Option<Term>,
    /// For a SELECT from a table with masks, or a transaction on it: what it is for those who may not see what is
    /// masked.
    pub masked: Option<Box<MaskedPlan>>,
}

/// A statement as written, under the name that callers use.
pub type Statement = crate::ast::Statement;

/// The plan of a statement.
#[derive(Clone, PartialEq, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a plan lives behind an Arc: a box within it costs the hot path one more load"
)]
pub enum Plan {
    /// SELECT.
    Select(Select),
    /// INSERT, UPDATE or DELETE.
    Modify(Modify),
    /// BEGIN ... APPLY BATCH.
    Batch(Batch),
    /// BEGIN TRANSACTION ... COMMIT TRANSACTION.
    Transaction(Arc<Transaction>),
    /// TRUNCATE.
    Truncate(Arc<Table>),
    /// USE; the keyspace exists.
    Use(String),
    /// CREATE, ALTER or DROP.
    Define(Define),
    /// DESCRIBE.
    Describe(Describe),
    /// A statement about roles, permissions or identities.
    Access(Arc<AccessStatement>),
}

/// Longest time to live in seconds: 20 years.
pub const TTL_SECONDS_MAX: i32 = 630_720_000;

/// The seconds of a `USING TTL` value, which is the bytes of an int, empty for 0. Fails if it is negative or more than
/// [`TTL_SECONDS_MAX`].
pub fn ttl_of(bytes: &[u8]) -> Result<i32, Failure> {
    let seconds = match <[u8; 4]>::try_from(bytes) {
        // An empty int means no time to live.
        Err(_) if bytes.is_empty() => 0,
        Ok(bytes) => i32::from_be_bytes(bytes),
        Err(_) => return Err(Failure::invalid("Invalid TTL value")),
    };
    if seconds < 0 {
        return Err(Failure::invalid(format!("A TTL must be greater or equal to 0, but was {seconds}")));
    }
    if seconds > TTL_SECONDS_MAX {
        return Err(Failure::invalid(format!("ttl is too large. requested ({seconds}) maximum ({TTL_SECONDS_MAX})")));
    }
    Ok(seconds)
}

/// The duration of a `USING TIMEOUT` value, which is the bytes of a CQL duration. Fails for months, days, negative
/// durations and fractions of a millisecond.
pub fn timeout_of(duration_bytes: &[u8]) -> Result<Duration, Failure> {
    const NANOS_PER_MILLI: i64 = 1_000_000;
    let mut rest = duration_bytes;
    let fields = [vint(&mut rest), vint(&mut rest), vint(&mut rest)];
    let [Some(months), Some(days), Some(nanos)] = fields else {
        return Err(Failure::invalid("The timeout is not a duration"));
    };
    if months != 0 || days != 0 {
        return Err(Failure::invalid("Timeout values cannot be expressed in days, weeks, months or years"));
    }
    if nanos < 0 {
        return Err(Failure::invalid("Timeout values must be non-negative"));
    }
    if nanos % NANOS_PER_MILLI != 0 {
        return Err(Failure::invalid("Timeout values cannot have granularity finer than milliseconds"));
    }
    Ok(Duration::from_nanos(nanos as u64))
}

/// Reads a signed variable-length integer of a duration: the leading 1 bits of the first byte count the bytes after it,
/// and the number is zigzag-encoded.
fn vint(rest: &mut &[u8]) -> Option<i64> {
    let (first, tail) = rest.split_first()?;
    let extra = first.leading_ones() as usize;
    let (bytes, tail) = tail.split_at_checked(extra)?;
    let mut value = if extra < 7 { u64::from(first & (0xff >> (extra + 1))) } else { 0 };
    for byte in bytes {
        value = value << 8 | u64::from(*byte);
    }
    *rest = tail;
    Some((value >> 1) as i64 ^ -((value & 1) as i64))
}

/// The token of a partition key with these components.
pub fn token_of(partitioner: Partitioner, components: &[&[u8]]) -> RingToken {
    match components {
        [component] => partitioner.ring_token(component),
        _ => {
            let mut key = Vec::with_capacity(components.iter().map(|component| component.len() + 3).sum());
            push_composite(components.iter().copied(), &mut key);
            partitioner.ring_token(&key)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::CqlType;
    use model::value::BoundValue;

    /// A clock and ids that count upwards.
    struct Counting(u8);

    impl EvaluationContext for Counting {
        fn wall_micros(&mut self) -> i64 {
            0
        }

        fn timeuuid(&mut self) -> [u8; 16] {
            self.0 += 1;
            [self.0; 16]
        }

        fn uuid(&mut self) -> [u8; 16] {
            self.timeuuid()
        }
    }

    fn evaluate(term: &Term, cql_type: &CqlType, values: &[BoundValue<'_>]) -> Result<Option<Vec<u8>>, String> {
        match term.evaluate(cql_type, values, &mut Counting(0)) {
            Ok(Value::Bytes(bytes)) => Ok(Some(bytes.into_owned())),
            Ok(Value::Null) => Ok(None),
            Ok(Value::Unset) => Err("unset".to_owned()),
            Err(failure) => Err(failure.text.into_owned()),
        }
    }

    #[test]
    fn markers_take_what_was_bound() {
        let int = CqlType::Int;
        let values =
            [BoundValue::Bytes(&[0, 0, 0, 7]), BoundValue::Null, BoundValue::Unset, BoundValue::Bytes(&[0; 5])];
        assert_eq!(evaluate(&Term::Marker(0), &int, &values), Ok(Some(vec![0, 0, 0, 7])));
        assert_eq!(evaluate(&Term::Marker(1), &int, &values), Ok(None));
        assert_eq!(evaluate(&Term::Marker(2), &int, &values), Err("unset".to_owned()));
        assert_eq!(evaluate(&Term::Marker(3), &int, &values), Err("Expected 4 or 0 byte int (5)".to_owned()));
        assert_eq!(evaluate(&Term::Marker(4), &int, &values), Err("Invalid amount of bind variables".to_owned()));
    }

    #[test]
    fn timeouts() {
        let duration = |text: &str| model::text::from_bare(&CqlType::Duration, text).unwrap();
        let millis = |text: &str| timeout_of(&duration(text)).map(|timeout| timeout.as_millis());
        assert_eq!(millis("0s"), Ok(0));
        assert_eq!(millis("30000ms"), Ok(30_000));
        assert_eq!(millis("1h30m"), Ok(5_400_000));
        assert_eq!(millis("2000000h"), Ok(7_200_000_000_000));
        for text in ["1d", "1mo", "-5s", "5us", "1w"] {
            assert!(millis(text).is_err(), "{text}");
        }
        for bytes in [&[][..], &[0, 0], &[0, 0, 0xff], &[0, 0, 0x81], &[0xff; 20]] {
            assert!(timeout_of(bytes).is_err(), "{bytes:?}");
        }
    }
}

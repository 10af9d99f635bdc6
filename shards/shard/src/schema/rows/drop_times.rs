//! When columns were dropped, to the microsecond.
//!
//! `dropped_columns.dropped_time` is in milliseconds, but `ALTER TABLE ... DROP ... USING TIMESTAMP` takes
//! microseconds: with milliseconds alone, cells between the two would be hidden until a restart and shown after it, or
//! the other way round. An extension of the table therefore holds the exact times, per column:
//! `[u16 length, name, i64 microseconds]`, big-endian.

use super::MICROS_PER_MILLI;
use model::schema::DroppedColumn;

/// The extension's name.
pub(super) const EXTENSION: &str = "helenus.drop_times";

/// The extension's value for a table; `None` if all times are whole milliseconds.
pub(super) fn encode(dropped: &[DroppedColumn]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    for column in dropped.iter().filter(|column| column.dropped_at % MICROS_PER_MILLI != 0) {
        out.extend_from_slice(&(column.name.len() as u16).to_be_bytes());
        out.extend_from_slice(column.name.as_bytes());
        out.extend_from_slice(&column.dropped_at.to_be_bytes());
    }
    (!out.is_empty()).then_some(out)
}

/// Sets the exact time of the columns whose stored millisecond matches; stops at bytes that are malformed.
pub(super) fn apply(mut bytes: &[u8], dropped: &mut [DroppedColumn]) {
    while let Some((name, at, rest)) = split(bytes) {
        let same = |column: &&mut DroppedColumn| {
            column.name.as_bytes() == name && column.dropped_at == at - at.rem_euclid(MICROS_PER_MILLI)
        };
        if let Some(column) = dropped.iter_mut().find(same) {
            column.dropped_at = at;
        }
        bytes = rest;
    }
}

fn split(bytes: &[u8]) -> Option<(&[u8], i64, &[u8])> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let (name, rest) = rest.split_at_checked(u16::from_be_bytes(*len).into())?;
    let (at, rest) = rest.split_first_chunk::<8>()?;
    Some((name, i64::from_be_bytes(*at), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{ColumnId, ColumnKind, CqlType};

    #[test]
    fn microseconds_come_back() {
        let column = |name: &str, dropped_at| DroppedColumn {
            id: ColumnId(0),
            name: name.into(),
            kind: ColumnKind::Regular,
            cql_type: CqlType::Int,
            dropped_at,
        };
        let exact = [column("a", 1_700_000_000_000_050), column("b", -1), column("c", 5_000)];
        let bytes = encode(&exact).expect("microseconds");
        let in_millis = exact.clone().map(|mut column| {
            column.dropped_at = column.dropped_at.div_euclid(MICROS_PER_MILLI) * MICROS_PER_MILLI;
            column
        });
        let mut read = in_millis.clone();
        apply(&bytes, &mut read);
        assert_eq!(read, exact);
        // A program that does not know the extension dropped the column again.
        let mut later = in_millis.clone();
        later[0].dropped_at += MICROS_PER_MILLI;
        let expected = later[0].clone();
        apply(&bytes, &mut later);
        assert_eq!(later[0], expected);
        for cut in 0..bytes.len() {
            apply(&bytes[..cut], &mut in_millis.clone());
        }
        assert_eq!(encode(&in_millis), None);
    }
}

//! Clustering values as Data.db, Index.db and Statistics.db encode them: before every 32 values a vint with two bits
//! for each (1 empty, 2 null), then the values, preceded by a vint length unless their type has a fixed one.

use super::push_bytes;
use crate::error::Fault;
use crate::input::{Input, push_vint};

/// Reads one clustering value for each of `lens`, the fixed lengths of their types, and passes it to `take`; `None` is
/// null.
pub(crate) fn read_values<'a>(
    input: &mut Input<'a>,
    lens: impl Iterator<Item = Option<usize>>,
    mut take: impl FnMut(Option<&'a [u8]>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut marks = 0;
    for (i, len) in lens.enumerate() {
        if i % 32 == 0 {
            marks = input.vint()?;
        }
        let mark = marks & 3;
        marks >>= 2;
        let value = match (mark, len) {
            (0, Some(len)) => Some(input.bytes(len)?),
            (0, None) => Some(input.vint_bytes()?),
            (1, _) => Some(&[][..]),
            _ => None,
        };
        take(value)?;
    }
    Ok(())
}

/// Appends clustering values whose types have the fixed lengths `lens`; `None` is null.
pub(crate) fn push_values<'a>(
    out: &mut Vec<u8>,
    lens: impl Iterator<Item = Option<usize>> + Clone,
    values: impl Iterator<Item = Option<&'a [u8]>> + Clone,
) {
    for (i, (len, value)) in lens.zip(values.clone()).enumerate() {
        if i % 32 == 0 {
            let marks = values.clone().skip(i).take(32).enumerate().fold(0u64, |marks, (i, value)| {
                marks | (value.map_or(2, |value| u64::from(value.is_empty())) << (2 * i))
            });
            push_vint(out, marks);
        }
        match (value, len) {
            (None | Some([]), _) => {}
            (Some(value), Some(_)) => out.extend_from_slice(value),
            (Some(value), None) => push_bytes(out, value),
        }
    }
}

//! The clustering values of a bound, from its comparable form.
//!
//! A form is read column by column: separator, then the form of a value of the column's type. Forms of decimals, of
//! long varints, and of collections, tuples and composites are not read here.
//!
//! Invariants: what is returned has the given form, which is checked by making it again. Values that are equal but
//! written differently (NaNs) come back in one way of writing them.

use super::{BoundSide, NEXT, NEXT_EMPTY, NEXT_EMPTY_REVERSED, bound, side};
use crate::clustering::push_clustering;
use crate::schema::Table;
use crate::types::CqlType;
use crate::value;

/// The clustering of a bound, encoded as that of a row is, and its side; `None` if it cannot be told.
pub fn prefix_of(table: &Table, form: &[u8]) -> Option<(Vec<u8>, BoundSide)> {
    let side = side(form)?;
    let mut rest = &form[..form.len() - 1];
    let mut values: Vec<Vec<u8>> = Vec::new();
    for column in table.clustering() {
        let Some((separator, forms)) = rest.split_first() else { break };
        rest = forms;
        values.push(match *separator {
            NEXT => {
                let mut reader = FormReader { rest, flip: if column.descending { 0xff } else { 0 } };
                let value = reader.value(&column.cql_type)?;
                rest = reader.rest;
                value
            }
            NEXT_EMPTY | NEXT_EMPTY_REVERSED => Vec::new(),
            _ => return None,
        });
    }
    let mut again = Vec::with_capacity(form.len());
    bound(table, values.iter().map(Vec::as_slice), side, &mut again);
    if again != form {
        return None;
    }
    let mut clustering = Vec::with_capacity(form.len() + 4 * values.len());
    values.iter().for_each(|value| push_clustering(&mut clustering, value));
    Some((clustering, side))
}

/// Reads forms from the front of some bytes, of which each has the bits `flip` inverted.
struct FormReader<'f> {
    rest: &'f [u8],
    flip: u8,
}

impl FormReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(first ^ self.flip)
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().map(|first| first ^ self.flip)
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(first.map(|byte| byte ^ self.flip))
    }

    fn value(&mut self, cql_type: &CqlType) -> Option<Vec<u8>> {
        use CqlType::*;
        Some(match cql_type {
            Ascii | Text | Blob | Inet | Duration => self.escaped()?,
            Bigint | Counter => self.bigint()?.to_be_bytes().to_vec(),
            Timestamp => (i64::from_be_bytes(self.fixed()?) ^ i64::MIN).to_be_bytes().to_vec(),
            Int => (i32::from_be_bytes(self.fixed()?) ^ i32::MIN).to_be_bytes().to_vec(),
            Smallint => (i16::from_be_bytes(self.fixed()?) ^ i16::MIN).to_be_bytes().to_vec(),
            Tinyint => (i8::from_be_bytes(self.fixed()?) ^ i8::MIN).to_be_bytes().to_vec(),
            Boolean => self.fixed::<1>()?.to_vec(),
            Date => self.fixed::<4>()?.to_vec(),
            Time => self.fixed::<8>()?.to_vec(),
            Double => value::unordered_f64(u64::from_be_bytes(self.fixed()?)).to_be_bytes().to_vec(),
            Float => value::unordered_f32(u32::from_be_bytes(self.fixed()?)).to_be_bytes().to_vec(),
            Uuid => value::unordered_uuid(u128::from_be_bytes(self.fixed()?)).to_vec(),
            LexicalUuid => value::ordered_lexical_uuid(self.fixed()?).to_be_bytes().to_vec(),
            Timeuuid => value::unordered_timeuuid(u128::from_be_bytes(self.fixed()?)).to_vec(),
            Varint => self.short_varint()?,
            _ => return None,
        })
    }

    fn escaped(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            let byte = self.byte()?;
            if byte != 0 {
                value.push(byte);
                continue;
            }
            while self.peek() == Some(0xfe) {
                self.byte();
                value.push(0);
            }
            if self.peek() != Some(0xff) {
                return Some(value);
            }
            self.byte();
            value.push(0);
        }
    }

    fn bigint(&mut self) -> Option<i64> {
        let first = self.byte()?;
        let sign = if first >> 7 == 1 { 0 } else { u8::MAX };
        let ones = (first ^ sign).leading_ones() as usize;
        // Eight bytes follow if the next one goes on with the marks.
        let extra = ones - 1 + usize::from(ones == 8 && self.peek().is_some_and(|next| (next ^ sign) >> 7 == 1));
        let mut form = u128::from(first ^ sign);
        for _ in 0..extra {
            form = form << 8 | u128::from(self.byte()? ^ sign);
        }
        let width = 8 * (extra + 1);
        let magnitude = form & ((1 << (width - extra - 1)) - 1);
        let magnitude = i64::try_from(magnitude).ok()?;
        Some(if sign == 0 { magnitude } else { !magnitude })
    }

    /// A varint that is written like a bigint: its shortest two's complement number.
    fn short_varint(&mut self) -> Option<Vec<u8>> {
        // Longer ones begin so.
        if matches!(self.peek()?, 0 | u8::MAX) {
            return None;
        }
        let bytes = self.bigint()?.to_be_bytes();
        let is_redundant = |pair: &&[u8]| {
            let sign = if pair[1] >> 7 == 1 { u8::MAX } else { 0 };
            pair[0] == sign
        };
        Some(bytes[bytes.windows(2).take_while(is_redundant).count()..].to_vec())
    }
}

//! Serialised values: validation, order, and the parts of collections, tuples and vectors.
//!
//! A value is its bytes as in the native protocol (v3 and later) and in Cassandra's files; null is the absence of
//! bytes. An empty value (no bytes) is valid for every type except tinyint, smallint, date, time, duration, collections
//! and vectors. A value of a user type is a tuple of its fields.
//!
//! Validation is in `value/validate.rs`, the order in `value/order.rs`, durations in `value/duration.rs`, vectors in
//! `value/vector.rs`, composite types in `value/composite.rs`.

mod composite;
mod duration;
mod order;
mod validate;
mod vector;
mod vint;

pub use crate::types::ValueError;
pub(crate) use composite::{Comparator, Components, IS_ALIAS, named};
pub use duration::Duration;
pub use order::compare;
pub(crate) use order::{
    empty_has_form, ordered_f32, ordered_f64, ordered_lexical_uuid, ordered_timeuuid, ordered_uuid, strip_sign,
    unordered_f32, unordered_f64, unordered_timeuuid, unordered_uuid,
};
pub use validate::{validate, validate_bound};
pub use vector::{VectorElements, push_vector_element};

/// A value that a request binds to a marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundValue<'a> {
    /// Null.
    Null,
    /// Not set (v4 and later).
    Unset,
    /// Bytes that have not been validated.
    Bytes(&'a [u8]),
}

/// Appends an element of a collection or tuple: `[int length][bytes]`, with length -1 for null.
pub fn push_element(out: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// The elements of a serialised list, set or map (for a map keys and values alternating, `2 * count` elements). Ends at
/// the first malformed element; [`validate`] detects malformed bytes beforehand.
pub fn elements(bytes: &[u8], map: bool) -> impl Iterator<Item = &[u8]> {
    let (count, mut rest) = match bytes.split_first_chunk() {
        Some((count, rest)) => (i32::from_be_bytes(*count), rest),
        None => (0, bytes),
    };
    let mut left = i64::from(count.max(0)) * if map { 2 } else { 1 };
    std::iter::from_fn(move || {
        left = (left > 0).then(|| left - 1)?;
        take_element(&mut rest)?
    })
}

/// Reads the next element: `Some(None)` is a null, `None` is malformed.
pub(crate) fn take_element<'a>(rest: &mut &'a [u8]) -> Option<Option<&'a [u8]>> {
    let (len, tail) = rest.split_first_chunk()?;
    let len = i32::from_be_bytes(*len);
    let (element, tail) = tail.split_at_checked(len.max(0) as usize)?;
    *rest = tail;
    Some((len >= 0).then_some(element))
}

/// The elements of a serialised tuple, `None` for null. Ends where the bytes end, which may be before the last
/// component.
#[derive(Clone, Debug)]
pub struct TupleElements<'a> {
    rest: &'a [u8],
}

impl<'a> TupleElements<'a> {
    /// The elements of a valid tuple.
    pub fn new(bytes: &'a [u8]) -> TupleElements<'a> {
        TupleElements { rest: bytes }
    }
}

impl<'a> Iterator for TupleElements<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Option<&'a [u8]>> {
        take_element(&mut self.rest)
    }
}

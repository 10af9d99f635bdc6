//! Serialised values: validation, order, collections.
//!
//! A value is its bytes as the native protocol (v3 and later) and Cassandra's files hold them. An empty value (no
//! bytes) is legal for every type but the collections, tuples aside; null is the absence of bytes.

use crate::types::CqlType;
use std::cmp::Ordering;

/// Why bytes are not a value of a type. The text is Cassandra's: `Expected 4 or 0 byte int (5)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ValueError(pub String);

/// A value that came with a request, for one bind marker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound<'a> {
    /// Null.
    Null,
    /// Not set (v4 and later).
    Unset,
    /// Bytes, not validated yet.
    Bytes(&'a [u8]),
}

/// Checks `bytes` against `cql_type`, with Cassandra's error texts.
pub fn validate(cql_type: &CqlType, bytes: &[u8]) -> Result<(), ValueError> {
    let _ = (cql_type, bytes);
    todo!()
}

/// Cassandra's order of two valid values of one type (not reversed). Empty sorts first. Invalid bytes sort by memcmp.
pub fn compare(cql_type: &CqlType, a: &[u8], b: &[u8]) -> Ordering {
    let _ = (cql_type, a, b);
    todo!()
}

/// Appends a collection's or tuple's element: `[int length][bytes]`, -1 for null.
pub fn push_element(out: &mut Vec<u8>, element: Option<&[u8]>) {
    match element {
        Some(bytes) => {
            out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
            out.extend_from_slice(bytes);
        }
        None => out.extend_from_slice(&(-1i32).to_be_bytes()),
    }
}

/// The elements of a serialised list, set or map (keys and values alternating for a map: `2 * count` elements).
/// Ends early at the first malformed element; `validate` tells malformed bytes beforehand.
pub fn elements(bytes: &[u8], map: bool) -> impl Iterator<Item = &[u8]> {
    let _ = (bytes, map);
    std::iter::empty()
}

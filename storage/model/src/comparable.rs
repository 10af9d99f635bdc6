//! Byte-comparable forms: memcmp order of the output is the type's order.
//!
//! Source: Cassandra's `ByteComparable.md` (version OSS50), so that tries of the `da` format use the same bytes.
//! A clustering is, per component, a separator (`0x40` next component, `0x3e` null, `0x3d` empty in reversed order ...)
//! and the component's form, then a terminator (`0x38`). A bound ends instead with `0x20` (before everything with this
//! prefix) or `0x60` (after everything with this prefix); reversed components have all bits of their form inverted.

use crate::schema::Table;
use crate::types::CqlType;

/// Appends the form of one valid value (without separator).
pub fn encode(cql_type: &CqlType, value: &[u8], reversed: bool, out: &mut Vec<u8>) {
    let _ = (cql_type, value, reversed, out);
    todo!()
}

/// Where a bound stands against the rows that begin with its prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BoundSide {
    /// Before all of them.
    Before,
    /// After all of them.
    After,
}

/// Appends the form of a full clustering (`components`: all clustering values in table order).
pub fn clustering<'a>(table: &Table, components: impl Iterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    let _ = (table, components, out);
    todo!()
}

/// Appends the form of a bound: a prefix of the clustering, possibly empty.
pub fn bound<'a>(table: &Table, prefix: impl Iterator<Item = &'a [u8]>, side: BoundSide, out: &mut Vec<u8>) {
    let _ = (table, prefix, side, out);
    todo!()
}

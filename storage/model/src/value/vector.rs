//! Elements of vectors: one after the other if their type is fixed ([`CqlType::fixed_len`]), else each behind its
//! length as an unsigned vint. There is no count: a value has as many as its type says, and none is null.

use super::vint;
use crate::types::CqlType;

/// Appends an element of `element_type`; those of a fixed type have its length.
pub fn push_vector_element(out: &mut Vec<u8>, element_type: &CqlType, element: &[u8]) {
    if element_type.fixed_len().is_none() {
        vint::push_unsigned(out, element.len() as u64);
    }
    out.extend_from_slice(element);
}

/// The elements of a serialised vector; ends early where the bytes do, `validate` tells that beforehand.
#[derive(Clone, Debug)]
pub struct VectorElements<'a> {
    fixed: Option<usize>,
    left: u32,
    rest: &'a [u8],
}

impl<'a> VectorElements<'a> {
    /// Over a valid vector of `dimension` elements.
    pub fn new(element_type: &CqlType, dimension: u32, bytes: &'a [u8]) -> VectorElements<'a> {
        VectorElements { fixed: element_type.fixed_len(), left: dimension, rest: bytes }
    }

    /// What is behind the elements read so far.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The length of the next element, once that is read; `None` if the bytes end within it.
    pub(crate) fn read_len(&mut self) -> Option<u64> {
        match self.fixed {
            Some(len) => Some(len as u64),
            None => vint::read_unsigned(&mut self.rest),
        }
    }

    /// The bytes of an element of this length.
    pub(crate) fn read_bytes(&mut self, len: u64) -> Option<&'a [u8]> {
        let (element, rest) = self.rest.split_at_checked(usize::try_from(len).ok()?)?;
        self.rest = rest;
        Some(element)
    }
}

impl<'a> Iterator for VectorElements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.left = self.left.checked_sub(1)?;
        let len = self.read_len()?;
        self.read_bytes(len)
    }
}

//! Elements of vectors: concatenated if their type has a fixed length ([`CqlType::fixed_len`]), else each after its
//! length as an unsigned vint. There is no count: the type gives the number of elements, none of which is null.

use super::vint;
use crate::types::CqlType;

/// Appends an element of `element_type`; one of a type of fixed length must have that length.
pub fn push_vector_element(out: &mut Vec<u8>, element_type: &CqlType, element: &[u8]) {
    if element_type.fixed_len().is_none() {
        vint::push_unsigned(out, element.len() as u64);
    }
    out.extend_from_slice(element);
}

/// The elements of a serialised vector. Ends early where the bytes do, which [`validate`](super::validate) detects
/// beforehand.
#[derive(Clone, Debug)]
pub struct VectorElements<'a> {
    fixed: Option<usize>,
    left: u32,
    rest: &'a [u8],
}

impl<'a> VectorElements<'a> {
    /// The elements of a valid vector of `dimension` elements.
    pub fn new(element_type: &CqlType, dimension: u32, bytes: &'a [u8]) -> VectorElements<'a> {
        VectorElements { fixed: element_type.fixed_len(), left: dimension, rest: bytes }
    }

    /// The bytes after the elements read so far.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Reads the length of the next element; `None` if the bytes end within it.
    pub(crate) fn read_len(&mut self) -> Option<u64> {
        match self.fixed {
            Some(len) => Some(len as u64),
            None => vint::read_unsigned(&mut self.rest),
        }
    }

    /// Reads the bytes of an element of this length.
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

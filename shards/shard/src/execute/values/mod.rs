//! Turning the values of a request and the terms of a plan into keys, slices of rows, filters and timeouts.
//!
//! Nothing here reads, writes or waits. [`binding`] matches values with markers; the other modules build on it.

pub(crate) mod binding;
pub(crate) mod filtering;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod slices;
pub(crate) mod timeout;

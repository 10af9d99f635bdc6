//! What the values of a request make of a plan's terms: keys, slices of rows, filters, timeouts.
//!
//! Nothing here reads, writes or waits. [`binding`] matches values with markers, the rest builds on it.

pub(crate) mod binding;
pub(crate) mod filtering;
pub(crate) mod json;
pub(crate) mod keys;
pub(crate) mod slices;
pub(crate) mod timeout;

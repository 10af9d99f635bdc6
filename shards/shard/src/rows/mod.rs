//! Rows on their way to a client: encoded blocks, and conditions that rows must meet.

pub(crate) mod block;
pub(crate) mod commands;
pub(crate) mod filter;

//! The tables of a shard.

pub(crate) mod statistics;
pub(crate) mod table_state;

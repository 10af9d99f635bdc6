//! Changes of the schema: DDL and TRUNCATE on shard 0 ([`define`]), and how every core then adopts the new schema
//! ([`adopt`]).

pub(crate) mod adopt;
pub(crate) mod define;

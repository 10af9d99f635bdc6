//! Changes of the schema: DDL and TRUNCATE on shard 0 ([`define`]), and what every core does then ([`adopt`]).

pub(crate) mod adopt;
pub(crate) mod define;

//! What a start does before the shard serves requests: [`load`] opens the tables' SSTables, [`replay`] applies the
//! commit log.

pub(crate) mod load;
pub(crate) mod replay;

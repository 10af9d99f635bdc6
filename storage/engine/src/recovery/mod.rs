//! What a start does before it serves: [`load`] opens the SSTables of the tables, [`replay`] applies the commit log.

pub(crate) mod load;
pub(crate) mod replay;

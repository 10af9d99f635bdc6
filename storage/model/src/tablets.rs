//! How tables are cut into tablets: what the schema says about it.

/// Most tablets of a table.
pub const TABLETS_MAX: u32 = 1 << 16;

//! The real binary as a user runs it: with the drivers of Rust, Python and Java, over restarts, killed under load.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "client programs of their own")]

#[path = "binary/driver.rs"]
mod driver;
#[path = "binary/drivers.rs"]
mod drivers;
#[path = "binary/imports.rs"]
mod imports;
#[path = "binary/kill.rs"]
mod kill;
#[path = "binary/node.rs"]
mod node;
#[path = "binary/nodetool.rs"]
mod nodetool;
#[path = "binary/snapshots.rs"]
mod snapshots;

//! The real binary as a user runs it: with the Rust driver, over restarts, killed under load, asked by nodetool; and,
//! when asked for, with the drivers of Python and Java.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "client programs of their own")]

#[path = "binary/cdrs.rs"]
mod cdrs;
#[path = "binary/cluster.rs"]
mod cluster;
#[path = "binary/directories.rs"]
mod directories;
#[path = "binary/drivers.rs"]
mod drivers;
#[path = "binary/hints.rs"]
mod hints;
#[path = "binary/imports.rs"]
mod imports;
#[path = "binary/kill.rs"]
mod kill;
#[path = "binary/node.rs"]
mod node;
#[path = "binary/nodetool.rs"]
mod nodetool;
#[path = "binary/query_logs.rs"]
mod query_logs;
#[path = "binary/rust_driver/mod.rs"]
mod rust_driver;
#[path = "binary/snapshots.rs"]
mod snapshots;
#[path = "binary/tables.rs"]
mod tables;

//! The tools on SSTables that Cassandra wrote, compared with what Cassandra's own tools printed about them.
//!
//! `tools/texts.tar.zst` holds `<table>/<format>.<name>`: `dump.json` of `sstabledump`, `dump-d.txt` of `sstabledump
//! -d`, `metadata.txt` of `sstablemetadata`, numbered if the table has several SSTables.
#![allow(clippy::disallowed_methods, reason = "a test reads and writes files")]

#[path = "tools/archive.rs"]
mod archive;
#[path = "tools/arguments.rs"]
mod arguments;
#[path = "tools/golden.rs"]
mod golden;
#[path = "tools/tables.rs"]
mod tables;

//! The engine's tests, a module for each thing they are about. They are one binary because each binary compiles the
//! engine's futures once more.

mod alter;
mod batch_log;
mod cleanup;
mod compaction;
mod counters;
mod crash;
mod damage;
mod damaged_sstables;
mod directories;
mod disk;
mod flush;
mod groups;
mod import;
mod index;
mod limits;
mod model;
mod repair_sets;
mod snapshot;
mod sources;
mod split;
mod streams;
mod support;
mod truncate;
mod unopened_sstables;
mod versions;

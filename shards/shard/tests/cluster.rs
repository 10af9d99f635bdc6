//! Clusters of nodes through [`shard::Shard`] in the simulator, with a network in memory.

#[path = "cluster/network.rs"]
mod network;
#[path = "cluster/reads.rs"]
mod reads;
#[path = "cluster/replicas.rs"]
mod replicas;
#[path = "cluster/world.rs"]
mod world;

#[path = "cluster/batches.rs"]
mod batches;
#[path = "cluster/counters.rs"]
mod counters;
#[path = "cluster/data_centers.rs"]
mod data_centers;
#[path = "cluster/decisions.rs"]
mod decisions;
#[path = "cluster/failures.rs"]
mod failures;
#[path = "cluster/handing_out.rs"]
mod handing_out;
#[path = "cluster/healing.rs"]
mod healing;
#[path = "cluster/hints.rs"]
mod hints;
#[path = "cluster/hot_partitions.rs"]
mod hot_partitions;
#[path = "cluster/incremental_repair.rs"]
mod incremental_repair;
#[path = "cluster/read_repair.rs"]
mod read_repair;
#[path = "cluster/repair.rs"]
mod repair;
#[path = "cluster/statements.rs"]
mod statements;
#[path = "cluster/streams.rs"]
mod streams;
#[path = "cluster/traces.rs"]
mod traces;
#[path = "cluster/writes.rs"]
mod writes;

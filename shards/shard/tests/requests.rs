//! Requests through [`shard::Shard`] in the simulator, on nodes of one to four cores.

#[path = "requests/world.rs"]
mod world;

#[path = "requests/alterations.rs"]
mod alterations;
#[path = "requests/clock.rs"]
mod clock;
#[path = "requests/contention.rs"]
mod contention;
#[path = "requests/counters.rs"]
mod counters;
#[path = "requests/definitions.rs"]
mod definitions;
#[path = "requests/figures.rs"]
mod figures;
#[path = "requests/fragments.rs"]
mod fragments;
#[path = "requests/list_batches.rs"]
mod list_batches;
#[path = "requests/membership.rs"]
mod membership;
#[path = "requests/partitioners.rs"]
mod partitioners;
#[path = "requests/reads.rs"]
mod reads;
#[path = "requests/selects.rs"]
mod selects;
#[path = "requests/sharding.rs"]
mod sharding;
#[path = "requests/statements.rs"]
mod statements;
#[path = "requests/storage.rs"]
mod storage;
#[path = "requests/thresholds.rs"]
mod thresholds;
#[path = "requests/writes.rs"]
mod writes;

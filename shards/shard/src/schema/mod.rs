//! The schema that a shard serves.

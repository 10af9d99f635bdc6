//! Partitions to rows in memory: ordered tree on tokens, copy-on-write partitions, row blobs in an arena.

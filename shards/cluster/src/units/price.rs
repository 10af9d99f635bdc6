//! The price of a request in request units, as `docs/partitioning.md` publishes it.
//!
//! One unit is the read of a row of 1 KiB by its full primary key, at one replica. The other prices are what such work
//! costs in CPU time and I/O of this program beside that read, rounded (`bench/RESULTS.md`):
//!
//! | what | price | why |
//! |---|---|---|
//! | a partition that a read looks up | 0.50 for each replica that reads | |
//! | a row or tombstone that a read looks at | 0.20 for each such replica | |
//! | a KiB of the result, begun | 0.30 for each such replica | |
//! | an index that is asked | 1.00 for each such replica | a second lookup |
//! | a mutation | 0.50 for its coordinator, 0.90 for each replica | log and memtable |
//! | a KiB of a mutation, begun | 0.60 for each replica | it is written twice more: log, SSTable |
//! | an index that a mutation changes | 1.00 for each replica | it is read before it is changed |
//! | a condition (IF) | two more writes without data, and a read of the row at a majority | the rounds of Paxos |
//! | a transaction | the same, and each further row and KiB of what it reads, at a majority | |
//! | a logged batch | one more write of all its bytes to two nodes | the batch log |
//!
//! Invariants: the price depends on nothing but [`Work`], so that it is the same in every run; no request is free.

/// A partition that a read looks up, at one replica.
pub const READ_PARTITION: u64 = 50;
/// A row or tombstone that a read looks at, at one replica.
pub const READ_ROW: u64 = 20;
/// A KiB, begun, of what a read returns, at one replica.
pub const READ_KIB: u64 = 30;
/// An index that a read asks, at one replica.
pub const READ_INDEX: u64 = 100;
/// A mutation, at its coordinator.
pub const WRITE_COORDINATOR: u64 = 50;
/// A mutation, at one replica.
pub const WRITE_REPLICA: u64 = 90;
/// A KiB, begun, of a mutation, at one replica.
pub const WRITE_KIB: u64 = 60;
/// An index that a mutation changes, at one replica.
pub const WRITE_INDEX: u64 = 100;
/// Nodes that keep a logged batch.
pub const BATCH_LOG_NODES: u64 = 2;
const KIB: u64 = 1024;

/// What a request does, as far as its price depends on that. The default does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// Partitions that are looked up by reading.
    pub partitions: u64,
    /// Rows and tombstones that are looked at.
    pub rows: u64,
    /// Bytes that are returned.
    pub read_bytes: u64,
    /// Indexes that are asked.
    pub indexes_read: u64,
    /// Replicas that read: as many as the consistency level needs.
    pub readers: u64,
    /// Mutations, one for each partition that is changed.
    pub mutations: u64,
    /// Bytes of the mutations, each counted in KiB that are begun.
    pub written_kib: u64,
    /// Indexes that the mutations change, summed over the mutations.
    pub indexes_written: u64,
    /// Replicas that each mutation is written to: all of the partition, whatever the level.
    pub writers: u64,
    /// Whether the write is conditional.
    pub conditional: bool,
    /// Whether it is a logged batch of several partitions.
    pub logged: bool,
}

impl Work {
    /// Adds a mutation of so many bytes that changes entries of so many indexes.
    pub fn mutation(&mut self, bytes: u64, indexes: u64) {
        self.mutations += 1;
        self.written_kib += kib(bytes);
        self.indexes_written += indexes;
    }
}

/// The KiB that so many bytes begin, at least one.
fn kib(bytes: u64) -> u64 {
    bytes.div_ceil(KIB).max(1)
}

/// The price of a request, in hundredths of a unit. The same work always has the same price.
pub fn price(work: &Work) -> u64 {
    read_price(work) + write_price(work)
}

/// What the read of a partition costs at one replica, hundredths: so many rows and tombstones looked at, and bytes of
/// the result.
pub fn read_at_replica(rows: u64, bytes: u64) -> u64 {
    READ_PARTITION + rows.max(1) * READ_ROW + kib(bytes) * READ_KIB
}

/// What a mutation of so many bytes costs at one replica, hundredths, without indexes.
pub fn write_at_replica(bytes: u64) -> u64 {
    WRITE_REPLICA + kib(bytes) * WRITE_KIB
}

/// What a conditional change or a transaction costs in addition that reads more than the row of 1 KiB at most whose
/// read [`price`] contains, hundredths: so many rows and bytes, at a majority of so many replicas.
pub fn read_by_decision(rows: u64, bytes: u64, replicas: u64) -> u64 {
    majority(replicas) * (rows.saturating_sub(1) * READ_ROW + (kib(bytes) - 1) * READ_KIB)
}

fn majority(replicas: u64) -> u64 {
    replicas / 2 + 1
}

fn read_price(work: &Work) -> u64 {
    if work.partitions + work.rows + work.indexes_read == 0 {
        return 0;
    }
    let at_one = work.partitions * READ_PARTITION
        + work.rows.max(work.partitions) * READ_ROW
        + kib(work.read_bytes).max(work.partitions) * READ_KIB
        + work.indexes_read * READ_INDEX;
    at_one * work.readers.max(1)
}

fn write_price(work: &Work) -> u64 {
    if work.mutations == 0 {
        return 0;
    }
    let writers = work.writers.max(1);
    let write = |mutations: u64, kib: u64, indexes: u64, writers: u64| {
        mutations * WRITE_COORDINATOR + writers * (mutations * WRITE_REPLICA + kib * WRITE_KIB + indexes * WRITE_INDEX)
    };
    let mut all = write(work.mutations, work.written_kib, work.indexes_written, writers);
    if work.conditional {
        // Promise and proposal are written as well, and a majority reads the row.
        all += 2 * write(1, 1, 0, writers) + majority(writers) * (READ_PARTITION + READ_ROW + READ_KIB);
    }
    if work.logged {
        all += write(1, work.written_kib, 0, BATCH_LOG_NODES);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(rows: u64, bytes: u64, readers: u64) -> u64 {
        price(&Work { partitions: 1, rows, read_bytes: bytes, readers, ..Work::default() })
    }

    fn write(bytes: u64, indexes: u64, writers: u64) -> u64 {
        let mut work = Work { writers, ..Work::default() };
        work.mutation(bytes, indexes);
        price(&work)
    }

    #[test]
    fn the_published_prices() {
        assert_eq!(read(1, 1024, 1), 100, "a unit is the read of 1 KiB at one replica");
        assert_eq!(read(1, 1024, 2), 200, "each replica that reads costs the same");
        assert_eq!(read(0, 0, 1), 100, "a row that is not there is looked for");
        assert_eq!(read(1, 100 << 10, 1), 50 + 20 + 3000);
        assert_eq!(read(100, 10 << 10, 1), 50 + 2000 + 300);
        assert_eq!(write(1024, 0, 3), 500, "1 KiB to three replicas");
        assert_eq!(write(1025, 0, 3), 680);
        assert_eq!(write(40, 0, 1), 200);
        assert_eq!(write(1024, 2, 3), 1100);
        let mut conditional = Work { writers: 3, conditional: true, ..Work::default() };
        conditional.mutation(40, 0);
        assert_eq!(price(&conditional), 3 * 500 + 2 * 100);
        assert_eq!(read_by_decision(1, 1024, 3), 0, "that row is in the price");
        assert_eq!(read_by_decision(0, 0, 3), 0, "a row that is not there too");
        assert_eq!(read_by_decision(100, 10 << 10, 3), 2 * (99 * 20 + 9 * 30));
        let mut logged = Work { writers: 3, logged: true, ..Work::default() };
        logged.mutation(40, 0);
        logged.mutation(40, 0);
        assert_eq!(price(&logged), 2 * 500 + 50 + 2 * (90 + 2 * 60));
        let asked = Work { indexes_read: 1, partitions: 1, rows: 3, read_bytes: 90, readers: 1, ..Work::default() };
        assert_eq!(price(&asked), 50 + 60 + 30 + 100);
        assert_eq!(price(&Work::default()), 0, "nothing was done");
        assert_eq!(read_at_replica(7, 3000), read(7, 3000, 1));
        assert_eq!(write_at_replica(1025), write(1025, 0, 1) - WRITE_COORDINATOR);
    }
}

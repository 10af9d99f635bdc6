//! Any changes to Cassandra's SSTables: reading them ends with rows or an error. The first two bytes choose the
//! SSTable.
//!
//! The SSTables are the golden files of the crate's tests, so that the empty corpus begins with valid ones. Run it with
//! `-malloc_limit_mb=512`, the memory that `MEMORY_BYTES_MAX` allows.
#![no_main]

#[path = "../../tests/golden"]
mod golden {
    pub(crate) mod foreign;
    mod unpack;
    mod versions;
}

use golden::foreign::{MEMORY_BYTES_MAX, Specimen, specimens};
use libfuzzer_sys::fuzz_target;
use sstable::Version;
use std::sync::OnceLock;

const _: () = assert!(MEMORY_BYTES_MAX == 512 << 20);

fn all() -> &'static [Specimen] {
    static ALL: OnceLock<Vec<Specimen>> = OnceLock::new();
    ALL.get_or_init(|| Version::ALL.into_iter().flat_map(specimens).collect())
}

fuzz_target!(|data: &[u8]| {
    let [high, low, input @ ..] = data else { return };
    let specimens = all();
    let _ = specimens[usize::from(u16::from_be_bytes([*high, *low])) % specimens.len()].changed(input).read();
});

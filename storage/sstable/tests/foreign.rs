//! Random changes to Cassandra's SSTables: reading them ends with rows or an error, within bounded steps and memory.

mod golden {
    pub(crate) mod foreign;
    mod unpack;
    mod versions;
}

use golden::foreign::{MEMORY_BYTES_MAX, specimens};
use model::arbitrary;
use sstable::Version;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Inputs for each version that is written.
const INPUTS: usize = 400;
/// Inputs for each version that is only read.
const INPUTS_BEFORE_NB: usize = 100;
/// Longest input: several changes.
const INPUT_BYTES_MAX: u64 = 120;
/// The variable that asks for another number of inputs.
const VARIABLE: &str = "HELENUS_FOREIGN_INPUTS";
/// The variable that asks for other inputs.
const SEED_VARIABLE: &str = "HELENUS_FOREIGN_SEED";

fn variable(name: &str) -> Option<usize> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

/// The most address space that the process has had, in bytes.
fn address_space_peak() -> usize {
    #[expect(clippy::disallowed_methods, reason = "a file of the system")]
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:")).expect("a peak");
    line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
}

#[test]
fn changed_sstables_give_rows_or_an_error() {
    for (number, version) in Version::ALL.into_iter().rev().enumerate() {
        let seed = variable(SEED_VARIABLE).unwrap_or(0) * Version::ALL.len() + number + 1;
        let inputs = variable(VARIABLE).unwrap_or(if version.is_written() { INPUTS } else { INPUTS_BEFORE_NB });
        let mut below = arbitrary::generator(seed as u64);
        let specimens = specimens(version);
        assert!(specimens.len() > 15, "{}", specimens.len());
        let before = address_space_peak();
        let (mut read, mut refused) = (0, 0);
        for _ in 0..inputs {
            let specimen = &specimens[below(specimens.len() as u64) as usize];
            let len = 1 + below(INPUT_BYTES_MAX);
            let input: Vec<u8> = (0..len).map(|_| below(256) as u8).collect();
            let result = catch_unwind(AssertUnwindSafe(|| specimen.changed(&input).read()));
            match result.unwrap_or_else(|_| panic!("{} of {input:?}", specimen.descriptor)) {
                Ok(_) => read += 1,
                Err(_) => refused += 1,
            }
        }
        // Neither all harmless nor all refused at once: the inputs reach what is behind the first checks.
        assert!(read > inputs / 20 && refused > inputs / 20, "{version:?}: {read} read, {refused} refused");
        let growth = address_space_peak() - before;
        assert!(growth <= MEMORY_BYTES_MAX, "{version:?}: {growth} bytes");
    }
}

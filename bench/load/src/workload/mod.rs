//! Workloads: which tables they create, which requests they send, and what the answers must look like.
//!
//! An operation is a kind, a key and a row. From these alone the request's body is written, straight into the send
//! queue, and the answer is checked. Reports group measurements by the names of the kinds.
//!
//! Invariants: values are computed from the key ([`crate::values`]), so every write of a row writes the same values,
//! and any order of operations leaves the same rows.

mod batch;
mod counter;
mod lwt;
mod series;
mod standard;
mod wide;

use crate::plan::{Data, WorkloadName};
use crate::reply::Rows;
use crate::statement::Body;
use wire::Opcode;

/// One operation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operation {
    /// The kind, an index of [`Workload::kinds`].
    pub kind: usize,
    /// The key.
    pub key: u64,
    /// What the workload adds to the key, such as a row or a time; 0 if nothing.
    pub row: u64,
}

/// The judgement of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Check {
    /// The answer is right.
    Fine,
    /// A row that must exist is missing.
    Missing,
    /// The answer holds rows that cannot exist.
    Wrong,
    /// A condition did not hold, which is allowed.
    NotApplied,
}

/// A kind of operation.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name in ratios and reports.
    pub name: &'static str,
    /// Whether it stores rows.
    pub writes: bool,
    /// Its weight when no ratio is given.
    pub weight: f64,
}

/// Bytes of the longest partition key.
pub const KEY_BYTES: usize = 10;

/// A workload: its tables, requests and checks.
pub trait Workload {
    /// Its kinds of operation; the first one fills the tables.
    fn kinds(&self) -> &'static [Kind];
    /// The name of its table without the keyspace, and the columns and options of CREATE TABLE.
    fn table(&self) -> (String, String);
    /// The statements to prepare; `table` comes with its keyspace.
    fn statements(&self, table: &str) -> Vec<String>;
    /// How many operations of the first kind fill the tables for `keys` keys.
    fn fill(&self, keys: u64) -> u64 {
        keys
    }
    /// The operation of a kind on a key. `number` is different for every operation of all threads and roughly ascends.
    fn operation(&self, kind: usize, key: u64, number: u64) -> Operation {
        let _ = number;
        Operation { kind, key, row: 0 }
    }
    /// The serialised partition key, at the front of the array, and its length.
    fn partition_key(&self, operation: &Operation) -> ([u8; KEY_BYTES], usize) {
        let mut bytes = [0; KEY_BYTES];
        bytes[..8].copy_from_slice(&operation.key.to_be_bytes());
        (bytes, 8)
    }
    /// Writes the body of a request. Returns its opcode.
    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode;
    /// Checks the rows of an answer; answers without rows have none.
    fn check(&self, operation: &Operation, rows: Rows<'_>) -> Check;
}

/// The workload of a plan.
pub fn of(data: &Data) -> Box<dyn Workload> {
    let value_bytes = data.value_bytes;
    let (partition_rows, slice_rows) = (data.partition_rows, data.slice_rows);
    match data.workload {
        WorkloadName::Standard => Box::new(standard::Standard { columns: data.columns, value_bytes }),
        WorkloadName::Series => Box::new(series::Series { value_bytes, slice_rows }),
        WorkloadName::Wide => Box::new(wide::Wide { value_bytes, partition_rows, slice_rows }),
        WorkloadName::Lwt => Box::new(lwt::Lwt { value_bytes }),
        WorkloadName::Counter => Box::new(counter::Counter),
        WorkloadName::Batch => Box::new(batch::Batch { value_bytes, rows: slice_rows, logged: data.logged }),
    }
}

/// The running sums of the weights of a ratio: entry `k` is the share of kinds up to `k`. Fails if the ratio names a
/// kind that the workload does not have, or if no kind has a weight.
pub fn shares(kinds: &[Kind], ratio: &[(String, f64)]) -> Result<Vec<f64>, String> {
    let names = || kinds.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    if let Some((name, _)) = ratio.iter().find(|(name, _)| !kinds.iter().any(|kind| kind.name == *name)) {
        return Err(format!("the workload has no operation {name}: {}", names()));
    }
    if let Some((name, weight)) = ratio.iter().find(|(_, weight)| !weight.is_finite() || *weight < 0.0) {
        return Err(format!("the weight of {name} is {weight}: a number from 0 is needed"));
    }
    let weight = |kind: &Kind| match ratio {
        [] => kind.weight,
        _ => ratio.iter().filter(|(name, _)| *name == kind.name).map(|(_, weight)| weight).sum(),
    };
    let total: f64 = kinds.iter().map(weight).sum();
    if total <= 0.0 {
        return Err(format!("no operation has a weight: {}", names()));
    }
    Ok(kinds
        .iter()
        .scan(0.0, |sum, kind| {
            *sum += weight(kind);
            Some(*sum / total)
        })
        .collect())
}

/// The kind whose interval of the running sums contains the number `share`, from 0 to 1.
pub fn kind_of(shares: &[f64], share: f64) -> usize {
    shares.iter().position(|sum| share < *sum).unwrap_or_else(|| {
        // Because of rounding a number may be above the last sum; then it is the last kind that has a share.
        (0..shares.len()).rev().find(|at| *at == 0 || shares[*at] > shares[at - 1]).unwrap_or(0)
    })
}

/// Checks that an answer holds exactly one row and that it satisfies `fits`.
fn single(mut rows: Rows<'_>, fits: impl FnOnce(&mut Rows<'_>) -> Option<bool>) -> Check {
    match rows.count() {
        0 => Check::Missing,
        1 if fits(&mut rows) == Some(true) => Check::Fine,
        _ => Check::Wrong,
    }
}

#[cfg(test)]
mod tests;

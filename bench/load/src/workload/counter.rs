//! Counters. Every key is incremented by a step of its own; a value that is not a multiple of it is wrong.

use super::{Check, Kind, Operation, Workload, single};
use crate::reply::Rows;
use crate::statement::Body;
use crate::values;
use wire::Opcode;

pub(super) struct Counter;

const KINDS: [Kind; 2] =
    [Kind { name: "write", writes: true, weight: 1.0 }, Kind { name: "read", writes: false, weight: 1.0 }];
const WRITE: usize = 0;
/// Steps are odd numbers up to this.
const STEP_MAX: u64 = 199;

fn step(key: u64) -> u64 {
    values::seed(key, 0, 0) % STEP_MAX.div_ceil(2) * 2 + 1
}

impl Workload for Counter {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn table(&self) -> (String, String) {
        ("counters".to_string(), "(key bigint PRIMARY KEY, hits counter)".to_string())
    }

    fn statements(&self, table: &str) -> Vec<String> {
        vec![
            format!("UPDATE {table} SET hits = hits + ? WHERE key = ?"),
            format!("SELECT key, hits FROM {table} WHERE key = ?"),
        ]
    }

    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode {
        let Operation { kind, key, .. } = *operation;
        body.execute(kind, |values| {
            if kind == WRITE {
                values.bigint(step(key));
            }
            values.bigint(key);
        })
    }

    fn check(&self, operation: &Operation, rows: Rows<'_>) -> Check {
        let Operation { kind, key, .. } = *operation;
        if kind == WRITE {
            return Check::Fine;
        }
        single(rows, |rows| {
            let (number, hits) = (rows.number()??, rows.number()??);
            Some(number == key && hits > 0 && hits <= i64::MAX as u64 && hits % step(key) == 0)
        })
    }
}

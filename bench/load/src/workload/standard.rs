//! The classic table of cassandra-stress: a blob key and blobs C0, C1, ...; by default five of 34 bytes.

use super::{Check, KEY_BYTES, Kind, Operation, Workload, single};
use crate::reply::Rows;
use crate::statement::Body;
use crate::values;
use wire::Opcode;

pub(super) struct Standard {
    pub(super) columns: usize,
    pub(super) value_bytes: usize,
}

const KINDS: [Kind; 2] =
    [Kind { name: "write", writes: true, weight: 1.0 }, Kind { name: "read", writes: false, weight: 1.0 }];
const WRITE: usize = 0;

/// The partition key for a key's number: ten bytes, as many as in cassandra-stress. They are `k:` and the number.
fn key_bytes(key: u64) -> [u8; KEY_BYTES] {
    let mut bytes = *b"k:........";
    bytes[2..].copy_from_slice(&key.to_be_bytes());
    bytes
}

impl Workload for Standard {
    fn kinds(&self) -> &'static [Kind] {
        &KINDS
    }

    fn table(&self) -> (String, String) {
        let name = match (self.columns, self.value_bytes) {
            (5, 34) => "standard1".to_string(),
            // Other shapes have tables of their own: their rows would be taken for wrong data.
            (columns, bytes) => format!("standard_{columns}_{bytes}"),
        };
        let columns: String = (0..self.columns).map(|column| format!(", \"C{column}\" blob")).collect();
        (name, format!("(key blob PRIMARY KEY{columns})"))
    }

    fn statements(&self, table: &str) -> Vec<String> {
        let columns: Vec<String> = (0..self.columns).map(|column| format!("\"C{column}\"")).collect();
        let (columns, marks) = (columns.join(", "), ", ?".repeat(self.columns));
        vec![
            format!("INSERT INTO {table} (key, {columns}) VALUES (?{marks})"),
            format!("SELECT key, {columns} FROM {table} WHERE key = ?"),
        ]
    }

    fn partition_key(&self, operation: &Operation) -> ([u8; KEY_BYTES], usize) {
        (key_bytes(operation.key), KEY_BYTES)
    }

    fn encode(&self, operation: &Operation, body: &mut Body<'_>) -> Opcode {
        let Operation { kind, key, .. } = *operation;
        body.execute(kind, |values| {
            values.blob(&key_bytes(key));
            if kind == WRITE {
                (0..self.columns).for_each(|c| values.derived(values::seed(key, 0, c as u64), self.value_bytes));
            }
        })
    }

    fn check(&self, operation: &Operation, rows: Rows<'_>) -> Check {
        let Operation { kind, key, .. } = *operation;
        if kind == WRITE {
            return Check::Fine;
        }
        single(rows, |rows| {
            let fits = rows.cell()?? == key_bytes(key);
            (0..self.columns as u64).try_fold(fits, |fits, column| {
                let cell = rows.cell()?;
                Some(fits && cell.is_some_and(|c| values::matches(c, values::seed(key, 0, column), self.value_bytes)))
            })
        })
    }
}

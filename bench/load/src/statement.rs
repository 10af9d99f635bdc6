//! Prepared statements, and the bodies of EXECUTE and BATCH, which are written straight into a send queue.
//!
//! The part that all requests have in common (id, consistency, flags, number of values) is encoded once, when the
//! statement is prepared on its connection. Each request copies it and appends its values.

use crate::values;
use model::Consistency;
use std::cell::RefCell;
use wire::client::Prepared;
use wire::notation::{put_bytes, put_int, put_short, put_short_bytes};
use wire::{Opcode, Version};

/// Flags of query parameters: native protocol v5, section 4.1.4.
const VALUES: u8 = 0x01;
const SKIP_METADATA: u8 = 0x02;
const SERIAL_CONSISTENCY: u8 = 0x10;

/// Parameters that all requests of a run have in common.
#[derive(Clone, Copy, Debug)]
pub struct Common {
    /// The protocol's version.
    pub version: Version,
    /// Consistency.
    pub consistency: Consistency,
    /// Serial consistency, if it is sent.
    pub serial: Option<Consistency>,
}

impl Common {
    fn put_flags(&self, out: &mut Vec<u8>, flags: u8) {
        let flags = flags | if self.serial.is_some() { SERIAL_CONSISTENCY } else { 0 };
        match self.version >= Version::V5 {
            true => put_int(out, i32::from(flags)),
            false => out.push(flags),
        }
    }

    fn put_serial(&self, out: &mut Vec<u8>) {
        if let Some(level) = self.serial {
            put_short(out, level as u16);
        }
    }
}

/// A statement that one connection has prepared.
pub struct Statement {
    id: Vec<u8>,
    markers: u16,
    /// The body of EXECUTE up to the first value.
    execute: Vec<u8>,
    /// The bytes of the last result metadata, from its flags to its end. Metadata with equal bytes is not parsed again.
    pub(crate) metadata: RefCell<Vec<u8>>,
}

impl Statement {
    /// The statement that an answer to PREPARE describes.
    pub fn new(prepared: &Prepared, common: &Common) -> Statement {
        let markers = prepared.markers.len() as u16;
        let mut execute = Vec::new();
        put_short_bytes(&mut execute, &prepared.id);
        let v5 = common.version >= Version::V5;
        if v5 {
            put_short_bytes(&mut execute, prepared.result_metadata_id.as_deref().unwrap_or_default());
        }
        put_short(&mut execute, common.consistency as u16);
        // Before version 5 a server does not say when columns have changed, so every request asks for the metadata.
        common.put_flags(&mut execute, VALUES | if v5 { SKIP_METADATA } else { 0 });
        put_short(&mut execute, markers);
        Statement { id: prepared.id.clone(), markers, execute, metadata: RefCell::default() }
    }
}

/// The body of one request.
pub struct Body<'a> {
    /// The buffer to which it is appended.
    pub out: &'a mut Vec<u8>,
    /// The connection's statements.
    pub statements: &'a [Statement],
    /// Parameters of all requests.
    pub common: &'a Common,
}

impl Body<'_> {
    /// Writes EXECUTE of the statement `index`. `f` must append as many values as the statement has markers.
    pub fn execute(&mut self, index: usize, f: impl FnOnce(&mut Values<'_>)) -> Opcode {
        self.out.extend_from_slice(&self.statements[index].execute);
        f(&mut Values(self.out));
        self.common.put_serial(self.out);
        Opcode::Execute
    }

    /// Writes a BATCH that runs the statement `index` `count` times (at most 65535); `f` appends the values of each.
    pub fn batch(&mut self, logged: bool, index: usize, count: u64, mut f: impl FnMut(u64, &mut Values<'_>)) -> Opcode {
        let statement = &self.statements[index];
        self.out.push(u8::from(!logged));
        put_short(self.out, count as u16);
        for at in 0..count {
            self.out.push(1);
            put_short_bytes(self.out, &statement.id);
            put_short(self.out, statement.markers);
            f(at, &mut Values(self.out));
        }
        put_short(self.out, self.common.consistency as u16);
        self.common.put_flags(self.out, 0);
        self.common.put_serial(self.out);
        Opcode::Batch
    }
}

/// Appends values.
pub struct Values<'a>(&'a mut Vec<u8>);

impl Values<'_> {
    /// Appends a blob.
    pub fn blob(&mut self, bytes: &[u8]) {
        put_bytes(self.0, Some(bytes));
    }

    /// Appends a bigint or counter.
    pub fn bigint(&mut self, value: u64) {
        put_bytes(self.0, Some(&value.to_be_bytes()));
    }

    /// Appends the blob of `len` bytes that follows from `seed`, see [`values`].
    pub fn derived(&mut self, seed: u64, len: usize) {
        put_int(self.0, len as i32);
        values::put(self.0, seed, len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::value::BoundValue;
    use model::{BatchEntry, BatchKind, BatchStatement, QueryParameters};
    use wire::client::put_request;
    use wire::request::{Batch, Request};

    fn prepared(markers: usize) -> Prepared {
        let column = model::ColumnSpec {
            keyspace: "".into(),
            table: "".into(),
            name: "".into(),
            cql_type: model::CqlType::Bigint,
            class: None,
        };
        Prepared {
            id: vec![1, 2, 3],
            result_metadata_id: Some(vec![9]),
            partition_key_markers: vec![0],
            markers: vec![column; markers],
            result: Vec::new(),
            result_flags: 0,
        }
    }

    #[test]
    fn bodies_are_those_of_the_codec() {
        for version in [Version::V4, Version::V5] {
            for serial in [None, Some(Consistency::LocalSerial)] {
                let common = Common { version, consistency: Consistency::LocalQuorum, serial };
                let statements = [Statement::new(&prepared(2), &common)];
                let number = 7u64.to_be_bytes();
                let values = vec![BoundValue::Bytes(&number), BoundValue::Bytes(b"blob")];
                let mut parameters = QueryParameters::new(common.consistency);
                parameters.serial_consistency = serial;
                let entry = BatchEntry { statement: BatchStatement::Id(&[1, 2, 3]), values: values.clone() };
                let batch = Batch {
                    kind: BatchKind::Unlogged,
                    entries: vec![entry.clone(), entry],
                    parameters: parameters.clone(),
                };
                parameters.values = values;
                parameters.skip_metadata = version == Version::V5;
                let execute = Request::Execute { id: &[1, 2, 3], result_metadata_id: Some(&[9]), parameters };
                let write = |values: &mut Values<'_>| {
                    values.bigint(7);
                    values.blob(b"blob");
                };
                let (mut expected, mut out) = (Vec::new(), Vec::new());
                put_request(&mut expected, version, 0, &execute);
                let mut body = Body { out: &mut out, statements: &statements, common: &common };
                assert_eq!(body.execute(0, write), Opcode::Execute);
                assert_eq!(out, expected[9..]);
                (expected, out) = (Vec::new(), Vec::new());
                put_request(&mut expected, version, 0, &Request::Batch(batch));
                let mut body = Body { out: &mut out, statements: &statements, common: &common };
                assert_eq!(body.batch(false, 0, 2, |_, values| write(values)), Opcode::Batch);
                assert_eq!(out, expected[9..]);
            }
        }
    }
}

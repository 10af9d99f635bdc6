//! Tests every workload with answers made by hand: right, missing, wrong, not applied.

use super::*;
use crate::arguments::default_plan;
use crate::reply::{self, Reply};
use crate::statement::{Common, Statement};
use crate::values::{put, seed};
use model::{BatchKind, Consistency};
use std::cell::RefCell;
use wire::client::Prepared;
use wire::notation::{put_bytes, put_int};
use wire::request::Request;
use wire::{Opcode, Version};

type Row = Vec<Option<Vec<u8>>>;

fn workload(name: WorkloadName) -> Box<dyn Workload> {
    let mut data = default_plan().data;
    (data.workload, data.partition_rows, data.slice_rows) = (name, 10, 3);
    of(&data)
}

fn blob(key: u64, row: u64, column: u64) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    put(&mut bytes, seed(key, row, column), 34);
    Some(bytes)
}

fn bigint(value: u64) -> Option<Vec<u8>> {
    Some(value.to_be_bytes().to_vec())
}

/// What the workload finds in an answer with `rows`.
fn checked(workload: &dyn Workload, operation: &Operation, rows: &[Row]) -> Check {
    let mut body = Vec::new();
    let columns = rows.first().map_or(2, Vec::len) as i32;
    // A result of kind Rows, with the flag that says that the columns are left out.
    [2, 4, columns, rows.len() as i32].into_iter().for_each(|n| put_int(&mut body, n));
    rows.iter().flatten().for_each(|cell| put_bytes(&mut body, cell.as_deref()));
    let metadata = RefCell::default();
    for _ in 0..2 {
        let Reply::Rows(found) = reply::read(0, Opcode::Result, &body, &metadata) else { panic!("rows") };
        assert_eq!(found.count(), rows.len());
    }
    let Reply::Rows(found) = reply::read(0, Opcode::Result, &body, &metadata) else { panic!("rows") };
    workload.check(operation, found)
}

#[test]
fn standard_rows_are_checked() {
    let standard = workload(WorkloadName::Standard);
    let read = standard.operation(1, 7, 0);
    let (key, len) = standard.partition_key(&read);
    let mut row: Row = vec![Some(key[..len].to_vec())];
    row.extend((0..5).map(|column| blob(7, 0, column)));
    assert_eq!(checked(&*standard, &read, &[row.clone()]), Check::Fine);
    assert_eq!(checked(&*standard, &read, &[]), Check::Missing);
    assert_eq!(checked(&*standard, &read, &[row.clone(), row.clone()]), Check::Wrong);
    for wrong in [None, blob(8, 0, 4), Some(Vec::new())] {
        row[5] = wrong;
        assert_eq!(checked(&*standard, &read, &[row.clone()]), Check::Wrong);
    }
}

#[test]
fn slices_are_in_order_and_not_too_long() {
    let row = |key: u64, at: u64| vec![bigint(at), blob(key, at, 0)];
    let series = workload(WorkloadName::Series);
    let read = series.operation(1, 5, 99);
    assert_eq!(checked(&*series, &read, &[row(5, 30), row(5, 20), row(5, 10)]), Check::Fine);
    assert_eq!(checked(&*series, &read, &[row(5, 20), row(5, 30)]), Check::Wrong);
    assert_eq!(checked(&*series, &read, &[row(5, 30), row(6, 20)]), Check::Wrong);
    assert_eq!(checked(&*series, &read, &[row(5, 4), row(5, 3), row(5, 2), row(5, 1)]), Check::Wrong);
    assert_eq!(checked(&*series, &read, &[]), Check::Missing);

    let wide = workload(WorkloadName::Wide);
    let (read, slice) = (wide.operation(1, 52, 0), wide.operation(2, 52, 0));
    assert_eq!((read.key, read.row), (5, 2));
    assert_eq!(checked(&*wide, &read, &[row(5, 2)]), Check::Fine);
    assert_eq!(checked(&*wide, &read, &[row(5, 3)]), Check::Wrong);
    assert_eq!(checked(&*wide, &slice, &[row(5, 2), row(5, 3), row(5, 9)]), Check::Fine);
    assert_eq!(checked(&*wide, &slice, &[row(5, 1)]), Check::Wrong);
    assert_eq!(checked(&*wide, &slice, &[row(5, 3), row(5, 3)]), Check::Wrong);

    let batch = workload(WorkloadName::Batch);
    let read = batch.operation(1, 5, 0);
    assert_eq!(checked(&*batch, &read, &[row(5, 0), row(5, 1), row(5, 2)]), Check::Fine);
    assert_eq!(checked(&*batch, &read, &[row(5, 0), row(5, 1)]), Check::Wrong);
}

#[test]
fn conditions_and_counters_are_checked() {
    let lwt = workload(WorkloadName::Lwt);
    let (insert, update, read) = (lwt.operation(0, 5, 0), lwt.operation(1, 5, 0), lwt.operation(2, 5, 0));
    let (yes, no) = (Some(vec![1]), Some(vec![0]));
    assert_eq!(checked(&*lwt, &insert, &[vec![yes.clone()]]), Check::Fine);
    assert_eq!(checked(&*lwt, &insert, &[vec![no.clone(), bigint(5), blob(5, 0, 0)]]), Check::NotApplied);
    assert_eq!(checked(&*lwt, &insert, &[vec![no.clone(), bigint(5), blob(6, 0, 0)]]), Check::Wrong);
    assert_eq!(checked(&*lwt, &update, &[vec![yes]]), Check::Fine);
    assert_eq!(checked(&*lwt, &update, &[vec![no.clone()]]), Check::Missing);
    assert_eq!(checked(&*lwt, &update, &[vec![no.clone(), None]]), Check::Missing);
    assert_eq!(checked(&*lwt, &update, &[vec![no, blob(6, 0, 0)]]), Check::Wrong);
    assert_eq!(checked(&*lwt, &read, &[vec![bigint(5), blob(5, 0, 0)]]), Check::Fine);

    let counter = workload(WorkloadName::Counter);
    let read = counter.operation(1, 5, 0);
    let values: Vec<Check> = (0..400).map(|hits| checked(&*counter, &read, &[vec![bigint(5), bigint(hits)]])).collect();
    let step = values.iter().position(|check| *check == Check::Fine).expect("a step below 400") as u64;
    assert!((1..=199).contains(&step) && step % 2 == 1);
    let fine = |hits: u64| hits > 0 && hits.is_multiple_of(step);
    assert!((0..400).all(|hits| (values[hits as usize] == Check::Fine) == fine(hits)));
}

#[test]
fn requests_carry_as_many_values_as_their_statements_have_markers() {
    let names = [
        WorkloadName::Standard,
        WorkloadName::Series,
        WorkloadName::Wide,
        WorkloadName::Lwt,
        WorkloadName::Counter,
        WorkloadName::Batch,
    ];
    for name in names {
        let workload = workload(name);
        let common = Common { version: Version::V4, consistency: Consistency::One, serial: None };
        let texts = workload.statements("ks.t");
        let markers: Vec<usize> = texts.iter().map(|text| text.matches('?').count()).collect();
        let column = model::ColumnSpec {
            keyspace: "".into(),
            table: "".into(),
            name: "".into(),
            cql_type: model::CqlType::Blob,
            class: None,
        };
        let prepared = |(at, count): (usize, &usize)| Prepared {
            id: vec![at as u8],
            result_metadata_id: None,
            partition_key_markers: Vec::new(),
            markers: vec![column.clone(); *count],
            result: Vec::new(),
            result_flags: 0,
        };
        let statements: Vec<Statement> =
            markers.iter().enumerate().map(|at| Statement::new(&prepared(at), &common)).collect();
        for kind in 0..workload.kinds().len() {
            let mut out = Vec::new();
            let operation = workload.operation(kind, 1234, 5);
            let mut body = Body { out: &mut out, statements: &statements, common: &common };
            let opcode = workload.encode(&operation, &mut body);
            match Request::decode(Version::V4, opcode, 0, &out).expect("well-formed") {
                Request::Execute { id, parameters, .. } => {
                    assert_eq!((id, parameters.values.len()), (&[kind as u8][..], markers[kind]), "{}", texts[kind]);
                }
                Request::Batch(batch) => {
                    assert_eq!((batch.kind, batch.entries.len()), (BatchKind::Unlogged, 3));
                    assert!(batch.entries.iter().all(|entry| entry.values.len() == markers[0]));
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

const KINDS: [Kind; 3] = [
    Kind { name: "write", writes: true, weight: 1.0 },
    Kind { name: "read", writes: false, weight: 1.0 },
    Kind { name: "slice", writes: false, weight: 0.0 },
];

#[test]
fn ratios_become_shares() {
    let shares_of = |ratio: &[(&str, f64)]| {
        shares(&KINDS, &ratio.iter().map(|(name, weight)| (name.to_string(), *weight)).collect::<Vec<_>>())
    };
    assert_eq!(shares_of(&[]).expect("valid"), [0.5, 1.0, 1.0]);
    assert_eq!(shares_of(&[("read", 3.0), ("write", 1.0)]).expect("valid"), [0.25, 1.0, 1.0]);
    assert!(shares_of(&[("scan", 1.0)]).expect_err("unknown").contains("scan"));
    assert!(shares_of(&[("read", 0.0)]).is_err());
    assert!(shares_of(&[("read", -1.0)]).is_err());
}

#[test]
fn shares_choose_kinds() {
    assert_eq!(kind_of(&[0.25, 1.0, 1.0], 0.2), 0);
    assert_eq!(kind_of(&[0.25, 1.0, 1.0], 0.25), 1);
    assert_eq!(kind_of(&[0.25, 1.0, 1.0], 1.0), 1);
    assert_eq!(kind_of(&[0.0, 0.0, 1.0], 0.0), 2);
}

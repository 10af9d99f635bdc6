//! Tests of reads that break a rule, and of reads that only seem to break one.

use super::*;
use crate::judges::history::{Effects, Fate};

const SECOND: u64 = 1_000_000_000;

fn cell(ck: i64, column: u8) -> CellKey {
    CellKey { table: 0, pk: 1, ck, column, element: 0 }
}

fn target(cks: &[i64]) -> ReadTarget {
    let row_cells = |_: &History, _, _, ck| vec![cell(ck, MARKER), cell(ck, 1)];
    ReadTarget { table: 0, pk: 1, cks: cks.to_vec(), row_cells }
}

fn check(history: &mut History, cks: &[i64], shown: &[(i64, Option<WriteId>)], span: Span) -> Result<(), Violation> {
    let mut seen = ReadResult::default();
    for ck in cks {
        let value = shown.iter().find(|(row, _)| row == ck).and_then(|(_, value)| *value);
        seen.cells.insert(cell(*ck, 1), Shown::Value(value));
    }
    seen.rows = shown.iter().map(|(ck, _)| *ck).collect();
    check_read(history, &target(cks), &seen, ReadContext { span, is_one_request: true, is_durable: true })
}

fn insert(history: &mut History, ck: i64, now: u64) -> WriteId {
    let id = history.next_id();
    history.begin(Effects::from([(cell(ck, MARKER), Some(id)), (cell(ck, 1), Some(id))]), None, now)
}

#[test]
fn lost_acknowledged_write_is_found() {
    let mut history = History::default();
    let id = insert(&mut history, 0, 1);
    history.finish(id, Fate::Acknowledged, 2).unwrap();
    assert!(check(&mut history, &[0], &[(0, Some(id))], (3, 4)).is_ok());
    assert!(check(&mut history, &[0], &[], (3, 4)).is_err());
}

#[test]
fn failed_write_must_not_show() {
    let mut history = History::default();
    let id = insert(&mut history, 0, 1);
    history.finish(id, Fate::Failed, 2).unwrap();
    assert!(check(&mut history, &[0], &[(0, Some(id))], (3, 4)).is_err());
}

#[test]
fn unknown_write_shows_wholly_or_not_and_then_stays() {
    let mut history = History::default();
    let id = history.next_id();
    history.begin(Effects::from([(cell(0, 1), Some(id)), (cell(1, 1), Some(id))]), None, 1);
    history.restarted(5, None);
    assert!(check(&mut history, &[0, 1], &[(0, Some(id))], (6, 7)).is_err());
    assert!(check(&mut history, &[0, 1], &[(0, Some(id)), (1, Some(id))], (6, 7)).is_ok());
    assert!(check(&mut history, &[0, 1], &[], (8, 9)).is_err());
}

#[test]
fn a_read_that_began_before_another_showed_a_write_may_miss_it() {
    let mut history = History::default();
    let id = insert(&mut history, 0, 5);
    assert!(check(&mut history, &[0], &[(0, Some(id))], (1, 9)).is_ok());
    assert!(check(&mut history, &[0], &[], (4, 6)).is_ok());
    assert!(check(&mut history, &[0], &[], (9, 10)).is_err());
}

#[test]
fn unknown_write_that_did_not_survive_never_returns() {
    let mut history = History::default();
    let id = insert(&mut history, 0, 1);
    history.restarted(5, None);
    assert!(check(&mut history, &[0], &[], (6, 7)).is_ok());
    assert!(check(&mut history, &[0], &[(0, Some(id))], (8, 9)).is_err());
}

#[test]
fn periodic_may_lose_the_last_period_only() {
    let mut history = History::default();
    let old = insert(&mut history, 0, 1);
    history.finish(old, Fate::Acknowledged, 2).unwrap();
    let new = insert(&mut history, 0, 3);
    history.finish(new, Fate::Acknowledged, 4).unwrap();
    history.restarted(5, Some(3));
    assert!(check(&mut history, &[0], &[(0, Some(old))], (6, 7)).is_ok());
    assert!(check(&mut history, &[0], &[], (6, 7)).is_err());
}

#[test]
fn what_has_a_time_to_live_dies_then_and_not_before_and_still_hides() {
    let mut history = History::default();
    let old = insert(&mut history, 0, 1);
    history.finish(old, Fate::Acknowledged, 2).unwrap();
    let id = history.next_id();
    history.begin(Effects::from([(cell(0, MARKER), Some(id)), (cell(0, 1), Some(id))]), Some(10), 3);
    history.finish(id, Fate::Acknowledged, 4).unwrap();
    assert!(check(&mut history, &[0], &[], (5 * SECOND, 6 * SECOND)).is_err());
    assert!(check(&mut history, &[0], &[(0, Some(id))], (5 * SECOND, 6 * SECOND)).is_ok());
    assert!(check(&mut history, &[0], &[(0, Some(id))], (20 * SECOND, 21 * SECOND)).is_err());
    assert!(check(&mut history, &[0], &[(0, Some(old))], (20 * SECOND, 21 * SECOND)).is_err());
    assert!(check(&mut history, &[0], &[], (20 * SECOND, 21 * SECOND)).is_ok());
}

#[test]
fn a_logged_batch_may_not_stay_half_there() {
    let mut history = History::default();
    let (a, b) = (insert(&mut history, 0, 1), insert(&mut history, 1, 1));
    history.bind_together(vec![a, b]);
    history.restarted(5, None);
    assert!(check(&mut history, &[0], &[(0, Some(a))], (6, 7)).is_ok());
    assert!(history.check_groups().is_ok());
    assert!(check(&mut history, &[1], &[], (6, 7)).is_ok());
    assert!(history.check_groups().is_err());
}

#[test]
fn counts_and_extremes_keep_within_what_is_allowed() {
    let mut history = History::default();
    let id = insert(&mut history, 0, 1);
    history.finish(id, Fate::Acknowledged, 2).unwrap();
    let unknown = insert(&mut history, 1, 3);
    history.finish(unknown, Fate::Unknown, 4).unwrap();
    let cells = [cell(0, 1), cell(1, 1)];
    for (counted, right) in [(0, false), (1, true), (2, true), (3, false)] {
        assert_eq!(check_count(&history, &target(&[0, 1]), counted, (5, 6)).is_ok(), right);
    }
    for (largest, right) in [(None, false), (Some(id), true), (Some(unknown), true), (Some(9), false)] {
        assert_eq!(check_extreme(&history, &cells, largest, true, (5, 6)).is_ok(), right, "{largest:?}");
    }
    let rows = BTreeSet::from([1]);
    let filtered = |wanted: WriteId| {
        let wanted = move |value: Option<WriteId>| value == Some(wanted);
        check_filter(&history, &[(0, cells[0]), (1, cells[1])], &rows, wanted, (5, 6))
    };
    assert!(filtered(unknown).is_ok());
    assert!(filtered(id).is_err());
}

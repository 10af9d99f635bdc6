//! Changes of tablets, those that are refused, and how many bytes they are.

use super::*;

fn node(number: u128) -> Uuid {
    Uuid::from_u128(number)
}

fn map(ends: &[i64], replicas: &[u128]) -> TabletMap {
    let ids: Vec<Uuid> = replicas.iter().copied().map(node).collect();
    let tablet = |until| Tablet { until, replicas: ids.clone(), goal: None };
    TabletMap { tablets: ends.iter().copied().map(Some).chain([None]).map(tablet).collect() }
}

fn changed(map: &TabletMap, change: TabletChange) -> Result<TabletMap, TabletError> {
    let update = TabletsUpdate { table: [0; 16], changes: vec![change] };
    update.applied(Some(map)).map(|map| map.expect("not dropped"))
}

#[test]
fn even_tablets_cover_the_ring() {
    assert_eq!(TabletMap::even(1, |_| vec![node(1)]), map(&[], &[1]));
    let ends: Vec<_> = TabletMap::even(4, |_| vec![node(1)]).tablets.iter().map(|tablet| tablet.until).collect();
    assert_eq!(ends, [Some(-(1 << 62) - 1), Some(-1), Some((1 << 62) - 1), None]);
    let many = TabletMap::even(TABLETS_MAX, |number| vec![node(number as u128 % 5)]);
    assert_eq!((many.check(), many.tablets.len()), (Ok(()), TABLETS_MAX));
    for at in [0, 1, 77, TABLETS_MAX - 1] {
        let range = many.range(at);
        let first = range.start.map_or(i64::MIN, |start| match start.token {
            RingToken::Murmur3(token) => token + 1,
            other => panic!("{other:?}"),
        });
        assert_eq!((many.at(first), many.at(many.tablets[at].until.unwrap_or(i64::MAX))), (at, at));
    }
}

#[test]
fn splits_and_merges_leave_the_replicas() {
    let one = map(&[], &[1, 2]);
    let two = changed(&one, TabletChange::Split { until: None, at: 5 }).unwrap();
    assert_eq!(two, map(&[5], &[1, 2]));
    let three = changed(&two, TabletChange::Split { until: Some(5), at: i64::MIN }).unwrap();
    assert_eq!(three, map(&[i64::MIN, 5], &[1, 2]));
    assert_eq!(changed(&three, TabletChange::Merge { until: i64::MIN }), Ok(two.clone()));
    assert_eq!(changed(&two, TabletChange::Merge { until: 5 }), Ok(one));
}

#[test]
fn changes_that_do_not_fit_are_refused() {
    let two = map(&[5], &[1, 2]);
    for (change, error) in [
        (TabletChange::Split { until: Some(4), at: 1 }, TabletError::NoSuchTablet(Some(4))),
        (TabletChange::Split { until: Some(5), at: 5 }, TabletError::NotWithin(5)),
        (TabletChange::Split { until: None, at: 5 }, TabletError::NotWithin(5)),
        (TabletChange::Split { until: None, at: i64::MAX }, TabletError::NotWithin(i64::MAX)),
        (TabletChange::Merge { until: 6 }, TabletError::NoSuchTablet(Some(6))),
        (TabletChange::Move { until: Some(5), goal: vec![node(1)] }, TabletError::Malformed),
        (TabletChange::Move { until: Some(5), goal: vec![node(1), node(1)] }, TabletError::Malformed),
        (TabletChange::Set(TabletMap { tablets: Vec::new() }), TabletError::Count(0)),
    ] {
        assert_eq!(changed(&two, change.clone()), Err(error), "{change:?}");
    }
    let moves = changed(&two, TabletChange::Move { until: Some(5), goal: vec![node(1), node(3)] }).unwrap();
    assert_eq!(moves.tablets[0].next(), [node(1), node(3)]);
    assert_eq!(changed(&moves, TabletChange::Merge { until: 5 }), Err(TabletError::NotAlike(5)));
    let others = TabletsUpdate { table: [0; 16], changes: vec![TabletChange::Merge { until: 5 }] };
    assert_eq!(others.applied(None), Err(TabletError::NoTablets));
}

#[test]
fn a_table_has_no_more_tablets_than_it_may() {
    let most = TabletMap::even(TABLETS_MAX, |_| vec![node(1)]);
    let end = most.tablets[0].until.unwrap();
    let split = TabletChange::Split { until: Some(end), at: end - 1 };
    assert_eq!(changed(&most, split.clone()), Err(TabletError::Count(TABLETS_MAX + 1)));
    let fewer = changed(&most, TabletChange::Merge { until: end }).unwrap();
    let end = fewer.tablets[0].until;
    assert_eq!(
        changed(&fewer, TabletChange::Split { until: end, at: 0 - (1 << 62) }),
        Err(TabletError::NotWithin(-(1 << 62)))
    );
    assert!(changed(&fewer, TabletChange::Split { until: end, at: end.unwrap() - 1 }).is_ok());
}

#[test]
fn a_tablet_is_few_bytes_in_the_metadata_and_so_is_a_change() {
    let ids: Vec<Uuid> = (1..=3).map(|number| Uuid::from_u128(u128::MAX - number)).collect();
    let map = TabletMap::even(1_000, |_| ids.clone());
    let of_map = postcard::to_allocvec(&map).unwrap().len();
    assert!(of_map <= 64 * 1_000, "{of_map} bytes of 1,000 tablets with three replicas");
    let bytes =
        |change| postcard::to_allocvec(&TabletsUpdate { table: [255; 16], changes: vec![change] }).unwrap().len();
    let until = map.tablets[0].until;
    assert_eq!(bytes(TabletChange::Split { until, at: i64::MIN }), 39);
    assert_eq!(bytes(TabletChange::Merge { until: i64::MIN }), 28);
    assert_eq!(bytes(TabletChange::Move { until, goal: ids }), 81);
}

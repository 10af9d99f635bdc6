//! Rates and medians of tablets under load that begins, ends, and is uneven.

use super::*;

const SECOND: u64 = 1_000_000;

fn own() -> Uuid {
    Uuid::from_u128(1)
}

fn map(ends: &[i64], has: impl Fn(usize) -> bool) -> TabletMap {
    let replicas = |at| vec![if has(at) { own() } else { Uuid::from_u128(2) }];
    let ends = ends.iter().copied().map(Some).chain([None]).enumerate();
    TabletMap { tablets: ends.map(|(at, until)| Tablet { until, replicas: replicas(at), goal: None }).collect() }
}

/// A thousand requests of a unit in a second, of these tokens in turn.
fn load(load: &mut TableLoad, seconds: std::ops::Range<u64>, tokens: &[i64]) {
    for second in seconds {
        for (at, token) in (0..1000).zip(tokens.iter().cycle()) {
            load.note(*token, 100, second * SECOND + at * 1000);
        }
    }
}

fn near(value: f64, expected: f64) -> bool {
    (value - expected).abs() <= expected.abs() * 0.01 + 0.5
}

#[test]
fn rates_follow_the_load_and_forget_it() {
    let mut tablets = TableLoad::new(&map(&[0], |_| true), own(), 100.0, 0);
    load(&mut tablets, 0..60, &[-5, 7, -5, -5]);
    let reports = tablets.report(60 * SECOND);
    assert_eq!(reports.iter().map(|report| report.until).collect::<Vec<_>>(), [Some(0), None]);
    assert!(near(reports[0].recent, 750.0) && near(reports[1].recent, 250.0), "{reports:?}");
    assert!(near(reports[0].lasting, 750.0), "the mean as long as little is known: {reports:?}");
    let later = tablets.report(80 * SECOND);
    assert!(near(later[0].recent, 750.0 / std::f64::consts::E), "{later:?}");
    assert!(later[0].lasting > 500.0, "a pause of seconds is not the end of a load: {later:?}");
    assert_eq!(tablets.report(2 * 3600 * SECOND), [], "but of hours");
}

#[test]
fn the_median_is_that_of_the_load() {
    // Most of the load is at a few tokens far from the middle of the range, in turn, which no fixed step could tell.
    let mut tablets = TableLoad::new(&map(&[], |_| true), own(), 100.0, 0);
    let tokens: Vec<i64> = (0..16).map(|at| i64::MAX - 160 + 10 * at).collect();
    load(&mut tablets, 0..60, &tokens);
    let report = tablets.report(60 * SECOND);
    let found = middle(&report).expect("enough are kept");
    let place = tokens.iter().position(|token| *token == found).expect("one of them");
    assert!((4..12).contains(&place), "{place}");
    assert!(report[0].tokens.len() <= SAMPLES_MAX);
    // A few tokens say nothing.
    let few = LoadReport { tokens: vec![1; 5], ..report[0].clone() };
    assert_eq!(middle([&few]), None);
    // A busy core counts more than an idle one that has kept as many.
    let core = |recent, token| LoadReport { until: None, recent, lasting: recent, tokens: vec![token; 64] };
    assert_eq!(middle(&[core(100.0, 1), core(900.0, 2), core(20.0, 3)]), Some(2));
}

#[test]
fn a_key_with_half_of_the_load_is_the_median() {
    let mut tablets = TableLoad::new(&map(&[], |_| true), own(), 100.0, 0);
    load(&mut tablets, 0..60, &[4, 99, 99, 99, 700]);
    assert_eq!(middle(&tablets.report(60 * SECOND)), Some(99));
    // By price, not by number.
    let mut tablets = TableLoad::new(&map(&[], |_| true), own(), 100.0, 0);
    for at in 0..60_000 {
        let (token, price) = if at % 10 == 0 { (5, 3_000) } else { (-5, 100) };
        tablets.note(token, price, at * 1000);
    }
    assert_eq!(middle(&tablets.report(60 * SECOND)), Some(5));
}

#[test]
fn a_tablet_that_is_cut_keeps_its_load() {
    let mut tablets = TableLoad::new(&map(&[], |_| true), own(), 100.0, 0);
    load(&mut tablets, 0..30, &[1, 2, 3, 50]);
    tablets.adopt(&map(&[3], |_| true), own(), 30 * SECOND);
    let cut = tablets.report(30 * SECOND);
    assert!((600.0..900.0).contains(&cut[0].recent) && near(cut[0].recent + cut[1].recent, 1000.0), "{cut:?}");
    assert!(cut[0].tokens.iter().all(|token| *token <= 3) && cut[1].tokens.iter().all(|token| *token == 50));
    tablets.adopt(&map(&[], |_| true), own(), 30 * SECOND);
    let whole = tablets.report(30 * SECOND);
    assert!(near(whole[0].recent, 1000.0) && near(whole[0].lasting, 1000.0), "{whole:?}");
    // Without samples, by width.
    let mut tablets = TableLoad::new(&map(&[], |_| true), own(), 1e9, 0);
    load(&mut tablets, 0..30, &[1]);
    tablets.adopt(&map(&[-1], |_| true), own(), 30 * SECOND);
    assert!(near(tablets.report(30 * SECOND)[0].recent, 500.0));
}

#[test]
fn a_tablet_that_comes_begins_anew() {
    let mut tablets = TableLoad::new(&map(&[0], |at| at == 0), own(), 100.0, 0);
    load(&mut tablets, 0..600, &[7]);
    assert_eq!(tablets.report(600 * SECOND), [], "what it only writes for its new place is not its load");
    tablets.adopt(&map(&[0], |_| true), own(), 600 * SECOND);
    load(&mut tablets, 600..605, &[7, 7, -7, 7]);
    let report = tablets.report(605 * SECOND);
    assert!(near(report[1].lasting, 750.0), "{report:?}");
    tablets.adopt(&map(&[0], |at| at == 0), own(), 605 * SECOND);
    assert_eq!(tablets.report(605 * SECOND).len(), 1, "it has gone");
}

#[test]
fn so_many_tablets_are_sampled() {
    let ends: Vec<i64> = (0..SAMPLED_MAX as i64 + 10).collect();
    let mut tablets = TableLoad::new(&map(&ends, |_| true), own(), 1.0, 0);
    for second in 0..20 {
        ends.iter().for_each(|end| tablets.note(*end, 1000, second * SECOND));
    }
    let sampled = tablets.report(20 * SECOND).iter().filter(|report| !report.tokens.is_empty()).count();
    assert_eq!(sampled, SAMPLED_MAX);
}

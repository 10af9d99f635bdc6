//! SELECT: keys, slices, ranges, pages, aggregates.

use super::world::{Request, Value, World, int, number, values};

fn world(shards: usize) -> World {
    let mut world = World::start(shards);
    world.run_query("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}");
    world.run_query("CREATE TABLE k.t (a int, b int, c int, v int, PRIMARY KEY (a, b, c))");
    world
}

/// Fills partitions 0 to `partitions` - 1 with `rows` rows each.
fn fill(world: &mut World, partitions: i32, rows: i32) {
    let insert = world.prepare(0, "INSERT INTO k.t (a, b, c, v) VALUES (?, ?, ?, ?)").expect("prepared");
    for a in 0..partitions {
        for b in 0..rows {
            world.execute(0, insert, values(&[int(a), int(b), int(0), int(a * 1000 + b)])).expect("written");
        }
    }
}

#[test]
fn in_answers_in_key_order_whatever_the_cores() {
    for shards in 1..=4 {
        let mut world = world(shards);
        fill(&mut world, 30, 2);
        for core in 0..shards {
            let rows = world.rows_on(core, "SELECT a, b FROM k.t WHERE a IN (9, 7, 3, 1, 2, 7, 99)");
            let found: Vec<(i64, i64)> = rows.iter().map(|row| (number(&row[0]), number(&row[1]))).collect();
            let expected: Vec<(i64, i64)> = [1, 2, 3, 7, 9].into_iter().flat_map(|a| [(a, 0), (a, 1)]).collect();
            assert_eq!(found, expected);
        }
        // More keys than are read concurrently, with pages that end anywhere.
        let keys: Vec<String> = (0..30).rev().map(|a| a.to_string()).collect();
        let query = format!("SELECT a, b FROM k.t WHERE a IN ({})", keys.join(", "));
        let expected: Vec<i64> = (0..30).flat_map(|a| [a, a]).collect();
        for page_size in [1, 2, 3, 7, 59, 60, 61] {
            let pages = world.pages(&query, page_size);
            let found: Vec<i64> = pages.iter().flatten().map(|row| number(&row[0])).collect();
            assert_eq!(found, expected, "{page_size}");
            assert!(pages.iter().all(|page| page.len() <= page_size as usize));
        }
    }
}

#[test]
fn slices_choices_and_reversed_reads() {
    let mut world = world(2);
    fill(&mut world, 2, 10);
    let mut check = |condition: &str, expected: &[i64]| {
        let found = world.ints(&format!("SELECT b FROM k.t WHERE a = 1 {condition}"));
        assert_eq!(found.concat(), expected, "{condition}");
    };
    check("AND b > 3 AND b <= 6", &[4, 5, 6]);
    check("AND b >= 3 AND b < 3", &[]);
    check("AND b > 6 AND b < 3", &[]);
    check("AND b < 2", &[0, 1]);
    check("AND b >= 8", &[8, 9]);
    check("AND b IN (5, 1, 5, 20)", &[1, 5]);
    check("AND b IN ()", &[]);
    check("AND b = 4 AND c >= 0", &[4]);
    check("AND b IN (4, 2) AND c > 0", &[]);
    check("ORDER BY b DESC LIMIT 3", &[9, 8, 7]);
    check("AND b < 5 ORDER BY b DESC", &[4, 3, 2, 1, 0]);
    check("LIMIT 2", &[0, 1]);

    let null = values(&[Value::Null]);
    // Null sorts before every value.
    for (operator, rows) in [(">", 10), (">=", 10), ("<", 0), ("<=", 0)] {
        let query = format!("SELECT b FROM k.t WHERE a = 1 AND b {operator} ?");
        let answer = world.try_query(0, &query, null.clone()).expect("rows");
        assert_eq!(super::world::rows_of(answer).len(), rows, "{operator}");
    }
    let text = world.refusal("SELECT b FROM k.t WHERE a = 1 AND b = ?", null);
    assert_eq!(text, "Invalid null value in condition for column b");
    let unset = values(&[Value::Unset]);
    assert_eq!(world.refusal("SELECT b FROM k.t WHERE a = 1 AND b > ?", unset), "Invalid unset value for column b");

    let pages = world.pages("SELECT b FROM k.t WHERE a = 1 ORDER BY b DESC", 4);
    let found: Vec<Vec<i64>> = pages.iter().map(|page| page.iter().map(|row| number(&row[0])).collect()).collect();
    assert_eq!(found, [vec![9, 8, 7, 6], vec![5, 4, 3, 2], vec![1, 0]]);
    let sorted = world.ints("SELECT b, a FROM k.t WHERE a IN (0, 1) ORDER BY b DESC LIMIT 3");
    assert_eq!(sorted, [[9, 0], [9, 1], [8, 0]]);
    let page = Request { page_size: Some(2), ..Request::default() };
    let text = world.refusal("SELECT b FROM k.t WHERE a IN (0, 1) ORDER BY b DESC", page);
    assert!(text.starts_with("Cannot page queries with both ORDER BY and a IN restriction"), "{text}");
}

#[test]
fn scans_are_merged_by_token_at_every_page_size() {
    let mut reference: Option<Vec<(i64, i64)>> = None;
    for shards in 1..=4 {
        let mut world = world(shards);
        fill(&mut world, 25, 3);
        let query = "SELECT a, b, token(a) FROM k.t";
        let all = world.ints(query);
        assert_eq!(all.len(), 75);
        assert!(all.is_sorted_by_key(|row| row[2]), "by token");
        let all: Vec<(i64, i64)> = all.iter().map(|row| (row[0], row[1])).collect();
        assert_eq!(reference.get_or_insert_with(|| all.clone()), &all);
        for page_size in [1, 2, 10, 74, 75, 76] {
            let pages = world.pages(query, page_size);
            let found: Vec<(i64, i64)> = pages.iter().flatten().map(|row| (number(&row[0]), number(&row[1]))).collect();
            assert_eq!(found, all, "{shards} {page_size}");
            // A page that is exactly full is followed by another, possibly empty one.
            assert_eq!(pages.len(), 75 / page_size as usize + 1);
        }
        let limited = world.pages("SELECT a, b FROM k.t LIMIT 10", 5);
        assert_eq!(limited.iter().map(Vec::len).collect::<Vec<_>>(), [5, 5], "LIMIT spans pages and ends them");
    }
}

#[test]
fn token_ranges_partition_the_ring() {
    let mut world = world(3);
    fill(&mut world, 40, 1);
    let bounds = [i64::MIN, -5_000_000_000_000_000_000, 0, 5_000_000_000_000_000_000, i64::MAX];
    let mut found = 0;
    for pair in bounds.windows(2) {
        let query = format!("SELECT a FROM k.t WHERE token(a) > {} AND token(a) <= {}", pair[0], pair[1]);
        found += world.ints(&query).len();
        let pages = world.pages(&query, 3);
        assert_eq!(pages.concat().len(), world.ints(&query).len());
    }
    assert_eq!(found, 40);
    assert_eq!(world.ints("SELECT a FROM k.t WHERE token(a) > 10 AND token(a) < 5").len(), 0);
    let (first, token) = {
        let row = world.ints("SELECT a, token(a) FROM k.t LIMIT 1").remove(0);
        (row[0], row[1])
    };
    assert_eq!(world.ints(&format!("SELECT a FROM k.t WHERE token(a) = {token}")), [[first]]);
    assert_eq!(world.ints(&format!("SELECT a FROM k.t WHERE token(a) <= token({first})")), [[first]]);
}

#[test]
fn counts_add_up_over_cores() {
    for shards in [1, 3] {
        let mut world = world(shards);
        assert_eq!(world.ints("SELECT count(*) FROM k.t"), [[0]]);
        fill(&mut world, 20, 5);
        world.run_query("DELETE v FROM k.t WHERE a = 3 AND b = 3 AND c = 0");
        let answer = world.run_query("SELECT count(*), count(v) FROM k.t");
        assert_eq!(answer.warnings, ["Aggregation query used without partition key"]);
        assert_eq!(world.ints("SELECT count(*), count(v) FROM k.t"), [[100, 99]]);
        assert_eq!(world.ints("SELECT count(*) FROM k.t WHERE a IN (1, 2, 77)"), [[10]]);
        assert_eq!(world.ints("SELECT count(*) FROM k.t WHERE a = 1 AND b > 2"), [[2]]);
        assert_eq!(world.pages("SELECT count(*) FROM k.t", 1).len(), 1);
    }
}

#[test]
fn limits_and_paging_states_that_are_none_are_refused() {
    let mut world = world(2);
    fill(&mut world, 3, 3);
    let limit = "SELECT a FROM k.t WHERE a = 1 LIMIT ?";
    assert_eq!(world.refusal(limit, values(&[int(0)])), "LIMIT must be strictly positive");
    assert_eq!(world.refusal(limit, values(&[int(-1)])), "LIMIT must be strictly positive");
    assert_eq!(world.refusal(limit, values(&[Value::Null])), "Invalid null value of limit");
    let all = world.try_query(0, limit, values(&[Value::Unset])).expect("no limit");
    assert_eq!(super::world::rows_of(all).len(), 3);

    let mut state = |query: &str, state: Vec<u8>| {
        let request = Request { page_size: Some(2), paging_state: Some(state), ..Request::default() };
        world.try_query(0, query, request).map(|answer| super::world::rows_of(answer).len())
    };
    for bad in [vec![], vec![0], vec![1; 10], vec![255; 300], vec![1; 1 << 19]] {
        let failure = state("SELECT a FROM k.t", bad).expect_err("no state");
        assert_eq!(failure.text, "Invalid value for the paging state");
        assert_eq!(failure.code, model::ErrorCode::Protocol);
    }
}

#[test]
fn names_and_time_outs_are_honoured() {
    let mut world = world(1);
    fill(&mut world, 3, 1);
    let named = Request { values: vec![int(0), int(2)], names: Some(vec!["other", "key"]), ..Request::default() };
    let rows = world.try_query(0, "SELECT a FROM k.t WHERE a = :key", named.clone());
    assert_eq!(number(&super::world::rows_of(rows.expect("found"))[0][0]), 2);
    let missing = world.refusal("SELECT a FROM k.t WHERE a = :nokey", named);
    assert_eq!(missing, "Invalid amount of bind variables");
    assert_eq!(world.ints("SELECT a FROM k.t WHERE a = 2 USING TIMEOUT 30000ms"), [[2]]);
}

#[test]
fn a_page_ends_by_its_bytes_and_goes_on() {
    for shards in [1, 3] {
        let mut world = world(shards);
        world.run_query("CREATE TABLE k.big (p int, c int, v blob, PRIMARY KEY (p, c))");
        let insert = world.prepare(0, "INSERT INTO k.big (p, c, v) VALUES (?, ?, ?)").expect("prepared");
        for p in 0..4 {
            for c in 0..10 {
                let request = values(&[int(p), int(c), Value::Bytes(vec![1; 100_000])]);
                world.execute(0, insert, request).expect("written");
            }
        }
        for query in [
            "SELECT p, c, v FROM k.big",
            "SELECT p, c, v FROM k.big WHERE p IN (3, 2, 1, 0)",
            "SELECT * FROM k.big WHERE p = 2",
        ] {
            let whole = world.rows_on(0, query);
            let pages = world.pages(query, 1000);
            assert_eq!(pages.concat(), whole);
            assert!(pages.iter().all(|page| page.len() <= 11), "1 MiB and a row");
        }
    }
}

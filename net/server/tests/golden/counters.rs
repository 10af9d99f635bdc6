//! Counters that real Cassandra wrote, and increments on top of them.

use super::world::World;
use super::{are_ours, create, plain, sstables, tables};
use server::client::QueryOptions;

/// A timestamp later than all in the files.
const LATER_MICROS: i64 = 1_795_300_000_000_000;

/// `k, c, s, a, b` of every row that has `k` in it.
fn rows(world: &mut World, k: i32) -> Vec<String> {
    let text = format!("SELECT c, s, a, b FROM golden.counters WHERE k = {k}");
    let outcome = world.query(vec![(text, QueryOptions::default())]).remove(0).expect("rows");
    let cell = |cell: &Option<Vec<u8>>| match cell.as_deref() {
        None => "null".to_owned(),
        Some(bytes) => match bytes.len() {
            4 => i32::from_be_bytes(bytes.try_into().expect("four bytes")).to_string(),
            _ => i64::from_be_bytes(bytes.try_into().expect("eight bytes")).to_string(),
        },
    };
    outcome.rows.iter().map(|row| row.iter().map(cell).collect::<Vec<_>>().join(" ")).collect()
}

fn check(world: &mut World, when: &str) {
    // The sum of all nodes wraps around.
    assert_eq!(
        rows(world, 5),
        ["0 null -9223372036854775808 null", "1 null -9223372036854775807 -7", "2 null 5 null"],
        "{when}"
    );
    // A deleted counter stays so, a deleted row begins anew.
    assert_eq!(
        rows(world, 1),
        ["0 null 10 0", "1 null null -1000000007", "2 null 3 null", "3 null 13 -3000000021", "4 null 14 -4000000028"],
        "{when}"
    );
    assert_eq!(rows(world, 6), ["0 16 4 null"], "{when}");
}

#[test]
fn counters_of_cassandra_count_on() {
    for version in ["da", "oa", "nb"] {
        let mut tables = tables(version);
        tables.retain(|name, _| name == "counters");
        let mut world = World::new(1, &["commitlog_sync=batch"]);
        assert!(world.start(2));
        create(&mut world, &tables);
        world.stop();
        world.put(sstables(&tables));
        assert!(world.start(2));
        let statements = [
            "UPDATE golden.counters SET a = a + 1 WHERE k = 5 AND c = 0",
            "UPDATE golden.counters SET b = b - 7 WHERE k = 5 AND c = 1",
            "UPDATE golden.counters SET a += 2 WHERE k = 5 AND c = 2",
            "UPDATE golden.counters SET a += 3 WHERE k = 5 AND c = 2",
            "UPDATE golden.counters SET a += 3 WHERE k = 1 AND c = 1",
            "UPDATE golden.counters SET a += 3 WHERE k = 1 AND c = 2",
            "BEGIN COUNTER BATCH UPDATE golden.counters SET s += 4, a += 1 WHERE k = 6 AND c = 0; \
             UPDATE golden.counters SET s += 6 WHERE k = 6; APPLY BATCH",
        ];
        let options = QueryOptions { timestamp: Some(LATER_MICROS), ..QueryOptions::default() };
        let counted: Vec<_> = statements.iter().map(|statement| (plain(statement).0, options.clone())).collect();
        for (answer, statement) in world.query(counted).into_iter().zip(statements) {
            answer.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        }
        check(&mut world, "beside the foreign files");
        assert!(world.run_until(|world| are_ours(world, 2)));
        check(&mut world, "rewritten");
        world.crash();
        assert!(world.start(3));
        check(&mut world, "on another number of cores");
        world.stop();
    }
}

//! ALTER of tables, types and keyspaces through [`shard::Shard`] in the simulator: prepared statements, drops of
//! columns and their data across crashes, and the changes that every core is told about.

use super::world::{Request, World, int, number, rows_of, values};
use model::ErrorCode;
use shard::{ChangeKind, ChangeTarget};

const CREATE_KEYSPACE: &str =
    "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}";
const CREATE_TABLE: &str = "CREATE TABLE k.t (p int, c int, v int, w int, PRIMARY KEY (p, c))";

fn world(shards: usize) -> World {
    let mut world = World::start(shards);
    world.run_query(CREATE_KEYSPACE);
    world.run_query(CREATE_TABLE);
    world
}

fn is_unprepared(world: &mut World, core: usize, id: [u8; 16]) -> bool {
    match world.execute(core, id, values(&[int(1)])) {
        Ok(_) => false,
        Err(failure) => {
            assert_eq!(failure.code, ErrorCode::Unprepared, "{failure}");
            true
        }
    }
}

#[test]
fn statements_of_an_altered_table_are_prepared_again() {
    for shards in [1, 3] {
        let mut world = world(shards);
        world.run_query("CREATE TYPE k.u (a int)");
        world.run_query("CREATE TABLE k.other (p int PRIMARY KEY, u frozen<u>)");
        let select = "SELECT * FROM k.t WHERE p = ?";
        let other = world.prepare(0, "SELECT * FROM k.other WHERE p = ?").expect("prepares");
        for (alter, stale) in [
            ("ALTER TABLE k.t ADD a int", true),
            ("ALTER TABLE k.t DROP a", true),
            ("ALTER TABLE k.t WITH comment = 'x'", false),
            ("ALTER TABLE k.t WITH default_time_to_live = 1000", true),
            ("ALTER TABLE k.t RENAME c TO c2", true),
            ("ALTER KEYSPACE k WITH durable_writes = false", false),
            ("ALTER TYPE k.u ADD b int", false),
        ] {
            let id = world.prepare(shards - 1, select).expect("prepares");
            world.execute(0, id, values(&[int(1)])).expect("executes");
            world.run_query(alter);
            for core in 0..shards {
                assert_eq!(is_unprepared(&mut world, core, id), stale, "{alter} on core {core}");
            }
            let again = world.prepare(0, select).expect("prepares");
            assert_eq!(id, again);
            assert!(!is_unprepared(&mut world, shards - 1, again));
        }
        assert!(is_unprepared(&mut world, 0, other), "its type was altered");
        let other = world.prepare(0, "SELECT * FROM k.other WHERE p = ?").expect("prepares");
        // A restart finds exactly the statements that are still valid.
        let id = world.prepare(0, select).expect("prepares");
        world.run_query("ALTER TABLE k.t ADD z int");
        world.crash();
        world.run(shards);
        assert!(is_unprepared(&mut world, 0, id));
        assert!(!is_unprepared(&mut world, 0, other));
    }
}

#[test]
fn what_was_written_before_a_column_was_dropped_does_not_come_back() {
    for crashes in 0..8 {
        for (shards, later) in [(1, 2), (3, 1)] {
            let mut world = world(shards);
            let restart = |world: &mut World, bit: u32, to: usize| {
                if crashes >> bit & 1 == 1 {
                    world.crash();
                    world.run(to);
                }
            };
            for p in 0..10 {
                // The clock may go back across a restart.
                world.run_query(&format!("INSERT INTO k.t (p, c, v, w) VALUES ({p}, 0, 1, 2) USING TIMESTAMP 1000"));
            }
            restart(&mut world, 0, later);
            world.run_query("ALTER TABLE k.t DROP v");
            world.run_query("ALTER TABLE k.t ADD x int");
            for p in 5..10 {
                world.run_query(&format!("INSERT INTO k.t (p, c, w, x) VALUES ({p}, 1, 3, 4)"));
            }
            restart(&mut world, 1, shards);
            world.run_query("ALTER TABLE k.t ADD v int");
            assert_eq!(world.ints("SELECT count(v) FROM k.t")[0][0], 0, "{crashes}");
            for p in 0..5 {
                world.run_query(&format!("UPDATE k.t SET v = 7 WHERE p = {p} AND c = 0"));
            }
            restart(&mut world, 2, later);
            assert_eq!(world.ints("SELECT count(v) FROM k.t")[0][0], 5, "{crashes}");
            assert_eq!(world.ints("SELECT v, w FROM k.t WHERE p = 3 AND c = 0"), [[7, 2]]);
            assert_eq!(world.ints("SELECT w, x FROM k.t WHERE p = 7 AND c = 1"), [[3, 4]]);
            world.crash();
            world.run(shards);
            assert_eq!(world.ints("SELECT count(v) FROM k.t")[0][0], 5, "{crashes}");
        }
    }
}

#[test]
fn what_was_written_after_a_column_was_dropped_comes_back_with_it() {
    const NEVER: &str = "9000000000000000";
    for crashes in 0..8 {
        let mut world = world(2);
        let restart = |world: &mut World, bit: u32| {
            if crashes >> bit & 1 == 1 {
                world.crash();
                world.run(2);
            }
        };
        for p in 0..10 {
            world.run_query(&format!("UPDATE k.t USING TIMESTAMP 10 SET v = 1, w = 1 WHERE p = {p} AND c = 0"));
            world.run_query(&format!("UPDATE k.t USING TIMESTAMP {NEVER} SET v = {p} WHERE p = {p} AND c = 1"));
        }
        restart(&mut world, 0);
        world.run_query("ALTER TABLE k.t DROP v USING TIMESTAMP 20");
        assert_eq!(world.ints("SELECT count(*) FROM k.t")[0][0], 10);
        restart(&mut world, 1);
        world.run_query("ALTER TABLE k.t ADD v int");
        world.run_query("UPDATE k.t USING TIMESTAMP 15 SET v = 3 WHERE p = 3 AND c = 0");
        world.run_query("UPDATE k.t USING TIMESTAMP 21 SET v = 4 WHERE p = 4 AND c = 0");
        restart(&mut world, 2);
        for p in 0..10 {
            assert_eq!(world.ints(&format!("SELECT v FROM k.t WHERE p = {p} AND c = 1")), [[p]], "{crashes}");
        }
        assert_eq!(world.ints("SELECT count(v) FROM k.t")[0][0], 11, "{crashes}");
        assert_eq!(world.ints("SELECT v FROM k.t WHERE p = 4 AND c = 0"), [[4]]);
    }
}

#[test]
fn alterations_survive_a_crash() {
    for (shards, later) in [(1, 1), (2, 3)] {
        let mut world = world(shards);
        for text in [
            "CREATE TYPE k.u (a int)",
            "CREATE TYPE k.o (u frozen<u>)",
            "CREATE TABLE k.t2 (p int PRIMARY KEY, o frozen<o>)",
            "ALTER TYPE k.u ADD b text",
            "ALTER TYPE k.u RENAME a TO a2",
            "ALTER TABLE k.t RENAME p TO p2 AND c TO c2",
            "ALTER TABLE k.t ADD (s int static, l list<int>)",
            "ALTER TABLE k.t DROP v USING TIMESTAMP 5000",
            "ALTER TABLE k.t DROP w",
            "ALTER TABLE k.t ADD w int",
            "ALTER TABLE k.t WITH comment = 'x' AND gc_grace_seconds = 5",
            "ALTER KEYSPACE k WITH durable_writes = false",
            "ALTER KEYSPACE system_auth WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        ] {
            world.run_query(text);
        }
        let schema = |world: &mut World, core: usize| {
            world.on(core, |shard, _| async move {
                let schema = shard.schema();
                let keyspace = model::Keyspace::clone(schema.keyspace("k").expect("a keyspace"));
                let auth = schema.keyspace("system_auth").expect("a keyspace").replication.clone();
                (keyspace, auth)
            })
        };
        let before = schema(&mut world, shards - 1);
        let ids = |name: &str| {
            let table = &before.0.tables["t"];
            let dropped = table.dropped.iter().find(|dropped| dropped.name == name).map(|dropped| dropped.id.0);
            (table.column(name).map(|column| column.id.0), dropped)
        };
        assert_eq!((ids("p2"), ids("c2"), ids("l")), ((Some(0), None), (Some(1), None), (Some(5), None)));
        assert_eq!((ids("v"), ids("w")), ((None, Some(2)), (Some(6), Some(6))));
        world.crash();
        world.run(later);
        for core in 0..later {
            assert_eq!(schema(&mut world, core), before, "core {core}");
        }
        assert_eq!(world.ints("SELECT count(*) FROM k.t")[0][0], 0);
    }
}

#[test]
fn every_core_is_told_of_what_changed_and_of_nothing_else() {
    let mut world = world(2);
    let before = world.changes(1);
    let changes = [
        ("CREATE TYPE k.u (a int)", ChangeKind::Created, ChangeTarget::Type, "u"),
        ("ALTER TYPE k.u ADD b int", ChangeKind::Updated, ChangeTarget::Type, "u"),
        ("ALTER TABLE k.t ADD a int", ChangeKind::Updated, ChangeTarget::Table, "t"),
        ("ALTER KEYSPACE k WITH durable_writes = false", ChangeKind::Updated, ChangeTarget::Keyspace, ""),
        ("DROP TYPE k.u", ChangeKind::Dropped, ChangeTarget::Type, "u"),
    ];
    for (at, (text, kind, target, name)) in changes.into_iter().enumerate() {
        let shard::Response::SchemaChange(change) = world.run_query(text).response else { panic!("{text}") };
        assert_eq!((change.change, change.target, change.name.as_str()), (kind, target, name));
        assert_eq!((change.keyspace.as_str(), world.changes(1)), ("k", before + at + 1));
    }
    for nothing in
        ["ALTER TABLE k.t ADD IF NOT EXISTS a int", "DROP TYPE IF EXISTS k.u", "ALTER TABLE k.t WITH comment = ''"]
    {
        assert!(matches!(world.run_query(nothing).response, shard::Response::Void), "{nothing}");
    }
    assert_eq!(world.changes(1), before + changes.len());
}

#[test]
fn writes_while_a_column_is_added_are_whole() {
    let mut world = world(3);
    let insert = world.prepare(1, "INSERT INTO k.t (p, c, v) VALUES (?, 0, 1)").expect("prepares");
    for round in 0..5 {
        for p in 0..10 {
            let request: Request = values(&[int(p)]);
            if world.execute(1, insert, request).is_err() {
                world.prepare(1, "INSERT INTO k.t (p, c, v) VALUES (?, 0, 1)").expect("prepares");
            }
        }
        world.run_query(&format!("ALTER TABLE k.t ADD x{round} int"));
        world.run_query(&format!("UPDATE k.t SET x{round} = {round} WHERE p = {round} AND c = 0"));
    }
    world.crash();
    world.run(2);
    for round in 0..5 {
        let rows = rows_of(world.run_query(&format!("SELECT x{round} FROM k.t WHERE p = {round}")));
        assert_eq!(number(&rows[0][0]), i64::from(round));
    }
}

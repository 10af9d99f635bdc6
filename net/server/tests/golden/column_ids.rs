//! A data directory that was written before ids of columns were stored: it opens with every column where it was, the
//! columns get ids, and they keep them.
//!
//! Its node, of two cores, was killed twice. Its first run wrote every kind of column, flushed half of it, added,
//! renamed, dropped and added columns again; the log of its second run, which numbered the columns of the same tables
//! otherwise, holds more of all that. `rows/<table>.json` has the rows that it read last.

use super::archive::{self, Files};
use super::directory_of_cassandra::{one, placed, text};
use super::plain;
use super::world::World;
use std::collections::BTreeMap;

fn expected<'f>(files: &'f Files, table: &str) -> Vec<&'f str> {
    std::str::from_utf8(&files[&format!("rows/{table}.json")]).expect("text").lines().collect()
}

fn check(world: &mut World, files: &Files, tables: &[&str], when: &str) {
    for table in tables {
        let outcome = one(world, &format!("SELECT JSON * FROM old.{table}"));
        let rows: Vec<String> = outcome.rows.iter().map(|row| text(&row[0])).collect();
        assert_eq!(rows, expected(files, table), "{table}, {when}");
    }
    let with_d1 = expected(files, "wide").iter().filter(|row| row.contains("\"d\": \"d1\"")).count();
    assert_eq!(one(world, "SELECT * FROM old.wide WHERE d = 'd1'").rows.len(), with_d1, "the index, {when}");
}

/// The ids of the columns of each table, those of dropped columns among them.
fn ids(world: &mut World) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, Vec<(i32, String)>> = BTreeMap::new();
    let all = "SELECT table_name, column_name, id FROM system_schema.helenus_column_ids WHERE keyspace_name = 'old'";
    for row in one(world, all).rows {
        let id = i32::from_be_bytes(row[2].clone().expect("an id").try_into().expect("an int"));
        found.entry(text(&row[0])).or_default().push((id, text(&row[1])));
    }
    let shown = |mut ids: Vec<(i32, String)>| {
        ids.sort();
        ids.into_iter().map(|(id, name)| format!("{name}={id}")).collect::<Vec<_>>().join(" ")
    };
    found.into_iter().map(|(table, ids)| (table, shown(ids))).collect()
}

#[test]
fn a_directory_without_column_ids_is_taken_over() {
    const TABLES: [&str; 7] = ["conditional", "counts", "dense", "dropped", "never", "thin", "wide"];
    let files = archive::before_column_ids();
    let mut world = World::new(2, &[]);
    let everything = ["data/", "commitlog/", "helenus.marker"].map(|from| placed(&files, from, from));
    world.put(everything.into_iter().flatten().collect());
    assert!(world.start(2));
    check(&mut world, &files, &TABLES, "at first");
    let first = [
        ("conditional", "p=0 a=1 b=2 z=3"),
        ("counts", "p=0 c=1 s=2 m=3 n=4"),
        ("dense", "p=0 c=1 v=2"),
        ("dropped", "p=0 b=1 c=2 a=3 x=4 y=5"),
        ("never", "p=0 a=1 b=2"),
        ("thin", "p=0 column1=1 b=2 z=3 value=4"),
        ("wide", "pk=0 c=1 r=2 s=3 a0=4 aa=5 b=6 d=7 e=8 f=9 l=10 m=11 t=12 u=13"),
    ];
    let mut first: BTreeMap<String, String> =
        first.into_iter().map(|(table, ids)| (table.to_owned(), ids.to_owned())).collect();
    assert_eq!(ids(&mut world), first);
    world.crash();
    assert!(world.start(2));
    check(&mut world, &files, &TABLES, "after a crash");
    assert_eq!(ids(&mut world), first);

    for statement in [
        "ALTER TABLE old.wide ADD (a text, z int static)",
        "INSERT INTO old.wide (pk, c, a, z) VALUES (1, 46, 'new', 5)",
        "ALTER TABLE old.wide DROP (a, z)",
        "ALTER TABLE old.dropped ADD (y text, a text)",
    ] {
        world.query(vec![plain(statement)]).remove(0).unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    first.entry("wide".to_owned()).or_default().push_str(" a=14 z=15");
    first.insert("dropped".to_owned(), "p=0 b=1 c=2 x=4 y=6 a=7".to_owned());
    let unaltered = TABLES.map(|table| if table == "dropped" { "never" } else { table });
    for (shards, when) in [(3, "altered"), (1, "altered, after a crash")] {
        assert_eq!(ids(&mut world), first);
        check(&mut world, &files, &unaltered, when);
        // What was written later than the drop is back, whether the old node had flushed it or not.
        for row in one(&mut world, "SELECT CAST(p AS text), a, b, c, y FROM old.dropped").rows {
            let p: i32 = text(&row[0]).parse().expect("a number");
            let shown = |cell: &Option<Vec<u8>>| cell.as_ref().map(|_| text(cell));
            assert_eq!(shown(&row[1]), (p < 20).then(|| format!("late a{p}")), "{when}");
            assert_eq!(shown(&row[2]), Some(if p < 20 { format!("late b{p}") } else { format!("new b{p}") }), "{when}");
            assert_eq!(shown(&row[3]), Some(format!("c{p}")), "{when}");
            assert_eq!(shown(&row[4]), (p < 10).then(|| format!("late y{p}")), "{when}");
        }
        world.crash();
        assert!(world.start(shards));
    }
    // The state of Paxos that the old node left.
    let applied = one(&mut world, "UPDATE old.conditional SET a = 1 WHERE p = 23 IF a = 33").rows.remove(0);
    assert_eq!(applied[0].as_deref(), Some(&[1][..]));
    world.stop();
}

//! Keyspaces: their tablets, quotas and replication, and what altering one leaves as it is.

use super::*;

#[test]
fn keyspaces_have_tablets_if_they_ask_for_them() {
    let mut world = World::new();
    let create = |name: &str, tablets: &str| {
        format!(
            "CREATE KEYSPACE {name} WITH replication = {{'class': 'NetworkTopologyStrategy'}} AND tablets = {tablets}"
        )
    };
    let tablets = |initial| Some(KeyspaceTablets { initial, is_managed: false });
    for (at, (written, expected)) in [
        ("{'enabled': true}", tablets(0)),
        ("{'enabled': 'TRUE', 'initial': '4'}", tablets(4)),
        ("{'initial': 1}", tablets(1)),
        ("{'enabled': true, 'initial': 65536}", tablets(65_536)),
        ("{'enabled': false}", None),
        ("{'enabled': false, 'initial': 4}", None),
        ("{}", None),
    ]
    .into_iter()
    .enumerate()
    {
        world.run(&create(&format!("k{at}"), written));
        assert_eq!(world.schema.keyspace(&format!("k{at}")).expect("there").tablets, expected, "{written}");
    }
    for (written, refused) in [
        ("{'enabled': 1}", "Tablets enabled value must be true or false; found: 1"),
        ("{'initial': -1}", "Initial tablets value should be numeric; found -1"),
        ("{'initial': 65537}", "Initial tablets value must be at most 65536; found 65537"),
        ("{'enabled': false, 'initial': 65537}", "Initial tablets value must be at most 65536; found 65537"),
        ("{'enabled': true, 'scope': 'x'}", "Unrecognized tablets option scope"),
    ] {
        let failure = world.apply(&create("other", written)).expect_err(written);
        assert_eq!((failure.code, &*failure.text), (ErrorCode::Config, refused));
    }
    let simple = "{'class': 'SimpleStrategy'}";
    let with = |replication| format!("CREATE KEYSPACE other WITH replication = {replication} AND tablets");
    assert_eq!(
        world.failure(&format!("{} = {{'enabled': true}}", with(simple))),
        "SimpleStrategy doesn't support tablet replication"
    );
    assert!(world.failure(&format!("{} = true", with(simple))).contains("It should be a map."));
    assert_eq!(
        world.failure("CREATE TABLE t (a int PRIMARY KEY) WITH tablets = true"),
        "Invalid value for property 'tablets'. It should be a map."
    );

    world.has_tablets = false;
    let failure = world.apply(&create("other", "{'enabled': true}")).expect_err("not everywhere");
    let text = "Some nodes run a version without tablets; update them first";
    assert_eq!((failure.code, &*failure.text), (ErrorCode::Invalid, text));
    world.run(&create("other", "{'enabled': false}"));
    world.has_tablets = true;
    world.schema.partitioner = model::Partitioner::Random;
    assert_eq!(
        world.failure(&create("more", "{'enabled': true}")),
        "RandomPartitioner doesn't support tablet replication"
    );
}

#[test]
fn keyspaces_have_quotas_if_they_ask_for_them() {
    let mut world = World::new();
    let quota = |world: &World| world.schema.keyspace("q").expect("there").quota;
    let most = QUOTA_UNITS_MAX;
    world.run(&format!(
        "CREATE KEYSPACE q WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}} AND quota = \
         {{'units_per_second': '{most}'}}"
    ));
    assert_eq!(quota(&world), Quota { units_per_second: Some(most), ..Quota::default() });
    world.run("ALTER KEYSPACE q WITH quota = {'units_per_second': 1000}");
    world.run("ALTER KEYSPACE q WITH quota = {'requests_at_once': 50}");
    assert_eq!(quota(&world), Quota { requests_at_once: Some(50), ..Quota::default() }, "all of it is replaced");
    world.run("ALTER KEYSPACE q WITH quota = {'units_per_second': 1000}");
    world.run("ALTER KEYSPACE q WITH durable_writes = false");
    assert_eq!(
        quota(&world),
        Quota { units_per_second: Some(1_000), ..Quota::default() },
        "it stays if it is not named"
    );
    let same = world.apply("ALTER KEYSPACE q WITH quota = {'units_per_second': '1000'}").expect("nothing");
    assert_eq!(same.change, None);
    let beyond = format!("{{'units_per_second': {}}}", most + 1);
    let text = |value: &str| {
        format!("Invalid value '{value}' for units_per_second of a quota: must be a whole number from 1 to {most}")
    };
    for (refused, text) in [
        ("{'units_per_second': 0}", text("0")),
        ("{'units_per_second': '-5'}", text("-5")),
        ("{'units_per_second': 1.5}", text("1.5")),
        ("{'units_per_second': 'many'}", text("many")),
        (&beyond, text(&(most + 1).to_string())),
        (
            "{'requests_at_once': 1000001}",
            "Invalid value '1000001' for requests_at_once of a quota: must be a whole number from 1 to 1000000".into(),
        ),
        ("{'units_per_second': 5, 'bytes': 1}", "Unknown option 'bytes' of a quota".into()),
    ] {
        assert_eq!(world.failure(&format!("ALTER KEYSPACE q WITH quota = {refused}")), text, "{refused}");
    }
    assert_eq!(
        world.failure("ALTER KEYSPACE q WITH quota = 5"),
        "Invalid value for property 'quota'. It should be a map."
    );
    let auth = Keyspace { name: "system_auth".into(), ..Keyspace::clone(world.schema.keyspace("q").expect("there")) };
    world.schema.put_keyspace(Arc::new(auth));
    let system = "ALTER KEYSPACE system_auth WITH quota = {'units_per_second': 5}";
    assert_eq!(world.failure(system), "The system keyspace system_auth cannot have a quota");
    world.has_stored_quotas = false;
    let text = "Some nodes run a version without quotas of bytes; update them first";
    assert_eq!(world.failure("ALTER KEYSPACE q WITH quota = {'bytes_stored': '5GiB'}"), text);
    world.has_quotas = false;
    let text = "Some nodes run a version without quotas; update them first";
    assert_eq!(world.failure("ALTER KEYSPACE q WITH quota = {'units_per_second': 5}"), text);
    world.run("ALTER KEYSPACE q WITH quota = {}");
    assert_eq!(quota(&world), Quota::default(), "it is taken away");
}

#[test]
fn so_many_keyspaces_have_quotas_of_bytes() {
    let mut world = World::new();
    let create = |number: usize| {
        format!(
            "CREATE KEYSPACE q{number} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}} AND quota \
             = {{'bytes_stored': '20GiB'}}"
        )
    };
    (0..STORED_QUOTAS_MAX).for_each(|number| world.run(&create(number)));
    let text = "At most 50 keyspaces can have a quota of bytes_stored";
    assert_eq!(world.failure(&create(STORED_QUOTAS_MAX)), text);
    world.run("ALTER KEYSPACE q0 WITH quota = {'bytes_stored': '30GiB'}");
    world.run("ALTER KEYSPACE q1 WITH quota = {}");
    world.run(&create(STORED_QUOTAS_MAX));
}

#[test]
fn a_managed_keyspace_is_one_with_tablets_and_four_replicas() {
    let mut world = World::new();
    let managed = Some(KeyspaceTablets { initial: 0, is_managed: true });
    let create = "CREATE KEYSPACE m WITH replication = {'class': 'ManagedStrategy'}";
    let applied = world.apply(create).expect("applies");
    let text =
        "Your replication factor 4 for keyspace m is higher than the number of nodes 1 for datacenter datacenter1";
    assert_eq!(applied.warnings, [text]);
    assert_eq!(world.schema.keyspace("m").expect("there").tablets, managed);
    for refused in [
        "CREATE KEYSPACE n WITH replication = {'class': 'ManagedStrategy'} AND tablets = {'enabled': false}",
        "ALTER KEYSPACE m WITH tablets = {'enabled': false}",
        "ALTER KEYSPACE k WITH replication = {'class': 'ManagedStrategy'}",
    ] {
        let text = world.failure(refused);
        assert!(text.contains("ManagedStrategy needs tablets"), "{refused}: {text}");
    }
    world.run("ALTER KEYSPACE m WITH durable_writes = false");
    assert_eq!(world.schema.keyspace("m").expect("there").tablets, managed);
    world.run("ALTER KEYSPACE m WITH replication = {'class': 'NetworkTopologyStrategy', 'datacenter1': 1}");
    let plain = Some(KeyspaceTablets { initial: 0, is_managed: false });
    assert_eq!(world.schema.keyspace("m").expect("there").tablets, plain);
    world.run("ALTER KEYSPACE m WITH replication = {'class': 'ManagedStrategy'}");
    assert_eq!(world.schema.keyspace("m").expect("there").tablets, managed);
}

#[test]
fn a_keyspace_is_switched_to_tablets_and_back() {
    let mut world = World::new();
    world.run(
        "CREATE KEYSPACE t WITH replication = {'class': 'NetworkTopologyStrategy'} AND tablets = {'enabled': true, \
         'initial': 4}",
    );
    for same in ["{}", "{'enabled': true}", "{'initial': 4}"] {
        let text = format!("ALTER KEYSPACE t WITH tablets = {same}");
        assert_eq!(world.apply(&text).expect(same).change, None, "{same}");
    }
    assert_eq!(world.apply("ALTER KEYSPACE k WITH tablets = {'enabled': false}").expect("nothing").change, None);
    world.run("ALTER KEYSPACE t WITH durable_writes = false");
    assert_eq!(
        world.schema.keyspace("t").expect("there").tablets,
        Some(KeyspaceTablets { initial: 4, is_managed: false })
    );
    for (text, refused) in [
        (
            "ALTER KEYSPACE t WITH tablets = {'enabled': false} AND replication = {'class': 'SimpleStrategy', \
             'replication_factor': 1}",
            "Cannot alter keyspace t: tablets and replication cannot be altered together",
        ),
        ("ALTER KEYSPACE k WITH tablets = {'enabled': true}", "SimpleStrategy doesn't support tablet replication"),
        (
            "ALTER KEYSPACE t WITH tablets = {'initial': 5}",
            "Cannot alter keyspace t: the initial number of tablets is 4 and cannot be changed",
        ),
        ("ALTER KEYSPACE t WITH tablets = {'scope': 5}", "Unrecognized tablets option scope"),
        (
            "ALTER KEYSPACE t WITH replication = {'class': 'SimpleStrategy'}",
            "SimpleStrategy doesn't support tablet replication",
        ),
    ] {
        assert_eq!(world.failure(text), refused, "{text}");
    }
    world.run("ALTER KEYSPACE t WITH tablets = {'enabled': false}");
    assert_eq!(world.schema.keyspace("t").expect("there").tablets, None);
    world.run("ALTER KEYSPACE t WITH tablets = {'enabled': true}");
    assert_eq!(
        world.schema.keyspace("t").expect("there").tablets,
        Some(KeyspaceTablets { initial: 0, is_managed: false })
    );
    world.run("CREATE TABLE t.wants (a int PRIMARY KEY) WITH tablets = {'min_tablet_count': 4}");
    assert_eq!(
        world.failure("ALTER KEYSPACE t WITH tablets = {'enabled': false}"),
        "Cannot alter keyspace t: table wants has the option tablets"
    );
    // A keyspace that is created again has only what it is created with.
    world.run("DROP KEYSPACE t");
    world.run("CREATE KEYSPACE t WITH replication = {'class': 'NetworkTopologyStrategy'}");
    assert_eq!(world.schema.keyspace("t").expect("there").tablets, None);
}

#[test]
fn a_keyspace_that_is_altered_keeps_its_tables() {
    let mut world = World::new();
    world.run("CREATE TABLE t (a int PRIMARY KEY)");
    let applied =
        world.apply("ALTER KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}");
    assert_eq!(
        applied.expect("applies").warnings,
        [
            "Your replication factor 3 for keyspace k is higher than the number of nodes 1",
            "When increasing replication factor you need to run a full (-full) repair to distribute the data."
        ]
    );
    let tables: BTreeMap<&str, &str> =
        world.schema.tables.values().map(|table| (table.keyspace.as_str(), table.name.as_str())).collect();
    assert_eq!(tables, BTreeMap::from([("k", "t")]));
}

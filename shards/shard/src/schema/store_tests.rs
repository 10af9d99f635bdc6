//! The system tables in a real store, on the simulator: first start, DDL rows, crash, next start.

use super::tests::sample;
use super::*;
use crate::config::sample as config;
use model::Partitioner;
use model::ShardMap;
use runtime::mesh::NodeId;
use runtime::sim::{Options, Sim};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

async fn open() -> Store {
    let config = config();
    let options = engine::Options {
        directories: "data".into(),
        shard_map: ShardMap::new(Partitioner::Murmur3, 1),
        sync: config.sync,
        segment_bytes: config.segment_bytes,
        log_bytes_max: config.log_bytes,
        incremental_backups: false,
        sstables: config.sstables,
        memtables: config.memtables,
        memtable_bytes_max: config.memory_bytes,
        cache_bytes_max: config.memory_bytes,
    };
    let store = Store::open(options).await.expect("opens");
    for keyspace in system_schema(model::Partitioner::Murmur3).keyspaces.values() {
        for table in keyspace.tables.values() {
            store.add_table(table.clone(), keyspace.home_of(&table.name));
        }
    }
    store.replay(&[]).await.expect("replays");
    store
}

/// Starts the way shard 0 does and returns what was loaded.
async fn start() -> (Store, Loaded, Identity) {
    let store = open().await;
    let loaded = load(&store).await.expect("loads");
    store.start(store.highest_counter()).await.expect("starts");
    let identity = settle(&config(), &store, &loaded).await.expect("settles");
    (store, loaded, identity)
}

/// Takes a timestamp the way DDL does, above every one in `system.local`, and stores it there with a new version.
async fn next_timestamp(store: &Store, schema: &Schema, version: u128) -> i64 {
    let table = rows::system_table(schema, "system", "local");
    let local = cells::read_partition(store, table, local::LOCAL_KEY.as_bytes()).await.expect("reads");
    let stored = Stored::load(schema, &local).expect("loads");
    let timestamp = runtime::wall_micros().max(stored.last_timestamp + 1);
    let changed = local::schema_version_changed(schema, Uuid::from_u128(version), timestamp);
    store.apply(changed, true).await.expect("applies");
    timestamp
}

/// Runs a node until `life` ends, then kills it.
fn live<T: 'static, F: Future<Output = T> + 'static>(sim: &mut Sim, life: impl Fn() -> F + 'static) -> T {
    let node = NodeId(0);
    let result = Rc::new(RefCell::new(None));
    let shared = result.clone();
    let life = Rc::new(life);
    sim.start_node(node, 1, move |_| {
        let (shared, life) = (shared.clone(), life.clone());
        async move {
            let value = life().await;
            *shared.borrow_mut() = Some(value);
        }
    });
    sim.run_until(Duration::from_secs(60), || result.borrow().is_some());
    sim.kill(node);
    let value = result.borrow_mut().take();
    value.expect("a life ends in time")
}

#[test]
fn schema_and_identity_survive_a_crash() {
    for seed in 0..8 {
        let mut sim = Sim::new(seed, Options { buggify: false, ..Options::default() });
        let identity = live(&mut sim, || async {
            let (store, loaded, identity) = start().await;
            assert_eq!((loaded.outdated.len(), &loaded.identity), (5, &None));
            assert!(loaded.schema.keyspace("Schema_L").is_none());
            let timestamp = next_timestamp(&store, &loaded.schema, 4).await;
            let created = rows::keyspace_created(&loaded.schema, &sample(), timestamp);
            store.apply(created, true).await.expect("applies");
            identity
        });
        let again = live(&mut sim, || async {
            let (store, loaded, identity) = start().await;
            assert_eq!(loaded.outdated, Vec::<String>::new());
            assert_eq!(loaded.schema.version, Uuid::from_u128(4));
            assert_eq!(loaded.schema.keyspace("Schema_L").map(|keyspace| &**keyspace), Some(&sample()));
            let now = next_timestamp(&store, &loaded.schema, 5).await;
            let table = loaded.schema.table("Schema_L", "Tab").expect("there").clone();
            let before = loaded.schema.keyspace("Schema_L").expect("there");
            let after = Keyspace { tables: BTreeMap::new(), ..Keyspace::clone(before) };
            let dropped = rows::keyspace_changed(&loaded.schema, before, &after, now, now / 1_000_000);
            store.apply(dropped, true).await.expect("applies");
            let truncation = Truncation { counter_floor: 9, positions: Vec::new(), at_millis: 1 };
            let known = rows::system_table(&loaded.schema, "system_auth", "roles").id;
            let records = [(table.id, truncation.clone()), (known, truncation)];
            store.apply(local::truncated(&loaded.schema, &records, now), true).await.expect("applies");
            identity
        });
        assert_eq!((again.host_id, &again.tokens), (identity.host_id, &identity.tokens));
        assert!(again.generation > identity.generation);
        let truncations = live(&mut sim, || async {
            let (store, loaded, _) = start().await;
            assert_eq!(loaded.schema.version, Uuid::from_u128(5));
            let keyspace = loaded.schema.keyspace("Schema_L").expect("there").clone();
            assert!(keyspace.tables.is_empty());
            let now = next_timestamp(&store, &loaded.schema, 6).await;
            let dropped = rows::keyspace_dropped(&loaded.schema, "Schema_L", now, now / 1_000_000);
            store.apply(dropped, true).await.expect("applies");
            loaded.truncations.len()
        });
        // The start after the drop forgot the truncation record of the dropped table.
        let later = live(&mut sim, || async {
            let (_, loaded, _) = start().await;
            assert!(loaded.schema.keyspace("Schema_L").is_none());
            loaded.truncations.len()
        });
        assert_eq!((truncations, later), (2, 1));
    }
}

//! Telling drivers where tablets are: the ring of tokens that `system.peers` shows does not say it.
//!
//! As in ScyllaDB, a driver that knows tablets asks some node first. If that is no replica of the partition, the answer
//! names the partition's tablet with its replicas, and the driver asks one of these from then on.
//!
//! 1. The partition key is that of the markers that PREPARE has named for routing ([`cql::Prepared`]): a driver cannot
//!    route other requests.
//! 2. A replica's core is the one that has this partition. A tablet is spread over all cores of a node, so a request
//!    that comes to another core of a replica is not worth telling.
//!
//! Invariants: a table without tablets is never told of; the range and the replicas are those of one placement.

use crate::shard_state::Shard;
use cluster::placement::Placement;
use cql::Prepared;
use cql::plan::Plan;
use model::key::push_composite;
use model::tablets::TabletRoute;
use model::value::BoundValue;
use model::{DecoratedKey, Partitioner, Table};

/// The tablet of a request's partition, if this node is no replica of it.
pub(super) fn to_tell(shard: &Shard, prepared: &Prepared, bound: &[BoundValue<'_>]) -> Option<Box<TabletRoute>> {
    let table = match &prepared.plan {
        Plan::Select(select) => &select.table,
        Plan::Modify(modify) => &modify.table,
        Plan::Transaction(transaction) => &transaction.table,
        _ => return None,
    };
    let placement = shard.placement();
    placement.tablets(table.id)?;
    let key = key_of(&prepared.partition_key_markers, bound)?;
    route(&placement, table, &DecoratedKey::new(Partitioner::Murmur3, &key)).map(Box::new)
}

/// The partition key whose components are bound to these markers; `None` if there are none, or one has no value.
fn key_of(markers: &[u16], bound: &[BoundValue<'_>]) -> Option<Vec<u8>> {
    let component = |marker: &u16| match bound.get(usize::from(*marker))? {
        BoundValue::Bytes(bytes) => Some(*bytes),
        _ => None,
    };
    let components: Vec<&[u8]> = markers.iter().map(component).collect::<Option<_>>()?;
    match components.as_slice() {
        [] => None,
        [only] => Some(only.to_vec()),
        several => {
            let mut key = Vec::new();
            push_composite(several.iter().copied(), &mut key);
            Some(key)
        }
    }
}

/// The tablet of a key, if this node is no replica of it.
fn route(placement: &Placement, table: &Table, key: &DecoratedKey) -> Option<TabletRoute> {
    let (map, placed) = (placement.tablets(table.id)?, placement.table(table.id)?);
    let topology = placement.topology();
    let replicas = placed.replicas(key.token, &key.key);
    if replicas.natural().any(|replica| replica.node == topology.here()) {
        return None;
    }
    let at = map.at(key.token.0);
    let end_of = |at: usize| map.tablets[at].until;
    Some(TabletRoute {
        after: at.checked_sub(1).and_then(end_of).unwrap_or(i64::MIN),
        until: end_of(at).unwrap_or(i64::MAX),
        replicas: replicas
            .natural()
            .map(|replica| (topology.node(replica.node).host_id.into_bytes(), replica.shard))
            .collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::system_schema;
    use crate::schema::tests::sample;
    use cluster::tablets::{Tablet, TabletMap, Tablets};
    use cluster::topology::{Node, NodeIndex, Topology, features};
    use model::{RingToken, ShardMap};
    use std::collections::BTreeMap;
    use std::rc::Rc;
    use std::sync::Arc;
    use uuid::Uuid;

    #[test]
    fn the_key_is_that_of_the_markers_for_routing() {
        let bound = [BoundValue::Bytes(b"ab"), BoundValue::Null, BoundValue::Bytes(b"c")];
        assert_eq!(key_of(&[], &bound), None);
        assert_eq!(key_of(&[2], &bound).as_deref(), Some(&b"c"[..]));
        assert_eq!(key_of(&[2, 0], &bound).as_deref(), Some(&b"\0\x01c\0\0\x02ab\0"[..]));
        assert_eq!(key_of(&[0, 1], &bound), None);
    }

    /// A tablet is told by a node that does not have it, and by no other.
    #[test]
    fn a_node_tells_of_tablets_that_it_does_not_have() {
        let mut schema = system_schema(Partitioner::Murmur3);
        schema.put_keyspace(Arc::new(sample()));
        let table = schema.table("Schema_L", "Tab").expect("there").clone();
        let host = |number: u128| Uuid::from_u128(number + 1);
        let node = |number: u16| Node {
            host_id: host(u128::from(number)),
            address: ([127, 0, 0, 1], 7000 + number).into(),
            data_center: "datacenter1".into(),
            rack: "rack1".into(),
            shards: ShardMap::new(Partitioner::Murmur3, 4),
            tokens: vec![RingToken::Murmur3(i64::from(number))],
            features: features::ALL,
        };
        let tablet = |until, replicas: [u128; 2]| Tablet { until, replicas: replicas.map(host).to_vec(), goal: None };
        let map =
            TabletMap { tablets: vec![tablet(Some(-10), [0, 1]), tablet(Some(10), [1, 2]), tablet(None, [2, 0])] };
        let seen_from = |here: u16, tablets: &BTreeMap<_, _>| {
            let topology = Rc::new(Topology::new((0..3).map(node).collect(), NodeIndex(here), 1));
            let tablets = Tablets { maps: tablets.clone(), ..Tablets::default() };
            Placement::changing(topology, &schema, &BTreeMap::new(), (&tablets, &BTreeMap::new()))
        };
        let maps = BTreeMap::from([(table.id.0, Arc::new(map))]);
        let told = |here: u16, token: i64| {
            let placement = seen_from(here, &maps);
            let key = DecoratedKey { token: model::Token(token), ..DecoratedKey::new(Partitioner::Murmur3, b"k") };
            route(&placement, &table, &key)
        };
        let ends = |here, token| told(here, token).map(|route| (route.after, route.until));
        assert_eq!([0, 1, 2].map(|here| ends(here, -10)), [None, None, Some((i64::MIN, -10))]);
        assert_eq!([0, 1, 2].map(|here| ends(here, -9)), [Some((-10, 10)), None, None]);
        assert_eq!([0, 1, 2].map(|here| ends(here, 11)), [None, Some((10, i64::MAX)), None]);
        let shard = |token: i64| {
            let placement = seen_from(0, &maps);
            placement.table(table.id).expect("placed").shard_of(NodeIndex(1), model::Token(token))
        };
        for token in [-9, 10] {
            let replicas = told(0, token).expect("told").replicas;
            assert_eq!(replicas, [1, 2].map(|number| (host(number).into_bytes(), shard(token))));
        }
        let by_ring = seen_from(2, &BTreeMap::new());
        assert_eq!(route(&by_ring, &table, &DecoratedKey::new(Partitioner::Murmur3, b"k")), None);
    }
}

//! Levels as Cassandra 5.0.9 has them on one node, with factors from 0 to 3.

use super::*;
use crate::placement::tests::placed;
use crate::plan::{PartitionReadPlan, RangePiece, WritePlan, WriteType};
use crate::topology::tests::topology;
use Consistency::*;
use model::Token;

/// What the plan of a request needs and has.
type Answer = Result<(), (Consistency, i32, i32, String)>;

fn answer<T>(plan: Result<T, Failure>) -> Answer {
    plan.map(|_| ()).map_err(|failure| match failure.detail {
        Detail::Unavailable { consistency, required, alive } => {
            assert_eq!(failure.code, ErrorCode::Unavailable);
            (consistency, required, alive, failure.text.into_owned())
        }
        other => panic!("{other:?}"),
    })
}

/// A write, a read of a partition and one of a range.
fn answers(class: &str, options: &[(&str, &str)], level: Consistency) -> [Answer; 3] {
    let topology = Rc::new(topology(&[("datacenter1", "rack1", &[-9, 9])], 2));
    let table = placed(&topology, class, options);
    let live = LiveNodes::of(&topology, |_| true);
    let replicas = table.replicas(Token(3), &[]);
    [
        answer(WritePlan::new(level, WriteType::Simple, replicas, &live)),
        answer(PartitionReadPlan::new(level, replicas, &live)),
        answer(RangePiece::all(level, &table, &model::TokenRange::FULL, &live)),
    ]
}

fn simple(factor: &str, level: Consistency) -> [Answer; 3] {
    answers("SimpleStrategy", &[("replication_factor", factor)], level)
}

fn refused(level: Consistency, required: i32, alive: i32) -> Answer {
    Err((level, required, alive, format!("Cannot achieve consistency level {}", level.name())))
}

fn same(answer: Answer) -> [Answer; 3] {
    [answer.clone(), answer.clone(), answer]
}

#[test]
fn one_replica_satisfies_what_needs_one() {
    for level in [One, LocalOne, Quorum, LocalQuorum, EachQuorum, All, Serial, LocalSerial] {
        assert_eq!(simple("1", level), same(Ok(())), "{level:?}");
        assert_eq!(answers("LocalStrategy", &[], level), same(Ok(())), "{level:?}");
        assert_eq!(answers("NetworkTopologyStrategy", &[("datacenter1", "1")], level), same(Ok(())), "{level:?}");
    }
    assert_eq!(simple("1", Two), same(refused(Two, 2, 1)));
    assert_eq!(answers("LocalStrategy", &[], Three), same(refused(Three, 3, 1)));
    assert_eq!(simple("1", Any)[0], Ok(()));
}

#[test]
fn a_factor_above_the_nodes_makes_levels_unavailable() {
    for (level, required) in [(Two, 2), (Three, 3), (Quorum, 2), (All, 3), (LocalQuorum, 2), (EachQuorum, 2)] {
        assert_eq!(simple("3", level), same(refused(level, required, 1)), "{level:?}");
    }
    for level in [Any, One, LocalOne] {
        assert_eq!(simple("3", level), same(Ok(())), "{level:?}");
    }
    // Reads of a partition name the level at which they read; writes of batches and scans the one asked for.
    for (level, read) in [(Serial, Quorum), (LocalSerial, LocalQuorum)] {
        let [write, partition, range] = simple("3", level);
        assert_eq!((write, range), (refused(level, 2, 1), refused(level, 2, 1)));
        assert_eq!(partition, refused(read, 2, 1));
    }
    let each = (EachQuorum, 2, 0, "Cannot achieve consistency level EACH_QUORUM in DC datacenter1".to_string());
    assert_eq!(answers("NetworkTopologyStrategy", &[("datacenter1", "3")], EachQuorum), same(Err(each)));
}

#[test]
fn a_keyspace_without_replicas_has_nothing_to_read() {
    for (level, required) in [(One, 1), (LocalOne, 1), (Two, 2), (Quorum, 1), (LocalQuorum, 1), (EachQuorum, 1)] {
        assert_eq!(simple("0", level), same(refused(level, required, 0)), "{level:?}");
    }
    assert_eq!(simple("0", Any)[0], Ok(()));
    assert_eq!(simple("0", All), same(Err((All, 0, 0, "Insufficient full replicas".into()))));
}

#[test]
fn replicas_in_other_data_centers_do_not_count_for_local_levels() {
    let away = |level| answers("NetworkTopologyStrategy", &[("datacenter2", "1")], level);
    for level in [LocalOne, LocalQuorum] {
        assert_eq!(away(level), same(refused(level, 1, 0)), "{level:?}");
    }
    let each = (EachQuorum, 1, 0, "Cannot achieve consistency level EACH_QUORUM in DC datacenter2".to_string());
    assert_eq!(away(EachQuorum), same(Err(each)));
}

#[test]
fn levels_that_do_not_fit_are_invalid() {
    let text = |result: Result<(), Failure>| {
        let failure = result.unwrap_err();
        assert_eq!(failure.code, ErrorCode::Invalid);
        failure.text.into_owned()
    };
    let levels = |class: &str| {
        let topology = Rc::new(topology(&[("datacenter1", "rack1", &[0])], 1));
        placed(&topology, class, &[("datacenter1", "1")]).keyspace().levels().clone()
    };
    assert_eq!(text(check_read(Any)), "ANY ConsistencyLevel is only supported for writes");
    for level in [Serial, LocalSerial] {
        assert_eq!(text(check_write(level)), "You must use conditional updates for serializable writes");
        assert_eq!(text(check_counter_write(level, "c")), "Counter operations are inherently non-serializable");
        assert_eq!(check_batch(level), Ok(()));
    }
    let any = "Consistency level ANY is not yet supported for counter table c";
    assert_eq!(text(check_counter_write(Any, "c")), any);
    let any = "Write operation require a read but consistency ANY is not supported on reads";
    assert_eq!(text(check_reading_write(Any)), any);
    let expected = "NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes";
    let simple = levels("SimpleStrategy");
    for check in [
        check_read(NodeLocal),
        check_write(NodeLocal),
        check_batch(NodeLocal),
        check_counter_write(NodeLocal, "c"),
        check_conditional(Serial, NodeLocal, &simple),
    ] {
        assert_eq!(text(check), expected);
    }
    for commit in [Any, One, Two, Three, Quorum, All, LocalQuorum, LocalOne] {
        assert_eq!(check_conditional(Serial, commit, &simple), Ok(()), "{commit:?}");
    }
    assert_eq!(
        text(check_conditional(Quorum, One, &simple)),
        "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL"
    );
    assert!(
        text(check_conditional(Serial, LocalSerial, &simple))
            .starts_with("LOCAL_SERIAL is not supported as conditional update commit")
    );
    assert_eq!(
        text(check_conditional(Serial, EachQuorum, &simple)),
        "consistency level EACH_QUORUM not compatible with replication strategy \
         (org.apache.cassandra.locator.SimpleStrategy)"
    );
    assert_eq!(check_conditional(Serial, EachQuorum, &levels("NetworkTopologyStrategy")), Ok(()));
}

/// What a table of a managed keyspace with so many replicas needs, in a data centre of `local` of them and another one.
fn managed(local: u32, far: u32) -> Levels {
    let topology = topology(&[("dc1", "rack1", &[-9]), ("dc2", "rack1", &[9])], 1);
    let factors = [("dc1", local), ("dc2", far)].map(|(name, factor)| (name.to_owned(), factor));
    Levels::managed(&factors.into_iter().filter(|(_, factor)| *factor > 0).collect(), "", &topology)
}

#[test]
fn managed_writes_need_a_majority_at_every_level() {
    for (replicas, majority) in [(1, 1), (2, 2), (3, 2), (4, 3)] {
        let levels = managed(replicas, 0);
        for level in [One, LocalOne, Two, Quorum, LocalQuorum, EachQuorum] {
            let required = levels.required_by_write(level);
            assert_eq!((required.block_for, required.level), (majority, level), "{replicas} replicas");
        }
        assert_eq!(levels.required_by_write(Three).block_for, replicas.min(3));
        assert_eq!(levels.required_by_write(All).block_for, replicas);
        assert_eq!(levels.required_by_write(Any).block_for, 1);
        let reads = [One, LocalOne, Two, Three, LocalQuorum].map(|level| levels.required(level).block_for);
        assert_eq!(reads, [1, 1, replicas.min(2), replicas.min(3), majority]);
        // Two replicas, or all, meet every majority.
        assert!(majority + levels.required(Two).block_for > replicas);
    }
}

#[test]
fn managed_writes_need_a_majority_of_the_local_data_centre() {
    let levels = managed(4, 4);
    let needed = |level| {
        let required = levels.required_by_write(level);
        (required.block_for, required.scope == Scope::Local)
    };
    assert_eq!([One, Two, LocalQuorum].map(needed), [(3, true); 3]);
    assert_eq!([Quorum, EachQuorum, All].map(needed), [(5, false), (6, false), (8, false)]);
    let far = managed(0, 4).required_by_write(LocalOne);
    assert_eq!((far.block_for, far.scope), (3, Scope::All), "no replica is here");
}

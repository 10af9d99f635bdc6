//! Consistency levels: how many acknowledgements a request needs.
//!
//! There is only one data centre, so that the LOCAL_ and EACH_ levels need as many as the plain ones. The SERIAL levels
//! need a majority, and errors call it QUORUM.

use crate::replication::replication_factor;
use model::failure::Detail;
use model::schema::Replication;
use model::{Consistency, ErrorCode, Failure};

/// What a request needs at some level in some keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Requirement {
    /// The number of acknowledgements.
    pub block_for: usize,
}

/// What a read at `level` needs, with `alive` live replicas. Fails as Unavailable, with Cassandra's text, if fewer
/// replicas are alive than needed, and as Invalid for levels that reads cannot have (ANY).
pub fn for_read(level: Consistency, replication: &Replication, alive: usize) -> Result<Requirement, Failure> {
    if level == Consistency::Any {
        return Err(Failure::invalid("ANY ConsistencyLevel is only supported for writes"));
    }
    require(level, replication, alive)
}

/// What an unconditional write at `level` needs, with `alive` live replicas. Fails as [`for_read`] does; levels that
/// writes cannot have are the SERIAL ones.
pub fn for_write(level: Consistency, replication: &Replication, alive: usize) -> Result<Requirement, Failure> {
    if matches!(level, Consistency::Serial | Consistency::LocalSerial) {
        return Err(Failure::invalid("You must use conditional updates for serializable writes"));
    }
    require(level, replication, alive)
}

/// What a conditional statement needs: `serial` is the level of the decision, `commit` that of writing the outcome.
/// Fails as [`for_read`] does; only the decision is checked for enough live replicas.
pub fn for_cas(
    serial: Consistency,
    commit: Consistency,
    replication: &Replication,
    alive: usize,
) -> Result<Requirement, Failure> {
    if !serial.is_serial() {
        return Err(Failure::invalid(
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL",
        ));
    }
    match commit {
        Consistency::Serial | Consistency::LocalSerial => {
            let name = commit.name();
            return Err(Failure::invalid(format!(
                "{name} is not supported as conditional update commit consistency. Use ANY if you mean \"make sure it is \
                 accepted but I don't care how many replicas commit it for non-SERIAL reads\""
            )));
        }
        Consistency::EachQuorum if !replication.class.ends_with("NetworkTopologyStrategy") => {
            let class = &replication.class;
            return Err(Failure::invalid(format!(
                "consistency level EACH_QUORUM not compatible with replication strategy ({class})"
            )));
        }
        _ => {}
    }
    require(serial, replication, alive)
}

fn require(level: Consistency, replication: &Replication, alive: usize) -> Result<Requirement, Failure> {
    let level = match level {
        Consistency::Serial => Consistency::Quorum,
        Consistency::LocalSerial => Consistency::LocalQuorum,
        other => other,
    };
    let factor = || replication_factor(replication);
    let block_for = match level {
        // The coordinator itself may store the write for a replica that is down.
        Consistency::Any => return Ok(Requirement { block_for: 1 }),
        Consistency::One | Consistency::LocalOne => 1,
        Consistency::Two => 2,
        Consistency::Three => 3,
        Consistency::Quorum
        | Consistency::LocalQuorum
        | Consistency::EachQuorum
        | Consistency::Serial
        | Consistency::LocalSerial => factor() / 2 + 1,
        Consistency::All => factor(),
        Consistency::NodeLocal => {
            return Err(Failure::invalid(
                "NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes",
            ));
        }
    };
    if alive < block_for {
        let text = format!("Cannot achieve consistency level {}", level.name());
        let detail = Detail::Unavailable { consistency: level, required: saturate(block_for), alive: saturate(alive) };
        return Err(Failure::new(ErrorCode::Unavailable, text).with(detail));
    }
    Ok(Requirement { block_for })
}

fn saturate(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::tests::replication;

    fn simple(factor: &str) -> Replication {
        replication("SimpleStrategy", &[("replication_factor", factor)])
    }

    #[test]
    fn one_replica_satisfies_what_needs_one() {
        use Consistency::*;
        for level in [One, LocalOne, Quorum, LocalQuorum, EachQuorum, All] {
            assert_eq!(for_read(level, &simple("1"), 1), Ok(Requirement { block_for: 1 }), "{level:?}");
            assert_eq!(for_write(level, &simple("1"), 1), Ok(Requirement { block_for: 1 }), "{level:?}");
        }
        assert_eq!(for_write(Any, &simple("1"), 0), Ok(Requirement { block_for: 1 }));
        assert_eq!(for_read(Serial, &simple("1"), 1), Ok(Requirement { block_for: 1 }));
        assert_eq!(for_read(One, &replication("LocalStrategy", &[]), 1), Ok(Requirement { block_for: 1 }));
    }

    #[test]
    fn a_factor_above_the_nodes_makes_levels_unavailable() {
        let failure = for_write(Consistency::Quorum, &simple("3"), 1).unwrap_err();
        assert_eq!(failure.code, ErrorCode::Unavailable);
        assert_eq!(failure.text, "Cannot achieve consistency level QUORUM");
        let detail = Detail::Unavailable { consistency: Consistency::Quorum, required: 2, alive: 1 };
        assert_eq!(failure.detail, detail);
        for (level, required) in [(Consistency::Two, 2), (Consistency::Three, 3), (Consistency::All, 3)] {
            let detail = Detail::Unavailable { consistency: level, required, alive: 1 };
            assert_eq!(for_read(level, &simple("3"), 1).unwrap_err().detail, detail);
        }
        assert_eq!(for_read(Consistency::One, &simple("3"), 1), Ok(Requirement { block_for: 1 }));
        assert_eq!(for_read(Consistency::Quorum, &simple("3"), 2), Ok(Requirement { block_for: 2 }));
    }

    #[test]
    fn conditional_changes_need_a_majority() {
        use Consistency::*;
        for commit in [Any, One, Two, Three, Quorum, All, LocalQuorum, LocalOne] {
            assert_eq!(for_cas(Serial, commit, &simple("1"), 1), Ok(Requirement { block_for: 1 }), "{commit:?}");
        }
        let unavailable = for_cas(LocalSerial, One, &simple("3"), 1).unwrap_err();
        assert_eq!(unavailable.text, "Cannot achieve consistency level LOCAL_QUORUM");
        let text = |serial, commit| for_cas(serial, commit, &simple("1"), 1).unwrap_err().text.into_owned();
        assert_eq!(
            text(Quorum, One),
            "Invalid consistency for conditional update. Must be one of SERIAL or LOCAL_SERIAL"
        );
        assert!(text(Serial, LocalSerial).starts_with("LOCAL_SERIAL is not supported as conditional update commit"));
        assert!(text(Serial, EachQuorum).starts_with("consistency level EACH_QUORUM not compatible with"));
    }

    #[test]
    fn levels_that_do_not_fit_are_invalid() {
        let text = |result: Result<Requirement, Failure>| {
            let failure = result.unwrap_err();
            assert_eq!(failure.code, ErrorCode::Invalid);
            failure.text.into_owned()
        };
        let one = simple("1");
        assert_eq!(text(for_read(Consistency::Any, &one, 1)), "ANY ConsistencyLevel is only supported for writes");
        for level in [Consistency::Serial, Consistency::LocalSerial] {
            let expected = "You must use conditional updates for serializable writes";
            assert_eq!(text(for_write(level, &one, 1)), expected);
        }
        let expected =
            "NODE_LOCAL consistency level is highly dangerous and should be used only for debugging purposes";
        assert_eq!(text(for_read(Consistency::NodeLocal, &one, 1)), expected);
        assert_eq!(text(for_write(Consistency::NodeLocal, &one, 1)), expected);
    }
}

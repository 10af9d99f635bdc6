//! The property `tablets` of keyspaces, in ScyllaDB's words: `{'enabled': true|false, 'initial': N}`. A keyspace has
//! tablets if the property says so, or how many, or if its strategy is ManagedStrategy. The property of tables is in
//! [`model::tablets`].

use super::replication::MANAGED;
use super::table_options::OptionMap;
use super::{DefinitionContext, Result};
use model::schema::{KeyspaceTablets, Replication};
use model::tablets::{TABLETS_MAX, TableTablets};
use model::{Failure, Keyspace, Partitioner};

/// The property as written.
#[derive(Clone, Copy, Default)]
struct Written {
    enabled: Option<bool>,
    initial: Option<u32>,
}

impl Written {
    fn parse(pairs: &OptionMap) -> Result<Written> {
        let mut written = Written::default();
        for (name, value) in pairs {
            match name.as_str() {
                "enabled" => {
                    let text = || format!("Tablets enabled value must be true or false; found: {value}");
                    written.enabled = Some(value.to_ascii_lowercase().parse().map_err(|_| Failure::config(text()))?);
                }
                "initial" => {
                    let text = || format!("Initial tablets value should be numeric; found {value}");
                    let number: u64 = value.parse().map_err(|_| Failure::config(text()))?;
                    let most = || format!("Initial tablets value must be at most {TABLETS_MAX}; found {number}");
                    let initial = u32::try_from(number).ok().filter(|number| *number <= TABLETS_MAX);
                    written.initial = Some(initial.ok_or_else(|| Failure::config(most()))?);
                }
                other => return Err(Failure::config(format!("Unrecognized tablets option {other}"))),
            }
        }
        Ok(written)
    }

    /// Whether the keyspace is to have tablets; `None` if that is not said.
    fn asks(self) -> Option<bool> {
        self.enabled.or(self.initial.map(|_| true))
    }
}

/// The tablets of a keyspace that is created with the property `written`, or by ManagedStrategy.
pub(super) fn of_new_keyspace(
    (written, is_managed): (Option<&OptionMap>, bool),
    replication: &Replication,
    partitioner: Partitioner,
    site: &DefinitionContext<'_>,
) -> Result<Option<KeyspaceTablets>> {
    let written = written.map(Written::parse).transpose()?.unwrap_or_default();
    match written.asks() {
        Some(false) if is_managed => return Err(Failure::config(format!("{MANAGED} needs tablets"))),
        Some(true) => {}
        _ if is_managed => {}
        _ => return Ok(None),
    }
    check_strategy(replication)?;
    if partitioner != Partitioner::Murmur3 {
        let name = partitioner.simple_name();
        return Err(Failure::config(format!("{name} doesn't support tablet replication")));
    }
    if !site.has_tablets {
        return Err(Failure::invalid("Some nodes run a version without tablets; update them first"));
    }
    Ok(Some(KeyspaceTablets { initial: written.initial.unwrap_or(0), is_managed }))
}

/// The tablets of a keyspace that is altered with the property `written`, and is one of ManagedStrategy afterwards or
/// not. `after` has its replication after the
/// statement, and its tablets before it. A keyspace can be switched between the ring and tablets, though not together
/// with its replication.
pub(super) fn of_altered_keyspace(
    (written, is_managed): (Option<&OptionMap>, bool),
    before: &Keyspace,
    after: &Keyspace,
    partitioner: Partitioner,
    site: &DefinitionContext<'_>,
) -> Result<Option<KeyspaceTablets>> {
    let refused = |why: String| Err(Failure::invalid(format!("Cannot alter keyspace {}: {why}", after.name)));
    let asked = written.map(Written::parse).transpose()?.unwrap_or_default();
    let is_switched = asked.asks().is_some_and(|asks| asks != before.tablets.is_some());
    if is_switched && before.replication != after.replication {
        return refused("tablets and replication cannot be altered together".into());
    }
    match (before.tablets, asked.asks()) {
        (None, _) if is_managed => refused(format!("{MANAGED} needs tablets; enable them first")),
        (Some(_), Some(false)) if is_managed => refused(format!("{MANAGED} needs tablets")),
        (None, Some(true)) => of_new_keyspace((written, false), &after.replication, partitioner, site),
        (Some(_), Some(false)) => {
            let wants = |table: &&std::sync::Arc<model::Table>| table.options.tablets != TableTablets::default();
            match after.tables.values().find(wants) {
                Some(table) => refused(format!("table {} has the option tablets", table.name)),
                None => Ok(None),
            }
        }
        (Some(tablets), _) if asked.initial.is_some_and(|initial| initial != tablets.initial) => {
            refused(format!("the initial number of tablets is {} and cannot be changed", tablets.initial))
        }
        (tablets, _) => {
            tablets.map_or(Ok(()), |_| check_strategy(&after.replication))?;
            Ok(tablets.map(|tablets| KeyspaceTablets { is_managed, ..tablets }))
        }
    }
}

/// Refuses the option of a table that has no tablets.
pub(super) fn check_table(option: TableTablets, keyspace: &Keyspace) -> Result<()> {
    match keyspace.tablets {
        None if option != TableTablets::default() => Err(Failure::config(format!(
            "The table option tablets cannot be used: keyspace {} has no tablets",
            keyspace.name
        ))),
        _ => Ok(()),
    }
}

fn check_strategy(replication: &Replication) -> Result<()> {
    let strategy = replication.class.rsplit('.').next().unwrap_or_default();
    match strategy {
        "NetworkTopologyStrategy" => Ok(()),
        _ => Err(Failure::config(format!("{strategy} doesn't support tablet replication"))),
    }
}

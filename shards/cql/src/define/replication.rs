//! Checks the replication map of CREATE and ALTER KEYSPACE: expands class names, fills in defaults, refuses unknown
//! options.
//!
//! Invariants: the stored map has a factor per data centre (NetworkTopologyStrategy, factors of 0 left out) or one for
//! all (SimpleStrategy); what ALTER does not name is unchanged. ManagedStrategy, ours, is stored as
//! NetworkTopologyStrategy with [`MANAGED_FACTOR`] replicas: drivers know that one, and some of them give up all of
//! their routing when they meet a strategy that they do not know. What makes it another is in the keyspace's tablets.

use model::Failure;
use model::schema::Replication;
use std::collections::BTreeMap;

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";
/// The factor if none is given (Cassandra's `default_keyspace_rf`).
const FACTOR_DEFAULT: &str = "1";

/// The strategy whose replicas look after themselves.
pub(super) const MANAGED: &str = "ManagedStrategy";
/// Its number of replicas in a data centre: with one of them down for any reason, a second may fail and what was
/// acknowledged is still there.
pub(super) const MANAGED_FACTOR: &str = "4";

/// Whether a map as written asks for ManagedStrategy.
pub(super) fn is_managed(written: &[(String, String)]) -> bool {
    written.iter().any(|(name, value)| name == "class" && value == MANAGED)
}

/// Checks the map as written for `keyspace`, with Cassandra's texts. `before` is the keyspace's current replication,
/// `nodes` has the data centres.
pub(crate) fn check(
    keyspace: &str,
    written: &[(String, String)],
    before: Option<&Replication>,
    nodes: &BTreeMap<String, usize>,
) -> Result<Replication, Failure> {
    let Some((_, class)) = written.iter().find(|(name, _)| name == "class") else {
        return Err(Failure::config("Missing replication strategy class"));
    };
    let class = if class.contains('.') { class.clone() } else { format!("{PACKAGE}{class}") };
    let strategy = class.strip_prefix(PACKAGE).unwrap_or(&class);
    let given = written.iter().filter(|(name, _)| name != "class");
    let factor_before = before.and_then(|before| before.options.get(FACTOR));
    let factor_default = factor_before.map_or(FACTOR_DEFAULT, String::as_str);
    let mut options = BTreeMap::new();
    match strategy {
        "SimpleStrategy" => {
            options.insert(FACTOR.to_owned(), factor_default.to_owned());
            for (name, value) in given {
                if name != FACTOR {
                    return Err(unrecognized(name, strategy, keyspace));
                }
                factor(value)?;
                options.insert(name.clone(), value.clone());
            }
        }
        "NetworkTopologyStrategy" => {
            let mut everywhere = None;
            for (name, value) in given {
                if name == FACTOR {
                    everywhere = Some(value.as_str());
                    continue;
                }
                // A factor of 0 is left out below, whatever it is for.
                if !nodes.contains_key(name) && value.parse() != Ok(0) {
                    return Err(unrecognized(name, strategy, keyspace));
                }
                options.insert(name.clone(), value.clone());
            }
            if everywhere.is_some() || options.is_empty() {
                // The current factor of a data centre takes precedence over the factor for all.
                for data_center in nodes.keys() {
                    let before = before.and_then(|before| before.options.get(data_center)).map(String::as_str);
                    let factor = before.or(everywhere).unwrap_or(factor_default);
                    options.entry(data_center.clone()).or_insert_with(|| factor.to_owned());
                }
            }
            for value in options.values() {
                factor(value)?;
            }
            options.retain(|_, value| value.parse() != Ok(0));
            if options.is_empty() {
                return Err(Failure::config("Configuration for at least one datacenter must be present"));
            }
        }
        _ if is_managed(written) => {
            for (data_center, factor) in given {
                if !nodes.contains_key(data_center) && factor != "0" {
                    return Err(unrecognized(data_center, MANAGED, keyspace));
                }
                if factor != MANAGED_FACTOR && factor != "0" {
                    let text = format!("{MANAGED} has {MANAGED_FACTOR} replicas in a data centre, found {factor}");
                    return Err(Failure::config(text));
                }
                options.insert(data_center.clone(), factor.clone());
            }
            if options.is_empty() {
                options.extend(nodes.keys().map(|data_center| (data_center.clone(), MANAGED_FACTOR.to_owned())));
            }
            options.retain(|_, factor| factor != "0");
            if options.is_empty() {
                return Err(Failure::config("Configuration for at least one datacenter must be present"));
            }
            return Ok(Replication { class: format!("{PACKAGE}NetworkTopologyStrategy"), options });
        }
        "LocalStrategy" => {
            return Err(Failure::invalid(
                "Unable to use given strategy class: LocalStrategy is reserved for internal use.",
            ));
        }
        _ => return Err(Failure::config(format!("Unable to find replication strategy class '{class}'"))),
    }
    Ok(Replication { class: class.clone(), options })
}

fn unrecognized(option: &str, strategy: &str, keyspace: &str) -> Failure {
    Failure::config(format!("Unrecognized strategy option {{{option}}} passed to {strategy} for keyspace {keyspace}"))
}

/// Checks a replication factor: a number that is not negative.
fn factor(text: &str) -> Result<(), Failure> {
    if text.contains('/') {
        return Err(Failure::config("Transient replication is not enabled on this node"));
    }
    match text.parse::<i32>() {
        Ok(factor) if factor >= 0 => Ok(()),
        Ok(factor) => Err(Failure::config(format!("Replication factor must be non-negative, found {factor}"))),
        Err(_) => Err(Failure::config(format!("For input string: \"{text}\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DC: &str = "datacenter1";

    fn stored(class: &str, options: &[(&str, &str)], before: Option<&Replication>) -> Result<Replication, Failure> {
        let mut written = vec![("class".to_owned(), class.to_owned())];
        written.extend(options.iter().map(|(name, value)| (name.to_string(), value.to_string())));
        check("k", &written, before, &BTreeMap::from([(DC.to_owned(), 1)]))
    }

    fn factors(replication: &Replication) -> Vec<(&str, &str)> {
        replication.options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }

    #[test]
    fn network_topology_is_stored_per_data_centre() {
        let place = |options: &[(&str, &str)]| stored("NetworkTopologyStrategy", options, None);
        assert_eq!(factors(&place(&[(FACTOR, "3")]).expect("a map")), [(DC, "3")]);
        assert_eq!(factors(&place(&[(FACTOR, "1"), (DC, "2")]).expect("a map")), [(DC, "2")]);
        assert_eq!(factors(&place(&[]).expect("a map")), [(DC, "1")]);
        assert_eq!(factors(&place(&[(DC, "2"), ("dc1", "0")]).expect("a map")), [(DC, "2")]);
        for nothing in [&[(DC, "0")], &[(FACTOR, "0")], &[("dc1", "0")]] {
            let text = "Configuration for at least one datacenter must be present";
            assert_eq!(place(nothing).map_err(|failure| failure.text), Err(text.into()));
        }
        let failure = place(&[("dc1", "2")]).expect_err("unknown");
        let text = "Unrecognized strategy option {dc1} passed to NetworkTopologyStrategy for keyspace k";
        assert_eq!(failure.text, text);
    }

    #[test]
    fn managed_keyspaces_have_four_replicas() {
        let place = |options: &[(&str, &str)]| stored(MANAGED, options, None);
        for whole in [&[][..], &[(DC, "4")], &[(DC, "4"), ("gone", "0")]] {
            let managed = place(whole).expect("a map");
            assert_eq!(factors(&managed), [(DC, "4")]);
            assert_eq!(managed.class, "org.apache.cassandra.locator.NetworkTopologyStrategy");
        }
        let text = |options: &[(&str, &str)]| place(options).expect_err("refused").text;
        assert_eq!(text(&[(DC, "3")]), "ManagedStrategy has 4 replicas in a data centre, found 3");
        let unknown = "Unrecognized strategy option {dc1} passed to ManagedStrategy for keyspace k";
        assert_eq!(text(&[("dc1", "4")]), unknown);
        assert_eq!(text(&[(FACTOR, "4")]), unknown.replace("dc1", FACTOR));
        assert_eq!(text(&[(DC, "0")]), "Configuration for at least one datacenter must be present");
    }

    #[test]
    fn what_alter_does_not_name_stays() {
        let simple = stored("SimpleStrategy", &[(FACTOR, "3")], None).expect("a map");
        let again = stored("SimpleStrategy", &[], Some(&simple)).expect("a map");
        assert_eq!(factors(&again), [(FACTOR, "3")]);
        let network = stored("NetworkTopologyStrategy", &[], Some(&simple)).expect("a map");
        assert_eq!(factors(&network), [(DC, "3")]);
        let network = stored("NetworkTopologyStrategy", &[(FACTOR, "2")], Some(&network)).expect("a map");
        assert_eq!(factors(&network), [(DC, "3")]);
        let network = stored("NetworkTopologyStrategy", &[(DC, "2")], Some(&network)).expect("a map");
        assert_eq!(factors(&network), [(DC, "2")]);
    }
}

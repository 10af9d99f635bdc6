//! The replication map of CREATE KEYSPACE: short class names in full, defaults filled in, every option known.

use model::Failure;
use model::schema::Replication;
use std::collections::BTreeMap;

/// The data centres of the cluster, in which NetworkTopologyStrategy may place replicas.
pub(crate) const DATACENTERS: [&str; 1] = ["datacenter1"];

const PACKAGE: &str = "org.apache.cassandra.locator.";
const FACTOR: &str = "replication_factor";
/// What Cassandra takes when no factor is given (`default_keyspace_rf`).
const FACTOR_DEFAULT: &str = "1";

/// Checks the map as written for `keyspace`, with Cassandra's texts.
pub(crate) fn check(keyspace: &str, written: &[(String, String)]) -> Result<Replication, Failure> {
    let Some((_, class)) = written.iter().find(|(name, _)| name == "class") else {
        return Err(Failure::config("Missing replication strategy class"));
    };
    let class = if class.contains('.') { class.clone() } else { format!("{PACKAGE}{class}") };
    let strategy = class.strip_prefix(PACKAGE).unwrap_or(&class);
    let given = written.iter().filter(|(name, _)| name != "class");
    let mut options = BTreeMap::new();
    match strategy {
        "SimpleStrategy" => {
            options.insert(FACTOR.to_owned(), FACTOR_DEFAULT.to_owned());
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
                if !DATACENTERS.contains(&name.as_str()) {
                    return Err(unrecognized(name, strategy, keyspace));
                }
                options.insert(name.clone(), value.clone());
            }
            if everywhere.is_some() || options.is_empty() {
                for datacenter in DATACENTERS {
                    let factor = everywhere.unwrap_or(FACTOR_DEFAULT);
                    options.entry(datacenter.to_owned()).or_insert_with(|| factor.to_owned());
                }
            }
            let mut replicas = 0;
            for value in options.values() {
                replicas += factor(value)?;
            }
            if replicas == 0 {
                return Err(Failure::config("Configuration for at least one datacenter must be present"));
            }
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

/// A replication factor: a number that is not negative.
fn factor(text: &str) -> Result<i64, Failure> {
    if text.contains('/') {
        return Err(Failure::config("Transient replication is not enabled on this node"));
    }
    match text.parse::<i32>() {
        Ok(factor) if factor >= 0 => Ok(i64::from(factor)),
        Ok(factor) => Err(Failure::config(format!("Replication factor must be non-negative, found {factor}"))),
        Err(_) => Err(Failure::config(format!("For input string: \"{text}\""))),
    }
}

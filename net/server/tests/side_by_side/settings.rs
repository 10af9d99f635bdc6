//! What the environment says about a comparison with Cassandra.

use crate::dice;
use std::collections::BTreeSet;

/// The size and the output of a comparison.
pub(crate) struct Settings {
    /// How many statements to compare at least: `HELENUS_SIDE_STATEMENTS`, 2000.
    pub(crate) statements: u64,
    /// The seed of the first script, counted up from there: `HELENUS_SIDE_SEED`, 0.
    pub(crate) first_seed: u64,
    /// Features that no script uses, by the names in `dice.rs`, separated by commas: `HELENUS_SIDE_WITHOUT`.
    pub(crate) without: BTreeSet<String>,
    /// The partitioner of both sides: `HELENUS_SIDE_PARTITIONER`, Murmur3Partitioner.
    pub(crate) partitioner: String,
    /// Print a difference as it is found, with the schema and the step alone, and do not look for a shorter script:
    /// `HELENUS_SIDE_QUICK`.
    pub(crate) prints_at_once: bool,
    /// Print every script: `HELENUS_SIDE_SHOW`.
    pub(crate) prints_scripts: bool,
}

impl Settings {
    /// Reads the variables; panics if one of them makes no sense.
    pub(crate) fn from_environment() -> Settings {
        let number = |name: &str, default| {
            std::env::var(name)
                .ok()
                .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
        };
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let named = std::env::var("HELENUS_SIDE_WITHOUT").unwrap_or_default();
        let without: BTreeSet<String> = named.split(',').filter(|name| !name.is_empty()).map(String::from).collect();
        for name in &without {
            assert!(dice::FEATURES.contains(&name.as_str()), "no feature {name}; there are {:?}", dice::FEATURES);
        }
        Settings {
            statements: number("HELENUS_SIDE_STATEMENTS", 2000),
            first_seed: number("HELENUS_SIDE_SEED", 0),
            without,
            partitioner: std::env::var("HELENUS_SIDE_PARTITIONER").unwrap_or_else(|_| "Murmur3Partitioner".into()),
            prints_at_once: is_set("HELENUS_SIDE_QUICK"),
            prints_scripts: is_set("HELENUS_SIDE_SHOW"),
        }
    }
}

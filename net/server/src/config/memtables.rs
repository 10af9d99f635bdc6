//! `memtable.configurations`: the memtables that the table option `memtable` may name.
//!
//! 1. An entry has a `class_name` and `parameters`; what it does not give itself it takes from the entry that it
//!    `inherits`.
//! 2. `SkipListMemtable` and `ShardedSkipListMemtable` select the skip list, `TrieMemtable` the B+tree, which is the
//!    default.
//!
//! The parameters of Cassandra's classes say how cores share a memtable. Here no memtable is shared, so parameters are
//! checked and have no effect.

use super::{ConfigError, Given, error};
use model::{MemtableConfigurations, MemtableKind};
use serde_norway::{Mapping, Value};
use std::collections::BTreeMap;

/// The most configurations that a file may have.
pub(super) const CONFIGURATIONS_MAX: usize = 100;

const PACKAGE: &str = "org.apache.cassandra.db.memtable.";

/// An entry of `configurations`, before or after what it inherits was added.
#[derive(Clone, Default)]
struct Entry {
    class_name: Option<String>,
    inherits: Option<String>,
    parameters: BTreeMap<String, String>,
}

impl Given {
    pub(super) fn memtables(&self) -> Result<MemtableConfigurations, ConfigError> {
        let Some(value) = self.take("memtable") else { return Ok(MemtableConfigurations::default()) };
        let Value::Mapping(options) = value else { return error("memtable: options are needed") };
        let mut entries = BTreeMap::new();
        for (key, value) in options {
            match (key.as_str(), value) {
                (Some("configurations"), Value::Null) => {}
                (Some("configurations"), Value::Mapping(configurations)) => entries = read(configurations)?,
                _ => return error("memtable: configurations is its option"),
            }
        }
        if entries.len() > CONFIGURATIONS_MAX {
            return error(format!("memtable: {} configurations, at most {CONFIGURATIONS_MAX}", entries.len()));
        }
        let kinds = entries.keys().map(|name| Ok((name.clone(), kind_of(name, &resolve(name, &entries)?)?)));
        Ok(MemtableConfigurations::new(kinds.collect::<Result<_, ConfigError>>()?))
    }
}

fn read(configurations: &Mapping) -> Result<BTreeMap<String, Entry>, ConfigError> {
    let mut entries = BTreeMap::new();
    for (name, value) in configurations {
        let Some(name) = text(name) else { return error("memtable: the name of a configuration is no text") };
        let Value::Mapping(fields) = value else {
            return error(format!("memtable: configuration {name}: class_name or inherits is needed"));
        };
        let mut entry = Entry::default();
        for (field, value) in fields {
            match (field.as_str(), value) {
                (Some("class_name" | "inherits" | "parameters"), Value::Null) => {}
                (Some("class_name"), Value::String(class)) => entry.class_name = Some(class.clone()),
                (Some("inherits"), Value::String(other)) => entry.inherits = Some(other.clone()),
                (Some("parameters"), Value::Mapping(given)) => add_parameters(&name, given, &mut entry.parameters)?,
                // Cassandra accepts a list of maps as well.
                (Some("parameters"), Value::Sequence(list)) => {
                    for given in list {
                        let Value::Mapping(given) = given else {
                            return error(format!("memtable: configuration {name}: parameters are names and values"));
                        };
                        add_parameters(&name, given, &mut entry.parameters)?;
                    }
                }
                _ => {
                    return error(format!(
                        "memtable: configuration {name}: class_name, inherits and parameters are its options"
                    ));
                }
            }
        }
        entries.insert(name, entry);
    }
    Ok(entries)
}

fn add_parameters(name: &str, given: &Mapping, into: &mut BTreeMap<String, String>) -> Result<(), ConfigError> {
    for (parameter, value) in given {
        let (Some(parameter), Some(value)) = (text(parameter), text(value)) else {
            return error(format!("memtable: configuration {name}: parameters are names and values"));
        };
        into.insert(parameter, value);
    }
    Ok(())
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

/// The entry `name` with everything that it inherits.
fn resolve(name: &str, entries: &BTreeMap<String, Entry>) -> Result<Entry, ConfigError> {
    let mut resolved = entries.get(name).cloned().unwrap_or_default();
    let mut at = name;
    let mut steps = 0;
    while let Some(parent) = entries.get(at).and_then(|entry| entry.inherits.as_deref()) {
        if parent == at {
            return error(format!("memtable: Configuration entry {at} can not inherit itself."));
        }
        steps += 1;
        if steps > entries.len() {
            return error(format!("memtable: Detected loop when processing key {name}"));
        }
        let Some(entry) = entries.get(parent) else {
            if parent == model::memtable::DEFAULT_MEMTABLE {
                resolved.class_name = resolved.class_name.or_else(|| Some("TrieMemtable".into()));
                break;
            }
            return error(format!("memtable: Configuration entry {at} inherits non-existing entry {parent}."));
        };
        resolved.class_name = resolved.class_name.or_else(|| entry.class_name.clone());
        for (parameter, value) in &entry.parameters {
            resolved.parameters.entry(parameter.clone()).or_insert_with(|| value.clone());
        }
        at = parent;
    }
    Ok(resolved)
}

fn kind_of(name: &str, entry: &Entry) -> Result<MemtableKind, ConfigError> {
    let class = entry.class_name.as_deref().unwrap_or_default();
    if class.is_empty() {
        return error(format!("memtable: configuration {name}: The 'class_name' option must be specified."));
    }
    let (kind, taken): (MemtableKind, &[&str]) = match class.strip_prefix(PACKAGE).unwrap_or(class) {
        "SkipListMemtable" => (MemtableKind::Skiplist, &[]),
        "ShardedSkipListMemtable" => (MemtableKind::Skiplist, &["shards", "serialize_writes"]),
        "TrieMemtable" => (MemtableKind::Tree, &["shards"]),
        _ => {
            return error(format!(
                "memtable: configuration {name}: {class} is not one of SkipListMemtable, ShardedSkipListMemtable, \
                 TrieMemtable"
            ));
        }
    };
    let further: Vec<String> = entry
        .parameters
        .iter()
        .filter(|(parameter, _)| !taken.contains(&parameter.as_str()))
        .map(|(parameter, value)| format!("{parameter}={value}"))
        .collect();
    if !further.is_empty() {
        let class = class.strip_prefix(PACKAGE).unwrap_or(class);
        return error(format!(
            "memtable: Memtable class {PACKAGE}{class} does not accept any futher parameters, but {{{}}} were given.",
            further.join(", ")
        ));
    }
    match entry.parameters.get("shards").map(|shards| shards.parse::<i32>()) {
        None | Some(Ok(1..)) => Ok(kind),
        Some(_) => error(format!("memtable: configuration {name}: shards is a number from 1 on")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use MemtableKind::{Skiplist, Tree};

    fn kinds(configurations: &str, names: &[&str]) -> Result<Vec<Option<MemtableKind>>, String> {
        let config = Config::read(&format!("memtable:\n  configurations: {configurations}"), &[]);
        let memtables = config.map_err(|error| error.0)?.node.memtables;
        Ok(names.iter().map(|name| memtables.get(name)).collect())
    }

    #[test]
    fn classes_and_what_inherits_them() {
        let built_in = ["default", "skiplist", "trie", "x"];
        assert_eq!(kinds("", &built_in), Ok(vec![Some(Tree), Some(Skiplist), Some(Tree), None]));
        assert_eq!(
            kinds(
                "{skiplist: {class_name: SkipListMemtable}, trie: {class_name: TrieMemtable}, default: {inherits: trie}}",
                &built_in
            ),
            Ok(vec![Some(Tree), Some(Skiplist), Some(Tree), None])
        );
        assert_eq!(
            kinds(
                "{default: {inherits: skiplist}, skiplist: {class_name: org.apache.cassandra.db.memtable.SkipListMemtable}, \
                 x: {inherits: y}, y: {inherits: default, class_name: TrieMemtable, parameters: {shards: 3}}, \
                 z: {class_name: ShardedSkipListMemtable, parameters: [{serialize_writes: false}, {shards: '4'}]}}",
                &["default", "x", "y", "z"]
            ),
            Ok(vec![Some(Skiplist), Some(Tree), Some(Tree), Some(Skiplist)])
        );
        assert_eq!(kinds("{skiplist: {class_name: TrieMemtable}}", &["skiplist"]), Ok(vec![Some(Tree)]));
        assert_eq!(kinds("{x: {inherits: default}}", &["x"]), Ok(vec![Some(Tree)]));
    }

    #[test]
    fn what_cassandra_would_not_take_is_refused_at_the_start() {
        for (configurations, text) in [
            ("{x: {inherits: x}}", "memtable: Configuration entry x can not inherit itself."),
            ("{x: {inherits: y}}", "memtable: Configuration entry x inherits non-existing entry y."),
            ("{x: {inherits: y}, y: {inherits: x}}", "memtable: Detected loop when processing key x"),
            ("{x: {}}", "memtable: configuration x: The 'class_name' option must be specified."),
            (
                "{x: {class_name: HeapMemtable}}",
                "memtable: configuration x: HeapMemtable is not one of SkipListMemtable, ShardedSkipListMemtable, \
                 TrieMemtable",
            ),
            (
                "{x: {class_name: SkipListMemtable, parameters: {shards: 1}}}",
                "memtable: Memtable class org.apache.cassandra.db.memtable.SkipListMemtable does not accept any futher \
                 parameters, but {shards=1} were given.",
            ),
            (
                "{x: {class_name: TrieMemtable, parameters: {shards: 0}}}",
                "memtable: configuration x: shards is a number from 1 on",
            ),
            (
                "{x: {class: TrieMemtable}}",
                "memtable: configuration x: class_name, inherits and parameters are its options",
            ),
            ("{x: 3}", "memtable: configuration x: class_name or inherits is needed"),
            ("3", "memtable: configurations is its option"),
        ] {
            assert_eq!(kinds(configurations, &[]), Err(text.to_owned()), "{configurations}");
        }
        assert!(Config::read("memtable: 3", &[]).is_err());
        let many = |count: usize| {
            let entries: Vec<String> = (0..count).map(|n| format!("c{n}: {{class_name: TrieMemtable}}")).collect();
            kinds(&format!("{{{}}}", entries.join(", ")), &[])
        };
        assert!(many(CONFIGURATIONS_MAX).is_ok());
        assert!(many(CONFIGURATIONS_MAX + 1).is_err());
    }
}

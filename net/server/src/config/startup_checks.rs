//! Checks that a node makes at its start (`startup_checks`).

use super::given::Given;
use super::options::kind::{flag, scalar};
use super::{ConfigError, error};
use serde_norway::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

const OPTION: &str = "startup_checks";

/// A node that was away for longer than tombstones are kept does not start: other replicas may have forgotten
/// deletions that it has never seen.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ResurrectionCheck {
    /// The file that says when the node was last up; `cassandra-heartbeat` in the first data directory if none is
    /// given.
    pub heartbeat_file: Option<PathBuf>,
    /// Keyspaces that are not looked at.
    pub excluded_keyspaces: BTreeSet<String>,
    /// Tables that are not looked at: keyspace and name.
    pub excluded_tables: BTreeSet<(String, String)>,
}

impl Given {
    /// Whether a check is switched on or off; `None` if that is not said.
    fn startup_check(&self, check: &str) -> Result<Option<bool>, ConfigError> {
        let Some(text) = self.check_option(check, "enabled")? else { return Ok(None) };
        match flag(&text) {
            None => error(format!("{OPTION}.{check}.enabled: {text} is neither true nor false")),
            is_enabled => Ok(is_enabled),
        }
    }

    fn check_option(&self, check: &str, name: &str) -> Result<Option<String>, ConfigError> {
        let value = self.take(OPTION).and_then(|checks| checks.get(check)?.get(name));
        let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
        match scalar(value) {
            Some(text) => Ok(Some(text)),
            None => error(format!("{OPTION}.{check}.{name}: one value is needed")),
        }
    }

    /// Whether a start with another data centre and with another rack is refused.
    pub(super) fn location_checks(&self) -> Result<(bool, bool), ConfigError> {
        let is_checked = |check| Ok::<bool, ConfigError>(self.startup_check(check)?.unwrap_or(true));
        Ok((is_checked("check_dc")?, is_checked("check_rack")?))
    }

    pub(super) fn resurrection_check(&self) -> Result<Option<ResurrectionCheck>, ConfigError> {
        const OWNERSHIP: &str = "check_filesystem_ownership";
        const CHECK: &str = "check_data_resurrection";
        const OPTIONS: [&str; 4] = ["enabled", "heartbeat_file", "excluded_keyspaces", "excluded_tables"];
        if self.startup_check(OWNERSHIP)? == Some(true) {
            return error(format!("{OPTION}.{OWNERSHIP}: not supported; the markers of data directories are checked"));
        }
        if let Some(Value::Mapping(options)) = self.take(OPTION).and_then(|checks| checks.get(CHECK)) {
            let mut names = options.keys().map(|name| name.as_str().unwrap_or_default());
            if let Some(unknown) = names.find(|name| !OPTIONS.contains(name)) {
                return error(format!("{OPTION}.{CHECK}.{unknown}: the options are {}", OPTIONS.join(", ")));
            }
        }
        if self.startup_check(CHECK)? != Some(true) {
            return Ok(None);
        }
        let names = |option| {
            let text = self.check_option(CHECK, option)?.unwrap_or_default();
            let names = text.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
            Ok::<Vec<String>, ConfigError>(names.collect())
        };
        let mut excluded_tables = BTreeSet::new();
        for name in names("excluded_tables")? {
            let Some((keyspace, table)) = name.split_once('.') else {
                return error(format!("{OPTION}.{CHECK}.excluded_tables: {name} is not keyspace.table"));
            };
            excluded_tables.insert((keyspace.to_owned(), table.to_owned()));
        }
        Ok(Some(ResurrectionCheck {
            heartbeat_file: self.check_option(CHECK, "heartbeat_file")?.map(PathBuf::from),
            excluded_keyspaces: names("excluded_keyspaces")?.into_iter().collect(),
            excluded_tables,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(checks: &str) -> Result<Config, String> {
        Config::read(&format!("startup_checks:\n{checks}"), &[]).map_err(|error| error.0)
    }

    #[test]
    fn checks_are_read() {
        let check = |checks| read(checks).expect("valid").resurrection_check;
        assert_eq!(Config::read("", &[]).expect("valid").resurrection_check, None);
        assert_eq!(check("  check_data_resurrection:\n    enabled: false\n    heartbeat_file: /x\n"), None);
        assert_eq!(check("  check_data_resurrection:\n    enabled: true\n"), Some(ResurrectionCheck::default()));
        let full = "  check_data_resurrection:\n    enabled: true\n    heartbeat_file: /x/y\n    \
                    excluded_keyspaces: a, b\n    excluded_tables: c.d,e.f\n";
        let named = |names: [&str; 2]| names.map(str::to_owned).into();
        let tables = [("c".to_owned(), "d".to_owned()), ("e".to_owned(), "f".to_owned())];
        let expected = ResurrectionCheck {
            heartbeat_file: Some("/x/y".into()),
            excluded_keyspaces: named(["a", "b"]),
            excluded_tables: tables.into(),
        };
        assert_eq!(check(full), Some(expected));
        let ignored = |checks| {
            let node = read(checks).expect("valid").node;
            (node.ignore_dc, node.ignore_rack)
        };
        assert_eq!(ignored("  check_dc:\n    enabled: true\n"), (false, false));
        assert_eq!(ignored("  check_dc:\n    enabled: false\n"), (true, false));
        assert_eq!(ignored("  check_rack:\n    enabled: false\n"), (false, true));
    }

    #[test]
    fn what_cannot_be_checked_is_refused_by_name() {
        let refused = |checks| read(checks).expect_err("refused");
        let text = refused("  check_filesystem_ownership:\n    enabled: true\n");
        assert!(text.starts_with("startup_checks.check_filesystem_ownership: not supported"), "{text}");
        let text = refused("  check_data_resurrection:\n    enabled: true\n    excluded_tables: a\n");
        assert_eq!(text, "startup_checks.check_data_resurrection.excluded_tables: a is not keyspace.table");
        let text = refused("  check_data_resurrection:\n    enabled: maybe\n");
        assert_eq!(text, "startup_checks.check_data_resurrection.enabled: maybe is neither true nor false");
        let text = refused("  check_data_resurrection:\n    heartbeat: x\n");
        assert!(text.starts_with("startup_checks.check_data_resurrection.heartbeat: the options are"), "{text}");
    }
}

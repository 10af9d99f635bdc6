//! Options of hints: mutations that are kept for nodes that miss them.

use super::given::Given;
use super::{ConfigError, error};
use serde_norway::Value;
use shard::HintOptions;
use std::collections::BTreeSet;
use std::time::Duration;

/// Most deliveries of a core at a time.
const DELIVERIES_MAX: usize = 1024;
/// The shortest period in which hints are written, and the smallest file.
const FLUSH_PERIOD_MIN: Duration = Duration::from_millis(1);

impl Given {
    pub(super) fn hints(&self) -> Result<HintOptions, ConfigError> {
        let default = HintOptions::default();
        let flag = |name, default| Ok(self.flag(name)?.unwrap_or(default));
        Ok(HintOptions {
            directory: self.text("hints_directory")?.map(Into::into),
            enabled: flag("hinted_handoff_enabled", default.enabled)?,
            disabled_centers: self.disabled_centers()?,
            throttle_bytes: self.bytes("hinted_handoff_throttle")?.unwrap_or(default.throttle_bytes),
            flush_period: match self.duration("hints_flush_period")? {
                Some(period) if period < FLUSH_PERIOD_MIN => return error("hints_flush_period: more than 0 is needed"),
                period => period.unwrap_or(default.flush_period),
            },
            window: self.duration("max_hint_window")?.unwrap_or(default.window),
            window_persistent: flag("hint_window_persistent_enabled", default.window_persistent)?,
            deliveries_max: self.count("max_hints_delivery_threads", DELIVERIES_MAX)?.unwrap_or(default.deliveries_max),
            file_bytes_max: self.bytes("max_hints_file_size")?.unwrap_or(default.file_bytes_max),
            host_bytes_max: self.bytes("max_hints_size_per_host")?.unwrap_or(default.host_bytes_max),
            age_from_creation: flag("use_creation_time_for_hint_ttl", default.age_from_creation)?,
            transfer_on_decommission: flag("transfer_hints_on_decommission", default.transfer_on_decommission)?,
        })
    }

    fn disabled_centers(&self) -> Result<BTreeSet<String>, ConfigError> {
        const NAME: &str = "hinted_handoff_disabled_datacenters";
        match self.take(NAME) {
            None => Ok(BTreeSet::new()),
            Some(Value::Sequence(names)) => {
                let name = |name: &Value| super::options::kind::scalar(name);
                let names: Option<BTreeSet<String>> = names.iter().map(name).collect();
                names.map_or_else(|| error(format!("{NAME}: a list of names is needed")), Ok)
            }
            // As in Cassandra's Set: one text names several.
            Some(Value::String(names)) => Ok(names.split(',').map(|name| name.trim().to_owned()).collect()),
            Some(_) => error(format!("{NAME}: a list of names is needed")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn options_of_hints_are_read() {
        let file = "hints_directory: /h\nhinted_handoff_enabled: false\nhinted_handoff_disabled_datacenters: [a, b]\n\
                    hinted_handoff_throttle_in_kb: 5\nhints_flush_period_in_ms: 7\nmax_hint_window: 1h\n\
                    hint_window_persistent_enabled: false\nmax_hints_delivery_threads: 3\nmax_hints_file_size: 1MiB\n\
                    max_hints_size_per_host: 9B\nuse_creation_time_for_hint_ttl: false\n\
                    transfer_hints_on_decommission: false";
        let read = Config::read(file, &[]).expect("valid");
        assert_eq!(read.unused, []);
        let expected = HintOptions {
            directory: Some("/h".into()),
            enabled: false,
            disabled_centers: ["a".to_owned(), "b".to_owned()].into(),
            throttle_bytes: 5 << 10,
            flush_period: Duration::from_millis(7),
            window: Duration::from_secs(3600),
            window_persistent: false,
            deliveries_max: 3,
            file_bytes_max: 1 << 20,
            host_bytes_max: 9,
            age_from_creation: false,
            transfer_on_decommission: false,
        };
        assert_eq!(read.node.hints, expected);
        assert_eq!(Config::read("", &[]).expect("valid").node.hints, HintOptions::default());
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        for option in ["auto_hints_cleanup_enabled: true", "enforce_native_deadline_for_hints: true"] {
            assert!(Config::read(option, &[]).is_err(), "{option}");
        }
        assert!(Config::read("hints_compression: LZ4Compressor", &[]).is_err());
        assert!(Config::read("hints_flush_period: 0ms", &[]).is_err());
    }
}

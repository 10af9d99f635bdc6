//! Options of repairs that run by themselves.

use super::given::Given;
use super::{ConfigError, error};
use std::time::Duration;

/// When tables are repaired without an operator.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AutoRepairOptions {
    /// Whether the node looks what is due.
    pub is_scheduled: bool,
    /// Whether full repairs, the only ones there are, run by themselves.
    pub is_enabled: bool,
    /// A table is not repaired more often than this, unless its tombstones need it.
    pub min_interval: Duration,
    /// How often the node looks what is due.
    pub check_interval: Duration,
    /// How long after its start the node looks for the first time.
    pub initial_delay: Duration,
    /// Whether each node repairs the ranges that it owns first, or all that it has.
    pub primary_range_only: bool,
}

impl Default for AutoRepairOptions {
    fn default() -> AutoRepairOptions {
        AutoRepairOptions {
            is_scheduled: false,
            is_enabled: false,
            min_interval: Duration::from_secs(86_400),
            check_interval: Duration::from_secs(300),
            initial_delay: Duration::from_secs(300),
            primary_range_only: true,
        }
    }
}

impl Given {
    pub(super) fn auto_repair(&self) -> Result<AutoRepairOptions, ConfigError> {
        let default = AutoRepairOptions::default();
        let flag = |name, default| Ok::<bool, ConfigError>(self.flag(name)?.unwrap_or(default));
        let mut is_scheduled = false;
        let is_enabled = flag("auto_repair.global_settings.enabled", false)?;
        for name in ["auto_repair.enabled", "auto_repair.auto_repair_scheduling_enabled"] {
            is_scheduled |= flag(name, false)?;
            if is_scheduled && !is_enabled {
                return error(format!(
                    "{name}: repairs run by themselves if auto_repair.global_settings.enabled is true as well"
                ));
            }
        }
        let seconds = |name, default| Ok::<Duration, ConfigError>(self.whole_seconds(name)?.unwrap_or(default));
        Ok(AutoRepairOptions {
            is_scheduled,
            is_enabled,
            min_interval: seconds("auto_repair.global_settings.min_repair_interval", default.min_interval)?,
            check_interval: seconds("auto_repair.repair_check_interval", default.check_interval)?,
            initial_delay: seconds("auto_repair.global_settings.initial_scheduler_delay", default.initial_delay)?,
            primary_range_only: flag(
                "auto_repair.global_settings.repair_primary_token_range_only",
                default.primary_range_only,
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn options_of_automatic_repair_are_read() {
        let read = |text: &str| Config::read(text, &[]).map(|config| config.auto_repair);
        assert_eq!(read("").expect("valid"), AutoRepairOptions::default());
        let file = "auto_repair:\n  enabled: true\n  repair_check_interval: 10s\n  global_settings:\n    enabled: true\n\
                    \x20   min_repair_interval: 2h\n    initial_scheduler_delay: 1s\n\
                    \x20   repair_primary_token_range_only: false\n";
        let expected = AutoRepairOptions {
            is_scheduled: true,
            is_enabled: true,
            min_interval: Duration::from_secs(7200),
            check_interval: Duration::from_secs(10),
            initial_delay: Duration::from_secs(1),
            primary_range_only: false,
        };
        assert_eq!(read(file).expect("valid"), expected);
        assert!(!read("auto_repair:\n  global_settings:\n    enabled: true\n").expect("valid").is_scheduled);
        assert!(read("auto_repair:\n  enabled: true\n").is_err(), "nothing would run");
    }
}

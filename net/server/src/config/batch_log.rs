//! Options of the batch log.

use super::given::Given;
use super::{ConfigError, error};
use shard::BatchLogStrategy;

impl Given {
    pub(super) fn batch_log_strategy(&self) -> Result<BatchLogStrategy, ConfigError> {
        const NAME: &str = "batchlog_endpoint_strategy";
        match self.text(NAME)?.as_deref() {
            None | Some("random_remote") => Ok(BatchLogStrategy::RandomRemote),
            Some("prefer_local") => Ok(BatchLogStrategy::PreferLocal),
            Some("dynamic_remote") => Ok(BatchLogStrategy::DynamicRemote),
            Some("dynamic") => Ok(BatchLogStrategy::Dynamic),
            Some(other) => error(format!("{NAME}: {other} is not a strategy")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn strategies_and_throttle_of_the_batch_log_are_read() {
        for (name, strategy) in [
            ("random_remote", BatchLogStrategy::RandomRemote),
            ("prefer_local", BatchLogStrategy::PreferLocal),
            ("dynamic_remote", BatchLogStrategy::DynamicRemote),
            ("dynamic", BatchLogStrategy::Dynamic),
        ] {
            let config = Config::read(&format!("batchlog_endpoint_strategy: {name}\n"), &[]).expect("valid");
            assert_eq!(config.node.batch_log_strategy, strategy, "{name}");
        }
        let throttled = |text: &str| Config::read(text, &[]).expect("valid").node.batch_log_replay_bytes_per_second;
        assert_eq!(throttled(""), 1 << 20);
        assert_eq!(throttled("batchlog_replay_throttle: 16KiB\n"), 16 << 10);
        assert_eq!(throttled("batchlog_replay_throttle_in_kb: 0\n"), 0);
    }
}

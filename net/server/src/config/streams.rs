//! Options of streaming: how fast and in what form SSTables go to other nodes.

use super::given::Given;
use super::{ConfigError, error, units};
use shard::StreamOptions;

impl Given {
    pub(super) fn streams(&self) -> Result<StreamOptions, ConfigError> {
        let default = StreamOptions::default();
        let flag = |name, default| Ok::<bool, ConfigError>(self.flag(name)?.unwrap_or(default));
        Ok(StreamOptions {
            throughput: self.rate("stream_throughput_outbound")?.unwrap_or(default.throughput),
            far_throughput: self.rate("inter_dc_stream_throughput_outbound")?.unwrap_or(default.far_throughput),
            whole_throughput: {
                let rate = self.rate("entire_sstable_stream_throughput_outbound")?;
                rate.unwrap_or(default.whole_throughput)
            },
            far_whole_throughput: {
                let rate = self.rate("entire_sstable_inter_dc_stream_throughput_outbound")?;
                rate.unwrap_or(default.far_whole_throughput)
            },
            whole_sstables: flag("stream_entire_sstables", default.whole_sstables)?,
            check_disk_space: !flag("skip_stream_disk_space_check", !default.check_disk_space)?,
            keep_alive: self.whole_seconds("streaming_keep_alive_period")?.unwrap_or(default.keep_alive),
        })
    }

    /// Bytes per second.
    pub(super) fn rate(&self, name: &'static str) -> Result<Option<u64>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match units::rate(&text) {
            Some(bytes) => Ok(Some(bytes)),
            None => error(format!("{name}: {text} is not a rate such as 64MiB/s")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use std::time::Duration;

    #[test]
    fn options_of_streaming_are_read() {
        let file = "stream_throughput_outbound: 1MiB/s\ninter_dc_stream_throughput_outbound_megabits_per_sec: 16\n\
                    entire_sstable_stream_throughput_outbound: 3MiB/s\n\
                    entire_sstable_inter_dc_stream_throughput_outbound: 0MiB/s\nstream_entire_sstables: false\n\
                    skip_stream_disk_space_check: true\nstreaming_keep_alive_period: 60s";
        let read = Config::read(file, &[]).expect("valid");
        assert_eq!(read.unused, []);
        let expected = StreamOptions {
            throughput: 1 << 20,
            far_throughput: 2_000_000,
            whole_throughput: 3 << 20,
            far_whole_throughput: 0,
            whole_sstables: false,
            check_disk_space: false,
            keep_alive: Duration::from_secs(60),
        };
        assert_eq!(read.node.streams, expected);
        assert_eq!(Config::read("", &[]).expect("valid").node.streams, StreamOptions::default());
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        assert!(Config::read("streaming_connections_per_host: 1", &[]).is_ok());
        for option in ["streaming_connections_per_host: 2", "max_streaming_retries: 5"] {
            assert!(Config::read(option, &[]).is_err(), "{option}");
        }
        assert!(Config::read("stream_throughput_outbound: fast", &[]).is_err());
    }
}

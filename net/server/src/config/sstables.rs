//! The options that say how SSTables are written: `sstable`, `storage_compatibility_mode`, `flush_compression`,
//! `column_index_size`.
//!
//! The format `big` is written in version `nb` in the mode `CASSANDRA_4` and in version `oa` otherwise; `bti`, the
//! default, in version `da`. Cassandra 4 cannot read `bti`, so in the mode `CASSANDRA_4` the default is `big`.

use super::{ConfigError, Given, error};
use serde_norway::Value;
use shard::{FlushCompression, SstableOptions, Version};

/// The largest `column_index_size`, bytes: Cassandra's number has 32 bits.
pub const ROW_INDEX_BYTES_MAX: u64 = i32::MAX as u64;
const FORMATS: [&str; 2] = ["big", "bti"];

impl Given {
    pub(super) fn sstables(&self) -> Result<SstableOptions, ConfigError> {
        let mode = self.text("storage_compatibility_mode")?;
        let is_4 = match mode.as_deref() {
            Some("CASSANDRA_4") => true,
            None | Some("UPGRADING" | "NONE") => false,
            Some(other) => {
                return error(format!(
                    "storage_compatibility_mode: {other} is not one of CASSANDRA_4, UPGRADING, NONE"
                ));
            }
        };
        let version = match self.selected_format()?.as_deref() {
            Some("bti") if is_4 => {
                return error(
                    "Selected sstable format 'bti' is not available when in storage compatibility mode 'CASSANDRA_4'.",
                );
            }
            Some("big") | None if is_4 => Version::Nb,
            Some("big") => Version::Oa,
            Some("bti") | None => Version::Da,
            Some(other) => return error(format!("Selected sstable format '{other}' is not available.")),
        };
        let flush_compression = match self.text("flush_compression")?.as_deref() {
            None | Some("fast") => FlushCompression::Fast,
            Some("none") => FlushCompression::None,
            Some("table") => FlushCompression::Table,
            Some(other) => return error(format!("flush_compression: {other} is not one of none, fast, table")),
        };
        let (row_index_bytes, logged) = (self.row_index_bytes()?, self.logged_thresholds()?);
        let refuses_negative_times = match self.text("corrupted_tombstone_strategy")?.as_deref() {
            None | Some("disabled") => false,
            Some("exception") => true,
            Some(other) => {
                return error(format!(
                    "corrupted_tombstone_strategy: {other} is not supported yet, only disabled and exception"
                ));
            }
        };
        let opens_without_damaged = self.disk_failure_policy()?.opens_without_damaged();
        Ok(SstableOptions {
            version,
            flush_compression,
            row_index_bytes,
            logged,
            refuses_negative_times,
            opens_without_damaged,
        })
    }

    /// `sstable.selected_format`; an empty one is Cassandra's default.
    fn selected_format(&self) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.take("sstable") else { return Ok(None) };
        let Value::Mapping(mapping) = value else { return error("sstable: options are needed") };
        let mut selected = None;
        for (key, value) in mapping {
            match (key.as_str(), value) {
                (_, Value::Null) => {}
                (Some("selected_format"), Value::String(name)) if name.trim().is_empty() => {
                    selected = Some("big".to_owned());
                }
                (Some("selected_format"), Value::String(name)) => selected = Some(name.clone()),
                (Some("format"), Value::Mapping(formats)) => {
                    // No format has options of its own.
                    let unknown = formats.keys().filter_map(Value::as_str).find(|name| !FORMATS.contains(name));
                    if let Some(name) = unknown {
                        return error(format!("Configuration contains options of unknown sstable formats: [{name}]"));
                    }
                }
                _ => return error("sstable: selected_format and format are its options"),
            }
        }
        Ok(selected)
    }

    fn row_index_bytes(&self) -> Result<Option<usize>, ConfigError> {
        const NAME: &str = "column_index_size";
        let bytes = match self.bytes(NAME)? {
            None => return Ok(None),
            Some(bytes) if bytes.is_multiple_of(1024) => bytes,
            Some(bytes) => return error(format!("{NAME}: {bytes}B is not a size in whole KiB")),
        };
        if bytes == 0 || bytes > ROW_INDEX_BYTES_MAX {
            return error(format!("{NAME} must be positive value <= {ROW_INDEX_BYTES_MAX}B, but was {bytes}B"));
        }
        Ok(Some(bytes as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(file: &str) -> Result<SstableOptions, String> {
        Config::read(file, &[]).map(|config| config.node.sstables).map_err(|error| error.0)
    }

    #[test]
    fn the_version_follows_format_and_mode() {
        let default = SstableOptions::default();
        assert_eq!(read(""), Ok(default));
        for (file, version) in [
            ("sstable:\n  selected_format: bti\nstorage_compatibility_mode: NONE", Version::Da),
            ("sstable: {selected_format: big}", Version::Oa),
            ("sstable: {selected_format: ''}", Version::Oa),
            (
                "sstable: {selected_format: big, format: {big: {}, bti: {}}}\nstorage_compatibility_mode: UPGRADING",
                Version::Oa,
            ),
            ("storage_compatibility_mode: UPGRADING", Version::Da),
            ("storage_compatibility_mode: CASSANDRA_4", Version::Nb),
            ("sstable: {selected_format: big}\nstorage_compatibility_mode: CASSANDRA_4", Version::Nb),
        ] {
            assert_eq!(read(file), Ok(SstableOptions { version, ..default }), "{file}");
        }
        for (file, text) in [
            (
                "sstable: {selected_format: bti}\nstorage_compatibility_mode: CASSANDRA_4",
                "Selected sstable format 'bti' is not available when in storage compatibility mode 'CASSANDRA_4'.",
            ),
            ("sstable: {selected_format: wide}", "Selected sstable format 'wide' is not available."),
            ("sstable: {format: {wide: {}}}", "Configuration contains options of unknown sstable formats: [wide]"),
            ("sstable: {selected: big}", "sstable.selected: unknown option; did you mean sstable.selected_format?"),
            ("sstable: big", "sstable: options are needed"),
            (
                "storage_compatibility_mode: CASSANDRA_3",
                "storage_compatibility_mode: CASSANDRA_3 is not one of CASSANDRA_4, UPGRADING, NONE",
            ),
        ] {
            assert_eq!(read(file), Err(text.to_owned()), "{file}");
        }
    }

    #[test]
    fn flushes_and_row_indexes() {
        let default = SstableOptions::default();
        let flush = |flush_compression| Ok(SstableOptions { flush_compression, ..default });
        assert_eq!(read("flush_compression: none"), flush(FlushCompression::None));
        assert_eq!(read("flush_compression: fast"), flush(FlushCompression::Fast));
        assert_eq!(read("flush_compression: table"), flush(FlushCompression::Table));
        assert!(read("flush_compression: slow").is_err());
        let refusing = Ok(SstableOptions { refuses_negative_times: true, ..default });
        assert_eq!(read("corrupted_tombstone_strategy: exception"), refusing);
        assert_eq!(read("corrupted_tombstone_strategy: disabled"), Ok(default));
        assert!(
            read("corrupted_tombstone_strategy: warn").is_err_and(|text| text.contains("only disabled and exception"))
        );
        let blocks = |bytes| Ok(SstableOptions { row_index_bytes: Some(bytes), ..default });
        assert_eq!(read("column_index_size: 4KiB"), blocks(4096));
        assert_eq!(read("column_index_size_in_kb: 1"), blocks(1024));
        assert_eq!(read("column_index_size: 2097151KiB"), blocks(2_097_151 << 10));
        let text = "column_index_size must be positive value <= 2147483647B, but was 2147483648B";
        assert_eq!(read("column_index_size: 2097152KiB"), Err(text.to_owned()));
        for wrong in [
            "column_index_size: 0KiB",
            "column_index_size: 5",
            "column_index_size: 1000B",
            "column_index_size_in_kb: 0",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

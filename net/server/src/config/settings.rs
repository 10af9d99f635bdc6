//! All options with their values, as `system_views.settings` shows them.
//!
//! Each step may replace values of those before it:
//! 1. Every option of the table gets Cassandra's default.
//! 2. Options that were given get their values. A group is shown option by option (`seed_provider.class_name`).
//! 3. Older names get the same values, in their own units.
//! 4. Options that this node has resolved or defaults differently get the values in use, in Cassandra's units.
//!
//! Invariants: values that may be secrets are not shown.

use super::Config;
use super::options::{self, kind::Kind};
use serde_norway::{Mapping, Value};
use shard::{OLD_SETTINGS, SyncMode, Version};
use std::collections::BTreeMap;
use std::time::Duration;

/// What Cassandra shows in place of a secret.
const REDACTED: &str = "<REDACTED>";
/// Parts of an option that are nested deeper than this are not shown.
const DEPTH_MAX: usize = 8;

/// Values by name; `None` is null.
pub(super) type Settings = BTreeMap<String, Option<String>>;

/// Every option with the value that was given, or else its default.
pub(super) fn of_given(given: &BTreeMap<String, Value>) -> Settings {
    let mut settings = Settings::new();
    for key in options::all() {
        // A group itself is not shown, only its options.
        if let Some((group, _)) = key.name.rsplit_once('.') {
            settings.remove(group);
        }
        let default = match key.name {
            // The classes that Cassandra fills in itself.
            "crypto_provider" => Some("org.apache.cassandra.security.JREProvider"),
            "seed_provider" => Some("org.apache.cassandra.locator.SimpleSeedProvider"),
            // Null in Cassandra until they are given, unlike the other secrets.
            name if name.contains(".outbound_keystore") => None,
            name if is_secret(name) => Some(REDACTED),
            _ => key.default_text(),
        };
        match key.kind {
            Kind::Group => {}
            Kind::Class => {
                settings.insert(format!("{}.class_name", key.name), default.map(str::to_owned));
                settings.insert(format!("{}.parameters", key.name), default.map(|_| "{}".into()));
            }
            _ => {
                settings.insert(key.name.into(), default.map(str::to_owned));
            }
        }
    }
    for (name, value) in given {
        put(&mut settings, name, value, 0);
    }
    for key in options::all() {
        for (older, counts) in key.older {
            let value = settings.get(key.name).cloned().flatten();
            settings.insert((*older).into(), counts.shown(value.as_deref()));
        }
    }
    for (old, new) in OLD_SETTINGS {
        let value = settings.get(new).cloned().flatten();
        settings.insert(old.into(), value);
    }
    settings
}

/// Whether the value of the option may be a secret.
fn is_secret(name: &str) -> bool {
    ["password", "keystore", "truststore", "private_key"].iter().any(|word| name.contains(word))
}

fn put(settings: &mut Settings, name: &str, value: &Value, depth: usize) {
    let text = match value {
        // The parameters of a class are shown as one text.
        Value::Mapping(mapping) if name.ends_with(".parameters") => Some(parameters([mapping])),
        Value::Sequence(items) if name.ends_with(".parameters") => {
            Some(parameters(items.iter().filter_map(Value::as_mapping)))
        }
        // A class with its parameters is a list of one.
        Value::Sequence(items) if depth < DEPTH_MAX && matches!(items.as_slice(), [Value::Mapping(_)]) => {
            items.iter().for_each(|item| put(settings, name, item, depth + 1));
            return;
        }
        Value::Mapping(mapping) if depth < DEPTH_MAX => {
            settings.remove(name);
            for (key, value) in mapping {
                if let Value::String(key) = key {
                    put(settings, &format!("{name}.{key}"), value, depth + 1);
                }
            }
            return;
        }
        Value::Null => None,
        _ if is_secret(name) => Some(REDACTED.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Sequence(items) => Some(format!("[{}]", items.iter().map(one).collect::<Vec<_>>().join(", "))),
        other => Some(one(other)),
    };
    settings.insert(name.into(), text);
}

/// Parameters as Cassandra shows them: `{seeds=127.0.0.1}`.
fn parameters<'m>(mappings: impl IntoIterator<Item = &'m Mapping>) -> String {
    let pairs = mappings.into_iter().flatten().map(|(name, value)| {
        let name = one(name);
        let value = if is_secret(&name) { REDACTED.into() } else { one(value) };
        format!("{name}={value}")
    });
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(", "))
}

/// The text of an item of a list, or of the value of a parameter.
fn one(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => "...".into(),
    }
}

impl Config {
    /// Every option with its value: the one in use if this node has resolved it, or else the one that was given, or the
    /// default. Calling it again, with the result as the settings, changes nothing.
    pub fn all_settings(&self) -> BTreeMap<String, Option<String>> {
        let node = &self.node;
        let mut settings = Settings::clone(&node.settings);
        let mut set = |name: &str, value: String| settings.insert(name.into(), Some(value));
        let timeouts = [
            ("read_request_timeout", node.read_timeout),
            ("range_request_timeout", node.range_timeout),
            ("write_request_timeout", node.write_timeout),
            ("counter_write_request_timeout", node.counter_write_timeout),
            ("cas_contention_timeout", node.cas_contention_timeout),
            ("truncate_request_timeout", node.truncate_timeout),
            ("request_timeout", node.request_timeout),
        ];
        for (name, timeout) in timeouts {
            set(name, millis(timeout));
            set(&format!("{name}_in_ms"), timeout.as_millis().to_string());
        }
        match node.sync {
            SyncMode::Batch => {
                set("commitlog_sync", "batch".into());
            }
            SyncMode::Group { window } => {
                set("commitlog_sync", "group".into());
                set("commitlog_sync_group_window", millis(window));
            }
            SyncMode::Periodic { period } => {
                set("commitlog_sync", "periodic".into());
                set("commitlog_sync_period", millis(period));
            }
        }
        let authenticator = node.access.authenticator.class();
        let authorizer = if node.access.authorizes { "CassandraAuthorizer" } else { "AllowAllAuthorizer" };
        let plain = [
            ("authenticator", authenticator.into()),
            ("authenticator.class_name", authenticator.into()),
            ("authorizer", authorizer.into()),
            ("authorizer.class_name", authorizer.into()),
            ("cluster_name", node.cluster_name.clone()),
            ("commitlog_segment_size", format!("{}MiB", node.segment_bytes >> 20)),
            ("commitlog_segment_size_in_mb", (node.segment_bytes >> 20).to_string()),
            ("commitlog_total_space", format!("{}MiB", node.log_bytes >> 20)),
            ("commitlog_total_space_in_mb", (node.log_bytes >> 20).to_string()),
            ("commit_failure_policy", self.commit_failure_policy.name().into()),
            ("data_file_directories", format!("[{}]", node.directories)),
            ("disk_failure_policy", self.disk_failure_policy.name().into()),
            ("endpoint_snitch", self.snitch.name().into()),
            ("listen_address", node.listen_address.to_string()),
            (
                "allocate_tokens_for_local_replication_factor",
                node.allocate_for_factor.map_or(String::new(), |factor| factor.to_string()),
            ),
            ("auto_bootstrap", self.node.auto_bootstrap.to_string()),
            ("clock_skew_max", format!("{}ms", self.node.clock_skew_max.as_millis())),
            ("ignore_dc", self.node.ignore_dc.to_string()),
            ("ignore_rack", self.node.ignore_rack.to_string()),
            ("join_ring", self.node.join_ring.to_string()),
            ("metrics_port", self.metrics_port.unwrap_or_default().to_string()),
            ("physical_partition_size", format!("{}B", self.node.physical_partition_size)),
            ("replica_replacement_after", format!("{}ms", self.node.replica_replacement_after.as_millis())),
            ("physical_partition_throughput", self.node.physical_partition_throughput.to_string()),
            ("auto_cleanup_enabled", self.node.auto_cleanup.to_string()),
            ("hot_partition_relief", self.node.hot_partition_relief.to_string()),
            ("hot_partition_reads_per_second", self.node.hot_partition_reads_per_second.to_string()),
            ("native_shard_aware_transport_port", self.shard_aware_port.to_string()),
            ("native_transport_max_concurrent_connections", self.connections_max.to_string()),
            ("native_transport_max_concurrent_connections_per_ip", self.connections_per_ip_max.to_string()),
            ("native_transport_max_message_size", format!("{}B", self.client_limits.message_bytes_max)),
            ("native_transport_port", node.native_port.to_string()),
            ("num_tokens", node.num_tokens.to_string()),
            ("partitioner", node.partitioner.class_name().into()),
            ("rpc_address", node.rpc_address.to_string()),
            ("sstable.selected_format", if node.sstables.version == Version::Da { "bti" } else { "big" }.into()),
            ("start_native_transport", self.start_native_transport.to_string()),
            ("storage_port", node.storage_port.to_string()),
            // Not an option of Cassandra: the version of this program.
            ("helenus_version", env!("CARGO_PKG_VERSION").into()),
        ];
        plain.into_iter().for_each(|(name, value)| {
            set(name, value);
        });
        settings
    }
}

fn millis(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(config: &Config, name: &str) -> Option<String> {
        config.all_settings().get(name).cloned().flatten()
    }

    #[test]
    fn settings_are_defaults_then_what_was_given_then_what_is_used() {
        let file = "cluster_name: 'A B'\nconcurrent_reads: 7\nread_request_timeout: 3s\nhinted_handoff_disabled_datacenters: \
                    [a, b]\nseed_provider:\n  - class_name: SimpleSeedProvider\n    parameters:\n      - seeds: 1.2.3.4,5.6.7.8\nserver_encryption_options:\n  keystore_password: x\n";
        let config = Config::read(file, &["num_tokens=4".into()]).expect("valid");
        for (name, expected) in [
            ("cluster_name", Some("A B")),
            ("concurrent_reads", Some("7")),
            ("concurrent_writes", Some("32")),
            ("read_request_timeout", Some("3000ms")),
            ("hinted_handoff_disabled_datacenters", Some("[a, b]")),
            ("seed_provider.class_name", Some("SimpleSeedProvider")),
            ("server_encryption_options.keystore_password", Some("<REDACTED>")),
            ("server_encryption_options.enabled", Some("false")),
            ("server_encryption_options", None),
            ("full_query_logging_options.archive_command", Some("")),
            ("server_encryption_options_enabled", Some("false")),
            ("authenticator.class_name", Some("AllowAllAuthenticator")),
            ("sstable.selected_format", Some("bti")),
            ("seed_provider.parameters", Some("{seeds=1.2.3.4,5.6.7.8}")),
            ("num_tokens", Some("4")),
            ("initial_token", None),
        ] {
            assert_eq!(value(&config, name).as_deref(), expected, "{name}");
        }
        assert!(config.all_settings().len() >= 600);
        assert!(!config.all_settings().contains_key("audit_logging_options"));
    }
}

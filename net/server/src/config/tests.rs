//! Tests of the configuration.

use super::*;
use model::RingToken;

fn failure(file: &str) -> String {
    Config::read(file, &[]).expect_err("the configuration is wrong").0
}

#[test]
fn nothing_said_gives_cassandras_defaults() {
    let config = Config::read("", &[]).expect("valid");
    let node = shard::Config { settings: Config::default().node.settings, ..config.node.clone() };
    assert_eq!(Config { node, ..config.clone() }, Config::default());
    assert_eq!((config.node.native_port, config.shard_aware_port, config.node.num_tokens), (9042, 19042, 16));
    assert_eq!(config.metrics_port, Some(7199));
    assert_eq!(config.node.sync, SyncMode::Group { window: Duration::ZERO });
    config.check().expect("loopback is open");
}

#[test]
fn names_and_units_are_cassandras() {
    let config = Config::read(
        "cluster_name: 'A B'\nrpc_address: 127.0.0.9\ncommitlog_sync: periodic\ncommitlog_sync_period: 2s\n\
         commitlog_segment_size: 16MiB\nread_request_timeout_in_ms: 700\nwrite_request_timeout: 1500ms\ncounter_write_request_timeout: 1200ms\ncas_contention_timeout: 900ms\n\
         data_file_directories: [/x/y]\nstreaming_stats_enabled: false\nnum_tokens: 4\n\
         native_transport_max_concurrent_connections: -1\nlisten_address: localhost\nbroadcast_address:\nauto_bootstrap: true\n",
        &["native_transport_port=9142".into(), "cluster_name=C".into()],
    )
    .expect("valid");
    assert_eq!(config.node.cluster_name, "C");
    assert_eq!(config.node.sync, SyncMode::Periodic { period: Duration::from_secs(2) });
    assert_eq!(config.node.segment_bytes, 16 << 20);
    assert_eq!(
        (config.node.read_timeout, config.node.write_timeout),
        (Duration::from_millis(700), Duration::from_millis(1500))
    );
    assert_eq!(config.node.counter_write_timeout, Duration::from_millis(1200));
    assert_eq!(config.node.cas_contention_timeout, Duration::from_millis(900));
    assert_eq!(config.node.directories, "/x/y".into());
    assert_eq!((config.node.native_port, config.node.num_tokens), (9142, 4));
    assert_eq!(config.connections_max, CONNECTIONS_MAX);
    let unused: Vec<&str> = config.unused.iter().map(|unused| unused.option.as_str()).collect();
    assert_eq!(unused, ["streaming_stats_enabled"]);
}

#[test]
fn wrong_options_are_named() {
    assert_eq!(failure("comitlog_sync: group"), "comitlog_sync: unknown option; did you mean commitlog_sync?");
    assert!(failure("commitlog_sync: sometimes").contains("periodic, batch, group"));
    assert!(failure("read_request_timeout: 10").starts_with("read_request_timeout: 10 is not a duration"));
    assert!(failure("num_tokens: 0").contains("from 1 to 1536"));
    assert!(failure("num_tokens: 1537").contains("from 1 to 1536"));
    assert!(Config::read("num_tokens: 1536", &[]).is_ok());
    assert!(failure("commitlog_segment_size: 33MiB").contains("power of two"));
    assert!(failure("commitlog_segment_size: 2GiB").contains("power of two"));
    assert!(Config::read("commitlog_segment_size: 1GiB", &[]).is_ok());
    assert!(failure("authenticator: Mine").contains("not supported yet"));
    assert!(Config::read("authenticator: org.apache.cassandra.auth.AllowAllAuthenticator", &[]).is_ok());
    assert!(failure("native_transport_port: 65536").contains("65535"));
    assert!(failure("metrics_port: 65536").contains("65535"));
    assert_eq!(Config::read("metrics_port: 65535", &[]).expect("valid").metrics_port, Some(65535));
    assert_eq!(Config::read("", &["metrics_port=0".into()]).expect("valid").metrics_port, None);
    assert!(failure("- a").contains("mapping"));
    assert!(failure("a: [").contains("YAML"));
    assert!(failure("read_request_timeout: 9ms").contains("at least"));
    assert!(Config::read("read_request_timeout: 10ms", &[]).is_ok());
    assert!(Config::read("", &["cluster_name".into()]).is_err());
    assert!(Config::read(&" ".repeat(FILE_BYTES_MAX), &[]).is_ok());
    assert!(Config::read(&" ".repeat(FILE_BYTES_MAX + 1), &[]).is_err());
}

#[test]
fn only_loopback_is_open_without_authentication() {
    for address in ["0.0.0.0", "192.168.1.1", "::"] {
        let config = Config::read(&format!("rpc_address: '{address}'"), &[]).expect("valid");
        assert!(config.check().expect_err("closed").0.contains("loopback"));
    }
    for address in ["127.0.0.7", "::1"] {
        Config::read(&format!("rpc_address: '{address}'"), &[]).expect("valid").check().expect("open");
    }
    let open = "rpc_address: 0.0.0.0\nauthenticator: PasswordAuthenticator";
    Config::read(open, &[]).expect("valid").check().expect("open to clients that log in");
    let config = Config::read(&format!("{open}\nlisten_address: 192.168.1.1"), &[]).expect("valid");
    assert!(config.check().expect_err("closed to other nodes").0.starts_with("listen_address"));
    let between = |options: &str| {
        let text = format!("{open}\nlisten_address: 192.168.1.1\nserver_encryption_options: {{{options}}}");
        Config::read(&text, &[]).expect("valid").check()
    };
    let store = "keystore: k.p12, keystore_password: a, truststore: t.p12, truststore_password: a";
    between(&format!("internode_encryption: all, require_client_auth: true, {store}")).expect("open to known nodes");
    for open_to_strangers in [
        "internode_encryption: all",
        "internode_encryption: all, require_client_auth: true, optional: true",
        "internode_encryption: dc, require_client_auth: true",
    ] {
        let failure = between(&format!("{open_to_strangers}, {store}")).expect_err("closed to other nodes").0;
        assert!(failure.contains("require_client_auth: true"), "{failure}");
    }
    let with =
        |memory_bytes| Config { node: shard::Config { memory_bytes, ..Default::default() }, ..Config::default() };
    assert!(with(MEMORY_BYTES_MIN - 1).check().is_err());
    assert!(with(MEMORY_BYTES_MIN).check().is_ok());
}

#[test]
fn any_bytes_give_a_configuration_or_an_error() {
    let sample =
        "cluster_name: 'A B'\nrpc_address: 127.0.0.9\ncommitlog_sync: periodic\nseed_provider: [{a: {b: c}}]\n";
    let mut rng = runtime::rng::Rng::new(1);
    for _ in 0..2000 {
        let mut bytes = sample.as_bytes().to_vec();
        for _ in 0..1 + rng.below(4) {
            let at = rng.below(bytes.len() as u64) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        let _ = Config::read(&String::from_utf8_lossy(&bytes), &[]);
    }
}

#[test]
fn snapshots_and_the_rate_of_compactions_are_configured() {
    let config = |text: &str| Config::read(text, &[]).expect("valid");
    let told = config("auto_snapshot: false\nauto_snapshot_ttl: 30d\ncompaction_throughput: 16MiB/s");
    assert_eq!((told.node.auto_snapshot, told.node.compaction_bytes_per_second), (false, 16 << 20));
    assert_eq!(told.node.auto_snapshot_ttl, Some(Duration::from_secs(30 * 86_400)));
    assert_eq!(told.unused, []);
    assert_eq!(config("compaction_throughput: 0MiB/s").node.compaction_bytes_per_second, 0);
    assert_eq!(config("compaction_throughput_mb_per_sec: 8").node.compaction_bytes_per_second, 8 << 20);
    assert!(failure("auto_snapshot: maybe").contains("neither true nor false"));
    for wrong in ["0s", "1500ms", "soon"] {
        assert!(failure(&format!("auto_snapshot_ttl: {wrong}")).contains("is not a duration"), "{wrong}");
    }
    for wrong in ["64", "64MiB", "64MB/s", "-1MiB/s"] {
        assert!(failure(&format!("compaction_throughput: {wrong}")).contains("is not a rate"), "{wrong}");
    }
}

/// A node starts with the unedited configuration files that Cassandra ships, and with the file that ccm makes of the
/// first one.
#[test]
fn files_of_cassandra_are_taken() {
    let read = |file: &str| {
        let config = Config::read(file, &[]).unwrap_or_else(|error| panic!("{error}"));
        config.check().expect("a node may start");
        config
    };
    let names = |config: &Config| config.unused.iter().map(|unused| unused.option.clone()).collect::<Vec<_>>();
    let stock = read(include_str!("../../tests/config/cassandra.yaml"));
    assert_eq!(stock.node.sync, SyncMode::Periodic { period: Duration::from_secs(10) });
    assert_eq!(stock.node.sstables.version, shard::Version::Nb);
    assert_eq!(stock.node.cas_contention_timeout, Duration::from_secs(1));
    let without_effect = [
        "inter_dc_tcp_nodelay",
        "transparent_data_encryption_options.key_alias",
        "transparent_data_encryption_options.key_provider",
    ];
    assert_eq!(names(&stock), without_effect);
    let latest = read(include_str!("../../tests/config/cassandra_latest.yaml"));
    assert_eq!(latest.node.sstables.version, shard::Version::Da);
    assert_eq!(latest.node.sstables.row_index_bytes, Some(4 << 10));
    let compaction = latest.node.default_compaction.as_ref();
    assert_eq!(compaction.and_then(|options| options.get("scaling_parameters")), Some(&"T4".into()));
    for option in ["default_secondary_index", "paxos_variant"] {
        assert!(names(&latest).contains(&option.to_owned()), "{option}");
    }
    let ccm = read(include_str!("../../tests/config/ccm.yaml")).node;
    assert_eq!((ccm.num_tokens, ccm.initial_tokens), (1, vec![RingToken::Murmur3(i64::MIN)]));
    assert_eq!(ccm.directories, "/ccm/test/node1/data0".into());
}

#[test]
fn data_directories_are_a_list_without_doubles() {
    let read = |text: &str| Config::read(&format!("data_file_directories: {text}"), &[]).expect("valid");
    let several = read("[/a, b, /c]");
    assert_eq!(several.node.directories.all(), ["/a", "b", "/c"].map(PathBuf::from));
    assert_eq!(several.all_settings().get("data_file_directories"), Some(&Some("[/a, b, /c]".into())));
    assert_eq!(read("[]").node.directories, Config::default().node.directories);
    for (list, problem) in [("[/a, b, /a]", "/a is there twice"), ("[{a: b}]", "a list of"), ("['']", "no name")] {
        let text = failure(&format!("data_file_directories: {list}"));
        assert!(text.starts_with("data_file_directories: ") && text.contains(problem), "{text}");
    }
    let list =
        |count: usize| format!("data_file_directories: {:?}", (0..count).map(|at| at.to_string()).collect::<Vec<_>>());
    assert!(Config::read(&list(DATA_DIRECTORIES_MAX), &[]).is_ok());
    assert!(failure(&list(DATA_DIRECTORIES_MAX + 1)).contains("at most 256"));
}

#[test]
fn tokens_are_as_many_as_said() {
    let config = Config::read("num_tokens: 3\ninitial_token: 5, -7,9", &[]).expect("valid").node;
    assert_eq!((config.num_tokens, config.initial_tokens), (3, [5, -7, 9].map(RingToken::Murmur3).to_vec()));
    assert_eq!(Config::read("initial_token: 5", &[]).expect("valid").node.num_tokens, 1);
    assert_eq!(failure("initial_token: 5,6"), "initial_token was set but num_tokens is not!");
    assert!(
        failure("num_tokens: 3\ninitial_token: 5,6").contains("specified (2) is different from num_tokens value (3)")
    );
    assert!(failure("num_tokens: 2\ninitial_token: 5,5").contains("there twice"));
    assert!(failure("initial_token: x").contains("is not a token"));
}

#[test]
fn a_node_may_start_without_listeners_and_without_a_log_of_slow_requests() {
    let config = Config::read("start_native_transport: 'False'\nslow_query_log_timeout: 0ms", &[]).expect("valid");
    assert_eq!((config.start_native_transport, config.node.slow_query_timeout), (false, None));
    assert_eq!(config.all_settings().get("start_native_transport"), Some(&Some("false".into())));
    let config = Config::read("slow_query_log_timeout_in_ms: 70", &[]).expect("valid").node;
    assert_eq!(config.slow_query_timeout, Some(Duration::from_millis(70)));
}

/// Lines of stock files are removed, doubled, moved, cut and mixed up, values replaced, and bytes changed: what comes
/// of it is read, or refused with a text.
#[test]
fn mutated_files_are_read_or_refused() {
    const WORDS: [&str; 12] = [
        "",
        "true",
        "-1",
        "99999999999999999999",
        "1e400",
        "5s",
        "7MiB",
        "[a, b]",
        "{a: {b: [c]}}",
        "~",
        "\"",
        "&a *a",
    ];
    let given: Vec<&str> =
        [include_str!("../../tests/config/cassandra.yaml"), include_str!("../../tests/config/ccm.yaml")]
            .iter()
            .flat_map(|text| text.lines())
            .filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty())
            .collect();
    let mut state = 1u64;
    let mut roll = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides
    };
    let (mut read, mut refused) = (0, 0);
    for _ in 0..1_000 {
        let from = roll(given.len());
        let mut lines: Vec<String> =
            given[from..(from + 30).min(given.len())].iter().map(|line| line.to_string()).collect();
        for _ in 0..roll(4) {
            let at = roll(lines.len());
            match roll(6) {
                0 => _ = lines.remove(at),
                1 => lines.insert(at, lines[roll(lines.len())].clone()),
                2 => lines.swap(at, 0),
                3 => {
                    let cut = (0..=roll(lines[at].len() + 1)).rev().find(|end| lines[at].is_char_boundary(*end));
                    lines[at].truncate(cut.unwrap_or(0));
                }
                4 => {
                    let name = lines[at].split(':').next().unwrap_or_default().to_owned();
                    lines[at] = format!("{name}: {}", WORDS[roll(WORDS.len())]);
                }
                _ => lines[at].insert(0, char::from(b' ' + roll(95) as u8)),
            }
            if lines.is_empty() {
                break;
            }
        }
        match Config::read(&lines.join("\n"), &[]) {
            Ok(config) => {
                read += 1;
                let _ = config.check();
            }
            Err(error) => {
                refused += 1;
                assert!(!error.0.is_empty());
            }
        }
    }
    assert!(read > 50 && refused > 50, "{read} {refused}");
}

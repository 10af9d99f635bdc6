//! `nodetool toppartitions` and `profileload`: output, options and refusals as Cassandra 5.0.9 has them, and
//! `system_views.hot_partitions`.

use super::world::{Client, SERVER, with_node};
use runtime::sim::Sim;
use server::admin::{self, protocol};
use std::time::Duration;
use wire::Version;
use wire::client::Response;

/// As many as run at a time.
const SAMPLINGS: usize = 16;

async fn nodetool(command: &str, options: &[(&str, &str)], arguments: &[&str]) -> protocol::Answer {
    let options = options.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let arguments = arguments.iter().map(|argument| argument.to_string()).collect();
    let request = protocol::Request { command: command.into(), options, arguments };
    admin::ask(Sim::address_of(SERVER), &request).await.expect("it is answered")
}

/// Writes and reads keys of two tables, while something else happens.
async fn load() {
    let client = Client::ready(Version::V4).await;
    runtime::sleep(Duration::from_millis(100)).await;
    for round in 0..6 {
        for key in 0..=round {
            client.query(&format!("INSERT INTO k.t (a, b) VALUES ({key}, 'x')")).await;
        }
        client.query("SELECT b FROM k.t WHERE a = 1").await;
        client.query("INSERT INTO k.c (a, t, v) VALUES (2, 'he:y', 1)").await;
        client.query("SELECT v FROM k.c WHERE a = 2 AND t = 'he:y'").await;
    }
}

#[test]
fn partitions_that_are_used_most_are_shown_as_cassandra_shows_them() {
    with_node(3, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let composite = "CREATE TABLE k.c (a int, t text, v int, PRIMARY KEY ((a, t), v))";
        assert!(matches!(client.query(composite).await, Response::SchemaChange(_)));
        let loading = runtime::spawn(load());
        let told = nodetool("toppartitions", &[("-k", "2")], &["k", "t", "1000"]).await;
        loading.await;
        let beginning = "\
Frequency of reads by partition:
   Table Partition Count +/-
   k.t   1         6     0  

Frequency of writes by partition:
   Table Partition Count +/-
   k.t   0         6     0  
   k.t   1         5     0  

Partitions read with the most rows:
   Table Partition Rows
   k.t   1         1   
   k.t   1         1   

Partitions read with the most tombstones:
   Nothing recorded during sampling period...

Max mutation size by partition:
   Table Partition Bytes
";
        assert!(told.out.starts_with(beginning), "{}", told.out);
        assert_eq!((told.exit, told.err), (0, String::new()));
        let options = [("-a", "WRITES,READS"), ("-k", "1"), ("-s", "10")];
        let loading = runtime::spawn(load());
        let told = nodetool("profileload", &options, &["k", "c", "500"]).await;
        loading.await;
        let expected = "\
Frequency of reads by partition:
   Table Partition Count +/-
   k.c   2:he\\:y   6     0  

Frequency of writes by partition:
   Table Partition Count +/-
   k.c   2:he\\:y   6     0  

";
        assert_eq!(told.out, expected);
        let told = nodetool("toppartitions", &[("-a", "READS")], &["50"]).await;
        assert_eq!(told.out, "Frequency of reads by partition:\n   Nothing recorded during sampling period...\n\n");
    });
}

/// Whoever waits for samples may go away: nodetool takes other commands, and nothing is sampled for nobody.
#[test]
fn a_sampling_ends_with_its_client() {
    with_node(2, || async {
        for _ in 0..2 {
            for _ in 0..SAMPLINGS {
                let abandoned = nodetool("profileload", &[], &["1000000000"]);
                let waited = runtime::timeout(Duration::from_millis(10), abandoned).await;
                assert!(waited.is_none(), "it samples");
            }
            let told = nodetool("profileload", &[("-a", "READS")], &["50"]).await;
            let nothing = "Frequency of reads by partition:\n   Nothing recorded during sampling period...\n\n";
            assert_eq!((told.exit, told.out.as_str()), (0, nothing), "{}", told.err);
        }
    });
}

/// Options, arguments, and how the refusal begins.
type Refused = (&'static [(&'static str, &'static str)], &'static [&'static str], &'static str);

#[test]
fn what_cannot_be_sampled_is_refused() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let none = "ColumnFamilyStore for k/nope not found.\n";
        let told = nodetool("toppartitions", &[], &["k", "nope", "100"]).await;
        assert_eq!((told.exit, told.out.as_str(), told.err.as_str()), (1, "", none));
        let refused: [Refused; 6] = [
            (&[("-a", "FOO")], &["k", "t", "100"], "'FOO' sampler is not available from: [READS, WRITES, "),
            (&[("-s", "2"), ("-k", "10")], &["k", "t"], "TopK count (-k) option must be smaller then the summary"),
            (&[], &["k", "t", "abc"], "For input string: \"abc\""),
            (&[], &["k", "t", "x", "y"], "Invalid arguments, either [keyspace table/* duration] or [keyspace table/*]"),
            (&[("-i", "5")], &["k", "t"], "--interval: sampling in the background is not supported"),
            (&[("-t", "")], &[], "--stop: sampling in the background is not supported"),
        ];
        for (options, arguments, text) in refused {
            let told = nodetool("profileload", options, arguments).await;
            assert!(told.exit == 1 && told.out.starts_with(&format!("nodetool: {text}")), "{}", told.out);
        }
    });
}

#[test]
fn hot_keys_of_limited_tables_are_shown() {
    with_node(2, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        client.query("ALTER TABLE k.t WITH cosmosdb_provisioned_throughput = 10000").await;
        for round in 0..40 {
            let key = if round % 4 == 0 { round } else { 7 };
            client.query(&format!("INSERT INTO k.t (a, b) VALUES ({key}, 'x')")).await;
        }
        let named = "SELECT partition_key, writes_per_second, units_per_second, share FROM system_views.hot_partitions \
                     WHERE partition_key = '7' ALLOW FILTERING";
        let all = client.rows("SELECT partition_key, share FROM system_views.hot_partitions").await.rows;
        assert_eq!(all.len(), 11);
        let named = client.rows(named).await.rows;
        let number = |at: usize| f64::from_be_bytes(named[0][at].as_deref().expect("set").try_into().expect("8 bytes"));
        assert!((number(3) - 0.75).abs() < 1e-9, "share {}", number(3));
        assert!((number(2) - 2.0 * number(1)).abs() < 1e-9, "a small write has two units");
    });
}

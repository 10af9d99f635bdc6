//! Tables whose throughput is limited: prices, limits of tables and of partition keys, errors, waiting on the server.

use super::world::{Client, error, with_node};
use model::{Consistency, QueryParameters};
use runtime::sync::join_all;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use wire::Version;
use wire::client::{Answer, Response};
use wire::request::Request;

async fn asked(client: &Client, text: &str, wants_charge: bool) -> Answer {
    let parameters = QueryParameters { wants_charge, ..QueryParameters::new(Consistency::One) };
    client.ask(&Request::Query { text, parameters }).await
}

/// What an answer tells of its price.
fn charge(answer: &Answer) -> Option<f64> {
    let (name, bytes) = answer.payload.first()?;
    assert_eq!(name, "RequestCharge");
    Some(f64::from_be_bytes(bytes[..].try_into().expect("8 bytes")))
}

async fn alter(client: &Client, options: &str) {
    let answer = client.query(&format!("ALTER TABLE k.t WITH {options}")).await;
    assert!(matches!(answer, Response::SchemaChange(_)), "{options}: {answer:?}");
}

/// Writes to a key without a pause for so long. Returns how many writes were done in each second, and the last error.
async fn write_for(client: &Client, key: i32, seconds: usize) -> (Vec<u64>, Option<Answer>) {
    let began = runtime::now();
    let (mut done, mut refused) = (vec![0; seconds], None);
    let mut after = 0;
    loop {
        let at = runtime::now().since(began).as_secs() as usize;
        if at >= seconds {
            return (done, refused);
        }
        let key = if key < 0 { after } else { key };
        after += 1;
        let answer = asked(client, &format!("INSERT INTO k.t (a, b) VALUES ({key}, 'x')"), false).await;
        match answer.response {
            Response::Void => done[at] += 1,
            _ => {
                refused = Some(answer);
                runtime::sleep(Duration::from_millis(2)).await;
            }
        }
    }
}

#[test]
fn the_price_is_told_to_those_who_ask_and_where_throughput_is_provisioned() {
    with_node(2, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let write = "INSERT INTO k.t (a, b) VALUES (1, 'x')";
        let read = "SELECT a, b FROM k.t WHERE a = 1";
        assert_eq!(charge(&asked(&client, write, false).await), None);
        assert_eq!(charge(&asked(&client, write, true).await), Some(2.0));
        assert_eq!(charge(&asked(&client, read, true).await), Some(1.0));
        assert_eq!(charge(&asked(&client, "SELECT a FROM k.t WHERE a = 9", true).await), Some(1.0), "nothing is there");
        let conditional = "INSERT INTO k.t (a, b) VALUES (2, 'x') IF NOT EXISTS";
        assert_eq!(charge(&asked(&client, conditional, true).await), Some(7.0));
        let batch = "BEGIN UNLOGGED BATCH INSERT INTO k.t (a, b) VALUES (3, 'x'); INSERT INTO k.t (a, b) VALUES (4, 'x'); \
                     APPLY BATCH";
        assert_eq!(charge(&asked(&client, batch, true).await), Some(4.0));
        assert_eq!(charge(&asked(&client, "SELECT a FROM k.t WHERE a IN (1, 2, 3)", true).await), Some(3.0));
        // Four rows, one lookup.
        assert_eq!(charge(&asked(&client, "SELECT a FROM k.t", true).await), Some(0.5 + 4.0 * 0.2 + 0.3));
        alter(&client, "cosmosdb_provisioned_throughput = 400").await;
        assert_eq!(charge(&asked(&client, write, false).await), Some(2.0));
        assert_eq!(charge(&asked(&client, read, false).await), Some(1.0));
        let rows = client.rows("SELECT role, writes, write_units, refused FROM system_views.throughput").await.rows;
        let expected = [b"".to_vec(), 1u64.to_be_bytes().to_vec(), 2f64.to_be_bytes().to_vec(), vec![0; 8]];
        assert_eq!(rows, [expected.map(Some).to_vec()]);
        client.query("CREATE TABLE k.w (a int, b int, c text, PRIMARY KEY (a, b))").await;
        for b in 0..10 {
            client.query(&format!("INSERT INTO k.w (a, b, c) VALUES (1, {b}, '{:200}')", "")).await;
        }
        let transaction =
            |limit: &str| format!("BEGIN TRANSACTION SELECT c FROM k.w WHERE a = 1{limit}; COMMIT TRANSACTION");
        assert_eq!(charge(&asked(&client, &transaction(" LIMIT 1"), true).await), Some(7.0), "as a conditional change");
        assert_eq!(charge(&asked(&client, &transaction(""), true).await), Some(9.1), "nine rows and a KiB more");
        let old = Client::ready(Version::V3).await;
        assert_eq!(charge(&asked(&old, write, true).await), None, "version 3 has no payloads");
    });
}

#[test]
fn a_table_uses_what_is_provisioned_from_all_cores_together() {
    with_node(3, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        alter(&client, "cosmosdb_provisioned_throughput = 1000").await;
        let writing = (0..4).map(|_| async {
            let client = Client::ready(Version::V4).await;
            write_for(&client, -1, 4).await
        });
        let results = join_all(writing.collect()).await;
        for second in 1..4 {
            let done: u64 = results.iter().map(|(done, _)| done[second]).sum();
            assert!((475..=525).contains(&done), "{done} writes of two units in a second");
        }
        let refused = results.into_iter().find_map(|(_, refused)| refused).expect("some were refused");
        let (name, bytes) = &refused.payload[0];
        let told = i64::from_be_bytes(bytes[..].try_into().expect("8 bytes"));
        assert!(name == "RetryAfter" && told > 0);
        let (code, text) = error(refused.response);
        assert_eq!(code, 0x1001);
        assert!(text.contains(&format!("RetryAfterMs={told}, k.t may use 1000 units a second")), "{text}");
        // The services share it out evenly: one core of three has a third.
        alter(&client, "throughput_options = {'distribution': 'equal'}").await;
        let (done, _) = write_for(&client, 1, 3).await;
        assert!(done[1..].iter().all(|done| (150..=180).contains(done)), "{done:?}");
        alter(&client, "cosmosdb_provisioned_throughput = 0 AND throughput_options = {}").await;
        assert_eq!(write_for(&client, 1, 2).await.1, None, "nothing is limited any more");
    });
}

#[test]
fn requests_wait_on_the_server_if_the_table_says_so() {
    with_node(2, || async {
        let client = Client::ready(Version::V5).await;
        client.create().await;
        alter(
            &client,
            "cosmosdb_provisioned_throughput = 400 AND throughput_options = {'server_side_retry_in_ms': 2000}",
        )
        .await;
        let (done, refused) = write_for(&client, -1, 3).await;
        assert_eq!(refused, None);
        assert!(done[1..].iter().all(|done| (190..=210).contains(done)), "{done:?}");
    });
}

#[test]
fn capacity_modes_refuse_with_time_outs_that_nobody_answered() {
    with_node(2, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        let mode = "{'throughput_mode': 'PROVISIONED', 'read_capacity_units': 20, 'write_capacity_units': 10}";
        alter(&client, &format!("CUSTOM_PROPERTIES = {{'capacity_mode': {mode}}}")).await;
        let (done, refused) = write_for(&client, -1, 3).await;
        assert!(done[1..].iter().all(|done| (9..=11).contains(done)), "{done:?}");
        let Some(Answer { response: Response::Error { code, detail, .. }, .. }) = refused else { panic!("refused") };
        assert_eq!((code, &detail[..]), (0x1100, &b"\0\x01\0\0\0\0\0\0\0\x01\0\x06SIMPLE"[..]));
        let refused = Rc::new(Cell::new(0));
        for _ in 0..200 {
            if let Response::Error { code, detail, .. } = client.query("SELECT a FROM k.t WHERE a = 1").await {
                assert_eq!((code, &detail[..]), (0x1200, &b"\0\x01\0\0\0\0\0\0\0\x01\0"[..]));
                refused.set(refused.get() + 1);
            }
        }
        assert!(refused.get() > 100, "{}", refused.get());
    });
}

#[test]
fn rates_of_partition_keys_are_each_keys_own() {
    with_node(3, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        alter(&client, "per_partition_rate_limit = {'max_writes_per_second': 50}").await;
        let writing = (0..6).map(|at| async move {
            let client = Client::connect(Version::V4).await;
            let mut options = vec![("CQL_VERSION", "3.0.0")];
            options.extend((at < 3).then_some(("SCYLLA_RATE_LIMIT_ERROR", "")));
            client.startup_with(options).await;
            write_for(&client, at % 2, 4).await
        });
        let results = join_all(writing.collect()).await;
        for key in 0..2 {
            let of_key = || results.iter().skip(key).step_by(2);
            for second in 1..4 {
                let done: u64 = of_key().map(|(done, _)| done[second]).sum();
                assert!((46..=54).contains(&done), "{done} writes to key {key} in a second");
            }
        }
        for (at, (_, refused)) in results.into_iter().enumerate() {
            let Some(Answer { response: Response::Error { code, text, detail }, .. }) = refused else { continue };
            assert_eq!(text, "Per-partition rate limit reached for writes in table k.t, rejected by coordinator");
            let expected = if at < 3 { (0xF000, vec![1, 1]) } else { (0x2300, vec![]) };
            assert_eq!((code, detail), expected, "{at}");
        }
        assert!(matches!(client.query("SELECT a FROM k.t WHERE a = 1").await, Response::Rows(_)), "reads are free");
    });
}

#[test]
fn limits_are_shown_and_kept() {
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        client.create().await;
        alter(&client, "cosmosdb_autoscale_max_throughput = 4000").await;
        alter(&client, "per_partition_rate_limit = {'max_reads_per_second': 7, 'max_writes_per_second': 5}").await;
        let shown = client.rows("DESCRIBE TABLE k.t").await.rows;
        let shown = String::from_utf8(shown[0][3].clone().expect("a statement")).expect("text");
        let expected = "    AND speculative_retry = '99p'\n    AND cosmosdb_autoscale_max_throughput = 4000\n    AND \
                        per_partition_rate_limit = {'max_reads_per_second': 7, 'max_writes_per_second': 5};";
        assert!(shown.ends_with(expected), "{shown}");
        assert!(matches!(client.query("DROP TABLE k.t").await, Response::SchemaChange(_)));
        assert!(matches!(client.query(&shown).await, Response::SchemaChange(_)), "what is shown can be run");
        let again = client.rows("DESCRIBE TABLE k.t").await.rows;
        assert_eq!(again[0][3].as_deref(), Some(shown.as_bytes()));
        let extensions = "SELECT extensions FROM system_schema.tables WHERE keyspace_name = 'k' AND table_name = 't'";
        let stored = client.rows(extensions).await.rows[0][0].clone().expect("extensions");
        let stored = String::from_utf8_lossy(&stored).into_owned();
        assert!(stored.contains("helenus.capacity") && stored.contains("cosmosdb_autoscale_max_throughput=4000"));
        let refused = client.query("ALTER TABLE k.t WITH CUSTOM_PROPERTIES = {'ttl': {'status': 'enabled'}}").await;
        assert_eq!(error(refused).1, "Helenus does not support the custom property 'ttl' yet");
        let refused = client.query("ALTER TABLE k.t WITH caching = {'keys': {'a': 'b'}}").await;
        assert_eq!(error(refused).1, "Invalid property value: {'a': 'b'} for property: 'keys'");
    });
}

//! Limits that the configuration sets for clients: idle time, sizes of messages, bytes under way, requests per second,
//! versions. Each at its limit and one past it.

use super::world::{Client, config, error, values, with_config, with_node};
use model::{Consistency, QueryParameters};
use server::Config;
use server::config::ClientLimits;
use server::cql::connection::OUTPUT_STALL_MAX;
use server::cql::receiver::MESSAGE_MAX;
use std::time::Duration;
use wire::client::{Answer, Response, put_request};
use wire::envelope::put_envelope;
use wire::request::Request;
use wire::{Opcode, Version};

const SELECT: &str = "SELECT key FROM system.local";

fn limited(client_limits: ClientLimits) -> Config {
    Config { client_limits, ..config() }
}

fn select(text: &str) -> Request<'_> {
    Request::Query { text, parameters: QueryParameters::new(Consistency::One) }
}

#[test]
fn idle_connections_are_closed() {
    let idle = Duration::from_secs(30);
    with_config(1, limited(ClientLimits { idle_max: Some(idle), ..ClientLimits::default() }), move || async move {
        let client = Client::ready(Version::V5).await;
        for _ in 0..3 {
            runtime::sleep(idle - Duration::from_secs(1)).await;
            assert_eq!(client.rows(SELECT).await.rows.len(), 1, "not idle for long enough");
        }
        let began = runtime::now();
        assert!(client.receive().await.is_none(), "closed without a word");
        let lasted = runtime::now().since(began);
        assert!(lasted >= idle - Duration::from_secs(1) && lasted < idle + Duration::from_secs(1), "{lasted:?}");
    });
    with_node(1, || async {
        let client = Client::ready(Version::V4).await;
        runtime::sleep(Duration::from_secs(300)).await;
        assert_eq!(client.rows(SELECT).await.rows.len(), 1, "idle connections stay unless the configuration says");
    });
}

/// O2: half of a message is not waited for without end; whoever sends a byte a second is served within that time.
#[test]
fn o2_half_a_message_is_not_waited_for() {
    with_node(1, || async {
        let other = Client::ready(Version::V5).await;
        for version in [Version::V4, Version::V5] {
            let client = Client::ready(version).await;
            let mut bytes = Vec::new();
            put_request(&mut bytes, version, 1, &select(SELECT));
            if version == Version::V5 {
                let envelope = std::mem::take(&mut bytes);
                wire::segment::put_segment(&mut bytes, &envelope, true);
            }
            for byte in &bytes {
                client.raw(&[*byte]);
                runtime::sleep(Duration::from_secs(1)).await;
            }
            assert!((bytes.len() as u64) < MESSAGE_MAX.as_secs());
            let envelope = client.receive().await.expect("an answer");
            assert_eq!(envelope.header.opcode, Opcode::Result);

            client.raw(&bytes[..bytes.len() - 1]);
            let began = runtime::now();
            assert!(client.receive().await.is_none(), "closed");
            let lasted = runtime::now().since(began);
            assert!(lasted >= MESSAGE_MAX - Duration::from_secs(1), "{lasted:?}");
            assert!(lasted < MESSAGE_MAX + Duration::from_secs(1), "{lasted:?}");
            assert_eq!(other.rows(SELECT).await.rows.len(), 1);
        }
    });
}

#[test]
fn sizes_of_messages_have_their_limits() {
    let (frame, message) = (2 << 20, 1_000_000);
    let limits = ClientLimits { frame_bytes_max: frame, message_bytes_max: message, ..ClientLimits::default() };
    with_config(1, limited(limits), move || async move {
        // In version 4 the header counts, in version 5 it does not.
        let refused_v4 = "Request is too big: length 2097153 exceeds maximum allowed length 2097152.";
        let refused_v5 = "CQL Message of size 1000001 bytes exceeds allowed maximum of 1000000 bytes";
        for (version, body_max, text) in [(Version::V4, frame - 9, refused_v4), (Version::V5, message, refused_v5)] {
            let client = Client::ready(version).await;
            let overhead = {
                let mut bytes = Vec::new();
                put_request(&mut bytes, version, 1, &select(SELECT));
                bytes.len() - 9
            };
            let statement = |body: usize| format!("{SELECT}{}", " ".repeat(body - overhead));
            assert!(matches!(client.query(&statement(body_max)).await, Response::Rows(_)));
            assert_eq!(error(client.query(&statement(body_max + 1)).await), (0x2200, text.into()));
            assert_eq!(client.rows(SELECT).await.rows.len(), 1, "the connection goes on");
        }
    });
}

#[test]
fn older_protocols_can_be_refused() {
    let limits = ClientLimits { allows_older_protocols: false, ..ClientLimits::default() };
    with_config(1, limited(limits), || async {
        let client = Client::connect(Version::V5).await;
        for number in [3, 4] {
            let mut bytes = Vec::new();
            put_envelope(&mut bytes, number, 0, 11, Opcode::Options, |_| {});
            client.raw(&bytes);
            let envelope = client.receive().await.expect("an answer");
            assert_eq!((envelope.header.version, envelope.header.stream), (Version::V5, 11));
            let told = error(Answer::decode(&envelope).expect("valid").response);
            assert_eq!(told, (0x000A, format!("Rejecting Protocol Version {number}/v{number} < 5/v5.")));
        }
        client.startup().await;
        assert_eq!(client.rows(SELECT).await.rows.len(), 1);
    });
}

/// Sends requests at once and returns the answers.
async fn answers(client: &Client, requests: i16) -> Vec<Answer> {
    for stream in 0..requests {
        client.send(stream, &select(SELECT));
    }
    let mut answers = Vec::new();
    for _ in 0..requests {
        answers.push(Answer::decode(&client.receive().await.expect("an answer")).expect("valid"));
    }
    answers
}

/// O1: a rate of 5 requests a second lets those of one second come at once.
#[test]
fn o1_requests_are_limited_by_rate() {
    let limits = ClientLimits { requests_per_second_max: Some(5), ..ClientLimits::default() };
    with_config(2, limited(limits), || async {
        let throwing = Client::connect(Version::V5).await;
        throwing.startup_with(vec![("CQL_VERSION", "3.0.0"), ("THROW_ON_OVERLOAD", "1")]).await;
        runtime::sleep(Duration::from_secs(5)).await;
        let told = answers(&throwing, 12).await;
        let refused = told.into_iter().filter(|answer| matches!(answer.response, Response::Error { .. }));
        let refused: Vec<_> = refused.map(|answer| error(answer.response)).collect();
        let text = "Request breached global limit of 5 requests/second. Server is currently in an overloaded state and \
                    cannot accept more requests.";
        assert_eq!(refused, vec![(0x1001, text.to_owned()); 6], "the moment a second ago and five since");

        let waiting = Client::ready(Version::V4).await;
        runtime::sleep(Duration::from_secs(5)).await;
        let began = runtime::now();
        let told = answers(&waiting, 11).await;
        let lasted = runtime::now().since(began);
        assert!(lasted >= Duration::from_millis(990) && lasted < Duration::from_millis(1200), "{lasted:?}");
        let warning = "Request breached global limit of 5 requests/second and triggered backpressure.";
        assert_eq!(told.iter().filter(|answer| answer.warnings == [warning]).count(), 5);
        assert!(told.iter().all(|answer| matches!(answer.response, Response::Rows(_))), "all are answered");
    });
}

/// A request that has waited for its turn longer than its client waits for an answer is not run: the eighth of a client
/// that may send one a second.
#[test]
fn requests_that_have_waited_too_long_are_refused() {
    let limits = ClientLimits { requests_per_second_max: Some(1), ..ClientLimits::default() };
    let mut config = limited(limits);
    config.node.client_timeout = Duration::from_millis(5500);
    with_config(1, config, || async {
        for version in [Version::V4, Version::V5] {
            let client = Client::ready(version).await;
            runtime::sleep(Duration::from_secs(5)).await;
            // The first two come at once, each of the others a second after the one before it: the eighth after six.
            let answers: Vec<Response> = answers(&client, 10).await.into_iter().map(|answer| answer.response).collect();
            assert!(answers[..7].iter().all(|answer| matches!(answer, Response::Rows(_))), "{answers:?}");
            let text = "Query timed out before it could start".to_owned();
            let refused: Vec<_> = answers.into_iter().skip(7).map(error).collect();
            assert_eq!(refused, vec![(0x1001, text); 3]);
            runtime::sleep(Duration::from_secs(5)).await;
            assert_eq!(client.rows(SELECT).await.rows.len(), 1, "who does not wait is served");
        }
    });
}

/// Clients that do not read their answers take no more than a part of the node's memory: those that have not read for
/// the longest time are closed.
#[test]
fn unread_answers_of_all_clients_are_limited() {
    const CLIENTS: usize = 30;
    const REQUESTS: i16 = 4;
    let limits = ClientLimits { frame_bytes_max: 2 << 20, message_bytes_max: 2 << 20, ..ClientLimits::default() };
    // A tenth of the node's 256 MiB; each client has more than 1 MB queued.
    with_config(1, limited(limits), || async {
        let reader = Client::ready(Version::V4).await;
        reader.create().await;
        let blob = "x".repeat(400_000);
        reader.query(&format!("INSERT INTO k.t (a, b) VALUES (1, '{blob}')")).await;
        const BLOB: &str = "SELECT b FROM k.t WHERE a = 1";
        let mut clients = Vec::new();
        for _ in 0..CLIENTS {
            let client = Client::ready(Version::V4).await;
            client.stream.pause();
            (0..REQUESTS).for_each(|stream| client.send(stream, &select(BLOB)));
            // A client that reads what it asks for stays meanwhile.
            assert_eq!(reader.rows(BLOB).await.rows.len(), 1);
            clients.push(client);
        }
        let began = runtime::now();
        let connected = async || reader.rows("SELECT port FROM system_views.clients").await.rows.len();
        while connected().await > CLIENTS {
            assert!(runtime::now().since(began) < OUTPUT_STALL_MAX / 2, "nobody is closed");
            runtime::sleep(Duration::from_millis(10)).await;
        }
        let mut are_whole = Vec::new();
        for client in &clients {
            client.stream.resume();
            let mut answers = 0;
            while answers < REQUESTS && client.receive().await.is_some() {
                answers += 1;
            }
            are_whole.push(answers == REQUESTS);
        }
        let closed = are_whole.iter().filter(|whole| !**whole).count();
        assert!((5..=20).contains(&closed), "{are_whole:?}");
        assert!(are_whole.is_sorted(), "those that came first: {are_whole:?}");
        assert_eq!(reader.rows(BLOB).await.rows.len(), 1);
    });
}

/// O1: bytes of requests under way, of one address; others have their own.
#[test]
fn o1_bytes_in_flight_are_limited_per_address() {
    let per_ip = 64 << 10;
    let limits = ClientLimits {
        message_bytes_max: per_ip,
        request_bytes_max: Some(1 << 20),
        request_bytes_per_ip_max: Some(per_ip as u64),
        throws_on_overload: true,
        ..ClientLimits::default()
    };
    with_config(1, limited(limits), move || async move {
        Client::ready(Version::V5).await.create().await;
        // The option of the configuration holds for clients that do not say, and clients may say otherwise.
        for (option, may_throw) in [(None, true), (Some("0"), false)] {
            let client = Client::connect(Version::V5).await;
            let mut options = vec![("CQL_VERSION", "3.0.0")];
            options.extend(option.map(|value| ("THROW_ON_OVERLOAD", value)));
            client.startup_with(options).await;
            let (text, value) = ("INSERT INTO k.t (a, b) VALUES (1, ?)", vec![b'x'; 30_000]);
            for stream in 0..4 {
                client.send(stream, &Request::Query { text, parameters: values(&[&value]) });
            }
            let (mut done, mut refused) = (0, Vec::new());
            for _ in 0..4 {
                match Answer::decode(&client.receive().await.expect("an answer")).expect("valid").response {
                    Response::Void => done += 1,
                    other => refused.push(error(other)),
                }
            }
            assert_eq!((done, refused.len()), if may_throw { (2, 2) } else { (4, 0) });
            for (code, text) in refused {
                assert_eq!(code, 0x1001);
                assert!(text.starts_with("Request breached limit on bytes in flight. (Endpoint: 61"), "{text}");
                assert!(text.contains("/65536 bytes, Global: 61"), "{text}");
                assert!(text.ends_with(
                    "/524288 bytes.)Server is currently in an overloaded state and cannot accept more requests."
                ));
            }
            assert_eq!(client.rows("SELECT a FROM k.t WHERE a = 1").await.rows.len(), 1);
        }
    });
}

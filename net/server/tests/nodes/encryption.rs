//! Nodes that encrypt: among each other, with clients, and with keys that are renewed while they run.

use super::*;
use server::config::{ClientEncryption, InternodeEncryption, ServerEncryption};
use shard::Authenticator;
use std::path::Path;
use tls::{ClientAuth, ClientContext, Encryption, Format, Secret, Source};

const FOUR: NodeId = NodeId(4);
const KEYS: &str = "keys.pem";

macro_rules! pem {
    ($name:literal) => {
        include_str!(concat!("../../../tls/tests/certificates/", $name, ".pem"))
    };
}

fn inline(text: &str) -> Option<Source> {
    Some(Source::Inline(Secret(text.into())))
}

fn options(keystore: Option<Source>) -> tls::Options {
    tls::Options { format: Format::Pem, keystore, truststore: inline(pem!("ca")), ..tls::Options::default() }
}

/// A node that encrypts everything and asks other nodes for certificates.
fn encrypted(node: NodeId, keystore: &str) -> Config {
    let required =
        tls::Options { client_auth: ClientAuth::Required, verifies_endpoint: true, ..options(inline(keystore)) };
    Config {
        client_encryption: ClientEncryption {
            encryption: Encryption::Required,
            options: options(inline(keystore)),
            ..ClientEncryption::default()
        },
        server_encryption: ServerEncryption {
            internode: InternodeEncryption::All,
            options: required,
            ..ServerEncryption::default()
        },
        ..config(node)
    }
}

fn trusting() -> ClientContext {
    let trusted = tls::certificates_of_pem(pem!("ca").as_bytes()).expect("certificates");
    ClientContext::trusting(None, Some(trusted)).expect("a context")
}

async fn encrypted_client(node: NodeId, port: u16) -> Client {
    Client::connect_encrypted(at(node, port), 5, &trusting()).await.expect("the node serves")
}

fn shown(row: &[Option<Vec<u8>>]) -> Vec<String> {
    let text = |cell: &Option<Vec<u8>>| String::from_utf8_lossy(cell.as_deref().unwrap_or_default()).into_owned();
    row.iter().map(text).collect()
}

#[test]
fn three_nodes_and_their_clients_encrypt_everything() {
    let mut sim = Sim::new(61, Options { buggify: false, ..Options::default() });
    for node in [ONE, TWO, THREE] {
        assert_eq!(start(&mut sim, node, 2, encrypted(node, pem!("node"))), []);
    }
    run(&mut sim, || async {
        let mut one = encrypted_client(ONE, 9042).await;
        query(&mut one, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
            .await;
        query(&mut one, "CREATE TABLE k.t (a int PRIMARY KEY, b text)").await;
        let all = QueryOptions { consistency: model::Consistency::All, ..QueryOptions::default() };
        let text = "x".repeat(100_000);
        for key in 0..5 {
            one.query(&format!("INSERT INTO k.t (a, b) VALUES ({key}, '{text}')"), &all).await.expect("on all nodes");
        }
        let mut two = encrypted_client(TWO, 19142).await;
        let rows = two.query("SELECT a, b FROM k.t", &all).await.expect("from all nodes").rows;
        assert!(rows.len() == 5 && rows.iter().all(|row| row[1].as_deref() == Some(text.as_bytes())));
        let columns = "ssl_protocol, ssl_cipher_suite, connection_stage";
        let seen = query(&mut two, &format!("SELECT {columns} FROM system_views.clients")).await.rows;
        assert_eq!(shown(&seen[0]), ["TLSv1.3", "TLS_AES_256_GCM_SHA384", "ready"]);
        let port = two.supported.iter().find(|(name, _)| name == "SCYLLA_SHARD_AWARE_PORT_SSL").expect("named");
        assert_eq!(port.1, ["19142"]);
        assert!(!two.supported.iter().any(|(name, _)| name == "SCYLLA_SHARD_AWARE_PORT"));
        assert!(Client::connect(at(ONE, 9042), None, 4).await.is_err(), "not encrypted");
        assert!(Client::connect(at(ONE, 19042), None, 4).await.is_err(), "the port is not there");
        let plain = Stream::connect(at(ONE, 7000), None).await.expect("the port is open");
        plain.write(|out| out.extend_from_slice(b"helenus\n\x01\0"));
        assert!(!matches!(plain.recv().await, Ok(Some(bytes)) if bytes[0] != 21), "closed, with an alert at most");
    });
    // A certificate of another authority, and one that names other addresses.
    for keystore in [pem!("stranger"), pem!("elsewhere")] {
        let stranger = begin(&mut sim, FOUR, 1, encrypted(FOUR, keystore));
        sim.run_until(Duration::from_secs(30), || stranger.serves());
        assert!(!stranger.serves(), "it cannot join");
        sim.crash(FOUR);
        sim.wipe(FOUR);
    }
}

#[test]
fn a_port_may_take_both_and_another_one_encrypted_connections_only() {
    let mut sim = Sim::new(62, Options { buggify: false, ..Options::default() });
    let mut config = config(ONE);
    config.client_encryption = ClientEncryption {
        encryption: Encryption::Optional,
        port: Some(9142),
        options: options(inline(pem!("node"))),
        ..ClientEncryption::default()
    };
    assert_eq!(start(&mut sim, ONE, 2, config), []);
    run(&mut sim, || async {
        let seen = "SELECT port FROM system_views.clients WHERE ssl_enabled = true ALLOW FILTERING";
        let mut plain = client(ONE).await;
        assert_eq!(query(&mut plain, seen).await.rows.len(), 0);
        for port in [9042, 9142, 19142] {
            let mut encrypted = encrypted_client(ONE, port).await;
            assert_eq!(query(&mut encrypted, seen).await.rows.len(), 1, "port {port}");
        }
        let named = |name: &str| plain.supported.iter().any(|(known, _)| known == name);
        assert!(named("SCYLLA_SHARD_AWARE_PORT") && named("SCYLLA_SHARD_AWARE_PORT_SSL"));
        for port in [9142, 19142] {
            assert!(Client::connect(at(ONE, port), None, 4).await.is_err(), "port {port} is for TLS");
        }
    });
}

/// The certificate that the node shows to clients.
async fn shown_certificate() -> tls::CertificateDer<'static> {
    let socket = Stream::connect(at(ONE, 9042), None).await.expect("the port is open");
    let stream = tls::Stream::connect(socket, &trusting()).await.expect("trusted");
    stream.secured().expect("encrypted").peer_certificates.remove(0)
}

fn first(pem: &str) -> tls::CertificateDer<'static> {
    tls::certificates_of_pem(pem.as_bytes()).expect("certificates").remove(0)
}

#[test]
fn keys_are_renewed_while_the_node_runs_and_bad_files_change_nothing() {
    let mut sim = Sim::new(63, Options { buggify: false, ..Options::default() });
    sim.run_node(ONE, LIMIT, || async {
        runtime::file::replace_small(Path::new(KEYS), pem!("node").as_bytes()).await.expect("written");
    });
    let mut config = config(ONE);
    config.client_encryption = ClientEncryption {
        encryption: Encryption::Required,
        options: options(Some(Source::File(KEYS.into()))),
        ..ClientEncryption::default()
    };
    assert_eq!(start(&mut sim, ONE, 2, config.clone()), []);
    let write = |sim: &mut Sim, text: &str| {
        let text = text.as_bytes().to_vec();
        assert!(sim.mutate_file(ONE, Path::new(KEYS), |bytes| *bytes = text), "the file is there");
    };
    write(&mut sim, pem!("expired").split_at(100).0);
    run(&mut sim, || async {
        let request = Request { command: "reloadssl".into(), options: Vec::new(), arguments: Vec::new() };
        let answer = admin::ask(Sim::address_of(ONE), &request).await.expect("it is answered");
        assert!(answer.exit != 0 && answer.err.contains("Failed to reload SSL certificates"), "{}", answer.err);
        assert_eq!(shown_certificate().await, first(pem!("node")), "the old one is kept");
    });
    write(&mut sim, pem!("renewed"));
    run(&mut sim, || async {
        tool(ONE, "reloadssl", &[], &[]).await;
        // Both cores have it: connections go to each in turn.
        for _ in 0..2 {
            assert_eq!(shown_certificate().await, first(pem!("renewed")));
        }
    });
    write(&mut sim, pem!("node"));
    sim.run_until(Duration::from_secs(601), || false);
    run(&mut sim, || async {
        assert_eq!(shown_certificate().await, first(pem!("node")), "noticed without a command");
    });
}

#[test]
fn a_node_does_not_start_without_the_encryption_that_it_shall_have() {
    let mut sim = Sim::new(64, Options { buggify: false, ..Options::default() });
    let mut config = config(ONE);
    config.client_encryption = ClientEncryption {
        encryption: Encryption::Required,
        options: options(Some(Source::File("nothing.pem".into()))),
        ..ClientEncryption::default()
    };
    assert_eq!(start(&mut sim, ONE, 1, config), [Exit::Misconfigured]);
}

#[test]
fn silent_and_noisy_strangers_keep_no_client_out_and_are_closed() {
    let mut sim = Sim::new(65, Options { buggify: false, ..Options::default() });
    let mut config = encrypted(ONE, pem!("node"));
    config.connections_per_ip_max = 2000;
    assert_eq!(start(&mut sim, ONE, 1, config), []);
    run(&mut sim, || async {
        let mut silent = Vec::new();
        for n in 0..tls::HANDSHAKES_MAX + 1 {
            let stream = Stream::connect(at(ONE, 9042), None).await.expect("the port is open");
            if n % 2 == 0 {
                // The head of a record that never comes.
                stream.write(|out| out.extend_from_slice(b"\x16\x03\x01\x02\0\x01"));
            }
            silent.push(stream);
        }
        let began = runtime::now();
        query(&mut encrypted_client(ONE, 9042).await, "SELECT key FROM system.local").await;
        assert!(runtime::now().since(began) < Duration::from_secs(5), "silent connections keep nobody out");
        let noise = Stream::connect(at(ONE, 9042), None).await.expect("the port is open");
        noise.write(|out| out.extend_from_slice(&[0xa5; 5000]));
        while let Ok(Some(_)) = noise.recv().await {}
        for stream in silent {
            while let Ok(Some(_)) = stream.recv().await {}
        }
        assert!(runtime::now().since(began) < Duration::from_secs(12), "all of them are closed in time");
    });
}

/// A node with roles whose clients may show certificates.
fn mutual(authenticator: Authenticator, encryption: Encryption) -> Config {
    let required = tls::Options { client_auth: ClientAuth::Required, ..options(inline(pem!("node"))) };
    let mut config = config(ONE);
    config.client_encryption = ClientEncryption { encryption, options: required, ..ClientEncryption::default() };
    config.node.access.authenticator = authenticator;
    config.node.access.authorizes = true;
    config.node.access.default_superuser = true;
    config
}

/// A context that shows a certificate.
fn showing(pem: &str) -> ClientContext {
    let trusted = tls::certificates_of_pem(pem!("ca").as_bytes()).expect("certificates");
    let own = tls::Credentials::of_pem(pem.as_bytes(), None).expect("credentials");
    ClientContext::trusting(Some(own), Some(trusted)).expect("a context")
}

#[test]
fn certificates_log_in_as_the_roles_of_their_identities() {
    let mut sim = Sim::new(64, Options { buggify: false, ..Options::default() });
    let config = mutual(Authenticator::MutualTlsWithPasswordFallback, Encryption::Optional);
    assert_eq!(start(&mut sim, ONE, 2, config), []);
    run(&mut sim, || async {
        const IDENTITY: &str = "spiffe://helenus.test/client";
        let connect = async |pem| Client::connect_encrypted(at(ONE, 9042), 5, &showing(pem)).await;
        let refusal = |answer: std::io::Result<Client>| answer.err().map(|error| error.to_string()).unwrap_or_default();
        let unknown = format!("Certificate identity '{IDENTITY}' not authorized");
        let refused = refusal(connect(pem!("client")).await);
        assert!(refused.contains(&unknown), "{refused}");
        let mut root = Client::connect_as(at(ONE, 9042), 5, "cassandra", "cassandra").await.expect("by password");
        query(&mut root, "CREATE ROLE app WITH LOGIN = true").await;
        query(&mut root, "GRANT SELECT ON system_auth.roles TO app").await;
        query(&mut root, &format!("ADD IDENTITY '{IDENTITY}' TO ROLE 'app'")).await;
        let mut app = connect(pem!("client")).await.expect("by certificate");
        const READ: &str = "SELECT role FROM system_auth.roles";
        assert_eq!(query(&mut app, READ).await.rows.len(), 2);
        let refused = app.query("CREATE ROLE x", &QueryOptions::default()).await.expect_err("it has no permission");
        assert!(format!("{refused:?}").contains("User app does not have sufficient privileges"), "{refused:?}");
        // A certificate without a SPIFFE URI has no identity.
        let refused = refusal(connect(pem!("node")).await);
        assert!(refused.contains("Unable to extract Spiffe from the certificate"), "{refused}");
        // What is dropped counts on open connections.
        query(&mut root, &format!("DROP IDENTITY '{IDENTITY}'")).await;
        runtime::sleep(Duration::from_secs(1)).await;
        let refused = app.query(READ, &QueryOptions::default()).await.expect_err("the identity is gone");
        assert!(format!("{refused:?}").contains(&unknown), "{refused:?}");
        let refused = refusal(connect(pem!("client")).await);
        assert!(refused.contains(&unknown), "{refused}");
    });
}

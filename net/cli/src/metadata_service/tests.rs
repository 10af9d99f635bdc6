//! A small HTTP server that answers as the metadata services do.
#![expect(clippy::disallowed_types, clippy::disallowed_methods, reason = "a server on a thread of its own")]

use super::{ANSWER_BYTES_MAX, ask};
use cluster::snitch::cloud::{Method, Question};
use cluster::snitch::{Location, Snitch};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// Starts a server that answers each request with what `answer` makes of its head: status line and body. It ends with
/// the test.
fn serve(answer: fn(&str) -> (&'static str, String)) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { break };
            let mut head = Vec::new();
            let mut byte = [0];
            while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|read| read == 1) {
                head.push(byte[0]);
            }
            let (status, body) = answer(&String::from_utf8_lossy(&head));
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes()));
        }
    });
    address
}

/// What all clouds say; each question with the header that it needs.
fn clouds(head: &str) -> (&'static str, String) {
    let lower = head.to_ascii_lowercase();
    let has = |header: &str| lower.contains(&format!("\r\n{header}\r\n"));
    let answered = |body: &str| ("200 OK", body.to_owned());
    match head.split(' ').take(2).collect::<Vec<_>>().join(" ").as_str() {
        "PUT /latest/api/token" if has("x-aws-ec2-metadata-token-ttl-seconds: 21600") => answered("secret"),
        "GET /latest/meta-data/placement/availability-zone" if has("x-aws-ec2-metadata-token: secret") => {
            answered("eu-west-1b")
        }
        "GET /computeMetadata/v1/instance/zone" if has("metadata-flavor: google") => {
            answered("projects/12/zones/europe-west4-c")
        }
        "GET /latest/meta-data/zone-id" => answered("cn-beijing-a"),
        "GET /latest/meta-data/availability-zone" => answered("ch-gva-2"),
        "GET /latest/meta-data/public-ipv4" if has("x-aws-ec2-metadata-token: secret") => answered("52.1.2.3"),
        "GET /latest/meta-data/local-ipv4" if has("x-aws-ec2-metadata-token: secret") => answered("10.0.0.7"),
        "GET /metadata/instance/compute?api-version=2021-12-13&format=json" if has("metadata: true") => {
            answered(r#"{"location": "northeurope", "zone": "2"}"#)
        }
        "GET /long" => ("200 OK", "x".repeat(ANSWER_BYTES_MAX as usize)),
        "GET /too-long" => ("200 OK", "x".repeat(ANSWER_BYTES_MAX as usize + 1)),
        "GET /elsewhere" => ("302 Found", String::new()),
        _ => ("401 Unauthorized", String::new()),
    }
}

fn get(address: SocketAddr, path: &str) -> Result<String, String> {
    let question = Question { method: Method::Get, url: format!("http://{address}{path}"), headers: Vec::new() };
    ask(&question, Duration::from_secs(20))
}

#[test]
fn snitches_of_clouds_find_their_place() {
    let address = serve(clouds);
    let file = format!("metadata_url=http://{address}");
    for (name, data_center, rack) in [
        ("Ec2Snitch", "eu-west-1", "eu-west-1b"),
        ("Ec2MultiRegionSnitch", "eu-west-1", "eu-west-1b"),
        ("CloudstackSnitch", "ch-gva", "2"),
        ("GoogleCloudSnitch", "europe-west4", "c"),
        ("AlibabaCloudSnitch", "cn-beijing", "a"),
        ("AzureSnitch", "northeurope", "rack-2"),
    ] {
        let snitch = Snitch::named(name).expect(name);
        let ask = |question: &Question| ask(question, Duration::from_secs(20));
        let located = snitch.locate(Some(&file), ([127, 0, 0, 1], 7000).into(), &|_| None, &ask);
        assert_eq!(located, Ok(Location { data_center: data_center.into(), rack: rack.into() }), "{name}");
        let addresses = snitch.addresses(Some(&file), &ask).expect(name);
        let both = addresses.map(|both| (both.public.to_string(), both.private.to_string()));
        let expected = (name == "Ec2MultiRegionSnitch").then(|| ("52.1.2.3".to_owned(), "10.0.0.7".to_owned()));
        assert_eq!(both, expected, "{name}");
    }
}

#[test]
fn only_answers_with_status_200_are_read_and_not_for_ever() {
    let address = serve(clouds);
    assert_eq!(get(address, "/nothing"), Err("HTTP response code: 401 (Unauthorized)".into()));
    assert_eq!(get(address, "/elsewhere"), Err("HTTP response code: 302 (Found)".into()));
    assert_eq!(get(address, "/long").map(|body| body.len() as u64), Ok(ANSWER_BYTES_MAX));
    assert!(get(address, "/too-long").is_err());
    // A server that never answers: its connections wait to be accepted.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", silent.local_addr().expect("bound"));
    let question = Question { method: Method::Get, url, headers: Vec::new() };
    assert!(ask(&question, Duration::from_millis(50)).expect_err("no answer").contains("timeout"));
}

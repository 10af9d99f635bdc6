//! HTTP on a loopback address, for monitoring: `GET /metrics` for Prometheus, `GET /status` as JSON.
//!
//! 1. Shard 0 listens on [`address`]. If the port is taken there is no HTTP, and the log warns.
//! 2. Each connection carries one request and one answer. `hyper` parses and writes them, `io` moves their bytes.
//! 3. The request's `Host` must name this machine. This keeps out web pages whose host name was made to resolve to a
//!    loopback address ("DNS rebinding").
//! 4. Metrics are collected from all shards on request (`exposition`).
//!
//! Invariants: requests change nothing; at most [`CONNECTIONS_MAX`] are served at once, further ones wait; a request's
//! head has at most [`HEAD_BYTES_MAX`] bytes; an exchange takes at most [`EXCHANGE_MAX`].

mod exposition;
mod io;
mod status;

use crate::node_state::NodeState;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ALLOW, CONTENT_TYPE, HOST, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use io::Io;
use runtime::gate::Semaphore;
use runtime::sync::{Either, Latch, race};
use runtime::{Listener, Stream};
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

/// The most requests that are served at the same time.
pub const CONNECTIONS_MAX: u64 = 16;
/// The longest head of a request: its first line and its headers with the empty line after them. `hyper` takes no lower
/// limit.
pub const HEAD_BYTES_MAX: usize = 8192;
/// How long an exchange may take, from the connection to the last byte of the answer.
pub const EXCHANGE_MAX: Duration = Duration::from_secs(10);
/// Wait before accepting again after an accept failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Where a node that listens on `listen_address` serves HTTP: at that address if it is a loopback one, so that two
/// nodes on one machine do not collide.
pub fn address(listen_address: IpAddr, port: u16) -> SocketAddr {
    let host = if listen_address.is_loopback() { listen_address } else { IpAddr::V4(Ipv4Addr::LOCALHOST) };
    SocketAddr::new(host, port)
}

/// Listens for requests. Returns `None` if HTTP is switched off, or if listening fails, about which the log warns.
pub(crate) async fn listen(node: &NodeState) -> Option<Listener> {
    let port = node.config.metrics_port?;
    let address = address(node.shard.node_config().listen_address, port);
    match Listener::bind(address).await {
        Ok(listener) => Some(listener),
        Err(error) => {
            tracing::warn!(%address, %error, "no port for metrics: metrics_port sets another one, or 0 for none");
            None
        }
    }
}

/// Serves requests until `closing` is set.
pub(crate) async fn serve(node: Rc<NodeState>, listener: Listener, closing: Latch) {
    let places = Semaphore::new(CONNECTIONS_MAX);
    loop {
        let accepted = async {
            let place = places.acquire(1).await;
            (place, listener.accept().await)
        };
        match race(closing.wait(), accepted).await {
            Either::Left(()) => return,
            Either::Right((place, Ok(accepted))) => {
                let node = node.clone();
                runtime::spawn(async move {
                    let _place = place;
                    match accepted.attach() {
                        Ok(stream) => exchange(&node, stream).await,
                        Err(error) => tracing::debug!(%error, "a connection could not be attached"),
                    }
                });
            }
            Either::Right((_, Err(error))) => {
                tracing::warn!(%error, "accept failed");
                runtime::sleep(ACCEPT_RETRY).await;
            }
        }
    }
}

/// Answers the request of one connection.
async fn exchange(node: &NodeState, stream: Stream) {
    let stream = Rc::new(stream);
    let io = Io::new(stream.clone(), HEAD_BYTES_MAX);
    let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(node, &request).await) });
    let mut builder = http1::Builder::new();
    // hyper would read the system's clock for a date, which only the runtime may.
    builder.keep_alive(false).half_close(true).auto_date_header(false).max_buf_size(HEAD_BYTES_MAX);
    let served = runtime::timeout(EXCHANGE_MAX, async {
        let served = builder.serve_connection(io, service).await;
        // hyper has answered what it refuses.
        stream.drained_to(0).await?;
        served.map_err(std::io::Error::other)
    });
    match served.await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "a request for figures was not served"),
        None => tracing::debug!("a request for figures took too long"),
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(node: &NodeState, request: &Request<Incoming>) -> Answer {
    if let Err((status, reason)) = names_this_machine(request) {
        return text(status, reason);
    }
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/status") {
        return text(StatusCode::NOT_FOUND, "there is /metrics and /status\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refused = text(StatusCode::METHOD_NOT_ALLOWED, "GET alone is served\n");
        refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refused;
    }
    if path == "/status" {
        return typed(StatusCode::OK, "application/json", status::json(node));
    }
    match exposition::text(node).await {
        Ok(metrics) => typed(StatusCode::OK, exposition::CONTENT_TYPE, metrics),
        Err(failure) => text(StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", failure.text)),
    }
}

/// Checks that the request's `Host`, and its target if that names a host too, are loopback names or addresses.
fn names_this_machine<B>(request: &Request<B>) -> Result<(), (StatusCode, &'static str)> {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err((StatusCode::BAD_REQUEST, "one Host is needed\n"));
    };
    let is_here = host.to_str().is_ok_and(is_loopback);
    if is_here && request.uri().authority().is_none_or(|authority| is_loopback(authority.as_str())) {
        return Ok(());
    }
    Err((StatusCode::MISDIRECTED_REQUEST, "the request's Host is no name or address of a loopback interface\n"))
}

/// Whether an authority is `localhost` or a loopback address, with a port or without.
fn is_loopback(authority: &str) -> bool {
    let Ok(uri) = Uri::builder().scheme("http").authority(authority).path_and_query("/").build() else { return false };
    let Some(parts) = uri.authority().filter(|parts| !parts.as_str().contains('@')) else { return false };
    let host = parts.host();
    let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn text(status: StatusCode, text: impl Into<Bytes>) -> Answer {
    typed(status, "text/plain; charset=utf-8", text)
}

fn typed(status: StatusCode, content_type: &'static str, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_and_addresses_are_this_machine() {
        for host in ["localhost", "LocalHost:7199", "127.0.0.1", "127.1.2.3:80", "[::1]", "[::1]:7199"] {
            assert!(is_loopback(host), "{host}");
        }
        let others = [
            "",
            "example.org",
            "example.org:7199",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "10.0.0.1",
            "0.0.0.0",
            "[::2]",
            "::1",
            "user@localhost",
            "localhost:7199/x",
        ];
        for host in others {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn one_host_is_needed() {
        let status = |uri: &str, hosts: &[&str]| {
            let mut request = Request::builder().uri(uri);
            for host in hosts {
                request = request.header(HOST, *host);
            }
            let request = request.body(()).expect("a request");
            names_this_machine(&request).map_err(|(status, _)| status.as_u16())
        };
        assert_eq!(status("/metrics", &["localhost"]), Ok(()));
        assert_eq!(status("http://127.0.0.1/metrics", &["localhost"]), Ok(()));
        assert_eq!(status("/metrics", &[]), Err(400));
        assert_eq!(status("/metrics", &["localhost", "localhost"]), Err(400));
        assert_eq!(status("/metrics", &["example.org"]), Err(421));
        assert_eq!(status("http://example.org/metrics", &["localhost"]), Err(421));
    }

    #[test]
    fn only_loopback_addresses_are_listened_on() {
        let at = |ip: &str| address(ip.parse().expect("an address"), 7199).to_string();
        assert_eq!(at("127.0.0.9"), "127.0.0.9:7199");
        assert_eq!(at("::1"), "[::1]:7199");
        assert_eq!(at("192.0.2.1"), "127.0.0.1:7199");
        assert_eq!(at("0.0.0.0"), "127.0.0.1:7199");
    }
}

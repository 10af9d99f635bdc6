//! What clients may ask of a node: sizes of messages, bytes under way, requests per second, idle time, versions.

use super::given::Given;
use super::{ConfigError, error};
use std::time::Duration;
use wire::decoder::{ENVELOPE_BYTES_MAX, UNREADY_BYTES_MAX};

/// The largest message that may be allowed.
pub const MESSAGE_BYTES_MAX: u64 = 256 << 20;

/// The limits of clients that the configuration sets, besides the number of connections.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientLimits {
    /// `native_transport_idle_timeout`: a connection that sends nothing for so long is closed; `None` for never.
    pub idle_max: Option<Duration>,
    /// `native_transport_max_frame_size`: the largest message in versions 3 and 4, its header included.
    pub frame_bytes_max: usize,
    /// `native_transport_max_message_size`: the largest body of a message in version 5.
    pub message_bytes_max: usize,
    /// `native_transport_max_request_data_in_flight`: bytes of requests under way in the whole node; `None` for a
    /// part of its memory.
    pub request_bytes_max: Option<u64>,
    /// `native_transport_max_request_data_in_flight_per_ip`: the same for one client address; `None` for as many as
    /// the node has.
    pub request_bytes_per_ip_max: Option<u64>,
    /// `native_transport_max_requests_per_second`, if `native_transport_rate_limiting_enabled` is true.
    pub requests_per_second_max: Option<u32>,
    /// `native_transport_allow_older_protocols`: whether versions below 5 are spoken.
    pub allows_older_protocols: bool,
    /// `native_transport_throw_on_overload`: whether clients that do not say get OVERLOADED instead of having to wait.
    pub throws_on_overload: bool,
}

impl Default for ClientLimits {
    fn default() -> ClientLimits {
        ClientLimits {
            idle_max: None,
            frame_bytes_max: ENVELOPE_BYTES_MAX,
            message_bytes_max: ENVELOPE_BYTES_MAX,
            request_bytes_max: None,
            request_bytes_per_ip_max: None,
            requests_per_second_max: None,
            allows_older_protocols: true,
            throws_on_overload: false,
        }
    }
}

impl Given {
    pub(super) fn client_limits(&self) -> Result<ClientLimits, ConfigError> {
        const MESSAGE: &str = "native_transport_max_message_size";
        const IN_FLIGHT: &str = "native_transport_max_request_data_in_flight";
        const PER_IP: &str = "native_transport_max_request_data_in_flight_per_ip";
        let default = ClientLimits::default();
        let frame_bytes_max = self.message_bytes("native_transport_max_frame_size")?.unwrap_or(ENVELOPE_BYTES_MAX);
        let in_flight = [(IN_FLIGHT, self.bytes(IN_FLIGHT)?), (PER_IP, self.bytes(PER_IP)?)];
        let least = in_flight.iter().filter_map(|(_, bytes)| *bytes).min().unwrap_or(u64::MAX);
        let given = self.message_bytes(MESSAGE)?;
        let message_bytes_max = given.unwrap_or((ENVELOPE_BYTES_MAX as u64).min(least) as usize);
        for (name, bytes) in in_flight {
            if bytes.is_some_and(|bytes| bytes < message_bytes_max as u64) {
                return error(format!("{MESSAGE} must not exceed {name}"));
            }
            if bytes.is_some_and(|bytes| bytes < UNREADY_BYTES_MAX as u64) {
                return error(format!("{name}: at least {UNREADY_BYTES_MAX} bytes are needed"));
            }
        }
        let rate = self.number("native_transport_max_requests_per_second", 0, i32::MAX as u64)?.unwrap_or(1_000_000);
        if rate == 0 {
            return error("native_transport_max_requests_per_second must be greater than zero");
        }
        let is_limited = self.flag("native_transport_rate_limiting_enabled")?.unwrap_or_default();
        Ok(ClientLimits {
            idle_max: self.duration("native_transport_idle_timeout")?.filter(|idle| !idle.is_zero()),
            frame_bytes_max,
            message_bytes_max,
            request_bytes_max: in_flight[0].1,
            request_bytes_per_ip_max: in_flight[1].1,
            requests_per_second_max: is_limited.then_some(rate as u32),
            allows_older_protocols: self
                .flag("native_transport_allow_older_protocols")?
                .unwrap_or(default.allows_older_protocols),
            throws_on_overload: self.flag("native_transport_throw_on_overload")?.unwrap_or(default.throws_on_overload),
        })
    }

    /// A size of messages, of at least what a handshake may have.
    fn message_bytes(&self, name: &'static str) -> Result<Option<usize>, ConfigError> {
        match self.bytes(name)? {
            None => Ok(None),
            Some(bytes) if (UNREADY_BYTES_MAX as u64..=MESSAGE_BYTES_MAX).contains(&bytes) => Ok(Some(bytes as usize)),
            Some(bytes) => {
                error(format!("{name}: {bytes} bytes; from {UNREADY_BYTES_MAX} to {MESSAGE_BYTES_MAX} are possible"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<ClientLimits, String> {
        Config::read(text, &[]).map(|config| config.client_limits).map_err(|error| error.0)
    }

    #[test]
    fn limits_of_clients_are_read() {
        assert_eq!(read(""), Ok(ClientLimits::default()));
        let all = "native_transport_idle_timeout: 3s\nnative_transport_max_frame_size: 2MiB\n\
                   native_transport_max_message_size: 1000000B\nnative_transport_max_request_data_in_flight: 3000000B\n\
                   native_transport_max_request_data_in_flight_per_ip: 2000000B\n\
                   native_transport_rate_limiting_enabled: true\nnative_transport_max_requests_per_second: 5\n\
                   native_transport_allow_older_protocols: false\nnative_transport_throw_on_overload: true\n";
        let expected = ClientLimits {
            idle_max: Some(Duration::from_secs(3)),
            frame_bytes_max: 2 << 20,
            message_bytes_max: 1_000_000,
            request_bytes_max: Some(3_000_000),
            request_bytes_per_ip_max: Some(2_000_000),
            requests_per_second_max: Some(5),
            allows_older_protocols: false,
            throws_on_overload: true,
        };
        assert_eq!(read(all), Ok(expected));
        let unlimited = read("native_transport_max_requests_per_second: 5").expect("valid");
        assert_eq!(unlimited.requests_per_second_max, None, "it must be switched on");
        let smaller = read("native_transport_max_request_data_in_flight: 1MiB").expect("valid");
        assert_eq!(smaller.message_bytes_max, 1 << 20, "the size of messages follows");
    }

    #[test]
    fn limits_have_limits() {
        let (least, most) = (UNREADY_BYTES_MAX, MESSAGE_BYTES_MAX);
        for name in ["native_transport_max_message_size", "native_transport_max_request_data_in_flight"] {
            assert!(read(&format!("{name}: {least}B")).is_ok(), "{name}");
            assert!(read(&format!("{name}: {}B", least - 1)).is_err(), "{name}");
        }
        assert!(read(&format!("native_transport_max_message_size: {most}B")).is_ok());
        assert!(read(&format!("native_transport_max_message_size: {}B", most + 1)).is_err());
        for name in
            ["native_transport_max_request_data_in_flight", "native_transport_max_request_data_in_flight_per_ip"]
        {
            let file = format!("native_transport_max_message_size: 2MiB\n{name}: 1MiB");
            assert_eq!(read(&file), Err(format!("native_transport_max_message_size must not exceed {name}")));
        }
        assert_eq!(
            read("native_transport_max_requests_per_second: 0"),
            Err("native_transport_max_requests_per_second must be greater than zero".into())
        );
    }
}

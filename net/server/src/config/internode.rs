//! `internode_*`: timeouts, queues and compression of links to other nodes.

use super::given::Given;
use super::{ConfigError, error};
use internode::{Compression, Options, QueueLimits};

impl Given {
    pub(super) fn internode(&self) -> Result<Options, ConfigError> {
        let default = Options::default();
        let send = self.queue(
            "internode_application_send_queue_capacity",
            "internode_application_send_queue_reserve_endpoint_capacity",
            "internode_application_send_queue_reserve_global_capacity",
        )?;
        let receive = self.queue(
            "internode_application_receive_queue_capacity",
            "internode_application_receive_queue_reserve_endpoint_capacity",
            "internode_application_receive_queue_reserve_global_capacity",
        )?;
        let most = receive.reserve_endpoint_bytes.min(send.reserve_endpoint_bytes);
        let longest = self.bytes("internode_max_message_size")?;
        for (name, limit) in [
            ("internode_application_receive_queue_reserve_endpoint_capacity", receive.reserve_endpoint_bytes),
            ("internode_application_receive_queue_reserve_global_capacity", receive.reserve_global_bytes),
            ("internode_application_send_queue_reserve_endpoint_capacity", send.reserve_endpoint_bytes),
            ("internode_application_send_queue_reserve_global_capacity", send.reserve_global_bytes),
        ] {
            if longest.is_some_and(|longest| longest > limit) {
                // The words are Cassandra's.
                return error(format!("internode_max_message_size must no exceed {name}"));
            }
        }
        Ok(Options {
            source: None,
            connect_timeout: self.duration("internode_tcp_connect_timeout")?.unwrap_or(default.connect_timeout),
            user_timeout: self.duration("internode_tcp_user_timeout")?.unwrap_or(default.user_timeout),
            compression: match self.text("internode_compression")?.as_deref() {
                None | Some("none") => Compression::None,
                Some("dc") => Compression::BetweenDataCenters,
                Some("all") => Compression::All,
                Some(other) => return error(format!("internode_compression: {other} is not one of all, dc, none")),
            },
            message_bytes_max: usize::try_from(longest.unwrap_or(most)).unwrap_or(usize::MAX),
            send,
            receive,
            ..default
        })
    }

    fn queue(
        &self,
        capacity: &'static str,
        endpoint: &'static str,
        global: &'static str,
    ) -> Result<QueueLimits, ConfigError> {
        let default = QueueLimits::default();
        Ok(QueueLimits {
            capacity_bytes: self.bytes(capacity)?.unwrap_or(default.capacity_bytes),
            reserve_endpoint_bytes: self.bytes(endpoint)?.unwrap_or(default.reserve_endpoint_bytes),
            reserve_global_bytes: self.bytes(global)?.unwrap_or(default.reserve_global_bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;
    use std::time::Duration;

    #[test]
    fn options_of_links_are_read() {
        let file = "internode_compression: dc\ninternode_tcp_connect_timeout: 3s\ninternode_tcp_user_timeout_in_ms: 700\n\
                    internode_application_send_queue_capacity: 1MiB\ninternode_max_message_size: 5MiB\n\
                    internode_application_receive_queue_reserve_global_capacity: 64MiB";
        let read = Config::read(file, &[]).expect("valid");
        assert_eq!(read.unused, []);
        let options = read.internode;
        assert_eq!(options.compression, Compression::BetweenDataCenters);
        assert_eq!(
            (options.connect_timeout, options.user_timeout),
            (Duration::from_secs(3), Duration::from_millis(700))
        );
        assert_eq!((options.send.capacity_bytes, options.message_bytes_max), (1 << 20, 5 << 20));
        assert_eq!((options.receive.reserve_global_bytes, options.receive.capacity_bytes), (64 << 20, 4 << 20));
    }

    #[test]
    fn the_longest_message_fits_every_reserve() {
        let read = |size: &str| {
            let reserve = "internode_application_send_queue_reserve_endpoint_capacity=8MiB".to_owned();
            Config::read("", &[format!("internode_max_message_size={size}"), reserve])
        };
        assert_eq!(read("8MiB").expect("valid").internode.message_bytes_max, 8 << 20);
        assert_eq!(
            read("8388609B").expect_err("a byte more").0,
            "internode_max_message_size must no exceed internode_application_send_queue_reserve_endpoint_capacity"
        );
        let reserve = ["internode_application_receive_queue_reserve_endpoint_capacity=9MiB".to_owned()];
        assert_eq!(Config::read("", &reserve).expect("valid").internode.message_bytes_max, 9 << 20);
    }
}

//! A real Cassandra for tests that are `#[ignore]`d because they need one.
//!
//! `CASSANDRA` names a script with the verbs `start DIR IP` and `stop DIR IP` that runs Apache Cassandra 5. The address
//! is 127.0.0.31 or that of `HELENUS_ORACLE_ADDRESS`. With `HELENUS_ORACLE_RUNNING` set, a Cassandra that already
//! listens there is asked instead, and is left running.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::Command;

/// A running Cassandra.
pub(crate) struct Cassandra {
    address: String,
    /// The script that started it; `None` if it was running before.
    script: Option<PathBuf>,
}

impl Cassandra {
    /// Starts Cassandra, or takes the one that is running. Panics if neither is possible.
    pub(crate) fn start() -> Cassandra {
        let address = std::env::var("HELENUS_ORACLE_ADDRESS").unwrap_or_else(|_| "127.0.0.31".into());
        if std::env::var_os("HELENUS_ORACLE_RUNNING").is_some() {
            return Cassandra { address, script: None };
        }
        let script = std::env::var_os("CASSANDRA").expect(
            "this test needs Cassandra: CASSANDRA is the path of a script with the verbs `start DIR IP` and `stop DIR IP` \
             that runs a real Apache Cassandra 5, or HELENUS_ORACLE_RUNNING=1 says that one listens at HELENUS_ORACLE_ADDRESS",
        );
        let cassandra = Cassandra { address, script: Some(script.into()) };
        cassandra.run("start");
        cassandra
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> IpAddr {
        self.address.parse().expect("HELENUS_ORACLE_ADDRESS is an IP address")
    }

    /// Stops it, if [`Cassandra::start`] started it.
    pub(crate) fn stop(self) {
        self.run("stop");
    }

    fn run(&self, verb: &str) {
        let Some(script) = &self.script else { return };
        let directory = std::env::temp_dir().join("helenus-oracle");
        let status = Command::new(script).arg(verb).arg(directory).arg(&self.address).status();
        assert!(status.expect("CASSANDRA names a script that runs").success(), "Cassandra does not {verb}");
    }
}

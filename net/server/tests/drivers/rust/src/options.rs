//! What the program was asked to do.

use crate::trust::Trust;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// A driver, a version of the protocol, a compression.
#[derive(Clone)]
pub struct Variant {
    pub driver: String,
    pub version: String,
    pub compression: String,
}

impl Variant {
    fn read(text: &str) -> Variant {
        let parts: Vec<&str> = text.split('-').collect();
        let [driver, version, compression] = parts[..] else { panic!("no variant: {text}") };
        Variant { driver: driver.into(), version: version.into(), compression: compression.into() }
    }

    /// The keyspace of its checks.
    pub fn keyspace(&self) -> String {
        format!("rust_{}_{}_{}", self.driver, self.version, self.compression)
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.driver, self.version, self.compression)
    }
}

/// A name and a password.
#[derive(Clone)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Login {
    /// The same name with a password that is not its own.
    pub fn wrong(&self) -> Login {
        Login { password: "wrong".into(), ..self.clone() }
    }
}

#[derive(Clone)]
pub struct Options {
    pub nodes: Vec<SocketAddr>,
    pub variants: Vec<Variant>,
    /// Names of checks; without them all.
    only: Option<Vec<String>>,
    restarts: bool,
    /// Without it connections are plain.
    pub trust: Option<Trust>,
    pub login: Option<Login>,
}

impl Options {
    pub fn read(mut arguments: impl Iterator<Item = String>) -> Options {
        let hosts = arguments.next().expect("a host");
        let port: u16 = arguments.next().expect("a port").parse().expect("a port");
        let address = |host: &str| SocketAddr::new(host.parse::<IpAddr>().expect("an address"), port);
        let mut options = Options {
            nodes: hosts.split(',').map(address).collect(),
            variants: Vec::new(),
            only: None,
            restarts: false,
            trust: None,
            login: None,
        };
        let mut names_match = false;
        for argument in arguments {
            if argument == "--restarts" {
                options.restarts = true;
            } else if argument == "--names" {
                names_match = true;
            } else if let Some(names) = argument.strip_prefix("--only=") {
                options.only = Some(names.split(',').map(str::to_owned).collect());
            } else if let Some(file) = argument.strip_prefix("--ca=") {
                options.trust = Some(Trust { authority: file.into(), names_match: false });
            } else if let Some((user, password)) =
                argument.strip_prefix("--login=").and_then(|both| both.split_once(':'))
            {
                options.login = Some(Login { user: user.into(), password: password.into() });
            } else {
                options.variants.push(Variant::read(&argument));
            }
        }
        if let Some(trust) = &mut options.trust {
            trust.names_match = names_match;
        }
        options
    }

    /// The same with another trust.
    pub fn trusting(&self, trust: Trust) -> Options {
        Options { trust: Some(trust), ..self.clone() }
    }

    /// The same with another login, or without any.
    pub fn with_login(&self, login: Option<Login>) -> Options {
        Options { login, ..self.clone() }
    }

    /// Whether a check was asked for, and there is what it needs.
    pub fn wants(&self, check: &str) -> bool {
        let is_possible = match check {
            "strangers_refused" => self.trust.is_some(),
            "logins_refused" => self.login.is_some(),
            "restart" => self.restarts,
            _ => true,
        };
        is_possible && self.only.as_ref().is_none_or(|names| names.iter().any(|name| name == check))
    }

    /// Replicas of the keyspaces: on every node, up to three.
    pub fn replicas(&self) -> usize {
        self.nodes.len().min(3)
    }
}

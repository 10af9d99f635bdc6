//! `listen_interface` and `rpc_interface`: an address of the node that is given by the name of a network interface.

use super::given::Given;
use super::{Config, ConfigError, error};
use std::net::IpAddr;

/// A network interface whose address the node takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// Its name: `lo`, `eth0`.
    pub name: String,
    /// Whether an IPv6 address is taken rather than an IPv4 address, if it has both.
    pub prefer_ipv6: bool,
}

impl Given {
    /// The interface that the option `name` gives instead of the address that `address_name` would give. The text of
    /// the refusal is Cassandra's.
    pub(super) fn interface(
        &self,
        name: &'static str,
        address_name: &'static str,
        prefer_ipv6_name: &'static str,
    ) -> Result<Option<Interface>, ConfigError> {
        let Some(interface) = self.text(name)? else { return Ok(None) };
        if self.text(address_name)?.is_some() {
            return error(format!("Set {address_name} OR {name}, not both"));
        }
        Ok(Some(Interface { name: interface, prefer_ipv6: self.flag(prefer_ipv6_name)?.unwrap_or(false) }))
    }
}

impl Config {
    /// Puts the addresses of `listen_interface` and `rpc_interface`, where they are given, into the options of the
    /// node. `addresses` gives those of an interface, `None` if there is no interface of that name.
    ///
    /// # Errors
    /// Cassandra's text if an interface does not exist, or has no address.
    pub fn resolve_interfaces(
        &mut self,
        addresses: &dyn Fn(&str) -> std::io::Result<Option<Vec<IpAddr>>>,
    ) -> Result<(), ConfigError> {
        if let Some(interface) = &self.listen_interface {
            self.node.listen_address = interface.address("listen_interface", addresses(&interface.name))?;
        }
        if let Some(interface) = &self.rpc_interface {
            self.node.rpc_address = interface.address("rpc_interface", addresses(&interface.name))?;
        }
        Ok(())
    }
}

impl Interface {
    /// The first of its addresses that is of the preferred family, or else the first one. `option` is what named the
    /// interface.
    fn address(&self, option: &str, addresses: std::io::Result<Option<Vec<IpAddr>>>) -> Result<IpAddr, ConfigError> {
        let name = &self.name;
        let found = match addresses {
            Ok(Some(found)) => found,
            Ok(None) => return error(format!("Configured {option} \"{name}\" could not be found")),
            Err(cause) => return error(format!("Configured {option} \"{name}\" caused an exception: {cause}")),
        };
        let preferred = found.iter().find(|address| address.is_ipv6() == self.prefer_ipv6);
        match preferred.or(found.first()) {
            Some(address) => Ok(*address),
            None => error(format!("Configured {option} \"{name}\" was found, but had no addresses")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// `lo` has an address of each family, `six` has two of IPv6, `none` has none, `broken` is not told.
    fn addresses(name: &str) -> std::io::Result<Option<Vec<IpAddr>>> {
        let link_local = |host| IpAddr::from(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, host));
        match name {
            "lo" => Ok(Some(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()])),
            "six" => Ok(Some(vec![link_local(1), link_local(2)])),
            "none" => Ok(Some(Vec::new())),
            "broken" => Err(std::io::Error::other("no permission")),
            _ => Ok(None),
        }
    }

    fn resolved(file: &str) -> Result<(String, String), String> {
        let mut config = Config::read(file, &[]).map_err(|error| error.0)?;
        config.resolve_interfaces(&addresses).map_err(|error| error.0)?;
        Ok((config.node.listen_address.to_string(), config.node.rpc_address.to_string()))
    }

    fn pair(listen: &str, rpc: &str) -> Result<(String, String), String> {
        Ok((listen.to_owned(), rpc.to_owned()))
    }

    #[test]
    fn an_interface_gives_an_address_of_the_preferred_family() {
        assert_eq!(resolved("listen_address: 127.0.0.8"), pair("127.0.0.8", "127.0.0.1"));
        assert_eq!(resolved("listen_interface: lo\nrpc_address: 127.0.0.8"), pair("127.0.0.1", "127.0.0.8"));
        assert_eq!(
            resolved("listen_interface: lo\nlisten_interface_prefer_ipv6: true\nrpc_interface: lo"),
            pair("::1", "127.0.0.1")
        );
        assert_eq!(resolved("rpc_interface: six\nlisten_address: 127.0.0.8"), pair("127.0.0.8", "fe80::1"));
        assert_eq!(resolved("rpc_interface: lo\nrpc_interface_prefer_ipv6: true"), pair("127.0.0.1", "::1"));
    }

    #[test]
    fn an_interface_without_an_address_is_refused_with_cassandras_text() {
        for (file, text) in [
            ("listen_interface: lo\nlisten_address: ::1", "Set listen_address OR listen_interface, not both"),
            ("rpc_interface: lo\nrpc_address: ::1", "Set rpc_address OR rpc_interface, not both"),
            ("listen_interface: eth7", "Configured listen_interface \"eth7\" could not be found"),
            ("rpc_interface: none", "Configured rpc_interface \"none\" was found, but had no addresses"),
            ("rpc_interface: broken", "Configured rpc_interface \"broken\" caused an exception: no permission"),
        ] {
            assert_eq!(resolved(file), Err(text.to_owned()), "{file}");
        }
    }
}

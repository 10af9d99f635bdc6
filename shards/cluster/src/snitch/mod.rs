//! Snitches: how a node learns in which data centre and rack it is.
//!
//! Each node asks its snitch about itself only; what it answers becomes part of the metadata of the cluster. Those of
//! clouds ask the metadata service of the machine ([`cloud`]).

pub mod cloud;
mod location;
pub mod properties;

pub use location::Location;

use cloud::{Addresses, Ask, Cloud};

use std::net::{IpAddr, SocketAddr};

/// What `endpoint_snitch` names.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Snitch {
    /// All nodes are in one rack of one data centre.
    #[default]
    Simple,
    /// `cassandra-rackdc.properties` says where this node is.
    GossipingPropertyFile,
    /// `cassandra-topology.properties` says where every node is.
    PropertyFile,
    /// The second number of the IPv4 address is the data centre, the third the rack.
    RackInferring,
    /// The metadata service of a cloud says where this node is.
    OfCloud(Cloud),
    /// As for EC2; nodes of other regions reach this one at its public address.
    Ec2MultiRegion,
}

const ALL: [Snitch; 10] = [
    Snitch::Simple,
    Snitch::GossipingPropertyFile,
    Snitch::PropertyFile,
    Snitch::RackInferring,
    Snitch::OfCloud(Cloud::Ec2),
    Snitch::OfCloud(Cloud::Google),
    Snitch::OfCloud(Cloud::Azure),
    Snitch::OfCloud(Cloud::Alibaba),
    Snitch::OfCloud(Cloud::Cloudstack),
    Snitch::Ec2MultiRegion,
];
const PACKAGE: &str = "org.apache.cassandra.locator.";

impl Snitch {
    /// The snitch of a class name, with or without its package.
    pub fn named(name: &str) -> Option<Snitch> {
        let name = name.strip_prefix(PACKAGE).unwrap_or(name);
        ALL.into_iter().find(|snitch| snitch.name() == name)
    }

    /// The name of its class without the package.
    pub fn name(self) -> &'static str {
        match self {
            Snitch::Simple => "SimpleSnitch",
            Snitch::GossipingPropertyFile => "GossipingPropertyFileSnitch",
            Snitch::PropertyFile => "PropertyFileSnitch",
            Snitch::RackInferring => "RackInferringSnitch",
            Snitch::OfCloud(Cloud::Ec2) => "Ec2Snitch",
            Snitch::OfCloud(Cloud::Google) => "GoogleCloudSnitch",
            Snitch::OfCloud(Cloud::Azure) => "AzureSnitch",
            Snitch::OfCloud(Cloud::Alibaba) => "AlibabaCloudSnitch",
            Snitch::OfCloud(Cloud::Cloudstack) => "CloudstackSnitch",
            Snitch::Ec2MultiRegion => "Ec2MultiRegionSnitch",
        }
    }

    /// The name of its class.
    pub fn class_name(self) -> String {
        format!("{PACKAGE}{}", self.name())
    }

    /// The file that it reads, beside `cassandra.yaml`.
    pub fn file_name(self) -> Option<&'static str> {
        match self {
            Snitch::GossipingPropertyFile | Snitch::OfCloud(_) | Snitch::Ec2MultiRegion => {
                Some("cassandra-rackdc.properties")
            }
            Snitch::PropertyFile => Some("cassandra-topology.properties"),
            Snitch::Simple | Snitch::RackInferring => None,
        }
    }

    /// Where the node with this address (`broadcast_address`, `storage_port`) is. `file` is the text of
    /// [`Snitch::file_name`], if there is one; `resolve` gives the address of a host name, `ask` asks a metadata
    /// service.
    ///
    /// # Errors
    /// Cassandra's text if the file or the service does not say it.
    pub fn locate(
        self,
        file: Option<&str>,
        address: SocketAddr,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
        ask: Ask<'_>,
    ) -> Result<Location, String> {
        let located = match self {
            Snitch::Simple => Ok(location("datacenter1", "rack1")),
            Snitch::GossipingPropertyFile => gossiping(file.unwrap_or_default()),
            Snitch::PropertyFile => topology(file, address, resolve),
            Snitch::RackInferring => inferred(address.ip()),
            Snitch::OfCloud(cloud) => cloud.locate(&properties::parse(file.unwrap_or_default()), ask),
            Snitch::Ec2MultiRegion => Cloud::Ec2.locate(&properties::parse(file.unwrap_or_default()), ask),
        };
        located.map_err(|cause| self.failure(&cause))
    }

    /// The addresses of this machine for nodes of other regions and for those of its own, if this snitch tells them.
    ///
    /// # Errors
    /// Cassandra's text if the service does not say it.
    pub fn addresses(self, file: Option<&str>, ask: Ask<'_>) -> Result<Option<Addresses>, String> {
        match self {
            Snitch::Ec2MultiRegion => cloud::addresses(&properties::parse(file.unwrap_or_default()), ask)
                .map(Some)
                .map_err(|cause| self.failure(&cause)),
            _ => Ok(None),
        }
    }

    /// Whether nodes of one data centre reach each other by the addresses that they listen on: `prefer_local`.
    pub fn prefers_local(self, file: Option<&str>) -> bool {
        match self {
            Snitch::Ec2MultiRegion => true,
            Snitch::GossipingPropertyFile => {
                let properties = properties::parse(file.unwrap_or_default());
                let last = properties.iter().rfind(|(name, _)| name == "prefer_local");
                last.is_some_and(|(_, value)| value.eq_ignore_ascii_case("true"))
            }
            _ => false,
        }
    }

    /// Whether other nodes are told the address that this one listens on.
    pub fn tells_local(self) -> bool {
        matches!(self, Snitch::Ec2MultiRegion | Snitch::GossipingPropertyFile)
    }

    /// Cassandra's text for a snitch that cannot begin.
    pub fn failure(self, cause: &str) -> String {
        format!("Error instantiating snitch class '{}': {cause}", self.class_name())
    }
}

fn location(data_center: &str, rack: &str) -> Location {
    Location { data_center: data_center.trim().into(), rack: rack.trim().into() }
}

fn gossiping(file: &str) -> Result<Location, String> {
    let properties = properties::parse(file);
    let last = |name: &str| properties.iter().rfind(|(key, _)| key == name).map(|(_, value)| value);
    match (last("dc"), last("rack")) {
        (Some(data_center), Some(rack)) => Ok(location(data_center, rack)),
        _ => Err("DC or rack not found in snitch properties, check your configuration in: cassandra-rackdc.properties"
            .into()),
    }
}

fn topology(
    file: Option<&str>,
    address: SocketAddr,
    resolve: &dyn Fn(&str) -> Option<IpAddr>,
) -> Result<Location, String> {
    let file = file.ok_or("Unable to read cassandra-topology.properties")?;
    let (mut own, mut default) = (None, None);
    for (key, value) in properties::parse(file) {
        // A value that is not a data centre and a rack stands for these two.
        let located = match value.split(':').collect::<Vec<_>>().as_slice() {
            [data_center, rack, ..] => location(data_center, rack),
            _ => location("default", "default"),
        };
        if key == "default" {
            default = Some(located);
        } else if named(&key.replace('/', ""), address.port(), resolve)? == address {
            own = Some(located);
        }
    }
    own.or(default).ok_or_else(|| {
        format!(
            "Snitch definitions at cassandra-topology.properties do not define a location for this node's broadcast \
             address /{address}, nor does it provides a default"
        )
    })
}

/// The address that a host name or address stands for, with a port or without.
fn named(host: &str, port: u16, resolve: &dyn Fn(&str) -> Option<IpAddr>) -> Result<SocketAddr, String> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    if let Ok(ip) = host.trim_matches(['[', ']']).parse() {
        return Ok(SocketAddr::new(ip, port));
    }
    let (name, port) = match host.rsplit_once(':').and_then(|(name, port)| Some((name, port.parse().ok()?))) {
        Some(with_port) => with_port,
        None => (host, port),
    };
    resolve(name).map(|ip| SocketAddr::new(ip, port)).ok_or_else(|| format!("Unknown host {host}"))
}

fn inferred(address: IpAddr) -> Result<Location, String> {
    let octets = match address {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    Ok(location(&octets[1].to_string(), &octets[2].to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(snitch: Snitch, file: Option<&str>, address: &str) -> Result<(String, String), String> {
        let resolve = |name: &str| (name == "node7").then(|| IpAddr::from([127, 0, 0, 7]));
        let address = address.parse().expect("an address");
        let location = snitch.locate(file, address, &resolve, &|_| Err("nothing answers".into()))?;
        Ok((location.data_center, location.rack))
    }

    fn pair(data_center: &str, rack: &str) -> Result<(String, String), String> {
        Ok((data_center.into(), rack.into()))
    }

    #[test]
    fn snitches_have_cassandras_names() {
        for snitch in ALL {
            assert_eq!(Snitch::named(snitch.name()), Some(snitch));
            assert_eq!(Snitch::named(&snitch.class_name()), Some(snitch));
        }
        assert_eq!(Snitch::named("org.apache.cassandra.locator.NoSuchSnitch"), None);
        assert_eq!(Snitch::named("com.example.SimpleSnitch"), None);
    }

    #[test]
    fn simple_and_inferring_snitches_need_no_file() {
        assert_eq!(located(Snitch::Simple, None, "10.20.30.40:7000"), pair("datacenter1", "rack1"));
        assert_eq!(located(Snitch::RackInferring, None, "10.20.30.40:7000"), pair("20", "30"));
        assert_eq!(located(Snitch::RackInferring, None, "[fe80::1]:7000"), pair("128", "0"));
    }

    #[test]
    fn the_file_of_one_node_names_data_centre_and_rack() {
        let text = "Error instantiating snitch class 'org.apache.cassandra.locator.GossipingPropertyFileSnitch': DC or \
                    rack not found in snitch properties, check your configuration in: cassandra-rackdc.properties";
        let located = |file| located(Snitch::GossipingPropertyFile, file, "127.0.0.71:7000");
        assert_eq!(located(Some("dc= DC1 \nrack=R1 \n# prefer_local=true")), pair("DC1", "R1"));
        assert_eq!(located(Some("dc=a\nrack=b\ndc=c")), pair("c", "b"));
        for file in [None, Some(""), Some("dc=DC1"), Some("rack=R1")] {
            assert_eq!(located(file), Err(text.into()), "{file:?}");
        }
    }

    #[test]
    fn two_snitches_have_addresses_of_the_data_centre() {
        let gossiping = Snitch::GossipingPropertyFile;
        for (file, prefers) in
            [("prefer_local=true", true), ("prefer_local=TRUE", true), ("prefer_local=yes", false), ("", false)]
        {
            assert_eq!(gossiping.prefers_local(Some(file)), prefers, "{file}");
        }
        assert!(Snitch::Ec2MultiRegion.prefers_local(None) && Snitch::Ec2MultiRegion.tells_local());
        assert!(!Snitch::PropertyFile.prefers_local(Some("prefer_local=true")) && !Snitch::Simple.tells_local());
        assert_eq!(Snitch::OfCloud(Cloud::Ec2).addresses(None, &|_| Err("not asked".into())), Ok(None));
    }

    #[test]
    fn the_file_of_all_nodes_has_a_default() {
        let located = |file| located(Snitch::PropertyFile, file, "127.0.0.7:7000");
        for (file, expected) in [
            ("127.0.0.7=DC2:R3\ndefault=a:b", pair("DC2", "R3")),
            ("127.0.0.8=DC2:R3\ndefault= a : b ", pair("a", "b")),
            ("/127.0.0.7=a:b:c", pair("a", "b")),
            ("127.0.0.7=DC1", pair("default", "default")),
            ("default=DC1", pair("default", "default")),
            ("node7=a:b", pair("a", "b")),
            ("node7\\:7000=a:b", pair("a", "b")),
            ("127.0.0.7\\:7000=a:b\ndefault=c:d", pair("a", "b")),
            ("127.0.0.7\\:7001=a:b\ndefault=c:d", pair("c", "d")),
            ("fe80\\:\\:1=a:b\ndefault=c:d", pair("c", "d")),
        ] {
            assert_eq!(located(Some(file)), expected, "{file}");
        }
        let failure = |file| located(file).expect_err("refused").split_once(": ").expect("a cause").1.to_owned();
        assert_eq!(failure(None), "Unable to read cassandra-topology.properties");
        assert_eq!(failure(Some("nohost.invalid=a:b")), "Unknown host nohost.invalid");
        assert_eq!(
            failure(Some("127.0.0.1=a:b")),
            "Snitch definitions at cassandra-topology.properties do not define a location for this node's broadcast \
             address /127.0.0.7:7000, nor does it provides a default"
        );
    }
}

//! How a node finds the others, says where it is and learns which are slow: `seed_provider`, `phi_convict_threshold`,
//! `dynamic_snitch`, `endpoint_snitch` with the file that it reads beside `cassandra.yaml`.

use super::given::Given;
use super::{Config, ConfigError, error, units};
use cluster::gossip::failure_detector::PHI_CONVICT_THRESHOLD;
use cluster::snitch::cloud::{self, Cloud, Question};
use cluster::snitch::{Location, Snitch, properties};
use cluster::topology::latency::DynamicSnitch;
use serde_norway::Value;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// Most seeds of a node.
pub const SEEDS_MAX: usize = 64;

impl Given {
    /// `endpoint_snitch`.
    pub(super) fn snitch(&self) -> Result<Snitch, ConfigError> {
        let Some(name) = self.text("endpoint_snitch")? else { return Ok(Snitch::default()) };
        let class = if name.contains('.') { name.clone() } else { format!("org.apache.cassandra.locator.{name}") };
        match Snitch::named(&name) {
            Some(snitch) => Ok(snitch),
            None => error(format!("Unable to find snitch class '{class}'")),
        }
    }

    /// `phi_convict_threshold`.
    pub(super) fn phi_convict_threshold(&self) -> Result<f64, ConfigError> {
        const NAME: &str = "phi_convict_threshold";
        let Some(text) = self.text(NAME)? else { return Ok(PHI_CONVICT_THRESHOLD) };
        match text.parse::<f64>() {
            Ok(phi) if (5.0..=16.0).contains(&phi) => Ok(phi),
            _ => error(format!("{NAME} must be between 5 and 16, but was {text}")),
        }
    }

    /// The options that begin with `dynamic_snitch`; `None` if it is switched off.
    pub(super) fn dynamic_snitch(&self, default: Option<DynamicSnitch>) -> Result<Option<DynamicSnitch>, ConfigError> {
        const THRESHOLD: &str = "dynamic_snitch_badness_threshold";
        let is_on = self.flag("dynamic_snitch")?.unwrap_or(default.is_some());
        let mut options = default.unwrap_or_default();
        if let Some(text) = self.text(THRESHOLD)? {
            options.badness_threshold = match text.parse::<f64>() {
                Ok(threshold) if threshold.is_finite() && threshold >= 0.0 => threshold,
                _ => return error(format!("{THRESHOLD} must be a number that is not negative, but was {text}")),
            };
        }
        let interval = |name, default| Ok(self.duration(name)?.unwrap_or(default));
        options.update_interval = interval("dynamic_snitch_update_interval", options.update_interval)?;
        options.reset_interval = interval("dynamic_snitch_reset_interval", options.reset_interval)?;
        Ok(is_on.then_some(options))
    }

    /// The seeds of `seed_provider`, as hosts with a port or without; empty if it is not given.
    pub(super) fn seeds(&self) -> Result<Vec<String>, ConfigError> {
        const NAME: &str = "seed_provider";
        let Some(provider) = self.take(NAME) else { return Ok(Vec::new()) };
        let class = provider.get("class_name").and_then(Value::as_str).unwrap_or_default();
        if class.rsplit('.').next() != Some("SimpleSeedProvider") {
            return error(format!("{NAME}: {class} is not supported, only SimpleSeedProvider is"));
        }
        let parameters = match provider.get("parameters") {
            Some(Value::Sequence(list)) => list.first(),
            other => other,
        };
        match parameters.and_then(|parameters| parameters.get("seeds")).and_then(Value::as_str) {
            Some(seeds) => seeds_of(seeds),
            None => error("The seed provider lists no seeds."),
        }
    }
}

/// The seeds of a list with commas.
///
/// # Errors
/// If there are none, or more than [`SEEDS_MAX`].
pub fn seeds_of(list: &str) -> Result<Vec<String>, ConfigError> {
    let seeds: Vec<String> =
        list.split(',').map(str::trim).filter(|seed| !seed.is_empty()).map(str::to_owned).collect();
    match seeds.len() {
        0 => error("The seed provider lists no seeds."),
        count if count > SEEDS_MAX => error(format!("seed_provider: {count} seeds, at most {SEEDS_MAX}")),
        _ => Ok(seeds),
    }
}

impl Config {
    /// Finds the addresses of the seeds and asks the snitch where this node is, once all options have their values.
    /// `file` reads a file beside `cassandra.yaml`, if it is there; `resolve` gives the address of a host name; `ask`
    /// asks the metadata service of a cloud, and gives up after a time.
    ///
    /// # Errors
    /// Cassandra's text if no seed has an address, or if the snitch does not know where the node is.
    pub fn discover(
        &mut self,
        file: &dyn Fn(&str) -> Result<Option<String>, ConfigError>,
        resolve: &dyn Fn(&str) -> Option<IpAddr>,
        ask: &dyn Fn(&Question, Duration) -> Result<String, String>,
    ) -> Result<(), ConfigError> {
        self.resolve_seeds(resolve)?;
        let mut text = match self.snitch.file_name() {
            Some(name) => file(name)?,
            None => None,
        };
        if self.snitch == Snitch::OfCloud(Cloud::Cloudstack) {
            tracing::warn!(
                "{} is deprecated and not actively maintained. It will be removed in the next major version of Cassandra.",
                self.snitch.class_name()
            );
            text = Some(with_lease(self.snitch, text.unwrap_or_default(), file)?);
        }
        let (text, address) = (text.as_deref(), self.gossip_address());
        let timeout = answer_timeout(text.unwrap_or_default())?;
        let ask = |question: &Question| ask(question, timeout);
        let Location { data_center, rack } = self.snitch.locate(text, address, resolve, &ask).or_else(error)?;
        (self.node.data_center, self.node.rack) = (data_center, rack);
        if self.snitch.tells_local() {
            self.internal_address = Some(self.node.listen_address);
        }
        if let Some(addresses) = self.snitch.addresses(text, &ask).or_else(error)? {
            tracing::info!("EC2Snitch using publicIP as identifier: {}", addresses.public);
            self.node.broadcast_address = Some(addresses.public);
            self.node.broadcast_rpc_address.get_or_insert(addresses.public);
            self.internal_address = Some(addresses.private);
        }
        self.prefers_local = self.snitch.prefers_local(text);
        Ok(())
    }

    /// Where other nodes reach this one.
    pub fn gossip_address(&self) -> SocketAddr {
        self.node.storage_address()
    }

    /// Finds the addresses of the seeds.
    pub(crate) fn resolve_seeds(&mut self, resolve: &dyn Fn(&str) -> Option<IpAddr>) -> Result<(), ConfigError> {
        let port = self.node.storage_port;
        let mut found = Vec::new();
        for seed in &self.seed_names {
            match resolved(seed, port, resolve) {
                Some(address) => found.push(address),
                None => tracing::warn!("Seed provider couldn't lookup host {seed}"),
            }
        }
        if found.is_empty() && !self.seed_names.is_empty() {
            return error("The seed provider lists no seeds.");
        }
        self.node.seeds = found;
        Ok(())
    }
}

/// The properties of the file of [`Cloud::Cloudstack`], with the service that a lease of DHCP names if they name none.
fn with_lease(
    snitch: Snitch,
    mut text: String,
    file: &dyn Fn(&str) -> Result<Option<String>, ConfigError>,
) -> Result<String, ConfigError> {
    if properties::parse(&text).iter().any(|(name, _)| name == cloud::URL) {
        return Ok(text);
    }
    let mut lease = None;
    for name in cloud::LEASE_FILES {
        lease = lease.or(file(name)?);
    }
    let url = cloud::url_of_lease(lease.as_deref()).or_else(|cause| error(snitch.failure(&cause)))?;
    text.push_str(&format!("\n{}={url}\n", cloud::URL));
    Ok(text)
}

/// `metadata_request_timeout` in the file of a snitch: how long a metadata service may take to answer.
fn answer_timeout(file: &str) -> Result<Duration, ConfigError> {
    const NAME: &str = "metadata_request_timeout";
    match properties::parse(file).iter().rfind(|(name, _)| name == NAME) {
        None => Ok(Duration::from_secs(30)),
        Some((_, text)) => match units::duration(text.trim()) {
            Some(timeout) => Ok(timeout),
            None => error(format!("{text} as value of {NAME} is invalid duration! Invalid duration: {text}")),
        },
    }
}

fn resolved(seed: &str, port: u16, resolve: &dyn Fn(&str) -> Option<IpAddr>) -> Option<SocketAddr> {
    if let Ok(address) = seed.parse() {
        return Some(address);
    }
    if let Ok(ip) = seed.trim_matches(['[', ']']).parse() {
        return Some(SocketAddr::new(ip, port));
    }
    let (name, port) = match seed.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()?),
        None => (seed, port),
    };
    name.parse().ok().or_else(|| resolve(name)).map(|ip| SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn discovered(file: &str, beside: Option<(&str, &str)>) -> Result<Config, String> {
        let mut config = Config::read(file, &[]).map_err(|error| error.0)?;
        let read = |name: &str| Ok(beside.filter(|(other, _)| *other == name).map(|(_, text)| text.to_owned()));
        let resolve = |name: &str| (name == "node7").then(|| IpAddr::from([127, 0, 0, 7]));
        let ask = |question: &Question, timeout: Duration| match (question.url.as_str(), timeout.as_secs()) {
            ("http://here/latest/meta-data/zone-id", 7) => Ok("cn-hangzhou-f".to_owned()),
            ("http://here/latest/meta-data/availability-zone", _) => Ok("ch-gva-2".to_owned()),
            ("http://ec2/latest/api/token", _) => Ok("TOKEN".to_owned()),
            ("http://ec2/latest/meta-data/placement/availability-zone", _) => Ok("eu-west-1b".to_owned()),
            ("http://ec2/latest/meta-data/public-ipv4", _) => Ok("52.0.0.1".to_owned()),
            ("http://ec2/latest/meta-data/local-ipv4", _) => Ok("10.0.0.1".to_owned()),
            (url, seconds) => Err(format!("{url} does not answer within {seconds} s")),
        };
        config.discover(&read, &resolve, &ask).map_err(|error| error.0)?;
        Ok(config)
    }

    fn seeds(list: &str) -> Result<Vec<String>, String> {
        let provider = format!(
            "storage_port: 7005\nseed_provider:\n  - class_name: org.apache.cassandra.locator.SimpleSeedProvider\n    \
             parameters:\n      - seeds: '{list}'\n"
        );
        Ok(discovered(&provider, None)?.node.seeds.iter().map(SocketAddr::to_string).collect())
    }

    #[test]
    fn seeds_are_addresses_or_names() {
        let expected = ["127.0.0.1:7005", "127.0.0.2:7000", "127.0.0.7:7005", "127.0.0.7:9", "[::1]:7005"];
        assert_eq!(seeds("127.0.0.1, 127.0.0.2:7000,node7,node7:9,::1,"), Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(seeds("127.0.0.1,nobody").map(|seeds| seeds.len()), Ok(1));
        let none = Err("The seed provider lists no seeds.".to_owned());
        for list in ["", " , ", "nobody", "node7:x"] {
            assert_eq!(seeds(list), none, "{list}");
        }
        let many = |count: usize| vec!["127.0.0.1"; count].join(",");
        assert!(seeds(&many(SEEDS_MAX)).is_ok() && seeds(&many(SEEDS_MAX + 1)).is_err());
        assert_eq!(discovered("", None).expect("valid").node.seeds, []);
    }

    #[test]
    fn the_dynamic_snitch_has_options_and_can_be_switched_off() {
        let read = |file: &str| Config::read(file, &[]).map(|config| config.node.dynamic_snitch);
        assert_eq!(read(""), Ok(Some(DynamicSnitch::default())));
        let file = "dynamic_snitch_badness_threshold: 0.1\ndynamic_snitch_update_interval: 1s\n\
                    dynamic_snitch_reset_interval_in_ms: 60000";
        let expected = DynamicSnitch {
            badness_threshold: 0.1,
            update_interval: Duration::from_secs(1),
            reset_interval: Duration::from_secs(60),
        };
        assert_eq!(read(file), Ok(Some(expected)));
        assert_eq!(read("dynamic_snitch: false\ndynamic_snitch_badness_threshold: 0.1"), Ok(None));
        for wrong in ["-0.1", "x", "NaN", "inf"] {
            assert!(read(&format!("dynamic_snitch_badness_threshold: {wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn other_providers_are_refused() {
        let text = |file| discovered(file, None).expect_err("refused");
        assert!(text("seed_provider: com.example.Seeds").contains("com.example.Seeds is not supported"));
        assert_eq!(text("seed_provider: SimpleSeedProvider"), "The seed provider lists no seeds.");
        assert_eq!(
            text("seed_provider: {class_name: SimpleSeedProvider, parameters: {seed: a}}"),
            "The seed provider lists no seeds."
        );
    }

    #[test]
    fn the_threshold_has_bounds() {
        let phi = |value: &str| Config::read(&format!("phi_convict_threshold: {value}"), &[]);
        for good in ["5", "8.5", "16.0"] {
            assert_eq!(phi(good).expect(good).phi_convict_threshold.to_string(), good.trim_end_matches(".0"));
        }
        for wrong in ["4.9", "16.1"] {
            let text = phi(wrong).expect_err(wrong).0;
            assert_eq!(text, format!("phi_convict_threshold must be between 5 and 16, but was {wrong}"));
        }
    }

    #[test]
    fn a_node_may_have_an_address_for_its_data_centre() {
        let rackdc = "cassandra-rackdc.properties";
        let found = |file: &str, text: &str| {
            let config = discovered(file, Some((rackdc, text))).expect("valid");
            let told = (config.node.broadcast_address, config.node.broadcast_rpc_address);
            (told, config.internal_address, config.prefers_local)
        };
        let ip = |text: &str| Some(text.parse::<IpAddr>().expect("an address"));
        let ec2 = "endpoint_snitch: Ec2MultiRegionSnitch";
        let service = "ec2_metadata_url=http://ec2";
        assert_eq!(found(ec2, service), ((ip("52.0.0.1"), ip("52.0.0.1")), ip("10.0.0.1"), true));
        let told = format!("{ec2}\nbroadcast_rpc_address: 127.0.0.9");
        assert_eq!(found(&told, service), ((ip("52.0.0.1"), ip("127.0.0.9")), ip("10.0.0.1"), true));
        let gossiping = "endpoint_snitch: GossipingPropertyFileSnitch\nlisten_address: 127.0.0.5";
        assert_eq!(found(gossiping, "dc=a\nrack=b"), ((None, None), ip("127.0.0.5"), false));
        assert_eq!(found(gossiping, "dc=a\nrack=b\nprefer_local=true"), ((None, None), ip("127.0.0.5"), true));
        assert_eq!(found("", "prefer_local=true"), ((None, None), None, false));
    }

    #[test]
    fn the_snitch_says_where_the_node_is() {
        let location = |file: &str, beside: Option<(&str, &str)>| {
            discovered(file, beside).map(|config| (config.node.data_center, config.node.rack))
        };
        let pair = |data_center: &str, rack: &str| Ok((data_center.to_owned(), rack.to_owned()));
        let rackdc = "cassandra-rackdc.properties";
        assert_eq!(location("", Some((rackdc, "dc=a\nrack=b"))), pair("datacenter1", "rack1"));
        let gossiping = "endpoint_snitch: GossipingPropertyFileSnitch";
        assert_eq!(location(gossiping, Some((rackdc, "dc=a\nrack=b"))), pair("a", "b"));
        assert!(location(gossiping, None).expect_err("refused").contains("DC or rack not found"));
        let topology = "endpoint_snitch: org.apache.cassandra.locator.PropertyFileSnitch\nlisten_address: 127.0.0.9";
        assert_eq!(location(topology, Some(("cassandra-topology.properties", "127.0.0.9=c:d"))), pair("c", "d"));
        assert_eq!(location("endpoint_snitch: RackInferringSnitch\nlisten_address: 127.3.4.5", None), pair("3", "4"));
        let cloud = "endpoint_snitch: AlibabaCloudSnitch";
        let file = |timeout: &str| format!("metadata_url=http://here\nmetadata_request_timeout={timeout}\n");
        let located = |timeout: &str| location(cloud, Some((rackdc, &file(timeout))));
        assert_eq!(located("7s"), pair("cn-hangzhou", "f"));
        assert_eq!(
            located("8s").expect_err("refused"),
            "Error instantiating snitch class 'org.apache.cassandra.locator.AlibabaCloudSnitch': \
             http://here/latest/meta-data/zone-id does not answer within 8 s"
        );
        assert!(located("x").expect_err("refused").starts_with("x as value of metadata_request_timeout is invalid"));
        assert!(location(cloud, None).expect_err("refused").ends_with("does not answer within 30 s"));
        assert_eq!(
            location("endpoint_snitch: CloudstackSnitch", None),
            Err("Error instantiating snitch class 'org.apache.cassandra.locator.CloudstackSnitch': No valid DHCP lease file \
                 could be found."
                .into())
        );
        let [first, _] = cloud::LEASE_FILES;
        let lease = Some((first, "  option dhcp-server-identifier here;"));
        assert_eq!(location("endpoint_snitch: CloudstackSnitch", lease), pair("ch-gva", "2"));
        assert_eq!(
            location("endpoint_snitch: NoSuchSnitch", None),
            Err("Unable to find snitch class 'org.apache.cassandra.locator.NoSuchSnitch'".into())
        );
    }
}

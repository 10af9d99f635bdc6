//! Snitches that ask the metadata service of a cloud where this machine is.
//!
//! Nothing is sent here: the caller passes a function that asks. Addresses, properties of
//! `cassandra-rackdc.properties` and texts are those of Cassandra 5.0.

use super::location::Location;
use std::net::IpAddr;
use std::num::ParseIntError;

/// The property with the address of the service, instead of the cloud's own.
pub const URL: &str = "metadata_url";
/// Files that name the server of CloudStack's metadata: the leases of DHCP.
pub const LEASE_FILES: [&str; 2] = ["/var/lib/dhcp/dhclient.eth0.leases", "/var/lib/dhclient/dhclient.eth0.leases"];
/// The same for EC2, older.
const EC2_URL: &str = "ec2_metadata_url";
/// How many seconds a token of EC2's service may last.
const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 30..=21_600;

/// A cloud with a metadata service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cloud {
    /// Amazon's.
    Ec2,
    /// Google's.
    Google,
    /// Microsoft's.
    Azure,
    /// Alibaba's.
    Alibaba,
    /// One of Apache CloudStack.
    Cloudstack,
}

/// The method of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    /// GET.
    Get,
    /// PUT, with an empty body.
    Put,
}

/// A request to a metadata service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Question {
    /// Its method.
    pub method: Method,
    /// The whole address.
    pub url: String,
    /// Its headers.
    pub headers: Vec<(&'static str, String)>,
}

/// Sends a request: the body of an answer with status 200, or why there is none.
pub type Ask<'a> = &'a dyn Fn(&Question) -> Result<String, String>;

/// The addresses of a machine of EC2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Addresses {
    /// The one that other regions reach.
    pub public: IpAddr,
    /// The one within its region.
    pub private: IpAddr,
}

/// A metadata service: its address, and the headers that it wants.
struct Service<'a> {
    url: String,
    headers: Vec<(&'static str, String)>,
    ask: Ask<'a>,
}

impl Service<'_> {
    fn get(&self, path: &str) -> Result<String, String> {
        let url = format!("{}{path}", self.url);
        (self.ask)(&Question { method: Method::Get, url, headers: self.headers.clone() })
    }
}

/// The last property of a name that is not empty.
fn property<'p>(properties: &'p [(String, String)], name: &str) -> Option<&'p str> {
    let found = properties.iter().rfind(|(key, _)| key == name);
    found.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
}

/// The address of CloudStack's metadata service, which the text of a [`LEASE_FILES`] names.
///
/// # Errors
/// Cassandra's text if there is no such file, or if it names none.
pub fn url_of_lease(lease: Option<&str>) -> Result<String, String> {
    let lease = lease.ok_or("No valid DHCP lease file could be found.")?;
    let server = |line: &str| {
        let rest = line.trim_start_matches([' ', '\t']).strip_prefix("option dhcp-server-identifier ")?;
        rest.strip_suffix(';').map(|server| format!("http://{server}"))
    };
    lease.lines().find_map(server).ok_or_else(|| "No metadata server could be found in lease file.".into())
}

/// The addresses of this machine of EC2.
///
/// # Errors
/// As for [`Cloud::locate`], or the service names no address.
pub(super) fn addresses(properties: &[(String, String)], ask: Ask<'_>) -> Result<Addresses, String> {
    let service = Cloud::Ec2.service(properties, ask)?;
    let address = |path| {
        let answer = service.get(path)?;
        answer.trim().parse().map_err(|_| format!("{path}: {answer} is no address"))
    };
    Ok(Addresses {
        public: address("/latest/meta-data/public-ipv4")?,
        private: address("/latest/meta-data/local-ipv4")?,
    })
}

impl Cloud {
    /// Where this machine is. `properties` are those of the snitch's file; the last of a name counts.
    ///
    /// # Errors
    /// Cassandra's text if a property has no meaning, the service does not answer, or what it says is no place.
    pub(super) fn locate(self, properties: &[(String, String)], ask: Ask<'_>) -> Result<Location, String> {
        let suffix = property(properties, "dc_suffix").unwrap_or_default();
        let service = self.service(properties, ask)?;
        match self {
            Cloud::Ec2 => {
                let zone = service.get("/latest/meta-data/placement/availability-zone")?;
                let naming = property(properties, "ec2_naming_scheme");
                let is_legacy = naming.is_some_and(|name| name.eq_ignore_ascii_case("legacy"));
                Ok(of_ec2(zone.trim(), is_legacy, suffix))
            }
            Cloud::Google => of_zone(&service.get("/computeMetadata/v1/instance/zone")?, suffix),
            Cloud::Alibaba => of_zone(&service.get("/latest/meta-data/zone-id")?, suffix),
            Cloud::Azure => {
                let version = property(properties, "azure_api_version").unwrap_or("2021-12-13");
                let path = format!("/metadata/instance/compute?api-version={version}&format=json");
                of_azure(&service.get(&path)?, suffix)
            }
            Cloud::Cloudstack => of_cloudstack(service.get("/latest/meta-data/availability-zone")?.trim()),
        }
    }

    /// The service of this cloud that the properties name, or else its own.
    fn service<'a>(self, properties: &[(String, String)], ask: Ask<'a>) -> Result<Service<'a>, String> {
        let own = match self {
            Cloud::Ec2 | Cloud::Azure => "http://169.254.169.254",
            Cloud::Google => "http://metadata.google.internal",
            Cloud::Alibaba => "http://100.100.100.200",
            // Each has its own, which the caller finds.
            Cloud::Cloudstack => "",
        };
        let older = property(properties, EC2_URL).filter(|_| self == Cloud::Ec2);
        let url = property(properties, URL).or(older).unwrap_or(own).trim_end_matches('/').to_owned();
        let headers = match self {
            Cloud::Ec2 => match property(properties, "ec2_metadata_type").unwrap_or("v2") {
                "v1" => Vec::new(),
                "v2" => vec![("X-aws-ec2-metadata-token", token(&url, properties, ask)?)],
                _ => return Err("ec2_metadata_type must be one of v1,v2".into()),
            },
            Cloud::Google => vec![("Metadata-Flavor", "Google".to_owned())],
            Cloud::Azure => vec![("Metadata", "true".to_owned())],
            Cloud::Alibaba | Cloud::Cloudstack => Vec::new(),
        };
        Ok(Service { url, headers, ask })
    }
}

/// A token of EC2's service, version 2.
fn token(service: &str, properties: &[(String, String)], ask: Ask<'_>) -> Result<String, String> {
    const TTL: &str = "ec2_metadata_token_ttl_seconds";
    let seconds = match property(properties, TTL) {
        Some(text) => text.parse().map_err(|_: ParseIntError| {
            format!("Unable to parse integer from property {TTL}, value to parse: {text}")
        })?,
        None => *TOKEN_SECONDS.end(),
    };
    if !TOKEN_SECONDS.contains(&seconds) {
        let (min, max) = (TOKEN_SECONDS.start(), TOKEN_SECONDS.end());
        return Err(format!(
            "property {TTL} was set to {seconds} seconds which is not in allowed range of [{min}..{max}]"
        ));
    }
    let headers = vec![("X-aws-ec2-metadata-token-ttl-seconds", seconds.to_string())];
    ask(&Question { method: Method::Put, url: format!("{service}/latest/api/token"), headers })
}

/// The place that an availability zone of EC2 stands for: region and zone; in the older naming `us-east-1a` is rack
/// `1a` of `us-east`, and `us-west-2a` rack `2a` of `us-west-2`.
fn of_ec2(zone: &str, is_legacy: bool, suffix: &str) -> Location {
    let (region, rack) = if is_legacy {
        let without = |count: usize| zone.char_indices().rev().nth(count - 1).map_or("", |(at, _)| &zone[..at]);
        let region = if without(1).ends_with('1') { without(3) } else { without(1) };
        (region, zone.rsplit('-').next().unwrap_or_default())
    } else {
        (zone.trim_end_matches(|c: char| c.is_ascii_lowercase()), zone)
    };
    Location { data_center: format!("{region}{suffix}"), rack: rack.to_owned() }
}

/// The place that a zone `region-name` stands for, which may be the end of a path.
fn of_zone(answer: &str, suffix: &str) -> Result<Location, String> {
    let zone = answer.trim().rsplit('/').next().unwrap_or_default();
    match zone.rsplit_once('-') {
        Some((region, rack)) => Ok(Location { data_center: format!("{region}{suffix}"), rack: rack.to_owned() }),
        None => Err(format!(
            "{} does not contain at least one '-' to differentiate between datacenter and rack",
            answer.trim()
        )),
    }
}

/// The place that a zone `country-region-name` of CloudStack stands for.
fn of_cloudstack(zone: &str) -> Result<Location, String> {
    match zone.split('-').collect::<Vec<_>>().as_slice() {
        [country, region, rack] => {
            Ok(Location { data_center: format!("{country}-{region}"), rack: (*rack).to_owned() })
        }
        _ => Err(format!("CloudstackSnitch cannot handle invalid zone format: {zone}")),
    }
}

/// The place that Azure's description of a machine names: its location, and its zone or else its fault domain.
fn of_azure(answer: &str, suffix: &str) -> Result<Location, String> {
    let machine: serde_json::Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    let text = |name: &str| match machine.get(name) {
        Some(serde_json::Value::String(text)) if !text.is_empty() => Some(text.clone()),
        Some(serde_json::Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let location = text("location").unwrap_or_else(|| "UNKNOWN-DC".into());
    let rack = text("zone").or_else(|| text("platformFaultDomain")).unwrap_or_else(|| "UNKNOWN-RACK".into());
    Ok(Location { data_center: format!("{location}{suffix}"), rack: format!("rack-{rack}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snitch::properties;
    use std::cell::RefCell;

    /// Where a machine is whose service answers so, and what it was asked.
    fn located(cloud: Cloud, file: &str, answer: &str) -> (Result<(String, String), String>, Vec<String>) {
        let asked = RefCell::new(Vec::new());
        let ask = |question: &Question| {
            let Question { method, url, headers } = question;
            asked.borrow_mut().push(format!("{method:?} {url} {headers:?}"));
            if *method == Method::Put { Ok("TOKEN".to_owned()) } else { Ok(answer.to_owned()) }
        };
        let location = cloud.locate(&properties::parse(file), &ask);
        (location.map(|location| (location.data_center, location.rack)), asked.into_inner())
    }

    fn place(cloud: Cloud, file: &str, answer: &str) -> Result<(String, String), String> {
        located(cloud, file, answer).0
    }

    fn pair(data_center: &str, rack: &str) -> Result<(String, String), String> {
        Ok((data_center.into(), rack.into()))
    }

    #[test]
    fn ec2_asks_for_a_token_first() {
        let (location, asked) = located(Cloud::Ec2, "", "us-east-1a");
        assert_eq!(location, pair("us-east-1", "us-east-1a"));
        assert_eq!(
            asked,
            [
                "Put http://169.254.169.254/latest/api/token [(\"X-aws-ec2-metadata-token-ttl-seconds\", \"21600\")]",
                "Get http://169.254.169.254/latest/meta-data/placement/availability-zone \
                 [(\"X-aws-ec2-metadata-token\", \"TOKEN\")]",
            ]
        );
        let (_, asked) = located(Cloud::Ec2, "ec2_metadata_type=v1\nec2_metadata_url=http://here/", "us-east-1a");
        assert_eq!(asked, ["Get http://here/latest/meta-data/placement/availability-zone []"]);
    }

    #[test]
    fn ec2_has_two_schemes_of_names() {
        let legacy = "ec2_naming_scheme=Legacy\ndc_suffix=_x";
        assert_eq!(place(Cloud::Ec2, legacy, "us-east-1d"), pair("us-east_x", "1d"));
        assert_eq!(place(Cloud::Ec2, legacy, "us-west-2d"), pair("us-west-2_x", "2d"));
        assert_eq!(place(Cloud::Ec2, "dc_suffix=_x", "us-west-2d\n"), pair("us-west-2_x", "us-west-2d"));
        assert_eq!(place(Cloud::Ec2, legacy, ""), pair("_x", ""));
    }

    #[test]
    fn wrong_properties_of_ec2_are_refused() {
        let wrong = |file| place(Cloud::Ec2, file, "us-east-1a").expect_err("refused");
        assert_eq!(wrong("ec2_metadata_type=v3"), "ec2_metadata_type must be one of v1,v2");
        assert_eq!(
            wrong("ec2_metadata_token_ttl_seconds=x"),
            "Unable to parse integer from property ec2_metadata_token_ttl_seconds, value to parse: x"
        );
        for (seconds, is_good) in [(29, false), (30, true), (21_600, true), (21_601, false)] {
            let file = format!("ec2_metadata_token_ttl_seconds={seconds}");
            assert_eq!(place(Cloud::Ec2, &file, "us-east-1a").is_ok(), is_good, "{seconds}");
        }
        assert_eq!(
            wrong("ec2_metadata_token_ttl_seconds=29"),
            "property ec2_metadata_token_ttl_seconds was set to 29 seconds which is not in allowed range of [30..21600]"
        );
    }

    #[test]
    fn zones_of_google_and_alibaba_are_regions_and_racks() {
        let (location, asked) = located(Cloud::Google, "dc_suffix=2", "projects/1234/zones/us-central1-a");
        assert_eq!(location, pair("us-central12", "a"));
        let url = "http://metadata.google.internal/computeMetadata/v1/instance/zone";
        assert_eq!(asked, [format!("Get {url} [(\"Metadata-Flavor\", \"Google\")]")]);
        let (location, asked) = located(Cloud::Alibaba, "", "cn-hangzhou-f");
        assert_eq!(location, pair("cn-hangzhou", "f"));
        assert_eq!(asked, ["Get http://100.100.100.200/latest/meta-data/zone-id []"]);
        let wrong = "nowhere does not contain at least one '-' to differentiate between datacenter and rack";
        assert_eq!(place(Cloud::Alibaba, "", "nowhere"), Err(wrong.into()));
    }

    #[test]
    fn azure_describes_the_machine() {
        let (location, asked) =
            located(Cloud::Azure, "", r#"{"location":"westeurope","zone":"3","platformFaultDomain":"1"}"#);
        assert_eq!(location, pair("westeurope", "rack-3"));
        let url = "http://169.254.169.254/metadata/instance/compute?api-version=2021-12-13&format=json";
        assert_eq!(asked, [format!("Get {url} [(\"Metadata\", \"true\")]")]);
        let place = |answer| place(Cloud::Azure, "dc_suffix=_a", answer);
        assert_eq!(place(r#"{"location":"x","zone":"","platformFaultDomain":"1"}"#), pair("x_a", "rack-1"));
        assert_eq!(place("{}"), pair("UNKNOWN-DC_a", "rack-UNKNOWN-RACK"));
        assert!(place("not json").is_err());
    }

    #[test]
    fn cloudstack_asks_the_server_of_the_lease() {
        let lease = "lease {\n  interface \"eth0\";\n  option dhcp-server-identifier 10.1.2.3;\n}\n";
        let url = url_of_lease(Some(lease)).expect("named");
        let (location, asked) = located(Cloud::Cloudstack, &format!("{URL}={url}"), "ch-gva-2");
        assert_eq!(location, pair("ch-gva", "2"));
        assert_eq!(asked, ["Get http://10.1.2.3/latest/meta-data/availability-zone []"]);
        let wrong = "CloudstackSnitch cannot handle invalid zone format: ch-2";
        assert_eq!(place(Cloud::Cloudstack, "", "ch-2"), Err(wrong.into()));
        assert_eq!(url_of_lease(Some("lease {}")), Err("No metadata server could be found in lease file.".into()));
        assert_eq!(url_of_lease(None), Err("No valid DHCP lease file could be found.".into()));
    }

    #[test]
    fn ec2_knows_both_addresses_of_a_machine() {
        let ask = |question: &Question| {
            Ok(match question.url.rsplit('/').next() {
                Some("token") => "TOKEN",
                Some("public-ipv4") => "52.1.2.3",
                Some("local-ipv4") => "10.0.0.7\n",
                _ => "nothing",
            }
            .to_owned())
        };
        let expected = Addresses { public: [52, 1, 2, 3].into(), private: [10, 0, 0, 7].into() };
        assert_eq!(addresses(&[], &ask), Ok(expected));
        let none = |_: &Question| Ok(String::new());
        assert_eq!(addresses(&[], &none), Err("/latest/meta-data/public-ipv4:  is no address".into()));
    }

    #[test]
    fn a_service_that_does_not_answer_is_told() {
        let ask = |_: &Question| Err("HTTP response code: 404 (Not Found)".to_owned());
        for cloud in [Cloud::Ec2, Cloud::Google, Cloud::Azure, Cloud::Alibaba, Cloud::Cloudstack] {
            assert_eq!(cloud.locate(&[], &ask), Err("HTTP response code: 404 (Not Found)".into()));
        }
    }
}

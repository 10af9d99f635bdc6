//! `client_encryption_options` and `server_encryption_options`: who is encrypted, and with which keys.

use super::given::Given;
use super::options::kind;
use super::{Config, ConfigError, error};
use serde_norway::Value;
use std::path::Path;
pub use tls::Encryption;
use tls::{ClientAuth, Format, Options, Protocols, Secret, Source};

/// `native_shard_aware_transport_port_ssl` if the configuration does not say.
const SHARD_AWARE_TLS_PORT: u16 = 19142;
/// `ssl_storage_port` if the configuration does not say.
pub const SSL_STORAGE_PORT: u16 = 7001;

const PEM_FACTORY: &str = "PEMBasedSslContextFactory";
const DEFAULT_FACTORY: &str = "DefaultSslContextFactory";

/// `client_encryption_options` and what belongs to it.
#[derive(Clone, PartialEq, Debug)]
pub struct ClientEncryption {
    /// `enabled` and `optional`.
    pub encryption: Encryption,
    /// `optional` is not given, so that connections may be encrypted as soon as there is a key store, as in Cassandra.
    pub is_transitional: bool,
    /// `native_transport_port_ssl`.
    pub port: Option<u16>,
    /// `native_shard_aware_transport_port_ssl`.
    pub shard_aware_port: u16,
    /// Keys, trust and rules.
    pub options: Options,
}

impl Default for ClientEncryption {
    fn default() -> ClientEncryption {
        ClientEncryption {
            encryption: Encryption::Off,
            is_transitional: true,
            port: None,
            shard_aware_port: SHARD_AWARE_TLS_PORT,
            options: Options::default(),
        }
    }
}

/// `internode_encryption`: which connections that this node makes to others are encrypted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InternodeEncryption {
    /// `none`.
    #[default]
    None,
    /// `rack`: those to other racks and data centres.
    Rack,
    /// `dc`: those to other data centres.
    DataCenter,
    /// `all`.
    All,
}

/// `server_encryption_options` and what belongs to it.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ServerEncryption {
    /// `internode_encryption`.
    pub internode: InternodeEncryption,
    /// `optional`; `None` if it is not given.
    pub optional: Option<bool>,
    /// `legacy_ssl_storage_port_enabled`.
    pub has_legacy_port: bool,
    /// `ssl_storage_port`; `None` for [`SSL_STORAGE_PORT`].
    pub legacy_port: Option<u16>,
    /// Keys, trust and rules.
    pub options: Options,
}

impl ServerEncryption {
    /// Whether connections that other nodes make to the storage port are encrypted. Those of nodes that need no
    /// encryption between them come to the same port.
    pub fn inbound(&self) -> Encryption {
        match (self.internode, self.optional) {
            (InternodeEncryption::Rack | InternodeEncryption::DataCenter, _) => Encryption::Optional,
            (InternodeEncryption::All, Some(true)) | (InternodeEncryption::None, Some(true)) => Encryption::Optional,
            (InternodeEncryption::All, _) => Encryption::Required,
            (InternodeEncryption::None, _) => Encryption::Off,
        }
    }

    /// Whether every node must show a certificate that is trusted.
    pub fn is_mutual(&self) -> bool {
        self.inbound() == Encryption::Required && self.options.client_auth == ClientAuth::Required
    }
}

/// The names of the options of a group.
struct Names {
    factory: &'static str,
    keystore: &'static str,
    keystore_password: &'static str,
    truststore: &'static str,
    truststore_password: &'static str,
    store_type: &'static str,
    protocol: &'static str,
    accepted_protocols: &'static str,
    cipher_suites: &'static str,
    require_client_auth: &'static str,
    require_endpoint_verification: &'static str,
}

const CLIENT: Names = Names {
    factory: "client_encryption_options.ssl_context_factory",
    keystore: "client_encryption_options.keystore",
    keystore_password: "client_encryption_options.keystore_password",
    truststore: "client_encryption_options.truststore",
    truststore_password: "client_encryption_options.truststore_password",
    store_type: "client_encryption_options.store_type",
    protocol: "client_encryption_options.protocol",
    accepted_protocols: "client_encryption_options.accepted_protocols",
    cipher_suites: "client_encryption_options.cipher_suites",
    require_client_auth: "client_encryption_options.require_client_auth",
    require_endpoint_verification: "client_encryption_options.require_endpoint_verification",
};

const SERVER: Names = Names {
    factory: "server_encryption_options.ssl_context_factory",
    keystore: "server_encryption_options.keystore",
    keystore_password: "server_encryption_options.keystore_password",
    truststore: "server_encryption_options.truststore",
    truststore_password: "server_encryption_options.truststore_password",
    store_type: "server_encryption_options.store_type",
    protocol: "server_encryption_options.protocol",
    accepted_protocols: "server_encryption_options.accepted_protocols",
    cipher_suites: "server_encryption_options.cipher_suites",
    require_client_auth: "server_encryption_options.require_client_auth",
    require_endpoint_verification: "server_encryption_options.require_endpoint_verification",
};

impl Given {
    pub(super) fn client_encryption(&self) -> Result<ClientEncryption, ConfigError> {
        let default = ClientEncryption::default();
        let is_enabled = self.flag("client_encryption_options.enabled")?.unwrap_or(false);
        let optional = self.flag("client_encryption_options.optional")?;
        Ok(ClientEncryption {
            encryption: match (is_enabled, optional) {
                (_, Some(true)) => Encryption::Optional,
                (true, _) => Encryption::Required,
                (false, _) => Encryption::Off,
            },
            is_transitional: optional.is_none() && !is_enabled,
            port: self.port("native_transport_port_ssl")?,
            shard_aware_port: self.port("native_shard_aware_transport_port_ssl")?.unwrap_or(default.shard_aware_port),
            options: self.tls(&CLIENT)?,
        })
    }

    pub(super) fn server_encryption(&self) -> Result<ServerEncryption, ConfigError> {
        let mut options = self.tls(&SERVER)?;
        if let Some(path) = self.text("server_encryption_options.outbound_keystore")? {
            if options.outbound_keystore.is_some() {
                return error(
                    "server_encryption_options.outbound_keystore: Configuration must specify value for either \
                     outbound_keystore or outbound_private_key, not both for PEMBasedSSlContextFactory",
                );
            }
            options.outbound_keystore = Some(Source::File(path.into()));
        }
        if let Some(password) = self.text("server_encryption_options.outbound_keystore_password")? {
            options.outbound_keystore_password = Some(Secret(password));
        }
        Ok(ServerEncryption {
            internode: match self.text("server_encryption_options.internode_encryption")?.as_deref() {
                Some("all") => InternodeEncryption::All,
                Some("dc") => InternodeEncryption::DataCenter,
                Some("rack") => InternodeEncryption::Rack,
                _ => InternodeEncryption::None,
            },
            optional: self.flag("server_encryption_options.optional")?,
            has_legacy_port: self.flag("server_encryption_options.legacy_ssl_storage_port_enabled")?.unwrap_or(false),
            legacy_port: self.port("ssl_storage_port")?,
            options,
        })
    }

    /// The options that both groups have.
    fn tls(&self, names: &Names) -> Result<Options, ConfigError> {
        let file = |name| Ok(self.text(name)?.map(|path| Source::File(path.into())));
        let secret = |name| Ok(self.text(name)?.map(Secret));
        let mut options = Options {
            format: Format::Pkcs12,
            keystore: file(names.keystore)?,
            keystore_password: secret(names.keystore_password)?,
            truststore: file(names.truststore)?,
            truststore_password: secret(names.truststore_password)?,
            protocols: self.protocols(names)?,
            cipher_suites: self.texts(names.cipher_suites)?,
            client_auth: match self.flag(names.require_client_auth)? {
                Some(true) => ClientAuth::Required,
                _ => ClientAuth::None,
            },
            verifies_endpoint: self.flag(names.require_endpoint_verification)?.unwrap_or(false),
            ..Options::default()
        };
        self.factory(names, &mut options)?;
        let store_type = self.text(names.store_type)?;
        match store_type.as_deref() {
            None | Some("JKS" | "PKCS12") => {}
            // This factory reads PEM whatever the type.
            Some("PEM") if options.format == Format::Pem => {}
            Some(other) => return error(format!("{}: {other} is not one of JKS, PKCS12", names.store_type)),
        }
        options.check().or_else(|e| error(format!("{}: {e}", names.cipher_suites)))?;
        Ok(options)
    }

    fn protocols(&self, names: &Names) -> Result<Protocols, ConfigError> {
        let accepted = self.texts(names.accepted_protocols)?;
        let (name, given) = match accepted.is_empty() {
            false => (names.accepted_protocols, accepted),
            true => (names.protocol, self.text(names.protocol)?.into_iter().collect()),
        };
        // The other one has no effect then, but it must be known.
        if let Some(protocol) = self.text(names.protocol)? {
            Protocols::named([protocol.as_str()]).or_else(|e| error(format!("{}: {e}", names.protocol)))?;
        }
        match given.is_empty() {
            true => Ok(Protocols::default()),
            false => Protocols::named(given.iter().map(String::as_str)).or_else(|e| error(format!("{name}: {e}"))),
        }
    }

    /// The texts of a list; empty if it is not given.
    fn texts(&self, name: &'static str) -> Result<Vec<String>, ConfigError> {
        match self.take(name) {
            None => Ok(Vec::new()),
            Some(Value::Sequence(items)) => {
                let text = |item| kind::scalar(item).ok_or_else(|| ConfigError(format!("{name}: texts are needed")));
                items.iter().map(text).collect()
            }
            Some(_) => error(format!("{name}: a list is needed")),
        }
    }

    /// `ssl_context_factory` with its parameters.
    fn factory(&self, names: &Names, options: &mut Options) -> Result<(), ConfigError> {
        let name = names.factory;
        let Some(given) = self.take(name) else { return Ok(()) };
        let class = kind::class_name(given).unwrap_or_default();
        options.format = match class.rsplit('.').next().unwrap_or_default() {
            PEM_FACTORY => Format::Pem,
            DEFAULT_FACTORY => Format::Pkcs12,
            _ => return error(format!("{name}: {class} is not one of {DEFAULT_FACTORY}, {PEM_FACTORY}")),
        };
        let parameters = match given.get("parameters") {
            None | Some(Value::Null) => return Ok(()),
            Some(Value::Mapping(parameters)) => parameters.clone(),
            Some(Value::Sequence(items)) if items.iter().all(Value::is_mapping) => {
                items.iter().filter_map(Value::as_mapping).flatten().map(|(k, v)| (k.clone(), v.clone())).collect()
            }
            Some(_) => return error(format!("{name}: parameters are names and values")),
        };
        for (parameter, value) in &parameters {
            let parameter = kind::scalar(parameter).unwrap_or_default();
            let Some(text) = kind::scalar(value) else { return error(format!("{name}: {parameter} has no value")) };
            let inline = Some(Source::Inline(Secret(text.clone())));
            let both = |one: &str| {
                // The words are Cassandra's.
                error(format!(
                    "{name}: Configuration must specify value for either {one} or {parameter}, not both for \
                     PEMBasedSSlContextFactory"
                ))
            };
            match (parameter.as_str(), options.format) {
                ("private_key", Format::Pem) if options.keystore.is_some() => return both("keystore"),
                ("trusted_certificates", Format::Pem) if options.truststore.is_some() => return both("truststore"),
                ("private_key", Format::Pem) => options.keystore = inline,
                ("private_key_password", Format::Pem) => options.keystore_password = Some(Secret(text)),
                ("outbound_private_key", Format::Pem) => options.outbound_keystore = inline,
                ("outbound_private_key_password", Format::Pem) => {
                    options.outbound_keystore_password = Some(Secret(text));
                }
                ("trusted_certificates", Format::Pem) => options.truststore = inline,
                _ => return error(format!("{name}: {parameter} is not a parameter of {class}")),
            }
        }
        Ok(())
    }
}

impl Config {
    /// Refuses combinations of options of encryption that Cassandra refuses, with its words, and ports that meet.
    pub(super) fn check_encryption(&self) -> Result<(), ConfigError> {
        let (clients, peers) = (&self.client_encryption, &self.server_encryption);
        let is_off = clients.encryption == Encryption::Off;
        if is_off && clients.port.is_some_and(|port| port != self.node.native_port) {
            return error("Encryption must be enabled in client_encryption_options for native_transport_port_ssl");
        }
        if !is_off {
            let ports = [
                ("native_transport_port", Some(self.node.native_port)),
                ("native_shard_aware_transport_port", Some(self.shard_aware_port)),
                ("native_transport_port_ssl", clients.port.filter(|port| *port != self.node.native_port)),
                ("native_shard_aware_transport_port_ssl", Some(clients.shard_aware_port)),
            ];
            for (n, (name, port)) in ports.iter().enumerate() {
                let before = ports[..n].iter().find(|(_, other)| port.is_some_and(|port| port != 0) && other == port);
                if let Some((other, _)) = before {
                    return error(format!("{other} and {name} are the same"));
                }
            }
        }
        if peers.has_legacy_port && peers.internode == InternodeEncryption::None {
            return error(
                "legacy_ssl_storage_port_enabled is true (enabled) with internode encryption disabled (none). Enable \
                 encryption or disable the legacy ssl storage port.",
            );
        }
        Ok(())
    }
}

/// The name of the file that a source is, for the log.
pub(crate) fn file_of(source: Option<&Source>) -> Option<&Path> {
    match source {
        Some(Source::File(path)) => Some(path),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Config {
        Config::read(file, &[]).expect("valid")
    }

    fn refused(file: &str) -> String {
        let read = Config::read(file, &[]).and_then(|config| config.check());
        read.expect_err("refused").0
    }

    #[test]
    fn encryption_of_clients_follows_enabled_and_optional() {
        let of = |options: &str| {
            let read = read(&format!("client_encryption_options: {{{options}}}")).client_encryption;
            (read.encryption, read.is_transitional)
        };
        assert_eq!(of("keystore: a"), (Encryption::Off, true));
        assert_eq!(of("enabled: true"), (Encryption::Required, false));
        assert_eq!(of("enabled: true, optional: true"), (Encryption::Optional, false));
        assert_eq!(of("enabled: false, optional: false"), (Encryption::Off, false));
        assert_eq!(of("enabled: false, optional: true"), (Encryption::Optional, false));
    }

    #[test]
    fn encryption_between_nodes_follows_internode_encryption() {
        let of = |options: &str| read(&format!("server_encryption_options: {{{options}}}")).server_encryption.inbound();
        assert_eq!(of("internode_encryption: none"), Encryption::Off);
        assert_eq!(of("internode_encryption: all"), Encryption::Required);
        assert_eq!(of("internode_encryption: all, optional: true"), Encryption::Optional);
        assert_eq!(of("internode_encryption: none, optional: true"), Encryption::Optional);
        assert_eq!(of("internode_encryption: dc, optional: false"), Encryption::Optional);
        assert_eq!(of("internode_encryption: rack"), Encryption::Optional);
    }

    #[test]
    fn the_factory_for_pem_takes_files_or_inline_text() {
        let file = "client_encryption_options:\n  enabled: true\n  keystore: /k.pem\n  truststore: /t.pem\n  \
                    keystore_password: geheim\n  require_client_auth: true\n  accepted_protocols: [TLSv1.3]\n  \
                    ssl_context_factory: {class_name: org.apache.cassandra.security.PEMBasedSslContextFactory}";
        let options = read(file).client_encryption.options;
        assert_eq!((options.format, options.client_auth), (Format::Pem, ClientAuth::Required));
        assert_eq!(options.keystore, Some(Source::File("/k.pem".into())));
        assert_eq!(options.protocols, Protocols { tls12: false, tls13: true });
        let inline = "server_encryption_options:\n  internode_encryption: all\n  ssl_context_factory:\n    \
                      class_name: PEMBasedSslContextFactory\n    parameters:\n      private_key: |\n        KEY\n      \
                      private_key_password: p\n      trusted_certificates: TRUST\n      outbound_private_key: OUT";
        let options = read(inline).server_encryption.options;
        assert_eq!(options.keystore, Some(Source::Inline(Secret("KEY\n".into()))));
        assert_eq!(options.outbound_keystore, Some(Source::Inline(Secret("OUT".into()))));
        assert_eq!(options.truststore, Some(Source::Inline(Secret("TRUST".into()))));
    }

    #[test]
    fn what_has_no_meaning_is_refused_by_name() {
        for (file, expected) in [
            ("client_encryption_options: {cipher_suites: [TLS_RSA_WITH_AES_128_CBC_SHA]}", "cipher_suites: TLS_RSA_"),
            ("client_encryption_options: {accepted_protocols: [TLSv1.1]}", "accepted_protocols: TLSv1.1"),
            ("client_encryption_options: {protocol: SSLv3}", "protocol: SSLv3"),
            ("client_encryption_options: {store_type: BCFKS}", "store_type: BCFKS"),
            ("client_encryption_options: {ssl_context_factory: MyFactory}", "ssl_context_factory: MyFactory"),
            (
                "client_encryption_options: {ssl_context_factory: {class_name: DefaultSslContextFactory, parameters: \
                 {private_key: x}}}",
                "ssl_context_factory: private_key is not a parameter",
            ),
            (
                "client_encryption_options: {keystore: a, ssl_context_factory: {class_name: PEMBasedSslContextFactory, \
                 parameters: {private_key: x}}}",
                "either keystore or private_key, not both",
            ),
            ("native_transport_port_ssl: 9142", "Encryption must be enabled in client_encryption_options for"),
            (
                "client_encryption_options: {enabled: true}\nnative_shard_aware_transport_port_ssl: 9042",
                "native_transport_port and native_shard_aware_transport_port_ssl are the same",
            ),
            (
                "server_encryption_options: {legacy_ssl_storage_port_enabled: true}",
                "legacy_ssl_storage_port_enabled is true (enabled) with internode encryption disabled (none)",
            ),
        ] {
            let text = refused(file);
            assert!(text.contains(expected), "{text}");
        }
    }

    #[test]
    fn no_secret_is_shown() {
        let file = "client_encryption_options: {keystore_password: opensesame, ssl_context_factory: {class_name: \
                    PEMBasedSslContextFactory, parameters: {private_key: hushhush}}}";
        let config = read(file);
        assert!(!format!("{config:?}").contains("opensesame") && !format!("{config:?}").contains("hushhush"));
        let shown = format!("{:?}", config.all_settings());
        assert!(!shown.contains("opensesame") && !shown.contains("hushhush"), "{shown}");
    }
}

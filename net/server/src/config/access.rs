//! `authenticator`, `authorizer` and the options that go with them.

use super::given::Given;
use super::options::kind;
use super::{ConfigError, error};
use model::Consistency;
use serde_norway::Mapping;
use shard::{AccessOptions, Authenticator, CidrMode};
use std::time::Duration;

impl Given {
    pub(super) fn access(&self) -> Result<AccessOptions, ConfigError> {
        let default = AccessOptions::default();
        let authenticator = match self.class("authenticator")?.as_deref() {
            None | Some("AllowAllAuthenticator") => Authenticator::AllowAll,
            Some("PasswordAuthenticator") => Authenticator::Password,
            Some("MutualTlsAuthenticator") => Authenticator::MutualTls,
            Some("MutualTlsWithPasswordFallbackAuthenticator") => Authenticator::MutualTlsWithPasswordFallback,
            Some(other) => {
                return error(format!(
                    "authenticator: {other} is not supported yet, only AllowAllAuthenticator, PasswordAuthenticator, \
                     MutualTlsAuthenticator or MutualTlsWithPasswordFallbackAuthenticator"
                ));
            }
        };
        if authenticator.takes_certificates() {
            self.check_certificates()?;
        }
        let authorizes = self.one_of("authorizer", ["AllowAllAuthorizer", "CassandraAuthorizer"])?;
        if authorizes && authenticator == Authenticator::AllowAll {
            return error("authorizer: AllowAllAuthenticator can't be used with CassandraAuthorizer");
        }
        let networks = ["AllowAllNetworkAuthorizer", "CassandraNetworkAuthorizer"];
        let authorizes_networks = self.one_of("network_authorizer", networks)?;
        if authorizes_networks && authenticator == Authenticator::AllowAll {
            return error("network_authorizer: AllowAllAuthenticator can't be used with CassandraNetworkAuthorizer");
        }
        let (cidr_mode, cidr_checks_for_superusers) = self.cidrs()?;
        if cidr_mode != CidrMode::Off && authenticator == Authenticator::AllowAll {
            return error("cidr_authorizer: AllowAllAuthenticator can't be used with CassandraCIDRAuthorizer");
        }
        let duration = |name| self.duration(name);
        let entries = |name| Ok::<_, ConfigError>(self.number(name, 0, i32::MAX as u64)?.map(|count| count as usize));
        let (validity, count) = (|of: Option<Duration>| of.unwrap_or(default.validities[0]), default.entries_max[0]);
        Ok(AccessOptions {
            authenticator,
            authorizes,
            authorizes_networks,
            cidr_mode,
            cidr_checks_for_superusers,
            read_level: self.level("auth_read_consistency_level")?.unwrap_or(default.read_level),
            write_level: self.level("auth_write_consistency_level")?.unwrap_or(default.write_level),
            validities: [
                validity(duration("credentials_validity")?),
                validity(duration("permissions_validity")?),
                validity(duration("roles_validity")?),
            ],
            update_intervals: [
                duration("credentials_update_interval")?,
                duration("permissions_update_interval")?,
                duration("roles_update_interval")?,
            ],
            entries_max: [
                entries("credentials_cache_max_entries")?.unwrap_or(count),
                entries("permissions_cache_max_entries")?.unwrap_or(count),
                entries("roles_cache_max_entries")?.unwrap_or(count),
            ],
            default_superuser: self.flag("default_superuser_enabled")?.unwrap_or(default.default_superuser),
        })
    }

    /// What `cidr_authorizer` says about addresses, and whether it is about those of superusers too.
    fn cidrs(&self) -> Result<(CidrMode, bool), ConfigError> {
        const NAME: &str = "cidr_authorizer";
        if !self.one_of(NAME, ["AllowAllCIDRAuthorizer", "CassandraCIDRAuthorizer"])? {
            return Ok((CidrMode::Off, false));
        }
        let (mut mode, mut superusers) = (CidrMode::Monitor, false);
        for (name, value) in self.parameters(NAME).into_iter().flatten() {
            let name = name.as_str().unwrap_or_default();
            let text = kind::scalar(value).unwrap_or_default();
            let wrong = |wanted: &str| error(format!("{NAME}: {name}: {text} is not {wanted}"));
            match name {
                "cidr_authorizer_mode" => {
                    mode = match text.to_ascii_uppercase().as_str() {
                        "MONITOR" => CidrMode::Monitor,
                        "ENFORCE" => CidrMode::Enforce,
                        _ => return wrong("MONITOR or ENFORCE"),
                    }
                }
                "cidr_checks_for_superusers" => match kind::flag(&text) {
                    Some(flag) => superusers = flag,
                    None => return wrong("true or false"),
                },
                // Groups are read with the roles, so both have no effect.
                "cidr_groups_cache_refresh_interval" | "ip_cache_max_size" => {
                    if text.parse::<u32>().is_err() {
                        return wrong("a number");
                    }
                }
                other => return error(format!("{NAME}: there is no parameter {other}")),
            }
        }
        Ok((mode, superusers))
    }

    /// The parameters of the class that an option names.
    fn parameters(&self, name: &'static str) -> Option<&Mapping> {
        let value = self.take(name)?;
        let parameters = value.as_sequence().and_then(|of| of.first()).unwrap_or(value).get("parameters")?;
        parameters.as_sequence().and_then(|of| of.first()).unwrap_or(parameters).as_mapping()
    }

    /// What authenticators need that take certificates.
    fn check_certificates(&self) -> Result<(), ConfigError> {
        const NAME: &str = "authenticator";
        const VALIDATOR: &str = "validator_class_name";
        let mut validator = None;
        for (name, value) in self.parameters(NAME).into_iter().flatten() {
            match name.as_str().unwrap_or_default() {
                VALIDATOR => validator = kind::scalar(value),
                other => return error(format!("{NAME}: there is no parameter {other}")),
            }
        }
        match validator.as_deref().map(kind::last_word) {
            None => return error("authenticator.parameters.validator_class_name is not set"),
            Some("SpiffeCertificateValidator") => {}
            Some(other) => {
                return error(format!(
                    "{NAME}: {VALIDATOR}: {other} is not supported yet, only SpiffeCertificateValidator"
                ));
            }
        }
        let is_on = |name| Ok::<_, ConfigError>(self.flag(name)?.unwrap_or(false));
        if !is_on("client_encryption_options.enabled")? || !is_on("client_encryption_options.require_client_auth")? {
            return error(
                "MutualTlsAuthenticator requires client_encryption_options.enabled to be true & \
                 client_encryption_options.require_client_auth to be true",
            );
        }
        Ok(())
    }

    /// The class that an option names, without its package.
    fn class(&self, name: &'static str) -> Result<Option<String>, ConfigError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        match kind::class_name(value) {
            Some(class) => Ok(Some(kind::last_word(&class).to_owned())),
            None => error(format!("{name}: a class_name is needed")),
        }
    }

    /// Whether an option names the second of two classes.
    fn one_of(&self, name: &'static str, [allowing, deciding]: [&str; 2]) -> Result<bool, ConfigError> {
        match self.class(name)?.as_deref() {
            None => Ok(false),
            Some(class) if class == allowing => Ok(false),
            Some(class) if class == deciding => Ok(true),
            Some(other) => error(format!("{name}: {other} is not supported yet, only {allowing} or {deciding}")),
        }
    }

    fn level(&self, name: &'static str) -> Result<Option<Consistency>, ConfigError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        match (0..).map_while(Consistency::from_code).find(|level| level.name() == text && !level.is_serial()) {
            Some(level) => Ok(Some(level)),
            None => error(format!("{name}: {text} is no consistency level")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(options: &[&str]) -> Result<AccessOptions, String> {
        let options: Vec<String> = options.iter().map(|option| option.to_string()).collect();
        Config::read("", &options).map(|config| config.node.access).map_err(|error| error.0)
    }

    #[test]
    fn classes_are_named_in_several_ways() {
        for name in [
            "PasswordAuthenticator",
            "org.apache.cassandra.auth.PasswordAuthenticator",
            "{class_name: PasswordAuthenticator, parameters: {}}",
            "[{class_name: org.apache.cassandra.auth.PasswordAuthenticator}]",
        ] {
            let options = read(&[&format!("authenticator={name}"), "authorizer=CassandraAuthorizer"]).expect(name);
            assert!(options.requires_login() && options.authorizes, "{name}");
        }
        assert_eq!(read(&[]), Ok(AccessOptions::default()));
    }

    #[test]
    fn what_would_protect_nothing_is_refused() {
        assert_eq!(
            read(&["authorizer=CassandraAuthorizer"]).expect_err("refused"),
            "authorizer: AllowAllAuthenticator can't be used with CassandraAuthorizer"
        );
        for (option, value) in
            [("authenticator", "Mine"), ("authorizer", "Mine"), ("cidr_authorizer", "Mine"), ("role_manager", "Mine")]
        {
            let refusal = read(&[&format!("{option}={value}")]).expect_err(value);
            assert!(refusal.starts_with(&format!("{option}: {value} is not supported yet")), "{refusal}");
        }
    }

    #[test]
    fn certificates_need_a_validator_and_clients_that_show_them() {
        let class = "class_name: MutualTlsAuthenticator";
        let with = |parameters: &str, more: &[&str]| {
            let authenticator = format!("authenticator={{{class}, parameters: {{{parameters}}}}}");
            read(&[&[authenticator.as_str()], more].concat()).map(|options| options.authenticator)
        };
        const SPIFFE: &str = "validator_class_name: org.apache.cassandra.auth.SpiffeCertificateValidator";
        let unset = "authenticator.parameters.validator_class_name is not set";
        assert_eq!(with("", &[]), Err(unset.into()));
        assert!(
            with("validator_class_name: Mine", &[]).is_err_and(|error| error.contains("Mine is not supported yet"))
        );
        let unencrypted = with(SPIFFE, &[]).expect_err("refused");
        assert!(unencrypted.starts_with("MutualTlsAuthenticator requires client_encryption_options.enabled"));
    }

    #[test]
    fn addresses_are_monitored_or_enforced() {
        let with = |parameters: &str| {
            let cidrs =
                format!("cidr_authorizer={{class_name: CassandraCIDRAuthorizer, parameters: {{{parameters}}}}}");
            read(&["authenticator=PasswordAuthenticator", &cidrs])
                .map(|options| (options.cidr_mode, options.cidr_checks_for_superusers))
        };
        assert_eq!(with(""), Ok((CidrMode::Monitor, false)));
        let all = "cidr_authorizer_mode: ENFORCE, cidr_checks_for_superusers: true, \
                   cidr_groups_cache_refresh_interval: 5, ip_cache_max_size: 100";
        assert_eq!(with(all), Ok((CidrMode::Enforce, true)));
        assert_eq!(
            with("cidr_authorizer_mode: x"),
            Err("cidr_authorizer: cidr_authorizer_mode: x is not MONITOR or ENFORCE".into())
        );
        assert_eq!(with("nope: 1"), Err("cidr_authorizer: there is no parameter nope".into()));
        let refusal = read(&["cidr_authorizer=CassandraCIDRAuthorizer"]).expect_err("refused");
        assert_eq!(refusal, "cidr_authorizer: AllowAllAuthenticator can't be used with CassandraCIDRAuthorizer");
    }

    #[test]
    fn the_shortest_time_counts() {
        let options = read(&["permissions_validity=700ms", "roles_update_interval=100ms"]).expect("valid");
        assert_eq!(options.validity(), Duration::from_millis(700));
        assert_eq!(options.update_interval(), Some(Duration::from_millis(100)));
        let levels = read(&["auth_read_consistency_level=ONE", "auth_write_consistency_level=QUORUM"]).expect("valid");
        assert_eq!((levels.read_level, levels.write_level), (Consistency::One, Consistency::Quorum));
        assert!(read(&["auth_read_consistency_level=SERIAL"]).is_err());
    }
}

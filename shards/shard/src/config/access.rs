//! Who may connect and do what, as the shards see it.

use model::Consistency;
use std::time::Duration;

/// How clients show who they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Authenticator {
    /// They do not: everybody is let in.
    #[default]
    AllowAll,
    /// With the name of a role and its password.
    Password,
    /// With a certificate whose identity belongs to a role.
    MutualTls,
    /// With a certificate, or without one by name and password.
    MutualTlsWithPasswordFallback,
}

impl Authenticator {
    /// Cassandra's class, whose full name is in AUTHENTICATE.
    pub fn class(self) -> &'static str {
        match self {
            Authenticator::AllowAll => "AllowAllAuthenticator",
            Authenticator::Password => "PasswordAuthenticator",
            Authenticator::MutualTls => "MutualTlsAuthenticator",
            Authenticator::MutualTlsWithPasswordFallback => "MutualTlsWithPasswordFallbackAuthenticator",
        }
    }
}

impl Authenticator {
    /// Whether clients show who they are by certificates.
    pub fn takes_certificates(self) -> bool {
        matches!(self, Authenticator::MutualTls | Authenticator::MutualTlsWithPasswordFallback)
    }
}

/// What is done with the addresses from which roles log in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CidrMode {
    /// Nothing: `AllowAllCIDRAuthorizer`.
    #[default]
    Off,
    /// They are logged and counted.
    Monitor,
    /// Roles are refused from addresses that they are not kept to.
    Enforce,
}

/// The options of authentication and authorisation. Defaults are Cassandra's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AccessOptions {
    /// `authenticator`.
    pub authenticator: Authenticator,
    /// `authorizer`: whether roles may do only what is granted to them; else everybody may do everything.
    pub authorizes: bool,
    /// `network_authorizer`: whether roles may use only the data centres that they have access to.
    pub authorizes_networks: bool,
    /// `cidr_authorizer` and its `cidr_authorizer_mode`.
    pub cidr_mode: CidrMode,
    /// `cidr_checks_for_superusers` of the `cidr_authorizer`.
    pub cidr_checks_for_superusers: bool,
    /// `auth_read_consistency_level`.
    pub read_level: Consistency,
    /// `auth_write_consistency_level`.
    pub write_level: Consistency,
    /// `credentials_validity`, `permissions_validity`, `roles_validity`.
    pub validities: [Duration; 3],
    /// `credentials_update_interval`, `permissions_update_interval`, `roles_update_interval`.
    pub update_intervals: [Option<Duration>; 3],
    /// `credentials_cache_max_entries`, `permissions_cache_max_entries`, `roles_cache_max_entries`.
    pub entries_max: [usize; 3],
    /// `default_superuser_enabled`: whether the role `cassandra` with that password is made if there are no roles.
    pub default_superuser: bool,
}

impl Default for AccessOptions {
    fn default() -> AccessOptions {
        AccessOptions {
            authenticator: Authenticator::AllowAll,
            authorizes: false,
            authorizes_networks: false,
            cidr_mode: CidrMode::Off,
            cidr_checks_for_superusers: false,
            read_level: Consistency::LocalQuorum,
            write_level: Consistency::EachQuorum,
            validities: [Duration::from_secs(2); 3],
            update_intervals: [None; 3],
            entries_max: [1000; 3],
            default_superuser: false,
        }
    }
}

impl AccessOptions {
    /// Whether clients must log in.
    pub fn requires_login(&self) -> bool {
        self.authenticator != Authenticator::AllowAll
    }

    /// How long what was read of a role counts: the shortest of the times, because it is read together.
    pub fn validity(&self) -> Duration {
        self.validities.into_iter().min().unwrap_or_default()
    }

    /// How old it may be before it is read again while it still counts; `None`: half of the validity.
    pub fn update_interval(&self) -> Option<Duration> {
        self.update_intervals.into_iter().flatten().min()
    }

    /// Of how many roles it is kept.
    pub fn entries_max(&self) -> usize {
        self.entries_max.into_iter().min().unwrap_or_default()
    }
}

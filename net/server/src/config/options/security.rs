//! Options of authentication, encryption, and logs of what clients do.

use super::kind::{CLASS, CONSISTENCY, FLAG, INT_MILLISECONDS, INT_SECONDS, INTEGER, Kind, LIST, LONG, TEXT};
use super::older::Older::{Milliseconds, MillisecondsOrNone, Same};
use super::{Key, group, read, refused, unused};

const ROLES: &str = "roles are kept in system_auth";
const REFRESHED: &str = "what is known of roles and used is always read again before it ends";
const TOGETHER: &str = "with those of the other caches of roles: the smallest counts";
const A_SECOND: &str = "at most 1s, and with those of the other caches of roles: the shortest counts";

const LOGGERS: &str = "`BinAuditLogger` writes JSON lines, `FileAuditLogger` to the log of the node";
const PER_CORE: &str = "each core has its part";
const RELATIVE: &str = "a relative path is below the node's working directory";

pub(super) const KEYS: &[Key] = &[
    read(
        "authenticator",
        CLASS,
        "",
        "AllowAllAuthenticator, PasswordAuthenticator, MutualTlsAuthenticator or \
         MutualTlsWithPasswordFallbackAuthenticator, these two with SpiffeCertificateValidator",
    ),
    read("authorizer", CLASS, "", "AllowAllAuthorizer or CassandraAuthorizer"),
    refused("role_manager", CLASS, "", ROLES).takes(&["CassandraRoleManager"]),
    read("network_authorizer", CLASS, "", "AllowAllNetworkAuthorizer or CassandraNetworkAuthorizer"),
    read(
        "cidr_authorizer",
        CLASS,
        "",
        "AllowAllCIDRAuthorizer or CassandraCIDRAuthorizer; of its parameters the caches have no effect: groups are read \
         with the roles",
    ),
    refused("internode_authenticator", CLASS, "", "other nodes are not authenticated")
        .takes(&["AllowAllInternodeAuthenticator"]),
    refused("crypto_provider", CLASS, "", "`ring` encrypts").takes(&["DefaultCryptoProvider", "JREProvider"]),
    unused("auth_cache_warming_enabled", FLAG, "false", "what is known of roles is read when it is needed"),
    read("auth_read_consistency_level", TEXT, "LOCAL_QUORUM", ""),
    read("auth_write_consistency_level", TEXT, "EACH_QUORUM", ""),
    unused("traverse_auth_from_root", FLAG, "false", "a resource and those above it are looked at together"),
    unused("credentials_cache_active_update", FLAG, "false", REFRESHED),
    read("credentials_cache_max_entries", INTEGER, "1000", TOGETHER),
    read("credentials_update_interval", INT_MILLISECONDS, "", TOGETHER)
        .older(&[("credentials_update_interval_in_ms", MillisecondsOrNone)]),
    read("credentials_validity", INT_MILLISECONDS, "2s", A_SECOND)
        .older(&[("credentials_validity_in_ms", Milliseconds)]),
    unused("permissions_cache_active_update", FLAG, "false", REFRESHED),
    read("permissions_cache_max_entries", INTEGER, "1000", TOGETHER),
    read("permissions_update_interval", INT_MILLISECONDS, "", TOGETHER)
        .older(&[("permissions_update_interval_in_ms", MillisecondsOrNone)]),
    read("permissions_validity", INT_MILLISECONDS, "2s", A_SECOND)
        .older(&[("permissions_validity_in_ms", Milliseconds)]),
    unused("roles_cache_active_update", FLAG, "false", REFRESHED),
    read("roles_cache_max_entries", INTEGER, "1000", TOGETHER),
    read("roles_update_interval", INT_MILLISECONDS, "", TOGETHER)
        .older(&[("roles_update_interval_in_ms", MillisecondsOrNone)]),
    read("roles_validity", INT_MILLISECONDS, "2s", A_SECOND).older(&[("roles_validity_in_ms", Milliseconds)]),
    read(
        "default_superuser_enabled",
        FLAG,
        "false",
        "makes the role cassandra with that password where not all addresses are loopback ones",
    )
    .own(),
    group("client_encryption_options", "{}"),
    read("client_encryption_options.enabled", FLAG, "", "").applied("false"),
    read("client_encryption_options.optional", FLAG, "", "without it, `true` as soon as the key store can be read")
        .applied("false"),
    read("client_encryption_options.accepted_protocols", LIST, "", "TLSv1.2 and TLSv1.3"),
    unused("client_encryption_options.algorithm", TEXT, "", "certificates are checked in one way"),
    read("client_encryption_options.cipher_suites", LIST, "", "those that `rustls` has; others are refused by name"),
    read("client_encryption_options.keystore", TEXT, "conf/.keystore", "must be given"),
    read("client_encryption_options.keystore_password", TEXT, "", "").nullable(),
    read("client_encryption_options.protocol", TEXT, "", ""),
    read("client_encryption_options.require_client_auth", FLAG, "false", ""),
    read("client_encryption_options.require_endpoint_verification", FLAG, "false", ""),
    read(
        "client_encryption_options.ssl_context_factory",
        CLASS,
        "org.apache.cassandra.security.DefaultSslContextFactory",
        "`DefaultSslContextFactory` or `PEMBasedSslContextFactory`",
    ),
    read(
        "client_encryption_options.store_type",
        TEXT,
        "JKS",
        "JKS or PKCS12; the file itself must be PKCS#12, as Java writes both today",
    ),
    read("client_encryption_options.truststore", TEXT, "conf/.truststore", "must be given"),
    read("client_encryption_options.truststore_password", TEXT, "", "").nullable(),
    group("server_encryption_options", "{}"),
    unused("server_encryption_options.enabled", FLAG, "", "as in Cassandra, `internode_encryption` says it")
        .applied("false"),
    read("server_encryption_options.internode_encryption", Kind::Choice(&["all", "none", "dc", "rack"]), "none", ""),
    read("server_encryption_options.legacy_ssl_storage_port_enabled", FLAG, "false", "")
        .older(&[("server_encryption_options.enable_legacy_ssl_storage_port", Same)]),
    read("server_encryption_options.optional", FLAG, "", "").applied("false"),
    read("server_encryption_options.outbound_keystore", TEXT, "", ""),
    read("server_encryption_options.outbound_keystore_password", TEXT, "", "").nullable(),
    read("server_encryption_options.accepted_protocols", LIST, "", "TLSv1.2 and TLSv1.3"),
    unused("server_encryption_options.algorithm", TEXT, "", "certificates are checked in one way"),
    read("server_encryption_options.cipher_suites", LIST, "", "those that `rustls` has; others are refused by name"),
    read("server_encryption_options.keystore", TEXT, "conf/.keystore", "must be given"),
    read("server_encryption_options.keystore_password", TEXT, "", "").nullable(),
    read("server_encryption_options.protocol", TEXT, "", ""),
    read("server_encryption_options.require_client_auth", FLAG, "false", ""),
    read("server_encryption_options.require_endpoint_verification", FLAG, "false", ""),
    read(
        "server_encryption_options.ssl_context_factory",
        CLASS,
        "org.apache.cassandra.security.DefaultSslContextFactory",
        "`DefaultSslContextFactory` or `PEMBasedSslContextFactory`",
    ),
    read(
        "server_encryption_options.store_type",
        TEXT,
        "JKS",
        "JKS or PKCS12; the file itself must be PKCS#12, as Java writes both today",
    ),
    read("server_encryption_options.truststore", TEXT, "conf/.truststore", "must be given"),
    read("server_encryption_options.truststore_password", TEXT, "", "").nullable(),
    group("transparent_data_encryption_options", "{}"),
    refused("transparent_data_encryption_options.enabled", FLAG, "false", "files are not encrypted"),
    unused(
        "transparent_data_encryption_options.chunk_length_kb",
        INTEGER,
        "64",
        "belongs to `transparent_data_encryption_options.enabled`",
    ),
    unused(
        "transparent_data_encryption_options.cipher",
        TEXT,
        "AES/CBC/PKCS5Padding",
        "belongs to `transparent_data_encryption_options.enabled`",
    ),
    unused(
        "transparent_data_encryption_options.iv_length",
        INTEGER,
        "16",
        "belongs to `transparent_data_encryption_options.enabled`",
    ),
    unused(
        "transparent_data_encryption_options.key_alias",
        TEXT,
        "",
        "belongs to `transparent_data_encryption_options.enabled`",
    ),
    unused(
        "transparent_data_encryption_options.key_provider",
        CLASS,
        "",
        "belongs to `transparent_data_encryption_options.enabled`",
    ),
    group("audit_logging_options", "{}"),
    read("audit_logging_options.enabled", FLAG, "false", ""),
    read("audit_logging_options.allow_nodetool_archive_command", FLAG, "false", ""),
    read("audit_logging_options.archive_command", TEXT, "''", ""),
    read("audit_logging_options.audit_logs_dir", TEXT, "audit", RELATIVE),
    read("audit_logging_options.block", FLAG, "true", ""),
    read("audit_logging_options.excluded_categories", TEXT, "''", ""),
    read("audit_logging_options.excluded_keyspaces", TEXT, "system,system_schema,system_virtual_schema", ""),
    read("audit_logging_options.excluded_users", TEXT, "''", ""),
    read("audit_logging_options.included_categories", TEXT, "''", ""),
    read("audit_logging_options.included_keyspaces", TEXT, "''", ""),
    read("audit_logging_options.included_users", TEXT, "''", ""),
    read("audit_logging_options.logger", CLASS, "BinAuditLogger", LOGGERS),
    read("audit_logging_options.max_archive_retries", INTEGER, "10", ""),
    read("audit_logging_options.max_log_size", LONG, "17179869184", PER_CORE),
    read("audit_logging_options.max_queue_weight", INTEGER, "268435456", PER_CORE),
    read("audit_logging_options.roll_cycle", TEXT, "HOURLY", "MINUTELY, HOURLY or DAILY"),
    group("full_query_logging_options", "{}"),
    read(
        "full_query_logging_options.log_dir",
        TEXT,
        "''",
        "the log is switched on by `nodetool enablefullquerylog`; a relative path is below the node's working directory",
    ),
    read("full_query_logging_options.allow_nodetool_archive_command", FLAG, "false", ""),
    read("full_query_logging_options.archive_command", TEXT, "''", ""),
    read("full_query_logging_options.block", FLAG, "true", ""),
    read("full_query_logging_options.max_archive_retries", INTEGER, "10", ""),
    read("full_query_logging_options.max_log_size", LONG, "17179869184", PER_CORE),
    read("full_query_logging_options.max_queue_weight", INTEGER, "268435456", PER_CORE),
    read("full_query_logging_options.roll_cycle", TEXT, "HOURLY", "MINUTELY, HOURLY or DAILY"),
    refused("diagnostic_events_enabled", FLAG, "false", "diagnostic events are not recorded"),
    refused("partition_denylist_enabled", FLAG, "false", "partitions cannot be denied"),
    unused("denylist_consistency_level", CONSISTENCY, "QUORUM", "belongs to `partition_denylist_enabled`"),
    unused("denylist_initial_load_retry", INT_SECONDS, "5s", "belongs to `partition_denylist_enabled`"),
    unused("denylist_max_keys_per_table", INTEGER, "1000", "belongs to `partition_denylist_enabled`"),
    unused("denylist_max_keys_total", INTEGER, "10000", "belongs to `partition_denylist_enabled`"),
    unused("denylist_range_reads_enabled", FLAG, "true", "belongs to `partition_denylist_enabled`"),
    unused("denylist_reads_enabled", FLAG, "true", "belongs to `partition_denylist_enabled`"),
    unused("denylist_refresh", INT_SECONDS, "600s", "belongs to `partition_denylist_enabled`"),
    unused("denylist_writes_enabled", FLAG, "true", "belongs to `partition_denylist_enabled`"),
];

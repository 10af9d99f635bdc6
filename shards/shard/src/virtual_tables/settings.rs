//! Names that rows of `system_views.settings` had in older versions of Cassandra; a client that reads one is told the
//! new name.

use model::{DecoratedKey, Table};

/// Old names, each with the name that replaced it.
pub const OLD_NAMES: [(&str, &str); 27] = [
    ("audit_logging_options_audit_logs_dir", "audit_logging_options.audit_logs_dir"),
    ("audit_logging_options_enabled", "audit_logging_options.enabled"),
    ("audit_logging_options_excluded_categories", "audit_logging_options.excluded_categories"),
    ("audit_logging_options_excluded_keyspaces", "audit_logging_options.excluded_keyspaces"),
    ("audit_logging_options_excluded_users", "audit_logging_options.excluded_users"),
    ("audit_logging_options_included_categories", "audit_logging_options.included_categories"),
    ("audit_logging_options_included_keyspaces", "audit_logging_options.included_keyspaces"),
    ("audit_logging_options_included_users", "audit_logging_options.included_users"),
    ("audit_logging_options_logger", "audit_logging_options.logger.class_name"),
    ("authenticator", "authenticator.class_name"),
    ("authorizer", "authorizer.class_name"),
    ("internode_authenticator", "internode_authenticator.class_name"),
    ("network_authorizer", "network_authorizer.class_name"),
    ("role_manager", "role_manager.class_name"),
    ("server_encryption_options_algorithm", "server_encryption_options.algorithm"),
    ("server_encryption_options_cipher_suites", "server_encryption_options.cipher_suites"),
    ("server_encryption_options_client_auth", "server_encryption_options.require_client_auth"),
    ("server_encryption_options_enabled", "server_encryption_options.enabled"),
    ("server_encryption_options_endpoint_verification", "server_encryption_options.require_endpoint_verification"),
    ("server_encryption_options_internode_encryption", "server_encryption_options.internode_encryption"),
    ("server_encryption_options_legacy_ssl_storage_port", "server_encryption_options.legacy_ssl_storage_port_enabled"),
    ("server_encryption_options_optional", "server_encryption_options.optional"),
    ("server_encryption_options_protocol", "server_encryption_options.accepted_protocols"),
    ("transparent_data_encryption_options_chunk_length_kb", "transparent_data_encryption_options.chunk_length_kb"),
    ("transparent_data_encryption_options_cipher", "transparent_data_encryption_options.cipher"),
    ("transparent_data_encryption_options_enabled", "transparent_data_encryption_options.enabled"),
    ("transparent_data_encryption_options_iv_length", "transparent_data_encryption_options.iv_length"),
];

/// Adds a warning for each old name among `keys`, if `table` is `system_views.settings`.
pub(crate) fn warn(table: &Table, keys: &[DecoratedKey], warnings: &mut Vec<String>) {
    if (table.keyspace.as_str(), table.name.as_str()) != ("system_views", "settings") {
        return;
    }
    for key in keys {
        if let Some((old, new)) = OLD_NAMES.iter().find(|(old, _)| old.as_bytes() == &*key.key) {
            warnings.push(format!("key '{old}' is deprecated; should switch to '{new}'"));
        }
    }
}

//! Who may do what: logging in, permissions of statements, and statements about roles.
//!
//! | file | what it does |
//! |---|---|
//! | `store` | statements of this program about the tables of `system_auth` |
//! | `load` | a role with all that it has, from those tables |
//! | `login` | names and passwords |
//! | `cidrs` | groups of addresses, and from which of them a role may log in |
//! | `check` | whether a session may run a statement |
//! | `statements` | statements about roles, permissions and identities: what they need, and what is checked |
//! | `roles`, `permissions`, `quotas` | what these change |
//! | `listing` | what they show |
//! | `ownership` | what whoever creates something may do with it, and what is forgotten when it is dropped |
//!
//! Invariants: without a login nothing is allowed where clients must log in; what cannot be read counts as not granted
//! and fails the request; passwords and hashes reach no text.

pub(crate) mod check;
pub(crate) mod cidrs;
mod listing;
mod load;
pub(crate) mod login;
pub(crate) mod ownership;
mod permissions;
mod quotas;
mod roles;
pub(crate) mod statements;
mod store;

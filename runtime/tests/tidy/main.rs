//! Lint of the workspace as a test.
//!
//! * [`crate_arrows`]: which crate may depend on which.
//! * [`module_arrows`]: import cycles among the modules of a crate, and the layers of the crates that have none.
//! * [`documents`]: paths that documents name exist.
//! * [`files`]: heads and sizes of files, where `unsafe` and ambient state may stand, unfinished code.
//! * [`ignored`]: tests that need what cargo does not bring are ignored and have a recipe; none passes by returning
//!   early.
//! * [`comments`]: width of comments, and that they cite nothing outside the repository.
//!
//! The table of crates with their allowed arrows is in [`workspace`].
#![allow(clippy::disallowed_methods, reason = "a lint reads source files")]
#![allow(clippy::print_stdout, reason = "a failing lint explains itself")]

mod comments;
mod crate_arrows;
mod documents;
mod files;
mod ignored;
mod module_arrows;
mod module_graph;
mod tokens;
mod workspace;

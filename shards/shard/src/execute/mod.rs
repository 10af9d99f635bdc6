//! Finding the plan of a request and dispatching it.

pub(crate) mod define;
pub(crate) mod describe;

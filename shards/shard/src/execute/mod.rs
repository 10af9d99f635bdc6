//! Finding the plan of a request and dispatching it.

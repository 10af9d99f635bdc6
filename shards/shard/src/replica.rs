//! Serving requests of other cores on this one.

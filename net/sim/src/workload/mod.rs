//! What clients and an operator do to a node at random, and how they report it to the judges.

pub mod client;
pub mod counters;
mod indexes;
pub mod operator;
mod reads;
pub mod registers;
pub mod tables;
mod writes;

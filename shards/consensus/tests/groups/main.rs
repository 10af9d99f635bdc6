//! Groups of members in the simulator: agreement under crashes at every write, lost, repeated and delayed messages,
//! cuts, changes of members, and recovery.

mod basic;
mod chaos;
mod crashes;
mod members;
mod scale;
mod world;

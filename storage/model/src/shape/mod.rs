//! Shaping: makes the rows of a read out of fragments, whether they come from storage or from other replicas.
//!
//! 1. [`live`] tells which cells of a row are live.
//! 2. [`progress`] keeps a read's limits: in all, per partition, in work. It gives live rows to the sink, which selects
//!    columns and filters.
//! 3. [`tap`] passes on the fragments that a read visits, for reads that answer with a digest or with fragments.
//! 4. [`reconcile`] merges what several replicas answered and shapes that, so that a coordinator gives the rows that
//!    one replica with everything would give; [`lacking`] says what each of them lacks.
//!
//! Not here: choosing and merging what one shard has stored (the engine's `read`), and how a row is encoded (the sink).

pub mod lacking;
pub mod live;
pub mod progress;
pub mod reconcile;
pub mod tap;

//! Group commit: durable records in recycled, pre-written segments.

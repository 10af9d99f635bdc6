//! Names of the classes of operations, as metrics and nodetool show them.

use shard::metrics::Operation;

/// The name of a class of operations among all, for instance `read` or `local_read`.
pub(crate) fn full_name(operation: Operation) -> String {
    match (coordinator_name(operation), local_name(operation)) {
        (Some(name), _) => name.to_owned(),
        (None, name) => format!("local_{}", name.unwrap_or_default()),
    }
}

/// The name of a class of operations that a coordinator measures; `None` for the others.
pub(crate) fn coordinator_name(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::Read => "read",
        Operation::Range => "range",
        Operation::Write => "write",
        Operation::CounterWrite => "counter_write",
        Operation::CasRead => "cas_read",
        Operation::CasWrite => "cas_write",
        Operation::LocalRead | Operation::LocalRange | Operation::LocalWrite => return None,
    })
}

/// The name of a class of operations in a shard's own store; `None` for the others.
pub(crate) fn local_name(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::LocalRead => "read",
        Operation::LocalRange => "range",
        Operation::LocalWrite => "write",
        _ => return None,
    })
}

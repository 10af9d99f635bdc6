//! The schema that a shard serves, and the tasks that wait for a change of it.

use model::Schema;
use std::cell::{Ref, RefCell};
use std::sync::Arc;
use std::task::{Poll, Waker};

/// See the module.
pub(crate) struct SchemaRegistry {
    schema: RefCell<Arc<Schema>>,
    waiters: RefCell<Vec<Waker>>,
}

impl SchemaRegistry {
    pub(crate) fn new(schema: Arc<Schema>) -> SchemaRegistry {
        SchemaRegistry { schema: RefCell::new(schema), waiters: RefCell::default() }
    }

    pub(crate) fn current(&self) -> Arc<Schema> {
        self.schema.borrow().clone()
    }

    pub(crate) fn borrow(&self) -> Ref<'_, Arc<Schema>> {
        self.schema.borrow()
    }

    /// Puts `schema` in the place of the current one and wakes whoever waits for a change.
    pub(crate) fn replace(&self, schema: Arc<Schema>) {
        *self.schema.borrow_mut() = schema;
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        waiters.into_iter().for_each(Waker::wake);
    }

    /// Waits until `pick` finds something in the schema.
    pub(crate) async fn wait_for<T>(&self, pick: impl Fn(&Schema) -> Option<T>) -> T {
        std::future::poll_fn(|cx| match pick(&self.schema.borrow()) {
            Some(found) => Poll::Ready(found),
            None => {
                self.waiters.borrow_mut().push(cx.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

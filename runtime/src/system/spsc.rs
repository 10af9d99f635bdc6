//! A bounded queue with a single producer and a single consumer.
//!
//! The producer keeps its tail to itself and the consumer its head until they publish them, and both remember the
//! other's index as last seen, so that messages touch no shared index until a batch is over.
//!
//! Invariants: published head <= head <= published tail <= tail <= published head + capacity (indices wrap); slots from
//! head to tail hold messages; one thread at a time calls the producer's functions, one the consumer's.

use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A value on cache lines of its own: two, because processors fetch them in pairs.
#[repr(align(128))]
#[derive(Default)]
struct CachePadded<T>(T);

pub(super) struct Queue<M> {
    head: CachePadded<AtomicUsize>,
    tail: CachePadded<AtomicUsize>,
    /// Whether the producer waits for space.
    pub(super) waiting: AtomicBool,
    slots: Box<[UnsafeCell<MaybeUninit<M>>]>,
}

#[expect(unsafe_code, reason = "a queue between two threads")]
// SAFETY: messages move from one thread to another, and slots are handed over by the release and acquire of an index.
unsafe impl<M: Send> Sync for Queue<M> {}
#[expect(unsafe_code, reason = "a queue between two threads")]
// SAFETY: it owns its messages.
unsafe impl<M: Send> Send for Queue<M> {}

impl<M> Queue<M> {
    /// Creates a queue for `capacity` messages, rounded up to a power of two.
    pub(super) fn new(capacity: usize) -> Queue<M> {
        let capacity = capacity.max(1).next_power_of_two();
        let slots = (0..capacity).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        Queue { head: CachePadded::default(), tail: CachePadded::default(), waiting: AtomicBool::new(false), slots }
    }

    pub(super) fn capacity(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn published_head(&self) -> usize {
        self.head.0.load(Ordering::Acquire)
    }

    pub(super) fn published_tail(&self) -> usize {
        self.tail.0.load(Ordering::Acquire)
    }

    pub(super) fn publish_head(&self, head: usize) {
        self.head.0.store(head, Ordering::Release);
    }

    pub(super) fn publish_tail(&self, tail: usize) {
        self.tail.0.store(tail, Ordering::Release);
    }

    fn slot(&self, index: usize) -> *mut MaybeUninit<M> {
        self.slots[index & (self.slots.len() - 1)].get()
    }

    /// Puts a message into the slot of `index`.
    ///
    /// # Safety
    /// The caller is the producer, `index` is its tail, and the published head is less than a capacity behind it.
    #[expect(unsafe_code, reason = "a slot is uninitialised memory")]
    pub(super) unsafe fn put(&self, index: usize, message: M) {
        // SAFETY: the slot is free, and the consumer does not look at it until the tail is published.
        unsafe { (*self.slot(index)).write(message) };
    }

    /// Takes the message out of the slot of `index`.
    ///
    /// # Safety
    /// The caller is the consumer, `index` is its head, and the published tail is beyond it.
    #[expect(unsafe_code, reason = "a slot is uninitialised memory")]
    pub(super) unsafe fn take(&self, index: usize) -> M {
        // SAFETY: the producer filled the slot before it published the tail, and leaves it alone until the head is
        // published.
        unsafe { (*self.slot(index)).assume_init_read() }
    }
}

impl<M> Drop for Queue<M> {
    #[expect(unsafe_code, reason = "a slot is uninitialised memory")]
    fn drop(&mut self) {
        let (mut head, tail) = (*self.head.0.get_mut(), *self.tail.0.get_mut());
        while head != tail {
            // SAFETY: both ends published their indices when they went, so the slots between them hold messages.
            drop(unsafe { self.take(head) });
            head = head.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn capacity_is_a_power_of_two() {
        let capacities: Vec<usize> = [1, 2, 3, 8, 9].map(|n| Queue::<u8>::new(n).capacity()).into();
        assert_eq!(capacities, [1, 2, 4, 8, 16]);
    }

    #[test]
    #[expect(unsafe_code, reason = "the test is producer and consumer")]
    fn what_is_not_taken_is_dropped_once() {
        let counted = Arc::new(());
        // Indices that wrap around are as good as others.
        let start = usize::MAX - 2;
        let queue = Queue::new(8);
        queue.publish_head(start);
        queue.publish_tail(start);
        for i in 0..6 {
            // SAFETY: one thread, and six messages fit.
            unsafe { queue.put(start.wrapping_add(i), counted.clone()) };
        }
        queue.publish_tail(start.wrapping_add(6));
        // SAFETY: one thread, and six messages are there.
        drop(unsafe { (queue.take(start), queue.take(start.wrapping_add(1))) });
        queue.publish_head(start.wrapping_add(2));
        assert_eq!(Arc::strong_count(&counted), 5);
        drop(queue);
        assert_eq!(Arc::strong_count(&counted), 1);
    }

    #[test]
    #[expect(unsafe_code, reason = "the test is producer and consumer")]
    fn two_threads_pass_messages_in_order() {
        const MESSAGES: usize = 20_000;
        let queue = Arc::new(Queue::new(16));
        let producer = queue.clone();
        let thread = std::thread::spawn(move || {
            for i in 0..MESSAGES {
                while i - producer.published_head() >= producer.capacity() {
                    std::thread::yield_now();
                }
                // SAFETY: the only producer, and there is space.
                unsafe { producer.put(i, Box::new(i)) };
                producer.publish_tail(i + 1);
            }
        });
        for i in 0..MESSAGES {
            while queue.published_tail() == i {
                std::thread::yield_now();
            }
            // SAFETY: the only consumer, and there is a message.
            assert_eq!(*unsafe { queue.take(i) }, i);
            queue.publish_head(i + 1);
        }
        thread.join().unwrap();
    }
}

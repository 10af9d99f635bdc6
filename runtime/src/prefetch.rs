//! Prefetching memory into the CPU's caches.

/// Bytes of a cache line.
#[cfg(target_arch = "x86_64")]
const LINE_BYTES: usize = 64;

/// Begins to bring `items` into the caches, while the caller does something else. A hint: nothing but time depends on
/// it. Where memory is not near, a look-up that knows two places early waits once instead of twice.
#[inline]
pub fn prefetch<T>(items: &[T]) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = items.as_ptr().cast::<i8>();
        let bytes = size_of_val(items);
        let mut at = 0;
        while at < bytes {
            #[expect(unsafe_code, reason = "a hint that the safe interface does not have")]
            // SAFETY: the address lies in `items`; a prefetch reads nothing that a program sees.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.add(at));
            }
            at += LINE_BYTES;
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = items;
}

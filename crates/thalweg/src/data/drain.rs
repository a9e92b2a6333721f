//! Moving records out of a batch.
//!
//! An iterator over a vector returns each record as an option, which is written to memory before it is looked at, and
//! read again with wider loads than it was written with: on current processors such a load waits until the writes have
//! reached the cache. Here each record is moved once, from the vector to where it is used.
#![allow(unsafe_code)] // Moves records out of a vector one by one.

/// Passes every record to `each`, in order, and leaves the vector empty with its capacity kept. If `each` panics, the
/// rest is dropped.
#[inline(always)]
pub(super) fn drain_each<T>(items: &mut Vec<T>, mut each: impl FnMut(T)) {
    let len = items.len();
    // SAFETY: none of the records belongs to the vector from here on. Those that `each` does not get are dropped by `Rest`.
    unsafe { items.set_len(0) };
    let mut rest = Rest { items, next: 0, len };
    while rest.next < rest.len {
        // SAFETY: the record is initialised, since `next < len`, and is not read again, since `next` moves past it.
        let item = unsafe { rest.items.as_ptr().add(rest.next).read() };
        rest.next += 1;
        each(item);
    }
}

/// The records from `next` to `len` of a vector whose length is 0.
struct Rest<'a, T> {
    items: &'a mut Vec<T>,
    next: usize,
    len: usize,
}

impl<T> Drop for Rest<'_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.next < self.len {
            // SAFETY: these records are initialised, and nothing else owns them.
            unsafe {
                let first = self.items.as_mut_ptr().add(self.next);
                std::ptr::slice_from_raw_parts_mut(first, self.len - self.next).drop_in_place();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::rc::Rc;

    #[test]
    fn records_are_moved_out_in_order_and_the_capacity_stays() {
        let mut items: Vec<_> = (0..10).map(|n| n.to_string()).collect();
        let (capacity, mut seen) = (items.capacity(), Vec::new());
        drain_each(&mut items, |item| seen.push(item));
        assert_eq!(seen, (0..10).map(|n| n.to_string()).collect::<Vec<_>>());
        assert!(items.is_empty() && items.capacity() == capacity);
        drain_each(&mut items, |_| unreachable!());
        drain_each(&mut vec![(); 3], |()| seen.push("unit".to_owned()));
        assert_eq!(seen.len(), 13);
    }

    #[test]
    fn every_record_is_dropped_once_when_a_closure_panics() {
        let held = Rc::new(());
        let mut items = vec![Rc::clone(&held); 5];
        let mut left = 3;
        let drained = catch_unwind(AssertUnwindSafe(|| {
            drain_each(&mut items, |_item| {
                left -= 1;
                assert!(left > 0, "enough");
            });
        }));
        assert!(drained.is_err() && items.is_empty());
        assert_eq!(Rc::strong_count(&held), 1);
    }
}

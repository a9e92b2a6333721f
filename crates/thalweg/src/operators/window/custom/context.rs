//! The interface through which a handler controls the windows of a key.

use crate::time::Timestamp;

/// A request, executed in order after the handler has returned.
pub(super) enum Order<B> {
    Add(B),
    AddUntil(B, Timestamp),
    Fire(B),
    FireAll,
    Discard(B),
    DiscardAll,
    Merge(B, B),
    SetTimer(Timestamp),
    Forget,
}

/// Controls the windows and timers of a key; for [`MakeWindows`](super::MakeWindows).
///
/// All calls take effect when the handler returns, in the order in which they were made. A call for a window
/// that is not open has no effect, unless it opens it.
pub struct WindowContext<'a, B> {
    pub(super) orders: &'a mut Vec<Order<B>>,
    pub(super) late: bool,
    pub(super) watermark: Option<Timestamp>,
    pub(super) ended: bool,
}

impl<B> WindowContext<'_, B> {
    /// Adds the value to this window, which is opened if it is not open. A value may be added to several
    /// windows.
    ///
    /// Has no effect without a value, in [`on_timer`](super::MakeWindows::on_timer) and
    /// [`on_end`](super::MakeWindows::on_end).
    pub fn add(&mut self, window: B) {
        self.orders.push(Order::Add(window));
    }

    /// Like [`add`](Self::add), for a window with an end: it fires by itself when the watermark has reached
    /// `end`, the first timestamp after the window. The last end passed for a window counts.
    ///
    /// If the watermark has reached the end already, the value is late for this window. It is not added, and is
    /// [counted as late](crate::metrics::Stats::late_dropped) if it is added to no other window. An end at
    /// [`Timestamp::MAX`] is reached at the end of the input.
    pub fn add_until(&mut self, window: B, end: Timestamp) {
        if self.watermark.is_some_and(|watermark| end <= watermark) {
            self.late = true;
        } else {
            self.orders.push(Order::AddUntil(window, end));
        }
    }

    /// Emits the result of the window and closes it. A value that is added later opens another window with the
    /// same bounds.
    pub fn fire(&mut self, window: B) {
        self.orders.push(Order::Fire(window));
    }

    /// Emits the results of all windows of the key, in the order of their bounds, and closes them.
    pub fn fire_all(&mut self) {
        self.orders.push(Order::FireAll);
    }

    /// Closes the window without a result.
    pub fn discard(&mut self, window: B) {
        self.orders.push(Order::Discard(window));
    }

    /// Closes all windows of the key without results.
    pub fn discard_all(&mut self) {
        self.orders.push(Order::DiscardAll);
    }

    /// Merges the first window into the second and closes the first. This also serves to change the bounds of a
    /// window. The second keeps its end, or takes that of the first if it was not open.
    ///
    /// If both windows contain values, the aggregate must [combine](crate::operators::aggregates::Combine). A
    /// `fold`, a `reduce` or a `to_vec` cannot merge two states, and the job fails.
    pub fn merge(&mut self, from: B, into: B) {
        self.orders.push(Order::Merge(from, into));
    }

    /// Sets a timer: [`on_timer`](super::MakeWindows::on_timer) is called for this key when the watermark has
    /// reached this time, or at the end of the input; in a stream without timestamps, at the end. No effect if
    /// the same timer is set already.
    pub fn set_timer(&mut self, at: Timestamp) {
        self.orders.push(Order::SetTimer(at));
    }

    /// Marks the value as late, and in no window for that reason. It is
    /// [counted](crate::metrics::Stats::late_dropped).
    pub fn drop_late(&mut self) {
        self.late = true;
    }

    /// Drops the key's state once it has no windows and timers left; its next value starts with a new state.
    /// Request it in the call after which that holds; a later value cancels the request.
    pub fn forget(&mut self) {
        self.orders.push(Order::Forget);
    }

    /// The watermark: a record with an earlier timestamp is late. `None` before the first watermark, and in a
    /// stream without timestamps.
    pub fn watermark(&self) -> Option<Timestamp> {
        self.watermark
    }

    /// Whether the input has ended, so that timers fire early.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

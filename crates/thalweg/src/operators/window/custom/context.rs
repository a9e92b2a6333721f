//! What a maker of windows can say.

use crate::time::Timestamp;

/// What is to be done, in the order in which it was said.
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

/// What a maker of windows can say of the values, windows and timers of a key; for
/// [`MakeWindows`](super::MakeWindows).
///
/// All of it takes effect when the handler returns, in the order in which it was said. What names a window
/// that is not open does nothing, unless it opens it.
pub struct WindowContext<'a, B> {
    pub(super) orders: &'a mut Vec<Order<B>>,
    pub(super) late: bool,
    pub(super) watermark: Option<Timestamp>,
    pub(super) ended: bool,
}

impl<B> WindowContext<'_, B> {
    /// The value goes into this window, which is opened if it is not open. A value may go into several.
    ///
    /// Without a value, in [`on_timer`](super::MakeWindows::on_timer) and
    /// [`on_end`](super::MakeWindows::on_end), nothing happens.
    pub fn add(&mut self, window: B) {
        self.orders.push(Order::Add(window));
    }

    /// As [`add`](Self::add), for a window that ends: it fires by itself when the watermark has reached the
    /// end, its first moment that does not belong to it. The last end that was said of a window counts.
    ///
    /// Where the watermark has reached it already, the value is late for this window: it does not go into it,
    /// and is [counted as late](crate::metrics::Stats::late_dropped) if it goes into no other. An end at
    /// [`Timestamp::MAX`] is reached at the end of the input.
    pub fn add_until(&mut self, window: B, end: Timestamp) {
        if self.watermark.is_some_and(|watermark| end <= watermark) {
            self.late = true;
        } else {
            self.orders.push(Order::AddUntil(window, end));
        }
    }

    /// The window is complete: its result is given, and it is open no more. A value that is added later opens
    /// another one of the same bounds.
    pub fn fire(&mut self, window: B) {
        self.orders.push(Order::Fire(window));
    }

    /// All windows of the key are complete. Their results come in the order of their bounds.
    pub fn fire_all(&mut self) {
        self.orders.push(Order::FireAll);
    }

    /// The window is given up, without a result.
    pub fn discard(&mut self, window: B) {
        self.orders.push(Order::Discard(window));
    }

    /// All windows of the key are given up.
    pub fn discard_all(&mut self) {
        self.orders.push(Order::DiscardAll);
    }

    /// What is in the first window goes into the second, and the first is open no more. So a window gets other
    /// bounds, too. The second keeps its end, or has that of the first if it was not open.
    ///
    /// Where both windows hold values, the aggregate must
    /// [combine](crate::operators::aggregates::Combine): a `fold`, a `reduce` or a `to_vec` cannot put two of its
    /// states together, and stops the job.
    pub fn merge(&mut self, from: B, into: B) {
        self.orders.push(Order::Merge(from, into));
    }

    /// [`on_timer`](super::MakeWindows::on_timer) is called for this key when the watermark has reached this
    /// time, or at the end of the input; in a stream without timestamps, at the end. Nothing happens where
    /// the same is set already.
    pub fn set_timer(&mut self, at: Timestamp) {
        self.orders.push(Order::SetTimer(at));
    }

    /// The value is late, and in no window for that reason: it is
    /// [counted](crate::metrics::Stats::late_dropped).
    pub fn drop_late(&mut self) {
        self.late = true;
    }

    /// Once no windows and timers are left, the key need not be remembered: its next value finds a new
    /// state. To be said in the call after which that holds; a later value takes it back.
    pub fn forget(&mut self) {
        self.orders.push(Order::Forget);
    }

    /// No record is to come before this; one that does is late. `None` as long as nothing is known, and in a
    /// stream without timestamps.
    pub fn watermark(&self) -> Option<Timestamp> {
        self.watermark
    }

    /// Whether the input has ended, so that timers come before their time.
    pub fn is_ended(&self) -> bool {
        self.ended
    }
}

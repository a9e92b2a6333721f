//! What a job is drawn from.

pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        thalweg::data::splitmix64(&mut self.0)
    }

    /// A number below the bound; 0 where that is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// One time in so many.
    pub(crate) fn chance(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

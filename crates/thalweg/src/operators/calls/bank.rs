//! How the permits of an operator are shared out among hosts: a function from requests to orders.
//!
//! The first host lends permits to each host, itself included, a portion at a time. A host keeps what it does not need,
//! until an order says that others wait; from then on it returns what is idle. A host that has a fair share and waits for
//! more gets nothing but what is idle. One that has less gets a permit from the host that has most: that host returns the
//! next one that is free, even if its own tasks wait. So the tasks of each host get on, however few permits there are.

use std::collections::VecDeque;

/// The permits of an operator on all hosts, as the first of them sees them. Hosts are numbered from 0.
pub(super) struct Bank {
    /// The most permits that are lent at a time.
    portion: usize,
    /// The permits that are lent to no host.
    free: usize,
    accounts: Vec<Account>,
    /// The hosts that wait for permits, each once.
    waiting: VecDeque<usize>,
}

/// What the first host knows of another, or of itself.
#[derive(Clone, Default)]
struct Account {
    lent: usize,
    /// Of these, those that it must return as soon as they are free, even if its own tasks wait.
    recalled: usize,
    /// Whether it was ordered to return idle permits.
    returns_idle: bool,
}

/// What the first host orders a host to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// It may use this many more. The flag says whether to return those that are idle.
    Lend(usize, bool),
    /// It should return those that are idle, and this many as soon as they are free.
    Return(usize),
}

impl Account {
    /// The permits that it may keep.
    fn keeps(&self) -> usize {
        self.lent - self.recalled
    }
}

impl Bank {
    pub(super) fn new(permits: usize, hosts: usize) -> Self {
        Self {
            portion: (permits / (4 * hosts.max(1))).max(1),
            free: permits,
            accounts: vec![Account::default(); hosts],
            waiting: VecDeque::new(),
        }
    }

    /// A host requests permits. Returns orders, each with its host.
    pub(super) fn ask(&mut self, host: usize) -> Vec<(usize, Order)> {
        if !self.waiting.contains(&host) {
            self.waiting.push_back(host);
        }
        self.settle()
    }

    /// A host returns permits. Returns orders, or `None` if the host was not lent that many.
    pub(super) fn take_back(&mut self, host: usize, permits: usize) -> Option<Vec<(usize, Order)>> {
        let account = self.accounts.get_mut(host)?;
        account.lent = account.lent.checked_sub(permits)?;
        account.recalled = account.recalled.saturating_sub(permits);
        self.free += permits;
        Some(self.settle())
    }

    /// Lends what is free, and recalls what is missing.
    fn settle(&mut self) -> Vec<(usize, Order)> {
        let mut orders = Vec::new();
        while self.free > 0
            && let Some(host) = self.waiting.pop_front()
        {
            let permits = (self.free / (1 + self.waiting.len())).clamp(1, self.portion);
            let others_wait = !self.waiting.is_empty();
            let account = &mut self.accounts[host];
            self.free -= permits;
            account.lent += permits;
            account.returns_idle = others_wait;
            orders.push((host, Order::Lend(permits, others_wait)));
        }
        if self.waiting.is_empty() {
            return orders;
        }
        let mut recalls = vec![0; self.accounts.len()];
        // The hosts that have waited longest get what was recalled before.
        let coming = self.accounts.iter().map(|account| account.recalled).sum();
        for &host in self.waiting.iter().skip(coming) {
            let own = self.accounts[host].keeps();
            let others = (0..self.accounts.len()).filter(|other| *other != host);
            let Some(richest) = others.max_by_key(|other| self.accounts[*other].keeps()) else {
                continue;
            };
            let fair = if own == 0 { 0 } else { own + 1 };
            if self.accounts[richest].keeps() > fair {
                self.accounts[richest].recalled += 1;
                recalls[richest] += 1;
            }
        }
        for (host, (account, recalls)) in self.accounts.iter_mut().zip(recalls).enumerate() {
            if recalls > 0 || (account.lent > 0 && !account.returns_idle) {
                account.returns_idle = true;
                orders.push((host, Order::Return(recalls)));
            }
        }
        orders
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_lent_in_portions_and_idle_ones_recalled() {
        let mut bank = Bank::new(16, 2);
        assert_eq!(bank.ask(0), [(0, Order::Lend(2, false))]);
        for _ in 0..7 {
            assert_eq!(bank.ask(1), [(1, Order::Lend(2, false))]);
        }
        // Host 0 has far less than the other.
        assert_eq!(bank.ask(0), [(0, Order::Return(0)), (1, Order::Return(1))]);
        assert_eq!(bank.take_back(1, 1).unwrap(), [(0, Order::Lend(1, false))]);
        assert_eq!(bank.take_back(1, 14), None);
    }

    #[test]
    fn the_only_permit_goes_round() {
        let mut bank = Bank::new(1, 3);
        assert_eq!(bank.ask(0), [(0, Order::Lend(1, false))]);
        assert_eq!(bank.ask(1), [(0, Order::Return(1))]);
        assert_eq!(bank.ask(2), []);
        assert_eq!(
            bank.take_back(0, 1).unwrap(),
            [(1, Order::Lend(1, true)), (1, Order::Return(1))]
        );
        assert_eq!(bank.ask(0), []);
        assert_eq!(
            bank.take_back(1, 1).unwrap(),
            [(2, Order::Lend(1, true)), (2, Order::Return(1))]
        );
    }
}

//! A job that drains works through all that it has accepted.

use crate::in_time;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thalweg::check::{every, every_on_one_host};

#[test]
fn records_accepted_by_a_channel_are_processed() {
    in_time(|| {
        // Another thread sends while the job runs, and closures count.
        every_on_one_host(|env| {
            for capacity in [1, 50, 5000] {
                let (sender, numbers) = env.channel::<u64>(capacity);
                let (count, sum) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
                let (counted, summed) = (Arc::clone(&count), Arc::clone(&sum));
                // Slow enough for the channel to be full now and then.
                numbers
                    .map(|n| (0..100).fold(n, |n, _| std::hint::black_box(n)))
                    .shuffle()
                    .for_each(move |n| {
                        counted.fetch_add(1, Ordering::Relaxed);
                        summed.fetch_add(n, Ordering::Relaxed);
                    });
                let job = env.start()?;
                let many = sender.clone();
                // Sends until it is refused, so that the draining comes between two records or into one.
                let accepted = std::thread::spawn(move || {
                    let accepted = (1..).take_while(|&n| many.send(n).is_ok()).count() as u64;
                    assert!(many.is_closed());
                    accepted
                });
                std::thread::sleep(Duration::from_millis(3));
                job.drain();
                job.wait()?;
                let accepted = accepted.join().unwrap();
                assert_eq!(count.load(Ordering::Relaxed), accepted, "capacity {capacity}");
                assert_eq!(sum.load(Ordering::Relaxed), accepted * (accepted + 1) / 2);
                assert!(sender.send(1).is_err() && sender.try_send(1).is_err());
            }
            Ok(())
        });
    });
}

#[test]
fn records_sent_before_the_start_are_processed() {
    in_time(|| {
        every(|env| {
            let (sender, numbers) = env.channel::<u64>(100);
            (0..100).for_each(|n| sender.send(n).unwrap());
            let numbers = numbers.shuffle().to_channel();
            let reader = std::thread::spawn(move || numbers.map(Result::unwrap).sum::<u64>());
            let job = env.start()?;
            job.drain();
            job.wait()?;
            assert_eq!(reader.join().unwrap(), 99 * 100 / 2);
            Ok(())
        });
    });
}

#[test]
fn a_sender_that_waits_for_a_slow_job_is_refused() {
    in_time(|| {
        // Senders of hosts without the source never wait.
        every_on_one_host(|env| {
            let (sender, numbers) = env.channel::<u64>(1);
            // There is no reader, so the job stands still and the channel stays full.
            let unread = numbers.map(|n| [n; 4096]).to_channel();
            let job = env.start()?;
            let sent =
                std::thread::spawn(move || (0..).take_while(|&n| sender.send(n).is_ok()).count());
            std::thread::sleep(Duration::from_millis(3));
            job.drain();
            let reader = std::thread::spawn(move || unread.map(Result::unwrap).count());
            job.wait()?;
            assert_eq!(reader.join().unwrap(), sent.join().unwrap());
            Ok(())
        });
    });
}

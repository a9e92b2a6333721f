//! The processes of a launch, until all have ended.
//!
//! One thread decides, which gets events from others: a thread a process that waits for its end, a thread a process that
//! copies its standard error, and one for signals. A process that has ended is not reaped before the deciding thread
//! knows, so that no signal can reach another process that was given its number.

use crate::lines::{pass_on, say};
use anyhow::{Context as _, Result};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the others have to end by themselves when a process has failed: they learn that from their connections, and
/// their messages say more than the launcher could.
const GRACE: Duration = Duration::from_secs(5);
/// How long they have to end when they were asked to.
const ASKED: Duration = Duration::from_secs(5);
/// How long the output of processes that have ended is waited for: what they have started may still have it open.
const REST: Duration = Duration::from_secs(1);
/// How often the launcher looks for signals while it runs no processes.
const LOOK: Duration = Duration::from_millis(50);
/// The exit status of a process that a signal has ended is this and the number of the signal.
const BY_SIGNAL: u8 = 128;
/// Signals that are passed on; the next one kills.
const PASSED_ON: usize = 2;

/// How signals reach a process.
pub(crate) enum Control {
    /// It leads a process group on this machine.
    Group,
    /// It reads names of signals, one a line, and ends when there are no more: [`script::run`](crate::script::run).
    Lines(ChildStdin),
}

/// A process that was started.
pub(crate) struct Started {
    id: usize,
    /// Its name in messages.
    name: String,
    child: Child,
    control: Control,
    status: Option<ExitStatus>,
}

impl Started {
    pub(crate) fn new(id: usize, name: String, child: Child, control: Control) -> Self {
        Self { id, name, child, control, status: None }
    }

    fn is_running(&self) -> bool {
        self.status.is_none()
    }

    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.child.id().try_into().ok()?)
    }

    /// Sends a signal. A process that can no longer be reached has ended, or ends because of that.
    fn signal(&mut self, signal: Signal) {
        if !self.is_running() {
            return;
        }
        match &mut self.control {
            Control::Group => _ = self.pid().map(|pid| kill_process_group(pid, signal)),
            Control::Lines(input) => {
                let name = match signal {
                    Signal::INT => "INT",
                    Signal::KILL => "KILL",
                    _ => "TERM",
                };
                let _ =
                    input.write_all(format!("{name}\n").as_bytes()).and_then(|()| input.flush());
            }
        }
    }

    /// Ends a process at once.
    pub(crate) fn kill(&mut self) {
        self.signal(Signal::KILL);
    }

    /// Ends what connects this machine with a process of another one, which ends because of that.
    fn cut(&mut self) {
        if self.is_running() {
            let _ = self.pid().map(|pid| kill_process_group(pid, Signal::KILL));
        }
    }
}

enum Event {
    /// The process at this place has ended.
    Ended(usize),
    /// All lines of one more process were copied.
    Copied,
    Signal(i32),
}

/// What is done when the time is over.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Next {
    Ask,
    Kill,
    Cut,
}

/// The last signal that this command has got from now on, 0 if none: also while it starts processes.
pub(crate) fn last_signal() -> Result<Arc<AtomicUsize>> {
    let last = Arc::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let number = usize::try_from(signal).context("a signal has no number")?;
        signal_hook::flag::register_usize(signal, Arc::clone(&last), number)
            .context("cannot receive signals")?;
    }
    Ok(last)
}

/// The status of a command that a signal has ended, whose processes have ended with `status`; `None` if there was none.
pub(crate) fn by_signal(last: &AtomicUsize, status: u8) -> Option<u8> {
    let signal = u8::try_from(last.load(Ordering::SeqCst)).ok().filter(|signal| *signal > 0)?;
    // Only the process that got the signal knows by which the job was cancelled; one that was drained has ended well.
    Some(if (1..=BY_SIGNAL).contains(&status) { BY_SIGNAL.saturating_add(signal) } else { status })
}

/// Waits for so long, or until a signal comes.
pub(crate) fn pause(time: Duration, last_signal: &AtomicUsize) {
    let end = Instant::now() + time;
    while last_signal.load(Ordering::SeqCst) == 0 && Instant::now() < end {
        thread::sleep(LOOK.min(time));
    }
}

/// Waits for the end of all processes; returns the exit status of the first that has failed, or 0. If a signal came before,
/// while they were started, they are killed.
pub(crate) fn supervise(mut all: Vec<Started>, last_signal: &AtomicUsize) -> Result<u8> {
    let (sender, events) = channel();
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot receive signals");
    let signals = signals.inspect_err(|_| all.iter_mut().for_each(Started::kill))?;
    // Only now, so that there is an event of each signal that is not seen here.
    let before = last_signal.load(Ordering::SeqCst) != 0;
    let handle = signals.handle();
    let signals = match watch(&mut all, &sender, signals) {
        Ok(()) => handle,
        Err(error) => {
            all.iter_mut().for_each(Started::kill);
            return Err(error);
        }
    };
    if before {
        all.iter_mut().for_each(Started::kill);
    }
    let status = decide(&mut all, &events);
    signals.close();
    status
}

/// Starts the threads that send events.
fn watch(all: &mut [Started], events: &Sender<Event>, mut signals: Signals) -> Result<()> {
    let spawn = |name: String, run: Box<dyn FnOnce() + Send>| {
        thread::Builder::new().name(name).spawn(run).context("cannot start a thread")
    };
    for (at, started) in all.iter_mut().enumerate() {
        let pid = started.pid().context("a process has no number")?;
        let ended = events.clone();
        let wait = move || {
            // Not reaped here.
            let until_ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while matches!(waitid(WaitId::Pid(pid), until_ended), Err(Errno::INTR)) {}
            let _ = ended.send(Event::Ended(at));
        };
        spawn(format!("wait-{}", started.id), Box::new(wait))?;
        let input = started.child.stderr.take().context("standard error is not piped")?;
        let (id, copied) = (started.id, events.clone());
        let copy = move || {
            pass_on(id, input);
            let _ = copied.send(Event::Copied);
        };
        spawn(format!("copy-{id}"), Box::new(copy))?;
    }
    let received = events.clone();
    let receive = move || {
        for signal in signals.forever() {
            let _ = received.send(Event::Signal(signal));
        }
    };
    spawn("signals".to_owned(), Box::new(receive)).map(drop)
}

fn decide(all: &mut [Started], events: &Receiver<Event>) -> Result<u8> {
    let mut failed = None;
    let mut signals = 0;
    let mut asked = false;
    let mut copied = 0;
    let mut next: Option<(Instant, Next)> = None;
    while all.iter().any(Started::is_running) {
        let event = match next {
            None => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some((at, _)) => events.recv_timeout(at.saturating_duration_since(Instant::now())),
        };
        match (event, next) {
            (Ok(Event::Ended(at)), _) => {
                let status = all[at].child.wait().context("cannot wait for a process")?;
                all[at].status = Some(status);
                let code = code_of(status);
                // A process that was killed is why others have failed, even if they were faster.
                let killed = code > BY_SIGNAL && signals == 0 && !asked;
                let first = failed.is_none_or(|failed| killed && failed <= BY_SIGNAL);
                if code != 0 && first {
                    failed = Some(code);
                    say(&format!("{} {}", all[at].name, described(status)));
                    next.get_or_insert((Instant::now() + GRACE, Next::Ask));
                }
            }
            (Ok(Event::Copied), _) => copied += 1,
            (Ok(Event::Signal(signal)), _) => {
                signals += 1;
                if signals > PASSED_ON {
                    all.iter_mut().for_each(Started::kill);
                    next = Some((Instant::now() + ASKED, Next::Cut));
                } else {
                    let signal = if signal == SIGINT { Signal::INT } else { Signal::TERM };
                    all.iter_mut().for_each(|started| started.signal(signal));
                }
            }
            (Err(RecvTimeoutError::Timeout), Some((_, Next::Ask))) => {
                let running = all.iter().filter(|started| started.is_running());
                let names = running.map(|started| started.name.as_str()).collect::<Vec<_>>();
                say(&format!("ending {}", names.join(", ")));
                all.iter_mut().for_each(|started| started.signal(Signal::TERM));
                asked = true;
                next = Some((Instant::now() + ASKED, Next::Kill));
            }
            (Err(RecvTimeoutError::Timeout), Some((_, Next::Kill))) => {
                all.iter_mut().for_each(Started::kill);
                next = Some((Instant::now() + ASKED, Next::Cut));
            }
            (Err(_), _) => {
                all.iter_mut().for_each(Started::cut);
                next = None;
            }
        }
    }
    let end = Instant::now() + REST;
    while copied < all.len() {
        match events.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Event::Copied) => copied += 1,
            Ok(_) => {}
            Err(_) => break,
        }
    }
    Ok(failed.unwrap_or(0))
}

/// The exit status by which a shell reports how a process ended.
fn code_of(status: ExitStatus) -> u8 {
    let code = status.code().or(status.signal().map(|signal| i32::from(BY_SIGNAL) + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn described(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("was ended by signal {signal}"),
        None => format!("ended with status {}", code_of(status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_are_those_of_a_shell() {
        let of = |raw| ExitStatus::from_raw(raw);
        assert_eq!(code_of(of(0)), 0);
        assert_eq!((code_of(of(3 << 8)), &*described(of(3 << 8))), (3, "ended with status 3"));
        assert_eq!((code_of(of(9)), &*described(of(9))), (137, "was ended by signal 9"));
    }
}

//! A server that speaks S3, and a proxy in front of it that fails as networks do.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long anything may take.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The bucket that there is.
pub const BUCKET: &str = "checkpoints";

/// Runs tests, those whose names contain one of the program's arguments if there are any. A test fails if it panics.
pub fn run_tests<T>(
    tests: impl IntoIterator<Item = (&'static str, T)>,
    mut run: impl FnMut(T),
) -> ExitCode {
    let names: Vec<_> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let (mut passed, mut failed) = (0, 0);
    for (name, test) in tests {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part)) {
            continue;
        }
        let begun = Instant::now();
        let verdict = match catch_unwind(AssertUnwindSafe(|| run(test))) {
            Ok(()) => "ok",
            Err(_) => "FAILED",
        };
        let count = if verdict == "ok" { &mut passed } else { &mut failed };
        *count += 1;
        println!("test {name} ... {verdict} ({:.1} s)", begun.elapsed().as_secs_f64());
    }
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("\ntest result: {verdict}. {passed} passed; {failed} failed; 0 ignored");
    ExitCode::from(u8::from(failed > 0))
}

/// Waits until something is so.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// A server with one bucket, all in its memory.
pub struct Server {
    pub program: PathBuf,
    port: u16,
    child: Child,
}

impl Server {
    /// Starts a server, which refuses the keys of strangers if it `knows_keys`.
    pub fn start(program: &Path, knows_keys: bool) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        // It ends with this process.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL"]).arg(program);
        command.args(["-H", "127.0.0.1", "-p", &port.to_string()]);
        if knows_keys {
            // All requests but the first.
            command.env("INITIAL_NO_AUTH_ACTION_COUNT", "1");
        }
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.expect("the server starts");
        let server = Self { program: program.to_owned(), port, child };
        until("the server does not listen", || TcpStream::connect(server.address()).is_ok());
        let made = server.ask(&format!("PUT /{BUCKET} HTTP/1.1")).expect("the server answers");
        assert!(made.starts_with("HTTP/1.1 200"), "{made}");
        server
    }

    fn address(&self) -> (Ipv4Addr, u16) {
        (Ipv4Addr::LOCALHOST, self.port)
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The answer to a request without a body.
    fn ask(&self, request: &str) -> std::io::Result<String> {
        self.ask_with(request, &[])
    }

    fn ask_with(&self, request: &str, body: &[u8]) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address())?;
        // The signature is not checked, but that there is one.
        let head = "Host: 127.0.0.1\r\nConnection: close\r\nAuthorization: AWS4-HMAC-SHA256 Credential=test/20260101/\
                    us-east-1/s3/aws4_request, SignedHeaders=host, Signature=none";
        let length = body.len();
        write!(stream, "{request}\r\n{head}\r\nContent-Length: {length}\r\n\r\n")?;
        stream.write_all(body)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The keys under a prefix of the bucket, by a request that shares nothing with the engine.
    pub fn keys(&self, prefix: &str) -> Vec<String> {
        let request = format!("GET /{BUCKET}?list-type=2&prefix={prefix}/ HTTP/1.1");
        let answers = std::iter::repeat_with(|| self.ask(&request).expect("the server answers"));
        // It fails now and then when a list changes while it is made.
        let mut answers = answers.take(20).skip_while(|answer| answer.starts_with("HTTP/1.1 500"));
        let answer = answers.next().expect("the server does not fail each time");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let keys = answer.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    /// Puts other bytes in place of an object.
    pub fn put(&self, key: &str, bytes: &[u8]) {
        let answer = self.ask_with(&format!("PUT /{BUCKET}/{key} HTTP/1.1"), bytes);
        let answer = answer.expect("the server answers");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Removes an object.
    pub fn delete(&self, key: &str) {
        let request = format!("DELETE /{BUCKET}/{key} HTTP/1.1");
        let answer = self.ask(&request).expect("the server answers");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    /// How many checkpoints the last run has tried to take under a prefix: its numbers follow a multiple of this.
    pub fn taken(&self, prefix: &str) -> u64 {
        self.newest(prefix) % 1_000_000_000
    }

    /// The number of the newest checkpoint under a prefix, or 0.
    pub fn newest(&self, prefix: &str) -> u64 {
        let number = |key: &str| {
            let name = key.strip_prefix(prefix)?.strip_prefix("/checkpoint-")?;
            name.strip_suffix(".state")?.parse().ok()
        };
        self.keys(prefix).iter().filter_map(|key| number(key)).max().unwrap_or(0)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Variables of a client, at an endpoint.
pub fn client(command: &mut Command, endpoint: &str) {
    command
        .env("AWS_ENDPOINT", endpoint)
        .env("AWS_ALLOW_HTTP", "true")
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ACCESS_KEY_ID", "test")
        .env("AWS_SECRET_ACCESS_KEY", "test");
}

/// Passes connections on to a server.
pub struct Proxy {
    port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Whether the server cannot be reached.
    is_down: AtomicBool,
    /// Whether each second answer is lost to a request that creates a name.
    loses_answers: AtomicBool,
    created: AtomicUsize,
    lost: AtomicUsize,
}

impl Proxy {
    pub fn start(server: &Server) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let (state, to) = (Arc::<State>::default(), server.address());
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                thread::spawn(move || {
                    if !state.is_down() {
                        pass_on(client, TcpStream::connect(to).expect("it listens"), &state);
                    }
                });
            }
        });
        Self { port, state }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn set_down(&self, is_down: bool) {
        self.state.is_down.store(is_down, Ordering::SeqCst);
    }

    pub fn lose_answers(&self) {
        self.state.loses_answers.store(true, Ordering::SeqCst);
    }

    /// How many answers were lost.
    pub fn lost(&self) -> usize {
        self.state.lost.load(Ordering::SeqCst)
    }
}

impl State {
    fn is_down(&self) -> bool {
        self.is_down.load(Ordering::SeqCst)
    }
}

/// Passes on what both sides send, until one of them ends or the server is down.
fn pass_on(client: TcpStream, server: TcpStream, state: &Arc<State>) {
    let loses_next = Arc::new(AtomicBool::new(false));
    let pump = |mut from: TcpStream, mut to: TcpStream, is_request: bool| {
        let (state, loses_next) = (Arc::clone(state), Arc::clone(&loses_next));
        from.set_read_timeout(Some(Duration::from_millis(50))).expect("it is not zero");
        move || {
            let (mut buffer, mut before) = (vec![0; 1 << 16], Vec::new());
            while !state.is_down() {
                let length = match from.read(&mut buffer) {
                    Ok(0) => break,
                    Ok(length) => length,
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                    Err(_) => break,
                };
                if is_request && state.loses_answers.load(Ordering::SeqCst) {
                    // Its head may come in two pieces.
                    before.extend_from_slice(&buffer[..length]);
                    let text = String::from_utf8_lossy(&before).to_ascii_lowercase();
                    if text.contains("if-none-match: *") {
                        before.clear();
                        let which = state.created.fetch_add(1, Ordering::SeqCst);
                        loses_next.store(which.is_multiple_of(2), Ordering::SeqCst);
                    }
                    before.drain(..before.len().saturating_sub(20));
                }
                if !is_request && loses_next.load(Ordering::SeqCst) {
                    state.lost.fetch_add(1, Ordering::SeqCst);
                    break;
                }
                if to.write_all(&buffer[..length]).is_err() {
                    break;
                }
            }
            let _ = from.shutdown(Shutdown::Both);
            let _ = to.shutdown(Shutdown::Both);
        }
    };
    let both = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
    let answers = thread::spawn(pump(both.1, both.0, false));
    pump(client, server, true)();
    let _ = answers.join();
}

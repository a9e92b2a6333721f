//! A real schema registry, and Java's Avro.

use crate::broker::{PATIENCE, apart, free_port};
use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Apicurio's registry, which keeps all in memory, by Confluent's interface.
pub struct Registry {
    /// It ends with this process.
    _child: Child,
    port: u16,
}

impl Registry {
    /// Starts the registry whose archive is among the jars. It is unpacked into a folder.
    pub fn start(jars: &Path, folder: &Path) -> Self {
        let archive = file_in(jars, "apicurio-registry-app-", "-all.tar.gz");
        let mut tar = Command::new("tar");
        tar.arg("xzf").arg(archive).arg("-C").arg(folder);
        assert!(
            tar.status().is_ok_and(|status| status.success()),
            "the archive cannot be unpacked"
        );
        let jar = file_in(folder, "apicurio-registry-app-", "-runner.jar");
        let port = free_port();
        let mut java = apart("java");
        java.args(["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.arg(format!("-Dquarkus.http.port={port}")).arg("-Dquarkus.http.host=127.0.0.1");
        java.arg("-jar").arg(jar).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = java.spawn().expect("java can be started");
        let registry = Self { _child: child, port };
        let begun = Instant::now();
        while registry.request("GET", "/subjects", "").is_none_or(|(status, _)| status != 200) {
            assert!(begun.elapsed() < PATIENCE, "the registry does not answer");
            thread::sleep(Duration::from_millis(100));
        }
        registry
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/apis/ccompat/v7", self.port)
    }

    /// Registers a schema, and gives its id.
    pub fn register(&self, subject: &str, schema: &str) -> u32 {
        let body = json!({ "schema": schema }).to_string();
        let path = format!("/subjects/{subject}/versions");
        let (status, answer) = self.request("POST", &path, &body).expect("an answer");
        assert_eq!(status, 200, "{answer}");
        serde_json::from_str::<Value>(&answer).expect("it is JSON")["id"].as_u64().expect("an id")
            as u32
    }

    /// Has new schemas of a subject compared with the ones before.
    pub fn check_compatibility(&self, subject: &str) {
        let body = json!({ "compatibility": "BACKWARD" }).to_string();
        let (status, answer) =
            self.request("PUT", &format!("/config/{subject}"), &body).expect("an answer");
        assert_eq!(status, 200, "{answer}");
    }

    /// A request by hand, which shares nothing with the crate under test.
    fn request(&self, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
        let mut connection = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
        write!(
            connection,
            "{method} /apis/ccompat/v7{path} HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
    }
}

fn file_in(folder: &Path, prefix: &str, suffix: &str) -> PathBuf {
    let files = std::fs::read_dir(folder).expect("the folder is there");
    let names = files.filter_map(|file| Some(file.ok()?.file_name().to_str()?.to_owned()));
    let mut found = names.filter(|name| name.starts_with(prefix) && name.ends_with(suffix));
    folder.join(found.next().unwrap_or_else(|| panic!("there is no {prefix}…{suffix}")))
}

/// What Java's Avro makes of lines: `encode` has JSON become hexadecimal digits, `decode` the other way round.
pub fn judge(jars: &Path, doing: &str, schemas: &[&str], lines: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let mut java = apart("java");
    java.arg("-cp")
        .arg(jars.join("*"))
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/broker/Judge.java"));
    java.arg(doing);
    for (index, schema) in schemas.iter().enumerate() {
        let path = folder.path().join(index.to_string());
        std::fs::write(&path, schema).expect("the folder is ours");
        java.arg(path);
    }
    let input = folder.path().join("lines");
    std::fs::write(&input, lines.join("\n")).expect("the folder is ours");
    java.stdin(std::fs::File::open(input).expect("it was written"));
    let output = java.output().expect("java can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("it is text").lines().map(str::to_owned).collect()
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |at: usize| u8::from_str_radix(&text[at..at + 2], 16).expect("two digits");
    (0..text.len()).step_by(2).map(digit).collect()
}

//! What is in the object store that tests have their checkpoints in, by a request of their own.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

/// The bucket, if tests have their checkpoints in one.
pub(super) fn bucket() -> Option<PathBuf> {
    std::env::var_os("THALWEG_TEST_OBJECTS").map(PathBuf::from)
}

/// How much slower jobs are to be, and are looked at, than with their checkpoints in a directory: a checkpoint takes some requests.
pub(super) fn slowness() -> u64 {
    if bucket().is_some() { 4 } else { 1 }
}

/// The names under a prefix, or nothing if the store does not answer.
pub(super) fn names(saved: &Path) -> Vec<String> {
    let saved = saved.to_str().expect("it is text").strip_prefix("s3://").expect("it is in S3");
    let (bucket, prefix) = saved.split_once('/').expect("a bucket and a prefix");
    let answers = std::iter::repeat_with(|| list(bucket, prefix).expect("the store answers"));
    // The server fails now and then when a list changes while it is made.
    let mut answers = answers.take(20).skip_while(|answer| answer.starts_with("HTTP/1.1 500"));
    let answer = answers.next().expect("the store does not fail each time");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    let keys = answer.split("<Key>").skip(1).filter_map(|rest| rest.split_once("</Key>"));
    let name = |key: &str| Some(key.strip_prefix(prefix)?.split('/').nth(1)?.to_owned());
    let names: BTreeSet<_> = keys.filter_map(|(key, _)| name(key)).collect();
    names.into_iter().collect()
}

fn list(bucket: &str, prefix: &str) -> std::io::Result<String> {
    let endpoint = std::env::var("AWS_ENDPOINT").expect("it is set where the bucket is");
    let host = endpoint.strip_prefix("http://").expect("it is not encrypted");
    let mut store = TcpStream::connect(host)?;
    write!(
        store,
        "GET /{bucket}?list-type=2&prefix={prefix}/ HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = String::new();
    store.read_to_string(&mut answer)?;
    Ok(answer)
}

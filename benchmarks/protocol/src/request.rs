//! A contestant's command line.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Result;
use crate::hosts::Others;

/// What a contestant is asked to run: a case and its options.
///
/// ```
/// use bench_protocol::Request;
/// let args = ["wordcount", "--data", "text.txt", "--cores", "2"].map(String::from);
/// let request = Request::from_args(args)?;
/// assert_eq!(request.case(), "wordcount");
/// assert_eq!(request.cores()?, 2);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Request {
    case: String,
    options: BTreeMap<String, String>,
    /// The other hosts, if this is the first of several. Taken when rounds begin.
    others: Arc<Mutex<Others>>,
}

impl Request {
    /// Reads `CASE --name value ...`.
    ///
    /// # Errors
    /// When there is no case, or an option has no name or no value.
    pub fn from_args(args: impl IntoIterator<Item = String>) -> Result<Self> {
        let mut args = args.into_iter();
        let case = args.next().ok_or("usage: PROGRAM CASE [--name value]...")?;
        let mut options = BTreeMap::new();
        while let Some(arg) = args.next() {
            let name = arg
                .strip_prefix("--")
                .ok_or_else(|| format!("expected an option, found {arg:?}"))?;
            let value = args.next().ok_or_else(|| format!("--{name} needs a value"))?;
            options.insert(name.to_owned(), value);
        }
        Ok(Self { case, options, others: Arc::default() })
    }

    /// The case's name, the first argument.
    pub fn case(&self) -> &str {
        &self.case
    }

    /// The value of `--name`, if given.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.options.get(name).map(String::as_str)
    }

    /// The value of `--name`, parsed.
    ///
    /// # Errors
    /// When it was not given or does not parse.
    pub fn value<T: FromStr>(&self, name: &str) -> Result<T> {
        let text = self.get(name).ok_or_else(|| format!("--{name} is missing"))?;
        text.parse().map_err(|_| format!("--{name} {text:?} is not valid").into())
    }

    /// The value of `--name`, parsed, or `default` when it was not given.
    ///
    /// # Errors
    /// When it was given and does not parse.
    pub fn value_or<T: FromStr>(&self, name: &str, default: T) -> Result<T> {
        if self.get(name).is_some() { self.value(name) } else { Ok(default) }
    }

    /// `--data`: the input file.
    ///
    /// # Errors
    /// When it was not given.
    pub fn data(&self) -> Result<&Path> {
        Ok(Path::new(self.get("data").ok_or("--data is missing")?))
    }

    /// `--cores`: how many cores the contestant may use; all of them when it was not given.
    ///
    /// # Errors
    /// When it is not a number above zero.
    pub fn cores(&self) -> Result<usize> {
        let all = std::thread::available_parallelism()?.get();
        match self.value_or("cores", all)? {
            0 => Err("--cores must be above zero".into()),
            cores => Ok(cores),
        }
    }

    /// `--hosts`: how many processes the contestant is, each with as many cores as [`cores`](Self::cores) says; one when it
    /// was not given.
    ///
    /// # Errors
    /// When it is not a number above zero.
    pub fn hosts(&self) -> Result<usize> {
        match self.value_or("hosts", 1)? {
            0 => Err("--hosts must be above zero".into()),
            hosts => Ok(hosts),
        }
    }

    /// Which of the hosts this process is, from 0.
    ///
    /// # Errors
    /// When it is not a number.
    pub fn host(&self) -> Result<usize> {
        self.value_or("host", 0)
    }

    /// Whether this process was started by the first host.
    pub(crate) fn is_follower(&self) -> bool {
        self.get("host").is_some()
    }

    /// An address for each host, which is free unless the contestant listens there. So are the next fifteen ports.
    ///
    /// # Errors
    /// When there is but one host.
    pub fn addresses(&self) -> Result<Vec<String>> {
        let ports = self.get("ports").ok_or("one host has no addresses")?;
        Ok(ports.split(',').map(|port| format!("127.0.0.1:{port}")).collect())
    }

    /// Starts the other hosts, if this is the first of several.
    pub(crate) fn with_others(mut self) -> Result<Self> {
        self.others = Arc::new(Mutex::new(Others::start(&mut self)?));
        Ok(self)
    }

    pub(crate) fn take_others(&self) -> Others {
        std::mem::take(&mut *self.others.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn set(&mut self, name: &str, value: String) {
        self.options.insert(name.to_owned(), value);
    }

    /// The command line that this request was read from.
    pub(crate) fn to_args(&self) -> Vec<String> {
        let options =
            self.options.iter().flat_map(|(name, value)| [format!("--{name}"), value.clone()]);
        std::iter::once(self.case.clone()).chain(options).collect()
    }

    /// The error for a case that this program does not have.
    pub fn unknown(&self) -> Result<()> {
        Err(format!("this program has no case {:?}", self.case).into())
    }
}

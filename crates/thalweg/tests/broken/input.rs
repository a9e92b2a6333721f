//! Files that are not there, or not what they should be.

use super::Broken;
use serde::Deserialize;
use thalweg::io::Csv;
use thalweg::{Data, Environment, Result};

const LONG_TEXT: &[(&str, &[u8])] = &[("text.txt", b"one line\nand caf\xe9\n")];
const TRADES: &[(&str, &[u8])] = &[("trades.csv", b"symbol,price\nACME,12.5\nB,cheap\nC,3\n")];

pub(super) const ALL: &[Broken] = &[
    Broken::new("file-is-missing", || lines("nowhere.txt")),
    Broken::new("folder-is-empty", || lines("folder")).files(&[("folder/.hidden", b"")]),
    Broken::new("glob-matches-nothing", || lines("*.log")),
    Broken::new("glob-is-malformed", || lines("[a")),
    Broken::new("file-cannot-be-read", || lines("/proc/self/mem")),
    Broken::new("not-utf8", || lines("text.txt")).files(LONG_TEXT),
    Broken::new("gzip-is-cut-short", || lines("text.gz"))
        .files(&[("text.gz", &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0x4b, 0x4c])]),
    Broken::new("gzip-is-none", || lines("text.gz")).files(&[("text.gz", b"plain text")]),
    Broken::new("zstd-is-cut-short", || lines("text.zst"))
        .files(&[("text.zst", &[0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x31])]),
    Broken::new("csv-field-is-no-number", csv).files(TRADES),
    Broken::new("csv-row-is-short", csv).files(&[("trades.csv", b"symbol,price\nACME\n")]),
    Broken::new("csv-column-is-missing", csv).files(&[("trades.csv", b"symbol,cost\nACME,1\n")]),
    Broken::new("csv-has-no-header", csv).files(&[("trades.csv", b"ACME,12.5\nB,3\n")]),
    Broken::new("csv-quote-is-left-open", csv)
        .files(&[("trades.csv", b"symbol,price\n\"ACME,1\nB,2\n")]),
    Broken::new("json-line-is-none", json).files(&[(
        "trades.jsonl",
        b"{\"symbol\":\"ACME\",\"price\":12.5}\n{\"symbol\":\"B\",\"price\":}\n",
    )]),
];

#[derive(Deserialize, Data, Debug)]
struct Trade {
    symbol: String,
    price: f64,
}

fn lines(path: &str) -> Result<()> {
    let env = Environment::from_args()?;
    env.lines(path).map(|line| line.len()).map(|n| n.to_string()).write_lines("out.txt");
    env.run()
}

fn csv() -> Result<()> {
    let env = Environment::from_args()?;
    env.csv::<Trade>(Csv::new("trades.csv")).map(|trade| trade.symbol).write_lines("out.txt");
    env.run()
}

fn json() -> Result<()> {
    let env = Environment::from_args()?;
    env.json_lines::<Trade>("trades.jsonl")
        .map(|trade| trade.price.to_string())
        .write_lines("out.txt");
    env.run()
}

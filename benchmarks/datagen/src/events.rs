//! Events of the streaming benchmarks in files, for contestants in other languages: the same that those in
//! Rust make for themselves. What an event is, `thalweg_workloads` says alone.

use std::io::{self, Write};

use thalweg_workloads::nexmark;
use thalweg_workloads::ysb::{self, ADS_PER_CAMPAIGN, Campaigns, uuid};

use crate::EventKind;

/// The seed that all contestants have.
const SEED: u64 = 42;

/// Makes all events in memory first, as every contestant does.
pub(crate) fn write(kind: EventKind, count: u64, out: &mut dyn Write) -> io::Result<()> {
    match kind {
        EventKind::Nexmark => {
            nexmark::Segments::generate(nexmark::recipe(SEED), count).write_into(out)
        }
        EventKind::Ysb => ysb::FixedSegments::generate(ysb::recipe(SEED), count).write_into(out),
    }
}

pub(crate) fn write_campaigns(out: &mut dyn Write) -> io::Result<()> {
    for (place, &ad) in (0..).zip(Campaigns::new(SEED).ads()) {
        out.write_all(&uuid(ad))?;
        writeln!(out, "\t{}", place / ADS_PER_CAMPAIGN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_that_of_the_campaigns() {
        let mut text = Vec::new();
        write_campaigns(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let read = text.lines().map(|line| {
            let (ad, campaign) = line.split_once('\t').unwrap();
            (ad.to_owned(), campaign.parse().unwrap())
        });
        assert_eq!(
            read.collect::<std::collections::HashMap<_, u32>>(),
            Campaigns::new(SEED).text_table()
        );
    }
}

//! Which datasets there are, and what their files are called.

use std::fmt;
use std::str::FromStr;

/// One input file of the benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dataset {
    /// Text of so many million bytes.
    Text {
        /// Its size in units of 1 000 000 bytes; the last line may go over it.
        megabytes: u64,
    },
    /// Integer keys.
    Keys {
        /// How they are distributed.
        kind: KeyKind,
        /// How many different ones there can be: keys are below this number.
        distinct: u64,
        /// How many keys the file holds.
        count: u64,
    },
    /// Points in the plane, in clusters.
    Points {
        /// How many points the file holds.
        count: u64,
    },
    /// Items of the `skew` bench.
    Items {
        /// How their ids are distributed.
        kind: ItemKind,
        /// How many items the file holds.
        count: u64,
    },
    /// The edges of a graph.
    Graph {
        /// What it is like.
        kind: GraphKind,
        /// How many nodes there can be: they are below this number.
        nodes: u64,
        /// How many edges the file holds.
        edges: u64,
    },
    /// Encoded events of a streaming benchmark, for contestants that cannot make them: in the form of
    /// `thalweg_workloads::segments`, with the seed that all contestants have.
    Events {
        /// Of which benchmark.
        kind: EventKind,
        /// How many events the file holds.
        count: u64,
    },
    /// The table of the Yahoo benchmark, under the same seed: a line for each advertisement, with its
    /// UUID and its campaign's number.
    Campaigns,
    /// Accidents in the shape of New York's file of motor vehicle collisions, of so many million bytes.
    Collisions {
        /// Its size in units of 1 000 000 bytes; the last line may go over it.
        megabytes: u64,
    },
}

/// Which benchmark events belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// Nexmark's.
    Nexmark,
    /// The Yahoo benchmark's, 64 bytes each.
    Ysb,
}

/// How keys are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyKind {
    /// All keys alike.
    Uniform,
    /// The key of rank `r` with a probability in proportion to `1 / r`; ranks are scattered over
    /// the keys.
    Zipf,
    /// Key 0 has half of all records, the others share the rest alike.
    Hot,
}

/// What a graph is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GraphKind {
    /// Both ends of each edge are drawn alike of all nodes: loops and repeated edges occur.
    Uniform,
    /// Components with no edge between them, the first of half of all nodes, the next of half of the
    /// rest, and so on; ids say nothing of the component. Every node has an edge.
    Components,
    /// Nodes link alike often, but some are linked to far more often than others; one in a hundred has no
    /// link of its own. Every node has an edge.
    Links,
}

/// How the 50 ids of the `skew` bench's items are distributed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// All ids alike.
    Uniform,
    /// Ids 1 to 25 have 3% each, 75% together; ids 26 to 50 have 1% each.
    Skewed,
    /// Ids by their remainder modulo 4 have 24.6%, 29.5%, 21.3%, 24.6%: the "uniform" split over
    /// four partitions of the Arcon thesis. Id 1 begins the first class.
    ThesisUniform,
    /// The same with 51.3%, 19.7%, 6.6%, 22.4%: the thesis's skewed split.
    ThesisSkewed,
}

impl Dataset {
    /// The file's name, from which everything about it can be read.
    pub fn file_name(&self) -> String {
        match self {
            Self::Text { megabytes } => format!("text-{megabytes}MB.txt"),
            Self::Keys { kind, distinct, count } => format!("keys-{kind}-{distinct}-{count}.u64"),
            Self::Points { count } => format!("points-{count}.f64"),
            Self::Items { kind, count } => format!("items-{kind}-{count}.bin"),
            Self::Graph { kind, nodes, edges } => format!("graph-{kind}-{nodes}-{edges}.bin"),
            Self::Events { kind, count } => format!("events-{kind}-{count}.bin"),
            Self::Campaigns => "campaigns.tsv".to_owned(),
            Self::Collisions { megabytes } => format!("collisions-{megabytes}MB.csv"),
        }
    }
}

impl FromStr for Dataset {
    type Err = String;

    /// Reads `text:MEGABYTES`, `keys:KIND:DISTINCT:COUNT`, `points:COUNT`, `items:KIND:COUNT`, `graph:KIND:NODES:EDGES`,
    /// `events:KIND:COUNT`, `campaigns` or `collisions:MEGABYTES`.
    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            _ => Err(format!("{text:?} is not a number above zero")),
        };
        match text.split(':').collect::<Vec<_>>()[..] {
            ["text", megabytes] => Ok(Self::Text { megabytes: number(megabytes)? }),
            ["keys", kind, distinct, count] => Ok(Self::Keys {
                kind: kind.parse()?,
                distinct: number(distinct)?,
                count: number(count)?,
            }),
            ["points", count] => Ok(Self::Points { count: number(count)? }),
            ["items", kind, count] => {
                Ok(Self::Items { kind: kind.parse()?, count: number(count)? })
            }
            ["graph", kind, nodes, edges] => Ok(Self::Graph {
                kind: kind.parse()?,
                nodes: number(nodes)?,
                edges: number(edges)?,
            }),
            ["events", kind, count] => {
                Ok(Self::Events { kind: kind.parse()?, count: number(count)? })
            }
            ["campaigns"] => Ok(Self::Campaigns),
            ["collisions", megabytes] => Ok(Self::Collisions { megabytes: number(megabytes)? }),
            _ => Err(format!(
                "{text:?} is no dataset: text:MEGABYTES, keys:KIND:DISTINCT:COUNT, \
                 points:COUNT, items:KIND:COUNT, graph:KIND:NODES:EDGES, events:KIND:COUNT, campaigns, \
                 collisions:MEGABYTES"
            )),
        }
    }
}

macro_rules! names {
    ($type:ty, $what:literal, $($variant:ident => $name:literal),+) => {
        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => $name),+ })
            }
        }

        impl FromStr for $type {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(format!(concat!("{:?} is no ", $what, ": ", $($name, " "),+), text)),
                }
            }
        }
    };
}

names!(EventKind, "benchmark with events", Nexmark => "nexmark", Ysb => "ysb");
names!(
    GraphKind, "kind of graph", Uniform => "uniform", Components => "components",
    Links => "links"
);
names!(KeyKind, "distribution of keys", Uniform => "uniform", Zipf => "zipf", Hot => "hot");
names!(
    ItemKind, "distribution of items", Uniform => "uniform", Skewed => "skewed",
    ThesisUniform => "thesis-uniform", ThesisSkewed => "thesis-skewed"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for text in [
            "text:8",
            "keys:zipf:1000:50",
            "points:30",
            "items:thesis-skewed:10",
            "graph:links:10:50",
            "events:ysb:9",
            "campaigns",
            "collisions:7",
        ] {
            let dataset: Dataset = text.parse().unwrap();
            assert!(!dataset.file_name().is_empty());
        }
        assert_eq!("keys:hot:10:20".parse::<Dataset>().unwrap().file_name(), "keys-hot-10-20.u64");
        assert!("keys:cold:10:20".parse::<Dataset>().is_err());
        assert!("events:linear-road:10".parse::<Dataset>().is_err());
        assert!("text:0".parse::<Dataset>().is_err());
    }
}

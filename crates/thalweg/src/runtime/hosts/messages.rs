//! The messages of hosts about a job, and which way each goes.

use super::super::counts::TaskCounts;
use super::super::description::DescribedPart;
use super::{Answer, SaveOrder, ToSave};
use crate::checkpoint::{RestorePoint, StateId};
use crate::data::{Data, DecodeError};
use crate::error::{Error, Result};
use crate::flow::Epoch;
use crate::metrics::ClockOffset;
use crate::net::HostId;
use std::sync::Arc;

/// A message from one host to another about a job.
pub(super) enum JobMessage {
    /// These hosts have described the job, with these fingerprints. A host stands for itself and those that follow it with the
    /// same one.
    Described(Vec<(usize, u128)>),
    /// All hosts have described the same job; contains the first host's [`Description::point`](super::Description::point).
    Same(Option<RestorePoint>),
    /// The parts of the job on the first host, for a host that has described another one.
    Differs(Vec<DescribedPart>),
    Failed(Error),
    /// These hosts are prepared, and have saved their parts of the last checkpoint, or failed to.
    Prepared(Vec<Ended>),
    /// A part of the totals of all hosts when the job ends well. The decision is a message of its own.
    Totals(Totals),
    /// No further totals follow, as a host on their way is lost.
    WithoutTotals,
    /// The decision how the job ends; if well, whether any host has files to publish.
    Decided(Result<bool>),
    /// A host and its subtree have published their files, or one has failed to.
    Published(Result<()>),
    /// All hosts have published their files, or one has failed to.
    Over(Result<()>),
    /// A host drains the job.
    DrainRequest,
    Drain,
    /// An operator of a host waits for a checkpoint.
    WantsCheckpoint,
    /// A barrier has come to this operator of a host within a round of a loop: there is no checkpoint.
    Torn(Epoch, Arc<str>),
    /// From the first host: this barrier was torn on some host, so waiting heads of loops let it through.
    LetThrough(Epoch, Arc<str>),
    /// A host requests that the job be suspended, with the reason.
    Suspend(String),
    /// A host requests a barrier. It numbers its requests.
    BarrierRequest(BarrierRequest),
    /// All sources are to send this barrier, which a host has requested.
    Barrier(Epoch, HostId, BarrierRequest),
    /// A barrier may overtake batches, on all hosts.
    Overtake(Epoch),
    /// The last barrier that has left all tasks of a host and its subtree.
    Passed(Last),
    /// The last barrier that has left all tasks.
    AllPassed(Epoch),
    /// An order to a host for a checkpoint.
    Order(SaveOrder),
    /// These hosts have saved, or failed to.
    Saved(Epoch, Vec<(HostId, Answer)>),
    /// A host and its subtree have committed the checkpoint of this barrier.
    Committed(Epoch),
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From a host to the one that it reports to, which merges it with other reports.
    Up,
    /// From the first host to those that report to it, and so on down the tree.
    Down,
    /// From a host to the first one, or from the first to any: messages that are rare, or must not be lost with a host between
    /// the two.
    Direct,
}

#[derive(Clone, Copy, Data)]
pub(super) struct BarrierRequest {
    pub(super) number: u64,
    /// Whether the sources are to read nothing behind the barrier.
    pub(super) is_last: bool,
}

/// The last barrier that has left all tasks of some hosts, and the first of these hosts that the next barrier has not left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Last {
    pub(super) epoch: Epoch,
    pub(super) host: HostId,
}

/// What a host reports when all of its tasks have ended.
pub(super) struct Ended {
    pub(super) host: HostId,
    pub(super) prepared: Prepared,
    /// Its part of the last checkpoint.
    pub(super) saved: Answer,
}

/// What a host has prepared when all of its tasks have ended.
#[derive(Clone, Data)]
pub(super) struct Prepared {
    /// Whether there are files to publish.
    pub(super) files: bool,
    /// The counts of the tasks.
    pub(super) counted: Vec<TaskCounts>,
}

/// The totals that all hosts have when a job has ended well.
#[derive(Clone, Data, Default)]
pub(super) struct Totals {
    /// The counts of each host's tasks, in the order of the hosts.
    pub(super) counted: Vec<Vec<TaskCounts>>,
    /// The clocks of the other hosts, as the first one has estimated them.
    pub(super) clocks: Vec<ClockOffset>,
}

/// The most hosts whose counts are in one message: those of one may take some hundred kilobytes.
const HOSTS_AT_ONCE: usize = 64;

impl Totals {
    /// The messages in which the totals are sent.
    pub(super) fn messages(&self) -> impl Iterator<Item = JobMessage> + '_ {
        let parts = self.counted.chunks(HOSTS_AT_ONCE).enumerate();
        parts.map(|(at, counted)| {
            let clocks = if at == 0 { self.clocks.clone() } else { Vec::new() };
            JobMessage::Totals(Self { counted: counted.to_vec(), clocks })
        })
    }

    /// Adds the next part.
    pub(super) fn add(&mut self, part: Self) {
        self.counted.extend(part.counted);
        self.clocks.extend(part.clocks);
    }
}

impl JobMessage {
    /// The way of the message.
    pub(super) fn way(&self) -> Way {
        match self {
            Self::Described(_)
            | Self::Prepared(_)
            | Self::Published(_)
            | Self::Passed(_)
            | Self::Saved(..)
            | Self::Committed(_) => Way::Up,
            Self::Same(_)
            | Self::Totals(_)
            | Self::WithoutTotals
            | Self::Drain
            | Self::Barrier(..)
            | Self::Overtake(_)
            | Self::LetThrough(..)
            | Self::AllPassed(_)
            | Self::Order(SaveOrder::Save(_) | SaveOrder::Counts { .. } | SaveOrder::Fails(_)) => {
                Way::Down
            }
            Self::Differs(_)
            | Self::Failed(_)
            | Self::Decided(_)
            | Self::Over(_)
            | Self::DrainRequest
            | Self::WantsCheckpoint
            | Self::Torn(..)
            | Self::Suspend(_)
            | Self::BarrierRequest(_)
            | Self::Order(SaveOrder::Replaced(_)) => Way::Direct,
        }
    }

    pub(super) fn encoded(&self) -> Vec<u8> {
        let out = &mut Vec::new();
        match self {
            Self::Failed(error) => {
                0u8.encode(out);
                error.encode(out);
            }
            Self::Prepared(all) => {
                (1u8, all.len() as u64).encode(out);
                for Ended { host, prepared, saved } in all {
                    host.0.encode(out);
                    prepared.encode(out);
                    encode_answer(saved, out);
                }
            }
            Self::Totals(totals) => {
                26u8.encode(out);
                totals.encode(out);
            }
            Self::WithoutTotals => 22u8.encode(out),
            Self::Decided(Ok(files)) => (2u8, *files).encode(out),
            Self::Decided(Err(error)) => {
                3u8.encode(out);
                error.encode(out);
            }
            Self::Published(Ok(())) => 7u8.encode(out),
            Self::Published(Err(error)) => {
                8u8.encode(out);
                error.encode(out);
            }
            Self::Over(Ok(())) => 9u8.encode(out),
            Self::Over(Err(error)) => {
                10u8.encode(out);
                error.encode(out);
            }
            Self::DrainRequest => 27u8.encode(out),
            Self::Drain => 4u8.encode(out),
            Self::WantsCheckpoint => 20u8.encode(out),
            Self::Torn(Epoch(epoch), operator) => {
                (25u8, *epoch).encode(out);
                operator.to_string().encode(out);
            }
            Self::LetThrough(Epoch(epoch), operator) => {
                (30u8, *epoch).encode(out);
                operator.to_string().encode(out);
            }
            Self::Suspend(why) => {
                18u8.encode(out);
                why.encode(out);
            }
            Self::BarrierRequest(request) => (14u8, *request).encode(out),
            Self::Barrier(Epoch(epoch), by, request) => (5u8, *epoch, by.0, *request).encode(out),
            Self::Passed(Last { epoch: Epoch(epoch), host }) => (6u8, *epoch, host.0).encode(out),
            Self::AllPassed(Epoch(epoch)) => (28u8, *epoch).encode(out),
            Self::Overtake(Epoch(epoch)) => (29u8, *epoch).encode(out),
            Self::Order(SaveOrder::Save(ToSave { epoch, superseded })) => {
                (15u8, epoch.0).encode(out);
                superseded.iter().cloned().collect::<Vec<_>>().encode(out);
            }
            Self::Order(SaveOrder::Counts { epoch, is_awaited, counted }) => {
                (19u8, epoch.0, *is_awaited, *counted).encode(out);
            }
            Self::Order(SaveOrder::Fails(failed)) => {
                21u8.encode(out);
                failed.encode(out);
            }
            Self::Order(SaveOrder::Replaced(saved)) => {
                24u8.encode(out);
                saved.encode(out);
            }
            Self::Saved(Epoch(epoch), answers) => {
                (16u8, *epoch, answers.len() as u64).encode(out);
                for (host, answer) in answers {
                    host.0.encode(out);
                    encode_answer(answer, out);
                }
            }
            Self::Committed(Epoch(epoch)) => (23u8, *epoch).encode(out),
            Self::Described(ranges) => {
                11u8.encode(out);
                ranges.encode(out);
            }
            Self::Same(point) => {
                12u8.encode(out);
                point.encode(out);
            }
            Self::Differs(parts) => {
                13u8.encode(out);
                parts.encode(out);
            }
        }
        std::mem::take(out)
    }

    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(match u8::decode(input)? {
            0 => Self::Failed(Error::decode(input)?),
            1 => Self::Prepared(decode_all(input, |input| {
                let (host, prepared) = (HostId(Data::decode(input)?), Prepared::decode(input)?);
                Ok(Ended { host, prepared, saved: decode_answer(input)? })
            })?),
            2 => Self::Decided(Ok(Data::decode(input)?)),
            3 => Self::Decided(Err(Error::decode(input)?)),
            4 => Self::Drain,
            5 => {
                let (epoch, by, request) = Data::decode(input)?;
                Self::Barrier(Epoch(epoch), HostId(by), request)
            }
            6 => {
                let (epoch, host) = Data::decode(input)?;
                Self::Passed(Last { epoch: Epoch(epoch), host: HostId(host) })
            }
            7 => Self::Published(Ok(())),
            8 => Self::Published(Err(Error::decode(input)?)),
            9 => Self::Over(Ok(())),
            10 => Self::Over(Err(Error::decode(input)?)),
            11 => Self::Described(Data::decode(input)?),
            12 => Self::Same(Data::decode(input)?),
            13 => Self::Differs(Data::decode(input)?),
            14 => Self::BarrierRequest(Data::decode(input)?),
            15 => {
                let (epoch, superseded) =
                    (Epoch(u64::decode(input)?), Vec::<StateId>::decode(input)?);
                let superseded = superseded.into_iter().collect();
                Self::Order(SaveOrder::Save(ToSave { epoch, superseded }))
            }
            16 => {
                let epoch = Epoch(u64::decode(input)?);
                let answers = decode_all(input, |input| {
                    Ok((HostId(Data::decode(input)?), decode_answer(input)?))
                });
                Self::Saved(epoch, answers?)
            }
            18 => Self::Suspend(Data::decode(input)?),
            19 => {
                let (epoch, is_awaited, counted) = Data::decode(input)?;
                Self::Order(SaveOrder::Counts { epoch: Epoch(epoch), is_awaited, counted })
            }
            20 => Self::WantsCheckpoint,
            21 => Self::Order(SaveOrder::Fails(Data::decode(input)?)),
            22 => Self::WithoutTotals,
            23 => Self::Committed(Epoch(u64::decode(input)?)),
            24 => Self::Order(SaveOrder::Replaced(Data::decode(input)?)),
            25 => Self::Torn(Epoch(u64::decode(input)?), String::decode(input)?.into()),
            26 => Self::Totals(Data::decode(input)?),
            27 => Self::DrainRequest,
            28 => Self::AllPassed(Epoch(u64::decode(input)?)),
            29 => Self::Overtake(Epoch(u64::decode(input)?)),
            30 => {
                let epoch = Epoch(u64::decode(input)?);
                Self::LetThrough(epoch, String::decode(input)?.into())
            }
            _ => return Err(DecodeError::invalid("a message about a job")),
        })
    }
}

fn encode_answer(answer: &Answer, out: &mut Vec<u8>) {
    answer.is_ok().encode(out);
    match answer {
        Ok(saved) => saved.encode(out),
        Err(error) => error.encode(out),
    }
}

fn decode_answer(input: &mut &[u8]) -> Result<Answer, DecodeError> {
    Ok(match bool::decode(input)? {
        true => Ok(Data::decode(input)?),
        false => Err(Error::decode(input)?),
    })
}

/// Decodes a number, and as many values.
fn decode_all<T>(
    input: &mut &[u8],
    mut decode: impl FnMut(&mut &[u8]) -> Result<T, DecodeError>,
) -> Result<Vec<T>, DecodeError> {
    let count = u64::decode(input)?;
    (0..count).map(|_| decode(input)).collect()
}

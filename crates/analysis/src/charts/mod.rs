//! The data of a page of charts: a watch reduced to cells, each with exact sums, and to a choice of
//! single requests. One pass and bounded memory, whatever the number of requests and the length of
//! the watch; a reader can filter and add up cells, and each sum is exact.
//!
//! | where | what |
//! |---|---|
//! | [`cells`] | sums by column of time and by what can be filtered |
//! | `sums::slots` | the numbers of devices, owners and files in cells; all further ones are one |
//! | [`points`] | requests chosen by chance, and the slowest |
//! | [`counted`] | rates of devices, as the kernel counted them |
//! | `scaled` | sums of a watch with a budget, scaled to what the kernel counted |
//! | [`flames`] | blocked time and requests by code path |
//! | `tally` | the pass over a source |
//!
//! A request counts for the process and the file that most of its bytes belong to. A cell of
//! requests stands where they completed. Where a budget left rows out, a row counts as often as it
//! stands for, and sums are scaled to the kernel's counts of their device: those of a process, a
//! file or a column are estimates then, and rates of devices are drawn from the kernel's counters.
//!
//! What does not belong here: drawing, and how the result is stored.

pub mod cells;
pub mod counted;
pub mod flames;
pub mod points;
pub(crate) mod scaled;
mod tally;
#[cfg(test)]
mod tests;

use cells::{CellKey, CellSums};
use counted::CountedCell;
use flames::FlameTree;
use iowhy_model::{Name, Operation, Origin, WaitClass};
use points::ChosenRequests;

pub use tally::ChartTally;

/// The process that requests and waits are charged to, by name, and its container.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ChartOwner {
    /// The name of the process; `None` for what the kernel made itself.
    pub process: Option<Name>,
    /// Its container or systemd unit.
    pub container: Option<Name>,
}

/// The layer of a device's requests: who submitted them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum ChartLayer {
    /// Requests that anything but the block layer submitted to the device.
    Top,
    /// Requests that a device above submitted: counted there already.
    Lower,
    /// Flushes that the kernel made to carry out other requests.
    Helper,
}

impl ChartLayer {
    /// The word that stands for it.
    pub const fn word(self) -> &'static str {
        match self {
            ChartLayer::Top => "top",
            ChartLayer::Lower => "lower",
            ChartLayer::Helper => "helper",
        }
    }
}

/// A kind of requests: their operation, origin and layer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct ChartKind {
    /// Their operation.
    pub operation: Operation,
    /// Their origin.
    pub origin: Origin,
    /// Their layer.
    pub layer: ChartLayer,
}

/// A watch as charts draw it. Numbers of devices, owners and files are positions in the lists here;
/// of owners and files the last one stands for all that are not listed.
#[derive(Clone, Debug)]
pub struct Charts {
    /// The beginning of the first column, CLOCK_MONOTONIC nanoseconds.
    pub start_ns: u64,
    /// From there to the end of the watch, nanoseconds.
    pub length_ns: u64,
    /// The width of a column, nanoseconds.
    pub column_ns: u64,
    /// The names of devices.
    pub devices: Vec<Option<Name>>,
    /// Processes with their containers; `None` stands for all further ones.
    pub owners: Vec<Option<ChartOwner>>,
    /// Paths of files; `None` stands for none or an unknown one, the last for all further ones.
    pub files: Vec<Option<Name>>,
    /// Kinds of requests.
    pub kinds: Vec<ChartKind>,
    /// Requests that ended, by column of their completion and latency.
    pub requests: Vec<(CellKey, CellSums)>,
    /// The time that requests were in flight, by column; latency and size are not distinguished.
    pub in_flight: Vec<(CellKey, CellSums)>,
    /// The time that threads of programs were blocked, by column; `kind` is a [`WaitClass`].
    pub waits: Vec<(CellKey, CellSums)>,
    /// Requests of devices as the kernel counted them, where rows stand for others.
    pub counted: Vec<CountedCell>,
    /// Single requests.
    pub chosen: ChosenRequests,
    /// Requests of which there is a record.
    pub all_requests: u64,
    /// Requests that had not ended.
    pub open_requests: u64,
    /// Whether rows stand for others that were not recorded: sums are estimates then, except for
    /// [`Charts::all_requests`].
    pub is_estimated: bool,
    /// Requests that are in no cell, since there were too many different ones.
    pub left_out: u64,
    /// Blocked time by code path, nanoseconds.
    pub blocked_flames: FlameTree,
    /// The time of requests by the code path that submitted them, nanoseconds.
    pub request_flames: FlameTree,
}

/// The class of a cell of waits.
pub fn class_of(kind: u8) -> Option<WaitClass> {
    WaitClass::ALL.get(usize::from(kind)).copied()
}

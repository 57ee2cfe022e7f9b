//! The fleet's tables: each column once, with its meaning. Rows, files and docs/fleet.md follow.
//!
//! | where | what |
//! |---|---|
//! | here | columns |
//! | [`rows`] | rows of an upload |
//! | [`file`] | Parquet files: written, read, merged |
//!
//! What does not belong here: the choice of files that count.

pub mod file;
pub mod rows;

use datafusion::arrow::datatypes::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

/// The type of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ColumnKind {
    /// Text; null where it is not known.
    Text,
    /// A whole number; null where it is not known.
    Count,
    /// Yes or no; null where it is not known.
    Flag,
    /// A time in UTC, milliseconds.
    Time,
    /// A latency histogram: bins of half an octave.
    Latency,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct FleetColumn {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ColumnKind,
    /// Its meaning, with its unit.
    pub meaning: &'static str,
}

/// A table.
#[derive(Debug)]
pub struct FleetTable {
    /// Its name.
    pub name: &'static str,
    /// The meaning of a row.
    pub row: &'static str,
    /// Its columns; `date` and `hour` come from the names of files.
    pub columns: &'static [FleetColumn],
    /// The number of the first columns by which rows are sorted.
    pub keys: usize,
}

const fn text(name: &'static str, meaning: &'static str) -> FleetColumn {
    FleetColumn { name, kind: ColumnKind::Text, meaning }
}

const fn count(name: &'static str, meaning: &'static str) -> FleetColumn {
    FleetColumn { name, kind: ColumnKind::Count, meaning }
}

const HOST: FleetColumn = text("host", "name of the host");
const HOST_ID: FleetColumn = text("host_id", "identity of the host: two may have one name");
const TIME: FleetColumn =
    FleetColumn { name: "time", kind: ColumnKind::Time, meaning: "when the ten minutes begin" };
const RACK: FleetColumn = text("rack", "what the host shares power, network or a shelf with");
const KERNEL: FleetColumn = text("kernel", "release of its kernel");
const DEVICE: FleetColumn = text("device", "kernel name of the device");
const MODEL: FleetColumn = text("model", "model of the drive");
const FIRMWARE: FleetColumn = text("firmware", "revision of its firmware");
const SERIAL: FleetColumn = text("serial", "its serial number");

/// Ten minutes of a host.
pub const HOSTS: FleetTable = FleetTable {
    name: "hosts",
    row: "ten minutes of a host",
    keys: 3,
    columns: &[
        HOST,
        HOST_ID,
        TIME,
        RACK,
        KERNEL,
        text("iowhy", "version of iowhy"),
        count("minutes", "minutes that there are figures of"),
        count("watched_ns", "what was watched, ns"),
        count("lost_requests", "requests that have no record"),
        count("cost_ns", "CPU time that recording cost, ns"),
        count("oldest_ns", "age of the oldest request in flight, ns"),
        count("pressure_some_ns", "time in which a task waited for I/O, ns"),
        count("pressure_full_ns", "time in which every task with work to do waited for I/O, ns"),
        count("drives", "drives of the host"),
        count("clock_skew_s", "the store's clock minus the host's when it was sent, s"),
    ],
};

/// Requests of a device and operation.
pub const FLOWS: FleetTable = FleetTable {
    name: "flows",
    row: "ten minutes of a device and operation",
    keys: 5,
    columns: &[
        HOST,
        HOST_ID,
        TIME,
        DEVICE,
        text("operation", "`read`, `write`, `flush`, `discard`"),
        RACK,
        KERNEL,
        MODEL,
        FIRMWARE,
        SERIAL,
        count("size_bytes", "size of the drive, bytes"),
        FleetColumn {
            name: "rotational",
            kind: ColumnKind::Flag,
            meaning: "whether the drive rotates",
        },
        count("watched_ns", "what was watched, ns"),
        count("requests", "requests that completed"),
        count("bytes", "their bytes"),
        count("time_ns", "their time from queueing to completion, from the histogram, ns"),
        count("p50_ns", "what half of them took at most, ns"),
        count("p99_ns", "what 99 % of them took at most, ns"),
        count("max_ns", "the longest, ns"),
        FleetColumn {
            name: "latency",
            kind: ColumnKind::Latency,
            meaning: "how many took how long: `from_ns`, the bin's shortest time, and `requests`",
        },
    ],
};

/// Blocked time by wait class.
pub const BLOCKED: FleetTable = FleetTable {
    name: "blocked",
    row: "ten minutes of a wait class on a host",
    keys: 4,
    columns: &[
        HOST,
        HOST_ID,
        TIME,
        text("class", "wait class"),
        RACK,
        KERNEL,
        count("time_ns", "blocked time of all threads, ns"),
    ],
};

/// Requests by container.
pub const CONTAINERS: FleetTable = FleetTable {
    name: "containers",
    row: "ten minutes of a container, unit or cgroup",
    keys: 4,
    columns: &[
        HOST,
        HOST_ID,
        TIME,
        text("container", "container, unit or cgroup"),
        RACK,
        count("requests", "its requests"),
        count("bytes", "their bytes"),
        count("time_ns", "their time from queueing to completion, ns"),
    ],
};

/// Findings.
pub const FINDINGS: FleetTable = FleetTable {
    name: "findings",
    row: "a finding at warning or above within ten minutes",
    keys: 6,
    columns: &[
        HOST,
        HOST_ID,
        TIME,
        text("cause", "id of the cause"),
        DEVICE,
        text("process", "the process"),
        text("severity", "`warning` or `critical`"),
        RACK,
        KERNEL,
        MODEL,
        FIRMWARE,
        SERIAL,
        count("minutes", "minutes that had it"),
    ],
};

/// Writers: bytes and calls by program and file.
pub const WRITERS: FleetTable = FleetTable {
    name: "writers",
    row: "ten minutes of a program, container, file and device",
    keys: 9,
    columns: &[
        HOST,
        HOST_ID,
        TIME,
        DEVICE,
        text(
            "kind",
            "`program`; `others` beyond the rows that are kept; `unknown`: dirty before the \
             watch; `unseen`: counted by the kernel and in no record",
        ),
        text("program", "the program"),
        text("container", "its container, unit or cgroup"),
        text("file", "the file, with N for numbers; `(journal)` and its like are none"),
        FleetColumn {
            name: "below",
            kind: ColumnKind::Flag,
            meaning: "whether a device above it counts the same bytes",
        },
        RACK,
        KERNEL,
        MODEL,
        SERIAL,
        count("asked_bytes", "bytes that write calls wrote"),
        count("asked_calls", "write calls"),
        count("syncs", "calls that make data durable"),
        count("data_bytes", "bytes of the file that the device wrote"),
        count("journal_bytes", "bytes of the file system's journal that it caused"),
        count("metadata_bytes", "bytes of the file system's own blocks that it caused"),
        count("discarded_bytes", "bytes discarded"),
        count("read_bytes", "bytes that the device read"),
        count("requests", "requests of the device"),
        count("wakes", "how often it woke the device after a minute without a request"),
    ],
};

/// Incidents.
pub const INCIDENTS: FleetTable = FleetTable {
    name: "incidents",
    row: "an incident with the finding that came first",
    keys: 4,
    columns: &[
        HOST,
        HOST_ID,
        FleetColumn { name: "time", kind: ColumnKind::Time, meaning: "when it was triggered" },
        count("number", "its number on the host"),
        FleetColumn {
            name: "until",
            kind: ColumnKind::Time,
            meaning: "until when there is a recording",
        },
        RACK,
        text("kind", "kind of its trigger"),
        text("reason", "why it was kept"),
        text("cause", "id of the cause"),
        text("severity", "`info`, `warning` or `critical`"),
        text("confidence", "`possible`, `likely` or `certain`"),
        text("sentence", "the finding in one sentence"),
        DEVICE,
        text("process", "the process"),
        text("container", "the container"),
        text("file", "the file"),
        text("fix", "what to do"),
        text("recording", "name of its recording in the store"),
    ],
};

/// Every table.
pub const TABLES: [&FleetTable; 7] =
    [&HOSTS, &FLOWS, &BLOCKED, &CONTAINERS, &WRITERS, &FINDINGS, &INCIDENTS];

/// The table of this name.
pub fn table(name: &str) -> Option<&'static FleetTable> {
    TABLES.into_iter().find(|table| table.name == name)
}

/// A bin of a histogram as columns have it.
pub fn bin_fields() -> Fields {
    let count = |name: &str| Field::new(name, DataType::Int64, false);
    Fields::from(vec![count("from_ns"), count("requests")])
}

/// The type of a histogram.
pub fn latency_type() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Struct(bin_fields()), true)))
}

impl ColumnKind {
    /// Its Arrow type.
    pub fn data_type(self) -> DataType {
        match self {
            ColumnKind::Text => DataType::Utf8,
            ColumnKind::Count => DataType::Int64,
            ColumnKind::Flag => DataType::Boolean,
            ColumnKind::Time => DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            ColumnKind::Latency => latency_type(),
        }
    }
}

impl FleetTable {
    /// The columns that its files have.
    pub fn file_schema(&self) -> SchemaRef {
        let field = |fleet_column: &FleetColumn| {
            Field::new(fleet_column.name, fleet_column.kind.data_type(), true)
        };
        Arc::new(Schema::new(self.columns.iter().map(field).collect::<Vec<_>>()))
    }

    /// The columns that come from the names of its files.
    pub fn partition_fields() -> Vec<Arc<Field>> {
        let field = |name, kind| Arc::new(Field::new(name, kind, false));
        vec![field("date", DataType::Date32), field("hour", DataType::Int32)]
    }

    /// All columns, as SQL has them.
    pub fn schema(&self) -> SchemaRef {
        let files = self.file_schema();
        let fields = files.fields().iter().cloned().chain(Self::partition_fields());
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

/// The tables and their columns, as docs/fleet.md has them.
pub fn reference() -> String {
    let mut text = String::new();
    for table in TABLES {
        text +=
            &format!("`{}`: a row is {}.\n\n| column | what |\n|---|---|\n", table.name, table.row);
        for column in table.columns {
            text += &format!("| `{}` | {} |\n", column.name, column.meaning);
        }
        text.push('\n');
    }
    text
}

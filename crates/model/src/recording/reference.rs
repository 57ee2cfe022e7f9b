//! The page that documents a recording, made from the definitions that write and read it.
//!
//! What does not belong here: descriptions of columns and fields, which are at their definitions.

use super::tables::{TABLES, TableInfo};
use crate::Metric;
use crate::cgroup::Cgroup;
use crate::environment::{
    Cost, Device, Environment, ExactCount, FORMAT, Mount, SettingChange, Thinning,
};
use crate::health::{
    ArrayState, BcacheState, CommandCounts, DeviceHealth, DriveLog, HostMessage, KernelMessage,
    MappedTarget, MultipathPath, NvmeHealth, PowerState, SataLink, VolumeStatistics,
};
use crate::loss::{Loss, Losses};
use crate::metric::Shape;
use crate::object::Field;
use crate::table::ColumnInfo;

/// Returns `docs/recording.md`: every table with its columns, and the content of `recording.json`.
pub fn reference() -> String {
    let mut page = INTRODUCTION.replace("{format}", &FORMAT.to_string());
    TABLES.iter().for_each(|info| table(info, &mut page));
    metrics(&mut page);
    page += "## recording.json\n";
    for (title, fields) in [
        ("The recording", Environment::FIELDS),
        ("`Device`", Device::FIELDS),
        ("`SettingChange`", SettingChange::FIELDS),
        ("`DeviceHealth`", DeviceHealth::FIELDS),
        ("`NvmeHealth`", NvmeHealth::FIELDS),
        ("`PowerState`", PowerState::FIELDS),
        ("`DriveLog`", DriveLog::FIELDS),
        ("`VolumeStatistics`", VolumeStatistics::FIELDS),
        ("`CommandCounts`", CommandCounts::FIELDS),
        ("`SataLink`", SataLink::FIELDS),
        ("`ArrayState`", ArrayState::FIELDS),
        ("`MappedTarget`", MappedTarget::FIELDS),
        ("`MultipathPath`", MultipathPath::FIELDS),
        ("`BcacheState`", BcacheState::FIELDS),
        ("`KernelMessage`", KernelMessage::FIELDS),
        ("`HostMessage`", HostMessage::FIELDS),
        ("`Mount`", Mount::FIELDS),
        ("`Cgroup`", Cgroup::FIELDS),
        ("`Losses`", Losses::FIELDS),
        ("`Loss`", Loss::FIELDS),
        ("`Cost`", Cost::FIELDS),
        ("`Thinning`", Thinning::FIELDS),
        ("`ExactCount`", ExactCount::FIELDS),
    ] {
        object(title, fields, &mut page);
    }
    page
}

const INTRODUCTION: &str = "\
# What a recording holds

<!-- Made from the definitions in crates/model; a test compares. Do not edit. -->

`iowhy record -o DIR` writes a directory that its owner alone may read: `recording.json`, and one
folder of Parquet segments for each table. DuckDB, pandas, Polars and Spark read it as it is:

```sql
SELECT device, operation, count(*), quantile_cont(q2c_ns, 0.99) / 1e6 AS p99_ms
FROM 'DIR/requests/*.parquet' GROUP BY ALL ORDER BY p99_ms DESC;

SELECT file, sum(part.bytes) AS bytes, sum(q2c_ns * part.bytes / request.bytes) / 1e9 AS seconds
FROM 'DIR/requests/*.parquet' AS request
JOIN 'DIR/request_parts/*.parquet' AS part USING (request_id)
WHERE request.bytes > 0
GROUP BY file ORDER BY seconds DESC LIMIT 20;
```

- This is format {format}. Column names stand, and more may be added; a recording of an older format
  stays readable. A reader refuses a newer format by its number in `recording.json`. A word that is
  new in a column of fixed words (`origin`, for one) makes a new format too.
- Segment N of every table was ended at the same time, every few seconds. A segment gets its name
  once it is whole, so what is there is complete; a crash loses the last seconds. The parts of
  segment N of `requests` are in segment N of `request_parts`, in the same order.
- Integers are signed 64-bit. Times are nanoseconds of CLOCK_MONOTONIC; add `realtime_offset_ns` of
  `recording.json` for nanoseconds since 1970. A sector is 512 bytes.
- Null means not known or not applicable, never zero. A *censored* request (`status`) had begun
  before the watch or had not ended with it: its times are lower bounds.
- Texts are what the kernel and programs gave, with control characters as they were: escape them
  before they reach a terminal.
- Each segment carries the sentences below as key-value metadata (`SELECT * FROM
  parquet_kv_metadata('DIR/requests/*.parquet')`), and behind its first four bytes a checksum, by
  which iowhy tells a damaged segment from a whole one.

";

fn table(info: &TableInfo, page: &mut String) {
    let TableInfo { name, sentence, columns } = info;
    *page += &format!("## {name}\n\n{}\n\n", joined(sentence));
    *page += "| column | type | unit | null | meaning |\n|---|---|---|---|---|\n";
    for ColumnInfo { name, kind, nullable, unit, sentence } in *columns {
        let (kind, unit) = (kind.sql(), unit.symbol());
        let null = if *nullable { "yes" } else { "" };
        *page += &format!("| `{name}` | {kind} | {unit} | {null} | {} |\n", cell(sentence));
    }
    page.push('\n');
}

fn object(title: &str, fields: &[Field], page: &mut String) {
    *page += &format!("\n### {title}\n\n| field | type | meaning |\n|---|---|---|\n");
    for Field { name, kind, sentence } in fields {
        *page += &format!("| `{name}` | {} | {} |\n", json(kind), cell(&joined(sentence)));
    }
}

/// A comment's lines as one, without its links to code.
fn joined(comment: &str) -> String {
    let words = comment.split_whitespace().collect::<Vec<_>>().join(" ");
    words.replace("[`", "`").replace("`]", "`")
}

/// A text as it may be in a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Returns the name of a Rust type in JSON.
fn json(kind: &str) -> String {
    let inside = |outer: &str| kind.strip_prefix(outer)?.strip_suffix('>');
    if let Some(value) = inside("Shared<") {
        return json(value);
    }
    match kind {
        "String" => "text".to_owned(),
        "bool" => "true or false".to_owned(),
        "u32" | "u64" | "i64" => "integer".to_owned(),
        "(u64, u64)" => "[integer, integer]".to_owned(),
        "BTreeMap<String, String>" => "object of texts".to_owned(),
        other => match (inside("Vec<"), inside("Option<")) {
            (Some(item), _) => format!("list of {}", json(item)),
            (_, Some(value)) => format!("{} or null", json(value)),
            _ => format!("`{other}`"),
        },
    }
}

/// Writes the list of metrics, the values of the column `metric` of `samples`.
fn metrics(page: &mut String) {
    *page += "## Metrics\n\nThe metrics of `samples`. A counter is the kernel's count since it was \
              booted; a gauge is the value at that time.\n\n| scope | metric | shape | unit | \
              meaning |\n|---|---|---|---|---|\n";
    for metric in Metric::ALL {
        let info = metric.info();
        let shape = match info.shape {
            Shape::Counter => "counter",
            Shape::Gauge => "gauge",
        };
        let (scope, unit) = (info.scope.word(), info.unit.symbol());
        *page += &format!("| {scope} | `{}` | {shape} | {unit} | {} |\n", info.word, info.sentence);
    }
    *page += "\n";
}

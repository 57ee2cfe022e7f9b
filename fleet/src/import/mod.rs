//! `iowhy-fleet import`: time series of drives that other programs recorded, as tables of a fleet:
//! CSV and Parquet files with named columns. Data that they lack is null, and drives of one host
//! are siblings if models are not known.
//!
//! | where | what |
//! |---|---|
//! | here | which column is what |
//! | [`files`] | rows of files |
//! | [`samples`] | samples become windows of ten minutes |
//!
//! What does not belong here: judging drives.

mod files;
mod samples;

use crate::error::{FleetError, Result};
use crate::store::Place;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Texts of a row, in the order of a series' identity.
const TEXTS: [&str; 8] =
    ["host", "device", "model", "firmware", "serial", "rack", "kernel", "operation"];
/// Numbers of a row.
const NUMBERS: [&str; 9] = [
    "time",
    "requests",
    "requests_per_s",
    "bytes",
    "bytes_per_s",
    "latency_s",
    "latency_ms",
    "latency_us",
    "latency_ns",
];
/// Parts of the name of a text.
const MOST_PARTS: usize = 8;

/// The source of a part of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ValuePart {
    /// The column of this name.
    Column(String),
    /// The text itself, the same for all rows.
    Text(String),
    /// The name of the folder so many levels above the file.
    Folder(usize),
}

impl ValuePart {
    fn parse(text: &str) -> Result<ValuePart> {
        let wrong = || {
            FleetError::new(format!("{text:?} is no column, @TEXT or /NUMBER"))
                .hint("--map host=node --map model=@ACME --map rack=/2")
        };
        match text.split_at_checked(1) {
            Some(("@", rest)) => Ok(ValuePart::Text(rest.to_owned())),
            Some(("/", rest)) => match rest.parse() {
                Ok(level) if (1..=MOST_PARTS).contains(&level) => Ok(ValuePart::Folder(level)),
                _ => Err(wrong()),
            },
            Some(_) => Ok(ValuePart::Column(text.to_owned())),
            None => Err(wrong()),
        }
    }
}

/// The column or text of each name.
#[derive(Clone, Debug)]
pub struct ColumnMapping {
    given: HashMap<&'static str, Vec<ValuePart>>,
    every_s: i64,
    request_bytes: u64,
}

impl ColumnMapping {
    /// Parses the command line: `NAME=COLUMN`, the time between samples in seconds, and the bytes
    /// of a request where only throughput is known.
    ///
    /// # Errors
    /// Fails if a name is not known, or a text is no column.
    pub fn from_args(map: &[String], every_s: i64, request_bytes: u64) -> Result<ColumnMapping> {
        let mut given = HashMap::new();
        for text in map {
            let name =
                |name: &str| TEXTS.iter().chain(&NUMBERS).copied().find(|known| *known == name);
            let (left, right) = text.split_once('=').unwrap_or((text, ""));
            let Some(name) = name(left) else {
                let names: Vec<&str> = TEXTS.iter().chain(&NUMBERS).copied().collect();
                return Err(FleetError::new(format!("--map {text:?}: there is no {left:?}"))
                    .hint(format!("one of {}", names.join(", "))));
            };
            let parts = right.split(',').map(ValuePart::parse).collect::<Result<Vec<_>>>()?;
            if parts.len() > 1 && NUMBERS.contains(&name) {
                return Err(FleetError::new(format!("--map {text:?}: {name} is one column")));
            }
            given.insert(name, parts);
        }
        match (every_s, request_bytes) {
            (1..=600, 1..) => Ok(ColumnMapping { given, every_s, request_bytes }),
            (_, 0) => Err(FleetError::new("--request-bytes is at least 1")),
            _ => Err(FleetError::new("--every is from 1s to 10m")),
        }
    }
}

/// The columns from which the values of one file's rows are made.
#[derive(Debug)]
struct FileColumns {
    /// For each of [`TEXTS`] its parts, each a column's place or a text.
    texts: Vec<Vec<std::result::Result<usize, String>>>,
    /// The column of each of [`NUMBERS`].
    numbers: [Option<usize>; NUMBERS.len()],
}

impl FileColumns {
    /// Finds the columns in a file with these columns.
    fn new(mapping: &ColumnMapping, path: &Path, columns: &[String]) -> Result<FileColumns> {
        let place = |name: &str| columns.iter().position(|column| column == name);
        let missing = |name: &str| {
            FleetError::new(format!("{} has no column {name:?}", path.display()))
                .hint(format!("its columns are {}", columns.join(", ")))
        };
        let part = |part: &ValuePart| match part {
            ValuePart::Column(name) => place(name).map(Ok).ok_or_else(|| missing(name)),
            ValuePart::Text(text) => Ok(Err(text.clone())),
            ValuePart::Folder(level) => {
                let name = path.ancestors().nth(*level).and_then(Path::file_name);
                let none = || FleetError::new(format!("{} has no folder /{level}", path.display()));
                Ok(Err(name.ok_or_else(none)?.to_string_lossy().into_owned()))
            }
        };
        let mut texts = Vec::new();
        for name in TEXTS {
            texts.push(match mapping.given.get(name) {
                Some(parts) => parts.iter().map(part).collect::<Result<Vec<_>>>()?,
                None => place(name).map(Ok).into_iter().collect(),
            });
        }
        let mut numbers = [None; NUMBERS.len()];
        for (number, name) in numbers.iter_mut().zip(NUMBERS) {
            *number = match mapping.given.get(name).map(Vec::as_slice) {
                Some([ValuePart::Column(column)]) => {
                    Some(place(column).ok_or_else(|| missing(column))?)
                }
                Some(_) => return Err(FleetError::new(format!("{name} is a column"))),
                None => place(name),
            };
        }
        let columns = FileColumns { texts, numbers };
        columns.check(path)?;
        Ok(columns)
    }

    fn check(&self, path: &Path) -> Result<()> {
        let has = |name: &str| {
            let at = NUMBERS.iter().position(|known| *known == name);
            at.is_some_and(|at| self.numbers[at].is_some())
        };
        let needs = |what: &str| {
            let message = format!("{}: it is not known which column is the {what}", path.display());
            Err(FleetError::new(message).hint("--map NAME=COLUMN; iowhy-fleet import --help"))
        };
        if !has("time") {
            return needs("time");
        }
        if self.texts[0].is_empty() || self.texts[1].is_empty() {
            return needs(if self.texts[0].is_empty() { "host" } else { "device" });
        }
        if !NUMBERS[1..5].iter().any(|name| has(name)) {
            return needs("requests or bytes (requests_per_s, bytes_per_s)");
        }
        match NUMBERS[5..].iter().any(|name| has(name)) {
            true => Ok(()),
            false => needs("latency (latency_s, latency_ms, latency_us, latency_ns)"),
        }
    }
}

/// The counts of imported and skipped samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Files that were read.
    pub files: u64,
    /// Samples that were taken.
    pub samples: u64,
    /// Samples without a latency or without requests, which cannot be compared.
    pub empty: u64,
    /// Samples that were read before.
    pub doubled: u64,
    /// Rows that could not be read.
    pub broken: u64,
    /// Drives.
    pub drives: u64,
    /// Hosts.
    pub hosts: u64,
    /// Hours that were written.
    pub hours: u64,
}

impl ImportReport {
    /// The report as a person reads it.
    pub fn text(&self) -> String {
        format!(
            "{} samples of {} files: {} hosts, {} drives, {} hours\n\
             left out: {} without latency or requests, {} doubled, {} that cannot be read\n",
            self.samples,
            self.files,
            self.hosts,
            self.drives,
            self.hours,
            self.empty,
            self.doubled,
            self.broken
        )
    }
}

/// Imports files, and those in directories. Hours that the place has already are not changed.
///
/// # Errors
/// Fails if a file cannot be read or lacks a column, if the files are empty, or if the store fails
/// or has an hour already.
pub async fn import(
    place: &Place,
    paths: &[PathBuf],
    mapping: &ColumnMapping,
) -> Result<ImportReport> {
    let (paths, mapping) = (paths.to_vec(), mapping.clone());
    let read = tokio::task::spawn_blocking(move || {
        let mut windows = samples::SampleWindows::new(&mapping);
        for path in files::find(&paths)? {
            files::read(&path, &mapping, &mut windows)?;
        }
        Ok::<_, FleetError>(windows)
    });
    let windows = read.await.map_err(|error| FleetError::new(error.to_string()))??;
    windows.write(place).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FleetStores, StoreOptions};

    fn mapping(map: &[&str]) -> Result<ColumnMapping> {
        let map: Vec<String> = map.iter().map(|text| (*text).to_owned()).collect();
        ColumnMapping::from_args(&map, 15, 16_384)
    }

    #[test]
    fn a_wrong_mapping_says_what_is_wrong() {
        for (map, word) in
            [("hots=x", "hots"), ("host=", "column"), ("host=/0", "/0"), ("time=a,b", "one column")]
        {
            let error = mapping(&[map]).unwrap_err().to_string();
            assert!(error.contains(word), "{map}: {error}");
        }
        let columns: Vec<String> = ["ts", "disk"].iter().map(|name| (*name).to_owned()).collect();
        let all = ["time=ts", "host=@h", "device=disk"];
        for count in 0..all.len() {
            let mapping = mapping(&all[..count]).unwrap();
            assert!(FileColumns::new(&mapping, Path::new("a/b.csv"), &columns).is_err());
        }
    }

    #[tokio::test]
    async fn gaps_doubles_and_other_units_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let of_host = folder.path().join("rack7/h1");
        std::fs::create_dir_all(&of_host).unwrap();
        let mut text = "when,disk,rate,\"lat (ms)\"\n".to_owned();
        for sample in 0..240 {
            let time_s = 1_763_942_400 + 15 * (sample + 1);
            text += &format!("{time_s},sda,1638400,2.0\n");
            if sample == 100 {
                text += &format!("{time_s},sda,1638400,9.0\nnever,sda,1,1\n{time_s},sdb,NA,3\n");
                text += "\n1,2\n";
            }
        }
        std::fs::write(of_host.join("day.csv"), &text).unwrap();
        let store = folder.path().join("store");
        std::fs::create_dir(&store).unwrap();
        let stores = FleetStores::new(StoreOptions::default());
        let place = stores.place(store.to_str().unwrap()).unwrap();
        let map =
            ["time=when", "device=disk", "bytes_per_s=rate", "latency_ms=lat (ms)", "host=/2,/1"];
        let paths = [folder.path().join("rack7")];
        let report = import(&place, &paths, &mapping(&map).unwrap()).await.unwrap();
        assert_eq!((report.samples, report.hours, report.drives), (240, 1, 1), "{report:?}");
        assert_eq!((report.doubled, report.empty, report.broken), (1, 1, 2), "{report:?}");
        // Again: the hour exists already.
        assert!(import(&place, &paths, &mapping(&map).unwrap()).await.is_err());
    }
}

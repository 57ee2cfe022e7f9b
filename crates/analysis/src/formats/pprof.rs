//! A profile for `pprof`, Pyroscope, Grafana and others: where threads waited for storage, and how
//! long requests took, by stack.
//!
//! It is written without gzip, which every reader of the format takes as well.
//!
//! What does not belong here: folded stacks (see [`super::collapsed`]).

use super::export::{Exported, Exporter};
use super::stacks::{KeptStacks, MOST};
use crate::summary::Measure;
use crate::sums::request_times::Life;
use iowhy_model::bounded_map::CappedMap;
use iowhy_model::source::Batch;
use iowhy_model::{Environment, Name, Names, Request, Wait};
use prost::Message;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// A profile, with the field numbers of its published definition (google/pprof, profile.proto).
#[derive(Clone, PartialEq, Message)]
struct Profile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<ProfileSample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

/// The type and unit of a value, by their places in the table of strings.
#[derive(Clone, Copy, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ProfileSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<SampleLabel>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct SampleLabel {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<LocationLine>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct LocationLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

/// The values of every sample, in this order: type and unit.
const VALUES: [(&str, &str); 4] = [
    ("waits", "count"),
    ("blocked", "nanoseconds"),
    ("requests", "count"),
    ("request_time", "nanoseconds"),
];

/// A sample's process, stacks and device, and for waits their class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct SampleKey {
    process: Option<Name>,
    kernel: Option<u64>,
    user: Option<u64>,
    device: Option<Name>,
    class: Option<&'static str>,
}

/// Collects samples; the profile is written at the end.
#[derive(Debug, Default)]
pub struct Pprof {
    stacks: KeptStacks,
    sums: CappedMap<SampleKey, [u64; VALUES.len()], MOST>,
    waits: u64,
    time_nanos: i64,
    duration_nanos: i64,
    exported: Exported,
}

impl Pprof {
    fn add(&mut self, key: SampleKey, at: usize, sum: Measure) {
        if key.kernel.is_none() && key.user.is_none() {
            return;
        }
        let Some(sums) = self.sums.or_default(key) else {
            let meaning = "rows with one of too many different stacks";
            self.exported.left_out.add("stacks", 1, meaning, false);
            return;
        };
        self.exported.rows += 1;
        for (place, value) in [(at, sum.count), (at + 1, sum.time_ns)] {
            if let Some(sum) = sums.get_mut(place) {
                *sum = sum.saturating_add(value);
            }
        }
    }

    fn wait(&mut self, wait: &Wait) {
        let key = SampleKey {
            process: wait.process,
            kernel: wait.stack_id,
            user: wait.user_stack_id,
            device: wait.device,
            class: Some(wait.main_class().word()),
        };
        self.waits += 1;
        self.add(key, 0, Measure::for_wait(wait, wait.duration_ns));
    }

    fn request(&mut self, request: &Request) {
        let whole_ns = Life::from_request(request).whole_ns.unwrap_or(0);
        let of_stack = u64::from(request.stack_weight.max(1));
        let sum = Measure::for_request(request, whole_ns).times(of_stack);
        let key = SampleKey {
            process: request.process,
            kernel: request.stack_id,
            user: request.user_stack_id,
            device: Some(request.device),
            class: None,
        };
        self.add(key, 2, sum);
    }
}

/// The tables of a profile that is being made.
#[derive(Default)]
struct ProfileTables {
    strings: Vec<String>,
    places: FxHashMap<String, i64>,
    functions: FxHashMap<String, u64>,
    profile: Profile,
}

impl ProfileTables {
    fn string(&mut self, text: &str) -> i64 {
        if self.strings.is_empty() {
            // The first is empty by definition.
            self.strings.push(String::new());
            self.places.insert(String::new(), 0);
        }
        if let Some(place) = self.places.get(text) {
            return *place;
        }
        let place = self.strings.len() as i64;
        self.strings.push(text.to_owned());
        self.places.insert(text.to_owned(), place);
        place
    }

    /// The location of a function; each function has one.
    fn location(&mut self, name: &str) -> u64 {
        if let Some(id) = self.functions.get(name) {
            return *id;
        }
        let id = self.functions.len() as u64 + 1;
        self.functions.insert(name.to_owned(), id);
        let name = self.string(name);
        self.profile.function.push(Function { id, name, system_name: name });
        let line = vec![LocationLine { function_id: id }];
        self.profile.location.push(Location { id, line });
        id
    }

    fn value_type(&mut self, (kind, unit): (&str, &str)) -> ValueType {
        ValueType { kind: self.string(kind), unit: self.string(unit) }
    }

    fn label(&mut self, key: &str, text: &str) -> SampleLabel {
        SampleLabel { key: self.string(key), str: self.string(text) }
    }
}

impl Exporter for Pprof {
    fn begin(&mut self, environment: &Environment, _out: &mut dyn Write) -> io::Result<()> {
        let start = i128::from(environment.start_ns) + i128::from(environment.realtime_offset_ns);
        self.time_nanos = i64::try_from(start).unwrap_or(0);
        let length = environment.end_ns.saturating_sub(environment.start_ns);
        self.duration_nanos = i64::try_from(length).unwrap_or(0);
        Ok(())
    }

    fn take(&mut self, batch: &Batch, _names: &Names, _out: &mut dyn Write) -> io::Result<()> {
        self.stacks.take(batch, &mut self.exported.left_out);
        batch.waits.iter().for_each(|wait| self.wait(wait));
        batch.requests.iter().for_each(|request| self.request(request));
        Ok(())
    }

    fn finish(&mut self, names: &Names, out: &mut dyn Write) -> io::Result<Exported> {
        let mut tables = ProfileTables::default();
        tables.string("");
        tables.profile.sample_type = VALUES.iter().map(|value| tables.value_type(*value)).collect();
        let most = if self.waits > 0 { "blocked" } else { "request_time" };
        tables.profile.default_sample_type = tables.string(most);
        tables.profile.period_type = Some(tables.value_type(("events", "count")));
        tables.profile.period = 1;
        for (key, sums) in self.sums.iter() {
            let mut location_id = Vec::new();
            for id in [key.kernel, key.user].into_iter().flatten() {
                match self.stacks.get(id) {
                    None => location_id.push(tables.location("[unknown stack]")),
                    Some(frames) => {
                        for frame in frames {
                            location_id.push(tables.location(names.get(*frame)));
                        }
                    }
                }
            }
            let mut label = Vec::new();
            let named = [("process", key.process), ("device", key.device)];
            for (word, name) in named {
                label.extend(name.map(|name| tables.label(word, names.get(name))));
            }
            label.extend(key.class.map(|class| tables.label("class", class)));
            let value = sums.iter().map(|sum| i64::try_from(*sum).unwrap_or(i64::MAX)).collect();
            tables.profile.sample.push(ProfileSample { location_id, value, label });
        }
        if self.exported.rows == 0 {
            self.exported.notes.push(
                "nothing has a stack: a watch takes them unless --stacks is 0; imported captures \
                 have none"
                    .to_owned(),
            );
        }
        tables.profile.string_table = tables.strings;
        tables.profile.time_nanos = self.time_nanos;
        tables.profile.duration_nanos = self.duration_nanos;
        out.write_all(&tables.profile.encode_to_vec())?;
        Ok(std::mem::take(&mut self.exported))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_model::table::Table;
    use iowhy_model::{Stack, WaitClass};

    #[test]
    fn waits_are_samples_with_their_stacks() {
        let (mut names, mut batch) = (Names::new(), Batch::default());
        let frames = ["jbd2_log_wait_commit", "ext4_sync_file"].map(|name| names.intern(name));
        batch.stacks.push(Stack { stack_id: 1, frames: frames.to_vec(), ..Table::blank() });
        let wait = Wait {
            class: WaitClass::JournalCommit,
            duration_ns: 5_000_000,
            stack_id: Some(1),
            process: Some(names.intern("db")),
            weight: Some(3),
            ..Table::blank()
        };
        batch.waits.extend([wait.clone(), wait]);
        let (mut format, mut bytes) = (Pprof::default(), Vec::new());
        format.take(&batch, &names, &mut bytes).unwrap();
        assert_eq!(format.finish(&names, &mut bytes).unwrap().rows, 2);
        let profile = Profile::decode(bytes.as_slice()).unwrap();
        let text = |place: i64| profile.string_table[place as usize].as_str();
        let kinds: Vec<&str> = profile.sample_type.iter().map(|kind| text(kind.kind)).collect();
        assert_eq!(kinds, ["waits", "blocked", "requests", "request_time"]);
        let [sample] = &profile.sample[..] else { panic!("{:?}", profile.sample) };
        assert_eq!(sample.value, [6, 30_000_000, 0, 0]);
        let named = |id: &u64| text(profile.function[*id as usize - 1].name);
        let frames: Vec<&str> = sample.location_id.iter().map(named).collect();
        assert_eq!(frames, ["jbd2_log_wait_commit", "ext4_sync_file"]);
        let labels: Vec<&str> = sample.label.iter().map(|label| text(label.str)).collect();
        assert_eq!(labels, ["db", "journal_commit"]);
    }
}

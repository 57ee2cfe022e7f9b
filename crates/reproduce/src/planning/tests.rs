//! Scripted watches with known loads, and the plans that they give.

use super::{PlanSource, plan};
use crate::plan::{JobEngine, LoadPlan, PlannedJob, PlannedStep, SyncCall};
use crate::streams::LoadStreams;
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::diagnose;
use iowhy_model::Origin;
use iowhy_model::file::Counts;
use iowhy_model::script::Script;

const MS: u64 = 1_000_000;
/// x86_64's numbers.
const FDATASYNC: u32 = 75;
const IO_SUBMIT: u32 = 209;

fn planned(script: &Script, keep_names: bool) -> LoadPlan {
    let summary = script.summary();
    let diagnosis = diagnose(&summary);
    let mut streams = LoadStreams::default();
    streams.add(&script.batch, &script.names, &script.environment);
    let (names, streams) = (&script.names, &streams);
    plan(&PlanSource { streams, names, summary: &summary, diagnosis: &diagnosis, keep_names })
}

fn jobs(plan: &LoadPlan) -> Vec<&PlannedJob> {
    plan.programs.iter().flat_map(|program| &program.jobs).collect()
}

/// Random reads of the device, four at a time, all the time.
fn four_at_a_time() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[("queue/scheduler", "none [mq-deadline]")]);
    for index in 0..4000_u64 {
        let read = script.read("sda", 4096).by(7, "secret").file("/dev/sda").call(IO_SUBMIT);
        let read = read.sector(index * 7919 % 100_000 * 8).at((index / 4 * 10 * MS) as i64);
        read.stacks(&["blkdev_direct_IO"], &[], 1).direct(0, 0, 10 * MS).add();
    }
    script
}

#[test]
fn depth_engine_and_order_are_the_original_s() {
    let plan = planned(&four_at_a_time(), false);
    let jobs = jobs(&plan);
    assert_eq!(jobs.len(), 1, "{plan:#?}");
    let job = jobs[0];
    assert!(job.direct && job.raw && job.random, "{job:#?}");
    assert_eq!((job.engine, job.depth, job.threads), (JobEngine::Libaio, 4, 1));
    assert_eq!((job.read_percent, job.think_us), (100, 0.0));
    assert_eq!(job.read_sizes, [(4096, 100)]);
    assert_eq!(plan.disks[0].settings["scheduler"], "mq-deadline");
    assert_eq!((plan.disks.len(), plan.seconds), (1, 10));
}

#[test]
fn names_are_kept_only_when_asked() {
    let text = |keep| serde_json::to_string(&planned(&four_at_a_time(), keep)).unwrap();
    assert!(!text(false).contains("secret") && !text(false).contains("sda"), "{}", text(false));
    assert!(text(true).contains("secret") && text(true).contains("sda"));
}

/// A log of 100 writes a second, each with a sync of 4 ms.
fn log() -> Script {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    for index in 0..1000_u64 {
        let at = index * 10 * MS;
        let write = script.write("sda", 4096).by(7, "db").origin(Origin::Writeback);
        let write = write.call(FDATASYNC).sector(index * 8).at(at as i64);
        let request = write.file("/db/log").direct(0, 0, 3 * MS).add();
        let sleep = script.sleep((7, "db"), at, 4 * MS).call(FDATASYNC).file("/db/log");
        sleep.device("sda").requests(&[request]).add();
    }
    let counts = Counts { writes: 1000, write_bytes: 4_096_000, fsyncs: 1000, ..Counts::default() };
    let device = script.names.intern("sda");
    script.did((7, "db"), "/db/log", counts).device = Some(device);
    script
}

#[test]
fn a_log_syncs_and_pauses_as_the_original() {
    let plan = planned(&log(), false);
    let jobs = jobs(&plan);
    assert_eq!(jobs.len(), 1, "{plan:#?}");
    let job = jobs[0];
    let sync = job.sync.unwrap();
    assert_eq!((sync.call, sync.writes), (SyncCall::Fdatasync, 1));
    assert!(!job.direct && job.threads == 1, "{job:#?}");
    // 10 ms for each, of which 4 ms are waited.
    let pause = job.think_us / job.think_after as f64;
    assert!((5_500.0..6_500.0).contains(&pause), "{job:#?}");
    assert_eq!(job.per_s, 100.0);
}

#[test]
fn files_that_come_and_go_are_a_step_of_their_own() {
    let mut script = Script::new(10);
    script.device("sda", &[]);
    script.write("sda", 4096).by(7, "app").file("/tmp/1/2.txt").direct(0, 0, MS).add();
    for round in 0..20 {
        let file = format!("/tmp/{round}/N.txt");
        let counts = Counts {
            creates: 50,
            unlinks: 50,
            writes: 50,
            write_bytes: 50 * 10_000,
            read_bytes: 50 * 10_000,
            reads: 50,
            ..Counts::default()
        };
        let device = script.names.intern("sda");
        script.did((7, "app"), &file, counts).device = Some(device);
    }
    let plan = planned(&script, false);
    let steps: Vec<&PlannedStep> =
        plan.programs.iter().flat_map(|program| &program.steps).collect();
    let [PlannedStep::Churn { bytes, reads, synced, .. }] = steps[..] else {
        panic!("{plan:#?}");
    };
    assert_eq!((*bytes, *reads, *synced), (10_000, 1, false));
    assert!(jobs(&plan).is_empty(), "{plan:#?}");
}

#[test]
fn nothing_gives_no_programs_and_says_so() {
    let plan = planned(&Script::new(10), false);
    assert!(plan.programs.is_empty() && plan.disks.is_empty());
    assert!(plan.notes.iter().any(|note| note.contains("nothing is reproduced")), "{plan:#?}");
}

#[test]
fn losses_are_noted_and_the_rest_is_reproduced() {
    let mut script = log();
    script.environment.losses.add("ring", 70, "requests that have no record", true);
    let plan = planned(&script, false);
    assert!(plan.notes.iter().any(|note| note.contains("70 requests have no record")), "{plan:#?}");
    assert_eq!(jobs(&plan).len(), 1);
}

#[test]
fn waits_of_no_file_are_those_of_the_files_that_are_used() {
    let mut script = log();
    // Throttled for dirty pages: no file is known.
    for index in 0..100_u64 {
        let sleep = script.sleep((7, "db"), index * 100 * MS + 6 * MS, 3 * MS);
        sleep.device("sda").add();
    }
    let mut streams = LoadStreams::default();
    streams.add(&script.batch, &script.names, &script.environment);
    let before: u64 = streams.streams.values().map(|stream| stream.waits.total_ns).sum();
    assert_eq!(streams.streams.len(), 2);
    streams.settle();
    let all: Vec<u64> = streams.streams.values().map(|stream| stream.waits.total_ns).collect();
    assert_eq!(all, [before]);
}

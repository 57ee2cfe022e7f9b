//! The five documents of the mission with their own figures (see `docs/diagnosis.md`): each leads
//! to the document's cause, or says what to watch and for how long.
//!
//! What does not belong here: the labs that scale them down.

use super::load::*;
use super::{UNANSWERED, first, harm, summary_of};
use iowhy_analysis::script::ScriptSummary;
use iowhy_diagnosis::{Diagnosis, diagnose};
use iowhy_model::file::Counts;
use iowhy_model::script::Script;
use iowhy_model::{KnownBy, Metric, Operation, Origin};

/// One watch of a document's machine.
pub struct DocumentWatch {
    pub name: &'static str,
    pub script: fn() -> Script,
    /// Causes that may come first.
    pub expected: &'static [&'static str],
    pub must_not: &'static [&'static str],
    /// Names that must occur, in findings or in what could not be judged.
    pub names: &'static [&'static str],
}

pub const ALL: &[DocumentWatch] = &[
    DocumentWatch {
        name: "000, the snapshot: a plain write of 12.7 ms, in balance_dirty_pages",
        script: || slow_plain_writes(stack::THROTTLED),
        expected: &["dirty-throttle"],
        must_not: &["hung-io", "provider-cap", "device-slow-tail"],
        names: &["/data/a_file"],
    },
    DocumentWatch {
        name: "000, the snapshot: a plain write of 12.7 ms, in memory reclaim",
        script: || slow_plain_writes(RECLAIMS),
        expected: &["memory-reclaim"],
        must_not: &["hung-io", "provider-cap", "dirty-throttle"],
        names: &["dd"],
    },
    DocumentWatch {
        name: "000, the snapshot: 40 HTTP threads behind the one that writes it",
        script: behind_the_snapshot,
        expected: &["lock-behind-io", "dirty-throttle"],
        must_not: &["hung-io", "bulk-scan"],
        names: &["40 threads", "/data/snapshot"],
    },
    DocumentWatch {
        name: "001, the word counter: 180 s, a whole request",
        script: || word_counter(180),
        expected: &["temp-file-churn"],
        must_not: &["log-flood", "hung-io"],
        names: &["N.txt"],
    },
    // Ten seconds see 61 files made and none removed: only a longer watch sees their end.
    DocumentWatch {
        name: "001, the word counter: 10 s, which do not see a file's end",
        script: || word_counter(10),
        expected: &["temp-file-churn", "dirty-throttle"],
        must_not: &["log-flood", "hung-io", "provider-cap"],
        names: &["/tmp/9046db9e-fe25-11e8-b13f-0242ac110002", "iowhy -t"],
    },
    DocumentWatch {
        name: "002, phantom reads: two pages for each fault",
        script: phantom_reads,
        expected: &["readahead-waste"],
        must_not: &["bulk-scan", "hung-io"],
        names: &["questdb-ilpwrit"],
    },
    DocumentWatch {
        name: "003, sudden disk utilization: 139 metadata reads a second",
        script: disk_usage_monitor,
        expected: &["metadata-scan"],
        must_not: &["device-slow-tail", "provider-cap"],
        names: &["java", "lstat0"],
    },
    DocumentWatch {
        name: "004, the suspicious drive: 30 s of blktrace, and its sibling",
        script: || suspicious_drive(true),
        expected: &["device-slow-tail"],
        must_not: &["provider-cap", "hung-io"],
        names: &["sdf"],
    },
    DocumentWatch {
        name: "004, the suspicious drive: a watch of 30 s",
        script: || suspicious_drive(false),
        expected: &["device-slow-tail"],
        must_not: &["provider-cap", "hung-io"],
        names: &["sdf"],
    },
];

/// Returns the fault of an answer; `None` if it is as it should be.
pub fn problem(document: &DocumentWatch, diagnosis: &Diagnosis) -> Option<String> {
    let cause = first(diagnosis).map(|finding| finding.cause);
    if !cause.is_some_and(|cause| document.expected.contains(&cause)) {
        return Some(format!("expected {:?}", document.expected));
    }
    let named = format!("{:?} {:?}", diagnosis.findings, diagnosis.not_judged);
    let unnamed = document.names.iter().find(|name| !named.contains(**name));
    unnamed.map(|name| format!("{name} is not named"))
}

pub fn judged() -> Vec<(&'static DocumentWatch, Diagnosis)> {
    ALL.iter().map(|document| (document, diagnose(&(document.script)().summary()))).collect()
}

#[test]
fn documents_lead_to_their_causes() {
    let mut wrong = Vec::new();
    for (document, diagnosis) in judged() {
        let is_known = UNANSWERED.iter().any(|(name, _)| *name == document.name);
        match (problem(document, &diagnosis), is_known) {
            (Some(problem), false) => {
                wrong.push(format!("{}: {problem}\n{}", document.name, summary_of(&diagnosis)));
            }
            (None, true) => {
                wrong.push(format!("{} is answered: take it off the list", document.name))
            }
            _ => {}
        }
        let harms = harm(document.must_not, &diagnosis);
        wrong.extend(harms.into_iter().map(|harm| format!("{}: {harm}", document.name)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Dd of 264 blocks of 512 bytes in 3.35 s: a plain write takes 12.7 ms. 95 % of memory is not page
/// cache, no swap. `frames` are the stack of the sleeping write.
fn slow_plain_writes(frames: &[&str]) -> Script {
    let mut script = Script::new(10);
    script.environment.memory_bytes = 128 << 30;
    script.device("nvme1n1", &[("queue/rotational", "0")]);
    script.mount("/data", "xfs", "/dev/nvme1n1");
    stays(&mut script, Metric::SharedMemory, "", 121_268e6);
    for index in 0..787_u64 {
        script
            .sleep((4242, "dd"), index * 12_700 * US, about(12_600 * US, 0.005, index))
            .call(call::WRITE)
            .file("/data/a_file")
            .device("nvme1n1")
            .stack(frames)
            .add();
    }
    RequestFlow {
        who: (90, "kworker/u32:1"),
        device: "nvme1n1",
        per_s: 4,
        bytes: 16 * KIB,
        file: "/data/a_file",
        in_order: true,
        ..RequestFlow::default()
    }
    .run(&mut script);
    script
}

const RECLAIMS: &[&str] = &[
    "schedule_timeout",
    "io_schedule_timeout",
    "reclaim_throttle",
    "shrink_node",
    "do_try_to_free_pages",
    "try_to_free_pages",
    "__alloc_pages_slowpath.constprop.0",
    "__filemap_get_folio",
    "iomap_write_begin",
    "xfs_file_buffered_write",
    "vfs_write",
];

/// Returns a script of the server on that disk: all HTTP threads wait for a lock whose holder
/// writes the snapshot.
fn behind_the_snapshot() -> Script {
    let mut script = slow_plain_writes(stack::THROTTLED);
    script
        .sleep((5000, "java"), 0, 10 * S)
        .thread(5044)
        .call(call::WRITE)
        .file("/data/snapshot")
        .device("nvme1n1")
        .censored()
        .stack(stack::THROTTLED)
        .user_stack(&["write", "sun.nio.ch.FileDispatcherImpl.write0", "Snapshot.write"])
        .add();
    let user = ["pthread_cond_wait", "ObjectMonitor::EnterI", "ObjectMonitor::enter", "Db.query"];
    script.behind(5100, 40, "http-nio", &user, KnownBy::Likely);
    script
}

/// The word counter: 1,000 files of about 2.5 MB for a request of 163 s: written one after the
/// other (6.1 a second), read back, removed together. sda takes 71 writes a second of 464 KiB, 18 s
/// each; python dirties 336 MB/s.
fn word_counter(seconds: u64) -> Script {
    let mut script = Script::new(seconds);
    script.device("sda", &[("queue/rotational", "1"), ("queue/nr_requests", "256")]);
    script.mount("/", "ext4", "/dev/sda1");
    let file = "/tmp/9046db9e-fe25-11e8-b13f-0242ac110002/N.txt";
    let written = (6.13 * seconds.min(163) as f64) as u64;
    let whole = written >= 990;
    let counts = Counts {
        opens: written * if whole { 2 } else { 1 },
        creates: written,
        writes: written,
        write_bytes: written * 2_500_000,
        reads: if whole { written * 2 } else { 0 },
        read_bytes: if whole { written * 2_500_000 } else { 0 },
        unlinks: if whole { written } else { 0 },
        ..Counts::default()
    };
    let row = script.did((12280, "python"), file, counts);
    row.files = Some(written);
    row.lifetime_ns = whole.then_some(100 * S);
    RequestFlow {
        who: (12280, "python"),
        bytes: 464 * KIB,
        per_s: 71,
        ns: 3400 * MS,
        file: "/tmp/9046db9e-fe25-11e8-b13f-0242ac110002/650.txt",
        in_order: true,
        to: seconds * S,
        ..RequestFlow::default()
    }
    .run(&mut script);
    for index in 0..seconds * 6 {
        script
            .sleep((12280, "python"), index * 166 * MS, about(150 * MS, 0.1, index))
            .thread(514)
            .call(call::WRITE)
            .file(&format!("/tmp/9046db9e-fe25-11e8-b13f-0242ac110002/{index}.txt"))
            .device("sda")
            .stack(stack::THROTTLED)
            .add();
    }
    script
}

/// Phantom reads: two requests of 8 sectors for each fault, 11,000 a second, 43 MB/s; 50 tables of
/// a few hundred columns each (300), of which each batch of rows writes the last page of every
/// file; 10 to 70 MB/s of writes; most of memory is the program's own, so that these pages are
/// dropped in between.
fn phantom_reads() -> Script {
    let mut script = Script::new(6);
    script.device("nvme0n1", &[("queue/rotational", "0"), ("queue/read_ahead_kb", "128")]);
    script.mount("/", "ext4", "/dev/nvme0n1p7");
    grows(&mut script, Metric::RefaultsFile, "", 42e6);
    let mut at = [0_u64; 4];
    for index in 0..33_000_u64 {
        let slot = (index % 4) as usize;
        let ns = about(720 * US, 0.3, index);
        let column = index * 7_919 % 15_000;
        let (table, column_of) = (column / 300, column % 300);
        let file =
            format!("/home/ubuntu/.questdb/db/t{table}/2022-10-04/symbol_col{column_of}.d.1092");
        let base = 10_000_000 + column * 4_096;
        let ids = [24, 0].map(|offset| {
            script
                .read("nvme0n1", 4 * KIB)
                .sector(base + offset)
                .at(at[slot] as i64)
                .origin(if offset == 0 { Origin::PageFault } else { Origin::Readahead })
                .rwbs("RA")
                .by(425500, "questdb-ilpwrit")
                .direct(0, 3 * US, about(60 * US, 0.2, index))
                .file(&file)
                .add()
        });
        script
            .sleep((425500, "questdb-ilpwrit"), at[slot], 70 * US)
            .thread(425548 + slot as u32)
            .file(&file)
            .stack(stack::FAULT)
            .requests(&ids)
            .add();
        if index % 17 == 0 {
            script
                .write("nvme0n1", 64 * KIB)
                .sector(base + 32)
                .at((at[slot] + 300 * US) as i64)
                .origin(Origin::Writeback)
                .by(90, "kworker/u32:1")
                .direct(0, 0, 200 * US)
                .part(Ok(&file), 64 * KIB, Ok((425500, "questdb-ilpwrit")))
                .add();
        }
        at[slot] += ns;
    }
    script
}

/// Sudden disk utilization: 139 metadata reads a second of 7.6 KiB, 6.2 ms, as the document's
/// histogram has them, for lstat from Java.
fn disk_usage_monitor() -> Script {
    let mut script = of_machine(true);
    script.device("xvdj", &[("queue/rotational", "1")]);
    script.device("xvda", &[]);
    script.mount("/mnt", "xfs", "/dev/xvdj");
    let histogram = [(0, 421), (1, 95), (2, 48), (4, 108), (8, 363), (16, 66), (32, 3), (64, 7)];
    let times: Vec<u64> =
        histogram.iter().flat_map(|(ms, count)| vec![(*ms).max(1) * MS; *count]).collect();
    let kernel = [
        "blk_peek_request",
        "do_blkif_request",
        "__blk_run_queue",
        "queue_unplugged",
        "blk_flush_plug_list",
        "blk_finish_plug",
        "_xfs_buf_ioapply",
        "xfs_buf_iorequest",
        "_xfs_buf_read",
        "xfs_buf_read_map",
        "xfs_trans_read_buf_map",
        "xfs_imap_to_bp",
        "xfs_iread",
        "xfs_iget",
        "xfs_lookup",
        "xfs_vn_lookup",
        "lookup_real",
        "__lookup_hash",
        "lookup_slow",
        "path_lookupat",
        "filename_lookup",
        "user_path_at_empty",
        "vfs_fstatat",
        "SYSC_newlstat",
    ];
    let user = ["__lxstat64", "Lsun/nio/fs/UnixNativeDispatcher;.lstat0"];
    let mut at = 0_u64;
    for index in 0..1390_u64 {
        let picked = times[(chance(index) * times.len() as f64) as usize];
        let ns = about(picked, 0.3, index);
        if at + ns > 10 * S {
            break;
        }
        let id = script
            .read("xvdj", 8 * KIB - 8 * (index % 12) * 64)
            .sector(somewhere(index))
            .at(at as i64)
            .origin(Origin::Metadata)
            .rwbs("RM")
            .by(30603, "java")
            .call(call::LSTAT)
            .direct(0, 0, ns)
            .stacks(&kernel, &user, 1)
            .add();
        let sleep = script.sleep((30603, "java"), at, ns).call(call::LSTAT);
        sleep.stack(&kernel[6..]).user_stack(&user).requests(&[id]).add();
        at += ns + about(880 * US, 0.5, index);
    }
    Serial { who: (6587, "cat"), device: "xvda", ns: 10_200 * US, to: S, ..Serial::default() }
        .run(&mut script);
    script
}

/// The suspicious drive: 2,744 requests in 30 s, mean 10.9 ms, one of 1.15 s; its sibling: 8 ms,
/// 0.16 s at most. As blktrace imports it (no waits), and as a watch sees it, with an idle sibling.
fn suspicious_drive(imported: bool) -> Script {
    let mut script = Script::new(30);
    if imported {
        script.environment.source = "blktrace".to_owned();
        script.environment.tables.clear();
    }
    for name in ["sdf", "sdb"] {
        let disk = script.device(name, &[("queue/rotational", "1")]);
        disk.model = Some("ST3000DM001".to_owned());
        disk.transport = Some("sata".to_owned());
    }
    for (name, count, mean) in [("sdf", 2744_u64, 10_400 * US), ("sdb", 3740, 7_960 * US)] {
        let mut at = 0;
        let count = if imported || name == "sdf" { count } else { 0 };
        for index in 0..count {
            let mut ns = about(mean, 0.9, index + count);
            if index == count / 2 {
                ns = if name == "sdf" { 1_152_828 * US } else { 160 * MS };
            }
            if at + ns > 30 * S {
                break;
            }
            let is_read = name == "sdb" || index % 9 < 4;
            let operation = if is_read { Operation::Read } else { Operation::Write };
            let origin = if is_read { Origin::Read } else { Origin::Write };
            let id = script
                .request(name, operation)
                .bytes(16 * KIB)
                .sector(somewhere(index))
                .at(at as i64)
                .origin(origin)
                .by(2039, "fio")
                .direct(0, 4 * US, ns)
                .add();
            if !imported {
                let number = if is_read { call::PREAD } else { call::PWRITE };
                let sleep = script.sleep((2039, "fio"), at, ns).call(number);
                sleep.stack(stack::DIRECT).requests(&[id]).add();
            }
            at += ns + 20 * US;
        }
    }
    script
}

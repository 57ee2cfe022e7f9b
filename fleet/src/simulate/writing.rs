//! The programs of a simulated host that write: its service most, its journal a little, and on a
//! part of the hosts a planted program that syncs every line. Their bytes of a device add up to the
//! requests of that device.
//!
//! What does not belong here: the latencies of requests.

use super::FleetPlan;
use super::host::SimulatedHost;
use crate::upload::{UploadFlow, UploadWriter};
use crate::writers::{WriterId, WriterSums};
use std::collections::BTreeMap;

/// The planted program.
pub const HEAVY_WRITER: &str = "metricsd";
/// The planted program runs on one of so many hosts.
const HEAVY_ONE_IN: usize = 8;
/// Bytes of one of its calls.
const HEAVY_CALL_BYTES: u64 = 200;
/// Bytes of a call of others.
const CALL_BYTES: u64 = 16 << 10;

/// The service of a host, by the first part of its name.
fn service(host: &str) -> (&'static str, &'static str) {
    match host.split('-').next() {
        Some("db") => ("postgres", "/var/lib/postgresql/N/main/base/N/N"),
        Some("web") => ("nginx", "/var/log/nginx/access.log"),
        _ => ("ceph-osd", "/var/lib/ceph/osd/ceph-N/block"),
    }
}

/// Whether a host has the planted program.
pub fn has_heavy_writer(plan: &FleetPlan, host: &SimulatedHost) -> bool {
    plan.trouble.writer.is_some() && host.index % HEAVY_ONE_IN == 1
}

/// Returns the writers and readers of a window's requests, ordered as a host sends them.
pub fn rows(
    plan: &FleetPlan,
    host: &SimulatedHost,
    flows: &BTreeMap<String, BTreeMap<String, UploadFlow>>,
) -> Vec<UploadWriter> {
    let (program, file) = service(&host.host.name);
    let role = host.host.name.split('-').next().unwrap_or_default();
    let mut rows = Vec::new();
    for (device, operations) in flows {
        let of = |operation: &str| operations.get(operation).cloned().unwrap_or_default();
        let (read, write) = (of("read"), of("write"));
        let mut add = |kind: &str, [program, unit, file]: [&str; 3], sums: WriterSums| {
            let [program, container, file] = [program, unit, file].map(str::to_owned);
            let (kind, device) = (kind.to_owned(), device.clone());
            let id = WriterId { kind, program, container, file, device, below: false };
            rows.push(UploadWriter { id, sums });
        };
        let mut left = write.bytes;
        if let Some(factor) = plan.trouble.writer.filter(|_| has_heavy_writer(plan, host)) {
            let sums = heavy(write.bytes / 2, factor);
            left -= sums.written_bytes();
            let unit = format!("{HEAVY_WRITER}.service");
            add("program", [HEAVY_WRITER, &unit, "/var/lib/metricsd/wal"], sums);
        }
        let (journald, unseen) = (left / 50, left / 100);
        let sums = WriterSums { data_bytes: journald, ..WriterSums::default() };
        let journal = "/var/log/journal/N/system.journal";
        add("program", ["systemd-journal", "systemd-journald.service", journal], sums);
        let sums = WriterSums { data_bytes: unseen, ..WriterSums::default() };
        add("unseen", ["", "", ""], sums);
        let written = left - journald - unseen;
        let (journal_bytes, metadata_bytes) = (written / 12, written / 50);
        let data_bytes = written - journal_bytes - metadata_bytes;
        let sums = WriterSums {
            asked_bytes: data_bytes / 20 * 19,
            asked_calls: data_bytes / CALL_BYTES,
            syncs: data_bytes / (1 << 20),
            data_bytes,
            journal_bytes,
            metadata_bytes,
            read_bytes: read.bytes,
            requests: read.requests + write.requests,
            ..WriterSums::default()
        };
        add("program", [program, &format!("{role}.service"), file], sums);
    }
    rows
}

/// Returns the sums of a program that syncs each of its lines.
fn heavy(written: u64, factor: f64) -> WriterSums {
    let (journal_bytes, metadata_bytes) = (written / 2, written / 20);
    let asked_bytes = (written as f64 / factor) as u64;
    let calls = asked_bytes / HEAVY_CALL_BYTES;
    WriterSums {
        asked_bytes,
        asked_calls: calls,
        syncs: calls,
        data_bytes: written - journal_bytes - metadata_bytes,
        journal_bytes,
        metadata_bytes,
        ..WriterSums::default()
    }
}

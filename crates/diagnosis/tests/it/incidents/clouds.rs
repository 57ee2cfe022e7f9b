//! Clouds: limits, credits, snapshots, stolen CPU time.

use super::Incident;
use super::load::*;
use iowhy_model::script::Script;
use iowhy_model::{Metric, Operation, Origin};

pub const ALL: &[Incident] = &[
    Incident {
        name: "AKS: system disk of 500 IOPS",
        source: "https://github.com/Azure/AKS/issues/1373",
        root_cause: "Docker, kubelet and logs share a P10 system disk that the provider throttles \
                     at 500 requests a second.",
        script: aks,
        expected: &["provider-cap"],
        only_bottleneck: false,
        must_not: &["metadata-scan", "device-slow-tail", "hung-io"],
    },
    Incident {
        name: "EKS: unpacking images of 200,000 small files",
        source: "https://github.com/awslabs/amazon-eks-ami/issues/985",
        root_cause: "containerd unpacks images onto a gp3 volume of 3,000 IOPS that all pods \
                     share.",
        script: eks,
        expected: &["provider-cap", "image-pull", "noisy-neighbour"],
        only_bottleneck: false,
        must_not: &["temp-file-churn", "hung-io"],
    },
    Incident {
        name: "RDS: restored from a snapshot",
        source: "https://blog.bitfoo.de/posts/aws-ebs-snapshot-s3-lazy-loading",
        root_cause: "Blocks of a restored volume come from S3 when they are read for the first \
                     time.",
        script: first_touch,
        expected: &["first-touch"],
        only_bottleneck: false,
        must_not: &["burst-credits", "provider-cap", "device-slow-tail"],
    },
    Incident {
        name: "RethinkDB: EBS throttled after minutes",
        source: "https://github.com/rethinkdb/docs/issues/940",
        root_cause: "The volume's burst is used up, and it gives fewer than 100 writes a second.",
        script: rethinkdb,
        expected: &["burst-credits", "provider-cap"],
        only_bottleneck: false,
        must_not: &["device-slow-tail", "hung-io"],
    },
    Incident {
        name: "EC2: 98 % steal",
        source: "https://serverfault.com/questions/501026/how-can-i-diagnose-and-fix-frequent-100-\
                 cpu-utilization-from-kernel",
        root_cause: "The hypervisor withholds the CPU of a t1.micro instance.",
        script: steal,
        expected: &["cpu-steal"],
        only_bottleneck: false,
        must_not: &["hung-io", "device-slow-tail", "provider-cap"],
    },
];

/// The calls of a slot on a throttled volume.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Reads,
    Syncs,
    /// Dirty pages of the process, which nobody waits for.
    Writeback,
}

/// Requests that come out of a token bucket: `per_s` a second, with so much variation from half
/// second to half second (published for AWS gp2: 3.7 to 5 %), from slots that always have one in
/// flight.
fn throttled(script: &mut Script, device: &str, per_s: u64, slots: &[(u32, &str, Does)]) {
    let mut free = vec![0_u64; slots.len()];
    let (mut done, mut index) = (0_u64, 0_u64);
    loop {
        let half = done / (S / 2);
        let rate = per_s as f64 * (1.0 + 0.045 * (2.0 * chance(half) - 1.0));
        done += (S as f64 / rate * (0.7 + 0.6 * chance(index + 99))) as u64;
        if done >= 10 * S {
            return;
        }
        let slot = (index % slots.len() as u64) as usize;
        let at = free[slot];
        free[slot] = done + 20 * US;
        let (pid, process, does) = slots[slot];
        let ns = done.saturating_sub(at).max(300 * US);
        let (operation, origin, bytes) = match does {
            Does::Reads => (Operation::Read, Origin::Read, 4 * KIB),
            _ => (Operation::Write, Origin::Writeback, 16 * KIB),
        };
        let file = format!("/var/lib/{process}/f{slot}");
        let draft = script.request(device, operation).bytes(bytes).sector(somewhere(index));
        let draft = draft.at(at as i64).by(pid, process).direct(0, 5 * US, ns);
        let id = draft.origin(origin).file(&file).add();
        index += 1;
        let (number, frames) = match does {
            Does::Reads => (call::READ, stack::READ),
            Does::Syncs => (call::FSYNC, stack::SYNC_DATA),
            Does::Writeback => continue,
        };
        let sleep = script.sleep((pid, process), at, ns).thread(pid + slot as u32 % 4);
        sleep.call(number).file(&file).stack(frames).requests(&[id]).add();
    }
}

/// 500 requests a second (P10); container logs, kubelet and programs share the disk. Their shares
/// are chosen.
fn aks() -> Script {
    let mut script = of_machine(true);
    script.device("sda", &[]);
    script.mount("/", "ext4", "/dev/sda1");
    let slots = [
        (1201, "dockerd", Does::Writeback),
        (1300, "kubelet", Does::Reads),
        (2400, "java", Does::Reads),
        (600, "systemd-journal", Does::Syncs),
        (1201, "dockerd", Does::Writeback),
        (2500, "python3", Does::Reads),
        (2400, "java", Does::Reads),
        (1201, "dockerd", Does::Writeback),
        (2600, "envoy", Does::Reads),
        (1202, "containerd", Does::Writeback),
        (2500, "python3", Does::Reads),
        (2400, "java", Does::Reads),
    ];
    throttled(&mut script, "sda", 500, &slots);
    script
}

/// m5.xlarge, 50 GB, gp3, 3,000 IOPS: "all running pods on this node freeze". containerd's files
/// are written back; of 64 requests in flight ten are pods' reads, chosen.
fn eks() -> Script {
    let mut script = of_machine(true);
    let disk = script.device("nvme0n1", &[("queue/rotational", "0")]);
    disk.model = Some("Amazon Elastic Block Store".to_owned());
    disk.transport = Some("pcie".to_owned());
    script.mount("/", "xfs", "/dev/nvme0n1p1");
    let slots: Vec<(u32, &str, Does)> = (0..64)
        .map(|slot| match slot % 13 {
            0 => (4410, "node", Does::Reads),
            7 => (4520, "java", Does::Reads),
            _ => (3100, "containerd", Does::Writeback),
        })
        .collect();
    throttled(&mut script, "nvme0n1", 3000, &slots);
    script
}

/// "the I/O latency in CloudWatch was around 35ms"; EBS promises single-digit milliseconds. Blocks
/// that were read once are as fast as usual, and so are writes.
fn first_touch() -> Script {
    let mut script = of_machine(true);
    let disk = script.device("nvme1n1", &[("queue/rotational", "0")]);
    disk.model = Some("Amazon Elastic Block Store".to_owned());
    disk.transport = Some("pcie".to_owned());
    script.mount("/rdsdbdata", "ext4", "/dev/nvme1n1");
    for thread in 0..4 {
        let who = (5000, "mysqld");
        Serial {
            who,
            tid: 5010 + thread,
            device: "nvme1n1",
            bytes: 16 * KIB,
            ns: 35 * MS,
            spread: 0.8,
            stack: stack::DIRECT,
            file: "/rdsdbdata/db/shop/orders.ibd",
            to: 9 * S,
            ..Serial::default()
        }
        .run(&mut script);
    }
    // Every tenth read is of a block that was there before.
    let again: Vec<u64> =
        script.batch.requests.iter().step_by(10).map(|request| request.sector).collect();
    for (index, sector) in again.into_iter().enumerate() {
        let at = 9 * S / 2 + index as u64 * 40 * MS;
        let ns = about(700 * US, 0.3, index as u64);
        let id = script
            .read("nvme1n1", 16 * KIB)
            .sector(sector)
            .at(at as i64)
            .by(5000, "mysqld")
            .direct(0, 0, ns)
            .file("/rdsdbdata/db/shop/orders.ibd")
            .add();
        let sleep = script.sleep((5000, "mysqld"), at, ns).thread(5015).call(call::PREAD);
        sleep.stack(stack::DIRECT).requests(&[id]).add();
    }
    SyncThread {
        who: (5000, "mysqld"),
        tid: 5020,
        device: "nvme1n1",
        file: "/rdsdbdata/log/ib_logfile0",
        write_ns: 800 * US,
        pause: 60 * MS,
        ..SyncThread::default()
    }
    .run(&mut script);
    script
}

/// "After a few minutes, the database IOPS dropped off to < 100 writes per second". The number
/// before is not published: 1,000, chosen.
fn rethinkdb() -> Script {
    let mut script = of_machine(true);
    script.device("xvdb", &[]);
    script.mount("/var/lib/rethinkdb", "ext4", "/dev/xvdb");
    for thread in 0..8 {
        for (from, to, ns) in [(0, 4 * S, 8 * MS), (4 * S, 10 * S, 82 * MS)] {
            Serial {
                who: (800, "rethinkdb"),
                tid: 810 + thread,
                device: "xvdb",
                operation: Operation::Write,
                origin: Origin::Write,
                ns,
                spread: 0.05,
                call: call::PWRITE,
                stack: stack::DIRECT,
                file: "/var/lib/rethinkdb/data/metadata",
                from,
                to,
                ..Serial::default()
            }
            .run(&mut script);
        }
    }
    script
}

/// "%st is pegged at 98% or so". The latency of reads is not published: they complete when the
/// machine gets a CPU, 100 ms and more, chosen.
fn steal() -> Script {
    let mut script = of_machine(true);
    script.environment.cpus = 1;
    script.device("xvda", &[]);
    script.mount("/", "ext4", "/dev/xvda1");
    grows(&mut script, Metric::CpuSteal, "", 0.98e9);
    grows(&mut script, Metric::CpuUser, "", 0.01e9);
    grows(&mut script, Metric::CpuSystem, "", 0.01e9);
    grows(&mut script, Metric::CpuIdle, "", 0.0);
    for (pid, process) in [(700, "mysqld"), (801, "apache2"), (650, "master")] {
        Serial {
            who: (pid, process),
            device: "xvda",
            ns: 120 * MS,
            spread: 0.6,
            pause: 600 * MS,
            file: "/var/lib/mysql/ibdata1",
            ..Serial::default()
        }
        .run(&mut script);
    }
    script
}

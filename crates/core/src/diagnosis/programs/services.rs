//! Queues, search engines, monitoring, containers: services that store data beside other work.
//!
//! What does not belong here: databases (see [`super::databases`]).

use super::Program;
use super::Role::{Compaction, Data, Snapshot, WriteAheadLog};
use super::Topic;

pub(super) const ALL: &[Program] = &[
    Program {
        name: "Kafka",
        processes: &["kafka*", "data-plane-kafk*"],
        paths: &[(WriteAheadLog, "/0000000000*.log"), (Data, "/0000000000*.index")],
        own_paths: &[],
        advice: &[
            (
                Topic::Sync,
                "Kafka: leave log.flush.interval.messages at its default (no sync for each \
                 message: replication keeps the data) and spread partitions over more log.dirs",
            ),
            (
                Topic::Checkpoint,
                "Kafka: smaller vm.dirty_background_bytes so that the page cache is written \
                 evenly; log.dirs on their own devices",
            ),
            (
                Topic::Reads,
                "Kafka: consumers that lag read from the disk: more page cache, fewer consumers \
                 that begin at the earliest offset at once",
            ),
        ],
    },
    Program {
        name: "Elasticsearch/OpenSearch",
        processes: &["elasticsearch*", "opensearch*"],
        paths: &[(WriteAheadLog, "/translog/translog-")],
        own_paths: &[(Compaction, "/index/_"), (Data, "/nodes/0/")],
        advice: &[
            (
                Topic::Sync,
                "Elasticsearch: larger bulk requests; index.translog.durability: async with \
                 sync_interval where a crash may lose the last seconds of writes",
            ),
            (
                Topic::Compaction,
                "Elasticsearch: longer index.refresh_interval, index.merge.scheduler.\
                 max_thread_count=1 on rotating disks",
            ),
            (
                Topic::Reads,
                "Elasticsearch: leave half of the memory to the page cache; smaller read_ahead_kb \
                 (128) on the data's device; fewer shards for each search",
            ),
        ],
    },
    Program {
        name: "Prometheus",
        processes: &["prometheus", "victoria-metric*", "thanos"],
        paths: &[],
        own_paths: &[
            (WriteAheadLog, "/wal/"),
            (WriteAheadLog, "/wbl/"),
            (Data, "/chunks_head/"),
            (Compaction, "/chunks/"),
        ],
        advice: &[
            (
                Topic::Compaction,
                "Prometheus: fewer series or longer scrape_interval; compaction runs every two \
                 hours and reads whole blocks",
            ),
            (
                Topic::Reads,
                "Prometheus: recording rules for the queries that read long ranges; more page \
                 cache for the blocks they touch",
            ),
            (Topic::Sync, "Prometheus: its data directory on a local device, not on a network"),
        ],
    },
    Program {
        name: "container runtime",
        processes: &["containerd", "dockerd", "unpigz", "crio", "podman", "containerd-shim*"],
        paths: &[],
        own_paths: &[(Data, "/overlay2/"), (Data, "/io.containerd.snapshotter")],
        advice: &[
            (
                Topic::Sync,
                "container images: pull them before they are needed and one at a time \
                 (kubelet: serializeImagePulls), with the image store on another device than the \
                 workloads' volumes",
            ),
            (
                Topic::Checkpoint,
                "container images: limit parallel pulls and layers (dockerd \
                 --max-concurrent-downloads), image store on another device",
            ),
        ],
    },
    Program {
        name: "JVM",
        processes: &["java", "G1*", "VM Thread", "GC Thread*"],
        paths: &[(Snapshot, "*.hprof")],
        own_paths: &[
            (Snapshot, "/java_pid"),
            (super::Role::Log, "/gc.log"),
            (super::Role::Log, "gc*.log"),
        ],
        advice: &[
            (
                Topic::Logging,
                "JVM: write the GC log to a tmpfs or another device, or let a thread of its own \
                 write it (JDK 17 and later: -Xlog:async)",
            ),
            (
                Topic::Snapshot,
                "JVM: write heap dumps to another device (-XX:HeapDumpPath); the program stalls \
                 until the dump is written",
            ),
        ],
    },
    Program {
        name: "git",
        processes: &["git", "git-*"],
        paths: &[(Data, "/.git/")],
        own_paths: &[],
        advice: &[(
            Topic::Reads,
            "git: `git config core.untrackedCache true` and `core.fsmonitor true` read fewer \
             directories; a shallow or sparse checkout has fewer files",
        )],
    },
    Program {
        name: "dpkg/apt",
        processes: &["dpkg", "dpkg-deb", "apt", "apt-get", "unattended-upgr"],
        paths: &[(Data, "/var/lib/dpkg/"), (Data, "*.dpkg-new")],
        own_paths: &[],
        advice: &[(
            Topic::Sync,
            "dpkg: it syncs each unpacked file so that a crash leaves no half-installed package: \
             let upgrades run when nobody waits for the disk",
        )],
    },
];

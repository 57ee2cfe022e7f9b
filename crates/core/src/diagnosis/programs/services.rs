//! Queues, search engines, monitoring, containers: services that also store data.
//!
//! What does not belong here: databases (see [`super::databases`]).

use super::FileRole::{Compaction, Data, Snapshot, WriteAheadLog};
use super::KnownProgram;
use super::Topic;

const GIT: &str = "git: `git config core.untrackedCache true` and `core.fsmonitor true` read fewer \
                   directories; a shallow or sparse checkout has fewer files";

const MOSQUITTO: &str = "Mosquitto: it writes and syncs all retained messages at once, and answers \
                         nobody meanwhile: set autosave_on_changes false with autosave_interval \
                         1800 (the default, in seconds)";

pub(super) const ALL: &[KnownProgram] = &[
    KnownProgram {
        name: "Kafka",
        processes: &["kafka*", "data-plane-kafk*"],
        paths: &[(WriteAheadLog, "/0000000000*.log"), (Data, "/0000000000*.index")],
        own_paths: &[],
        advice: &[
            (
                Topic::Sync,
                "Kafka: leave log.flush.interval.messages at its default (no sync per message: \
                 replication keeps the data) and spread partitions over more log.dirs",
            ),
            (
                Topic::Checkpoint,
                "Kafka: lower vm.dirty_background_bytes so that the page cache is written evenly; \
                 put log.dirs on their own devices",
            ),
            (
                Topic::Reads,
                "Kafka: lagging consumers read from the disk: provide more page cache, start fewer \
                 consumers at the earliest offset at once",
            ),
        ],
    },
    KnownProgram {
        name: "Elasticsearch/OpenSearch",
        processes: &["elasticsearch*", "opensearch*"],
        paths: &[(WriteAheadLog, "/translog/translog-")],
        own_paths: &[(Compaction, "/index/_"), (Data, "/nodes/0/")],
        advice: &[
            (
                Topic::Sync,
                "Elasticsearch: use larger bulk requests; set index.translog.durability: async \
                 with sync_interval if a crash may lose the last seconds of writes",
            ),
            (
                Topic::Compaction,
                "Elasticsearch: raise index.refresh_interval, set \
                 index.merge.scheduler.max_thread_count=1 on rotating disks",
            ),
            (
                Topic::Reads,
                "Elasticsearch: leave half of the memory to the page cache; lower read_ahead_kb \
                 (128) on the data device; use fewer shards per search",
            ),
        ],
    },
    KnownProgram {
        name: "Mosquitto",
        processes: &["mosquitto"],
        paths: &[],
        own_paths: &[],
        advice: &[(Topic::Sync, MOSQUITTO), (Topic::Checkpoint, MOSQUITTO)],
    },
    KnownProgram {
        name: "beanstalkd",
        processes: &["beanstalkd"],
        paths: &[(WriteAheadLog, "/binlog.")],
        own_paths: &[],
        advice: &[(
            Topic::Sync,
            "beanstalkd: start it with `-f 50` (a sync at most every 50 ms, the default) instead \
             of `-f 0`: a crash of the machine may lose the jobs of that time",
        )],
    },
    KnownProgram {
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
                "Prometheus: reduce the series or raise scrape_interval; compaction runs every two \
                 hours and reads whole blocks",
            ),
            (
                Topic::Reads,
                "Prometheus: use recording rules for queries over long ranges; provide more page \
                 cache for the blocks they read",
            ),
            (
                Topic::Sync,
                "Prometheus: keep its data directory on a local device, not on a network",
            ),
        ],
    },
    KnownProgram {
        name: "container runtime",
        processes: &["containerd", "dockerd", "unpigz", "crio", "podman", "containerd-shim*"],
        paths: &[],
        own_paths: &[(Data, "/overlay2/"), (Data, "/io.containerd.snapshotter")],
        advice: &[
            (
                Topic::Sync,
                "container images: pull them before they are needed and one at a time (kubelet: \
                 serializeImagePulls), with the image store and the workloads' volumes on \
                 different devices",
            ),
            (
                Topic::Checkpoint,
                "container images: limit parallel pulls and layers (dockerd \
                 --max-concurrent-downloads), put the image store on another device",
            ),
        ],
    },
    KnownProgram {
        name: "JVM",
        processes: &["java", "G1*", "VM Thread", "GC Thread*"],
        paths: &[(Snapshot, "*.hprof")],
        own_paths: &[
            (Snapshot, "/java_pid"),
            (super::FileRole::Log, "/gc.log"),
            (super::FileRole::Log, "gc*.log"),
        ],
        advice: &[
            (
                Topic::Logging,
                "JVM: write the GC log to a tmpfs or another device, or write it asynchronously \
                 (JDK 17 and later: -Xlog:async)",
            ),
            (
                Topic::Snapshot,
                "JVM: write heap dumps to another device (-XX:HeapDumpPath); the program is \
                 stopped until the dump is written",
            ),
        ],
    },
    KnownProgram {
        name: "Node.js",
        processes: &["node", "nodejs", "libuv-worker"],
        paths: &[],
        own_paths: &[],
        advice: &[
            (
                Topic::Pool,
                "Node.js: set UV_THREADPOOL_SIZE (4 by default) in its environment to the number \
                 of files that it should read at once",
            ),
            (
                Topic::Reads,
                "Node.js: cache the files in memory, or set UV_THREADPOOL_SIZE (4 by default) so \
                 that more are read at once",
            ),
        ],
    },
    KnownProgram {
        name: "web server",
        processes: &["nginx", "apache2", "httpd", "caddy", "gunicorn*", "uwsgi"],
        paths: &[],
        own_paths: &[],
        advice: &[
            (
                Topic::Pool,
                "nginx: `aio threads` with a larger `thread_pool`; other servers: more workers",
            ),
            (
                Topic::Reads,
                "nginx: `aio threads`, so that a read does not block its worker; other servers: \
                 more workers; cache hot files in memory (a larger page cache, proxy_cache on a \
                 tmpfs)",
            ),
            (Topic::Logging, "buffer the access log (nginx: `access_log ... buffer=64k flush=5s`)"),
        ],
    },
    KnownProgram {
        name: "Squid",
        processes: &["squid"],
        paths: &[],
        own_paths: &[],
        advice: &[(
            Topic::Reads,
            "Squid: a `cache_dir ufs` is read by its only process, which answers nobody meanwhile: \
             use `cache_dir aufs` or `rock` (threads or processes of their own)",
        )],
    },
    KnownProgram {
        name: "QEMU",
        processes: &["qemu-system-*", "qemu-nbd", "qemu-storage-d*", "qemu-kvm", "kvm"],
        paths: &[],
        own_paths: &[],
        advice: &[(
            Topic::Sync,
            "QEMU: cache=none and cache=writeback flush only when the guest asks for it, \
             cache=writethrough and cache=directsync after each of its writes (`virsh dumpxml`, \
             or qemu's -drive, show which it is)",
        )],
    },
    KnownProgram {
        name: "memcached",
        processes: &["memcached", "mc-worker", "mc-ext*"],
        paths: &[],
        own_paths: &[],
        advice: &[(
            Topic::Reads,
            "memcached: let more threads read its external storage (`-o ext_threads=8`), or keep \
             more items in memory (`-m`)",
        )],
    },
    KnownProgram {
        name: "Dovecot",
        processes: &["imap", "pop3", "lmtp", "imap-hibernate", "indexer-worker"],
        paths: &[],
        own_paths: &[(Data, "/dovecot.index"), (Data, "/dovecot-uidlist")],
        advice: &[(
            Topic::Reads,
            "Dovecot: keep its indexes on a fast disk (INDEX= in mail_location, not \
             INDEX=MEMORY), so that a folder is listed from its cache file instead of from each \
             mail; mdbox has fewer files than maildir; mail_prefetch_count reads ahead",
        )],
    },
    KnownProgram {
        name: "file server",
        processes: &["smbd", "nfsd", "ganesha.nfsd", "vsftpd", "proftpd", "pure-ftpd", "minio"],
        paths: &[],
        own_paths: &[],
        advice: &[
            (
                Topic::Reads,
                "give the server more memory for its page cache; let it read several at once \
                 (nfsd: `threads` in nfs.conf; Samba: `aio read size = 1`, its default)",
            ),
            (
                Topic::Pool,
                "nfsd: raise `threads` in nfs.conf; Samba: `aio max threads`; else more workers",
            ),
            (
                Topic::Sync,
                "Samba: `sync always = no` (its default) syncs only what clients ask for; nfsd: \
                 mount with larger wsize, so that clients commit more at once",
            ),
        ],
    },
    KnownProgram {
        name: "web cache",
        processes: &["varnishd", "cache-main", "haproxy", "traefik", "envoy", "trafficserver"],
        paths: &[],
        own_paths: &[],
        advice: &[(
            Topic::Reads,
            "keep what is asked for often in memory (Varnish: `-s malloc`), or on a faster disk; a \
             cache's program that reads by itself answers nobody meanwhile",
        )],
    },
    KnownProgram {
        name: "git",
        processes: &["git", "git-*"],
        paths: &[(Data, "/.git/")],
        own_paths: &[],
        advice: &[(Topic::Lookups, GIT)],
    },
    KnownProgram {
        name: "locate's database",
        processes: &["updatedb", "updatedb.mlocat", "updatedb.plocat"],
        paths: &[],
        own_paths: &[],
        advice: &[(
            Topic::Lookups,
            "updatedb: exclude large trees (PRUNEPATHS in /etc/updatedb.conf), or run its timer at \
             night",
        )],
    },
    KnownProgram {
        name: "dpkg/apt",
        processes: &["dpkg", "dpkg-deb", "apt", "apt-get", "unattended-upgr"],
        paths: &[(Data, "/var/lib/dpkg/"), (Data, "*.dpkg-new")],
        own_paths: &[],
        advice: &[(
            Topic::Sync,
            "dpkg: it syncs each unpacked file so that a crash leaves no half-installed package: \
             run upgrades when no workload needs the disk",
        )],
    },
];

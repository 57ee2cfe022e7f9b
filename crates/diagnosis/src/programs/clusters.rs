//! Stores of clusters, engines in a runtime, and what looks after containers.
//!
//! What does not belong here: databases of one machine (see [`super::databases`]).

use super::FileRole::{Compaction, Data, Snapshot, Temporary, WriteAheadLog};
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Ceph": [
            "ceph-osd", "ceph-mon", "bstore_kv_sync", "bstore_kv_final", "tp_osd_tp", "ceph-mgr"
        ],
        paths: [Data "/ceph/mon/", WriteAheadLog "/block.wal"];
        Sync: "Ceph: each write waits for the sync of its log: put block.db and WAL on disks with \
            power-loss protection (others sync in milliseconds), and the monitors' store on a fast \
            disk of its own",
        Reads: "Ceph: raise osd_memory_target; scrubs and recovery read in bulk: osd_max_scrubs, \
            osd_mclock_profile=high_client_ops",
        Compaction: "Ceph: put block.db on a fast disk that holds all of it (else it spills to the \
            slow one: `ceph health detail`)",
    },
    program! {
        "GlusterFS": ["glusterfsd", "glusterfs", "glfs_*"];
        Lookups: "GlusterFS: let clients keep attributes longer (performance.md-cache-timeout 600 \
            with features.cache-invalidation on), performance.parallel-readdir on; each look-up \
            asks all replicas",
        Sync: "GlusterFS: performance.write-behind and flush-behind on (the defaults); bricks on \
            disks with power-loss protection",
        Reads: "GlusterFS: a larger performance.cache-size, more performance.io-thread-count; heal \
            at quiet times",
    },
    program! {
        "SeaweedFS": ["weed"];
        Sync: "SeaweedFS: it syncs each write only where fsync is asked for (in filer.conf, or \
            ?fsync=true): several replicas hold what one machine loses",
        Compaction: "SeaweedFS: vacuum copies a whole volume: -compactionMBps limits it, and \
            smaller volumes (-volumeSizeLimitMB) make it short",
    },
    program! {
        "Garage": ["garage"],
        own: [Data "/meta/"];
        Sync: "Garage: keep metadata_dir on an SSD; metadata_fsync and data_fsync (off by default) \
            sync each object: without them a crash of the machine loses the last ones, which the \
            other nodes repair",
    },
    program! {
        "Redpanda": ["redpanda"],
        paths: [Data "/redpanda/data/"];
        Sync: "Redpanda: acks=all waits for a sync of the log on most replicas: disks with \
            power-loss protection, larger batches (linger.ms), or write_caching_default=true: a \
            crash of several machines at once then loses the last records",
    },
    program! {
        "Loki": ["loki"],
        own: [WriteAheadLog "/wal/", Data "/chunks/"];
        Sync: "Loki: its log is synced at checkpoints alone: give it a disk of its own; \
            chunk_target_size and a longer chunk_idle_period make fewer, larger chunks",
        Replay: "Loki: after a start it replays its log before it is ready: replay_memory_ceiling \
            (most of the memory), flush_on_shutdown: true",
        Reads: "Loki: fewer labels and streams, larger chunks, a cache for chunks and results",
    },
    program! {
        "dqlite": ["k8s-dqlite", "dqlite*", "lxd", "incusd", "microk8s*"],
        own: [WriteAheadLog "/open-", Snapshot "/snapshot-"];
        Sync: "dqlite (MicroK8s, LXD, Incus): its Raft log is synced for each change: put its \
            directory on a disk with a low sync latency, and let fewer controllers change objects \
            all the time (leases, events)",
    },
    program! {
        "ArangoDB": ["arangod"],
        own: [WriteAheadLog "/journals/", Compaction "*.sst"];
        Sync: "ArangoDB: waitForSync (of the collection or the request) syncs each change: leave \
            it off where a crash may lose the last ones, write many documents at once, and put \
            --rocksdb.wal-directory on a disk of its own",
        Reads: "ArangoDB: raise --rocksdb.block-cache-size; give the query an index \
            (`db._explain`)",
        Compaction: "ArangoDB: fewer and larger writes; --rocksdb.throttle slows writers before \
            compaction falls behind",
    },
    program! {
        "RethinkDB": ["rethinkdb"];
        Sync: "RethinkDB: durability \"hard\" syncs each change: write several documents at once, \
            or use durability \"soft\" where a crash may lose the last ones",
        Reads: "RethinkDB: raise --cache-size; give the query an index",
    },
    program! {
        "MonetDB": ["mserver5"],
        own: [WriteAheadLog "/sql_logs/", Data "/bat/"];
        Sync: "MonetDB: load by COPY INTO, many rows in one transaction",
        Reads: "MonetDB: columns are mapped into memory: select fewer of them, provide memory",
    },
    program! {
        "FoundationDB": ["fdbserver"];
        Sync: "FoundationDB: put processes of class transaction (their logs) on disks of their \
            own, apart from those of class storage",
    },
    program! {
        "HDFS": ["hdfs*"],
        paths: [WriteAheadLog "/current/edits_", Snapshot "/fsimage.ckpt_", Data "/current/BP-"];
        Sync: "HDFS: put the edit log (dfs.namenode.edits.dir, dfs.journalnode.edits.dir) on a \
            disk of its own: each change of a name waits for its sync",
        Snapshot: "HDFS: a checkpoint writes the whole image of the names: on a standby or \
            secondary name node, less often (dfs.namenode.checkpoint.period, .txns)",
        Reads: "HDFS: data nodes: more disks (dfs.datanode.data.dir), the balancer and the block \
            scanner at a limited rate (dfs.block.scanner.volume.bytes.per.second)",
    },
    program! {
        "Spark": ["spark*"],
        paths: [Temporary "/blockmgr-"];
        Spill: "Spark: put spark.local.dir (SPARK_LOCAL_DIRS) on fast disks, several of them; more \
            executor memory and more, smaller partitions spill less; filter and select before the \
            shuffle",
        Reads: "Spark: put spark.local.dir on fast disks, several of them; fewer and larger \
            partitions of the shuffle",
    },
    program! {
        "Logstash": ["logstash*"],
        paths: [WriteAheadLog "/queue/main/page.", WriteAheadLog "/queue/main/checkpoint."];
        Sync: "Logstash: a persistent queue syncs a checkpoint each queue.checkpoint.writes events \
            (1024): raise it (a crash of the machine then loses as many); put path.queue on a \
            low-latency disk",
    },
    program! {
        "Gradle/Maven": ["gradle*", "mvn"],
        paths: [Data "/.gradle/caches/", Data "/.m2/repository/"];
        Reads: "Gradle, Maven: keep the cache of artefacts (GRADLE_USER_HOME, ~/.m2) on a local \
            fast disk, and between CI jobs; the configuration cache and --offline (-o) read less",
        Lookups: "Gradle: org.gradle.vfs.watch (on by default on local disks) and the \
            configuration cache look at fewer files; Maven: -o (offline), fewer modules (-pl, -am)",
    },
    program! {
        "H2": ["h2database"],
        paths: [Data "*.mv.db"];
        Sync: "H2: commit several changes at once; WRITE_DELAY (500 ms by default) lets commits \
            share a write: 0 writes each one",
        Reads: "H2: raise CACHE_SIZE; give the query an index (EXPLAIN ANALYZE)",
    },
    program! {
        "Berkeley DB": ["db_load", "db5.3_load"],
        paths: [Data "/__db.00"],
        own: [WriteAheadLog "/log.00000"];
        Sync: "Berkeley DB: change several records in a transaction; in DB_CONFIG: `set_lg_dir` to \
            a low-latency device, or `set_flags DB_TXN_WRITE_NOSYNC`: a crash of the machine then \
            loses the last transactions",
    },
    program! {
        "Virtuoso": ["virtuoso-t"];
        Checkpoint: "Virtuoso: a checkpoint stops all clients: make them rarer \
            (CheckpointInterval; recovery after a crash then takes longer), and load large data at \
            night, in portions",
        Reads: "Virtuoso: raise NumberOfBuffers (two thirds of the memory)",
    },
    program! {
        "kubelet/cAdvisor": ["kubelet", "cadvisor"];
        Lookups: "kubelet, cAdvisor: they walk through all files of containers and volumes to \
            measure them: cAdvisor: `--disable_metrics=disk`, a longer --housekeeping_interval; \
            kubelet: project quotas (LocalStorageCapacityIsolationFSQuotaMonitoring), fewer files \
            in emptyDir volumes",
        Reads: "kubelet, cAdvisor: they walk through all files of containers and volumes to \
            measure them: cAdvisor: `--disable_metrics=disk`, a longer --housekeeping_interval",
    },
];

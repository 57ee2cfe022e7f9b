//! Stores of time series and state of monitoring.
//!
//! What does not belong here: collectors of log messages (see [`super::logs`]).

use super::FileRole::{Compaction, Data, WriteAheadLog};
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Prometheus": ["prometheus", "thanos"],
        own: [
            WriteAheadLog "/wal/", WriteAheadLog "/wbl/", Data "/chunks_head/",
            Compaction "/chunks/"
        ];
        Compaction: "Prometheus: reduce the series or raise scrape_interval; compaction runs every \
            two hours and reads whole blocks",
        Reads: "Prometheus: use recording rules for queries over long ranges; provide more page \
            cache for the blocks they read",
        Replay: "Prometheus: if it has just started, it replays its write-ahead log before it is \
            ready: fewer series, --enable-feature=memory-snapshot-on-shutdown (after a clean \
            shutdown it reads a snapshot instead), or a disk that reads faster; else a checkpoint \
            or remote_write reads it",
        Sync: "Prometheus: keep its data directory on a local device, not on a network",
    },
    program! {
        "VictoriaMetrics": ["victoria-metric*", "vmstorage", "vmsingle"],
        own: [Compaction "/data/small/", Compaction "/data/big/", Compaction "/indexdb/"];
        Compaction: "VictoriaMetrics: it syncs and merges parts in the background: fewer series \
            and samples merge less; -inmemoryDataFlushInterval (5s by default) writes parts less \
            often: a crash then loses the samples of that time",
        Reads: "VictoriaMetrics: query shorter ranges; leave memory to the page cache",
    },
    program! {
        "InfluxDB": ["influxd"],
        paths: [Compaction "*.tsm", Compaction "*.tsm.tmp", Data "*.tsi"],
        own: [WriteAheadLog "/wal/", WriteAheadLog "*.wal"];
        Sync: "InfluxDB: it syncs its log for each write request: send points in batches of \
            thousands, by fewer clients; on slow disks set wal-fsync-delay (1.x) or \
            storage-wal-fsync-delay (2.x) to 100ms, so that requests share a sync: a crash of the \
            machine then loses the points of that time; put wal-dir on a device of its own",
        Replay: "InfluxDB: after a start it replays its log before it is ready: a smaller \
            cache-snapshot-memory-size (2.x: storage-cache-snapshot-memory-size) leaves less of \
            it; else a disk that reads faster",
        Compaction: "InfluxDB: limit compaction (compact-throughput, max-concurrent-compactions; \
            2.x: storage-compact-throughput-burst, storage-max-concurrent-compactions), and write \
            fewer series",
        Reads: "InfluxDB: query shorter ranges or downsampled data; reduce the series \
            (cardinality); use the index on disk (index-version = \"tsi1\")",
    },
    program! {
        "Graphite": ["carbon-*", "go-carbon"],
        paths: [Data "*.wsp"];
        Reads: "Graphite: one file for each metric: lower MAX_UPDATES_PER_SECOND (go-carbon: \
            max-updates-per-second), so that the cache collects several points of a file for one \
            update; limit new files (MAX_CREATES_PER_MINUTE); remove metrics that have ended",
        Checkpoint: "Graphite: one file for each metric: lower MAX_UPDATES_PER_SECOND, so that \
            the cache collects several points of a file for one update",
        Sync: "Graphite: WHISPER_AUTOFLUSH = False (the default) leaves writing to the page cache",
    },
    program! {
        "Nagios/Icinga": ["nagios", "nagios4", "icinga", "naemon"];
        Sync: "Nagios, Icinga: put status_file, check_result_path and temp_path on a tmpfs: they \
            are written all the time, and made anew after a restart",
        Checkpoint: "Nagios, Icinga: put status_file, check_result_path and temp_path on a tmpfs",
        Lookups: "Nagios, Icinga: put check_result_path on a tmpfs",
    },
    program! {
        "rrdcached": ["rrdcached"];
        Pool: "rrdcached: more write threads (-t), and updates that are spread over time (-z; a \
            larger -w with a journal, -j)",
        Reads: "rrdcached: more write threads (-t), updates that are spread over time (-z; a \
            larger -w with a journal, -j), and memory or a faster disk for its files",
    },
    program! {
        "RRD files": ["rrdtool", "collectd", "gmetad", "munin-update", "munin-graph"],
        paths: [Data "*.rrd"];
        Reads: "each update of an RRD file reads and changes a few of its blocks: collect updates \
            by rrdcached (or collectd's CacheTimeout), so that several of a file are one, and keep \
            the files in memory or on a fast disk",
        Checkpoint: "collect updates of RRD files by rrdcached (or collectd's CacheTimeout), so \
            that several of a file are one",
    },
];

//! Message brokers, queues, and the services that keep the state of a cluster.
//!
//! What does not belong here: databases that clients query (see [`super::databases`]).

use super::FileRole::{Data, Snapshot, WriteAheadLog};
use super::KnownProgram;

const MOSQUITTO: &str = "Mosquitto: it writes and syncs all retained messages at once, and answers \
                         nobody meanwhile: set autosave_on_changes false with autosave_interval \
                         1800 (the default, in seconds)";

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Kafka": ["kafka*", "data-plane-kafk*"],
        paths: [WriteAheadLog "/0000000000*.log", Data "/0000000000*.index"];
        Sync: "Kafka: with replicas in other racks leave log.flush.interval.messages \
            (flush.messages of a topic) at its default, no sync per message: without them a crash \
            of the machine loses the last ones; spread partitions over more log.dirs",
        Checkpoint: "Kafka: lower vm.dirty_background_bytes so that the page cache is written \
            evenly; put log.dirs on their own devices",
        Reads: "Kafka: lagging consumers read from the disk: provide more page cache, start fewer \
            consumers at the earliest offset at once",
        Pool: "Kafka: raise num.io.threads (8 by default) to the number of requests that it should \
            read for at once",
    },
    program! {
        "RabbitMQ": ["rabbitmq*"],
        paths: [
            WriteAheadLog "/quorum/rabbit@", Data "/msg_stores/",
            Data "/msg_store_persistent/", Data "*.rdq"
        ],
        own: [WriteAheadLog "*.wal", Data "/mnesia/"];
        Sync: "RabbitMQ: it syncs before it confirms persistent messages: let publishers wait for \
            the confirms of many messages at once, not after each one; put its data directory on \
            a device of its own with power-loss protection; messages that are not persistent and \
            queues that are not durable need no sync, and are lost when it restarts",
        Reads: "RabbitMQ: long queues are read back from disk: add consumers, limit the queues \
            (x-max-length), raise the consumers' prefetch",
    },
    program! {
        "NATS": ["nats-server", "nats-streaming*"],
        paths: [Data "/jetstream/", Data "/msgs/*.blk"];
        Sync: "NATS: with `sync_interval: always` JetStream syncs each message; its default, 2m, \
            leaves that to replicas: a crash of all machines of a stream then loses the last ones. \
            Publish asynchronously, in batches; put store_dir on a low-latency device",
        Reads: "NATS: a consumer that begins far back reads old blocks, and publishers wait for \
            the lock of its stream meanwhile: let such consumers read a mirror of the stream on \
            another server; split a stream by subject, if its consumers read only some of them",
    },
    program! {
        "ZooKeeper": ["zookeeper*"],
        paths: [WriteAheadLog "/version-2/log.", Snapshot "/version-2/snapshot."];
        Sync: "ZooKeeper: each change waits for a sync of its transaction log: put dataLogDir on \
            a device of its own, apart from dataDir's snapshots and from other programs",
        Snapshot: "ZooKeeper: keep the snapshots (dataDir) and the transaction log (dataLogDir) \
            on different devices; take snapshots less often (snapCount)",
    },
    program! {
        "BookKeeper/Pulsar": ["bookkeeper*"],
        paths: [WriteAheadLog "/bookkeeper/journal", Data "/bookkeeper/ledgers"];
        Sync: "BookKeeper: put journalDirectories on a device of their own, apart from \
            ledgerDirectories; let more entries share a sync (journalMaxGroupWaitMSec)",
    },
    program! {
        "ActiveMQ": ["activemq*", "artemis*"],
        paths: [
            WriteAheadLog "/activemq-data-*.amq", WriteAheadLog "/kahadb/db-", Data "/kahadb/db."
        ];
        Sync: "ActiveMQ: it syncs its journal for each persistent message: send in transactions \
            or asynchronously, so that several share a sync; Artemis: a larger \
            journal-buffer-timeout; put the journal on a device of its own. \
            journalDiskSyncStrategy=periodic (KahaDB) syncs once a second: a crash of the machine \
            then loses the messages of that time",
    },
    program! {
        "Consul/Nomad/Vault": ["consul", "nomad", "vault", "openbao"],
        paths: [WriteAheadLog "/raft/raft.db", Snapshot "/raft/snapshots/"],
        own: [WriteAheadLog "/raft/wal/", Data "/vault.db"];
        Sync: "Consul, Nomad, Vault: each change waits for a sync of the Raft log: put the data \
            directory on a low-latency device without other writers; a raft.db whose list of free \
            pages has grown writes it at each commit (Consul: \
            raft_logstore.boltdb.no_freelist_sync, Nomad: raft_boltdb.no_freelist_sync); write \
            less often (fewer health checks that change state, fewer tokens and leases)",
        Snapshot: "Consul, Nomad: raise raft_snapshot_threshold and raft_snapshot_interval, so \
            that the state is written less often (Vault: snapshot_threshold, snapshot_interval)",
    },
    program! {
        "k3s": ["k3s-server", "kine"],
        paths: [WriteAheadLog "/server/db/state.db-wal", Data "/server/db/state.db"];
        Sync: "k3s: its state is in SQLite, which one writer after the other syncs: put \
            /var/lib/rancher/k3s/server/db on a low-latency device without other writers, not on \
            an SD card, or use an external datastore (--datastore-endpoint)",
    },
    program! {
        "Mosquitto": ["mosquitto"];
        Sync: MOSQUITTO,
        Checkpoint: MOSQUITTO,
    },
    program! {
        "beanstalkd": ["beanstalkd"],
        paths: [WriteAheadLog "/binlog."];
        Sync: "beanstalkd: start it with `-f 50` (a sync at most every 50 ms, the default) instead \
            of `-f 0`: a crash of the machine may lose the jobs of that time",
    },
    program! {
        "NSQ": ["nsqd"],
        paths: [WriteAheadLog ".diskqueue."];
        Sync: "NSQ: keep more messages in memory (`--mem-queue-size`, whose messages a crash \
            loses), sync less often (`--sync-every`, 2500 by default, `--sync-timeout`; a crash \
            of the machine loses what was not synced), or put `--data-path` on a device with \
            power-loss protection",
    },
];

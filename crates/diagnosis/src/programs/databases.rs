//! Databases and key-value stores.
//!
//! What does not belong here: programs that keep no data of their own (see the siblings).

use super::FileRole::{Compaction, Data, NewSegment, NewTable, Snapshot, Temporary, WriteAheadLog};
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Meilisearch": ["meilisearch"],
        own: [Data "*.mdb"];
        Sync: "Meilisearch: it commits and syncs each batch of documents: send larger batches \
            (one request with thousands instead of one for each), and configure the index before \
            the first ones",
        Reads: "Meilisearch: its index is mapped into memory: provide memory for the page cache",
    },
    program! {
        "Sphinx/Manticore": ["searchd"],
        own: [WriteAheadLog "/binlog.", Compaction "*.spa", Compaction "*.spd"];
        Sync: "Sphinx, Manticore: binlog_flush=1 syncs the log for each transaction; 2 (the \
            default) writes it each time and syncs every second: a crash of the machine then loses \
            the last second; put binlog_path on a low-latency device",
        Reads: "Sphinx, Manticore: keep attributes and document lists in memory \
            (access_plain_attrs and access_doclists = mlock), or provide memory for the page cache",
    },
    program! {
        "PostgreSQL": ["postgres", "postmaster", "pg_basebackup", "pg_dump"],
        paths: [
            NewSegment "/xlogtemp.", WriteAheadLog "/pg_wal/", WriteAheadLog "/pg_xlog/",
            Temporary "/pgsql_tmp", Data "/pg_xact/", Data "/pg_tblspc/"
        ],
        own: [Data "/base/", Data "/global/"];
        Sync: "PostgreSQL: put pg_wal on its own low-latency device, or batch commits \
            (commit_delay, larger transactions); where a crash may lose the last transactions, set \
            synchronous_commit=off",
        NewSegment: "PostgreSQL: a new segment is filled with zeros and synced while commits wait: \
            with wal_recycle=on (the default) and a larger min_wal_size old segments are used \
            again; on file systems that copy on write (btrfs, ZFS) set wal_recycle and \
            wal_init_zero to off instead",
        RowLock: "PostgreSQL: let fewer transactions change the same row (spread a counter over \
            several rows, or collect changes and apply them in one), and lock it last; `SET LOCAL \
            synchronous_commit = off` in these transactions releases the row without the sync: a \
            crash then loses the last ones; commit_delay makes this worse, since the row stays \
            locked meanwhile",
        Checkpoint: "PostgreSQL: raise max_wal_size so that checkpoint_timeout triggers \
            checkpoints, keep checkpoint_completion_target=0.9, set checkpoint_flush_after, and \
            put pg_wal on its own device; DROP DATABASE, base backups and CREATE DATABASE with \
            STRATEGY file_copy force one and wait for it (log_checkpoints tells which)",
        Recovery: "PostgreSQL 14 and later: set recovery_init_sync_method=syncfs, which syncs the \
            file system once instead of each data file",
        Scan: "PostgreSQL: `EXPLAIN (ANALYZE, BUFFERS)` the query and give it an index; a scan \
            that is meant to be one runs off-peak, with fewer parallel workers \
            (max_parallel_workers_per_gather)",
        Maintenance: "PostgreSQL: see who it is (`SELECT pid, backend_type, query FROM \
            pg_stat_activity`, pg_stat_progress_vacuum); for autovacuum raise \
            autovacuum_vacuum_cost_delay or lower autovacuum_vacuum_cost_limit, run VACUUM FULL, \
            CLUSTER and CREATE INDEX off-peak",
        Spill: "PostgreSQL: raise work_mem for the sessions that sort or hash (`log_temp_files=0` \
            names the queries), or set temp_tablespaces to another device",
        Pool: "PostgreSQL: raise effective_io_concurrency (reads ahead of bitmap scans, and from \
            version 18 on of all scans) and maintenance_io_concurrency (vacuum), from version 18 \
            on io_workers, too",
        Reads: "PostgreSQL: `EXPLAIN (ANALYZE, BUFFERS)` the query; if it scans a table, use an \
            index, and fewer parallel workers (max_parallel_workers_per_gather) next to \
            latency-sensitive clients; if it fetches scattered rows, let bitmap scans read ahead \
            (effective_io_concurrency, in the order of what the device takes at once; 0 is off); \
            else more memory for shared_buffers and the page cache",
    },
    program! {
        "MySQL/MariaDB": [
            "mysqld", "mariadbd", "ib_log_flush", "ib_log_fl_notif", "ib_pg_flush_co*"
        ],
        paths: [
            WriteAheadLog "/ib_logfile*", WriteAheadLog "/#innodb_redo/", Data "/ibdata*",
            Data "#ib_*.dblwr", Temporary "/ibtmp*", Temporary "/#innodb_temp/"
        ],
        own: [
            WriteAheadLog "-bin.0*", WriteAheadLog "/binlog.*", Temporary "/#sql-temptable*",
            NewTable "/#sql-*", Temporary "/#sql*", Data "*.ibd", Data "*.MYD"
        ];
        Sync: "MySQL/MariaDB: put the redo log and the binary log on a low-latency device, or let \
            commits share a sync (MySQL: binlog_group_commit_sync_delay; MariaDB: \
            binlog_commit_wait_count with binlog_commit_wait_usec); \
            innodb_flush_log_at_trx_commit=2 and sync_binlog=1000 sync less: a crash of the \
            machine then loses up to a second, and of the binary log more, so that replicas may \
            have to be made anew",
        RowLock: "MySQL/MariaDB: let fewer transactions change the same row (spread a counter over \
            several rows, or collect changes and apply them in one), and lock it last; \
            innodb_flush_log_at_trx_commit=2 releases the row without the sync: a crash of the \
            machine then loses up to a second; a delay that lets commits share a sync makes this \
            worse",
        Checkpoint: "MySQL/MariaDB: enlarge the redo log (innodb_redo_log_capacity or \
            innodb_log_file_size), set innodb_io_capacity to what the device can do, turn \
            innodb_adaptive_flushing on",
        Spill: "MySQL/MariaDB: find the queries that sort or build temporary tables (`SHOW GLOBAL \
            STATUS LIKE 'Created_tmp_disk%'`), add indexes, raise tmp_table_size with \
            max_heap_table_size, or move tmpdir to another device",
        Reads: "MySQL/MariaDB: raise innodb_buffer_pool_size; `EXPLAIN` the query that scans",
        Ahead: "MySQL/MariaDB: after a restart it fills its buffer pool with what was there before \
            (`SHOW STATUS LIKE 'Innodb_buffer_pool_load_status'`; `SET GLOBAL \
            innodb_buffer_pool_load_abort=ON` ends that now): a lower innodb_io_capacity or \
            innodb_buffer_pool_dump_pct reads less at a time, or give it its clients only \
            afterwards; else it reads ahead (innodb_read_ahead_threshold)",
        Pool: "MySQL/MariaDB: a session reads what the buffer pool does not hold, one page at a \
            time: raise innodb_buffer_pool_size (`SHOW STATUS LIKE 'Innodb_buffer_pool_reads'`), \
            up to most of the memory; innodb_read_io_threads (at most 64) only reads ahead, and \
            only where it does not use native asynchronous I/O",
        Scan: "MySQL/MariaDB: `EXPLAIN` the query that reads the whole table (`SHOW PROCESSLIST`), \
            and give it an index",
        Maintenance: "MySQL/MariaDB: `SHOW PROCESSLIST` names the statement (ALTER TABLE, \
            OPTIMIZE, a dump): run it off-peak, or in portions. An ALTER TABLE with \
            ALGORITHM=INSTANT, or INPLACE and LOCK=NONE, fails where it would block writers, as a \
            copy mostly does; gh-ost and pt-online-schema-change copy a table beside them, and \
            more slowly when asked",
    },
    program! {
        "etcd": ["etcd"],
        paths: [
            WriteAheadLog "/member/wal/", Snapshot "/member/snap/*.snap",
            Compaction "/member/snap/db.tmp*"
        ],
        own: [Data "/snap/db"];
        Sync: "etcd: put its data directory, or --wal-dir alone, on a device of its own with low \
            sync latency (its manual requires a 99th percentile of the WAL's fsync below 10 ms); \
            until then raise --heartbeat-interval and --election-timeout so that no leader is \
            lost",
        Checkpoint: "etcd: compact and defragment one member at a time, and keep other writers off \
            its device",
        Compaction: "etcd: it defragments its database, and answers nobody meanwhile: do so \
            rarely, at a quiet hour and one member after the other (find the job that calls \
            `etcdctl defrag`); compaction (--auto-compaction-mode) needs no pause",
    },
    program! {
        "Redis/Valkey": [
            "redis-server", "valkey-server", "redis-rdb-bgsav", "redis-aof-rewri", "keydb-server"
        ],
        paths: [WriteAheadLog "/appendonlydir/", WriteAheadLog "/appendonly.aof"],
        own: [Snapshot "/temp-", Snapshot "*.rdb", WriteAheadLog "*.aof"];
        Sync: "Redis: put the append-only file on a low-latency device; appendfsync everysec syncs \
            once per second, and a crash then loses up to about a second of writes",
        Replay: "Redis: after a start it loads its data before it is ready: \
            aof-use-rdb-preamble yes (the default) and a rewrite (BGREWRITEAOF) make the file \
            smaller; else a disk that reads faster, or a replica that takes over meanwhile",
        Snapshot: "Redis: keep rdb-save-incremental-fsync yes (the default: without it a whole \
            snapshot is synced at its end), take snapshots by BGSAVE (SAVE writes them in the one \
            thread that answers clients), on a replica, at quiet times (save), or on a different \
            device from the append-only file. no-appendfsync-on-rewrite yes avoids most of the \
            stall; a crash during a rewrite then loses up to 30 s of writes. A replica that writes \
            temp-N.N.rdb receives a full copy from its primary: keep the link, raise \
            repl-backlog-size there so that a short break needs none, and see repl-diskless-load",
    },
    program! {
        "MongoDB": ["mongod"],
        paths: [WriteAheadLog "/journal/WiredTigerLog", WriteAheadLog "WiredTigerPreplog"],
        own: [Data "/collection-", Data "/index-", Data "*.wt"];
        Sync: "MongoDB: put the journal directory on a low-latency device; batch writes; \
            writeConcern j:true makes each write wait for the journal",
        Checkpoint: "MongoDB: lower eviction_dirty_target and eviction_dirty_trigger so that \
            checkpoints write less at once; put journal and data on separate devices",
        Reads: "MongoDB: provide more memory for the WiredTiger cache and the page cache; add an \
            index for the query that scans (`db.currentOp()`); set readahead to 8 to 32 sectors on \
            the data device, as its production notes say",
    },
    program! {
        "Apache Derby": ["derby*"],
        paths: [Data "/seg0/c*.dat", WriteAheadLog "/log/log*.dat"];
        Sync: "Derby: it syncs its log for each commit: commit several changes at once; a \
            checkpoint syncs all tables, after each derby.storage.checkpointInterval bytes of log: \
            10 MiB, the default, or more (recovery after a crash then takes longer)",
    },
    program! {
        "SQLite": ["sqlite3"],
        paths: [
            WriteAheadLog "*.db-journal", WriteAheadLog "*.db-wal", WriteAheadLog "*.sqlite-wal",
            WriteAheadLog "*.sqlite-journal", WriteAheadLog "*.sqlite3-wal",
            WriteAheadLog "*.sqlite3-journal"
        ],
        own: [WriteAheadLog "-journal", WriteAheadLog "-wal", Data "*.db"];
        Sync: "SQLite: batch several changes in one transaction; with a write-ahead log (`PRAGMA \
            journal_mode`) `PRAGMA synchronous=NORMAL` syncs only at checkpoints: after a power \
            failure or a crash of the machine the last transactions may be missing, the database \
            stays consistent",
        Spilled: "SQLite: a transaction that changes more than its page cache holds syncs the \
            rollback journal each time it writes some of that back: where these are such, let the \
            cache hold it (`PRAGMA cache_size = -200000` is 200 MB, the default 2 MB), commit in \
            smaller portions, or use a write-ahead log (`PRAGMA journal_mode = WAL`), which is \
            synced at commits and checkpoints alone",
        Reads: "SQLite: VACUUM and the deletion of many rows read and write the whole file, and \
            every other change of it waits: run them off-peak; give a query that scans an index \
            (`EXPLAIN QUERY PLAN`)",
        Checkpoint: "SQLite: keep read transactions short, since one that stays open keeps the \
            write-ahead log from being reset; checkpoint at quiet times (`PRAGMA \
            wal_checkpoint(TRUNCATE)`), and limit the log (`PRAGMA journal_size_limit`)",
    },
    program! {
        "Firebird": ["firebird", "fb_inet_server", "fbserver"],
        paths: [Data "*.fdb"];
        Sync: "Firebird: with forced writes (`gstat -h` shows \"force write\") each page is \
            written synchronously: change several rows in one transaction; `gfix -write async` \
            risks the whole database in a crash, so use a faster device instead",
    },
    program! {
        "HSQLDB": ["hsqldb*"],
        paths: [Snapshot "*.script.new"];
        Snapshot: "HSQLDB: a checkpoint writes all in-memory tables anew while every session \
            waits, each time that the log reaches hsqldb.log_size: raise it (`SET FILES LOG SIZE \
            200`), use CACHED tables for large ones",
        Checkpoint: "HSQLDB: raise hsqldb.log_size, use CACHED tables for large ones",
    },
    program! {
        "OpenLDAP": ["slapd"],
        own: [Data "/data.mdb"];
        Sync: "OpenLDAP: one change at a time is written and synced: load many entries offline \
            (`slapadd -q`), one stream at a time, or at quiet times; `olcDbNoSync` with \
            `olcDbCheckpoint` syncs less: a crash of the machine then loses the last changes; \
            logins write, too, with `lastbind`: turn \
            it off, or let it write seldom (olcLastBindPrecision)",
        Reads: "OpenLDAP: provide more memory for the page cache; index what is searched",
    },
    program! {
        "RocksDB": ["rocksdb:*", "db_bench", "cockroach", "tikv-server", "tikv*", "kvrocks"],
        paths: [Compaction "*.sst", Compaction "*.ldb"],
        own: [WriteAheadLog "/0*.log", WriteAheadLog "/wal/"];
        Sync: "RocksDB: put the write-ahead log on its own device (wal_dir), let writers share a \
            sync (group commit: more writers at once, larger batches)",
        Compaction: "RocksDB, LevelDB: compaction must keep up with the writes, else it stalls \
            them: use larger write buffers (write_buffer_size), compress, write less at once, or \
            use a device with more write throughput; RocksDB: limit compaction (rate_limiter, \
            max_background_jobs, bytes_per_sync=1048576)",
        Reads: "RocksDB: look-ups: a larger block cache, bloom filters; compaction or scans that \
            read one small block after another, as with direct reads: \
            compaction_readahead_size (2 MiB), ReadOptions::readahead_size",
    },
    program! {
        "Cassandra/ScyllaDB": [
            "cassandra", "scylla", "MutationStage*", "CompactionExec*", "COMMIT-LOG-*"
        ],
        paths: [WriteAheadLog "/commitlog/CommitLog-", WriteAheadLog "/commitlog/"],
        own: [Compaction "-Data.db", Compaction "-Index.db"];
        Sync: "Cassandra: put commitlog_directory on its own device; commitlog_sync: periodic does \
            not make writes wait",
        Compaction: "Cassandra: lower compaction_throughput (`nodetool setcompactionthroughput`) \
            and concurrent_compactors",
        Reads: "Cassandra: set a small readahead (8 KiB to 16 KiB) on the data device, as its \
            documentation says; disk_access_mode: mmap_index_only",
    },
    program! {
        "QuestDB": ["questdb*"],
        paths: [Data "/.questdb/", Data "/questdb/db/"];
        Reads: "QuestDB: use a version that calls madvise(MADV_RANDOM) on its append columns \
            (6.5.4 and later); a larger cairo.writer.data.append.page.size does not help",
    },
    program! {
        "CouchDB": ["couchdb*"],
        paths: [Data "*.couch"];
        Sync: "CouchDB: each update is synced: write many documents in one request (_bulk_docs)",
        Compaction: "CouchDB: compact at quiet times (the windows of smoosh, its compaction \
            daemon), and fewer databases at once",
        Reads: "CouchDB: a view that was not queried for long is built when it is: query it \
            regularly (ken builds views ahead), or read it as it is (`update=lazy`)",
    },
    program! {
        "ClickHouse": ["clickhouse", "clickhouse-serv"],
        paths: [Compaction "/tmp_merge_", Data "/tmp_insert_", Data "/clickhouse/store/"];
        Sync: "ClickHouse: insert thousands of rows at once, at most once a second for each \
            table (async_insert = 1 collects them): each insert makes a part of many files; \
            fsync_after_insert is off by default",
        Compaction: "ClickHouse: insert fewer, larger parts, so that less is merged; limit merges \
            (background_pool_size, max_bytes_to_merge_at_max_space_in_pool)",
        Spill: "ClickHouse: raise max_bytes_before_external_group_by and \
            max_bytes_before_external_sort, or put tmp_path on another device",
        Reads: "ClickHouse: many small parts are many small reads: insert fewer, larger blocks, \
            let merges run (`SELECT count() FROM system.parts WHERE active`; OPTIMIZE at a quiet \
            time); read fewer columns and a range of the primary key; more memory for \
            mark_cache_size and the page cache",
    },
    program! {
        "Neo4j": ["neo4j*"],
        paths: [WriteAheadLog "/neostore.transaction.db.", Data "/neostore."];
        Sync: "Neo4j: change more in each transaction; put the transaction logs \
            (server.directories.transaction.logs.root) on a device of their own",
        Reads: "Neo4j: raise server.memory.pagecache.size to the size of the store, warm it up",
        Checkpoint: "Neo4j: limit what a checkpoint writes (db.checkpoint.iops.limit), and put the \
            transaction logs on a device of their own",
    },
    program! {
        "Tarantool": ["tarantool"],
        paths: [WriteAheadLog "*.xlog"],
        own: [Snapshot "*.snap", Compaction "*.run"];
        Sync: "Tarantool: wal_mode 'fsync' syncs each transaction: change several rows in one; \
            'write' (the default) loses the last ones in a crash of the machine",
        Snapshot: "Tarantool: limit the rate of snapshots (snap_io_rate_limit), and put them \
            (memtx_dir) and the log (wal_dir) on different devices",
    },
    program! {
        "DuckDB": ["duckdb"],
        paths: [
            WriteAheadLog "*.duckdb.wal", Temporary "duckdb_temp_*", Data "*.duckdb"
        ];
        Sync: "DuckDB: insert many rows in one transaction (an Appender, COPY, INSERT ... SELECT)",
        Spill: "DuckDB: raise memory_limit, lower threads, or put temp_directory on a fast disk",
        Reads: "DuckDB: read fewer columns; raise memory_limit",
    },
];

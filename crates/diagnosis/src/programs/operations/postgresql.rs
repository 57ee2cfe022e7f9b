//! PostgreSQL: what its processes and threads do, by their functions.
//!
//! What does not belong here: settings that depend on its files alone (see [`super::super`]).

use super::super::Topic;
use super::{Advice, AwaitedCalls, Operation, PAGES, SYNCS};

pub(super) const ALL: &[Operation] = &[
    Operation {
        program: "PostgreSQL",
        functions: &["ApplyWorkerMain"],
        beneath: &["RelationFindReplTupleSeq"],
        waits: Some(AwaitedCalls::Reads),
        does: "applies the changes of a publication, and scans a table for each changed row",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: give the subscriber's table a primary key, or an index that REPLICA \
             IDENTITY names: with REPLICA IDENTITY FULL and no usable index each changed or \
             removed row is looked for in all of the table",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["SendBaseBackup"],
        beneath: &[],
        waits: None,
        does: "sends a base backup",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: take base backups of a standby, at a quiet time, or at a limited rate \
             (`pg_basebackup --max-rate`)",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["WalReceiverMain"],
        beneath: &[],
        waits: None,
        does: "is the WAL receiver of a standby",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: where commits of the primary wait for this standby \
             (pg_stat_replication.sync_state), put its pg_wal on a faster device, let any of \
             several standbys answer (`synchronous_standby_names = 'ANY 1 (a, b)'`), or set \
             synchronous_commit=remote_write on the primary: a crash of both machines then loses \
             the last transactions",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["CheckpointerMain"],
        beneath: &[],
        waits: None,
        does: "is the checkpointer",
        is_statement: false,
        advice: Advice::Topic(Topic::Checkpoint),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["AutoVacWorkerMain"],
        beneath: &[],
        waits: None,
        does: "is an autovacuum worker",
        is_statement: false,
        advice: Advice::Topic(Topic::Maintenance),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["StartupProcessMain"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "replays the log, and reads the pages that it changes first",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: recovery_prefetch (15 and later) reads ahead, with a larger \
             maintenance_io_concurrency and wal_decode_buffer_size more; more shared_buffers keep \
             the pages; checkpoints more often leave less to replay after a crash",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["XLogSaveBufferForHint"],
        beneath: &[],
        waits: None,
        does: "is the first to read new rows, and writes each of their pages to the log to mark \
               them",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: VACUUM a table after it was loaded (or load it by COPY ... FREEZE), so \
             that queries need not mark its rows; with checksums or wal_log_hints=on each page \
             that they mark is written to the log whole, and more shared_buffers let others write \
             it to the table",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["SubTransGetParent"],
        beneath: &["SimpleLruReadPage", "SimpleLruReadPage_ReadOnly"],
        waits: Some(AwaitedCalls::Reads),
        does: "looks up subtransactions (pg_subtrans)",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: fewer savepoints in a transaction (up to 64 subtransactions are kept in \
             memory; loops with EXCEPTION blocks make one each), and no transaction that stays \
             open for long beside them",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["SimpleLruReadPage", "SimpleLruReadPage_ReadOnly"],
        beneath: &[],
        waits: Some(AwaitedCalls::Reads),
        does: "looks up how old transactions ended (pg_xact, pg_multixact)",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: VACUUM (FREEZE) marks rows for good, so that how their transactions ended \
             is not looked up; from version 17 on raise transaction_buffers and \
             multixact_member_buffers",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["heap_fetch_toast_slice"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "fetches large values, which are stored apart from their rows",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: select only the columns that are needed (no `SELECT *`), keep large \
             values in a table of their own, compress them better (default_toast_compression = \
             lz4), or give more memory to shared_buffers and the page cache",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["ginInsertCleanup"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "moves the pending list of a GIN index into it, and reads the page of each key \
               first",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: a statement that fills the pending list of a GIN index empties it: lower \
             gin_pending_list_limit so that each time is short, let autovacuum come more often, or \
             set fastupdate = off on the index",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["ExecRefreshMatView"],
        beneath: &[],
        waits: None,
        does: "refreshes a materialized view",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: REFRESH MATERIALIZED VIEW computes all of it anew: refresh it off-peak \
             and less often, CONCURRENTLY (so that readers need not wait), or keep a table that \
             triggers change",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["analyze_rel"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "samples a table for the planner (ANALYZE)",
        is_statement: false,
        advice: Advice::Topic(Topic::Maintenance),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["RI_Initial_Check"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "checks a new foreign key, and reads both of its tables",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: ALTER TABLE ... ADD CONSTRAINT ... NOT VALID checks new rows alone; \
             VALIDATE CONSTRAINT at a quiet time checks the others",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &[
            "RI_FKey_cascade_del",
            "RI_FKey_noaction_del",
            "RI_FKey_restrict_del",
            "RI_FKey_setnull_del",
            "RI_FKey_setdefault_del",
        ],
        beneath: &["heap_getnextslot"],
        waits: Some(AwaitedCalls::Reads),
        does: "deletes rows, and scans a table for others that refer to each by a foreign key",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: give the referring columns an index (a foreign key does not make one): \
             without it each deleted row scans the whole referring table",
        ),
    },
    // The functions above end with a call of what scans, so that they are mostly not on the stack.
    Operation {
        program: "PostgreSQL",
        functions: &["SPI_execute_snapshot"],
        beneath: &["heap_getnextslot"],
        waits: Some(AwaitedCalls::Reads),
        does: "checks foreign keys, and scans a table for each row",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: where rows are deleted or their keys change, give the referring columns \
             an index (a foreign key does not make one): without it each row scans the whole \
             referring table; where rows are added, ANALYZE the table that they refer to",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["index_build"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "builds an index, and reads all of its table",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: CREATE INDEX CONCURRENTLY (REINDEX ... CONCURRENTLY) lets others write to \
             the table meanwhile, which the plain statement does not; at a quiet time, with a \
             larger maintenance_work_mem",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["cluster_rel", "heap_vacuum_rel"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "rewrites or vacuums a table",
        is_statement: false,
        advice: Advice::Topic(Topic::Maintenance),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["AlterTable", "RelationCopyStorage"],
        beneath: &[],
        waits: None,
        does: "changes a table, and reads or writes all of it",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: an ALTER TABLE that changes a type, adds a column with a volatile default \
             or moves the table writes all of it anew, and nobody else can use it meanwhile: add a \
             column, fill it in portions, and switch; set lock_timeout, run it off-peak",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["_bt_doinsert", "btinsert", "hashinsert", "gininsert", "gistinsert"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "adds keys to an index that is not in memory, and reads the page of each first",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: where keys are random (UUIDv4, hashes), use ones that grow with time \
             (bigint, UUIDv7), so that new ones meet in the same pages; drop indexes that nobody \
             reads, partition the table by time, or keep the indexes in memory (shared_buffers, \
             pg_prewarm after a restart)",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["copydir"],
        beneath: SYNCS,
        waits: Some(AwaitedCalls::Syncs),
        does: "copies a database, and syncs each of its files",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: make databases rarely, and use one again (roll back, or TRUNCATE its \
             tables); CREATE DATABASE ... STRATEGY wal_log (15 and later, the default) writes a \
             small template to the log instead of syncing its files; a cluster for tests that may \
             be lost: keep it on a tmpfs, or fsync=off",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["XLogFileInit"],
        beneath: SYNCS,
        waits: Some(AwaitedCalls::Syncs),
        does: "fills a new segment of the log with zeros",
        is_statement: true,
        advice: Advice::Topic(Topic::NewSegment),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["PortalRun"],
        beneath: &["heap_getnextslot"],
        waits: Some(AwaitedCalls::Reads),
        does: "scans a table for a client",
        is_statement: true,
        advice: Advice::Topic(Topic::Scan),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["index_getnext_tid", "index_fetch_heap", "btgettuple"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "fetches rows by an index for a client",
        is_statement: true,
        advice: Advice::Own(
            "PostgreSQL: each row that an index finds is read alone: an index that holds the \
             columns asked for (INCLUDE), a table that is ordered by it (CLUSTER), or more \
             shared_buffers and page cache read less; for many rows a bitmap scan reads ahead \
             (effective_io_concurrency; a lower random_page_cost makes index scans more likely, a \
             higher one bitmap scans)",
        ),
    },
    Operation {
        program: "PostgreSQL",
        functions: &["CopyFrom"],
        beneath: &[],
        waits: None,
        does: "loads rows (COPY)",
        is_statement: false,
        advice: Advice::Own(
            "PostgreSQL: load a table before its indexes and foreign keys are made; raise \
             max_wal_size meanwhile; COPY into a table that the same transaction has created \
             writes no log where wal_level=minimal",
        ),
    },
];

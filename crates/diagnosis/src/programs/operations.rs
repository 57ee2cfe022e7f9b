//! What a program is doing, told by its own functions on the stack: a statement of a client, or
//! one of the program's workers.
//!
//! Functions are those that the programs' distributed binaries export; the first entry that fits
//! counts, so that what a client asked for stands before what it takes.
//!
//! What does not belong here: advice that depends on files alone (see the siblings).

use super::{Topic, named, of};

/// What a program does.
#[derive(Debug)]
pub struct Operation {
    /// The program, as [`super::KnownProgram`] names it.
    program: &'static str,
    /// Functions any of which tell it, without their parameters.
    functions: &'static [&'static str],
    /// Functions of which one has to be there, too; any if there are none.
    beneath: &'static [&'static str],
    /// What the process waits for meanwhile; any if that is `None`.
    pub waits: Option<AwaitedCalls>,
    /// What the process is or does, with the verb.
    pub does: &'static str,
    /// Whether it is a statement of a client, who waits for it.
    pub is_statement: bool,
    advice: Advice,
}

/// The calls that a process waits in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedCalls {
    /// Reads.
    Reads,
    /// Syncs.
    Syncs,
}

/// What to do about it.
#[derive(Clone, Copy, Debug)]
enum Advice {
    /// What holds for that topic anyway.
    Topic(Topic),
    /// Something of its own.
    Own(&'static str),
}

/// Functions that read, of PostgreSQL a page.
const READS: &[&str] = &["pread", "pread64", "__pread64", "__libc_pread", "__libc_pread64"];
const PAGES: &[&str] = &["mdread", "mdreadv", "mdstartreadv"];
/// Functions that sync a file.
const SYNCS: &[&str] = &["fsync", "fdatasync", "__libc_fsync", "pg_fsync"];

const POSTGRESQL: &str = "PostgreSQL";
const MYSQL: &str = "MySQL/MariaDB";

const ALL: &[Operation] = &[
    Operation {
        program: POSTGRESQL,
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
        program: POSTGRESQL,
        functions: &["CheckpointerMain"],
        beneath: &[],
        waits: None,
        does: "is the checkpointer",
        is_statement: false,
        advice: Advice::Topic(Topic::Checkpoint),
    },
    Operation {
        program: POSTGRESQL,
        functions: &["AutoVacWorkerMain"],
        beneath: &[],
        waits: None,
        does: "is an autovacuum worker",
        is_statement: false,
        advice: Advice::Topic(Topic::Maintenance),
    },
    Operation {
        program: POSTGRESQL,
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
        program: POSTGRESQL,
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
        program: POSTGRESQL,
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
        program: POSTGRESQL,
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
        program: POSTGRESQL,
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
        program: POSTGRESQL,
        functions: &["index_build", "cluster_rel", "heap_vacuum_rel"],
        beneath: PAGES,
        waits: Some(AwaitedCalls::Reads),
        does: "builds an index, or rewrites or vacuums a table",
        is_statement: false,
        advice: Advice::Topic(Topic::Maintenance),
    },
    Operation {
        program: POSTGRESQL,
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
        program: POSTGRESQL,
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
        program: POSTGRESQL,
        functions: &["XLogFileInit"],
        beneath: SYNCS,
        waits: Some(AwaitedCalls::Syncs),
        does: "fills a new segment of the log with zeros",
        is_statement: true,
        advice: Advice::Topic(Topic::NewSegment),
    },
    Operation {
        program: MYSQL,
        functions: &["Sql_cmd_truncate_table::execute"],
        beneath: SYNCS,
        waits: Some(AwaitedCalls::Syncs),
        does: "truncates tables, and makes and syncs new files for each",
        is_statement: true,
        advice: Advice::Own(
            "MySQL/MariaDB: empty small tables by DELETE in one transaction; tests: undo by \
             ROLLBACK, or keep the data directory on a tmpfs",
        ),
    },
    Operation {
        program: MYSQL,
        functions: &[
            "mysql_create_table_no_lock",
            "mysql_create_table",
            "Sql_cmd_create_table_like::execute",
            "mysql_rm_table",
            "mysql_rm_table_no_locks",
        ],
        beneath: SYNCS,
        waits: Some(AwaitedCalls::Syncs),
        does: "creates or drops tables, and syncs files for each",
        is_statement: true,
        advice: Advice::Own(
            "MySQL/MariaDB: create tables once and empty them instead, or use temporary tables; \
             tests: keep the data directory on a tmpfs",
        ),
    },
    Operation {
        program: MYSQL,
        functions: &[
            "mysql_alter_table",
            "Sql_cmd_alter_table::execute",
            "Sql_cmd_optimize_table::execute",
            "Sql_cmd_check_table::execute",
            "Sql_cmd_analyze_table::execute",
            "mysql_recreate_table",
        ],
        beneath: &[],
        waits: None,
        does: "changes, rebuilds or checks a table",
        is_statement: false,
        advice: Advice::Topic(Topic::Maintenance),
    },
    Operation {
        program: MYSQL,
        functions: &["handler::ha_write_row"],
        beneath: READS,
        waits: Some(AwaitedCalls::Reads),
        does: "adds rows whose keys are not in memory, and reads the page of each first",
        is_statement: true,
        advice: Advice::Own(
            "MySQL/MariaDB: where keys are random (UUIDv4, hashes), use ones that grow with time \
             (AUTO_INCREMENT, UUIDv7), so that new ones meet in the same pages; drop indexes that \
             nobody reads; raise innodb_buffer_pool_size",
        ),
    },
    Operation {
        program: POSTGRESQL,
        functions: &["PortalRun"],
        beneath: &["heap_getnextslot"],
        waits: Some(AwaitedCalls::Reads),
        does: "scans a table for a client",
        is_statement: true,
        advice: Advice::Topic(Topic::Scan),
    },
];

impl Operation {
    /// Returns what a process in these functions is or does; `None` if they do not tell.
    pub fn of(process: &str, functions: &[String]) -> Option<&'static Operation> {
        let program = of(Some(process), None)?;
        let is_on = |wanted: &[&str]| {
            functions.iter().any(|function| {
                // C++ functions are written with their parameters.
                let name = function.split('(').next().unwrap_or(function);
                wanted.contains(&name)
            })
        };
        let own = ALL.iter().filter(|operation| operation.program == program.name);
        own.filter(|operation| operation.beneath.is_empty() || is_on(operation.beneath))
            .find(|operation| is_on(operation.functions))
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match self.advice {
            Advice::Topic(topic) => named(self.program)?.advice(topic),
            Advice::Own(advice) => Some(advice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does(process: &str, functions: &[&str]) -> Option<&'static str> {
        let functions: Vec<String> =
            functions.iter().map(|function| (*function).to_owned()).collect();
        Operation::of(process, &functions).map(|operation| operation.does)
    }

    #[test]
    fn each_entry_has_its_program_and_advice() {
        for operation in ALL {
            let process = if operation.program == MYSQL { "mariadbd" } else { "postgres" };
            let functions = [operation.functions, operation.beneath].concat();
            for function in operation.functions {
                let one = [&[*function], operation.beneath].concat();
                assert_eq!(does(process, &one), Some(operation.does), "{function}");
            }
            assert_eq!(does("other", &functions), None);
            assert!(operation.advice().is_some(), "{}", operation.does);
        }
    }

    #[test]
    fn a_statement_is_told_by_its_function_whatever_its_parameters() {
        let truncate = ["fdatasync", "Sql_cmd_truncate_table::execute(THD*)", "start_thread"];
        assert!(does("mariadbd", &truncate).unwrap().starts_with("truncates tables"));
        assert_eq!(does("mariadbd", &["fdatasync", "mysql_execute_command(THD*, bool)"]), None);
    }

    #[test]
    fn a_foreign_key_without_index_is_told_from_a_scan() {
        let scan = ["mdread", "heap_getnextslot", "ExecScan", "PortalRun", "PostgresMain"];
        assert_eq!(does("postgres", &scan), Some("scans a table for a client"));
        let check = [&scan[..3], &["SPI_execute_snapshot", "AfterTriggerEndQuery"], &scan[3..]];
        let checks = "checks foreign keys, and scans a table";
        assert!(does("postgres", &check.concat()).unwrap().starts_with(checks));
    }

    #[test]
    fn what_is_added_to_an_index_is_told_from_its_commit() {
        let insert = ["btinsert", "ExecInsertIndexTuples"];
        assert_eq!(does("postgres", &insert), None, "it waits for something else");
        let reads = ["__libc_pread", "mdread", "btinsert", "ExecInsertIndexTuples"];
        assert!(does("postgres", &reads).unwrap().starts_with("adds keys"));
    }
}

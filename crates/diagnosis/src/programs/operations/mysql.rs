//! MySQL and MariaDB: what its processes and threads do, by their functions.
//!
//! What does not belong here: settings that depend on its files alone (see [`super::super`]).

use super::super::Topic;
use super::{Advice, AwaitedCalls, Operation, READS, SYNCS};

pub(super) const ALL: &[Operation] = &[
    Operation {
        program: "MySQL/MariaDB",
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
        program: "MySQL/MariaDB",
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
        program: "MySQL/MariaDB",
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
        program: "MySQL/MariaDB",
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
        program: "MySQL/MariaDB",
        functions: &["mysql_load"],
        beneath: &[],
        waits: None,
        does: "loads rows (LOAD DATA)",
        is_statement: false,
        advice: Advice::Own(
            "MySQL/MariaDB: load in the order of the primary key, into a table without secondary \
             indexes (create them afterwards), in files of some 100 MB; raise the redo log for the \
             time",
        ),
    },
    Operation {
        program: "MySQL/MariaDB",
        functions: &["handler::ha_delete_row"],
        beneath: READS,
        waits: Some(AwaitedCalls::Reads),
        does: "deletes rows that are not in memory, and reads the pages of each first",
        is_statement: true,
        advice: Advice::Own(
            "MySQL/MariaDB: delete in portions, in the order of the primary key; partition the \
             table by time, so that old rows go with DROP PARTITION; raise innodb_buffer_pool_size",
        ),
    },
    Operation {
        program: "MySQL/MariaDB",
        functions: &["handler::ha_update_row"],
        beneath: READS,
        waits: Some(AwaitedCalls::Reads),
        does: "changes rows that are not in memory, and reads the pages of each first",
        is_statement: true,
        advice: Advice::Topic(Topic::Reads),
    },
    Operation {
        program: "MySQL/MariaDB",
        functions: &["handler::ha_rnd_pos"],
        beneath: READS,
        waits: Some(AwaitedCalls::Reads),
        does: "fetches rows in the order of a sort, one after another",
        is_statement: true,
        advice: Advice::Own(
            "MySQL/MariaDB: give the query an index in the order that it sorts by, or select fewer \
             columns, so that the sort keeps them; raise innodb_buffer_pool_size",
        ),
    },
    Operation {
        program: "MySQL/MariaDB",
        functions: &["rr_sequential", "handler::ha_rnd_next"],
        beneath: READS,
        waits: Some(AwaitedCalls::Reads),
        does: "scans a table for a client",
        is_statement: true,
        advice: Advice::Topic(Topic::Scan),
    },
    Operation {
        program: "MySQL/MariaDB",
        functions: &[
            "handler::ha_index_next_same",
            "handler::ha_index_read_map",
            "handler::multi_range_read_next",
        ],
        beneath: READS,
        waits: Some(AwaitedCalls::Reads),
        does: "fetches rows by an index for a client",
        is_statement: true,
        advice: Advice::Own(
            "MySQL/MariaDB: each row that an index finds is read alone, unless that is the primary \
             key: an index that holds the columns asked for, or rows that are read in order \
             (MariaDB: optimizer_switch='mrr=on,mrr_sort_keys=on'; MySQL: 'mrr_cost_based=off'), \
             read less; raise innodb_buffer_pool_size",
        ),
    },
];

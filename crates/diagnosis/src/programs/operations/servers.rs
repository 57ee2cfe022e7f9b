//! Servers in memory and web servers: what they do, by their functions.
//!
//! What does not belong here: settings that depend on their files alone (see [`super::super`]).

use super::super::Topic;
use super::{Advice, AwaitedCalls, Operation};

pub(super) const ALL: &[Operation] = &[
    Operation {
        program: "Redis/Valkey",
        functions: &["saveCommand"],
        beneath: &[],
        waits: None,
        does: "runs SAVE, and answers nobody meanwhile",
        is_statement: true,
        advice: Advice::Own(
            "Redis: BGSAVE writes the same snapshot in a process of its own while clients are \
             served (find the job that calls SAVE)",
        ),
    },
    Operation {
        program: "Redis/Valkey",
        functions: &["readSyncBulkPayload"],
        beneath: &[],
        waits: None,
        does: "receives a full copy from its primary",
        is_statement: false,
        advice: Advice::Topic(Topic::Snapshot),
    },
    Operation {
        program: "Redis/Valkey",
        functions: &["prepareForShutdown", "finishShutdown"],
        beneath: &[],
        waits: None,
        does: "writes its snapshot before it ends",
        is_statement: false,
        advice: Advice::Own(
            "Redis: with an append-only file its end needs no snapshot (Redis 7: \
             shutdown-on-sigterm nosave); else a disk that writes faster, or a shutdown when a \
             replica has taken over",
        ),
    },
    Operation {
        program: "Redis/Valkey",
        functions: &["loadDataFromDisk", "loadAppendOnlyFiles"],
        beneath: &[],
        waits: Some(AwaitedCalls::Reads),
        does: "loads its data after a start, and serves nobody before",
        is_statement: false,
        advice: Advice::Topic(Topic::Replay),
    },
    Operation {
        program: "web server",
        functions: &["ngx_write_chain_to_temp_file"],
        beneath: &[],
        waits: None,
        does: "writes requests or answers that outgrow its buffers to temporary files",
        is_statement: true,
        advice: Advice::Topic(Topic::Spill),
    },
];

//! Programs that store data: their process names, their files, and their own settings against a
//! bottleneck. Rules and the bottleneck layer query this table, so that no rule contains program
//! names or paths.
//!
//! A path has a role if it contains one of the role's parts. Process names are the kernel's
//! (`comm`), at most 15 bytes long. Advice never trades durability for speed without saying what a
//! crash then loses. Sources: the programs' own manuals; the section is named where a default
//! matters.
//!
//! What does not belong here: thresholds and sentences about what was measured (see `rules`).

use FileRole::{Data, Log, Temporary, WriteAheadLog};

/// A [`KnownProgram`]: its name and processes, the paths of its files and those that only its own
/// processes make its files, and its advice by topic.
macro_rules! program {
    {
        $name:literal: [$($process:literal),+]
        $(, paths: [$($role:ident $path:literal),+])?
        $(, own: [$($own_role:ident $own_path:literal),+])?;
        $($topic:ident: $advice:expr,)*
    } => {
        $crate::programs::KnownProgram {
            name: $name,
            processes: &[$($process),+],
            paths: &[$($(($role, $path)),+)?],
            own_paths: &[$($(($own_role, $own_path)),+)?],
            advice: &[$(($crate::programs::Topic::$topic, $advice)),*],
        }
    };
}

mod applications;
mod brokers;
mod clusters;
mod databases;
mod logs;
mod mail;
mod monitoring;
mod network;
mod operations;
mod services;
mod tools;

pub use operations::{AwaitedCalls, Operation};
pub use tools::{
    advice_on_modules, are_of_one, dump_advice, is_command, is_indexer, is_interpreter,
    is_maintenance, may_waste, yields_to,
};

/// The role of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileRole {
    /// A write-ahead, redo or commit log; commits wait for its syncs.
    WriteAheadLog,
    /// A new segment of such a log, before the log is written to it.
    NewSegment,
    /// Tables, indexes, data files.
    Data,
    /// A table that a statement builds anew, until it replaces the old one.
    NewTable,
    /// Sorts and hashes that did not fit in memory, scratch files.
    Temporary,
    /// Log messages.
    Log,
    /// A dump of memory or a snapshot of the data.
    Snapshot,
    /// Sorted runs that compaction reads and writes.
    Compaction,
}

impl FileRole {
    /// Returns the name of such a file in sentences.
    pub const fn phrase(self) -> &'static str {
        match self {
            WriteAheadLog => "write-ahead log",
            FileRole::NewSegment => "new segment of the write-ahead log",
            Data => "data files",
            FileRole::NewTable => "table that is built anew",
            Temporary => "temporary files",
            Log => "message log",
            FileRole::Snapshot => "snapshot",
            FileRole::Compaction => "SST files",
        }
    }
}

/// The topic of advice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Topic {
    /// Commits wait for their sync.
    Sync,
    /// New segments of the log are filled before they are used.
    NewSegment,
    /// A checkpoint or flush of dirty pages delays others.
    Checkpoint,
    /// Sorts or hashes go through temporary files.
    Spill,
    /// Reads miss the program's own cache.
    Reads,
    /// Compaction or merging saturates the device.
    Compaction,
    /// A snapshot or dump saturates the device.
    Snapshot,
    /// Log messages saturate the device.
    Logging,
    /// Names and inodes of many files are looked up.
    Lookups,
    /// Files are synced or replayed after a crash.
    Recovery,
    /// A log is read back after a start.
    Replay,
    /// Few threads do one request each.
    Pool,
    /// Transactions wait for a row that another one has locked.
    RowLock,
    /// A table is read whole.
    Scan,
    /// Syncs of a rollback journal to which much was written: of transactions that outgrow a cache.
    Spilled,
    /// Reads of its own that no client waits for yet.
    Ahead,
    /// Work of its own beside its clients' queries: vacuum, rebuilding a table.
    Maintenance,
}

/// One program.
#[derive(Debug)]
pub struct KnownProgram {
    /// Its common name.
    pub name: &'static str,
    /// Its process names; a trailing `*` matches any ending.
    pub processes: &'static [&'static str],
    /// Parts of paths by role, tried in this order, that are unmistakable even if the process is
    /// unknown.
    paths: &'static [(FileRole, &'static str)],
    /// Parts of paths by role that count only for the program's own processes.
    own_paths: &'static [(FileRole, &'static str)],
    /// Fixes by topic.
    advice: &'static [(Topic, &'static str)],
}

impl KnownProgram {
    /// Whether this is one of the program's processes.
    fn runs_as(&self, process: &str) -> bool {
        self.processes.iter().any(|name| match name.strip_suffix('*') {
            Some(beginning) => process.starts_with(beginning),
            None => process == *name,
        })
    }

    /// Returns the role of one of the program's files, if its path shows it.
    pub fn role(&self, path: &str) -> Option<FileRole> {
        self.paths
            .iter()
            .chain(self.own_paths)
            .find(|pattern| fits(path, pattern.1))
            .map(|path| path.0)
    }

    /// Whether its log is a circle that is written over and over, and not segments that are written
    /// once each.
    pub fn has_circular_log(&self) -> bool {
        CIRCULAR.contains(&self.name)
    }

    /// Returns the name of a file of that role in sentences, as the program's own manual has it.
    pub fn phrase(&self, role: FileRole) -> &'static str {
        match (self.name, role) {
            ("Redis/Valkey", WriteAheadLog) => "append-only file",
            ("Lucene", FileRole::Compaction) => "index segment",
            ("etcd", FileRole::Compaction) => "defragmented copy",
            ("ClickHouse" | "VictoriaMetrics", FileRole::Compaction) => "merged parts",
            ("InfluxDB", FileRole::Compaction) => "TSM files",
            _ => role.phrase(),
        }
    }

    /// Returns the fix for a topic by the program's own settings.
    pub fn advice(&self, topic: Topic) -> Option<&'static str> {
        self.advice.iter().find(|advice| advice.0 == topic).map(|advice| advice.1)
    }
}

/// Whether a path contains a part; `*` in a part matches anything within one name.
fn fits(path: &str, part: &str) -> bool {
    let Some((before, after)) = part.split_once('*') else { return path.contains(part) };
    let mut rest = path;
    while let Some(at) = rest.find(before) {
        let begin = at + before.len();
        let end = rest[begin..].find('/').map_or(rest.len(), |length| begin + length);
        if rest[begin..end].ends_with(after) {
            return true;
        }
        // What is found further on in the same name leaves less of it: on with the next one.
        let next = (end + 1).saturating_sub(before.len());
        let next = (next..=rest.len()).find(|next| rest.is_char_boundary(*next));
        let Some(next) = next else { return false };
        rest = &rest[next..];
    }
    false
}

fn all() -> impl Iterator<Item = &'static KnownProgram> {
    let tables = [
        // Databases inside of applications have files whose names are theirs.
        applications::ALL,
        databases::ALL,
        clusters::ALL,
        brokers::ALL,
        monitoring::ALL,
        mail::ALL,
        network::ALL,
        services::ALL,
        logs::ALL,
    ];
    tables.into_iter().flatten()
}

/// Returns the program of that name.
fn named(name: &str) -> Option<&'static KnownProgram> {
    all().find(|program| program.name == name)
}

/// Returns the program of a process, else of a file whose path is unmistakable.
pub fn of(process: Option<&str>, file: Option<&str>) -> Option<&'static KnownProgram> {
    let by_process = process.and_then(|name| all().find(|program| program.runs_as(name)));
    let by_path = || {
        let path = file?;
        all().find(|program| program.paths.iter().any(|(_, part)| fits(path, part)))
    };
    match by_process {
        // What runs in it is known by its files.
        Some(runtime) if RUNTIMES.contains(&runtime.name) => by_path().or(Some(runtime)),
        Some(program) => Some(program),
        None => by_path(),
    }
}

/// Returns what to do about a topic: the setting of the program of a process or a file, else what
/// makes a command do less of it.
pub fn advice(process: Option<&str>, file: Option<&str>, topic: Topic) -> Option<&'static str> {
    match process.filter(|process| is_command(process)) {
        // Whose files it handles is not what it does.
        Some(command) => tools::advice(command, topic),
        None => of(process, file)?.advice(topic),
    }
}

/// The names of programs in which others run.
const RUNTIMES: &[&str] = &["JVM", "Erlang"];

/// Returns every process name and every part of a path in the table.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().flat_map(|program| {
        let paths = program.paths.iter().chain(program.own_paths).map(|(_, part)| *part);
        program.processes.iter().copied().chain(paths)
    })
}

/// Returns the beginning of a process name that makes it one of a known program: all of it, or what
/// comes before the `*`.
pub(crate) fn known_beginning(process: &str) -> Option<&str> {
    let names = all().flat_map(|program| program.processes);
    let begins = |name: &&'static str| match name.strip_suffix('*') {
        Some(beginning) => process.starts_with(beginning).then_some(beginning.len()),
        None => (process == *name).then_some(process.len()),
    };
    names.filter_map(begins).max().map(|end| &process[..end])
}

/// Beginnings of the names of files that programs lock while they serve a request, and what to do
/// about it.
const REQUEST_LOCKS: &[(&str, &str)] = &[(
    "sess_",
    "PHP: a session's file stays locked until the request ends: call session_write_close() before \
     long work (what it changes in the session afterwards is not saved), or start the session with \
     read_and_close where it changes nothing",
)];

/// Returns what to do about the lock of a file that a program takes for each request.
pub fn request_lock_advice(file: &str) -> Option<&'static str> {
    let name = file.rsplit('/').next().unwrap_or(file);
    REQUEST_LOCKS.iter().find(|(begin, _)| name.starts_with(begin)).map(|(_, advice)| *advice)
}

/// Servers that merge what they have written in threads for that, which no client waits for until
/// they fall behind.
const MERGING_ASIDE: &[&str] =
    &["VictoriaMetrics", "InfluxDB", "Prometheus", "ClickHouse", "Cassandra/ScyllaDB"];

/// Whether a file of a process is one that its server writes aside from what clients wait for.
pub fn is_merged_aside(process: &str, file: &str) -> bool {
    of(Some(process), Some(file)).is_some_and(|program| {
        MERGING_ASIDE.contains(&program.name) && program.role(file) == Some(FileRole::Compaction)
    })
}

/// Programs of the table that sync their segments at commits alone, and no merge.
const SYNCING_AT_COMMITS: &[&str] = &["Lucene", "tantivy", "Elasticsearch/OpenSearch"];

/// Whether the syncs of a segment are those of commits.
pub fn syncs_at_commit(process: Option<&str>, file: Option<&str>) -> bool {
    of(process, file).is_some_and(|program| SYNCING_AT_COMMITS.contains(&program.name))
}

/// Programs of the table whose log is a circle.
const CIRCULAR: &[&str] = &["MySQL/MariaDB", "SQLite"];
/// Programs of the table that move data in bulk for themselves.
const FOR_THEMSELVES: &[&str] = &[
    "browser",
    "rpm",
    "Bitcoin Core",
    "DuckDB",
    "PHP",
    "IPython",
    "Monero",
    "Ethereum node",
    "Usenet client",
    "Xapian index",
    "Gradle/Maven",
    "Spark",
    "kubelet/cAdvisor",
    "Berkeley DB",
    "Mutt",
    "Bogofilter",
    "Plex",
    "Jellyfin/Emby",
];

/// Whether a process stores data that others wait for, by its name or by the log that it writes.
pub fn is_store(process: &str, file: Option<&str>) -> bool {
    let by_log = || file.and_then(|file| role_of(None, file)) == Some(WriteAheadLog);
    let known = of(Some(process), None);
    known.map_or_else(by_log, |program| !FOR_THEMSELVES.contains(&program.name))
}

/// Whether a process is a logger: all that it writes is a log.
pub fn is_logger(process: &str) -> bool {
    logs::ALL.iter().any(|logger| logger.runs_as(process))
}

/// Returns the role of a file by its program, or by its path alone if that is unmistakable.
pub fn role_of(process: Option<&str>, path: &str) -> Option<FileRole> {
    let own = process.and_then(|name| all().find(|program| program.runs_as(name))?.role(path));
    own.or_else(|| of(None, Some(path))?.role(path))
}

/// Whether a log is SQLite's rollback journal.
pub fn is_rollback_journal(path: &str) -> bool {
    path.ends_with("-journal")
}

/// Returns the name of a file of that role in sentences about a program.
pub fn phrase(process: Option<&str>, file: Option<&str>, role: FileRole) -> &'static str {
    // SQLite's other mode; both are of one program.
    if role == WriteAheadLog && file.is_some_and(is_rollback_journal) {
        return "rollback journal";
    }
    of(process, file).map_or(role.phrase(), |program| program.phrase(role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_process_or_by_its_files() {
        let path = "/var/lib/postgresql/15/main/pg_wal/000000010000000000000001";
        assert_eq!(of(Some("postgres"), None).unwrap().name, "PostgreSQL");
        assert_eq!(of(Some("kworker/0:1"), Some(path)).unwrap().name, "PostgreSQL");
        assert!(of(Some("cat"), Some("/etc/passwd")).is_none());
        assert_eq!(role_of(None, path), Some(WriteAheadLog));
        assert_eq!(role_of(Some("postgres"), "/db/base/pgsql_tmp/pgsql_tmp7.0"), Some(Temporary));
        assert_eq!(role_of(Some("postgres"), "/db/base/16384/2619"), Some(Data));
        for (file, role) in [
            ("/db/shop/#sql-alter-777a-13.ibd", FileRole::NewTable),
            ("/tmp/#sql-temptable-2a-8-0.MAD", Temporary),
            ("/tmp/#sql2a_8_0.MYD", Temporary),
        ] {
            assert_eq!(role_of(Some("mariadbd"), file), Some(role), "{file}");
        }
        assert_eq!(role_of(None, "/db/base/16384/2619"), None);
    }

    #[test]
    fn a_store_in_a_runtime_or_a_script_is_known_by_its_files() {
        for (process, path, name, role) in [
            (
                "beam.smp",
                "/mnesia/rabbit@h/quorum/rabbit@h/00000001.wal",
                "RabbitMQ",
                WriteAheadLog,
            ),
            ("beam.smp", "/couchdb/data/shards/00000000-7fffffff/db.1700.couch", "CouchDB", Data),
            ("java", "/zk/version-2/log.100000001", "ZooKeeper", WriteAheadLog),
            ("java", "/srv/mc/world/region/r.0.-1.mca", "Minecraft server", Data),
            ("java", "/var/lib/jenkins/jobs/app/builds/7/log", "Jenkins", Data),
            ("hassio", "/config/home-assistant_v2.db-wal", "Home Assistant", WriteAheadLog),
            ("cleanup", "/var/spool/postfix/incoming/1A2B", "Postfix", Data),
            ("uwsgi-graphite", "/whisper/servers/a/cpu.wsp", "Graphite", Data),
            ("poller", "/cacti/rra/host.rrd", "RRD files", Data),
        ] {
            assert_eq!(of(Some(process), Some(path)).map(|it| it.name), Some(name), "{path}");
            assert_eq!(role_of(Some(process), path), Some(role), "{path}");
        }
        assert_eq!(of(Some("java"), Some("/srv/app/data.bin")).map(|it| it.name), Some("JVM"));
        assert!(of(Some("cleanup"), Some("/srv/app/data.bin")).is_none());
    }

    #[test]
    fn lists_name_programs_of_the_table() {
        for name in [RUNTIMES, MERGING_ASIDE, SYNCING_AT_COMMITS, CIRCULAR, FOR_THEMSELVES]
            .into_iter()
            .flatten()
        {
            assert!(all().any(|program| program.name == *name), "{name}");
        }
    }

    #[test]
    fn a_rollback_journal_has_its_own_name() {
        let named = |file| phrase(Some("python3"), Some(file), WriteAheadLog);
        assert_eq!(named("/srv/app.db-journal"), "rollback journal");
        assert_eq!(named("/srv/app.db-wal"), "write-ahead log");
    }

    #[test]
    fn a_write_ahead_log_is_no_log_of_messages() {
        for (process, path) in [
            (Some("rocksdb:low0"), "/data/db/000004.log"),
            (Some("cockroach"), "/mnt/data/000123.log"),
            (Some("mongod"), "/var/lib/mongodb/journal/WiredTigerLog.0000000012"),
            (None, "/var/lib/cassandra/commitlog/CommitLog-7-1700.log"),
            (Some("java"), "/kafka/topic-0/00000000000000000000.log"),
            (Some("etcd"), "/var/lib/etcd/member/wal/0000000000000000-0000000000000000.wal"),
        ] {
            assert_eq!(role_of(process, path), Some(WriteAheadLog), "{path}");
        }
        assert_eq!(role_of(Some("rsyslogd"), "/var/log/messages"), Some(Log));
        assert_eq!(role_of(None, "/var/log/nginx/access.log"), Some(Log));
        assert_eq!(role_of(Some("perl"), "/home/app/000004.log"), None);
    }

    #[test]
    fn a_log_has_the_name_that_its_program_gives_it() {
        let phrase = |process| phrase(Some(process), None, WriteAheadLog);
        assert_eq!(phrase("redis-server"), "append-only file");
        assert_eq!(phrase("postgres"), "write-ahead log");
        assert_eq!(phrase("cat"), "write-ahead log");
    }

    #[test]
    fn a_star_stands_within_one_name() {
        assert!(fits("/a/ib_logfile0", "/ib_logfile*"));
        assert!(fits("/a/000004.log", "/0*.log"));
        assert!(!fits("/a/0dir/x.log", "/0*.log"));
        assert!(fits("/a/ba/bc", "a/b*c"), "one begins in the name of another");
        assert!(fits("/a.db/b.db-wal", "*.db-wal") && !fits("/a.db-wal/b", "*.wal"));
        assert!(fits("/é/éa.db", "é*.db") && !fits("/é", "é/*.db") && fits("/a", "*"));
    }

    #[test]
    fn a_name_of_a_megabyte_is_looked_at_once() {
        let name = "a".repeat(1 << 20);
        assert!(all().all(|program| program.role(&name).is_none()));
    }

    #[test]
    fn names_of_processes_fit_in_the_kernel_s_field() {
        for program in all() {
            for name in program.processes {
                let seen = name.trim_end_matches('*');
                assert!(seen.len() <= 15, "{name} of {} is never seen", program.name);
            }
            assert!(!program.advice.is_empty(), "{} has no advice", program.name);
        }
    }

    /// Advice that trades durability for speed says what a crash loses.
    #[test]
    fn advice_that_loses_data_says_so() {
        let risky = ["synchronous_commit", "trx_commit=2", "everysec", "synchronous=NORMAL"];
        for program in all() {
            for (_, advice) in program.advice {
                let loses = risky.iter().any(|setting| advice.contains(setting));
                assert!(!loses || advice.contains("crash"), "{}: {advice}", program.name);
                assert!(!advice.contains("fsync=off") && !advice.contains("fsync off"));
            }
        }
    }
}

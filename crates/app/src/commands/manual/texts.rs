//! Texts of the manual pages beside the definition of the command line.
//!
//! What does not belong here: columns (the tables' definitions in `iowhy-views`) and options.

/// Texts of a command's page beside its options.
pub struct PageText {
    /// The command's name.
    pub name: &'static str,
    /// Paragraphs after the sentence of `--help`.
    pub description: &'static [&'static str],
    /// Files that it reads or writes.
    pub files: &'static [(&'static str, &'static str)],
    /// Related pages.
    pub see_also: &'static str,
}

/// Command lines, each with what it does.
pub const EXAMPLES: &[(&str, &str)] = &[
    ("iowhy", "Watch this machine for ten seconds and name the cause."),
    ("iowhy -d sdb -t 30 --full", "Watch one disk for 30 seconds and show every section."),
    ("iowhy --html slow.html", "Watch, and write a page with charts."),
    ("iowhy record -o /run/sick", "Record until Ctrl-C, for later or for another machine."),
    ("iowhy record -o /run/sick -- make -j8", "Record while a command runs."),
    (
        "iowhy record --events -d sda -t 10 -o /run/sick",
        "Record every block event, as blktrace does.",
    ),
    ("iowhy report /run/sick", "Show the same screen from that recording."),
    (
        "iowhy report /run/sick --html report.html",
        "Write a page with charts, to look at and to send.",
    ),
    ("iowhy report sda", "Show the screen of blktrace's files sda.blktrace.*."),
    ("iowhy report --json=brief /run/sick", "Print the findings for a program, in at most 8 kB."),
    ("iowhy explain 1 /run/sick", "Explain its first finding: mechanism, evidence, fix."),
    ("iowhy explain fsync-heavy", "Explain a cause."),
    ("iowhy explain", "List all causes."),
    ("iowhy stat 1", "Show device statistics each second, as iostat -x does."),
    ("iowhy stat -d sda 1 10", "Show ten seconds of one disk."),
    ("iowhy stat /run/sick 1", "Show a recording second by second."),
    ("iowhy proc 1", "Show the I/O and blocked time of each process every second."),
    ("iowhy latency", "Show histograms of ten seconds, one for each device."),
    ("iowhy latency --by flags -Q", "Show one for each kind of request, with time in the queue."),
    ("iowhy files 1", "Show file calls by process and file every second."),
    ("iowhy waits", "Show where threads waited in ten seconds."),
    ("iowhy waits -p postgres --by stack", "Show where one program's threads slept."),
    ("iowhy chains -p java", "Show which threads one program's threads waited for."),
    ("iowhy blame -p postgres", "Show whose requests one program's waits were behind."),
    ("iowhy stacks --svg flame.svg", "Draw a flame graph of ten seconds."),
    ("iowhy stacks --folded /run/sick", "Print folded stacks of a recording."),
    ("iowhy cache 1", "Show the page cache and dirty pages each second."),
    ("iowhy stages sda", "Show btt's stages with percentiles, from blktrace's files."),
    ("iowhy stages --btt-compat sda", "Print exactly what btt prints."),
    ("iowhy events sda", "Print the events of blktrace's files with the time of day."),
    ("iowhy events -t 5 -a issue", "Watch for five seconds and print requests as they are issued."),
    ("iowhy snoop", "Print a line for each request until Ctrl-C."),
    ("iowhy snoop --above 10 -d sda", "Print requests of a disk that took 10 ms or more."),
    ("iowhy opens", "Print a line for each open until Ctrl-C."),
    ("iowhy opens --held", "List deleted files that still take space, and who holds them."),
    ("iowhy top", "Show devices, processes, files and waits live."),
    ("iowhy top /run/sick", "Step through a recording."),
    ("iowhy diff /run/good /run/bad", "Show what became slower, and in which stage."),
    ("iowhy diff /run/sick -d sda=sdb", "Compare two disks of one recording."),
    ("iowhy locate /dev/sda 2048", "Name the file that holds a sector."),
    ("iowhy locate /var/log/syslog", "List the blocks of a file."),
    ("iowhy probe sda", "Measure a disk with a few seconds of reads."),
    ("iowhy import sda -o /run/imported", "Convert blktrace's files to a recording."),
    ("iowhy export --redact /run/sick -o copy", "Write a copy without names, for somebody else."),
    ("iowhy export --format perfetto /run/sick -o trace.perfetto", "Write a trace for Perfetto."),
    (
        "iowhy export --format blktrace /run/sick -o files",
        "Write blktrace's files (of record --events).",
    ),
    ("iowhy reproduce /run/sick -o case", "Write a load that has the same cause."),
    ("iowhy verify case --on /mnt/scratch --with scheduler=none", "Test a fix on that load."),
    ("iowhy daemon --check-config", "Check /etc/iowhy/iowhy.toml."),
    ("iowhy daemon", "Record all the time; the service iowhy runs this."),
    ("iowhy capture slow-login", "Keep the last minutes now, with that reason."),
    ("iowhy incidents", "List what the recorder kept."),
    ("iowhy incidents show 7", "Show why an incident was kept and what was found."),
    ("iowhy history --last 7d", "Show devices, waits and findings of the last week."),
    ("iowhy check", "Show what iowhy can collect here, and what is missing."),
    ("iowhy check --json", "Print the same with each BPF program, for a report of a fault."),
    ("iowhy completions bash", "Print the script for bash."),
    ("iowhy schema", "Print the schema of --json."),
];

const KERNEL: (&str, &str) =
    ("/sys/kernel/btf/vmlinux", "The kernel's types, without which it cannot be watched.");
const RECORDING: (&str, &str) = (
    "DIR/recording.json, DIR/*/*.parquet",
    "A recording: a directory of Parquet tables, readable by its owner only.",
);
const CONFIGURATION: (&str, &str) = ("/etc/iowhy/iowhy.toml", "Settings of the recorder.");
const STATE: (&str, &str) =
    ("/var/lib/iowhy", "Incidents and history; root and the group iowhy may read them.");
const RUNTIME: (&str, &str) = ("/run/iowhy", "The ring in memory and the control socket.");
/// Files of the recorder's commands.
const OF_RECORDER: &[(&str, &str)] = &[CONFIGURATION, STATE, RUNTIME];
/// Files of commands that watch this machine or read a source.
const OF_VIEW: &[(&str, &str)] = &[KERNEL, RECORDING];

const INTERVALS: &str = "Without a source it watches this machine; otherwise it reads the source. \
    With an interval it prints a table for each, like iostat; without one, a single table of ten \
    seconds or of the entire source.";
const LOSSES: &str = "Requests that were lost or sampled are counted and said below the table.";

const fn view(
    name: &'static str,
    description: &'static [&'static str],
    see_also: &'static str,
) -> PageText {
    PageText { name, description, files: OF_VIEW, see_also }
}

const fn of_recorder(
    name: &'static str,
    description: &'static [&'static str],
    see_also: &'static str,
) -> PageText {
    PageText { name, description, files: OF_RECORDER, see_also }
}

/// The pages: of the program, then of its commands.
pub const PAGES: &[PageText] = &[
    view(
        "iowhy",
        &[
            "Without a command, iowhy watches for ten seconds with BPF programs on tracepoints, \
             and prints one page: the finding with its evidence, fix and check, where blocked \
             threads waited, the slow device with its stages and latency, and the top process, \
             file and code path. --full shows every section.",
            "It needs root, or CAP_BPF with CAP_PERFMON, and a kernel with BTF. Watching is \
             read-only; the programs are unloaded when the process ends, even if it is killed.",
        ],
        "",
    ),
    view(
        "record",
        &[
            "A recording holds each request, wait and file call with stacks, samples of counters, \
             devices, mounts and settings, and what was lost. Every command with SOURCE reads it, \
             and so do DuckDB, pandas, Polars and Spark.",
            "Names of files, processes, users and cgroups are in it; command lines are only with \
             --args. iowhy export --redact writes a copy without names.",
        ],
        "iowhy-report(8), iowhy-export(8)",
    ),
    view(
        "report",
        &["The screen is that of a live watch. With --html it becomes a page in one file, which \
             opens in any browser without network."],
        "iowhy-record(8), iowhy-explain(8), iowhy-diff(8)",
    ),
    view(
        "events",
        &["Events have the host's time of day unless --monotonic or --blkparse-compat is given."],
        "iowhy-stages(8), blkparse(1), blktrace(8)",
    ),
    view(
        "stages",
        &["Stages are the intervals between Q (queued), G (got a request), I (inserted), D \
             (issued) and C (completed), as btt defines them, with percentiles. Q2C is the sum."],
        "iowhy-events(8), btt(1)",
    ),
    view(
        "chains",
        &["A wait chain: a thread sleeps until another one wakes it, which waited for storage \
             meanwhile."],
        "iowhy-waits(8), iowhy-blame(8)",
    ),
    view(
        "import",
        &["Captures are read by every command; a recording of one is smaller and is read faster."],
        "iowhy-export(8), iowhy-report(8)",
    ),
    view(
        "export",
        &["The format recording, with filters or --redact, makes a smaller recording, or one \
             that can be given to others: placeholders replace names."],
        "iowhy-import(8), iowhy-record(8)",
    ),
    view(
        "locate",
        &["Device and file system are only read. A sector is one of 512 bytes."],
        "iowhy-files(8), debugfs(8), filefrag(8)",
    ),
    view("files", &[INTERVALS, LOSSES], "iowhy-opens(8), filetop(8)"),
    view(
        "opens",
        &["Without --held each open is a line; with it, the files that processes have open."],
        "iowhy-files(8), lsof(8), opensnoop(8)",
    ),
    view(
        "top",
        &["The keys are shown by h. Enter shows what is behind a line; s saves the last ten \
             minutes."],
        "iowhy-stat(8), iowhy-proc(8), iotop(8)",
    ),
    view("stat", &[INTERVALS, LOSSES], "iowhy-proc(8), iowhy-latency(8), iostat(1)"),
    view("latency", &[INTERVALS, LOSSES], "iowhy-stat(8), iowhy-stages(8), biolatency(8)"),
    view(
        "explain",
        &["Of a cause it tells the mechanism, and what would change the verdict; with a source \
             also the evidence, each figure with the command that shows it. A number means that \
             finding of the source."],
        "iowhy-report(8), iowhy-causes(7)",
    ),
    view(
        "diff",
        &["It compares load, settings and kernel first: times of different loads are not \
             comparable, and it says so. Then it names the stage or wait class that takes longer."],
        "iowhy-report(8), iowhy-verify(8)",
    ),
    view(
        "blame",
        &["The share of a wait in which requests of others were in service, or ahead in the \
             queue."],
        "iowhy-chains(8), iowhy-waits(8)",
    ),
    view("proc", &[INTERVALS, LOSSES], "iowhy-stat(8), iowhy-top(8), pidstat(1)"),
    view(
        "snoop",
        &["Slow requests are always shown; others may be sampled by the budget."],
        "iowhy-events(8), biosnoop(8)",
    ),
    view("stacks", &[INTERVALS], "iowhy-waits(8), perf-report(1)"),
    view(
        "waits",
        &[INTERVALS, "Each wait has one class; the classes add up to the blocked time."],
        "iowhy-chains(8), iowhy-blame(8)",
    ),
    view(
        "cache",
        &[INTERVALS, "Dirty thresholds are those that the kernel computes."],
        "iowhy-stat(8), vmstat(8)",
    ),
    view(
        "probe",
        &["It runs fio, and only reads unless --write is given, which takes a file and no device."],
        "iowhy-stat(8), fio(1)",
    ),
    view(
        "reproduce",
        &["The directory has fio jobs, small programs and a script run, which records and \
             compares."],
        "iowhy-verify(8), iowhy-explain(8), fio(1)",
    ),
    view(
        "verify",
        &["Rounds without and with the change alternate, and every setting is put back."],
        "iowhy-reproduce(8), iowhy-diff(8)",
    ),
    of_recorder(
        "daemon",
        &[
            "The service iowhy of the packages runs it. It keeps figures of every minute for a \
             month, and records of the last ten minutes in memory; on a condition, for example a \
             finding, a request that hangs or a signal, it keeps the minutes around it as an \
             incident.",
            "systemctl disable --now iowhy stops it for good. It reads /etc/iowhy/iowhy.toml, and \
             applies changes at the next start.",
        ],
        "iowhy.toml(5), iowhy-incidents(8), iowhy-history(8), iowhy-capture(8)",
    ),
    of_recorder(
        "capture",
        &["Root and members of the group iowhy may ask. A reason in a few words is kept with it."],
        "iowhy-daemon(8), iowhy-incidents(8)",
    ),
    of_recorder(
        "incidents",
        &["The oldest that is not pinned is removed when all of them are larger than \
             incidents-mb."],
        "iowhy-daemon(8), iowhy-report(8), iowhy-history(8)",
    ),
    of_recorder(
        "history",
        &["Figures of every minute: requests, latencies, blocked time, findings."],
        "iowhy-daemon(8), iowhy-incidents(8)",
    ),
    PageText {
        name: "check",
        description: &[
            "Lists the kernel's features, privileges and BPF programs, and what a watch lacks \
             without each of them. It loads the programs to find out, and unloads them.",
        ],
        files: &[KERNEL],
        see_also: "iowhy-record(8)",
    },
    PageText {
        name: "completions",
        description: &["Packages install the scripts of bash, zsh and fish."],
        files: &[(
            "/usr/share/bash-completion/completions/iowhy",
            "Where packages put that of bash.",
        )],
        see_also: "bash(1), zsh(1), fish(1)",
    },
    PageText {
        name: "schema",
        description: &["The names in it are an interface: they are added to, and never renamed."],
        files: &[],
        see_also: "iowhy-report(8)",
    },
];

//! Programs that write messages for people, and where such messages are kept.
//!
//! What does not belong here: write-ahead logs, which are data (see the siblings).

use super::Program;
use super::Role::Log;
use super::Topic;

pub(super) const ALL: &[Program] = &[
    Program {
        name: "systemd-journald",
        processes: &["systemd-journal"],
        paths: &[(Log, "/log/journal/")],
        own_paths: &[(Log, "*.journal")],
        advice: &[
            (
                Topic::Logging,
                "journald: find who repeats itself (`journalctl -n 1000 -o short`), limit the rate \
                 for that unit (LogRateLimitIntervalSec=, LogRateLimitBurst=: messages beyond are \
                 dropped), Storage=volatile where the log need not survive a reboot",
            ),
            (Topic::Sync, "journald: SyncIntervalSec= (default 5m) decides how often it syncs"),
        ],
    },
    Program {
        name: "rsyslog",
        processes: &["rsyslogd", "rs:main Q:Reg", "in:imuxsock", "in:imklog"],
        paths: &[],
        own_paths: &[(Log, "/log/")],
        advice: &[
            (
                Topic::Logging,
                "rsyslog: find the message that repeats; sync=\"off\" of the omfile action (a crash \
                 of the machine then loses the last messages); limit the rate of the input \
                 (SysSock.RateLimit.Burst: messages beyond are dropped)",
            ),
            (
                Topic::Sync,
                "rsyslog: sync=\"off\" of the omfile action; a crash of the machine then loses the \
                 last messages",
            ),
        ],
    },
    Program {
        name: "log collector",
        processes: &[
            "syslog-ng",
            "auditd",
            "fluentd",
            "fluent-bit",
            "vector",
            "filebeat",
            "promtail",
        ],
        paths: &[(Log, "/var/log/")],
        own_paths: &[],
        advice: &[(
            Topic::Logging,
            "find the message that repeats and its level; rotate and compress at quiet times",
        )],
    },
];

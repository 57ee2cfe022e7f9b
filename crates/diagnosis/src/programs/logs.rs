//! Programs that write log messages, and the paths of such logs.
//!
//! What does not belong here: write-ahead logs, which are data (see the siblings).

use super::FileRole::Log;
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "systemd-journald": ["systemd-journal"],
        paths: [Log "/log/journal/"],
        own: [Log "*.journal"];
        Logging: "journald: find the unit that repeats messages (`journalctl -n 1000 -o short`), \
            limit its rate (LogRateLimitIntervalSec=, LogRateLimitBurst=: messages beyond are \
            dropped), set Storage=volatile if the log need not survive a reboot",
        Sync: "journald: it syncs at once after each message of priority crit, alert or emerg: \
            find who sends them (`journalctl -p crit -n 20`) and have it send fewer, or of a lower \
            priority; for all others SyncIntervalSec= (5 minutes by default) decides",
    },
    program! {
        "rsyslog": ["rsyslogd", "rs:main Q:Reg", "in:imuxsock", "in:imklog"],
        own: [Log "/log/"];
        Logging: "rsyslog: find the repeating message; set sync=\"off\" in the omfile action (a \
            crash of the machine then loses the last messages); limit the rate of the input \
            (SysSock.RateLimit.Burst: messages beyond are dropped)",
        Sync: "rsyslog: a queue on disk (*.qi) writes its state every queue.checkpointInterval \
            messages, and syncs it with queue.syncQueueFiles=\"on\": raise the one, switch the \
            other off, or keep the queue in memory until it is full (queue.type=\"LinkedList\" \
            with queue.filename): each of these loses queued messages in a crash, the last one in \
            a crash of rsyslogd, too; of log files set sync=\"off\" in the omfile action: a crash \
            of the machine then loses the last messages",
    },
    program! {
        "syslog-ng": ["syslog-ng"],
        own: [Log "/log/"];
        Logging: "syslog-ng: find the repeating message and its level; rotate and compress at \
            quiet times",
        Sync: "syslog-ng: set fsync(no) in the file destination (the default); a crash of the \
            machine then loses the last messages",
    },
    program! {
        "log collector": ["fluentd", "fluent-bit", "vector", "filebeat", "promtail"],
        paths: [Log "/var/log/"];
        Logging: "find the repeating message and its level; rotate and compress at quiet times",
    },
    program! {
        "auditd": ["auditd", "kauditd"],
        paths: [Log "/log/audit/"];
        Logging: "auditd: find the rule that makes most records (`aureport -k --summary`), and \
            make it narrower; flush = INCREMENTAL_ASYNC (the default) with a larger freq syncs \
            less often: a crash loses as many records",
        Sync: "auditd: use flush = INCREMENTAL_ASYNC with a larger freq (SYNC and DATA sync each \
            record): a crash of the machine then loses as many records; find the rule that makes \
            most (`aureport -k --summary`)",
    },
    program! {
        "Suricata/Zeek": ["suricata", "Suricata-Main", "zeek"],
        own: [Log "/eve.json", Log "/log/suricata/"];
        Logging: "Suricata: write fewer types of events to eve.json (flow, http and dns records \
            are most), with `threaded: yes` and a buffer; Zeek: switch off logs that nobody reads",
    },
];

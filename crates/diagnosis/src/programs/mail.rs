//! Mail, names, addresses and logins: the services of a network.
//!
//! What does not belong here: web servers and file servers (see [`super::services`]).

use super::FileRole::{Data, Temporary, WriteAheadLog};
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Postfix": ["qmgr", "postdrop", "trivial-rewrite"],
        paths: [Data "/spool/postfix/"];
        Sync: "Postfix: each message is synced before it is accepted: put its queue \
            (queue_directory) on a device with power-loss protection, apart from mailboxes and \
            logs",
        Lookups: "Postfix: keep queues short (a long deferred queue is scanned again and again: \
            raise queue_run_delay and minimal_backoff_time)",
    },
    program! {
        "Exim": ["exim", "exim4"],
        paths: [Data "/spool/exim4/", Data "/spool/exim/"];
        Sync: "Exim: each message is synced before it is accepted: put its spool directory on a \
            device with power-loss protection; split_spool_directory = true for long queues",
        Lookups: "Exim: split_spool_directory = true, fewer queue runners at once",
    },
    program! {
        "Dovecot": ["imap", "pop3", "lmtp", "imap-hibernate", "indexer-worker"],
        own: [Data "/dovecot.index", Data "/dovecot-uidlist"];
        Reads: "Dovecot: keep its indexes on a fast disk (INDEX= in mail_location, not \
            INDEX=MEMORY), so that a folder is listed from its cache file instead of from each \
            mail; mdbox has fewer files than maildir; mail_prefetch_count reads ahead",
        Checkpoint: "Dovecot: in an mbox all that comes after a removed mail is written again: \
            `doveadm sync` or dsync moves mailboxes to sdbox or Maildir",
    },
    program! {
        "amavis": ["amavi*"],
        own: [Temporary "/amavis/tmp/"];
        Spill: "amavis: it unpacks each message below $TEMPBASE: put that on a tmpfs; a message \
            is not accepted before it was handed on, so that a crash loses none",
        Sync: "amavis: put $TEMPBASE on a tmpfs; a message is not accepted before it was handed \
            on, so that a crash loses none",
    },
    program! {
        "SpamAssassin": ["spamd*", "sa-learn"],
        paths: [Data "/bayes_toks", Data "/bayes_seen"];
        Sync: "SpamAssassin: all workers lock one file of its Bayes database to learn: set \
            bayes_learn_to_journal 1, so that they append to a journal, or keep the database in \
            Redis or SQL (bayes_store_module)",
        Reads: "SpamAssassin: keep its Bayes database in Redis or SQL (bayes_store_module), or on \
            a fast disk",
    },
    program! {
        "Mutt": ["mutt", "neomutt"];
        Reads: "Mutt: set header_cache, so that it shows a folder without reading each mail \
            (maildir_header_cache_verify=no also leaves out the check of each file)",
    },
    program! {
        "dnsmasq": ["dnsmasq"];
        Sync: "dnsmasq: it answers nobody while it syncs its lease file: put that on a faster disk \
            or a tmpfs (dhcp-leasefile; a tmpfs is empty after each reboot, and leases are then \
            given to others), give longer leases, or serve DHCP and DNS by two processes",
    },
    program! {
        "ISC DHCP": ["dhcpd"],
        paths: [WriteAheadLog "/dhcpd.leases"];
        Sync: "ISC dhcpd: it syncs its lease file before each answer: let answers share a sync \
            (delayed-ack, if it is 0, with max-ack-delay), give longer leases, put the file on a \
            low-latency device",
    },
    program! {
        "BIND": ["named", "isc-net-*", "isc-loop-*"],
        own: [WriteAheadLog "*.jnl"];
        Sync: "BIND: each dynamic update is synced to the journal of its zone: send several \
            changes in one update message, and put the zones on a low-latency device",
    },
    program! {
        "SSSD": ["sssd", "sssd_be", "sssd_nss", "sssd_pam"],
        paths: [Data "/lib/sss/db/"];
        Sync: "SSSD: its cache is written at each login: put /var/lib/sss/db on a tmpfs: after a \
            reboot, logins without network fail until the cache is filled again, and what \
            sss_override has set is lost",
    },
];

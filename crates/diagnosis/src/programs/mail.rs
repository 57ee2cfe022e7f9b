//! Mail: what takes it in, keeps it, and looks through it.
//!
//! What does not belong here: the other services of a network (see [`super::network`]).

use super::FileRole::{Data, Temporary};
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
        "sendmail": ["sendmail-mta"],
        paths: [Data "/spool/mqueue"];
        Sync: "sendmail: each message is synced before it is accepted: SuperSafe=Interactive \
            leaves that out where a message is handed on before it is accepted; put the queue on a \
            device with power-loss protection, and split it over several directories",
        Lookups: "sendmail: split the queue over several directories \
            (QueueDirectory=/var/spool/mqueue/q*), and run it less often",
    },
    program! {
        "Cyrus IMAP": ["cyr_expire", "cyrus-master"],
        paths: [Data "/cyrus.index", Data "/cyrus.cache"];
        Sync: "Cyrus: put its metadata on a low-latency device (metapartition-NAME, \
            metapartition_files), and its locks and lists of processes on a tmpfs \
            (mboxname_lockpath, proc_path)",
        Reads: "Cyrus: put indexes and caches of the mailboxes on a fast disk (metapartition-NAME \
            with metapartition_files: header index cache)",
        Lookups: "Cyrus: put indexes and caches of the mailboxes on a fast disk \
            (metapartition-NAME), and run cyr_expire and squatter at quiet times",
    },
    program! {
        "Postgrey": ["postgrey"],
        paths: [Data "/postgrey.db"];
        Sync: "Postgrey: it syncs its Berkeley DB for each new sender: put its directory on a \
            tmpfs (a reboot then delays known senders once more), or let known clients pass before \
            it is asked (--auto-whitelist-clients)",
    },
    program! {
        "Bogofilter": ["bogofilter"],
        paths: [Data "/.bogofilter/"];
        Sync: "Bogofilter: with -u each message that it looks at is learnt, and its word list \
            written: learn by hand (-s, -n) or from mails that it was unsure of",
    },
    program! {
        "Xapian index": ["notmuch", "recollindex", "omindex", "xapian*"],
        paths: [Data "*.glass"];
        Sync: "Xapian: it syncs all tables at each commit: let it collect more documents first \
            (XAPIAN_FLUSH_THRESHOLD, 10000 by default; recoll: idxflushmb), and index in one run \
            instead of one for each document",
        Reads: "Xapian: compact the index (xapian-compact, notmuch compact), and provide memory \
            for its page cache",
    },
];

//! Applications of people: at home, on the desk, of developers.
//!
//! What does not belong here: services that a company runs (see [`super::services`]), and commands
//! that end when they are done (see [`super::tools`]).

use super::FileRole::{Compaction, Data, Temporary, WriteAheadLog};
use super::KnownProgram;

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Home Assistant": ["hass"],
        paths: [WriteAheadLog "/home-assistant_v2.db-wal", Data "/home-assistant_v2.db"];
        Sync: "Home Assistant: let its recorder commit less often (commit_interval: 30, in \
            seconds: a crash then loses the states of that time), and exclude entities that \
            change all the time",
        Reads: "Home Assistant: keep fewer days (purge_keep_days), exclude entities that change \
            all the time; a repack (auto_repack) reads and writes the whole file, and every other \
            change of it waits",
        Checkpoint: "Home Assistant: keep fewer days (purge_keep_days), exclude entities that \
            change all the time",
    },
    program! {
        "IPython": ["ipython*", "jupyter-consol*"],
        paths: [
            WriteAheadLog "/profile_default/history.sqlite-journal",
            Data "/profile_default/history.sqlite"
        ];
        Sync: "IPython, Jupyter kernels: the history is committed with each cell: where it may be \
            lost, `c.HistoryManager.enabled = False` or `c.HistoryManager.hist_file = ':memory:'` \
            in ipython_config.py; a larger c.HistoryManager.db_cache_size commits several cells at \
            once",
    },
    program! {
        "Bitcoin Core": ["bitcoind", "bitcoin-qt", "b-msghand", "b-loadblk"],
        paths: [Compaction "/chainstate/0*.ldb", Data "/blocks/blk0*.dat"];
        Reads: "Bitcoin Core: raise -dbcache, so that fewer outputs are \
            looked up on the disk; keep chainstate on a disk with a low latency",
        Compaction: "Bitcoin Core: raise -dbcache, so that its database is written less often",
    },
    program! {
        "Vim": ["vim", "vim.*", "gvim"];
        Sync: "Vim: it answers no key while it syncs: for its swap file sync less (a larger \
            updatecount, `set swapsync=`: a crash of the machine then loses the last keys), or put \
            that on a tmpfs (`set directory=`: a crash then loses all that is not written)",
    },
    program! {
        "Jenkins": ["jenkins"],
        paths: [Data "/jenkins/jobs/", Data "/jenkins/fingerprints/"];
        Sync: "Jenkins: a pipeline writes and syncs its state at each step: set its durability to \
            PERFORMANCE_OPTIMIZED (pipelines that run while Jenkins dies are then not resumed), \
            and keep fewer builds",
        Lookups: "Jenkins: discard old builds, so that its start and its views read fewer files",
    },
    program! {
        "Minecraft server": ["minecraft*"],
        paths: [Data "/region/*.mca", Data "/entities/*.mca", Data "/poi/*.mca"];
        Sync: "Minecraft: sync-chunk-writes=false in server.properties writes chunks through the \
            page cache: a crash of the machine then loses the last ones; pre-generate the world, \
            limit its border",
    },
    program! {
        "browser": ["firefox*", "chromium", "chrome", "brave", "thunderbird*"],
        paths: [WriteAheadLog "/places.sqlite-wal", WriteAheadLog "/cookies.sqlite-wal"];
        Sync: "browsers sync bookmarks, cookies and the list of open pages all the time: keep the \
            profile on a fast disk, save the session seldom (Firefox: \
            browser.sessionstore.interval), or keep the profile in memory (profile-sync-daemon: a \
            crash of the machine loses what was not written back)",
    },
    program! {
        "Syncthing": ["syncthing"],
        own: [Data "/index-v"];
        Sync: "Syncthing: it syncs each file and directory that it takes in: sync many small files \
            at quiet times; the folder's option disableFsync leaves it out: a crash of the machine \
            can then leave empty files, which other devices take over",
        Lookups: "Syncthing: let it watch for changes (fsWatcherEnabled) and raise \
            rescanIntervalS, so that it walks through its folders seldom",
        Reads: "Syncthing: raise rescanIntervalS and limit hashing (hashers, \
            maxConcurrentScans) beside other workloads",
    },
    program! {
        "Emacs": ["emacs*"];
        Sync: "Emacs: it answers no key while it syncs what it saves; `(setq \
            write-region-inhibit-fsync t)` leaves that out (a crash of the machine may then lose \
            the last saved change); for large files raise auto-save-interval",
    },
    program! {
        "Grafana": ["grafana", "grafana-server"],
        paths: [
            WriteAheadLog "/grafana.db-wal", WriteAheadLog "/grafana.db-journal",
            Data "*grafana.db"
        ];
        Sync: "Grafana: for more than a few users keep its data in PostgreSQL or MySQL ([database] \
            type); SQLite: wal = true, and fewer alert rules whose state is saved at each \
            evaluation",
    },
    program! {
        "Gitea/Forgejo": ["gitea", "forgejo"],
        paths: [Data "*gitea.db", Data "*forgejo.db"];
        Sync: "Gitea, Forgejo: SQLITE_JOURNAL_MODE = WAL in [database], or keep the data in \
            PostgreSQL or MySQL",
        Reads: "Gitea, Forgejo: pages of large repositories run git: keep the last commit of each \
            path ([cache.last_commit]) and the repositories on a fast disk",
        Lookups: "Gitea, Forgejo: keep the repositories on a fast disk, and let them be packed \
            (the cron task git_gc_repos)",
    },
    program! {
        "Plex": ["Plex Media Serv", "Plex Media Scan", "Plex Transcoder"],
        paths: [Data "/com.plexapp.plugins.", Temporary "/Transcode/Sessions/"];
        Sync: "Plex: keep its data directory on a local SSD, raise the database cache size, \
            optimise the database, and let the scheduled tasks run at night",
        Reads: "Plex: switch video preview thumbnails, intro detection and loudness analysis off, \
            or run them at night alone: they read each file whole",
        Spill: "Plex: put the transcoder's temporary directory on a tmpfs or a fast disk",
    },
    program! {
        "Jellyfin/Emby": ["jellyfin", "EmbyServer"],
        paths: [Data "*jellyfin.db", Temporary "/jellyfin/transcodes/"],
        own: [Data "*library.db"];
        Sync: "Jellyfin: keep its data directory on a local SSD, and scan the library at night",
        Reads: "Jellyfin: trickplay images, chapter images and intro detection read each file \
            whole: switch them off, or run them at night",
        Spill: "Jellyfin: put the transcode path on a tmpfs or a fast disk, with throttling and \
            the deletion of old segments",
    },
    program! {
        "Servarr": ["Sonarr", "Radarr", "Prowlarr", "Lidarr", "Readarr", "Bazarr"],
        paths: [
            Data "*sonarr.db", Data "*radarr.db", Data "*lidarr.db", Data "*prowlarr.db"
        ],
        own: [Data "*logs.db"];
        Sync: "Sonarr, Radarr and their like: keep the SQLite database on a local disk, log at \
            level info, and look for releases less often; PostgreSQL for large libraries",
    },
    program! {
        "Usenet client": ["nzbget", "sabnzbdplus", "SABnzbd*"];
        Checkpoint: "NZBGet: a larger ArticleCache with DirectWrite=yes writes each article once; \
            SABnzbd: a larger article cache; unpack while nothing is downloaded (pause during \
            post-processing), to another disk than the incomplete files",
        Reads: "NZBGet, SABnzbd: repair and unpack on another disk than the incomplete downloads, \
            and pause downloads meanwhile",
    },
    program! {
        "Kubo (IPFS)": ["ipfs"],
        paths: [Data "/.ipfs/blocks/", Data "/.ipfs/datastore/"];
        Sync: "Kubo: it syncs each block: add few large files instead of many small ones, with \
            larger chunks (--chunker); `\"sync\": false` of flatfs in the configuration leaves it \
            out: a crash of the machine then leaves empty blocks (`ipfs repo verify` finds them)",
        Lookups: "Kubo: announce less (Provide.Strategy, before 0.38 Reprovider.Strategy: roots or \
            pinned; a longer interval)",
    },
    program! {
        "Monero": ["monerod"],
        own: [Data "/data.mdb"];
        Sync: "Monero: --db-sync-mode fast:async (the default) syncs every 250 MB while it catches \
            up; safe syncs each block; a block chain needs a disk with a low latency",
        Reads: "Monero: its block chain is mapped into memory and read at random: more memory, a \
            disk with a low latency, or a pruned chain (--prune-blockchain)",
    },
    program! {
        "Ethereum node": [
            "geth", "reth", "erigon", "nethermind", "besu", "lighthouse", "prysm*", "teku"
        ],
        own: [Compaction "/chaindata/"];
        Reads: "Ethereum: the state is read at random: raise --cache (geth), and keep chaindata on \
            a local NVMe disk, as the clients' documents demand",
        Compaction: "Ethereum: compaction of the state must keep up with blocks: use a local NVMe \
            disk, and prune the state while the node is not needed",
    },
    program! {
        "dconf": ["dconf-service"];
        Sync: "dconf: each change of a setting writes and syncs all settings of the user: find the \
            program that changes one all the time (`dconf watch /`)",
    },
];

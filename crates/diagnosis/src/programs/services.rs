//! Search engines, web servers, file servers, containers, virtual machines, tools of developers.
//!
//! What does not belong here: databases, brokers, monitoring, and mail (see the siblings).

use super::FileRole::{Compaction, Data, Log, Snapshot, Temporary, WriteAheadLog};
use super::KnownProgram;

const GIT: &str = "git: `git config core.untrackedCache true` and `core.fsmonitor true` read fewer \
                   directories; a shallow or sparse checkout has fewer files";

/// The advice about looking up the names of scripts.
const PHP_PATHS: &str = "PHP: keep resolved paths (realpath_cache_size and a longer \
                         realpath_cache_ttl; nothing is kept while open_basedir is set); PHP-FPM: \
                         opcache looks for changed scripts less often with a longer \
                         revalidate_freq, and not at all with validate_timestamps=0 (then reload \
                         PHP-FPM after each deployment)";

/// The advice about packages that are linked from a cache.
const LINKED: &str = "uv, pnpm, bun and conda link files from their cache within one file system, \
                      and copy all of them to another one: keep the cache on the file system that \
                      they install to (UV_CACHE_DIR, pnpm's store-dir, BUN_INSTALL_CACHE_DIR, \
                      conda's pkgs_dirs)";
/// The advice about packages that are unpacked each time.
const UNPACKED: &str = "pip, npm and their like unpack each package anew: install once and keep \
                        the result (a layer of an image, a cached virtual environment or \
                        node_modules), or use an installer that links from its cache (uv, pnpm)";

pub(super) const ALL: &[KnownProgram] = &[
    program! {
        "Elasticsearch/OpenSearch": ["elasticsearch*", "opensearch*"],
        paths: [WriteAheadLog "/translog/translog-"],
        own: [Compaction "/index/_", Data "/nodes/0/"];
        Sync: "Elasticsearch: use larger bulk requests; set index.translog.durability: async with \
            sync_interval if a crash may lose the last seconds of writes",
        Compaction: "Elasticsearch: raise index.refresh_interval, set \
            index.merge.scheduler.max_thread_count=1 on rotating disks",
        Reads: "Elasticsearch: leave half of the memory to the page cache; lower read_ahead_kb \
            (128) on the data device; use fewer shards per search",
    },
    program! {
        "Lucene": ["Lucene Merge*", "solr"],
        paths: [
            Compaction "_Lucene", Compaction "/_*.fdt", Compaction "/_*.cfs", Compaction "/_*.tim",
            Compaction "/_*.dvd"
        ];
        Sync: "Lucene (Elasticsearch, OpenSearch, Solr): a commit syncs each file of the new \
            segments: commit after many documents or seconds (Solr: autoCommit maxTime with \
            openSearcher=false; not from the client after each document); what was added since is \
            replayed from the transaction log, where there is one, and lost in a crash where there \
            is none",
        Compaction: "Lucene (Elasticsearch, OpenSearch, Solr): indexing waits while merges fall \
            behind: make fewer small segments (larger batches, a larger RAM buffer, a longer \
            refresh or autoCommit interval), one merge thread on rotating disks, and no forced \
            merges while documents are added",
        Reads: "Lucene: leave half of the memory to the page cache; commit and refresh less often, \
            so that fewer small segments are read",
    },
    program! {
        "tantivy": ["quickwit"],
        paths: [Data "*.term", Data "*.fieldnorm"];
        Sync: "tantivy: a commit syncs each file of the new segments: commit after many documents, \
            not after each: those since the last one are lost in a crash",
        Reads: "a search index is read at random: provide memory for its page cache (vmtouch shows \
            how much of it is there), or a device with a lower latency",
    },
    program! {
        "container runtime": [
            "containerd", "dockerd", "unpigz", "crio", "podman", "containerd-shim*"
        ],
        own: [Data "/overlay2/", Data "/io.containerd.snapshotter"];
        Sync: "container images: pull them before they are needed and one at a time (kubelet: \
            serializeImagePulls), with the image store and the workloads' volumes on different \
            devices",
        Reads: super::tools::OF_IMAGES,
        Checkpoint: "container images: limit parallel pulls and layers (dockerd \
            --max-concurrent-downloads), put the image store on another device; builds: the \
            storage driver overlay copies nothing, vfs the whole image for each layer",
    },
    program! {
        "Erlang": ["beam.smp", "beam"];
        Sync: "commit several changes with one sync (RabbitMQ: confirms of many messages at once; \
            CouchDB: _bulk_docs)",
    },
    program! {
        "JVM": ["java", "G1*", "VM Thread", "GC Thread*"],
        paths: [Snapshot "*.hprof"],
        own: [Snapshot "/java_pid", Log "/gc.log", Log "gc*.log"];
        Logging: "JVM: write the GC log to a tmpfs or another device, or write it asynchronously \
            (JDK 17 and later: -Xlog:async)",
        Snapshot: "JVM: write heap dumps to another device (the file that jcmd or jmap is given; \
            -XX:HeapDumpPath for those of an OutOfMemoryError); the program is stopped until the \
            dump is written",
    },
    program! {
        "Node.js": ["node", "nodejs", "libuv-worker"];
        Pool: "Node.js: set UV_THREADPOOL_SIZE (4 by default) in its environment to the number of \
            files that it should read at once",
        Reads: "Node.js: cache the files in memory, or set UV_THREADPOOL_SIZE (4 by default) so \
            that more are read at once",
    },
    program! {
        "web server": ["nginx", "apache2", "httpd", "caddy", "gunicorn*", "uwsgi"],
        own: [
            Temporary "/nginx/body/", Temporary "/nginx/proxy/", Temporary "/nginx/fastcgi/",
            Temporary "/client_body_temp/", Temporary "/proxy_temp/", Temporary "/fastcgi_temp/"
        ];
        Spill: "nginx: answers that outgrow proxy_buffers, and requests that outgrow \
            client_body_buffer_size, go through temporary files: raise these, \
            `proxy_max_temp_file_size 0` (a slow client then holds the backend up) and \
            `proxy_request_buffering off` use none, or put client_body_temp_path and \
            proxy_temp_path on a tmpfs",
        Pool: "nginx: `aio threads` with a larger `thread_pool`; other servers: more workers",
        Reads: "nginx: `aio threads`, so that a read does not block its worker; other servers: \
            more workers; cache hot files in memory (a larger page cache, proxy_cache on a tmpfs)",
        Logging: "buffer the access log (nginx: `access_log ... buffer=64k flush=5s`)",
    },
    program! {
        "PHP": ["php", "php7*", "php8*"];
        Lookups: PHP_PATHS,
    },
    program! {
        "PHP-FPM": ["php-fpm*"];
        Lookups: PHP_PATHS,
        Pool: "PHP-FPM: raise pm.max_children, or give slow pages a pool of their own, so that \
            they do not take all workers",
    },
    program! {
        "Squid": ["squid"];
        Reads: "Squid: a `cache_dir ufs` is read by its only process, which answers nobody \
            meanwhile: use `cache_dir aufs` or `rock` (threads or processes of their own)",
    },
    program! {
        "QEMU": ["qemu-system-*", "qemu-nbd", "qemu-storage-d*", "qemu-kvm", "kvm"];
        Sync: "QEMU: cache=none and cache=writeback flush only when the guest asks for it, \
            cache=writethrough and cache=directsync after each of its writes (`virsh dumpxml`, or \
            qemu's -drive, show which it is)",
    },
    program! {
        "memcached": ["memcached", "mc-worker", "mc-ext*"];
        Reads: "memcached: let more threads read its external storage (`-o ext_threads=8`), or \
            keep more items in memory (`-m`)",
    },
    program! {
        "file server": ["smbd", "nfsd", "ganesha.nfsd", "vsftpd", "proftpd", "pure-ftpd", "minio"];
        Reads: "give the server more memory for its page cache; let it read several at once (nfsd: \
            `threads` in nfs.conf; Samba: `aio read size = 1`, its default)",
        Pool: "nfsd: raise `threads` in nfs.conf; Samba: `aio max threads`; else more workers",
        Sync: "Samba: `sync always = no` (its default) syncs only what clients ask for; nfsd: \
            mount with larger wsize, so that clients commit more at once",
    },
    program! {
        "web cache": ["varnishd", "cache-main", "haproxy", "traefik", "envoy", "trafficserver"];
        Reads: "keep what is asked for often in memory (Varnish: `-s malloc`), or on a faster \
            disk; a cache's program that reads by itself answers nobody meanwhile",
    },
    program! {
        "git": ["git", "git-*"],
        paths: [Data "/.git/"];
        Lookups: GIT,
        Sync: "git: see what it is told to sync (`git config --get-regexp core.fsync`): by default \
            it syncs packs and references, no loose object; core.fsyncMethod=batch (Git 2.36 and \
            later) syncs once for all objects that a command adds",
    },
    program! {
        "Subversion": ["svnadmin"],
        own: [Data "/db/revs/", Data "/db/revprops/", Data "/db/svn-*"];
        Sync: "Subversion: it syncs several files for each revision. Into a new repository that \
            can be made again, `svnadmin load --no-flush-to-disk` loads without that (a crash \
            damages it until a `sync` after the load has ended)",
    },
    program! {
        "locate's database": ["updatedb", "updatedb.mlocat", "updatedb.plocat"];
        Lookups: "updatedb: exclude large trees (PRUNEPATHS in /etc/updatedb.conf), or run its \
            timer at night",
    },
    program! {
        "dpkg/apt": ["dpkg", "dpkg-deb", "apt", "apt-get", "unattended-upgr"],
        paths: [Data "/var/lib/dpkg/", Data "*.dpkg-new"];
        Sync: "dpkg: it syncs each unpacked file so that a crash leaves no half-installed package: \
            run upgrades when no workload needs the disk",
    },
    program! {
        "linking installer": ["uv", "pnpm", "bun", "conda", "mamba", "micromamba"],
        paths: [Data "/.cache/uv/", Data "/pnpm/store/"];
        Reads: LINKED,
        Lookups: LINKED,
    },
    program! {
        "unpacking installer": ["pip", "pip3", "poetry", "npm*", "yarn"],
        paths: [Data "/.cache/pip/", Data "/.npm/_cacache/"];
        Reads: UNPACKED,
        Lookups: UNPACKED,
    },
    program! {
        "ccache": ["ccache", "sccache"],
        paths: [Data "/.ccache/", Data "/.cache/ccache/", Data "/.cache/sccache/"];
        Reads: "ccache: keep its directory (cache_dir) on a fast disk of the machine itself; each \
            hit reads files of it at once with the compiler's own",
        Lookups: "ccache: keep its directory (cache_dir) on a fast disk of the machine itself, \
            with a size (max_size) that is seldom cleaned up",
    },
    program! {
        "Nix": ["nix", "nix-daemon", "nix-build", "nix-store", "nix-env"],
        paths: [Data "/nix/var/nix/db/"];
        Sync: "Nix: each path that it adds is a transaction in a database of SQLite: build and \
            fetch when no workload needs the disk",
        Lookups: "Nix: run `nix-store --gc` and `--optimise` when no workload needs the disk",
    },
    program! {
        "OSTree": ["ostree", "flatpak", "rpm-ostree"],
        paths: [Data "/ostree/repo/", Data "/flatpak/repo/"];
        Sync: "OSTree syncs each object that it stores where per-object-fsync is true in the \
            [core] section of its repository's configuration: by default (false) it syncs once \
            before it commits; update when no workload needs the disk",
    },
    program! {
        "rpm": ["rpm", "dnf", "dnf5", "yum", "zypper", "packagekitd"],
        paths: [Data "/var/lib/rpm/", Data "/sysimage/rpm/"];
        Sync: "rpm: each package is a transaction in its database, which is synced: update when \
            no workload needs the disk, many packages at once",
    },
];

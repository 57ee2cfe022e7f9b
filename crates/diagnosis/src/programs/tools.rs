//! Commands that keep nothing for clients: what makes them do less, which of them run on their own,
//! and which names belong to any program.
//!
//! What does not belong here: programs that store data (see the siblings).

use super::Topic;

/// Programs of maintenance that run on their own, at night or on a timer.
const MAINTENANCE: &[&str] = &[
    "restic",
    "borg",
    "bacula-fd",
    "bareos-fd",
    "duplicity",
    "rdiff-backup",
    "rsnapshot",
    "kopia",
    "mandb",
    "fstrim",
    "e4defrag",
    "xfs_fsr",
    "btrfs-scrub",
    "logrotate",
    "debsums",
    "aide",
    "clamscan",
    "tmpwatch",
    "pg_dump",
    "mysqldump",
    "mariadb-dump",
    "mongodump",
    "pg_basebackup",
    "barman",
    "btrbk",
    "mariabackup",
    "xtrabackup",
    "pgbackrest",
    "bup",
    "amandad",
    "timeshift",
    "snapper",
    "freshclam",
    "rkhunter",
    "chkrootkit",
    "tripwire",
    "badblocks",
    "e2scrub",
    "xfs_scrub",
    "systemd-tmpfile",
    "unattended-upgr",
];

/// A command that reads or writes in bulk, or looks at many files, and what makes it less.
struct Tool {
    names: &'static [&'static str],
    /// By topic; what it writes is a [`Topic::Checkpoint`].
    advice: &'static [(Topic, &'static str)],
    /// Whether it may write more than what it is there to write.
    may_waste: bool,
}

const TOOLS: &[Tool] = &[
    Tool {
        names: &[
            "aria2c",
            "qbittorrent",
            "qbittorrent-nox",
            "transmission-da",
            "deluged",
            "rtorrent",
        ],
        advice: &[(Topic::Reads, OF_DOWNLOADS), (Topic::Checkpoint, OF_DOWNLOADS)],
        may_waste: true,
    },
    Tool {
        names: &["buildah", "skopeo"],
        advice: &[(Topic::Reads, OF_IMAGES), (Topic::Checkpoint, OF_IMAGES)],
        may_waste: true,
    },
    Tool {
        names: &["borg", "restic", "kopia"],
        advice: &[(Topic::Reads, OF_BACKUPS), (Topic::Checkpoint, OF_BACKUPS)],
        may_waste: true,
    },
    Tool {
        names: &["convert", "convert-im6.q16", "mogrify", "magick", "montage"],
        advice: &[(Topic::Reads, OF_PICTURES), (Topic::Checkpoint, OF_PICTURES)],
        may_waste: true,
    },
    Tool { names: &["rsync"], advice: &[(Topic::Reads, OF_RSYNC)], may_waste: false },
    Tool { names: &["rclone"], advice: &[(Topic::Reads, OF_RCLONE)], may_waste: false },
    Tool { names: &["tar", "bsdtar"], advice: &[(Topic::Reads, OF_ARCHIVES)], may_waste: false },
    Tool {
        names: &[
            "sha256sum",
            "sha1sum",
            "sha512sum",
            "md5sum",
            "b2sum",
            "b3sum",
            "xxhsum",
            "cksum",
        ],
        advice: &[(Topic::Reads, OF_CHECKSUMS)],
        may_waste: false,
    },
    Tool {
        names: &["aide", "debsums", "tripwire", "rkhunter"],
        advice: &[(Topic::Reads, OF_AUDITS), (Topic::Lookups, OF_AUDITS)],
        may_waste: false,
    },
    Tool {
        names: &["clamscan", "clamd", "clamdscan"],
        advice: &[(Topic::Reads, OF_VIRUS_SCANS), (Topic::Lookups, OF_VIRUS_SCANS)],
        may_waste: false,
    },
    Tool {
        names: &["grep"],
        advice: &[(Topic::Reads, OF_CODE_SEARCH), (Topic::Lookups, OF_CODE_SEARCH)],
        may_waste: false,
    },
    Tool { names: &["du"], advice: &[(Topic::Lookups, OF_DISK_USAGE)], may_waste: false },
    Tool { names: &["find"], advice: &[(Topic::Lookups, OF_FINDS)], may_waste: false },
    Tool { names: &["ls"], advice: &[(Topic::Lookups, OF_LISTS)], may_waste: false },
    Tool { names: &["rm"], advice: &[(Topic::Lookups, OF_REMOVALS)], may_waste: false },
    Tool {
        names: &["chown", "chmod"],
        advice: &[(Topic::Lookups, OF_CHANGED_OWNERS)],
        may_waste: false,
    },
    Tool {
        names: &["journalctl"],
        advice: &[(Topic::Reads, OF_JOURNALS), (Topic::Lookups, OF_JOURNALS)],
        may_waste: false,
    },
    Tool {
        names: &["mandb"],
        advice: &[(Topic::Reads, OF_MANUALS), (Topic::Lookups, OF_MANUALS)],
        may_waste: false,
    },
    Tool {
        names: &[
            "tracker-miner-f",
            "tracker-extract",
            "localsearch-3",
            "baloo_file",
            "baloo_file_extr",
        ],
        advice: &[(Topic::Reads, OF_INDEXERS), (Topic::Lookups, OF_INDEXERS)],
        may_waste: false,
    },
    Tool {
        names: &["snapd"],
        advice: &[(Topic::Reads, OF_SNAPS), (Topic::Checkpoint, OF_SNAPS)],
        may_waste: false,
    },
    Tool {
        names: &["sort"],
        advice: &[(Topic::Spill, OF_SORTS), (Topic::Checkpoint, OF_SORTS)],
        may_waste: true,
    },
    Tool { names: &["ffmpeg"], advice: &[(Topic::Checkpoint, OF_VIDEOS)], may_waste: true },
    Tool { names: &["exiftool"], advice: &[(Topic::Checkpoint, OF_TAGS)], may_waste: true },
    Tool { names: &["sed"], advice: &[(Topic::Checkpoint, OF_EDITED_STREAMS)], may_waste: true },
    Tool { names: &["shred"], advice: &[(Topic::Checkpoint, OF_SHREDS)], may_waste: false },
    Tool {
        names: &["qemu-img"],
        advice: &[(Topic::Reads, OF_QEMU_IMAGES), (Topic::Checkpoint, OF_QEMU_IMAGES)],
        may_waste: false,
    },
    Tool {
        names: &["tcpdump", "dumpcap", "tshark"],
        advice: &[(Topic::Checkpoint, OF_CAPTURES)],
        may_waste: false,
    },
    Tool {
        names: &["ld", "ld.bfd", "ld.gold", "ld.lld", "mold", "rustc", "cc1plus"],
        advice: &[(Topic::Checkpoint, OF_LINKERS)],
        may_waste: false,
    },
];

const OF_PICTURES: &str = "ImageMagick keeps pixels beyond its limits in files: where pictures \
                           are trusted, raise the memory \
                           and map limits in policy.xml (`identify -list resource`; `-limit \
                           memory 2GiB -limit map 4GiB`), or lead MAGICK_TEMPORARY_PATH to a fast \
                           disk";
const OF_BACKUPS: &str = "a backup reads files again in whole if its cache was lost (keep its \
                          directory), or if their change time or inode has changed (chown -R, a \
                          restore, another mount): find what changes it. Leaving it out of the \
                          comparison (borg --files-cache=mtime,size, restic --ignore-ctime and \
                          --ignore-inode) has a risk: a file that was changed and keeps its size \
                          and mtime is then not backed up";
const OF_DOWNLOADS: &str = "a download that allocates its file first writes zeros over all of it \
                            on a file system without extents (ext2, ext3, FAT): each byte is \
                            written twice (aria2: --file-allocation=none there, falloc on ext4, \
                            XFS and btrfs; others: no full preallocation)";
pub(super) const OF_IMAGES: &str = "container images: the storage driver vfs copies the whole \
                                    image for each layer (`podman info --format \
                                    '{{.Store.GraphDriverName}}'` shows it): overlay copies \
                                    nothing";
const OF_RSYNC: &str = "rsync reads whole files whose size or time differ; with --checksum (-c) \
                        all of them, each time: leave it out, or run it rarely";
const OF_ARCHIVES: &str = "tar reads all files each time: `--listed-incremental=FILE` takes only \
                      what has changed, `--exclude-caches` and `--exclude-from` leave out what can \
                      be made again";
const OF_AUDITS: &str = "a check of all files reads them whole: leave out what changes anyway or \
                      can be made again, use fewer kinds of checksums, and run it seldom and at \
                      night";
const OF_CAPTURES: &str = "write less of each packet (-s 128), only what is asked for (a filter), \
                      to a disk of its own, with a larger buffer (-B), so that none is dropped \
                      meanwhile";
const OF_CHANGED_OWNERS: &str = "chown and chmod -R change each inode, also one that is right \
                      already: `find DIR ! -user USER -exec chown -h USER {} +` changes only the \
                      others; Kubernetes: fsGroupChangePolicy: OnRootMismatch";
const OF_CHECKSUMS: &str = "a checksum reads all of its file: check only what has changed (by size \
                      and time), or let the file system keep checksums (fs-verity; btrfs and ZFS \
                      by themselves)";
const OF_CODE_SEARCH: &str = "grep -r reads each file whole: leave out what cannot match \
                      (--include, --exclude-dir), or use what skips ignored files (`git grep`, \
                      ripgrep) or keeps an index";
const OF_DISK_USAGE: &str = "du looks at each file anew: quotas keep such sums up to date (project \
                      quotas of XFS and ext4, qgroups of btrfs); -x stays within one file system";
const OF_EDITED_STREAMS: &str = "sed -i writes each file anew, also where nothing matches: `grep \
                      -lZ PATTERN FILES | xargs -0r sed -i ...` writes only those that do";
const OF_FINDS: &str = "find looks at each name anew: leave trees out (-xdev, -prune, -maxdepth), \
                      or ask a database (`locate`); `-delete` and `-exec ... +` start no process \
                      for each file";
const OF_INDEXERS: &str = "an indexer reads what is new in whole: leave out large trees (GNOME: \
                      its search locations; KDE: `balooctl6 config add excludeFolders DIR`), or \
                      suspend it";
const OF_JOURNALS: &str = "journalctl opens every file of the journal: ask for less (-b, --since, \
                      --until), and keep less (`journalctl --vacuum-size=1G`, SystemMaxUse=) in \
                      fewer, larger files (SystemMaxFileSize=)";
const OF_LINKERS: &str = "debug information is most of what compilers and linkers write: less of \
                      it (-g1, -gsplit-dwarf; Cargo: debug = \"line-tables-only\"), compressed \
                      (-gz=zstd), with the output on a tmpfs";
const OF_LISTS: &str = "ls -l looks at each file of a directory, and sorts them: `ls -U \
                      --color=never` (or -f) does neither; fewer files in one directory";
const OF_MANUALS: &str = "mandb reads each manual page that is new: packages run it after each \
                      installation: `man-db/auto-update` false (debconf) leaves that to its timer";
const OF_QEMU_IMAGES: &str = "`qemu-img convert -t none -T none` leaves the page cache out; -m 16 \
                      has more in flight (with -W for block devices and preallocated files); a \
                      new image on top of the old one (backing file) copies nothing";
const OF_RCLONE: &str = "rclone: --checksum reads each file whole, sizes and times do not \
                      (--size-only, --update); limit it by --bwlimit, fewer --transfers and \
                      --checkers";
const OF_REMOVALS: &str = "removal looks at each file and changes its directory: move the tree \
                      aside at once (`mv`), and remove it at a quiet time; what is emptied often \
                      belongs on a subvolume or file system of its own, which is made anew";
const OF_SHREDS: &str = "shred writes each file three times (-n 1 once), and cannot reach old \
                      copies on SSDs, or on file systems with a journal of data or copy on write: \
                      encryption whose key is thrown away does that at once";
const OF_SNAPS: &str = "snapd reads and writes whole packages when it refreshes: choose when \
                      (`snap set system refresh.timer=sun,4:00`), and keep fewer revisions \
                      (refresh.retain=2)";
const OF_SORTS: &str = "sort: more memory (`-S 50%`), compressed temporary files \
                      (`--compress-program=zstd`), or another disk for them (-T DIR)";
const OF_TAGS: &str = "exiftool writes each file anew: write all tags by one call; \
                      -overwrite_original keeps no second copy (and leaves no way back)";
const OF_VIDEOS: &str = "ffmpeg: `-movflags +faststart` reads and writes the whole file once more \
                      at its end: leave it out where nobody streams it (or use \
                      +frag_keyframe+empty_moov); the log of a second pass and HLS segments belong \
                      on a tmpfs";
const OF_VIRUS_SCANS: &str = "a scan for viruses reads files whole: leave out what cannot carry \
                      any (--exclude-dir, ExcludePath), limit sizes (--max-filesize, MaxFileSize), \
                      and run it at night";

fn tool(process: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.names.contains(&process))
}

/// Whether a process is a command of the table.
pub fn is_command(process: &str) -> bool {
    tool(process).is_some()
}

/// Whether a command may write more than what it is there to write.
pub fn may_waste(process: &str) -> bool {
    tool(process).is_some_and(|tool| tool.may_waste)
}

/// Returns what makes a command do less of what a topic is about.
pub(super) fn advice(process: &str, topic: Topic) -> Option<&'static str> {
    tool(process)?.advice.iter().find(|advice| advice.0 == topic).map(|advice| advice.1)
}

/// Programs that dump a database through its server, and what to do instead.
const DUMPS: &[(&str, &str)] = &[
    ("mysqldump", OF_MYSQL_DUMPS),
    ("mariadb-dump", OF_MYSQL_DUMPS),
    (
        "pg_dump",
        "dump a standby, or take a base backup (pg_basebackup) at a limited rate; at another time",
    ),
    ("mongodump", "dump a secondary, or take a snapshot of the file system; at another time"),
];
const OF_MYSQL_DUMPS: &str = "with --single-transaction no table of InnoDB is locked meanwhile \
                              (MyISAM's are: convert them); dump a replica, or back up with \
                              mariabackup or xtrabackup at a limited rate; at another time";

/// Returns what to do about a program that dumps a database through its server.
pub fn dump_advice(process: &str) -> Option<&'static str> {
    DUMPS.iter().find(|(name, _)| *name == process).map(|(_, advice)| *advice)
}

/// Whether a process is a backup, a check or another program of maintenance.
pub fn is_maintenance(process: &str) -> bool {
    MAINTENANCE.contains(&process)
}

/// Whether a process works in the background, and the other one does not: what the first one waits
/// behind the second is no harm.
pub fn yields_to(process: &str, other: &str) -> bool {
    let is_background = |process: &str| is_maintenance(process) || is_indexer(process);
    is_background(process) && !is_background(other)
}

/// Whether programs of any kind run under this name, so that two processes of it need not be one
/// program.
pub fn is_interpreter(process: &str) -> bool {
    const NAMES: &[&str] = &[
        "java",
        "node",
        "nodejs",
        "MainThread",
        "deno",
        "bun",
        "beam.smp",
        "mono",
        "dotnet",
        "bash",
        "dash",
        "sh",
        "zsh",
        "git",
    ];
    const VERSIONED: &[&str] = &["python", "perl", "ruby", "php", "lua", "luajit"];
    let is_version = |rest: &str| rest.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    NAMES.contains(&process)
        || VERSIONED.iter().any(|name| process.strip_prefix(name).is_some_and(is_version))
}

/// Parts of the paths of modules, which interpreters load when they start.
const OF_MODULES: &[&str] =
    &["/site-packages/", "/dist-packages/", "/__pycache__/", "/node_modules/", "/gems/"];

/// Returns what to do about an interpreter that loads its modules, by one of their files.
pub fn advice_on_modules(process: &str, file: &str) -> Option<&'static str> {
    let is_module = OF_MODULES.iter().any(|part| file.contains(part));
    (is_module && is_interpreter(process)).then_some(
        "it loads its modules, one file after another: keep them on a local disk with a low \
         latency, or in one file (Python: a zip on sys.path; Node.js: a bundle), import what is \
         seldom needed only then, and read all of them in parallel before the start (`find DIR \
         -type f -print0 | xargs -0 -P 16 cat > /dev/null`)",
    )
}

/// Whether two processes, with their numbers and names, are of one program, as far as is known.
pub fn are_of_one(one: (Option<u32>, &str), other: (Option<u32>, &str)) -> bool {
    let is_itself = one.0.is_some() && one.0 == other.0;
    one.1 == other.1 && (is_itself || !is_interpreter(one.1))
}

/// Whether a process indexes files for later searches.
pub fn is_indexer(process: &str) -> bool {
    ["updatedb", "plocate-build", "tracker-", "localsearch-", "baloo_file"]
        .iter()
        .any(|name| process.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tools_fit_in_the_kernel_s_field_and_stand_once() {
        let names: Vec<&str> = TOOLS.iter().flat_map(|tool| tool.names).copied().collect();
        for name in &names {
            assert!(name.len() <= 15, "{name} is never seen");
            assert_eq!(names.iter().filter(|other| *other == name).count(), 1, "{name}");
            assert!(super::super::of(Some(name), None).is_none(), "{name} is in both tables");
        }
    }

    #[test]
    fn modules_are_loaded_by_interpreters() {
        let file = "/venv/lib/python3.11/site-packages/sympy/__pycache__/x.cpython-311.pyc";
        assert!(advice_on_modules("python3.11", file).is_some());
        assert_eq!(advice_on_modules("tar", file), None);
        assert_eq!(advice_on_modules("python3", "/srv/data.bin"), None);
    }

    #[test]
    fn what_a_tool_reads_is_another_matter_than_what_it_writes() {
        assert!(advice("rsync", Topic::Reads).unwrap().starts_with("rsync reads whole files"));
        assert_eq!(advice("rsync", Topic::Checkpoint), None);
        assert_eq!(advice("ffmpeg", Topic::Reads), None);
        assert_eq!(advice("cat", Topic::Reads), None);
    }
}

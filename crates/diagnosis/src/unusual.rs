//! Settings other than the usual ones that can make the waits of a finding longer: of its devices'
//! queues, of the file system, of the machine. The finding names them; whether one is the cause,
//! the reader tries.
//!
//! What does not belong here: settings of which a rule shows that they are the cause.

use crate::facts::Facts;
use crate::finding::{Finding, Severity};
use iowhy_analysis::summary::DeviceSummary;
use iowhy_model::WaitClass::{self, *};
use iowhy_model::environment::Mount;

/// The most settings that one finding names.
const MOST: usize = 2;
/// The least share of a finding's waits that a setting can make longer. Chosen.
const LEAST_SHARE: f64 = 0.5;

/// What a setting can make longer.
#[derive(Clone, Copy)]
struct Slows(&'static [WaitClass]);

const READS: Slows = Slows(&[PageRead, PageFault, Swap]);
const REQUESTS: Slows =
    Slows(&[Device, Queue, Tag, Wbt, PageRead, PageFault, Swap, PageLock, Fsync, JournalCommit]);
const WRITES: Slows =
    Slows(&[Wbt, PageLock, Fsync, JournalCommit, JournalSpace, DirtyThrottle, Reclaim]);
const COMMITS: Slows = Slows(&[Fsync, JournalCommit, JournalSpace]);
const MEMORY: Slows = Slows(&[PageRead, PageFault, Swap, Reclaim]);
const SWAPPING: Slows = Slows(&[Swap]);
const PAGES: Slows = Slows(&[PageLock]);
const LOCKS: Slows = Slows(&[FsLock, Device]);

/// A numeric setting.
struct Number {
    /// The file below /sys/block/DEVICE, or below /proc/sys.
    name: &'static str,
    is_odd: fn(f64) -> bool,
    /// What it usually is.
    usual: &'static str,
    slows: Slows,
}

const fn number(
    name: &'static str,
    is_odd: fn(f64) -> bool,
    usual: &'static str,
    slows: Slows,
) -> Number {
    Number { name, is_odd, usual, slows }
}

/// The setting with which no page is changed while it is written.
const STABLE: &str = "queue/stable_writes";
/// Devices that compute checksums or parity of pages, compress them, or send them over a network,
/// and need stable pages for that; and those that may be above such.
const CHECKED: &[&str] = &["zram", "rbd", "md", "dm-", "nbd", "drbd", "bcache"];

/// Whether a device may need stable pages.
fn needs_stable(row: &DeviceSummary) -> bool {
    let is_remote = row.transport.as_deref().is_some_and(|by| !LOCAL.contains(&by));
    is_remote || CHECKED.iter().any(|name| row.device.starts_with(name))
}

/// Transports of drives in the machine.
const LOCAL: &[&str] = &["pcie", "sata", "usb", "mmc", "virtio"];

/// Settings of a device's queue: none that hardware decides, such as its depth. Sources: the
/// kernel's Documentation/ABI/stable/sysfs-block, Documentation/block (deadline-iosched,
/// bfq-iosched, kyber-iosched), and their defaults in the code.
const OF_DEVICES: &[Number] = &[
    number("queue/nomerges", |it| it > 0.0, "0", REQUESTS),
    number(
        STABLE,
        |it| it > 0.0,
        "0 where the device computes no checksums or parity of pages",
        PAGES,
    ),
    number(
        "queue/wbt_lat_usec",
        |it| it > 0.0 && it < 2000.0,
        "2000, or 75000 on disks that rotate",
        WRITES,
    ),
    number("queue/iosched/writes_starved", |it| is_far(it, 2.0), "2", REQUESTS),
    number("queue/iosched/read_expire", |it| is_far(it, 500.0), "500", REQUESTS),
    number("queue/iosched/write_expire", |it| is_far(it, 5000.0), "5000", REQUESTS),
    number("queue/iosched/fifo_batch", |it| is_far(it, 16.0), "16", REQUESTS),
    number("queue/iosched/front_merges", |it| it < 1.0, "1", REQUESTS),
    number("queue/iosched/strict_guarantees", |it| it > 0.0, "0", REQUESTS),
    number("queue/iosched/slice_idle", |it| it > 8.0, "8", REQUESTS),
    number("queue/iosched/timeout_sync", |it| is_far(it, 125.0), "125", REQUESTS),
    number("queue/iosched/max_budget", |it| it > 0.0, "0", REQUESTS),
    number("queue/iosched/read_lat_nsec", |it| is_far(it, 2e6), "2000000", REQUESTS),
    number("queue/iosched/write_lat_nsec", |it| is_far(it, 1e7), "10000000", REQUESTS),
];

/// Settings of the machine: what profiles of tuned and distributions with swap on zram set is
/// usual, too. Source: the kernel's Documentation/admin-guide/sysctl/vm.
const OF_MACHINE: &[Number] = &[
    number("vm/dirty_bytes", |it| it > 0.0 && it < 64e6, "0, with dirty_ratio 20", WRITES),
    number("vm/dirty_ratio", |it| it > 0.0 && it < 5.0, "20", WRITES),
    number("vm/dirty_expire_centisecs", |it| !(300.0..=12_000.0).contains(&it), "3000", WRITES),
    number("vm/dirty_writeback_centisecs", |it| !(50.0..=3000.0).contains(&it), "500", WRITES),
    number("vm/laptop_mode", |it| it > 0.0, "0", WRITES),
    number("vm/vfs_cache_pressure", |it| is_far(it, 100.0), "100", MEMORY),
    number("vm/page-cluster", |it| it > 5.0, "3", SWAPPING),
    number("vm/watermark_scale_factor", |it| it > 1000.0, "10", MEMORY),
    number("vm/zone_reclaim_mode", |it| it > 0.0, "0", MEMORY),
];

/// An option of a mount.
struct MountOption {
    /// File systems; a beginning of their names.
    of: &'static str,
    /// The option, or what stands before its number if it ends in `=`.
    name: &'static str,
    is_odd: fn(f64) -> bool,
    slows: Slows,
}

/// Options that are not usual. Sources: the kernel's Documentation/admin-guide/ext4 and xfs, and
/// btrfs(5).
const OPTIONS: &[MountOption] = &[
    option("", "dirsync", COMMITS),
    option("ext", "data=journal", WRITES),
    option("ext4", "nodelalloc", WRITES),
    option("ext4", "dioread_lock", LOCKS),
    ranged("ext", "commit=", |it| it < 5.0, COMMITS),
    ranged("ext4", "min_batch_time=", |it| it > 0.0, COMMITS),
    ranged("ext4", "max_batch_time=", |it| it > 15000.0, COMMITS),
    ranged("ext4", "inode_readahead_blks=", |it| it < 32.0, READS),
    option("ext4", "nombcache", REQUESTS),
    option("xfs", "wsync", COMMITS),
    option("xfs", "logbsize=16k", COMMITS),
    ranged("xfs", "logbufs=", |it| it < 8.0, COMMITS),
    option("xfs", "allocsize=4k", WRITES),
    option("btrfs", "flushoncommit", COMMITS),
    option("btrfs", "notreelog", COMMITS),
    option("btrfs", "nospace_cache", WRITES),
    ranged("btrfs", "commit=", |it| it < 10.0, COMMITS),
    ranged("btrfs", "thread_pool=", |it| it < 2.0, REQUESTS),
    ranged("btrfs", "max_inline=", |it| it < 512.0, REQUESTS),
    option("btrfs", "autodefrag", REQUESTS),
    option("f2fs", "fsync_mode=strict", COMMITS),
    option("f2fs", "background_gc=sync", REQUESTS),
];

const fn option(of: &'static str, name: &'static str, slows: Slows) -> MountOption {
    MountOption { of, name, is_odd: |_| true, slows }
}

const fn ranged(
    of: &'static str,
    name: &'static str,
    is_odd: fn(f64) -> bool,
    slows: Slows,
) -> MountOption {
    MountOption { of, name, is_odd, slows }
}

/// Whether a number is less than a quarter of the usual one, or more than four times as much.
fn is_far(it: f64, usual: f64) -> bool {
    it < usual / 4.0 || it > usual * 4.0
}

impl Finding {
    /// Names settings that are not usual and can make these waits longer, and advises to try them.
    pub(super) fn with_unusual_settings(mut self, facts: &Facts<'_>) -> Finding {
        if self.severity == Severity::Info || self.claims.are_of_cpu() {
            return self;
        }
        let all = of_devices(facts, &self).chain(of_mounts(facts, &self)).chain(of_machine(facts));
        let can_matter = |unusual: &Unusual| {
            let share = self.claims.share_of_waits(facts, |it| unusual.slows.0.contains(&it.class));
            share >= LEAST_SHARE && !self.names(unusual.word)
        };
        let found: Vec<Unusual> = all.filter(can_matter).take(MOST).collect();
        for unusual in found {
            self.sentence.push_str("; not usual: ");
            self.sentence.push_str(&unusual.is);
            self.fix.push_str("; try ");
            self.fix.push_str(&unusual.instead);
        }
        self
    }

    /// Whether it speaks of a setting.
    fn names(&self, word: &str) -> bool {
        [&self.sentence, &self.fix, &self.check].iter().any(|text| text.contains(word))
    }
}

/// A setting with its value.
struct Unusual {
    /// What a finding calls it that speaks of it.
    word: &'static str,
    is: String,
    /// What to try.
    instead: String,
    slows: Slows,
}

fn of_devices<'a>(
    facts: &'a Facts<'_>,
    finding: &'a Finding,
) -> impl Iterator<Item = Unusual> + 'a {
    let own = finding.subject.device.as_deref();
    let is_concerned = move |row: &&DeviceSummary| {
        own.is_some_and(|own| row.device == own || facts.stands_on(own, &row.device))
    };
    facts.devices().iter().filter(is_concerned).flat_map(move |row| {
        let settings = OF_DEVICES.iter().filter(|it| it.name != STABLE || !needs_stable(row));
        settings.filter_map(move |setting| {
            let value = facts.latest_number(row, setting.name)?;
            setting.unusual(value, &format!("/sys/block/{}/{}", row.device, setting.name))
        })
    })
}

fn of_machine<'a>(facts: &'a Facts<'_>) -> impl Iterator<Item = Unusual> + 'a {
    OF_MACHINE.iter().filter_map(move |setting| {
        let value = facts.summary().environment.settings_start.get(setting.name)?;
        setting.unusual(value.trim().parse().ok()?, &setting.name.replace('/', "."))
    })
}

impl Number {
    fn unusual(&self, value: f64, full: &str) -> Option<Unusual> {
        // A larger number is no setting of a kernel.
        ((self.is_odd)(value) && value.abs() < 1e15).then(|| Unusual {
            word: self.name.rsplit('/').next().unwrap_or(self.name),
            is: format!("{full} is {value}"),
            instead: format!("{full} at its usual value ({})", self.usual),
            slows: self.slows,
        })
    }
}

fn of_mounts<'a>(facts: &'a Facts<'_>, finding: &'a Finding) -> impl Iterator<Item = Unusual> + 'a {
    let own = finding.subject.device.as_deref();
    let row = facts.devices().iter().find(|row| Some(row.device.as_str()) == own);
    let mounts = row.map_or_else(Vec::new, |row| facts.mounts(row));
    OPTIONS.iter().filter_map(move |option| {
        let (mount, given) =
            mounts.iter().find_map(|mount| Some((*mount, option.given_to(mount)?)))?;
        Some(Unusual {
            word: option.name,
            is: format!("{} is mounted with `{given}`", mount.path),
            instead: format!("to mount it without `{given}`, if nothing needs that"),
            slows: option.slows,
        })
    })
}

impl MountOption {
    /// Returns the option as it is given to a mount, if it is not usual.
    fn given_to<'a>(&self, mount: &'a Mount) -> Option<&'a str> {
        let is_it = |given: &&str| match self.name.strip_suffix('=') {
            None => *given == self.name,
            Some(name) => given
                .split_once('=')
                .is_some_and(|(own, value)| own == name && value.parse().is_ok_and(self.is_odd)),
        };
        // The kernel chooses these where all data goes through the journal.
        let is_implied =
            ["nodelalloc", "dioread_lock"].contains(&self.name) && mount.has_option("data=journal");
        let is_of_kind = mount.kind.starts_with(self.of) && !is_implied;
        is_of_kind.then(|| mount.options.split(',').find(is_it)).flatten()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Finding, diagnose};
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::WaitClass;
    use iowhy_model::environment::Device;
    use iowhy_model::script::{MS, Script};

    /// The first finding of a program that waits in `class`, with a setting of its device, one of
    /// the machine, and options of its mount.
    fn found(
        class: WaitClass,
        of_device: (&str, &str),
        of_machine: &str,
        options: &str,
    ) -> Finding {
        let mut script = Script::new(10);
        let mut device = Device { name: "sdb".to_owned(), ..Device::default() };
        let (name, value) = of_device;
        device.settings_start.insert(name.to_owned(), value.to_owned());
        script.environment.devices.push(device);
        let laptop = ("vm/laptop_mode".to_owned(), of_machine.to_owned());
        script.environment.settings_start.extend([laptop]);
        script.mount("/srv", "ext4", "/dev/sdb");
        options.clone_into(&mut script.environment.mounts[0].options);
        for index in 0..300 {
            let write = script.write("sdb", 4096).by(7, "orders").at((index * 30 * MS) as i64);
            write.direct(500, 500, 20 * MS).add();
            script.wait((7, "orders"), class, 25 * MS, 0, 20 * MS);
            script.waited_on("sdb", "/srv/orders", 74);
        }
        diagnose(&script.summary()).findings.swap_remove(0)
    }

    #[test]
    fn a_setting_that_can_make_the_waits_longer_is_named() {
        let batch = ("queue/iosched/fifo_batch", "1");
        let finding = found(WaitClass::Fsync, batch, "0", "rw,relatime");
        let is = "; not usual: /sys/block/sdb/queue/iosched/fifo_batch is 1";
        assert!(finding.sentence.contains(is), "{}", finding.sentence);
        let fix = "; try /sys/block/sdb/queue/iosched/fifo_batch at its usual value (16)";
        assert!(finding.fix.contains(fix), "{}", finding.fix);

        let mounted = found(WaitClass::Fsync, ("", ""), "0", "rw,commit=1,min_batch_time=90000");
        let is = "/srv is mounted with `commit=1`; not usual: /srv is mounted with `min_batch_time";
        assert!(mounted.sentence.contains(is), "{}", mounted.sentence);

        let laptop = found(WaitClass::Fsync, ("", ""), "5", "rw");
        assert!(laptop.sentence.contains("vm.laptop_mode is 5"), "{}", laptop.sentence);
    }

    #[test]
    fn what_is_usual_or_cannot_matter_is_not() {
        let usual =
            found(WaitClass::Fsync, ("queue/iosched/fifo_batch", "16"), "0", "rw,commit=30");
        assert!(!usual.sentence.contains("not usual"), "{}", usual.sentence);
        let of_pages = ("queue/stable_writes", "1");
        let writes = found(WaitClass::Fsync, of_pages, "0", "rw");
        assert!(!writes.sentence.contains("not usual"), "{}", writes.sentence);
        let strange = found(WaitClass::Fsync, ("queue/nomerges", "1e300"), "0", "rw");
        assert!(!strange.sentence.contains("not usual"), "{}", strange.sentence);
    }
}

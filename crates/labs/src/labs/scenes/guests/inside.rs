//! Scenes that are host-wide, or need a device or a cgroup that this machine lacks.

use super::*;

/// The labs.
pub const LABS: &[Lab] = &[
    cause("guest-swap-io", &["swap-io"], |stage| swapping(stage, true)),
    near("guest-swap-io-near", &["swap-io"], |stage| swapping(stage, false)),
    cause("guest-dirty-throttle", &["dirty-throttle"], |stage| dirtying(stage, true)),
    near("guest-dirty-throttle-near", &["dirty-throttle"], |stage| dirtying(stage, false)),
    cause("guest-sync-storm", &["sync-storm"], |stage| syncing(stage, true)),
    near("guest-sync-storm-near", &["sync-storm"], |stage| syncing(stage, false)),
    cause("guest-iocost-throttle", &["iocost-throttle"], |stage| weighed(stage, true)),
    near("guest-iocost-throttle-near", &["iocost-throttle"], |stage| weighed(stage, false)),
    cause("guest-flush-cost", &["flush-cost"], |stage| flushing(stage, true)),
    near("guest-flush-cost-near", &["flush-cost"], |stage| flushing(stage, false)),
    cause("guest-raid-resync", &["raid-resync"], |stage| mirrored(stage, true)),
    near("guest-raid-resync-near", &["raid-resync"], |stage| mirrored(stage, false)),
    cause("guest-dm-layer-crypt", &["dm-layer"], |stage| mapped(stage, DiskBelow::Encrypted)),
    cause("guest-dm-layer-delay", &["dm-layer"], |stage| mapped(stage, DiskBelow::Delayed)),
    near("guest-dm-layer-near", &["dm-layer"], |stage| mapped(stage, DiskBelow::Handed)),
    cause("guest-kernel-housekeeping", &["kernel-housekeeping"], |stage| initialised(stage, true)),
    near("guest-kernel-housekeeping-near", &["kernel-housekeeping"], |stage| {
        initialised(stage, false)
    }),
];

/// A program that uses more memory than its cgroup may have; or one that reads and writes the same
/// disk at random, with enough memory.
fn swapping(stage: &mut LabStage, too_small: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, used) = (dice.name(), dice.between(90, 130));
    let (allowed, iops) = (used * dice.between(40, 55) / 100, dice.between(500, 900));
    let script = if too_small {
        format!(
            "mkswap /dev/disk/{name} >/dev/null; swapon /dev/disk/{name}\n\
             mkdir /sys/fs/cgroup/app; echo {allowed}M >/sys/fs/cgroup/app/memory.max\n\
             (echo $BASHPID >/sys/fs/cgroup/app/cgroup.procs\n\
             exec perl -e 'my $x = \"a\" x ({used} << 20); open F, \">/run/full\"; close F; \
             while (1) {{ substr($x, int rand length $x, 1) = \"b\" }}') &\n\
             while [ ! -e /run/full ]; do sleep 0.3; done\n"
        )
    } else {
        fio(
            dice,
            &format!(
                "--filename=/dev/disk/{name} --ioengine=psync --direct=1 --rw=randrw \
                 --bssplit=4k/60:32k/40"
            ),
        )
    };
    let disk = GuestDisk::memory(&name, 512 * MIB).limited(DiskLimits::iops(iops));
    stage.expected = Expected::fix(&["memory"]).on("vda").by("perl");
    stage.guest = Some(GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

/// A file system on the disk of that name, mounted at /mnt.
fn mounted(name: &str, options: &str) -> String {
    format!(
        "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/disk/{name}\n\
         mkdir -p /mnt; mount -o {options} /dev/disk/{name} /mnt\n"
    )
}

/// A writer faster than the disk, with little memory allowed to be dirty; or one that is a little
/// slower than the disk, with much. The file exists already: nothing is allocated, and the journal
/// has next to nothing to do.
fn dirtying(stage: &mut LabStage, little: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, mib, allowed) = (dice.name(), dice.between(8, 14), dice.between(10, 20));
    let (dirty, writer) = if little {
        let copy = "dd if=/dev/zero of=/mnt/big bs=256k count=1600 conv=notrunc status=none";
        (allowed, format!("while :; do {copy}; done &\n"))
    } else {
        let options = format!(
            "--filename=/mnt/big --ioengine=psync --rw=write --bs=256k --size=400m --time_based \
             --runtime=900 --rate={}m",
            mib * 75 / 100
        );
        (900, format!("fio --name=paced {options} >/dev/null 2>&1 &\n"))
    };
    let script = format!(
        "{}dd if=/dev/zero of=/mnt/big bs=1M count=400 conv=fsync status=none\n\
         echo $(({dirty} << 20)) >/proc/sys/vm/dirty_bytes\n\
         echo $(({allowed} << 19)) >/proc/sys/vm/dirty_background_bytes\n\
         echo 100 >/proc/sys/vm/dirty_writeback_centisecs\n{writer}",
        mounted(&name, "noatime")
    );
    stage.expected = Expected::fix(&["dirty"]).on("vda").by("dd");
    let disk = GuestDisk::memory(&name, 600 * MIB);
    let scene = GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk));
    stage.guest = Some(scene.then_limit(10, &name, DiskLimits::bytes(mib * MIB)));
    Ok(())
}

/// A process calls sync(2) repeatedly, while a service appends to its file and sometimes syncs a
/// record; or there is no such process, and the kernel writes back every second.
fn syncing(stage: &mut LabStage, storm: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, iops, block) = (dice.name(), dice.between(120, 220), dice.one(&["16k", "32k"]));
    let pace = dice.between(40, 90);
    let caller = if storm {
        "while :; do sync; done &\n"
    } else {
        "echo 100 >/proc/sys/vm/dirty_expire_centisecs\n\
         echo 100 >/proc/sys/vm/dirty_writeback_centisecs\n"
    };
    let script = format!(
        "{}dd if=/dev/zero of=/mnt/data bs=1M count=200 conv=fsync status=none\n\
         fio --name=service --filename=/mnt/data --ioengine=psync --rw=randwrite --bs={block} \
         --size=200m --time_based --runtime=900 --rate_iops={pace} >/dev/null 2>&1 &\n{caller}",
        mounted(&name, "noatime")
    );
    let disk = GuestDisk::memory(&name, 512 * MIB);
    stage.expected = Expected::fix(&["sync"]).on("vda").by("sync");
    let scene = GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk));
    stage.guest = Some(scene.then_limit(10, &name, DiskLimits::iops(iops)));
    Ok(())
}

/// A cgroup whose I/Os the io.cost controller admits at a rate; or a disk that has that rate.
fn weighed(stage: &mut LabStage, by_cost: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, iops, depth) = (dice.name(), dice.between(150, 400), dice.between(1, 4));
    let engine = if depth == 1 { "psync" } else { "libaio" };
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/disk/{name} --ioengine={engine} --direct=1 --bs=4k --rw=randread \
             --iodepth={depth}"
        ),
    );
    let control = if by_cost {
        format!(
            "n=$(cat /sys/block/$(basename $(readlink -f /dev/disk/{name}))/dev)\n\
             [ -e /sys/fs/cgroup/io.cost.qos ] || {{ echo no io.cost here; exit 3; }}\n\
             echo \"$n ctrl=user model=linear rbps=900000000 rseqiops={iops} rrandiops={iops} \
             wbps=900000000 wseqiops={iops} wrandiops={iops}\" >/sys/fs/cgroup/io.cost.model\n\
             echo \"$n enable=1 ctrl=user rpct=0 rlat=0 wpct=0 wlat=0 min=100.00 max=100.00\" \
             >/sys/fs/cgroup/io.cost.qos\n"
        )
    } else {
        String::new()
    };
    let script = format!(
        "{control}mkdir /sys/fs/cgroup/app\necho $$ >/sys/fs/cgroup/app/cgroup.procs\n{load}\
         echo $$ >/sys/fs/cgroup/cgroup.procs\n"
    );
    let limits = if by_cost { DiskLimits::default() } else { DiskLimits::iops(iops) };
    let disk = GuestDisk::memory(&name, 256 * MIB).limited(limits);
    stage.expected = Expected::fix(&["io.cost", "weight"]).on("vda").by("fio");
    stage.guest = Some(GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

/// A drive that needs a long time to empty its write cache, and a program that requests it after
/// each write; or a drive that does not, and a program that waits as long by itself. scsi_debug
/// answers in one tick of the clock, and empties its cache in a twentieth of as many seconds.
fn flushing(stage: &mut LabStage, dear: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let block = dice.one(&["128k", "256k", "512k"]);
    let (delay, pause) = if dear {
        ("1", String::new())
    } else {
        ("0", format!("--thinktime={}", dice.between(40_000, 60_000)))
    };
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/sda --ioengine=psync --direct=1 --bs={block} --rw=randwrite \
             --size=128m --fdatasync=1 {pause}"
        ),
    );
    let script = format!(
        "modprobe sd_mod; modprobe scsi_debug dev_size_mb=160 delay={delay}\n\
         while [ ! -e /dev/sda ]; do sleep 0.2; done\n{load}"
    );
    stage.expected =
        Expected::fix(&["power", "plp", "write_cache", "write cache"]).on("sda").by("fio");
    stage.guest = Some(GuestScene::new(script + SETTLE)?);
    Ok(())
}

/// A mirror that is resynced while a program reads; or one that is in sync and is read sequentially
/// by another process.
fn mirrored(stage: &mut LabStage, resync: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (first, second, mib) = (dice.name(), dice.name() + "2", dice.between(20, 40));
    let how = if resync { "" } else { "--assume-clean" };
    let reader = fio(
        dice,
        "--filename=/dev/md0 --ioengine=psync --direct=1 --bs=16k --rw=randread --numjobs=2",
    );
    let other = if resync {
        String::new()
    } else {
        fio(
            dice,
            "--filename=/dev/md0 --ioengine=libaio --direct=1 --bs=512k --rw=read --iodepth=4",
        )
    };
    let script = format!(
        "modprobe raid1; echo {} >/proc/sys/dev/raid/speed_limit_min\n\
         MDADM_NO_UDEV=1 mdadm --create /dev/md0 --level=1 --raid-devices=2 --metadata=1.0 \
         --bitmap=none {how} --run $(readlink -f /dev/disk/{first}) \
         $(readlink -f /dev/disk/{second}) >/dev/null 2>&1\n{reader}{other}",
        mib * 1024
    );
    let disks = [&first, &second]
        .map(|name| GuestDisk::memory(name, 1500 * MIB).limited(DiskLimits::bytes(mib * MIB)));
    stage.expected = Expected::fix(&["sync_speed", "speed_limit"]).on("md0").on("vda").on("vdb");
    let scene = GuestScene::new(script + SETTLE)?;
    stage.guest =
        Some(scene.with(|guest| disks.into_iter().fold(guest, |guest, disk| guest.disk(disk))));
    Ok(())
}

/// The layer between a device of the device mapper and its disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiskBelow {
    /// Encryption of every block, at which an emulated CPU is slow.
    Encrypted,
    /// A delay of every read by some milliseconds.
    Delayed,
    /// No layer: the disk is as slow.
    Handed,
}

fn mapped(stage: &mut LabStage, below: DiskBelow) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, delay, depth) = (dice.name(), dice.between(8, 25), dice.between(1, 4));
    let key: String = (0..64).map(|_| dice.one(&["1", "5", "9", "b", "d"])).collect();
    let (module, table) = match below {
        DiskBelow::Encrypted => ("dm-crypt", format!("crypt aes-xts-plain64 {key} 0 $disk 0")),
        DiskBelow::Delayed => ("dm-delay", format!("delay $disk 0 {delay}")),
        DiskBelow::Handed => ("dm-mod", "linear $disk 0".to_owned()),
    };
    let block = if below == DiskBelow::Encrypted { "256k" } else { "8k" };
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/dm-0 --ioengine=libaio --direct=1 --bs={block} --rw=randread \
             --iodepth={depth}"
        ),
    );
    let script = format!(
        "modprobe {module}; disk=$(readlink -f /dev/disk/{name})\n\
         dmsetup create upper --noudevsync --table \"0 $(blockdev --getsz $disk) {table}\"\n{load}"
    );
    let disk = match below {
        DiskBelow::Handed => {
            GuestDisk::nbdkit(&name, 256 * MIB, &["delay"], &[&format!("delay-read={delay}ms")])
        }
        _ => GuestDisk::memory(&name, 256 * MIB),
    };
    stage.expected = match below {
        DiskBelow::Encrypted => Expected::fix(&["workqueue", "crypt"]).on("dm-0").by("fio"),
        _ => Expected::fix(&["device mapper", "dm", "layer"]).on("dm-0").by("fio"),
    };
    stage.guest = Some(GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

/// A reader on a new ext4 whose inode tables are still to be written, or are.
fn initialised(stage: &mut LabStage, lazy: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, mib) = (dice.name(), dice.between(6, 10));
    let options = if lazy { "lazy_itable_init=1" } else { "lazy_itable_init=0" };
    let load = fio(
        dice,
        "--filename=/mnt/table --ioengine=psync --direct=1 --bs=4k --rw=randread --size=32m",
    );
    let script = format!(
        "mkfs.ext4 -q -E {options},lazy_journal_init=0 -N 2400000 /dev/disk/{name}\n\
         mkdir -p /mnt; mount -o noatime,init_itable=0 /dev/disk/{name} /mnt\n\
         dd if=/dev/zero of=/mnt/table bs=1M count=32 conv=fsync status=none\n{load}"
    );
    stage.expected = Expected::fix(&["lazy", "init_itable"]).on("vda").by("ext4lazyinit");
    let limits = DiskLimits::bytes(mib * MIB);
    let disk = GuestDisk::memory(&name, 1500 * MIB);
    // All inode tables are to be written at once; the remaining ones must still be there.
    let disk = if lazy { disk.limited(limits) } else { disk };
    let scene = GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk));
    stage.guest = Some(scene.then_limit(10, &name, limits));
    Ok(())
}

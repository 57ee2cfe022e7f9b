//! Limits of a provider and defects of a drive: QEMU's throttling, and nbdkit's filters, behind the
//! guest's disk.

use super::*;
use crate::error::Context;
use crate::vm::RunningGuest;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The labs.
pub const LABS: &[Lab] = &[
    cause("guest-provider-cap", &["provider-cap"], |stage| capped(stage, true)),
    near("guest-provider-cap-near", &["provider-cap"], |stage| capped(stage, false)),
    cause("guest-provider-cap-bytes", &["provider-cap"], capped_bytes),
    cause("guest-burst-credits", &["burst-credits"], |stage| credits(stage, true)),
    near("guest-burst-credits-near", &["burst-credits"], |stage| credits(stage, false)),
    cause("guest-slow-tail", &["device-slow-tail"], |stage| two_drives(stage, true)),
    near("guest-slow-tail-near", &["device-slow-tail"], |stage| two_drives(stage, false)),
    cause("guest-multipath-failover", &["multipath-failover"], |stage| paths(stage, true)),
    near("guest-multipath-failover-near", &["multipath-failover"], |stage| paths(stage, false)),
];

/// An NVMe disk with a provider's limit of I/Os per second; or a program that submits no more.
fn capped(stage: &mut LabStage, by_provider: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, iops, depth) = (dice.name(), dice.one(&[200, 300, 400, 500]), dice.between(8, 24));
    let rate = if by_provider { String::new() } else { format!("--rate_iops={iops}") };
    let access = dice.one(&["randread", "randwrite"]);
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/disk/{name} --ioengine=libaio --direct=1 --bs=4k --rw={access} \
             --iodepth={depth} {rate}"
        ),
    );
    let limits = if by_provider { DiskLimits::iops(iops) } else { DiskLimits::default() };
    let disk = GuestDisk::memory(&name, 256 * MIB).nvme().limited(limits);
    stage.expected =
        Expected::fix(&["volume", "provision", "instance", "limit"]).on("nvme0n1").by("fio");
    stage.guest = Some(GuestScene::new(load + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

/// A limit in bytes instead of requests: large reads in order.
fn capped_bytes(stage: &mut LabStage) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, mib, depth) = (dice.name(), dice.one(&[20, 25, 40, 50]), dice.between(4, 8));
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/disk/{name} --ioengine=libaio --direct=1 --bs=256k --rw=read \
             --iodepth={depth}"
        ),
    );
    let disk = GuestDisk::memory(&name, 256 * MIB).limited(DiskLimits::bytes(mib * MIB));
    stage.expected =
        Expected::fix(&["volume", "provision", "instance", "limit"]).on("vda").by("fio");
    stage.guest = Some(GuestScene::new(load + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

/// The credits of a disk are used up in the middle of the watch; or were long before it.
fn credits(stage: &mut LabStage, in_mid_run: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, base, depth) = (dice.name(), dice.one(&[100, 150, 200]), dice.between(6, 16));
    let full = base * dice.between(3, 5);
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/disk/{name} --ioengine=libaio --direct=1 --bs=4k --rw=randread \
             --iodepth={depth}"
        ),
    );
    let at = stage.seconds * 100 * dice.between(3, 6);
    let first = if in_mid_run { full } else { base };
    let disk = GuestDisk::memory(&name, 256 * MIB).limited(DiskLimits::iops(first));
    stage.expected = Expected::fix(&["gp3", "provision", "credit"]).on("vda").by("fio");
    let scene = GuestScene::new(load + SETTLE)?.with(|guest| guest.disk(disk));
    stage.guest =
        Some(if in_mid_run { scene.then_limit(at, &name, DiskLimits::iops(base)) } else { scene });
    Ok(())
}

/// Two drives under the same load; one of them now and then delays a request for hundreds of
/// milliseconds. nbdkit's delay filter has one delay for all requests, which is both drives'
/// ordinary one; its pause filter makes the rare long ones.
fn two_drives(stage: &mut LabStage, sick: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let names = [dice.name(), dice.name() + "2"];
    let iops = dice.between(60, 110);
    let mut script = String::new();
    for name in &names {
        let options = format!(
            "--filename=/dev/disk/{name} --ioengine=psync --direct=1 --bs=16k --rw=randread \
             --rate_iops={iops}"
        );
        script += &fio(dice, &options);
    }
    let delay = format!("delay-read={}ms", dice.between(2, 4));
    let socket = stage.scratch.fresh("pause");
    let control = format!("pause-control={}", socket.display());
    let filters = ["pause", "delay"];
    let drive = GuestDisk::nbdkit(&names[0], 256 * MIB, &filters, &[&control, &delay]);
    let sibling = GuestDisk::nbdkit(&names[1], 256 * MIB, &filters[1..], &[&delay]);
    let mut scene = GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(drive).disk(sibling));
    let pauses = if sick { stage.seconds * 2 / 5 } else { 0 };
    for _ in 0..pauses {
        let held = dice.between(400, 1000);
        let socket = socket.clone();
        scene = scene.then(dice.between(900, 1600), move |_| pause(&socket, held));
    }
    stage.expected = Expected::fix(&["replace", "smart"]).on("vda");
    stage.guest = Some(scene);
    Ok(())
}

/// Pauses nbdkit's answers for so many milliseconds.
fn pause(socket: &Path, milliseconds: u64) -> Result<()> {
    let action = || format!("pause nbdkit through {}", socket.display());
    let mut control = UnixStream::connect(socket).context(action)?;
    let mut answer = [0];
    control.write_all(b"p").and_then(|()| control.read_exact(&mut answer)).context(action)?;
    std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    control.write_all(b"r").and_then(|()| control.read_exact(&mut answer)).context(action)
}

/// Two paths to one disk, as the device mapper's multipath target sees them. A loop replaces
/// multipathd: it reinstates failed paths. Both paths fail for a while, repeatedly; or the paths
/// are well and the disk behind both stalls as long.
fn paths(stage: &mut LabStage, fail: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let both = [dice.name(), dice.name() + "2"]
        .map(|name| Way { name, fails: stage.scratch.fresh("fails") });
    let (iops, depth) = (dice.between(150, 300), dice.between(2, 6));
    let every = f64::from(u32::try_from(dice.between(5, 9)).unwrap_or_default()) / 10.0;
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/dm-0 --ioengine=libaio --direct=1 --bs=8k --rw=randread \
             --rate_iops={iops} --iodepth={depth}"
        ),
    );
    let script = format!(
        "modprobe -a dm-multipath dm-round-robin\n\
         a=$(readlink -f /dev/disk/{}); b=$(readlink -f /dev/disk/{})\n\
         path() {{ echo \"round-robin 0 1 1 $1 100\"; }}\n\
         dmsetup create paths --noudevsync --table \
         \"0 $(blockdev --getsz $a) multipath 1 queue_if_no_path 0 2 1 $(path $a) $(path $b)\"\n\
         while sleep {every}; do dmsetup message paths 0 reinstate_path $a; \
         dmsetup message paths 0 reinstate_path $b; done >/dev/null 2>&1 &\n",
        both[0].name, both[1].name
    );
    let mut scene = GuestScene::new(script + &load + SETTLE)?;
    for path in &both {
        scene = scene.with(|guest| guest.disk(path.disk()));
    }
    for _ in 0..stage.seconds * 3 / 10 {
        let both = both.clone();
        let (wait, held) = (dice.between(1000, 1600), dice.between(700, 1300));
        scene = scene.then(wait, move |running| {
            both.iter().try_for_each(|path| path.spoil(running, fail))?;
            std::thread::sleep(std::time::Duration::from_millis(held));
            both.iter().try_for_each(|path| path.mend(running, fail))
        });
    }
    stage.expected = Expected::fix(&["path"]).on("dm-0");
    stage.guest = Some(scene);
    Ok(())
}

/// One path to a disk.
#[derive(Clone)]
struct Way {
    name: String,
    /// A file: while it exists, every read fails.
    fails: PathBuf,
}

impl Way {
    fn disk(&self) -> GuestDisk {
        let when = format!("error-file={}", self.fails.display());
        let parameters = ["error=EIO", "error-pread-rate=100%", &when];
        GuestDisk::nbdkit(&self.name, 256 * MIB, &["error"], &parameters)
    }

    /// Makes the path fail, or stall.
    fn spoil(&self, running: &mut RunningGuest, fail: bool) -> Result<()> {
        if !fail {
            return running.limit(&self.name, DiskLimits::iops(1));
        }
        std::fs::write(&self.fails, "").context(|| format!("make {}", self.fails.display()))
    }

    fn mend(&self, running: &mut RunningGuest, fail: bool) -> Result<()> {
        if !fail {
            return running.limit(&self.name, DiskLimits::default());
        }
        std::fs::remove_file(&self.fails).context(|| format!("remove {}", self.fails.display()))
    }
}

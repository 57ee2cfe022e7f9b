//! Controls on stacks of devices and on disks of kinds that this machine lacks: each serves a light
//! load as fast as it can, and nothing is wrong with it.

use super::*;

/// The labs.
pub const LABS: &[Lab] = &[
    Lab::control("control-guest-lvm", |stage| stacked(stage, LVM, 2)),
    Lab::control("control-guest-md", |stage| stacked(stage, MD, 2)),
    Lab::control("control-guest-crypt", |stage| stacked(stage, CRYPT, 1)),
    Lab::control("control-guest-rotating", rotating),
    Lab::control("control-guest-nvme", plain),
];

/// Makes `/dev/DEVICE` of the disks `$a` and `$b`.
struct StackedDevice {
    device: &'static str,
    make: &'static str,
}

/// A linear volume over two disks, as LVM makes one.
const LVM: StackedDevice = StackedDevice {
    device: "dm-0",
    make: "modprobe dm-mod\n\
           dmsetup create volume --noudevsync --table \
           \"$(printf '0 204800 linear %s 2048\\n204800 204800 linear %s 2048' $a $b)\"\n",
};
/// A mirror that is in sync.
const MD: StackedDevice = StackedDevice {
    device: "md0",
    make: "modprobe raid1\n\
           MDADM_NO_UDEV=1 mdadm --create /dev/md0 --level=1 --raid-devices=2 --metadata=1.0 \
           --bitmap=none --assume-clean --run $a $b >/dev/null 2>&1\n",
};
/// An encrypted disk; where the CPU is emulated, a block takes a millisecond.
const CRYPT: StackedDevice = StackedDevice {
    device: "dm-0",
    make: "modprobe dm-crypt\n\
           key=$(printf '1f%.0s' $(seq 32))\n\
           dmsetup create secret --noudevsync --table \
           \"0 409600 crypt aes-xts-plain64 $key 0 $a 0\"\n",
};

/// Random reads and a group commit now and then, far below the limits of the devices.
fn stacked(stage: &mut LabStage, stack: StackedDevice, disks: usize) -> Result<()> {
    let dice = &mut stage.dice;
    let names = [dice.name(), dice.name() + "2"];
    let [first, second] = &names;
    let name = stack.device;
    let (reads, writes) = (dice.between(20, 60), dice.between(3, 8));
    let named = format!(
        "a=$(readlink -f /dev/disk/{first}); b=$(readlink -f /dev/disk/{second})\n{}",
        stack.make
    );
    let reader = fio(
        dice,
        &format!(
            "--filename=/dev/{name} --ioengine=psync --direct=1 --bs=4k --rw=randread \
             --rate_iops={reads}"
        ),
    );
    let writer = fio(
        dice,
        &format!(
            "--filename=/dev/{name} --ioengine=psync --bs=16k --rw=write --fdatasync=8 \
             --rate_iops={writes}"
        ),
    );
    let scene = GuestScene::new(named + &reader + &writer + SETTLE)?;
    let disks = names.iter().take(disks).map(|name| GuestDisk::memory(name, 256 * MIB));
    stage.guest = Some(scene.with(|guest| disks.fold(guest, Guest::disk)));
    Ok(())
}

/// A rotating SATA disk behind an adapter, as slow as such disks are, with a load below its limit.
fn rotating(stage: &mut LabStage) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, ms, reads) = (dice.name(), dice.between(6, 10), dice.between(10, 25));
    let readers = dice.between(1, 3);
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/sda --ioengine=psync --direct=1 --bs=8k --rw=randread \
             --rate_iops={reads} --numjobs={readers}"
        ),
    );
    let script = format!("while [ ! -e /dev/sda ]; do sleep 0.2; done\n{load}");
    let delays = [format!("delay-read={ms}ms"), format!("delay-write={ms}ms")];
    let disk = GuestDisk::nbdkit(&name, 256 * MIB, &["delay"], &[&delays[0], &delays[1]]);
    stage.guest = Some(GuestScene::new(script + SETTLE)?.with(|guest| guest.disk(disk.scsi())));
    Ok(())
}

/// An NVMe disk with a paced load.
fn plain(stage: &mut LabStage) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, rate) = (dice.name(), dice.between(50, 150));
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/disk/{name} --ioengine=libaio --direct=1 --bs=16k --rw=randrw \
             --rate_iops={rate} --iodepth=4"
        ),
    );
    let disk = GuestDisk::memory(&name, 256 * MIB).nvme();
    stage.guest = Some(GuestScene::new(load + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

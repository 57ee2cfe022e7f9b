//! Volumes that copy or fetch a block when it is used for the first time.

use super::*;

/// The labs.
pub const LABS: &[Lab] = &[
    cause("guest-thin-pool", &["thin-pool"], |stage| thin(stage, true)),
    near("guest-thin-pool-near", &["thin-pool"], |stage| thin(stage, false)),
    cause("guest-snapshot", &["thin-pool"], |stage| snapshot(stage, true)),
    near("guest-snapshot-near", &["thin-pool"], |stage| snapshot(stage, false)),
    cause("guest-first-touch", &["first-touch"], |stage| fetched(stage, true)),
    near("guest-first-touch-near", &["first-touch"], |stage| fetched(stage, false)),
];

/// Small writes at random.
fn writer(dice: &mut SeededNumbers, device: &str) -> String {
    let depth = dice.between(1, 4);
    fio(
        dice,
        &format!(
            "--filename={device} --ioengine=libaio --direct=1 --bs=4k --rw=randwrite \
             --iodepth={depth}"
        ),
    )
}

/// A thin volume whose blocks are all written, and then shared with a snapshot or not.
fn thin(stage: &mut LabStage, shared: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (data, metadata) = (dice.name(), dice.name() + "2");
    let iops = dice.between(200, 400);
    let share = match shared {
        true => {
            "dmsetup suspend --noudevsync volume; dmsetup message pool 0 'create_snap 1 0'\n\
             dmsetup resume --noudevsync volume\n"
        }
        false => "",
    };
    let script = format!(
        "modprobe dm-thin-pool\n\
         data=$(readlink -f /dev/disk/{data}); metadata=$(readlink -f /dev/disk/{metadata})\n\
         dd if=/dev/zero of=$metadata bs=4k count=1 oflag=direct status=none\n\
         dmsetup create pool --noudevsync --table \
         \"0 $(blockdev --getsz $data) thin-pool $metadata $data 128 0 1 skip_block_zeroing\"\n\
         dmsetup message pool 0 'create_thin 0'\n\
         dmsetup create volume --noudevsync --table '0 409600 thin /dev/dm-0 0'\n\
         dd if=/dev/zero of=/dev/dm-1 bs=1M count=200 oflag=direct status=none\n{share}{}",
        writer(dice, "/dev/dm-1")
    );
    stage.expected = Expected::fix(&["snapshot"]).on("dm-1").on("dm-0");
    let disks = [
        GuestDisk::memory(&data, 512 * MIB).limited(DiskLimits::iops(iops)),
        GuestDisk::memory(&metadata, 32 * MIB),
    ];
    let scene = GuestScene::new(script + SETTLE)?;
    stage.guest = Some(scene.with(|guest| disks.into_iter().fold(guest, Guest::disk)));
    Ok(())
}

/// A volume with a classic snapshot, or without one.
fn snapshot(stage: &mut LabStage, taken: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (origin, copies) = (dice.name(), dice.name() + "2");
    let iops = dice.between(200, 400);
    let (take, device) = match taken {
        true => (
            "dmsetup create copies --noudevsync --table \
             \"0 409600 snapshot /dev/dm-0 $copies P 128\"\n\
             dmsetup create origin --noudevsync --table '0 409600 snapshot-origin /dev/dm-0'\n",
            "/dev/dm-2",
        ),
        false => ("", "/dev/dm-0"),
    };
    let script = format!(
        "modprobe dm-snapshot\n\
         copies=$(readlink -f /dev/disk/{copies})\n\
         dmsetup create volume --noudevsync --table \
         \"0 409600 linear $(readlink -f /dev/disk/{origin}) 0\"\n{take}{}",
        writer(dice, device)
    );
    stage.expected = Expected::fix(&["snapshot"]).on("dm-0").on("dm-1").on("dm-2");
    let disks = [&origin, &copies]
        .map(|name| GuestDisk::memory(name, 512 * MIB).limited(DiskLimits::iops(iops)));
    let scene = GuestScene::new(script + SETTLE)?;
    stage.guest = Some(scene.with(|guest| disks.into_iter().fold(guest, Guest::disk)));
    Ok(())
}

/// A disk whose blocks come from a slow place when they are first read; or each time. Most reads go
/// to a hundredth of it.
fn fetched(stage: &mut LabStage, only_first: bool) -> Result<()> {
    let dice = &mut stage.dice;
    let (name, ms) = (dice.name(), dice.between(15, 40));
    let load = fio(
        dice,
        &format!(
            "--filename=/dev/disk/{name} --ioengine=libaio --direct=1 --bs=16k --rw=randread \
             --iodepth=2 --random_distribution=zoned:95/1:5/99"
        ),
    );
    let delay = format!("delay-read={ms}ms");
    let (filters, parameters): (&[&str], &[&str]) = match only_first {
        // nbdkit then serves one request at a time, so only few reads may be slow.
        true => (&["cache", "delay"], &["cache-on-read=true", &delay]),
        false => (&["delay"], &[&delay]),
    };
    let disk = GuestDisk::nbdkit(&name, 512 * MIB, filters, parameters);
    stage.expected = Expected::fix(&["once", "snapshot"]).on("vda").by("fio");
    stage.guest = Some(GuestScene::new(load + SETTLE)?.with(|guest| guest.disk(disk)));
    Ok(())
}

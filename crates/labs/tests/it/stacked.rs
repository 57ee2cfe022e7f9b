//! Upper devices, and devices that only guests have: the device mapper, RAID, null_blk, scsi_debug,
//! NVMe. Exact counts and bytes on each of them, the link to the request above if the kernel tells
//! it, errors and requeues with their status.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial, trial_alone};
use iowhy_labs::devices::{
    BlockDevice, GivenDevice, MappedDevice, NullBlk, Raid, ScsiDebug, Trouble,
};
use iowhy_labs::error::Context;
use iowhy_labs::fio::{Engine, FioAccess, Job};
use iowhy_labs::machine::{self, DiskStats};
use iowhy_labs::scratch::Scratch;
use iowhy_labs::vm::GuestDisk;
use iowhy_labs::{LabError, Result, command};
use iowhy_model::health::DeviceHealth;
use iowhy_model::{Operation, Request, Status};
use libtest_mimic::Trial;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::Command;

const READS: u64 = 61;
const WRITES: u64 = 59;
const BLOCK: u64 = 4096;
const SECTOR: u64 = 512;
const DISK_BYTES: u64 = 128 << 20;

/// The disks of the guest in which these tests run.
pub fn disks() -> Vec<GuestDisk> {
    vec![
        GuestDisk::memory("several", DISK_BYTES),
        GuestDisk::memory("beside", DISK_BYTES),
        GuestDisk::memory("nvme-odd", DISK_BYTES).nvme(),
    ]
}

pub fn tests() -> Vec<Trial> {
    if std::env::var_os("IOWHY_GUEST").is_none() {
        return Vec::new();
    }
    vec![
        trial("stacked::null_blk_with_memory", null_blk),
        trial("stacked::several_disks_at_once", several),
        trial("stacked::nvme_writes_flushes_and_discards", nvme),
        trial("stacked::delay", delay),
        trial("stacked::flakey_fails_writes", flakey),
        trial("stacked::crypt", crypt),
        trial("stacked::crypt_in_pieces", crypt_in_pieces),
        trial("stacked::thin_over_its_pool", thin),
        trial("stacked::raid1", raid1),
        trial("stacked::raid5", raid5),
        trial("stacked::raid0", || handed_on("0", "raid0")),
        trial("stacked::linear", || handed_on("linear", "linear")),
        trial("stacked::scsi_errors_and_requeues", scsi),
        // There is one disk of scsi_debug.
        trial_alone("stacked::scsi_counts_errors_and_timeouts", scsi_counts),
    ]
}

/// Runs "$@" between two reads of the counters of the devices whose names are in $1.
const COUNTED: &str = r#"names=$1 notes=$2; shift 2
note() { for name in $names; do cat "/sys/block/$name/stat" >"$notes.$name.$1"; done; }
note before; "$@"; status=$?; note after; exit $status"#;

/// Watches `devices` while `workload` runs, and checks the invariants of every watch for each of
/// them, with its own counters.
fn watch(scratch: &Scratch, devices: &[&dyn BlockDevice], workload: &Command) -> Result<Recording> {
    machine::need_bpf()?;
    let names: Vec<&str> = devices.iter().map(|device| device.name()).collect();
    for device in devices {
        // When a new device is opened first, the kernel scans it for partitions.
        File::open(device.path()).context(|| format!("open {}", device.path().display()))?;
    }
    let (output, notes) = (scratch.fresh("recording"), scratch.fresh("notes"));
    let counted =
        || names.iter().map(|name| DiskStats::for_device(name)).collect::<Result<Vec<_>>>();
    let before = counted()?;
    let mut record = iowhy(["record", "-o"])?;
    record.arg(&output);
    names.iter().for_each(|name| {
        record.args(["-d", name]);
    });
    record.args(["--", "/bin/sh", "-c", COUNTED, "sh", &names.join(" ")]).arg(&notes);
    record.arg(workload.get_program()).args(workload.get_args());
    let result = finish(record)?;
    let after = counted()?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    recording.check_each();
    // Losses are not accepted here: each count below is exact.
    for (index, name) in names.iter().enumerate() {
        let noted =
            |when: &str| DiskStats::read(Path::new(&format!("{}.{name}.{when}", notes.display())));
        let (within, around) =
            (noted("after")?.since(noted("before")?), after[index].since(before[index]));
        if around == DiskStats::default() && is_linear(name) {
            continue;
        }
        recording.check_totals(name, within, around);
    }
    Ok(recording)
}

/// Whether it is an array of level linear, whose counters stall from 5.14 on.
fn is_linear(name: &str) -> bool {
    let level = std::fs::read_to_string(format!("/sys/block/{name}/md/level"));
    level.is_ok_and(|level| level.trim() == "linear")
}

/// fio's jobs, one after the other; one that fails does not keep the next from running.
fn jobs(scratch: &Scratch, jobs: &[Job]) -> Result<Command> {
    let mut text = String::new();
    for job in jobs {
        let fio = job.command(&scratch.fresh("fio.json"))?;
        text.push_str(&format!("{}\n", command::shown(&fio)));
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{text}exit 0")]);
    Ok(shell)
}

fn job(device: &dyn BlockDevice, access: FioAccess, count: u64) -> Job {
    Job::strided(device.path(), Engine::Psync, access, count, BLOCK)
}

/// Writes, then reads elsewhere what was never written: each is one request.
fn both(scratch: &Scratch, device: &dyn BlockDevice) -> Result<Command> {
    let read = job(device, FioAccess::Read, READS).with("offset", "4m");
    jobs(scratch, &[job(device, FioAccess::Write, WRITES), read])
}

/// Returns the requests of a device.
fn on<'a>(recording: &'a Recording, device: &dyn BlockDevice) -> Vec<&'a Request> {
    let own = recording.requests.iter();
    own.filter(|request| recording.text(request.device) == device.name()).collect()
}

/// Returns the number of requests of `operation`, and their bytes.
fn amount(requests: &[&Request], operation: Operation) -> (u64, u64) {
    let own = requests.iter().filter(|request| request.operation == operation);
    own.fold((0, 0), |(count, bytes), request| (count + 1, bytes + request.bytes))
}

/// Checks that fio's reads and writes are all there, each once.
fn expect_both(recording: &Recording, device: &dyn BlockDevice) {
    let requests = on(recording, device);
    assert_eq!(
        (amount(&requests, Operation::Read), amount(&requests, Operation::Write)),
        ((READS, READS * BLOCK), (WRITES, WRITES * BLOCK)),
        "{}: {}",
        device.name(),
        recording.overview()
    );
}

/// Checks that each request that serves another is linked to the one at its place on the upper
/// device, `shift` sectors before its own, or has a reason. Returns how many are linked.
fn tied(recording: &Recording, upper: &dyn BlockDevice, below: &[&Request], shift: u64) -> usize {
    let above: BTreeMap<u64, &Request> =
        on(recording, upper).into_iter().map(|request| (request.request_id, request)).collect();
    let mut count = 0;
    for request in below {
        let Some(parent) = request.parent_id else {
            assert!(!recording.text(request.parent_reason).is_empty(), "no reason: {request:?}");
            continue;
        };
        let parent = above.get(&parent).expect("the parent is a request of the upper device");
        let place = (request.sector - shift) * SECTOR;
        let begin = parent.sector * SECTOR;
        assert!(
            begin <= place && place + request.bytes <= begin + parent.bytes,
            "{request:?} is not within {parent:?}"
        );
        assert!(
            parent.operation == request.operation && parent.start_ns <= request.start_ns,
            "{request:?} begins before {parent:?}"
        );
        count += 1;
    }
    count
}

/// Checks that every request below is linked, if the kernel describes the types of its modules
/// (from 5.11 on); else that none is.
fn expect_tied(
    recording: &Recording,
    upper: &dyn BlockDevice,
    lower: &dyn BlockDevice,
    shift: u64,
) {
    let below = on(recording, lower);
    let all = if Path::new("/sys/kernel/btf/dm_mod").exists() { below.len() } else { 0 };
    assert_eq!(tied(recording, upper, &below, shift), all, "{}", recording.overview());
}

fn null_blk() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = NullBlk::with_memory(16)?;
    let recording = watch(&scratch, &[&disk], &both(&scratch, &disk)?)?;
    expect_both(&recording, &disk);
    Ok(())
}

/// Three disks in one watch, under load at the same time.
fn several() -> Result<()> {
    let scratch = Scratch::new()?;
    let disks = [NullBlk::with_memory(16)?, NullBlk::new(&[("size", 16)])?];
    let virtio = GivenDevice::named("several")?;
    let all: [&dyn BlockDevice; 3] = [&disks[0], &disks[1], &virtio];
    let mut text = String::new();
    for (index, disk) in all.iter().enumerate() {
        let fio = job(*disk, FioAccess::Read, READS + index as u64)
            .command(&scratch.fresh("fio.json"))?;
        text.push_str(&format!("{} & ", command::shown(&fio)));
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{text} wait")]);
    let recording = watch(&scratch, &all, &shell)?;
    for (index, disk) in all.iter().enumerate() {
        let count = READS + index as u64;
        let found = amount(&on(&recording, *disk), Operation::Read);
        assert_eq!(found, (count, count * BLOCK), "{}: {}", disk.name(), recording.overview());
    }
    Ok(())
}

fn nvme() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = GivenDevice::named("nvme-odd")?;
    let path = disk.path().display().to_string();
    let write = job(&disk, FioAccess::Write, WRITES).with("end_fsync", "1");
    let fio = command::shown(&write.command(&scratch.fresh("fio.json"))?);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("{fio} && blkdiscard --offset 8388608 --length 1048576 {path}")]);
    let recording = watch(&scratch, &[&disk], &shell)?;
    let requests = on(&recording, &disk);
    let found = [Operation::Write, Operation::Discard].map(|one| amount(&requests, one));
    assert_eq!(found, [(WRITES, WRITES * BLOCK), (1, 1 << 20)], "{}", recording.overview());
    Ok(())
}

const DELAY_MS: u64 = 40;

/// The delay lies above: the disk below knows nothing of it.
fn delay() -> Result<()> {
    let scratch = Scratch::new()?;
    let mapped = MappedDevice::new(NullBlk::with_memory(16)?, "delay", &format!(" {DELAY_MS}"))?;
    let read = jobs(&scratch, &[job(&mapped, FioAccess::Read, READS)])?;
    let recording = watch(&scratch, &[&mapped, mapped.below()], &read)?;
    for device in [&mapped as &dyn BlockDevice, mapped.below()] {
        let found = amount(&on(&recording, device), Operation::Read);
        assert_eq!(found, (READS, READS * BLOCK), "{}", recording.overview());
    }
    expect_tied(&recording, &mapped, mapped.below(), 0);
    let above: BTreeMap<u64, &Request> =
        on(&recording, &mapped).into_iter().map(|request| (request.sector, request)).collect();
    let below = on(&recording, mapped.below());
    let held = below.iter().map(|request| request.start_ns - above[&request.sector].start_ns);
    let mut held: Vec<u64> = held.collect();
    held.sort_unstable();
    // The kernel counts the delay in ticks; where a tick came late, one is held less.
    assert!(held[held.len() / 2] >= (DELAY_MS - 5) * 1_000_000, "held for {held:?} ns");
    Ok(())
}

/// Reads pass, writes fail above and never come below.
fn flakey() -> Result<()> {
    let scratch = Scratch::new()?;
    let mapped = MappedDevice::new(NullBlk::with_memory(16)?, "flakey", " 0 1000 1 error_writes")?;
    // Each write has its own job: fio gives up at the first error.
    let script = format!(
        "{}; for block in $(seq 1 {WRITES}); do dd if=/dev/zero of={} bs=4k count=1 seek=$block \
         oflag=direct conv=notrunc status=none 2>&1; done; exit 0",
        command::shown(&job(&mapped, FioAccess::Read, READS).command(&scratch.fresh("fio.json"))?),
        mapped.path().display()
    );
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script]);
    let recording = watch(&scratch, &[&mapped, mapped.below()], &shell)?;
    let above = on(&recording, &mapped);
    let failed = above.iter().filter(|request| request.status == Status::Error);
    let errors: Vec<_> = failed.map(|request| (request.operation, request.error)).collect();
    assert_eq!(errors, vec![(Operation::Write, Some(-5)); WRITES as usize]);
    assert_eq!(amount(&above, Operation::Read), (READS, READS * BLOCK));
    assert_eq!(on(&recording, mapped.below()).len() as u64, READS, "{}", recording.overview());
    expect_tied(&recording, &mapped, mapped.below(), 0);
    Ok(())
}

/// Encrypted data is written from other pages, in other bios: the kernel does not tell for whom.
fn crypt() -> Result<()> {
    let scratch = Scratch::new()?;
    let mapped = encrypted()?;
    let recording = watch(&scratch, &[&mapped, mapped.below()], &both(&scratch, &mapped)?)?;
    expect_both(&recording, &mapped);
    expect_both(&recording, mapped.below());
    let below = on(&recording, mapped.below());
    assert_eq!(tied(&recording, &mapped, &below, 0), 0, "{}", recording.overview());
    Ok(())
}

fn encrypted() -> Result<MappedDevice<NullBlk>> {
    let disk = NullBlk::with_memory(16)?;
    let key = "5".repeat(128);
    let arguments = format!("aes-xts-plain64 {key} 0 {} 0", disk.path().display());
    MappedDevice::of(disk, "crypt", &arguments)
}

/// Large reads, of which the device mapper takes a part at a time and hands the rest to itself.
fn crypt_in_pieces() -> Result<()> {
    let scratch = Scratch::new()?;
    let mapped = encrypted()?;
    let (reads, block) = (24, 256 << 10);
    let job = Job::strided(mapped.path(), Engine::Libaio, FioAccess::Read, reads, block);
    let fio = job.command(&scratch.fresh("fio.json"))?;
    let output = scratch.fresh("recording");
    let mut record = iowhy(["record", "-d", mapped.name(), "-o"])?;
    record.arg(&output).arg("--").arg(fio.get_program()).args(fio.get_args());
    let result = finish(record)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    recording.check_each();
    let (count, bytes) = amount(&on(&recording, &mapped), Operation::Read);
    assert!(count >= reads && bytes == reads * block, "{count} {bytes} {}", recording.overview());
    assert_eq!(recording.lost(), 0, "{:#?}", recording.environment.losses.items);
    Ok(())
}

/// Two levels: the thin volume's requests go to the pool, the pool's to its data device. The
/// watched I/O lies in blocks that the volume has already.
fn thin() -> Result<()> {
    let scratch = Scratch::new()?;
    let (metadata, data) = (NullBlk::with_memory(16)?, NullBlk::with_memory(32)?);
    let arguments = format!("{} {} 128 0", metadata.path().display(), data.path().display());
    let pool = MappedDevice::of(data, "thin-pool", &arguments)?;
    pool.tell("create_thin 0")?;
    let arguments = format!("{} 0", pool.path().display());
    let volume = MappedDevice::of(pool, "thin", &arguments)?;
    command::output_of(both(&scratch, &volume)?)?;
    let fill = job(&volume, FioAccess::Write, READS).with("offset", "4m");
    command::output_of(jobs(&scratch, &[fill])?)?;
    let (pool, data) = (volume.below(), volume.below().below());
    let recording = watch(&scratch, &[&volume, pool, data], &both(&scratch, &volume)?)?;
    expect_both(&recording, &volume);
    expect_both(&recording, pool);
    expect_both(&recording, data);
    let all = if Path::new("/sys/kernel/btf/dm_mod").exists() { READS + WRITES } else { 0 };
    let parents = |device: &dyn BlockDevice| {
        on(&recording, device).iter().filter(|request| request.parent_id.is_some()).count() as u64
    };
    assert_eq!((parents(pool), parents(data)), (all, all), "{}", recording.overview());
    expect_tied(&recording, pool, data, 0);
    Ok(())
}

/// An array of null_blk disks.
fn array(level: &str, module: &str, legs: usize) -> Result<Raid<NullBlk>> {
    let missing = |_| LabError::unsupported(module, "this kernel has no such module");
    command::run("modprobe", [module]).map_err(missing)?;
    let legs = (0..legs).map(|_| NullBlk::with_memory(32)).collect::<Result<Vec<_>>>()?;
    Raid::new(level, legs)
}

/// Each write goes to both legs, each read to one of them, at the same place.
fn raid1() -> Result<()> {
    let scratch = Scratch::new()?;
    let array = array("1", "raid1", 2)?;
    let legs = array.legs();
    let recording = watch(&scratch, &[&array, &legs[0], &legs[1]], &both(&scratch, &array)?)?;
    expect_both(&recording, &array);
    let mut reads = 0;
    for (index, leg) in legs.iter().enumerate() {
        let begin = array.data_offset(index)?;
        // The array's own metadata comes before the data.
        let below: Vec<&Request> =
            on(&recording, leg).into_iter().filter(|one| one.sector >= begin).collect();
        assert_eq!(amount(&below, Operation::Write), (WRITES, WRITES * BLOCK));
        reads += amount(&below, Operation::Read).0;
        tied(&recording, &array, &below, begin);
    }
    assert_eq!(reads, READS, "{}", recording.overview());
    Ok(())
}

/// Requests for a stripe's parity are not the submitted ones: nothing below is linked, and the
/// reason is recorded.
fn raid5() -> Result<()> {
    let scratch = Scratch::new()?;
    let array = array("5", "raid456", 3)?;
    let legs = array.legs();
    let all: Vec<&dyn BlockDevice> = std::iter::once(&array as &dyn BlockDevice)
        .chain(legs.iter().map(|leg| leg as _))
        .collect();
    let recording = watch(&scratch, &all, &both(&scratch, &array)?)?;
    expect_both(&recording, &array);
    let mut written = 0;
    for (index, leg) in legs.iter().enumerate() {
        let begin = array.data_offset(index)?;
        let below: Vec<&Request> =
            on(&recording, leg).into_iter().filter(|one| one.sector >= begin).collect();
        assert_eq!(tied(&recording, &array, &below, begin), 0);
        written += amount(&below, Operation::Write).1;
    }
    // Every block and at least one of parity.
    assert!(written >= 2 * WRITES * BLOCK, "{}", recording.overview());
    Ok(())
}

/// Each request goes to one leg, in the same bio or in a copy of it: both are there, each once and
/// on its own device.
fn handed_on(level: &str, module: &str) -> Result<()> {
    let scratch = Scratch::new()?;
    let array = array(level, module, 2)?;
    let legs = array.legs();
    let read = |offset| job(&array, FioAccess::Read, READS).with("offset", offset);
    // The second leg of a linear array begins after 30 MiB, and has each other 512 KiB of a striped
    // one.
    let load = [job(&array, FioAccess::Write, WRITES), read("4m"), read("41472k")];
    let load = jobs(&scratch, &load)?;
    let recording = watch(&scratch, &[&array, &legs[0], &legs[1]], &load)?;
    let above = on(&recording, &array);
    let expected = [(2 * READS, 2 * READS * BLOCK), (WRITES, WRITES * BLOCK)];
    let amounts = |requests: &[&Request]| {
        [Operation::Read, Operation::Write].map(|one| amount(requests, one))
    };
    assert_eq!(amounts(&above), expected, "{}", recording.overview());
    assert!(above.iter().all(|request| request.status == Status::Complete), "{above:?}");
    let mut below = Vec::new();
    for (index, leg) in legs.iter().enumerate() {
        let begin = array.data_offset(index)?;
        let own = on(&recording, leg).into_iter().filter(|one| one.sector >= begin);
        let own: Vec<&Request> = own.collect();
        assert!(!own.is_empty(), "nothing on {}: {}", leg.name(), recording.overview());
        below.extend(own);
    }
    assert_eq!(amounts(&below), expected, "{}", recording.overview());
    let ids: BTreeMap<u64, &Request> = above.iter().map(|one| (one.request_id, *one)).collect();
    for request in below {
        let Some(parent) = request.parent_id else {
            assert!(!recording.text(request.parent_reason).is_empty(), "no reason: {request:?}");
            continue;
        };
        let parent = ids.get(&parent).expect("the parent is a request of the array");
        let same = (parent.operation, parent.bytes) == (request.operation, request.bytes);
        let end = |one: &Request| one.start_ns + one.q2c_ns.unwrap_or(0);
        let within = parent.start_ns <= request.start_ns && end(request) <= end(parent);
        assert!(same && within, "{request:?} is not within {parent:?}");
    }
    Ok(())
}

/// A sector that cannot be read, and a host that is busy now and then.
fn scsi() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = ScsiDebug::new()?;
    disk.trouble(Trouble::MediumErrors)?;
    let recording = watch(&scratch, &[&disk], &reads_over_bad_sectors(&disk))?;
    let failed: Vec<&Request> =
        recording.requests.iter().filter(|request| request.status == Status::Error).collect();
    let place: Vec<u64> = failed.iter().map(|request| request.sector / 8).collect();
    assert!(place.iter().all(|place| (582..=583).contains(place)), "{failed:?}");
    // The block layer turns a medium error into ENODATA.
    assert!(
        !failed.is_empty() && failed.iter().all(|request| request.error == Some(-61)),
        "{failed:?}\n{}",
        recording.overview()
    );
    disk.trouble(Trouble::Busy(7))?;
    let read = jobs(&scratch, &[job(&disk, FioAccess::Read, READS)])?;
    let recording = watch(&scratch, &[&disk], &read)?;
    disk.trouble(Trouble::None)?;
    let found = amount(&on(&recording, &disk), Operation::Read);
    assert_eq!(found, (READS, READS * BLOCK), "{}", recording.overview());
    let requeues: u32 = recording.requests.iter().map(|request| request.requeues).sum();
    assert!(requeues >= READS as u32 / 7, "{requeues} requeues\n{}", recording.overview());
    assert!(recording.requests.iter().all(|request| request.error.is_none()));
    Ok(())
}

/// The kernel's own counts of commands, failed ones and, if it has them, those that timed out, at
/// both ends of a watch: they grow by the events between them.
fn scsi_counts() -> Result<()> {
    let scratch = Scratch::new()?;
    let disk = ScsiDebug::new()?;
    let grown = |recording: &Recording| {
        let mut devices = recording.environment.devices.iter();
        let known = devices.find(|device| device.name == disk.name()).expect("the disk");
        let count = |health: &Option<DeviceHealth>| {
            let health = health.as_ref().expect("it was asked");
            health.commands.clone().expect("a SCSI disk")
        };
        let (start, end) = (count(&known.health_start), count(&known.health_end));
        let timeouts = start.timeouts.zip(end.timeouts).map(|(start, end)| end - start);
        (end.done - start.done, end.errors - start.errors, timeouts)
    };
    let has_timeouts = Path::new("/sys/block").join(disk.name()).join("device/iotmo_cnt").exists();
    let none = has_timeouts.then_some(0);

    let read = jobs(&scratch, &[job(&disk, FioAccess::Read, READS)])?;
    let (done, errors, timeouts) = grown(&watch(&scratch, &[&disk], &read)?);
    assert!(done >= READS && (errors, timeouts) == (0, none), "{done} {errors} {timeouts:?}");

    disk.trouble(Trouble::MediumErrors)?;
    let failing = reads_over_bad_sectors(&disk);
    let (_, errors, timeouts) = grown(&watch(&scratch, &[&disk], &failing)?);
    assert!(errors >= 1 && timeouts == none, "{errors} {timeouts:?}");

    disk.time_limit(2)?;
    disk.trouble(Trouble::Silence(40))?;
    let silent = watch(&scratch, &[&disk], &read);
    disk.trouble(Trouble::None)?;
    let (_, _, timeouts) = grown(&silent?);
    if has_timeouts {
        assert!(timeouts.is_some_and(|timeouts| timeouts >= 1), "{timeouts:?}");
    }
    Ok(())
}

/// Reads around the sector 0x1234, which lies in block 582.
fn reads_over_bad_sectors(disk: &ScsiDebug) -> Command {
    let mut dd = Command::new("/bin/sh");
    let script = format!(
        "dd if={} of=/dev/null bs=4k skip=580 count=4 iflag=direct conv=noerror status=none; exit \
         0",
        disk.path().display()
    );
    dd.args(["-c", &script]);
    dd
}

//! Messages of the kernel's log about devices during a watch: resets, timeouts, errors, links.
//!
//! The log is opened at its end when the watch begins and read when it ends, so that only what was
//! logged in between is seen, and no clocks have to be compared.
//!
//! What does not belong here: what a message means for the watch (`iowhy_diagnosis`).

use iowhy_model::environment::Device;
use iowhy_model::health::KernelMessage;
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use std::fs::File;
use std::path::Path;

/// Records read at most: more than the kernel's buffer holds.
const MOST_RECORDS: usize = 50_000;
/// The longest record that the kernel hands out, bytes.
const RECORD: usize = 8192;
/// Messages kept of each device.
const MOST_MESSAGES: usize = 20;
/// Up to this level everything about a device is kept: warnings and worse.
const WARNING: u32 = 4;

/// The kernel's log from a moment on.
#[derive(Debug)]
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// Opens the log at its end, so that only later messages are read.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be opened, usually for lack of CAP_SYSLOG, with the reason.
    pub fn open() -> Result<KernelLog, String> {
        let path = "/dev/kmsg";
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let said = |error: Errno| format!("{path}: {error}");
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(said)?;
        rustix::fs::seek(&file, SeekFrom::End(0)).map_err(said)?;
        Ok(KernelLog(file.into()))
    }

    /// Adds to each disk what was logged of it so far; returns how many records were overwritten
    /// or are too many.
    pub fn take(&mut self, devices: &mut [Device]) -> u64 {
        let mut disks: Vec<(Vec<String>, &mut Device)> = devices
            .iter_mut()
            .filter(|device| device.partition_of.is_none())
            .map(|device| {
                (aliases(&device.name, &super::super::devices::directory(device)), device)
            })
            .collect();
        let mut room = [0; RECORD];
        let mut lost = 0;
        for _ in 0..MOST_RECORDS {
            match rustix::io::read(&self.0, &mut room) {
                Ok(0) | Err(Errno::AGAIN) => return lost,
                Ok(length) => note(&String::from_utf8_lossy(&room[..length]), &mut disks),
                // The record to be read next has been overwritten.
                Err(Errno::PIPE) => lost += 1,
                Err(Errno::INTR) => {}
                Err(_) => return lost + 1,
            }
        }
        lost + 1
    }
}

/// Adds a record to the disks that it names.
fn note(record: &str, disks: &mut [(Vec<String>, &mut Device)]) {
    let Some((level, logged_ns, text)) = parse(record) else { return };
    let kind = KernelMessage::kind_of(text);
    if level > WARNING && kind == KernelMessage::OTHER {
        return;
    }
    for (aliases, disk) in disks {
        let is_named = aliases.iter().any(|alias| KernelMessage::names(text, alias));
        if is_named && disk.kernel_messages.len() < MOST_MESSAGES {
            disk.kernel_messages.push(KernelMessage::new(logged_ns, text));
        }
    }
}

/// Parses `4,1234,5678901,-;text`, and lines of keys behind it: level, time in nanoseconds, text.
/// `None` for what programs wrote.
fn parse(record: &str) -> Option<(u32, u64, &str)> {
    let (head, text) = record.lines().next()?.split_once(';')?;
    let mut fields = head.split(',');
    let priority: u32 = fields.next()?.parse().ok()?;
    let microseconds: u64 = fields.nth(1)?.parse().ok()?;
    // The kernel's own facility is 0, which it lets nobody else use.
    (priority >> 3 == 0).then_some((priority & 7, microseconds.saturating_mul(1000), text))
}

/// Returns the names that drivers give the disk: its own, its controller's, its address or its
/// port.
fn aliases(name: &str, directory: &Path) -> Vec<String> {
    let mut aliases = vec![name.to_owned()];
    let device = directory.join("device").canonicalize().ok();
    for part in device.iter().flat_map(|path| path.iter()).filter_map(|part| part.to_str()) {
        let number = |prefix: &str| {
            part.strip_prefix(prefix).is_some_and(|digits| digits.parse::<u32>().is_ok())
        };
        let is_address =
            part.split(':').count() == 4 && part.split(':').all(|part| part.parse::<u32>().is_ok());
        if number("ata") || number("nvme") || number("virtio") || is_address {
            aliases.push(part.to_owned());
        }
    }
    aliases
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(aliases: &[&str], records: &[&str]) -> Vec<(String, String)> {
        let mut device = Device::default();
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let mut disks = [(aliases, &mut device)];
        records.iter().for_each(|record| note(record, &mut disks));
        device
            .kernel_messages
            .into_iter()
            .map(|kernel_message| (kernel_message.kind, kernel_message.text))
            .collect()
    }

    #[test]
    fn messages_belong_to_the_device_that_they_name() {
        let found = noted(
            &["nvme0n1", "nvme0"],
            &[
                "4,812,5000123,-;nvme nvme0: I/O 12 QID 3 timeout, aborting\n SUBSYSTEM=nvme\n",
                "4,813,5000124,-;nvme nvme0: I/O 12 QID 3 timeout, reset controller\n",
                "3,814,5000125,-;I/O error, dev nvme0n1, sector 8 op 0x0:(READ)\n",
                "4,815,5000126,-;nvme nvme10: I/O 1 QID 1 timeout, aborting\n",
                "6,816,5000127,-;nvme nvme0: 2/0/0 default/read/poll queues\n",
                "12,817,5000128,-;nvme nvme0: reset, as a program says\n",
                "nonsense",
            ],
        );
        let kinds: Vec<&str> = found.iter().map(|message| message.0.as_str()).collect();
        assert_eq!(kinds, ["timeout", "reset", "error"]);
        assert!(found[2].1.ends_with("(READ)"));
    }

    #[test]
    fn disks_of_scsi_and_sata_have_addresses() {
        let records = [
            "4,1,1,-;sd 2:0:0:0: [sda] tag#3 timing out command, waited 30s\n",
            "4,2,1,-;ata3.00: exception Emask 0x0 SAct 0x0\n",
            "6,3,1,-;ata3: hard resetting link\n",
            "4,4,1,-;ata31.00: exception Emask 0x0\n",
            "4,5,1,-;sd 12:0:0:0: [sdb] tag#3 timing out command\n",
        ];
        let kinds: Vec<String> = noted(&["sda", "2:0:0:0", "ata3"], &records)
            .into_iter()
            .map(|message| message.0)
            .collect();
        assert_eq!(kinds, ["timeout", "error", "reset"]);
    }

    #[test]
    fn floods_and_long_lines_are_bounded() {
        let long = format!("3,1,1,-;sda: error {}\n", "ä".repeat(5000));
        let records = vec![long.as_str(); 100];
        let found = noted(&["sda"], &records);
        assert_eq!(found.len(), MOST_MESSAGES);
        assert!(found.iter().all(|message| message.1.chars().count() == KernelMessage::MOST_TEXT));
    }

    #[test]
    fn a_disk_is_named_by_what_it_hangs_on() {
        let directory = tempfile::tempdir().unwrap();
        let device = directory.path().join("ata3/host2/target2:0:0/2:0:0:0");
        std::fs::create_dir_all(&device).unwrap();
        let disk = directory.path().join("sda");
        std::fs::create_dir(&disk).unwrap();
        std::os::unix::fs::symlink(device, disk.join("device")).unwrap();
        assert_eq!(aliases("sda", &disk), ["sda", "ata3", "2:0:0:0"]);
        assert_eq!(aliases("dm-0", directory.path()), ["dm-0"]);
    }
}

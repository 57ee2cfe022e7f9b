//! The tool that wrote a file, by its first bytes.
//!
//! What does not belong here: reading the rest (see [`crate::text`], [`crate::json`]).

use crate::archive;
use crate::fio_log::is_log;
use crate::lines::without_escapes;
use crate::text::TableHeader;
use crate::unpack::head_unpacked;
pub use crate::unpack::is_packed;

/// Bytes that [`detect`] reads.
pub const HEAD: usize = 64 << 10;

macro_rules! kinds {
    ($( $(#[doc = $doc:literal])+ $kind:ident = $word:literal ),+ $(,)?) => {
        /// A kind of source.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum ForeignKind { $( $(#[doc = $doc])+ $kind ),+ }

        impl ForeignKind {
            /// Every kind.
            pub const ALL: &'static [ForeignKind] = &[$( ForeignKind::$kind ),+];

            /// The name on the command line.
            pub const fn word(self) -> &'static str {
                match self { $( ForeignKind::$kind => $word ),+ }
            }
        }
    };
}

kinds! {
    /// `iostat`, with or without `-x`.
    Iostat = "iostat",
    /// `sar -d`, `-b`, `-B`, `-q`, `-r`, `-S`, `-u` and `-W`.
    Sar = "sar",
    /// `iostat -o JSON` and `sadf -j`.
    SysstatJson = "sysstat-json",
    /// Copies of `/proc/diskstats`.
    Diskstats = "diskstats",
    /// `vmstat`.
    Vmstat = "vmstat",
    /// `pidstat -d`.
    Pidstat = "pidstat",
    /// `biosnoop` and `iosnoop`: a line for each request.
    Biosnoop = "biosnoop",
    /// fio's JSON.
    Fio = "fio",
    /// fio's `--write_lat_log`: a line for each request.
    FioLatLog = "fio-lat-log",
    /// fio's `--write_bw_log`: sizes of requests, or bytes per second.
    FioBwLog = "fio-bw-log",
    /// fio's `--write_iops_log`: sizes of requests, or requests per second.
    FioIopsLog = "fio-iops-log",
    /// `smartctl -a`, with `--json` or without.
    Smartctl = "smartctl",
    /// `nvme smart-log`, as text or JSON.
    NvmeSmartLog = "nvme-smart-log",
    /// `atop -P`, or its JSON (`atop -J`).
    Atop = "atop",
    /// PCP's archives as JSON, by `pcp2json`.
    Pcp = "pcp",
    /// PCP's metrics by `pmrep`, as a table or `-o csv`.
    Pmrep = "pmrep",
    /// node_exporter's metrics as Prometheus' text.
    Prometheus = "prometheus",
    /// `/proc/mdstat`.
    Mdstat = "mdstat",
    /// `iotop -b`.
    Iotop = "iotop",
    /// BCC's `biotop`: requests by process and disk.
    Biotop = "biotop",
    /// The line of `top` about CPUs.
    Top = "top",
    /// BCC's `biolatency` and perf-tools' `iolatency`: a histogram.
    Biolatency = "biolatency",
    /// The kernel's log: dmesg, journalctl -k, syslog.
    Dmesg = "dmesg",
    /// A sosreport or supportconfig: a tar archive, compressed or not.
    Sosreport = "sosreport",
}

impl ForeignKind {
    /// The kind with this name.
    pub fn from_word(word: &str) -> Option<ForeignKind> {
        ForeignKind::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    /// Whether it is lines of text, which may be mixed in one file.
    pub const fn is_text(self) -> bool {
        use ForeignKind::{Fio, Pcp, Sosreport, SysstatJson};
        !matches!(self, SysstatJson | Fio | Sosreport | Pcp) && !is_log(self)
    }
}

/// Returns the kind of a file that begins with `head`; `None` if it is none of them, or single
/// block events.
pub fn detect(head: &[u8]) -> Option<ForeignKind> {
    let head = head.get(..HEAD).unwrap_or(head);
    if is_packed(head) {
        let plain = head_unpacked(head, HEAD);
        // A file may unpack to itself.
        let is_archive = plain.is_empty() || is_packed(&plain);
        return if is_archive { Some(ForeignKind::Sosreport) } else { detect(&plain) };
    }
    if is_tar(head) {
        return Some(ForeignKind::Sosreport);
    }
    let plain = without_escapes(head);
    let text = String::from_utf8_lossy(&plain);
    if text.trim_start().starts_with('{') {
        return of_json(&text);
    }
    if text.lines().any(is_block_event) {
        return None;
    }
    text.lines().find_map(TableHeader::kind_of)
}

/// Whether a line is an event of ftrace or perf: `block_rq_issue: 8,0 …`. A tool's own page may
/// name tracepoints, too.
fn is_block_event(line: &str) -> bool {
    let name = ["block_rq_", "block_bio_"]
        .iter()
        .find_map(|prefix| line.split_once(prefix))
        .map(|parts| parts.1);
    let end = name.and_then(|rest| rest.split_once(": "));
    end.is_some_and(|(name, rest)| {
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            && rest.trim_start().starts_with(|character: char| character.is_ascii_digit())
    })
}

/// Whether bytes begin with the header of a tar archive.
fn is_tar(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar") || head.first_chunk().is_some_and(archive::is_header)
}

fn of_json(text: &str) -> Option<ForeignKind> {
    [
        ("\"sysstat\"", ForeignKind::SysstatJson),
        ("\"fio version\"", ForeignKind::Fio),
        ("\"smartctl\"", ForeignKind::Smartctl),
        ("\"@pcp\"", ForeignKind::Pcp),
        ("\"dmesg\":", ForeignKind::Dmesg),
        ("\"_TRANSPORT\"", ForeignKind::Dmesg),
        ("\"elapsed\":", ForeignKind::Atop),
        ("\"avail_spare\"", ForeignKind::NvmeSmartLog),
        ("\"percent_used\"", ForeignKind::NvmeSmartLog),
    ]
    .into_iter()
    .find(|(mark, _)| text.contains(mark))
    .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_by_content() {
        let sar =
            "22:40:28          DEV       tps     rkB/s     wkB/s   areq-sz    aqu-sz     await";
        let snoop = "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)";
        let rare = "procs -----------memory---------- ---swap-- -----io---- -system-- ------cpu---";
        for (head, kind) in [
            ("Device            r/s     rkB/s   r_await  %util\n", Some(ForeignKind::Iostat)),
            ("Device:         tps    kB_read/s    kB_wrtn/s\n", Some(ForeignKind::Iostat)),
            (sar, Some(ForeignKind::Sar)),
            (snoop, Some(ForeignKind::Biosnoop)),
            (rare, Some(ForeignKind::Vmstat)),
            ("   8       0 sda 1 2 3 4 5 6 7 8 9 10 11\n", Some(ForeignKind::Diskstats)),
            ("{\"fio version\" : \"fio-3.33\"}", Some(ForeignKind::Fio)),
            ("[    1.5] sd 2:0:0:0: [sda] Attached SCSI disk\n", Some(ForeignKind::Dmesg)),
            (
                "Smart Log for NVME device:nvme0n1 namespace-id:ff\n",
                Some(ForeignKind::NvmeSmartLog),
            ),
            ("  8,0    3        1     0.000000000   697  G   W 223490 + 8 [kjournald]\n", None),
            ("a-1 [000] d..1. 9.1: block_rq_issue: 8,0 W 4096 () 8 + 8 [a]\n", None),
            ("hello\nworld\n", None),
        ] {
            assert_eq!(detect(head.as_bytes()), kind, "{head}");
        }
        assert_eq!(detect(b"\xfd7zXZ\0\0\0"), Some(ForeignKind::Sosreport));
        for kind in ForeignKind::ALL {
            assert_eq!(ForeignKind::from_word(kind.word()), Some(*kind));
        }
    }
}

//! fio's logs, by their text and by fio itself.

use crate::exported::{exported, overlapping};
use iowhy_blktrace::iolog::{Iolog, Version};
use iowhy_model::script::Script;
use iowhy_model::{Operation, Status};
use std::process::Command;

fn text(script: &Script, version: Version) -> (String, iowhy_analysis::formats::export::Exported) {
    let (bytes, exported) = exported(script, &mut Iolog::new(version));
    (String::from_utf8(bytes).unwrap(), exported)
}

fn small() -> Script {
    let mut script = Script::new(1);
    script.write("sdb", 8192).sector(16).at(2_500_000).bio(10).add();
    script.read("sda", 4096).sector(8).at(0).bio(5_000_000).add();
    script.request("sda", Operation::Flush).sector(u64::MAX).at(2_500_900).bio(1).add();
    script.request("sda", Operation::Discard).bytes(65536).at(3_000_000).bio(1).add();
    script.request("sda", Operation::Zone).bytes(512).at(4_000_000).bio(1).add();
    script.read("s d", 512).at(5_000_000).bio(1).add();
    script.read("sda", 0).at(5_000_000).bio(1).add();
    script.read("sda", 1 << 40).at(5_000_000).bio(1).add();
    script.read("sda", 512).at(5_000_000).status(Status::InFlight).parent(1).add();
    script
}

#[test]
fn version_3_has_microseconds_from_1_in_order_of_time() {
    let (text, exported) = text(&small(), Version::Three);
    let expected = "fio version 3 iolog\n1 /dev/sda add\n1 /dev/sda open\n\
        1 /dev/sda read 4096 4096\n1 /dev/sdb add\n1 /dev/sdb open\n\
        2501 /dev/sdb write 8192 8192\n2501 /dev/sda sync 0 0\n3001 /dev/sda trim 0 65536\n\
        5001 /dev/sda read 0 512\n5001 /dev/sda close\n5001 /dev/sdb close\n";
    assert_eq!(text, expected);
    let left: Vec<(&str, u64)> =
        exported.left_out.items.iter().map(|loss| (loss.place.as_str(), loss.count)).collect();
    assert_eq!(left, [("operation", 1), ("empty", 1), ("range", 1), ("device", 1)]);
    assert_eq!((exported.rows, exported.notes.len()), (5, 1));
}

#[test]
fn version_2_waits_by_milliseconds_since_the_start() {
    let (text, _) = text(&small(), Version::Two);
    let expected = "fio version 2 iolog\n/dev/sda add\n/dev/sda open\n/dev/sda read 4096 4096\n\
        /dev/sdb add\n/dev/sdb open\n/dev/sdb wait 2 0\n/dev/sdb write 8192 8192\n\
        /dev/sda sync 0 0\n/dev/sda wait 3 0\n/dev/sda trim 0 65536\n/dev/sda wait 5 0\n\
        /dev/sda read 0 512\n/dev/sda close\n/dev/sdb close\n";
    assert_eq!(text, expected);
}

#[test]
fn fio_replays_both_versions() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("skipped: no fio");
        return;
    }
    let file = tempfile::Builder::new().prefix("iowhy-").tempfile_in("/dev/shm").unwrap();
    file.as_file().set_len(1 << 20).unwrap();
    let device = file.path().strip_prefix("/dev").unwrap().to_str().unwrap();
    let script = overlapping(device);
    for version in [Version::Two, Version::Three] {
        let (text, exported) = text(&script, version);
        assert_eq!(exported.rows, 201);
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), text).unwrap();
        let output = Command::new("fio")
            .args(["--name=replay", "--ioengine=psync", "--output-format=json"])
            .arg(format!("--read_iolog={}", log.path().display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let answer = String::from_utf8(output.stdout).unwrap();
        let json: serde_json::Value =
            serde_json::from_str(&answer[answer.find('{').unwrap()..]).unwrap();
        let job = &json["jobs"][0];
        let number = |side: &str, figure: &str| job[side][figure].as_u64().unwrap();
        assert_eq!(number("read", "total_ios"), 133, "{version:?}");
        assert_eq!(number("write", "total_ios"), 67);
        assert_eq!(number("read", "io_bytes"), 133 * 4096);
        assert_eq!(number("write", "io_bytes"), 67 * 4096);
    }
}

//! Tests of redaction: no name of the original is left, and equal names stay equal.

use super::{KEY_BYTES, NameKind, RedactedRows, Redactor, shifted};
use iowhy_model::environment::Mount;
use iowhy_model::script::Script;
use iowhy_model::{Environment, Filter, Names};

fn redactor() -> Redactor {
    Redactor::new([7; KEY_BYTES])
}

#[test]
fn unknown_words_are_replaced_and_known_ones_stay() {
    let redacted = redactor();
    for kept in [
        "/var/lib/postgresql/15/main/pg_wal/0000",
        "/var/log/journal",
        "/",
        "",
        "/dev/sda1",
        "ext4",
        "system.slice/docker.service",
        "/tmp/N.log",
        "pod:default/db-0/postgres",
    ] {
        assert_eq!(redacted.words(kept), kept);
    }
    let path = redacted.words("/srv/acme/Müller_orders-2024.db");
    let parts: Vec<&str> = path.split(['/', '_', '-', '.']).collect();
    let ["", "srv", acme, name, orders, number, "db"] = parts[..] else { panic!("{path}") };
    for placeholder in [acme, name, orders] {
        assert!(super::is_placeholder(placeholder), "{path}");
    }
    assert!(number.len() == 4 && number != "2024" && number.parse::<u32>().is_ok(), "{path}");
    assert_eq!(redacted.words("/home/acme"), format!("/home/{acme}"), "the same word");
    assert_eq!(redacted.words(&format!("/srv/{acme}")), format!("/srv/{acme}"), "shown again");
    let other = Redactor::new([8; KEY_BYTES]);
    assert_ne!(other.words("/home/acme"), redacted.words("/home/acme"), "another key");
}

#[test]
fn different_numbers_stay_different_and_alike() {
    let redacted = redactor();
    let number = |text: &str| redacted.words(text);
    let all: std::collections::BTreeSet<String> =
        (0..10_000).map(|index| number(&format!("{index:05}"))).collect();
    assert_eq!(all.len(), 10_000);
    assert!(all.iter().all(|text| text.len() == 5 && text.bytes().all(|b| b.is_ascii_digit())));
    assert!(number("000123").starts_with("000") && !number("000123").starts_with("0000"));
    let hex = number("3f2a9c77");
    assert!(
        hex.len() == 8 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()) && hex != "3f2a9c77"
    );
    assert_eq!(number("12"), "12");
    let pattern = iowhy_model::path_patterns::without_numbers;
    for name in ["/a/b/zorro4711.txt", "/a/3f2a9c-77/beef", "/q/x86_64/d17"] {
        let shape = |text: &str| pattern(text).matches('N').count();
        assert_eq!(shape(&number(name)), shape(name), "{name}: {}", number(name));
    }
}

#[test]
fn processes_of_products_and_the_kernel_stay() {
    let redacted = redactor();
    for kept in [
        "postgres",
        "ib_pg_flush_co",
        "VM Thread",
        "GC Thread#0",
        "kworker/u8:2-flush-7:0",
        "jbd2/sda1-8",
        "md0_resync",
        "xfsaild/sdb1",
        "iowhy",
        "fio",
        "mdX_resync",
        "data-plane-kafk",
        "redis-server",
    ] {
        assert_eq!(redacted.process(kept), kept);
    }
    for replaced in ["acmed", "kworker/acme", "billing-worker", "tikv-acme"] {
        assert_ne!(redacted.process(replaced), replaced);
        assert!(!redacted.process(replaced).contains("acme"), "{replaced}");
    }
    assert!(redacted.name(NameKind::User, "root") == "root");
    assert!(redacted.name(NameKind::User, "alice").starts_with("user-"));
    assert!(redacted.name(NameKind::Arguments, "x --token=s3cret").starts_with("arguments-"));
    assert_eq!(redacted.name(NameKind::Function, "fdatasync"), "fdatasync");
    assert!(!redacted.name(NameKind::Function, "com.acme.Billing.run").contains("acme"));
    let reason =
        redacted.name(NameKind::Reason, "before; open for writing by acmed (4711), cat (8)");
    assert!(reason.starts_with("before; open for writing by "), "{reason}");
    assert!(reason.ends_with(" (4711), cat (8)") && !reason.contains("acmed"), "{reason}");
}

#[test]
fn the_environment_has_no_names() {
    let environment = Environment {
        host: "db7.acme.example".to_owned(),
        filter: "--device sda --process acmed --process 4711 --file /srv/acme".to_owned(),
        limits: vec!["capture: /srv/acme/x.blktrace.0 is cut".to_owned()],
        mounts: vec![Mount {
            path: "/srv/acme".to_owned(),
            source: "/dev/mapper/acme-data".to_owned(),
            options: "rw,relatime,lowerdir=/srv/acme/l".to_owned(),
            server: Some("acmefs (4711)".to_owned()),
            ..Mount::default()
        }]
        .into(),
        ..Environment::default()
    };
    let redacted = redactor().environment(&environment);
    let text = serde_json::to_string(&redacted).unwrap();
    assert!(!text.contains("acme"), "{text}");
    assert!(redacted.redacted && redacted.host.starts_with("host-"));
    assert!(redacted.filter.starts_with("--device sda --process "), "{}", redacted.filter);
    assert!(redacted.filter.contains("--process 4711 --file /srv/"), "{}", redacted.filter);
    assert!(redacted.mounts[0].options.starts_with("rw,relatime,lowerdir=/srv/"));
    assert_eq!(redactor().environment(&redacted), redacted, "once is enough");
}

#[test]
fn names_of_captures_and_of_fuse_programs_are_names() {
    let mut script = Script::new(10);
    script.device("acme payroll", &[]).below = vec!["sda".to_owned()];
    script.device("dm-123", &[]).partition_of = Some("acme payroll".to_owned());
    let limits = [
        "acme payroll.blktrace.0: the last record is cut off: 13 bytes left over",
        "acme: the last record is cut off",
        "/srv/acme/my acme.txt: 3 lines are no event and were skipped",
        "acme payroll never logged a completion, and acme.log did",
        "its I/O was thinned to 12.5 %: io.max of version 2, see 123.4 s",
    ];
    script.environment.limits.extend(limits.map(str::to_owned));
    for kind in ["fuse.acmefs", "fuse.sshfs", "ext4"] {
        script.mount("/srv", kind, "none");
    }
    script.environment.filter = "--device acme".to_owned();
    script.read("acme payroll", 4096).by(7, "cat").direct(300, 500, 80_000).add();
    let redacted = redactor().environment(&script.environment);
    let text = serde_json::to_string(&redacted).unwrap();
    assert!(!text.contains("acme") && !text.contains("payroll"), "{text}");
    assert_eq!(
        (redacted.devices[1].name.as_str(), &redacted.devices[0].below[0][..]),
        ("dm-123", "sda")
    );
    assert_eq!(redacted.limits[4], limits[4]);
    assert!(redacted.limits[0].ends_with(": the last record is cut off: 13 bytes left over"));
    assert_eq!(redacted.mounts[2].kind, "ext4");
    assert!(redacted.mounts[0].kind.starts_with("fuse."));
    // Rows name the device as the environment does.
    let mut names = Names::new();
    let mut batch = script.batch.clone();
    RedactedRows::new(redactor()).batch(&mut batch, &script.names, &mut names);
    assert_eq!(names.get(batch.requests[0].device), redacted.devices[0].name);
}

#[test]
fn the_kernels_names_of_devices_stay() {
    for kept in [
        "sda",
        "sdaa12",
        "nvme0n1p2",
        "nvme0c1n1",
        "dm-123",
        "md127",
        "md_d0",
        "8:0",
        "253:1048575",
        "loop1000",
        "mmcblk0boot0",
        "cciss!c0d0p1",
        "dasda1",
        "xvdf",
        "nbd100",
        "zd1024",
        "ublkb300",
    ] {
        assert_eq!(redactor().device_name(kept), kept);
    }
    for replaced in ["acme", "acme-sda", "md_acme", "sdacme"] {
        assert_ne!(redactor().device_name(replaced), replaced);
    }
}

#[test]
fn a_filter_keeps_the_same_rows() {
    let mut script = Script::new(10);
    script.read("sda", 4096).by(7, "acmed").file("/srv/acme/a.db").direct(300, 500, 80_000).add();
    script.read("sda", 4096).by(8, "other").file("/srv/other/b.db").direct(300, 500, 80_000).add();
    for filter in [
        Filter { processes: vec!["acmed".to_owned()], ..Filter::default() },
        Filter { processes: vec!["7".to_owned()], ..Filter::default() },
        Filter { files: vec!["/srv/acme".to_owned()], ..Filter::default() },
    ] {
        let mut names = Names::new();
        let mut batch = script.source(usize::MAX).batches.remove(1).unwrap();
        RedactedRows::new(redactor()).batch(&mut batch, &script.names, &mut names);
        batch.retain(&redactor().filter(&filter), &names, 0);
        assert_eq!(batch.requests.len(), 1, "{filter}");
        assert_eq!(batch.requests[0].pid, Some(7));
    }
}

#[test]
fn keys_differ_by_machine_and_recording() {
    let key = Redactor::derive_key(b"machine", b"one");
    assert_eq!(key, Redactor::derive_key(b"machine", b"one"));
    assert_ne!(key, Redactor::derive_key(b"machine", b"two"));
    assert_ne!(key, Redactor::derive_key(b"other", b"one"));
    assert_ne!(Redactor::derive_key(b"ab", b"c"), Redactor::derive_key(b"a", b"bc"));
}

#[test]
fn digits_depend_on_all_before_them_and_long_numbers_take_no_longer_for_each() {
    let redactor = Redactor::new([7; KEY_BYTES]);
    let number = "17ab03";
    let mut expected = String::new();
    for (at, digit) in number.char_indices() {
        let by = redactor.hash("digits", &number[..at])[0];
        expected.push(match digit {
            '0'..='9' if at == 0 => shifted(digit, '1', 9, by),
            '0'..='9' => shifted(digit, '0', 10, by),
            _ => shifted(digit, 'a', 6, by),
        });
    }
    assert_eq!(redactor.words(number), expected);
    // With a hash of all digits for each it would take an hour.
    let long = "0123456789abcdef".repeat(1 << 13);
    assert_eq!(redactor.words(&long).len(), long.len());
}

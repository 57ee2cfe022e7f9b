//! Input that is damaged, foreign or made to hurt: an answer or a reason, never a panic.

use super::*;

#[test]
fn what_is_of_no_tool_is_refused() {
    for bytes in [&b""[..], b"hello\n", b"\0\x01\x02", b"{\"a\": 1}", b"{\"fio version\": 1}"] {
        assert!(ReadFile::new(bytes).is_err(), "{bytes:?}");
    }
    assert!(ReadFile::new(b"{\"sysstat\": {\"hosts\": []}}").is_err());
}

#[test]
fn strange_figures_do_no_harm() {
    let header = "Device            r/s     rkB/s  r_await   w/s  wkB/s  w_await  aqu-sz  %util\n";
    for row in
        ["sda nan inf 1 1 1 1 1 1", "sda -5 -5 -5 -5 -5 -5 -5 -5", "sda 1e300 1 1 1 1 1 1 1e9"]
    {
        let read = ReadFile::text(&format!("{header}{row}\n"));
        let device = read.summary.devices.first();
        assert!(
            device.is_none_or(|device| device.util_share.is_none_or(|share| share <= 1.0)),
            "{row}"
        );
    }
}

#[test]
fn long_lines_and_many_devices_are_bounded() {
    let header = "Device r/s rkB/s r_await aqu-sz %util\n";
    let mut text = String::from(header);
    for device in 0..3000 {
        text.push_str(&format!("sd{device} 1 1 1 1 1\n"));
    }
    let read = ReadFile::text(&text);
    assert!(read.summary.environment.devices.len() <= 1024);
    assert!(read.summary.losses.items.iter().any(|item| item.place == "subjects"));
    let long = format!("{header}{}\nsda 1 1 1 1 1\n", "x ".repeat(5 << 20));
    assert_eq!(ReadFile::text(&long).summary.environment.devices.len(), 1);
}

#[test]
fn every_cut_of_a_text_ends() {
    let text = "Linux 6.1.0 (a) 11/25/26 _x86_64_ (8 CPU)\n22:40:28 DEV tps rkB/s wkB/s %util\n\
                22:40:29 sda 1.0 2.0 3.0 4.0\n";
    for length in 0..text.len() {
        let _ = ReadFile::new(&text.as_bytes()[..length]);
    }
}

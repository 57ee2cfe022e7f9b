//! `iowhy --html`: the page of a live watch. Pages of recordings are tested in `crates/app`, the
//! drawing of a page in `crates/views/web`.

use crate::support::{NO_PERMISSION, finish, iowhy, printed, refused, trial};
use iowhy_labs::devices::{Backing, BlockDevice, LoopDevice};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{LabError, Result, machine};
use libtest_mimic::Trial;
use std::fs;
use std::process::{Command, Stdio};

pub fn tests() -> Vec<Trial> {
    vec![trial("pages::a_live_watch_has_a_page", a_live_watch_has_a_page)]
}

/// Reads 500 blocks past the page cache, again and again until the watch ends.
const READS: &str = "while :; do dd if=$1 of=/dev/null bs=4k count=500 iflag=direct; done";

fn a_live_watch_has_a_page() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let device = LoopDevice::new(&scratch, Backing::Tmpfs, 64 << 20)?;
    let page = scratch.fresh("page").with_extension("html");
    let mut load = Command::new("sh");
    load.args(["-c", READS, "sh"]).arg(device.path());
    load.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    scratch.mark(&mut load);
    let mut load = load.spawn().context(|| "start dd".to_owned())?;
    let mut watch = iowhy(["--time", "2", "--device", device.name(), "--html"])?;
    watch.arg(&page);
    let output = finish(watch);
    iowhy_labs::process::end(&mut load);
    let output = output?;
    let text = printed(&output);
    if text.contains("built without the page's script") {
        return Err(LabError::missing("the page's script", "scripts/web build"));
    }
    if output.status.code() == Some(NO_PERMISSION) {
        return Err(LabError::missing("BPF", text));
    }
    assert!(output.status.success() && text.contains("wrote "), "{text}");
    let html = fs::read_to_string(&page).context(|| format!("read {}", page.display()))?;
    assert!(html.starts_with("<!DOCTYPE html>") && html.contains(device.name()), "{text}");
    assert!(!html.contains("all 0 requests"), "it shows the reads");
    // The same command again: the file exists now, and stays.
    let mut again = iowhy(["--time", "1", "--html"])?;
    again.arg(&page);
    let (_, text) = refused(again)?;
    assert!(text.contains("name another file"), "{text}");
    Ok(())
}

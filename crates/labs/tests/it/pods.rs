//! A pod's cgroup and the files that a kubelet makes for it: rows, filters and the page name the
//! pod. The files are in a mount namespace of the test's own.

use crate::recording::Recording;
use crate::support::{finish, iowhy, printed, trial_alone};
use iowhy_labs::error::Context;
use iowhy_labs::scratch::Scratch;
use iowhy_labs::{Result, command, machine};
use libtest_mimic::Trial;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const ID: &str = "4f5c0f7d6f0e9f8a7b6c5d4e3f2a1b0c9d8e7f6a5b4c3d2e1f0a9b8c7d6e5f4a";
const UID: &str = "2b698bd8-b22c-4173-bf9d-900c652aab26";

pub fn tests() -> Vec<Trial> {
    // Alone: other tests have programs called dd.
    vec![trial_alone("pods::rows_filters_and_page", rows_filters_and_page)]
}

/// The cgroup of a pod's container, removed with those above that are empty.
struct PodCgroup(PathBuf);

impl PodCgroup {
    fn new() -> Result<PodCgroup> {
        let root = machine::cgroup_v1_root("blkio").or_else(machine::cgroup_v2_root);
        let root = root.unwrap_or_else(|| PathBuf::from("/sys/fs/cgroup"));
        let path = root.join(format!("kubepods/burstable/pod{UID}/{ID}"));
        std::fs::create_dir_all(&path).context(|| format!("make {}", path.display()))?;
        Ok(PodCgroup(path))
    }
}

impl Drop for PodCgroup {
    fn drop(&mut self) {
        // Only empty ones are removed: the container, the pod, burstable, kubepods.
        for path in self.0.ancestors().take(4) {
            let _in_use = std::fs::remove_dir(path);
        }
    }
}

/// Records `load` in the pod's cgroup, where the node's files describe the pod.
fn recorded(pod: &PodCgroup, output: &Path, load: &str) -> Result<Output> {
    let logs = format!("/var/log/pods/shop_db-0_{UID}/postgres");
    let script = format!(
        "mount -t tmpfs iowhy-labs /var/log || exit 1
         mkdir -p {logs} /var/log/containers || exit 1
         ln -s {logs}/0.log /var/log/containers/db-0_shop_postgres-{ID}.log || exit 1
         exec \"$@\""
    );
    let inside = format!("echo $$ > {}/cgroup.procs; {load}", pod.0.display());
    let output = output.to_string_lossy();
    let own = iowhy(["record", "-o", &output, "--", "/bin/sh", "-c", &inside])?;
    let mut unshare = Command::new(command::find("unshare")?);
    unshare.args(["--mount", "--propagation", "private", "/bin/sh", "-c", &script, "sh"]);
    unshare.arg(own.get_program()).args(own.get_args());
    finish(unshare)
}

fn rows_filters_and_page() -> Result<()> {
    machine::need_bpf()?;
    let scratch = Scratch::new()?;
    let pod = PodCgroup::new()?;
    let output = scratch.fresh("recording");
    let data = scratch.path().join("pod-data");
    let load = format!(
        "dd if=/dev/zero of={} bs=4k count=300 oflag=dsync conv=notrunc 2>/dev/null",
        data.display()
    );
    let result = recorded(&pod, &output, &load)?;
    assert!(result.status.success(), "{}", printed(&result));
    let recording = Recording::open(&output)?;
    let text = |name| recording.text(name).to_owned();
    let own: Vec<_> =
        recording.requests.iter().filter(|request| text(request.process) == "dd").collect();
    assert!(own.len() >= 300, "{} requests of dd", own.len());
    for row in own {
        let names = [row.container, row.pod, row.namespace, row.container_name].map(text);
        assert_eq!(names, ["pod:shop/db-0/postgres", "db-0", "shop", "postgres"]);
    }
    let path = output.to_string_lossy();
    // Other tests may take more of the page than this pod.
    let page = printed(&finish(iowhy(["report", "--pod=db-0", &path])?)?);
    assert!(page.contains("pod:shop/db-0/postgres"), "{page}");
    for (filter, is_kept) in [
        ("--pod=db-0", true),
        ("--pod=shop/db-0", true),
        ("--namespace=shop", true),
        ("--pod=other", false),
        ("--namespace=test", false),
        ("--unit=kubepods", true),
        ("--unit=cron.service", false),
    ] {
        let shown = finish(iowhy(["report", "--json", filter, &path])?)?;
        let shown: Value = serde_json::from_slice(&shown.stdout).expect("one object");
        let rows = shown["processes"]["rows"].as_array().expect("a table of processes");
        let is_shown = rows.iter().any(|row| row["process"] == "dd");
        assert_eq!(is_shown, is_kept, "{filter}: {rows:?}");
    }
    Ok(())
}

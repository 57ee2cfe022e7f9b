//! The package on a machine of its own: installed, its service started by systemd, a disk that
//! hangs, a power cut, and the incident after it, under another kernel. Only if `IOWHY_DEB` names a
//! package (`make test-recorder-guest`).

use crate::support::words;
use iowhy_labs::Result;
use iowhy_labs::error::Context;
use iowhy_labs::vm::{Guest, GuestDisk, GuestOutcome, Kernel, RunningGuest, system};
use libtest_mimic::Trial;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The time that the disk works before it hangs: emulated, five minutes would add only time.
const CALM: Duration = Duration::from_secs(65);
const HANG: Duration = Duration::from_secs(20);
/// The time that one start of the guest may take.
const PATIENCE: Duration = Duration::from_secs(600);

const FUNCTIONS: &str = r#"
INCIDENTS=/var/lib/iowhy/incidents
state() { systemctl show iowhy.service --property "$1" --value; }
is() { [ "$(state "$1")" = "$2" ] || { echo "$1 is $(state "$1"), not $2"; journal; exit 1; }; }
journal() { journalctl --no-pager --unit iowhy.service | tail -n 30; }
# What the load alone, emulated, may have begun is another incident.
of_hang() {
  grep --no-messages --files-with-matches '"kind": *"in-flight"' $INCIDENTS/*/incident.json |
    tail -n 1
}
is_known() { [ -n "$(of_hang)" ]; }
await() {
  local end=$((SECONDS + 200))
  until "$@"; do
    if [ $SECONDS -gt $end ]; then
      echo "never: $*"
      journal
      systemctl --no-pager status iowhy.service
      iowhy incidents
      exit 1
    fi
    sleep 1
  done
}
"#;

/// The first start: the package, its service, a program that writes.
const INSTALLED: &str = r#"
set -e
dpkg --install /run/guest/iowhy.deb
is ActiveState active
is Type notify
is UnitFileState enabled
# A minute after a hang is long in a test.
sed -i 's/^#after = .*/after = "15s"/' /etc/iowhy/iowhy.toml
iowhy daemon --check-config
systemctl restart iowhy.service
is ActiveState active
mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/disk/work
mkdir /srv/shop
mount /dev/disk/work /srv/shop
perl -MIO::Handle -e 'open F, ">>", "/srv/shop/orders.journal" or die;
  for (;;) { syswrite F, "x" x 4096; F->sync; select undef, undef, undef, 0.02 }' &
echo "the load runs"
await is_known
echo "an incident is on disk"
# What the journal says is on disk.
is_said() { journalctl --quiet --unit iowhy.service IOWHY_EVENT=end | grep --quiet .; }
await grep --quiet '"complete": *true' "$(of_hang)"
await is_said
echo "the incident is complete"
sleep 600
"#;

/// The second start: the commands of a person.
const AFTERWARDS: &str = r#"
set -e
await systemctl is-active --quiet iowhy.service
is NRestarts 0
iowhy incidents | tee /out/list
directory=$(dirname "$(of_hang)")
number=$((10#$(basename "$directory")))
iowhy incidents show $number | tee /out/shown
cp -r "$directory" /out/incident
echo "copied"
stat --format '%A %U %G %n' /var/lib/iowhy $INCIDENTS "$directory" \
  "$directory"/incident.json >/out/modes
# Its status is that of every unit that it loads; remarks on this one are looked for. There is no
# man in this system.
systemd-analyze verify --man=no iowhy.service 2>/out/verified || cat /out/verified
systemd-analyze security --no-pager iowhy.service >/out/security
# What the README says of stopping it.
systemctl disable --now iowhy
is ActiveState inactive
is UnitFileState disabled
"#;

pub fn tests() -> Vec<Trial> {
    let Some(package) = std::env::var_os("IOWHY_DEB").map(PathBuf::from) else {
        return Vec::new();
    };
    vec![Trial::test("recorder_guest::a_hang_is_known_after_a_power_cut", move || {
        power_cut(&package).map_err(|error| error.to_string().into())
    })]
}

#[allow(clippy::print_stderr, reason = "a test's progress")]
fn say(begun: Instant, line: &str) {
    eprintln!("{:5.1} s: {line}", begun.elapsed().as_secs_f64());
}

fn power_cut(package: &Path) -> Result<()> {
    let begun = Instant::now();
    // An upgrade of the kernel needs a start, too.
    let [kernel, newer] = [
        Kernel::fetch("6.1", &mut |line| say(begun, line))?,
        Kernel::fetch("6.12", &mut |line| say(begun, line))?,
    ];
    let folder = tempfile::Builder::new()
        .prefix("iowhy-recorder-")
        .tempdir_in("/var/tmp")
        .context(|| "make a folder in /var/tmp".to_owned())?;
    let disk = system::fresh(folder.path())?;
    let machine = |kernel| Guest::new(kernel).system(disk.clone()).patience(PATIENCE);
    let first = machine(kernel).file("/guest/iowhy.deb", package).disk(GuestDisk::nbdkit(
        "work",
        256 << 20,
        &[],
        &[],
    ));
    let mut running = first.start(&format!("{FUNCTIONS}{INSTALLED}"))?;
    wait_for(&mut running, begun, "the load runs")?;
    std::thread::sleep(CALM);
    hang(&mut running, begun)?;
    wait_for(&mut running, begun, "the incident is complete")?;
    // Nothing is written back, nothing is closed.
    drop(running);
    say(begun, "the power is cut");
    let outcome = machine(newer).run_saying(&format!("{FUNCTIONS}{AFTERWARDS}"), &mut |line| {
        say(begun, line);
    })?;
    assert_eq!(outcome.status, 0, "the guest's command failed:\n{}", outcome.said);
    expect_named(&outcome)?;
    expect_unit(&outcome)
}

/// Waits for a line of the guest, and reports each line as it comes.
fn wait_for(running: &mut RunningGuest, begun: Instant, text: &str) -> Result<()> {
    running.wait_saying(text, &mut |line| say(begun, line))
}

/// The incident is on disk before the hang is over.
fn hang(running: &mut RunningGuest, begun: Instant) -> Result<()> {
    let early = running.heard();
    assert!(!early.contains("an incident"), "a hang before anything hangs:\n{early}");
    running.hang("work")?;
    say(begun, "the disk hangs");
    let since = Instant::now();
    wait_for(running, begun, "an incident is on disk")?;
    let waited = since.elapsed();
    assert!(waited < HANG, "an incident only after {waited:?}");
    std::thread::sleep(HANG.saturating_sub(waited));
    running.resume("work")?;
    say(begun, "the disk answers again");
    Ok(())
}

fn read(outcome: &GuestOutcome, name: &str) -> Result<String> {
    let path = outcome.out().join(name);
    fs::read_to_string(&path).context(|| format!("read {}", path.display()))
}

/// Checks device, process and file, for people and for programs.
fn expect_named(outcome: &GuestOutcome) -> Result<()> {
    let incident: Value = serde_json::from_str(&read(outcome, "incident/incident.json")?)
        .context(|| "read incident.json".to_owned())?;
    let findings = incident["findings"].as_array().cloned().unwrap_or_default();
    let hung = findings.first().filter(|finding| finding["cause"] == "hung-io");
    let hung = hung.unwrap_or_else(|| panic!("hung-io is not the first: {incident:#}"));
    assert_eq!(incident["complete"], true, "{incident:#}");
    let device = hung["device"].as_str().unwrap_or_default();
    assert!(device.starts_with("vd"), "{hung:#}");
    assert_eq!(hung["process"], "perl", "{hung:#}");
    assert!(hung["file"].as_str().is_some_and(|hung| hung.ends_with("orders.journal")), "{hung:#}");
    let shown = words(&read(outcome, "shown")?);
    for name in [device, "perl", "/srv/shop/orders.journal"] {
        assert!(shown.contains(name), "no {name} in: {shown}");
    }
    assert!(outcome.out().join("incident/recording/recording.json").is_file());
    Ok(())
}

/// The exposure level of systemd 252 that the unit stays below; it has 3.2. The rest is needed by
/// the recorder: root without most capabilities, other processes' memory and files, the kernel's
/// log, loading BPF programs, a raised priority, and a loopback address for metrics.
const EXPOSURE: f64 = 3.3;

/// Checks that systemd accepts the unit without a remark, and that only root and the group can
/// read.
fn expect_unit(outcome: &GuestOutcome) -> Result<()> {
    let remarks = read(outcome, "verified")?;
    let remarks: Vec<&str> = remarks.lines().filter(|line| line.contains("iowhy")).collect();
    assert!(remarks.is_empty(), "{remarks:?}");
    for line in read(outcome, "modes")?.lines() {
        let is_private = line.split(' ').next().is_some_and(|mode| mode.ends_with("---"));
        assert!(is_private && line.contains(" root iowhy "), "{line}");
    }
    let security = read(outcome, "security")?;
    let exposure = security.lines().find(|line| line.contains("Overall exposure level"));
    let level =
        exposure.and_then(|line| line.split_whitespace().find_map(|word| word.parse().ok()));
    assert!(level.is_some_and(|level: f64| level < EXPOSURE), "{security}");
    Ok(())
}

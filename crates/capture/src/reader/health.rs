//! Asks devices for their health, all at once and without waiting: the answers are collected later.
//!
//! It has a process aside of its own, so that a drive that never answers costs neither stacks nor
//! settings. The process answers in order; when it is blocked on a device for too long, that device
//! is not asked again and another process asks the others.
//!
//! What does not belong here: what a device is asked (`crate::host::health`).

use super::aside::{Aside, Silence};
use super::question::{Lookup, Question};
use super::{NO_PROCESS, cpu_ns_of, health_command};
use crate::host::health::AskedDevice;
use iowhy_model::environment::Device;
use iowhy_model::health::DeviceHealth;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// The longest wait for one device while somebody waits. An NVMe controller answers within
/// milliseconds; one that wakes up from its deepest state may need 100 ms.
const MOST_OF_ONE: Duration = Duration::from_millis(400);
/// The longest wait for one device while nobody waits: the process has to start first, on a machine
/// that may be busy.
const MOST_AT_START: Duration = Duration::from_secs(2);
/// The longest wait for the answers of one end of a watch.
pub(crate) const MOST_OF_ALL: Duration = Duration::from_millis(700);
/// The longest wait for answers about the beginning that are not there when the watch ends.
pub(crate) const MOST_LATE: Duration = Duration::from_millis(300);
/// Devices asked at most: their questions fit into a pipe.
const MOST_DEVICES: usize = 64;
/// Abandoned processes, after which none is asked any more.
const MOST_GIVEN_UP: usize = 4;

/// The end of the watch that an answer is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedAt {
    /// The beginning.
    Start,
    /// The end.
    End,
    /// In between: the answer before becomes that of the beginning.
    Again,
}

/// Devices that are being asked.
#[derive(Debug)]
pub struct HealthAsker {
    command: fn() -> Command,
    aside: Option<Aside>,
    /// Devices that have not answered yet, in the order of the questions.
    pending: VecDeque<AskedDevice>,
    /// Time at which the first of them was asked.
    since: Instant,
    end: AskedAt,
    /// Names of devices that did not answer.
    mute: FxHashSet<String>,
    given_up: Vec<Child>,
    /// CPU time of abandoned processes, ns.
    cost_ns: u64,
    /// Devices beyond those that are asked at once.
    pub left_out: u64,
}

impl Default for HealthAsker {
    fn default() -> HealthAsker {
        HealthAsker::with(health_command)
    }
}

impl HealthAsker {
    fn with(command: fn() -> Command) -> HealthAsker {
        HealthAsker {
            command,
            aside: None,
            pending: VecDeque::new(),
            since: Instant::now(),
            end: AskedAt::Start,
            mute: FxHashSet::default(),
            given_up: Vec::new(),
            cost_ns: 0,
            left_out: 0,
        }
    }

    /// Asks every device of a kind that reports something. Who has not answered an earlier question
    /// is not asked again.
    pub fn ask(&mut self, devices: &[Device], end: AskedAt) {
        let mut asked: Vec<AskedDevice> =
            devices.iter().filter_map(AskedDevice::from_device).collect();
        self.left_out = asked.len().saturating_sub(MOST_DEVICES) as u64;
        asked.truncate(MOST_DEVICES);
        self.ask_all(asked, end);
    }

    fn ask_all(&mut self, mut asked: Vec<AskedDevice>, end: AskedAt) {
        self.end = end;
        asked.retain(|device| !self.mute.contains(&device.name));
        self.pending = asked.into();
        self.send();
    }

    /// Sends all pending questions.
    fn send(&mut self) {
        self.since = Instant::now();
        self.given_up.retain_mut(|given_up| given_up.try_wait().is_ok_and(|ended| ended.is_none()));
        if self.pending.is_empty() || self.given_up.len() >= MOST_GIVEN_UP {
            return self.pending.clear();
        }
        let questions = self.pending.iter().filter_map(|device| {
            let what = Lookup::Health { device: device.clone() };
            let line = serde_json::to_string(&Question { process: NO_PROCESS, what }).ok()?;
            Some(line + "\n")
        });
        let text: String = questions.collect();
        if self.aside.is_none() {
            self.aside = Aside::start((self.command)()).ok();
        }
        let sent = self.aside.as_mut().map(|aside| aside.send(&text));
        if !matches!(sent, Some(Ok(()))) {
            self.abandon();
            self.pending.clear();
        }
    }

    /// Whether every question has been answered or given up.
    pub fn is_idle(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes the answers so far; does not wait.
    pub fn collect(&mut self, devices: &mut [Device]) {
        while !self.pending.is_empty() {
            if !self.take(devices, Duration::ZERO) {
                return;
            }
        }
    }

    /// Waits for the answers, no longer than `most`.
    pub fn finish(&mut self, devices: &mut [Device], most: Duration) {
        let begun = Instant::now();
        while !self.pending.is_empty() {
            let left = most.saturating_sub(begun.elapsed());
            if left.is_zero() {
                break;
            }
            self.take(devices, left.min(MOST_OF_ONE));
        }
        let late = std::mem::take(&mut self.pending);
        if let Some(first) = late.front() {
            // A late answer would be taken for one to the next question.
            self.mute.insert(first.name.clone());
            self.abandon();
        }
        for late in late {
            let reason = format!("no answer within {} ms", most.as_millis());
            set(devices, &late.name, self.end, unanswered(&reason));
        }
    }

    /// Takes one answer, waiting for it for up to `most`; false if there is none yet.
    fn take(&mut self, devices: &mut [Device], most: Duration) -> bool {
        let Some(aside) = &mut self.aside else {
            self.pending.clear();
            return false;
        };
        let most_of_one = match self.end {
            AskedAt::Start | AskedAt::Again => MOST_AT_START,
            AskedAt::End => MOST_OF_ONE,
        };
        let answer = match aside.next_line(most) {
            Ok(None) if self.since.elapsed() < most_of_one => return false,
            Ok(None) | Err(Silence::Late) => {
                Err(format!("no answer within {} ms", most_of_one.as_millis()))
            }
            Ok(Some(line)) => serde_json::from_str::<DeviceHealth>(&line)
                .map_err(|_garbage| "an answer that cannot be read".to_owned()),
            Err(Silence::Gone) => Err("the process that asked it ended".to_owned()),
        };
        let Some(device) = self.pending.pop_front() else { return false };
        match answer {
            Ok(health) => {
                set(devices, &device.name, self.end, health);
                self.since = Instant::now();
            }
            Err(reason) => {
                set(devices, &device.name, self.end, unanswered(&reason));
                self.mute.insert(device.name);
                self.abandon();
                self.send();
            }
        }
        true
    }

    /// Leaves a process that is blocked; nothing waits for it.
    fn abandon(&mut self) {
        if let Some(aside) = self.aside.take() {
            self.cost_ns += cpu_ns_of(aside.pid());
            self.given_up.push(aside.give_up());
        }
    }

    /// CPU time of the processes, ns.
    pub fn cpu_ns(&self) -> u64 {
        self.cost_ns + self.aside.as_ref().map_or(0, |aside| cpu_ns_of(aside.pid()))
    }
}

impl Drop for HealthAsker {
    fn drop(&mut self) {
        match self.pending.is_empty() {
            true => self.aside.take().into_iter().for_each(Aside::end),
            // The process may be blocked.
            false => self.abandon(),
        }
    }
}

fn unanswered(reason: &str) -> DeviceHealth {
    DeviceHealth { unread: vec![format!("its health: {reason}")], ..DeviceHealth::default() }
}

fn set(devices: &mut [Device], name: &str, end: AskedAt, health: DeviceHealth) {
    let Some(device) = devices.iter_mut().find(|device| device.name == name) else { return };
    match end {
        AskedAt::Start => device.health_start = Some(health),
        AskedAt::End => device.health_end = Some(health),
        AskedAt::Again => {
            if let Some(before) = device.health_end.replace(health) {
                device.health_start = Some(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    fn devices() -> Vec<Device> {
        ["sda", "sdb", "sdc"]
            .map(|name| Device { name: name.to_owned(), ..Device::default() })
            .to_vec()
    }

    fn asked(devices: &[Device]) -> Vec<AskedDevice> {
        let one = |device: &Device| AskedDevice {
            name: device.name.clone(),
            directory: "/nosuch".into(),
            model: None,
        };
        devices.iter().map(one).collect()
    }

    #[test]
    fn a_mute_drive_costs_itself_alone() {
        let mut devices = devices();
        let mut asker = HealthAsker::with(|| {
            shell(
                r#"while read line; do case "$line" in *sdb*) exec sleep 30;; esac
                   echo '{"asked_ns":7}'; done"#,
            )
        });
        let begun = Instant::now();
        asker.ask_all(asked(&devices), AskedAt::End);
        asker.collect(&mut devices);
        assert!(begun.elapsed() < MOST_OF_ONE, "nothing waits: {:?}", begun.elapsed());
        asker.finish(&mut devices, 5 * MOST_OF_ALL);
        assert!(begun.elapsed() < 5 * MOST_OF_ALL, "{:?}", begun.elapsed());
        let end = |device: &Device| device.health_end.clone().unwrap();
        assert_eq!((end(&devices[0]).asked_ns, end(&devices[2]).asked_ns), (7, 7));
        assert_eq!(end(&devices[1]).unread, ["its health: no answer within 400 ms"]);
        // The device is not asked again.
        asker.ask_all(asked(&devices), AskedAt::Start);
        asker.finish(&mut devices, 5 * MOST_OF_ALL);
        let starts: Vec<bool> =
            devices.iter().map(|device| device.health_start.is_some()).collect();
        assert_eq!(starts, [true, false, true]);
    }

    #[test]
    fn an_answer_that_comes_late_is_not_one_to_the_next_question() {
        let mut devices = devices();
        let mut asker = HealthAsker::with(|| {
            shell("read line; sleep 0.2; echo '{\"asked_ns\":1}'; exec sleep 30")
        });
        asker.ask_all(asked(&devices[..1]), AskedAt::Start);
        asker.finish(&mut devices, Duration::from_millis(20));
        asker.ask_all(asked(&devices[..2]), AskedAt::End);
        std::thread::sleep(Duration::from_millis(300));
        asker.finish(&mut devices, Duration::from_millis(100));
        assert!(!devices[0].health_start.as_ref().unwrap().unread.is_empty());
        assert_eq!(devices[0].health_end, None, "not asked again");
        assert_eq!(devices[1].health_end.as_ref().unwrap().asked_ns, 1, "its own answer");
    }

    #[test]
    fn asked_again_the_last_answer_becomes_the_first() {
        let mut devices = devices();
        let mut asker = HealthAsker::with(|| {
            shell("n=0; while read line; do n=$((n+1)); echo '{\"asked_ns\":'$n'}'; done")
        });
        for end in [AskedAt::Start, AskedAt::Again, AskedAt::Again] {
            asker.ask_all(asked(&devices[..1]), end);
            asker.finish(&mut devices, 5 * MOST_OF_ALL);
            assert!(asker.is_idle());
        }
        let asked_ns = |health: &Option<DeviceHealth>| health.as_ref().unwrap().asked_ns;
        let device = &devices[0];
        assert_eq!((asked_ns(&device.health_start), asked_ns(&device.health_end)), (2, 3));
    }

    #[test]
    fn when_all_are_mute_the_time_is_bounded() {
        let mut devices = devices();
        let mut asker = HealthAsker::with(|| shell("exec sleep 30"));
        let begun = Instant::now();
        asker.ask_all(asked(&devices), AskedAt::End);
        asker.finish(&mut devices, MOST_OF_ALL);
        assert!(begun.elapsed() < MOST_OF_ALL + MOST_OF_ONE, "{:?}", begun.elapsed());
        assert!(
            devices.iter().all(|device| !device.health_end.as_ref().unwrap().unread.is_empty())
        );
    }

    #[test]
    fn garbage_and_ends_are_no_answers() {
        let garbage = || shell("while read line; do echo nonsense; done");
        let end = || shell("read line; kill -BUS $$");
        for command in [garbage as fn() -> Command, end] {
            let mut devices = devices();
            let mut asker = HealthAsker::with(command);
            asker.ask_all(asked(&devices), AskedAt::Start);
            asker.finish(&mut devices, 5 * MOST_OF_ALL);
            assert!(
                devices.iter().all(|device| !device
                    .health_start
                    .as_ref()
                    .unwrap()
                    .unread
                    .is_empty())
            );
        }
    }
}

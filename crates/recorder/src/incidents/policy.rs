//! Decisions about triggers: which one begins an incident, belongs to the current one, or is passed
//! over; and when an incident is complete. Pure: time is an argument.
//!
//! What does not belong here: how triggers are found, and what an incident holds.

use crate::trigger::{Trigger, TriggerKey, TriggerKind};
use std::collections::{BTreeMap, VecDeque};

const HOUR_NS: u64 = 3_600_000_000_000;
/// Conditions that are remembered; beyond that the one that was met longest ago is forgotten.
const MOST_KEYS: usize = 1024;
/// The time for which threads that still wait are no news, from the incident that holds them: in it
/// others, of whom nothing else is known, may have begun to wait at the same place. Chosen.
const LONGEST_HUNG_NS: u64 = 6 * HOUR_NS;
/// The time after its last sign at which a request no longer counts as in flight.
const STILL_IN_FLIGHT_NS: u64 = 3_000_000_000;

/// The limits of the policy, times in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct PolicyLimits {
    /// The time that an incident goes on after its trigger.
    pub after_ns: u64,
    /// The time that it goes on at most while a request is in flight.
    pub longest_ns: u64,
    /// The time that a condition must be absent before it begins another incident.
    pub quiet_ns: u64,
    /// Incidents an hour at most.
    pub most_per_hour: u32,
}

/// The decision about a trigger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The trigger begins an incident.
    Begin,
    /// The trigger belongs to the incident that is open.
    Join,
    /// An incident holds the condition already, and it has not been absent since.
    Duplicate,
    /// Too many incidents began in the last hour.
    RateLimited,
}

/// An incident that began within the last hour.
#[derive(Clone, Copy, Debug)]
struct Begun {
    at_ns: u64,
    /// Whether for threads that hang in a file system without a device, which anybody can mount.
    is_anybodys: bool,
}

/// Decides about triggers.
#[derive(Clone, Debug)]
pub struct IncidentPolicy {
    limits: PolicyLimits,
    /// The conditions that incidents hold.
    kept: BTreeMap<TriggerKey, KeptCondition>,
    /// The times at which the incidents of the last hour began.
    begun: VecDeque<Begun>,
    open: Option<OpenSpan>,
    /// Triggers for which no incident was begun because of the limit.
    pub rate_limited: u64,
}

/// The times at which a condition was held by an incident, and was met, last.
#[derive(Clone, Copy, Debug)]
struct KeptCondition {
    held_ns: u64,
    met_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenSpan {
    begun_ns: u64,
    in_flight_ns: u64,
}

impl IncidentPolicy {
    /// Makes a policy that has seen nothing.
    pub fn new(limits: PolicyLimits) -> IncidentPolicy {
        IncidentPolicy {
            limits,
            kept: BTreeMap::new(),
            begun: VecDeque::new(),
            open: None,
            rate_limited: 0,
        }
    }

    /// Remembers an incident of an earlier run, whose condition was met `at_ns`.
    pub fn remember(&mut self, key: TriggerKey, at_ns: u64) {
        self.note(key, at_ns);
    }

    /// Returns whether an incident is open.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Decides about a trigger at `now_ns`.
    pub fn decide(&mut self, trigger: &Trigger, now_ns: u64) -> Decision {
        let key = &trigger.key;
        if let Some(open) = &mut self.open {
            if key.kind == TriggerKind::InFlight {
                open.in_flight_ns = now_ns;
            }
            self.note(key.clone(), now_ns);
            return Decision::Join;
        }
        if self.is_known(key, now_ns) && !trigger.is_manual() {
            if let Some(kept) = self.kept.get_mut(key) {
                kept.met_ns = now_ns;
            } else {
                // A worse one is held.
                self.note(key.clone(), now_ns);
            }
            return Decision::Duplicate;
        }
        let is_old = |begun: &Begun| now_ns.saturating_sub(begun.at_ns) >= HOUR_NS;
        while self.begun.front().is_some_and(is_old) {
            self.begun.pop_front();
        }
        let most = self.limits.most_per_hour as usize;
        // Anybody's file servers may hang one after the other.
        let is_anybodys = key.kind == TriggerKind::HungTask && key.device.is_empty();
        let anybodys = self.begun.iter().filter(|begun| begun.is_anybodys).count();
        let is_full = self.begun.len() >= most || is_anybodys && anybodys >= most.div_ceil(2);
        if is_full && !trigger.is_manual() {
            self.rate_limited += 1;
            return Decision::RateLimited;
        }
        if !trigger.is_manual() {
            self.begun.push_back(Begun { at_ns: now_ns, is_anybodys });
        }
        self.note(key.clone(), now_ns);
        let in_flight_ns = if key.kind == TriggerKind::InFlight { now_ns } else { 0 };
        self.open = Some(OpenSpan { begun_ns: now_ns, in_flight_ns });
        Decision::Begin
    }

    /// Returns whether the condition, or a worse one of the same kind, was kept and not absent
    /// since.
    fn is_known(&self, key: &TriggerKey, now_ns: u64) -> bool {
        let worse = TriggerKey { critical: true, ..key.clone() };
        let longest_ns = match key.kind {
            TriggerKind::HungTask => LONGEST_HUNG_NS,
            _ => u64::MAX,
        };
        [key, &worse].into_iter().filter_map(|key| self.kept.get(key)).any(|kept| {
            now_ns.saturating_sub(kept.met_ns) < self.limits.quiet_ns
                && now_ns.saturating_sub(kept.held_ns) < longest_ns
        })
    }

    fn note(&mut self, key: TriggerKey, now_ns: u64) {
        self.kept.insert(key, KeptCondition { held_ns: now_ns, met_ns: now_ns });
        if self.kept.len() > MOST_KEYS
            && let Some(oldest) =
                self.kept.iter().min_by_key(|(_, kept)| kept.met_ns).map(|(key, _)| key.clone())
        {
            self.kept.remove(&oldest);
        }
    }

    /// Closes the open incident if it is complete at `now_ns`; returns whether it was.
    pub fn completes(&mut self, now_ns: u64) -> bool {
        let Some(open) = self.open else { return false };
        let age_ns = now_ns.saturating_sub(open.begun_ns);
        let is_stuck = now_ns.saturating_sub(open.in_flight_ns) < STILL_IN_FLIGHT_NS;
        let is_over = age_ns >= self.limits.after_ns && !is_stuck;
        let is_complete = is_over || age_ns >= self.limits.longest_ns;
        if is_complete {
            self.open = None;
        }
        is_complete
    }

    /// Closes the open incident, because recording ends; returns whether there was one.
    pub fn close(&mut self) -> bool {
        self.open.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const DAY: u64 = 24 * HOUR_NS;

    fn policy() -> IncidentPolicy {
        IncidentPolicy::new(PolicyLimits {
            after_ns: 60 * S,
            longest_ns: 300 * S,
            quiet_ns: 1800 * S,
            most_per_hour: 6,
        })
    }

    fn finding(cause: &str, device: &str, critical: bool) -> Trigger {
        let (cause, device) = (cause.to_owned(), device.to_owned());
        let key = TriggerKey { kind: TriggerKind::Finding, cause, device, critical };
        Trigger { key, sentence: String::new() }
    }

    fn hang(device: &str) -> Trigger {
        let trigger = finding("", device, false);
        Trigger { key: TriggerKey { kind: TriggerKind::InFlight, ..trigger.key }, ..trigger }
    }

    /// Returns how many incidents a condition begins that is met every ten seconds for so long.
    fn follow(policy: &mut IncidentPolicy, trigger: &Trigger, from: u64, seconds: u64) -> u64 {
        let mut begun = 0;
        for second in (from..from + seconds).step_by(10) {
            policy.completes(second * S);
            begun += u64::from(policy.decide(trigger, second * S) == Decision::Begin);
        }
        policy.completes((from + seconds + 600) * S);
        begun
    }

    #[test]
    fn a_condition_that_lasts_is_one_incident() {
        let (mut policy, busy) = (policy(), finding("fsync-heavy", "sda", false));
        assert_eq!(follow(&mut policy, &busy, 0, 86_400), 1);
        // Twenty minutes later it is the same condition; after half an hour without it, another.
        assert_eq!(follow(&mut policy, &busy, 86_400 + 1_200, 60), 0);
        assert_eq!(follow(&mut policy, &busy, 2 * 86_400, 60), 1);
    }

    #[test]
    fn threads_that_wait_without_end_do_not_hide_others_for_ever() {
        let key = TriggerKey { kind: TriggerKind::HungTask, ..finding("", "", false).key };
        let hung = Trigger { key, sentence: String::new() };
        assert_eq!(follow(&mut policy(), &hung, 0, LONGEST_HUNG_NS / S), 1);
        assert_eq!(follow(&mut policy(), &hung, 0, DAY / S), 4);
    }

    #[test]
    fn what_gets_worse_is_news_and_what_gets_better_is_not() {
        let mut policy = policy();
        assert_eq!(follow(&mut policy, &finding("hung-io", "sda", false), 0, 10), 1);
        assert_eq!(follow(&mut policy, &finding("hung-io", "sda", true), 700, 10), 1);
        assert_eq!(follow(&mut policy, &finding("hung-io", "sda", false), 1_400, 10), 0);
        assert_eq!(follow(&mut policy, &finding("hung-io", "sdb", false), 2_100, 10), 1);
    }

    #[test]
    fn everything_during_an_incident_belongs_to_it() {
        let mut policy = policy();
        assert_eq!(policy.decide(&finding("a", "sda", false), 0), Decision::Begin);
        assert_eq!(policy.decide(&finding("b", "sdb", true), 30 * S), Decision::Join);
        assert!(!policy.completes(59 * S));
        assert!(policy.completes(60 * S));
        assert_eq!(policy.decide(&finding("b", "sdb", true), 70 * S), Decision::Duplicate);
    }

    #[test]
    fn a_request_in_flight_prolongs_it_but_not_forever() {
        let mut policy = policy();
        policy.decide(&hang("sda"), 0);
        for second in 1..100 {
            policy.decide(&hang("sda"), second * S);
            assert!(!policy.completes(second * S), "{second}");
        }
        assert!(policy.completes(103 * S));
        policy.decide(&hang("sdb"), 1_000 * S);
        let ended = (1_000..2_000).find(|second| {
            policy.decide(&hang("sdb"), second * S);
            policy.completes(second * S)
        });
        assert_eq!(ended, Some(1_300));
    }

    #[test]
    fn the_hourly_limit_does_not_bind_people() {
        let mut policy = policy();
        let mut begun = 0;
        for device in 0..20 {
            let trigger = finding("a", &device.to_string(), false);
            let at_ns = device * 100 * S;
            begun += u64::from(policy.decide(&trigger, at_ns) == Decision::Begin);
            policy.completes(at_ns + 60 * S);
        }
        assert_eq!((begun, policy.rate_limited), (6, 14));
        let asked = Trigger::manual(TriggerKind::Command, String::new());
        assert_eq!(policy.decide(&asked, 2_000 * S), Decision::Begin);
        policy.completes(2_060 * S);
        assert_eq!(policy.decide(&asked, 2_061 * S), Decision::Begin);
    }

    #[test]
    fn file_systems_that_anybody_mounts_leave_room_for_others() {
        let mut policy = policy();
        let mut decide = |trigger: &Trigger, at_s: u64| {
            let decided = policy.decide(trigger, at_s * S);
            policy.completes((at_s + 60) * S);
            decided
        };
        let mut begun = 0;
        for server in 0..20 {
            let key = TriggerKey {
                kind: TriggerKind::HungTask,
                ..finding(&format!("/mnt/{server}"), "", false).key
            };
            let hung = Trigger { key, sentence: String::new() };
            begun += u64::from(decide(&hung, server * 100) == Decision::Begin);
        }
        assert_eq!(begun, 3);
        assert_eq!(decide(&finding("a", "sda", false), 2_100), Decision::Begin);
    }

    /// A day with twenty planted incidents, of which each lasts 20 to 200 s, and a load that always
    /// has the same warning.
    #[test]
    fn a_day_keeps_what_was_planted() {
        let mut policy = policy();
        let mut begun = Vec::new();
        for second in (0..86_400_u64).step_by(10) {
            policy.completes(second * S);
            let planted = second / 4_320;
            let into = second % 4_320;
            let mut triggers = vec![finding("small-writes", "sdz", false)];
            if (1_000..1_000 + 20 + planted * 9).contains(&into) {
                triggers.push(finding("cause", &format!("sd{planted}"), true));
            }
            for trigger in triggers {
                if policy.decide(&trigger, second * S) == Decision::Begin {
                    begun.push(trigger.key);
                }
            }
        }
        let kept = begun.iter().filter(|key| key.cause == "cause").count();
        assert_eq!((kept, begun.len()), (20, 21), "{begun:?}");
    }

    #[test]
    fn thirty_days_need_no_more_memory_than_one() {
        let mut policy = policy();
        for second in (0..30 * DAY / S).step_by(100) {
            policy.completes(second * S);
            policy.decide(&finding("a", &second.to_string(), false), second * S);
        }
        assert!(policy.kept.len() <= MOST_KEYS && policy.begun.len() <= 6);
        assert!(policy.rate_limited > 0);
    }
}

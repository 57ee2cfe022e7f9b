//! Settings that a person names: `scheduler=none`, `read_ahead_kb=16`, `vm.dirty_ratio=5`; and
//! parts of a plan that are left out: `limits=none`, `memory=none`, `sync=none`, `depth=8`.
//!
//! What does not belong here: giving them back (see [`crate::undo`]).

use crate::error::{ReproduceError, Result};
use crate::plan::{JobEngine, LoadPlan};
use crate::planning::DISK_SETTINGS;
use std::path::PathBuf;

/// A change for the rounds with a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Alteration {
    /// A setting of the disks' queues, and its value.
    Queue(String, String),
    /// A setting of the machine below /proc/sys, and its value.
    Machine(PathBuf, String),
    /// The load without its cgroups' I/O limits.
    WithoutLimits,
    /// The load without memory limits.
    WithoutMemoryLimit,
    /// The load without syncs.
    WithoutSyncs,
    /// Another depth of asynchronous I/O.
    Depth(u32),
}

impl Alteration {
    /// Parses `NAME=VALUE`.
    ///
    /// # Errors
    /// Fails if the text is no such change, and names those that are possible.
    pub fn parse(text: &str) -> Result<Alteration> {
        let hint = format!(
            "a queue's setting ({}), a sysctl (vm.dirty_ratio=5), limits=none, memory=none, \
             sync=none or depth=N; anything else with --with-command",
            DISK_SETTINGS.join(", ")
        );
        let wrong = |cause: &str| {
            ReproduceError::new(format!("understand {text:?}"), cause).hint(hint.clone())
        };
        let (name, value) = text.split_once('=').ok_or_else(|| wrong("it is not NAME=VALUE"))?;
        let plain = |text: &str| {
            !text.is_empty()
                && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
                && !text.contains("..")
        };
        if !plain(name) || !plain(value) {
            return Err(wrong("names and values consist of letters, digits, _ - and ."));
        }
        match (name, value) {
            ("limits", "none") => Ok(Alteration::WithoutLimits),
            ("memory", "none") => Ok(Alteration::WithoutMemoryLimit),
            ("sync", "none") => Ok(Alteration::WithoutSyncs),
            ("depth", _) => match value.parse() {
                Ok(depth @ 1..=4096) => Ok(Alteration::Depth(depth)),
                _ => Err(wrong("the depth is a number from 1 to 4096")),
            },
            _ if DISK_SETTINGS.contains(&name) => {
                Ok(Alteration::Queue(name.to_owned(), value.to_owned()))
            }
            _ if name.starts_with("vm.") => {
                let path = PathBuf::from("/proc/sys").join(name.replace('.', "/"));
                Ok(Alteration::Machine(path, value.to_owned()))
            }
            _ => Err(wrong("it is not a setting that is known")),
        }
    }

    /// Changes the plan, where it is about the plan.
    pub fn alter(&self, plan: &mut LoadPlan) {
        for program in &mut plan.programs {
            match self {
                Alteration::WithoutLimits => program.limits.clear(),
                Alteration::WithoutMemoryLimit => program.memory_bytes = None,
                Alteration::WithoutSyncs => program.jobs.iter_mut().for_each(|job| job.sync = None),
                Alteration::Depth(depth) => {
                    program.jobs.iter_mut().for_each(|job| match job.engine {
                        JobEngine::Libaio | JobEngine::IoUring => job.depth = *depth,
                        JobEngine::Psync | JobEngine::Mmap => job.threads = *depth,
                    });
                }
                Alteration::Queue(..) | Alteration::Machine(..) => {}
            }
        }
        if *self == Alteration::WithoutMemoryLimit {
            plan.available_bytes = None;
        }
    }
}

/// Returns the change that can be tried against a cause on a reproduction, as `--with` takes it.
pub fn fix_of(cause: &str) -> Option<&'static str> {
    iowhy_diagnosis::rule_of(cause)?.trial
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{DiskLimit, PlannedProgram};

    #[test]
    fn only_known_settings_are_taken() {
        let queue = Alteration::parse("scheduler=none").unwrap();
        assert_eq!(queue, Alteration::Queue("scheduler".to_owned(), "none".to_owned()));
        let machine = Alteration::parse("vm.dirty_ratio=5").unwrap();
        let path = PathBuf::from("/proc/sys/vm/dirty_ratio");
        assert_eq!(machine, Alteration::Machine(path, "5".to_owned()));
        for wrong in ["scheduler", "a=b", "vm.../x=1", "vm.x=$(id)", "kernel.panic=1", "depth=0"] {
            let error = Alteration::parse(wrong).unwrap_err();
            assert!(error.hint.is_some_and(|hint| hint.contains("--with-command")), "{wrong}");
        }
    }

    #[test]
    fn every_fix_can_be_parsed_and_limits_go() {
        for rule in iowhy_diagnosis::all() {
            if let Some(fix) = fix_of(rule.cause) {
                Alteration::parse(fix).unwrap();
            }
        }
        let program =
            PlannedProgram { limits: vec![DiskLimit::default()], ..PlannedProgram::default() };
        let mut plan = LoadPlan { programs: vec![program], ..LoadPlan::default() };
        Alteration::WithoutLimits.alter(&mut plan);
        assert_eq!(plan.programs[0].limits, []);
    }
}

//! Reproductions: from a recording to a load that has the same cause, its run, and the test of a
//! fix.
//!
//! | where | what |
//! |---|---|
//! | [`streams`] | what each program did to each class of files, from a source's rows |
//! | [`planning`] | from there to a plan |
//! | [`plan`], [`plan_check`] | the plan: `plan.json`; what is refused when it is read |
//! | [`jobs`] | the plan as fio's jobs and small programs |
//! | [`folder`] | the directory that all of it is written to |
//! | [`target`] | where it may run, and where never |
//! | [`replay`] | the exact sequence of requests instead |
//! | [`run`] | laying out files, starting and ending the load |
//! | `users` | who uses a block device |
//! | [`undo`], [`guard`] | everything that was changed is given back, also after a kill |
//! | [`settings`], `kernel_file` | `scheduler=none` and the like; the files of the kernel |
//! | [`fit`] | free parameters, adjusted to what a run shows |
//! | [`error`] | why something failed, and what to do |
//!
//! What does not belong here: watching (crate `iowhy-capture`), figures (crate `iowhy-analysis`),
//! arguments and printing (the binary).
#![forbid(unsafe_code)]

pub mod error;
pub mod fit;
pub mod folder;
pub mod guard;
pub mod jobs;
mod kernel_file;
pub mod plan;
pub mod plan_check;
pub mod planning;
pub mod replay;
pub mod run;
pub mod settings;
pub mod streams;
pub mod target;
pub mod undo;
mod users;

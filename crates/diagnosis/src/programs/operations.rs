//! What a program is doing, told by its own functions on the stack: a statement of a client, or
//! one of the program's workers.
//!
//! Functions are those that the programs' distributed binaries export; the first entry that fits
//! counts, so that what a client asked for stands before what it takes.
//!
//! What does not belong here: advice that depends on files alone (see the siblings).

mod mysql;
mod postgresql;
mod servers;

use super::{Topic, named, of};

/// What a program does.
#[derive(Debug)]
pub struct Operation {
    /// The program, as [`super::KnownProgram`] names it.
    program: &'static str,
    /// Functions any of which tell it, without their parameters.
    functions: &'static [&'static str],
    /// Functions of which one has to be there, too; any if there are none.
    beneath: &'static [&'static str],
    /// What the process waits for meanwhile; any if that is `None`.
    pub waits: Option<AwaitedCalls>,
    /// What the process is or does, with the verb.
    pub does: &'static str,
    /// Whether it is a statement of a client, who waits for it.
    pub is_statement: bool,
    advice: Advice,
}

/// The calls that a process waits in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AwaitedCalls {
    /// Reads.
    Reads,
    /// Syncs.
    Syncs,
}

/// What to do about it.
#[derive(Clone, Copy, Debug)]
enum Advice {
    /// What holds for that topic anyway.
    Topic(Topic),
    /// Something of its own.
    Own(&'static str),
}

/// Functions that read, of PostgreSQL a page.
const READS: &[&str] = &["pread", "pread64", "__pread64", "__libc_pread", "__libc_pread64"];
const PAGES: &[&str] = &["mdread", "mdreadv", "mdstartreadv"];
/// Functions that sync a file.
const SYNCS: &[&str] = &["fsync", "fdatasync", "__libc_fsync", "pg_fsync"];

fn all() -> impl Iterator<Item = &'static Operation> {
    [postgresql::ALL, mysql::ALL, servers::ALL].into_iter().flatten()
}

impl Operation {
    /// Returns what a process in these functions is or does; `None` if they do not tell.
    pub fn of(process: &str, functions: &[String]) -> Option<&'static Operation> {
        let program = of(Some(process), None)?;
        let is_on = |wanted: &[&str]| {
            functions.iter().any(|function| {
                // C++ functions are written with their parameters.
                let name = function.split('(').next().unwrap_or(function);
                wanted.contains(&name)
            })
        };
        let own = all().filter(|operation| operation.program == program.name);
        own.filter(|operation| operation.beneath.is_empty() || is_on(operation.beneath))
            .find(|operation| is_on(operation.functions))
    }

    /// Returns what to do about it.
    pub fn advice(&self) -> Option<&'static str> {
        match self.advice {
            Advice::Topic(topic) => named(self.program)?.advice(topic),
            Advice::Own(advice) => Some(advice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does(process: &str, functions: &[&str]) -> Option<&'static str> {
        let functions: Vec<String> =
            functions.iter().map(|function| (*function).to_owned()).collect();
        Operation::of(process, &functions).map(|operation| operation.does)
    }

    #[test]
    fn each_entry_has_its_program_and_advice() {
        for operation in all() {
            let process = named(operation.program).unwrap().processes[0];
            let functions = [operation.functions, operation.beneath].concat();
            for function in operation.functions {
                let one = [&[*function], operation.beneath].concat();
                assert_eq!(does(process, &one), Some(operation.does), "{function}");
            }
            assert_eq!(does("other", &functions), None);
            assert!(operation.advice().is_some(), "{}", operation.does);
        }
    }

    #[test]
    fn a_statement_is_told_by_its_function_whatever_its_parameters() {
        let truncate = ["fdatasync", "Sql_cmd_truncate_table::execute(THD*)", "start_thread"];
        assert!(does("mariadbd", &truncate).unwrap().starts_with("truncates tables"));
        assert_eq!(does("mariadbd", &["fdatasync", "mysql_execute_command(THD*, bool)"]), None);
    }

    #[test]
    fn a_foreign_key_without_index_is_told_from_a_scan() {
        let scan = ["mdread", "heap_getnextslot", "ExecScan", "PortalRun", "PostgresMain"];
        assert_eq!(does("postgres", &scan), Some("scans a table for a client"));
        let check = [&scan[..3], &["SPI_execute_snapshot", "AfterTriggerEndQuery"], &scan[3..]];
        let checks = "checks foreign keys, and scans a table";
        assert!(does("postgres", &check.concat()).unwrap().starts_with(checks));
    }

    #[test]
    fn what_is_added_to_an_index_is_told_from_its_commit() {
        let insert = ["btinsert", "ExecInsertIndexTuples"];
        assert_eq!(does("postgres", &insert), None, "it waits for something else");
        let reads = ["__libc_pread", "mdread", "btinsert", "ExecInsertIndexTuples"];
        assert!(does("postgres", &reads).unwrap().starts_with("adds keys"));
    }
}

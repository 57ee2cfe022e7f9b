//! The way in which a program writes most of its data: what it has read, or new.
//!
//! What does not belong here: who waits because of it (see the rules).

use super::Facts;
use crate::subject::Subject;
use crate::{programs, words};
use iowhy_analysis::summary::ActivityRow;

/// The share of a program's written bytes that one row must have to stand for them. Chosen.
const MOST: f64 = 0.8;
/// The least share of the written bytes that were read from the same file if it is rewritten.
/// Chosen: what is moved is read and written once, and a buffer may hold a part of it.
const MOVED: f64 = 0.5;
/// The most by which read and written bytes of a copy differ. Chosen.
const ALIKE: f64 = 0.1;
/// The least files of a tree that is copied. Chosen: a program's scratch files are few.
const MANY_FILES: u64 = 10;
/// The least bytes in which a pattern is seen. Chosen: a hundred pages of 4 KiB.
const LEAST_BYTES: u64 = 400 << 10;

/// A way of writing data that was there before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Written {
    /// One file is read, and written again in order.
    Moved,
    /// Many files are read, and others written with as much.
    Copied,
}

/// Most of what a program writes.
#[derive(Clone, Debug)]
pub struct Writing<'a> {
    row: &'a ActivityRow,
    /// The way in which it is written.
    pub kind: Written,
}

impl Writing<'_> {
    /// Returns the end of a sentence about the program.
    pub fn words(&self) -> String {
        let bytes = |bytes: u64| words::bytes(bytes as f64);
        let (read, written) =
            (bytes(self.row.counts.read_bytes), bytes(self.row.counts.write_bytes));
        match self.kind {
            Written::Moved => format!(
                "; it reads and rewrites {}: {read} read and {written} written in order",
                self.row.file.as_deref().unwrap_or("a file"),
            ),
            Written::Copied => {
                format!("; it copies files: {read} read and {written} written by it")
            }
        }
    }

    /// Whether the program need not write so much: a copy is only if it is made by a program that
    /// is not there to copy.
    pub fn is_waste(&self, subject: &Subject) -> bool {
        let may_waste = subject.process.as_deref().is_some_and(programs::may_waste);
        self.kind == Written::Moved || may_waste
    }

    /// Returns the advice that makes the writes fewer.
    pub const fn fix(&self) -> &'static str {
        match self.kind {
            Written::Moved => {
                "if it moves the rest of the file for each change: a format with a file for each \
                 item, or one that only appends, writes just what has changed (mail: Maildir or \
                 sdbox instead of mbox)"
            }
            Written::Copied => {
                "do not copy what does not change: layers (a container's storage driver overlay \
                 instead of vfs), reflinks (`cp --reflink`, on btrfs and XFS) or hard links"
            }
        }
    }
}

impl<'a> Facts<'a> {
    /// Returns the way in which the subject's process writes most of its data; `None` if it writes
    /// new data, or too little to tell.
    pub fn writing(&self, subject: &Subject) -> Option<Writing<'a>> {
        let pid = subject.pid?;
        let rows = self.summary().activity.iter().flat_map(|activity| &activity.rows);
        let own: Vec<&ActivityRow> = rows.filter(|row| row.pid == pid).collect();
        let all = own.iter().map(|row| row.counts.write_bytes).fold(0, u64::saturating_add);
        let row = *own.iter().max_by_key(|row| row.counts.write_bytes)?;
        let (read, written) = (row.counts.read_bytes as f64, row.counts.write_bytes as f64);
        if row.counts.write_bytes < LEAST_BYTES || written < MOST * all as f64 {
            return None;
        }
        let kind = match row.files {
            Some(1) if read >= MOVED * written && self.is_rewritten(row) => Written::Moved,
            // Siblings may be written first and read back; trees are copied.
            Some(MANY_FILES..) if is_tree(row) && (read - written).abs() <= ALIKE * written => {
                Written::Copied
            }
            _ => return None,
        };
        Some(Writing { row, kind })
    }

    /// Whether a file is written in order, and is none of a known store, which updates its files in
    /// place; nor is it a device.
    fn is_rewritten(&self, row: &ActivityRow) -> bool {
        let Some(file) = row.file.as_deref() else { return false };
        let is_plain = row.file_type.is_none_or(|kind| kind == "file") && !is_tree(row);
        let is_known = programs::role_of(row.process.as_deref(), file).is_some();
        let patterns = self.summary().patterns.devices.iter().flat_map(|it| &it.access.files);
        let mut own = patterns.filter(|pattern| pattern.file == file);
        is_plain && !is_known && own.any(|own| 2 * own.sequential >= own.requests)
    }
}

fn is_tree(row: &ActivityRow) -> bool {
    row.file.as_deref().is_some_and(|file| file.ends_with("/**"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iowhy_analysis::script::ScriptSummary;
    use iowhy_model::file::Counts;
    use iowhy_model::script::Script;

    const MIB: u64 = 1 << 20;

    /// Returns how process 7 writes these files: their number of bytes read and written; each is
    /// written in steps of `stride` MiB.
    fn in_steps(stride: u64, files: &[(&str, u64, u64)]) -> Option<Written> {
        let mut script = Script::new(10);
        for (file, read_bytes, write_bytes) in files {
            let (read_bytes, write_bytes) = (*read_bytes, *write_bytes);
            let counts =
                Counts { reads: 1, writes: 1, read_bytes, write_bytes, ..Counts::default() };
            let of_tree = if file.contains("few") { 4 } else { 50 };
            let files = if file.ends_with("/**") { of_tree } else { 1 };
            script.did((7, "imap"), file, counts).files = Some(files);
            for place in 0..20 {
                let write = script.write("sda", MIB).by(7, "imap").at((place * 1000) as i64);
                write.file_at(file, place * stride * MIB).add();
            }
        }
        let subject = Subject { pid: Some(7), ..Subject::default() };
        Facts::new(&script.summary()).writing(&subject).map(|writing| writing.kind)
    }

    fn written(files: &[(&str, u64, u64)]) -> Option<Written> {
        in_steps(1, files)
    }

    #[test]
    fn what_is_read_and_written_again_is_moved() {
        assert_eq!(written(&[("/mail/inbox", 60 * MIB, 60 * MIB)]), Some(Written::Moved));
        assert_eq!(written(&[("/mail/inbox", 29 * MIB, 60 * MIB)]), None, "mostly new");
        assert_eq!(written(&[("/mail/inbox", MIB / 4, MIB / 4)]), None, "too little to tell");
        let inbox = [("/mail/inbox", 60 * MIB, 60 * MIB)];
        assert_eq!(in_steps(7, &inbox), None, "here and there, as a disk image is");
        let store = [("/srv/db/000007.sst", 60 * MIB, 60 * MIB)];
        assert_eq!(written(&store), None, "a store updates its files in place");
        let beside = [("/mail/inbox", 60 * MIB, 60 * MIB), ("/mail/other", 0, 20 * MIB)];
        assert_eq!(written(&beside), None, "three quarters of what it writes");
        assert_eq!(written(&[("/srv/layers/**", 60 * MIB, 61 * MIB)]), Some(Written::Copied));
        assert_eq!(written(&[("/tmp/few/**", 60 * MIB, 61 * MIB)]), None, "scratch files");
    }
}

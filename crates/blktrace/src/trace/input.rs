//! The streams that belong to a capture: files as given, a common prefix, a folder, or the standard
//! input. blkparse stops at the first CPU number that is missing; iowhy reads the others and says
//! which are missing.

use iowhy_model::compact_sort::CompactSort;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One stream of records.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Input {
    /// A file of one CPU, `<name>.blktrace.<cpu>`.
    Cpu {
        /// The file.
        path: PathBuf,
        /// The CPU that its name states.
        cpu: u32,
    },
    /// A merged stream: a dump by `blkparse -d`.
    Merged(PathBuf),
    /// The standard input, as `blktrace -o -` writes it.
    Stdin,
}

/// The streams of one name, which blktrace makes of the device's name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputGroup {
    /// The name before `.blktrace.`, without folders; the file's own name for a dump.
    pub name: String,
    /// Its streams, by CPU.
    pub inputs: Vec<Input>,
    /// The CPU numbers below the highest that have no file.
    pub missing: Vec<u32>,
}

/// All streams of a capture.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Inputs {
    /// In the order in which they were given.
    pub groups: Vec<InputGroup>,
}

impl Inputs {
    /// Streams that the capture has.
    pub fn len(&self) -> usize {
        self.groups.iter().map(|group| group.inputs.len()).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether every stream is merged already: times are rebased, and the order is the
    /// file's.
    pub fn is_merged(&self) -> bool {
        self.groups.iter().all(|group| !matches!(group.inputs.first(), Some(Input::Cpu { .. })))
    }

    /// Finds the streams that `given` stand for: files, prefixes, folders, `-`.
    ///
    /// # Errors
    /// Fails with a name that has no capture, and the system's error.
    pub fn find(given: &[PathBuf]) -> Result<Inputs, (PathBuf, io::Error)> {
        let mut found = Inputs::default();
        for path in given {
            found.add(path).map_err(|error| (path.clone(), error))?;
        }
        found.finish();
        Ok(found)
    }

    fn add(&mut self, path: &Path) -> io::Result<()> {
        if path == Path::new("-") {
            self.push("stdin".to_owned(), Input::Stdin);
            return Ok(());
        }
        match fs::metadata(path) {
            Ok(found) if found.is_dir() => self.add_beside(path, None),
            Ok(_) => {
                match split(path) {
                    Some((name, cpu)) => {
                        self.push(name, Input::Cpu { path: path.to_owned(), cpu });
                    }
                    None => self.push(file_name(path), Input::Merged(path.to_owned())),
                }
                Ok(())
            }
            Err(error) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                self.add_beside(folder.unwrap_or(Path::new(".")), Some(&file_name(path)))
                    .map_err(|_| error)
            }
        }
    }

    /// Adds every per-CPU file of `folder`, or those called `name`.
    fn add_beside(&mut self, folder: &Path, name: Option<&str>) -> io::Result<()> {
        let mut files = Vec::new();
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if let Some((found, cpu)) = split(&path)
                && name.is_none_or(|name| name == found)
            {
                files.push((found, Input::Cpu { path, cpu }));
            }
        }
        if files.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        files.compact_sort_by(|a, b| a.0.cmp(&b.0));
        files.into_iter().for_each(|(name, input)| self.push(name, input));
        Ok(())
    }

    fn push(&mut self, name: String, input: Input) {
        let per_cpu = matches!(input, Input::Cpu { .. });
        let same = self.groups.iter_mut().find(|group| {
            per_cpu && group.name == name && matches!(group.inputs.first(), Some(Input::Cpu { .. }))
        });
        match same {
            Some(group) if !group.inputs.contains(&input) => group.inputs.push(input),
            Some(_) => {}
            None => self.groups.push(InputGroup { name, inputs: vec![input], missing: Vec::new() }),
        }
    }

    fn finish(&mut self) {
        for group in &mut self.groups {
            let mut cpus = BTreeMap::new();
            for input in &group.inputs {
                if let Input::Cpu { cpu, .. } = input {
                    cpus.insert(*cpu, ());
                }
            }
            group.inputs.compact_sort_by_key(|input| match input {
                Input::Cpu { cpu, .. } => *cpu,
                _ => 0,
            });
            // A hostile name may have a huge number: only as many are listed as could be files.
            let highest = cpus.keys().next_back().copied().unwrap_or(0).min(1 << 13);
            group.missing = (0..highest).filter(|cpu| !cpus.contains_key(cpu)).collect();
        }
    }
}

/// Splits `<name>.blktrace.<cpu>`.
fn split(path: &Path) -> Option<(String, u32)> {
    let name = file_name(path);
    let (name, cpu) = name.rsplit_once(".blktrace.")?;
    if !cpu.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some((name.to_owned(), cpu.parse().ok()?))
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

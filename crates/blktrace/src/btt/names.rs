//! Names of devices that a user gives btt (`-M`), a line each: `sdq 65,0`.
//!
//! What does not belong here: the text and files that show them (see [`super::report`],
//! [`super::files`]).

use std::collections::BTreeMap;

/// Bytes of a name.
const MOST_NAME: usize = 64;

/// Names by `major << 20 | minor`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceNames(BTreeMap<u32, String>);

impl DeviceNames {
    /// The names in a text. Its header, which has the word `Device`, is passed over.
    ///
    /// # Errors
    /// Fails with the first line that is no name and number, or whose name cannot be part of a
    /// file's name.
    pub fn from_text(text: &str) -> Result<DeviceNames, String> {
        let mut names = BTreeMap::new();
        let lines = text.lines().filter(|line| !line.trim().is_empty());
        for line in lines.filter(|line| !line.contains("Device")) {
            let (name, number) =
                pair(line).ok_or_else(|| line.chars().take(80).collect::<String>())?;
            names.insert(number, name.to_owned());
        }
        Ok(DeviceNames(names))
    }

    /// The name of a device, if it was given one.
    pub fn get(&self, device: u32) -> Option<&str> {
        self.0.get(&device).map(String::as_str)
    }
}

fn pair(line: &str) -> Option<(&str, u32)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [name, number] = words[..] else { return None };
    let (major, minor) = number.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    let is_name = name.bytes().all(is_plain) && name.len() <= MOST_NAME && !name.starts_with('.');
    (is_name && major < 1 << 12 && minor < 1 << 20).then_some((name, major << 20 | minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_name_and_a_number() {
        let names = DeviceNames::from_text("Device devno\n\nsdq 65,0\nnvme0n1 259,3\n").unwrap();
        assert_eq!((names.get(65 << 20), names.get(259 << 20 | 3)), (Some("sdq"), Some("nvme0n1")));
        assert_eq!(names.get(0), None);
        for bad in ["sdq", "sdq 65", "sdq 65,x", "../x 8,0", "a/b 8,0", ". 8,0", "sdq 8,9999999"] {
            assert_eq!(DeviceNames::from_text(bad), Err(bad.to_owned()));
        }
    }
}

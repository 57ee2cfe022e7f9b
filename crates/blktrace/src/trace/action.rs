//! The numbers of blktrace's API: actions, categories, notifications, and the rwbs text that
//! blkparse makes of them (linux/blktrace_api.h).

pub use iowhy_model::event::category;

/// Set in the action number when the payload begins with eight bytes of cgroup id.
pub const CGROUP_FLAG: u16 = 1 << 8;

macro_rules! actions {
    ($( $(#[doc = $doc:literal])+ $name:ident = $number:literal $text:literal ),+ $(,)?) => {
        /// The action of a record, as blktrace numbers it.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        #[repr(u16)]
        pub enum Action { $( $(#[doc = $doc])+ $name = $number ),+ }

        impl Action {
            /// Every action.
            pub const ALL: &'static [Action] = &[$( Action::$name ),+];

            /// The action with this number, without the cgroup flag.
            #[inline]
            pub const fn from_number(number: u16) -> Option<Action> {
                match number { $( $number => Some(Action::$name), )+ _ => None }
            }

            /// The letters that blkparse prints for it.
            #[inline]
            pub const fn text(self) -> &'static str {
                match self { $( Action::$name => $text ),+ }
            }
        }
    };
}

actions! {
    /// Queued.
    Queue = 1 "Q",
    /// Merged behind a request.
    BackMerge = 2 "M",
    /// Merged before a request.
    FrontMerge = 3 "F",
    /// Got a request.
    GetRequest = 4 "G",
    /// Slept because no request was free (kernels before 5.12).
    SleepRequest = 5 "S",
    /// Given back by the driver.
    Requeue = 6 "R",
    /// Issued to the driver.
    Issue = 7 "D",
    /// Completed.
    Complete = 8 "C",
    /// The queue or the task's list was plugged.
    Plug = 9 "P",
    /// Unplugged.
    Unplug = 10 "U",
    /// Unplugged by a timer or by the scheduler.
    UnplugTimer = 11 "UT",
    /// Inserted into the scheduler.
    Insert = 12 "I",
    /// Split in two.
    Split = 13 "X",
    /// Copied to memory that the device reaches.
    Bounce = 14 "B",
    /// Moved to another device: a partition's disk, a mapper's target.
    Remap = 15 "A",
    /// Aborted.
    Abort = 16 "Abort",
    /// A driver's own data.
    DriverData = 17 "DRV",
    /// A zone write was plugged.
    ZonePlug = 18 "ZP",
    /// A zone write plug was released.
    ZoneUnplug = 19 "ZU",
    /// Zone management.
    ZoneManagement = 20 "ZM",
}

/// The numbers of notify records.
pub mod notify {
    /// A pid's name.
    pub const PROCESS: u16 = 0;
    /// The wall clock at the record's time.
    pub const TIMESTAMP: u16 = 1;
    /// Free text of the scheduler or the controller.
    pub const MESSAGE: u16 = 2;
}

/// The letters behind the operation, in blkparse's order.
const FLAGS: &[(u32, u8)] = &[
    (category::FUA, b'F'),
    (category::AHEAD, b'A'),
    (category::BARRIER, b'B'),
    (category::SYNC, b'S'),
    (category::META, b'M'),
];

/// An rwbs text such as `WSM` or `FWFS`, kept in place.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Rwbs {
    text: [u8; 15],
    len: u8,
}

impl Rwbs {
    /// The text that blkparse prints for an event of these categories and size.
    pub fn new(categories: u32, bytes: u32) -> Rwbs {
        use category as c;
        let mut rwbs = Rwbs::default();
        let has = |bit: u32| categories & bit != 0;
        if has(c::FLUSH) {
            rwbs.push(b"F");
        }
        rwbs.push(match () {
            () if has(c::ZONE_APPEND) => b"ZA",
            () if has(c::ZONE_RESET) => b"ZR",
            () if has(c::ZONE_RESET_ALL) => b"ZRA",
            () if has(c::ZONE_FINISH) => b"ZF",
            () if has(c::ZONE_OPEN) => b"ZO",
            () if has(c::ZONE_CLOSE) => b"ZC",
            () if has(c::DISCARD) => b"D",
            () if has(c::WRITE_ZEROES) => b"WZ",
            () if has(c::WRITE) => b"W",
            () if bytes > 0 => b"R",
            () => b"N",
        });
        for (bit, letter) in FLAGS {
            if has(*bit) {
                rwbs.push(&[*letter]);
            }
        }
        rwbs
    }

    fn push(&mut self, letters: &[u8]) {
        for letter in letters {
            if let Some(slot) = self.text.get_mut(usize::from(self.len)) {
                *slot = *letter;
                self.len += 1;
            }
        }
    }

    /// The letters, and how many of them count.
    #[inline]
    pub fn letters(&self) -> (&[u8; 15], usize) {
        (&self.text, usize::from(self.len))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.text.get(..usize::from(self.len)).map_or("", |text| str::from_utf8(text).unwrap_or(""))
    }
}

/// The categories that an rwbs text stands for, the reverse of [`Rwbs::new`] as far as it goes.
pub fn categories_of(rwbs: &str) -> u32 {
    use category as c;
    let (mut found, mut seen_operation) = (0, false);
    let bytes = rwbs.as_bytes();
    let mut index = 0;
    while let Some(letter) = bytes.get(index) {
        found |= match letter {
            b'F' if seen_operation => c::FUA,
            b'F' => c::FLUSH,
            b'R' => c::READ,
            b'W' => c::WRITE,
            b'D' => c::DISCARD | c::WRITE,
            b'A' => c::AHEAD,
            b'B' => c::BARRIER,
            b'S' => c::SYNC,
            b'M' => c::META,
            b'Z' if seen_operation => c::WRITE_ZEROES,
            b'Z' => {
                index += 1;
                match bytes.get(index) {
                    Some(b'A') => c::ZONE_APPEND | c::WRITE,
                    Some(b'R') => c::ZONE_RESET | c::WRITE,
                    Some(b'F') => c::ZONE_FINISH | c::WRITE,
                    Some(b'O') => c::ZONE_OPEN | c::WRITE,
                    Some(b'C') => c::ZONE_CLOSE | c::WRITE,
                    _ => 0,
                }
            }
            _ => 0,
        };
        seen_operation |= matches!(letter, b'R' | b'W' | b'D' | b'N' | b'Z');
        index += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rwbs_texts() {
        use category as c;
        for (categories, bytes, text) in [
            (c::READ | c::AHEAD, 4096, "RA"),
            (c::WRITE | c::SYNC | c::META, 512, "WSM"),
            (c::FLUSH, 0, "FN"),
            (c::FLUSH | c::WRITE | c::FUA | c::SYNC, 4096, "FWFS"),
            (c::WRITE | c::DISCARD | c::SYNC, 64, "DS"),
            (c::WRITE | c::ZONE_APPEND, 64, "ZA"),
            (c::WRITE | c::WRITE_ZEROES | c::SYNC, 4096, "WZS"),
            (c::WRITE | c::BARRIER | c::SYNC, 4096, "WBS"),
            (0, 0, "N"),
        ] {
            assert_eq!(Rwbs::new(categories, bytes).as_str(), text);
            assert_eq!(categories_of(text), categories, "{text}");
        }
    }
}

//! The closed vocabularies of block I/O: operation, origin and status of a request.
//!
//! What does not belong here: the kernel's numbers for them (crate `iowhy-capture`).

/// Defines an enum whose variants are stored and shown as fixed words.
macro_rules! words {
    (
        $(#[doc = $doc:literal])+
        pub enum $name:ident {
            $( $(#[doc = $vdoc:literal])+ $variant:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $name { $( $(#[doc = $vdoc])+ $variant ),+ }

        impl $name {
            /// Every value, in the order of its definition.
            pub const ALL: &'static [$name] = &[$( $name::$variant ),+];

            /// Returns the value's word in recordings and JSON.
            pub const fn word(self) -> &'static str {
                match self { $( $name::$variant => $word ),+ }
            }

            /// The value with this word.
            pub fn from_word(word: &str) -> Option<$name> {
                match word { $( $word => Some($name::$variant), )+ _ => None }
            }

            /// Returns the value's name, which is the same in every [`super::Names`].
            #[inline]
            pub const fn name(self) -> super::Name {
                match self { $( $name::$variant => const { super::names::reserved($word) } ),+ }
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = $name::ALL.iter().map(|value| value.word()).collect();
                schemars::json_schema!({ "type": "string", "enum": words })
            }
        }

        impl super::table::Scalar for $name {
            const KIND: super::table::ColumnKind = super::table::ColumnKind::Text;
            const BLANK: Self = Self::ALL[0];
            #[inline]
            fn to_raw(self) -> i64 {
                self.name().to_raw()
            }
            #[inline]
            fn from_raw(raw: i64) -> Option<Self> {
                match usize::try_from(raw) {
                    $( Ok(index) if index == $name::$variant.name().index() => {
                        Some($name::$variant)
                    } )+
                    _ => None,
                }
            }
        }
    };
}
pub(super) use words;

words! {
    /// The operation of a request (the kernel's `REQ_OP_*`).
    pub enum Operation {
        /// Read data.
        Read = "read",
        /// Write data.
        Write = "write",
        /// Make written data durable.
        Flush = "flush",
        /// Discard data: discard, trim.
        Discard = "discard",
        /// Overwrite with zeroes without sending them.
        WriteZeroes = "write_zeroes",
        /// Discard so that the data cannot be read again.
        SecureErase = "secure_erase",
        /// Management of zones of a zoned device.
        Zone = "zone",
        /// A driver's private command (SCSI or NVMe pass-through).
        Driver = "driver",
        /// An operation that this version of iowhy does not know.
        Other = "other",
    }
}

words! {
    /// The reason why a request exists; `unknown` if it is not certain.
    pub enum Origin {
        /// A program's read: direct, or of a page that it requested.
        Read = "read",
        /// Pages that the kernel read ahead.
        Readahead = "readahead",
        /// A memory-mapped page that a program touched.
        PageFault = "page_fault",
        /// A program's direct write.
        Write = "write",
        /// Dirty pages that are written to the device.
        Writeback = "writeback",
        /// A file system's journal or log.
        Journal = "journal",
        /// A file system's own blocks: inodes, directories, bitmaps, trees.
        Metadata = "metadata",
        /// A cache flush.
        Flush = "flush",
        /// Discards and zeroing.
        Discard = "discard",
        /// Anonymous memory that is swapped out or in.
        Swap = "swap",
        /// I/O on behalf of an upper device: a loop device or a device-mapper target.
        Stacked = "stacked",
        /// A command that no file system sent (SCSI or NVMe pass-through, zone management).
        Passthrough = "passthrough",
        /// Not known.
        Unknown = "unknown",
    }
}

impl Origin {
    /// Returns the name on screens and in sentences.
    pub const fn phrase(self) -> &'static str {
        match self {
            Origin::PageFault => "page fault",
            other => other.word(),
        }
    }
}

words! {
    /// The status of a request at the end of the watch.
    pub enum Status {
        /// The request completed without error, and all of it was observed.
        Complete = "complete",
        /// The request completed with an error.
        Error = "error",
        /// The request had not completed when the watch ended: its times are lower bounds.
        InFlight = "in_flight",
        /// The request was already in flight when the watch began: its times are lower bounds.
        BegunBefore = "begun_before",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_words() {
        let plain = |text: &str| text.chars().all(|char| char.is_ascii_lowercase() || char == ' ');
        assert!(Origin::ALL.iter().all(|origin| plain(origin.phrase())));
    }
}

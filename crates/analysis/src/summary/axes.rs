//! The axes of figures: the direction of a request and the intervals of its lifetime. Each is an
//! enum with a map of one value per variant.

use iowhy_model::Operation;
#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer, ser::SerializeMap};
#[cfg(feature = "schema")]
use serde_json::{Map, Value};
#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::ops::{Index, IndexMut};

/// Defines an enum whose variants are words, and a map with one value for each variant.
macro_rules! axis {
    (
        $(#[doc = $doc:literal])+
        pub enum $axis:ident, $(#[doc = $map_doc:literal])+ $map:ident[$count:literal] {
            $( $(#[doc = $vdoc:literal])+ $variant:ident = $word:literal ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
        pub enum $axis { $( $(#[doc = $vdoc])+ $variant ),+ }

        impl $axis {
            /// Every value, in the order of its definition.
            pub const ALL: [$axis; $count] = [$( $axis::$variant ),+];

            /// Its word in JSON.
            pub const fn word(self) -> &'static str {
                match self { $( $axis::$variant => $word ),+ }
            }
        }

        $(#[doc = $map_doc])+
        #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
        pub struct $map<T>(pub [T; $count]);

        impl<T> $map<T> {
            /// Each variant with its value.
            pub fn iter(&self) -> impl Iterator<Item = ($axis, &T)> {
                $axis::ALL.into_iter().zip(&self.0)
            }

            /// Each variant with its value, which may be changed.
            pub fn iter_mut(&mut self) -> impl Iterator<Item = ($axis, &mut T)> {
                $axis::ALL.into_iter().zip(&mut self.0)
            }

            /// A map with every value converted.
            pub fn map<U>(&self, make: impl FnMut(&T) -> U) -> $map<U> {
                $map(self.0.each_ref().map(make))
            }
        }

        impl<T> Index<$axis> for $map<T> {
            type Output = T;
            #[inline]
            fn index(&self, at: $axis) -> &T {
                &self.0[at as usize]
            }
        }

        impl<T> IndexMut<$axis> for $map<T> {
            #[inline]
            fn index_mut(&mut self, at: $axis) -> &mut T {
                &mut self.0[at as usize]
            }
        }

        impl<T: Serialize> Serialize for $map<T> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut map = serializer.serialize_map(Some($count))?;
                for (at, value) in self.iter() {
                    map.serialize_entry(at.word(), value)?;
                }
                map.end()
            }
        }

        #[cfg(feature = "schema")]
        impl<T: JsonSchema> JsonSchema for $map<T> {
            fn schema_name() -> Cow<'static, str> {
                format!("{}_for_{}", stringify!($map), T::schema_name()).into()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                let value = generator.subschema_for::<T>();
                let words: Vec<&str> = $axis::ALL.iter().map(|at| at.word()).collect();
                let properties: Map<String, Value> =
                    words.iter().map(|word| ((*word).to_owned(), value.clone().into())).collect();
                json_schema!({
                    "type": "object",
                    "properties": properties,
                    "required": words,
                })
            }
        }
    };
}

axis! {
    /// The action of a request on the data, as finely as the kernel's own counters distinguish it.
    pub enum Direction,
    /// One value for each [`Direction`]; in JSON an object whose keys are its words.
    ByDirection[5] {
        /// Reads.
        Read = "read",
        /// Writes, zeroing and secure erasing: what `/proc/diskstats` counts as writes.
        Write = "write",
        /// Cache flushes.
        Flush = "flush",
        /// Discards.
        Discard = "discard",
        /// Zone management, drivers' private commands and operations that this version does not
        /// know; the kernel's counters leave these out.
        Other = "other",
    }
}

axis! {
    /// An interval in the lifetime of a request, with btt's names. Only requests with a complete
    /// record count.
    pub enum Interval,
    /// One value for each [`Interval`]; in JSON an object whose keys are its words.
    ByInterval[7] {
        /// Queued until it got a request: wbt, iocost, tags.
        Q2g = "q2g",
        /// Got a request until it was inserted into the scheduler's queue.
        G2i = "g2i",
        /// Inserted until the last issue to the driver: the scheduler.
        I2d = "i2d",
        /// Got a request until the last issue to the driver, if it was never inserted.
        G2d = "g2d",
        /// Queued until the last issue to the driver: everything before the device.
        Q2d = "q2d",
        /// The last issue to the driver until completion: the driver and the device.
        D2c = "d2c",
        /// Queued until completion: the total.
        Q2c = "q2c",
    }
}

impl From<Operation> for Direction {
    #[inline]
    fn from(operation: Operation) -> Direction {
        match operation {
            Operation::Read => Direction::Read,
            Operation::Write | Operation::WriteZeroes | Operation::SecureErase => Direction::Write,
            Operation::Flush => Direction::Flush,
            Operation::Discard => Direction::Discard,
            Operation::Zone | Operation::Driver | Operation::Other => Direction::Other,
        }
    }
}

impl Direction {
    /// Whether it reads or writes sectors, so that an order of sectors exists.
    pub const fn has_sectors(self) -> bool {
        matches!(self, Direction::Read | Direction::Write)
    }
}

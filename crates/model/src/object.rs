//! `object!`: one line per field of `recording.json` yields the struct's field and its description.
//!
//! What does not belong here: columns of tables (see [`mod@super::table`]).

/// A field of `recording.json`, for the page that documents it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The field's name.
    pub name: &'static str,
    /// The field's type in Rust.
    pub kind: &'static str,
    /// The field's description.
    pub sentence: &'static str,
}

/// Defines an object of `recording.json`: each field's comment is also its description in the
/// documentation. A missing field is read as its default, so that older recordings stay readable.
macro_rules! object {
    (
        $(#[doc = $doc:literal])+
        pub struct $name:ident {
            $( $(#[doc = $sentence:literal])+ pub $field:ident : $type:ty ),+ $(,)?
        }
    ) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(default)]
        pub struct $name { $( $(#[doc = $sentence])+ pub $field: $type ),+ }

        impl $name {
            /// The fields, in order.
            pub const FIELDS: &'static [$crate::object::Field] = &[$(
                $crate::object::Field {
                    name: stringify!($field),
                    kind: stringify!($type),
                    sentence: concat!($($sentence),+),
                }
            ),+];
        }
    };
}
pub(super) use object;

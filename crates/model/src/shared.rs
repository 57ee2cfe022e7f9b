//! Lists that many copies of a description share: each interval of a view has an environment of
//! its own, which differs from the watch's in few fields.
//!
//! What does not belong here: what such lists hold.

#[cfg(feature = "schema")]
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
#[cfg(feature = "schema")]
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value that is copied when one of its owners changes it, and not before.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Shared<T> {
        Shared(Arc::new(value))
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Shared<BTreeMap<K, V>> {
    fn from(items: [(K, V); N]) -> Shared<BTreeMap<K, V>> {
        BTreeMap::from(items).into()
    }
}

impl<T: Clone> Shared<T> {
    /// Returns the value, copied if it has other owners.
    pub fn into_inner(self) -> T {
        Arc::unwrap_or_clone(self.0)
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<'a, T> IntoIterator for &'a Shared<T>
where
    &'a T: IntoIterator,
{
    type Item = <&'a T as IntoIterator>::Item;
    type IntoIter = <&'a T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<'a, T: Clone> IntoIterator for &'a mut Shared<T>
where
    &'a mut T: IntoIterator,
{
    type Item = <&'a mut T as IntoIterator>::Item;
    type IntoIter = <&'a mut T as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        (**self).into_iter()
    }
}

impl<T: FromIterator<Item>, Item> FromIterator<Item> for Shared<T> {
    fn from_iter<I: IntoIterator<Item = Item>>(items: I) -> Shared<T> {
        T::from_iter(items).into()
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Shared<T>, D::Error> {
        T::deserialize(deserializer).map(Shared::from)
    }
}

#[cfg(feature = "schema")]
impl<T: JsonSchema> JsonSchema for Shared<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environment::{Device, Environment};

    #[test]
    fn copies_of_an_environment_share_its_lists() {
        let mut watch = Environment::default();
        watch.devices.push(Device::default());
        watch.settings_start.insert("vm/swappiness".to_owned(), "60".to_owned());
        let mut interval = Environment { start_ns: 7, ..watch.clone() };
        assert!(std::ptr::eq(&*watch.devices, &*interval.devices));
        assert!(std::ptr::eq(&*watch.settings_start, &*interval.settings_start));
        // What an interval says of its devices is its own; their settings are not.
        interval.devices[0].stat_end = vec![1];
        assert!(watch.devices[0].stat_end.is_empty());
        let settings =
            [&watch, &interval].map(|environment| &*environment.devices[0].settings_start);
        assert!(std::ptr::eq(settings[0], settings[1]));
    }

    #[test]
    fn a_copy_is_made_by_the_first_change() {
        let mut first: Shared<Vec<u32>> = vec![1].into();
        let second = first.clone();
        assert!(std::ptr::eq(&*first, &*second));
        first.push(2);
        assert_eq!((&*first, &*second), (&vec![1, 2], &vec![1]));
        assert_eq!(serde_json::to_string(&first).unwrap(), "[1,2]");
        assert_eq!(serde_json::from_str::<Shared<Vec<u32>>>("[1,2]").unwrap(), first);
    }
}

//! Structs whose fields are flattened into another struct, read in a streaming way.
//!
//! The code that serde derives for `flatten` buffers all unknown fields, at 32 bytes for each `0,`. A forged recording
//! could take gigabytes. Here the derived code does not see the flattened fields, and unknown fields are skipped.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserializer,
    de::{DeserializeSeed, Error, IntoDeserializer, MapAccess, Visitor, value::MapAccessDeserializer},
};

/// Counters among the fields of another struct, as read so far.
pub(super) trait Part<'de>: Default {
    type Counters;

    /// How many fields they have.
    const COUNT: usize;

    /// The index of the field of this name.
    fn place(name: &str) -> Option<usize>;

    /// Reads the value of the field with this index.
    fn read<A: MapAccess<'de>>(&mut self, field: usize, map: &mut A) -> Result<(), A::Error>;

    /// Ends reading, and returns the counters.
    fn counters<E: Error>(self) -> Result<Self::Counters, E>;
}

impl<'de, A: Part<'de>, B: Part<'de>> Part<'de> for (A, B) {
    type Counters = (A::Counters, B::Counters);

    const COUNT: usize = A::COUNT + B::COUNT;

    fn place(name: &str) -> Option<usize> {
        A::place(name).or_else(|| B::place(name).map(|place| A::COUNT + place))
    }

    fn read<M: MapAccess<'de>>(&mut self, field: usize, map: &mut M) -> Result<(), M::Error> {
        match field.checked_sub(A::COUNT) {
            None => self.0.read(field, map),
            Some(field) => self.1.read(field, map),
        }
    }

    fn counters<E: Error>(self) -> Result<Self::Counters, E> {
        Ok((self.0.counters()?, self.1.counters()?))
    }
}

/// Counters that are there all together, or not at all.
#[derive(Default)]
pub(super) struct Optional<P>(P);

impl<'de, P: Part<'de>> Part<'de> for Optional<P> {
    type Counters = Option<P::Counters>;

    const COUNT: usize = P::COUNT;

    fn place(name: &str) -> Option<usize> {
        P::place(name)
    }

    fn read<A: MapAccess<'de>>(&mut self, field: usize, map: &mut A) -> Result<(), A::Error> {
        self.0.read(field, map)
    }

    fn counters<E: Error>(self) -> Result<Self::Counters, E> {
        Ok(self.0.counters::<E>().ok())
    }
}

/// A struct with counters among its fields.
pub(super) trait Whole<'de>: Sized {
    type Part: Part<'de>;

    /// Reads all other fields.
    fn others<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;

    /// Puts the counters in.
    fn with(self, counters: <Self::Part as Part<'de>>::Counters) -> Self;
}

/// Reads a struct with its counters.
pub(super) fn whole<'de, D: Deserializer<'de>, T: Whole<'de>>(deserializer: D) -> Result<T, D::Error> {
    deserializer.deserialize_map(OfWhole(PhantomData))
}

/// Puts a value where there must not be one yet.
pub(super) fn once<T, E: Error>(into: &mut Option<T>, value: T, name: &'static str) -> Result<(), E> {
    match into.replace(value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

struct OfWhole<T>(PhantomData<T>);

impl<'de, T: Whole<'de>> Visitor<'de> for OfWhole<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<T, A::Error> {
        let mut part = T::Part::default();
        let others = T::others(MapAccessDeserializer::new(Others { map, part: &mut part }))?;
        Ok(others.with(part.counters()?))
    }
}

/// The fields other than counters. Counters are read directly.
struct Others<'p, A, P> {
    map: A,
    part: &'p mut P,
}

impl<'de, A: MapAccess<'de>, P: Part<'de>> MapAccess<'de> for Others<'_, A, P> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        loop {
            match self.map.next_key_seed(OfKey(P::place))? {
                None => return Ok(None),
                Some(Key::Part(field)) => self.part.read(field, &mut self.map)?,
                Some(Key::Other(name)) => return seed.deserialize(name.into_deserializer()).map(Some),
            }
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// A field's name.
enum Key {
    /// One of the counters, by its index.
    Part(usize),
    Other(String),
}

struct OfKey(fn(&str) -> Option<usize>);

impl<'de> DeserializeSeed<'de> for OfKey {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for OfKey {
    type Value = Key;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a field name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Key, E> {
        Ok((self.0)(name).map_or_else(|| Key::Other(name.to_owned()), Key::Part))
    }
}

/// Has a struct written by what serde derives for it (`remote = "Self"`), and read by [`whole`].
macro_rules! flattened {
    ($whole:ident, $part:ty, |$self:ident, $counters:pat_param| $with:expr) => {
        impl serde::Serialize for $whole {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                Self::serialize(self, serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $whole {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                $crate::model::flattened::whole(deserializer)
            }
        }

        impl<'de> $crate::model::flattened::Whole<'de> for $whole {
            type Part = $part;

            fn others<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::deserialize(deserializer)
            }

            fn with($self, $counters: <$part as $crate::model::flattened::Part<'de>>::Counters) -> Self {
                $with
            }
        }
    };
}
pub(super) use flattened;

#[cfg(test)]
mod tests {
    use crate::model::{Cgroup, Host, Listener, ListenerTotals, Nanos, Services, Totals};

    fn cgroup(more: &str) -> Result<Cgroup, String> {
        let text = format!(
            r#"{{"id":7,"threads":5,"path":"/web","switches":1,"voluntary_switches":2,{more}"name":"web",
            "involuntary_switches":3,"cpu_ns":4,"accepts":null}}"#
        );
        serde_json::from_str(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn totals_are_among_the_other_fields_in_whatever_order() {
        let read = cgroup(r#""pick_ns":6,"unknown":[[0,0],{"switches":9}],"totals":1,"#).unwrap();
        let totals = Totals {
            switches: 1,
            voluntary_switches: 2,
            involuntary_switches: 3,
            cpu_ns: Nanos(4),
            threads: 5,
            pick_ns: Some(Nanos(6)),
            ..Totals::default()
        };
        assert_eq!((read.totals, &*read.name, &*read.path, read.id.0), (totals, "web", "/web", 7));
    }

    #[test]
    fn a_field_that_is_missing_twice_there_or_no_number_is_an_error() {
        assert!(cgroup(r#""cpu_ns":4,"#).unwrap_err().starts_with("duplicate field `cpu_ns`"));
        assert!(cgroup(r#""pick_ns":[0,0],"#).unwrap_err().starts_with("invalid type: sequence, expected u64"));
        for never in ["{}", r#"{"id":1,"path":"","name":"","switches":null}"#] {
            assert!(serde_json::from_str::<Cgroup>(never).is_err(), "{never}");
        }
        let text = serde_json::to_string(&Cgroup::default()).unwrap();
        let missing = |name: &str| serde_json::from_str::<Cgroup>(&text.replace(&format!("\"{name}\":0"), "\"x\":0"));
        assert!(missing("id").unwrap_err().to_string().starts_with("missing field `id`"));
        assert!(missing("threads").unwrap_err().to_string().starts_with("missing field `threads`"));
    }

    #[test]
    fn what_is_written_is_read() {
        let host = Host { totals: cgroup("").unwrap().totals, cpus_online: 3, ..Host::default() };
        let back: Host = serde_json::from_str(&serde_json::to_string(&host).unwrap()).unwrap();
        assert_eq!(back, host);

        let some = Some(ListenerTotals { accepts: 3, ..ListenerTotals::default() });
        for (totals, services) in [(None, None), (some, Some(Services::NONE)), (some, None)] {
            let listener = Listener { totals, services, ..Listener::new(4, "[::1]:80".parse().unwrap()) };
            let back: Listener = serde_json::from_str(&serde_json::to_string(&listener).unwrap()).unwrap();
            assert_eq!(back, listener);
        }
    }
}

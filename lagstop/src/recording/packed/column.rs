//! One figure of all cgroups.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, SeqAccess, Visitor, value::U64Deserializer},
    ser::SerializeSeq,
};

use crate::model::bounded::CGROUPS;

/// In JSON a list, or a single value where it is that of every cgroup.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Column<T> {
    Same(Option<T>),
    Each(Vec<Option<T>>),
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self::Same(None)
    }
}

impl<T: Copy + PartialEq> Column<T> {
    pub(super) fn of(values: impl ExactSizeIterator<Item = Option<T>> + Clone) -> Self {
        let first = values.clone().next().flatten();
        if values.clone().all(|value| value == first) { Self::Same(first) } else { Self::Each(values.collect()) }
    }

    /// How many values there are; `None` where one stands for all.
    pub(super) const fn len(&self) -> Option<usize> {
        match self {
            Self::Same(_) => None,
            Self::Each(values) => Some(values.len()),
        }
    }

    /// The value of the `n`th cgroup.
    pub(super) fn at(&self, n: usize) -> Option<T> {
        match self {
            Self::Same(value) => *value,
            Self::Each(values) => values.get(n).copied().flatten(),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Column<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("ColumnOf{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let value = generator.subschema_for::<Option<T>>();
        json_schema!({
            "anyOf": [value, { "type": "array", "items": value }],
            "description": "A value for each cgroup, or one value that is the same for all.",
        })
    }
}

impl<T: Serialize> Serialize for Column<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Same(value) => value.serialize(serializer),
            Self::Each(values) => {
                let mut list = serializer.serialize_seq(Some(values.len()))?;
                values.iter().try_for_each(|value| list.serialize_element(value))?;
                list.end()
            }
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Column<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ColumnVisitor(PhantomData))
    }
}

struct ColumnVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ColumnVisitor<T> {
    type Value = Column<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, null, or a list of them")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Column::Same(None))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Self::Value, E> {
        T::deserialize(U64Deserializer::new(value)).map(|value| Column::Same(Some(value)))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(serde::de::value::F64Deserializer::new(value)).map(|value| Column::Same(Some(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        // What a list says of its length is not taken at its word: it may be the file that says so.
        let mut values = Vec::with_capacity(list.size_hint().unwrap_or(0).min(4_096));
        while let Some(value) = list.next_element()? {
            if values.len() == CGROUPS {
                let problem = format!("it has a column of more than {CGROUPS} cgroups, too many for a recording");
                return Err(A::Error::custom(problem));
            }
            values.push(value);
        }
        Ok(Column::Each(values))
    }
}

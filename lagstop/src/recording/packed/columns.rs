//! The cgroups of an interval, with one column for each figure.

use std::{borrow::Cow, fmt, sync::Arc};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap,
};

use super::{Named, UnpackError, behind, column::Column, shape};
use crate::model::{
    Cgroup, CgroupId, Distribution, FileCounters, Nanos, Tasks, Totals, WaitBehind, WaitCause, bounded,
};

const IDS: &str = "id";
const LOAD: &str = "runnable_load";
const CREDIT: &str = "load_credit";
const QUOTA: &str = "quota_ns";
const SHAPES: [&str; 3] = ["switch_cost", "runq_wait", "accept_wait"];
/// It is the sum of two others.
const SWITCHES: &str = "switches";
/// It is what all other causes leave of the waits.
const BEHIND: &str = "wait_behind_ns";

/// A load that is off by no more than this is the one that is computed: half of the last digit that is written.
const LOAD_ROUNDING: f64 = 0.000_5 / crate::model::KERNEL_LOAD;

/// A column for each field of [`Cgroup`].
///
/// Three columns are omitted if they follow from others: `switches`, `wait_behind_ns`, and `runnable_load`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Columns {
    ids: Vec<CgroupId>,
    totals: [Column<u64>; Totals::COUNT],
    /// `None` if it equals the computed load.
    load: Option<Column<Tasks>>,
    credit: Column<Tasks>,
    files: [Column<u64>; FileCounters::COUNT],
    quota: Column<u64>,
    /// The words of all cgroups. `None` if none was measured.
    shapes: [Option<String>; 3],
    /// The words for the cgroups that they wait behind. `None` if there are none.
    behind: Option<String>,
}

impl Columns {
    pub(super) fn of(cgroups: &[Cgroup], duration: Nanos) -> Self {
        let totals: Vec<[Option<u64>; Totals::COUNT]> = cgroups.iter().map(|cgroup| cgroup.totals.figures()).collect();
        let files: Vec<[Option<u64>; FileCounters::COUNT]> =
            cgroups.iter().map(|cgroup| cgroup.files.figures()).collect();
        let follows = |cgroup: &Cgroup| match (cgroup.runnable_load, cgroup.totals.runnable_load(duration)) {
            (Some(load), Some(computed)) => (load.0 - computed.0).abs() <= LOAD_ROUNDING,
            (load, computed) => load == computed,
        };
        let shapes = |of: fn(&Cgroup) -> Option<&Distribution>| {
            let mut words = String::new();
            for (n, cgroup) in cgroups.iter().enumerate() {
                if n > 0 {
                    words.push(' ');
                }
                shape::push(&mut words, of(cgroup));
            }
            cgroups.iter().any(|cgroup| of(cgroup).is_some()).then_some(words)
        };
        let mut totals = std::array::from_fn(|figure| Column::of(totals.iter().map(|of| of[figure])));
        if let Some(place) = Self::place(BEHIND)
            && cgroups.iter().all(|cgroup| cgroup.totals.wait_behind_ns == rest_of_waits(&cgroup.totals))
        {
            totals[place] = Column::default();
        }
        Self {
            ids: cgroups.iter().map(|cgroup| cgroup.id).collect(),
            totals,
            load: (!cgroups.iter().all(follows)).then(|| Column::of(cgroups.iter().map(|it| it.runnable_load))),
            credit: Column::of(cgroups.iter().map(|cgroup| cgroup.load_credit)),
            files: std::array::from_fn(|figure| Column::of(files.iter().map(|of| of[figure]))),
            quota: Column::of(cgroups.iter().map(|cgroup| cgroup.quota_ns.map(|time| time.0))),
            shapes: [
                shapes(|cgroup| cgroup.switch_cost.as_ref()),
                shapes(|cgroup| cgroup.runq_wait.as_ref()),
                shapes(|cgroup| cgroup.accept_wait.as_ref()),
            ],
            behind: behind::words(cgroups),
        }
    }

    /// Do they hold all of a cgroup? Those that lagstop measured have all causes of waits or none, and few culprits.
    pub(super) fn hold(cgroup: &Cgroup) -> bool {
        cgroup.waits_behind.len() <= WaitBehind::NAMED
            && (cgroup.totals.wait_behind_ns.is_some() || rest_of_waits(&cgroup.totals).is_none())
    }

    /// The cgroups, called as `name` has it.
    pub(super) fn cgroups<'n>(
        &self,
        duration: Nanos,
        name: impl Fn(CgroupId) -> Result<&'n Named, UnpackError>,
    ) -> Result<Vec<Cgroup>, UnpackError> {
        self.check_lengths()?;
        let mut shapes = Vec::with_capacity(SHAPES.len());
        for (column, words) in SHAPES.into_iter().zip(&self.shapes) {
            shapes.push(self.distributions(column, words.as_deref())?);
        }
        let behind = |words: &String| behind::read(words, &self.ids);
        let mut behind = self.behind.as_ref().map(behind).transpose()?;
        let mut cgroups = Vec::with_capacity(self.ids.len());
        for (n, &id) in self.ids.iter().enumerate() {
            let Named { path, name, workload, levels, cpus, .. } = name(id)?;
            let mut totals = Totals::from_figures(std::array::from_fn(|figure| self.totals[figure].at(n)));
            if Self::place(SWITCHES).is_none_or(|place| self.totals[place].at(n).is_none()) {
                totals.switches = totals.voluntary_switches.saturating_add(totals.involuntary_switches);
            }
            totals.wait_behind_ns = totals.wait_behind_ns.or_else(|| rest_of_waits(&totals));
            let behind = behind.as_mut().map(|all| std::mem::take(&mut all[n])).unwrap_or_default();
            let all = totals.wait_behind_ns.unwrap_or_default();
            let load = self.load.as_ref().map_or_else(|| totals.runnable_load(duration), |load| load.at(n));
            let mut shape = |kind: usize| shapes[kind].as_mut().and_then(|all| all[n].take());
            cgroups.push(Cgroup {
                id,
                path: Arc::clone(path),
                name: Arc::clone(name),
                workload: workload.clone(),
                levels: levels.clone(),
                cpus: cpus.clone(),
                totals,
                waits_behind: behind.into_iter().map(|(id, part)| WaitBehind::of(id, part, all)).collect(),
                runnable_load: load,
                load_credit: self.credit.at(n),
                entitled_cpu: None,
                files: FileCounters::from_figures(std::array::from_fn(|figure| self.files[figure].at(n))),
                quota_ns: self.quota.at(n).map(Nanos),
                switch_cost: shape(0),
                runq_wait: shape(1),
                accept_wait: shape(2),
            });
        }
        Ok(cgroups)
    }

    fn check_lengths(&self) -> Result<(), UnpackError> {
        let expected = self.ids.len();
        let totals = Totals::NAMES.into_iter().zip(self.totals.iter().map(Column::len));
        let files = FileCounters::NAMES.into_iter().zip(self.files.iter().map(Column::len));
        let others =
            [(LOAD, self.load.as_ref().and_then(Column::len)), (CREDIT, self.credit.len()), (QUOTA, self.quota.len())];
        match totals.chain(files).chain(others).find(|(_, len)| len.is_some_and(|len| len != expected)) {
            Some((column, len)) => Err(UnpackError::Length { column, found: len.unwrap_or_default(), expected }),
            None => Ok(()),
        }
    }

    fn distributions(
        &self,
        column: &'static str,
        words: Option<&str>,
    ) -> Result<Option<Vec<Option<Distribution>>>, UnpackError> {
        let Some(words) = words else { return Ok(None) };
        let expected = self.ids.len();
        // No cgroups have no word, not an empty one.
        let found = if expected > 0 { words.split(' ').count() } else { 0 };
        if found != expected {
            return Err(UnpackError::Length { column, found, expected });
        }
        let mut all = Vec::with_capacity(expected);
        for word in words.split(' ').take(expected) {
            all.push(shape::read(word).ok_or_else(|| UnpackError::Shape(word.chars().take(40).collect()))?);
        }
        Ok(Some(all))
    }

    fn place(name: &str) -> Option<usize> {
        Totals::NAMES.iter().position(|known| *known == name)
    }

    /// Is each number of switches the sum of the voluntary and the involuntary ones, so that it need not be written?
    fn switches_follow(&self) -> bool {
        let column = |name: &str| Self::place(name).map(|place| &self.totals[place]);
        let (Some(all), Some(voluntary), Some(involuntary)) =
            (column(SWITCHES), column("voluntary_switches"), column("involuntary_switches"))
        else {
            return false;
        };
        let number = |column: &Column<u64>, n| column.at(n).unwrap_or_default();
        (0..self.ids.len()).all(|n| number(all, n) == number(voluntary, n).saturating_add(number(involuntary, n)))
    }
}

/// What the other causes leave of all waits.
fn rest_of_waits(totals: &Totals) -> Option<Nanos> {
    let mut others = WaitCause::ALL.into_iter().filter(|cause| *cause != WaitCause::OtherCgroups);
    others.try_fold(totals.runq_wait_ns?.0, |rest, cause| rest.checked_sub(cause.of(totals)?.0)).map(Nanos)
}

impl JsonSchema for Columns {
    fn schema_name() -> Cow<'static, str> {
        "Columns".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut properties = serde_json::Map::new();
        let ids = json_schema!({
            "type": "array",
            "items": { "type": "integer" },
            "description": "The cgroups' ids, each as the difference from the previous id.",
        });
        properties.insert(IDS.to_owned(), ids.into());
        let counts = generator.subschema_for::<Column<u64>>();
        for name in Totals::NAMES.into_iter().chain(FileCounters::NAMES).chain([QUOTA]) {
            properties.insert(name.to_owned(), counts.clone().into());
        }
        let loads = generator.subschema_for::<Column<Tasks>>();
        for name in [LOAD, CREDIT] {
            properties.insert(name.to_owned(), loads.clone().into());
        }
        let words = json_schema!({
            "type": ["string", "null"],
            "pattern": "^((-|(Z*[a-z]([1-9][0-9]*)?)*)( |$))*$",
            "description": "One word for the distribution of each cgroup; null if none was measured.",
        });
        for name in SHAPES {
            properties.insert(name.to_owned(), words.clone().into());
        }
        let words_behind = json_schema!({
            "type": "string",
            "pattern": "^([0-9]+:[0-9]+|[, ])*$",
            "description": "For each cgroup, the cgroups that it waited behind longest: index in the interval, and thousandths of all its wait behind others.",
        });
        properties.insert(behind::COLUMN.to_owned(), words_behind.into());
        json_schema!({ "type": "object", "properties": properties, "required": [IDS] })
    }
}

impl Serialize for Columns {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(IDS, &Steps(Cow::Borrowed(&self.ids)))?;
        let follows = self.switches_follow();
        for (name, column) in Totals::NAMES.into_iter().zip(&self.totals) {
            if !(follows && name == SWITCHES) {
                map.serialize_entry(name, column)?;
            }
        }
        if let Some(load) = &self.load {
            map.serialize_entry(LOAD, load)?;
        }
        map.serialize_entry(CREDIT, &self.credit)?;
        for (name, column) in FileCounters::NAMES.into_iter().zip(&self.files) {
            map.serialize_entry(name, column)?;
        }
        map.serialize_entry(QUOTA, &self.quota)?;
        for (name, words) in SHAPES.into_iter().zip(&self.shapes) {
            map.serialize_entry(name, words)?;
        }
        if let Some(words) = &self.behind {
            map.serialize_entry(behind::COLUMN, words)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Columns {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ColumnsVisitor)
    }
}

struct ColumnsVisitor;

impl<'de> Visitor<'de> for ColumnsVisitor {
    type Value = Columns;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("columns of cgroups")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Columns, A::Error> {
        let mut columns = Columns::default();
        let place = |names: &[&str], key: &str| names.iter().position(|name| *name == key);
        while let Some(key) = map.next_key::<Cow<'_, str>>()? {
            match &*key {
                IDS => columns.ids = map.next_value::<Steps<'_>>()?.0.into_owned(),
                LOAD => columns.load = Some(map.next_value()?),
                CREDIT => columns.credit = map.next_value()?,
                QUOTA => columns.quota = map.next_value()?,
                behind::COLUMN => columns.behind = map.next_value()?,
                key => {
                    if let Some(place) = place(&Totals::NAMES, key) {
                        columns.totals[place] = map.next_value()?;
                    } else if let Some(place) = place(&FileCounters::NAMES, key) {
                        columns.files[place] = map.next_value()?;
                    } else if let Some(place) = place(&SHAPES, key) {
                        columns.shapes[place] = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
            }
        }
        Ok(columns)
    }
}

/// Ids, each as its difference to the one before: they ascend, mostly in small steps. Steps are signed: where the first id, or the
/// distance of two, is larger than the largest signed number, they wrap.
struct Steps<'i>(Cow<'i, [CgroupId]>);

impl Serialize for Steps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let before = std::iter::once(0).chain(self.0.iter().map(|id| id.0));
        serializer.collect_seq(self.0.iter().zip(before).map(|(id, before)| id.0.wrapping_sub(before).cast_signed()))
    }
}

impl<'de> Deserialize<'de> for Steps<'_> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut ids: Vec<CgroupId> = Vec::new();
        for step in bounded::list::<_, i64>("cgroups", bounded::CGROUPS, deserializer)? {
            let last = ids.last().map(|last| last.0);
            let id = last.unwrap_or(0).wrapping_add_signed(step);
            if last.is_some_and(|last| last >= id) {
                let problem = format!("the ids of its cgroups do not ascend: after {} comes {id}", last.unwrap_or(0));
                return Err(D::Error::custom(problem));
            }
            ids.push(CgroupId(id));
        }
        Ok(Self(Cow::Owned(ids)))
    }
}

//! The lines of a recording.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::packed::{Named, PackedInterval};
use crate::model::{Interval, Lost, Nanos, Session};

/// Version of the format. It changes when a reader of the old one would misread the new one; new fields alone do not.
///
/// 2: intervals may be packed, and there may be gaps.
pub const SCHEMA: u32 = 2;
/// The oldest version that is still read.
pub(super) const OLDEST_SCHEMA: u32 = 1;

/// One line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(clippy::large_enum_variant, reason = "a recording has one header")]
pub enum Line {
    /// The first line.
    Header {
        /// Version of the format: [`SCHEMA`] of the writer.
        schema: u32,
        /// Host and settings of all intervals.
        #[serde(flatten)]
        session: Session,
    },
    /// Differences between two readings.
    Interval(Box<Interval>),
    /// Names of the cgroups in the packed intervals that follow.
    Names { cgroups: Vec<Named> },
    /// Differences between two readings, in columns.
    Packed(Box<PackedInterval>),
    /// All intervals of a chunk, merged into one and packed.
    Merged(Box<PackedInterval>),
    /// The last line of a chunk that is followed as it comes: names are said again after it.
    ChunkEnd,
    /// A time in which nothing was measured.
    Gap(Gap),
    /// The last line. Missing if the recording was cut off.
    Footer(Footer),
}

/// A time in which nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// When the gap was found, on the clock of the intervals.
    pub start_ns: Nanos,
    /// Length of the gap.
    pub duration_ns: Nanos,
    /// Why nothing was measured.
    pub reason: String,
}

impl Gap {
    /// A time in which a sentinel only watched.
    pub fn calm(start_ns: Nanos, duration_ns: Nanos) -> Self {
        Self { start_ns, duration_ns, reason: "calm: no programs were attached".to_owned() }
    }

    /// When it ended, on the clock of the intervals.
    pub const fn end(&self) -> Nanos {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// The end of a complete recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Footer {
    /// End time, RFC 3339.
    pub ended_at: String,
    /// Number of intervals.
    pub intervals: u64,
    /// Why it ended: `duration`, `interrupted`, or an error's message.
    pub reason: String,
    /// Events that could not be measured, over the whole recording.
    pub lost: Lost,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cgroup, CgroupId, Cpu, CpuTotals, Crowding, Distribution, Place, Tasks, Totals};

    fn interval() -> Interval {
        let totals = Totals { switches: 3, voluntary_switches: 3, pick_ns: Some(Nanos(5_000)), ..Totals::default() };
        Interval {
            seq: 1,
            duration_ns: Nanos::SECOND,
            cgroups: vec![Cgroup {
                id: CgroupId(42),
                path: "/a\u{1b}[31m".into(),
                totals,
                runnable_load: Some(Tasks(0.5)),
                switch_cost: Some(Distribution::of([(Nanos(1_000), 3)])),
                ..Cgroup::default()
            }],
            cpus: vec![Cpu {
                cpu: 3,
                totals: CpuTotals { busy_ns: Nanos(7), ..CpuTotals::default() },
                crowd: vec![Crowding { id: CgroupId(42), cpu_ns: Nanos(7), runq_wait_ns: None }],
            }],
            ..Interval::default()
        }
    }

    fn session() -> Session {
        let topology = vec![Place { cpu: 3, llc: 2, numa: 1 }];
        Session { hostname: "h".to_owned(), topology, ..Session::default() }
    }

    #[test]
    fn lines_come_back_as_they_were_written() {
        let lines = [
            Line::Header { schema: SCHEMA, session: session() },
            Line::Interval(Box::new(interval())),
            Line::Footer(Footer { intervals: 1, ..Footer::default() }),
        ];
        for line in lines {
            let text = serde_json::to_string(&line).unwrap();
            assert!(!text.contains('\n') && !text.contains('\u{1b}'), "{text}");
            let back: Line = serde_json::from_str(&text).unwrap();
            // Distributions come back in HdrHistogram's own bins; what they encode to is the same.
            assert_eq!(serde_json::to_string(&back).unwrap(), text);
        }
    }

    #[test]
    fn an_interval_has_the_fields_that_readers_count_on() {
        let value = serde_json::to_value(Line::Interval(Box::new(interval()))).unwrap();
        for field in ["kind", "seq", "start_ns", "duration_ns", "host", "cgroups", "cpus", "listeners"] {
            assert!(value.get(field).is_some(), "{field}");
        }
        for field in [
            "id",
            "path",
            "name",
            "switches",
            "voluntary_switches",
            "involuntary_switches",
            "cross_cgroup_switches",
            "schedule_calls",
            "pick_ns",
            "swap_ns",
            "pick_function_ns",
            "cpu_ns",
            "runq_waits",
            "runq_wait_ns",
            "runnable_load",
            "load_credit",
            "migrations",
            "migrations_cross_llc",
            "migrations_cross_numa",
            "nr_periods",
            "nr_throttled",
            "throttled_ns",
            "accepts",
            "accept_wait_ns",
            "threads",
            "switch_cost",
            "runq_wait",
            "accept_wait",
        ] {
            assert!(value["cgroups"][0].get(field).is_some(), "{field}");
        }
        for field in ["switches", "pick_ns", "idle", "cpu_ns", "busy_ns", "idle_ns", "steal_ns", "self_cpu_ns", "lost"]
        {
            assert!(value["host"].get(field).is_some(), "{field}");
        }
        for field in
            ["cpu", "switches", "pick_ns", "swap_ns", "runq_waits", "runq_wait_ns", "busy_ns", "idle_ns", "crowd"]
        {
            assert!(value["cpus"][0].get(field).is_some(), "{field}");
        }
        for field in ["id", "cpu_ns", "runq_wait_ns"] {
            assert!(value["cpus"][0]["crowd"][0].get(field).is_some(), "{field}");
        }
        assert_eq!(value["cpus"][0]["crowd"][0]["runq_wait_ns"], serde_json::Value::Null);
        assert!(value["cgroups"][0].get("by_cpu").is_none(), "cgroups' lines stay short");
        assert_eq!(value["cgroups"][0]["swap_ns"], serde_json::Value::Null, "not measured is null");
        assert_eq!(value["cgroups"][0]["runnable_load"], 512.0, "in the kernel's unit");
    }

    #[test]
    fn the_header_says_where_cpus_sit() {
        let value = serde_json::to_value(Line::Header { schema: SCHEMA, session: session() }).unwrap();
        assert_eq!(value["topology"], serde_json::json!([{ "cpu": 3, "llc": 2, "numa": 1 }]));
    }

    #[test]
    fn recordings_from_before_cpus_were_in_them_are_read() {
        let mut value = serde_json::to_value(Line::Interval(Box::new(interval()))).unwrap();
        value.as_object_mut().unwrap().remove("cpus");
        let Line::Interval(back) = serde_json::from_value(value).unwrap() else { panic!("not an interval") };
        assert_eq!(back.cpus, []);
    }
}

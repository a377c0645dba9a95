//! Lists read from a recording, with limits on their length.
//!
//! A recording may come from an untrusted source, and two bytes of text can become a struct of hundreds of bytes. A
//! list longer than any that lagstop records is refused at the first excess item, before memory is allocated for it.

use std::{fmt, sync::Arc};

use serde::{
    Deserialize, Deserializer,
    de::{Error, IgnoredAny, SeqAccess, Visitor},
};

use super::CgroupId;

/// Cgroups in an interval: the maximum of `--max-cgroups`, 100,000, the row `(other)`, and some that were removed.
pub(crate) const CGROUPS: usize = 100 << 10;
/// CPUs: `NR_CPUS` of the largest kernels (arch/x86/Kconfig, MAXSMP).
pub(crate) const CPUS: usize = 8_192;
/// Listening addresses, over all network namespaces.
pub(crate) const LISTENERS: usize = 1 << 16;
/// Network namespaces with listeners.
pub(crate) const NAMESPACES: usize = 1 << 16;
/// Cgroups that are listed for a CPU. lagstop lists [`super::Cpu::CROWD`].
const CROWD: usize = 64;
/// Cgroups that a cgroup waits behind. lagstop lists [`super::WaitBehind::NAMED`].
const BEHIND: usize = 64;
/// Levels of a cgroup: more than a path of `PATH_MAX` can have.
const LEVELS: usize = 2_048;
/// Levels of all cgroups of an interval together: this many for each cgroup, plus a constant. A level takes only three
/// bytes in the file: `{},`.
const LEVELS_EACH: usize = 16;
const LEVELS_FREE: usize = 1 << 16;
/// Measures.
const HOOKS: usize = 1_024;
/// Files of a controller.
const FILES: usize = 1_024;

/// Are `known` cgroups no more than an interval may have, together with those of `next` that are not among them?
pub(crate) fn have_room(
    known: usize,
    next: impl ExactSizeIterator<Item = CgroupId>,
    is_known: impl Fn(CgroupId) -> bool,
) -> bool {
    // Usually they are the same, and far fewer. Then no lookup is needed.
    known.saturating_add(next.len()) <= CGROUPS
        || known.saturating_add(next.filter(|id| !is_known(*id)).count()) <= CGROUPS
}

/// A list of at most `most`.
struct List<T> {
    what: &'static str,
    most: usize,
    levels: fn(&T) -> usize,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for List<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of {}", self.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let Self { what, most, levels } = self;
        // The length that a list announces is not trusted.
        let (mut all, mut depth) = (Vec::new(), 0);
        while all.len() < most {
            let Some(one) = list.next_element()? else { return Ok(all) };
            depth += levels(&one);
            all.push(one);
            if depth > LEVELS_FREE + LEVELS_EACH * all.len() {
                return Err(A::Error::custom(format_args!("its {what} are nested too deep for a recording")));
            }
        }
        match list.next_element::<IgnoredAny>()? {
            Some(_) => Err(A::Error::custom(format_args!("it has more than {most} {what}, too many for a recording"))),
            None => Ok(all),
        }
    }
}

/// Reads a list of at most `most`, which are called `what`.
pub(crate) fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    what: &'static str,
    most: usize,
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List { what, most, levels: |_| 0 })
}

/// The cgroups of an interval, each with so many `levels`.
pub(crate) fn cgroups<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    levels: fn(&T) -> usize,
    deserializer: D,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(List { what: "cgroups", most: CGROUPS, levels })
}

/// The CPUs of an interval.
pub(crate) fn cpus<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("CPUs", CPUS, deserializer)
}

/// Where the CPUs of a host sit.
pub(crate) fn places<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("CPUs", CPUS, deserializer)
}

/// Who crowds a CPU.
pub(crate) fn crowd<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("cgroups that use a CPU most", CROWD, deserializer)
}

/// The cgroups that a cgroup waits behind.
pub(crate) fn behind<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("cgroups that a cgroup waits behind", BEHIND, deserializer)
}

/// The listeners of an interval.
pub(crate) fn listeners<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("listeners", LISTENERS, deserializer)
}

/// The network namespaces of an interval.
pub(crate) fn namespaces<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("network namespaces", NAMESPACES, deserializer)
}

/// What a session measures.
pub(crate) fn hooks<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    list("hooks", HOOKS, deserializer)
}

/// Names of files.
pub(crate) fn files<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    list("files of the cpu controller", FILES, deserializer)
}

/// What a cgroup is entitled to.
pub(crate) fn levels<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<Arc<[T]>>, D::Error> {
    struct Levels<T>(Vec<T>);
    impl<'de, T: Deserialize<'de>> Deserialize<'de> for Levels<T> {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            list("levels", LEVELS, deserializer).map(Self)
        }
    }
    Ok(Option::<Levels<T>>::deserialize(deserializer)?.map(|levels| levels.0.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Cgroup, Cpu, Interval, Level, Session};

    /// An empty interval or session whose list `field` has `count` times `item`.
    fn with(value: &impl serde::Serialize, field: &str, item: &str, count: usize) -> String {
        let mut value = serde_json::to_value(value).unwrap();
        value[field] = serde_json::Value::Null;
        let items = vec![item; count].join(",");
        let text = value.to_string();
        text.replacen(&format!("\"{field}\":null"), &format!("\"{field}\":[{items}]"), 1)
    }

    #[test]
    fn a_list_may_be_as_long_as_a_host_makes_it_and_no_longer() {
        let cgroup = r#"{"id":1,"path":"","name":"","switches":0,"voluntary_switches":0,"involuntary_switches":0,
            "cpu_ns":0,"threads":0}"#;
        let cpu = serde_json::to_string(&Cpu::default()).unwrap();
        let namespace = r#"{"netns":1,"listen_overflows":null}"#;
        for (field, item, most, what) in [
            ("cgroups", cgroup, CGROUPS, "cgroups"),
            ("cpus", cpu.as_str(), CPUS, "CPUs"),
            ("network_namespaces", namespace, NAMESPACES, "network namespaces"),
        ] {
            let read = |count| serde_json::from_str::<Interval>(&with(&<Interval>::default(), field, item, count));
            assert!(read(most).is_ok(), "{field}");
            let error = read(most + 1).unwrap_err().to_string();
            assert!(error.starts_with(&format!("it has more than {most} {what}, too many for a recording")), "{error}");
        }
        let read = |count| {
            let place = r#"{"cpu":0,"llc":0,"numa":0}"#;
            serde_json::from_str::<Session>(&with(&Session::default(), "topology", place, count))
        };
        assert!(read(CPUS).is_ok() && read(CPUS + 1).is_err());
        let crowded = |count| serde_json::from_str::<Cpu>(&with(&Cpu::default(), "crowd", CROWDING, count));
        assert!(crowded(CROWD).is_ok() && crowded(CROWD + 1).is_err());
    }

    const CROWDING: &str = r#"{"id":1,"cpu_ns":0,"runq_wait_ns":null}"#;

    /// The first one too many is not even looked at.
    #[test]
    fn what_is_too_much_is_refused_before_it_is_read() {
        let listener = r#"{"netns":1,"address":"127.0.0.1:1","cgroup":null,"sockets":null,"backlog":null,
            "backlog_capacity":null,"totals":null}"#;
        let good = with(&<Interval>::default(), "listeners", listener, 1);
        assert!(serde_json::from_str::<Interval>(&good).is_ok());
        let wrong = with(&<Interval>::default(), "listeners", &vec![listener; LISTENERS].join(","), 1);
        // The excess item is not a listener. The error still reports the excess.
        let wrong = wrong.replacen("}]", "},7]", 1);
        let error = serde_json::from_str::<Interval>(&wrong).unwrap_err().to_string();
        assert!(error.contains("more than 65536 listeners"), "{error}");
    }

    #[test]
    fn levels_are_bounded_and_may_be_missing() {
        let read = |levels: &str| {
            let text = serde_json::to_string(&Cgroup::default()).unwrap();
            serde_json::from_str::<Cgroup>(&text.replacen('{', &format!("{{{levels}"), 1))
        };
        assert_eq!(read("").unwrap().levels, None);
        assert_eq!(read(r#""levels":null,"#).unwrap().levels, None);
        assert_eq!(read(r#""levels":[{}],"#).unwrap().levels.map(|levels| levels.len()), Some(1));
        let many = |count| format!("\"levels\":[{}],", vec!["{}"; count].join(","));
        assert!(read(&many(LEVELS)).is_ok());
        assert!(read(&many(LEVELS + 1)).unwrap_err().to_string().contains("more than 2048 levels"));
    }

    /// A single cgroup may be deep, but not all of many cgroups.
    #[test]
    fn levels_of_all_cgroups_together_are_bounded() {
        let deep = Cgroup { levels: Some(vec![Level::DEFAULT; LEVELS].into()), ..Cgroup::default() };
        let read = |count| {
            let cgroup = serde_json::to_string(&deep).unwrap();
            serde_json::from_str::<Interval>(&with(&<Interval>::default(), "cgroups", &cgroup, count))
        };
        assert!(read(32).is_ok());
        assert!(read(33).unwrap_err().to_string().starts_with("its cgroups are nested too deep"));
    }
}

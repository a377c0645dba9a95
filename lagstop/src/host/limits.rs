//! What a cgroup may use, as its files say.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
    str::FromStr,
};

use super::hierarchy::{Hierarchy, Version};
use crate::model::{CgroupLimits, Level, Nanos, Quota};

/// The limits of the cgroup with this path in `hierarchy`. What has no file, as all of it in the root, is `None`.
pub fn limits(hierarchy: &Hierarchy, path: &str) -> CgroupLimits {
    let cpusets = hierarchy.with_cpusets();
    CgroupLimits {
        cpus: cpusets.and_then(|cpusets| cpus(cpusets.version, &cpusets.directory(path)?, &cpusets.mount)),
        ..hierarchy.directory(path).map(|directory| of_directory(hierarchy.version, &directory)).unwrap_or_default()
    }
}

const fn default_weight(version: Version) -> u64 {
    match version {
        Version::V1 => 1_024,
        Version::V2 => 100,
    }
}

/// What the `cpu` controller says.
fn of_directory(version: Version, directory: &Path) -> CgroupLimits {
    let file = |name: &str| whole(&directory.join(name)).ok();
    let weight = match version {
        Version::V1 => file("cpu.shares"),
        Version::V2 => file("cpu.weight"),
    };
    CgroupLimits {
        quota: quota(version, directory),
        weight: weight.as_deref().and_then(number),
        default_weight: default_weight(version),
        idle: file("cpu.idle").and_then(|text| number::<i64>(&text)).map(|idle| idle != 0),
        cpus: None,
    }
}

/// The quota of the cgroup in `directory`. `None` where it has no such file.
pub(super) fn quota(version: Version, directory: &Path) -> Option<Quota> {
    let file = |name: &str| whole(&directory.join(name)).ok();
    match version {
        Version::V1 => quota_v1(&file("cpu.cfs_quota_us")?, &file("cpu.cfs_period_us")?),
        Version::V2 => quota_v2(&file("cpu.max")?),
    }
}

/// `<quota> <period>` in microseconds; the quota is `max` where it is unlimited.
pub(super) fn quota_v2(text: &str) -> Option<Quota> {
    let (quota, period) = text.trim().split_once(' ')?;
    let quota_ns = if quota == "max" { None } else { Some(micros(number(quota)?)) };
    Some(Quota { quota_ns, period_ns: micros(number(period)?) })
}

/// The quota is -1 where it is unlimited.
pub(super) fn quota_v1(quota: &str, period: &str) -> Option<Quota> {
    let quota: i64 = number(quota)?;
    Some(Quota { quota_ns: u64::try_from(quota).ok().map(micros), period_ns: micros(number(period)?) })
}

const fn micros(us: u64) -> Nanos {
    Nanos(us.saturating_mul(1_000))
}

fn number<N: FromStr>(text: &str) -> Option<N> {
    text.trim().parse().ok()
}

/// The CPUs that the cgroup in `directory` may run on. In version 2 a cgroup to which the controller is not handed down
/// has those of the next above it that has it. In version 1 a cgroup that is not in the controller's hierarchy says nothing.
fn cpus(version: Version, directory: &Path, mount: &Path) -> Option<String> {
    match version {
        Version::V1 => own_cpus(version, directory),
        Version::V2 => directory
            .ancestors()
            .take_while(|ancestor| ancestor.starts_with(mount))
            .find_map(|ancestor| own_cpus(version, ancestor)),
    }
}

/// The CPUs that the file of the cgroup in `directory` names. `None` where there is no such file, or it is empty.
pub(super) fn own_cpus(version: Version, directory: &Path) -> Option<String> {
    let file = match version {
        Version::V1 => "cpuset.effective_cpus",
        Version::V2 => "cpuset.cpus.effective",
    };
    let found = whole(&directory.join(file)).ok()?;
    Some(found.trim().to_owned()).filter(|cpus| !cpus.is_empty())
}

/// What the cgroup in `directory` is entitled to among its siblings. `None` if that cannot be told, e.g. because the cgroup is
/// gone; what an older kernel lacks has its default.
pub(crate) fn level(version: Version, directory: &Path) -> Option<Level> {
    let file = |name: &str| file(&directory.join(name));
    let weight: u64 = match version {
        Version::V1 => number(&file("cpu.shares")??)?,
        Version::V2 => match file("cpu.weight")? {
            Some(weight) => number(&weight)?,
            // Not handed down to it, unless the cgroup is gone.
            None => return directory.is_dir().then_some(Level { weight: None, ..Level::DEFAULT }),
        },
    };
    let is_idle = weight == weight_when_idle(version)
        && match file("cpu.idle")? {
            Some(idle) => number::<i64>(&idle)? != 0,
            None => false,
        };
    if weight == 0 && !is_idle {
        return None;
    }
    let quota = match version {
        Version::V1 => match file("cpu.cfs_quota_us")? {
            Some(quota) if number::<i64>(&quota)? >= 0 => Some(quota_v1(&quota, &file("cpu.cfs_period_us")??)?),
            _ => None,
        },
        Version::V2 => match file("cpu.max")? {
            Some(quota) => Some(quota_v2(&quota)?),
            None => None,
        },
    };
    let quota = quota.filter(|quota| quota.quota_ns.is_some());
    let weight = weight as f64 * Level::DEFAULT_WEIGHT / default_weight(version) as f64;
    Some(Level {
        weight: Some(if is_idle { Level::IDLE_WEIGHT } else { weight }),
        is_idle,
        quota_ns: quota.and_then(|quota| quota.quota_ns),
        period_ns: quota.map(|quota| quota.period_ns),
    })
}

/// What the weight file says of a cgroup with `cpu.idle`, and hardly of any other: `WEIGHT_IDLEPRIO` (kernel/sched/sched.h), which
/// version 2 scales from 1024 to 100 and rounds.
const fn weight_when_idle(version: Version) -> u64 {
    match version {
        Version::V1 => 3,
        Version::V2 => 0,
    }
}

/// What is in a file; `Some(None)` where there is none, and `None` where it cannot be read.
fn file(path: &Path) -> Option<Option<String>> {
    match whole(path) {
        Ok(text) => Some(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Some(None),
        Err(_) => None,
    }
}

/// Reads a small file of the kernel with one read: asking for its size first, and reading on to its end, would take twice as many
/// calls, and many files are read.
fn whole(path: &Path) -> io::Result<String> {
    const TOO_LARGE: usize = 4 << 10;
    let mut bytes = [0; TOO_LARGE];
    let length = File::open(path)?.read(&mut bytes)?;
    match String::from_utf8(bytes[..length].to_vec()) {
        Ok(text) if length < TOO_LARGE => Ok(text),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn home(files: &[(&str, &str)]) -> tempfile::TempDir {
        let home = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(home.path().join(name), text).unwrap();
        }
        home
    }

    #[test]
    fn version_2_is_read() {
        let home = home(&[("cpu.max", "20000 100000\n"), ("cpu.weight", "50\n"), ("cpu.idle", "0\n")]);
        let quota = Quota { quota_ns: Some(Nanos(20_000_000)), period_ns: Nanos(100_000_000) };
        let expected =
            CgroupLimits { quota: Some(quota), weight: Some(50), default_weight: 100, idle: Some(false), cpus: None };
        assert_eq!(of_directory(Version::V2, home.path()), expected);
        assert_eq!(quota_v2("max 100000\n"), Some(Quota { quota_ns: None, period_ns: Nanos(100_000_000) }));
        assert_eq!(quota_v2("some 100000\n"), None);
    }

    #[test]
    fn version_1_is_read() {
        let home = home(&[("cpu.cfs_quota_us", "50000\n"), ("cpu.cfs_period_us", "20000\n"), ("cpu.shares", "2048\n")]);
        let quota = Quota { quota_ns: Some(Nanos(50_000_000)), period_ns: Nanos(20_000_000) };
        let expected =
            CgroupLimits { quota: Some(quota), weight: Some(2_048), default_weight: 1_024, idle: None, cpus: None };
        assert_eq!(of_directory(Version::V1, home.path()), expected);
        assert_eq!(
            quota_v1("-1\n", "100000\n"),
            Some(Quota { quota_ns: None, period_ns: Nanos(100_000_000) }),
            "unlimited"
        );
    }

    #[test]
    fn what_has_no_file_is_unknown() {
        let home = home(&[]);
        for version in [Version::V1, Version::V2] {
            let expected = CgroupLimits { default_weight: default_weight(version), ..CgroupLimits::default() };
            assert_eq!(of_directory(version, home.path()), expected);
            assert_eq!(cpus(version, home.path(), home.path()), None);
        }
    }

    #[test]
    fn the_cpus_are_those_of_the_next_above_in_version_2_alone() {
        let home = home(&[("cpuset.cpus.effective", "0-3,7\n"), ("cpuset.effective_cpus", "0-1\n")]);
        let inner = home.path().join("a/b");
        fs::create_dir_all(&inner).unwrap();
        assert_eq!(cpus(Version::V2, &inner, home.path()).as_deref(), Some("0-3,7"));
        assert_eq!(cpus(Version::V2, &inner, &inner), None, "what is above the mount is not of this hierarchy");
        assert_eq!(cpus(Version::V1, &inner, home.path()), None);
        assert_eq!(cpus(Version::V1, home.path(), home.path()).as_deref(), Some("0-1"));
    }
}

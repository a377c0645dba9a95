//! Commands that name a cgroup: its path may hold anything that a file name can.

use crate::model::{CgroupId, Level, Nanos, Session};

/// A command that writes `value` to a `file` of the cgroup, for a POSIX shell on the host of `session`. `None` where its path
/// may not show as it is and it has no `id`.
pub(super) fn write(session: &Session, id: Option<CgroupId>, path: &str, file: &str, value: &str) -> Option<String> {
    let is_plain = directory(session, path).is_some();
    (is_plain || id.is_some()).then(|| write_to(session, id.unwrap_or_default(), path, file, value))
}

fn write_to(session: &Session, id: CgroupId, path: &str, file: &str, value: &str) -> String {
    match directory(session, path) {
        Some(directory) => format!("echo {} | sudo tee {}", quote(value), quote(&format!("{directory}/{file}"))),
        None => inside(session, id, path, &format!("echo \"{value}\" > \"$1/{file}\""), &[]),
    }
}

/// How a cgroup's weight is set.
#[derive(Clone, Copy)]
pub(super) struct WeightSetting {
    pub(super) name: &'static str,
    default: f64,
    least: f64,
    most: f64,
}

impl WeightSetting {
    const SHARES: Self = Self { name: "cpu.shares", default: 1_024.0, least: 2.0, most: 262_144.0 };
    const WEIGHT: Self = Self { name: "cpu.weight", default: 100.0, least: 1.0, most: 10_000.0 };

    /// The file of the host's hierarchy.
    pub(super) const fn file(session: &Session) -> Self {
        if session.cgroup_version == 1 { Self::SHARES } else { Self::WEIGHT }
    }

    /// How [`give_weight`] sets the weight of the cgroup: for a unit, by systemd's property.
    pub(super) fn of(session: &Session, path: &str) -> Self {
        if unit(path).is_some() { Self { name: "CPUWeight", ..Self::WEIGHT } } else { Self::file(session) }
    }

    /// A weight (1 is the default) in the unit of the setting.
    pub(super) fn written(self, weight: f64) -> u64 {
        (weight * self.default).round().clamp(self.least, self.most) as u64
    }

    /// Can the setting express this weight exactly?
    pub(super) fn is_exact(self, weight: f64) -> bool {
        (self.rounded(weight) - weight).abs() < 1e-6 * weight
    }

    /// The weight that the kernel has after it was written.
    pub(super) fn rounded(self, weight: f64) -> f64 {
        self.written(weight) as f64 / self.default
    }
}

/// A command that gives the cgroup a weight (1 is the default). If the cgroup is a unit of systemd, systemd is told,
/// because otherwise it would restore its own weight. `None` as for [`write`].
pub(super) fn give_weight(session: &Session, id: Option<CgroupId>, path: &str, weight: f64) -> Option<String> {
    let setting = WeightSetting::of(session, path);
    let (name, written) = (setting.name, setting.written(weight));
    match unit(path) {
        Some(unit) => Some(format!("sudo systemctl set-property --runtime {unit} {name}={written}")),
        None => write(session, id, path, name, &written.to_string()),
    }
}

/// The unit of the host's systemd that a cgroup is, if no shell takes its name apart. What is inside of a service or a scope may be called
/// so by another systemd.
fn unit(path: &str) -> Option<&str> {
    let (above, unit) = path.rsplit_once('/')?;
    if !above.split('/').skip(1).all(|part| part.ends_with(".slice")) {
        return None;
    }
    let is_unit = [".slice", ".service", ".scope"].iter().any(|ending| unit.ends_with(ending));
    let is_plain = unit.starts_with(|c: char| c.is_ascii_alphanumeric())
        && unit.chars().all(|c| c.is_ascii_alphanumeric() || "._-:@".contains(c));
    (is_unit && is_plain).then_some(unit)
}

/// A command that gives the cgroup this many cores, for any length of its periods.
pub(super) fn quota(session: &Session, id: CgroupId, path: &str, cores: f64) -> String {
    let millicores = (cores * 1_000.0).round().clamp(10.0, 1e9) as u64;
    // Only a number is used in arithmetic: some shells would execute anything else.
    let steps = match session.cgroup_version {
        1 => {
            "read -r period < \"$1/cpu.cfs_period_us\" && case $period in \"\"|*[!0-9]*) exit 1;; esac && \
             echo $((period * $2 / 1000)) > \"$1/cpu.cfs_quota_us\""
        }
        _ => {
            "read -r quota period < \"$1/cpu.max\" && case $period in \"\"|*[!0-9]*) exit 1;; esac && \
             echo \"$((period * $2 / 1000)) $period\" > \"$1/cpu.max\""
        }
    };
    inside(session, id, path, steps, &[&millicores.to_string()])
}

/// A command that gives the cgroup the quota and the period that `level` has, or none. `None` as of [`write`].
pub(super) fn same_quota(session: &Session, id: Option<CgroupId>, path: &str, level: &Level) -> Option<String> {
    let micros = |time: Nanos| time.0 / 1_000;
    let quota = level.quota_ns.zip(level.period_ns).map(|(quota, period)| (micros(quota), micros(period)));
    match (session.cgroup_version, quota) {
        (1, Some((quota, _))) => write(session, id, path, "cpu.cfs_quota_us", &quota.to_string()),
        (1, None) => write(session, id, path, "cpu.cfs_quota_us", "-1"),
        (_, Some((quota, period))) => write(session, id, path, "cpu.max", &format!("{quota} {period}")),
        (_, None) => write(session, id, path, "cpu.max", "max"),
    }
}

/// A command that shows on which CPUs the threads of the cgroup may run.
pub(super) fn affinities(session: &Session, id: CgroupId, path: &str) -> String {
    let steps = "while read -r pid; do taskset -apc \"$pid\"; done < \"$1/cgroup.procs\"";
    inside(session, id, path, steps, &[])
}

/// A command that gives the cgroup these CPUs. In version 1 they are in a hierarchy of their own, where the cgroup and those
/// that it is in may have to be made first, each with the CPUs and memory nodes of the one above.
pub(super) fn cpuset(session: &Session, id: CgroupId, path: &str, cpus: &str) -> String {
    if session.cgroup_version != 1 {
        return write_to(session, id, path, "cpuset.cpus", cpus);
    }
    let mount = mount(session);
    let parent = mount.rsplit_once('/').map_or(ROOT, |(parent, _)| parent);
    let cpusets = format!("{}/cpuset", if mount == ROOT { ROOT } else { parent });
    let steps = "to=$3; rest=${1#\"$2\"}/; \
                 while rest=${rest#/}; [ -n \"$rest\" ]; do \
                 to=$to/${rest%%/*}; rest=${rest#*/}; mkdir -p \"$to\"; \
                 for file in cpuset.cpus cpuset.mems; do \
                 grep -q . \"$to/$file\" || cat \"$to/../$file\" > \"$to/$file\"; done; done; \
                 echo \"$4\" > \"$to/cpuset.cpus\" && \
                 while read -r task; do echo \"$task\" > \"$to/tasks\"; done < \"$1/tasks\"";
    inside(session, id, path, steps, &[mount, &cpusets, cpus])
}

/// A command that runs `steps` as root, `$1` being the directory of the cgroup and `$2` and so on `arguments`. `steps` has no
/// single quotes.
fn inside(session: &Session, id: CgroupId, path: &str, steps: &str, arguments: &[&str]) -> String {
    let arguments: String = arguments.iter().map(|argument| format!(" {}", quote(argument))).collect();
    match directory(session, path) {
        Some(directory) => format!("sudo sh -c '{steps}' sh {}{arguments}", quote(&directory)),
        // Does nothing if the cgroup is gone.
        None => {
            let mount = quote(mount(session));
            format!("sudo find {mount} -xdev -type d -inum {} -exec sh -c '{steps}' sh {{}}{arguments} \\;", id.0)
        }
    }
}

/// The directory of the cgroup at `path`. `None` if the path cannot be shown as it is or leads elsewhere: the directory
/// must then be looked up by its inode number.
fn directory(session: &Session, path: &str) -> Option<String> {
    let mount = mount(session);
    let plain = |text: &str| text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    let is_inside = path.starts_with('/') && !path.split('/').any(|part| part == "." || part == "..");
    (plain(mount) && plain(path) && is_inside).then(|| format!("{mount}{}", path.trim_end_matches('/')))
}

/// A glob that matches only this path and needs no quoting. `None` if the path is not that simple.
pub(super) fn glob(path: &str) -> Option<&str> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-:@".contains(&byte);
    (path.starts_with('/') && path.bytes().all(is_plain)).then_some(path)
}

/// A command that tries more weight for the cgroups with these [`glob`]s and less for the heavy ones beside them.
/// Without globs, the trial finds the cgroups itself.
pub(super) fn trial_of_weights(light: &[&str]) -> String {
    let named: String = match light {
        [] => " --from-diagnose".to_owned(),
        _ => light.iter().map(|glob| format!(" --light {glob}")).collect(),
    };
    format!("sudo lagstop trial --policy weight{named} --apply")
}

/// A command that lists the cgroups inside of which the scheduler has further groups.
pub(super) fn list_levels(session: &Session) -> String {
    let mount = quote(mount(session));
    match session.cgroup_version {
        1 => format!("find {mount} -mindepth 1 -type d -links +2"),
        _ => format!("find {mount} -name cgroup.subtree_control -exec grep -lw cpu {{}} +"),
    }
}

/// The conventional mount point of hierarchies.
const ROOT: &str = "/sys/fs/cgroup";

/// The mount point of the hierarchy, or the conventional one if the recording has none. A recording may come from
/// anybody, so a path outside of [`ROOT`], or with unusual characters, is not trusted.
fn mount(session: &Session) -> &str {
    let mount = session.cgroup_mount.as_str();
    let is_below = mount.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-,:=".contains(&byte);
    let is_name = |part: &str| ![".", ".."].contains(&part) && part.bytes().all(is_plain);
    if is_below && mount.split('/').all(is_name) { mount } else { ROOT }
}

/// Quotes `text` as one word of the shell.
fn quote(text: &str) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "/._-:@%+=,".contains(c);
    if text.chars().all(safe) { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Runs `command` without root privileges, with hierarchies below `root`.
    fn run(command: &str, root: &std::path::Path) {
        let command = command.replace("sudo ", "").replace(ROOT, root.to_str().unwrap());
        let done = std::process::Command::new("sh").args(["-c", &command]).output().unwrap();
        assert!(
            done.status.success() && done.stderr.is_empty(),
            "{command}: {}",
            String::from_utf8_lossy(&done.stderr)
        );
    }

    fn session(mount: &str, version: u8) -> Session {
        Session { cgroup_mount: mount.to_owned(), cgroup_version: version, ..Session::default() }
    }

    #[test]
    fn a_hostile_path_stays_one_word() {
        let of = |path| write(&session("/sys/fs/cgroup", 2), Some(CgroupId(77)), path, "cpu.weight", "200").unwrap();
        assert_eq!(of("/a.slice/b"), "echo 200 | sudo tee /sys/fs/cgroup/a.slice/b/cpu.weight");
        assert_eq!(of("/x';reboot;'"), r"echo 200 | sudo tee '/sys/fs/cgroup/x'\'';reboot;'\''/cpu.weight'");
        assert_eq!(of("/$(reboot)`id`"), "echo 200 | sudo tee '/sys/fs/cgroup/$(reboot)`id`/cpu.weight'");
        for hidden in ["/a\nb", "/a\u{1b}[2J", "/a\u{202e}b", "/\u{3164}", "/../../etc", "relative", ""] {
            assert!(of(hidden).contains("-inum 77") && !of(hidden).contains('\n'), "{hidden:?}");
        }
    }

    #[test]
    fn systemd_is_told_of_the_weight_of_its_units() {
        let of =
            |version, path| give_weight(&session("/sys/fs/cgroup", version), Some(CgroupId(77)), path, 2.5).unwrap();
        assert_eq!(of(2, "/system.slice"), "sudo systemctl set-property --runtime system.slice CPUWeight=250");
        assert_eq!(of(1, "/a.slice/b@1.service"), "sudo systemctl set-property --runtime b@1.service CPUWeight=250");
        for inner in ["/user.slice/user@7.service/app.slice/web.service", "/machine.slice/c.scope/system.slice"] {
            assert!(!of(2, inner).contains("systemctl"), "{inner} is of another systemd");
        }
        assert_eq!(of(2, "/lxc/web"), "echo 250 | sudo tee /sys/fs/cgroup/lxc/web/cpu.weight");
        assert_eq!(of(1, "/lxc/web"), "echo 2560 | sudo tee /sys/fs/cgroup/lxc/web/cpu.shares");
        for hostile in ["/$(reboot).slice", "/--now.service", "/a b.slice", "/a\n.slice"] {
            assert!(!of(2, hostile).contains("systemctl"), "{hostile:?}");
        }
    }

    #[test]
    fn the_command_is_that_of_the_hosts_hierarchy() {
        let of = |mount, version| {
            let session = session(mount, version);
            [give_weight(&session, Some(CgroupId(77)), "/a", 1.0).unwrap(), list_levels(&session)]
        };
        assert_eq!(
            of("/sys/fs/cgroup/cpu,cpuacct", 1),
            [
                "echo 1024 | sudo tee /sys/fs/cgroup/cpu,cpuacct/a/cpu.shares",
                "find /sys/fs/cgroup/cpu,cpuacct -mindepth 1 -type d -links +2"
            ]
        );
        assert_eq!(of("", 2)[0], "echo 100 | sudo tee /sys/fs/cgroup/a/cpu.weight", "of a recording that does not say");
    }

    /// All commands on a cgroup of a recording of a hierarchy that was at `mount`.
    fn commands(mount: &str, version: u8, path: &str) -> [String; 5] {
        let session = session(mount, version);
        let id = CgroupId(77);
        [
            write(&session, Some(id), path, "cpu.weight", "1").unwrap(),
            write(&session, Some(id), "/a\u{200b}", "cpu.weight", "1").unwrap(),
            quota(&session, id, path, 1.0),
            cpuset(&session, id, path, "0"),
            list_levels(&session),
        ]
    }

    #[test]
    fn a_recording_does_not_say_where_root_writes() {
        let elsewhere = [
            "-delete",
            "/srv/evil",
            "/sys/fs/cgroup/../../../srv",
            "/sys/fs/cgroup/./a",
            "/sys/fs/cgroupx",
            "/sys/fs/cgroup/$(id)",
            "/sys/fs/cgroup/a b",
            "/sys/fs/cgroup\n/a",
            "sys/fs/cgroup",
            "/",
        ];
        for (mount, version) in elsewhere.into_iter().flat_map(|mount| [(mount, 1), (mount, 2)]) {
            assert_eq!(commands(mount, version, "/a"), commands(ROOT, version, "/a"), "{mount:?}");
        }
        assert!(commands(ROOT, 1, "/a").iter().all(|command| !command.contains("/sys/fs/cpuset")));
    }

    /// The words of a simple command, as a POSIX shell takes it apart. `None` where it holds anything that a shell would do
    /// more with.
    fn words(command: &str) -> Option<Vec<String>> {
        let (mut words, mut word) = (Vec::new(), None::<String>);
        let mut rest = command.chars();
        while let Some(c) = rest.next() {
            match c {
                ' ' => words.extend(word.take()),
                '\'' => {
                    let word = word.get_or_insert_default();
                    loop {
                        match rest.next()? {
                            '\'' => break,
                            c => word.push(c),
                        }
                    }
                }
                '\\' => word.get_or_insert_default().push(rest.next()?),
                '|' if word.is_none() => words.push("|".to_owned()),
                c if c.is_ascii_alphanumeric() || "/._-:@%+=,{}".contains(c) => word.get_or_insert_default().push(c),
                _ => return None,
            }
        }
        words.extend(word);
        Some(words)
    }

    proptest! {
        /// Whatever a recording says: each command is one that this file writes, and each place in it is below where
        /// hierarchies are.
        #[test]
        fn no_recording_gets_more_than_a_place_below_the_hierarchies(
            mount in prop_oneof![
                any::<String>(),
                "(/sys/fs/cgroup)?[-/. $(){}\"'`;|&<>*a-z\\n]{0,24}",
                "/sys/fs/cgroup(/[a-z.]{1,3}){0,4}",
            ],
            path in prop_oneof![any::<String>(), "/[-/. $(){}\"'`;|&<>*a-z\\n]{0,24}"],
            version in 1u8..=2,
        ) {
            let is_below = |place: &str| {
                let is_there = place.strip_prefix(ROOT).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
                is_there && !place.split('/').any(|part| part == "..")
            };
            for command in commands(&mount, version, &path) {
                let words = words(&command);
                prop_assert!(words.is_some(), "{command:?}");
                let words = words.unwrap_or_default();
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                // The program, the place, and the rest.
                let (place, rest) = match words[..] {
                    ["echo", _, "|", "sudo", "tee", place] => (place, &words[6..]),
                    ["sudo", "sh", "-c", _, "sh", place, ..] => (place, &words[6..]),
                    ["sudo", "find", place, "-xdev", "-type", "d", "-inum", "77", "-exec", ..] => (place, &words[9..]),
                    ["find", place, "-name" | "-mindepth", ..] => (place, &words[3..]),
                    _ => return Err(TestCaseError::fail(format!("it runs something else: {command:?}"))),
                };
                prop_assert!(is_below(place), "{command:?}");
                prop_assert!(rest.iter().all(|&word| !word.starts_with('/') || is_below(word)), "{command:?}");
            }
        }
    }

    #[test]
    fn what_is_no_number_is_not_computed_with() {
        let root = tempfile::tempdir().unwrap();
        let (directory, path, id) = hierarchy(root.path(), "plain");
        std::fs::write(directory.join("cpu.max"), "max a[$(touch${IFS}/tmp/x)]\n").unwrap();
        let command = quota(&session(ROOT, 2), id, &path, 1.5).replace("sudo ", "");
        let command = command.replace(ROOT, root.path().to_str().unwrap());
        let status = std::process::Command::new("sh").args(["-c", &command]).status().unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(std::fs::read_to_string(directory.join("cpu.max")).unwrap().starts_with("max a["));
    }

    /// A hierarchy with one cgroup that is called `name`, its path and its inode number.
    fn hierarchy(mount: &std::path::Path, name: &str) -> (std::path::PathBuf, String, CgroupId) {
        let directory = mount.join("a.slice").join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let id = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&directory).unwrap());
        (directory, format!("/a.slice/{name}"), CgroupId(id))
    }

    const NAMES: [&str; 4] = ["plain", "it's; $(x) `y`", "\u{1b}[2J", "two\nlines"];

    #[test]
    fn a_quota_is_of_the_period_that_there_is() {
        let root = tempfile::tempdir().unwrap();
        for name in NAMES {
            let (directory, path, id) = hierarchy(root.path(), name);
            let set = |file: &str, text: &str| std::fs::write(directory.join(file), text).unwrap();
            let get = |file: &str| std::fs::read_to_string(directory.join(file)).unwrap();
            let of = |version| quota(&session(ROOT, version), id, &path, 1.5);
            set("cpu.max", "10000 50000\n");
            run(&of(2), root.path());
            assert_eq!(get("cpu.max"), "75000 50000\n");
            set("cpu.cfs_period_us", "20000\n");
            run(&of(1), root.path());
            assert_eq!(get("cpu.cfs_quota_us"), "30000\n");
            let level = |quota: Option<u64>| {
                let period_ns = quota.map(|_| Nanos(100_000_000));
                Level { quota_ns: quota.map(|us| Nanos(us * 1_000)), period_ns, ..Level::DEFAULT }
            };
            let back = |version, quota| same_quota(&session(ROOT, version), Some(id), &path, &level(quota)).unwrap();
            run(&back(2, Some(33_333)), root.path());
            assert_eq!(get("cpu.max"), "33333 100000\n");
            run(&back(2, None), root.path());
            assert_eq!(get("cpu.max"), "max\n");
            run(&back(1, Some(33_333)), root.path());
            assert_eq!(get("cpu.cfs_quota_us"), "33333\n");
            run(&back(1, None), root.path());
            assert_eq!(get("cpu.cfs_quota_us"), "-1\n");
            set("cpu.weight", "70\n");
            run(&write(&session(ROOT, 2), Some(id), &path, "cpu.weight", "140").unwrap(), root.path());
            assert_eq!(get("cpu.weight"), "140\n");
        }
    }

    #[test]
    fn cpus_of_version_1_are_set_in_their_own_hierarchy_level_by_level() {
        let root = tempfile::tempdir().unwrap();
        let (cpu, cpusets) = (root.path().join("cpu"), root.path().join("cpuset"));
        std::fs::create_dir(&cpusets).unwrap();
        std::fs::write(cpusets.join("cpuset.cpus"), "0-7\n").unwrap();
        std::fs::write(cpusets.join("cpuset.mems"), "0\n").unwrap();
        // Empty files, like those that the kernel creates.
        for name in NAMES {
            let (directory, path, id) = hierarchy(&cpu, name);
            std::fs::write(directory.join("tasks"), "11\n12\n").unwrap();
            let made = cpusets.join("a.slice").join(name);
            std::fs::create_dir_all(&made).unwrap();
            for file in ["cpuset.cpus", "cpuset.mems"] {
                for directory in [made.parent().unwrap(), &made] {
                    std::fs::write(directory.join(file), "").unwrap();
                }
            }
            run(&cpuset(&session("/sys/fs/cgroup/cpu", 1), id, &path, "2-3"), root.path());
            let get = |file: &str| std::fs::read_to_string(made.join(file)).unwrap();
            assert_eq!([get("cpuset.cpus"), get("cpuset.mems"), get("tasks")], ["2-3\n", "0\n", "12\n"], "{name:?}");
            assert_eq!(std::fs::read_to_string(cpusets.join("a.slice/cpuset.cpus")).unwrap(), "0-7\n");
            std::fs::remove_dir_all(cpusets.join("a.slice")).unwrap();
        }
    }
}

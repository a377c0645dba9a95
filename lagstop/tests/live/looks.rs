//! Closer looks at one cgroup.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use lagstop::{
    model::{CgroupId, CloserLook, GroupBy, Nanos, Quota, Thread},
    source::Looks,
};

use crate::{
    Test,
    fixture::{TestCgroup, with_stream},
};

pub(crate) const TESTS: &[Test] = &[
    ("a_closer_look_shows_the_limits_that_were_set", limits),
    ("a_closer_look_agrees_with_proc_on_each_thread", threads),
    ("a_closer_look_at_what_is_gone_says_so", gone),
];

async fn look(looks: &mut Looks, id: CgroupId, path: &str) -> CloserLook {
    looks.ask(id, path.into());
    let look = looks.next().await.unwrap();
    assert_eq!(look.id, id);
    look
}

fn limits() {
    let cgroup = TestCgroup::new("limits");
    let (id, path) = (cgroup.id(), cgroup.path.clone());
    let (before, after) = with_stream(GroupBy::Scheduler, async |stream| {
        let looks = stream.looks.as_mut().unwrap();
        let before = look(looks, id, &path).await.limits;
        cgroup.limit_to_half_a_cpu();
        cgroup.triple_its_weight();
        (before, look(looks, id, &path).await.limits)
    });
    let (weight, default) = cgroup.triple_its_weight();
    println!("{before:?}, {after:?}");
    assert_eq!(before.quota, Some(Quota { quota_ns: None, period_ns: Nanos(100_000_000) }));
    assert_eq!((before.weight, before.default_weight), (Some(default), default));
    let quota = Quota { quota_ns: Some(Nanos(10_000_000)), period_ns: Nanos(20_000_000) };
    assert_eq!(after.quota, Some(quota));
    assert_eq!(after.weight, Some(weight));
    // `cpus` is known only where cpusets are handed down this far. The kernel writes both lists in the same form.
    if let Some(cpus) = after.cpus {
        assert_eq!(cpus, fs::read_to_string("/sys/devices/system/cpu/online").unwrap().trim());
    }
}

/// CPU time and run-queue wait of each thread of a process, from `/proc`.
fn schedstats(pid: u32) -> BTreeMap<u32, [u64; 2]> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let read = |tid: u32| {
        let text = fs::read_to_string(format!("/proc/{tid}/schedstat")).unwrap();
        let figures: Vec<u64> = text.split_whitespace().map(|figure| figure.parse().unwrap()).collect();
        (tid, [figures[0], figures[1]])
    };
    tasks.map(|task| read(task.unwrap().file_name().to_string_lossy().parse().unwrap())).collect()
}

fn threads() {
    threads_by(GroupBy::Scheduler);
    threads_by(GroupBy::Leaf);
}

fn threads_by(group_by: GroupBy) {
    const SPINNING: usize = 5;
    let cgroup = TestCgroup::new("threads");
    let id = match group_by {
        GroupBy::Scheduler => Some(cgroup.id()),
        GroupBy::Leaf => cgroup.leaf_id(),
    };
    let Some(id) = id else {
        println!("no unified hierarchy here: the scheduler's is the only one");
        return;
    };
    let path = cgroup.path.clone();
    // Until they are killed: attaching, of which only the first look shows the end, may take longer than a load works.
    let mut load = cgroup.start(&format!("threads {SPINNING} 600000"));
    load.line();
    load.go();
    thread::sleep(Duration::from_millis(300));
    let pid = load.pid();
    let ([a, b, c, d], first, second) = with_stream(group_by, async |stream| {
        let looks = stream.looks.as_mut().unwrap();
        let a = schedstats(pid);
        let first = look(looks, id, &path).await;
        let b = schedstats(pid);
        thread::sleep(Duration::from_millis(700));
        let c = schedstats(pid);
        let second = look(looks, id, &path).await;
        ([a, b, c, schedstats(pid)], first, second)
    });
    let tids = |threads: &[Thread]| threads.iter().map(|thread| thread.tid).collect::<Vec<_>>();
    let expected: Vec<u32> = a.keys().copied().collect();
    assert_eq!(expected.len(), SPINNING + 1);
    let (first, second, over) = (first.threads.unwrap(), second.threads.unwrap(), second.over_ns.unwrap());
    assert_eq!((tids(&first), tids(&second)), (expected.clone(), expected));
    assert!(over.0 >= 700_000_000, "{over}");
    assert!(first.iter().all(|thread| thread.cpu_ns.is_none() && thread.runq_wait_ns.is_none()));
    for thread in &second {
        let Thread { tid, name, .. } = thread;
        assert_eq!(*name, fs::read_to_string(format!("/proc/{tid}/comm")).unwrap().trim_end());
        for (figure, measured) in [thread.cpu_ns.unwrap().0, thread.runq_wait_ns.unwrap().0].into_iter().enumerate() {
            // Between what passed from the end of the first look to the start of the second, and all around both.
            let of = |moment: &BTreeMap<u32, [u64; 2]>| moment[tid][figure];
            let (least, most) = (of(&c) - of(&b), of(&d) - of(&a));
            println!("{tid} {name}: {least} <= {measured} <= {most}");
            assert!((least..=most).contains(&measured));
        }
    }
    let waited: u64 = second.iter().filter_map(|thread| thread.runq_wait_ns).map(|ns| ns.0).sum();
    assert!(waited > 0, "five that spin on fewer CPUs wait");
}

fn gone() {
    let cgroup = TestCgroup::new("gone");
    let (id, path) = (cgroup.id(), cgroup.path.clone());
    drop(cgroup);
    // Another one of the same name.
    let next = TestCgroup::new("gone");
    let why = with_stream(GroupBy::Scheduler, async |stream| {
        let looks = stream.looks.as_mut().unwrap();
        assert_eq!(look(looks, next.id(), &path).await.threads.unwrap(), []);
        look(looks, id, &path).await.threads.unwrap_err().to_string()
    });
    assert_eq!(why, "the cgroup was removed");
}

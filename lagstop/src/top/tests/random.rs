//! Whatever happens.

use proptest::prelude::*;

use super::*;
use crate::{
    model::{Cpu, CpuTotals, Crowding, Listener, ListenerTotals},
    top::keymap::KEYS,
};

/// Something that happens to the screen.
#[derive(Clone, Debug)]
enum Happening {
    Key(Key),
    Interval(Box<Interval>),
    End,
    CatchUp,
    Size(u16, u16),
}

fn any_interval() -> impl Strategy<Value = Interval> {
    let cgroup = (0u64..40, any::<String>(), any::<String>(), 0u64..200_000)
        .prop_map(|(id, name, path, n)| Cgroup { path: path.into(), ..cgroup(id, &name, n) });
    let cgroup = (cgroup, any::<Option<u64>>(), any::<u64>(), 0u64..40).prop_map(|(mut cgroup, behind, wait, id)| {
        (cgroup.totals.wait_behind_ns, cgroup.totals.wait_self_ns) = (behind.map(Nanos), behind.map(Nanos));
        cgroup.waits_behind = vec![WaitBehind { id: CgroupId(id), wait_ns: Nanos(wait) }];
        cgroup
    });
    let cpu = (0u32..9, any::<u64>(), 0u64..40).prop_map(|(cpu, ns, id)| Cpu {
        cpu,
        totals: CpuTotals { busy_ns: Nanos(ns), ..CpuTotals::default() },
        crowd: vec![Crowding { id: CgroupId(id), cpu_ns: Nanos(ns), runq_wait_ns: None }],
    });
    let listener = (any::<u16>(), any::<Option<u64>>(), 0u64..40).prop_map(|(port, backlog, id)| Listener {
        backlog,
        backlog_capacity: backlog.map(|backlog| backlog / 2),
        cgroup: Some(CgroupId(id)),
        totals: Some(ListenerTotals::default()),
        ..Listener::new(1, (std::net::Ipv4Addr::LOCALHOST, port).into())
    });
    (
        prop::collection::vec(cgroup, 0..40),
        prop::collection::vec(cpu, 0..6),
        prop::collection::vec(listener, 0..6),
        0u64..2_000_000_000,
    )
        .prop_map(|(cgroups, cpus, listeners, duration)| Interval {
            duration_ns: Nanos(duration),
            cgroups,
            cpus,
            listeners,
            ..interval()
        })
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let keys: Vec<Key> = KEYS.iter().flat_map(|binding| binding.keys.iter().copied()).collect();
    let happening = prop_oneof![
        8 => prop::sample::select(keys).prop_map(Happening::Key),
        1 => any::<char>().prop_map(|char| Happening::Key(Key::Char(char))),
        2 => any_interval().prop_map(|interval| Happening::Interval(Box::new(interval))),
        1 => Just(Happening::End),
        2 => Just(Happening::CatchUp),
        2 => (1u16..200, 1u16..60).prop_map(|(width, height)| Happening::Size(width, height)),
    ];
    prop::collection::vec(happening, 0..30)
}

/// Does it all, and gives what reached the terminal that it must not.
fn after(mut app: App, happenings: Vec<Happening>) -> Option<String> {
    let mut size = (80, 24);
    for happening in happenings {
        match happening {
            Happening::Key(key) => drop(app.on_key(key).unwrap()),
            Happening::Interval(interval) => app.on_interval(*interval).unwrap(),
            Happening::End => app.on_end(),
            Happening::CatchUp => drop(app.catch_up().unwrap()),
            Happening::Size(width, height) => size = (width, height),
        }
        let backend = draw(&mut app, size.0, size.1);
        let hostile = |symbol: &str| crate::display::display_name(symbol) != symbol;
        if let Some(cell) = backend.buffer().content.iter().find(|cell| hostile(cell.symbol())) {
            return Some(cell.symbol().to_owned());
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_that_happens_breaks_it(happenings in happenings()) {
        prop_assert_eq!(after(App::live(&session(), &TopSettings::default()), happenings), None);
    }

    #[test]
    fn nothing_that_happens_breaks_a_replay(happenings in happenings()) {
        let keys = happenings.into_iter().filter(|it| matches!(it, Happening::Key(_) | Happening::CatchUp | Happening::Size(..))).collect();
        prop_assert_eq!(after(replay(&TopSettings::default()), keys), None);
    }
}

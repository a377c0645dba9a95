//! What is seen, and that nothing a user does breaks it.

use std::sync::Arc;

use insta::assert_snapshot;
use proptest::prelude::*;
use ratatui::{Terminal, backend::TestBackend, style::Modifier};

use super::{
    keymap::{KEYS, Key},
    sort::{By, Sort},
    state::{Action, State},
    theme::Theme,
    view,
};
use crate::model::{
    Cgroup, CgroupId, Distribution, Hook, HookState, Host, Idle, Interval, Lost, Nanos, Session, Tasks, Totals,
};

fn session() -> Session {
    let hook = |name: &str, state, detail: &str, measures: &str| Hook {
        name: name.to_owned(),
        state,
        way: None,
        detail: detail.to_owned(),
        measures: measures.to_owned(),
    };
    Session {
        hostname: "node-17".to_owned(),
        kernel: "6.12.41".to_owned(),
        cpus_online: 8,
        interval_ns: Nanos::SECOND,
        hooks: vec![
            hook("sched_switch", HookState::On, "tp_btf", "switches"),
            hook(
                "pick_next_task_fair",
                HookState::Off,
                "the function is inlined in this kernel, so that nothing can be attached to it",
                "time in pick_next_task_fair",
            ),
            hook("inet_csk_accept", HookState::Off, "attaching it: EPERM\u{1b}[31m", "accept wait"),
        ],
        ..Session::default()
    }
}

fn cgroup(id: u64, name: &str, n: u64) -> Cgroup {
    Cgroup {
        id: CgroupId(id),
        path: Arc::from(format!("/{id}")),
        name: Arc::from(name),
        totals: Totals {
            switches: 1_000 * n,
            voluntary_switches: 700 * n,
            involuntary_switches: 300 * n,
            cross_cgroup_switches: Some(900 * n),
            cpu_ns: Nanos(120_000_000 * n),
            threads: n,
            schedule_calls: Some(1_100 * n),
            pick_ns: Some(Nanos(3_000_000 * n)),
            kept_ns: Some(Nanos(100_000 * n)),
            swap_ns: Some(Nanos(1_500_000 * n)),
            runq_waits: Some(1_000 * n),
            runq_wait_ns: Some(Nanos(250_000_000 * n * n)),
            migrations: Some(40 * n),
            ..Totals::default()
        },
        runnable_load: Some(Tasks(0.37 * n as f64)),
        load_credit: Some(Tasks(0.31 * n as f64)),
        nr_periods: Some(0),
        nr_throttled: Some(0),
        throttled_ns: Some(Nanos::ZERO),
        runq_wait: Some(Distribution::from_bins([(Nanos(9_000), 900), (Nanos(2_000_000 * n), 100)])),
        ..Cgroup::default()
    }
}

fn interval() -> Interval {
    let mut cgroups = vec![
        cgroup(20, "kube-system/coredns", 3),
        cgroup(21, "shop/checkout-7d9fdc6b5c-x2x8k/worker", 9),
        cgroup(22, "ssh.service", 1),
        cgroup(23, "日本語の名前.service", 2),
        cgroup(24, "evil\u{1b}[2J\u{202e}name", 4),
        cgroup(0, "(other)", 1),
    ];
    // One that accepts connections and is throttled, one that only is throttled.
    cgroups[1].totals.accepts = Some(10);
    cgroups[1].totals.accept_wait_ns = Some(Nanos(4_200_000));
    (cgroups[1].nr_periods, cgroups[1].nr_throttled) = (Some(10), Some(4));
    cgroups[2].totals = Totals { migrations: Some(0), ..Totals::default() };
    cgroups[2].runq_wait = None;
    let mut totals = Totals {
        switches: 4_000,
        pick_ns: Some(Nanos(8_000_000)),
        kept_ns: Some(Nanos(0)),
        swap_ns: Some(Nanos(4_000_000)),
        runq_wait_ns: Some(Nanos(0)),
        migrations: Some(0),
        ..Totals::default()
    };
    let idle = Idle::from(&totals);
    cgroups.iter().filter(|cgroup| cgroup.id != CgroupId(22)).for_each(|cgroup| totals.add(&cgroup.totals));
    Interval {
        seq: 3,
        duration_ns: Nanos::SECOND,
        host: Host {
            totals,
            idle,
            cpus_online: 8,
            busy_ns: Nanos(7_400_000_000),
            idle_ns: Nanos(600_000_000),
            steal_ns: None,
            self_cpu_ns: Nanos(4_000_000),
            self_probe_ns: Some(Nanos(9_000_000)),
            lost: Lost { switches: 3, connections: 12, ..Lost::default() },
            ..Host::default()
        },
        cgroups,
        ..Interval::default()
    }
}

fn showing(interval: Interval) -> State {
    let mut state = State::new(session());
    state.on_interval(interval);
    state
}

fn draw(state: &mut State, width: u16, height: u16, theme: Theme) -> TestBackend {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(frame, state, &theme)).unwrap();
    terminal.backend().clone()
}

fn drawn(state: &mut State, width: u16, height: u16) -> String {
    draw(state, width, height, Theme::new(true)).to_string()
}

fn name_of_selection(state: &State) -> Option<String> {
    let row = state.selected_row()?;
    state.rows_in_sight().find(|(n, _)| *n == row).map(|(_, cgroup)| cgroup.name.to_string())
}

#[test]
fn a_wide_terminal_shows_every_column() {
    assert_snapshot!(drawn(&mut showing(interval()), 120, 30), @r#"
    "lagstop top  node-17  Linux 6.12.41  8 CPUs  interval 1.00 s                                                            "
    "overhead   1.07 %    mean switch   4.40 µs    switches/s  19000    migrations/s    760                                  "
    "perceived  92.5 %    effective      91.4 %    waiting      27.8    steal           n/a                                  "
    "── 6 active cgroups, by switch cost ▼ ──────────────────────────────────────────────────────────────────────────────────"
    "cgroup                      ▼cost %  /switch switch/s invol% cross%   CPU  load credit wait/run p99 wait migr/s   accept"
    "shop/checkout-…-x2x8k/worker   4.05  4.40 µs     9000   30.0   90.0  1.08  3.33   2.79  2.25 ms  18.0 ms    360   420 µs"
    "evil�[2J�name                  1.80  4.40 µs     4000   30.0   90.0  0.48  1.48   1.24  1.00 ms  8.00 ms    160      n/a"
    "kube-system/coredns            1.35  4.40 µs     3000   30.0   90.0  0.36  1.11   0.93   750 µs  6.00 ms    120      n/a"
    "日本語の名前.service           0.90  4.40 µs     2000   30.0   90.0  0.24  0.74   0.62   500 µs  4.00 ms     80      n/a" Hidden by multi-width symbols: [(1, " "), (3, " "), (5, " "), (7, " "), (9, " "), (11, " ")]
    "(other)                        0.45  4.40 µs     1000   30.0   90.0  0.12  0.37   0.31   250 µs  2.00 ms     40      n/a"
    "ssh.service                     n/a      n/a        0           n/a  0.00  0.37   0.31      n/a      n/a      0      n/a"
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "                                                                                                                        "
    "LOST 12 connections  lost 0.01 % of switches  2 hooks off: m  lagstop 1.30 % CPU                                        "
    "q quit  h help  ↑↓ select  s sort  r reverse  space pause  m measures                                                   "
    "#);
}

#[test]
fn a_usual_terminal_shows_the_columns_that_fit() {
    assert_snapshot!(drawn(&mut showing(interval()), 80, 24), @r#"
    "lagstop top  node-17  Linux 6.12.41  8 CPUs  interval 1.00 s                    "
    "overhead   1.07 %  mean switch   4.40 µs  switches/s  19000  migrations/s    760"
    "perceived  92.5 %  effective      91.4 %  waiting      27.8  steal           n/a"
    "── 6 active cgroups, by switch cost ▼ ──────────────────────────────────────────"
    "cgroup                ▼cost %  /switch switch/s invol% cross%   CPU  load credit"
    "shop/checko…x8k/worker   4.05  4.40 µs     9000   30.0   90.0  1.08  3.33   2.79"
    "evil�[2J�name            1.80  4.40 µs     4000   30.0   90.0  0.48  1.48   1.24"
    "kube-system/coredns      1.35  4.40 µs     3000   30.0   90.0  0.36  1.11   0.93"
    "日本語の名前.service     0.90  4.40 µs     2000   30.0   90.0  0.24  0.74   0.62" Hidden by multi-width symbols: [(1, " "), (3, " "), (5, " "), (7, " "), (9, " "), (11, " ")]
    "(other)                  0.45  4.40 µs     1000   30.0   90.0  0.12  0.37   0.31"
    "ssh.service               n/a      n/a        0           n/a  0.00  0.37   0.31"
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "                                                                                "
    "LOST 12 connections  lost 0.01 % of switches  2 hooks off: m  lagstop 1.30 % CPU"
    "q quit  h help  ↑↓ select  s sort  r reverse  space pause  m measures           "
    "#);
}

#[test]
fn the_smallest_terminal_is_still_read() {
    let mut state = showing(interval());
    state.on_key(Key::Char('<'));
    state.on_key(Key::Char('<'));
    state.on_key(Key::Char(' '));
    assert_snapshot!(drawn(&mut state, 60, 15), @r#"
    "lagstop top  node-17  Linux 6.12.41  8 CPUs  …       PAUSED "
    "overhead   1.07 % mean switch   4.40 µs switches/s  19000   "
    "perceived  92.5 % effective      91.4 % waiting      27.8   "
    "── 6 active cgroups, by share of periods throttled ▼ ───────"
    "cgroup                       cost %  /switch switch/s▼thrtl%"
    "shop/checkout-…-x2x8k/worker   4.05  4.40 µs     9000   40.0"
    "(other)                        0.45  4.40 µs     1000       "
    "evil�[2J�name                  1.80  4.40 µs     4000       "
    "kube-system/coredns            1.35  4.40 µs     3000       "
    "ssh.service                     n/a      n/a        0       "
    "日本語の名前.service           0.90  4.40 µs     2000       " Hidden by multi-width symbols: [(1, " "), (3, " "), (5, " "), (7, " "), (9, " "), (11, " ")]
    "                                                            "
    "                                                            "
    "LOST 12 connections  lost 0.01 % of switches  …             "
    "q quit  h help  ↑↓ select  s sort  r reverse  space pause   "
    "#);
}

#[test]
fn a_smaller_one_says_what_it_needs() {
    assert_snapshot!(drawn(&mut showing(interval()), 40, 10), @r#"
    "lagstop top needs 60×15 cells; this     "
    "terminal has 40×10. Make it larger, or q"
    "to quit.                                "
    "                                        "
    "                                        "
    "                                        "
    "                                        "
    "                                        "
    "                                        "
    "                                        "
    "#);
}

#[test]
fn before_the_first_interval_it_says_when_that_comes() {
    assert_snapshot!(drawn(&mut State::new(session()), 60, 15), @r#"
    "lagstop top  node-17  Linux 6.12.41  8 CPUs  interval 1.00 s"
    "                                                            "
    "                                                            "
    "── by switch cost ▼ ────────────────────────────────────────"
    "                                                            "
    "                                                            "
    "                                                            "
    "                                                            "
    "       measuring… the first figures come after 1.00 s       "
    "                                                            "
    "                                                            "
    "                                                            "
    "                                                            "
    "2 hooks off: m                                              "
    "q quit  h help  ↑↓ select  s sort  r reverse  space pause   "
    "#);
}

#[test]
fn missing_hooks_come_with_their_reasons() {
    let mut state = showing(interval());
    state.on_key(Key::Char('m'));
    assert_snapshot!(drawn(&mut state, 80, 24), @r#"
    "lagstop top  node-17  Linux 6.12.41  8 CPUs  interval 1.00 s                    "
    "overhead   1.07 %  mean switch   4.40 µs  switches/s  19000  migrations/s    760"
    "perceived  92.5 %  effective      91.4 %  waiting      27.8  steal           n/a"
    "── 6 active cgroups, by switch cost ▼ ──────────────────────────────────────────"
    "cgroup                ▼cost %  /switch switch/s invol% cross%   CPU  load credit"
    "shop/checko…x8k/worker   4.05  4.40 µs     9000   30.0   90.0  1.08  3.33   2.79"
    "╭ How it is measured ──────────────────────────────────────────────────────────╮"
    "│ pick_next_task_fair                                                          │"
    "│   why         the function is inlined in this kernel, so that nothing can be │"
    "│               attached to it                                                 │"
    "│   n/a without time in pick_next_task_fair                                    │"
    "│                                                                              │"
    "│ inet_csk_accept                                                              │"
    "│   why         attaching it: EPERM�[31m                                       │"
    "│   n/a without accept wait                                                    │"
    "│                                                                              │"
    "│ sched_switch                                                                 │"
    "│   how         tp_btf                                                         │"
    "│   gives       switches                                                       │"
    "╰──────────────────────────────────────────────────────────────────────────────╯"
    "                                                                                "
    "                                                                                "
    "LOST 12 connections  lost 0.01 % of switches  2 hooks off: m  lagstop 1.30 % CPU"
    "q quit  h help  ↑↓ select  s sort  r reverse  space pause  m measures           "
    "#);
}

#[test]
fn the_help_explains_keys_and_columns() {
    let mut state = showing(interval());
    state.on_key(Key::Char('h'));
    assert_snapshot!(drawn(&mut state, 80, 52), @r#"
    "lagstop top  node-17  Linux 6.12.41  8 CPUs  interval 1.00 s                    "
    "overhead   1.07 %  mean switch   4.40 µs  switches/s  19000  migrations/s    760"
    "perceived  92.5 %  effective      91.4 %  waiting      27.8  steal           n/a"
    "── 6 active cgroups, by switch cost ▼ ──────────────────────────────────────────"
    "╭ Help ────────────────────────────────────────────────────────────────────────╮"
    "│ Keys                                                                         │"
    "│ q Ctrl-C      quit                                                           │"
    "│ h ?           this help                                                      │"
    "│ Esc           close what lies over the table, or else quit                   │"
    "│ ↑ k           one up                                                         │"
    "│ ↓ j           one down                                                       │"
    "│ PgUp          one page up                                                    │"
    "│ PgDn          one page down                                                  │"
    "│ Home          to the first                                                   │"
    "│ End           to the last                                                    │"
    "│ s >           sort by the next column                                        │"
    "│ <             sort by the column before                                      │"
    "│ r             reverse the order                                              │"
    "│ space         hold the view; measuring goes on                               │"
    "│ m             how everything is measured, what is not, and why               │"
    "│                                                                              │"
    "│ Columns                                                                      │"
    "│ cost %        switch cost: the kernel's time for choosing and changing       │"
    "│               tasks, in % of one CPU                                         │"
    "│ /switch       mean cost of a switch                                          │"
    "│ switch/s      switches a second                                              │"
    "│ invol%        involuntary switches, in % of all                              │"
    "│ cross%        switches to a task of another cgroup, in % of all              │"
    "│ CPU           CPU time as the kernel books it, in CPUs                       │"
    "│ load          runnable load: tasks that ran or waited, on average            │"
    "│ credit        Load Credit: moving average of the load over seconds           │"
    "│ wait/run      run-queue wait: mean time from runnable to running             │"
    "│ p99 wait      run-queue wait that 99 % of the waits do not exceed            │"
    "│ migr/s        moves to another CPU, a second                                 │"
    "│ accept        accept wait: mean time that a connection waited to be accepted │"
    "│ thrtl%        bandwidth periods with the quota used up, in % of all          │"
    "│                                                                              │"
    "│ Host                                                                         │"
    "│ overhead      switch cost of all cgroups, in % of the time of all online     │"
    "│               CPUs                                                           │"
    "│ mean switch   mean cost of a switch away from a task, idle left out          │"
    "│ switches/s    switches away from tasks, a second; idle left out              │"
    "│ perceived     perceived utilisation: CPU time that is not idle               │"
    "│ effective     effective utilisation: CPU time spent on the tasks' own work   │"
    "│ waiting       tasks that are runnable and not running, on average            │"
    "│ lagstop       what lagstop itself costs, its programs in the kernel          │"
    "│               included, in % of one CPU                                      │"
    "│                                                                              │"
    "│ n/a is what this kernel does not let us measure. A blank is a mean or share  │"
    "╰──────────────────────────────────────────────────────────────────── ↓ 1 more ╯"
    "LOST 12 connections  lost 0.01 % of switches  2 hooks off: m  lagstop 1.30 % CPU"
    "q quit  h help  ↑↓ select  s sort  r reverse  space pause  m measures           "
    "#);
}

#[test]
fn help_that_is_longer_than_the_screen_scrolls_to_its_end() {
    let mut state = showing(interval());
    state.on_key(Key::Char('h'));
    assert!(drawn(&mut state, 80, 24).contains("more"));
    state.on_key(Key::End);
    let end = drawn(&mut state, 80, 24);
    assert!(end.contains("A blank is a mean"), "{end}");
    state.on_key(Key::Up);
    assert_ne!(drawn(&mut state, 80, 24), end, "up moves at once");
}

#[test]
fn no_colours_means_none_and_the_selection_is_still_seen() {
    let mut state = showing(interval());
    for key in [None, Some(Key::Char('m')), Some(Key::Char('h'))] {
        key.map(|key| state.on_key(key));
        let backend = draw(&mut state, 120, 30, Theme::new(false));
        for cell in &backend.buffer().content {
            assert_eq!((cell.fg, cell.bg), Default::default());
        }
    }
    state.on_key(Key::Esc);
    let backend = draw(&mut state, 120, 30, Theme::new(false));
    let buffer = backend.buffer();
    let reversed: Vec<u16> = (0..30).filter(|&y| buffer[(0, y)].modifier.contains(Modifier::REVERSED)).collect();
    assert_eq!(reversed, [5]);
}

#[test]
fn the_selection_follows_its_cgroup() {
    let mut state = showing(interval());
    drawn(&mut state, 80, 24);
    state.on_key(Key::Down);
    drawn(&mut state, 80, 24);
    let selected = name_of_selection(&state);
    assert_eq!((state.selected_row(), selected.as_deref()), (Some(1), Some("evil\u{1b}[2J\u{202e}name")));
    state.on_key(Key::Char('r'));
    drawn(&mut state, 80, 24);
    assert_eq!((state.selected_row(), name_of_selection(&state)), (Some(3), selected.clone()));
    // Idle for an interval, and back in another place.
    let mut idle = interval();
    idle.cgroups.retain(|cgroup| cgroup.id != CgroupId(24));
    state.on_interval(idle);
    drawn(&mut state, 80, 24);
    assert_eq!(state.selected_row(), None);
    let mut busy = interval();
    busy.cgroups[4].totals.pick_ns = Some(Nanos(900_000_000));
    state.on_interval(busy);
    drawn(&mut state, 80, 24);
    assert_eq!((state.selected_row(), name_of_selection(&state)), (Some(4), selected));
}

#[test]
fn the_selection_stays_in_sight() {
    let mut many = interval();
    many.cgroups = (2..200).map(|id| cgroup(id, &format!("service-{id}"), id)).collect();
    let mut state = showing(many);
    drawn(&mut state, 80, 24);
    for (key, row) in [(Key::PageDown, 16), (Key::PageDown, 32), (Key::Up, 31), (Key::End, 197), (Key::PageUp, 181)] {
        state.on_key(key);
        drawn(&mut state, 80, 24);
        assert_eq!(state.selected_row(), Some(row));
        assert!(name_of_selection(&state).is_some(), "row {row} is out of sight");
    }
    drawn(&mut state, 60, 15);
    assert!(name_of_selection(&state).is_some(), "out of sight in a smaller terminal");
}

#[test]
fn what_has_no_figure_comes_last_either_way() {
    let mut state = showing(interval());
    drawn(&mut state, 80, 24);
    let last = |state: &State| state.rows_in_sight().last().map(|(_, cgroup)| cgroup.name.to_string());
    assert_eq!(last(&state).as_deref(), Some("ssh.service"));
    state.on_key(Key::Char('r'));
    assert_eq!(last(&state).as_deref(), Some("ssh.service"));
}

#[test]
fn a_held_view_shows_the_newest_interval_once_it_is_let_go() {
    let mut state = showing(interval());
    state.on_key(Key::Char(' '));
    for seq in 4..7 {
        state.on_interval(Interval { seq, ..interval() });
        assert_eq!(state.interval().map(|interval| interval.seq), Some(3));
    }
    state.on_key(Key::Char(' '));
    assert_eq!(state.interval().map(|interval| interval.seq), Some(6));
}

#[test]
fn sorting_goes_through_all_columns_and_back() {
    let mut sorts = vec![Sort::default()];
    while sorts.len() < 14 {
        sorts.push(sorts[sorts.len() - 1].next());
    }
    assert_eq!(sorts[13].by, By::Name);
    assert_eq!(sorts[13].next(), sorts[0]);
    for pair in sorts.windows(2) {
        assert_eq!(pair[1].previous(), pair[0]);
    }
}

#[test]
fn every_key_does_something_and_is_in_the_help() {
    let mut many = interval();
    many.cgroups = (2..200).map(|id| cgroup(id, &format!("service-{id}"), id)).collect();
    let mut state = showing(many);
    drawn(&mut state, 80, 60);
    for _ in 0..2 {
        state.on_key(Key::PageDown);
    }
    let mut helped = state.clone();
    helped.on_key(Key::Char('?'));
    let help = drawn(&mut helped, 120, 60);
    for binding in KEYS {
        let keys: Vec<String> = binding.keys.iter().map(ToString::to_string).collect();
        let line = help.lines().find(|line| line.contains(binding.help)).unwrap_or_default();
        assert!(line.contains(&keys.join(" ")), "{} is not in the help", keys.join(" "));
        for &key in binding.keys {
            let mut after = state.clone();
            assert!(after.on_key(key) == Action::Quit || after != state, "{key} does nothing");
        }
    }
    assert_eq!(state.clone().on_key(Key::Char('Z')), Action::Ignore);
}

#[test]
fn escape_closes_before_it_quits() {
    let mut state = showing(interval());
    state.on_key(Key::Char('h'));
    assert_eq!(state.on_key(Key::Esc), Action::Redraw);
    assert_eq!(state.on_key(Key::Esc), Action::Quit);
}

/// Something that happens to the screen.
#[derive(Clone, Debug)]
enum Happening {
    Key(Key),
    Interval(Box<Interval>),
    End,
    Size(u16, u16),
}

fn any_interval() -> impl Strategy<Value = Interval> {
    let cgroup = (0u64..40, any::<String>(), 0u64..200_000).prop_map(|(id, name, n)| cgroup(id, &name, n));
    (prop::collection::vec(cgroup, 0..40), 0u64..2_000_000_000).prop_map(|(cgroups, duration)| Interval {
        duration_ns: Nanos(duration),
        cgroups,
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
        2 => (1u16..200, 1u16..60).prop_map(|(width, height)| Happening::Size(width, height)),
    ];
    prop::collection::vec(happening, 0..30)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn nothing_that_happens_breaks_it(happenings in happenings()) {
        let mut state = State::new(session());
        let mut size = (80, 24);
        for happening in happenings {
            match happening {
                Happening::Key(key) => drop(state.on_key(key)),
                Happening::Interval(interval) => state.on_interval(*interval),
                Happening::End => state.on_end(),
                Happening::Size(width, height) => size = (width, height),
            }
            let backend = draw(&mut state, size.0, size.1, Theme::new(true));
            for cell in &backend.buffer().content {
                prop_assert!(!cell.symbol().chars().any(char::is_control), "{:?} reached the terminal", cell.symbol());
            }
        }
    }
}

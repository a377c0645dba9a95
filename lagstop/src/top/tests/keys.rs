//! What keys do.

use ratatui::style::Modifier;

use super::*;
use crate::top::{KeyOutcome, keymap::KEYS, rows::RowKey, sort::By};

fn name_of_selection(app: &App) -> Option<String> {
    let table = &app.state().table;
    let row = table.selected_row()?;
    table.rows_in_sight().find(|(n, _)| *n == row).map(|(_, row)| row.label().to_owned())
}

fn many() -> Interval {
    Interval { cgroups: (2..200).map(|id| cgroup(id, &format!("service-{id}"), id)).collect(), ..interval() }
}

#[test]
fn no_colours_means_none_and_the_selection_is_still_seen() {
    let mut settings = TopSettings::default();
    settings.set_theme("none").unwrap();
    let mut app = replay(&settings);
    for keys in ["", "m", "m?", "?a", "t", "c", "c2", "3", "5"] {
        press(&mut app, keys);
        for cell in &draw(&mut app, 120, 30).buffer().content {
            assert_eq!((cell.fg, cell.bg), Default::default());
        }
    }
    press(&mut app, "1");
    let backend = draw(&mut app, 120, 30);
    let reversed = |y: &u16| backend.buffer()[(20, *y)].modifier.contains(Modifier::REVERSED);
    assert_eq!((0..30).filter(reversed).collect::<Vec<u16>>(), [8]);
}

#[test]
fn the_selection_follows_its_cgroup() {
    let mut app = showing(interval());
    drawn(&mut app, 80, 24);
    app.on_key(Key::Down).unwrap();
    drawn(&mut app, 80, 24);
    let selected = name_of_selection(&app);
    let row = |app: &App| app.state().table.selected_row();
    assert_eq!((row(&app), selected.as_deref()), (Some(1), Some("evil\u{1b}[2J\u{202e}name")));
    press(&mut app, "r");
    drawn(&mut app, 80, 24);
    assert_eq!((row(&app), name_of_selection(&app)), (Some(3), selected.clone()));
    // Idle for an interval, and back in another place.
    let mut idle = interval();
    idle.cgroups.retain(|cgroup| cgroup.id != CgroupId(24));
    app.on_interval(idle).unwrap();
    drawn(&mut app, 80, 24);
    assert_eq!(row(&app), None);
    let mut busy = interval();
    busy.cgroups[4].totals.pick_ns = Some(Nanos(900_000_000));
    app.on_interval(busy).unwrap();
    drawn(&mut app, 80, 24);
    assert_eq!((row(&app), name_of_selection(&app)), (Some(4), selected));
}

#[test]
fn the_selected_wait_stays_selected_and_opens_its_victim() {
    let mut app = showing_causes(interval());
    press(&mut app, "5");
    drawn(&mut app, 80, 24);
    app.on_key(Key::Down).unwrap();
    let selected = |app: &App| app.state().waits.rows()[app.state().waits.scroll().selected];
    let (before, place) = (selected(&app), app.state().waits.scroll().selected);
    // It waits less and comes later.
    let mut next = interval();
    next.cgroups.iter_mut().filter(|it| it.id == before.victim).for_each(|it| {
        it.totals.runq_wait_ns = Some(Nanos(90_000_000));
    });
    app.on_interval(with_causes(next)).unwrap();
    drawn(&mut app, 80, 24);
    assert_eq!(selected(&app).key(), before.key());
    assert!(app.state().waits.scroll().selected > place);
    app.on_key(Key::Enter).unwrap();
    assert_eq!(app.state().detail().map(|detail| detail.id), Some(before.victim));
}

#[test]
fn an_alert_about_waits_names_the_culprit() {
    // What most have in common would be told once.
    let mut few = interval();
    few.cgroups.truncate(3);
    let mut app = showing_causes(few);
    press(&mut app, "4");
    let screen = drawn(&mut app, 120, 40);
    assert!(screen.contains("times as long as it runs, 47 % behind "), "{screen}");
    let by_many = screen.lines().find(|line| line.contains("! shop/checkout")).unwrap();
    assert!(!by_many.contains(" behind "), "{by_many}");
}

#[test]
fn the_selection_stays_in_sight() {
    let mut app = showing(many());
    drawn(&mut app, 80, 24);
    let page = 13;
    for (key, row) in
        [(Key::PageDown, page), (Key::PageDown, 2 * page), (Key::Up, 2 * page - 1), (Key::End, 197), (Key::PageUp, 184)]
    {
        app.on_key(key).unwrap();
        drawn(&mut app, 80, 24);
        assert_eq!(app.state().table.selected_row(), Some(row));
        assert!(name_of_selection(&app).is_some(), "row {row} is out of sight");
    }
    drawn(&mut app, 60, 15);
    assert!(name_of_selection(&app).is_some(), "out of sight in a smaller terminal");
}

#[test]
fn what_has_no_figure_comes_last_either_way() {
    let mut app = showing(interval());
    let last = |app: &App| app.state().table.rows().last().map(|row| row.label().to_owned());
    assert_eq!(last(&app).as_deref(), Some("ssh.service"));
    press(&mut app, "r");
    assert_eq!(last(&app).as_deref(), Some("ssh.service"));
}

#[test]
fn a_held_view_goes_on_to_the_newest_when_it_is_let_go() {
    let mut app = showing(interval());
    press(&mut app, " ");
    for seq in 4..7 {
        let start_ns = Nanos((seq - 3) * Nanos::SECOND.0);
        app.on_interval(Interval { seq, start_ns, ..interval() }).unwrap();
        assert_eq!(app.state().shown(), Some(0));
    }
    assert!(drawn(&mut app, 80, 24).contains("PAUSED −3.00 s"));
    press(&mut app, "]");
    assert_eq!(app.state().shown(), Some(1));
    press(&mut app, "}");
    assert_eq!(app.state().shown(), Some(3), "no further than the newest");
    press(&mut app, "{");
    assert_eq!(app.state().shown(), Some(0));
    press(&mut app, " ");
    assert_eq!(app.state().shown(), Some(3));
    app.on_interval(Interval { seq: 7, ..interval() }).unwrap();
    assert_eq!(app.state().shown(), Some(4));
}

#[test]
fn a_recording_is_stepped_through_and_played() {
    let mut app = App::replay(recording(), &TopSettings::default()).unwrap();
    assert!(drawn(&mut app, 80, 24).contains("REPLAY 1/10"));
    assert_eq!(app.stays(), None, "until somebody plays it");
    press(&mut app, "}");
    assert!(drawn(&mut app, 80, 24).contains("END 10/10"));
    press(&mut app, "[[");
    assert!(drawn(&mut app, 80, 24).contains("REPLAY 8/10"));
    press(&mut app, " ");
    assert!(app.stays().is_some());
    app.play().unwrap();
    assert!(drawn(&mut app, 80, 24).contains("PLAYING 9/10"));
    app.play().unwrap();
    assert!(drawn(&mut app, 80, 24).contains("END 10/10"));
    assert_eq!(app.stays(), None);
    press(&mut app, " ");
    assert!(drawn(&mut app, 80, 24).contains("PLAYING 1/10"), "from the start again");
}

/// Reads all that led up to what is shown.
fn catch_up(app: &mut App) {
    while app.is_behind() {
        app.catch_up().unwrap();
    }
}

#[test]
fn a_jump_shows_at_once_and_learns_afterwards_what_led_to_it() {
    let mut stepped = App::replay(recording(), &TopSettings::default()).unwrap();
    press(&mut stepped, "]]]]]]]]]");
    let mut jumped = App::replay(recording(), &TopSettings::default()).unwrap();
    press(&mut jumped, "}");
    assert!(jumped.is_behind() && drawn(&mut jumped, 160, 45).contains("END 10/10"));
    // One cgroup's past is not told before it is known.
    jumped.on_key(Key::Enter).unwrap();
    assert!(jumped.state().detail().unwrap().trend.is_empty());
    catch_up(&mut jumped);
    stepped.on_key(Key::Enter).unwrap();
    assert_eq!(jumped.state().detail().unwrap().trend.len(), 10);
    assert_eq!(drawn(&mut jumped, 160, 45), drawn(&mut stepped, 160, 45));
    for app in [&mut jumped, &mut stepped] {
        app.on_key(Key::Esc).unwrap();
    }
    assert_eq!(drawn(&mut jumped, 160, 45), drawn(&mut stepped, 160, 45));
}

#[test]
fn who_goes_on_before_all_is_read_gets_there_too() {
    let mut app = App::replay(recording(), &TopSettings::default()).unwrap();
    press(&mut app, "}");
    app.catch_up().unwrap();
    press(&mut app, "[[");
    assert!(app.is_behind() && drawn(&mut app, 80, 24).contains("REPLAY 8/10"));
    press(&mut app, "{");
    assert!(!app.is_behind(), "what was read is kept");
    press(&mut app, "}[");
    catch_up(&mut app);
    let mut stepped = App::replay(recording(), &TopSettings::default()).unwrap();
    press(&mut stepped, "]]]]]]]]");
    assert_eq!(drawn(&mut app, 160, 45), drawn(&mut stepped, 160, 45));
}

#[test]
fn a_damaged_interval_on_the_way_is_told_and_passed_over() {
    let fixture = std::fs::read_to_string(RECORDING).unwrap();
    let mut lines: Vec<String> = fixture.lines().map(str::to_owned).collect();
    lines[5] = lines[5].replacen(r#""host":{"#, r#""host":{"switches":"many","#, 1);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    let mut app = App::replay(Reader::open(file.path()).unwrap(), &TopSettings::default()).unwrap();
    press(&mut app, "}");
    catch_up(&mut app);
    let screen = drawn(&mut app, 160, 45);
    assert!(screen.contains("END 10/10") && screen.contains("line 6"), "{screen}");
    press(&mut app, "[");
    assert!(drawn(&mut app, 160, 45).contains("REPLAY 9/10"));
}

#[test]
fn what_is_stepped_back_to_is_what_was_shown() {
    let mut app = App::replay(recording(), &TopSettings::default()).unwrap();
    let mut seen = Vec::new();
    for _ in 0..10 {
        seen.push(drawn(&mut app, 160, 45));
        press(&mut app, "]");
    }
    // The past is kept with a precision of 0.05 %: of three figures the last may be rounded to another side.
    let close = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 0.0101 || (a - b).abs() <= 0.0112 * a.abs(),
        _ => a == b,
    };
    let differ = |a: &str, b: &str| {
        let (a, b): (Vec<_>, Vec<_>) = (a.split_whitespace().collect(), b.split_whitespace().collect());
        a.len() != b.len() || a.iter().zip(&b).any(|(a, b)| !close(a, b))
    };
    for before in seen.iter().rev() {
        let again = drawn(&mut app, 160, 45);
        for (before, again) in before.lines().zip(again.lines()).skip(4) {
            assert!(!differ(before, again), "{before}\n{again}");
        }
        press(&mut app, "[");
    }
}

#[test]
fn sorting_goes_through_all_columns_and_back() {
    let mut app = showing(interval());
    let sort = |app: &App| app.state().table.sort();
    let first = sort(&app);
    let columns = app.state().table.columns().len();
    press(&mut app, &"s".repeat(columns));
    assert_eq!(sort(&app).by, By::Name);
    press(&mut app, "s");
    assert_eq!(sort(&app), first);
    press(&mut app, "<<");
    press(&mut app, ">>");
    assert_eq!(sort(&app), first);
}

#[test]
fn columns_are_chosen_and_moved() {
    let mut app = showing(interval());
    drawn(&mut app, 160, 45);
    press(&mut app, "c ");
    drawn(&mut app, 160, 45);
    let first = |app: &App| app.state().table.columns()[0].key();
    assert_eq!(first(&app), "mean-switch-cost");
    app.on_key(Key::Down).unwrap();
    press(&mut app, "++");
    assert_eq!(app.state().table.columns()[2].key(), "mean-switch-cost");
    press(&mut app, "d");
    assert_eq!(first(&app), "switch-cost");
    for _ in 0..40 {
        drawn(&mut app, 160, 45);
        press(&mut app, " j");
    }
    assert!(!app.state().table.columns().is_empty(), "the last one stays");
}

#[test]
fn where_guests_run_one_more_column_is_shown_unless_columns_were_chosen() {
    let guests = || {
        let mut interval = interval();
        let files = &mut interval.cgroups[0].files;
        (files.vcpu_wait_ns, files.vcpu_ns) = (Some(Nanos(150_000_000)), Some(Nanos(2_000_000_000)));
        interval
    };
    let keys = |app: &App| app.state().table.columns().iter().map(|column| column.key()).collect::<Vec<_>>();
    let mut app = showing(interval());
    assert!(!keys(&app).contains(&"cpu-ready"));
    app.on_interval(guests()).unwrap();
    let at = keys(&app).iter().position(|key| *key == "runq-wait").unwrap();
    assert_eq!(keys(&app)[at + 1], "cpu-ready");
    let screen = drawn(&mut app, 250, 45);
    assert!(screen.contains("ready %") && screen.contains(" 7.50") && screen.contains(" n/a"), "{screen}");
    // It stays as the user has it.
    app.on_interval(guests()).unwrap();
    assert_eq!(keys(&app).iter().filter(|key| **key == "cpu-ready").count(), 1);
    let mut chosen = showing(interval());
    press(&mut chosen, "c ");
    chosen.on_interval(guests()).unwrap();
    assert!(!keys(&chosen).contains(&"cpu-ready"));
    let mut settings = TopSettings::default();
    settings.set_columns(["cpu"]).unwrap();
    let mut chosen = App::live(&session(), &settings);
    chosen.on_interval(guests()).unwrap();
    assert_eq!(keys(&chosen), ["cpu"]);
}

#[test]
fn a_filter_is_kept_given_up_and_taken_away() {
    let mut app = replay(&TopSettings::default());
    let rows = |app: &App| app.state().table.rows().len();
    let all = rows(&app);
    press(&mut app, "fns:shop");
    assert_eq!(rows(&app), 12);
    app.on_key(Key::Enter).unwrap();
    press(&mut app, "/");
    assert_eq!(rows(&app), all, "what is shown is what the prompt says");
    press(&mut app, "(nginx)$");
    assert_eq!(rows(&app), 1);
    press(&mut app, "(");
    assert_eq!(rows(&app), 1, "what cannot be read changes nothing");
    app.on_key(Key::Enter).unwrap();
    assert!(drawn(&mut app, 80, 24).contains("unclosed group"), "and is not kept");
    app.on_key(Key::Backspace).unwrap();
    app.on_key(Key::Esc).unwrap();
    assert_eq!(rows(&app), 12, "as before");
    assert_eq!(app.on_key(Key::Esc).unwrap(), KeyOutcome::Redraw);
    assert_eq!(rows(&app), all);
    assert_eq!(app.on_key(Key::Esc).unwrap(), KeyOutcome::Quit);
}

#[test]
fn every_key_is_in_the_help_and_means_something() {
    let mut app = showing(many());
    press(&mut app, "?");
    let help = drawn(&mut app, 160, 120);
    for binding in KEYS {
        let keys: Vec<String> = binding.keys.iter().map(ToString::to_string).collect();
        let start: String = binding.help.chars().take(40).collect();
        let line = help.lines().find(|line| line.contains(&start)).unwrap_or_default();
        assert!(line.contains(&keys.join(" ")), "{} is not in the help", keys.join(" "));
    }
    for binding in KEYS.iter().filter(|binding| binding.context == crate::top::keymap::Context::Anywhere) {
        for &key in binding.keys {
            let mut app = showing(many());
            drawn(&mut app, 80, 24);
            assert_ne!(app.on_key(key).unwrap(), KeyOutcome::Ignored, "{key} does nothing");
        }
    }
    assert_eq!(app.on_key(Key::Char('Z')).unwrap(), KeyOutcome::Ignored);
}

#[test]
fn help_that_is_longer_than_the_screen_scrolls_to_its_end() {
    let mut app = showing(interval());
    press(&mut app, "?");
    drawn(&mut app, 60, 15);
    app.on_key(Key::End).unwrap();
    let end = drawn(&mut app, 60, 15);
    assert!(end.contains("no events to average.") && end.contains('↑'), "{end}");
}

#[test]
fn a_cgroup_is_opened_and_its_limits_come_later() {
    let mut app = showing(interval());
    drawn(&mut app, 100, 120);
    app.on_key(Key::Enter).unwrap();
    let (id, path) = app.looked_at().unwrap();
    assert_eq!((id, &*path), (CgroupId(21), "/21"));
    assert!(drawn(&mut app, 100, 120).contains("being read…"));
    let thread = |tid, wait| crate::model::Thread {
        tid,
        name: "work\u{1b}er".to_owned(),
        cpu_ns: Some(Nanos(100_000_000)),
        runq_wait_ns: Some(Nanos(wait)),
    };
    app.on_look(crate::model::CloserLook {
        id,
        limits: crate::model::CgroupLimits {
            quota: Some(crate::model::Quota { quota_ns: Some(Nanos(50_000_000)), period_ns: Nanos(100_000_000) }),
            weight: Some(300),
            default_weight: 100,
            idle: Some(false),
            cpus: Some("0-3".to_owned()),
        },
        threads: Ok(vec![thread(7, 10_000_000), thread(8, 250_000_000)]),
        over_ns: Some(Nanos::SECOND),
    });
    let screen = drawn(&mut app, 100, 120);
    for text in
        ["0.50 CPUs: 50.0 ms each 100 ms", "300 (default 100)", "0-3", "2 threads, by run-queue wait, over 1.00 s"]
    {
        assert!(screen.contains(text), "{text} is not in\n{screen}");
    }
    let place = |text: &str| screen.find(text).unwrap();
    assert!(place("waits  25.0 %") < place("waits  1.00 %"), "the longest wait first");
    // Again is nothing new, and keys of the table do not reach it.
    for key in [Key::Enter, Key::Char('t'), Key::Char('x')] {
        app.on_key(key).unwrap();
        assert_eq!(drawn(&mut app, 100, 120), screen);
    }
    app.on_key(Key::Esc).unwrap();
    assert_eq!(app.looked_at(), None);
}

/// Each of them is throttled, and `busy` most of all.
fn alarming(busy: u64) -> Interval {
    let throttled = |mut cgroup: Cgroup| {
        let throttled = if cgroup.id.0 == busy { 9 } else { 1 };
        (cgroup.files.nr_periods, cgroup.files.nr_throttled) = (Some(10), Some(throttled));
        cgroup
    };
    Interval { cgroups: many().cgroups.into_iter().map(throttled).collect(), ..interval() }
}

#[test]
fn all_alerts_are_reached_and_whose_they_are_is_opened() {
    let mut app = showing(alarming(150));
    press(&mut app, "a");
    let screen = drawn(&mut app, 80, 24);
    assert!(screen.contains("alerts 1–4 of 199: 4 has all"), "{screen}");
    press(&mut app, "4");
    let screen = drawn(&mut app, 80, 24);
    assert!(screen.contains("alerts 1–16 of 199, the worst first") && !screen.contains("has all"), "{screen}");
    app.on_key(Key::End).unwrap();
    let screen = drawn(&mut app, 80, 24);
    assert!(screen.contains("alerts 184–199 of 199") && screen.contains("service-199"), "{screen}");
    // What is selected stays so where another one becomes the worst.
    app.on_interval(alarming(199)).unwrap();
    assert!(drawn(&mut app, 80, 24).contains("alerts 2–17 of 199"));
    app.on_key(Key::Enter).unwrap();
    assert_eq!(app.looked_at().unwrap().0, CgroupId(199));
    app.on_key(Key::Esc).unwrap();
    assert!(drawn(&mut app, 80, 24).contains("the worst first"));
    // The host has nothing to open.
    let mut app = showing(Interval { cgroups: Vec::new(), ..expensive() });
    press(&mut app, "4");
    drawn(&mut app, 80, 24);
    app.on_key(Key::Enter).unwrap();
    assert!(drawn(&mut app, 80, 24).contains("see the top of the screen for the host"));
}

/// The host's overhead crosses a threshold.
fn expensive() -> Interval {
    let mut interval = interval();
    interval.host.totals.pick_ns = Some(Nanos(2_000_000_000));
    interval
}

/// A listener of the cgroup `owner`.
fn listening(owner: Option<u64>, interval: Interval) -> Interval {
    let address = (std::net::Ipv4Addr::LOCALHOST, 80).into();
    let listener = crate::model::Listener { cgroup: owner.map(CgroupId), ..crate::model::Listener::new(1, address) };
    Interval { listeners: vec![listener], ..interval }
}

#[test]
fn the_idle_owner_of_a_listener_is_opened_by_the_name_it_had() {
    let mut idle = listening(Some(22), interval());
    idle.cgroups.retain(|cgroup| cgroup.id != CgroupId(22));
    let open = |app: &mut App| {
        press(app, "3");
        drawn(app, 80, 24);
        app.on_key(Key::Enter).unwrap();
        drawn(app, 80, 24)
    };
    let mut app = showing(interval());
    app.on_interval(idle.clone()).unwrap();
    let screen = open(&mut app);
    for text in ["── ssh.service ──", "/22", "Idle in this interval", "being read…"] {
        assert!(screen.contains(text), "{text} is not in\n{screen}");
    }
    assert_eq!(app.looked_at(), Some((CgroupId(22), "/22".into())));
    // Never seen before: nobody knows its files.
    let mut app = showing(idle);
    let screen = open(&mut app);
    assert!(screen.contains("── cgroup 22 ──") && screen.contains("Path unknown"), "{screen}");
    assert_eq!(app.looked_at(), None);
    app.on_interval(interval()).unwrap();
    assert!(drawn(&mut app, 80, 24).contains("── ssh.service ──"), "until it runs");
    assert!(app.looked_at().is_some());
    let mut app = showing(listening(None, interval()));
    assert!(open(&mut app).contains("the cgroup of this listener is unknown"));
}

#[test]
fn limits_that_nobody_reads_any_more_are_not_waited_for() {
    let mut app = showing(interval());
    drawn(&mut app, 100, 60);
    app.on_key(Key::Enter).unwrap();
    assert!(drawn(&mut app, 100, 60).contains("being read…"));
    app.on_looks_end();
    let screen = drawn(&mut app, 100, 60);
    assert!(screen.contains("This is a bug in lagstop") && !screen.contains("being read…"), "{screen}");
}

#[test]
fn the_selection_stays_at_its_path_while_the_cgroup_there_is_idle() {
    let at = |id, path: &str| Cgroup { path: path.into(), ..cgroup(id, path, id) };
    let busy = || Interval { cgroups: vec![at(5, "/a"), at(6, "/a/b"), at(7, "/a/c"), at(9, "/d")], ..interval() };
    let mut idle = busy();
    idle.cgroups.remove(0);
    let mut app = showing(busy());
    press(&mut app, "tj");
    drawn(&mut app, 80, 24);
    let key = |app: &App| app.state().table.selected_row().map(|row| app.state().table.rows()[row].key.clone());
    assert_eq!(key(&app), Some(RowKey::Cgroup(CgroupId(5))));
    app.on_interval(idle).unwrap();
    assert_eq!(key(&app), Some(RowKey::Path("/a".into())));
    app.on_interval(busy()).unwrap();
    assert_eq!(key(&app), Some(RowKey::Cgroup(CgroupId(5))));
}

//! Golden frames of every view at three sizes, from a recording.

use insta::assert_snapshot;
use ratatui::{backend::TestBackend, style::Modifier};

use super::*;

const SIZES: [(u16, u16); 3] = [(60, 15), (80, 24), (160, 45)];

/// Draws what `prepare` leaves on the screen, at each size.
fn frames(name: &str, settings: &TopSettings, prepare: impl Fn(&mut App)) {
    for (width, height) in SIZES {
        let mut app = replay(settings);
        // Moves depend on how much is seen.
        drawn(&mut app, width, height);
        prepare(&mut app);
        assert_snapshot!(format!("{name}_{width}x{height}"), drawn(&mut app, width, height));
    }
}

fn keys(keys: &'static str) -> impl Fn(&mut App) {
    move |app| press(app, keys)
}

#[test]
fn the_cgroups() {
    frames("cgroups", &TopSettings::default(), |_| {});
}

#[test]
fn the_tree() {
    frames("tree", &TopSettings::default(), keys("t"));
}

#[test]
fn a_folded_tree_further_right() {
    frames("folded", &TopSettings::default(), |app| {
        press(app, "tjx");
        for _ in 0..4 {
            app.on_key(Key::Right).unwrap();
        }
    });
}

#[test]
fn one_cgroup() {
    frames("detail", &TopSettings::default(), |app| {
        app.on_key(Key::Enter).unwrap();
    });
}

#[test]
fn one_cgroup_with_a_listener_at_its_end() {
    frames("detail_end", &TopSettings::default(), |app| {
        press(app, "fgateway");
        app.on_key(Key::Enter).unwrap();
        app.on_key(Key::Enter).unwrap();
        drawn(app, 80, 24);
        app.on_key(Key::End).unwrap();
    });
}

#[test]
fn the_cpus() {
    frames("cpus", &TopSettings::default(), keys("2"));
}

#[test]
fn the_listeners() {
    frames("listeners", &TopSettings::default(), keys("3"));
}

#[test]
fn the_alerts() {
    frames("alerts", &TopSettings::default(), keys("a"));
    frames("all_alerts", &TopSettings::default(), keys("4j"));
}

/// Draws what `prepare` leaves of a screen with causes of waits, at each size and at one that is common.
fn frames_with_causes(name: &str, prepare: impl Fn(&mut App)) {
    for (width, height) in SIZES.into_iter().chain([(120, 40)]) {
        let mut app = showing_causes(interval());
        drawn(&mut app, width, height);
        prepare(&mut app);
        assert_snapshot!(format!("{name}_{width}x{height}"), drawn(&mut app, width, height));
    }
}

#[test]
fn who_makes_whom_wait() {
    frames_with_causes("waits", keys("5j"));
    frames_with_causes("waits_filter", |app| {
        press(app, "5fssh");
        app.on_key(Key::Enter).unwrap();
    });
    frames_with_causes("waits_detail", |app| {
        press(app, "5");
        app.on_key(Key::Enter).unwrap();
    });
    frames_with_causes("waits_column", keys("a"));
    frames_with_causes("waits_tree", keys("t"));
    frames("waits_not_measured", &TopSettings::default(), keys("5"));
}

#[test]
fn a_filter_that_is_typed() {
    frames("filter", &TopSettings::default(), keys("fshop"));
    frames("filter_wrong", &TopSettings::default(), keys("/shop("));
}

#[test]
fn the_help() {
    frames("help", &TopSettings::default(), keys("?"));
}

#[test]
fn the_hooks() {
    frames("hooks", &TopSettings::default(), keys("m"));
}

#[test]
fn the_choice_of_columns() {
    frames("columns", &TopSettings::default(), keys("cj j "));
}

#[test]
fn ascii_alone() {
    let mut settings = TopSettings::default();
    settings.set_ascii(true);
    for (name, key) in [("ascii_cgroups", "a"), ("ascii_cpus", "2"), ("ascii_help", "?")] {
        frames(name, &settings, keys(key));
        let mut app = replay(&settings);
        press(&mut app, key);
        assert!(drawn(&mut app, 160, 45).is_ascii());
    }
}

#[test]
fn waits_in_ascii_alone() {
    let mut settings = TopSettings::default();
    settings.set_ascii(true);
    let mut app = App::live(&session(), &settings);
    app.on_interval(with_causes(interval())).unwrap();
    for keys in ["5", "a", "1"] {
        press(&mut app, keys);
        assert!(drawn(&mut app, 120, 40).is_ascii());
        app.on_key(Key::Enter).unwrap();
        assert!(drawn(&mut app, 120, 40).is_ascii());
        app.on_key(Key::Esc).unwrap();
    }
}

/// What is not plain, run by run.
fn styles(backend: &TestBackend) -> String {
    let buffer = backend.buffer();
    let mut text = String::new();
    for y in 0..buffer.area.height {
        let mut x = 0;
        while x < buffer.area.width {
            let cell = &buffer[(x, y)];
            let style = cell.style();
            let start = x;
            let mut run = String::new();
            while x < buffer.area.width && buffer[(x, y)].style() == style {
                run.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            if (cell.fg, cell.modifier) != (Default::default(), Modifier::empty()) && !run.trim().is_empty() {
                text.push_str(&format!("{y:2} {start:3} {:?} {:?}: {}\n", cell.fg, cell.modifier, run.trim()));
            }
        }
    }
    text
}

#[test]
fn themes() {
    for theme in ["dark", "light", "none"] {
        let mut settings = TopSettings::default();
        settings.set_theme(theme).unwrap();
        let mut app = replay(&settings);
        assert_snapshot!(format!("theme_{theme}"), styles(&draw(&mut app, 80, 24)));
    }
}

#[test]
fn a_smaller_terminal_says_what_it_needs() {
    assert_snapshot!("too_small", drawn(&mut showing(interval()), 40, 10));
}

#[test]
fn before_the_first_interval_it_says_when_that_comes() {
    assert_snapshot!("measuring", drawn(&mut App::live(&session(), &TopSettings::default()), 60, 15));
}

#[test]
fn hostile_names_and_what_is_not_measured() {
    assert_snapshot!("hostile", drawn(&mut showing(interval()), 80, 24));
}

#[test]
fn without_ebpf_a_banner_says_why() {
    let session = Session {
        restricted: Some(
            "this process lacks CAP_BPF and CAP_PERFMON, without which the kernel refuses to load programs: run it as root, \
             or give the file its capabilities: setcap cap_bpf,cap_perfmon,cap_dac_read_search+ep lagstop"
                .to_owned(),
        ),
        ..session()
    };
    let mut interval = interval();
    for totals in interval.cgroups.iter_mut().map(|it| &mut it.totals).chain([&mut interval.host.totals]) {
        (totals.pick_ns, totals.swap_ns, totals.kept_ns, totals.migrations) = (None, None, None, None);
    }
    let mut app = App::live(&session, &TopSettings::default());
    app.on_interval(interval).unwrap();
    for (width, height) in SIZES {
        assert_snapshot!(format!("restricted_{width}x{height}"), drawn(&mut app, width, height));
    }
}

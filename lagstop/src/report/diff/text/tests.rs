use super::*;
use crate::{
    diff::{
        DiffSettings, compare,
        fixture::{Load, side},
    },
    display::is_hostile,
    report::diff::json,
};

fn comparison() -> Diff {
    let then = Load::default().intervals(60, 1);
    let mut now = Load { cost_ns: 6_000.0, wait_ns: 30_000.0, ..Load::default() }.intervals(60, 2);
    for interval in &mut now {
        interval.cgroups[1].name = "api\u{1b}[2J\u{202e}".into();
        interval.pick_function_way = Some("fentry:pick_task_fair".into());
    }
    compare(
        &side("2026-08-03T10:00:00Z", &then),
        &side("2026-08-03T11:00:00Z", &now),
        &DiffSettings { resamples: 500, ..DiffSettings::default() },
    )
}

fn lines_within(text: &str, width: usize) -> bool {
    text.lines().all(|line| line.chars().count() <= width)
}

#[test]
fn a_comparison_reads_like_this() {
    let mut comparison = comparison();
    comparison.keep(1);
    let text = render(&comparison, PageOptions::default());
    assert!(lines_within(&text, 100), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn on_a_narrow_terminal_it_reads_like_this() {
    let mut comparison = comparison();
    comparison.keep(1);
    comparison.doubts.push("The load differs: CPU utilisation was 20.0 % before and 60.0 % after.".to_owned());
    let text = render(&comparison, PageOptions { width: 60, colour: false });
    assert!(lines_within(&text, 60), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn for_programs_it_reads_like_this() {
    let mut comparison = comparison();
    comparison.keep(1);
    comparison.host.truncate(3);
    comparison.cgroups.iter_mut().for_each(|cgroup| cgroup.changes.truncate(1));
    insta::assert_snapshot!(json::render(&comparison).unwrap());
}

#[test]
fn colour_changes_nothing_but_colour() {
    let coloured = render(&comparison(), PageOptions { width: 100, colour: true });
    assert!(coloured.contains("\u{1b}[1;31mworse\u{1b}[0m"));
    let mut plain = coloured;
    for sgr in ["0", "1", "2", "1;31", "32", "1;33", "36"] {
        plain = plain.replace(&format!("\u{1b}[{sgr}m"), "");
    }
    assert_eq!(plain, render(&comparison(), PageOptions::default()));
}

#[test]
fn nothing_hostile_gets_through() {
    let mut comparison = comparison();
    comparison.after.session.hostname = "\u{1b}]0;owned\u{7}".to_owned();
    comparison.cgroups[0].name = format!("{}\u{9b}31m", "long".repeat(40));
    for width in [0, 30, 100] {
        let text = render(&comparison, PageOptions { width, colour: false });
        assert!(text.lines().all(|line| !line.contains(is_hostile)), "{text}");
    }
    let json = json::render(&comparison).unwrap();
    assert!(json.lines().all(|line| !line.contains(is_hostile)));
    let back: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(back["cgroups"][0]["name"], comparison.cgroups[0].name.as_str());
}

#[test]
fn an_empty_comparison_says_so() {
    let comparison = compare(&side("", &[]), &side("", &[]), &DiffSettings::default());
    let text = render(&comparison, PageOptions::default());
    assert!(
        text.starts_with(
            "On the host, there are not enough intervals to compare: record for longer. No cgroup is in both\nrecordings."
        ),
        "{text}"
    );
    assert!(!text.contains("NaN") && json::render(&comparison).is_ok(), "{text}");
}

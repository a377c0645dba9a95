//! What a browser makes of `lagstop diagnose --format html`, and of the page of `lagstop serve`. Needs Chromium; without, they count as
//! ignored, and say so.

#![expect(clippy::panic, clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "browser/chromium.rs"]
mod chromium;
#[path = "browser/page.rs"]
mod page;

use std::{
    fs,
    path::Path,
    process::{Command, ExitCode},
};

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;

const RECORDING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/dense.jsonl");
/// Names that Debian and others have for it.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];
/// Leaves a mark where any of it is run.
const HOSTILE: &str = "</td></details><script>document.documentElement.dataset.pwned='script'</script>\
                       <img src=x onerror=\"document.documentElement.dataset.pwned='image'\">\
                       <svg onload=\"document.documentElement.dataset.pwned='svg'\">";

/// A test that runs in the browser of this name.
type Test = fn(&str);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let browser = BROWSERS.into_iter().find(|name| Command::new(name).arg("--version").output().is_ok());
    if browser.is_none() && !arguments.list {
        eprintln!("\n*** SKIPPED: there is no Chromium here. What a hostile name does to a page is not tried. ***\n");
    }
    let tests: [(&str, Test); 5] = [
        ("a_hostile_name_does_nothing_in_chromium", a_hostile_name_does_nothing),
        ("the_page_shows_a_bully_within_three_seconds_and_goes_back_in_time", page::a_bully),
        ("hostile_names_do_nothing_on_the_page", page::hostile_names),
        ("old_figures_never_pass_for_live_ones", page::broken_answers),
        ("the_page_is_used_by_keyboard_and_on_a_phone", page::by_keyboard_and_on_a_phone),
    ];
    let trial = |(name, test): (&str, Test)| {
        let test = move || {
            test(browser.unwrap());
            Ok::<(), Failed>(())
        };
        Trial::test(name, test).with_ignored_flag(browser.is_none())
    };
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// The recording, with every cgroup called something hostile.
fn hostile(directory: &Path) -> std::path::PathBuf {
    let lines = fs::read_to_string(RECORDING).unwrap();
    let hostile = lines.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        for cgroup in line.get_mut("cgroups").and_then(Value::as_array_mut).into_iter().flatten() {
            cgroup["name"] = HOSTILE.into();
            cgroup["path"] = format!("/{HOSTILE}").into();
        }
        if let Some(hostname) = line.get_mut("hostname") {
            *hostname = HOSTILE.into();
        }
        line.to_string() + "\n"
    });
    let path = directory.join("hostile.jsonl");
    fs::write(&path, hostile.collect::<String>()).unwrap();
    path
}

fn a_hostile_name_does_nothing(browser: &str) {
    let home = tempfile::tempdir().unwrap();
    let recording = hostile(home.path());
    let report = Command::new(env!("CARGO_BIN_EXE_lagstop"))
        .arg("diagnose")
        .arg(&recording)
        .args(["--format", "html"])
        .output()
        .unwrap();
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
    let page = home.path().join("page.html");
    fs::write(&page, &report.stdout).unwrap();
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", home.path().join("profile").display()))
        .arg(&page)
        .output()
        .unwrap();
    let dom = String::from_utf8(output.stdout).unwrap();
    assert!(dom.contains("</html>"), "the page was not read: {}", String::from_utf8_lossy(&output.stderr));
    assert!(!dom.contains("data-pwned"), "a name was run");
    for element in ["<script", "<img"] {
        assert!(!dom.contains(element), "{element}");
    }
    assert!(dom.contains("&lt;script&gt;"), "the name is shown as what it is");
    assert!(dom.contains("<svg"), "there are pictures");
}

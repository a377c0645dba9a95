//! Recordings of incidents, each with the answer of a person who knew the load and had not seen what lagstop says.
//!
//! `incidents/record.py` made them. The headline must name the cause, and the first lines whose doing it is and what to do.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "mcp")]
#[path = "mcp/client.rs"]
#[allow(dead_code, reason = "others need all of it")]
mod client;

use std::{fs, path::Path, process::Command};

/// What a person said, as words that the report must have: in the headline, and in its first ten lines.
struct Incident {
    name: &'static str,
    /// The answer, written down before.
    answer: &'static str,
    headline: &'static [&'static str],
    beginning: &'static [&'static str],
}

const INCIDENTS: [Incident; 12] = [
    Incident {
        name: "saturation",
        answer: "26 equal cgroups want 26 CPUs and there are two. It is nobody's fault. Move some away.",
        headline: &["Overloaded", "26.0 CPUs", "there are 2", "none gets more than its share"],
        beginning: &["Move work to other hosts, or add CPUs"],
    },
    Incident {
        name: "bully",
        answer: "shop/checkout waits behind the six threads of etl/batch. Give checkout more weight.",
        headline: &["/shop/checkout waits", "behind /etl/batch"],
        beginning: &[
            "more weight for /shop against /etl",
            "should cut the p99 wait of /shop/checkout from 11.5 ms to about",
            "while the same work takes /etl about",
            "trial --policy weight --light /shop --apply",
        ],
    },
    Incident {
        name: "throttled",
        answer: "media/thumbnailer runs into its own quota of 0.4 CPUs; it wants two. Raise the quota.",
        headline: &["/media/thumbnailer is throttled", "its own quota of 0.40 CPUs", "would end it"],
        beginning: &["Raise its quota from 0.40 to 2.00 CPUs", "Undo: echo 40000 | sudo tee"],
    },
    Incident {
        name: "threads",
        answer: "ml/scorer has 24 threads for two CPUs, and only itself to wait for. Give it fewer threads.",
        headline: &["/ml/scorer", "24.0 threads", "2 CPUs"],
        beginning: &["thread pool to about 2 threads"],
    },
    Incident {
        name: "outweighed",
        answer: "sshd starves because kubepods has 64 times the weight of system.slice. Raise that of system.slice.",
        headline: &["/system.slice waits", "/kubepods outweighs it"],
        beginning: &[
            "Raise the CPUWeight of /system.slice from 100 to 2229",
            "system.slice CPUWeight=2229",
            "Undo: sudo systemctl set-property --runtime system.slice CPUWeight=100",
        ],
    },
    Incident {
        name: "backlog",
        answer: "Connections to shop/api queue up since it gets no CPU: etl has 16 times the weight of shop.",
        headline: &["/shop waits", "/etl outweighs it", "Connections to 127.0.0.1:8087 wait"],
        beginning: &["Raise the cpu.shares of /shop"],
    },
    Incident {
        name: "pinned",
        answer: "ingest/parser and ingest/writer are pinned to CPU 0 while CPU 1 has nothing to do. Unpin them.",
        headline: &["/ingest/parser waits", "behind /ingest/writer", "CPU 0, which is full", "are idle"],
        beginning: &["allow the idle ones", "taskset -apc"],
    },
    Incident {
        name: "dense",
        answer: "150 functions wake each other through pipes: far too many for two CPUs, and a quarter goes to switching.",
        headline: &["Overloaded", "All 150 cgroups wait", "24.6 % of its CPU time", "scheduling"],
        beginning: &["Move work to other hosts, or add CPUs"],
    },
    Incident {
        name: "light_heavy",
        answer: "20 light functions wait behind the two heavy ones. Put the light ones first.",
        headline: &["Short jobs wait behind long ones", "20 of 20 light cgroups", "/fn/heavy-"],
        beginning: &["trial --policy weight --from-diagnose"],
    },
    Incident {
        name: "steal",
        answer: "The hypervisor steals nearly a third of the CPU time. Ask for dedicated CPUs.",
        headline: &["Steal", "the hypervisor keeps 30.0 % of the CPU time"],
        beginning: &["CPUs that are not shared"],
    },
    Incident {
        name: "two",
        answer: "media/thumbnailer is throttled, and ingest/parser is pinned to CPU 0. Raise the quota, and unpin.",
        headline: &["/media/thumbnailer is throttled", "its own quota"],
        beginning: &["Raise its quota from 0.40", "Also: /ingest/parser waits", "CPU 0, which is full"],
    },
    Incident { name: "healthy", answer: "Nothing is wrong.", headline: &["Healthy", "13.2 % busy"], beginning: &[] },
];

/// What `lagstop diagnose` says, in the 100 columns that it has where there is no terminal.
fn report(name: &str) -> String {
    let recording = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/incidents/{name}.jsonl.zst"));
    let output =
        Command::new(env!("CARGO_BIN_EXE_lagstop")).args(["diagnose", "--commands"]).arg(recording).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// As one line.
fn joined(lines: &str) -> String {
    lines.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_headline_names_the_cause_and_the_first_lines_the_culprit_and_what_to_do() {
    for Incident { name, answer, headline, beginning } in INCIDENTS {
        let report = report(name);
        let first = joined(report.split("Next:").next().unwrap_or_default());
        for words in headline {
            assert!(first.contains(words), "{name}: {words:?} is not in {first:?}; {answer}");
        }
        let start = joined(&report.lines().take(10).collect::<Vec<_>>().join("\n"));
        for words in beginning {
            assert!(start.contains(words), "{name}: {words:?} is not in {start:?}; {answer}");
        }
    }
}

#[test]
fn a_recording_that_was_cut_off_is_said_to_be() {
    let home = tempfile::tempdir().unwrap();
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents/bully.jsonl.zst");
    let cut = home.path().join("cut.jsonl.zst");
    let bytes = fs::read(&whole).unwrap();
    fs::write(&cut, &bytes[..bytes.len() / 2]).unwrap();
    let said = |file: &Path| {
        let output = Command::new(env!("CARGO_BIN_EXE_lagstop")).arg("diagnose").arg(file).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(said(&cut).contains("cut.jsonl.zst was cut off, or is still being written"), "{}", said(&cut));
    assert_eq!(said(&whole), "");
}

#[test]
fn reports_fit_on_a_screen() {
    for Incident { name, .. } in INCIDENTS {
        let lines = report(name).lines().count();
        assert!(lines <= if name == "healthy" { 10 } else { 40 }, "{name} has {lines} lines");
    }
}

/// What an assistant is told names the cause, and what to do, as the report does.
#[cfg(feature = "mcp")]
#[tokio::test]
async fn an_assistant_is_told_the_cause_the_culprit_and_what_to_do() {
    use serde_json::json;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/incidents");
    let client = client::Client::start(&[folder.to_str().unwrap()]).await;
    for Incident { name, answer, headline, beginning } in INCIDENTS {
        let recording = format!("{name}.jsonl.zst");
        // Of another boot there are no commands.
        let shown = Command::new(env!("CARGO_BIN_EXE_lagstop")).arg("diagnose").arg(folder.join(&recording)).output();
        let shown = joined(&String::from_utf8(shown.unwrap().stdout).unwrap());
        for tool in ["overview", "diagnose"] {
            let result = client.call(tool, json!({ "recording": recording })).await;
            let text = client::text(&result);
            let first = joined(text.split("Next:").next().unwrap_or_default());
            for words in headline {
                assert!(first.contains(words), "{name} {tool}: {words:?} is not in {first:?}; {answer}");
            }
            for words in beginning.iter().filter(|words| shown.contains(**words)) {
                assert!(joined(&text).contains(words), "{name} {tool}: {words:?} is not in {text:?}; {answer}");
            }
            let data = result.structured_content.unwrap();
            assert_eq!(data["verdict"]["causes"].as_array().unwrap().is_empty(), name == "healthy", "{name} {tool}");
        }
    }
    client.end().await;
}

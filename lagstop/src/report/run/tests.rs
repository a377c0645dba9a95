use super::*;
use crate::{
    host::{HostMoment, SeenWork},
    model::CgroupId,
    run::{CommandStatus, CommandWaits, CrowdedOut, Crowder, EndedRun, Limits, Unmeasured, Work, judge},
};

const MS: u64 = 1_000_000;

fn behind(path: &str, ms: u64, threads: &[&str]) -> WaitedBehind {
    let threads = threads.iter().map(|&name| name.to_owned()).collect();
    let name = path.rsplit_once('/').map_or(path, |(_, name)| name);
    let name = if name.is_empty() { path } else { name };
    WaitedBehind { id: CgroupId(5), path: path.into(), name: name.into(), wait_ns: Nanos(ms * MS), threads }
}

fn host(steal: u64) -> HostMoment {
    HostMoment { steal_ns: Some(Nanos(steal * MS)), busy_ns: Some(Nanos(2_000 * MS)), ..HostMoment::default() }
}

/// That waited so long behind others and behind itself, in milliseconds.
fn run(number: u32, others: u64, itself: u64, whom: Vec<WaitedBehind>) -> Run {
    crowded(number, others, itself, 0, whom)
}

/// The same, of which it was crowded out for so long.
fn crowded(number: u32, others: u64, itself: u64, crowded_out: u64, whom: Vec<WaitedBehind>) -> Run {
    let waits = CommandWaits {
        count: 100,
        total_ns: Nanos((others + itself) * MS),
        p99_ns: Some(Nanos(14 * MS)),
        behind_others_ns: Nanos(others * MS),
        behind_itself_ns: Nanos(itself * MS),
        ..CommandWaits::default()
    };
    let crowder = Crowder { id: CgroupId(6), path: "/user.slice".into(), name: "user.slice".into(), cpu_ns: Nanos(MS) };
    let work = Work {
        cpu_ns: Nanos(939 * MS),
        waits: Some(waits),
        behind: whom,
        crowded_out: CrowdedOut {
            time_ns: Nanos(crowded_out * MS),
            perhaps_ns: Nanos::ZERO,
            ran: [(crowder.id, crowder)].into(),
        },
        migrations: Some(3),
        ..Work::default()
    };
    let status = CommandStatus { exit_code: Some(0), signal: None };
    let known =
        EndedRun { number, status, wall_ns: Nanos(2_000 * MS), work: Ok(work), host: host(4), ..EndedRun::default() };
    judge(known, &Limits::default())
}

fn series(runs: Vec<Run>, wanted: u32) -> RunSeries {
    RunSeries {
        command: vec!["make".to_owned(), "|`<x>\u{1b}[2J".to_owned()],
        method: Method::Ebpf,
        restricted: None,
        lagstop_version: "0.1.0".to_owned(),
        hostname: "ci-7".to_owned(),
        kernel: "6.12.1".to_owned(),
        cpus_online: 2,
        started_at: "2026-11-26T00:00:00Z".to_owned(),
        limits: Limits::default(),
        wanted,
        at_most: wanted * 3,
        runs,
    }
}

#[test]
fn one_line_says_who_and_how_much() {
    let disturbed = run(1, 61, 0, vec![behind("/user.slice", 51, &["cargo"]), behind("/", 9, &[])]);
    assert_eq!(
        line(&disturbed),
        "disturbed: waited 6.1 % of the time, 84 % of it behind user.slice (cargo); p99 wait 14.0 ms; throttled 0 %; steal 0.2 %"
    );
    let own = run(1, 0, 939, vec![]);
    assert_eq!(
        line(&own),
        "undisturbed: waited 0 % of the time; p99 wait 14.0 ms; throttled 0 %; steal 0.2 %; behind its own threads 50.0 %"
    );
    let root = run(2, 61, 0, vec![behind("/", 61, &[])]);
    assert!(
        numbered_line(&root)
            .starts_with("run 2 (2.00 s): disturbed: waited 6.1 % of the time, 100 % of it behind the root cgroup;")
    );
}

#[test]
fn who_was_crowded_out_is_told_by_whom() {
    let out = crowded(1, 1, 938, 900, vec![]);
    assert_eq!(
        line(&out),
        "disturbed: waited because of others 48.0 % of the time: crowded out for about 47.9 % (its threads waited for each other \
         while others, mostly user.slice, ran on CPUs allowed to all of them), behind others 0.05 %; p99 wait 14.0 ms; throttled 0 %; \
         steal 0.2 %; behind its own threads 2.0 %"
    );
    // Each alone is below the limit.
    let both = crowded(1, 15, 900, 15, vec![behind("/cron", 15, &[])]);
    assert_eq!(both.exceeded.len(), 1);
    let said = line(&both);
    assert!(
        said.starts_with("disturbed: waited because of others 1.6 % of the time: crowded out for about 0.8 %"),
        "{said}"
    );
    assert!(said.contains("of them), behind others 0.8 %, 100 % of it behind cron;"), "{said}");
    let failed = failure(&series(vec![both], 1), &[Disturbance::Wait]);
    assert_eq!(failed, "waited because of others 1.6 % and --max-wait is 1.0 %");
    let page = github(&series(vec![out], 1));
    assert!(page.contains("| **48.0 %** (limit 1.0 %) |"), "{page}");
    assert!(page.contains("| crowded out for about 47.9 %, mostly by user.slice |"), "{page}");
    // Not worth a word.
    assert!(!line(&crowded(1, 61, 100, 5, vec![])).contains("crowded"));
}

#[test]
fn what_matters_is_said_and_the_cause_comes_first() {
    let quiet = run(1, 0, 0, vec![]);
    let far = Run { migrations_cross_numa: Some(2), host_too_hot: Some(1), lost_events: 4, ..quiet.clone() };
    let expected =
        "; moved to another NUMA node 2 times; CPUs slowed down by heat 1 time; 4 events could not be measured";
    assert!(line(&far).ends_with(expected), "{}", line(&far));
    let at = |mean_khz| Frequency { mean_khz, nominal_khz: Some(2_400_000), samples: 9 };
    let slow = Run { frequency: Some(at(1_800_000)), ..quiet.clone() };
    assert!(line(&slow).ends_with("; CPUs at 1.80 GHz, below their nominal 2.40 GHz"), "{}", line(&slow));
    let fast = Run { frequency: Some(at(2_390_000)), ..quiet.clone() };
    assert_eq!(line(&fast), line(&quiet));
    let often = Run { migrations: Some(939), ..quiet };
    assert!(line(&often).ends_with("; 1000 migrations per second of CPU time"), "{}", line(&often));
    let known = EndedRun {
        work: Ok(Work { cpu_ns: Nanos(900 * MS), waits: Some(CommandWaits::default()), ..Work::default() }),
        host: host(500),
        ..EndedRun::default()
    };
    let stolen = judge(known, &Limits::default());
    assert!(line(&stolen).starts_with("disturbed: steal 20.0 %; waited 0 % of the time"), "{}", line(&stolen));
}

#[test]
fn what_files_tell_is_not_said_as_a_verdict() {
    let seen = SeenWork { cpu_ns: Nanos(880 * MS), runq_wait_ns: Some(Nanos(98 * MS)), threads: 3 };
    let host = HostMoment { pressure_ns: Some(Nanos(100 * MS)), ..host(0) };
    let known = EndedRun {
        wall_ns: Nanos(1_000 * MS),
        cpu_ns: Nanos(900 * MS),
        work: Err(Unmeasured::failed("lagstop needs CAP_BPF")),
        seen: Some(seen),
        host,
        ..EndedRun::default()
    };
    assert_eq!(
        line(&judge(known, &Limits::default())),
        "not judged: its threads waited 10.0 % of the time, for what is unknown; schedstat showed 97.8 % of its CPU time; \
         CPU pressure of the host 10.0 %; steal 0 %; lagstop needs CAP_BPF"
    );
}

#[test]
fn the_disturbed_are_named_and_their_part_of_the_spread_is_shown() {
    let mut runs =
        vec![run(1, 0, 0, vec![]), run(2, 61, 0, vec![behind("/user.slice", 61, &[])]), run(3, 0, 0, vec![])];
    runs[1].wall_ns = Nanos(3_000 * MS);
    let series = series(runs, 2);
    assert_eq!(
        summary(&series),
        "2 of 3 runs undisturbed; disturbed: 2\n\
         run time, all runs: 2.33 s ± 24.7 % (2.00 s to 3.00 s)\n\
         run time, undisturbed runs: 2.00 s ± 0 % (2.00 s to 2.00 s)\n"
    );
}

#[test]
fn json_fits_its_schema_and_no_name_moves_a_cursor() {
    let runs = vec![run(1, 61, 0, vec![behind("/evil\u{1b}[2J", 61, &["a\u{202e}b"])])];
    let text = json(&series(runs, 1)).unwrap();
    assert!(!text.contains('\u{1b}') && !text.contains('\u{202e}'));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(jsonschema::is_valid(&schema(), &document), "{text}");
    assert_eq!((&document["schema"], &document["verdict"]), (&SCHEMA.into(), &"disturbed".into()));
    assert_eq!(document["runs"][0]["exceeded"][0]["cause"], "wait");
    assert_eq!(document["runs"][0]["behind"][0]["path"], "/evil\u{1b}[2J");
}

#[test]
fn names_are_text_in_markdown() {
    let page = github(&series(vec![run(1, 61, 0, vec![behind("/a|b_<c>", 61, &[])])], 1));
    assert!(page.starts_with("### disturbed: make \\|\\`&lt;x&gt;"), "{page}");
    assert!(page.contains("| **6.1 %** (limit 1.0 %) |") && page.contains("a\\|b\\_&lt;c&gt; |"), "{page}");
    assert!(!page.contains('\u{1b}'));
}

#[test]
fn a_failed_limit_is_said() {
    let disturbed = run(1, 61, 0, vec![]);
    assert_eq!(
        failure(&series(vec![disturbed.clone()], 1), &[Disturbance::Wait]),
        "waited because of others 6.1 % and --max-wait is 1.0 %"
    );
    let unchecked = failure(&series(vec![disturbed.clone()], 1), &[Disturbance::Steal]);
    assert_eq!(unchecked, "the limits could not be checked");
    assert_eq!(failure(&series(vec![disturbed], 3), &[]), "0 of 1 run undisturbed, and --repeat is 3");
}

use super::*;
use crate::{
    host::{Nameless, SeenHierarchy},
    kernel::{Answer, Capabilities, Capability, Types},
    model::Measure,
};

/// A kernel and a process that have everything.
fn facts() -> Facts {
    let mut facts = Facts::probe(None);
    facts.types = Types::Kernel;
    facts.capabilities = Capabilities::FULL;
    facts.lockdown = Answer::Known("none".to_owned());
    facts.seccomp = Answer::Known(0);
    facts.locked_memory = None;
    facts.in_host_pid_namespace = Answer::Known(true);
    facts.in_host_user_namespace = Answer::Known(true);
    facts.perf_event_paranoid = Answer::Known(2);
    facts.tracefs = Answer::Known("/sys/kernel/tracing".into());
    facts
}

fn surroundings() -> Surroundings {
    Surroundings {
        hostname: "node-17".to_owned(),
        hierarchy: Ok(SeenHierarchy {
            version: 2,
            mount: "/sys/fs/cgroup".to_owned(),
            is_whole: true,
            groups_tasks: Some(true),
        }),
        has_pressure: true,
        lists_listeners: Ok(()),
        names_pods: Some(Ok(())),
        nameless: Vec::new(),
    }
}

fn hook(way: Option<&str>) -> Hook {
    Hook::new(Measure::Pick, way, "why".to_owned())
}

fn verdict(facts: Facts, surroundings: &Surroundings) -> (CheckVerdict, Vec<&'static str>) {
    let checkup = judge(facts, surroundings, &Wishes::default(), Ok(vec![hook(Some("fentry"))]), false);
    let missed =
        checkup.requirements.iter().filter(|one| one.state == RequirementState::Missed).map(|one| one.name).collect();
    (checkup.verdict, missed)
}

#[test]
fn nothing_missing_is_full() {
    assert_eq!(verdict(facts(), &surroundings()), (CheckVerdict::Full, vec![]));
}

#[test]
fn what_cannot_be_checked_is_not_missed() {
    let mut facts = facts();
    facts.lockdown = Answer::Unknown("securityfs is not mounted".to_owned());
    facts.seccomp = Answer::Known(2);
    let checkup = judge(facts, &surroundings(), &Wishes::default(), Ok(vec![hook(Some("fentry"))]), false);
    assert_eq!(checkup.verdict, CheckVerdict::Full);
    let unknown: Vec<_> = checkup.requirements.iter().filter(|one| one.state == RequirementState::Unknown).collect();
    assert_eq!(unknown.iter().map(|one| one.name).collect::<Vec<_>>(), ["lockdown", "seccomp"]);
    assert!(unknown.iter().all(|one| !one.remedies.is_empty() && one.lost.is_none()));
}

#[test]
fn a_measure_that_is_not_taken_degrades() {
    let checkup = judge(facts(), &surroundings(), &Wishes::default(), Ok(vec![hook(None)]), true);
    assert_eq!((checkup.verdict, checkup.measures[0].way.as_deref()), (CheckVerdict::Degraded, None));
}

#[test]
fn what_is_switched_off_is_not_missed() {
    let mut wishes = Wishes::default();
    wishes.set(Measure::Pick, crate::kernel::Wish::Off);
    assert_eq!(judge(facts(), &surroundings(), &wishes, Ok(vec![hook(None)]), true).verdict, CheckVerdict::Full);
}

#[test]
fn a_filter_is_only_said_to_let_bpf_pass_when_it_did() {
    let state = |outcome: Result<Vec<Hook>, KernelError>| {
        let mut facts = facts();
        facts.seccomp = Answer::Known(2);
        let checkup = judge(facts, &surroundings(), &Wishes::default(), outcome, true);
        let seccomp = checkup.requirements.iter().find(|one| one.name == "seccomp").unwrap();
        (seccomp.state, checkup.verdict)
    };
    let refused = KernelError::refused("eBPF object", "Operation not permitted");
    assert_eq!(state(Err(refused)), (RequirementState::Unknown, CheckVerdict::Unusable));
    assert_eq!(state(Ok(vec![])), (RequirementState::Satisfied, CheckVerdict::Full));
}

#[test]
fn a_container_of_its_own_degrades() {
    let mut facts = facts();
    facts.in_host_pid_namespace = Answer::Known(false);
    let mut surroundings = surroundings();
    if let Ok(seen) = &mut surroundings.hierarchy {
        (seen.is_whole, seen.groups_tasks) = (false, None);
    }
    assert_eq!(
        verdict(facts, &surroundings),
        (CheckVerdict::Degraded, vec!["the host's processes", "the host's cgroups"])
    );
}

#[test]
fn a_kernel_that_lists_no_sockets_degrades() {
    let mut surroundings = surroundings();
    surroundings.lists_listeners = Err(std::io::ErrorKind::NotFound.into());
    assert_eq!(verdict(facts(), &surroundings), (CheckVerdict::Degraded, vec!["socket diagnostics"]));
}

#[test]
fn pods_without_names_degrade_and_a_host_without_pods_does_not() {
    let mut surroundings = surroundings();
    surroundings.names_pods = Some(Err(std::io::ErrorKind::NotFound.into()));
    assert_eq!(verdict(facts(), &surroundings), (CheckVerdict::Degraded, vec!["names of pods"]));
    surroundings.names_pods = None;
    assert_eq!(verdict(facts(), &surroundings), (CheckVerdict::Full, vec![]));
}

#[test]
fn containers_whose_names_cannot_be_read_degrade_and_those_without_any_do_not() {
    let nameless = |why| Nameless { runtime: "docker", containers: 2, directory: "/var/lib/docker/containers", why };
    let of = |nameless| Surroundings { nameless: vec![nameless], ..surroundings() };
    let hidden = of(nameless(Some(std::io::ErrorKind::PermissionDenied.into())));
    assert_eq!(verdict(facts(), &hidden), (CheckVerdict::Degraded, vec!["names of containers"]));
    let checkup = judge(facts(), &hidden, &Wishes::default(), Ok(vec![]), false);
    let names = checkup.requirements.iter().find(|one| one.name == "names of containers").unwrap();
    let expected =
        "2 containers of docker with an id only: /var/lib/docker/containers cannot be read: permission denied";
    assert_eq!(names.found.to_lowercase(), expected);
    assert!(names.remedies[1].contains("-v /var/lib/docker/containers:/var/lib/docker/containers:ro"), "{names:?}");
    assert_eq!(verdict(facts(), &of(nameless(None))), (CheckVerdict::Full, vec![]));
}

#[test]
fn each_essential_lack_is_unusable_and_has_a_remedy() {
    let lacks: [fn(&mut Facts, &mut Surroundings); 6] = [
        |facts, _| facts.in_host_user_namespace = Answer::Known(false),
        |facts, _| facts.capabilities = Capabilities::NONE,
        |facts, _| {
            facts.locked_memory = Some(65_536);
            facts.capabilities = Capabilities::NONE.with(Capability::SysAdmin);
        },
        |facts, _| facts.types = Types::Missing("there is none".to_owned()),
        |facts, _| facts.lockdown = Answer::Known("confidentiality".to_owned()),
        |_, surroundings| surroundings.hierarchy = Err(crate::host::HostError::NoCgroups("v2")),
    ];
    for lack in lacks {
        let (mut facts, mut surroundings) = (facts(), surroundings());
        lack(&mut facts, &mut surroundings);
        let checkup = judge(facts, &surroundings, &Wishes::default(), Ok(vec![]), false);
        assert_eq!(checkup.verdict, CheckVerdict::Unusable);
        let missed =
            checkup.requirements.iter().find(|one| one.state == RequirementState::Missed && one.is_essential).unwrap();
        assert!(!missed.remedies.is_empty(), "{missed:?}");
    }
    let refused = KernelError::refused("program on sched_switch", "no");
    let checkup = judge(facts(), &surroundings(), &Wishes::default(), Err(refused), true);
    assert_eq!(checkup.verdict, CheckVerdict::Unusable);
}

#[test]
fn capabilities_are_asked_for_by_what_is_missing() {
    let mut facts = facts();
    facts.capabilities = Capabilities::NONE.with(Capability::Bpf).with(Capability::DacReadSearch);
    let checkup = judge(facts, &surroundings(), &Wishes::default(), Ok(vec![]), false);
    let attach = checkup.requirements.iter().find(|one| one.name == "capabilities to attach").unwrap();
    assert_eq!(attach.found, "CAP_PERFMON: not held");
    assert!(attach.remedies.iter().any(|remedy| remedy.contains("--cap-add PERFMON")), "{attach:?}");
    let look = checkup.requirements.iter().find(|one| one.name == "capabilities to look into").unwrap();
    assert!(look.remedies[1].contains("cap_dac_read_search,cap_sys_admin,cap_sys_ptrace+ep"), "{look:?}");
}

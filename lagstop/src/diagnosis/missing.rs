//! Why a measure is not there.

use crate::model::Session;

/// Why `measure`, by the name that hooks give it, was not measured.
pub(super) fn why(session: &Session, measure: &str) -> String {
    let hooks: Vec<String> = session
        .missing_hooks()
        .filter(|hook| hook.measures.contains(measure))
        .map(|hook| format!("{} ({})", hook.name, hook.detail))
        .collect();
    if hooks.is_empty() {
        format!("no interval has {measure}, and no hook is said to be missing")
    } else {
        format!("not measured without {}", hooks.join(" and "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hook, HookState};

    #[test]
    fn the_hook_and_its_reason_are_named() {
        let hook = Hook {
            name: "sched_entry_tp".to_owned(),
            state: HookState::Off,
            way: None,
            detail: "kernel 6.8.0 has no such tracepoint".to_owned(),
            measures: "pick cost, kept-running cost, switch cost".to_owned(),
        };
        let session = Session { hooks: vec![hook], ..Session::default() };
        assert_eq!(
            why(&session, "switch cost"),
            "not measured without sched_entry_tp (kernel 6.8.0 has no such tracepoint)"
        );
        assert!(why(&session, "run-queue wait").contains("no hook is said to be missing"));
    }
}

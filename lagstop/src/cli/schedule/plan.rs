//! `lagstop schedule --dry-run`: what LAGS would do on this host.

use std::fmt::Write as _;

use crate::{
    display::display_name,
    schedule::{Credit, GroupUse, PreparedSchedule},
    units::{count, number, plural, whole_percent},
};

/// Cgroups that are named on either side.
const NAMED: usize = 5;
/// Of its share, what a cgroup uses at most that is said to go first. Chosen: what is nearer to its share may be either side of it in the
/// next second.
const GOES_FIRST: f64 = 0.75;

/// Describes what would be done, `measured` being what each cgroup used in `time`, if that was measured.
pub(super) fn planned(prepared: &PreparedSchedule, measured: Option<(&[GroupUse], &str)>) -> String {
    let PreparedSchedule { cgroups, ranked, weighted, quotas, .. } = prepared;
    let options = prepared.options();
    let by_load = options.tuning.credit == Credit::Paper;
    let mut text = format!("LAGS can schedule this host ({}", plural(*cgroups as u64, "cgroup"));
    if options.only.is_some() {
        let _ = write!(text, "; --only lets {} of them go first", count(*ranked as u64));
    }
    match prepared.queues() {
        1 => text.push_str("; 1 run queue).\n"),
        many => _ = writeln!(text, "; {many} run queues, one for each last-level cache)."),
    }
    match measured {
        // By this credit, what waits is heavy, too.
        _ if by_load => {}
        Some((uses, time)) => text.push_str(&who_gains(uses, time)),
        None => text.push_str("It was not measured which cgroups would go first (--learn 0s).\n"),
    }
    if *weighted > 0 && !by_load {
        let _ =
            writeln!(text, "{} a cpu.weight that is not the default, or cpu.idle. LAGS respects it.", have(*weighted));
    }
    if !quotas.is_empty() {
        let _ = writeln!(text, "{} a CPU quota, which is not enforced while LAGS schedules.", have(quotas.len()));
    }
    if prepared.fears_real_time() {
        text.push_str("WARNING: before Linux 7.0, the host hangs if real-time tasks take all CPUs under LAGS. ");
        text.push_str(if options.ignore_real_time {
            "--ignore-real-time turns off the check that stops LAGS before that.\n"
        } else {
            "lagstop stops LAGS when they use half of a CPU, but that can be too late.\n"
        });
    }
    text.push_str(
        "Nothing was changed. To measure what LAGS changes here, run:\n  sudo lagstop trial --policy lags --apply",
    );
    for flag in options.ignored() {
        let _ = write!(text, " {flag}");
    }
    text + "\n"
}

/// Who goes first, and who waits for them, by what each used. `uses` begins with those that use the least of their shares.
fn who_gains(uses: &[GroupUse], time: &str) -> String {
    let (light, heavy) = uses.split_at(uses.partition_point(|one| one.of_share() <= GOES_FIRST));
    let of = format!("{} (last {time})", plural(uses.len() as u64, "active cgroup"));
    if uses.is_empty() {
        return format!("No cgroup was active (last {time}).\n");
    }
    if light.is_empty() {
        return format!("None of {of} is light: LAGS would put none first.\n");
    }
    if heavy.is_empty() {
        return format!("All of {of} are light: none would have to wait for the others.\n");
    }
    let are = if light.len() == 1 { "is" } else { "are" };
    format!(
        "Of {of}, {} {are} light: used at most {} of the fair share. LAGS would run these first:\n{}These would wait for them:\n{}",
        count(light.len() as u64),
        whole_percent(GOES_FIRST),
        named(light.iter()),
        named(heavy.iter().rev()),
    )
}

fn named<'a>(uses: impl ExactSizeIterator<Item = &'a GroupUse>) -> String {
    let more = uses.len().saturating_sub(NAMED);
    let mut text = String::new();
    for GroupUse { path, used_cpus, share_cpus } in uses.take(NAMED) {
        let (used, share) = (number(*used_cpus), number(*share_cpus));
        let _ = writeln!(text, "  {}: used {used} CPUs, fair share {share}", display_name(path));
    }
    if more > 0 {
        let _ = writeln!(text, "  and {} more", count(more as u64));
    }
    text
}

fn have(cgroups: usize) -> String {
    let has = if cgroups == 1 { "has" } else { "have" };
    format!("{} {has}", plural(cgroups as u64, "cgroup"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(path: &str, used_cpus: f64, share_cpus: f64) -> GroupUse {
        GroupUse { path: path.to_owned(), used_cpus, share_cpus }
    }

    #[test]
    fn who_goes_first_is_named_with_what_it_uses() {
        let uses = [one("/web", 0.02, 0.4), one("/even", 0.39, 0.4), one("/batch", 1.6, 0.4)];
        assert_eq!(
            who_gains(&uses, "2s"),
            "Of 3 active cgroups (last 2s), 1 is light: used at most 75 % of the fair share. LAGS would run these first:\n  /web: used \
             0.020 CPUs, fair share 0.40\nThese would wait for them:\n  /batch: used 1.60 CPUs, fair share 0.40\n  /even: used 0.39 \
             CPUs, fair share 0.40\n"
        );
        assert!(who_gains(&uses[1..], "2s").contains("None of 2 active cgroups"));
        assert!(who_gains(&uses[..1], "2s").contains("All of 1 active cgroup"));
        assert!(who_gains(&[], "2s").contains("No cgroup"));
        let mut many: Vec<GroupUse> = (0..8).map(|n| one(&format!("/{n}"), 0.1, 1.0)).collect();
        many.push(one("/batch", 1.0, 1.0));
        let said = who_gains(&many, "2s");
        assert!(
            said.contains("/4:") && !said.contains("/5:") && said.contains("and 3 more\nThese would wait"),
            "{said}"
        );
    }
}

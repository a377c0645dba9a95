//! A plan of CPU sets for people.

use super::page::{Colour, Options, Page};
use crate::diagnosis::{Planned, PlannedCgroup, Strictness};

/// The plan, and the commands that carry it out.
pub fn render(plan: &Planned, options: Options) -> String {
    let mut page = Page::new(options);
    let (mine, others): (Vec<_>, Vec<_>) = plan.cgroups.iter().partition(|one| one.is_sensitive);
    if mine.is_empty() {
        page.text(
            "",
            Colour::Bold,
            "No cgroup needs a CPU set: none runs into its quota with more threads than it may use.",
        );
        return page.finish();
    }
    let or_none = |list: &str| if list.is_empty() { "none".to_owned() } else { list.to_owned() };
    let policy = match plan.strictness {
        Strictness::PrincipleHard => "principle-hard",
        Strictness::BestEffort => "best-effort",
    };
    page.text("", Colour::Bold, &format!("CPU sets, {policy}: who has a quota sees as many CPUs as it gets."));
    page.text("", Colour::None, &format!("CPUs of one cgroup alone (P1): {}", or_none(&plan.exclusive)));
    page.text("", Colour::None, &format!("CPUs shared by the part (P2):  {}", or_none(&plan.parts)));
    page.text("", Colour::None, &format!("CPUs of all others (P3):       {}", or_none(&plan.pool)));
    page.blank();
    mine.into_iter().for_each(|one| cgroup(&mut page, one));
    if !others.is_empty() {
        page.blank();
        page.text("", Colour::None, "All others share what is left:");
        others.into_iter().for_each(|one| cgroup(&mut page, one));
    }
    page.blank();
    page.text(
        "",
        Colour::Dim,
        "Quotas stay as they are. In version 2 each level above needs the controller: echo +cpuset to cgroup.subtree_control \
         there. Units of systemd take AllowedCPUs= instead, and Kubernetes has the static policy of its CPU manager.",
    );
    plan.commands_withheld.iter().for_each(|why| page.text("", Colour::Dim, why));
    page.finish()
}

fn cgroup(page: &mut Page, one: &PlannedCgroup) {
    let cpus =
        one.cpus.as_ref().map_or_else(|| "none: there are not enough CPUs".to_owned(), |cpus| format!("CPUs {cpus}"));
    page.text("  ", Colour::None, &format!("{}, {}: {cpus}", one.cgroup, one.quota()));
    if let Some(command) = &one.command {
        page.command(command);
    }
}

//! A plan of CPU sets for people.

use super::page::{Colour, Page, PageOptions};
use crate::diagnosis::{Planned, PlannedCgroup, Strictness};

/// The plan, and the commands that carry it out.
pub fn render(plan: &Planned, options: PageOptions) -> String {
    let mut page = Page::new(options);
    let (mine, others): (Vec<_>, Vec<_>) = plan.cgroups.iter().partition(|one| one.is_sensitive);
    if mine.is_empty() {
        page.text(
            "",
            Colour::Bold,
            "No cgroup needs a CPU set: no cgroup uses up its quota with more threads than CPUs in its quota.",
        );
        return page.finish();
    }
    let or_none = |list: &str| if list.is_empty() { "none".to_owned() } else { list.to_owned() };
    let policy = match plan.strictness {
        Strictness::PrincipleHard => "principle-hard",
        Strictness::BestEffort => "best-effort",
    };
    page.text(
        "",
        Colour::Bold,
        &format!("CPU sets, {policy}: a cgroup with a quota sees as many CPUs as its quota allows."),
    );
    page.text("", Colour::None, &format!("CPUs for one cgroup only (P1):  {}", or_none(&plan.exclusive)));
    page.text("", Colour::None, &format!("CPUs shared in fractions (P2):  {}", or_none(&plan.parts)));
    page.text("", Colour::None, &format!("CPUs for all others (P3):       {}", or_none(&plan.pool)));
    page.blank();
    mine.into_iter().for_each(|one| cgroup(&mut page, one));
    if !others.is_empty() {
        page.blank();
        page.text("", Colour::None, "All other cgroups share the remaining CPUs:");
        others.into_iter().for_each(|one| cgroup(&mut page, one));
    }
    page.blank();
    page.text(
        "",
        Colour::Dim,
        "Quotas stay unchanged. In cgroup v2, each ancestor must enable the controller: write +cpuset to its \
         cgroup.subtree_control. For systemd units, use AllowedCPUs= instead. For Kubernetes, use the static policy of its CPU \
         manager.",
    );
    plan.commands_withheld.iter().for_each(|why| page.text("", Colour::Dim, why));
    page.finish()
}

fn cgroup(page: &mut Page, one: &PlannedCgroup) {
    let cpus = one
        .cpus
        .as_ref()
        .map_or_else(|| "none, because there are not enough CPUs".to_owned(), |cpus| format!("CPUs {cpus}"));
    page.text("  ", Colour::None, &format!("{}, {}: {cpus}", one.cgroup, one.quota()));
    if let Some(command) = &one.command {
        page.command("$", command);
    }
}

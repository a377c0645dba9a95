//! Commands are only valid for the boot that was recorded. On another host, or after another boot, a path or an inode
//! number may belong to another cgroup. A recording may also have been forged by its sender.

use super::{Advice, Planned, Report};
use crate::model::Session;

/// Why there are no commands, and how to get them.
const WHY: &str = "Commands are hidden, because the recording is from another host or an earlier boot. Here they \
                   could change the wrong cgroups, and the author of the recording controls parts of them. To show \
                   them anyway, use --commands.";

/// Was the boot with the id `here` recorded? An unknown boot counts as another one.
fn is_of(session: &Session, here: Option<&str>) -> bool {
    here.is_some_and(|here| !here.is_empty() && session.boot_id == here)
}

impl Report {
    /// Without its commands, and with a word on that, unless it is of the boot with the id `here`.
    #[must_use]
    pub fn with_commands_only_of(mut self, here: Option<&str>) -> Self {
        if !is_of(&self.session, here) {
            let of_findings = self.findings.iter_mut().flat_map(|finding| &mut finding.advice);
            let advice = of_findings.chain(self.verdict.advice_mut());
            let taken = advice.filter(|advice| advice.script().is_some()).map(Advice::withhold).count();
            self.commands_withheld = (taken > 0).then(|| WHY.to_owned());
        }
        self
    }
}

impl Planned {
    /// Without its commands, and with a word on that, unless `session`, from which it was made, is of the boot with the id
    /// `here`.
    #[must_use]
    pub fn with_commands_only_of(mut self, session: &Session, here: Option<&str>) -> Self {
        if !is_of(session, here) {
            let taken = self.cgroups.iter_mut().filter_map(|cgroup| cgroup.command.take()).count();
            self.commands_withheld = (taken > 0).then(|| WHY.to_owned());
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::{Hosts, Pictures, Thresholds, diagnose},
        model::fixture,
        report::{hosts, html, json, markdown, text},
    };

    fn report() -> Report {
        diagnose(&fixture::session(), &fixture::overloaded(40), &Thresholds::default())
    }

    /// With a command that only takes something back.
    fn with_undo(mut report: Report) -> Report {
        report.findings[0].advice.push(Advice::new("Change it by hand.").undo_if(Some("sudo undo-it".to_owned())));
        report
    }

    /// In every form, of one host and of several.
    fn written(report: &Report) -> Vec<String> {
        let found = Hosts::new(vec![report.clone(), report.clone()]);
        let pictures = [Pictures::default(), Pictures::default()];
        vec![
            text::render(report, text::Depth::Verbose, text::PageOptions::default()),
            markdown::render(report),
            html::render(report, &pictures[0]),
            json::render(report).unwrap(),
            hosts::markdown(&found),
            html::render_hosts(&found, &pictures),
            hosts::json(&found).unwrap(),
        ]
    }

    /// Without what lines are broken with.
    fn has(written: &str, what: &str) -> bool {
        written.split_whitespace().collect::<Vec<_>>().join(" ").contains(what)
    }

    #[test]
    fn commands_are_for_the_boot_that_was_recorded() {
        let boot = fixture::session().boot_id;
        assert!(report().findings.iter().flat_map(|finding| &finding.advice).any(|advice| advice.command.is_some()));
        assert_eq!(report().with_commands_only_of(Some(&boot)), report());
        for here in [None, Some(""), Some("another")] {
            let report = with_undo(report()).with_commands_only_of(here);
            for written in written(&report) {
                assert!(!has(&written, "sudo ") && has(&written, "use --commands"), "{written}");
            }
        }
        let whole = written(&with_undo(report()));
        assert!(whole.iter().all(|written| has(written, "sudo ") && !has(written, "--commands")));
        assert!(whole[..4].iter().all(|written| has(written, "sudo undo-it")), "{}", whole[0]);
    }

    #[test]
    fn a_recording_that_does_not_say_of_which_boot_it_is_is_of_no_host() {
        let session = Session { boot_id: String::new(), ..fixture::session() };
        let report = diagnose(&session, &fixture::overloaded(40), &Thresholds::default());
        assert!(report.with_commands_only_of(Some("")).commands_withheld.is_some());
    }

    #[test]
    fn nothing_is_said_where_there_are_no_commands() {
        let report = diagnose(&fixture::session(), &[], &Thresholds::default());
        assert_eq!(report.clone().with_commands_only_of(None), report);
    }
}

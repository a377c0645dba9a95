//! Where the time of cgroups that wait long goes, as bars that fit on a phone.

use std::fmt::Write as _;

use super::{Page, text};
use crate::{
    diagnosis::{ForecastFigure, Part, Report, Rule, Severity, VictimTime},
    model::WaitCause,
    units,
};

impl Page {
    /// A bar for each victim, with its parts.
    pub(super) fn victims(&mut self, victims: &[VictimTime]) {
        if victims.is_empty() {
            return;
        }
        self.add("<figure>\n");
        self.element("figcaption", "", "Where the time of those that wait goes");
        for victim in victims {
            self.element("p", "name", &victim.subject.to_string());
            self.add("<div class=\"bar\">");
            for (part, share) in victim.parts.iter().filter(|(_, share)| *share > 0.0) {
                // Writing to a string cannot fail.
                let _ = write!(self.0, "<i class=\"{}\" style=\"width:{:.2}%\"></i>", class(part), share * 100.0);
            }
            self.add("</div>\n");
            let said: Vec<String> = victim
                .parts
                .iter()
                .filter(|(_, share)| *share >= 0.005)
                .map(|(part, share)| {
                    format!("<i class=\"key {}\"></i>{} {}", class(part), text(&name(part)), units::percent(*share))
                })
                .collect();
            let _ = writeln!(self.0, "<p class=\"note\">{}</p>", said.join(", "));
        }
        let says = "Each bar is the time in which a cgroup wants to run. Dark is the time in which it runs. Each other colour is a \
                    cause of its waits.";
        self.element("p", "note", says);
        self.add("</figure>\n");
    }

    /// The predicted effect of the advice, if there is a prediction.
    pub(super) fn prediction(&mut self, report: &Report) {
        let advised =
            report.findings.iter().filter(|it| it.rule == Rule::LagsCandidates && it.severity >= Severity::Warning);
        let figure =
            advised.flat_map(|finding| &finding.measured).find(|it| it.name == ForecastFigure::LightWaiting.name());
        let Some((change, figure)) = figure.and_then(|figure| Some((figure.value?.as_f64(), figure))) else { return };
        self.add("<figure>\n");
        self.element("figcaption", "", "What more weight for the light cgroups would change");
        for (name, left) in [("their wait now", 1.0), ("predicted", (1.0 + change).clamp(0.0, 1.0))] {
            self.element("p", "name", &format!("{name}: {}", units::percent(left)));
            let _ = writeln!(
                self.0,
                "<div class=\"bar\"><i class=\"behind\" style=\"width:{:.2}%\"></i></div>",
                left * 100.0
            );
        }
        let says = format!("The wait of the light cgroups changes by {} ({}).", figure.shown(), figure.remark());
        self.element("p", "note", &says);
        self.add("</figure>\n");
    }
}

const fn class(part: &Part) -> &'static str {
    match part {
        Part::Running => "running",
        Part::Behind(_) => "behind",
        Part::BehindOthers => "others",
        Part::BehindOwnThreads => "itself",
        Part::Throttled => "quota",
        Part::Else => "else",
    }
}

fn name(part: &Part) -> String {
    match part {
        Part::Running => "runs".to_owned(),
        Part::Behind(subject) => format!("behind {subject}"),
        Part::BehindOthers => WaitCause::OtherCgroups.phrase().to_owned(),
        Part::BehindOwnThreads => "behind its own threads".to_owned(),
        Part::Throttled => "throttled".to_owned(),
        Part::Else => "other causes".to_owned(),
    }
}

//! Why a cgroup waited, and whom it made wait.

use ratatui::{
    style::Style,
    text::{Line, Span},
};

use super::Page;
use crate::{
    display::{self, display_name, fit, wrap},
    model::{Cgroup, Nanos},
    top::{
        frame,
        quantity::Quantity,
        state::State,
        view::{
            chart,
            waits::{blamed_name, cgroup_name, millis},
        },
        waits::{self, Wait},
    },
};

/// Causes with less of the wait than this are left out.
const SMALLEST: f64 = 0.001;
/// Victims that are listed.
const MOST_VICTIMS: usize = 8;
/// Cells of milliseconds a second and of the share, and the longest bar.
const TIME: usize = 7;
const SHARE: usize = 8;
const LONGEST_BAR: usize = 30;

impl Page {
    pub(super) fn waits(&mut self, cgroup: &Cgroup, now: &frame::Frame, state: &State) {
        let Some(parts) = Wait::parts(cgroup) else {
            self.heading("Why it waited");
            return self.plain(&format!("n/a: {}", display_name(&waits::why_not(state.session()))));
        };
        let why = self.why_it_waited(cgroup, &parts, now);
        let caused = waits::caused_by(cgroup.id, &now.interval);
        if caused.is_empty() {
            self.beside(vec![why])
        } else {
            self.beside(vec![why, self.whom_it_made_wait(&caused, now)])
        }
    }

    fn why_it_waited(&self, cgroup: &Cgroup, parts: &[Wait], now: &frame::Frame) -> Vec<Line<'static>> {
        let all = cgroup.totals.runq_wait_ns.unwrap_or_default();
        if all == Nanos::ZERO {
            return vec![self.block_title("Why it waited: it did not wait")];
        }
        let mut lines = vec![self.block_title(&format!("Why it waited: {} ms/s", millis(all, now)))];
        for part in parts.iter().filter(|part| part.share >= SMALLEST) {
            let style = if part.blamed.label().is_some() { self.theme.label() } else { Style::new() };
            lines.push(self.part(&blamed_name(part.blamed, now), style, part, now));
        }
        lines
    }

    fn whom_it_made_wait(&self, caused: &[Wait], now: &frame::Frame) -> Vec<Line<'static>> {
        let all: Nanos = caused.iter().map(|wait| wait.time).sum();
        let mut lines = vec![
            self.block_title(&format!("Waits behind it: {} ms/s or more (% of each one's wait)", millis(all, now))),
        ];
        for wait in caused.iter().take(MOST_VICTIMS) {
            lines.push(self.part(&cgroup_name(wait.victim, now), Style::new(), wait, now));
        }
        if let Some(more) = caused.len().checked_sub(MOST_VICTIMS).filter(|more| *more > 0) {
            let time: Nanos = caused[MOST_VICTIMS..].iter().map(|wait| wait.time).sum();
            lines.push(Line::styled(format!("… and {more} more, {} ms/s", millis(time, now)), self.theme.label()));
        }
        lines
    }

    fn block_title(&self, text: &str) -> Line<'static> {
        let cells = self.block_cells();
        let text = wrap(text, cells).into_iter().next().unwrap_or_default();
        Line::styled(fit(&text, display::width(&text).min(cells)), self.theme.title())
    }

    fn part(&self, name: &str, style: Style, wait: &Wait, now: &frame::Frame) -> Line<'static> {
        let cells = self.block_cells().saturating_sub(TIME + " ms/s".len() + SHARE + " % ".len());
        let bar = (cells / 3).min(LONGEST_BAR);
        Line::from(vec![
            Span::styled(fit(name, cells - bar), style),
            Span::raw(format!("{:>TIME$} ms/s", millis(wait.time, now))),
            Span::styled(format!("{:>SHARE$} % ", Quantity::Share(wait.share)), self.theme.strong()),
            Span::styled(chart::bar(wait.share, bar), self.theme.bar()),
        ])
    }
}

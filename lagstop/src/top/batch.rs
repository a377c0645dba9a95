//! The table as text, for scripts and `watch`.

use std::{
    io::{self, Write},
    sync::Arc,
};

use serde::Serialize;

use super::{
    column::Column,
    error::TopError,
    filter::Filter,
    frame::Frame,
    mark::Mark,
    quantity::{Cell, Quantity},
    rows::{Arrangement, Row, RowKey},
    settings::TopSettings,
    text::{clock_time, moment},
    theme::severity_mark,
    timeline::{HistoryLimits, Timeline},
};
use crate::{
    display::{display_name, fit, width},
    model::{Host, Interval, Nanos, Session, lost_kind},
    recording::Line,
    signals::Endings,
    source::Stream,
    units::plural,
};

/// Names are no longer than this.
const LONGEST_NAME: usize = 100;

/// What is printed of an interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BatchFormat {
    /// The host in some lines and a table of cgroups.
    #[default]
    Text,
    /// A line as in a recording, with the same cgroups in the same order.
    Json,
}

#[derive(Clone, Copy, Debug)]
pub struct Batch {
    /// So many tables; for ever where `None`.
    pub count: Option<u64>,
    pub format: BatchFormat,
    /// Cells of a line; as many as it takes where `None`.
    pub width: Option<usize>,
}

/// Prints each interval to `output`.
///
/// # Errors
/// When the stream ends with an error, or the output cannot be written. That nobody reads it any more is no error.
pub async fn print(
    stream: Stream,
    settings: &TopSettings,
    batch: Batch,
    output: &mut impl Write,
) -> Result<(), TopError> {
    let Stream { session, mut intervals, stop: _stop, .. } = stream;
    let mut endings = Endings::listen().map_err(TopError::Signals)?;
    let settings = &settings.of_session(&session);
    // Nobody steps back.
    let nothing = HistoryLimits { time: Nanos::ZERO, bytes: 0 };
    let mut timeline = Timeline::new(&session, &settings.thresholds, nothing);
    let mut printed = 0;
    while batch.count.is_none_or(|count| printed < count) {
        let interval = tokio::select! {
            interval = intervals.recv() => interval,
            () = endings.wait() => return Ok(()),
        };
        let Some(interval) = interval.transpose()? else { return Ok(()) };
        let frame = timeline.push(interval).map_err(TopError::Timeline)?;
        let printout = match batch.format {
            BatchFormat::Json => json(&session, &frame, settings).map_err(TopError::Output)?,
            BatchFormat::Text => {
                let gap = if printed > 0 { "\n" } else { "" };
                gap.to_owned() + &table(&session, &frame, settings, batch.width)
            }
        };
        match write!(output, "{printout}").and_then(|()| output.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.map_err(TopError::Output)?,
        }
        printed += 1;
    }
    Ok(())
}

/// The first rows, as many as are asked for.
fn rows(frame: &Frame, settings: &TopSettings, tree: bool) -> Vec<Row> {
    let arrangement = Arrangement {
        sort: settings.sort,
        tree,
        // It was parsed without an error when it was set.
        filter: Filter::parse(&settings.filter).unwrap_or_default(),
        ..Arrangement::default()
    };
    let mut rows = arrangement.rows(frame, &mut Arc::default());
    rows.truncate(settings.rows);
    rows
}

/// An interval as a line of a recording, with what tells where and when it was.
#[derive(Serialize)]
struct Dated<'a> {
    hostname: &'a str,
    /// When it ended: RFC 3339, UTC. `None` where the recording's clock is not known.
    ended_at: Option<String>,
    #[serde(flatten)]
    line: Line,
}

fn json(session: &Session, frame: &Frame, settings: &TopSettings) -> io::Result<String> {
    let interval = &frame.interval;
    let cgroups = rows(frame, settings, false).into_iter().filter_map(|row| match row.key {
        RowKey::Cgroup(id) => interval.cgroups.iter().find(|cgroup| cgroup.id == id).cloned(),
        RowKey::Path(_) => None,
    });
    let shown = Interval { cgroups: cgroups.collect(), ..Interval::clone(interval) };
    let dated = Dated {
        hostname: &session.hostname,
        ended_at: moment(session, frame.end()),
        line: Line::Interval(Box::new(shown)),
    };
    Ok(serde_json::to_string(&dated)? + "\n")
}

/// The host in some lines, then a line for each cgroup.
pub(super) fn table(session: &Session, frame: &Frame, settings: &TopSettings, cells: Option<usize>) -> String {
    let interval = &frame.interval;
    let mut text = heading(session, frame);
    let with_guests = Column::with_guests(&settings.columns, interval).filter(|_| settings.adds_columns);
    let columns = with_guests.as_ref().unwrap_or(&settings.columns);
    let rows = rows(frame, settings, settings.tree);
    let plain = |text: String| if settings.ascii { to_ascii(&text) } else { text };
    // Before they are made to fit: what is wide or without a width becomes one cell.
    let names: Vec<String> = rows.iter().map(|row| plain(name(row, frame))).collect();
    let figures: usize = columns.iter().map(|column| usize::from(column.width()) + 1).sum();
    let longest = names.iter().map(|name| width(name)).max().unwrap_or(0).clamp(10, LONGEST_NAME);
    // Where it must fit, names give way, down to what still tells them apart.
    let longest = cells.map_or(longest, |cells| longest.min(cells.saturating_sub(figures).max(20)));
    let line = |name: &str, cells: &mut dyn Iterator<Item = (String, usize)>| {
        let mut line = fit(name, longest);
        for (cell, width) in cells {
            line.push_str(&format!(" {cell:>width$}"));
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    };
    // A script that splits at blanks must find as many fields in each line.
    let title = |column: &Column| (column.title().replace(' ', ""), usize::from(column.width()));
    let titles = &mut columns.iter().map(title);
    text.push_str(&line("    cgroup", titles));
    for (row, name) in rows.iter().zip(&names) {
        let cell = |column: &Column| match row.cell(*column, interval) {
            Cell::Nothing => "-".to_owned(),
            cell => {
                let culprit = row.culprit(*column, interval).map_or_else(String::new, |name| name + ":");
                format!("{culprit}{cell}").replace(' ', "")
            }
        };
        let cells = &mut columns.iter().map(|column| (cell(column), usize::from(column.width())));
        text.push_str(&line(name, cells));
    }
    plain(text)
}

/// The row's name with its marks, indented by its depth in the tree.
fn name(row: &Row, frame: &Frame) -> String {
    let (mark, worst) = match &row.key {
        RowKey::Cgroup(id) => (Mark::of(*id, frame), frame.worst(*id)),
        RowKey::Path(_) => (None, None),
    };
    let mark = mark.map_or(" ", Mark::letter);
    let worst = worst.map_or("  ", severity_mark);
    format!("{mark}{worst} {}{}", " ".repeat(row.depth.into()), display_name(row.label()))
}

fn heading(session: &Session, frame: &Frame) -> String {
    let interval = &frame.interval;
    let Host { totals, .. } = &interval.host;
    let host = &interval.host;
    let of_time = |time: Nanos| Quantity::Amount(time.cores(interval.duration_ns).0);
    let share = |share: Option<f64>| match share {
        Some(share) => format!("{} %", Quantity::Share(share)),
        None => "n/a".to_owned(),
    };
    let time = clock_time(session, frame.end()).map_or_else(String::new, |time| format!("  {time}"));
    let mut text = format!(
        "lagstop top  {}{time}  {}  interval {}  {}\n",
        display_name(&session.hostname),
        session.cpus(host.cpus_online),
        interval.duration_ns,
        plural(interval.cgroups.len() as u64, "active cgroup"),
    );
    if let Some(why) = &session.restricted {
        text.push_str(&format!("only /proc and cgroup files are read: {}\n", display_name(why)));
    }
    let mean: Cell = host.mean_switch_cost().map(Quantity::Time).into();
    let waiting: Cell = totals.runq_wait_ns.map(of_time).into();
    text.push_str(&format!(
        "overhead {}  mean switch {mean}  switches/s {}  CPU used {}  effective {}  waiting {waiting}  steal {}\n",
        share(host.overhead()),
        Quantity::Rate(interval.per_second(host.task_switches())),
        share(Some(host.cpu_utilisation())),
        share(host.effective_utilisation()),
        share(host.steal(interval.duration_ns)),
    ));
    text.push_str(&lost(interval));
    if let Some(told) = &frame.told {
        text.push_str(&format!("verdict: {}\n", display_name(&told.verdict.headline)));
    }
    text.push('\n');
    text
}

fn lost(interval: &Interval) -> String {
    let lost = interval.host.lost.kinds().filter(|(_, count)| *count > 0);
    let lost: Vec<String> = lost.map(|(name, count)| lost_kind(name, count)).collect();
    if lost.is_empty() { String::new() } else { format!("lost: {}\n", lost.join(", ")) }
}

fn to_ascii(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_ascii() { char.to_string() } else { super::view::ascii_of(char).to_owned() })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        diagnosis::{Alert, AlertKind, AlertSubject, Severity},
        model::{Cgroup, CgroupId, Totals},
        top::frame::ActiveAlert,
    };

    /// An interval with cgroups of these names, each of which waits longer than it should.
    fn frame(names: &[&str]) -> Frame {
        let cgroup = |(id, name): (u64, &&str)| Cgroup {
            id: CgroupId(id),
            path: format!("/{id}").into(),
            name: (*name).into(),
            totals: Totals { switches: 1, ..Totals::default() },
            ..Cgroup::default()
        };
        let alert = |id| Alert {
            subject: AlertSubject::Cgroup(CgroupId(id)),
            kind: AlertKind::WaitPerCpu,
            severity: Severity::Critical,
            value: 9.0,
        };
        let active = |id| ActiveAlert { alert: alert(id), since: Nanos::ZERO, is_longer: false };
        let ids = 1..=names.len() as u64;
        let interval = Interval {
            duration_ns: Nanos::SECOND,
            cgroups: ids.clone().zip(names).map(cgroup).collect(),
            ..Interval::default()
        };
        Frame::new(0, interval, Default::default(), ids.map(active).collect(), Vec::new())
    }

    /// The lines of the table that are about cgroups with these names.
    fn lines(names: &[&str], settings: &TopSettings) -> Vec<String> {
        let table = table(&Session::default(), &frame(names), settings, None);
        table.lines().skip_while(|line| !line.contains("cgroup ")).skip(1).map(str::to_owned).collect()
    }

    fn settings(ascii: bool) -> TopSettings {
        let mut settings = TopSettings::default();
        settings.set_sort("name").unwrap();
        settings.set_columns(["switches"]).unwrap();
        settings.set_ascii(ascii);
        settings
    }

    #[test]
    fn json_has_the_rows_of_the_table_as_a_recording_has_them() {
        let mut settings = settings(false);
        settings.set_filter("b").unwrap();
        settings.set_rows(2);
        let session = Session {
            hostname: "node-1".to_owned(),
            started_at: "2026-11-25T10:00:00Z".to_owned(),
            ..Session::default()
        };
        let line = json(&session, &frame(&["web", "batch", "api", "blob", "cron", "db"]), &settings).unwrap();
        let Line::Interval(interval) = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        let names: Vec<&str> = interval.cgroups.iter().map(|cgroup| &*cgroup.name).collect();
        assert_eq!(names, ["batch", "blob"], "sorted, filtered and cut");
        assert!(line.starts_with("{\"hostname\":\"node-1\",\"ended_at\":\"2026-11-25T10:00:01Z\",\"kind\""), "{line}");
        assert!(line.ends_with("}\n") && line.lines().count() == 1, "{line}");
    }

    #[test]
    fn marks_and_names_are_words_of_their_own() {
        assert_eq!(lines(&["web", "database"], &settings(false)), [" !! database      1.0", " !! web           1.0"]);
    }

    #[test]
    fn figures_stand_below_each_other_whatever_the_names() {
        let names = ["web", "日本語.service", "e\u{301}te\u{301}", "µ–…", &"長い名前".repeat(40)];
        for ascii in [false, true] {
            let lines = lines(&names, &settings(ascii));
            assert!(lines.iter().all(|line| width(line) == width(&lines[0])), "{lines:#?}");
            assert!(!ascii || lines.iter().all(|line| line.is_ascii()), "{lines:#?}");
        }
    }
}

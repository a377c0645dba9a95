//! docs/accuracy.md: what came of it, for people.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::{Display, Write as _},
    fs,
};

use lagstop::{diagnosis::ForecastFigure, random::Random, trial::Policy};

use super::{
    error::Error,
    load::Class,
    result::{CalibratedFigure, Calibration, Case, Estimate, Measured, Outcome, Setup},
    tally::{Part, Tally, median},
};
use crate::workspace::Workspace;

const PAGE: &str = "docs/accuracy.md";
/// What the page's tables are made from.
const DATA: &str = "docs/calibration.json";
/// What lagstop knows of it.
const HELD: &str = "lagstop/src/diagnosis/forecast/held.rs";
const BEGIN: &str = "<!-- tables: made by `cargo xtask calibrate --write-docs` -->";
const END: &str = "<!-- end of tables -->";
const ANSWER: &str = "<!-- answer: made by `cargo xtask calibrate --write-docs` -->";
const ANSWERED: &str = "<!-- end of answer -->";

/// Writes what was measured, and the page with it.
pub(super) fn write(workspace: &Workspace, calibration: &Calibration) -> Result<(), Error> {
    let page = workspace.root().join(PAGE);
    let text = fs::read_to_string(&page).map_err(Error::file(PAGE))?;
    let text = with_tables(&text, calibration).ok_or(Error::NoPlace([ANSWER, ANSWERED, BEGIN, END]))?;
    super::write(&workspace.root().join(DATA), calibration)?;
    fs::write(page, text).map_err(Error::file(PAGE))?;
    fs::write(workspace.root().join(HELD), held(calibration)).map_err(Error::file(HELD))
}

/// The 95 % interval of the share of predictions that held. The figures of one load are not independent of each other,
/// so loads are drawn, not figures.
fn of_loads(cases: &[Case]) -> String {
    const DRAWS: usize = 2_000;
    let mut loads: BTreeMap<&str, Vec<&CalibratedFigure>> = BTreeMap::new();
    for case in cases {
        loads.entry(&case.load).or_default().extend(case.measured().into_iter().flat_map(|measured| &measured.figures));
    }
    let measured: Vec<Part> =
        loads.into_values().map(|figures| Tally::of(figures).inside).filter(|part| part.all > 0).collect();
    if measured.is_empty() {
        return "n/a".to_owned();
    }
    let mut random = Random::new(1, 1);
    let mut draw = || {
        let drawn = measured.iter().map(|_| measured[random.below(measured.len())]);
        let (some, all) = drawn.fold((0, 0), |(some, all), part| (some + part.some, all + part.all));
        some as f64 / all.max(1) as f64
    };
    let mut shares: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    shares.sort_by(f64::total_cmp);
    format!("{:.0} to {:.0} %", 100.0 * shares[DRAWS / 40], 100.0 * shares[DRAWS - 1 - DRAWS / 40])
}

/// How often predictions of each policy held, figure by figure, as the source that lagstop is built from.
fn held(calibration: &Calibration) -> String {
    let calibration = &calibration.stated_now();
    let mut rows: BTreeMap<(&str, &str), Vec<&CalibratedFigure>> = BTreeMap::new();
    // The figures of another forecast say nothing about this one.
    let cases = if calibration.setup.is_of_this_forecast() { &*calibration.cases } else { &[] };
    for case in cases {
        for figure in case.measured().into_iter().flat_map(|measured| &measured.figures) {
            rows.entry((case.policy.name(), &figure.name)).or_default().push(figure);
        }
    }
    let mut text = "//! How often predictions held in calibration. Written by `cargo xtask calibrate --write-docs`, from what docs/accuracy.md\n\
                    //! is made from.\n\nuse super::{ForecastFigure, Held};\n\n/// By policy and figure.\npub(super) const HELD: &[Held] = &[\n"
        .to_owned();
    for ((policy, figure), figures) in rows {
        let Some(figure) = ForecastFigure::by_name(figure) else { continue };
        let Part { some, all } = Tally::of(figures).inside;
        let _ = writeln!(
            text,
            "    Held {{ policy: \"{policy}\", figure: ForecastFigure::{figure:?}, inside: {some}, of: {all} }},"
        );
    }
    text.push_str("];\n");
    text
}

/// The page with these tables.
fn with_tables(page: &str, calibration: &Calibration) -> Option<String> {
    let (top, rest) = page.split_once(ANSWER)?;
    let (_, rest) = rest.split_once(ANSWERED)?;
    let (before, rest) = rest.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    let stated = calibration.stated_now();
    let (answer, summary, misses) = (answer(calibration), summary(&stated), misses(&stated));
    Some(format!("{top}{ANSWER}\n{answer}\n{ANSWERED}{before}{BEGIN}\n\n{summary}\n{misses}\n{END}{after}"))
}

/// Of two policies on the same load, how often the one that was predicted to spare the light cgroups more did; and on how many
/// loads the best one was predicted to be the best.
fn ranking(cases: &[Case]) -> [Part; 2] {
    let mut loads: BTreeMap<(&str, u32), Vec<(f64, f64)>> = BTreeMap::new();
    for case in cases {
        let figures = case.measured().into_iter().flat_map(|measured| &measured.figures);
        for figure in figures.filter(|figure| figure.name == "light_waiting") {
            if let Some(both) = figure.predicted.change.zip(figure.measured.change) {
                loads.entry((&case.load, case.repeat)).or_default().push(both);
            }
        }
    }
    let [mut pairs, mut best] = [Part::default(); 2];
    for policies in loads.into_values().filter(|policies| policies.len() > 1) {
        for (number, one) in policies.iter().enumerate() {
            for other in &policies[number + 1..] {
                pairs.all += 1;
                pairs.some += usize::from((one.0 < other.0) == (one.1 < other.1));
            }
        }
        let least = |of: fn(&(f64, f64)) -> f64| policies.iter().map(of).enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        let is_found = least(|it| it.0).map(|it| it.0) == least(|it| it.1).map(|it| it.0);
        (best.all, best.some) = (best.all + 1, best.some + usize::from(is_found));
    }
    [pairs, best]
}

/// How far predictions can be trusted.
fn answer(measured: &Calibration) -> String {
    let Calibration { setup, cases, .. } = &measured.stated_now();
    let of = |cases: &[Case], policy: Option<Policy>, name: Option<&str>| {
        let cases = cases.iter().filter(|case| policy.is_none_or(|policy| case.policy == policy));
        let all = cases.filter_map(Case::measured).flat_map(|measured| &measured.figures);
        Tally::of(all.filter(|figure| name.is_none_or(|name| figure.name == name)))
    };
    let figures = |policy, name| of(cases, policy, name);
    let (all, weight, raw) =
        (figures(None, None), figures(Some(Policy::Weight), None), of(&measured.cases, None, None));
    let weight_of_light = figures(Some(Policy::Weight), Some("light_waiting")).inside;
    let [pairs, best] = ranking(cases);
    let share = |Part { some, all }: Part| {
        if all == 0 { "n/a".to_owned() } else { format!("{:.0} %", 100.0 * some as f64 / all as f64) }
    };
    let points = |points: Option<f64>| points.map_or_else(|| "n/a".to_owned(), |it| format!("{:.0}", it * 100.0));
    let mut text = String::new();
    if !setup.is_of_this_forecast() {
        text.push_str(
            "**What is predicted has changed since this was measured**: how often predictions hold today is not known, and none \
             has high confidence before `cargo xtask calibrate` has run again.\n\n",
        );
    }
    let _ = writeln!(
        text,
        "**Can I trust a prediction?** Use it to choose what to try, and decide by `lagstop trial`.\n\n\
         * To choose: of two policies on the same load, the one predicted to spare the light cgroups more waiting did so in {} of {} pairs; the best policy was predicted best on {} of {} loads.\n\
         * By how much: the measured change was inside of the predicted interval for {} of {} predictions ({}; 95 % interval over loads: {}); at least 80 % is the aim. Always predicting no change, as wide, would \
         hold {} ({} of light: tasks waiting).\n\
         * `weight`, the only policy that `diagnose` predicts: {} of {} inside ({}); its light: tasks waiting only {} of {} ({}).\n\
         * {} metrics have no prediction; the reasons are below. {} of these were withheld afterwards, as their intervals are wider than 100 points; with them {} of {} are inside.",
        pairs.some,
        pairs.all,
        best.some,
        best.all,
        all.inside.some,
        all.inside.all,
        share(all.inside),
        of_loads(cases),
        share(all.unchanged_inside),
        share(figures(None, Some("light_waiting")).unchanged_inside),
        weight.inside.some,
        weight.inside.all,
        share(weight.inside),
        weight_of_light.some,
        weight_of_light.all,
        share(weight_of_light),
        all.unpredicted,
        raw.predicted - all.predicted,
        raw.inside.some,
        raw.inside.all
    );
    for name in
        [ForecastFigure::LightWaiting, ForecastFigure::LightP99, ForecastFigure::HeavyTime].map(ForecastFigure::name)
    {
        let tally = figures(None, Some(name));
        let _ = write!(
            text,
            "\n* {}: inside for {} of {}. Half of the predictions were within {} percentage points of the measured change; the median interval is {} points wide. Of {} measured \
             changes whose 95 % interval excludes 0, {} were predicted with the wrong sign; of predictions whose interval excludes 0, {} of {}.",
            capital(label(name)),
            tally.inside.some,
            tally.inside.all,
            points(tally.error),
            points(tally.width),
            tally.wrong_sign.all,
            tally.wrong_sign.some,
            tally.sure_and_wrong.some,
            tally.sure_and_wrong.all
        );
    }
    text
}

/// A case in a line.
pub(super) fn line(case: &Case) -> String {
    let what = match &case.outcome {
        Outcome::Measured(Measured { figures, ended, .. }) => {
            let changes = |CalibratedFigure { name, predicted, measured, oracle }: &CalibratedFigure| {
                format!("{name} {} / {} / {}", shown(predicted), shown(measured), shown(oracle))
            };
            let mut all: Vec<String> = figures.iter().map(changes).collect();
            all.extend(ended.iter().map(|why| format!("ended early: {why}")));
            all.join("; ")
        }
        Outcome::Refused { why } => format!("REFUSED: {why}"),
        Outcome::Failed { why } => format!("FAILED: {why}"),
        Outcome::NotRun { why } => format!("not run: {why}"),
    };
    format!("{}: {what}", called(case))
}

fn called(Case { load, policy, repeat, .. }: &Case) -> String {
    let again = if *repeat > 0 { format!(" ({})", repeat + 1) } else { String::new() };
    format!("{load}, {policy}{again}")
}

/// Everything in a few tables.
pub(super) fn summary(Calibration { setup, cases, .. }: &Calibration) -> String {
    let Setup { kernel, cpu, cpus, cgroups, seed, before_seconds, trial_seconds, .. } = setup;
    // Thirteen blocks, as lagstop trial has it by default.
    let block = trial_seconds / 13.0;
    let count = |is: fn(&Outcome) -> bool| cases.iter().filter(|case| is(&case.outcome)).count();
    let mut text = format!(
        "Linux {kernel}, {cpu}, {cpus} CPUs, cgroup v{cgroups}; seed {seed}; {before_seconds} s before each trial of {trial_seconds} s (`lagstop trial` takes 15 s and 60 s by default). Its blocks of {block:.0} s are too short to test whether waiting was steady.\n\n\
         {} cases: {} measured ({} of them ended early), {} refused, {} failed, {} not run.\n\n",
        cases.len(),
        count(|outcome| matches!(outcome, Outcome::Measured(_))),
        count(|outcome| matches!(outcome, Outcome::Measured(Measured { ended: Some(_), .. }))),
        count(|outcome| matches!(outcome, Outcome::Refused { .. })),
        count(|outcome| matches!(outcome, Outcome::Failed { .. })),
        count(|outcome| matches!(outcome, Outcome::NotRun { .. })),
    );
    let others: Vec<f64> = cases.iter().filter_map(|case| case.measured()?.others_cores).collect();
    if let Some((median, most)) = median(others.clone()).zip(others.into_iter().reduce(f64::max)) {
        let _ = writeln!(
            text,
            "Work outside of the light and heavy cgroups, lagstop's included, took {median:.2} of {cpus} CPUs in the median case, and {most:.2} at most. The more there is, the noisier \
             are the measured changes.\n"
        );
    }
    let measured: Vec<(&Case, &CalibratedFigure)> = cases
        .iter()
        .filter_map(|case| Some((case, case.measured()?)))
        .flat_map(|(case, measured)| measured.figures.iter().map(move |figure| (case, figure)))
        .collect();
    let policies: BTreeMap<&str, ()> = cases.iter().map(|case| (case.policy.name(), ())).collect();
    tallies(&mut text, "", &measured, ["all"], |_, _| "all");
    tallies(&mut text, "metric", &measured, ForecastFigure::ALL.map(ForecastFigure::label), |_, figure| {
        label(&figure.name)
    });
    tallies(&mut text, "kind of load", &measured, Class::ALL.map(Class::name), |case, _| case.class.name());
    tallies(&mut text, "policy", &measured, policies.into_keys(), |case, _| case.policy.name());
    exceptions(&mut text, cases);
    text
}

/// A row for each of the names.
fn tallies<'a>(
    text: &mut String,
    by: &str,
    measured: &[(&'a Case, &'a CalibratedFigure)],
    names: impl IntoIterator<Item = &'static str>,
    name_of: impl Fn(&'a Case, &'a CalibratedFigure) -> &'a str,
) {
    let mut rows = Vec::new();
    for name in names {
        let figures: Vec<_> =
            measured.iter().filter(|(case, figure)| name_of(case, figure) == name).map(|(_, figure)| *figure).collect();
        if !figures.is_empty() {
            rows.push(row(name, &Tally::of(figures)));
        }
    }
    if rows.is_empty() {
        return;
    }
    let headings = [
        by,
        "predicted",
        "not predicted",
        "inside",
        "oracle inside",
        "no change inside",
        "wrong sign",
        "error, points",
        "width, points",
    ];
    table(text, &headings, rows);
}

fn row(name: &str, tally: &Tally) -> Vec<String> {
    let part = |Part { some, all }: Part| match all {
        0 => "n/a".to_owned(),
        _ => format!("{some} of {all}, {:.0} %", 100.0 * some as f64 / all as f64),
    };
    let points = |points: Option<f64>| points.map_or_else(|| "n/a".to_owned(), |it| format!("{:.0}", it * 100.0));
    vec![
        name.to_owned(),
        tally.predicted.to_string(),
        tally.unpredicted.to_string(),
        part(tally.inside),
        part(tally.oracle_inside),
        part(tally.unchanged_inside),
        part(tally.wrong_sign),
        points(tally.error),
        points(tally.width),
    ]
}

/// What was refused, what failed, what ended early, and what was not predicted: how often, on which loads, and why. Reasons that
/// differ in their figures alone are one.
fn exceptions(text: &mut String, cases: &[Case]) {
    let mut reasons: BTreeMap<(&str, String), (usize, BTreeSet<&str>)> = BTreeMap::new();
    for case in cases {
        let mut add = |what, why: &str| {
            let (times, loads) = reasons.entry((what, without_figures(why))).or_default();
            *times += 1;
            loads.insert(&case.load);
        };
        match &case.outcome {
            Outcome::Refused { why } => add("Refused", why),
            Outcome::Failed { why } => add("Failed", why),
            Outcome::NotRun { why } => add("Not run", why),
            Outcome::Measured(measured) => {
                for figure in measured.figures.iter().filter(|figure| figure.predicted.change.is_none()) {
                    let why = figure.predicted.why_not.as_deref().unwrap_or("the trial does not say why");
                    add("Metric not predicted", why);
                }
                if let Some(why) = &measured.ended {
                    add("Ended early", why);
                }
            }
        }
    }
    if !reasons.is_empty() {
        let rows = reasons.into_iter().map(|((what, why), (times, loads))| {
            vec![what.to_owned(), times.to_string(), loads.into_iter().collect::<Vec<_>>().join(", "), one_line(&why)]
        });
        table(text, &["", "times", "loads", "why"], rows);
    }
}

/// The text with an N for each figure, so that one reason is one.
fn without_figures(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_sign =
            matches!(letter, '-' | '+') && shown.chars().next_back().is_none_or(|before| " (".contains(before));
        let begins = letter.is_ascii_digit() || (is_sign && letters.peek().is_some_and(char::is_ascii_digit));
        if !begins {
            shown.push(letter);
            continue;
        }
        while letters.next_if(|next| next.is_ascii_digit() || *next == '.').is_some() {}
        shown.push('N');
    }
    shown
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// Each prediction that did not hold.
fn misses(Calibration { cases, .. }: &Calibration) -> String {
    let mut rows = Vec::new();
    for name in ForecastFigure::ALL.map(ForecastFigure::name) {
        for case in cases {
            let Some(figures) = case.measured().map(|measured| &measured.figures) else { continue };
            for CalibratedFigure { predicted, measured, oracle, .. } in figures.iter().filter(|it| it.name == name) {
                if predicted.holds(measured.change) == Some(false) {
                    rows.push(vec![
                        label(name).to_owned(),
                        called(case),
                        shown(predicted),
                        shown(measured),
                        shown(oracle),
                    ]);
                }
            }
        }
    }
    let mut text = "### Each prediction that did not hold\n\n".to_owned();
    table(&mut text, &["metric", "load, policy", "predicted", "measured", "oracle"], rows);
    text.trim_end().to_owned()
}

/// A figure's name, for people.
fn label(name: &str) -> &'static str {
    ForecastFigure::by_name(name).map_or("another metric", ForecastFigure::label)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn table(text: &mut String, headings: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut line = |cells: &[&dyn Display]| {
        text.push('|');
        cells.iter().for_each(|cell| {
            // Writing to a string cannot fail.
            let _ = write!(text, " {cell} |");
        });
        text.push('\n');
    };
    line(&headings.iter().map(|heading| heading as &dyn Display).collect::<Vec<_>>());
    line(&vec![&"---" as &dyn Display; headings.len()]);
    for row in rows {
        line(&row.iter().map(|cell| cell as &dyn Display).collect::<Vec<_>>());
    }
    text.push('\n');
}

fn shown(estimate: &Estimate) -> String {
    let percent = |change: f64| format!("{:+.0} %", change * 100.0).replace('-', "−");
    let Some(change) = estimate.change else { return "n/a".to_owned() };
    match estimate.interval() {
        Some((low, high)) => format!("{} [{}, {}]", percent(change), percent(low), percent(high)),
        None => percent(change),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::calibrate::read;

    #[test]
    fn the_page_shows_what_was_measured() {
        let workspace = Workspace::here();
        let calibration = read(&workspace.root().join(DATA)).unwrap();
        let page = fs::read_to_string(workspace.root().join(PAGE)).unwrap();
        assert!(page == with_tables(&page, &calibration).unwrap(), "cargo xtask calibrate --from {DATA} --write-docs");
        let known = fs::read_to_string(workspace.root().join(HELD)).unwrap();
        assert!(known == held(&calibration), "cargo xtask calibrate --from {DATA} --write-docs");
    }

    #[test]
    fn what_was_refused_or_failed_is_told() {
        let mut calibration = read(&Workspace::here().root().join(DATA)).unwrap();
        let case = |outcome| Case { outcome, load: "bursts".to_owned(), ..calibration.cases[0].clone() };
        calibration.cases = vec![
            case(Outcome::Refused { why: "no | slices\n here".to_owned() }),
            case(Outcome::Failed { why: "it broke".to_owned() }),
            case(Outcome::NotRun { why: "the time was up".to_owned() }),
        ];
        let text = summary(&calibration);
        assert!(
            text.contains("3 cases: 0 measured (0 of them ended early), 1 refused, 1 failed, 1 not run."),
            "{text}"
        );
        for (what, why) in [("Refused", "no \\| slices here"), ("Failed", "it broke"), ("Not run", "the time was up")] {
            let told =
                text.lines().any(|line| line.starts_with(&format!("| {what} | 1 | bursts")) && line.contains(why));
            assert!(told, "{what}: {text}");
        }
    }

    #[test]
    fn nothing_is_no_change() {
        let estimate = |change| Estimate { change, low: Some(-0.126), high: Some(0.5), why_not: None };
        assert_eq!(shown(&estimate(Some(-0.1))), "−10 % [−13 %, +50 %]");
        assert_eq!(shown(&estimate(None)), "n/a");
    }
}

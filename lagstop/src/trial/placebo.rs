//! Trials of nothing over recordings of real loads: chance alone is seldom taken for an effect.
//!
//! lagstop/tests/placebo has a minute of each load of `cargo xtask calibrate` without any policy, 0.2 s in a row: how
//! long it was, the host's capacity, its busy time, its waits, switches and their cost, and of four cgroups CPU time and
//! waits; times in microseconds.

use std::{
    collections::BTreeMap,
    fs,
    time::{Duration, Instant},
};

use super::{
    Prediction,
    block::{Block, SideTimes, Slice},
    outcome::figures,
};
use crate::{diagnosis::HostSample, model::Distribution};

/// Blocks of a trial, by default, and rows of one of them.
const BLOCKS: usize = 13;
const ROWS: usize = 5;
/// Rows from the beginning of one trial to that of the next in the same recording: they share three quarters.
const APART: usize = BLOCKS * ROWS / 4;
/// Which of the four cgroups go first; the others pay.
const LIGHT: [&[usize]; 4] = [&[0], &[0, 1], &[1, 2], &[3]];

struct Row {
    duration: f64,
    host: HostSample,
    cgroups: [SideTimes; 4],
}

fn recordings() -> Vec<(String, Vec<Row>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/placebo");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = files
        .map(|file| {
            let text = fs::read_to_string(&file).unwrap();
            (file.file_stem().unwrap().to_string_lossy().into_owned(), text.lines().map(row).collect())
        })
        .collect();
    all.sort_by(|(a, _), (b, _)| a.cmp(b));
    all
}

fn row(line: &str) -> Row {
    let values: Vec<f64> = line.split(',').map(|value| value.parse::<f64>().unwrap() * 1e3).collect();
    let [duration, capacity_ns, busy_ns, wait, switches, cost, cgroups @ ..] = &*values else { panic!("{line}") };
    let side = |number: usize| SideTimes { cpu: cgroups[2 * number] / 1e9, wait: cgroups[2 * number + 1] / 1e9 };
    Row {
        duration: duration / 1e9,
        host: HostSample {
            capacity_ns: *capacity_ns,
            busy_ns: *busy_ns,
            wait_ns: Some(*wait),
            switches: (switches / 1e3) as u64,
            switching_ns: Some(*cost),
            kept_ns: Some(0.0),
        },
        cgroups: [0, 1, 2, 3].map(side),
    }
}

impl Row {
    fn slice(&self, from: Instant, light: &[usize]) -> Slice {
        let side = |is_light: bool| {
            let members = (0..self.cgroups.len()).filter(|number| light.contains(number) == is_light);
            members
                .map(|number| self.cgroups[number])
                .fold(SideTimes::default(), |sum, it| SideTimes { cpu: sum.cpu + it.cpu, wait: sum.wait + it.wait })
        };
        Slice {
            times: from..from + Duration::from_secs_f64(self.duration),
            duration: self.duration,
            light: side(true),
            heavy: side(false),
            others: SideTimes::default(),
            light_waits: Distribution::default(),
            behind_heavy: None,
            host: self.host,
            is_unmeasured: false,
            moved: Some([0.0; 2]),
        }
    }
}

fn block(rows: &[Row], light: &[usize]) -> Block {
    let began = Instant::now();
    let mut from = began;
    let slices: Vec<Slice> = rows
        .iter()
        .map(|row| {
            let slice = row.slice(from, light);
            from = slice.times.end;
            slice
        })
        .collect();
    // Half of a block may be left out, as in a trial.
    Block::settled(&slices, began + (from - began) / 2)
}

/// Trials of a policy that changes nothing. They overlap: some 60 of them have nothing in common.
#[test]
fn chance_is_seldom_an_effect_in_real_loads() {
    let (mut trials, mut surprised, mut all, mut sum, mut of_ratios) = (0, 0, Excluded::default(), 0.0, 0.0);
    let mut by: BTreeMap<String, Excluded> = BTreeMap::new();
    for (load, rows) in recordings() {
        for start in (0..).step_by(APART).take_while(|start| start + BLOCKS * ROWS <= rows.len()) {
            for light in LIGHT {
                let blocks: Vec<Block> =
                    rows[start..start + BLOCKS * ROWS].chunks(ROWS).map(|rows| block(rows, light)).collect();
                let figures = figures(&blocks, &Prediction::default());
                trials += 1;
                surprised += u32::from(figures.iter().any(|figure| figure.changed == Some(true)));
                for figure in figures {
                    let (Some(change), Some((low, high))) = (figure.change, figure.low.zip(figure.high)) else {
                        continue;
                    };
                    let is_excluded = low > 0.0 || high < 0.0;
                    all.add(is_excluded);
                    by.entry(load.clone()).or_default().add(is_excluded);
                    by.entry(figure.name.to_owned()).or_default().add(is_excluded);
                    // Of what happened in some blocks alone, the change is a difference, and may be all of it.
                    if change > -1.0 {
                        (sum, of_ratios) = (sum + change.ln_1p(), of_ratios + 1.0);
                    }
                }
            }
        }
    }
    assert!(trials >= 200 && all.of >= 8 * trials, "{trials} trials, {all:?}");
    assert!(f64::from(surprised) <= 0.07 * f64::from(trials), "{surprised} of {trials} trials call anything changed");
    assert!(all.share() <= 0.07, "{all:?}: {by:#?}");
    for (what, excluded) in &by {
        assert!(excluded.share() <= 0.12, "{what}: {excluded:?}");
    }
    // Against the arithmetic mean of the neighbours it is -0.9 %.
    assert!(of_ratios >= 0.97 * f64::from(all.of), "{of_ratios} of {all:?}");
    let mean = (sum / of_ratios).exp_m1();
    assert!(mean.abs() < 0.006, "on average, nothing changed by {:.2} %", mean * 100.0);
}

/// Intervals, and those of them that exclude no change.
#[derive(Clone, Copy, Debug, Default)]
struct Excluded {
    some: u32,
    of: u32,
}

impl Excluded {
    fn add(&mut self, is_excluded: bool) {
        self.some += u32::from(is_excluded);
        self.of += 1;
    }

    fn share(self) -> f64 {
        f64::from(self.some) / f64::from(self.of)
    }
}

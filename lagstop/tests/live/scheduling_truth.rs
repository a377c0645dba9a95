//! What lagstop measures stays true while LAGS schedules: the tests of other files once more, under it.

use rustix::process::Signal;

use crate::{
    Test, accounting, blame,
    fixture::eventually,
    lags::{Lags, is_back, is_possible},
    ways,
};

pub(crate) const TESTS: &[Test] = &[
    ("switches_waits_and_cpu_time_stay_true_while_lags_schedules", accounts),
    ("switch_costs_stay_true_while_lags_schedules", || under_lags(&[ways::switch_costs])),
    ("causes_of_waits_stay_true_while_lags_schedules", || under_lags(&[blame::bully, blame::whole])),
];

fn under_lags(tests: &[fn()]) {
    if !is_possible() {
        return;
    }
    // Some of these tests set quotas.
    let lags = Lags::start(&["--learn", "0s", "--ignore-quotas"]);
    for test in tests {
        test();
        lags.is_in_force();
    }
    assert!(lags.end(Signal::INT).0.success());
    eventually("the kernel's own is back", is_back);
}

fn accounts() {
    under_lags(&[
        accounting::contended,
        accounting::half_idle,
        accounting::cpu_time,
        accounting::identity,
        accounting::all_switches,
        accounting::migrations,
    ]);
}

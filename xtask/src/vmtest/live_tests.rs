//! The live tests: what of lagstop's figures each compares with figures that lagstop did not make.

/// What lagstop measures, by the names in `lagstop check`, in the order in which it shows them.
pub(super) const MEASURES: [&str; 8] =
    ["switches", "switch-cost", "pick", "runq-wait", "blame", "migrations", "tcp-state", "accept"];

#[derive(Debug)]
pub(super) struct LiveTest {
    pub(super) name: &'static str,
    /// The measures that are wrong where it fails. None where it is about the program around them.
    pub(super) measures: &'static [&'static str],
    pub(super) runs: Runs,
}

/// Where a live test is run, but for the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Runs {
    /// On every kernel, in quick runs too.
    Always,
    /// On every kernel, but not in quick runs.
    Whole,
    /// Where it is asked for: it is about what is the same on every kernel.
    Named,
    /// Nowhere else: it takes programs that the guests do not have, or times that are a real machine's.
    Host,
}

/// A test that compares `measures` with the truth.
const fn truth(name: &'static str, measures: &'static [&'static str]) -> LiveTest {
    LiveTest { name, measures, runs: Runs::Always }
}

/// Like [`truth`], but another test that takes less time covers the same part of the kernel, or the same way to
/// measure.
const fn long_truth(name: &'static str, measures: &'static [&'static str]) -> LiveTest {
    LiveTest { name, measures, runs: Runs::Whole }
}

/// A test of something that is the same on every kernel.
const fn program(name: &'static str) -> LiveTest {
    LiveTest { name, measures: &[], runs: Runs::Named }
}

/// A test that needs programs which the guests do not have, or the timing of a real machine.
const fn on_a_host(name: &'static str) -> LiveTest {
    LiveTest { name, measures: &[], runs: Runs::Host }
}

/// A test of the program that depends on the kernel too.
const fn program_on_kernel(name: &'static str) -> LiveTest {
    LiveTest { name, measures: &[], runs: Runs::Always }
}

/// All of `lagstop/tests/live`.
pub(super) const LIVE_TESTS: &[LiveTest] = &[
    truth("switches_and_waits_agree_with_proc_while_cpus_are_contended", &["switches", "runq-wait"]),
    truth("switches_and_waits_agree_with_proc_while_cpus_are_half_idle", &["switches", "runq-wait"]),
    truth("switches_and_waits_of_tasks_that_share_places_agree_with_proc", &["switches", "runq-wait"]),
    truth("where_no_place_is_left_for_tasks_it_is_counted_and_nothing_else_is_lost", &["switches"]),
    truth("switches_are_timed_only_between_chosen_readings", &["switch-cost"]),
    truth("a_thread_that_executes_a_program_does_not_wait_twice", &["runq-wait"]),
    truth("cpu_time_agrees_with_the_cgroups_own_figure", &["switches"]),
    truth("cpu_time_of_a_task_that_never_switches_is_there_at_once", &["switches"]),
    truth("migrations_agree_with_proc", &["switches", "runq-wait", "migrations"]),
    truth("a_ping_pong_inside_one_cgroup_crosses_none", &["switches"]),
    truth("a_ping_pong_between_two_cgroups_always_crosses", &["switches"]),
    truth("cgroups_and_idle_add_up_to_the_cpus_exactly", &["switches", "switch-cost", "runq-wait"]),
    truth("switches_of_all_cpus_agree_with_proc_stat", &["switches"]),
    long_truth("runnable_load_and_load_credit_agree_with_tg_load_avg", &["runq-wait"]),
    truth("who_makes_whom_wait_agrees_with_a_trace", &["blame"]),
    truth("who_makes_those_wait_that_sleep_agrees_with_a_trace", &["blame"]),
    truth("long_waits_are_charged_to_all_who_ran", &["blame"]),
    truth("so_many_waits_that_they_are_sampled_are_charged_to_all_who_ran", &["blame"]),
    truth("cgroups_that_were_throttled_once_are_sampled_as_others", &["blame"]),
    truth("a_cgroup_that_waits_behind_its_own_threads_blames_nobody", &["blame"]),
    truth("a_cgroup_that_waits_for_its_quota_blames_nobody", &["blame"]),
    truth("waits_of_who_is_moved_are_whole", &["blame"]),
    truth("causes_add_up_to_the_wait_in_every_interval", &["blame"]),
    long_truth("no_blame_falls_on_who_did_not_run", &["blame"]),
    truth("threads_are_counted_once", &["switches"]),
    truth("a_cpu_is_crowded_by_who_runs_and_waits_there", &["switches", "runq-wait"]),
    truth("each_cpu_adds_up_to_the_cgroups_on_it", &["switches", "runq-wait"]),
    truth("nothing_of_a_cpu_that_is_excluded_is_counted", &["switches"]),
    truth("nested_cgroups_have_their_paths", &["switches"]),
    truth("grouping_by_leaf_uses_the_unified_hierarchy", &["switches"]),
    truth("the_surplus_goes_to_other_and_nothing_is_lost", &["switches"]),
    truth("a_row_is_given_back_and_its_next_owner_inherits_nothing", &["switches", "switch-cost"]),
    truth("a_cgroup_that_is_gone_is_still_named", &["switches"]),
    program("each_level_of_the_tree_is_as_it_was_set"),
    program_on_kernel("the_weight_of_a_cgroup_with_many_tasks_counts_as_the_kernel_counts_it"),
    long_truth("record_names_200_busy_cgroups_and_their_costs_add_up", &["switches", "switch-cost", "runq-wait"]),
    on_a_host("ten_thousand_cgroups_that_come_and_go_have_a_row_each"),
    long_truth("cgroups_come_and_go_in_a_table_that_is_smaller_than_their_number", &["switches"]),
    truth("accept_waits_agree_with_a_server_that_waits", &["tcp-state", "accept"]),
    long_truth("a_server_is_as_busy_as_its_own_clock_says", &["tcp-state", "accept"]),
    truth("connections_that_nobody_accepts_are_abandoned", &["tcp-state"]),
    truth("every_way_to_switch_costs_adds_up_and_stays_within_the_time_there_was", &["switch-cost"]),
    truth("every_way_to_pick_function_costs_stays_below_the_pick_cost", &["pick"]),
    truth("every_way_to_run_queue_waits_agrees_with_proc", &["runq-wait"]),
    long_truth("every_way_to_accept_waits_agrees_with_a_server_that_waits", &["tcp-state", "accept"]),
    truth("without_the_kernels_types_all_agrees_with_proc", &["switches", "runq-wait", "tcp-state", "accept"]),
    truth("the_light_setting_still_agrees_with_proc", &["switches", "runq-wait"]),
    program("throttling_agrees_with_cpu_stat"),
    program("pressure_agrees_with_cpu_pressure"),
    program_on_kernel("a_full_accept_queue_agrees_with_netstat"),
    program("a_full_accept_queue_in_another_network_namespace_agrees_with_netstat"),
    program("a_listener_without_traffic_has_an_owner"),
    program("a_closer_look_shows_the_limits_that_were_set"),
    program("a_closer_look_agrees_with_proc_on_each_thread"),
    program("a_closer_look_at_what_is_gone_says_so"),
    program_on_kernel("a_user_with_file_capabilities_measures_and_gives_up_what_attaching_took"),
    program_on_kernel("root_gives_up_what_only_attaching_took"),
    program_on_kernel("serve_is_nobody_and_may_next_to_nothing"),
    program("commands_that_only_read_files_may_nothing"),
    program_on_kernel("check_says_how_top_would_run"),
    on_a_host("check_says_what_a_container_lacks"),
    program("what_files_tell_a_user_agrees_with_proc"),
    program("what_files_tell_of_leaves_agrees_with_proc"),
    program("top_shows_a_user_what_files_tell"),
    // In a VM it shows no more than that it ends: times mean nothing there.
    program("many_cgroups_make_switches_dearer"),
    program("record_ends_whole_on_sigint_and_sigterm"),
    program("record_ends_in_silence_when_its_reader_goes"),
    program("a_recording_that_was_killed_is_whole_lines"),
    program("top_leaves_the_terminal_as_it_was"),
    on_a_host("top_is_driven_by_keys_in_tmux"),
    program("top_hears_a_key_that_comes_with_a_resize"),
    program("top_stops_and_continues_with_its_terminal"),
    program("top_gives_the_terminal_back_when_something_panics"),
    program("top_prints_tables_for_scripts"),
    program("what_is_served_agrees_with_the_kernel"),
    on_a_host("a_sentinel_attaches_when_something_is_wrong_and_detaches_when_it_is_over"),
    program("serve_ends_on_sigterm_and_gives_its_port_back"),
    program("serve_misses_no_switch_when_it_times_some_intervals"),
    program("serve_lets_nobody_in_whose_file_was_emptied"),
    program("what_comes_over_a_connection_is_what_the_host_measures"),
    program("a_bully_is_on_the_page_within_three_seconds"),
    on_a_host("top_shows_a_host_over_https_with_a_password"),
    program("an_assistant_is_told_who_makes_whom_wait_here_and_on_a_server"),
    program("a_recording_goes_on_when_the_server_was_started_again"),
    program("whoever_follows_gets_whole_intervals_while_somebody_looks_at_the_page"),
    program("diagnose_reports_on_the_running_host"),
    on_a_host("diagnose_finds_nothing_wrong_on_an_idle_host"),
    on_a_host("diagnose_finds_a_pool_that_is_too_large"),
    on_a_host("diagnose_finds_a_cgroup_that_is_throttled"),
    on_a_host("diagnose_finds_that_there_are_too_few_cpus"),
    on_a_host("diagnose_finds_cgroups_on_one_cpu_beside_idle_ones"),
    on_a_host("diagnose_finds_a_pool_that_runs_into_its_quota"),
    on_a_host("diagnose_finds_a_pool_that_migrates"),
    on_a_host("diagnose_finds_a_listener_whose_server_is_busy"),
    on_a_host("diagnose_finds_a_listener_whose_server_waits_for_a_cpu"),
    on_a_host("diagnose_finds_light_cgroups_behind_heavy_ones"),
    program("a_benchmark_is_measured_and_the_same_seed_gives_the_same_requests"),
    program("functions_are_in_cgroups_of_their_own_as_deep_as_asked_for"),
    program("policies_take_turns_on_the_same_requests"),
    program("an_interrupted_benchmark_leaves_nothing"),
    program("an_interrupted_benchmark_tells_what_it_had_finished"),
    program("a_policy_that_is_refused_costs_only_its_own_runs"),
    program("what_a_killed_benchmark_left_the_next_one_sweeps"),
    program("a_benchmark_keeps_off_cgroups_that_it_did_not_make"),
    program("a_busy_host_is_not_for_benchmarks"),
    program("a_trial_without_apply_changes_nothing"),
    program("each_policy_does_what_it_says_and_is_undone"),
    program("a_trial_that_is_killed_is_put_back_by_its_watchdog"),
    program("a_trial_ends_when_its_watchdog_is_killed_or_stopped"),
    program("a_trial_that_is_stopped_is_ended_and_put_back_by_its_watchdog"),
    program("a_trial_whose_terminal_is_stopped_puts_everything_back"),
    program("a_trial_that_lost_all_its_processes_is_put_back_by_hand"),
    program("a_trial_that_is_asked_to_end_puts_everything_back"),
    program("what_somebody_else_changed_during_a_trial_stays"),
    program("a_budget_that_somebody_else_uses_meanwhile_stays"),
    // It takes unshare(1).
    on_a_host("a_trial_is_refused_in_a_pid_namespace"),
    program("the_watchdog_of_a_trial_has_a_cgroup_of_its_own_until_it_ends"),
    program("a_trial_ends_before_anybody_starves"),
    program("a_wait_counts_in_the_block_that_it_was_spent_in"),
    program("a_trial_of_nothing_changes_nothing"),
    program_on_kernel("a_trial_of_lags_gives_the_host_back"),
    program("a_trial_of_another_scheduler_ends_its_program"),
    program("a_trial_of_lags_is_refused_as_lags_is"),
    program("a_trial_of_another_scheduler_keeps_away_from_real_time_tasks"),
    program("diagnose_names_pods_and_not_their_containers"),
    program("a_trial_changes_pods_and_not_their_containers"),
    on_a_host("a_container_of_lxc_has_its_name"),
    on_a_host("a_container_of_podman_has_its_name_and_is_renamed"),
    on_a_host("a_container_of_docker_has_its_name_and_is_renamed"),
    on_a_host("a_container_of_nspawn_has_its_name"),
    truth("vcpus_were_ready_for_as_long_as_proc_says", &["runq-wait"]),
    program("a_refused_recording_leaves_files_as_they_were"),
    program("a_standard_error_that_nobody_reads_is_no_matter"),
    program("a_recording_rotates_by_time_and_keeps_the_last_files"),
    program("a_recording_rotates_by_size_and_nothing_is_missing"),
    program("a_ring_is_written_on_sigusr1"),
    program("a_ring_is_written_when_a_threshold_is_crossed"),
    program("a_full_disk_ends_a_recording_that_stays_readable"),
    program("a_disk_that_is_full_from_the_start_gets_no_recording"),
    program("a_full_disk_ends_a_rotation_whose_files_stay_readable"),
    program("a_ring_outlives_a_full_disk"),
    program("a_recording_that_is_removed_ends"),
    program("a_recorder_that_is_stopped_misses_nothing"),
    program("progress_is_for_terminals"),
    program("a_command_is_recorded_in_its_cgroup_and_its_status_is_the_recorders"),
    program("a_command_is_told_apart_by_its_leaf"),
    program("a_refused_recording_runs_no_command"),
    program("a_recorder_interrupted_before_its_command_runs_none"),
    program("a_recorder_killed_before_its_command_leaves_nothing"),
    program("a_command_outlives_its_recorder_and_its_cgroup_does_not_outlive_it"),
    program("what_a_killed_keeper_leaves_is_removed_when_nothing_runs_in_it"),
    program("a_full_disk_does_not_end_the_command"),
    truth("a_run_beside_a_neighbour_is_disturbed_and_names_it", &["blame"]),
    on_a_host("a_run_that_waits_behind_itself_is_undisturbed"),
    program("a_disturbed_run_is_repeated_and_a_limit_fails"),
    program("a_run_whose_threads_share_a_cpu_beside_a_neighbour_is_crowded_out"),
    program("the_status_of_a_run_is_that_of_its_command"),
    program("input_and_output_of_a_run_are_those_of_its_command"),
    program("a_run_passes_signals_on_and_leaves_no_cgroup"),
    program("ctrl_c_reaches_the_command_of_a_run_once"),
    program("a_run_that_is_killed_leaves_no_cgroup"),
    program("a_run_without_privileges_is_not_judged"),
    program("a_run_is_recorded"),
    on_a_host("every_query_of_the_dashboard_and_every_rule_has_an_answer"),
    program_on_kernel("lags_serves_light_cgroups_first"),
    program("lags_serves_light_cgroups_first_among_a_hundred"),
    program("lags_serves_light_cgroups_first_among_five_hundred"),
    program("lags_serves_light_cgroups_first_in_the_first_second"),
    program("a_burst_of_threads_holds_up_no_light_cgroup"),
    program("weights_count_while_lags_schedules"),
    program("nobody_starves_while_lags_schedules_an_overload"),
    program("the_hosts_own_tasks_get_their_part_and_do_not_wait_for_it"),
    program("a_kernel_thread_that_computes_for_long_starves_nobody"),
    program("nobody_starves_when_many_cgroups_wake_at_once"),
    program("whatever_tasks_do_goes_on_while_lags_schedules"),
    program("only_the_chosen_cgroups_go_first"),
    program("turns_and_preemption_are_as_asked_for"),
    program("a_head_start_is_as_long_as_asked_for"),
    program("the_papers_credit_is_lagstops_load_credit"),
    program("lags_starts_again_when_cpus_come_or_go"),
    // Only `7.0-generic` can rehearse it as well.
    program("lags_gets_through_suspend"),
    program_on_kernel("the_kernels_own_scheduler_is_back_however_lags_ends"),
    program_on_kernel("why_the_kernel_ended_lags_is_said"),
    program("lags_comes_and_goes_two_hundred_times"),
    program_on_kernel("lags_refuses_quotas_and_a_second_scheduler"),
    program_on_kernel("who_would_go_first_is_said_before_anything_is_changed"),
    program_on_kernel("a_scheduler_that_comes_later_is_noticed"),
    program("lags_says_when_it_prefers_nobody_any_more"),
    program_on_kernel("switches_waits_and_cpu_time_stay_true_while_lags_schedules"),
    program_on_kernel("switch_costs_stay_true_while_lags_schedules"),
    program_on_kernel("causes_of_waits_stay_true_while_lags_schedules"),
    program_on_kernel("lags_keeps_away_from_real_time_tasks_that_could_hang_the_host"),
    program_on_kernel("a_cpu_that_goes_and_comes_back_is_no_hole_in_a_recording"),
    program_on_kernel("a_step_of_the_clock_is_a_gap_in_a_recording"),
    program_on_kernel("a_cpu_that_was_away_when_timing_ended_misses_nothing"),
];

/// Those that compare `measure` with the truth.
pub(super) fn truths_of(measure: &str) -> impl Iterator<Item = &'static LiveTest> {
    LIVE_TESTS.iter().filter(move |test| test.measures.contains(&measure))
}

/// Names of those that a run leaves out. One for which tests are named leaves out only what no guest can run.
pub(super) fn left_out(is_quick: bool, are_named: bool) -> Vec<&'static str> {
    let is_left_out = |test: &&LiveTest| match test.runs {
        Runs::Always => false,
        Runs::Whole => is_quick,
        Runs::Named => !are_named,
        Runs::Host => true,
    };
    LIVE_TESTS.iter().filter(is_left_out).map(|test| test.name).collect()
}

/// Of the tests that ran, those that are not in the list: nobody knows what their failure would mean.
pub(super) fn unclaimed<'n>(names: impl IntoIterator<Item = &'n str>) -> Vec<&'n str> {
    names.into_iter().filter(|name| !LIVE_TESTS.iter().any(|test| test.name == *name)).collect()
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;
    use crate::workspace::Workspace;

    /// As they are in the sources: `("name", function),` in lists.
    fn in_the_sources() -> BTreeSet<String> {
        let dir = Workspace::here().root().join("lagstop/tests/live");
        let mut names = BTreeSet::new();
        for file in fs::read_dir(&dir).unwrap() {
            let text = fs::read_to_string(file.unwrap().path()).unwrap();
            for list in text.split(": &[Test] =").skip(1) {
                let list = list.split("];").next().unwrap();
                names.extend(list.split('"').skip(1).step_by(2).map(str::to_owned));
            }
        }
        names
    }

    #[test]
    fn every_live_test_is_claimed_and_is_there() {
        let claimed: BTreeSet<String> = LIVE_TESTS.iter().map(|test| test.name.to_owned()).collect();
        assert_eq!(claimed, in_the_sources(), "LIVE_TESTS in xtask/src/vmtest/live_tests.rs has another list");
        assert_eq!(claimed.len(), LIVE_TESTS.len());
        assert_eq!(unclaimed(["top_leaves_the_terminal_as_it_was", "a_new_one"]), ["a_new_one"]);
    }

    #[test]
    fn every_measure_is_compared_with_the_truth_on_every_change() {
        for measure in MEASURES {
            assert!(truths_of(measure).any(|test| test.runs == Runs::Always), "{measure}");
        }
        let known = |test: &LiveTest| test.measures.iter().all(|measure| MEASURES.contains(measure));
        assert!(LIVE_TESTS.iter().all(known));
    }
}

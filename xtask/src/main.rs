//! What developers of lagstop run: `cargo xtask ebpf` builds the eBPF object, `cargo xtask overhead` measures what
//! lagstop's programs cost, `cargo xtask recorder` what its recorder does, `cargo xtask calibrate` how far its predictions are
//! off, `cargo xtask docs` makes the tables of the docs and the README's picture, `cargo xtask serving` measures what serving metrics costs, `cargo
//! xtask schema` writes the schema of recordings, `cargo xtask man` and `cargo xtask completions` write manual pages and shell
//! completions, `cargo xtask manifests` renders what runs lagstop on Kubernetes, `cargo xtask soak` runs lagstop for long on
//! a host that never rests, `cargo xtask verdicts` measures how often
//! `lagstop run` is right, `cargo xtask vmtest` runs the live tests on other kernels, `cargo xtask simulate-fleet` makes a
//! fleet up, and `cargo xtask fleet-scale` measures `lagstop fleet` over it.

mod calibrate;
mod command;
mod docs;
mod ebpf;
mod fleet;
mod fuzz;
mod interrupt;
mod machine;
mod manifests;
mod overhead;
mod pages;
mod recorder;
mod schema;
mod serving;
mod soak;
mod tenants;
mod verdicts;
mod vmtest;
mod work;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Tasks of lagstop's developers.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    Calibrate(calibrate::Arguments),
    Completions(pages::CompletionsArguments),
    Ebpf(ebpf::Arguments),
    FleetScale(fleet::ScaleArguments),
    Fuzz(fuzz::Arguments),
    Man(pages::ManArguments),
    Manifests(manifests::Arguments),
    Overhead(overhead::Arguments),
    Docs(docs::Arguments),
    Recorder(recorder::Arguments),
    Schema(schema::Arguments),
    Serving(serving::Arguments),
    SimulateFleet(fleet::Arguments),
    Soak(soak::Arguments),
    Verdicts(verdicts::Arguments),
    Vmtest(vmtest::Arguments),
    #[command(hide = true)]
    Work(work::Work),
}

/// The comparison could not be made, which is neither a success nor a failure.
const CANNOT_COMPARE: u8 = 3;

fn main() -> ExitCode {
    let workspace = Workspace::here();
    match Cli::parse().task {
        Task::Ebpf(arguments) => {
            finish(
                ebpf::run(&workspace, &arguments),
                |error| {
                    if error.is_for_want_of_tools() { CANNOT_COMPARE } else { 1 }
                },
            )
        }
        Task::Calibrate(arguments) => finish(calibrate::run(&workspace, &arguments), |_| 1),
        Task::Completions(arguments) => finish(pages::completions(&workspace, arguments), |_| 1),
        Task::Man(arguments) => finish(pages::man(&workspace, arguments), |_| 1),
        Task::Manifests(arguments) => finish(manifests::run(&workspace, &arguments), |error| {
            if error.is_for_want_of_tools() { CANNOT_COMPARE } else { 1 }
        }),
        Task::FleetScale(arguments) => finish(fleet::scale(&workspace, &arguments), |_| 1),
        Task::Fuzz(arguments) => finish(fuzz::run(&workspace, &arguments), |_| 1),
        Task::Overhead(arguments) => finish(overhead::run(&workspace, &arguments), |_| 1),
        Task::Docs(arguments) => finish(docs::run(&workspace, &arguments), |_| 1),
        Task::Recorder(arguments) => finish(recorder::run(&workspace, &arguments), |_| 1),
        Task::Serving(arguments) => finish(serving::run(&workspace, &arguments), |_| 1),
        Task::Schema(arguments) => finish(schema::run(&workspace, &arguments), |_| 1),
        Task::SimulateFleet(arguments) => finish(fleet::simulate(&arguments), |_| 1),
        Task::Soak(arguments) => finish(soak::run(&workspace, &arguments), |_| 1),
        Task::Verdicts(arguments) => finish(verdicts::run(&workspace, &arguments), |_| 1),
        Task::Vmtest(arguments) => finish(vmtest::run(&workspace, &arguments), |_| 1),
        Task::Work(work) => work.run(),
    }
}

fn finish<E: std::fmt::Display>(result: Result<(), E>, code: impl Fn(&E) -> u8) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(code(&error))
        }
    }
}

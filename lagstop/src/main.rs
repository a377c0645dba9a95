//! `lagstop`: parse, run, exit code.

fn main() -> std::process::ExitCode {
    lagstop::cli::run()
}

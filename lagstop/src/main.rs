//! `lagstop`: parse, run, exit code.

fn main() -> std::process::ExitCode {
    lagstop::memory::take_from_one_heap();
    lagstop::cli::run()
}

//! What becomes of the cgroups in a simulation.

/// What became of the cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulationOutcome {
    /// By their number.
    pub groups: Vec<Served>,
    /// Switches away from a task.
    pub switches: f64,
    /// What they took, in seconds.
    pub switching: f64,
    /// What had become of the cgroups by half of the time.
    pub half: Vec<Served>,
}

/// What became of one, in seconds of all its tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Served {
    /// CPU time that it got.
    pub cpu: f64,
    /// Of that, what was not taken by switches.
    pub work: f64,
    /// Time that its tasks were runnable without it.
    pub wait: f64,
}

impl SimulationOutcome {
    /// All waits, in seconds.
    pub fn wait(&self) -> f64 {
        self.groups.iter().map(|group| group.wait).sum()
    }

    /// All CPU time, in seconds.
    pub fn cpu(&self) -> f64 {
        self.groups.iter().map(|group| group.cpu).sum()
    }
}

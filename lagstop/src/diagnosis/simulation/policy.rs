//! What is done to the cgroups.

/// How tasks are scheduled, where not as was measured. Each list is by the number of the cgroups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedPolicy {
    /// Other weights and whether they are idle.
    pub weights: Vec<(usize, Weight)>,
    /// Other slices for the tasks of these, in seconds.
    pub slices: Vec<(usize, f64)>,
    /// The tasks of these are real-time: they go before all others.
    pub real_time: Vec<usize>,
    /// Idle is whoever of these is heavy by Load Credit now.
    pub dynamic: Option<SimulatedDynamic>,
    /// Of these in one queue, the one with the lowest Load Credit goes first (CFS-LAGS paper, arXiv 2508.15703, §4.2). They
    /// share with others as ever.
    pub lightest_first: Vec<usize>,
}

/// What a cgroup weighs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weight {
    /// Its weight: 1 is the usual one.
    pub weight: f64,
    /// It runs when no sibling wants to.
    pub is_idle: bool,
}

/// Idle by Load Credit, ranked anew now and then.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedDynamic {
    /// Who is ranked.
    pub ranked: Vec<usize>,
    /// Who may become idle.
    pub heavy: Vec<usize>,
    /// How often, in seconds.
    pub every: f64,
    /// Heavy from so many times the mean Load Credit on.
    pub heavy_from: f64,
    /// Light again below so many.
    pub light_below: f64,
}

impl SimulatedPolicy {
    /// Nothing is changed.
    pub fn none() -> Self {
        Self::default()
    }
}

//! What is predicted of an intervention, and measured by a trial of it.

/// A figure that is predicted and tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ForecastFigure {
    LightWaiting,
    LightP99,
    HeavyWaiting,
    HeavyTime,
    OthersTime,
    Waiting,
    Switches,
    Overhead,
}

impl ForecastFigure {
    pub const ALL: [Self; 8] = [
        Self::LightWaiting,
        Self::LightP99,
        Self::HeavyWaiting,
        Self::HeavyTime,
        Self::OthersTime,
        Self::Waiting,
        Self::Switches,
        Self::Overhead,
    ];

    /// The name, for programs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LightWaiting => "light_waiting",
            Self::LightP99 => "light_p99",
            Self::HeavyWaiting => "heavy_waiting",
            Self::HeavyTime => "heavy_time",
            Self::OthersTime => "others_time",
            Self::Waiting => "waiting",
            Self::Switches => "switches",
            Self::Overhead => "overhead",
        }
    }

    /// The name, for people.
    pub const fn label(self) -> &'static str {
        match self {
            Self::LightWaiting => "light: tasks waiting",
            Self::LightP99 => "light: p99 run-queue wait",
            Self::HeavyWaiting => "heavy: tasks waiting",
            Self::HeavyTime => "heavy: time for the same work",
            Self::OthersTime => "others: time for the same work",
            Self::Waiting => "host: tasks waiting",
            Self::Switches => "host: switches per CPU",
            Self::Overhead => "host: overhead",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|figure| figure.name() == name)
    }
}

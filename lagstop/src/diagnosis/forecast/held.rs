//! How often predictions held in calibration. Written by `cargo xtask calibrate --write-docs`, from what docs/accuracy.md
//! is made from.

use super::Held;

/// By policy and figure.
pub(super) const HELD: &[Held] = &[
    Held { policy: "idle", figure: "heavy_time", inside: 5, of: 5 },
    Held { policy: "idle", figure: "heavy_waiting", inside: 5, of: 5 },
    Held { policy: "idle", figure: "light_waiting", inside: 2, of: 5 },
    Held { policy: "idle", figure: "overhead", inside: 5, of: 5 },
    Held { policy: "idle", figure: "switches", inside: 5, of: 5 },
    Held { policy: "idle", figure: "waiting", inside: 4, of: 5 },
    Held { policy: "lags-dynamic", figure: "heavy_time", inside: 6, of: 6 },
    Held { policy: "lags-dynamic", figure: "heavy_waiting", inside: 5, of: 6 },
    Held { policy: "lags-dynamic", figure: "light_waiting", inside: 4, of: 5 },
    Held { policy: "lags-dynamic", figure: "overhead", inside: 4, of: 5 },
    Held { policy: "lags-dynamic", figure: "switches", inside: 4, of: 5 },
    Held { policy: "lags-dynamic", figure: "waiting", inside: 5, of: 5 },
    Held { policy: "lags-static", figure: "heavy_time", inside: 5, of: 5 },
    Held { policy: "lags-static", figure: "heavy_waiting", inside: 5, of: 5 },
    Held { policy: "lags-static", figure: "light_waiting", inside: 4, of: 4 },
    Held { policy: "lags-static", figure: "overhead", inside: 4, of: 5 },
    Held { policy: "lags-static", figure: "switches", inside: 4, of: 5 },
    Held { policy: "lags-static", figure: "waiting", inside: 5, of: 5 },
    Held { policy: "slice", figure: "heavy_time", inside: 5, of: 6 },
    Held { policy: "slice", figure: "heavy_waiting", inside: 6, of: 6 },
    Held { policy: "slice", figure: "light_waiting", inside: 3, of: 5 },
    Held { policy: "slice", figure: "overhead", inside: 5, of: 6 },
    Held { policy: "slice", figure: "switches", inside: 5, of: 6 },
    Held { policy: "slice", figure: "waiting", inside: 5, of: 6 },
    Held { policy: "weight", figure: "heavy_time", inside: 5, of: 6 },
    Held { policy: "weight", figure: "heavy_waiting", inside: 6, of: 6 },
    Held { policy: "weight", figure: "light_waiting", inside: 5, of: 6 },
    Held { policy: "weight", figure: "overhead", inside: 6, of: 6 },
    Held { policy: "weight", figure: "switches", inside: 6, of: 6 },
    Held { policy: "weight", figure: "waiting", inside: 5, of: 6 },
];

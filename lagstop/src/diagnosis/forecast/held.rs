//! How often predictions held in calibration. Written by `cargo xtask calibrate --write-docs`, from what docs/accuracy.md
//! is made from.

use super::Held;

/// By policy and figure.
pub(super) const HELD: &[Held] = &[
    Held { policy: "idle", figure: "heavy_time", inside: 11, of: 11 },
    Held { policy: "idle", figure: "heavy_waiting", inside: 8, of: 11 },
    Held { policy: "idle", figure: "light_waiting", inside: 7, of: 10 },
    Held { policy: "idle", figure: "others_time", inside: 6, of: 7 },
    Held { policy: "idle", figure: "overhead", inside: 10, of: 11 },
    Held { policy: "idle", figure: "switches", inside: 10, of: 11 },
    Held { policy: "idle", figure: "waiting", inside: 9, of: 11 },
    Held { policy: "lags-dynamic", figure: "heavy_time", inside: 11, of: 11 },
    Held { policy: "lags-dynamic", figure: "heavy_waiting", inside: 11, of: 11 },
    Held { policy: "lags-dynamic", figure: "light_waiting", inside: 8, of: 11 },
    Held { policy: "lags-dynamic", figure: "others_time", inside: 5, of: 10 },
    Held { policy: "lags-dynamic", figure: "overhead", inside: 11, of: 11 },
    Held { policy: "lags-dynamic", figure: "switches", inside: 10, of: 11 },
    Held { policy: "lags-dynamic", figure: "waiting", inside: 11, of: 11 },
    Held { policy: "lags-static", figure: "heavy_time", inside: 11, of: 11 },
    Held { policy: "lags-static", figure: "heavy_waiting", inside: 11, of: 11 },
    Held { policy: "lags-static", figure: "light_waiting", inside: 6, of: 6 },
    Held { policy: "lags-static", figure: "others_time", inside: 2, of: 4 },
    Held { policy: "lags-static", figure: "overhead", inside: 10, of: 10 },
    Held { policy: "lags-static", figure: "switches", inside: 11, of: 11 },
    Held { policy: "lags-static", figure: "waiting", inside: 11, of: 11 },
    Held { policy: "slice", figure: "heavy_time", inside: 11, of: 11 },
    Held { policy: "slice", figure: "heavy_waiting", inside: 10, of: 10 },
    Held { policy: "slice", figure: "light_waiting", inside: 7, of: 9 },
    Held { policy: "slice", figure: "others_time", inside: 6, of: 8 },
    Held { policy: "slice", figure: "overhead", inside: 9, of: 11 },
    Held { policy: "slice", figure: "switches", inside: 8, of: 11 },
    Held { policy: "slice", figure: "waiting", inside: 11, of: 11 },
    Held { policy: "weight", figure: "heavy_time", inside: 11, of: 11 },
    Held { policy: "weight", figure: "heavy_waiting", inside: 11, of: 11 },
    Held { policy: "weight", figure: "light_waiting", inside: 9, of: 11 },
    Held { policy: "weight", figure: "others_time", inside: 5, of: 7 },
    Held { policy: "weight", figure: "overhead", inside: 11, of: 11 },
    Held { policy: "weight", figure: "switches", inside: 10, of: 11 },
    Held { policy: "weight", figure: "waiting", inside: 10, of: 11 },
];

//! How often predictions held in calibration. Written by `cargo xtask calibrate --write-docs`, from what docs/accuracy.md
//! is made from.

use super::Held;

/// By policy and figure.
pub(super) const HELD: &[Held] = &[Held { policy: "weight", figure: "light_waiting", inside: 0, of: 2 }];

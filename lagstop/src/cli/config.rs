//! The configuration file: what flags are when they are not given. `docs/config.md` has every key.

use std::{
    env, fs,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::{Deserialize, Deserializer, de::Error as _};
use thiserror::Error;

use super::values::{Grouping, interval, positive};
use crate::{
    diagnosis::Thresholds,
    display::plain,
    host::ExcludedCpus,
    top::{TopSettingError, TopSettings},
};

/// What is wrong with a configuration file.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read the configuration {}: {}. Check the path and its permissions", path.display(), plain(source))]
    Read { path: PathBuf, source: io::Error },
    #[error(
        "{}{}: {}. docs/config.md lists all keys",
        path.display(),
        line.map(|line| format!(", line {line}")).unwrap_or_default(),
        source.message().trim_end_matches('.')
    )]
    Toml { path: PathBuf, line: Option<usize>, source: Box<toml::de::Error> },
}

/// Errors that mean that this user has no such file.
const IS_NOT_THERE: [ErrorKind; 3] = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];

/// Path of the file, below each directory where it may be.
const NAME: &str = "lagstop/config.toml";

/// What flags are when they are not given.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Config {
    pub(super) measure: MeasureConfig,
    pub(super) top: TopConfig,
    pub(super) thresholds: ThresholdConfig,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct MeasureConfig {
    #[serde(deserialize_with = "some_interval")]
    pub(super) interval: Option<Duration>,
    pub(super) group_by: Option<Grouping>,
    pub(super) max_cgroups: Option<MaxCgroups>,
    #[serde(deserialize_with = "some_time")]
    pub(super) load_credit_time: Option<Duration>,
    #[serde(deserialize_with = "some_cpus")]
    pub(super) exclude_cpus: Option<ExcludedCpus>,
}

/// Within what `--max-cgroups` takes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "u32")]
pub(super) struct MaxCgroups(pub(super) u32);

impl TryFrom<u32> for MaxCgroups {
    type Error = String;
    fn try_from(number: u32) -> Result<Self, String> {
        if (1..=100_000).contains(&number) {
            Ok(Self(number))
        } else {
            Err("the number must be from 1 to 100000".to_owned())
        }
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct TopConfig {
    pub(super) view: Option<Checked<View>>,
    pub(super) columns: Option<Checked<Columns>>,
    pub(super) sort: Option<Checked<Sort>>,
    pub(super) tree: Option<bool>,
    pub(super) filter: Option<Checked<Filter>>,
    pub(super) alerts: Option<bool>,
    pub(super) theme: Option<Checked<Theme>>,
    pub(super) ascii: Option<bool>,
    #[serde(deserialize_with = "some_time")]
    pub(super) history: Option<Duration>,
}

/// A setting of the screen that can be wrong.
pub(super) trait Setting {
    type Value;
    fn set(value: &Self::Value, settings: &mut TopSettings) -> Result<(), TopSettingError>;
}

/// A value that was checked when it was read, so that an error can name the line of the file.
#[derive(Clone, Debug)]
pub(super) struct Checked<S: Setting>(S::Value);

impl<S: Setting> Checked<S> {
    pub(super) fn apply(&self, settings: &mut TopSettings) -> Result<(), TopSettingError> {
        S::set(&self.0, settings)
    }
}

impl<'de, S: Setting<Value: Deserialize<'de>>> Deserialize<'de> for Checked<S> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = S::Value::deserialize(deserializer)?;
        S::set(&value, &mut TopSettings::default()).map_err(D::Error::custom)?;
        Ok(Self(value))
    }
}

/// Declares the settings of the screen that can be wrong.
macro_rules! settings {
    ($($name:ident: $value:ty => |$settings:ident, $given:ident| $set:expr,)+) => {$(
        #[derive(Clone, Debug)]
        pub(super) struct $name;

        impl Setting for $name {
            type Value = $value;
            fn set($given: &$value, $settings: &mut TopSettings) -> Result<(), TopSettingError> {
                $set
            }
        }
    )+};
}

settings! {
    View: String => |settings, view| settings.set_view(view),
    Columns: Vec<String> => |settings, columns| settings.set_columns(columns.iter().map(String::as_str)),
    Sort: String => |settings, sort| settings.set_sort(sort),
    Filter: String => |settings, filter| settings.set_filter(filter),
    Theme: String => |settings, theme| settings.set_theme(theme),
}

impl TopConfig {
    pub(super) fn apply(&self, settings: &mut TopSettings) -> Result<(), TopSettingError> {
        self.view.as_ref().map_or(Ok(()), |view| view.apply(settings))?;
        self.columns.as_ref().map_or(Ok(()), |columns| columns.apply(settings))?;
        self.sort.as_ref().map_or(Ok(()), |sort| sort.apply(settings))?;
        self.filter.as_ref().map_or(Ok(()), |filter| filter.apply(settings))?;
        self.theme.as_ref().map_or(Ok(()), |theme| theme.apply(settings))?;
        if let Some(tree) = self.tree {
            settings.set_tree(tree);
        }
        if let Some(alerts) = self.alerts {
            settings.set_alerts(alerts);
        }
        if let Some(history) = self.history {
            settings.set_history(history);
        }
        Ok(())
    }
}

/// What figures are held against.
#[derive(Clone, Debug, Default)]
pub(super) struct ThresholdConfig(pub(super) Thresholds);

impl<'de> Deserialize<'de> for ThresholdConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Table(Thresholds);
        impl<'de> serde::de::Visitor<'de> for Table {
            type Value = Thresholds;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a table of thresholds")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(mut self, mut map: A) -> Result<Thresholds, A::Error> {
                while let Some(name) = map.next_key::<String>()? {
                    map.next_value_seed(Threshold { name: &name, thresholds: &mut self.0 })?;
                }
                Ok(self.0)
            }
        }
        deserializer.deserialize_map(Table(Thresholds::default())).map(Self)
    }
}

/// The value of one threshold.
struct Threshold<'a> {
    name: &'a str,
    thresholds: &'a mut Thresholds,
}

impl<'de> serde::de::DeserializeSeed<'de> for Threshold<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Literal {
            Whole(u64),
            Real(f64),
            Text(String),
        }
        let text = match Literal::deserialize(deserializer)? {
            Literal::Whole(value) => value.to_string(),
            Literal::Real(value) => value.to_string(),
            Literal::Text(text) => text,
        };
        self.thresholds.set(self.name, &text).map_err(D::Error::custom)
    }
}

fn some_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    positive(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

fn some_cpus<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ExcludedCpus>, D::Error> {
    String::deserialize(deserializer)?.parse().map(Some).map_err(D::Error::custom)
}

fn some_interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    interval(&String::deserialize(deserializer)?).map(Some).map_err(D::Error::custom)
}

impl Config {
    /// Reads `file`, or else the first file that exists, of the user's and the system's. Without a file, everything has
    /// its default.
    pub(super) fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        if let Some(file) = file {
            let text = fs::read_to_string(file);
            let text = text.map_err(|source| ConfigError::Read { path: file.to_owned(), source })?;
            return Self::parse(&text, file);
        }
        for file in places() {
            match fs::read_to_string(&file) {
                Ok(text) => return Self::parse(&text, &file),
                // Also if the environment still has another user's home, which this user cannot read.
                Err(error) if IS_NOT_THERE.contains(&error.kind()) => {}
                Err(source) => return Err(ConfigError::Read { path: file, source }),
            }
        }
        Ok(Self::default())
    }

    fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            ConfigError::Toml { path: file.to_owned(), line, source: Box::new(error) }
        })
    }
}

/// Is the text a configuration file? For whoever makes some up.
#[doc(hidden)]
pub fn check_config(text: &str) -> Result<(), ConfigError> {
    Config::parse(text, Path::new(NAME)).map(drop)
}

/// Where the file may be, in the order of the XDG base directory specification.
fn places() -> Vec<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let own = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    let shared = env::var_os("XDG_CONFIG_DIRS").filter(|dirs| !dirs.is_empty()).unwrap_or_else(|| "/etc/xdg".into());
    let shared: Vec<PathBuf> = env::split_paths(&shared).filter(|path| path.is_absolute()).collect();
    own.into_iter().chain(shared).map(|place| place.join(NAME)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnosis::ThresholdDefinition;

    const DOCS: &str = include_str!("../../../docs/config.md");

    /// The example in the documentation.
    fn example() -> &'static str {
        DOCS.split("```toml\n").nth(1).unwrap().split("```").next().unwrap()
    }

    fn error(text: &str) -> String {
        Config::parse(text, Path::new("config.toml")).unwrap_err().to_string()
    }

    #[test]
    fn the_documented_file_says_what_is_so_without_it() {
        let config = Config::parse(example(), Path::new("docs/config.md")).unwrap();
        let mut settings = TopSettings::default();
        config.top.apply(&mut settings).unwrap();
        // `ascii` depends on the terminal.
        assert_eq!(format!("{settings:?}"), format!("{:?}", TopSettings::default()));
        assert_eq!(config.thresholds.0, Thresholds::default());
        assert_eq!(config.measure.interval, Some(Duration::from_secs(1)));
        assert_eq!(config.measure.max_cgroups.unwrap().0, crate::source::LiveOptions::DEFAULT_MAX_CGROUPS);
    }

    #[test]
    fn every_key_and_column_is_documented() {
        for ThresholdDefinition { name, .. } in Thresholds::ALL {
            assert!(example().contains(&format!("\n{name} = ")), "{name}");
        }
        for key in [
            "interval",
            "group-by",
            "max-cgroups",
            "load-credit-time",
            "view",
            "columns",
            "sort",
            "tree",
            "filter",
            "alerts",
            "theme",
            "ascii",
            "history",
        ] {
            assert!(example().contains(&format!("{key} = ")), "{key}");
        }
        for key in ["tree", "alerts", "ascii"] {
            assert!(DOCS.contains(&format!("`--no-{key}`")), "{key}");
        }
        for (name, meaning) in TopSettings::column_names() {
            assert!(DOCS.contains(&format!("| `{name}` | {meaning} |")), "{name}");
        }
    }

    #[test]
    fn a_mistake_is_found_in_its_line() {
        assert!(
            error("[top]\ntree = false\nsort = \"cost\"\n").starts_with("config.toml, line 3: unknown column cost")
        );
        assert!(error("[top]\n\ncolour = \"red\"\n").starts_with("config.toml, line 3: unknown field `colour`"));
        assert!(
            error("[thresholds]\noverhead_warn = \"lots\"\n").starts_with("config.toml, line 2: \"lots\" is neither")
        );
        assert!(error("[thresholds]\noverhead = 1\n").starts_with("config.toml, line 2: no threshold is called"));
        assert!(
            error("[measure]\ninterval = \"1ms\"\n")
                .starts_with("config.toml, line 2: the interval must be at least 20ms")
        );
        assert!(error("[measure]\nmax-cgroups = 0\n").starts_with("config.toml, line 2: the number must be from 1"));
        assert!(error("[top\n").starts_with("config.toml, line 1: "));
        assert!(error("[top]\ntree = 1\n").starts_with("config.toml, line 2: invalid type"));
    }
}

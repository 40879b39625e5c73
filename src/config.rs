//! A set of option values, checked against the options table when they are set.

pub(crate) mod option;

use crate::backend::parameters::Parameters;
use crate::device_kind::DeviceKind;
use crate::error::{Result, excerpt, fail};
use crate::scalar::Precision;
use option::{Kind, OptionRow, PRECISIONS};
use serde_json::{Map, Number, Value as Json};
use std::collections::{BTreeMap, BTreeSet};

/// Part of a level whose precision can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelPart {
    /// The level's matrix.
    Matrix,
    /// Working vectors of the cycle.
    Vector,
    /// The smoother's data.
    Smoother,
    /// Interpolation to and restriction from the next finer level's point of view: entry i is the step from i to i + 1.
    Transfer,
}

impl LevelPart {
    /// All parts.
    pub const ALL: [LevelPart; 4] = [LevelPart::Matrix, LevelPart::Vector, LevelPart::Transfer, LevelPart::Smoother];

    /// The option that holds this part's list.
    pub fn key(self) -> &'static str {
        match self {
            LevelPart::Matrix => "precision.matrix",
            LevelPart::Vector => "precision.vector",
            LevelPart::Smoother => "precision.smoother",
            LevelPart::Transfer => "precision.transfer",
        }
    }
}

/// What the options say about a part of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// This format.
    Fixed(Precision),
    /// This format, or a wider one where it loses precision.
    AtLeast(Precision),
    /// Whatever set-up finds good enough.
    Auto,
}

/// The value of `precision.preset`.
#[derive(Clone, Debug, PartialEq)]
enum Preset {
    Input,
    Single,
    Auto,
    /// From the finest level downward, for vectors and smoothers, and for matrices and transfers; the last repeats.
    Formats {
        working: Vec<Precision>,
        stored: Vec<Precision>,
    },
}

impl Preset {
    fn parse(text: &str) -> Option<Preset> {
        let list = |text: &str| -> Option<Vec<Precision>> {
            let one = |name: &str| {
                Some(match name {
                    "dp" | "f64" => Precision::F64,
                    "sp" | "f32" => Precision::F32,
                    "hp" | "f16" => Precision::F16,
                    "bf" | "bf16" => Precision::BF16,
                    _ => return None,
                })
            };
            text.trim().split('-').map(one).collect()
        };
        match text {
            // What it stands for is filled in where a matrix is known; without one nothing is narrower than the matrix.
            "default" | "input" => return Some(Preset::Input),
            "single" => return Some(Preset::Single),
            "auto" => return Some(Preset::Auto),
            _ => {}
        }
        let (working, stored) = match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
            Some(pair) => pair.split_once(',')?,
            None => (text, text),
        };
        Some(Preset::Formats { working: list(working)?, stored: list(stored)? })
    }
}

/// Level number that stands for all levels below the last one named.
pub const LAST_LEVEL: i32 = -1;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    Int(i64),
    Real(f64),
    Text(String),
}

/// Option values; what was not set has the table's default.
#[derive(Clone, Debug)]
pub struct Config {
    /// The table of options that it is checked against.
    rows: &'static [OptionRow],
    values: BTreeMap<&'static str, Value>,
}

impl Parameters for Config {
    fn int(&self, key: &str) -> usize {
        Config::int(self, key)
    }

    fn real(&self, key: &str) -> f64 {
        Config::real(self, key)
    }

    fn real_or_auto(&self, key: &str) -> Option<f64> {
        Config::real_or_auto(self, key)
    }

    fn text(&self, key: &str) -> String {
        Config::text(self, key)
    }
}

impl Config {
    /// All defaults of a table of options.
    pub(crate) fn over(rows: &'static [OptionRow]) -> Self {
        Config { rows, values: BTreeMap::new() }
    }

    /// Sets any option from text, written as in the reference.
    pub fn set_str(&mut self, key: &str, text: &str) -> Result<()> {
        let row = self.known(key)?;
        self.values.insert(row.key, parse(row, text.trim())?);
        Ok(())
    }

    /// Sets an option that accepts whole numbers or real numbers.
    pub fn set_int(&mut self, key: &str, value: i64) -> Result<()> {
        let row = self.known(key)?;
        let value = match row.kind {
            Kind::Real { .. } => in_range(row, Value::Real(value as f64))?,
            Kind::Int { .. } => in_range(row, Value::Int(value))?,
            Kind::Ints { .. } => parse(row, &value.to_string())?,
            _ => return rejected(row, &value.to_string()),
        };
        self.values.insert(row.key, value);
        Ok(())
    }

    /// Sets an option that accepts real numbers.
    pub fn set_real(&mut self, key: &str, value: f64) -> Result<()> {
        let row = self.known(key)?;
        let value = match row.kind {
            Kind::Real { .. } => in_range(row, Value::Real(value))?,
            _ => return rejected(row, &value.to_string()),
        };
        self.values.insert(row.key, value);
        Ok(())
    }

    /// Sets the precision of one part of one level, by its name in the options: a format, `input` or `auto`. [`LAST_LEVEL`] sets all
    /// levels below the last one named.
    pub fn set_level(&mut self, level: i32, part: LevelPart, precision: &str) -> Result<()> {
        self.set_entry(level, part.key(), precision)
    }

    /// Sets the sweeps of one level before and after the coarse correction. [`LAST_LEVEL`] sets all levels below the last one named.
    pub fn set_level_sweeps(&mut self, level: i32, pre: i32, post: i32) -> Result<()> {
        let mut changed = self.clone();
        changed.set_entry(level, "amg.smoother.pre_sweeps", &pre.to_string())?;
        changed.set_entry(level, "amg.smoother.post_sweeps", &post.to_string())?;
        *self = changed;
        Ok(())
    }

    /// Sets the entry of one level in a list.
    fn set_entry(&mut self, level: i32, key: &str, entry: &str) -> Result<()> {
        let explicit = self.values.contains_key(key);
        let mut list: Vec<String> = self.text(key).split(',').map(str::to_string).collect();
        match level {
            LAST_LEVEL if explicit => list.push(entry.to_string()),
            LAST_LEVEL => list = vec![entry.to_string()],
            0..64 => {
                let last = list.last().cloned().unwrap_or_default();
                list.resize(list.len().max(level as usize + 1), last);
                list[level as usize] = entry.to_string();
            }
            _ => return fail!(InvalidArgument, "level is {level}; accepted: 0 to 63, or TERRACE_LAST (-1)"),
        }
        self.set_str(key, &list.join(","))
    }

    /// Sets every option of a JSON object. Keys may be dotted or nested, lists may be arrays. An option that is there twice is
    /// refused.
    pub(crate) fn load_object(&mut self, map: &Map<String, Json>) -> Result<()> {
        self.load_nested("", map, &mut BTreeSet::new())
    }

    fn load_nested(&mut self, prefix: &str, map: &Map<String, Json>, seen: &mut BTreeSet<&'static str>) -> Result<()> {
        for (name, value) in map {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            if let Json::Object(inner) = value {
                self.load_nested(&key, inner, seen)?;
                continue;
            }
            let row = self.known(&key)?;
            if !seen.insert(row.key) {
                return fail!(OptionValue, "option \"{}\" is there twice; give it dotted or nested, not both", row.key);
            }
            match value {
                Json::String(text) => self.set_str(&key, text)?,
                Json::Number(number) => match whole(number) {
                    Some(whole) => self.set_int(&key, whole)?,
                    None => self.set_real(&key, number.as_f64().unwrap_or(f64::NAN))?,
                },
                Json::Array(entries) => match entries.iter().map(list_entry).collect::<Option<Vec<_>>>() {
                    Some(list) => self.set_str(&key, &list.join(","))?,
                    None => return rejected(row, &value.to_string()),
                },
                other => return rejected(row, &other.to_string()),
            }
        }
        Ok(())
    }

    /// The value of an option as text: what was set, or the default.
    pub fn get(&self, key: &str) -> Result<String> {
        Ok(text_of(self.value(self.known(key)?.key)))
    }

    /// The values that were set, as one JSON object with dotted keys; [`Config::load_json`] reads it back.
    pub fn to_json(&self) -> String {
        let object: Map<String, Json> = self
            .values
            .iter()
            .map(|(&key, value)| {
                let json = match value {
                    Value::Int(v) => Json::from(*v),
                    Value::Real(v) => Json::from(*v),
                    Value::Text(v) => Json::from(v.as_str()),
                };
                (key.to_string(), json)
            })
            .collect();
        Json::Object(object).to_string()
    }

    /// A real option; `None` is `auto`.
    pub(crate) fn real_or_auto(&self, key: &str) -> Option<f64> {
        match self.values.get(key) {
            Some(Value::Real(v)) => return Some(*v),
            Some(Value::Text(_)) => return None,
            _ => {}
        }
        // A solve asks, and must not allocate the text that the default may be.
        let row = option::find(self.rows, key).filter(|row| matches!(row.kind, Kind::Real { .. }));
        let row = row.unwrap_or_else(|| unreachable!("{key} is not a real option"));
        row.default.parse().ok()
    }

    /// A real option that has no `auto`.
    pub(crate) fn real(&self, key: &str) -> f64 {
        self.real_or_auto(key).expect("the option has no auto")
    }

    /// A whole-number option.
    pub(crate) fn int(&self, key: &str) -> usize {
        match self.value(key) {
            Value::Int(v) => v as usize,
            _ => unreachable!("{key} is not a whole-number option"),
        }
    }

    /// A choice or a list, as text.
    pub(crate) fn text(&self, key: &str) -> String {
        match self.value(key) {
            Value::Text(v) => v,
            _ => unreachable!("{key} is not a text option"),
        }
    }

    /// A choice; `None` is `auto`.
    pub(crate) fn choice(&self, key: &str) -> Option<String> {
        Some(self.text(key)).filter(|v| v != "auto")
    }

    /// Whether an option was set whose key begins with this.
    pub(crate) fn has_set(&self, prefix: &str) -> bool {
        self.values.keys().any(|key| key.starts_with(prefix))
    }

    /// The precision of a part on a level, for a matrix whose values have format `input`.
    pub(crate) fn level_precision(&self, part: LevelPart, level: usize, input: Precision) -> Wanted {
        let list = self.text(part.key());
        match list.split(',').nth(level).or(list.split(',').next_back()) {
            Some("auto") => return Wanted::Auto,
            Some("input") => return Wanted::Fixed(input),
            Some(name) if name != "preset" => return Wanted::Fixed(Precision::from_name(name).unwrap_or(input)),
            _ => {}
        }
        match Preset::parse(&self.text("precision.preset")) {
            Some(Preset::Auto) => Wanted::Auto,
            Some(Preset::Single) if input == Precision::F64 => Wanted::AtLeast(Precision::F32),
            Some(Preset::Formats { working, stored }) => {
                let list = match part {
                    LevelPart::Vector | LevelPart::Smoother => working,
                    LevelPart::Matrix | LevelPart::Transfer => stored,
                };
                Wanted::Fixed(list.get(level).or(list.last()).copied().unwrap_or(input))
            }
            Some(Preset::Input | Preset::Single) | None => Wanted::Fixed(input),
        }
    }

    /// Whether the options name the format of a part of a level, by its own list or by formats in place of a preset.
    pub(crate) fn names_precision(&self, part: LevelPart, level: usize) -> bool {
        let list = self.text(part.key());
        match list.split(',').nth(level).or(list.split(',').next_back()) {
            Some("preset") | None => {
                matches!(Preset::parse(&self.text("precision.preset")), Some(Preset::Formats { .. }))
            }
            Some(name) => name != "auto",
        }
    }

    /// The whole number of a list on a level.
    pub(crate) fn level_int(&self, key: &str, level: usize) -> usize {
        let list = self.text(key);
        let entry = list.split(',').nth(level).or(list.split(',').next_back());
        entry.and_then(|e| e.parse().ok()).unwrap_or_else(|| unreachable!("{key} is not a list of whole numbers"))
    }

    /// Refuses what was set and a device cannot do.
    pub(crate) fn check_device(&self, device: DeviceKind) -> Result<()> {
        for (key, value) in &self.values {
            let row = self.known(key)?;
            if !row.backends().contains(&device) {
                let name = device.name();
                return fail!(Unsupported, "option \"{key}\" has no meaning on a device of kind \"{name}\"");
            }
            if device == DeviceKind::Host {
                continue;
            }
            let Value::Text(text) = value else { continue };
            if let Some(entry) = text.split(',').find(|entry| row.host_only.contains(entry)) {
                let names: Vec<&str> = match row.kind {
                    Kind::Choice { names, .. } => names.to_vec(),
                    _ => Precision::ALL.iter().map(|p| p.name()).collect(),
                };
                let accepted: Vec<&str> = names.into_iter().filter(|n| !row.host_only.contains(n)).collect();
                return fail!(
                    Unsupported,
                    "option \"{key}\" is \"{entry}\", which a {} device cannot do; accepted there: {}",
                    device.name(),
                    accepted.join(", ")
                );
            }
        }
        Ok(())
    }

    fn value(&self, key: &str) -> Value {
        let row = option::find(self.rows, key).unwrap_or_else(|| panic!("{key} is not in the options table"));
        match self.values.get(key) {
            Some(value) => value.clone(),
            None => parse(row, row.default).unwrap_or_else(|e| panic!("default of {key}: {e}")),
        }
    }

    fn known(&self, key: &str) -> Result<&'static OptionRow> {
        match option::find(self.rows, if key == "precision" { "precision.preset" } else { key }) {
            Some(row) => Ok(row),
            None => {
                let nearest = option::nearest(self.rows, key);
                fail!(UnknownOption, "no option is called \"{}\"; the nearest is \"{nearest}\"", excerpt(key))
            }
        }
    }
}

/// An entry of a list.
fn list_entry(json: &Json) -> Option<String> {
    match json {
        Json::String(text) if !text.contains(',') => Some(text.clone()),
        Json::Number(number) => Some(whole(number).map_or_else(|| number.to_string(), |whole| whole.to_string())),
        _ => None,
    }
}

/// The whole number that a number of JSON is, also where it is written as 1e2 or 100.0.
fn whole(number: &Number) -> Option<i64> {
    let is_whole = |v: &f64| v.fract() == 0.0 && v.abs() < 1e15 && (*v != 0.0 || v.is_sign_positive());
    number.as_i64().or_else(|| number.as_f64().filter(is_whole).map(|v| v as i64))
}

fn text_of(value: Value) -> String {
    match value {
        Value::Int(v) => v.to_string(),
        Value::Real(v) => v.to_string(),
        Value::Text(v) => v,
    }
}

fn rejected<T>(row: &OptionRow, value: &str) -> Result<T> {
    fail!(OptionValue, "option \"{}\" does not accept {:?}; accepted: {}", row.key, excerpt(value), row.kind.accepted())
}

fn parse(row: &OptionRow, text: &str) -> Result<Value> {
    match row.kind {
        Kind::Int { .. } => match text.parse() {
            Ok(v) => in_range(row, Value::Int(v)),
            Err(_) => rejected(row, text),
        },
        Kind::Real { auto: true, .. } if text == "auto" => Ok(Value::Text(text.to_string())),
        Kind::Real { .. } => match text.parse() {
            Ok(v) => in_range(row, Value::Real(v)),
            Err(_) => rejected(row, text),
        },
        Kind::Choice { names, auto } => {
            if (auto && text == "auto") || names.contains(&text) {
                Ok(Value::Text(text.to_string()))
            } else {
                rejected(row, text)
            }
        }
        Kind::Precisions => {
            let names: Vec<&str> = text.split(',').map(str::trim).collect();
            match names.iter().all(|n| PRECISIONS.contains(n)) {
                true => Ok(Value::Text(names.join(","))),
                false => rejected(row, text),
            }
        }
        Kind::PrecisionPreset => match Preset::parse(text) {
            Some(_) => Ok(Value::Text(text.to_string())),
            None => rejected(row, text),
        },
        Kind::Ints { min, max } => {
            let numbers: Vec<Option<i64>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
            if numbers.iter().all(|n| n.is_some_and(|n| (min..=max).contains(&n))) {
                Ok(Value::Text(numbers.iter().flatten().map(i64::to_string).collect::<Vec<_>>().join(",")))
            } else {
                rejected(row, text)
            }
        }
    }
}

fn in_range(row: &OptionRow, value: Value) -> Result<Value> {
    let accepted = match (row.kind, &value) {
        (Kind::Int { min, max }, Value::Int(v)) => (min..=max).contains(v),
        (Kind::Real { min, max, .. }, Value::Real(v)) => (min..=max).contains(v),
        _ => false,
    };
    match (accepted, &value) {
        (true, _) => Ok(value),
        (false, Value::Int(v)) => rejected(row, &v.to_string()),
        (false, Value::Real(v)) => rejected(row, &v.to_string()),
        (false, Value::Text(v)) => rejected(row, v),
    }
}

/// Every key with its current value as text, for `terrace options` and logs.
pub fn describe(config: &Config) -> Vec<(&'static str, String)> {
    config
        .rows
        .iter()
        .map(|row| {
            let text = match config.value(row.key) {
                Value::Int(v) => v.to_string(),
                Value::Real(v) => v.to_string(),
                Value::Text(v) => v,
            };
            (row.key, text)
        })
        .collect()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn every_default_is_accepted_by_its_own_row() {
        assert_eq!(describe(&Config::new()).len(), crate::options::OPTIONS.len());
    }

    #[test]
    fn bad_keys_and_values_are_named_with_what_would_be_accepted() {
        let mut config = Config::new();

        let unknown = config.set_real("solver.tolerence", 1e-6).unwrap_err();
        assert_eq!(unknown.status, Status::UnknownOption);
        assert!(unknown.message.contains("solver.tolerance"));

        let range = config.set_int("amg.max_levels", 0).unwrap_err();
        assert_eq!(range.status, Status::OptionValue);
        assert!(range.message.contains("1 to 64"), "{}", range.message);

        assert_eq!(config.set_str("solver.type", "sor").unwrap_err().status, Status::OptionValue);
        assert_eq!(config.set_real("solver.tolerance", f64::NAN).unwrap_err().status, Status::OptionValue);
        assert_eq!(config.set_str("precision.vector", "f64,f8").unwrap_err().status, Status::OptionValue);
        assert_eq!(config.to_json(), "{}");
    }

    #[test]
    fn long_keys_and_values_are_refused_at_once_and_quoted_by_their_beginning() {
        let mut config = Config::new();
        let long = format!("solver.tolerance{}", "x".repeat(10_000_000));
        let start = std::time::Instant::now();
        let unknown = config.load_json(&format!("{{\"{long}\": 1}}")).unwrap_err();
        assert!(start.elapsed().as_secs() < 5, "{:?}", start.elapsed());
        assert_eq!(unknown.status, Status::UnknownOption);
        assert!(unknown.message.len() < 200 && unknown.message.contains("xxx...\""), "{}", unknown.message.len());
        for key in ["solver.type", "solver.tolerance", "precision", "precision.matrix", "amg.smoother.pre_sweeps"] {
            let refused = config.set_str(key, &long).unwrap_err();
            assert_eq!(refused.status, Status::OptionValue);
            assert!(refused.message.len() < 400, "{key}: {}", refused.message.len());
        }
    }

    #[test]
    fn json_is_read_nested_or_dotted_and_refused_as_a_whole() {
        let mut config = Config::new();
        config.load_json(r#"{"solver": {"tolerance": 1e-6, "max_iterations": 7}, "solver.type": "fcg"}"#).unwrap();
        assert_eq!((config.real("solver.tolerance"), config.int("solver.max_iterations")), (1e-6, 7));
        config.load_json(r#"{"solver.max_iterations": 1e2, "amg.smoother.pre_sweeps": [2.0, 1]}"#).unwrap();
        assert_eq!((config.int("solver.max_iterations"), &*config.text("amg.smoother.pre_sweeps")), (100, "2,1"));
        assert!(config.load_json(r#"{"solver.max_iterations": 1.5}"#).is_err());
        let before = config.to_json();
        assert!(config.load_json(r#"{"solver.restart": 5, "solver.nonsense": 1}"#).is_err());
        assert_eq!(config.to_json(), before);

        let mut copy = Config::new();
        copy.load_json(&before).unwrap();
        assert_eq!(copy.to_json(), before);
    }

    /// Far from 1, a reader that is not exact is off by a bit.
    #[test]
    fn every_number_comes_back_from_json_to_the_bit() {
        for exponent in 1..308 {
            let number: f64 = format!("1e-{exponent}").parse().unwrap();
            let mut config = Config::new();
            config.load_json(&format!("{{\"solver.tolerance\": 1e-{exponent}}}")).unwrap();
            assert_eq!(config.real("solver.tolerance"), number);
            let mut copy = Config::new();
            copy.load_json(&config.to_json()).unwrap();
            assert_eq!(copy.real("solver.tolerance"), number);
        }
    }

    #[test]
    fn level_precisions_repeat_downward() {
        let mut config = Config::new();
        config.set_level(0, LevelPart::Matrix, "f64").unwrap();
        config.set_level(LAST_LEVEL, LevelPart::Matrix, "f32").unwrap();
        assert_eq!(config.text("precision.matrix"), "f64,f32");
        assert_eq!(config.level_precision(LevelPart::Matrix, 0, Precision::F32), Wanted::Fixed(Precision::F64));
        assert_eq!(config.level_precision(LevelPart::Matrix, 9, Precision::F64), Wanted::Fixed(Precision::F32));
        assert_eq!(config.level_precision(LevelPart::Vector, 3, Precision::F32), Wanted::Fixed(Precision::F32));
        assert!(config.set_level(99, LevelPart::Vector, "input").is_err());
    }

    #[test]
    fn level_sweeps_repeat_downward_and_are_set_together_or_not_at_all() {
        let mut config = Config::new();
        assert_eq!(config.level_int("amg.smoother.pre_sweeps", 5), 1);
        config.set_str("amg.smoother.pre_sweeps", " 1, 2 ,03").unwrap();
        assert_eq!(config.text("amg.smoother.pre_sweeps"), "1,2,3");
        assert_eq!([0, 1, 2, 9].map(|level| config.level_int("amg.smoother.pre_sweeps", level)), [1, 2, 3, 3]);
        config.set_int("amg.smoother.pre_sweeps", 4).unwrap();
        assert_eq!(config.level_int("amg.smoother.pre_sweeps", 1), 4);

        config.set_level_sweeps(1, 2, 0).unwrap();
        config.set_level_sweeps(LAST_LEVEL, 5, 6).unwrap();
        assert_eq!(config.text("amg.smoother.pre_sweeps"), "4,2,5");
        assert_eq!(config.text("amg.smoother.post_sweeps"), "1,0,6");

        let before = config.to_json();
        assert_eq!(config.set_level_sweeps(0, 3, 101).unwrap_err().status, Status::OptionValue);
        assert_eq!(config.set_level_sweeps(0, -1, 1).unwrap_err().status, Status::OptionValue);
        assert_eq!(config.set_level_sweeps(64, 1, 1).unwrap_err().status, Status::InvalidArgument);
        for bad in ["", "1,", "1;2", "1.5", "two"] {
            let error = config.set_str("amg.smoother.post_sweeps", bad).unwrap_err();
            assert_eq!(error.status, Status::OptionValue, "{bad}");
            assert!(error.message.contains("whole numbers from 0 to 100"), "{error}");
        }
        assert!(config.set_real("amg.smoother.pre_sweeps", 1.0).is_err());
        assert_eq!(config.to_json(), before);
    }
}

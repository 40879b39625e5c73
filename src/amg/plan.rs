//! Number formats of the parts of each level: named by the options, or chosen from the values of the level.
//!
//! The choice rests on one measure. A smoothing step with the rounded matrix A + E adds the error D^-1 E w to a smooth vector w. Its
//! energy relative to that of w is |D^-1/2 E w| / |w|_A. Iterations stay the same while this is small for the smoothest vectors. These
//! are the smoothest vector of the coarsest level, interpolated to all others: Galerkin products keep its energy.

use crate::backend::setup::{Loss, Losses};
use crate::components::SmootherInfo;
use crate::config::{Config, LevelPart, Wanted};
use crate::error::{Result, fail};
use crate::scalar::Precision;

/// Error energy over energy that a part of a level may cost.
const LIMIT: f64 = 0.06;

/// Where f16 would cost more than this in the finest transfers, they are no place for a level in 16 bits.
const ROUGH: f64 = 0.1;

/// Share of a row's absolute sum that may vanish.
const VANISHED: f64 = 1.0 / 1024.0;

/// Levels with a smaller share of all entries gain nothing from 16 bits.
const SMALL: f64 = 1.0 / 64.0;

/// A hierarchy with fewer entries stays in the caches whatever its format is.
pub(crate) const TINY: usize = 1 << 12;

/// The formats of one level.
#[derive(Clone, Debug)]
pub(crate) struct LevelPlan {
    precision: [Precision; 4],
    /// Which of them may become wider than the options ask for.
    open: [bool; 4],
    /// The reason, for the report; empty if the options name all formats.
    pub reason: String,
}

impl LevelPlan {
    /// The format of a part.
    pub fn of(&self, part: LevelPart) -> Precision {
        self.precision[part as usize]
    }

    /// Sets a part that the options left open.
    fn choose(&mut self, part: LevelPart, precision: Precision) {
        if self.open[part as usize] {
            self.precision[part as usize] = precision;
        }
    }

    /// Gives level `i` the format of its vectors where that has 16 bits.
    fn follow_narrow_vectors(&mut self, config: &Config, i: usize) -> Result<()> {
        let vectors = self.of(LevelPart::Vector);
        for part in LevelPart::ALL {
            let now = self.of(part);
            if now.goes_with(vectors) {
                continue;
            }
            if config.names_precision(part, i) {
                return fail!(
                    Unsupported,
                    "level {i} has vectors in {vectors} and {key} in {now}; vectors in 16 bits go with the same format in all parts of \
                     their level: set {key} to {vectors} there, or precision.vector to f32",
                    vectors = vectors.name(),
                    key = part.key(),
                    now = now.name()
                );
            }
            self.precision[part as usize] = vectors;
            self.open[part as usize] = false;
        }
        Ok(())
    }

    /// Whether a part has 16 bits.
    pub fn is_narrow(&self, part: LevelPart) -> bool {
        !self.of(part).is_scalar()
    }

    /// Promotes the formats that the options left open by one step; false if they are `widest` already.
    fn widen(&mut self, widest: Precision) -> bool {
        let mut changed = false;
        for part in LevelPart::ALL {
            let now = self.of(part);
            let next = if now.is_scalar() { widest } else { narrower(Precision::F32, widest) };
            if self.open[part as usize] && next.bytes() > now.bytes() {
                self.choose(part, next);
                changed = true;
            }
        }
        changed
    }
}

/// The narrower of two formats that algorithms compute in.
fn narrower(a: Precision, b: Precision) -> Precision {
    if a.bytes() < b.bytes() { a } else { b }
}

/// The formats of all levels.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub levels: Vec<LevelPlan>,
    /// The format of the matrix, the widest that is chosen.
    input: Precision,
    /// Whether formats are to be chosen by what the numbers of a level are.
    undecided: bool,
}

impl Plan {
    /// The formats that the options name; open ones are those of the matrix. A level with vectors in 16 bits has them throughout: what
    /// the options do not name follows its vectors, and what they name otherwise is an error.
    pub fn asked(config: &Config, input: Precision, levels: usize) -> Result<Plan> {
        let mut undecided = false;
        let mut level = |i: usize| {
            let wanted = LevelPart::ALL.map(|part| config.level_precision(part, i, input));
            let mut plan = LevelPlan { precision: [input; 4], open: [false; 4], reason: String::new() };
            for (part, wanted) in LevelPart::ALL.into_iter().zip(wanted) {
                match wanted {
                    Wanted::Fixed(precision) => plan.precision[part as usize] = precision,
                    Wanted::AtLeast(precision) => {
                        plan.precision[part as usize] = precision;
                        plan.open[part as usize] = true;
                    }
                    Wanted::Auto => {
                        plan.open[part as usize] = true;
                        undecided = true;
                    }
                }
            }
            plan
        };
        let mut plan = Plan { levels: (0..levels).map(&mut level).collect(), input, undecided };
        plan.levels.iter_mut().enumerate().try_for_each(|(i, level)| level.follow_narrow_vectors(config, i))?;
        Ok(plan)
    }

    /// The same for an approximate inverse without levels, which has data and vectors, and neither a matrix nor transfers.
    /// What is open is as in the matrix.
    pub fn without_levels(config: &Config, input: Precision) -> Result<Plan> {
        let mut plan = Plan::asked(config, input, 1)?;
        for part in [LevelPart::Matrix, LevelPart::Transfer] {
            plan.levels[0].precision[part as usize] = input;
            plan.levels[0].open[part as usize] = false;
        }
        plan.undecided = false;
        Ok(plan)
    }

    /// Whether formats are to be chosen by what the numbers of a level are.
    pub fn is_undecided(&self) -> bool {
        self.undecided
    }

    /// Whether anything is narrower than the matrix.
    pub fn is_narrow(&self) -> bool {
        self.levels.iter().any(|level| level.precision.iter().any(|p| p.bytes() < self.input.bytes()))
    }

    /// The first of the narrowest levels with its formats, when they are narrower than the matrix.
    pub fn narrowest(&self) -> Option<String> {
        let bytes = |level: &LevelPlan| level.precision.iter().map(|p| p.bytes()).sum::<usize>();
        let (i, level) = self.levels.iter().enumerate().min_by_key(|(_, level)| bytes(level))?;
        let names: Vec<String> = LevelPart::ALL
            .iter()
            .map(|part| format!("{} {}", part.key().trim_start_matches("precision."), level.of(*part).name()))
            .collect();
        self.is_narrow().then(|| format!("level {i} is the narrowest, with {}", names.join(", ")))
    }

    /// The format of a part of a level.
    pub fn of(&self, part: LevelPart, level: usize) -> Precision {
        self.levels[level].of(part)
    }

    /// Whether level `i` is scaled: a part of it, or of the transfers from and to it, has 16 bits.
    pub fn is_scaled(&self, i: usize) -> bool {
        let from_above = i > 0 && self.levels[i - 1].is_narrow(LevelPart::Transfer);
        let last = i + 1 == self.levels.len();
        let level = &self.levels[i];
        from_above
            || LevelPart::ALL.iter().any(|part| level.is_narrow(*part) && !(last && *part == LevelPart::Transfer))
    }

    /// Leaves all as it is in the matrix, and says why.
    pub fn leave(&mut self, reason: &str) {
        for level in &mut self.levels {
            level.reason = reason.to_string();
        }
    }

    /// Stores all in f32, where the options allow it, and says why.
    pub fn take_single(&mut self, reason: &str) {
        let single = narrower(Precision::F32, self.input);
        for level in &mut self.levels {
            LevelPart::ALL.into_iter().for_each(|part| level.choose(part, single));
            level.reason = format!("{}: {reason}", single.name());
        }
    }

    /// Chooses the open parts of a level.
    pub fn decide(&mut self, i: usize, measured: &Measured, smoother: &SmootherInfo) {
        let input = self.input;
        let level = &mut self.levels[i];
        let within = |p: Precision| if p.is_scalar() { narrower(p, input) } else { p };
        let vector = within(vectors(measured.energy));
        let (matrix, matrix_reason) = choose(&measured.matrix, measured.energy);
        let matrix = within(matrix);
        // Half a unit in the last place of D^-1 changes the weight of a sweep by as much.
        let follows = smoother.keeps_matrix || smoother.is_diagonal && matrix == Precision::F16;
        level.choose(LevelPart::Vector, vector);
        level.choose(LevelPart::Matrix, matrix);
        level.choose(LevelPart::Smoother, if follows { matrix } else { vector });
        level.reason = format!("matrix {}: {matrix_reason}", matrix.name());
        if let Some(transfer) = &measured.transfer {
            let (precision, reason) = choose(transfer, measured.energy);
            level.choose(LevelPart::Transfer, within(precision));
            level.reason += &format!("; transfers {}: {reason}", within(precision).name());
        } else {
            level.choose(LevelPart::Transfer, matrix);
        }
        level.reason += &format!("; vectors {}", vector.name());
    }

    /// Stores all levels in f32 where the finest matrix does not become narrower, and could: most of the time is spent there, and the
    /// levels below gain less than their scaling costs. So are they where the matrix could become narrower, but not its transfers by far.
    pub fn follow_finest(&mut self, measured: &Measured) {
        let cost = |part: &Part| relative(part.losses.f16.error, measured.energy);
        let is_rough = measured.transfer.as_ref().map_or(0.0, cost) > ROUGH;
        let (finest, single) = (&self.levels[0], narrower(Precision::F32, self.input));
        if !finest.open[LevelPart::Matrix as usize] || (finest.is_narrow(LevelPart::Matrix) && !is_rough) {
            return;
        }
        for level in &mut self.levels {
            let narrow: Vec<LevelPart> = LevelPart::ALL.into_iter().filter(|part| level.is_narrow(*part)).collect();
            narrow.iter().for_each(|part| level.choose(*part, single));
            if !narrow.is_empty() {
                level.reason += &format!("; all {} as the finest", single.name());
            }
        }
    }

    /// Promotes the open parts of a level, or with `None` of all levels, by one step, and adds the reason to what changed. False if
    /// nothing changed.
    pub fn promote(&mut self, level: Option<usize>, reason: &str) -> bool {
        let input = self.input;
        let mut changed = false;
        for (i, plan) in self.levels.iter_mut().enumerate() {
            if level.is_none_or(|level| level == i) && plan.widen(input) {
                let before = if plan.reason.is_empty() { String::new() } else { format!("{}; ", plan.reason) };
                plan.reason = format!("{before}promoted: {reason}");
                changed = true;
            }
        }
        changed
    }
}

/// What formats of a level are chosen by.
pub(crate) struct Measured {
    /// Energy of the smooth vector over |w|_D^2, between 0 and the largest eigenvalue of D^-1 A.
    pub energy: f64,
    pub matrix: Part,
    /// None on the coarsest level.
    pub transfer: Option<Part>,
}

impl Measured {
    /// With another form of each number.
    pub fn map(&self, form: &impl Fn(f64) -> f64) -> Measured {
        let loss = |loss: &Loss| Loss { error: form(loss.error), vanished: form(loss.vanished) };
        let losses = |losses: &Losses| Losses { f16: loss(&losses.f16), bf16: loss(&losses.bf16) };
        let part = |part: &Part| Part { share: part.share, losses: losses(&part.losses) };
        Measured { energy: form(self.energy), matrix: part(&self.matrix), transfer: self.transfer.as_ref().map(part) }
    }
}

/// What rounding a matrix or a transfer to 16 bits does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Share of the entries of all levels.
    pub share: f64,
    pub losses: Losses,
}

impl Part {
    /// Whether 16 bits can gain anything for a part with this share of all entries.
    pub fn is_worth(share: f64) -> bool {
        share >= SMALL
    }
}

/// The narrowest format for a part of a level, and why.
fn choose(part: &Part, energy: f64) -> (Precision, String) {
    let cost = |error: f64| relative(error, energy);
    if cost(SINGLE) > LIMIT {
        return (Precision::F64, format!("f32 would cost {}", percent(cost(SINGLE))));
    }
    if !Part::is_worth(part.share) {
        return (Precision::F32, "small".to_string());
    }
    let Losses { f16, bf16 } = &part.losses;
    for (precision, loss) in [(Precision::F16, f16), (Precision::BF16, bf16)] {
        if cost(loss.error) <= LIMIT && loss.vanished <= VANISHED {
            return (precision, if loss.error == 0.0 { "exact".to_string() } else { percent(cost(loss.error)) });
        }
    }
    let why = |loss: &Loss| {
        if loss.vanished > VANISHED {
            format!("rows lose {} in", percent(loss.vanished))
        } else if loss.error.is_finite() {
            format!("{} in", percent(cost(loss.error)))
        } else {
            "out of range in".to_string()
        }
    };
    (Precision::F32, format!("{} f16, {} bf16", why(f16), why(bf16)))
}

/// The square of what rounding to f32 changes.
const SINGLE: f64 = (f32::EPSILON as f64) * (f32::EPSILON as f64) / 4.0;

/// The format of the vectors of a level.
fn vectors(energy: f64) -> Precision {
    if relative(SINGLE, energy) <= LIMIT { Precision::F32 } else { Precision::F64 }
}

/// The root of error over energy.
fn relative(error: f64, energy: f64) -> f64 {
    if error == 0.0 { 0.0 } else { (error / energy.max(0.0)).sqrt() }
}

fn percent(share: f64) -> String {
    match share {
        0.0 => "nothing".to_string(),
        share if share < 1e-4 => format!("{:.0e} %", 100.0 * share),
        share => format!("{:.2} %", 100.0 * share),
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::components::smoother_info;
    use proptest::prelude::*;

    fn part(share: f64, f16: f64, bf16: f64, vanished: f64) -> Part {
        let losses = Losses { f16: Loss { error: f16, vanished }, bf16: Loss { error: bf16, vanished: 0.0 } };
        Part { share, losses }
    }

    #[test]
    fn the_narrowest_format_that_costs_little_is_chosen() {
        let of = |part: &Part, energy: f64| choose(part, energy).0;
        assert_eq!(of(&part(1.0, 1e-8, 1e-6, 0.0), 1e-2), Precision::F16);
        assert_eq!(of(&part(1.0, 1e-8, 1e-6, 0.5), 1e-2), Precision::BF16);
        assert_eq!(of(&part(1.0, 1e-8, 1e-6, 0.0), 1e-7), Precision::F32);
        assert_eq!(of(&part(0.001, 0.0, 0.0, 0.0), 1e-2), Precision::F32);
        assert_eq!(of(&part(1.0, 0.0, 0.0, 0.0), 1e-14), Precision::F64);
        assert_eq!([1e-4, 1e-14].map(vectors), [Precision::F32, Precision::F64]);
    }

    #[test]
    fn levels_below_a_wide_finest_one_are_wide() {
        let mut config = Config::new();
        config.set_str("precision", "auto").unwrap();
        let narrow = part(0.5, 1e-10, 1e-8, 0.0);
        let wide = part(0.5, 1e-2, 1.0, 0.0);
        for (finest, transfer, expected) in
            [(narrow, narrow, Precision::F16), (wide, narrow, Precision::F32), (narrow, wide, Precision::F32)]
        {
            let mut plan = Plan::asked(&config, Precision::F64, 2).unwrap();
            for (i, matrix) in [finest, narrow].into_iter().enumerate() {
                plan.decide(i, &Measured { energy: 1e-2, matrix, transfer: Some(narrow) }, smoother_info("jacobi"));
            }
            plan.follow_finest(&Measured { energy: 1e-2, matrix: finest, transfer: Some(transfer) });
            assert_eq!(plan.of(LevelPart::Vector, 1), Precision::F32);
            let parts = [LevelPart::Matrix, LevelPart::Transfer, LevelPart::Smoother];
            assert!(parts.iter().all(|part| plan.of(*part, 0) == expected && plan.of(*part, 1) == expected));
        }
    }

    proptest! {
        /// More error, more of a row lost or less energy never leads to fewer bits.
        #[test]
        fn more_range_never_picks_fewer_bits(
            exponents in prop::array::uniform4(-20.0_f64..0.0), more in prop::array::uniform4(0.0_f64..6.0), share in 0.0_f64..1.0
        ) {
            let [f16, bf16, vanished, energy] = exponents.map(|e| 10_f64.powf(e));
            let [more_f16, more_bf16, more_vanished, less_energy] = more.map(|e| 10_f64.powf(e));
            let before = choose(&part(share, f16, bf16, vanished), energy).0;
            let harder = part(share, f16 * more_f16, bf16 * more_bf16, vanished * more_vanished);
            let after = choose(&harder, energy / less_energy).0;
            prop_assert!(after.bytes() >= before.bytes(), "{before:?} {after:?}");
            prop_assert!(vectors(energy / less_energy).bytes() >= vectors(energy).bytes());
        }

        /// Promotion ends, and never makes anything narrower.
        #[test]
        fn promotion_only_widens(names in prop::collection::vec(prop::sample::select(vec!["auto", "f16", "f32", "f64"]), 4)) {
            let mut config = Config::new();
            for (part, name) in LevelPart::ALL.iter().zip(&names) {
                config.set_str(part.key(), name).unwrap();
            }
            let asked = Plan::asked(&config, Precision::F64, 3);
            let is_narrow = names[LevelPart::ALL.iter().position(|part| *part == LevelPart::Vector).unwrap_or(0)] == "f16";
            let is_paired = !is_narrow || names.iter().all(|name| ["auto", "f16"].contains(name));
            prop_assert_eq!(asked.is_ok(), is_paired);
            let Ok(mut plan) = asked else { return Ok(()) };
            let measured = Measured { energy: 1e-2, matrix: super::tests::part(1.0, 0.0, 0.0, 0.0), transfer: None };
            plan.decide(0, &measured, smoother_info("jacobi"));
            let bytes = |plan: &Plan| LevelPart::ALL.map(|part| plan.of(part, 0).bytes());
            for step in 0.. {
                let before = plan.clone();
                if !plan.promote(None, "test") {
                    break;
                }
                prop_assert!(step < 3 && bytes(&plan).iter().zip(bytes(&before)).all(|(after, before)| *after >= before));
            }
            for (part, name) in LevelPart::ALL.into_iter().zip(&names) {
                let expected = match *name {
                    "auto" if is_narrow => "f16",
                    "auto" => "f64",
                    name => name,
                };
                prop_assert_eq!(plan.of(part, 0).name(), expected);
            }
        }
    }
}

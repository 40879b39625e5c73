//! Number formats of the parts of each level: named by the options, or chosen from the values of the level.
//!
//! The choice rests on one measure. A smoothing step with the rounded matrix A + E adds the error D^-1 E w to a smooth vector w. Its
//! energy relative to that of w is |D^-1/2 E w| / |w|_A. Iterations stay the same while this is small for the smoothest vectors. These
//! come from a reference cycle: two cycles in full precision, of which every level keeps its vector.

use crate::backend::setup::Loss;
use crate::config::{Config, LevelPart, Wanted};
use crate::scalar::Precision;

/// Error energy over energy that a part of a level may cost.
const LIMIT: f64 = 0.02;

/// A hierarchy whose cycle M makes A's smooth vectors smaller than this is slow: a Krylov method takes a hundred iterations and more with it, in
/// which it loses orthogonality.
const SLOW: f64 = 0.2;

/// What vectors may cost in a slow hierarchy. f32 costs 1e-6 on the L-shape of high order with plain pairs and 3e-6 on bcsstk13, and there 7 and
/// 12 % of the iterations.
const SLOW_LIMIT: f64 = 1e-6;

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
    /// The formats that the options name; open ones are those of the matrix.
    pub fn asked(config: &Config, input: Precision, levels: usize) -> Plan {
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
        Plan { levels: (0..levels).map(&mut level).collect(), input, undecided }
    }

    /// The same for an approximate inverse without levels, which has data and vectors, and neither a matrix nor transfers.
    /// What is open is as in the matrix.
    pub fn without_levels(config: &Config, input: Precision) -> Plan {
        let mut plan = Plan::asked(config, input, 1);
        for part in [LevelPart::Matrix, LevelPart::Transfer] {
            plan.levels[0].precision[part as usize] = input;
            plan.levels[0].open[part as usize] = false;
        }
        plan.undecided = false;
        plan
    }

    /// Everything in one format.
    pub fn uniform(precision: Precision, levels: usize) -> Plan {
        let level = LevelPlan { precision: [precision; 4], open: [false; 4], reason: String::new() };
        Plan { levels: vec![level; levels], input: precision, undecided: false }
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

    /// Chooses the open parts of a level of a hierarchy whose cycle M has `quality` for a small eigenvalue of M A.
    pub fn decide(&mut self, i: usize, measured: &Measured, quality: f64, smoother_keeps_matrix: bool) {
        let input = self.input;
        let finer = i.checked_sub(1).map(|above| self.of(LevelPart::Vector, above));
        let level = &mut self.levels[i];
        let (mut vector, vector_loss) = vectors(measured.energy, quality);
        // If the cycle converges slowly, rounding on coarse levels affects the fine level as well.
        if quality < SLOW && finer == Some(Precision::F64) {
            vector = Precision::F64;
        }
        let (matrix, matrix_reason) = choose(&measured.matrix, measured.energy);
        let vector = narrower(vector, input);
        let within = |p: Precision| if p.is_scalar() { narrower(p, input) } else { p };
        level.choose(LevelPart::Vector, vector);
        level.choose(LevelPart::Matrix, within(matrix));
        level.choose(LevelPart::Smoother, if smoother_keeps_matrix { within(matrix) } else { vector });
        level.reason = format!("matrix {}: {matrix_reason}", within(matrix).name());
        if let Some(transfer) = &measured.transfer {
            let (precision, reason) = choose(transfer, measured.energy);
            level.choose(LevelPart::Transfer, within(precision));
            level.reason += &format!("; transfers {}: {reason}", within(precision).name());
        } else {
            level.choose(LevelPart::Transfer, within(matrix));
        }
        let (name, loss) = (vector.name(), percent(vector_loss));
        level.reason +=
            &format!("; vectors {name}: f32 costs {loss}, a cycle does {:.0} % for smooth vectors", 100.0 * quality);
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

/// Results of one pass over the values of a level.
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
        let part = |part: &Part| Part { share: part.share, f16: loss(&part.f16), bf16: loss(&part.bf16) };
        Measured { energy: form(self.energy), matrix: part(&self.matrix), transfer: self.transfer.as_ref().map(part) }
    }
}

/// What rounding a matrix or a transfer to 16 bits does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// Share of the entries of all levels.
    pub share: f64,
    pub f16: Loss,
    pub bf16: Loss,
}

impl Part {
    /// Whether 16 bits can gain anything for a part with this share of all entries.
    pub fn is_worth(share: f64) -> bool {
        share >= SMALL
    }
}

/// Whether a part of a level of this energy can be rounded so.
pub(crate) fn is_affordable(loss: &Loss, energy: f64) -> bool {
    relative(loss.error, energy) <= LIMIT && loss.vanished <= VANISHED
}

/// The narrowest format for a part of a level, and why.
fn choose(part: &Part, energy: f64) -> (Precision, String) {
    let cost = |error: f64| relative(error, energy);
    let single = f64::from(f32::EPSILON) * f64::from(f32::EPSILON) / 4.0;
    if cost(single) > LIMIT {
        return (Precision::F64, format!("f32 would cost {}", percent(cost(single))));
    }
    if !Part::is_worth(part.share) {
        return (Precision::F32, format!("{} of all entries", percent(part.share)));
    }
    for (precision, loss) in [(Precision::F16, &part.f16), (Precision::BF16, &part.bf16)] {
        if is_affordable(loss, energy) {
            return (precision, format!("costs {}", percent(cost(loss.error))));
        }
    }
    let why = |loss: &Loss| {
        if loss.vanished > VANISHED {
            format!("{} of a row would vanish in", percent(loss.vanished))
        } else if loss.error.is_finite() {
            format!("{} would be the cost of", percent(cost(loss.error)))
        } else {
            "entries are out of range of".to_string()
        }
    };
    (Precision::F32, format!("{} f16, {} bf16", why(&part.f16), why(&part.bf16)))
}

/// The format of the vectors of a level, and what f32 costs.
fn vectors(energy: f64, quality: f64) -> (Precision, f64) {
    let unit = f64::from(f32::EPSILON) / 2.0;
    let cost = relative(unit * unit, energy);
    let limit = if quality < SLOW { SLOW_LIMIT } else { LIMIT };
    (if cost <= limit { Precision::F32 } else { Precision::F64 }, cost)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part(share: f64, f16: f64, bf16: f64, vanished: f64) -> Part {
        Part { share, f16: Loss { error: f16, vanished }, bf16: Loss { error: bf16, vanished: 0.0 } }
    }

    #[test]
    fn the_narrowest_format_that_costs_little_is_chosen() {
        let of = |part: &Part, energy: f64| choose(part, energy).0;
        assert_eq!(of(&part(1.0, 1e-8, 1e-6, 0.0), 1e-2), Precision::F16);
        assert_eq!(of(&part(1.0, 1e-8, 1e-6, 0.5), 1e-2), Precision::BF16);
        assert_eq!(of(&part(1.0, 1e-8, 1e-6, 0.0), 1e-7), Precision::F32);
        assert_eq!(of(&part(0.001, 0.0, 0.0, 0.0), 1e-2), Precision::F32);
        assert_eq!(of(&part(1.0, 0.0, 0.0, 0.0), 1e-14), Precision::F64);
        assert_eq!([1e-4, 1e-14].map(|energy| vectors(energy, 0.9).0), [Precision::F32, Precision::F64]);
        assert_eq!(vectors(1e-4, 0.01).0, Precision::F64);
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
            prop_assert!(vectors(energy / less_energy, 0.5).0.bytes() >= vectors(energy, 0.5).0.bytes());
        }

        /// Promotion ends, and never makes anything narrower.
        #[test]
        fn promotion_only_widens(names in prop::collection::vec(prop::sample::select(vec!["auto", "f16", "f32", "f64"]), 4)) {
            let mut config = Config::new();
            for (part, name) in LevelPart::ALL.iter().zip(&names) {
                config.set_str(part.key(), name).unwrap();
            }
            let mut plan = Plan::asked(&config, Precision::F64, 3);
            let measured = Measured { energy: 1e-2, matrix: super::tests::part(1.0, 0.0, 0.0, 0.0), transfer: None };
            plan.decide(0, &measured, 0.9, false);
            let bytes = |plan: &Plan| LevelPart::ALL.map(|part| plan.of(part, 0).bytes());
            for step in 0.. {
                let before = plan.clone();
                if !plan.promote(None, "test") {
                    break;
                }
                prop_assert!(step < 3 && bytes(&plan).iter().zip(bytes(&before)).all(|(after, before)| *after >= before));
            }
            for (part, name) in LevelPart::ALL.into_iter().zip(&names) {
                let expected = if *name == "auto" { "f64" } else { name };
                prop_assert_eq!(plan.of(part, 0).name(), expected);
            }
        }
    }
}

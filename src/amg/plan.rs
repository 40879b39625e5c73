//! Which number format each part of each level has: as the options ask, or chosen from what a level's numbers are.
//!
//! The choice rests on one measure. A smoothing step in rounded numbers adds to a smooth vector w the error D^-1 E w, where E is what rounding
//! adds to the matrix. Its energy in relation to that of w is |D^-1/2 E w| / |w|_A, and iterations stay the same while that is small for
//! the smoothest vectors there are. Those are found by a rehearsal: two cycles in full precision, of which every level keeps its part.

use crate::config::{Config, LevelPart, Wanted};
use crate::error::{Result, try_vec};
use crate::host::spmv;
use crate::par;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::CsrView;

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

/// Levels with a smaller share of all entries have nothing to gain from 16 bits.
const SMALL: f64 = 1.0 / 64.0;

/// A hierarchy with fewer entries stays in the caches whatever its format is.
pub(super) const TINY: usize = 1 << 12;

const PARTS: [LevelPart; 4] = [LevelPart::Matrix, LevelPart::Vector, LevelPart::Transfer, LevelPart::Smoother];

/// The formats of one level.
#[derive(Clone, Debug)]
pub(super) struct LevelPlan {
    precision: [Precision; 4],
    /// Which of them the options left open.
    open: [bool; 4],
    /// Why, for the report; empty where nothing was left open.
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

    /// Makes what the options left open wider by one step; false when it is as wide as `widest` already.
    fn widen(&mut self, widest: Precision) -> bool {
        let mut changed = false;
        for part in PARTS {
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
pub(super) struct Plan {
    pub levels: Vec<LevelPlan>,
    /// The format of the matrix, wider than which nothing is chosen.
    input: Precision,
}

impl Plan {
    /// What the options ask for; what they leave open is as in the matrix.
    pub fn asked(config: &Config, input: Precision, levels: usize) -> Plan {
        let level = |i: usize| {
            let wanted = PARTS.map(|part| config.level_precision(part, i, input));
            let mut plan = LevelPlan { precision: [input; 4], open: [false; 4], reason: String::new() };
            for (part, wanted) in PARTS.into_iter().zip(wanted) {
                match wanted {
                    Wanted::Fixed(precision) => plan.precision[part as usize] = precision,
                    Wanted::Auto => plan.open[part as usize] = true,
                }
            }
            plan
        };
        Plan { levels: (0..levels).map(level).collect(), input }
    }

    /// Everything in one format.
    pub fn uniform(precision: Precision, levels: usize) -> Plan {
        let level = LevelPlan { precision: [precision; 4], open: [false; 4], reason: String::new() };
        Plan { levels: vec![level; levels], input: precision }
    }

    /// Whether the options left something open.
    pub fn is_open(&self) -> bool {
        self.levels.iter().any(|level| level.open.contains(&true))
    }

    /// Whether anything is narrower than the matrix.
    pub fn is_narrow(&self) -> bool {
        self.levels.iter().any(|level| level.precision.iter().any(|p| p.bytes() < self.input.bytes()))
    }

    /// The first of the narrowest levels with its formats, when they are narrower than the matrix.
    pub fn narrowest(&self) -> Option<String> {
        let bytes = |level: &LevelPlan| level.precision.iter().map(|p| p.bytes()).sum::<usize>();
        let (i, level) = self.levels.iter().enumerate().min_by_key(|(_, level)| bytes(level))?;
        let names: Vec<String> = PARTS
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
        from_above || PARTS.iter().any(|part| level.is_narrow(*part) && !(last && *part == LevelPart::Transfer))
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
        // In a slow hierarchy what a coarse level rounds comes up to the fine one, which cannot afford it.
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

    /// Makes the open parts of a level, or with `None` of all levels, wider by one step, and adds the reason where that changed something;
    /// false when nothing did.
    pub fn promote(&mut self, level: Option<usize>, reason: &str) -> bool {
        let input = self.input;
        let mut changed = false;
        for (i, plan) in self.levels.iter_mut().enumerate() {
            if level.is_none_or(|level| level == i) && plan.widen(input) {
                plan.reason = format!("{}; promoted: {reason}", plan.reason);
                changed = true;
            }
        }
        changed
    }
}

/// What one pass over the values of a level tells.
pub(super) struct Measured {
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
pub(super) struct Part {
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

    /// Measures f16, and bf16 only where f16 will not do.
    pub fn measure(share: f64, loss: impl Fn(Precision) -> Loss, energy: f64) -> Part {
        let mut part = Part { share, f16: Loss::OUT_OF_RANGE, bf16: Loss::OUT_OF_RANGE };
        if Part::is_worth(share) {
            part.f16 = loss(Precision::F16);
            if !part.f16.is_affordable(energy) {
                part.bf16 = loss(Precision::BF16);
            }
        }
        part
    }
}

impl Loss {
    /// A format that cannot hold the part.
    pub const OUT_OF_RANGE: Loss = Loss { error: f64::INFINITY, vanished: 0.0 };

    fn is_affordable(&self, energy: f64) -> bool {
        relative(self.error, energy) <= LIMIT && self.vanished <= VANISHED
    }
}

/// What rounding to one format does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loss {
    /// |E w|_(D^-1)^2 / |w|_D^2, infinite when an entry is out of range.
    pub error: f64,
    /// Largest share of a row's absolute sum that vanishes.
    pub vanished: f64,
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
        if loss.is_affordable(energy) {
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

/// Energy of w over |w|_D^2 for the diagonal D of a matrix.
pub(super) fn energy<T: Scalar>(a: &CsrView<'_, T>, diagonal: &[f64], w: &[f64]) -> Result<f64> {
    let mut product = try_vec(w.len(), 0.0)?;
    spmv::apply(a, 1.0, w, 0.0, &mut product);
    let energy = par::sum(w.len(), par::GRAIN, |range| range.map(|i| w[i] * product[i]).sum());
    Ok(energy.abs() / weight(diagonal, w))
}

/// |w|_D^2.
fn weight(diagonal: &[f64], w: &[f64]) -> f64 {
    par::sum(w.len(), par::GRAIN, |range| range.map(|i| diagonal[i] * w[i] * w[i]).sum())
}

/// What rounding S^-1 A S^-1 to `S` does to A w; `diagonal` is that of A.
pub(super) fn matrix_loss<T: Scalar, S: Number>(a: &CsrView<'_, T>, s: &[f64], diagonal: &[f64], w: &[f64]) -> Loss {
    let inverse = each(s, |s, _| 1.0 / s);
    let of_row = |i: usize, error: f64| if error == 0.0 { 0.0 } else { error * error * s[i] * s[i] / diagonal[i] };
    loss::<T, S>(a, (&inverse, &inverse), &each(s, |s, j| s * w[j]), of_row, weight(diagonal, w))
}

/// What rounding S P S_c^-1 to `S` does to P w, for a vector w of the coarse level; `diagonal` and `fine` are those of the fine one.
pub(super) fn transfer_loss<T: Scalar, S: Number>(
    p: &CsrView<'_, T>,
    (s, s_coarse): (&[f64], &[f64]),
    (diagonal, fine): (&[f64], &[f64]),
    w: &[f64],
) -> Loss {
    let right = each(s_coarse, |s, _| 1.0 / s);
    let of_row = |i: usize, error: f64| error * error / (s[i] * s[i]) * diagonal[i];
    loss::<T, S>(p, (s, &right), &each(s_coarse, |s, j| s * w[j]), of_row, weight(diagonal, fine))
}

fn each(s: &[f64], value: impl Fn(f64, usize) -> f64) -> Vec<f64> {
    s.iter().enumerate().map(|(i, s)| value(*s, i)).collect()
}

/// Sums `of_row` of the errors that rounding left_i a_ij right_j to `S` makes in the product with x.
fn loss<T: Scalar, S: Number>(
    a: &CsrView<'_, T>,
    (left, right): (&[f64], &[f64]),
    x: &[f64],
    of_row: impl Fn(usize, f64) -> f64 + Sync,
    norm: f64,
) -> Loss {
    let (br, bc) = (a.block.rows, a.block.cols);
    let pieces = par::map_ranges(a.rows, par::ROW_GRAIN, |range| {
        let mut all = Loss::default();
        for i in range {
            for r in 0..br {
                let left = left[i * br + r];
                let (mut error, mut sum, mut vanished) = (0.0, 0.0, 0.0);
                for (j, block) in a.row(i) {
                    for (c, v) in block[r * bc..][..bc].iter().enumerate() {
                        let exact = v.to_f64() * left * right[j * bc + c];
                        let rounded = S::from_f64(exact).to_f64();
                        error += (rounded - exact) * x[j * bc + c];
                        sum += exact.abs();
                        vanished += if rounded == 0.0 { exact.abs() } else { 0.0 };
                    }
                }
                all.error += if error.is_finite() { of_row(i * br + r, error) } else { f64::INFINITY };
                all.vanished = all.vanished.max(if sum > 0.0 { vanished / sum } else { 0.0 });
            }
        }
        all
    });
    let error: f64 = pieces.iter().map(|piece| piece.error).sum();
    Loss { error: error / norm, vanished: pieces.iter().fold(0.0, |m, piece| m.max(piece.vanished)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::host::diagonal;
    use half::{bf16, f16};
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

    #[test]
    fn exact_entries_cost_nothing_and_others_what_their_rounding_does() {
        let a = gallery::poisson5(20, 20).unwrap();
        let d = diagonal::entries(&a.view()).unwrap();
        let (ones, w) = (vec![1.0; 400], vec![1.0; 400]);
        let loss = matrix_loss::<f64, f16>(&a.view(), &ones, &d, &w);
        assert_eq!((loss.error, loss.vanished), (0.0, 0.0));
        // Constants cost a quarter of what a row at the boundary lacks: 80 rows of 400, corners twice.
        assert!((energy(&a.view(), &d, &w).unwrap() - 80.0 / 1600.0).abs() < 1e-14);

        let mut third = a.clone();
        third.values.iter_mut().for_each(|v| *v /= 3.0);
        let third_d: Vec<f64> = d.iter().map(|d| d / 3.0).collect();
        let f = matrix_loss::<f64, f16>(&third.view(), &ones, &third_d, &w).error.sqrt();
        let b = matrix_loss::<f64, bf16>(&third.view(), &ones, &third_d, &w).error.sqrt();
        assert!(f > 0.0 && f < 1.0 / 2048.0 && (b / f) > 2.0 && b < 1.0 / 256.0, "{f} {b}");
        let huge = matrix_loss::<f64, f16>(&third.view(), &vec![1e-4; 400], &third_d, &w);
        assert_eq!(huge.error, f64::INFINITY);
        let small = matrix_loss::<f64, f16>(&third.view(), &vec![1e5; 400], &third_d, &w);
        assert_eq!(small.vanished, 1.0);
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
            for (part, name) in PARTS.iter().zip(&names) {
                config.set_str(part.key(), name).unwrap();
            }
            let mut plan = Plan::asked(&config, Precision::F64, 3);
            let measured = Measured { energy: 1e-2, matrix: super::tests::part(1.0, 0.0, 0.0, 0.0), transfer: None };
            plan.decide(0, &measured, 0.9, false);
            let bytes = |plan: &Plan| PARTS.map(|part| plan.of(part, 0).bytes());
            for step in 0.. {
                let before = plan.clone();
                if !plan.promote(None, "test") {
                    break;
                }
                prop_assert!(step < 3 && bytes(&plan).iter().zip(bytes(&before)).all(|(after, before)| *after >= before));
            }
            for (part, name) in PARTS.into_iter().zip(&names) {
                let expected = if *name == "auto" { "f64" } else { name };
                prop_assert_eq!(plan.of(part, 0).name(), expected);
            }
        }
    }
}

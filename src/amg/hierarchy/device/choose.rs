//! The choice of number formats for levels that a GPU computed: they are rehearsed and measured there, and only numbers come to the host.

use super::{Computing, There};
use crate::amg::finest::Finest;
use crate::amg::hierarchy::decide::Candidates;
use crate::amg::hierarchy::place::Placing;
use crate::amg::plan::{Loss, Measured, Part, Plan};
use crate::error::{Result, Status};
use crate::gpu::setup::rounding_loss::{self, Candidate};
use crate::gpu::setup::scaling::{self, Factors};
use crate::gpu::setup::{DeviceCsr, diagonal};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::host::Host;
use crate::report::Phases;
use crate::scalar::{Precision, Scalar};
use crate::smooth;

/// All levels, computed.
pub(in crate::amg::hierarchy) struct OnDevice<'a, 'b, T> {
    pub host: &'a Host,
    pub computing: &'a mut Computing<'b, T>,
}

impl<T: Scalar> OnDevice<'_, '_, T> {
    fn levels(&self) -> &[There<T>] {
        &self.computing.levels
    }

    /// Finds the factors of all levels; for each, whether there are some or it stays unscaled.
    fn find_factors(&mut self) -> Result<Vec<bool>> {
        let (builder, gpu) = (self.computing.builder, self.computing.gpu);
        let scaling = builder.config.text("precision.scaling");
        if scaling == "none" {
            return Ok(vec![true; self.levels().len()]);
        }
        let matrices: Vec<_> = self.levels().iter().map(There::a).collect();
        let l1 = smooth::name(builder.config, builder.near_null_space.is_some()) == "l1_jacobi";
        let found = scaling::factors(gpu, &matrices, &scaling, l1)?;
        let mut hold = Vec::new();
        for (i, (level, found)) in self.computing.levels.iter_mut().zip(found).enumerate() {
            level.found = match found {
                // Vectors of the caller's must come into the scaled variables.
                Ok(found) => Some(found).filter(|found| i > 0 || found.factors.have_entrance()),
                Err(error) if error.status == Status::PrecisionLost => None,
                Err(error) => return Err(error),
            };
            hold.push(level.found.is_some());
        }
        Ok(hold)
    }
}

impl<T: Scalar> Candidates<Gpu> for OnDevice<'_, '_, T> {
    fn sizes(&self) -> Vec<(usize, Option<usize>)> {
        let of = |level: &There<T>| (level.entries, level.transfer.as_ref().map(|(p, _)| p.entries()));
        self.levels().iter().map(of).collect()
    }

    fn rows(&self) -> usize {
        self.levels()[0].rows
    }

    fn precision(&self) -> Precision {
        T::PRECISION
    }

    fn store(&mut self, plan: &Plan, phases: &mut Phases) -> Result<Box<dyn Finest<Gpu>>> {
        let Computing { builder, gpu, levels, .. } = &mut *self.computing;
        for (i, level) in levels.iter_mut().enumerate() {
            level.suit_formats(plan, i);
        }
        phases.time("place", || builder.choose_formats(gpu, levels, plan))?;
        let top = Placing::new(builder, *gpu, self.host, plan).keeping().finest(&mut levels[..], phases);
        // What was asked before something else failed comes first, as on the host.
        self.computing.check_placed()?;
        top
    }

    fn start(&self) -> Result<(Buffer<f64>, Buffer<f64>)> {
        let gpu = self.computing.gpu;
        gpu.begin_step(None, "plan");
        rounding_loss::start(gpu, self.levels()[0].a())
    }

    fn energy(&self, x: &Slice<f64>) -> Result<f64> {
        let Computing { builder, gpu, .. } = &*self.computing;
        gpu.begin_step(None, "plan");
        // Set-up in f32 has rounded a matrix of f64.
        if T::PRECISION == Precision::F32 && builder.matrix.precision() == Precision::F64 {
            return rounding_loss::energy(gpu, &builder.matrix.device::<f64>(gpu)?, x);
        }
        rounding_loss::energy(gpu, self.levels()[0].a(), x)
    }

    fn measure(&mut self, smooth: &[&Slice<f64>], shares: &[(f64, Option<f64>)]) -> Result<Vec<Measured>> {
        let gpu = self.computing.gpu;
        gpu.begin_step(None, "plan");
        let hold = self.find_factors()?;
        let levels = self.levels();
        let diagonals = levels.iter().map(|level| diagonal::entries(gpu, level.a())).collect::<Result<Vec<_>>>()?;
        let factors = |i: usize| levels[i].found.as_ref().map(|found| &found.factors);
        // The matrix of each level, and behind it its transfer where that is measured.
        let mut all = Vec::new();
        for (i, level) in levels.iter().enumerate() {
            let (share, transfer) = shares[i];
            let diagonal = Some(&*diagonals[i]);
            let losses: Option<(Option<&Factors>, Option<&Factors>)> =
                (hold[i] && Part::is_worth(share)).then(|| (factors(i), factors(i)));
            let matrix: &DeviceCsr<T> = level.a();
            all.push(Candidate { matrix, is_transfer: false, diagonal, smooth: (smooth[i], smooth[i]), losses });
            let Some((p, _)) = &level.transfer else { continue };
            if hold[i] && hold[i + 1] && transfer.is_some_and(Part::is_worth) {
                let losses = Some((factors(i), factors(i + 1)));
                all.push(Candidate {
                    matrix: p,
                    is_transfer: true,
                    diagonal,
                    smooth: (smooth[i], smooth[i + 1]),
                    losses,
                });
            }
        }
        let mut found = all.iter().zip(rounding_loss::measure(gpu, &all)?).peekable();
        let part = |share: f64, found: Option<(&Candidate<'_, T>, rounding_loss::Measured)>| {
            let (mut f16, mut bf16) = (Loss::OUT_OF_RANGE, Loss::OUT_OF_RANGE);
            if let Some((Candidate { losses: Some(_), .. }, found)) = found {
                let loss = |(error, vanished): (f64, f64)| Loss { error: error / found.weight, vanished };
                (f16, bf16) = (loss(found.f16), loss(found.bf16));
            }
            Part { share, f16, bf16 }
        };
        let mut measured = Vec::new();
        for (share, transfer) in shares {
            let matrix = found.next().expect("one for each level");
            let energy = matrix.1.energy.abs() / matrix.1.weight;
            let of_transfer = found.next_if(|(candidate, _)| candidate.is_transfer);
            measured.push(Measured {
                energy,
                matrix: part(*share, Some(matrix)),
                transfer: transfer.map(|share| part(share, of_transfer)),
            });
        }
        Ok(measured)
    }

    fn scale(&mut self, plan: &Plan) -> Result<()> {
        let Computing { builder, gpu, levels, .. } = &mut *self.computing;
        builder.scale_there(gpu, levels, plan)
    }
}

#[cfg(test)]
mod tests;

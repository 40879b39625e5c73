//! What smoothers are made from when set-up runs on the host, wherever their data are placed.

use super::{Setup, diagonal_width, l1_gauss_seidel};
use crate::amg::scaling::{self, Rounding};
use crate::backend::Colours;
use crate::backend::{Place, Smoother};
use crate::config::Config;
use crate::error::{Result, try_vec};
use crate::host::eigenvalue::{Estimate, Known, Largest};
use crate::host::{Host, diagonal};
use crate::par;
use crate::precision::{MATTERS, does_not_fit};
use crate::scalar::{Number, Scalar};
use crate::sparse::{Coloured, Colouring, SharedCsr};
use std::borrow::Cow;
use std::sync::OnceLock;

/// The matrix of a level on the host.
pub struct HostSetup<'a, B, T> {
    /// Where data of smoothers are placed.
    pub backend: &'a B,
    /// Where the work runs.
    pub host: &'a Host,
    /// Options.
    pub config: &'a Config,
    /// The matrix of the level.
    pub matrix: &'a SharedCsr<T>,
    /// The factors by which the variables of the level were multiplied, if they were.
    pub scale: Option<&'a [f64]>,
    /// What interpolation found out about the matrix.
    pub known: &'a Known<T>,
    /// Takes the largest eigenvalue, where the smoother estimates it.
    pub estimated: &'a OnceLock<Largest>,
}

impl<B, T: Scalar> HostSetup<'_, B, T> {
    pub(super) fn width(&self) -> usize {
        diagonal_width(self.config, self.matrix.structure.block.rows)
    }

    /// Whether sweeps invert the diagonal blocks, as interpolation does.
    fn whole_blocks(&self) -> bool {
        self.width() == self.matrix.structure.block.rows
    }
}

impl<'a, B: Place, T: Scalar> Setup<B> for HostSetup<'a, B, T> {
    type Inverse = Cow<'a, [T]>;

    fn config(&self) -> &Config {
        self.config
    }

    fn inverse(&self) -> Result<Cow<'a, [T]>> {
        match self.known {
            Known::Now { inverse: Some(inverse), .. } if self.whole_blocks() => Ok(Cow::Borrowed(inverse)),
            _ => Ok(Cow::Owned(diagonal::inverse(&self.matrix.view(), self.width(), diagonal::AS_IT_IS)?)),
        }
    }

    fn l1_inverse(&self) -> Result<Cow<'a, [T]>> {
        Ok(Cow::Owned(diagonal::l1_inverse(&self.matrix.view(), self.width(), self.scale)?))
    }

    fn largest_eigenvalue(&self, inverse: &Cow<'a, [T]>) -> Result<f64> {
        let earlier = match self.known {
            Known::Now { largest, .. } if self.whole_blocks() => return Ok(largest.max(f64::MIN_POSITIVE)),
            Known::Earlier(largest) => Some(largest),
            _ => None,
        };
        // Levels are stored more than once when their formats are chosen, and scaling leaves the eigenvalue as it is.
        if let Some(largest) = self.estimated.get() {
            return Ok(largest.value.max(f64::MIN_POSITIVE));
        }
        let estimate = Estimate::from_config(self.config);
        let largest = estimate.largest(self.host, &self.matrix.view(), inverse, earlier)?;
        let largest = self.estimated.get_or_init(|| largest).value;
        Ok(largest.max(f64::MIN_POSITIVE))
    }

    fn stored<S: Number>(&self, inverse: &Cow<'a, [T]>, factor: f64) -> Result<(B::Buffer<S>, usize)> {
        let stored = stored::<T, S>(inverse, factor)?;
        let len = stored.len();
        Ok((self.backend.array(stored)?, len))
    }

    fn colours<S: Number, V: Number>(&self) -> Result<Box<dyn Colours<B, V>>> {
        let a = self.matrix.view();
        let inverse: Vec<T> = diagonal::inverse(&a, self.width(), diagonal::AS_IT_IS)?;
        self.backend.colours(Coloured {
            inverse: stored::<T, S>(&inverse, 1.0)?,
            colouring: Colouring::new(&a)?,
            matrix: scaling::store::<T, S>(self.matrix, "smoother's matrix", Rounding::Nearest)?,
            shared: S::PRECISION == T::PRECISION,
        })
    }

    fn l1_gauss_seidel<S: Number, V: Number>(&self) -> Result<Box<dyn Smoother<B, V>>> {
        self.backend.host_smoother("l1_gauss_seidel", l1_gauss_seidel::build::<B, T, S, V>(self)?)
    }
}

/// Data of a smoother times `factor` in their storage format, refused when that cannot hold them.
pub(crate) fn stored<T: Scalar, S: Number>(exact: &[T], factor: f64) -> Result<Vec<S>> {
    let mut data = try_vec(exact.len(), S::ZERO)?;
    par::for_each_mut(&mut data, par::GRAIN, |start, data| {
        for (to, from) in data.iter_mut().zip(&exact[start..]) {
            *to = S::from_f64(factor * from.to_f64());
        }
    });
    if S::PRECISION.is_scalar() {
        return Ok(data);
    }
    // Beside the largest, small numbers may vanish: blocks have many that are rounding.
    let matters = exact.iter().fold(0.0, |m: f64, v| m.max(v.to_f64().abs())) * MATTERS;
    let lost = |(from, to): (&T, &S)| {
        !to.to_f64().is_finite() || (*to == S::ZERO && from.to_f64() != 0.0 && from.to_f64().abs() >= matters)
    };
    if exact.iter().zip(&data).any(lost) {
        return does_not_fit::<S, _>();
    }
    Ok(data)
}

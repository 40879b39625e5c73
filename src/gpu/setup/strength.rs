//! Strength of connection on a GPU. The work is in `kernels/strength.cu`: a first pass over the matrix marks the strong entries with a byte
//! each and counts those of a row, a second one over the columns alone collects them.

use super::divided::Ghosts;
use super::lanes::lanes;
use super::{DeviceCsr, DeviceGraph};
use crate::backend::common::{LARGEST_RATIO, RATIO_UNITS, SHARES, Sampled, mean, sample};
use crate::backend::components::{Strength, StrengthInput};
use crate::backend::parameters::Threshold;
use crate::comm::{Distribution, DividedLevel, Reduction};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// As [`crate::host::strength::classical`].
pub(crate) fn classical<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, theta: f64, max_row_sum: f64) -> Result<DeviceGraph> {
    assert_eq!(a.block, Block::SCALAR);
    graph(gpu, a, |strong, counts| launch(gpu, "classical", a, a.rows, &[&theta, &max_row_sum], &[strong, counts]))
}

/// As [`crate::host::strength::is_uniform`]. Synchronises.
pub(crate) fn is_uniform<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, theta: f64, longest: usize) -> Result<bool> {
    assert_eq!(a.block, Block::SCALAR);
    let flag = gpu.zeroed::<i32>(1)?;
    launch(gpu, "uniform", a, a.rows, &[&theta, &(longest as i64)], &[flag.view()])?;
    Ok(gpu.fetch(&flag)?[0] == 0)
}

/// As [`crate::host::strength::same_sign`]. Synchronises.
pub(crate) fn same_sign<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>) -> Result<(i64, i64)> {
    assert_eq!(a.block, Block::SCALAR);
    let (sums, (count, step)) = (gpu.zeroed::<i64>(2)?, sample(a.rows));
    let numbers: [&dyn Argument; 4] = [&(step as i64), &SHARES, &LARGEST_RATIO, &RATIO_UNITS];
    launch(gpu, "signs", a, count, &numbers, &[sums.view()])?;
    let sums = gpu.fetch(&sums)?;
    Ok((sums[0], sums[1]))
}

/// As [`crate::host::strength::absolute`].
pub(crate) fn absolute<T: Scalar>(gpu: &Gpu, a: &DeviceCsr<T>, theta: f64) -> Result<DeviceGraph> {
    let size = a.block.len() as i32;
    graph(gpu, a, |strong, counts| launch(gpu, "absolute", a, a.rows, &[&size, &theta], &[strong, counts]))
}

/// As [`crate::host::strength::Symmetric`].
pub(crate) struct Symmetric<'a, T> {
    gpu: &'a Gpu,
    a: &'a DeviceCsr<T>,
    /// Norm of each diagonal block.
    diagonal: Buffer<f64>,
    /// Where the rows are divided among ranks.
    over: Option<&'a Arc<Distribution>>,
    sampled: Sampled,
}

impl<'a, T: Scalar> Symmetric<'a, T> {
    /// The measure for a matrix.
    pub fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>) -> Result<Symmetric<'a, T>> {
        Symmetric::among(gpu, a, None)
    }

    /// The same of a level that may be divided among ranks. Collective.
    pub(super) fn among(
        gpu: &'a Gpu,
        a: &'a DeviceCsr<T>,
        level: Option<DividedLevel<'a>>,
    ) -> Result<Symmetric<'a, T>> {
        let mut diagonal = gpu.allocate(a.rows)?;
        launch(gpu, "diagonal", a, a.rows, &[&(a.block.len() as i32)], &[diagonal.view()])?;
        let sampled = match level {
            Some(DividedLevel { over, numbers }) => {
                Ghosts::new(gpu, over, numbers)?.bring(1, &mut diagonal)?;
                Sampled::of_ranks(numbers)
            }
            None => Sampled::of(a.rows),
        };
        Ok(Symmetric { gpu, a, diagonal, over: level.map(|level| level.over), sampled })
    }

    /// The couplings that are strong by the threshold `theta`.
    pub fn graph(&self, theta: f64) -> Result<DeviceGraph> {
        let Symmetric { gpu, a, diagonal, .. } = self;
        let size = a.block.len() as i32;
        graph(gpu, a, |strong, counts| {
            launch(gpu, "symmetric", a, a.rows, &[&size, &theta], &[diagonal.view(), strong, counts])
        })
    }

    /// As [`crate::host::strength::Symmetric::strong_share`].
    pub fn strong_share(&self, theta: f64) -> Result<f64> {
        let (strong, all) = self.sampled(theta.min(0.5 * self.scale()?))?;
        Ok(strong as f64 / all.max(1) as f64)
    }

    /// The couplings of an even sample of the rows: those that are strong by this threshold, and all. Synchronises.
    fn sampled(&self, theta: f64) -> Result<(i64, i64)> {
        let Symmetric { gpu, a, diagonal, sampled: Sampled { count, first, step, .. }, .. } = self;
        let (sums, size) = (gpu.zeroed::<i64>(2)?, a.block.len() as i32);
        let numbers: [&dyn Argument; 4] = [&(*first as i64), &(*step as i64), &size, &theta];
        launch(gpu, "sampled", a, *count, &numbers, &[diagonal.view(), sums.view()])?;
        let sums = gpu.fetch(&sums)?;
        Ok((sums[0], sums[1]))
    }
}

/// Both synchronise.
impl<T: Scalar> Symmetric<'_, T> {
    /// As [`crate::host::strength::Symmetric::scale`]. The rows that it is taken from are few enough to be added on the host, in its order.
    pub fn scale(&self) -> Result<f64> {
        let Symmetric { gpu, a, diagonal, over, sampled: Sampled { count, first, step, all } } = self;
        let strongest = gpu.allocate::<f64>(*count)?;
        let size = a.block.len() as i32;
        let views = [diagonal.view(), strongest.view()];
        launch(gpu, "strongest", a, *count, &[&(*first as i64), &(*step as i64), &size], &views)?;
        let mut strongest = gpu.fetch(&strongest)?;
        if let Some(over) = over {
            strongest = over.ranks.gather(&strongest)?.0;
        }
        Ok(mean(*all, |k| strongest[k]))
    }

    /// As [`crate::host::strength::Symmetric::mean_strong`].
    pub fn mean_strong(&self, theta: f64) -> Result<f64> {
        let own = self.sampled(theta)?.0;
        let strong = match self.over {
            Some(over) => over.ranks.reduce(own, Reduction::Sum)?,
            None => own,
        };
        Ok(strong as f64 / self.sampled.all.max(1) as f64)
    }
}

/// Runs a kernel with a group for each of `rows` rows: their number, `numbers`, the matrix, `arrays`.
pub(super) fn launch<T: Scalar>(
    gpu: &Gpu,
    name: &str,
    a: &DeviceCsr<T>,
    rows: usize,
    numbers: &[&dyn Argument],
    arrays: &[View],
) -> Result<()> {
    // Half as many lanes as a copy needs: each entry is more work.
    let lanes = (lanes(a.nnz(), a.rows) / 2).max(2);
    let kernel = gpu.kernel(&format!("strength_{name}_{}_{lanes}", T::PRECISION.name()))?;
    let (count, matrix) = (rows as i64, [a.offsets.view(), a.columns.view(), a.values.view()]);
    let mut arguments: Vec<&dyn Argument> = vec![&count];
    arguments.extend(numbers);
    arguments.extend(matrix.iter().chain(arrays).map(|view| view as &dyn Argument));
    gpu.launch(kernel, rows * lanes, &arguments)
}

/// The graph of the entries that `mark` marks and counts.
pub(super) fn graph<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    mark: impl FnOnce(View, View) -> Result<()>,
) -> Result<DeviceGraph> {
    let (strong, counts) = (gpu.allocate::<u8>(a.nnz())?, gpu.allocate::<i32>(a.rows)?);
    mark(strong.view(), counts.view())?;
    let (offsets, total) = gpu.offsets(&counts)?;
    drop(counts);
    let columns = gpu.allocate::<i32>(total)?;
    let lanes = lanes(a.nnz(), a.rows);
    let kernel = gpu.kernel(&format!("strength_columns_{lanes}"))?;
    let views = [a.offsets.view(), a.columns.view(), strong.view(), offsets.view(), columns.view()];
    let [from, matrix_columns, strong, starts, to] = &views;
    gpu.launch(kernel, a.rows * lanes, &[&(a.rows as i64), from, matrix_columns, strong, starts, to])?;
    Ok(DeviceGraph { rows: a.rows, offsets, columns })
}

/// The component [`classical`].
pub(crate) struct ClassicalStrength;

impl<T: Scalar> Strength<Gpu, T> for ClassicalStrength {
    fn graph(&self, input: &StrengthInput<'_, Gpu, T>) -> Result<DeviceGraph> {
        input.check_scalar("classical")?;
        let Some(a) = input.a.in_rows() else { return DeviceGraph::empty(input.setup) };
        classical(input.setup, a, input.share(), input.parameters.real("amg.strength.max_row_sum"))
    }
}

/// The component [`absolute`].
pub(crate) struct AbsoluteStrength;

impl<T: Scalar> Strength<Gpu, T> for AbsoluteStrength {
    fn graph(&self, input: &StrengthInput<'_, Gpu, T>) -> Result<DeviceGraph> {
        let Some(a) = input.a.in_rows() else { return DeviceGraph::empty(input.setup) };
        absolute(input.setup, a, input.share())
    }
}

/// The component [`Symmetric`].
pub(crate) struct SymmetricStrength;

impl<T: Scalar> Strength<Gpu, T> for SymmetricStrength {
    fn graph(&self, input: &StrengthInput<'_, Gpu, T>) -> Result<DeviceGraph> {
        let Some(a) = input.a.in_rows() else { return DeviceGraph::empty(input.setup) };
        let level = input.setup.divided(input.a).map(|(over, a)| a.level(over));
        let measure = Symmetric::among(input.setup, a, level)?;
        measure.graph(match Threshold::named(input.parameters)? {
            Some(threshold) => threshold.value(&|theta| measure.mean_strong(theta))?,
            None => Threshold::usual(a.block, input.level, measure.scale()?),
        })
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{download, irregular, narrow, problems};
    use super::*;
    use crate::gpu::tests::devices;
    use crate::host::strength as host;
    use crate::sparse::{Csr, Graph};

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let scalar = a.block == Block::SCALAR;
        let symmetric = host::Symmetric::new(&view).unwrap();
        let limits = if scalar { vec![(0.25, 1.0), (0.0, 1.0), (0.5, 0.6)] } else { Vec::new() };
        let wanted: Vec<Graph> = limits.iter().map(|(t, s)| host::classical(&view, *t, *s).unwrap()).collect();
        let thetas = [0.0, 0.08, 0.3];
        for gpu in devices() {
            let on_device = DeviceCsr::upload(&gpu, &view).unwrap();
            for ((theta, limit), wanted) in limits.iter().zip(&wanted) {
                let s = classical(&gpu, &on_device, *theta, *limit).unwrap();
                assert_eq!(download(&gpu, &s), *wanted, "{name}, classical {theta} {limit}");
            }
            for (theta, longest) in [(0.25, 64), (0.9, 1000), (0.25, 5)].into_iter().filter(|_| scalar) {
                let wanted = host::is_uniform(&view, theta, longest);
                assert_eq!(
                    is_uniform(&gpu, &on_device, theta, longest).unwrap(),
                    wanted,
                    "{name}, uniform {theta} {longest}"
                );
            }
            if scalar {
                assert_eq!(same_sign(&gpu, &on_device).unwrap(), host::same_sign(&view), "{name}, signs");
            }
            let measure = Symmetric::new(&gpu, &on_device).unwrap();
            assert_eq!(measure.scale().unwrap().to_bits(), symmetric.scale().unwrap().to_bits(), "{name}");
            assert_eq!(measure.strong_share(0.08).unwrap(), symmetric.strong_share(0.08).unwrap(), "{name}");
            for wanted in [Threshold::Connections(2), Threshold::Connections(5), Threshold::Connections(1000)] {
                let theta = wanted.value(&|theta| measure.mean_strong(theta)).unwrap();
                let expected = wanted.value(&|theta| symmetric.mean_strong(theta)).unwrap();
                assert_eq!(theta.to_bits(), expected.to_bits(), "{name}, {wanted:?}");
            }
            for theta in thetas {
                let s = absolute(&gpu, &on_device, theta).unwrap();
                assert_eq!(download(&gpu, &s), host::absolute(&view, theta).unwrap(), "{name}, absolute {theta}");
                let s = measure.graph(theta).unwrap();
                assert_eq!(download(&gpu, &s), symmetric.graph(theta).unwrap(), "{name}, symmetric {theta}");
            }
        }
    }

    #[test]
    fn graphs_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
            check(&narrow(&a), &format!("{name} in f32"));
        }
    }

    #[test]
    fn blocks_are_measured_by_their_norm() {
        for (name, a) in problems() {
            for size in [2, 3, 6] {
                if a.rows % size == 0 {
                    let blocks = a.view().to_blocks(size).unwrap();
                    check(&blocks, &format!("{name} in blocks of {size}"));
                }
            }
        }
    }
}

//! Strength of connection by affinity: [`crate::host::affinity`] on the device. The work is in `kernels/affinity.cu`.

use super::grid::GpuMatrix;
use super::strength::{graph, launch};
use super::{DeviceCsr, DeviceGraph, DeviceNearNullSpace};
use crate::backend::affinity::USUAL;
use crate::backend::common::sample;
use crate::backend::components::{Strength, StrengthInput};
use crate::backend::parameters::Threshold;
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;

/// As [`crate::host::affinity::Affinity`].
pub(crate) struct Affinity<'a, T> {
    gpu: &'a Gpu,
    a: &'a DeviceCsr<T>,
    space: &'a DeviceNearNullSpace,
    norms: Buffer<f64>,
    nearest: Buffer<f64>,
}

impl<'a, T: Scalar> Affinity<'a, T> {
    /// The measure for a matrix and the near-null space of its rows.
    pub fn new(gpu: &'a Gpu, a: &'a DeviceCsr<T>, space: &'a DeviceNearNullSpace) -> Result<Affinity<'a, T>> {
        let (norms, nearest) = (gpu.allocate::<f64>(a.rows)?, gpu.allocate::<f64>(a.rows)?);
        let (size, count, vectors) = (a.block.rows as i32, space.count as i32, space.vectors.view());
        let arguments: [&dyn Argument; 5] = [&(a.rows as i64), &size, &count, &vectors, &norms.view()];
        gpu.launch(gpu.kernel("affinity_norms")?, a.rows, &arguments)?;
        let measure = Affinity { gpu, a, space, norms, nearest };
        measure.run("nearest", a.rows, &[], &[], &[])?;
        Ok(measure)
    }

    /// Runs a kernel: numbers before those of the space and after them, and arrays at the end.
    fn run(
        &self,
        name: &str,
        rows: usize,
        before: &[&dyn Argument],
        after: &[&dyn Argument],
        arrays: &[View],
    ) -> Result<()> {
        let (size, count) = (self.a.block.rows as i32, self.space.count as i32);
        let numbers = [before, &[&size, &count], after].concat();
        let of_space = [self.space.vectors.view(), self.norms.view(), self.nearest.view()];
        let arrays = [&of_space[..], arrays].concat();
        launch(self.gpu, &format!("affinity_{name}"), self.a, rows, &numbers, &arrays)
    }

    /// The couplings that are strong by the threshold `theta`.
    pub fn graph(&self, theta: f64) -> Result<DeviceGraph> {
        graph(self.gpu, self.a, |strong, counts| self.run("mark", self.a.rows, &[], &[&theta], &[strong, counts]))
    }

    /// As [`crate::host::affinity::Affinity::mean_strong`]. Synchronises.
    pub fn mean_strong(&self, theta: f64) -> Result<f64> {
        let (sum, (count, step)) = (self.gpu.zeroed::<i64>(1)?, sample(self.a.rows));
        self.run("sampled", count, &[&(step as i64), &(self.a.rows as i64)], &[&theta], &[sum.view()])?;
        Ok(self.gpu.fetch(&sum)?[0] as f64 / count.max(1) as f64)
    }
}

/// The component.
pub(crate) struct AffinityStrength;

impl<T: Scalar> Strength<Gpu, T> for AffinityStrength {
    fn graph(&self, input: &StrengthInput<'_, Gpu, T>) -> Result<DeviceGraph> {
        let GpuMatrix::Rows(a) = input.a else { return DeviceGraph::empty(input.setup) };
        let measure = Affinity::new(input.setup, a, input.space("affinity")?)?;
        let threshold = Threshold::named(input.parameters)?.unwrap_or(USUAL);
        measure.graph(threshold.value(&|theta| measure.mean_strong(theta))?)
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::tests::{devices, download, irregular, narrow, problems};
    use super::*;
    use crate::hash::hash;
    use crate::host::affinity as host;
    use crate::sparse::{Csr, NearNullSpace};

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let (view, rows) = (a.view(), a.rows * a.block.rows);
        let of = |e: usize| if hash(e, 4).is_multiple_of(50) { 0.0 } else { 1.0 + (hash(e, 5) % 9) as f64 / 30.0 };
        let space = NearNullSpace { dofs_per_node: a.block.rows, count: 3, vectors: (0..3 * rows).map(of).collect() };
        let on_host = host::Affinity::new(&view, &space).unwrap();
        for gpu in devices() {
            let on_device = DeviceCsr::upload(&gpu, &view).unwrap();
            let of_device = DeviceNearNullSpace::upload(&gpu, &space).unwrap();
            let measure = Affinity::new(&gpu, &on_device, &of_device).unwrap();
            for theta in [0.05, 0.25, 0.7] {
                let s = download(&gpu, &measure.graph(theta).unwrap());
                assert_eq!(s, on_host.graph(theta).unwrap(), "{name} {theta}");
                assert_eq!(measure.mean_strong(theta).unwrap(), on_host.mean_strong(theta), "{name} {theta}");
            }
            for wanted in [Threshold::Connections(2), Threshold::Connections(1000)] {
                let theta = wanted.value(&|theta| measure.mean_strong(theta)).unwrap();
                assert_eq!(theta, wanted.value(&|theta| Ok(on_host.mean_strong(theta))).unwrap(), "{name} {wanted:?}");
            }
        }
    }

    #[test]
    fn graphs_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(irregular()) {
            check(&a, &name);
            if a.rows > 0 && a.rows.is_multiple_of(3) {
                check(&narrow(&a), &format!("{name} in f32"));
                check(&a.view().to_blocks(3).unwrap(), &format!("{name} in blocks of 3"));
            }
        }
    }
}

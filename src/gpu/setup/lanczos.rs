//! The largest eigenvalue of any symmetric operator: the steps of [`crate::host::lanczos`] on the device, without waiting
//! for it between them.

use crate::backend::setup::OperatorProduct;
use crate::backend::spectrum::Largest;
use crate::error::Result;
use crate::gpu::Gpu;
use crate::gpu::runtime::{Argument, BLOCK};
use crate::scalar::Scalar;

/// Most blocks of a kernel: each leaves a part of an inner product, which every block of the next kernel adds.
const MAX_BLOCKS: usize = 1024;

/// As [`crate::host::lanczos::largest`]. Waits for the device once.
pub(crate) fn largest<T: Scalar>(
    gpu: &Gpu,
    steps: usize,
    n: usize,
    product: OperatorProduct<'_, Gpu, T>,
) -> Result<Largest> {
    let steps = steps.min(n);
    if steps == 0 {
        return Ok(Largest::from_lanczos::<T>(&[], &[], f64::INFINITY));
    }
    let blocks = n.div_ceil(BLOCK).min(MAX_BLOCKS);
    let (mut u, mut q) = ([gpu.zeroed::<T>(n)?, gpu.zeroed::<T>(n)?], gpu.zeroed::<T>(n)?);
    let (norms, products) = (gpu.zeroed::<f64>(blocks)?, gpu.zeroed::<f64>(blocks)?);
    // What `kernels/eigenvalue.cu` describes.
    let state = gpu.zeroed::<f64>(3 + 2 * steps)?;
    let kernel = |name: &str| gpu.kernel(&format!("lanczos_{name}_{}", T::PRECISION.name()));
    let (length, count) = (n as i64, steps as i64);
    gpu.launch_blocks(kernel("start")?, blocks, &[&length, &u[0].view(), &norms.view()])?;
    for step in 0..steps {
        product(&u[0], &mut q)?;
        let step = step as i64;
        let [now, before] = [u[0].view(), u[1].view()];
        let of_product: [&dyn Argument; 8] =
            [&length, &step, &count, &norms.view(), &state.view(), &now, &q.view(), &products.view()];
        gpu.launch_blocks(kernel("product")?, blocks, &of_product)?;
        let of_update: [&dyn Argument; 9] =
            [&length, &step, &count, &products.view(), &state.view(), &q.view(), &now, &before, &norms.view()];
        gpu.launch_blocks(kernel("update")?, blocks, &of_update)?;
        u.swap(0, 1);
    }
    let state = gpu.fetch(&state)?;
    let done = state[0] as usize;
    let (alphas, betas) = (&state[3..3 + done], &state[3 + steps..3 + steps + done]);
    Ok(Largest::from_lanczos::<T>(alphas, &betas[done.min(1)..], f64::INFINITY))
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::backend::setup::Setup;
    use crate::gpu::setup::DeviceCsr;
    use crate::gpu::setup::tests::problems;
    use crate::gpu::tests::{devices, host};
    use crate::host::{lanczos, spmv};
    use crate::sparse::Csr;

    fn compare<T: Scalar>(gpu: &Gpu, name: &str, a: &Csr<T>) {
        let on_device = DeviceCsr::upload(gpu, &a.view()).unwrap().into();
        let operator = gpu.as_operator(&on_device).unwrap();
        for steps in [1, 12] {
            let expected = lanczos::largest::<T>(&host(), steps, a.rows, &mut |x, y| {
                spmv::apply(&a.view(), T::ONE, x, T::ZERO, y);
                Ok(())
            });
            let found = largest::<T>(gpu, steps, a.rows, &mut |x, y| operator.apply(T::ONE, x, T::ZERO, y));
            assert_eq!(found.unwrap().value, expected.unwrap().value, "{name} {steps}");
        }
    }

    #[test]
    fn estimates_are_those_of_the_host() {
        for gpu in devices() {
            for (name, a) in problems() {
                compare(&gpu, &name, &a);
                compare(&gpu, &name, &a.view().to_owned_as::<f32>().unwrap());
            }
            for a in [&Csr::from_triplets(0, 0, &[]).unwrap(), &Csr::from_triplets(1, 1, &[(0, 0, 3.0)]).unwrap()] {
                compare::<f64>(&gpu, "small", a);
            }
        }
    }
}

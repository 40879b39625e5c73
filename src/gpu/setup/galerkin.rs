//! scaffold
use super::*;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Scalar;
pub(crate) struct Recipe;
impl Recipe {
    pub fn bytes(&self) -> usize {
        0
    }
}
pub(crate) fn product<T: Scalar>(
    gpu: &Gpu,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<(DeviceCsr<T>, Recipe)> {
    let c = crate::amg::galerkin::product(
        &r.fetch(gpu)?.view(),
        &a.fetch(gpu)?.view(),
        &p.fetch(gpu)?.into_shared(),
        None,
    )?;
    Ok((DeviceCsr::upload(gpu, &c.view())?, Recipe))
}
pub(crate) fn renew<T: Scalar>(
    gpu: &Gpu,
    _: &Recipe,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
    _: &DevicePattern,
) -> Result<Buffer<T>> {
    let c = crate::amg::galerkin::product(
        &r.fetch(gpu)?.view(),
        &a.fetch(gpu)?.view(),
        &p.fetch(gpu)?.into_shared(),
        None,
    )?;
    gpu.upload(c.values.as_slice())
}

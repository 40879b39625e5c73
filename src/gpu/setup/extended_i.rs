//! scaffold
use super::coarse::Coarse;
use super::*;
use crate::amg::strength::Graph;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::host::truncate::Truncation;
use crate::scalar::Scalar;
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    c: &Coarse,
    t: Truncation,
) -> Result<DeviceCsr<T>> {
    let a = a.fetch(gpu)?;
    let s = Graph { offsets: gpu.fetch(&s.offsets)?, columns: gpu.fetch(&s.columns)? };
    let c: Vec<bool> = gpu.fetch(&c.of)?.iter().map(|c| *c == 1).collect();
    let p = crate::host::extended_i::interpolate(&a.view(), &s, &c, None, t, None)?;
    DeviceCsr::upload(gpu, &p.view())
}
pub(crate) fn renew<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    c: &Coarse,
    p: &DevicePattern,
) -> Result<Buffer<T>> {
    let a = a.fetch(gpu)?;
    let s = Graph { offsets: gpu.fetch(&s.offsets)?, columns: gpu.fetch(&s.columns)? };
    let c: Vec<bool> = gpu.fetch(&c.of)?.iter().map(|c| *c == 1).collect();
    let n = p.with::<T>(gpu.room(p.nnz())?).fetch(gpu)?.into_shared();
    let p = crate::host::extended_i::interpolate(
        &a.view(),
        &s,
        &c,
        None,
        Truncation { max_entries: 0, factor: 0.0 },
        Some(&n.structure),
    )?;
    gpu.upload(&p.values)
}

//! Extended and extended+i interpolation in matrix-matrix form on a GPU. The factors are made in `kernels/mm_ext.cu`.

use super::coarse::Splitting;
use super::extended_i::Level;
use super::truncate::Rows;
use super::{DeviceCsr, DeviceGraph, DevicePattern, spgemm};
use crate::error::Result;
use crate::gpu::runtime::{Argument, View};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::host::extended_i::Formula;
use crate::host::truncate::Truncation;
use crate::scalar::Scalar;
use crate::sparse::Block;
use std::sync::Arc;

/// As [`crate::host::mm_ext::interpolate`], to all unknowns or to those of `only`; with `pattern`, each row keeps the columns that it has there.
#[allow(clippy::too_many_arguments)]
pub(crate) fn interpolate<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    s: &DeviceGraph,
    coarse: &Splitting,
    only: Option<&Slice<i32>>,
    plus_i: bool,
    truncation: Truncation,
    pattern: Option<&DevicePattern>,
) -> Result<DeviceCsr<T>> {
    let product = {
        let lanes = if a.nnz() > 12 * a.rows { 32 } else { 8 };
        let level = Level::with_near(gpu, a, s, coarse, Formula::ExtendedI, 0)?;
        let (right, beta) = right(gpu, &level)?;
        let left = left(gpu, &level, &beta, only, plus_i, lanes)?;
        drop((level, beta));
        spgemm::multiply(gpu, &left, &right)?
    };
    Rows::of(&product).truncated(gpu, truncation, pattern)
}

/// A matrix of `rows` rows by a kernel that is run twice: with offsets, columns and values, and counts, as far as it needs them.
fn in_two_passes<T: Scalar>(
    gpu: &Gpu,
    (rows, cols): (usize, usize),
    run: impl Fn([View; 4]) -> Result<()>,
) -> Result<DeviceCsr<T>> {
    let (counts, none) = (gpu.room::<i32>(rows)?, View::NONE);
    run([none, none, none, counts.view()])?;
    let (offsets, total) = gpu.offsets(&counts)?;
    let (columns, values) = (gpu.room::<i32>(total)?, gpu.room::<T>(total)?);
    run([offsets.view(), columns.view(), values.view(), none])?;
    let (offsets, columns, values) = (Arc::new(offsets), Arc::new(columns), Arc::new(values));
    Ok(DeviceCsr { rows, cols, block: Block::SCALAR, offsets, columns, values })
}

/// R and its row sums.
fn right<T: Scalar>(gpu: &Gpu, level: &Level<'_, T>) -> Result<(DeviceCsr<T>, Buffer<T>)> {
    let (a, coarse) = (level.a, level.coarse);
    let beta = gpu.room::<T>(a.rows)?;
    let kernel = gpu.kernel(&format!("mm_ext_right_{}", T::PRECISION.name()))?;
    let from = [a.offsets.view(), coarse.number.view(), level.columns.view(), level.values.view(), level.heads.view()];
    let right = in_two_passes(gpu, (a.rows, coarse.count), |to| {
        let (rows, beta) = (a.rows as i64, beta.view());
        let mut arguments: Vec<&dyn Argument> = vec![&rows];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        arguments.push(&beta);
        gpu.launch(kernel, a.rows, &arguments)
    })?;
    Ok((right, beta))
}

/// L.
fn left<T: Scalar>(
    gpu: &Gpu,
    level: &Level<'_, T>,
    beta: &Slice<T>,
    only: Option<&Slice<i32>>,
    plus_i: bool,
    lanes: usize,
) -> Result<DeviceCsr<T>> {
    let a = level.a;
    let rows = only.map_or(a.rows, Slice::len);
    let kernel = gpu.kernel(&format!("mm_ext_left_{}_{lanes}", T::PRECISION.name()))?;
    let from = [
        a.offsets.view(),
        a.columns.view(),
        a.values.view(),
        level.coarse.number.view(),
        level.kinds.view(),
        level.heads.view(),
        beta.view(),
        only.map_or(View::NONE, Slice::view),
    ];
    in_two_passes(gpu, (rows, a.rows), |to| {
        let (count, plus_i) = (rows as i64, i32::from(plus_i));
        let mut arguments: Vec<&dyn Argument> = vec![&count, &plus_i];
        arguments.extend(from.iter().chain(&to).map(|view| view as &dyn Argument));
        gpu.launch(kernel, rows * lanes, &arguments)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{awkward, in_turn, narrow, problems, splittings, upload};
    use super::*;
    use crate::host::{mm_ext, strength};
    use crate::sparse::Csr;

    fn check<T: Scalar>(a: &Csr<T>, name: &str) {
        let view = a.view();
        let s = strength::absolute(&view, 0.1).unwrap();
        for (coarse, plus_i) in splittings(&s).into_iter().zip([true, false]) {
            let flags: Vec<u8> = coarse.iter().map(|c| u8::from(*c)).collect();
            for (max_entries, factor) in [(4, 0.0), (0, 0.2)] {
                let cut = Truncation::new(max_entries, factor);
                let wanted = mm_ext::interpolate(&view, &s, &coarse, None, plus_i, cut, None).unwrap();
                let structure = wanted.clone().into_shared().structure;
                let kept = mm_ext::interpolate(&view, &s, &coarse, None, plus_i, cut, Some(&*structure)).unwrap();
                for gpu in in_turn() {
                    let (there, graph) = (DeviceCsr::upload(&gpu, &view).unwrap(), upload(&gpu, &s));
                    let splitting = Splitting::new(&gpu, &gpu.upload(&flags).unwrap()).unwrap();
                    let make = |pattern: Option<&DevicePattern>| {
                        interpolate(&gpu, &there, &graph, &splitting, None, plus_i, cut, pattern).unwrap()
                    };
                    let p = make(None);
                    assert_eq!(p.fetch(&gpu).unwrap(), wanted, "{name} {plus_i}");
                    assert_eq!(make(Some(&p.pattern())).fetch(&gpu).unwrap(), kept, "{name} {plus_i}");
                }
            }
        }
    }

    #[test]
    fn interpolations_are_those_of_the_host() {
        for (name, a) in problems().into_iter().chain(awkward()) {
            check(&a, &name);
        }
        let (name, a) = awkward().pop().unwrap();
        check(&narrow(&a), &name);
    }
}

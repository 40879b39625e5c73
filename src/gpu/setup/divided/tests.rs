//! Each step on ranks that are threads, beside that of one rank on the host.

use super::coarsening::split;
use super::interpolation::interpolate;
use super::product::{gathered, product};
use super::transposition::transposed;
use super::*;
use crate::backend::parameters::{Estimate, Truncation};
use crate::gallery;
use crate::gpu::setup::grid::GpuMatrix;
use crate::gpu::setup::{DeviceNearNullSpace, strength as on_device};
use crate::gpu::tests::{devices, host};
use crate::host::distributed::divided::DividedMatrix;
use crate::host::distributed::divided::testing::{divided, on_ranks, random};
use crate::host::{
    diagonal, extended_i, galerkin, mis2, pmis, smoothed as smoothed_on_host, strength, tentative, transpose,
};
use crate::sparse::{Csr, NearNullSpace};

/// The same on the device.
fn upload(gpu: &Gpu, a: &DividedMatrix<f64>) -> Result<DeviceDivided<f64>> {
    let matrix = DeviceCsr::upload(gpu, &a.matrix.view())?;
    Ok(DeviceDivided { matrix, rows: Arc::clone(&a.rows), columns: Arc::clone(&a.columns) })
}

/// Divisions of so many rows.
fn divisions(n: usize) -> [[usize; 4]; 4] {
    [[0, n / 2, n / 2, n], [0, 0, 3, n], [0, n, n, n], [0, n / 3, 2 * n / 3, n]]
}

#[test]
fn transposes_are_those_of_one_rank() {
    for gpu in devices() {
        let block = Block { rows: 2, cols: 3 };
        for (rows, cols, block) in [(1100, 600, Block::SCALAR), (600, 40, block), (50, 30, Block::SCALAR)] {
            let a = random(rows, cols, 4, block, 7);
            let expected = transpose::transpose(&a.view()).unwrap();
            for starts in divisions(rows).map(|starts| starts.map(|start| start * block.rows)) {
                on_ranks(&starts, |over| {
                    let part = upload(&gpu, &divided(over, &a)).unwrap();
                    let t = transposed(&gpu, over, (&part, block.rows)).unwrap();
                    assert!(gathered(&gpu, over, &t).unwrap() == expected, "{rows} {starts:?}");
                });
            }
        }
    }
}

#[test]
fn products_are_those_of_one_rank() {
    for gpu in devices() {
        let wide = Block { rows: 3, cols: 6 };
        for (n, m, of_a, of_p) in [
            (1300, 1100, Block::SCALAR, Block::SCALAR),
            (900, 30, Block::SCALAR, Block::SCALAR),
            (400, 90, Block::square(3), wide),
        ] {
            let (mut a, mut p) = (random(n, n, 5, of_a, 3), random(n, m, 2, of_p, 4));
            // A coarse unknown that is coupled to nothing.
            for k in (0..p.columns.len()).filter(|k| p.columns[*k] == 7) {
                (0..of_p.rows).for_each(|r| p.values[k * of_p.len() + r * of_p.cols + of_p.cols - 1] = 0.0);
            }
            a.values.iter_mut().for_each(|v| *v = v.round());
            let r = transpose::transpose(&p.view()).unwrap();
            let expected = galerkin::product(&r.view(), &a.view(), &p.clone().into_shared()).unwrap();
            for starts in divisions(n).map(|starts| starts.map(|start| start * of_a.rows)) {
                on_ranks(&starts, |over| {
                    let a = upload(&gpu, &divided(over, &a)).unwrap();
                    let p = divided(over, &p);
                    let view = p.matrix.view();
                    let of_own = view.offsets;
                    let own: Vec<i64> = (0..=p.rows.own.len()).map(|i| of_own.raw(p.rows.inside().start + i)).collect();
                    let own = OwnRows {
                        block: of_p,
                        offsets: gpu.upload(&own).unwrap(),
                        columns: Arc::new(gpu.upload(view.columns).unwrap()),
                        values: Arc::new(gpu.upload(view.values).unwrap()),
                    };
                    let p = DeviceDivided::of_own_rows(&gpu, &a.rows, Arc::clone(&p.columns), own).unwrap();
                    let r = transposed(&gpu, over, (&p, of_p.rows)).unwrap();
                    // No level is divided here, so that all rows are gathered.
                    let GpuMatrix::Rows(found) = product(&gpu, over, (&r, &a, &p)).unwrap() else {
                        panic!("it is complete")
                    };
                    let found = found.fetch(&gpu).unwrap();
                    assert!(found.offsets == expected.structure.own_arrays().0, "{n} {starts:?}");
                    assert!(found.columns == expected.structure.own_arrays().1, "{n} {starts:?}");
                    assert!(found.values == expected.values.as_slice(), "{n} {starts:?}");
                });
            }
        }
    }
}

fn check_level(gpu: &Gpu, a: &Csr<f64>, truncation: Truncation, name: &str) {
    let s = strength::classical(&a.view(), 0.25, 0.9).unwrap();
    let coarse = pmis::split(&s, &s.transpose().unwrap(), 5).unwrap();
    let mut before = 0;
    let numbered = coarse.iter().map(|coarse| {
        before += i32::from(*coarse);
        if *coarse { before - 1 } else { -1 }
    });
    let wanted_numbers: Vec<i32> = numbered.collect();
    let mut changed = a.clone();
    changed.values.iter_mut().enumerate().for_each(|(k, v)| *v *= 1.0 + (k % 5) as f64 / 8.0);
    let wanted = extended_i::interpolate(&a.view(), &s, &coarse, None, truncation, None).unwrap();
    let structure = wanted.clone().into_shared().structure;
    let later = extended_i::interpolate(&changed.view(), &s, &coarse, None, truncation, Some(&*structure)).unwrap();
    for starts in divisions(a.rows) {
        on_ranks(&starts, |over| {
            let own = upload(gpu, &divided(over, a)).unwrap();
            let graph = on_device::classical(gpu, &own.matrix, 0.25, 0.9).unwrap();
            let found = split(gpu, own.level(over), &graph, 5).unwrap();
            let count = coarse.iter().filter(|coarse| **coarse).count();
            let numbers = gpu.fetch(&found.number).unwrap();
            for (local, found) in numbers.iter().enumerate() {
                let i = own.rows.global(local);
                assert_eq!(*found, wanted_numbers[i], "{name} {starts:?}, unknown {i}");
            }
            assert_eq!(found.count, count, "{name} {starts:?}");
            let p = interpolate(gpu, (over, &own), &graph, &found, truncation, None).unwrap();
            assert!(gathered(gpu, over, &p).unwrap() == wanted, "{name} {starts:?}");
            let other = upload(gpu, &divided(over, &changed)).unwrap();
            let p = interpolate(gpu, (over, &other), &graph, &found, truncation, Some(&p.pattern())).unwrap();
            assert!(gathered(gpu, over, &p).unwrap() == later, "{name} {starts:?}, later");
        });
    }
}

#[test]
fn eigenvalues_are_those_of_one_rank() {
    for gpu in devices() {
        for (name, estimate) in [
            ("jumps:8", Estimate { lanczos: true, steps: 8 }),
            ("anisotropic:15:epsilon=0.01", Estimate { lanczos: false, steps: 7 }),
            ("poisson5:3", Estimate { lanczos: true, steps: 8 }),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            let inverse: Vec<f64> = diagonal::inverse(&a.view(), 1, diagonal::AS_IT_IS).unwrap();
            let expected = estimate.largest(&host(), &a.view(), &inverse, None).unwrap();
            for starts in divisions(a.rows) {
                on_ranks(&starts, |over| {
                    let own = upload(&gpu, &divided(over, &a)).unwrap();
                    let gpu = gpu.dividing(over);
                    let inverse = gpu.upload(&inverse[own.rows.own.clone()]).unwrap();
                    let found = eigenvalue::largest(&gpu, (over, &own), &estimate, &inverse, None).unwrap();
                    assert_eq!(found.value, expected.value, "{name} {starts:?}");
                    let later = eigenvalue::largest(&gpu, (over, &own), &estimate, &inverse, Some(&found)).unwrap();
                    assert_eq!(later.value, expected.value, "{name} {starts:?}");
                });
            }
        }
    }
}

#[test]
fn aggregates_and_smoothed_prolongators_are_those_of_one_rank() {
    let how = (4.0 / 3.0, Estimate { lanczos: true, steps: 8 });
    for gpu in devices() {
        // Without weak couplings, and with some that are lumped; with unknowns that belong to no aggregate.
        for (name, theta) in [("poisson7:7", 0.08), ("jumps:7", 0.2), ("anisotropic:15:epsilon=0.01", 0.3)] {
            let mut a = gallery::parse(name).unwrap().matrix;
            for i in [0, a.rows / 2] {
                for k in a.offsets[i] as usize..a.offsets[i + 1] as usize {
                    a.values[k] *= if a.columns[k] as usize == i { 1.0 } else { 1e-9 };
                }
            }
            let measure = strength::Symmetric::new(&a.view()).unwrap();
            let (s, scale) = (measure.graph(theta).unwrap(), measure.scale().unwrap());
            let (of, count) = mis2::aggregate(&s, 3).unwrap();
            let space = NearNullSpace { dofs_per_node: 1, count: 1, vectors: (1..=a.rows).map(|i| i as f64).collect() };
            let (p0, coarse) = tentative::prolongator(&of, count, &space).unwrap();
            let step = smoothed_on_host::Step::new(&host(), &a.view(), &s, how, None).unwrap();
            let wanted = step.smooth(&p0).unwrap();
            for starts in divisions(a.rows) {
                on_ranks(&starts, |over| {
                    let gpu = gpu.dividing(over);
                    let own = upload(&gpu, &divided(over, &a)).unwrap();
                    let level = Some(own.level(over));
                    let measure = on_device::Symmetric::among(&gpu, &own.matrix, level).unwrap();
                    assert_eq!(measure.scale().unwrap(), scale, "{name} {starts:?}");
                    let graph = measure.graph(theta).unwrap();
                    let found = aggregation::aggregate(&gpu, own.level(over), &graph, 3).unwrap();
                    for (local, aggregate) in gpu.fetch(&found.of).unwrap().into_iter().enumerate() {
                        assert_eq!(aggregate, of[own.rows.global(local)], "{name} {starts:?}");
                    }
                    assert_eq!(found.count, count, "{name} {starts:?}");
                    let vectors = gpu.upload(&space.vectors[own.rows.own.clone()]).unwrap();
                    let space = DeviceNearNullSpace { dofs_per_node: 1, count: 1, vectors };
                    let of_level = (&found, &space);
                    let p = smoothed::interpolate(&gpu, (over, &own), &graph, of_level, how, None).unwrap();
                    let GpuMatrix::Divided(of_rank) = &p.p else { panic!("it is divided") };
                    assert!(gathered(&gpu, over, of_rank).unwrap() == wanted, "{name} {starts:?}");
                    let next = p.near_null_space.unwrap().fetch(&gpu).unwrap();
                    assert!(next == coarse, "{name} {starts:?}");
                });
            }
        }
    }
}

#[test]
fn splittings_and_weights_are_those_of_one_rank() {
    for gpu in devices() {
        let cases = [("jumps:7", Truncation::new(4, 0.0)), ("anisotropic:15:epsilon=0.01", Truncation::new(0, 0.2))];
        for (name, truncation) in cases {
            check_level(&gpu, &gallery::parse(name).unwrap().matrix, truncation, name);
        }
    }
}

#[test]
fn nodes_are_those_of_one_rank() {
    for gpu in devices() {
        let a = random(240, 240, 5, Block::SCALAR, 9);
        let expected = a.view().to_blocks(3).unwrap();
        for starts in divisions(80).map(|starts| starts.map(|start| 3 * start)) {
            on_ranks(&starts, |over| {
                let nodes = nodes::to_nodes(&gpu, over, &upload(&gpu, &divided(over, &a)).unwrap(), 3).unwrap();
                assert!(gathered(&gpu, over, &nodes).unwrap() == expected, "{starts:?}");
            });
        }
    }
}

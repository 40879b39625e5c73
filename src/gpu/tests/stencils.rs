//! Products, transfers and sweeps on structured grids.

use super::products::compare;
use super::*;
use crate::gpu::stencil::DeviceStencil;
use crate::host::stencil::line_relaxation;
use crate::sparse::{
    Coarsened, ColouredStencil, Grid, Offset, SharedStencil, SharedTransfer, Stencil, TransferPattern,
};

pub(super) const ALL: [Offset; 27] = {
    let mut all = [[0; 3]; 27];
    let mut k = 0;
    while k < 27 {
        all[k] = [k as i8 % 3 - 1, k as i8 / 3 % 3 - 1, k as i8 / 9 - 1];
        k += 1;
    }
    all
};

/// A few offsets, in no order.
const SOME: [Offset; 6] = [[0, 0, 0], [-1, 0, 0], [1, 1, 0], [0, -1, 1], [1, 0, -1], [1, 0, 0]];

/// The seven-point stencil.
pub(super) const SEVEN: [Offset; 7] = [[0, 0, -1], [0, -1, 0], [-1, 0, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]];

/// A stencil with different values, zero where they would reach outside of the grid, and a strong diagonal.
pub(super) fn stencil<S: Number>(
    dims: [usize; 3],
    periodic: [bool; 3],
    block: usize,
    offsets: &[Offset],
) -> SharedStencil<S> {
    let grid = Grid { dims, periodic };
    let pattern = Stencil::new(grid, block, offsets).unwrap();
    let (cells, mut entries) = (grid.cells(), values::<S>(pattern.entries(), 21));
    for (at, value) in entries.iter_mut().enumerate() {
        let (k, e, cell) = (at / (cells * block * block), at / cells % (block * block), at % cells);
        if grid.neighbour(grid.point(cell), offsets[k]).is_none() {
            *value = S::ZERO;
        } else if offsets[k] == [0; 3] && e / block == e % block {
            *value = S::from_f64(8.0);
        }
    }
    SharedStencil { pattern: Arc::new(pattern), values: Arc::new(entries) }
}

fn product<S: Number, X: Number, Y: Number>(gpu: &Gpu, a: &SharedStencil<S>) {
    let on_host: Box<dyn Operator<Host, X, Y>> = host().stencil(a.clone(), Sums::Wide).unwrap();
    let on_device: Box<dyn Operator<Gpu, X, Y>> = gpu.stencil(a.clone(), Sums::Wide).unwrap();
    let (n, grid) = (a.pattern.scalar_rows(), a.pattern.grid);
    let what = format!("{} {grid:?} {:?} {:?} {:?}", on_device.format(), S::PRECISION, X::PRECISION, Y::PRECISION);
    compare(gpu, &*on_host, &*on_device, (n, n), &what);
    assert!(on_device.format() == on_host.format() && on_device.precision() == S::PRECISION);
    if gpu.description().contains("sim") {
        // The same order of sums, and no fused operations: the same bits.
        let x: Vec<X> = values(n, 5);
        let (mut expected, mut found) = (vec![Y::ZERO; n], gpu.zeros(n).unwrap());
        on_host.apply(Y::Wide::from_f64(1.0), &x, Y::Wide::from_f64(0.0), &mut expected).unwrap();
        on_device.apply(Y::Wide::from_f64(1.0), &gpu.upload(&x).unwrap(), Y::Wide::from_f64(0.0), &mut found).unwrap();
        assert!(download(gpu, &found) == expected, "{what}");
    }
}

#[test]
fn stencils_of_27_and_7_points_have_kernels_of_their_own() {
    for gpu in devices() {
        let kind = |periodic: bool, offsets: &[Offset], vector: Precision| {
            let stencil = stencil::<f16>([16, 3, 2], [false, periodic, false], 1, offsets);
            DeviceStencil::upload(&gpu, &stencil).unwrap().known_lines(vector, Precision::F32)
        };
        assert_eq!(kind(false, &ALL, Precision::F32), Some("_box"));
        assert_eq!(kind(false, &SEVEN, Precision::F32), Some("_star"));
        let five = SEVEN.map(|[x, y, _]| [x, y, 0]);
        assert_eq!(kind(false, &five[1..6], Precision::F32), None);
        let mut turned = SEVEN;
        turned.reverse();
        assert_eq!(kind(false, &turned, Precision::F32), None);
        assert_eq!(kind(true, &ALL, Precision::F32), None);
        assert_eq!(kind(false, &ALL, Precision::F16), None);
    }
}

#[test]
fn products_with_stencils_are_those_of_the_host() {
    for gpu in devices() {
        for (dims, periodic) in [
            ([1, 1, 1], [false; 3]),
            ([16, 3, 2], [false; 3]),
            ([17, 4, 3], [false; 3]),
            ([15, 3, 3], [true, false, true]),
            ([33, 2, 1], [true; 3]),
            ([1, 5, 6], [true, true, false]),
            ([2, 3, 2], [true; 3]),
            ([300, 2, 1], [false; 3]),
        ] {
            product::<f64, f64, f64>(&gpu, &stencil(dims, periodic, 1, &ALL));
            product::<f16, f32, f32>(&gpu, &stencil(dims, periodic, 1, &SOME));
            product::<f32, f32, f32>(&gpu, &stencil(dims, periodic, 1, &SEVEN));
        }
        for block in [2, 3, 4, 8] {
            product::<f64, f64, f64>(&gpu, &stencil([5, 4, 3], [false, true, false], block, &ALL));
            product::<f16, f32, f32>(&gpu, &stencil([9, 4, 1], [true, false, false], block, &SOME));
            // A padded line, whose last pair has one cell.
            product::<f32, f32, f32>(&gpu, &stencil([15, 3, 3], [false; 3], block, &ALL));
            product::<f32, f64, f64>(&gpu, &stencil([15, 3, 2], [true, false, true], block, &SEVEN));
        }
    }
    fn every_vector<S: Number>(gpu: &Gpu, block: usize) {
        let a = stencil::<S>([16, 3, 2], [false; 3], block, &SOME);
        product::<S, f64, f64>(gpu, &a);
        product::<S, f16, f64>(gpu, &a);
        product::<S, f64, f32>(gpu, &a);
        product::<S, f32, f32>(gpu, &a);
        product::<S, f16, f16>(gpu, &a);
        product::<S, bf16, bf16>(gpu, &a);
    }
    for block in [1, 2, 3, 4] {
        for gpu in devices() {
            every_vector::<f64>(&gpu, block);
            every_vector::<f32>(&gpu, block);
            every_vector::<f16>(&gpu, block);
            every_vector::<bf16>(&gpu, block);
        }
    }
}

fn transfer<S: Number, X: Number, Y: Number>(gpu: &Gpu, pattern: &Arc<TransferPattern>) {
    let weights: Vec<S> = values(pattern.entries(), 31);
    let p = SharedTransfer { pattern: Arc::clone(pattern), transposed: false, values: Arc::new(weights) };
    let r = SharedTransfer { transposed: true, ..p.clone() };
    let (fine, coarse) = (pattern.grids.fine.cells() * pattern.block, pattern.grids.coarse.cells() * pattern.block);
    for (matrix, size) in [(p, (fine, coarse)), (r, (coarse, fine))] {
        let what = format!("{:?} {:?} {:?}", pattern.grids, S::PRECISION, X::PRECISION);
        let on_host: Box<dyn Operator<Host, X, Y>> = host().grid_transfer(matrix.clone(), Sums::Wide).unwrap();
        let on_device: Box<dyn Operator<Gpu, X, Y>> = gpu.grid_transfer(matrix, Sums::Wide).unwrap();
        compare(gpu, &*on_host, &*on_device, size, &what);
    }
}

#[test]
fn transfers_between_grids_are_those_of_the_host() {
    for gpu in devices() {
        for (dims, periodic, axes, block) in [
            ([7, 6, 5], [false; 3], [true; 3], 1),
            ([8, 5, 4], [true, false, true], [true; 3], 2),
            ([9, 1, 3], [true, false, false], [true, false, true], 3),
            ([6, 5, 4], [false; 3], [false, true, false], 1),
            ([1, 1, 9], [false; 3], [false, false, true], 8),
            ([1, 1, 1], [false; 3], [true; 3], 1),
        ] {
            for low in [0, -1] {
                let grids = Coarsened::new(Grid { dims, periodic }, axes);
                let pattern = Arc::new(TransferPattern::new(grids, block, low));
                transfer::<f64, f64, f64>(&gpu, &pattern);
                transfer::<f16, f32, f32>(&gpu, &pattern);
            }
        }
    }
    let grids = Coarsened::new(Grid::new([7, 6, 5]), [true; 3]);
    let pattern = Arc::new(TransferPattern::new(grids, 1, -1));
    for gpu in devices() {
        transfer::<f32, f64, f32>(&gpu, &pattern);
        transfer::<bf16, f32, f64>(&gpu, &pattern);
        transfer::<f32, f32, f64>(&gpu, &pattern);
        transfer::<f64, bf16, f32>(&gpu, &pattern);
        transfer::<bf16, f16, f16>(&gpu, &pattern);
        transfer::<f16, f64, f64>(&gpu, &pattern);
    }
}

/// Sweeps in both directions, with all colours and without the last. `same_order` where strips do not divide lines differently.
fn sweeps<S: Number, V: Number>(gpu: &Gpu, a: &SharedStencil<S>, whole: bool, same_order: bool) {
    let host = host();
    let (n, rows) = (a.pattern.scalar_rows(), a.cast::<f64>().unwrap().to_rows().unwrap());
    let width = if whole { a.pattern.block } else { 1 };
    let exact = diagonal::inverse::<f64, f64>(&rows.view(), width, diagonal::AS_IT_IS).unwrap();
    let inverse: Vec<S> = exact.into_iter().map(S::from_f64).collect();
    let (matrix, on_gpu) = (DeviceStencil::upload(gpu, a).unwrap(), gpu.upload(&inverse).unwrap());
    let on_device: Box<dyn Colours<Gpu, V>> = gpu.stencil_sweep(matrix, on_gpu, (true, true)).unwrap();
    let coloured = ColouredStencil { matrix: a.clone(), inverse, lines: None, shared: true };
    let on_host: Box<dyn Colours<Host, V>> = host.stencil_colours(coloured).unwrap();
    let (b, x): (Vec<V>, Vec<V>) = (values(n, 17), values(n, 18));
    let device_b = gpu.upload(&b).unwrap();
    let same_count = on_device.count() == on_host.count();
    for left_out in [0, 1].into_iter().take(1 + usize::from(same_count)) {
        for backward in [false, true] {
            let what = format!("{} {:?} {:?} {:?}", a.pattern.format(), a.pattern.grid, S::PRECISION, V::PRECISION);
            let (mut expected, mut found) = (x.clone(), gpu.upload(&x).unwrap());
            let (on_host_count, count) = (on_host.count() - left_out, on_device.count() - left_out);
            on_host.pass(&host, on_host_count, backward, &b, &mut expected, &mut vec![V::ZERO; n]).unwrap();
            on_device.pass(gpu, count, backward, &device_b, &mut found, &mut gpu.zeros(n).unwrap()).unwrap();
            let found = download(gpu, &found);
            if same_order && gpu.description().contains("sim") && V::PRECISION.is_scalar() {
                assert!(found == expected, "{what}, backward {backward}, {left_out} colours left out");
            }
            if same_order {
                close(&found, &expected, 16.0, &what);
            }
            // Cells of the last colour have no residual.
            if V::PRECISION == Precision::F64
                && S::PRECISION == Precision::F64
                && on_device.solves_exactly()
                && left_out == 0
            {
                let (found, b) = (found.iter().map(|v| v.to_f64()).collect::<Vec<_>>(), &b);
                let residual = |i: usize| {
                    let (block, e) = (i / width_of(a), i % width_of(a));
                    let ax: f64 = rows
                        .view()
                        .row(block)
                        .map(|(j, v)| {
                            (0..width_of(a)).map(|c| v[e * width_of(a) + c] * found[j * width_of(a) + c]).sum::<f64>()
                        })
                        .sum();
                    (b[i].to_f64() - ax).abs()
                };
                let solved = (0..n).filter(|i| residual(*i) < 1e-12).count();
                assert!(solved * 2 * a.pattern.offsets.len() >= n, "{what}: {solved} of {n}");
            }
        }
    }
    // A sweep from zero reads nothing of x.
    let mut residuals = 0;
    for backward in [false, true] {
        let (mut expected, mut found) = (x.clone(), gpu.upload(&vec![V::from_f64(f64::NAN); n]).unwrap());
        let (mut scratch, mut device_scratch) = (vec![V::ZERO; n], gpu.zeros(n).unwrap());
        on_host.pass_from_zero(&host, on_host.count(), backward, &b, &mut expected, &mut scratch).unwrap();
        on_device.pass_from_zero(gpu, on_device.count(), backward, &device_b, &mut found, &mut device_scratch).unwrap();
        let (found, what) = (download(gpu, &found), format!("{} {:?}, from zero", a.pattern.format(), a.pattern.grid));
        assert!(found.iter().all(|v| v.to_f64().is_finite()), "{what}");
        if same_order {
            close(&found, &expected, 16.0, &what);
        }
        // The residuals after it.
        let mut r = vec![V::ZERO; n];
        let mut device_r = gpu.upload(&vec![V::from_f64(f64::NAN); n]).unwrap();
        let on_gpu = gpu.upload(&expected).unwrap();
        let has_form = on_device.residual_from_zero(gpu, backward, &on_gpu, &mut device_r).unwrap();
        if on_host.residual_from_zero(&host, backward, &expected, &mut r).unwrap() && has_form {
            residuals += 1;
            let found = download(gpu, &device_r);
            assert!(!gpu.description().contains("sim") || found == r, "{what}, residuals");
            close(&found, &r, 16.0, &what);
            let tolerance = if V::PRECISION == Precision::F64 { 1e-10 } else { 1e-3 };
            for i in (0..n).filter(|_| V::PRECISION.is_scalar()) {
                let ax: f64 = rows.view().row(i).map(|(j, v)| v[0] * expected[j].to_f64()).sum();
                let off = (r[i].to_f64() - (b[i].to_f64() - ax)).abs();
                assert!(off < tolerance * ax.abs().max(1.0), "{what}, residual of row {i}: {off}");
            }
        }
    }
    let [nx, ..] = a.pattern.grid.dims;
    let is_plain = a.pattern.block == 1 && nx % 4 == 0 && nx <= 1000 && a.pattern.grid.periodic == [false; 3];
    assert!(!is_plain || residuals == 2, "{residuals} residuals after sweeps from zero");
    gpu.status().unwrap();
}

fn width_of<S: Number>(a: &SharedStencil<S>) -> usize {
    a.pattern.block
}

#[test]
fn sweeps_on_stencils_are_those_of_the_host() {
    for gpu in devices() {
        for (dims, periodic) in [
            ([1, 1, 1], [false; 3]),
            ([16, 5, 4], [false; 3]),
            ([17, 4, 3], [false; 3]),
            ([40, 3, 3], [false, true, true]),
            ([15, 3, 3], [true, false, true]),
            ([1, 5, 6], [true, true, false]),
            ([33, 2, 1], [true, false, false]),
        ] {
            sweeps::<f64, f64>(&gpu, &stencil(dims, periodic, 1, &ALL), true, true);
            sweeps::<f16, f32>(&gpu, &stencil(dims, periodic, 1, &SEVEN), true, true);
        }
        for (block, whole) in [(2, true), (3, false), (3, true), (4, true), (8, false)] {
            sweeps::<f64, f64>(&gpu, &stencil([5, 4, 3], [false, true, false], block, &SEVEN), whole, true);
            sweeps::<f32, f32>(&gpu, &stencil([6, 3, 3], [false; 3], block, &ALL), whole, true);
        }
        // Pairs of cells, in several blocks of threads and in lines that have no even number of cells.
        for whole in [false, true] {
            sweeps::<f32, f32>(&gpu, &stencil([15, 6, 3], [false; 3], 3, &ALL), whole, true);
            sweeps::<f16, f32>(&gpu, &stencil([70, 9, 4], [false, true, false], 3, &SEVEN), whole, true);
            sweeps::<bf16, f32>(&gpu, &stencil([111, 6, 4], [false; 3], 3, &SEVEN), whole, true);
            sweeps::<f32, f32>(&gpu, &stencil([300, 2, 2], [false; 3], 3, &ALL), whole, false);
        }
    }
    for gpu in devices() {
        // Strips of the device are shorter than those of the host.
        sweeps::<f64, f64>(&gpu, &stencil([1100, 2, 1], [false; 3], 1, &SEVEN), true, false);
        sweeps::<f16, f32>(&gpu, &stencil([2100, 2, 1], [false; 3], 1, &SEVEN), true, true);
        sweeps::<f16, f16>(&gpu, &stencil([16, 5, 4], [false; 3], 1, &ALL), true, true);
        sweeps::<bf16, bf16>(&gpu, &stencil([16, 5, 4], [false; 3], 3, &SEVEN), true, true);
        sweeps::<f16, f64>(&gpu, &stencil([16, 5, 4], [false; 3], 1, &ALL), true, true);
        sweeps::<bf16, f32>(&gpu, &stencil([16, 5, 4], [false; 3], 1, &ALL), true, true);
    }
}

/// Factors of lines along an axis, and passes over their colours in both directions.
fn lines<S: Number, V: Number>(gpu: &Gpu, a: &SharedStencil<S>, axis: usize) {
    let (host, n, on_sim) = (host(), a.pattern.scalar_rows(), gpu.description().contains("sim"));
    let what = format!("{} {:?} axis {axis} {:?} {:?}", a.pattern.format(), a.pattern.grid, S::PRECISION, V::PRECISION);
    let exact = a.cast::<f64>().unwrap();
    let factors = line_relaxation::factors(&exact, axis).unwrap();
    let on_device = gpu.line_factors_of(&DeviceStencil::upload(gpu, &exact).unwrap(), axis).unwrap();
    assert!(gpu.fetch(&on_device).unwrap() == factors, "{what}");
    let inverse: Vec<S> = factors.into_iter().map(S::from_f64).collect();
    let coloured = || ColouredStencil { matrix: a.clone(), inverse: inverse.clone(), lines: Some(axis), shared: false };
    let on_host: Box<dyn Colours<Host, V>> = host.stencil_colours(coloured()).unwrap();
    let on_device: Box<dyn Colours<Gpu, V>> = gpu.stencil_colours(coloured()).unwrap();
    assert_eq!(on_device.count(), on_host.count());
    let (b, x): (Vec<V>, Vec<V>) = (values(n, 17), values(n, 18));
    for (backward, count) in [(false, on_host.count()), (true, on_host.count()), (true, on_host.count() - 1)] {
        let (mut expected, mut found) = (x.clone(), gpu.upload(&x).unwrap());
        on_host.pass(&host, count, backward, &b, &mut expected, &mut vec![V::ZERO; n]).unwrap();
        let (b, scratch) = (gpu.upload(&b).unwrap(), &mut gpu.zeros(n).unwrap());
        on_device.pass(gpu, count, backward, &b, &mut found, scratch).unwrap();
        let found = download(gpu, &found);
        assert!(!on_sim || found == expected, "{what}, backward {backward}, {count} colours");
        close(&found, &expected, 64.0, &what);
    }
    gpu.status().unwrap();
}

#[test]
fn line_relaxation_is_that_of_the_host() {
    for gpu in devices() {
        for axis in 0..3 {
            for dims in [[1, 1, 1], [16, 5, 4], [3, 17, 6]] {
                lines::<f64, f64>(&gpu, &stencil(dims, [false; 3], 1, &ALL), axis);
                lines::<f16, f32>(&gpu, &stencil(dims, [false; 3], 1, &SEVEN), axis);
            }
            lines::<f32, f64>(&gpu, &stencil([5, 4, 7], [axis != 0, axis != 1, axis != 2], 1, &ALL), axis);
            lines::<f32, f32>(&gpu, &stencil([5, 4, 3], [false; 3], 3, &SEVEN), axis);
            lines::<bf16, f16>(&gpu, &stencil([6, 2, 3], [false; 3], 2, &ALL), axis);
            lines::<f64, f64>(&gpu, &stencil([2, 3, 4], [false; 3], 8, &SEVEN), axis);
            lines::<f64, f64>(&gpu, &stencil([5, 4, 3], [false; 3], 1, &SOME), axis);
        }
    }
}

#[test]
fn profiles_count_of_a_matrix_what_the_sweep_over_a_colour_reads() {
    for gpu in devices() {
        let a = stencil::<f64>([16, 6, 4], [false; 3], 1, &ALL);
        let (n, bytes) = (a.pattern.scalar_rows(), 8 * a.pattern.scalar_rows() as u64);
        let coloured = ColouredStencil { inverse: vec![0.125; n], matrix: a, lines: None, shared: false };
        let sweep: Box<dyn Colours<Gpu, f64>> = gpu.stencil_colours(coloured).unwrap();
        let (b, mut x) = (gpu.upload(&values::<f64>(n, 17)).unwrap(), gpu.zeros(n).unwrap());
        gpu.start_profile(true);
        sweep.pass(&gpu, sweep.count(), false, &b, &mut x, &mut gpu.zeros(n).unwrap()).unwrap();
        let times = gpu.end_profile();
        let launches: usize = times.iter().map(|kernel| kernel.launches).sum();
        assert_eq!(launches, 4);
        // 27 offsets, the inverse of the diagonal and b once, and x in each launch.
        assert_eq!(times.iter().map(|kernel| kernel.bytes).sum::<u64>(), (27 + 1 + 1 + 4) * bytes);
    }
}

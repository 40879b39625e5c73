//! Products of stored matrices with multivectors: a row is read once for all of the interleaved vectors, which are the
//! lanes of a register.
//!
//! The order in which a row is summed depends on its length alone. Processors with AVX-512 run the same code with wider
//! registers, so that both give the same bits.

use super::dense::Dense;
use super::multivector_rows::{BlockRows, DenseRows, DiagonalRows, ScalarRows, multiply};
use super::operator::Stored;
use super::registers::{Call, with_avx2};
use super::simd::{MAX_BLOCK, Rows};
use super::spmv::{Epilogue, View, locate_rows};
use crate::backend::{MAX_VECTORS, Operator};
use crate::error::Result;
use crate::par;
use crate::scalar::{Number, NumbersRef, Precision, Scalar, SliceMut};
use crate::sparse::{BLOCK_ROWS, Block, GROUP};
use std::ops::Range;
use std::sync::Arc;

/// Scalar rows of a group in CSR.
const GROUP_ROWS: usize = 32;

/// Most results of a group.
const LONGEST: usize = MAX_VECTORS * if GROUP > BLOCK_ROWS * MAX_BLOCK { GROUP } else { BLOCK_ROWS * MAX_BLOCK };

/// Results that one task handles, about.
const GRAIN: usize = 16 * par::ROW_GRAIN;

/// The products of a matrix and a multivector, a group of rows at a time.
pub struct Products<'a> {
    /// Results of a group; the last one may have fewer.
    group: usize,
    /// Computes the results of a group, from this one on.
    multiply: &'a (dyn Fn(usize, SliceMut<'_>) + Sync),
}

impl Products<'_> {
    /// Results that one task handles: whole groups.
    pub fn grain(&self) -> usize {
        GRAIN.next_multiple_of(self.group)
    }

    /// Computes results of a task, and gives those of each group to `store`.
    pub fn each<W: Scalar>(&self, results: Range<usize>, mut store: impl FnMut(Range<usize>, &mut [W])) {
        let mut sums = [W::ZERO; LONGEST];
        for first in results.clone().step_by(self.group) {
            let group = first..(first + self.group).min(results.end);
            let sums = &mut sums[..group.len()];
            (self.multiply)(first, W::slice_mut(sums));
            with_avx2(Call(
                #[inline(always)]
                || store(group.clone(), sums),
            ));
        }
    }

    fn store<Y: Number>(&self, y: &mut [Y], epilogue: Epilogue<'_, Y>) {
        par::for_each_mut(y, self.grain(), |start, y| {
            self.each::<Y::Wide>(
                start..start + y.len(),
                #[inline(always)]
                |group, sums| {
                    epilogue.store(group.start, sums, &mut y[group.start - start..group.end - start]);
                },
            );
        });
    }
}

/// What is done with the products of a matrix.
pub type WithProducts<'a> = &'a mut (dyn FnMut(&Products<'_>) + Send);

/// Whether matrices and smoothers have kernels for multivectors of these precisions.
pub const fn has_kernels(x: Precision, y: Precision) -> bool {
    matches!((x, y), (Precision::F64, Precision::F64) | (Precision::F32, Precision::F32))
}

/// The matrix for multivectors of `k` vectors, where there are kernels for it.
pub fn interleaved<X: Number, Y: Number>(
    matrix: Arc<dyn Rowwise>,
    k: usize,
) -> Option<Arc<dyn Operator<super::Host, X, Y>>> {
    // A constant, so that nothing is compiled for the other precisions.
    if const { has_kernels(X::PRECISION, Y::PRECISION) } && (k == 4 || k == 8) {
        return Some(Arc::new(Interleaved { matrix, k }));
    }
    None
}

/// A matrix for multivectors of `k` vectors.
pub struct Interleaved {
    matrix: Arc<dyn Rowwise>,
    k: usize,
}

impl Interleaved {
    fn with_products<X: Number>(&self, x: &[X], run: WithProducts<'_>) {
        let Interleaved { matrix, k } = self;
        let x = X::numbers(x);
        let multiply = |first: usize, sums: SliceMut<'_>| matrix.products(*k, first, x, sums);
        let products = Products { group: matrix.group() * k, multiply: &multiply };
        matrix.run(*k, &mut || run(&products));
    }
}

/// A matrix whose rows are multiplied in groups.
pub trait Rowwise: Send + Sync + 'static {
    /// Scalar rows.
    fn rows(&self) -> usize;
    /// Scalar rows of a group.
    fn group(&self) -> usize;
    /// Rows of its blocks.
    fn width(&self) -> usize;
    /// Storage precision.
    fn precision(&self) -> Precision;
    /// Format, for reports.
    fn format(&self) -> String;
    /// Runs a product with `k` vectors on the threads.
    fn run(&self, k: usize, work: &mut (dyn FnMut() + Send));
    /// The products of a group with `k` vectors, from result `first` on. Vectors and sums have the same precision.
    fn products(&self, k: usize, first: usize, x: NumbersRef<'_>, sums: SliceMut<'_>);
}

/// Runs a body with vectors and sums of the same precision.
macro_rules! with_sums {
    ($x:ident, $sums:ident => $work:expr) => {
        match ($x, $sums) {
            (NumbersRef::F64($x), SliceMut::F64($sums)) => $work,
            (NumbersRef::F32($x), SliceMut::F32($sums)) => $work,
            _ => unreachable!("vectors and sums have the same precision"),
        }
    };
}

impl<X: Number, Y: Number> Operator<super::Host, X, Y> for Interleaved {
    fn rows(&self) -> usize {
        self.matrix.rows() * self.k
    }

    fn vectors(&self) -> usize {
        self.k
    }

    fn apply(&self, alpha: Y::Wide, x: &[X], beta: Y::Wide, y: &mut [Y]) -> Result<()> {
        self.with_products(x, &mut |products| products.store(y, Epilogue::new(alpha, beta)));
        Ok(())
    }

    fn residual(&self, b: &[Y], x: &[X], r: &mut [Y]) -> Result<()> {
        assert_eq!(b.len(), r.len());
        self.with_products(x, &mut |products| products.store(r, Epilogue::Residual(b)));
        Ok(())
    }

    fn has_epilogue(&self, width: usize) -> bool {
        width == 1 || width == self.matrix.width()
    }

    fn apply_with_epilogue(&self, x: &[X], epilogue: WithProducts<'_>) -> Result<usize> {
        self.with_products(x, epilogue);
        Ok(0)
    }

    fn bytes(&self) -> usize {
        0
    }

    fn format(&self) -> String {
        self.matrix.format()
    }

    fn precision(&self) -> Precision {
        self.matrix.precision()
    }
}

impl<S: Number> Rowwise for Stored<S> {
    fn rows(&self) -> usize {
        Stored::rows(self)
    }

    fn group(&self) -> usize {
        match self.view() {
            View::Csr(a) => GROUP_ROWS / a.block.rows * a.block.rows,
            View::Compact(_) => GROUP_ROWS,
            View::Diagonals(a) => a.group * a.width,
        }
    }

    fn width(&self) -> usize {
        match self.view() {
            View::Csr(a) => a.block.rows,
            View::Compact(_) => 1,
            View::Diagonals(a) => a.width,
        }
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }

    fn format(&self) -> String {
        Stored::format(self)
    }

    fn run(&self, k: usize, work: &mut (dyn FnMut() + Send)) {
        self.host().run(self.entries() * k, work);
    }

    fn products(&self, k: usize, first: usize, x: NumbersRef<'_>, sums: SliceMut<'_>) {
        with_sums!(x, sums => self.products_of(k, first, x, sums));
    }
}

impl<S: Number> Stored<S> {
    fn products_of<W: Scalar>(&self, k: usize, first: usize, x: &[W], sums: &mut [W]) {
        let mut offsets = [0; GROUP_ROWS + 1];
        match self.view() {
            View::Csr(a) => {
                let width = k * a.block.rows;
                let offsets = &mut offsets[..=sums.len() / width];
                let shift = locate_rows(a.offsets, a.base, first / width, offsets);
                let rows = Rows { offsets, columns: a.columns, values: a.values, shift };
                match a.block {
                    Block::SCALAR => multiply(k, ScalarRows { rows }, x, sums),
                    block => multiply(k, BlockRows { rows, block }, x, sums),
                }
            }
            View::Compact(a) => {
                let row = first / k;
                let offsets = &mut offsets[..=sums.len() / k];
                offsets.iter_mut().zip(&a.offsets[row..]).for_each(|(to, from)| *to = *from as usize);
                let shift = a.bases[row / GROUP];
                let rows = Rows { offsets, columns: &a.columns[..], values: a.values.as_slice(), shift };
                multiply(k, ScalarRows { rows }, x, sums);
            }
            View::Diagonals(a) => {
                let row = first / (k * a.width);
                let (distances, values) = a.group(row / a.group);
                let rows = DiagonalRows { row, width: a.width, group: a.group, distances, values };
                multiply(k, rows, x, sums);
            }
        }
    }
}

impl<S: Number> Rowwise for Dense<S> {
    fn rows(&self) -> usize {
        self.n
    }

    fn group(&self) -> usize {
        GROUP_ROWS
    }

    fn width(&self) -> usize {
        1
    }

    fn precision(&self) -> Precision {
        S::PRECISION
    }

    fn format(&self) -> String {
        "dense".to_string()
    }

    fn run(&self, k: usize, work: &mut (dyn FnMut() + Send)) {
        self.host.run(self.n * self.n * k, work);
    }

    fn products(&self, k: usize, first: usize, x: NumbersRef<'_>, sums: SliceMut<'_>) {
        let values = &self.values[first / k * self.n..];
        with_sums!(x, sums => multiply(k, DenseRows { n: self.n, values }, x, sums));
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::super::multivector_rows::Kernel;
    use super::*;
    use crate::backend::{Backend, Multivectors, Recurrence};
    use crate::context::Context;
    use crate::gallery;
    use crate::hash::hash;
    use crate::host::Host;
    use crate::sparse::Csr;

    /// Whole numbers, so that sums do not depend on their order.
    fn numbers<T: Number>(n: usize, seed: u64) -> Vec<T> {
        (0..n).map(|i| T::from_f64((hash(i, seed) % 17) as f64 - 8.0)).collect()
    }

    fn whole(mut a: Csr<f64>) -> Csr<f64> {
        a.values = numbers(a.values.len(), 1);
        a
    }

    fn host() -> Host {
        Host::new(&Context::new("host:2").unwrap())
    }

    /// Vector c of a multivector.
    fn vector<T: Copy>(x: &[T], k: usize, c: usize) -> Vec<T> {
        x[c..].iter().step_by(k).copied().collect()
    }

    /// Products and smoothing steps of each vector are those of the operator for one vector. D has blocks of `width` rows.
    fn check<V: Scalar>(a: Arc<dyn Operator<Host, V>>, width: usize) {
        let (host, n) = (host(), a.rows());
        for k in [4, 8] {
            let all = Arc::clone(&a).for_multivectors(k).unwrap();
            let what = format!("{} with {k} vectors in {}", a.format(), V::PRECISION.name());
            assert_eq!((all.rows(), all.vectors()), (n * k, k));
            let (x, b, p): (Vec<V>, Vec<V>, Vec<V>) = (numbers(n * k, 2), numbers(n * k, 3), numbers(n * k, 4));
            let (two, half) = (V::from_f64(2.0), V::from_f64(0.5));
            let (mut y, mut r, mut q) = (b.clone(), p.clone(), p.clone());
            all.apply(two, &x, half, &mut y).unwrap();
            all.residual(&b, &x, &mut r).unwrap();
            let dots = all.has_epilogue(1).then(|| host.multivector_product(&*all, &x, &mut q).unwrap());
            for c in 0..k {
                let (own_x, own_b) = (vector(&x, k, c), vector(&b, k, c));
                let mut own = own_b.clone();
                a.apply(two, &own_x, half, &mut own).unwrap();
                assert_eq!(vector(&y, k, c), own, "{what}");
                a.residual(&own_b, &own_x, &mut own).unwrap();
                assert_eq!(vector(&r, k, c), own, "{what}");
                a.apply(V::ONE, &own_x, V::ZERO, &mut own).unwrap();
                if let Some(dots) = dots {
                    assert_eq!(vector(&q, k, c), own, "{what}");
                    assert_eq!(dots[c], host.dot(&own_x, &own), "{what}");
                }
            }
            if !all.has_epilogue(width) {
                continue;
            }
            let d: Vec<V> = numbers(n * width, 5);
            let (mut swept, mut step, mut direction) = (b.clone(), b.clone(), p.clone());
            host.sweep(&*all, &d, &b, &x, &mut swept).unwrap();
            let recurrence = Recurrence::new(2.0, -1.0, &mut direction[..]);
            host.chebyshev(&*all, &d, &b, &x, recurrence, &mut step).unwrap();
            let (mut updated, mut turned) = (x.clone(), p.clone());
            let recurrence = Recurrence::new(2.0, -1.0, &mut turned[..]);
            host.chebyshev_update(k, &d, &r, recurrence, &mut updated, false);
            assert!(turned == direction && updated == step, "{what}");
            for c in 0..k {
                let (mut own, own_r) = (vector(&x, k, c), vector(&r, k, c));
                host.add_scaled_by(1, &d, &own_r, &mut own);
                assert_eq!(vector(&swept, k, c), own, "{what}");
                let (mut own, mut own_p) = (vector(&x, k, c), vector(&p, k, c));
                let recurrence = Recurrence::new(2.0, -1.0, &mut own_p[..]);
                host.chebyshev_update(1, &d, &own_r, recurrence, &mut own, false);
                assert_eq!((vector(&step, k, c), vector(&direction, k, c)), (own, own_p), "{what}");
            }
            let (mut set, mut added) = (b.clone(), b.clone());
            host.scale_by(k, &d, &x, &mut set);
            host.add_scaled_by(k, &d, &x, &mut added);
            assert!((0..n * k).all(|i| added[i] == set[i] + b[i]), "{what}");
        }
    }

    fn check_formats<S: Number, V: Scalar>() {
        let host = host();
        let mut formats = Vec::new();
        for a in [
            gallery::poisson7(9, 8, 7).unwrap(),
            gallery::poisson5(70, 3).unwrap().view().to_blocks(2).unwrap(),
            gallery::elasticity_hex8(3, gallery::Layers::NONE, true).unwrap().matrix,
            gallery::parse("random_m_matrix:300").unwrap().matrix,
        ] {
            let a = whole(a).into_shared().cast::<S>().unwrap();
            let width = a.view().block.rows;
            for stored in [Stored::new(&host, a.clone()), Stored::compact(&host, a).unwrap()] {
                formats.push(stored.format());
                check::<V>(Arc::new(stored), width);
            }
        }
        check::<V>(Arc::new(Dense::<S>::new(&host, 70, numbers(70 * 70, 6))), 1);
        let narrow = S::PRECISION != Precision::F64;
        assert_eq!(formats.iter().any(|f| f.starts_with("dia64")), narrow, "{formats:?}");
        assert_eq!(formats.iter().any(|f| f.starts_with("dia16")), narrow, "{formats:?}");
        assert_eq!(formats.iter().any(|f| f == "csr16"), narrow, "{formats:?}");
    }

    #[test]
    fn products_with_multivectors_are_those_of_their_vectors() {
        check_formats::<f64, f64>();
        check_formats::<f32, f32>();
        check_formats::<half::f16, f32>();
        check_formats::<half::bf16, f64>();
    }

    #[test]
    fn other_precisions_and_numbers_of_vectors_have_no_product() {
        let a = Arc::new(Stored::new(&host(), gallery::poisson5(4, 4).unwrap().into_shared()));
        let has = |k: usize| Operator::<Host, f64>::for_multivectors(Arc::clone(&a), k).is_some();
        assert_eq!([1, 2, 3, 4, 8, 16].map(has), [false, false, false, true, true, false]);
        assert!(Operator::<Host, f64, f32>::for_multivectors(Arc::clone(&a), 8).is_none());
        assert!(Operator::<Host, half::f16>::for_multivectors(a, 8).is_none());
    }

    #[test]
    fn wide_registers_and_portable_code_give_the_same_bits() {
        crate::host::testing::skip_without_avx512();
        let values: Vec<f64> = (0..40 * 9).map(|i| (i as f64).sin()).collect();
        let x: Vec<f64> = (0..9 * 8).map(|i| (i as f64).cos()).collect();
        let kernel = DenseRows { n: 9, values: &values };
        let (mut fast, mut slow) = (vec![0.0; 40 * 8], vec![0.0; 40 * 8]);
        multiply(8, DenseRows { n: 9, values: &values }, &x, &mut fast);
        kernel.run::<8>(x.as_chunks().0, slow.as_chunks_mut().0);
        assert_eq!(fast, slow);
    }

    #[test]
    fn vectors_are_put_and_taken_with_a_factor() {
        let host = host();
        let mut x = vec![0.0; 12];
        host.put_vector((4, 1), 2.0, &[1.0_f32, 2.0, 3.0], &mut x).unwrap();
        assert_eq!(x, [0.0, 2.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0]);
        let mut v = [0.0; 3];
        host.take_vector((4, 1), 0.5, &x, &mut v).unwrap();
        assert_eq!(v, [1.0, 2.0, 3.0]);
        // A vector with α or β of 0 does not see what is not finite.
        let (alpha, mut r) = ([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0], vec![3.0; 4]);
        let (p, mut x) = (vec![1.0, f64::NAN, 2.0, 3.0], vec![1.0; 4]);
        let rr = host.multivector_step(4, &alpha, (&p, &p), &mut x, &mut r).unwrap();
        assert_eq!(
            (&x[..], &r[..], &rr[..4]),
            (&[2.0, 1.0, 3.0, 4.0][..], &[2.0, 3.0, 1.0, 0.0][..], &[4.0, 9.0, 1.0, 0.0][..])
        );
        let mut p = p;
        host.multivector_direction(4, &x, &alpha, &mut p).unwrap();
        assert_eq!(p, [3.0, 1.0, 5.0, 7.0]);
        let (zr, zq) = host.multivector_dots(4, &x, &p, Some(&r)).unwrap();
        assert_eq!((&zr[..4], &zq[..4]), (&[6.0, 1.0, 15.0, 28.0][..], &[4.0, 3.0, 3.0, 0.0][..]));
    }
}

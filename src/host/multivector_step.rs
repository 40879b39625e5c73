//! Operations on multivectors: diagonals, fused smoothing steps, and those of conjugate gradients.

use super::Host;
use super::multivector::Products;
use super::registers::widely;
use super::simd::MAX_BLOCK;
use crate::backend::{MAX_VECTORS, Multivectors, Operator, PerVector, Recurrence};
use crate::error::Result;
use crate::par;
use crate::scalar::{Number, Scalar};
use std::ops::Range;

/// Elements of a multivector that are in the cache between two operations on them.
const PIECE: usize = 512;

/// A diagonal, or square blocks, for multivectors of `k` vectors.
#[derive(Clone, Copy)]
pub struct Diagonal<'a, S> {
    k: usize,
    width: usize,
    d: &'a [S],
}

impl<'a, S: Number> Diagonal<'a, S> {
    /// For multivectors of so many elements.
    pub fn new(k: usize, d: &'a [S], length: usize) -> Diagonal<'a, S> {
        let width = (d.len() * k / length.max(1)).max(1);
        assert!(d.len() * k == width * length && width <= MAX_BLOCK);
        Diagonal { k, width, d }
    }

    /// Elements of one block.
    fn step(&self) -> usize {
        self.k * self.width
    }

    /// Replaces r, whose first element is number `first`, by D r.
    #[inline(always)]
    fn scale<W: Scalar>(&self, first: usize, r: &mut [W]) {
        match self.k {
            8 => self.scale_rows::<8, W>(first, r.as_chunks_mut().0),
            4 => self.scale_rows::<4, W>(first, r.as_chunks_mut().0),
            _ => unreachable!("multivectors have 4 or 8 vectors"),
        }
    }

    #[inline(always)]
    fn scale_rows<const K: usize, W: Scalar>(&self, first: usize, r: &mut [[W; K]]) {
        let (width, d) = (self.width, &self.d[first / K * self.width..]);
        if width == 1 {
            for (r, d) in r.iter_mut().zip(d) {
                let d: W = d.cast();
                for r in r {
                    *r = d * *r;
                }
            }
            return;
        }
        for (r, d) in r.chunks_exact_mut(width).zip(d.chunks_exact(width * width)) {
            let mut dr = [[W::ZERO; K]; MAX_BLOCK];
            for (dr, d) in dr.iter_mut().zip(d.chunks_exact(width)) {
                for (d, r) in d.iter().zip(&*r) {
                    let d: W = d.cast();
                    for c in 0..K {
                        dr[c] += d * r[c];
                    }
                }
            }
            r.copy_from_slice(&dr[..width]);
        }
    }

    /// Gives pieces of x, whose first element is number `start`, and D x of them to `store`.
    #[inline(always)]
    fn each<T: Number>(&self, start: usize, x: &[T], mut store: impl FnMut(Range<usize>, &[T::Wide])) {
        let mut dx = [T::Wide::ZERO; PIECE];
        let size = PIECE / self.step() * self.step();
        for first in (0..x.len()).step_by(size) {
            let piece = first..(first + size).min(x.len());
            let dx = &mut dx[..piece.len()];
            dx.iter_mut().zip(&x[piece.clone()]).for_each(|(dx, x)| *dx = x.widen());
            self.scale(start + first, dx);
            store(piece, dx);
        }
    }

    /// Gives each element of y that of D x.
    pub fn apply<T: Number>(
        &self,
        host: &Host,
        x: &[T],
        y: &mut [T],
        epilogue: impl Fn(T::Wide, &mut T) + Sync + Send,
    ) {
        host.run(y.len(), || {
            par::for_each_mut(y, par::GRAIN.next_multiple_of(self.step()), |start, y| {
                widely(
                    #[inline(always)]
                    || {
                        self.each(
                            start,
                            &x[start..start + y.len()],
                            #[inline(always)]
                            |piece, dx| {
                                y[piece].iter_mut().zip(dx).for_each(|(y, dx)| epilogue(*dx, y));
                            },
                        );
                    },
                );
            });
        });
    }
}

/// As [`crate::backend::Backend::chebyshev_update`].
pub fn chebyshev_update<V: Number, S: Number>(
    host: &Host,
    d: Diagonal<'_, S>,
    r: &[V],
    recurrence: Recurrence<'_, [V]>,
    x: &mut [V],
    zero_guess: bool,
) {
    let Recurrence { alpha, beta, p, .. } = recurrence;
    let (alpha, beta) = (V::Wide::from_f64(alpha), V::Wide::from_f64(beta));
    host.run(x.len(), || {
        par::for_each_mut2(p, x, par::GRAIN.next_multiple_of(d.step()), |start, p, x| {
            widely(
                #[inline(always)]
                || {
                    d.each(
                        start,
                        &r[start..start + x.len()],
                        #[inline(always)]
                        |piece, dr| {
                            update_direction(dr, beta, &mut p[piece.clone()]);
                            for (x, p) in x[piece.clone()].iter_mut().zip(&p[piece]) {
                                let before = if zero_guess { V::Wide::ZERO } else { x.widen() };
                                *x = V::narrow(before + alpha * p.widen());
                            }
                        },
                    );
                },
            );
        });
    });
}

/// p = dr + β p; p is not read when β is 0.
#[inline(always)]
fn update_direction<V: Number>(dr: &[V::Wide], beta: V::Wide, p: &mut [V]) {
    if beta == V::Wide::ZERO {
        p.iter_mut().zip(dr).for_each(|(p, dr)| *p = V::narrow(*dr));
    } else {
        p.iter_mut().zip(dr).for_each(|(p, dr)| *p = V::narrow(*dr + beta * p.widen()));
    }
}

/// Replaces A x, from element `first` on, by D (b - A x).
#[inline(always)]
fn scaled_residual<V: Number, S: Number>(d: &Diagonal<'_, S>, b: &[V], first: usize, ax: &mut [V::Wide]) {
    ax.iter_mut().zip(&b[first..]).for_each(|(ax, b)| *ax = b.widen() - *ax);
    d.scale(first, ax);
}

/// As [`crate::backend::Backend::sweep`].
pub fn sweep<V: Number, S: Number>(a: &dyn Operator<Host, V>, d: &[S], b: &[V], x: &[V], y: &mut [V]) -> Result<()> {
    let d = Diagonal::new(a.vectors(), d, x.len());
    let store = &mut |products: &Products<'_>| {
        par::for_each_mut(y, products.grain(), |start, y| {
            products.each(
                start..start + y.len(),
                #[inline(always)]
                |group, sums| {
                    scaled_residual(&d, b, group.start, sums);
                    let y = &mut y[group.start - start..group.end - start];
                    for ((y, x), dr) in y.iter_mut().zip(&x[group]).zip(sums) {
                        *y = V::narrow(x.widen() + *dr);
                    }
                },
            );
        });
    };
    a.apply_with_epilogue(x, store).map(|_| ())
}

/// As [`crate::backend::Backend::chebyshev`].
pub fn chebyshev<V: Number, S: Number>(
    a: &dyn Operator<Host, V>,
    d: &[S],
    b: &[V],
    x: &[V],
    recurrence: Recurrence<'_, [V]>,
    y: &mut [V],
) -> Result<()> {
    let d = Diagonal::new(a.vectors(), d, x.len());
    let Recurrence { alpha, beta, p, of_x, .. } = recurrence;
    let (alpha, beta) = (V::Wide::from_f64(alpha), V::Wide::from_f64(beta));
    let store = &mut |products: &Products<'_>| {
        par::for_each_mut2(y, p, products.grain(), |start, y, p| {
            products.each(
                start..start + y.len(),
                #[inline(always)]
                |group, sums| {
                    scaled_residual(&d, b, group.start, sums);
                    let here = group.start - start..group.end - start;
                    let p = &mut p[here.clone()];
                    if of_x {
                        p.copy_from_slice(&x[group.clone()]);
                    }
                    update_direction(sums, beta, p);
                    for ((y, x), p) in y[here].iter_mut().zip(&x[group]).zip(p) {
                        *y = V::narrow(x.widen() + alpha * p.widen());
                    }
                },
            );
        });
    };
    a.apply_with_epilogue(x, store).map(|_| ())
}

/// As [`crate::backend::Backend::add_product`].
pub fn add_product<X: Number, Y: Number>(
    a: &dyn Operator<Host, X, Y>,
    alpha: Y::Wide,
    x: &[X],
    z: &[Y],
    y: &mut [Y],
) -> Result<()> {
    assert_eq!(z.len(), y.len());
    let store = &mut |products: &Products<'_>| {
        par::for_each_mut(y, products.grain(), |start, y| {
            products.each::<Y::Wide>(
                start..start + y.len(),
                #[inline(always)]
                |group, sums| {
                    let y = &mut y[group.start - start..group.end - start];
                    for ((y, z), ax) in y.iter_mut().zip(&z[group]).zip(sums) {
                        *y = Y::narrow(z.widen() + alpha * *ax);
                    }
                },
            );
        });
    };
    a.apply_with_epilogue(x, store).map(|_| ())
}

/// Runs `$work::<K>` for the number of vectors.
macro_rules! with_vectors {
    ($k:expr, $work:ident($($argument:expr),*)) => {
        match $k {
            8 => $work::<8, _>($($argument),*),
            4 => $work::<4, _>($($argument),*),
            _ => unreachable!("multivectors have 4 or 8 vectors"),
        }
    };
}

/// The sums of K vectors among those of all.
fn widened<const K: usize>(sums: [f64; K]) -> PerVector {
    std::array::from_fn(|c| if c < K { sums[c] } else { 0.0 })
}

/// Adds x·y of each vector.
#[inline(always)]
fn add_dots<const K: usize, T: Number>(x: &[T], y: &[T], sums: &mut [f64; K]) {
    for (x, y) in x.as_chunks::<K>().0.iter().zip(y.as_chunks::<K>().0) {
        for c in 0..K {
            sums[c] += x[c].to_f64() * y[c].to_f64();
        }
    }
}

#[inline(always)]
fn dots<const K: usize, T: Scalar>(z: &[T], r: &[T], q: Option<&[T]>, range: Range<usize>) -> [f64; 2 * MAX_VECTORS] {
    let (mut zr, mut zq) = ([0.0; K], [0.0; K]);
    let z = &z[range.clone()];
    add_dots(z, &r[range.clone()], &mut zr);
    if let Some(q) = q {
        add_dots(z, &q[range], &mut zq);
    }
    let both = [widened(zr), widened(zq)];
    std::array::from_fn(|c| both[c / MAX_VECTORS][c % MAX_VECTORS])
}

#[inline(always)]
fn add_to_direction<const K: usize, T: Scalar>(z: &[T], beta: &PerVector, p: &mut [T]) {
    let beta: [T; K] = std::array::from_fn(|c| T::from_f64(beta[c]));
    for (p, z) in p.as_chunks_mut::<K>().0.iter_mut().zip(z.as_chunks::<K>().0) {
        for c in 0..K {
            p[c] = if beta[c] == T::ZERO { z[c] } else { z[c] + beta[c] * p[c] };
        }
    }
}

fn dots_of_product<const K: usize, T: Scalar>(
    products: &Products<'_>,
    (p, q): (&[T], &mut [T]),
    start: usize,
) -> PerVector {
    let mut sums = [0.0; K];
    products.each(
        start..start + q.len(),
        #[inline(always)]
        |group, ax| {
            q[group.start - start..group.end - start].copy_from_slice(ax);
            add_dots(&p[group], ax, &mut sums);
        },
    );
    widened(sums)
}

#[inline(always)]
fn step<const K: usize, T: Scalar>(alpha: &PerVector, (p, q): (&[T], &[T]), (x, r): (&mut [T], &mut [T])) -> PerVector {
    let alpha: [T; K] = std::array::from_fn(|c| T::from_f64(alpha[c]));
    let mut sums = [0.0; K];
    let (p, q) = (p.as_chunks::<K>().0, q.as_chunks::<K>().0);
    let (x, r) = (x.as_chunks_mut::<K>().0, r.as_chunks_mut::<K>().0);
    for (((x, r), p), q) in x.iter_mut().zip(r).zip(p).zip(q) {
        for c in 0..K {
            let has_step = alpha[c] != T::ZERO;
            x[c] = if has_step { x[c] + alpha[c] * p[c] } else { x[c] };
            r[c] = if has_step { r[c] - alpha[c] * q[c] } else { r[c] };
            sums[c] += r[c].to_f64() * r[c].to_f64();
        }
    }
    widened(sums)
}

impl Multivectors for Host {
    fn put_vector<V: Scalar, T: Scalar>(
        &self,
        (k, c): (usize, usize),
        factor: f64,
        v: &[V],
        x: &mut [T],
    ) -> Result<()> {
        assert_eq!(k * v.len(), x.len());
        self.run(v.len(), || {
            par::for_each_row_mut(x, k, par::GRAIN / k, |start, x| {
                let elements = x[c..].iter_mut().step_by(k);
                elements.zip(&v[start..]).for_each(|(x, v)| *x = T::from_f64(factor * v.to_f64()));
            });
        });
        Ok(())
    }

    fn take_vector<T: Scalar>(&self, (k, c): (usize, usize), factor: f64, x: &[T], v: &mut [T]) -> Result<()> {
        assert_eq!(k * v.len(), x.len());
        self.run(v.len(), || {
            par::for_each_mut(v, par::GRAIN, |start, v| {
                let elements = x[start * k + c..].iter().step_by(k);
                v.iter_mut().zip(elements).for_each(|(v, x)| *v = T::from_f64(factor * x.to_f64()));
            });
        });
        Ok(())
    }

    fn multivector_dots<T: Scalar>(
        &self,
        k: usize,
        z: &[T],
        r: &[T],
        q: Option<&[T]>,
    ) -> Result<(PerVector, PerVector)> {
        assert!(z.len() == r.len() && q.is_none_or(|q| q.len() == z.len()));
        let both = self.run(z.len(), || {
            par::sums(z.len(), par::GRAIN, |range| {
                widely(
                    #[inline(always)]
                    || with_vectors!(k, dots(z, r, q, range.clone())),
                )
            })
        });
        Ok((std::array::from_fn(|c| both[c]), std::array::from_fn(|c| both[MAX_VECTORS + c])))
    }

    fn multivector_direction<T: Scalar>(&self, k: usize, z: &[T], beta: &PerVector, p: &mut [T]) -> Result<()> {
        assert_eq!(z.len(), p.len());
        self.run(z.len(), || {
            par::for_each_mut(p, par::GRAIN, |start, p| {
                widely(
                    #[inline(always)]
                    || with_vectors!(k, add_to_direction(&z[start..], beta, p)),
                )
            });
        });
        Ok(())
    }

    fn multivector_product<T: Scalar>(&self, a: &dyn Operator<Host, T>, p: &[T], q: &mut [T]) -> Result<PerVector> {
        assert_eq!(p.len(), q.len());
        let mut dots = [0.0; MAX_VECTORS];
        let store = &mut |products: &Products<'_>| {
            dots = par::sums_mut(q, products.grain(), |start, q| {
                with_vectors!(a.vectors(), dots_of_product(products, (p, q), start))
            });
        };
        a.apply_with_epilogue(p, store)?;
        Ok(dots)
    }

    fn multivector_step<T: Scalar>(
        &self,
        k: usize,
        alpha: &PerVector,
        (p, q): (&[T], &[T]),
        x: &mut [T],
        r: &mut [T],
    ) -> Result<PerVector> {
        assert!(p.len() == x.len() && q.len() == x.len());
        Ok(self.run(x.len(), || {
            par::sums_mut2(x, r, par::GRAIN, |start, x, r| {
                widely(
                    #[inline(always)]
                    || with_vectors!(k, step(alpha, (&p[start..], &q[start..]), (&mut *x, &mut *r))),
                )
            })
        }))
    }
}

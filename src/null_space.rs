//! Null-space projection for singular systems: an orthonormal basis of the null space that the options name, checked against the matrix.

use crate::backend::{Backend, Operator, StorageFactory};
use crate::error::{Result, fail, try_capacity, try_copy, try_vec};
use crate::hash::hash;
use crate::host::Host;
use crate::matrix::Matrix;
use crate::scalar::{Precision, Scalar};

/// A vector is linearly dependent when orthogonalisation leaves at most this share of its norm.
const DEPENDENCE_TOLERANCE: f64 = 1e-8;

/// The null space of the matrix of a solver.
pub(crate) struct NullSpace<B: Backend, T: Scalar> {
    /// Orthonormal vectors; the first k span the same space as the first k input vectors.
    pub basis: Vec<B::Buffer<T>>,
    /// The projected right-hand side.
    pub b: B::Buffer<T>,
    rows: usize,
}

impl<B: StorageFactory, T: Scalar> NullSpace<B, T> {
    /// The null space that `solver.null_space` names for a system of `rows` rows; `None` for "none". The basis is orthonormalised on
    /// the host and stored on the backend.
    pub fn new(
        backend: &B,
        host: &Host,
        name: &str,
        rows: usize,
        matrix: Option<&Matrix>,
    ) -> Result<Option<NullSpace<B, T>>> {
        let vectors = match (name, matrix.and_then(Matrix::near_null_space)) {
            ("constant", _) => try_vec(backend.whole(rows), 1.0)?,
            ("near_null_space", Some(space)) => try_copy(&space.vectors)?,
            ("near_null_space", None) => {
                return fail!(
                    OptionValue,
                    "solver.null_space is \"near_null_space\", but no near-null space was given; set vectors or coordinates of \
                     the matrix before set-up"
                );
            }
            _ => return Ok(None),
        };
        let basis = orthonormal(host, backend.whole(rows), vectors)?;
        let basis = basis.into_iter().map(|v| backend.array(v)).collect::<Result<_>>()?;
        Ok(Some(NullSpace { basis, b: backend.zeros(rows)?, rows }))
    }

    /// Fails when `a` does not map the vectors to zero. An error in a vector stays in every solution, so the tolerance is the square root of the unit
    /// roundoff.
    pub fn check(&self, backend: &B, a: &dyn Operator<B, T>) -> Result<()> {
        let n = backend.whole(self.rows);
        let mut x = try_vec(n, T::ZERO)?;
        for (i, x) in x.iter_mut().enumerate() {
            *x = if hash(i, 0).is_multiple_of(2) { T::ONE } else { -T::ONE };
        }
        let (x, mut y) = (backend.array(x)?, backend.zeros(self.rows)?);
        a.apply(T::ONE, &x, T::ZERO, &mut y)?;
        let random = backend.norm(&y) / (n as f64).sqrt();
        let stored = if a.precision() == Precision::F32 { f64::from(f32::EPSILON) } else { f64::EPSILON };
        let accepted = stored.max(T::EPSILON.to_f64()).sqrt();
        for (k, v) in self.basis.iter().enumerate() {
            a.apply(T::ONE, v, T::ZERO, &mut y)?;
            let residual = backend.norm(&y) / random;
            if residual > accepted {
                return fail!(
                    OptionValue,
                    "null-space vector {k} of {} is not one that the matrix maps to zero: |Av|/|v| is {residual:.1e} of what it \
                     is for a random vector; accepted: up to {accepted:.1e} (option solver.null_space)",
                    self.basis.len()
                );
            }
        }
        Ok(())
    }

    /// Elements held.
    pub fn len(&self) -> usize {
        (self.basis.len() + 1) * self.rows
    }
}

/// An orthonormal basis of the span of `vectors`, each of `rows` elements, by modified Gram-Schmidt in f64 with reorthogonalisation: a single pass
/// loses orthogonality for nearly parallel vectors.
fn orthonormal<T: Scalar>(host: &Host, rows: usize, mut vectors: Vec<f64>) -> Result<Vec<Vec<T>>> {
    let mut basis = Vec::new();
    if rows == 0 {
        return Ok(basis);
    }
    for k in 0..vectors.len() / rows {
        let (done, rest) = vectors.split_at_mut(k * rows);
        let v = &mut rest[..rows];
        let before = host.norm(v);
        for _ in 0..2 {
            for q in done.chunks_exact(rows) {
                let share = host.dot(q, v);
                host.axpby(-share, q, 1.0, v);
            }
        }
        let left = host.norm(v);
        if left.is_nan() || left <= DEPENDENCE_TOLERANCE * before {
            return fail!(
                OptionValue,
                "null-space vector {k} is a linear combination of those before it ({:.1e} of its norm is left); accepted: \
                 linearly independent vectors (option solver.null_space)",
                left / before
            );
        }
        host.scale(1.0 / left, v);
        let mut q = try_capacity(rows)?;
        q.extend(v.iter().map(|x| T::from_f64(*x)));
        basis.push(q);
    }
    Ok(basis)
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::host::operator::Stored;
    use crate::sparse::Csr;

    fn host() -> Host {
        Host::new(&Context::new("host:1").unwrap())
    }

    #[test]
    fn bases_are_orthonormal_and_nested() {
        let vectors = vec![0.0, 3.0, 0.0, 4.0, 1.0, 0.0, 1.0, 1.0, -2.0];
        let basis: Vec<Vec<f64>> = orthonormal(&host(), 3, vectors).unwrap();
        assert_eq!(basis, [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]);
    }

    #[test]
    fn dependent_vectors_are_refused_by_number() {
        let vectors = vec![1.0, 2.0, 3.0, 0.0, 1.0, 1.0, 2.0, 5.0, 7.0 + 1e-12];
        let error = orthonormal::<f64>(&host(), 3, vectors).unwrap_err();
        assert!(error.message.contains("vector 2 is a linear combination"), "{error}");
        // More vectors than rows cannot be independent.
        assert!(orthonormal::<f64>(&host(), 1, vec![1.0, 1.0]).is_err());
        assert!(orthonormal::<f64>(&host(), 0, vec![]).unwrap().is_empty());
    }

    #[test]
    fn vectors_that_are_not_mapped_to_zero_are_refused_by_number() {
        // Two chains of two unknowns, the second with a coupling to something fixed.
        let t = [
            (0, 0, 1.0),
            (0, 1, -1.0),
            (1, 0, -1.0),
            (1, 1, 1.0),
            (2, 2, 1.0),
            (2, 3, -1.0),
            (3, 2, -1.0),
            (3, 3, 1.0 + 1e-6),
        ];
        let a = Csr::from_triplets(4, 4, &t).unwrap();
        let space = |vectors| {
            let basis = orthonormal(&host(), 4, vectors).unwrap();
            NullSpace::<Host, f64> { basis, b: vec![0.0; 4], rows: 4 }
        };
        let a = Stored::new(&host(), a.into_shared());
        space(vec![2.0, 2.0, 0.0, 0.0]).check(&host(), &a).unwrap();
        let error = space(vec![2.0, 2.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]).check(&host(), &a).unwrap_err();
        assert!(error.message.contains("vector 1 of 2") && error.message.contains("e-7"), "{error}");
    }
}

//! The coarse matrix R A P on the device, computed as R (A P) with the bits of [`crate::amg::galerkin`]. A P is only a factor: its rows are in no
//! order, and wherever there was room for them.

use super::DeviceCsr;
use super::spgemm::{Found, Pattern, Product, Right, Room};
use crate::error::Result;
use crate::gpu::{Buffer, Gpu};
use crate::scalar::Number;
use std::sync::Arc;

/// What a renewal of a product goes by; it depends on patterns alone.
pub(crate) struct Recipe {
    way: Way,
    coarse: Pattern,
}

/// How A P is computed.
enum Way {
    /// Rows begin there, in room for so many entries, and most suit this table; they have about so many entries.
    Found { begins: Buffer<i64>, room: Room, table: usize, length: usize },
    /// Blocks, and rows that are too long.
    Known(Pattern),
}

impl Recipe {
    /// Bytes held, besides those that the coarse matrix shares.
    pub fn bytes(&self) -> usize {
        match &self.way {
            Way::Found { begins, .. } => size_of::<i64>() * begins.len(),
            Way::Known(ap) => size_of::<i64>() * ap.offsets.len() + size_of::<i32>() * ap.columns.len(),
        }
    }
}

/// R A P with ones for zeros on the diagonal, and what renews it. Zeros come from surplus columns of a tentative prolongator, whose coarse unknowns
/// are coupled to nothing: the unit row keeps them at zero.
pub(crate) fn product<T: Number>(
    gpu: &Gpu,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<(DeviceCsr<T>, Recipe)> {
    let ap = Product::new(gpu, a, Right::of(p));
    if ap.is_scalar() {
        let sample = ap.sample()?;
        let mut room = sample.room(a.rows);
        let length = sample.mean.ceil() as usize;
        loop {
            let found = ap.found(sample.table, room, false)?;
            let product = Product::new(gpu, r, right_of(&ap, a.rows, &found, length));
            let (coarse_sample, fate) = product.sample_of(&found)?;
            if fate.too_long > 0 {
                break;
            }
            if fate.missed > 0 {
                room = room.enlarged(&fate);
                continue;
            }
            let (coarse, pattern) = product.sorted_by(coarse_sample, true)?;
            let way = Way::Found { begins: found.begins, room, table: sample.table, length };
            return Ok((coarse, Recipe { way, coarse: pattern }));
        }
    }
    let (ap, ap_pattern) = ap.sorted(false)?;
    let (coarse, pattern) = Product::new(gpu, r, Right::of(&ap)).sorted(true)?;
    Ok((coarse, Recipe { way: Way::Known(ap_pattern), coarse: pattern }))
}

/// The values of R A P for factors with the patterns of the recipe. Waits for nothing.
pub(crate) fn renew<T: Number>(
    gpu: &Gpu,
    recipe: &Recipe,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<Buffer<T>> {
    let ap = Product::new(gpu, a, Right::of(p));
    match &recipe.way {
        Way::Found { begins, room, table, length } => {
            let found = ap.found_again(*table, *room, begins)?;
            Product::new(gpu, r, right_of(&ap, a.rows, &found, *length)).known(&recipe.coarse, true)
        }
        Way::Known(pattern) => {
            let values = Arc::new(ap.known(pattern, false)?);
            let (offsets, columns) = (Arc::clone(&pattern.offsets), Arc::clone(&pattern.columns));
            let ap = DeviceCsr { rows: a.rows, cols: p.cols, block: ap.block(), offsets, columns, values };
            Product::new(gpu, r, Right::of(&ap)).known(&recipe.coarse, true)
        }
    }
}

/// A P as the right factor, with rows of about this length.
fn right_of<'a, T: Number>(ap: &Product<'_, T>, rows: usize, found: &'a Found<T>, length: usize) -> Right<'a, T> {
    let (begins, ends) = (found.begins.piece(0, rows), found.ends.piece(0, rows));
    let (columns, values) = (&*found.columns, &*found.values);
    Right { rows, cols: ap.cols(), block: ap.block(), begins, ends, columns, values, length }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{problems, random};
    use super::super::transpose::transpose;
    use super::*;
    use crate::amg::galerkin as host;
    use crate::gpu::tests::devices;
    use crate::host::transpose as host_transpose;
    use crate::scalar::Scalar;
    use crate::sparse::{Block, Csr};

    fn same_as_the_host<T: Scalar>(gpu: &Gpu, a: &Csr<T>, p: &Csr<T>, what: &str) -> Recipe {
        let r = host_transpose::transpose(&p.view()).unwrap();
        let expected = |a: &Csr<T>| {
            let p = p.clone().into_shared();
            host::product(&r.view(), &a.view(), &p, None).unwrap()
        };
        let upload = |a: &Csr<T>| DeviceCsr::upload(gpu, &a.view()).unwrap();
        let there = upload(p);
        let restriction = transpose(gpu, &there).unwrap();
        let (coarse, recipe) = product(gpu, &restriction, &upload(a), &there).unwrap();
        let (coarse, same) = (coarse.fetch(gpu).unwrap(), expected(a));
        assert_eq!((&coarse.offsets[..], &coarse.columns[..]), same.structure.own_arrays(), "{what}");
        assert_eq!(coarse.values, same.values.as_slice(), "{what}");
        let other = Csr { values: a.values.iter().map(|v| *v * T::from_f64(0.3)).collect(), ..a.clone() };
        for a in [&other, a, &other] {
            let renewed = renew(gpu, &recipe, &restriction, &upload(a), &there).unwrap();
            assert_eq!(gpu.fetch(&renewed).unwrap(), expected(a).values.as_slice(), "{what}");
        }
        recipe
    }

    #[test]
    fn coarse_matrices_are_those_of_the_host() {
        for gpu in devices() {
            for (name, a) in problems() {
                let mut p = random(a.rows, a.rows / 3, 4, Block::SCALAR, 7);
                let recipe = same_as_the_host(&gpu, &a, &p, &name);
                assert!(matches!(recipe.way, Way::Found { .. }), "{name}");
                assert_eq!(recipe.bytes(), 8 * a.rows, "{name}");
                // Surplus columns, which leave zeros on the diagonal.
                p.values.iter_mut().zip(&p.columns).filter(|(_, j)| **j % 5 == 0).for_each(|(v, _)| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, &name);
                let (a, p) = (a.view().to_owned_as::<f32>().unwrap(), p.view().to_owned_as::<f32>().unwrap());
                same_as_the_host(&gpu, &a, &p, &name);
            }
        }
    }

    #[test]
    fn a_row_that_fits_no_table_has_a_coarse_matrix() {
        let (rows, own) = (16, 200);
        let dense = (0..rows).map(|j| (3, j, 1.0 + j as f64));
        let diagonal = (0..rows).filter(|i| *i != 3).map(|i| (i, i, 2.0 + i as f64 / 3.0));
        let a = Csr::from_triplets(rows, rows, &dense.chain(diagonal).collect::<Vec<_>>()).unwrap();
        let p: Vec<_> = (0..rows * own).map(|j| (j / own, j, 0.1 * (j % 7) as f64 - 0.25)).collect();
        let p = Csr::from_triplets(rows, rows * own, &p).unwrap();
        let recipe = same_as_the_host(&devices()[0], &a, &p, "a long row");
        assert!(matches!(recipe.way, Way::Known(_)));
    }

    #[test]
    fn blocks_have_coarse_matrices() {
        for gpu in devices() {
            for (block, other) in [(Block::square(3), Block::square(3)), (Block::square(3), Block { rows: 3, cols: 6 })]
            {
                let (a, p) = (random(80, 80, 7, block, 1), random(80, 30, 4, other, 2));
                same_as_the_host(&gpu, &a, &p, "blocks");
                let mut p = p;
                p.values.iter_mut().step_by(other.cols).for_each(|v| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, "blocks with empty columns");
            }
            let (a, p) = (random(0, 0, 0, Block::SCALAR, 1), random(0, 0, 0, Block::SCALAR, 2));
            same_as_the_host(&gpu, &a, &p, "nothing");
        }
    }
}

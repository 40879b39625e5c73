//! The coarse matrix R A P on the device, computed as R (A P) with the bits of [`crate::amg::galerkin`]. A P is only a factor: its rows are in no
//! order, and where bounds of their lengths leave room, so that nothing is counted before it is computed.

use super::DeviceCsr;
use super::bins::Bins;
use super::places::{Places, Rows};
use super::spgemm::{Pattern, Product, Right};
use crate::context::lock;
use crate::error::Result;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use std::sync::{Arc, Mutex};

/// Room for A P is at most this many times what A, P and R take.
const MOST_ROOM: usize = 3;

/// What a renewal of a product goes by; it depends on patterns alone.
pub(crate) struct Recipe {
    way: Way,
    coarse: Pattern,
    terms: Mutex<Terms>,
}

/// Where terms go, which the first renewal finds, because most hierarchies are never renewed.
#[derive(Clone)]
enum Terms {
    NotLookedFor,
    /// Where the rows of A P end, and the places of the terms of A P and of R (A P).
    Found(Arc<(Buffer<i64>, Places, Places)>),
    /// Rows are too long.
    None,
}

/// How A P is computed.
enum Way {
    /// Rows begin at these offsets, in room for so many entries.
    AsFound { begins: Buffer<i64>, bins: Bins, room: usize },
    /// Blocks, and rows that are too long.
    Known(Pattern),
}

impl Recipe {
    fn new(way: Way, coarse: Pattern) -> Recipe {
        Recipe { way, coarse, terms: Mutex::new(Terms::NotLookedFor) }
    }

    /// Bytes held, besides those that the coarse matrix shares.
    pub fn bytes(&self) -> usize {
        let offsets = |offsets: &Slice<i64>| size_of::<i64>() * offsets.len();
        let way = match &self.way {
            Way::AsFound { begins, bins, .. } => offsets(begins) + bins.bytes(),
            Way::Known(ap) => offsets(&ap.offsets) + size_of::<i32>() * ap.columns.len() + ap.bins.bytes(),
        };
        let terms = match &*lock(self.terms.lock()) {
            Terms::Found(found) => offsets(&found.0) + found.1.bytes() + found.2.bytes(),
            _ => 0,
        };
        way + self.coarse.bins.bytes() + terms
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
    if let Some((begins, bins, room)) = room_for(gpu, &ap, r, a, p)? {
        let (coarse, pattern) = times_found(gpu, r, &ap, (&begins, &bins, room), |product| product.sorted(true))?;
        return Ok((coarse, Recipe::new(Way::AsFound { begins, bins, room }, pattern)));
    }
    let (ap, ap_pattern) = ap.sorted(false)?;
    let (coarse, pattern) = Product::new(gpu, r, Right::of(&ap)).sorted(true)?;
    Ok((coarse, Recipe::new(Way::Known(ap_pattern), pattern)))
}

/// The values of R A P for factors with the patterns of the recipe. Waits for nothing but in the first renewal.
pub(crate) fn renew<T: Number>(
    gpu: &Gpu,
    recipe: &Recipe,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<Buffer<T>> {
    let ap = Product::new(gpu, a, Right::of(p));
    match &recipe.way {
        Way::AsFound { begins, bins, room } => {
            let mut terms = lock(recipe.terms.lock());
            if matches!(&*terms, Terms::NotLookedFor) {
                *terms = find_terms(gpu, r, &ap, (begins, bins, *room), &recipe.coarse)?;
            }
            let Terms::Found(found) = terms.clone() else {
                return times_found(gpu, r, &ap, (begins, bins, *room), |product| product.known(&recipe.coarse, true));
            };
            drop(terms);
            let (ends, ap_places, places) = &*found;
            let nothing = recipe.coarse.columns.piece(0, 0);
            let rows = Rows { begins: begins.piece(0, a.rows), ends: ends.piece(0, a.rows), columns: &nothing };
            let values = ap_places.renew(&ap, &rows, *room, false)?;
            let right = right_of(&ap, a.rows, (begins, ends), (&nothing, &values));
            let product = Product::new(gpu, r, right);
            places.renew(&product, &rows_of(&recipe.coarse), recipe.coarse.columns.len(), true)
        }
        Way::Known(pattern) => {
            let values = Arc::new(ap.known(pattern, false)?);
            let (offsets, columns) = (Arc::clone(&pattern.offsets), Arc::clone(&pattern.columns));
            let ap = DeviceCsr { rows: a.rows, cols: p.cols, block: ap.block(), offsets, columns, values };
            Product::new(gpu, r, Right::of(&ap)).known(&recipe.coarse, true)
        }
    }
}

/// Where rows of A P can be put by the bounds of their lengths, the tables that they need, and the room; none for blocks, rows that are too
/// long, and where much more memory would be needed than for the factors.
fn room_for<T: Number>(
    gpu: &Gpu,
    ap: &Product<'_, T>,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<Option<(Buffer<i64>, Bins, usize)>> {
    if !ap.is_scalar() {
        return Ok(None);
    }
    let bounds = ap.bounds()?;
    let begins = gpu.offsets_alone(&bounds)?;
    let found = ap.bins_of_bounds(&bounds, &begins)?;
    let most = MOST_ROOM * (a.nnz() + p.nnz() + r.nnz());
    Ok(found.filter(|(_, room)| *room <= most).map(|(bins, room)| (begins, bins, room)))
}

/// Lets `work` compute R (A P), with rows of A P that begin where they are said to.
fn times_found<T: Number, O>(
    gpu: &Gpu,
    r: &DeviceCsr<T>,
    ap: &Product<'_, T>,
    (begins, bins, room): (&Slice<i64>, &Bins, usize),
    work: impl FnOnce(&Product<'_, T>) -> Result<O>,
) -> Result<O> {
    let found = ap.as_found(begins, bins, room)?;
    work(&Product::new(gpu, r, right_of(ap, r.cols, (begins, &found.ends), (&found.columns, &found.values))))
}

/// A P as the right factor, with rows that begin and end there.
fn right_of<'a, T: Number>(
    ap: &Product<'_, T>,
    rows: usize,
    (begins, ends): (&Slice<i64>, &Slice<i64>),
    (columns, values): (&'a Slice<i32>, &'a Slice<T>),
) -> Right<'a, T> {
    // About half of the terms of a row meet another one.
    let length = values.len().div_ceil(2 * rows.max(1));
    let (begins, ends) = (begins.piece(0, rows), ends.piece(0, rows));
    Right { rows, cols: ap.b.cols, block: ap.block(), begins, ends, columns, values, length }
}

fn rows_of(pattern: &Pattern) -> Rows<'_> {
    let rows = pattern.offsets.len() - 1;
    Rows { begins: pattern.offsets.piece(0, rows), ends: pattern.offsets.piece(1, rows), columns: &pattern.columns }
}

/// Where the terms of both products go.
fn find_terms<T: Number>(
    gpu: &Gpu,
    r: &DeviceCsr<T>,
    ap: &Product<'_, T>,
    (begins, bins, room): (&Slice<i64>, &Bins, usize),
    coarse: &Pattern,
) -> Result<Terms> {
    let found = ap.as_found(begins, bins, room)?;
    let rows = Rows { begins: begins.piece(0, r.cols), ends: found.ends.piece(0, r.cols), columns: &found.columns };
    let Some(ap_places) = Places::find(ap, &rows)? else { return Ok(Terms::None) };
    let right = right_of(ap, r.cols, (begins, &found.ends), (&found.columns, &found.values));
    let Some(places) = Places::find(&Product::new(gpu, r, right), &rows_of(coarse))? else { return Ok(Terms::None) };
    Ok(Terms::Found(Arc::new((found.ends, ap_places, places))))
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
                assert!(matches!(recipe.way, Way::AsFound { .. }), "{name}");
                assert!(matches!(*lock(recipe.terms.lock()), Terms::Found(_)), "{name}");
                let terms = 4 * a.columns.len() + 40 * (a.rows + 1);
                assert!(recipe.bytes() < 16 * terms, "{name}: {} bytes", recipe.bytes());
                // Surplus columns, which leave zeros on the diagonal.
                p.values.iter_mut().zip(&p.columns).filter(|(_, j)| **j % 5 == 0).for_each(|(v, _)| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, &name);
                let (a, p) = (a.view().to_owned_as::<f32>().unwrap(), p.view().to_owned_as::<f32>().unwrap());
                same_as_the_host(&gpu, &a, &p, &name);
            }
        }
    }

    #[test]
    fn long_rows_and_blocks_have_coarse_matrices() {
        for gpu in devices() {
            let (a, p) = (random(90, 90, 40, Block::SCALAR, 1), random(90, 400, 60, Block::SCALAR, 2));
            let recipe = same_as_the_host(&gpu, &a, &p, "long rows");
            assert!(matches!(recipe.way, Way::Known(_)));
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

//! The coarse matrix R A P on the device, computed as R (A P) with the bits of [`crate::host::galerkin`]. A P is only a factor: its rows are in no
//! order, and wherever there was room for them. The first renewal of scalars finds where each term is added, and later ones go by that.

use super::DeviceCsr;
use super::spgemm::{Found, Method, Pattern, Product, Right};
use super::terms::{BlockTerms, Chunks, Lengths, Lying, Target, Terms};
use crate::error::{Result, Status};
use crate::gpu::{Buffer, Gpu, Slice};
use crate::scalar::Number;
use crate::sync::lock;
use std::sync::{Arc, Mutex};

/// What a renewal of a product goes by; it depends on patterns alone.
pub(crate) struct Recipe {
    ap: Way,
    coarse: Pattern,
    places: Mutex<Places>,
}

/// How A P is computed.
enum Way {
    /// Rows begin there, in room for so many entries, and are computed so; they have about so many entries.
    Found { begins: Arc<Buffer<i64>>, room: usize, method: Method, length: usize },
    /// Blocks, and rows that are too long.
    Known(Pattern),
}

/// Where the terms of both products are added.
enum Places {
    /// To be found by the first renewal.
    New,
    /// Not known: rows are too long, or there was no room.
    Unknown,
    Scalars(Box<Factors>),
    Blocks(Box<[BlockTerms; 2]>),
}

/// The terms of products of scalars, and how P and A P lie.
struct Factors {
    p: Chunks,
    ap: Chunks,
    of_ap: Terms,
    of_coarse: Terms,
}

impl Recipe {
    fn new(ap: Way, coarse: Pattern) -> Recipe {
        Recipe { ap, coarse, places: Mutex::new(Places::New) }
    }

    /// Bytes held, besides those that the coarse matrix shares.
    pub fn bytes(&self) -> usize {
        let ap = match &self.ap {
            Way::Found { begins, .. } => begins.owned_bytes(),
            Way::Known(ap) => ap.offsets.owned_bytes() + ap.columns.owned_bytes(),
        };
        ap + match &*lock(self.places.lock()) {
            Places::New | Places::Unknown => 0,
            Places::Scalars(factors) => {
                let Factors { p, ap, of_ap, of_coarse } = &**factors;
                p.bytes() + ap.bytes() + of_ap.bytes() + of_coarse.bytes()
            }
            Places::Blocks(terms) => terms.iter().map(BlockTerms::bytes).sum(),
        }
    }

    /// Forgets where terms are added, and that it may be found; whether there was anything to forget.
    pub fn forget_places(&self) -> bool {
        !matches!(std::mem::replace(&mut *lock(self.places.lock()), Places::Unknown), Places::Unknown)
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
            let found = ap.found(sample.method, room)?;
            let product = Product::new(gpu, r, right_of(&ap, a.rows, &found, length));
            let (coarse_sample, fate) = product.sample_of(&found)?;
            if fate.too_long > 0 {
                break;
            }
            if fate.missed > 0 {
                room = fate.taken;
                continue;
            }
            let (coarse, pattern) = product.sorted_by(coarse_sample, true)?;
            let way = Way::Found { begins: found.begins, room, method: sample.method, length };
            return Ok((coarse, Recipe::new(way, pattern)));
        }
    }
    let (ap, ap_pattern) = ap.sorted(false)?;
    let (coarse, pattern) = Product::new(gpu, r, Right::of(&ap)).sorted(true)?;
    Ok((coarse, Recipe::new(Way::Known(ap_pattern), pattern)))
}

/// The values of R A P for factors with the patterns of the recipe. Waits for nothing, but for the first time.
pub(crate) fn renew<T: Number>(
    gpu: &Gpu,
    recipe: &Recipe,
    r: &DeviceCsr<T>,
    a: &DeviceCsr<T>,
    p: &DeviceCsr<T>,
) -> Result<Buffer<T>> {
    let places = &mut *lock(recipe.places.lock());
    if matches!(places, Places::New) {
        *places = match find(gpu, recipe, r, a, p) {
            // Without them it takes longer.
            Err(error) if error.status == Status::OutOfMemory => Places::Unknown,
            found => found?,
        };
    }
    let ap = Product::new(gpu, a, Right::of(p));
    let coarse = &recipe.coarse;
    match (&*places, &recipe.ap) {
        (Places::Scalars(factors), _) => {
            let Factors { p: of_p, ap: chunks, of_ap, of_coarse } = &**factors;
            let (p, ap) = (of_p.of(gpu, p)?, chunks.room::<T>(gpu)?);
            of_ap.renew(gpu, a, &p, Target::Chunks(chunks), &ap)?;
            let (offsets, columns) = (&coarse.offsets, &coarse.columns);
            let values = gpu.room::<T>(columns.len())?;
            of_coarse.renew(gpu, r, &ap, Target::Filled { offsets, columns }, &values)?;
            Ok(values)
        }
        (_, Way::Found { begins, room, method, length }) => {
            let found = ap.found_again(*method, *room, begins)?;
            Product::new(gpu, r, right_of(&ap, a.rows, &found, *length)).known(coarse, true)
        }
        (places, Way::Known(pattern)) => {
            let with = |values: Buffer<T>| {
                let (offsets, columns) = (Arc::clone(&pattern.offsets), Arc::clone(&pattern.columns));
                DeviceCsr { rows: a.rows, cols: p.cols, block: ap.block(), offsets, columns, values: Arc::new(values) }
            };
            if let Places::Blocks(terms) = places {
                let [of_ap, of_coarse] = &**terms;
                let ap = with(ap.known_by(of_ap, pattern, false)?);
                return Product::new(gpu, r, Right::of(&ap)).known_by(of_coarse, coarse, true);
            }
            let ap = with(ap.known(pattern, false)?);
            Product::new(gpu, r, Right::of(&ap)).known(coarse, true)
        }
    }
}

/// Where the terms of both products are added, where there are places for the entries of their rows.
fn find<T: Number>(gpu: &Gpu, recipe: &Recipe, r: &DeviceCsr<T>, a: &DeviceCsr<T>, p: &DeviceCsr<T>) -> Result<Places> {
    let product = Product::new(gpu, a, Right::of(p));
    let right = Right::of(p);
    let coarse = lying(&recipe.coarse, r.rows);
    match &recipe.ap {
        Way::Found { begins, room, method, length } => {
            let found = product.columns_again(*method, *room, begins)?;
            let ap = right_of(&product, a.rows, &found, *length);
            let kinds = [(right.begins, right.ends), (ap.begins, ap.ends), (coarse.begins, coarse.ends)];
            let [of_p, of_ap, of_coarse] = Lengths::of(gpu, kinds)?;
            if !of_ap.have_places() || !of_coarse.have_places() {
                return Ok(Places::Unknown);
            }
            let p_chunks = match of_p.are_single() {
                true => Some(Chunks::single(p.rows)),
                false => Chunks::new(gpu, right.begins, right.ends)?,
            };
            let (Some(p_chunks), Some(ap_chunks)) = (p_chunks, Chunks::new(gpu, ap.begins, ap.ends)?) else {
                return Ok(Places::Unknown);
            };
            let (begins, ends) = (ap.begins.piece(0, a.rows), ap.ends.piece(0, a.rows));
            let rows = Lying { begins, ends, columns: ap.columns };
            let of_ap = Terms::find(gpu, a, (&right, &p_chunks), (&rows, &of_ap))?;
            let of_coarse = Terms::find(gpu, r, (&ap, &ap_chunks), (&coarse, &of_coarse))?;
            Ok(Places::Scalars(Box::new(Factors { p: p_chunks, ap: ap_chunks, of_ap, of_coarse })))
        }
        Way::Known(_) if product.is_scalar() => Ok(Places::Unknown),
        Way::Known(pattern) => {
            let rows = lying(pattern, a.rows);
            let of_a = (a.offsets.piece(0, a.rows), a.offsets.piece(1, a.rows));
            let of_r = (r.offsets.piece(0, r.rows), r.offsets.piece(1, r.rows));
            let kinds = [of_a, of_r, (rows.begins, rows.ends), (coarse.begins, coarse.ends)];
            let [of_a, of_r, of_ap, of_coarse] = Lengths::of(gpu, kinds)?;
            let (begins, ends) = (rows.begins.piece(0, a.rows), rows.ends.piece(0, a.rows));
            let (cols, block, values, length) = (p.cols, product.block(), &*p.values, of_ap.longest);
            let ap = Right { rows: a.rows, cols, block, begins, ends, columns: rows.columns, values, length };
            let of_ap = BlockTerms::find(gpu, (a, &of_a), &right, (places(pattern), &of_ap))?;
            let of_coarse = BlockTerms::find(gpu, (r, &of_r), &ap, (places(&recipe.coarse), &of_coarse))?;
            Ok(match (of_ap, of_coarse) {
                (Some(of_ap), Some(of_coarse)) => Places::Blocks(Box::new([of_ap, of_coarse])),
                _ => Places::Unknown,
            })
        }
    }
}

/// Offsets and columns of a pattern.
fn places(pattern: &Pattern) -> (&Slice<i64>, &Slice<i32>) {
    (&pattern.offsets, &pattern.columns)
}

/// The rows of a pattern.
fn lying(pattern: &Pattern, rows: usize) -> Lying<'_> {
    let Pattern { offsets, columns, .. } = pattern;
    Lying { begins: offsets.piece(0, rows), ends: offsets.piece(1, rows), columns }
}

/// A P as the right factor, with rows of about this length.
fn right_of<'a, T: Number>(ap: &Product<'_, T>, rows: usize, found: &'a Found<T>, length: usize) -> Right<'a, T> {
    let (begins, ends) = (found.begins.piece(0, rows), found.ends.piece(0, rows));
    let (columns, values) = (&*found.columns, &*found.values);
    Right { rows, cols: ap.cols(), block: ap.block(), begins, ends, columns, values, length }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ascending, in_turn, problems, random};
    use super::super::transpose::transpose;
    use super::*;
    use crate::gpu::tests::{devices, one_of_each};
    use crate::host::galerkin as host;
    use crate::host::transpose as host_transpose;
    use crate::scalar::Scalar;
    use crate::sparse::{Block, Csr};

    fn same_as_the_host<T: Scalar>(gpu: &Gpu, a: &Csr<T>, p: &Csr<T>, what: &str) -> Recipe {
        let r = host_transpose::transpose(&p.view()).unwrap();
        let expected = |a: &Csr<T>| {
            let p = p.clone().into_shared();
            host::product(&r.view(), &a.view(), &p).unwrap()
        };
        let upload = |a: &Csr<T>| DeviceCsr::upload(gpu, &a.view()).unwrap();
        let there = upload(p);
        let restriction = transpose(gpu, &there).unwrap();
        let (coarse, recipe) = product(gpu, &restriction, &upload(a), &there).unwrap();
        let (coarse, same) = (coarse.fetch(gpu).unwrap(), expected(a));
        assert_eq!((&coarse.offsets[..], &coarse.columns[..]), same.structure.own_arrays(), "{what}");
        assert_eq!(coarse.values, same.values.as_slice(), "{what}");
        let changed = |change: &dyn Fn(usize, T) -> T| Csr {
            values: a.values.iter().enumerate().map(|(k, v)| change(k, *v)).collect(),
            ..a.clone()
        };
        let smaller = changed(&|_, v| v * T::from_f64(0.3));
        let partly_zero = changed(&|k, v| if k % 3 == 0 { T::ZERO } else { v });
        let zero = changed(&|_, _| T::ZERO);
        for a in [&smaller, a, &partly_zero, &zero, &smaller] {
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
                assert!(matches!(&*lock(recipe.places.lock()), Places::Scalars(_)), "{name}");
                let in_order = ascending(a.rows, a.rows / 3, 4, 7);
                let recipe = same_as_the_host(&gpu, &a, &in_order, &name);
                let merges = matches!(recipe.ap, Way::Found { method: Method::Merge(_), .. });
                assert!(merges || !name.starts_with("poisson7"), "{name}");
                // Without places it is merged again.
                recipe.forget_places();
                let [here, there, r] = [&a, &in_order, &host_transpose::transpose(&in_order.view()).unwrap()]
                    .map(|a| DeviceCsr::upload(&gpu, &a.view()).unwrap());
                let renewed = renew(&gpu, &recipe, &r, &here, &there).unwrap();
                let (first, _) = product(&gpu, &r, &here, &there).unwrap();
                assert_eq!(gpu.fetch(&renewed).unwrap(), gpu.fetch(&first.values).unwrap(), "{name}");
                // Surplus columns, which leave zeros on the diagonal.
                p.values.iter_mut().zip(&p.columns).filter(|(_, j)| **j % 5 == 0).for_each(|(v, _)| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, &name);
                let (a, p) = (a.view().to_owned_as::<f32>().unwrap(), p.view().to_owned_as::<f32>().unwrap());
                same_as_the_host(&gpu, &a, &p, &name);
            }
        }
    }

    /// Bytes tell 255 places, and 16 bits those of the sums that a team has.
    #[test]
    fn rows_of_some_hundred_entries_are_renewed_by_places() {
        let rows = 66;
        // A is dense, so that rows of A P have all columns.
        let entries: Vec<_> =
            (0..rows).flat_map(|i| (0..rows).map(move |j| (i, j, ((7 * i + 3 * j) % 11) as f64 - 4.5))).collect();
        let a = Csr::from_triplets(rows, rows, &entries).unwrap();
        for gpu in one_of_each() {
            // Rows of P are one chunk where there are at most four times as many columns as rows.
            for (columns, has_places) in [(255, true), (256, true), (264, true), (265, true), (512, true), (513, false)]
            {
                let p: Vec<_> = (0..columns).map(|j| (j % rows, j, 0.1 * (j % 7) as f64 - 0.25)).collect();
                let p = Csr::from_triplets(rows, columns, &p).unwrap();
                let what = format!("{columns} columns");
                let recipe = same_as_the_host(&gpu, &a, &p, &what);
                assert_eq!(matches!(&*lock(recipe.places.lock()), Places::Scalars(_)), has_places, "{what}");
                if columns == 256 || columns == 512 {
                    let (a, p) = (a.view().to_owned_as::<f32>().unwrap(), p.view().to_owned_as::<f32>().unwrap());
                    same_as_the_host(&gpu, &a, &p, &what);
                }
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
        for gpu in one_of_each() {
            let recipe = same_as_the_host(&gpu, &a, &p, "a long row");
            assert!(matches!(recipe.ap, Way::Known(_)));
            assert!(matches!(&*lock(recipe.places.lock()), Places::Unknown));
        }
    }

    #[test]
    fn rows_of_any_length_are_renewed() {
        // Most entries of a row of A, coarse unknowns, most entries of a row of P, and whether there are places.
        for (longest, coarse, of_p, is_told) in [
            (5, 60, 9, true),
            (20, 90, 4, true),
            (40, 30, 4, true),
            (40, 60, 4, true),
            (30, 200, 12, true),
            (40, 250, 4, true),
            (12, 300, 90, true),
            (60, 700, 9, true),
            (60, 900, 30, false),
        ] {
            for gpu in in_turn() {
                let (a, p) = (random(150, 150, longest, Block::SCALAR, 1), random(150, coarse, of_p, Block::SCALAR, 2));
                let what = format!("rows of {longest}, {coarse} coarse unknowns");
                let recipe = same_as_the_host(&gpu, &a, &p, &what);
                assert_eq!(matches!(&*lock(recipe.places.lock()), Places::Scalars(_)), is_told, "{what}");
                // Forgotten, it takes the longer way.
                assert_eq!(recipe.forget_places(), is_told);
                let (there, p) =
                    (DeviceCsr::upload(&gpu, &a.view()).unwrap(), DeviceCsr::upload(&gpu, &p.view()).unwrap());
                let r = transpose(&gpu, &p).unwrap();
                let (first, _) = product(&gpu, &r, &there, &p).unwrap();
                let renewed = renew(&gpu, &recipe, &r, &there, &p).unwrap();
                assert_eq!(gpu.fetch(&renewed).unwrap(), gpu.fetch(&first.values).unwrap(), "{what}");
            }
        }
    }

    #[test]
    fn a_renewal_without_room_for_places_takes_the_longer_way() {
        // Many terms for few entries.
        let (a, p) = (random(400, 400, 100, Block::SCALAR, 1), random(400, 5, 4, Block::SCALAR, 2));
        let expected = {
            let r = host_transpose::transpose(&p.view()).unwrap();
            host::product(&r.view(), &a.view(), &p.clone().into_shared()).unwrap()
        };
        for gpu in devices() {
            let upload = |a: &Csr<f64>| DeviceCsr::upload(&gpu, &a.view()).unwrap();
            let (there, p) = (upload(&a), upload(&p));
            let r = transpose(&gpu, &p).unwrap();
            let (_, recipe) = product(&gpu, &r, &there, &p).unwrap();
            recipe.forget_places();
            gpu.reset_peak();
            let renewed = renew(&gpu, &recipe, &r, &there, &p).unwrap();
            drop(renewed);
            gpu.set_memory_limit(Some(gpu.memory().peak));
            *lock(recipe.places.lock()) = Places::New;
            for _ in 0..2 {
                let renewed = renew(&gpu, &recipe, &r, &there, &p).unwrap();
                assert_eq!(gpu.fetch(&renewed).unwrap(), expected.values.as_slice());
                assert!(matches!(&*lock(recipe.places.lock()), Places::Unknown));
            }
            gpu.set_memory_limit(None);
        }
    }

    #[test]
    fn blocks_have_coarse_matrices() {
        for gpu in devices() {
            for (block, other) in [(Block::square(3), Block::square(3)), (Block::square(3), Block { rows: 3, cols: 6 })]
            {
                let (a, p) = (random(80, 80, 7, block, 1), random(80, 30, 4, other, 2));
                let recipe = same_as_the_host(&gpu, &a, &p, "blocks");
                assert!(matches!(&*lock(recipe.places.lock()), Places::Blocks(_)));
                let mut p = p;
                p.values.iter_mut().step_by(other.cols).for_each(|v| *v = 0.0);
                same_as_the_host(&gpu, &a, &p, "blocks with empty columns");
            }
            // Rows that fit no table of set-up, and one of 256 lanes.
            let (block, other) = (Block::square(3), Block { rows: 3, cols: 6 });
            let (a, p) = (random(60, 60, 50, block, 1), random(60, 400, 12, other, 2));
            let recipe = same_as_the_host(&gpu, &a, &p, "long rows of blocks");
            assert!(matches!(&*lock(recipe.places.lock()), Places::Blocks(_)));
            let (a, p) = (random(0, 0, 0, Block::SCALAR, 1), random(0, 0, 0, Block::SCALAR, 2));
            same_as_the_host(&gpu, &a, &p, "nothing");
        }
    }
}

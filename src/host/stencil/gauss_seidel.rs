//! Multicolour Gauss-Seidel on a stencil. Lines of cells along x have colours, so that lines of the same colour are not coupled; along a line the
//! even cells come first and then the odd ones. The matrix is read once for both, because the lines around a line do not change meanwhile. The order of
//! the lines is that of `planes.rs`.

use super::lines::{AROUND, GROUP, LINE, Load, Terms, load, load_with_ends, multiply_subtract, solve_parity, widen};
use super::multivector::{self, MultivectorSweep};
use super::planes::{LineSweep, Pass, Planes};
use super::product::{add_lines, line_grain, lines_around, own_line};
use crate::backend::{Backend, Colours};
use crate::error::Result;
use crate::host::Host;
use crate::par;
use crate::scalar::{Number, NumbersMut, NumbersRef, Scalar};
use crate::sparse::{ColouredStencil, LineColours, Stencil};

/// Elements of a buffer for the entries of a line with itself.
const OWN: usize = 1024;

/// A stencil in the order of its colours.
pub struct StencilColours<S> {
    coloured: ColouredStencil<S>,
    colours: LineColours,
}

impl<S: Number> StencilColours<S> {
    /// Colours its lines.
    pub fn new(coloured: ColouredStencil<S>) -> StencilColours<S> {
        let colours = LineColours::new(&coloured.matrix.pattern);
        StencilColours { coloured, colours }
    }

    /// A pass over the first `count` colours of cells.
    fn pass_of<L>(&self, count: usize, backward: bool, sweep: L) -> Pass<'_, L> {
        Pass {
            stencil: &self.coloured.matrix.pattern,
            sweep,
            backward,
            colours: self.colours,
            end: count.div_ceil(2),
            even_only: (count % 2 == 1).then_some(count / 2),
        }
    }

    /// A pass over the first `count` colours, from x = 0 where `from_zero` says so.
    fn run<V: Number>(
        &self,
        host: &Host,
        (count, backward, from_zero): (usize, bool, bool),
        b: &[V],
        x: &mut [V],
        scratch: &mut [V],
    ) -> Result<()> {
        let stencil = &*self.coloured.matrix.pattern;
        let values = S::numbers(self.coloured.matrix.values.as_slice());
        let inverse = S::numbers(&self.coloured.inverse);
        let (k, strip) = (x.len() / stencil.scalar_rows(), self.strip());
        let later = self.colours.later(stencil, backward).filter(|_| from_zero);
        let around = Around { others: !own_line(stencil), later, colours: self.colours };
        if k > 1 {
            let of = (stencil, &values, &inverse);
            let numbers = (V::numbers(b), V::numbers_mut(x), V::numbers_mut(scratch));
            host.run(k * stencil.entries(), || match numbers {
                (NumbersRef::F64(b), NumbersMut::F64(x), NumbersMut::F64(scratch)) => {
                    self.pass_of(count, backward, MultivectorSweep { of, around, b, k, strip, backward })
                        .run(x, scratch);
                }
                (NumbersRef::F32(b), NumbersMut::F32(x), NumbersMut::F32(scratch)) => {
                    self.pass_of(count, backward, MultivectorSweep { of, around, b, k, strip, backward })
                        .run(x, scratch);
                }
                _ => unreachable!("multivectors have no 16-bit form"),
            });
            return Ok(());
        }
        let of_b = load::<V, V::Wide>(b, stencil.block);
        let point = self.coloured.inverse.len() == stencil.scalar_rows();
        let sweep = Sweep { stencil, values: &values, inverse: &inverse, around, point, b: &of_b, strip, backward };
        host.run(stencil.entries(), || self.pass_of(count, backward, Lines::<V>(sweep)).run(x, scratch));
        Ok(())
    }

    /// Cells that are swept together, an even number.
    fn strip(&self) -> usize {
        let b = self.coloured.matrix.pattern.block;
        (OWN / (b * b)).max(2) & !1
    }
}

impl<S: Number, V: Number> Colours<Host, V> for StencilColours<S> {
    fn count(&self) -> usize {
        2 * self.colours.count(&self.coloured.matrix.pattern)
    }

    fn solves_exactly(&self) -> bool {
        let (grid, b) = (&self.coloured.matrix.pattern.grid, self.coloured.matrix.pattern.block);
        let nx = grid.dims[0];
        let alone = nx <= self.strip() && !(grid.periodic[0] && nx % 2 == 1);
        alone && (b == 1 || self.coloured.inverse.len() > self.coloured.matrix.pattern.scalar_rows())
    }

    fn pass(
        &self,
        host: &Host,
        count: usize,
        backward: bool,
        b: &[V],
        x: &mut [V],
        scratch: &mut Vec<V>,
    ) -> Result<()> {
        self.run(host, (count, backward, false), b, x, scratch)
    }

    fn pass_from_zero(
        &self,
        host: &Host,
        count: usize,
        backward: bool,
        b: &[V],
        x: &mut [V],
        scratch: &mut Vec<V>,
    ) -> Result<()> {
        host.fill(V::ZERO, x);
        self.run(host, (count, backward, true), b, x, scratch)
    }

    fn residual_from_zero(&self, host: &Host, backward: bool, x: &[V], r: &mut [V]) -> Result<bool> {
        let stencil = &*self.coloured.matrix.pattern;
        // The smoother's matrix must be that of the level.
        let is_exact = self.coloured.shared && Colours::<Host, V>::solves_exactly(self);
        let has_form = stencil.block == 1 && !stencil.grid.periodic[0];
        let Some(later) = self.colours.later(stencil, backward).filter(|_| is_exact && has_form) else {
            return Ok(false);
        };
        let values = S::numbers(self.coloured.matrix.values.as_slice());
        let around = Around { others: !own_line(stencil), later: Some(later), colours: self.colours };
        let inverse = S::numbers(&self.coloured.inverse);
        let inverse = Some(&inverse).filter(|_| !S::PRECISION.is_scalar());
        let after = After { stencil, values: &values, inverse, around, backward };
        let [nx, ny, _] = stencil.grid.dims;
        let k = x.len() / stencil.scalar_rows();
        if k > 1 {
            host.run(k * stencil.entries(), || match (V::numbers(x), V::numbers_mut(r)) {
                (NumbersRef::F64(x), NumbersMut::F64(r)) => {
                    multivector::residual_from_zero(&after, k, x, r);
                }
                (NumbersRef::F32(x), NumbersMut::F32(r)) => {
                    multivector::residual_from_zero(&after, k, x, r);
                }
                _ => unreachable!("multivectors have no 16-bit form"),
            });
            return Ok(true);
        }
        let of_x = load::<V, V::Wide>(x, 1);
        host.run(stencil.entries(), || {
            par::for_each_row_mut(r, nx, line_grain(nx), |first, lines| {
                let mut buffers = ([V::Wide::ZERO; GROUP], [V::Wide::ZERO; AROUND]);
                for (number, r) in (first..).zip(lines.chunks_exact_mut(nx)) {
                    let at = [number % ny, number / ny];
                    for (part, r) in r.chunks_mut(GROUP).enumerate() {
                        let sums = after.residuals(&of_x, (at, part * GROUP), r.len(), &mut buffers);
                        r.iter_mut().zip(sums).for_each(|(r, sum)| *r = V::narrow(*sum));
                    }
                }
            });
        });
        Ok(true)
    }

    fn takes_multivectors(&self) -> bool {
        multivector::has_kernels(&self.coloured.matrix.pattern) && V::PRECISION.is_scalar()
    }

    fn bytes(&self) -> usize {
        let matrix = if self.coloured.shared { 0 } else { self.coloured.matrix.values.owned_bytes() };
        size_of_val(self.coloured.inverse.as_slice()) + matrix
    }
}

/// The lines around a line that a pass reads.
#[derive(Clone, Copy)]
pub(super) struct Around {
    /// All but the line itself, as bits.
    pub others: u16,
    /// In a pass from zero those that come after a line of each colour, which are zero.
    pub later: Option<[u16; 4]>,
    pub colours: LineColours,
}

impl Around {
    /// Those of the line at y and z.
    pub fn of(&self, stencil: &Stencil, [y, z]: [usize; 2]) -> u16 {
        self.others & !self.later_than(stencil, [y, z])
    }

    /// Those that come after the line at y and z.
    pub fn later_than(&self, stencil: &Stencil, [y, z]: [usize; 2]) -> u16 {
        self.later.map_or(0, |later| later[self.colours.of(stencil, y, z)])
    }
}

/// What a pass from zero has left.
pub(super) struct After<'a> {
    pub stencil: &'a Stencil,
    pub values: &'a NumbersRef<'a>,
    /// That of the diagonal, where it is of 16 bits: the pass has solved for another diagonal then, one over this.
    pub inverse: Option<&'a NumbersRef<'a>>,
    pub around: Around,
    pub backward: bool,
}

impl After<'_> {
    /// By how much these cells were solved for another diagonal than theirs: the difference of both.
    pub fn errors<W: Scalar>(&self, first: usize, errors: &mut [W]) {
        let number = self.stencil.find([0; 3]);
        let (Some(inverse), Some(number)) = (self.inverse, number) else { return errors.fill(W::ZERO) };
        let mut diagonal = [W::ZERO; GROUP];
        let diagonal = &mut diagonal[..errors.len()];
        widen(self.values, self.stencil.array(number, 0, 0) + first, diagonal);
        widen(inverse, first, errors);
        for (error, d) in errors.iter_mut().zip(diagonal) {
            *error = if *error == W::ZERO { W::ZERO } else { *d - W::ONE / *error };
        }
    }

    /// The residuals of `n` cells from `x0` on in the line at y and z: less the products with cells that come later.
    fn residuals<'a, W: Scalar>(
        &self,
        load: &Load<'_, W>,
        (at, x0): ([usize; 2], usize),
        n: usize,
        (sums, buffer): &'a mut ([W; GROUP], [W; AROUND]),
    ) -> &'a [W] {
        let stencil = self.stencil;
        let [nx, ny, _] = stencil.grid.dims;
        let (own, sums) = (nx * (at[0] + ny * at[1]), &mut sums[..n]);
        sums.fill(W::ZERO);
        let mut terms = Terms::new();
        let lines = lines_around(stencil, at, self.around.later_than(stencil, at) | !self.around.others);
        for ((line, steps), (begin, to)) in lines.zip((0..).step_by(n + 2).zip(buffer.chunks_exact_mut(n + 2))) {
            load_with_ends(load, &stencil.grid, line, x0, 0, to);
            let is_own = line == own;
            if is_own {
                if self.inverse.is_some() {
                    let mut errors = [W::ZERO; GROUP];
                    self.errors(own + x0, &mut errors[..n]);
                    sums.iter_mut().zip(errors).zip(&to[1..]).for_each(|((sum, error), x)| *sum -= error * *x);
                }
                // Cells of the parity that comes first have no products with each other, and no later cell has one with them.
                let first = (x0 + 1 + usize::from(self.backward)) % 2;
                to[first..].iter_mut().step_by(2).for_each(|x| *x = W::ZERO);
            }
            for (dx, k) in steps.iter().filter(|(dx, _)| !is_own || *dx != 0) {
                terms.push(stencil.array(*k, 0, 0) + x0 + own, begin + (1 + dx) as usize);
            }
        }
        multiply_subtract(self.values, terms.as_slice(), buffer, sums);
        sums
    }
}

/// Sweeps lines of vectors of precision `V`.
struct Lines<'a, V: Number>(Sweep<'a, V::Wide>);

impl<V: Number> LineSweep for Lines<'_, V> {
    type Element = V;
    type Buffers = Buffers<V::Wide>;

    fn buffers(&self) -> Buffers<V::Wide> {
        Buffers::new()
    }

    fn width(&self) -> usize {
        self.0.stencil.block
    }

    fn line(&self, number: usize, even_only: bool, old: &Planes<'_, V>, buffers: &mut Buffers<V::Wide>, new: &mut [V]) {
        let b = self.0.stencil.block;
        let old = |cell: usize, c: usize, to: &mut [V::Wide]| load::<V, V::Wide>(old.from(cell * b), b)(0, c, to);
        self.0.line(number, even_only, &old, buffers, new);
    }
}

/// Sweeps lines, with sums of precision `W`.
struct Sweep<'a, W> {
    stencil: &'a Stencil,
    values: &'a NumbersRef<'a>,
    inverse: &'a NumbersRef<'a>,
    around: Around,
    /// Whether the inverse is that of the diagonal, not of its blocks.
    point: bool,
    b: &'a Load<'a, W>,
    /// Cells that are swept together.
    strip: usize,
    backward: bool,
}

impl<W: Scalar> Sweep<'_, W> {
    /// The new values of a line, strip after strip, or of its even cells alone. `old` are the values before it.
    fn line<V: Number<Wide = W>>(
        &self,
        number: usize,
        even_only: bool,
        old: &Load<'_, W>,
        buffers: &mut Buffers<W>,
        new: &mut [V],
    ) {
        let (stencil, b) = (self.stencil, self.stencil.block);
        let [nx, ny, _] = stencil.grid.dims;
        let (line, at, strip) = (number * nx, [number % ny, number / ny], self.strip);
        let strips = nx.div_ceil(strip);
        let around = self.around.of(stencil, at);
        let Buffers { sums, around: buffer, x, own } = buffers;
        for k in 0..strips {
            let first = strip * if self.backward { strips - 1 - k } else { k };
            let len = strip.min(nx - first);
            let (sums, x) = (&mut sums[..len * b], &mut x[..(len + 2) * b]);
            sums.fill(W::ZERO);
            add_lines(stencil, self.values, old, (at, first), around, buffer, sums);
            for (c, sums) in sums.chunks_exact_mut(len).enumerate() {
                let right = &mut buffer[..len];
                (self.b)(line + first, c, right);
                sums.iter_mut().zip(right).for_each(|(sum, b)| *sum = *b - *sum);
                let x = &mut x[c * (len + 2)..][..len + 2];
                load_with_ends(old, &stencil.grid, line, first, c, x);
                // Beside the strip, cells that were swept before have new values.
                let done = |cell: usize| match self.backward {
                    true => cell >= first + len,
                    false => cell < first,
                };
                for (end, cell) in
                    [(0, stencil.grid.step(0, first, -1)), (len + 1, stencil.grid.step(0, first + len - 1, 1))]
                {
                    if let Some(cell) = cell.filter(|cell| done(*cell)) {
                        x[end] = new[cell * b + c].widen();
                    }
                }
            }
            let parities: &[usize] = match (even_only, self.backward) {
                (true, _) => &[0],
                (false, true) => &[1, 0],
                (false, false) => &[0, 1],
            };
            self.solve(parities, line + first, len, own, sums, x);
            for (k, new) in new[first * b..][..len * b].chunks_exact_mut(b).enumerate() {
                new.iter_mut().enumerate().for_each(|(c, new)| *new = V::narrow(x[c * (len + 2) + k + 1]));
            }
        }
    }

    /// Solves cells from `first` on for their unknowns, one parity after the other.
    fn solve(&self, parities: &[usize], first: usize, len: usize, own: &mut Own<W>, sums: &[W], x: &mut [W]) {
        let (stencil, b) = (self.stencil, self.stencil.block);
        // Alone along a periodic axis, a cell is its own neighbour.
        if stencil.grid.periodic[0] && len == stencil.grid.dims[0] {
            own.read(self, first, len);
            for parity in parities {
                let cells = (len + 1 - parity) / 2;
                for k in 0..cells {
                    let k = parity + 2 * if self.backward { cells - 1 - k } else { k };
                    own.cell(self, (k, len), sums, x);
                    if k == 0 || k + 1 == len {
                        own.wrap(k, len, b, x);
                    }
                }
            }
            return;
        }
        if b == 1 {
            let terms = self.own_terms(first, len, 0);
            for parity in parities {
                solve_parity((self.values, terms.as_slice()), (self.inverse, first), *parity, sums, x);
            }
            return;
        }
        let width = if self.point { b } else { b * b };
        widen(self.inverse, first * width, &mut own.inverse[..len * width]);
        for parity in parities {
            match self.point {
                true => {
                    for r in 0..b {
                        let r = if self.backward { b - 1 - r } else { r };
                        self.residual(r, first, len, sums, x, &mut own.residuals[..len]);
                        for k in (*parity..len).step_by(2) {
                            x[r * (len + 2) + k + 1] += own.inverse[k * b + r] * own.residuals[k];
                        }
                    }
                }
                false => {
                    for (r, residuals) in own.residuals[..len * b].chunks_exact_mut(len).enumerate() {
                        self.residual(r, first, len, sums, x, residuals);
                    }
                    for k in (*parity..len).step_by(2) {
                        for (r, inverse) in own.inverse[k * b * b..][..b * b].chunks_exact(b).enumerate() {
                            let products = inverse.iter().zip(own.residuals[k..].iter().step_by(len));
                            x[r * (len + 2) + k + 1] += products.fold(W::ZERO, |sum, (inverse, r)| sum + *inverse * *r);
                        }
                    }
                }
            }
        }
    }

    /// The products of unknown `r` of cells from `first` on with their own line.
    fn own_terms(&self, first: usize, len: usize, r: usize) -> Terms {
        let (stencil, mut terms) = (self.stencil, Terms::new());
        for step in [-1_i8, 0, 1] {
            if let Some(k) = stencil.find([step, 0, 0]) {
                for c in 0..stencil.block {
                    terms.push(stencil.array(k, r, c) + first, c * (len + 2) + (1 + step) as usize);
                }
            }
        }
        terms
    }

    /// The residuals of unknown `r` of cells from `first` on.
    fn residual(&self, r: usize, first: usize, len: usize, sums: &[W], x: &[W], to: &mut [W]) {
        to.copy_from_slice(&sums[r * len..][..len]);
        multiply_subtract(self.values, self.own_terms(first, len, r).as_slice(), x, to);
    }
}

/// What the lines of a task use one after the other.
struct Buffers<W> {
    /// Of the products with the lines around a line.
    sums: [W; OWN],
    /// For the lines of x around a line.
    around: [W; AROUND],
    /// The cells that are swept.
    x: [W; LINE],
    own: Own<W>,
}

impl<W: Scalar> Buffers<W> {
    fn new() -> Buffers<W> {
        let own = Own { entries: [[W::ZERO; OWN]; 3], inverse: [W::ZERO; OWN], residuals: [W::ZERO; OWN] };
        Buffers { sums: [W::ZERO; OWN], around: [W::ZERO; AROUND], x: [W::ZERO; LINE], own }
    }
}

/// The entries of cells with their own line, in the precision of the sums: for each entry of the blocks an array over the cells. They are read for
/// periodic lines.
struct Own<W> {
    /// Of the left neighbour, the cell itself, and the right neighbour.
    entries: [[W; OWN]; 3],
    inverse: [W; OWN],
    residuals: [W; OWN],
}

impl<W: Scalar> Own<W> {
    fn read(&mut self, sweep: &Sweep<'_, W>, first: usize, len: usize) {
        let (stencil, b) = (sweep.stencil, sweep.stencil.block);
        for (entries, x) in self.entries.iter_mut().zip([-1, 0, 1]) {
            let number = stencil.find([x, 0, 0]);
            for (e, entries) in entries[..len * b * b].chunks_exact_mut(len).enumerate() {
                match number {
                    Some(k) => widen(sweep.values, stencil.array(k, e / b, e % b) + first, entries),
                    None => entries.fill(W::ZERO),
                }
            }
        }
        let width = if sweep.point { b } else { b * b };
        widen(sweep.inverse, first * width, &mut self.inverse[..len * width]);
    }

    /// Solves cell `k` for its unknowns: at once by the inverse of its block, or one after the other.
    fn cell(&self, sweep: &Sweep<'_, W>, (k, len): (usize, usize), sums: &[W], x: &mut [W]) {
        let (b, width) = (sweep.stencil.block, len + 2);
        let residual = |r: usize, x: &[W]| {
            let mut sum = sums[r * len + k];
            for (side, entries) in self.entries.iter().enumerate() {
                for c in 0..b {
                    sum -= entries[(r * b + c) * len + k] * x[c * width + k + side];
                }
            }
            sum
        };
        if sweep.point {
            for r in 0..b {
                let r = if sweep.backward { b - 1 - r } else { r };
                x[r * width + k + 1] += self.inverse[k * b + r] * residual(r, x);
            }
            return;
        }
        let mut residuals = [W::ZERO; 8];
        residuals[..b].iter_mut().enumerate().for_each(|(r, to)| *to = residual(r, x));
        for r in 0..b {
            let inverse = &self.inverse[(k * b + r) * b..][..b];
            let change = inverse.iter().zip(&residuals).fold(W::ZERO, |sum, (inverse, r)| sum + *inverse * *r);
            x[r * width + k + 1] += change;
        }
    }

    /// Shows the new values of an end of a periodic line beside its other end.
    fn wrap(&self, k: usize, len: usize, b: usize, x: &mut [W]) {
        for x in x.chunks_exact_mut(len + 2).take(b) {
            if k == 0 {
                x[len + 1] = x[1];
            }
            if k + 1 == len {
                x[0] = x[len];
            }
        }
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::gallery;
    use crate::host::diagonal;
    use crate::sparse::{Grid, SharedStencil};

    fn check(a: SharedStencil<f64>, width: usize, threads: usize) -> Vec<f64> {
        let host = Host::new(&Context::new(&format!("host:{threads}")).unwrap());
        let (stencil, rows) = (std::sync::Arc::clone(&a.pattern), a.to_rows().unwrap());
        let scalars = rows.view().to_scalar().unwrap();
        let (n, b, [nx, ny, _]) = (stencil.scalar_rows(), stencil.block, stencil.grid.dims);
        let inverse = diagonal::inverse::<f64, f64>(&rows.view(), width, diagonal::AS_IT_IS).unwrap();
        let colours =
            StencilColours::new(ColouredStencil { matrix: a, inverse: inverse.clone(), lines: None, shared: true });
        let count = Colours::<Host, f64>::count(&colours);
        let rhs: Vec<f64> = (0..n).map(|i| ((i * 7) % 13) as f64 - 6.0).collect();
        let residual =
            |x: &[f64], row: usize| rhs[row] - scalars.view().row(row).map(|(j, v)| v[0] * x[j]).sum::<f64>();
        let mut x: Vec<f64> = (0..n).map(|i| ((i * 3) % 5) as f64).collect();
        for (backward, count) in [(false, count), (true, count - 1), (true, count)] {
            // Cells by colours, strips of a line one after the other.
            let colour = |cell: usize| {
                let line = cell / nx;
                let of_line = colours.colours.of(&stencil, line % ny, line / ny);
                (2 * of_line + cell % nx % 2, of_line, cell % nx / colours.strip(), cell % nx % 2, cell)
            };
            let mut order: Vec<_> = (0..n / b).map(colour).filter(|(colour, ..)| *colour < count).collect();
            order.sort_by_key(|(_, line, strip, parity, cell)| (*line, cell / nx, *strip, *parity, *cell));
            if backward {
                order.reverse();
            }
            let mut expected = x.clone();
            for (.., cell) in order {
                if width == 1 {
                    for r in 0..b {
                        let row = cell * b + if backward { b - 1 - r } else { r };
                        expected[row] += inverse[row] * residual(&expected, row);
                    }
                } else {
                    let r: Vec<f64> = (0..b).map(|r| residual(&expected, cell * b + r)).collect();
                    for k in 0..b {
                        expected[cell * b + k] += (0..b).map(|c| inverse[(cell * b + k) * b + c] * r[c]).sum::<f64>();
                    }
                }
            }
            let mut scratch = vec![f64::NAN; n];
            colours.pass(&host, count, backward, &rhs, &mut x, &mut scratch).unwrap();
            let off = x.iter().zip(&expected).fold(0.0, |m: f64, (a, b)| m.max((a - b).abs()));
            assert!(off < 1e-11, "{:?} {backward} {count}: {off}", stencil.grid);
        }
        for backward in [false, true] {
            let (mut from_zero, mut scratch) = (vec![f64::NAN; n], vec![f64::NAN; n]);
            colours.pass_from_zero(&host, count, backward, &rhs, &mut from_zero, &mut scratch).unwrap();
            let mut expected = vec![0.0; n];
            colours.pass(&host, count, backward, &rhs, &mut expected, &mut scratch).unwrap();
            assert_eq!(from_zero, expected, "{:?} {backward}", stencil.grid);
            let mut r = vec![f64::NAN; n];
            let has_form =
                b == 1 && nx <= OWN && !stencil.grid.periodic[0] && colours.colours.later(&stencil, backward).is_some();
            assert_eq!(colours.residual_from_zero(&host, backward, &from_zero, &mut r).unwrap(), has_form);
            let off = r.iter().enumerate().fold(0.0, |m: f64, (i, r)| m.max((r - residual(&from_zero, i)).abs()));
            assert!(!has_form || off < 1e-11, "{:?} {backward}: {off}", stencil.grid);
        }
        x
    }

    #[test]
    fn a_pass_is_gauss_seidel_in_the_order_of_the_colours() {
        for (name, dims, width) in [
            ("poisson7:7x5x4", [7, 5, 4], 1),
            ("poisson27:6x5x4", [6, 5, 4], 1),
            ("poisson7:5x3x19", [5, 3, 19], 1),
            ("poisson27:4x4x17", [4, 4, 17], 1),
            ("poisson27:5x1x9", [5, 1, 9], 1),
            ("poisson5:1500x3", [1500, 3, 1], 1),
            ("poisson9:9x4", [9, 4, 1], 1),
            ("elasticity:3", [3, 4, 4], 3),
            ("elasticity:3", [3, 4, 4], 1),
        ] {
            let a = gallery::parse(name).unwrap().matrix;
            let a = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
            assert_eq!(check(a.clone(), width, 1), check(a, width, 3), "{name}");
        }
    }

    #[test]
    fn periodic_axes_with_an_odd_number_of_cells_have_more_colours() {
        for (dims, periodic) in [
            ([5, 5, 3], [true; 3]),
            ([4, 6, 1], [true, true, false]),
            ([3, 3, 1], [true, true, false]),
            ([1, 5, 3], [true, true, true]),
            ([2, 1, 1], [true, false, false]),
        ] {
            let grid = Grid { dims, periodic };
            let offsets = [[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]];
            let stencil = Stencil::new(grid, 1, &offsets).unwrap();
            let mut values = vec![0.0; stencil.entries()];
            for (k, offset) in offsets.iter().enumerate() {
                for cell in (0..grid.cells()).filter(|cell| grid.neighbour(grid.point(*cell), *offset).is_some()) {
                    values[stencil.array(k, 0, 0) + cell] = if k == 0 { 20.0 } else { -1.0 - k as f64 / 8.0 };
                }
            }
            // Of three cells in a row along a periodic axis, all are beside each other.
            check(SharedStencil { pattern: stencil.into(), values: std::sync::Arc::new(values) }, 1, 2);
        }
    }
}

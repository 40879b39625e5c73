//! The order of a Gauss-Seidel pass over lines. In three dimensions planes of cells come one after the other, so that matrix and vectors come from
//! memory once; otherwise the lines of a colour. Both are the order of the colours, because a line is swept when its neighbours of earlier colours have
//! been, and those of later ones have not.
//!
//! Each plane has lines of two stages. With two colours of lines they are the colours. With four, a plane has two of them, both in the first stage or
//! both in the second; then a line is swept when its neighbours in the plane of the earlier colour have been. A first stage needs nothing of the
//! planes beside it but old values, a second stage needs their first stages.

use super::product::line_grain;
use crate::par;
use crate::sparse::{LineColours, Stencil};

/// Grids with fewer planes are not swept plane by plane, and no task has fewer.
const MIN_PLANES: usize = 4;

/// Tasks for each thread, so that one that is late does not keep the others waiting.
const TASKS: usize = 4;

/// Whether a pass over this grid is in the order of planes: there are enough of them, and the last is not beside the first.
fn is_by_planes(stencil: &Stencil) -> bool {
    let grid = &stencil.grid;
    grid.dims[2] >= MIN_PLANES && !grid.periodic[1] && !grid.periodic[2]
}

/// Sweeps lines of a grid.
pub trait LineSweep: Sync {
    /// Elements of x.
    type Element: Copy + Send + Sync;
    /// What the lines of a task use one after the other.
    type Buffers;
    /// New ones.
    fn buffers(&self) -> Self::Buffers;
    /// Elements of x for each cell: its unknowns, or several vectors.
    fn width(&self) -> usize;
    /// The new values of a line, or of its even cells alone.
    fn line(
        &self,
        number: usize,
        even_only: bool,
        old: &Planes<'_, Self::Element>,
        buffers: &mut Self::Buffers,
        new: &mut [Self::Element],
    );
}

/// What a task reads of x: its own planes, and those beside them.
pub struct Planes<'a, V> {
    before: &'a [V],
    own: &'a [V],
    behind: &'a [V],
    /// The element of x that `own` begins with.
    begin: usize,
}

impl<'a, V> Planes<'a, V> {
    /// x from an element on, with the rest of its line at least.
    #[inline(always)]
    pub fn from(&self, element: usize) -> &'a [V] {
        let end = self.begin + self.own.len();
        if element < self.begin {
            &self.before[element + self.before.len() - self.begin..]
        } else if element < end {
            &self.own[element - self.begin..]
        } else {
            &self.behind[element - end..]
        }
    }
}

/// A pass over the first so many colours of lines.
pub struct Pass<'a, L> {
    pub stencil: &'a Stencil,
    pub sweep: L,
    pub backward: bool,
    pub colours: LineColours,
    /// Lines of this colour and later ones are left out.
    pub end: usize,
    /// Of lines of this colour only the even cells are swept.
    pub even_only: Option<usize>,
}

/// Planes that a task writes to, with those beside them.
struct Slab<'a, V> {
    first: usize,
    x: &'a mut [V],
    /// As long as x; lines on their way to x.
    scratch: &'a mut [V],
    before: &'a [V],
    behind: &'a [V],
}

/// The lines of a plane that are swept first, and the others.
#[derive(Clone, Copy, PartialEq)]
enum Stage {
    First,
    Second,
}

impl<V: Copy + Send + Sync, L: LineSweep<Element = V>> Pass<'_, L> {
    /// The pass over x. `scratch` has the length of x.
    pub fn run(&self, x: &mut [V], scratch: &mut [V]) {
        if !is_by_planes(self.stencil) {
            return self.by_colours(x, scratch);
        }
        let planes = self.stencil.grid.dims[2];
        let grain = planes.div_ceil(TASKS * par::threads()).max(MIN_PLANES);
        self.slab(Slab { first: 0, x, scratch, before: &[], behind: &[] }, grain);
    }

    /// A pass colour by colour. The new values of the lines of a colour go to `scratch`, because other tasks read x.
    fn by_colours(&self, x: &mut [V], scratch: &mut [V]) {
        let [nx, ny, _] = self.stencil.grid.dims;
        let width = nx * self.sweep.width();
        for k in 0..self.end {
            let colour = if self.backward { self.end - 1 - k } else { k };
            let has_colour = |line: usize| self.colours.of(self.stencil, line % ny, line / ny) == colour;
            let even_only = self.even_only == Some(colour);
            let old = Planes { before: &[], own: &*x, behind: &[], begin: 0 };
            par::for_each_row_mut(scratch, width, line_grain(nx), |first, lines| {
                let mut buffers = self.sweep.buffers();
                for (line, new) in (first..).zip(lines.chunks_exact_mut(width)).filter(|(line, _)| has_colour(*line)) {
                    self.sweep.line(line, even_only, &old, &mut buffers, new);
                }
            });
            let new = &*scratch;
            par::for_each_row_mut(x, width, line_grain(nx), |first, lines| {
                for (k, x) in lines.chunks_exact_mut(width).enumerate().filter(|(k, _)| has_colour(first + k)) {
                    x.copy_from_slice(&new[(first + k) * width..][..width]);
                }
            });
        }
    }

    /// Elements of a plane.
    fn size(&self) -> usize {
        self.stencil.grid.dims[0] * self.stencil.grid.dims[1] * self.sweep.width()
    }

    /// All planes of a slab; the first stages of those beside it are done.
    fn slab(&self, slab: Slab<'_, V>, grain: usize) {
        let size = self.size();
        let planes = slab.x.len() / size;
        if planes <= grain {
            let (mut buffers, mut slab) = (self.sweep.buffers(), slab);
            for plane in 0..=planes {
                if plane < planes {
                    self.plane(&mut slab, plane, Stage::First, &mut buffers);
                }
                if plane > 0 {
                    self.plane(&mut slab, plane - 1, Stage::Second, &mut buffers);
                }
            }
            return;
        }
        let Slab { first, x, scratch, before, behind } = slab;
        let middle = planes / 2;
        let (left, rest) = x.split_at_mut(middle * size);
        let (own, right) = rest.split_at_mut(size);
        let (left_scratch, right_scratch) = scratch.split_at_mut(middle * size);
        let at = first + middle;
        let between = |left: &[V], own: &mut [V], right: &[V], scratch: &mut [V], stage: Stage| {
            let (before, behind) = (&left[left.len() - size..], &right[..size]);
            self.plane(&mut Slab { first: at, x: own, scratch, before, behind }, 0, stage, &mut self.sweep.buffers());
        };
        between(left, own, right, left_scratch, Stage::First);
        par::join(
            || self.slab(Slab { first, x: &mut *left, scratch: &mut *left_scratch, before, behind: own }, grain),
            || self.slab(Slab { first: at + 1, x: &mut *right, scratch: right_scratch, before: own, behind }, grain),
        );
        between(left, own, right, left_scratch, Stage::Second);
    }

    /// The lines of a stage of a plane.
    fn plane(&self, slab: &mut Slab<'_, V>, plane: usize, stage: Stage, buffers: &mut L::Buffers) {
        let (z, [_, ny, _]) = (slab.first + plane, self.stencil.grid.dims);
        // In the order of a forward pass; a backward one has all parities the other way round.
        let odd = usize::from(self.backward);
        if self.colours.two {
            let earlier = if stage == Stage::First { odd } else { 1 - odd };
            (0..ny).filter(|y| (y + z) % 2 == earlier).for_each(|y| self.line(slab, [y, z], buffers));
            return;
        }
        if (z % 2 == odd) != (stage == Stage::First) {
            return;
        }
        for y in 0..=ny {
            if y < ny && y % 2 == odd {
                self.line(slab, [y, z], buffers);
            }
            if y > 0 && (y - 1) % 2 != odd {
                self.line(slab, [y - 1, z], buffers);
            }
        }
    }

    fn line(&self, slab: &mut Slab<'_, V>, [y, z]: [usize; 2], buffers: &mut L::Buffers) {
        let [nx, ny, _] = self.stencil.grid.dims;
        let colour = self.colours.of(self.stencil, y, z);
        if colour >= self.end {
            return;
        }
        let (number, width) = (y + ny * z, nx * self.sweep.width());
        let (begin, new) = (slab.first * ny * width, &mut slab.scratch[..width]);
        let old = Planes { before: slab.before, own: &*slab.x, behind: slab.behind, begin };
        self.sweep.line(number, self.even_only == Some(colour), &old, buffers, new);
        slab.x[number * width - begin..][..width].copy_from_slice(new);
    }
}

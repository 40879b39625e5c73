//! The order of a Gauss-Seidel pass over lines in three dimensions: planes of cells one after the other, so that matrix and vectors come from memory
//! once. It is the order of the colours, because a line is swept when its neighbours of earlier colours have been, and those of later ones have not.
//!
//! Each plane has lines of two stages. With two colours of lines they are the colours. With four, a plane has two of them, both in the first stage or
//! both in the second; then a line is swept when its neighbours in the plane of the earlier colour have been. A first stage needs nothing of the
//! planes beside it but old values, a second stage needs their first stages.

use super::gauss_seidel::{Buffers, Sweep};
use super::lines::load;
use crate::par;
use crate::scalar::Number;
use crate::sparse::{LineColours, Stencil};

/// The fewest planes that are worth this order, and that one task handles.
const FEWEST: usize = 4;

/// Tasks for each thread, so that one that is late does not keep the others waiting.
const TASKS: usize = 4;

/// Whether a pass over this grid is in the order of planes: there are enough of them, and the last is not beside the first.
pub fn is_suitable(stencil: &Stencil) -> bool {
    let grid = &stencil.grid;
    grid.dims[2] >= FEWEST && !grid.periodic[1] && !grid.periodic[2]
}

/// A pass over the first so many colours of lines.
pub struct Pass<'a, V: Number> {
    pub sweep: Sweep<'a, V::Wide>,
    pub colours: LineColours,
    /// Lines of this colour and later ones are left out.
    pub end: usize,
    /// Of lines of this colour only the even cells are swept.
    pub even_only: Option<usize>,
    pub strip: usize,
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

impl<V: Number> Pass<'_, V> {
    /// Elements of a plane.
    fn size(&self) -> usize {
        let stencil = self.sweep.stencil;
        stencil.grid.dims[0] * stencil.grid.dims[1] * stencil.block
    }

    /// The pass over x.
    pub fn run(&self, x: &mut [V], scratch: &mut [V]) {
        let planes = x.len() / self.size();
        let grain = planes.div_ceil(TASKS * par::threads()).max(FEWEST);
        self.slab(Slab { first: 0, x, scratch, before: &[], behind: &[] }, grain);
    }

    /// All planes of a slab; the first stages of those beside it are done.
    fn slab(&self, slab: Slab<'_, V>, grain: usize) {
        let size = self.size();
        let planes = slab.x.len() / size;
        if planes <= grain {
            let (mut buffers, mut slab) = (Buffers::new(), slab);
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
            self.plane(&mut Slab { first: at, x: own, scratch, before, behind }, 0, stage, &mut Buffers::new());
        };
        between(left, own, right, left_scratch, Stage::First);
        par::join(
            || self.slab(Slab { first, x: &mut *left, scratch: &mut *left_scratch, before, behind: own }, grain),
            || self.slab(Slab { first: at + 1, x: &mut *right, scratch: right_scratch, before: own, behind }, grain),
        );
        between(left, own, right, left_scratch, Stage::Second);
    }

    /// The lines of a stage of a plane.
    fn plane(&self, slab: &mut Slab<'_, V>, plane: usize, stage: Stage, buffers: &mut Buffers<V::Wide>) {
        let (z, [_, ny, _]) = (slab.first + plane, self.sweep.stencil.grid.dims);
        // In the order of a forward pass; a backward one has all parities the other way round.
        let odd = usize::from(self.sweep.backward);
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

    fn line(&self, slab: &mut Slab<'_, V>, [y, z]: [usize; 2], buffers: &mut Buffers<V::Wide>) {
        let stencil = self.sweep.stencil;
        let ([nx, ny, _], b) = (stencil.grid.dims, stencil.block);
        let colour = self.colours.of(stencil, y, z);
        if colour >= self.end {
            return;
        }
        let (number, width, begin) = (y + ny * z, nx * b, slab.first * nx * ny);
        let new = &mut slab.scratch[..width];
        let old = |cell: usize, c: usize, to: &mut [V::Wide]| {
            let (part, begin) = if cell < begin {
                (slab.before, begin - nx * ny)
            } else if cell < begin + slab.x.len() / b {
                (&*slab.x, begin)
            } else {
                (slab.behind, begin + slab.x.len() / b)
            };
            load::<V, V::Wide>(part, b)(cell - begin, c, to);
        };
        let even_only = self.even_only == Some(colour);
        self.sweep.line(number, (self.strip, even_only), &old, buffers, new);
        slab.x[(number * nx - begin) * b..][..width].copy_from_slice(new);
    }
}

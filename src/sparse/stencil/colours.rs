//! Colours of the lines of a grid along one axis: lines of a colour are not coupled.

use super::Stencil;

/// The colour of each line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineColours {
    /// Lines that differ along both other axes are not coupled with each other: two colours are enough, by the parity of the sum of their places.
    pub two: bool,
    /// The other axes.
    pub across: [usize; 2],
    /// Along a periodic axis with an odd number of lines, the last one is beside the first, and has a colour of its own.
    odd: [bool; 2],
}

/// Cells of one class along an axis: from `start` on, every other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EveryOther {
    /// The first.
    pub start: usize,
    /// How many.
    pub count: usize,
}

impl EveryOther {
    /// The even cells among n (class 0), the odd ones (1), or the last alone (2); where there is a class 2, the last is not in class 0.
    pub fn new(n: usize, class: usize, has_last: bool) -> EveryOther {
        match class {
            0 => EveryOther { start: 0, count: if has_last { n / 2 } else { n.div_ceil(2) } },
            1 => EveryOther { start: 1, count: n / 2 },
            _ => EveryOther { start: n - 1, count: 1 },
        }
    }
}

impl LineColours {
    /// Of lines along x, by the offsets of a stencil.
    pub fn new(stencil: &Stencil) -> LineColours {
        LineColours::along(stencil, 0)
    }

    /// Of lines along an axis.
    pub fn along(stencil: &Stencil, axis: usize) -> LineColours {
        let (grid, across) = (&stencil.grid, [[1, 2], [0, 2], [0, 1]][axis]);
        let diagonal = stencil.offsets.iter().any(|offset| across.iter().all(|axis| offset[*axis] != 0));
        let odd = across.map(|axis| grid.is_odd_ring(axis));
        LineColours { two: !diagonal && odd == [false; 2], across, odd }
    }

    /// Classes along one of the other axes.
    fn classes(&self, stencil: &Stencil, which: usize) -> usize {
        stencil.grid.dims[self.across[which]].min(2 + usize::from(self.odd[which]))
    }

    /// Number of colours.
    pub fn count(&self, stencil: &Stencil) -> usize {
        if self.two {
            let lines: usize = self.across.iter().map(|axis| stencil.grid.dims[*axis]).product();
            return if lines > 1 { 2 } else { 1 };
        }
        self.classes(stencil, 0) * self.classes(stencil, 1)
    }

    /// The colour of the line at these places along the other axes: y and z for lines along x.
    pub fn of(&self, stencil: &Stencil, y: usize, z: usize) -> usize {
        if self.two {
            return (y + z) % 2;
        }
        let [ny, nz] = self.across.map(|axis| stencil.grid.dims[axis]);
        let class = |at: usize, n: usize, odd: bool| if odd && n > 1 && at + 1 == n { 2 } else { at % 2 };
        class(y, ny, self.odd[0]) + self.classes(stencil, 0) * class(z, nz, self.odd[1])
    }

    /// Whether lines along one of the other axes are a ring of an odd number.
    pub fn has_odd_rings(&self) -> bool {
        self.odd != [false; 2]
    }

    /// The colour of the lines at this step along the other axes from those of a colour; none where that differs from line to line.
    pub fn at_step(&self, stencil: &Stencil, colour: usize, [dy, dz]: [i8; 2]) -> Option<usize> {
        if self.has_odd_rings() {
            return None;
        }
        if self.two {
            return Some((colour + usize::from(dy != 0) + usize::from(dz != 0)) % 2);
        }
        let classes = self.classes(stencil, 0);
        let [y, z] = [colour % classes + usize::from(dy != 0), colour / classes + usize::from(dz != 0)];
        Some(y % 2 + classes * (z % 2))
    }

    /// Of the lines around one of each colour, those that come after it, as bits by their places in [`Stencil::lines`]; none where that differs from line
    /// to line.
    pub fn later(&self, stencil: &Stencil, backward: bool) -> Option<[u16; 4]> {
        if self.has_odd_rings() {
            return None;
        }
        Some(std::array::from_fn(|colour| {
            let is_later = |to: [i8; 2]| {
                let other = self.at_step(stencil, colour, to);
                other.is_some_and(|other| if backward { other < colour } else { other > colour })
            };
            stencil.lines.iter().enumerate().map(|(l, line)| u16::from(is_later(line.to)) << l).sum()
        }))
    }

    /// The lines of a colour along the other axes, where there are more than two colours.
    pub fn lines(&self, stencil: &Stencil, colour: usize) -> [EveryOther; 2] {
        let classes = self.classes(stencil, 0);
        let [ny, nz] = self.across.map(|axis| stencil.grid.dims[axis]);
        [
            EveryOther::new(ny, colour % classes, self.odd[0] && ny > 1),
            EveryOther::new(nz, colour / classes, self.odd[1] && nz > 1),
        ]
    }
}

/// The order in which Gauss-Seidel solves the cells of a grid: the colours of lines along x, and within each the classes of cells along a line.
#[derive(Clone, Copy, Debug)]
pub struct CellColours {
    lines: LineColours,
    /// Along a periodic axis with an odd number of cells, the last comes between the even and the odd ones.
    last: bool,
    /// Cells along each axis.
    dims: [usize; 3],
    /// Classes of lines along y.
    classes: usize,
    count: usize,
}

impl CellColours {
    /// Those of a stencil.
    pub fn new(stencil: &Stencil) -> CellColours {
        let (lines, dims) = (LineColours::new(stencil), stencil.grid.dims);
        let last = stencil.grid.is_odd_ring(0) && dims[0] > 1;
        let count = lines.count(stencil) * (2 + usize::from(last));
        CellColours { lines, last, dims, classes: lines.classes(stencil, 0), count }
    }

    /// Number of colours; some may have no cell.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The colour of a cell.
    pub fn of(&self, [x, y, z]: [usize; 3]) -> usize {
        let class = |axis: usize, at: usize, odd: bool| match self.dims[axis] {
            n if odd && n > 1 && at + 1 == n => 2,
            _ => at % 2,
        };
        let line = match self.lines.two {
            true => (y + z) % 2,
            false => class(1, y, self.lines.odd[0]) + self.classes * class(2, z, self.lines.odd[1]),
        };
        match self.last {
            false => 2 * line + x % 2,
            true => 3 * line + [0, 2, 1][class(0, x, true)],
        }
    }

    /// As kernels take them: whether two colours of lines are enough, the axes of which the last cell is a class of its own, and the classes along y.
    pub fn numbers(&self) -> [i32; 5] {
        let [y, z] = self.lines.odd;
        let [two, x, y, z] = [self.lines.two, self.last, y, z].map(i32::from);
        [two, x, y, z, self.classes as i32]
    }
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::sparse::{Grid, Offset};

    #[test]
    fn lines_of_a_colour_are_those_that_have_it_and_are_not_coupled() {
        let all: Vec<Offset> = (0..27_i8).map(|k| [k % 3 - 1, k / 3 % 3 - 1, k / 9 - 1]).collect();
        for (dims, periodic) in
            [([4, 5, 6], [false; 3]), ([3, 5, 7], [true; 3]), ([2, 1, 3], [false, true, true]), ([1, 4, 1], [true; 3])]
        {
            let stencil = Stencil::new(Grid { dims, periodic }, 1, &all).unwrap();
            for axis in 0..3 {
                let colours = LineColours::along(&stencil, axis);
                let [p, q] = colours.across;
                let mut of = vec![usize::MAX; dims[p] * dims[q]];
                for colour in 0..colours.count(&stencil) {
                    let [along_y, along_z] = colours.lines(&stencil, colour);
                    for k in 0..along_y.count * along_z.count {
                        let (y, z) = (along_y.start + 2 * (k % along_y.count), along_z.start + 2 * (k / along_y.count));
                        assert_eq!(colours.of(&stencil, y, z), colour);
                        of[y + dims[p] * z] = colour;
                    }
                }
                assert!(!of.contains(&usize::MAX));
                for line in 0..of.len() {
                    for offset in &all {
                        let (y, z) = (line % dims[p], line / dims[p]);
                        if let (Some(y), Some(z)) =
                            (stencil.grid.step(p, y, offset[p]), stencil.grid.step(q, z, offset[q]))
                        {
                            let to = y + dims[p] * z;
                            let step = colours.at_step(&stencil, of[line], [offset[p], offset[q]]);
                            assert!(step.is_none_or(|colour| colour == of[to]), "{dims:?} {axis} {line} {to}");
                            assert!(to == line || of[to] != of[line], "{dims:?} {axis} {line} {to}");
                        }
                    }
                }
            }
        }
    }
}

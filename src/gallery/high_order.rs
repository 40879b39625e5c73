//! Tensor-product finite elements of any order for -div(c grad u) = 1 on a beam and on an L-shaped domain.
//!
//! Basis functions are the Lagrange polynomials of the Gauss-Lobatto points, integrals are exact. Rows of boundary
//! nodes are kept: they hold 1 on the diagonal and zeros for all other couplings, and so do their columns, with all of
//! these zeros stored.
//!
//! With e elements of order p along an axis, an axis has e p + 1 nodes and f = e (p + 1)^2 - (e - 1) couplings. Sizes
//! are those of the published tables of mixed-precision AMG: products of nodes and of f for the beam, 3 (e p + 1)^2 - 2
//! (e p + 1) rows and 3 f^2 - 2 f entries for the L-shape. The absolute values that are not zero are theirs as well, to
//! the digits that were printed: 8.86e-7 to 1 for the beam of order 3 and level 3 (8.9e-7 to 1), 3.97e-3 to 5.95 for
//! the L-shape of order 3 and level 7 (4e-3 to 6). Nodes are numbered along x, then y, then z; the published matrices
//! came from MFEM, which orders its unknowns otherwise, so that what depends on the order, like the choice of
//! aggregates, can differ.

use super::family::Parameter;
use crate::error::{Result, fail, try_vec};
use crate::par::{self, ROW_GRAIN};
use crate::sparse::{Block, Csr};
use std::ops::Range;

pub(super) const PARAMETERS: &[Parameter] = &[Parameter::whole("order", 3, 1, 16, "order of the polynomials")];

const MOST_ORDER: usize = 16;
const MOST_LEVELS: usize = 20;

/// A beam of length 8 and width 1 in cubes: 8 2^level x 2^level x 2^level of them, c = 0.1 in the first half of its
/// length and 1 in the second.
pub fn beam(order: usize, level: usize) -> Result<Csr<f64>> {
    beam_mesh(order, level, 0.1)?.assemble()
}

/// The right-hand side 1 of [`beam`]: the integrals of the basis functions, zero for boundary nodes.
pub fn beam_load(order: usize, level: usize) -> Result<Vec<f64>> {
    beam_mesh(order, level, 1.0)?.load()
}

fn beam_mesh(order: usize, level: usize, first_half: f64) -> Result<Mesh> {
    let e = elements(order, level, |nodes| (8 * nodes - 7) * nodes * nodes)?;
    let h = 1.0 / e as f64;
    let along = Line::new(order, 8 * e, h, |element| if element < 4 * e { first_half } else { 1.0 });
    let across = Line::new(order, e, h, |_| 1.0);
    Ok(Mesh { lines: [along, across.clone(), across], cut: usize::MAX })
}

/// Three unit squares in the shape of an L, cut into 2^level x 2^level squares each, c = 1. The square that is missing
/// from the 2 x 2 has the largest x and y.
pub fn lshape(order: usize, level: usize) -> Result<Csr<f64>> {
    lshape_mesh(order, level)?.assemble()
}

/// The right-hand side 1 of [`lshape`]: the integrals of the basis functions, zero for boundary nodes.
pub fn lshape_load(order: usize, level: usize) -> Result<Vec<f64>> {
    lshape_mesh(order, level)?.load()
}

fn lshape_mesh(order: usize, level: usize) -> Result<Mesh> {
    let e = elements(order, level, |nodes| (3 * nodes - 2) * nodes)?;
    let line = Line::new(order, 2 * e, 1.0 / e as f64, |_| 1.0);
    // A third axis with one node: the same loops serve both dimensions.
    let point =
        Line { order: 1, ranges: std::iter::once(0..1).collect(), mass: vec![vec![1.0]], stiffness: vec![vec![0.0]] };
    Ok(Mesh { lines: [line.clone(), line, point], cut: e })
}

/// Elements along a unit of length, when the rows, which follow from the nodes along it, can be numbered.
fn elements(order: usize, level: usize, rows: impl Fn(u128) -> u128) -> Result<usize> {
    if order == 0 || order > MOST_ORDER || level > MOST_LEVELS {
        return fail!(
            InvalidArgument,
            "order is {order} and level {level}; accepted: orders from 1 to {MOST_ORDER} and levels up to {MOST_LEVELS}"
        );
    }
    let e = 1 << level;
    match rows((e * order + 1) as u128) {
        rows if rows > i32::MAX as u128 => {
            fail!(InvalidArgument, "order {order} and level {level} have {rows} rows; accepted: at most {}", i32::MAX)
        }
        _ => Ok(e),
    }
}

/// Nodes and assembled matrices of one axis.
#[derive(Clone)]
struct Line {
    order: usize,
    /// The nodes that share an element with node i.
    ranges: Vec<Range<usize>>,
    /// Mass and stiffness of node i and node `ranges[i].start + k`, weighted with the coefficient.
    mass: Vec<Vec<f64>>,
    stiffness: Vec<Vec<f64>>,
}

impl Line {
    fn new(p: usize, elements: usize, h: f64, coefficient: impl Fn(usize) -> f64) -> Line {
        let [mass, stiffness] = element_matrices(p);
        let last = elements * p;
        let ranges: Vec<_> = (0..=last).map(|i| i.saturating_sub(1) / p * p..(i / p * p + p).min(last) + 1).collect();
        let zeros = || ranges.iter().map(|r| vec![0.0; r.len()]).collect::<Vec<_>>();
        let mut line = Line { order: p, mass: zeros(), stiffness: zeros(), ranges };
        for e in 0..elements {
            let c = coefficient(e);
            for (a, b) in (0..=p).flat_map(|a| (0..=p).map(move |b| (a, b))) {
                let (i, j) = (e * p + a, e * p + b);
                let k = j - line.ranges[i].start;
                line.mass[i][k] += c * h * mass[a][b];
                line.stiffness[i][k] += c / h * stiffness[a][b];
            }
        }
        line
    }

    fn nodes(&self) -> usize {
        self.ranges.len()
    }

    /// Whether the node is an end of the axis.
    fn is_end(&self, i: usize) -> bool {
        self.nodes() > 1 && (i == 0 || i + 1 == self.nodes())
    }
}

/// A product of three axes, from which the elements are missing whose numbers along both x and y are at least `cut`.
struct Mesh {
    lines: [Line; 3],
    cut: usize,
}

impl Mesh {
    /// The node along x and y from which on a corner is missing.
    fn cut_node(&self) -> usize {
        self.cut.saturating_mul(self.lines[0].order)
    }

    /// Nodes along x for a node along y.
    fn width(&self, y: usize) -> usize {
        let all = self.lines[0].nodes();
        if y > self.cut_node() { all.min(self.cut_node() + 1) } else { all }
    }

    /// Number of the nodes whose y is less, in one layer of z.
    fn before(&self, y: usize) -> usize {
        let full = y.min(self.cut_node().saturating_add(1));
        full * self.width(0) + (y - full) * self.width(y)
    }

    fn layer(&self) -> usize {
        self.before(self.lines[1].nodes())
    }

    fn point_of(&self, row: usize) -> [usize; 3] {
        let (z, rest) = (row / self.layer(), row % self.layer());
        let full = self.before(self.cut_node().saturating_add(1).min(self.lines[1].nodes()));
        if rest < full {
            [rest % self.width(0), rest / self.width(0), z]
        } else {
            let narrow = self.cut_node() + 1;
            [(rest - full) % narrow, narrow + (rest - full) / narrow, z]
        }
    }

    fn on_boundary(&self, [x, y, z]: [usize; 3]) -> bool {
        let cut = self.cut_node();
        [x, y, z].iter().zip(&self.lines).any(|(&i, line)| line.is_end(i)) || x >= cut && y >= cut
    }

    /// Calls `visit` with y and z of the neighbours of a node and the range of their x, in ascending order.
    #[inline(always)]
    fn for_each_run(&self, [x, y, z]: [usize; 3], mut visit: impl FnMut(Range<usize>, usize, usize)) {
        let [along_x, along_y, along_z] = [&self.lines[0], &self.lines[1], &self.lines[2]];
        let (p, cut) = (along_x.order, self.cut_node());
        let wide = &along_x.ranges[x];
        for z in along_z.ranges[z].clone() {
            for other in along_y.ranges[y].clone() {
                // The lowest element that holds y and the other node decides whether those right of the cut exist.
                let lowest = if other == y { along_y.ranges[y].start / p } else { y.min(other) / p };
                let missing = lowest >= self.cut;
                if !missing {
                    visit(wide.clone(), other, z);
                } else if x <= cut {
                    visit(wide.start..wide.end.min(cut + 1), other, z);
                }
            }
        }
    }

    /// The integrals of the basis functions: the sum of all is 1, so they are the row sums of the mass matrix.
    fn load(&self) -> Result<Vec<f64>> {
        let sums = self.lines.each_ref().map(|line| line.mass.iter().map(|row| row.iter().sum()).collect::<Vec<f64>>());
        let mut b = try_vec(self.layer() * self.lines[2].nodes(), 0.0)?;
        for (row, b) in b.iter_mut().enumerate() {
            let at = self.point_of(row);
            if !self.on_boundary(at) {
                *b = sums[0][at[0]] * sums[1][at[1]] * sums[2][at[2]];
            }
        }
        Ok(b)
    }

    fn assemble(&self) -> Result<Csr<f64>> {
        let rows = self.layer() * self.lines[2].nodes();
        let mut counts = try_vec(rows, 0_i64)?;
        par::for_each_mut(&mut counts, ROW_GRAIN, |start, piece| {
            for (row, count) in (start..).zip(piece) {
                self.for_each_run(self.point_of(row), |x, _, _| *count += x.len() as i64);
            }
        });
        let offsets = par::offsets_from_counts(counts)?;
        let mut columns = try_vec(offsets[rows] as usize, 0_i32)?;
        par::for_each_segment_mut(&mut columns, &offsets, 1, ROW_GRAIN, |rows: Range<usize>, piece| {
            let mut slots = piece.iter_mut();
            for row in rows {
                self.for_each_run(self.point_of(row), |x, y, z| {
                    let first = z * self.layer() + self.before(y);
                    slots.by_ref().take(x.len()).zip(first + x.start..).for_each(|(slot, c)| *slot = c as i32);
                });
            }
        });
        let mut out = Csr::with_pattern(rows, rows, Block::SCALAR, offsets, columns)?;
        par::for_each_segment_mut(&mut out.values, &out.offsets, 1, ROW_GRAIN, |rows: Range<usize>, piece| {
            let mut slots = piece.iter_mut();
            for row in rows {
                let at = self.point_of(row);
                let boundary = self.on_boundary(at);
                self.for_each_run(at, |x, y, z| {
                    for (slot, x) in slots.by_ref().take(x.len()).zip(x) {
                        *slot = if boundary || self.on_boundary([x, y, z]) {
                            f64::from([x, y, z] == at)
                        } else {
                            self.entry(at, [x, y, z])
                        };
                    }
                });
            }
        });
        Ok(out)
    }

    /// Stiffness of two nodes inside, all elements around which exist. The coefficient varies along x only.
    fn entry(&self, from: [usize; 3], to: [usize; 3]) -> f64 {
        let of = |axis: usize| {
            let (line, i) = (&self.lines[axis], from[axis]);
            let k = to[axis] - line.ranges[i].start;
            (line.mass[i][k], line.stiffness[i][k])
        };
        let [(mx, kx), (my, ky), (mz, kz)] = [of(0), of(1), of(2)];
        kx * (my * mz) + mx * (ky * mz + my * kz)
    }
}

/// Mass and stiffness of the Gauss-Lobatto basis of order p on the interval from 0 to 1.
fn element_matrices(p: usize) -> [Vec<Vec<f64>>; 2] {
    let nodes = gauss_lobatto(p);
    let mut mass = vec![vec![0.0; p + 1]; p + 1];
    let mut stiffness = mass.clone();
    // p + 1 Gauss points integrate polynomials of degree 2 p + 1.
    for (x, weight) in gauss(p + 1) {
        let basis: Vec<(f64, f64)> = (0..=p).map(|a| lagrange(&nodes, a, x)).collect();
        for (a, (va, da)) in basis.iter().enumerate() {
            for (b, (vb, db)) in basis.iter().enumerate() {
                mass[a][b] += weight * (va * vb);
                stiffness[a][b] += weight * (da * db);
            }
        }
    }
    [mass, stiffness]
}

/// Value and slope at x of the polynomial that is 1 at node a and 0 at the others.
fn lagrange(nodes: &[f64], a: usize, x: f64) -> (f64, f64) {
    let (mut value, mut slope) = (1.0, 0.0);
    for (_, &node) in nodes.iter().enumerate().filter(|&(b, _)| b != a) {
        let scale = 1.0 / (nodes[a] - node);
        slope = (slope * (x - node) + value) * scale;
        value *= (x - node) * scale;
    }
    (value, slope)
}

/// Legendre polynomials of degrees n and n - 1 at x, for n at least 1.
fn legendre(n: usize, x: f64) -> (f64, f64) {
    let (mut last, mut current) = (1.0, x);
    for k in 2..=n {
        let k = k as f64;
        (last, current) = (current, ((2.0 * k - 1.0) * x * current - (k - 1.0) * last) / k);
    }
    (current, last)
}

/// Steps of Newton's method; it converges quadratically from the starting points used here.
const NEWTON_STEPS: usize = 12;

/// Points and weights of Gauss's rule on the interval from 0 to 1: the zeros of the Legendre polynomial of degree n.
fn gauss(n: usize) -> Vec<(f64, f64)> {
    let slope = |x: f64| {
        let (current, last) = legendre(n, x);
        (current, n as f64 * (x * current - last) / (x * x - 1.0))
    };
    let point = |i: usize| {
        let mut x = -(std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        for _ in 0..NEWTON_STEPS {
            let (value, derivative) = slope(x);
            x -= value / derivative;
        }
        let (_, derivative) = slope(x);
        (0.5 * (x + 1.0), 1.0 / ((1.0 - x * x) * derivative * derivative))
    };
    (0..n).map(point).collect()
}

/// The Gauss-Lobatto points of order p on the interval from 0 to 1: its ends and the zeros of the derivative of the
/// Legendre polynomial.
fn gauss_lobatto(p: usize) -> Vec<f64> {
    let n = p as f64;
    let point = |i: usize| match i {
        0 => 0.0,
        i if i == p => 1.0,
        i => {
            let mut x = -(std::f64::consts::PI * i as f64 / n).cos();
            for _ in 0..NEWTON_STEPS {
                // (1 - x^2) P' = n (P_(n-1) - x P), whose derivative is -n (n + 1) P.
                let (current, last) = legendre(p, x);
                x -= (x * current - last) / ((n + 1.0) * current);
            }
            0.5 * (x + 1.0)
        }
    };
    (0..=p).map(point).collect()
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::gallery::testing::{row_sum, symmetric};

    #[test]
    fn element_matrices_of_low_order_are_the_known_ones() {
        let close = |a: &[Vec<f64>], b: &[&[f64]], scale: f64| {
            a.iter().flatten().zip(b.iter().copied().flatten()).all(|(a, b)| (a - b / scale).abs() < 1e-14)
        };
        let [mass, stiffness] = element_matrices(1);
        assert!(close(&mass, &[&[2.0, 1.0], &[1.0, 2.0]], 6.0));
        assert!(close(&stiffness, &[&[1.0, -1.0], &[-1.0, 1.0]], 1.0));
        let [mass, stiffness] = element_matrices(2);
        assert!(close(&mass, &[&[4.0, 2.0, -1.0], &[2.0, 16.0, 2.0], &[-1.0, 2.0, 4.0]], 30.0));
        assert!(close(&stiffness, &[&[7.0, -8.0, 1.0], &[-8.0, 16.0, -8.0], &[1.0, -8.0, 7.0]], 3.0));
    }

    #[test]
    fn points_are_where_the_tables_have_them_and_every_order_integrates_to_one() {
        let inner = 0.5 - 0.5 / 5.0_f64.sqrt();
        for (point, expected) in gauss_lobatto(3).iter().zip([0.0, inner, 1.0 - inner, 1.0]) {
            assert!((point - expected).abs() < 1e-15);
        }
        for p in 1..=MOST_ORDER {
            let [mass, stiffness] = element_matrices(p);
            assert!((mass.iter().flatten().sum::<f64>() - 1.0).abs() < 1e-13, "{p}");
            for row in stiffness {
                let largest = row.iter().fold(0.0_f64, |m, v| m.max(v.abs()));
                assert!(row.iter().sum::<f64>().abs() < 1e-12 * largest, "{p}");
            }
        }
    }

    /// Rows and entries of a beam and of an L-shape by the formulas.
    fn sizes(order: usize, level: usize) -> [(usize, usize); 2] {
        let e = 1 << level;
        let nodes = |e: usize| e * order + 1;
        let f = |e: usize| e * (order + 1).pow(2) - (e - 1);
        [
            (nodes(8 * e) * nodes(e).pow(2), f(8 * e) * f(e).pow(2)),
            (3 * nodes(e).pow(2) - 2 * nodes(e), 3 * f(e).pow(2) - 2 * f(e)),
        ]
    }

    #[test]
    fn sizes_are_the_published_ones() {
        assert_eq!(sizes(3, 3)[0], (120_625, 14_070_001));
        assert_eq!(sizes(2, 3)[0], (37_281, 2_167_425));
        assert_eq!(sizes(4, 3)[0], (279_873, 57_251_713));
        assert_eq!(sizes(3, 4)[0], (924_385, 111_573_601));
        assert_eq!(sizes(3, 7)[1], (443_905, 11_066_881));
        assert_eq!(sizes(3, 8)[1], (1_772_545, 44_252_161));
        assert_eq!(sizes(4, 7)[1], (788_481, 28_323_841));
        assert_eq!(sizes(4, 8)[1], (3_149_825, 113_270_785));
        let of = |a: Csr<f64>| (a.rows, a.columns.len());
        for (order, level) in [(1, 0), (1, 2), (2, 1), (3, 0), (3, 1), (3, 2), (4, 1), (7, 0)] {
            let found = [of(beam(order, level).unwrap()), of(lshape(order, level).unwrap())];
            assert_eq!(found, sizes(order, level), "{order} {level}");
        }
    }

    /// Smallest and largest absolute value that is not zero.
    fn range(a: &Csr<f64>) -> (f64, f64) {
        let sizes = a.values.iter().map(|v| v.abs()).filter(|&v| v > 0.0);
        sizes.fold((f64::MAX, 0.0), |(low, high), v| (low.min(v), high.max(v)))
    }

    #[test]
    fn the_published_matrices_have_their_sizes_and_ranges_of_values() {
        let a = beam(3, 3).unwrap();
        assert_eq!((a.rows, a.columns.len()), (120_625, 14_070_001));
        let (low, high) = range(&a);
        assert!((low - 8.857_709_75e-7).abs() < 1e-14 && high == 1.0, "{low:e} {high:e}");
        let a = lshape(3, 7).unwrap();
        assert_eq!((a.rows, a.columns.len()), (443_905, 11_066_881));
        let (low, high) = range(&a);
        assert!((low - 1.0 / 252.0).abs() < 1e-15 && (high - 125.0 / 21.0).abs() < 1e-13, "{low:e} {high:e}");
    }

    #[test]
    fn matrices_are_symmetric_with_sorted_rows_and_boundary_nodes_apart() {
        for a in [beam(2, 1).unwrap(), lshape(3, 2).unwrap()] {
            assert!(symmetric(&a));
            let mut apart = 0;
            for i in 0..a.rows {
                let columns: Vec<usize> = a.view().row(i).map(|(j, _)| j).collect();
                assert!(columns.is_sorted_by(|a, b| a < b));
                if a.view().row(i).all(|(j, v)| v[0] == f64::from(i == j)) {
                    apart += 1;
                }
            }
            // All nodes but those inside: 31 x 3 x 3 of the beam, three squares of 11 x 11 and two lines of 11 of the
            // L.
            let inside = if a.rows == 33 * 25 { 31 * 9 } else { 3 * 11 * 11 + 2 * 11 };
            assert_eq!(apart, a.rows - inside);
        }
    }

    #[test]
    fn far_from_the_boundary_constants_cost_nothing_and_the_coefficient_is_what_the_beam_has() {
        let a = beam(2, 2).unwrap();
        let row = |x: usize| x + 65 * (4 + 9 * 4);
        let diagonal = |i: usize| a.view().row(i).find(|&(j, _)| j == i).unwrap().1[0];
        assert!(row_sum(&a, row(10)).abs() < 1e-14 && row_sum(&a, row(32)).abs() < 1e-14);
        assert!((diagonal(row(12)) / diagonal(row(52)) - 0.1).abs() < 1e-14);
        assert!((diagonal(row(32)) / diagonal(row(52)) - 0.55).abs() < 1e-14);
        let l = lshape(3, 2).unwrap();
        assert!(row_sum(&l, 6 * 25 + 6).abs() < 1e-13 && row_sum(&l, 12 * 25 + 6).abs() < 1e-13);
    }

    #[test]
    fn a_small_l_shape_is_as_numbered_by_hand() {
        // Bilinear L-shape of level 1: five nodes inside, numbered by hand. The stencil is 8/3 and -1/3.
        let l = lshape(1, 1).unwrap();
        assert_eq!((l.rows, l.columns.len()), (21, 3 * 49 - 2 * 7));
        let inside = [6, 7, 8, 11, 16];
        for &i in &inside {
            for (j, v) in l.view().row(i) {
                let expected = if i == j {
                    8.0 / 3.0
                } else if inside.contains(&j) {
                    -1.0 / 3.0
                } else {
                    0.0
                };
                assert!((v[0] - expected).abs() < 1e-14, "{i} {j} {}", v[0]);
            }
        }
    }

    #[test]
    fn loads_add_up_to_the_volume_of_what_is_inside() {
        // With linear elements a node inside has the volume of one cell.
        let beam = beam_load(1, 2).unwrap();
        assert!((beam.iter().sum::<f64>() - 31.0 * 9.0 / 64.0).abs() < 1e-13);
        let l = lshape_load(1, 1).unwrap();
        assert_eq!(l.iter().filter(|b| **b != 0.0).count(), 5);
        assert!((l.iter().sum::<f64>() - 5.0 / 4.0).abs() < 1e-14);
        assert_eq!(beam_load(3, 1).unwrap().len(), super::beam(3, 1).unwrap().rows);
    }

    #[test]
    fn sizes_that_cannot_be_numbered_are_refused() {
        for error in
            [beam(0, 1), beam(17, 1), beam(3, 8), beam(3, 20), lshape(3, 14), lshape(16, 21)].map(|a| a.unwrap_err())
        {
            assert_eq!(error.status, Status::InvalidArgument);
        }
    }
}

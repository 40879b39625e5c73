use super::*;
use crate::error::Status;
use crate::gallery;
use crate::sparse::{Csr, SharedCsr};

fn scalar(grid: Grid, offsets: &[Offset], value: impl Fn(usize, usize) -> f64) -> SharedStencil<f64> {
    let pattern = Stencil::new(grid, 1, offsets).unwrap();
    let cells = grid.cells();
    let values = (0..pattern.entries()).map(|i| value(i / cells, i % cells)).collect::<Vec<_>>();
    SharedStencil { pattern: Arc::new(pattern), values: Arc::new(values) }
}

#[test]
fn rows_become_a_stencil_and_rows_again() {
    for (name, dims, format) in [
        ("poisson5:5x4", [5, 4, 1], "stencil5"),
        ("poisson9:4x3", [4, 3, 1], "stencil9"),
        ("poisson7:3x4x5", [3, 4, 5], "stencil7"),
        ("poisson27:4x2x3", [4, 2, 3], "stencil27"),
        ("poisson7:6x1x1", [6, 1, 1], "stencil3"),
        ("elasticity:3", [3, 4, 4], "stencil27-3x3"),
    ] {
        let a = gallery::parse(name).unwrap().matrix;
        let stencil = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
        assert_eq!(stencil.pattern.format(), format, "{name}");
        assert_eq!(stencil.validate().unwrap(), None, "{name}");
        let back = stencil.to_rows().unwrap();
        let (offsets, columns) = back.structure.own_arrays();
        assert_eq!((offsets, columns), (&a.offsets[..], &a.columns[..]), "{name}");
        assert_eq!(back.values.as_slice(), a.values, "{name}");
        assert_eq!(stencil.pattern.row_blocks(), columns.len(), "{name}");
    }
}

#[test]
fn a_row_that_does_not_fit_is_named() {
    let a = gallery::poisson7(4, 3, 2).unwrap();
    let refused = |dims| Stencil::of_rows(&a.view(), Grid::new(dims)).unwrap_err();
    let error = refused([3, 4, 2]);
    assert_eq!(error.status, Status::MatrixStructure);
    assert!(
        error.message.contains("row 2, cell (2, 0, 0) of 3 x 4 x 2, has an entry in column 3, cell (0, 1, 0)"),
        "{error}"
    );
    let error = refused([4, 3, 3]);
    assert!(error.status == Status::SizeMismatch && error.message.contains("36 cells"), "{error}");
    assert!(refused([0, 3, 3]).message.contains("at least 1"));
}

#[test]
fn values_outside_of_the_grid_and_values_that_are_not_finite_are_refused_with_their_cell() {
    let grid = Grid::new([3, 2, 1]);
    let offsets = [[0, 0, 0], [1, 0, 0], [0, -1, 0]];
    let good = |k: usize, cell: usize| match k {
        0 => 4.0,
        1 if cell % 3 == 2 => 0.0,
        2 if cell < 3 => 0.0,
        _ => -1.0,
    };
    assert_eq!(scalar(grid, &offsets, good).validate().unwrap(), None);
    for (k, cell, value, text) in [
        (1, 5, -1.0, "cell (2, 1, 0), offset (1, 0, 0) holds -1 and reaches outside of the grid of 3 x 2 x 1"),
        (2, 1, 2.0, "cell (1, 0, 0), offset (0, -1, 0) holds 2 and reaches outside"),
        (0, 4, f64::NAN, "cell (1, 1, 0), offset (0, 0, 0) holds NaN; every value must be finite"),
    ] {
        let bad = scalar(grid, &offsets, |o, i| if (o, i) == (k, cell) { value } else { good(o, i) });
        let error = bad.validate().unwrap_err();
        assert!(error.status == Status::MatrixValues && error.message.contains(text), "{error}");
    }
    let zero = scalar(grid, &offsets, |o, i| if (o, i) == (0, 3) { 0.0 } else { good(o, i) });
    assert!(zero.validate().unwrap().unwrap().message.contains("cell (0, 1, 0) has a zero diagonal entry"));
    let periodic = Grid { periodic: [true, false, false], ..grid };
    assert!(scalar(periodic, &offsets, |k, i| if k == 1 { -1.0 } else { good(k, i) }).validate().is_ok());
}

#[test]
fn bad_offsets_are_refused() {
    let grid = Grid::new([3, 3, 3]);
    for (offsets, text) in [
        (&[[0, 0, 0], [2, 0, 0]][..], "offset 1 is (2, 0, 0)"),
        (&[[0, 1, 0], [0, 0, 0], [0, 1, 0]], "offsets 0 and 2 are both (0, 1, 0)"),
        (&[], "0 offsets were given"),
    ] {
        assert!(Stencil::new(grid, 1, offsets).unwrap_err().message.contains(text));
    }
    assert!(Stencil::new(Grid::new([1 << 20, 1 << 20, 1]), 1, &[[0; 3]]).is_err());
}

/// The periodic Laplacian on a line of n cells, of which both offsets lead to the same column for two cells, and to the diagonal for one.
#[test]
fn periodic_axes_wrap_and_add_up_where_they_are_short() {
    for n in [1, 2, 3, 5] {
        let grid = Grid { dims: [n, 1, 1], periodic: [true, false, false] };
        let a = scalar(grid, &[[1, 0, 0], [0, 0, 0], [-1, 0, 0]], |k, _| [-1.0, 2.0, -1.0][k]);
        let rows = a.to_rows().unwrap();
        let dense = |a: &SharedCsr<f64>| {
            let mut dense = vec![0.0; n * n];
            for i in 0..n {
                a.view().row(i).for_each(|(j, v)| dense[i * n + j] += v[0]);
            }
            dense
        };
        let mut expected = vec![0.0; n * n];
        for i in 0..n {
            expected[i * n + i] += 2.0;
            expected[i * n + (i + 1) % n] -= 1.0;
            expected[i * n + (i + n - 1) % n] -= 1.0;
        }
        assert_eq!(dense(&rows), expected, "{n}");
        assert_eq!(rows.values.as_slice().len(), a.pattern.row_blocks(), "{n}");
        let view = rows.view();
        assert!((0..n).all(|i| view.row(i).map(|(j, _)| j).is_sorted()));
        let again: SharedStencil<f64> = SharedStencil::from_rows(&view.to_owned_as::<f64>().unwrap(), grid).unwrap();
        assert_eq!(dense(&again.to_rows().unwrap()), expected, "{n}");
    }
}

#[test]
fn all_of_a_cell_together_gives_the_same_values() {
    let a: Csr<f64> = gallery::parse("elasticity:2").unwrap().matrix;
    let stencil = SharedStencil::from_rows(&a, Grid::new([2, 3, 3])).unwrap();
    let (cells, values) = (stencil.pattern.grid.cells(), stencil.values.as_slice());
    let width = values.len() / cells;
    let by_cells: Vec<f64> = (0..values.len()).map(|i| values[i % width * cells + i / width]).collect();
    assert_eq!(stencil.pattern.from_cells(&by_cells).unwrap(), values);
}

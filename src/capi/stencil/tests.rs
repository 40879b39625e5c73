//! Matrices on grids through the C ABI.

use super::super::testing::*;
use super::super::*;
use super::*;
use crate::error::Status;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

fn inner(matrix: *mut terrace_matrix) -> Arc<Matrix> {
    // SAFETY: tests pass a matrix that is alive.
    unsafe { Arc::clone(&(*matrix).matrix) }
}

/// The 5-point Laplacian on 3 x 2 cells by offset: the centre, left, right, below and above.
const OFFSETS: [i32; 15] = [0, 0, 0, -1, 0, 0, 1, 0, 0, 0, -1, 0, 0, 1, 0];

fn laplacian() -> Vec<f64> {
    let mut values = vec![4.0; 6];
    values.extend([0.0, -1.0, -1.0, 0.0, -1.0, -1.0]);
    values.extend([-1.0, -1.0, 0.0, -1.0, -1.0, 0.0]);
    values.extend([0.0, 0.0, 0.0, -1.0, -1.0, -1.0]);
    values.extend([-1.0, -1.0, -1.0, 0.0, 0.0, 0.0]);
    values
}

#[test]
fn both_layouts_types_and_ways_to_keep_values_give_the_same_matrix() {
    let context = TestContext::new();
    let dims = [3_i64, 2, 1];
    let values = laplacian();
    let by_cell: Vec<f64> = (0..30).map(|i| values[i % 5 * 6 + i / 5]).collect();
    let single: Vec<f32> = values.iter().map(|v| *v as f32).collect();
    let expected = crate::gallery::poisson5(3, 2).unwrap();
    for (kind, array, layout, flags) in [
        (TERRACE_F64, values.as_ptr().cast::<c_void>(), TERRACE_BY_OFFSET, TERRACE_COPY),
        (TERRACE_F64, values.as_ptr().cast(), TERRACE_BY_OFFSET, TERRACE_BORROW),
        (TERRACE_F64, by_cell.as_ptr().cast(), TERRACE_BY_CELL, TERRACE_COPY),
        (TERRACE_F32, single.as_ptr().cast(), TERRACE_BY_OFFSET, TERRACE_COPY),
    ] {
        let mut made = null_mut();
        let (d, o, m) = (dims.as_ptr(), OFFSETS.as_ptr(), &mut made);
        let status = abi!(terrace_matrix_create_stencil(context.0, d, null(), 1, 5, o, kind, array, layout, flags, m));
        assert_eq!(status, 0, "{}", context.last_error());
        let a = inner(made).shared::<f64>().unwrap();
        assert_eq!((a.structure.own_arrays().1, a.values.as_slice()), (&expected.columns[..], &expected.values[..]));
        let (mut rows, mut nonzeros, mut block) = (0, 0, 0);
        let sizes = abi!(terrace_matrix_get_size(context.0, made, &mut rows, null_mut(), &mut nonzeros, &mut block));
        assert_eq!((sizes, rows, nonzeros, block), (0, 6, 30, 1));
        assert_eq!(inner(made).owned_bytes().1 == 0, flags == TERRACE_BORROW);

        let (x, mut y) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [0.0; 6]);
        let (xp, yp) = (x.as_ptr().cast(), y.as_mut_ptr().cast());
        assert_eq!(abi!(terrace_matrix_apply(context.0, made, TERRACE_F64, 1.0, xp, 0.0, yp)), 0);
        assert_eq!(y, [-2.0, -1.0, 4.0, 10.0, 8.0, 16.0]);

        // Rows have no entries outside of the grid.
        let (mut starts, mut columns, mut entries) = ([0_i32; 7], [-1_i32; 30], [0.0_f64; 30]);
        let (s, c, e) = (starts.as_mut_ptr().cast(), columns.as_mut_ptr().cast(), entries.as_mut_ptr().cast());
        let (i, f) = (TERRACE_I32, TERRACE_F64);
        assert_eq!(abi!(terrace_matrix_get_arrays(context.0, made, i, s, i, c, f, e, 0)), 0);
        assert_eq!(starts[6], 20);
        assert_eq!((&columns[..20], &entries[..20]), (&expected.columns[..], &expected.values[..]));

        // Twice the values, in the order in which they were given.
        let (twice, twice_single): (Vec<f64>, Vec<f32>) = match layout {
            TERRACE_BY_CELL => (by_cell.iter().map(|v| 2.0 * v).collect(), Vec::new()),
            _ => (values.iter().map(|v| 2.0 * v).collect(), single.iter().map(|v| 2.0 * v).collect()),
        };
        let new: *const c_void = if kind == TERRACE_F32 { twice_single.as_ptr().cast() } else { twice.as_ptr().cast() };
        assert_eq!(abi!(terrace_matrix_update_values(context.0, made, kind, new, 30)), 0);
        let doubled: Vec<f64> = expected.values.iter().map(|v| 2.0 * v).collect();
        assert_eq!(inner(made).shared::<f64>().unwrap().values.as_slice(), doubled);
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }
}

#[test]
fn bad_grids_offsets_and_values_are_refused_with_numbers() {
    let context = TestContext::new();
    let good = laplacian();
    let refused = |dims: [i64; 3],
                   dofs,
                   count,
                   offsets: &[i32],
                   values: &[f64],
                   layout,
                   flags,
                   status: Status,
                   text: &str| {
        let (mut made, o, v) = (null_mut(), offsets.as_ptr(), values.as_ptr().cast());
        let (d, f) = (dims.as_ptr(), TERRACE_F64);
        let code =
            abi!(terrace_matrix_create_stencil(context.0, d, null(), dofs, count, o, f, v, layout, flags, &mut made));
        assert!(made.is_null());
        assert_eq!(code, status.code(), "{}", context.last_error());
        assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
    };
    let (grid, argument) = ([3, 2, 1], Status::InvalidArgument);
    refused([3, 0, 1], 1, 5, &OFFSETS, &good, 0, 0, argument, "dims[1] is 0");
    refused([1 << 20, 1 << 20, 1], 1, 5, &OFFSETS, &good, 0, 0, argument, "1048576 x 1048576 x 1 cells");
    refused(grid, 9, 5, &OFFSETS, &good, 0, 0, argument, "dofs_per_cell is 9");
    refused(grid, 1, 28, &OFFSETS, &good, 0, 0, argument, "offsets_count is 28");
    refused(grid, 1, 2, &[0, 0, 0, 0, 3, 0], &good, 0, 0, argument, "offsets[4] is 3");
    refused(grid, 1, 2, &[0, 0, 0, 0, 0, 0], &good, 0, 0, argument, "offsets 0 and 1 are both (0, 0, 0)");
    refused(grid, 1, 5, &OFFSETS, &good, 7, 0, argument, "layout is 7");
    refused(grid, 1, 5, &OFFSETS, &good, 0, 2, argument, "flags is 2");
    refused(grid, 1, 5, &OFFSETS, &good, 1, 1, argument, "TERRACE_BY_CELL, in which values are copied");
    let mut outside = good.clone();
    outside[6 + 3] = -1.0;
    let text = "cell (0, 1, 0), offset (-1, 0, 0) holds -1 and reaches outside of the grid of 3 x 2 x 1 cells";
    refused(grid, 1, 5, &OFFSETS, &outside, 0, 0, Status::MatrixValues, text);
}

#[test]
fn a_grid_is_set_checked_and_taken_back() {
    let context = TestContext::new();
    let a = crate::gallery::poisson5(3, 2).unwrap();
    let offsets: Vec<i32> = a.offsets.iter().map(|o| *o as i32).collect();
    let mut made = null_mut();
    let (o, c, v) = (offsets.as_ptr().cast(), a.columns.as_ptr().cast(), a.values.as_ptr().cast());
    let (i, f) = (TERRACE_I32, TERRACE_F64);
    assert_eq!(abi!(terrace_matrix_create_csr(context.0, 6, 6, i, o, i, c, f, v, 0, TERRACE_COPY, &mut made)), 0);
    let set = |dims: [i64; 3]| abi!(terrace_matrix_set_grid(context.0, made, dims.as_ptr(), null()));
    assert_eq!(set([2, 3, 1]), Status::MatrixStructure.code());
    assert!(context.last_error().contains("row 1, cell (1, 0, 0) of 2 x 3 x 1"), "{}", context.last_error());
    assert_eq!(set([3, 3, 1]), Status::SizeMismatch.code());
    assert_eq!(set([3, -2, 1]), Status::InvalidArgument.code());
    assert!(inner(made).stencil().is_none());
    assert_eq!(set([3, 2, 1]), 0);
    assert_eq!(inner(made).stencil().unwrap().format(), "stencil5");
    assert_eq!(abi!(terrace_matrix_set_grid(context.0, made, null(), null())), 0);
    assert!(inner(made).stencil().is_none());
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
}

//! Matrices through the C ABI.

use super::super::testing::*;
use super::super::*;
use super::*;
use crate::error::Status;
use crate::matrix::Values;
use std::ptr::{null, null_mut};

fn inner(matrix: *mut terrace_matrix) -> Arc<Matrix> {
    // SAFETY: tests pass a matrix that is alive.
    unsafe { Arc::clone(&(*matrix).matrix) }
}

#[test]
fn entries_in_any_order_are_added_up() {
    let context = TestContext::new();
    let (rows, cols, values) = ([1_i64, 2, 1, 2, 1], [2_i64, 2, 1, 2, 2], [1.0, 2.0, 4.0, 3.0, 0.5]);
    let make = |count: i64, base: i32, rows: &[i64]| {
        let (mut made, i, f) = (null_mut(), TERRACE_I64, TERRACE_F64);
        let (r, c, v) = (rows.as_ptr().cast(), cols.as_ptr().cast(), values.as_ptr().cast());
        let status = abi!(terrace_matrix_create_coo(context.0, 2, 2, count, i, r, c, f, v, base, &mut made));
        (status, made)
    };
    let (status, made) = make(5, 1, &rows);
    assert_eq!(status, 0, "{}", context.last_error());
    let a = inner(made).shared::<f64>().unwrap();
    assert_eq!((a.values.as_slice(), a.structure.columns.as_slice()), (&[4.0, 1.5, 5.0][..], &[0, 1, 1][..]));
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    let (status, made) = make(0, 0, &rows);
    assert_eq!((status, inner(made).entries()), (0, 0));
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);

    let refused = |(status, _): (terrace_status, *mut terrace_matrix), expected: Status, text: &str| {
        assert_eq!(status, expected.code());
        assert!(context.last_error().contains(text), "{}", context.last_error());
    };
    refused(make(5, 0, &rows), Status::MatrixStructure, "column_indices[0] is 2; accepted with base 0: 0 to 1");
    refused(make(5, 1, &[1, 2, 0, 2, 1]), Status::MatrixStructure, "row_indices[2] is 0; accepted with base 1: 1 to 2");
    refused(make(-1, 1, &rows), Status::InvalidArgument, "count is -1");
    refused(make(5, 2, &rows), Status::InvalidArgument, "base is 2");
}

/// [4 1; 0 5] in every combination of types, base and flags, scalar and as one block.
#[test]
fn every_combination_of_types_gives_the_same_matrix() {
    let context = TestContext::new();
    for case in 0..64 {
        let bit = |i: i32| case >> i & 1 == 1;
        let (wide_offsets, wide_columns, single, base, flags, bsr) =
            (bit(0), bit(1), bit(2), case >> 3 & 1, u32::from(bit(4)) | TERRACE_SORTED, bit(5));
        let offsets: Vec<i32> = (if bsr { vec![0, 1] } else { vec![0, 2, 3] }).iter().map(|o| o + base).collect();
        let columns: Vec<i32> = (if bsr { vec![0] } else { vec![0, 1, 1] }).iter().map(|c| c + base).collect();
        let values = if bsr { vec![4.0, 1.0, 0.0, 5.0] } else { vec![4.0, 1.0, 5.0] };
        let offsets64: Vec<i64> = offsets.iter().map(|o| i64::from(*o)).collect();
        let columns64: Vec<i64> = columns.iter().map(|c| i64::from(*c)).collect();
        let values32: Vec<f32> = values.iter().map(|v| *v as f32).collect();
        let o: (_, *const c_void) = match wide_offsets {
            true => (TERRACE_I64, offsets64.as_ptr().cast()),
            false => (TERRACE_I32, offsets.as_ptr().cast()),
        };
        let c: (_, *const c_void) = match wide_columns {
            true => (TERRACE_I64, columns64.as_ptr().cast()),
            false => (TERRACE_I32, columns.as_ptr().cast()),
        };
        let v: (_, *const c_void) = match single {
            true => (TERRACE_F32, values32.as_ptr().cast()),
            false => (TERRACE_F64, values.as_ptr().cast()),
        };

        let mut made = null_mut();
        let ctx = context.0;
        let status = match bsr {
            true => {
                abi!(terrace_matrix_create_bsr(ctx, 1, 1, 2, o.0, o.1, c.0, c.1, v.0, v.1, base, flags, &mut made))
            }
            false => {
                abi!(terrace_matrix_create_csr(ctx, 2, 2, o.0, o.1, c.0, c.1, v.0, v.1, base, flags, &mut made))
            }
        };
        assert_eq!(status, 0, "case {case}: {}", context.last_error());
        let (mut rows, mut cols, mut nonzeros, mut block) = (0, 0, 0, 0);
        assert_eq!(abi!(terrace_matrix_get_size(ctx, made, &mut rows, &mut cols, &mut nonzeros, &mut block)), 0);
        assert_eq!((rows, cols, nonzeros, block), (2, 2, values.len() as i64, if bsr { 2 } else { 1 }));

        let shared = inner(made).shared::<f64>().unwrap();
        let scalar = shared.view().to_owned_as::<f64>().unwrap().view().to_scalar().unwrap();
        let dense: Vec<f64> =
            (0..2).flat_map(|i| (0..2).map(move |j| (i, j))).map(|(i, j)| entry(&scalar, i, j)).collect();
        assert_eq!(dense, [4.0, 1.0, 0.0, 5.0], "case {case}");

        let borrowed = flags & TERRACE_BORROW != 0;
        let owned = inner(made).structure().unwrap().owned_bytes();
        assert_eq!(owned == 0, borrowed && !wide_columns, "case {case}");
        if let Values::F64(kept) = inner(made).values().unwrap() {
            assert_eq!(std::ptr::eq(kept.as_slice().as_ptr(), values.as_ptr()), borrowed);
        }
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }
}

fn entry(a: &crate::sparse::Csr<f64>, i: usize, j: usize) -> f64 {
    a.view().row(i).filter(|(column, _)| *column == j).map(|(_, value)| value[0]).sum()
}

#[test]
fn bad_arrays_are_refused_with_the_argument_or_the_row() {
    let context = TestContext::new();
    let refused = |offsets: &[i32], columns: &[i32], values: &[f64], base, flags, status: Status, text: &str| {
        let code = csr(&context, offsets, columns, values, base, flags).unwrap_err();
        assert_eq!(code, status.code(), "{}", context.last_error());
        assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
    };
    let (ones, structure) = (&[1.0; 2], Status::MatrixStructure);

    refused(&[1, 1, 2], &[0, 1], ones, 0, 0, structure, "row_offsets[0] is 1");
    refused(&[0, 1, -5], &[0, 1], ones, 0, 0, structure, "row_offsets[2] is -5");
    refused(&[0, 1, i32::MAX], &[0, 1], ones, 0, 0, structure, "row_offsets[2] is 2147483647");
    refused(&[0, i32::MAX, 2], &[0, 1], ones, 0, 0, structure, "decrease at row 1");
    refused(&[0, i32::MIN, 2], &[0, 1], ones, 0, 0, structure, "decrease at row 0");
    refused(&[1, 2, 3], &[1, 3], ones, 1, 0, structure, "row 2 has column 3");
    refused(&[0, 1, 2], &[0, 1], ones, 2, 0, Status::InvalidArgument, "base is 2");
    refused(&[0, 1, 2], &[0, 1], ones, 0, 8, Status::InvalidArgument, "flags is 8");
    refused(&[0, 1, 2], &[0, 1], &[1.0, f64::NAN], 0, 0, Status::MatrixValues, "row 1, column 1 holds NaN");
    refused(&[0, 2, 3], &[1, 0, 1], &[1.0; 3], 0, 2, structure, "do not ascend");
}

#[test]
fn bad_scalars_and_pointers_are_named() {
    let context = TestContext::new();
    let (offsets, columns, values) = ([0_i32, 1], [0_i64], [1.0]);
    let (o, c, v): (*const c_void, *const c_void, *const c_void) =
        (offsets.as_ptr().cast(), columns.as_ptr().cast(), values.as_ptr().cast());
    let mut made = null_mut();
    let mut refused = |rows, block, o_type, o, c, v_type, v, text: &str| {
        let (c_type, ctx) = (TERRACE_I64, context.0);
        let code =
            abi!(terrace_matrix_create_bsr(ctx, rows, 1, block, o_type, o, c_type, c, v_type, v, 0, 0, &mut made));
        assert!(code < 0 && made.is_null());
        assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
    };

    refused(-1, 1, TERRACE_I32, o, c, TERRACE_F64, v, "block_rows is -1");
    refused(1 << 31, 1, TERRACE_I32, o, c, TERRACE_F64, v, "block_rows is 2147483648; accepted: 0 to 2147483647");
    refused(1, 9, TERRACE_I32, o, c, TERRACE_F64, v, "block_size is 9");
    refused(1, 1, TERRACE_F64, o, c, TERRACE_F64, v, "offset_type is TERRACE_F64");
    refused(1, 1, TERRACE_I32, o, c, TERRACE_F16, v, "value_type is TERRACE_F16");
    refused(1, 1, TERRACE_I32, null(), c, TERRACE_F64, v, "row_offsets is null");
    refused(1, 1, TERRACE_I32, o, null(), TERRACE_F64, v, "columns is null");
    refused(1, 1, TERRACE_I32, o, c, TERRACE_F64, null(), "values is null");
    refused(1, 1, TERRACE_I32, o.wrapping_byte_add(2), c, TERRACE_F64, v, "row_offsets is not aligned");

    let far = [0_i64, 5_000_000_000];
    let two = [0_i32, 1, 2];
    let code = abi!(terrace_matrix_create_csr(
        context.0,
        2,
        2,
        TERRACE_I32,
        two.as_ptr().cast(),
        TERRACE_I64,
        far.as_ptr().cast(),
        TERRACE_F64,
        [1.0, 1.0].as_ptr().cast(),
        0,
        0,
        &mut made
    ));
    assert_eq!(code, Status::MatrixStructure.code());
    assert!(context.last_error().contains("row 1 has column 5000000000"), "{}", context.last_error());
    let no_place = abi!(terrace_matrix_get_size(context.0, null(), null_mut(), null_mut(), null_mut(), null_mut()));
    assert_eq!((no_place, context.last_error()), (Status::NullArgument.code(), "matrix is null".to_string()));
}

#[test]
fn an_empty_matrix_needs_no_columns_and_values() {
    let context = TestContext::new();
    let made = csr(&context, &[1], &[], &[], 1, TERRACE_BORROW).unwrap();
    assert_eq!(inner(made).entries(), 0);
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
}

#[test]
fn values_are_replaced_as_they_were_taken() {
    let context = TestContext::new();
    let (offsets, columns) = ([0, 1, 2], [0, 1]);
    let first = [1.0, 2.0];
    for flags in [TERRACE_COPY, TERRACE_BORROW] {
        let made = csr(&context, &offsets, &columns, &first, 0, flags).unwrap();
        let second = [3.0, 4.0];
        let pointer: *const c_void = second.as_ptr().cast();
        assert_eq!(abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, pointer, 2)), 0);
        let Values::F64(kept) = inner(made).values().unwrap() else { unreachable!("the matrix is f64") };
        assert_eq!(kept.as_slice(), second);
        assert_eq!(std::ptr::eq(kept.as_slice().as_ptr(), second.as_ptr()), flags == TERRACE_BORROW);

        let short = abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, pointer, 1));
        assert_eq!(short, Status::SizeMismatch.code());
        let other = abi!(terrace_matrix_update_values(context.0, made, TERRACE_F32, pointer, 2));
        assert_eq!(other, Status::InvalidArgument.code());
        let bad = [f64::INFINITY, 1.0];
        let bad = abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, bad.as_ptr().cast(), 2));
        assert_eq!(bad, Status::MatrixValues.code());
        let Values::F64(kept) = inner(made).values().unwrap() else { unreachable!("the matrix is f64") };
        assert_eq!(kept.as_slice(), second);
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }
}

#[test]
fn functions_are_checked_and_removed() {
    for device in [c"host:1", c"sim"] {
        let context = TestContext::on(device);
        let made = laplacian(&context, 3);
        let set = |count, p: *const i32| abi!(terrace_matrix_set_functions(context.0, made, count, p));
        let (right, wrong) = ([0, 1, 0], [0, 1, 2]);
        assert_eq!(set(2, right.as_ptr()), 0);
        assert_eq!(inner(made).functions().unwrap().of, [0, 1, 0]);
        assert_eq!(set(2, wrong.as_ptr()), Status::InvalidArgument.code());
        assert!(context.last_error().contains("functions[2] is 2; accepted: 0 to 1"), "{}", context.last_error());
        for count in [-1, 65] {
            assert_eq!(set(count, right.as_ptr()), Status::InvalidArgument.code());
            assert!(context.last_error().contains(&format!("count is {count}")), "{}", context.last_error());
        }
        assert_eq!(set(2, null()), Status::NullArgument.code());
        assert_eq!(inner(made).functions().unwrap().count, 2);
        assert_eq!(set(0, null()), 0);
        assert!(inner(made).functions().is_none());
        if device == c"sim" {
            let there = context.gpu().upload(&right).unwrap();
            assert_eq!(set(2, pointer(&there).cast()), 0, "{}", context.last_error());
            assert_eq!(inner(made).functions().unwrap().of, [0, 1, 0]);
        }
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }
}

#[test]
fn near_null_space_and_coordinates_are_checked_before_they_are_read() {
    let context = TestContext::new();
    let made = laplacian(&context, 4);
    let numbers = [1.0_f64; 8];
    let p = numbers.as_ptr();
    assert_eq!(abi!(terrace_matrix_set_near_null_space(context.0, made, 2, 2, p)), 0);
    assert_eq!(abi!(terrace_matrix_set_coordinates(context.0, made, 2, 2, p)), 0);
    assert_eq!(inner(made).near_null_space().unwrap().count, 3);

    let space = |dofs, count, p| abi!(terrace_matrix_set_near_null_space(context.0, made, dofs, count, p));
    assert_eq!(space(2, 99, p), Status::InvalidArgument.code());
    assert_eq!(space(-1, 1, p), Status::InvalidArgument.code());
    assert_eq!(space(1, 1, null()), Status::NullArgument.code());
    let coordinates = |dimension, nodes| abi!(terrace_matrix_set_coordinates(context.0, made, dimension, nodes, p));
    assert_eq!(coordinates(4, 1), Status::InvalidArgument.code());
    assert_eq!(coordinates(2, i64::MAX), Status::SizeMismatch.code());
    assert_eq!(inner(made).near_null_space().unwrap().count, 3);
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
}

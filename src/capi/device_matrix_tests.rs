//! Matrices whose arrays are in device memory: the same matrices and the same refusals as from arrays on the host.

use super::testing::*;
use super::*;
use crate::error::Status;
use crate::gpu::{Buffer, Gpu};
use crate::matrix::{Matrix, Values};
use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::Arc;

/// Arrays of a matrix in device memory, with 64-bit offsets and 32-bit columns.
pub(super) struct DeviceCsrArrays {
    rows: i64,
    block: i32,
    base: i32,
    pub offsets: Buffer<i64>,
    pub columns: Buffer<i32>,
    pub values: Buffer<f64>,
}

impl DeviceCsrArrays {
    pub fn new(gpu: &Gpu, block: i32, base: i32, offsets: &[i64], columns: &[i32], values: &[f64]) -> DeviceCsrArrays {
        let rows = offsets.len() as i64 - 1;
        let (offsets, columns) = (gpu.upload(offsets).unwrap(), gpu.upload(columns).unwrap());
        DeviceCsrArrays { rows, block, base, offsets, columns, values: gpu.upload(values).unwrap() }
    }

    pub fn create(
        &self,
        context: &TestContext,
        flags: terrace_matrix_flags,
    ) -> Result<*mut terrace_matrix, terrace_status> {
        let mut matrix = null_mut();
        let (n, o, c, v) = (self.rows, pointer(&self.offsets), pointer(&self.columns), pointer(&self.values));
        let (i64s, i32s, f64s) = (TERRACE_I64, TERRACE_I32, TERRACE_F64);
        let (b, base) = (self.block, self.base);
        let status = if b == 1 {
            abi!(terrace_matrix_create_csr(context.0, n, n, i64s, o, i32s, c, f64s, v, base, flags, &mut matrix))
        } else {
            abi!(terrace_matrix_create_bsr(context.0, n, n, b, i64s, o, i32s, c, f64s, v, base, flags, &mut matrix))
        };
        if status == 0 { Ok(matrix) } else { Err(status) }
    }
}

fn inner(matrix: *mut terrace_matrix) -> Arc<Matrix> {
    // SAFETY: tests pass a matrix that is alive.
    unsafe { Arc::clone(&(*matrix).matrix) }
}

fn kept(matrix: *mut terrace_matrix) -> Vec<f64> {
    match inner(matrix).values().unwrap() {
        Values::F64(values) => values.as_slice().to_vec(),
        Values::F32(_) => unreachable!("the matrix is f64"),
    }
}

/// tridiag(-1, 2, -1) times `scale`.
pub(super) fn tridiagonal(n: usize, scale: f64) -> (Vec<i64>, Vec<i32>, Vec<f64>) {
    let (mut offsets, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
    for i in 0..n as i32 {
        for j in (i - 1).max(0)..(i + 2).min(n as i32) {
            columns.push(j);
            values.push(scale * if i == j { 2.0 } else { -1.0 });
        }
        offsets.push(columns.len() as i64);
    }
    (offsets, columns, values)
}

#[test]
fn scalars_and_blocks_are_taken_from_device_memory_copied_and_borrowed() {
    let context = TestContext::on(c"sim");
    let gpu = context.gpu();
    for (block, base, values) in [(1, 0, vec![4.0, 1.0, 5.0]), (2, 1, (1..=12).map(f64::from).collect())] {
        let offsets = [0, 2, 3].map(|o| o + i64::from(base));
        let on_device = DeviceCsrArrays::new(&gpu, block, base, &offsets, &[0, 1, 1].map(|c| c + base), &values);
        for flags in [TERRACE_COPY, TERRACE_BORROW] {
            let made = on_device.create(&context, flags | TERRACE_SORTED).unwrap();
            let matrix = inner(made);
            assert_eq!((matrix.rows(), matrix.entries()), (2 * block as usize, values.len()));
            assert_eq!(kept(made), values);
            assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        }
    }
}

#[test]
fn what_is_wrong_with_arrays_in_device_memory_is_named_as_on_the_host() {
    let context = TestContext::on(c"sim:1");
    let gpu = context.gpu();
    let refused = |offsets: &[i64], columns: &[i32], values: &[f64], status: Status, text: &str| {
        let on_device = DeviceCsrArrays::new(&gpu, 1, 0, offsets, columns, values);
        assert_eq!(on_device.create(&context, TERRACE_BORROW | TERRACE_SORTED).err(), Some(status.code()));
        assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
    };
    let structure = Status::MatrixStructure;
    refused(&[1, 2, 3], &[0, 1], &[1.0; 2], structure, "row_offsets[0] is 1");
    refused(&[0, 1, 900], &[0, 1], &[1.0; 2], structure, "row_offsets[2] is 900");
    refused(&[0, 1, 2], &[0, 7], &[1.0; 2], structure, "row 1 has column 7");
    refused(&[0, 2, 3], &[1, 0, 1], &[1.0; 3], structure, "do not ascend");
    refused(&[0, 1, 2], &[0, 1], &[1.0, f64::NAN], Status::MatrixValues, "row 1, column 1 holds NaN");
    // A diagonal is what AMG needs.
    let zero = DeviceCsrArrays::new(&gpu, 1, 0, &[0, 1, 2], &[0, 1], &[0.0, 1.0]);
    let (made, mut amg) = (zero.create(&context, TERRACE_BORROW | TERRACE_SORTED).unwrap(), null_mut());
    assert_eq!(abi!(terrace_amg_setup(context.0, made, null(), &mut amg)), Status::MatrixValues.code());
    assert!(context.last_error().contains("row 0 has a zero diagonal"), "{}", context.last_error());
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    let on_device = DeviceCsrArrays::new(&gpu, 1, 0, &[0, 1], &[0], &[1.0]);
    let (o, c, v) = (pointer(&on_device.offsets), pointer(&on_device.columns), pointer(&on_device.values));
    let mut made = null_mut();
    let (i64s, i32s, f64s) = (TERRACE_I64, TERRACE_I32, TERRACE_F64);
    let unaligned = o.wrapping_byte_add(4);
    let status = abi!(terrace_matrix_create_csr(context.0, 1, 1, i64s, unaligned, i32s, c, f64s, v, 0, 0, &mut made));
    assert_eq!(status, Status::InvalidArgument.code());
    assert!(context.last_error().contains("row_offsets is not aligned"), "{}", context.last_error());
}

#[test]
fn values_that_change_in_device_memory_are_taken_over_by_an_update() {
    const N: usize = 200;
    let context = TestContext::on(c"sim");
    let gpu = context.gpu();
    let (offsets, columns, values) = tridiagonal(N, 1.0);
    let mut on_device = DeviceCsrArrays::new(&gpu, 1, 0, &offsets, &columns, &values);
    let made = on_device.create(&context, TERRACE_BORROW | TERRACE_SORTED).unwrap();
    let mut solver = null_mut();
    assert_eq!(abi!(terrace_solver_create(context.0, null(), &mut solver)), 0);
    assert_eq!(abi!(terrace_solver_setup(solver, made)), 0);
    let (b, x) = (gpu.upload(&[1.0_f64; N]).unwrap(), gpu.upload(&[f64::NAN; N]).unwrap());
    let solve = || {
        let (b, to): (*const c_void, _) = (pointer(&b), pointer(&x));
        assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, to, TERRACE_ZERO_GUESS)), 0);
        gpu.fetch(&x).unwrap()
    };
    let first = solve();
    assert!((first[0] - N as f64 / 2.0).abs() < 1e-3, "{}", first[0]);

    gpu.write(&tridiagonal(N, 2.0).2, &mut on_device.values).unwrap();
    assert_eq!(abi!(terrace_solver_update(solver)), 0);
    let halved = solve();
    assert!(first.iter().zip(&halved).all(|(a, b)| (a - 2.0 * b).abs() < 1e-5 * a.abs()));

    // Through the matrix, with another array; and a bad one changes nothing.
    let other = gpu.upload(&tridiagonal(N, 4.0).2).unwrap();
    let count = values.len() as i64;
    let update =
        |values: *const c_void| abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, values, count));
    assert_eq!(update(pointer(&other)), 0);
    let bad = gpu.upload(&vec![f64::NAN; values.len()]).unwrap();
    assert_eq!(update(pointer(&bad)), Status::MatrixValues.code());
    assert_eq!(kept(made), tridiagonal(N, 4.0).2);
    assert_eq!(abi!(terrace_solver_update(solver)), 0);
    let quartered = solve();
    assert!(first.iter().zip(&quartered).all(|(a, b)| (a - 4.0 * b).abs() < 1e-5 * a.abs()));

    // A context that cannot see the values says so.
    let host = TestContext::new();
    let mut amg = null_mut();
    assert_eq!(abi!(terrace_amg_setup(host.0, made, null(), &mut amg)), 0);
    assert_eq!(abi!(terrace_amg_update(amg)), Status::InvalidArgument.code());
    assert!(host.last_error().contains("borrowed in device memory"), "{}", host.last_error());
    assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
}

#[test]
fn the_finest_matrix_is_on_the_device_once() {
    let context = TestContext::on(c"sim");
    // Thirds, which no narrower format holds: the solver would have a smaller copy of its own.
    let (offsets, columns, values) = tridiagonal(2000, 1.0 / 3.0);
    let offsets: Vec<i32> = offsets.iter().map(|o| *o as i32).collect();
    let matrix = csr(&context, &offsets, &columns, &values, 0, TERRACE_SORTED).unwrap();
    let used = || {
        let mut used = 0;
        assert_eq!(abi!(terrace_context_get_memory(context.0, &mut used, null_mut(), null_mut())), 0);
        used
    };
    let (mut amg, mut solver, mut config) = (null_mut(), null_mut(), null_mut());
    assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
    assert_eq!(abi!(terrace_config_set_str(config, c"precision".as_ptr(), c"input".as_ptr())), 0);
    assert_eq!(abi!(terrace_amg_setup(context.0, matrix, config, &mut amg)), 0);
    let hierarchy = used();
    assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    assert_eq!(used(), 0);
    assert_eq!(abi!(terrace_solver_create(context.0, config, &mut solver)), 0);
    assert_eq!(abi!(terrace_config_destroy(config)), 0);
    for _ in 0..2 {
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0);
        // Residual, best iterate, and r, z, p, q of conjugate gradients with seven numbers and the address of x.
        assert_eq!(used() - hierarchy, (6 * 2000 + 8) * 8);
        // An update keeps what later ones go by, which hold no more.
        assert_eq!(abi!(terrace_solver_update(solver)), 0);
        let renewed = used();
        assert_eq!(abi!(terrace_solver_update(solver)), 0);
        assert_eq!(used(), renewed);
    }
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
    assert_eq!(abi!(terrace_matrix_destroy(matrix)), 0);
}

//! Solves after a change of values without an update: the system of the matrix as it is now, with the preconditioner of the last
//! set-up or update.

use super::device_matrix_tests::{DeviceCsrArrays, tridiagonal};
use super::testing::*;
use super::*;
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;

const N: usize = 300;

/// Where the arrays of a matrix are.
enum Arrays {
    Host(Vec<f64>),
    Device(DeviceCsrArrays),
}

struct Case {
    // In the order in which they may end.
    solver: *mut terrace_solver,
    matrix: *mut terrace_matrix,
    arrays: Arrays,
    _pattern: (Vec<i32>, Vec<i32>),
    context: TestContext,
    flags: terrace_matrix_flags,
    block: usize,
}

impl Case {
    fn new(device: &CStr, on_device: bool, flags: terrace_matrix_flags, block: usize, options: &CStr) -> Case {
        let context = TestContext::on(device);
        let (offsets, columns, values) = tridiagonal(N, 1.0);
        let values = in_blocks(&values, block);
        let pattern = (offsets.iter().map(|o| *o as i32).collect::<Vec<i32>>(), columns.clone());
        let (arrays, matrix) = if on_device {
            let on_device = DeviceCsrArrays::new(&context.gpu(), block as i32, 0, &offsets, &columns, &values);
            let matrix = on_device.create(&context, flags).unwrap();
            (Arrays::Device(on_device), matrix)
        } else {
            let matrix = csr(&context, &pattern.0, &pattern.1, &values, 0, flags).unwrap();
            (Arrays::Host(values), matrix)
        };
        let (mut config, mut solver) = (null_mut(), null_mut());
        assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
        assert_eq!(abi!(terrace_config_load_json(config, options.as_ptr())), 0, "{}", context.last_error());
        assert_eq!(abi!(terrace_solver_create(context.0, config, &mut solver)), 0);
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
        let case = Case { solver, matrix, arrays, _pattern: pattern, context, flags, block };
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0, "{}", case.context.last_error());
        case
    }

    /// Other values: in place where they are borrowed, otherwise through the matrix.
    fn change(&mut self, new: &[f64]) {
        let new = &in_blocks(new, self.block);
        let borrowed = self.flags & TERRACE_BORROW != 0;
        let values: *const c_void = match &mut self.arrays {
            Arrays::Host(values) if borrowed => return values.copy_from_slice(new),
            Arrays::Device(on_device) if borrowed => {
                return self.context.gpu().write(new, &mut on_device.values).unwrap();
            }
            _ => new.as_ptr().cast(),
        };
        let (ctx, count) = (self.context.0, new.len() as i64);
        assert_eq!(abi!(terrace_matrix_update_values(ctx, self.matrix, TERRACE_F64, values, count)), 0);
    }

    /// Status and x for ones.
    fn solve(&self) -> (terrace_status, Vec<f64>) {
        let (b, mut x) = (vec![1.0_f64; self.block * N], vec![f64::NAN; self.block * N]);
        let (b, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
        let status = abi!(terrace_solver_solve(self.solver, TERRACE_F64, 1, b, to, TERRACE_ZERO_GUESS));
        // The unknowns of a block are solved alike.
        assert!(x.chunks(self.block).all(|x| x.iter().all(|v| (v - x[0]).abs() <= 1e-6 * x[0].abs())) || status != 0);
        (status, x.into_iter().step_by(self.block).collect())
    }

    /// Age of the preconditioner and iterations of the last solve.
    fn told(&self) -> (i64, i64) {
        let mut report = null_mut();
        assert_eq!(abi!(terrace_solver_report(self.solver, &mut report)), 0);
        let get = |key: &CStr| {
            let mut value = -1;
            assert_eq!(abi!(terrace_report_get_int(report, key.as_ptr(), 0, &mut value)), 0);
            value
        };
        let told = (get(c"preconditioner_age"), get(c"iterations"));
        assert_eq!(abi!(terrace_report_destroy(report)), 0);
        told
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        assert_eq!(abi!(terrace_solver_destroy(self.solver)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(self.matrix)), 0);
    }
}

/// Each value times the unit matrix of a block.
fn in_blocks(values: &[f64], block: usize) -> Vec<f64> {
    let unit = |k: usize| if k.is_multiple_of(block + 1) { 1.0 } else { 0.0 };
    values.iter().flat_map(|v| (0..block * block).map(move |k| v * unit(k))).collect()
}

/// The relative residual of x for ones, of the tridiagonal matrix with these values.
fn residual(values: &[f64], x: &[f64]) -> f64 {
    let (offsets, columns, _) = tridiagonal(N, 1.0);
    let squares = (0..N).map(|i| {
        let row = offsets[i] as usize..offsets[i + 1] as usize;
        let product: f64 = row.map(|k| values[k] * x[columns[k] as usize]).sum();
        (1.0 - product) * (1.0 - product)
    });
    (squares.sum::<f64>() / N as f64).sqrt()
}

const CG: &CStr = c"{\"solver.type\": \"cg\", \"amg.coarsest.max_rows\": 50}";
/// With a copy of the matrix in another order.
const REORDERED: &CStr = c"{\"solver.type\": \"cg\", \"amg.reorder\": \"on\", \"amg.coarsest.max_rows\": 50}";

fn check(device: &CStr, on_device: bool, flags: terrace_matrix_flags, block: usize, options: &CStr) {
    let what = format!("{device:?}, arrays on the device: {on_device}, flags {flags}, blocks of {block}, {options:?}");
    let mut case = Case::new(device, on_device, flags, block, options);
    let (status, x) = case.solve();
    let (age, iterations) = case.told();
    assert_eq!((status, age), (0, 0), "{what}");
    assert!(residual(&tridiagonal(N, 1.0).2, &x) < 1e-7, "{what}");

    // The iteration does not depend on the units of a preconditioner that is otherwise the same.
    let tenfold = tridiagonal(N, 10.0).2;
    case.change(&tenfold);
    for _ in 0..2 {
        let (status, x) = case.solve();
        assert_eq!((status, case.told()), (0, (1, iterations)), "{what}");
        assert!(residual(&tenfold, &x) < 1e-7, "{what}: {}", residual(&tenfold, &x));
    }

    let mut shifted = tridiagonal(N, 20.0).2;
    shifted.iter_mut().filter(|v| **v > 0.0).for_each(|v| *v += 0.01);
    case.change(&shifted);
    let (status, x) = case.solve();
    assert_eq!((status, case.told().0), (0, 2), "{what}");
    assert!(residual(&shifted, &x) < 1e-7, "{what}");

    assert_eq!(abi!(terrace_solver_update(case.solver)), 0, "{what}");
    let (status, x) = case.solve();
    assert_eq!((status, case.told().0), (0, 0), "{what}");
    assert!(residual(&shifted, &x) < 1e-7, "{what}");

    // In other units the system is set up wholly, and so it is on the way back.
    for factor in [1e200, 1.0] {
        let values: Vec<f64> = shifted.iter().map(|v| factor * v).collect();
        case.change(&values);
        let (status, x) = case.solve();
        assert_eq!((status, case.told().0), (0, 0), "{what}, times {factor:e}");
        let x: Vec<f64> = x.iter().map(|x| factor * x).collect();
        assert!(residual(&shifted, &x) < 1e-7, "{what}, times {factor:e}");
    }

    // Values that no matrix may have are refused, and others solved again.
    let mut bad = shifted.clone();
    bad[4] = f64::NAN;
    if flags & TERRACE_BORROW != 0 {
        case.change(&bad);
        assert_eq!(case.solve().0, crate::error::Status::MatrixValues.code(), "{what}");
        case.change(&shifted);
    }
    assert_eq!(case.solve().0, 0, "{what}");
}

#[test]
fn a_solve_uses_the_matrix_as_it_is_now() {
    let cuda = std::env::var_os("TERRACE_TEST_CUDA").map(|_| c"cuda:0");
    let sim = terrace_kernels::SIM.then_some(c"sim");
    for flags in [TERRACE_COPY, TERRACE_BORROW, TERRACE_BORROW | TERRACE_SORTED] {
        check(c"host:2", false, flags, 1, CG);
        check(c"host:2", false, flags, 1, REORDERED);
    }
    for device in sim.into_iter().chain(cuda) {
        check(device, true, TERRACE_BORROW, 2, REORDERED);
        for flags in [TERRACE_COPY, TERRACE_BORROW | TERRACE_SORTED] {
            check(device, false, flags, 1, CG);
            check(device, true, flags, 1, CG);
        }
        check(device, true, TERRACE_BORROW, 2, CG);
        check(device, false, TERRACE_BORROW, 1, REORDERED);
    }
}

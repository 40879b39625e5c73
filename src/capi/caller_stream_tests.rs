//! Calls come after what the caller has begun on the default stream, and leave nothing behind that reads the caller's arrays: the simulation
//! holds back the caller's writes until something waits for them, and the library's work until the host waits for it.

use super::device_matrix_tests::{DeviceCsrArrays, tridiagonal};
use super::testing::*;
use super::*;
use crate::error::Status;
use crate::gpu::Gpu;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

const N: usize = 60;

/// A matrix that borrows tridiag(-1, 2, -1) in device memory.
struct Lent {
    // In the order in which they may end.
    matrix: *mut terrace_matrix,
    on_device: DeviceCsrArrays,
    gpu: Gpu,
    context: TestContext,
}

impl Lent {
    fn new() -> Lent {
        let context = TestContext::on(c"sim");
        let gpu = context.gpu();
        let (offsets, columns, values) = tridiagonal(N, 1.0);
        let on_device = DeviceCsrArrays::new(&gpu, 1, 0, &offsets, &columns, &values);
        let matrix = on_device.create(&context, TERRACE_BORROW | TERRACE_SORTED).unwrap();
        Lent { matrix, on_device, gpu, context }
    }

    /// The same, and a write that makes it twice as large is under way.
    fn being_doubled() -> Lent {
        let lent = Lent::new();
        lent.double();
        lent
    }

    fn double(&self) {
        self.gpu.write_on_default_stream(tridiagonal(N, 2.0).2, &self.on_device.values);
    }

    fn apply(&self, context: &TestContext) -> Vec<f64> {
        let (x, mut y) = (vec![1.0_f64; N], vec![f64::NAN; N]);
        let (x, to) = (x.as_ptr().cast(), y.as_mut_ptr().cast());
        assert_eq!(abi!(terrace_matrix_apply(context.0, self.matrix, TERRACE_F64, 1.0, x, 0.0, to)), 0);
        y
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        assert_eq!(abi!(terrace_matrix_destroy(self.matrix)), 0);
    }
}

/// The values of a matrix, into an array on the host.
fn values(context: &TestContext, matrix: *const terrace_matrix) -> Vec<f64> {
    let mut nonzeros = 0;
    let size = abi!(terrace_matrix_get_size(context.0, matrix, null_mut(), null_mut(), &mut nonzeros, null_mut()));
    assert_eq!(size, 0);
    let mut values = vec![f64::NAN; nonzeros as usize];
    let (none, to, i, f) = (null_mut(), values.as_mut_ptr().cast(), TERRACE_I32, TERRACE_F64);
    assert_eq!(abi!(terrace_matrix_get_arrays(context.0, matrix, i, none, i, none, f, to, 0)), 0);
    values
}

/// The middle of x = M b for ones: exact, because the matrix is the coarsest level.
fn middle_of(amg: *mut terrace_amg) -> f64 {
    let (b, mut x) = (vec![1.0_f64; N], vec![f64::NAN; N]);
    assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast())), 0);
    x[N / 2]
}

fn solved_by(solver: *mut terrace_solver) -> f64 {
    let (b, mut x) = (vec![1.0_f64; N], vec![f64::NAN; N]);
    let (b, to) = (b.as_ptr().cast(), x.as_mut_ptr().cast());
    assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, to, TERRACE_ZERO_GUESS)), 0);
    x[N / 2]
}

/// What both of these are for the matrix times `scale`: x_i = (i + 1) (N - i) / 2.
fn expected(scale: f64) -> f64 {
    ((N / 2 + 1) * (N - N / 2)) as f64 / 2.0 / scale
}

fn is_near(x: f64, y: f64) -> bool {
    (x - y).abs() < 1e-5 * y.abs()
}

#[test]
fn products_with_vectors_wait() {
    let lent = Lent::being_doubled();
    assert_eq!(lent.apply(&lent.context)[0], 2.0);

    let lent = Lent::being_doubled();
    let gpu = &lent.gpu;
    let (x, y) = (gpu.upload(&[0.0_f64; N]).unwrap(), gpu.upload(&[0.0_f64; N]).unwrap());
    gpu.write_on_default_stream(vec![1.0; N], &x);
    let (from, to) = (pointer(&x), pointer(&y));
    assert_eq!(abi!(terrace_matrix_apply(lent.context.0, lent.matrix, TERRACE_F64, 1.0, from, 0.0, to)), 0);
    assert_eq!(gpu.fetch(&y).unwrap()[0], 2.0);
}

#[test]
fn transposed_products_and_solves_wait() {
    let lent = Lent::being_doubled();
    let (gpu, ctx, a) = (&lent.gpu, lent.context.0, lent.matrix);
    let (x, y) = (gpu.upload(&[0.0_f64; N]).unwrap(), gpu.upload(&[0.0_f64; N]).unwrap());
    gpu.write_on_default_stream(vec![1.0; N], &x);
    let (from, to) = (pointer(&x), pointer(&y));
    assert_eq!(abi!(terrace_matrix_apply_transposed(ctx, a, TERRACE_F64, 1.0, from, 0.0, to)), 0);
    assert_eq!(gpu.fetch(&y).unwrap()[0], 2.0);

    let lent = Lent::being_doubled();
    let (gpu, mut solver) = (&lent.gpu, null_mut());
    assert_eq!(abi!(terrace_solver_create(lent.context.0, null(), &mut solver)), 0);
    assert_eq!(abi!(terrace_solver_setup(solver, lent.matrix)), 0);
    let (b, x) = (gpu.upload(&[0.0_f64; N]).unwrap(), gpu.upload(&[0.0_f64; N]).unwrap());
    gpu.write_on_default_stream(vec![1.0; N], &b);
    let (b, to) = (pointer(&b), pointer(&x));
    assert_eq!(abi!(terrace_solver_solve_transposed(solver, TERRACE_F64, 1, b, to, TERRACE_ZERO_GUESS)), 0);
    assert!(is_near(gpu.fetch(&x).unwrap()[N / 2], expected(2.0)));
    assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
}

/// A matrix on the device that is being written, which is not symmetric: the transpose is made of what it has then.
#[test]
fn transposed_applications_wait_at_the_first_call_and_after_updates() {
    let skew = |scale: f64| {
        let (offsets, columns, mut values) = tridiagonal(N, scale);
        for i in 0..N {
            for k in offsets[i] as usize..offsets[i + 1] as usize {
                if columns[k] as usize > i {
                    values[k] *= 0.5;
                }
            }
        }
        values
    };
    let lent = Lent::new();
    let (gpu, mut amg, mut fsai) = (&lent.gpu, null_mut(), null_mut());
    assert_eq!(abi!(terrace_amg_setup(lent.context.0, lent.matrix, null(), &mut amg)), 0);
    assert_eq!(abi!(terrace_fsai_setup(lent.context.0, lent.matrix, null(), &mut fsai)), 0);
    let (b, x) = (gpu.upload(&vec![0.0_f64; N]).unwrap(), gpu.upload(&vec![0.0_f64; N]).unwrap());
    for scale in [1.0, 3.0] {
        gpu.write_on_default_stream(skew(scale), &lent.on_device.values);
        assert_eq!(abi!(terrace_amg_update(amg)), 0);
        assert_eq!(abi!(terrace_fsai_update(fsai)), 0);
        gpu.write_on_default_stream(vec![scale; N], &b);
        assert_eq!(abi!(terrace_amg_apply_transposed(amg, TERRACE_F64, pointer(&b), pointer(&x))), 0);
        let (by_amg, last) = (gpu.fetch(&x).unwrap(), N - 1);
        // The coarsest level is solved exactly: the last equation of the transpose is -x_(n-1)/2 + 2 x_n = 1.
        assert!(is_near(2.0 * by_amg[last] - 0.5 * by_amg[last - 1], 1.0), "{by_amg:?}");
        assert_eq!(abi!(terrace_fsai_apply_transposed(fsai, TERRACE_F64, pointer(&b), pointer(&x))), 0);
        let by_fsai = gpu.fetch(&x).unwrap();
        assert!(by_fsai.iter().all(|x| x.is_finite() && *x > 0.0), "{by_fsai:?}");
    }
    assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    assert_eq!(abi!(terrace_fsai_destroy(fsai)), 0);
}

#[test]
fn factors_wait_at_set_up_update_and_application() {
    // The same for a matrix that is not being written.
    let plain = |scale: f64| {
        let lent = Lent::new();
        let (mut fsai, b, mut x) = (null_mut(), vec![1.0_f64; N], vec![f64::NAN; N]);
        assert_eq!(abi!(terrace_fsai_setup(lent.context.0, lent.matrix, null(), &mut fsai)), 0);
        assert_eq!(abi!(terrace_fsai_apply(fsai, TERRACE_F64, b.as_ptr().cast(), x.as_mut_ptr().cast())), 0);
        assert_eq!(abi!(terrace_fsai_destroy(fsai)), 0);
        x[N / 2] / scale
    };
    let lent = Lent::being_doubled();
    let (gpu, mut fsai) = (&lent.gpu, null_mut());
    assert_eq!(abi!(terrace_fsai_setup(lent.context.0, lent.matrix, null(), &mut fsai)), 0);
    let (b, x) = (gpu.upload(&[0.0_f64; N]).unwrap(), gpu.upload(&[0.0_f64; N]).unwrap());
    gpu.write_on_default_stream(vec![1.0; N], &b);
    assert_eq!(abi!(terrace_fsai_apply(fsai, TERRACE_F64, pointer(&b), pointer(&x))), 0);
    assert!(is_near(gpu.fetch(&x).unwrap()[N / 2], plain(2.0)));
    gpu.write_on_default_stream(tridiagonal(N, 3.0).2, &lent.on_device.values);
    assert_eq!(abi!(terrace_fsai_update(fsai)), 0);
    assert_eq!(abi!(terrace_fsai_apply(fsai, TERRACE_F64, pointer(&b), pointer(&x))), 0);
    assert!(is_near(gpu.fetch(&x).unwrap()[N / 2], plain(3.0)));
    assert_eq!(abi!(terrace_fsai_destroy(fsai)), 0);
}

#[test]
fn contexts_that_have_to_copy_the_matrix_wait() {
    for device in [c"host:1", c"sim"] {
        let (lent, other) = (Lent::being_doubled(), TestContext::on(device));
        assert_eq!(lent.apply(&other)[0], 2.0);
        // What was copied for one call is not what the next call is about.
        lent.gpu.write_on_default_stream(tridiagonal(N, 3.0).2, &lent.on_device.values);
        assert_eq!(lent.apply(&other)[0], 3.0);
        let mut amg = null_mut();
        lent.double();
        assert_eq!(abi!(terrace_amg_setup(other.0, lent.matrix, null(), &mut amg)), 0);
        assert!(is_near(middle_of(amg), expected(2.0)));
        assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    }
}

#[test]
fn products_and_transposes_wait() {
    for second in [false, true] {
        let lent = Lent::being_doubled();
        let (ctx, a, fixed, mut made) = (lent.context.0, lent.matrix, laplacian(&lent.context, N), null_mut());
        let (left, right) = if second { (fixed, a) } else { (a, fixed) };
        assert_eq!(abi!(terrace_matrix_multiply(ctx, left, right, &mut made)), 0);
        assert_eq!(values(&lent.context, made)[0], 10.0);
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(fixed)), 0);
    }
    let lent = Lent::being_doubled();
    let mut made = null_mut();
    assert_eq!(abi!(terrace_matrix_transpose(lent.context.0, lent.matrix, &mut made)), 0);
    assert_eq!(values(&lent.context, made)[0], 4.0);
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
}

#[test]
fn arrays_are_read_after_the_wait() {
    let lent = Lent::being_doubled();
    assert_eq!(values(&lent.context, lent.matrix)[0], 4.0);
    let (lent, none) = (Lent::being_doubled(), null_mut());
    let to = lent.gpu.upload(&vec![0.0_f64; 3 * N - 2]).unwrap();
    let (ctx, a, i, f) = (lent.context.0, lent.matrix, TERRACE_I32, TERRACE_F64);
    assert_eq!(abi!(terrace_matrix_get_arrays(ctx, a, i, none, i, none, f, pointer(&to), 0)), 0);
    assert_eq!(lent.gpu.fetch(&to).unwrap()[0], 4.0);
}

#[test]
fn a_hierarchy_waits_at_set_up_and_update() {
    let lent = Lent::being_doubled();
    let mut amg = null_mut();
    assert_eq!(abi!(terrace_amg_setup(lent.context.0, lent.matrix, null(), &mut amg)), 0);
    assert!(is_near(middle_of(amg), expected(2.0)));
    lent.gpu.write_on_default_stream(tridiagonal(N, 3.0).2, &lent.on_device.values);
    assert_eq!(abi!(terrace_amg_update(amg)), 0);
    assert!(is_near(middle_of(amg), expected(3.0)));
    let (b, x) = (lent.gpu.upload(&[0.0_f64; N]).unwrap(), lent.gpu.upload(&[0.0_f64; N]).unwrap());
    lent.gpu.write_on_default_stream(vec![1.0; N], &b);
    assert_eq!(abi!(terrace_amg_apply(amg, TERRACE_F64, pointer(&b), pointer(&x))), 0);
    assert!(is_near(lent.gpu.fetch(&x).unwrap()[N / 2], expected(3.0)));
    assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
}

#[test]
fn a_solver_waits_at_set_up_update_and_solve() {
    for preconditioner in [c"amg", c"none"] {
        let lent = Lent::being_doubled();
        let (mut config, mut solver) = (null_mut(), null_mut());
        assert_eq!(abi!(terrace_config_create(lent.context.0, &mut config)), 0);
        let (key, value) = (c"solver.preconditioner".as_ptr(), preconditioner.as_ptr());
        assert_eq!(abi!(terrace_config_set_str(config, key, value)), 0);
        assert_eq!(abi!(terrace_solver_create(lent.context.0, config, &mut solver)), 0);
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
        assert_eq!(abi!(terrace_solver_setup(solver, lent.matrix)), 0);
        assert!(is_near(solved_by(solver), expected(2.0)));
        lent.gpu.write_on_default_stream(tridiagonal(N, 3.0).2, &lent.on_device.values);
        assert_eq!(abi!(terrace_solver_update(solver)), 0);
        assert!(is_near(solved_by(solver), expected(3.0)));
        let (b, x) = (lent.gpu.upload(&[0.0_f64; N]).unwrap(), lent.gpu.upload(&[0.0_f64; N]).unwrap());
        lent.gpu.write_on_default_stream(vec![1.0; N], &b);
        let (b, to) = (pointer(&b), pointer(&x));
        assert_eq!(abi!(terrace_solver_solve(solver, TERRACE_F64, 1, b, to, TERRACE_ZERO_GUESS)), 0);
        assert!(is_near(lent.gpu.fetch(&x).unwrap()[N / 2], expected(3.0)));
        assert_eq!(abi!(terrace_solver_destroy(solver)), 0);
    }
}

#[test]
fn values_are_checked_after_the_wait() {
    let lent = Lent::new();
    let bad = vec![f64::NAN; 3 * N - 2];
    lent.gpu.write_on_default_stream(bad.clone(), &lent.on_device.values);
    let (ctx, count): (_, i64) = (lent.context.0, bad.len() as i64);
    let same: *const c_void = pointer(&lent.on_device.values);
    let refused = abi!(terrace_matrix_update_values(ctx, lent.matrix, TERRACE_F64, same, count));
    assert_eq!(refused, Status::MatrixValues.code());

    let (offsets, columns, values) = tridiagonal(N, 1.0);
    let on_device = DeviceCsrArrays::new(&lent.gpu, 1, 0, &offsets, &columns, &values);
    lent.gpu.write_on_default_stream(bad, &on_device.values);
    let refused = on_device.create(&lent.context, TERRACE_COPY | TERRACE_SORTED);
    assert_eq!(refused.err(), Some(Status::MatrixValues.code()));
}

#[test]
fn a_set_up_has_read_the_values_when_it_returns() {
    for update in [false, true] {
        let lent = Lent::new();
        let mut amg = null_mut();
        assert_eq!(abi!(terrace_amg_setup(lent.context.0, lent.matrix, null(), &mut amg)), 0);
        if update {
            assert_eq!(abi!(terrace_amg_update(amg)), 0);
        }
        for i in 0..lent.on_device.values.len() {
            // SAFETY: the array is alive, and device memory of the simulation is that of the host.
            unsafe { pointer(&lent.on_device.values).cast::<f64>().add(i).write(f64::NAN) };
        }
        assert!(is_near(middle_of(amg), expected(1.0)), "{}", middle_of(amg));
        assert_eq!(abi!(terrace_amg_destroy(amg)), 0);
    }
}

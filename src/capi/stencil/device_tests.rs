//! Stencils whose values are in device memory: the same matrices, solutions and refusals as from values on the host, and nothing comes to the host.

use super::super::testing::*;
use super::super::*;
use super::*;
use crate::error::Status;
use crate::gpu::Buffer;
use crate::sparse::SharedStencil;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

/// A stencil of the gallery, its offsets as C passes them.
struct Given {
    stencil: SharedStencil<f64>,
    offsets: Vec<i32>,
}

impl Given {
    fn new(name: &str, dims: [usize; 3]) -> Given {
        let a = crate::gallery::parse(name).unwrap().matrix;
        let stencil = SharedStencil::from_rows(&a, Grid::new(dims)).unwrap();
        let offsets = stencil.pattern.offsets.iter().flatten().map(|step| i32::from(*step)).collect();
        Given { stencil, offsets }
    }

    fn values(&self, by_cell: bool, factor: f64) -> Vec<f64> {
        let (values, cells) = (self.stencil.values.as_slice(), self.stencil.pattern.grid.cells());
        let count = values.len() / cells;
        let from = |i: usize| if by_cell { i % count * cells + i / count } else { i };
        (0..values.len()).map(|i| factor * values[from(i)]).collect()
    }

    fn create(
        &self,
        context: &TestContext,
        (kind, values): (terrace_type, *const c_void),
        layout: terrace_stencil_layout,
        flags: terrace_matrix_flags,
    ) -> std::result::Result<*mut terrace_matrix, terrace_status> {
        let pattern = &self.stencil.pattern;
        let dims = pattern.grid.dims.map(|n| n as i64);
        let (mut made, d, o) = (null_mut(), dims.as_ptr(), self.offsets.as_ptr());
        let (block, count) = (pattern.block as i32, pattern.offsets.len() as i32);
        match abi!(terrace_matrix_create_stencil(
            context.0,
            d,
            null(),
            block,
            count,
            o,
            kind,
            values,
            layout,
            flags,
            &mut made
        )) {
            0 => Ok(made),
            status => Err(status),
        }
    }
}

fn inner(matrix: *mut terrace_matrix) -> Arc<Matrix> {
    // SAFETY: tests pass a matrix that is alive.
    unsafe { Arc::clone(&(*matrix).matrix) }
}

/// Sets up a solver for a matrix and solves for ones in device memory, then again after an update.
struct Solving {
    solver: *mut terrace_solver,
    b: Buffer<f64>,
    x: Buffer<f64>,
    context: *mut terrace_context,
}

impl Solving {
    fn new(context: &TestContext, matrix: *mut terrace_matrix) -> Solving {
        let (mut solver, mut config, n, gpu) = (null_mut(), null_mut(), inner(matrix).rows(), context.gpu());
        // Several levels, and no large dense inverse.
        assert_eq!(abi!(terrace_config_create(context.0, &mut config)), 0);
        assert_eq!(abi!(terrace_config_set_int(config, c"amg.coarsest.max_rows".as_ptr(), 30)), 0);
        assert_eq!(abi!(terrace_solver_create(context.0, config, &mut solver)), 0);
        assert_eq!(abi!(terrace_config_destroy(config)), 0);
        assert_eq!(abi!(terrace_solver_setup(solver, matrix)), 0, "{}", context.last_error());
        let (b, x) = (gpu.upload(&vec![1.0_f64; n]).unwrap(), gpu.upload(&vec![f64::NAN; n]).unwrap());
        Solving { solver, b, x, context: context.0 }
    }

    fn solve(&self, gpu: &crate::gpu::Gpu) -> Vec<f64> {
        let (b, x): (*const c_void, _) = (pointer(&self.b), pointer(&self.x));
        let status = abi!(terrace_solver_solve(self.solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));
        assert_eq!(status, 0, "{}", last_error(self.context));
        gpu.fetch(&self.x).unwrap()
    }
}

impl Drop for Solving {
    fn drop(&mut self) {
        assert_eq!(abi!(terrace_solver_destroy(self.solver)), 0);
    }
}

#[test]
fn stencils_wait_for_what_the_caller_has_begun() {
    let context = TestContext::on(c"sim");
    let (gpu, given) = (context.gpu(), Given::new("laplace27:9x8x6", [9, 8, 6]));
    let [plain, twice, fourfold] = [1.0, 2.0, 4.0].map(|factor| given.values(false, factor));
    for flags in [TERRACE_COPY, TERRACE_BORROW] {
        let finished = given.create(&context, (TERRACE_F64, twice.as_ptr().cast()), 0, TERRACE_COPY).unwrap();
        let expected = Solving::new(&context, finished).solve(&gpu);
        let there = gpu.upload(&plain).unwrap();
        gpu.write_on_default_stream(twice.clone(), &there);
        let made = given.create(&context, (TERRACE_F64, pointer(&there)), 0, flags).unwrap();
        let solving = Solving::new(&context, made);
        assert!(solving.solve(&gpu) == expected, "{flags}");
        let (other, count) = (gpu.upload(&plain).unwrap(), plain.len() as i64);
        gpu.write_on_default_stream(fourfold.clone(), &other);
        assert_eq!(abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, pointer(&other), count)), 0);
        assert_eq!(abi!(terrace_solver_update(solving.solver)), 0);
        let halved = solving.solve(&gpu);
        assert!(halved.iter().zip(&expected).all(|(half, whole)| 2.0 * half == *whole), "{flags}");
        drop(solving);
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        assert_eq!(abi!(terrace_matrix_destroy(finished)), 0);
    }
}

#[test]
fn values_in_device_memory_give_the_matrix_and_the_solution_of_those_on_the_host() {
    let context = TestContext::on(c"sim");
    let gpu = context.gpu();
    for (name, dims) in [("laplace27:9x8x6", [9, 8, 6]), ("weather:10x6x5", [10, 6, 5]), ("oil4c:5x4x3", [5, 4, 3])] {
        let given = Given::new(name, dims);
        let plain = given.values(false, 1.0);
        let on_host = given.create(&context, (TERRACE_F64, plain.as_ptr().cast()), 0, 0).unwrap();
        let expected = Solving::new(&context, on_host).solve(&gpu);
        for (by_cell, flags) in [(false, TERRACE_COPY), (false, TERRACE_BORROW), (true, TERRACE_COPY)] {
            let what = format!("{name}, by cell: {by_cell}, {flags}");
            let there = gpu.upload(&given.values(by_cell, 1.0)).unwrap();
            let layout = terrace_stencil_layout::from(by_cell);
            let made = given.create(&context, (TERRACE_F64, pointer(&there)), layout, flags).unwrap();
            let solving = Solving::new(&context, made);
            assert!(solving.solve(&gpu) == expected, "{what}");

            // Twice the values, in the order in which they were given: half the solution, to the bit.
            let twice = gpu.upload(&given.values(by_cell, 2.0)).unwrap();
            let count = plain.len() as i64;
            let update = |values: &Buffer<f64>| {
                abi!(terrace_matrix_update_values(context.0, made, TERRACE_F64, pointer(values), count))
            };
            assert_eq!(update(&twice), 0, "{}", context.last_error());
            assert_eq!(abi!(terrace_solver_update(solving.solver)), 0);
            let halved = solving.solve(&gpu);
            assert!(halved.iter().zip(&expected).all(|(half, whole)| 2.0 * half == *whole), "{what}");
            assert!(!inner(made).has_host_copy(), "{what}");

            let mut wrong = given.values(by_cell, 1.0);
            wrong[0] = f64::INFINITY;
            assert_eq!(update(&gpu.upload(&wrong).unwrap()), Status::MatrixValues.code());
            let doubled: Vec<f64> =
                inner(on_host).shared::<f64>().unwrap().values.as_slice().iter().map(|v| 2.0 * v).collect();
            assert!(inner(made).shared::<f64>().unwrap().values.as_slice() == doubled, "{what}");
            drop(solving);
            assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
        }
        assert_eq!(abi!(terrace_matrix_destroy(on_host)), 0);
    }
}

#[test]
fn single_precision_and_products_stay_in_device_memory() {
    let context = TestContext::on(c"sim:1");
    let gpu = context.gpu();
    let given = Given::new("poisson7:9x4x3", [9, 4, 3]);
    let single: Vec<f32> = given.values(false, 1.0).iter().map(|v| *v as f32).collect();
    let there = gpu.upload(&single).unwrap();
    for flags in [TERRACE_COPY, TERRACE_BORROW] {
        let made = given.create(&context, (TERRACE_F32, pointer(&there)), TERRACE_BY_OFFSET, flags).unwrap();
        let x: Vec<f32> = (0..108).map(|i| (i % 7) as f32).collect();
        let (x, y) = (gpu.upload(&x).unwrap(), gpu.upload(&vec![f32::NAN; 108]).unwrap());
        let status = abi!(terrace_matrix_apply(context.0, made, TERRACE_F32, 1.0, pointer(&x), 0.0, pointer(&y)));
        assert_eq!(status, 0, "{}", context.last_error());
        assert!(!inner(made).has_host_copy());
        let (a, from) = (given.stencil.to_rows().unwrap(), gpu.fetch(&x).unwrap());
        let dot = |i: usize| a.view().row(i).map(|(j, v)| v[0] as f32 * from[j]).sum::<f32>();
        assert_eq!(gpu.fetch(&y).unwrap(), (0..108).map(dot).collect::<Vec<_>>());

        // The rows that a caller asks for in device memory.
        let nonzeros = a.values.as_slice().len();
        let (o, c) = (gpu.upload(&[0_i64; 109]).unwrap(), gpu.upload(&vec![0_i32; nonzeros]).unwrap());
        let v = gpu.upload(&vec![0.0_f32; nonzeros]).unwrap();
        let (i64s, i32s) = (TERRACE_I64, TERRACE_I32);
        let status = abi!(terrace_matrix_get_arrays(
            context.0,
            made,
            i64s,
            pointer(&o),
            i32s,
            pointer(&c),
            TERRACE_F32,
            pointer(&v),
            0
        ));
        assert_eq!(status, 0, "{}", context.last_error());
        assert!(
            gpu.fetch(&c).unwrap() == a.structure.own_arrays().1
                && gpu.fetch(&o).unwrap() == a.structure.own_arrays().0
        );
        assert!(gpu.fetch(&v).unwrap().iter().zip(a.values.as_slice()).all(|(v, a)| f64::from(*v) == *a));
        assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    }
}

#[test]
fn borrowed_values_that_change_in_device_memory_are_taken_over_by_an_update() {
    let context = TestContext::on(c"sim");
    let gpu = context.gpu();
    let given = Given::new("laplace27:7x6x5", [7, 6, 5]);
    let mut there = gpu.upload(&given.values(false, 1.0)).unwrap();
    let made = given.create(&context, (TERRACE_F64, pointer(&there)), TERRACE_BY_OFFSET, TERRACE_BORROW).unwrap();
    let solving = Solving::new(&context, made);
    let first = solving.solve(&gpu);
    gpu.write(&given.values(false, 4.0), &mut there).unwrap();
    assert_eq!(abi!(terrace_solver_update(solving.solver)), 0);
    let quartered = solving.solve(&gpu);
    assert!(first.iter().zip(&quartered).all(|(a, b)| *a == 4.0 * b));
    // Without an update: the new system with the old preconditioner.
    gpu.write(&given.values(false, 2.0), &mut there).unwrap();
    let halved = solving.solve(&gpu);
    assert!(first.iter().zip(&halved).all(|(a, b)| (a - 2.0 * b).abs() < 1e-6 * a.abs()));
    drop(solving);
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
}

#[test]
fn what_is_wrong_with_values_in_device_memory_is_named_as_on_the_host() {
    let context = TestContext::on(c"sim");
    let gpu = context.gpu();
    let given = Given::new("poisson7:5x4x3", [5, 4, 3]);
    let at = |offset: Offset, cell: usize| given.stencil.pattern.find(offset).unwrap() * 60 + cell;
    for (place, value, text) in [
        (
            at([-1, 0, 0], 5),
            -1.0,
            "cell (0, 1, 0), offset (-1, 0, 0) holds -1 and reaches outside of the grid of 5 x 4 x 3 cells",
        ),
        (at([0, 0, 1], 2), f64::NAN, "cell (2, 0, 0), offset (0, 0, 1) holds NaN"),
    ] {
        let mut values = given.values(false, 1.0);
        values[place] = value;
        let there = gpu.upload(&values).unwrap();
        for flags in [TERRACE_COPY, TERRACE_BORROW] {
            let refused = given.create(&context, (TERRACE_F64, pointer(&there)), TERRACE_BY_OFFSET, flags);
            assert_eq!(refused.err(), Some(Status::MatrixValues.code()));
            assert!(context.last_error().contains(text), "{} should contain {text}", context.last_error());
        }
    }
    // A zero on the diagonal is refused by AMG alone.
    let mut values = given.values(false, 1.0);
    values[at([0, 0, 0], 7)] = 0.0;
    let there = gpu.upload(&values).unwrap();
    let made = given.create(&context, (TERRACE_F64, pointer(&there)), TERRACE_BY_OFFSET, TERRACE_BORROW).unwrap();
    let mut amg = null_mut();
    assert_eq!(abi!(terrace_amg_setup(context.0, made, null(), &mut amg)), Status::MatrixValues.code());
    assert!(context.last_error().contains("cell (2, 1, 0) has a zero diagonal"), "{}", context.last_error());
    assert_eq!(abi!(terrace_matrix_destroy(made)), 0);
    let unaligned = pointer(&there).wrapping_byte_add(4);
    assert!(given.create(&context, (TERRACE_F64, unaligned), TERRACE_BY_OFFSET, TERRACE_COPY).is_err());
    assert!(context.last_error().contains("values is not aligned"), "{}", context.last_error());
}

//! Krylov methods on a simulated device: graphs, synchronisations and fused conversions.

use super::run::MAX_ASYMMETRIC;
use super::*;
use crate::backend::{Operator, Preconditioner};
use crate::context::Context;
use crate::error::Status;
use crate::gallery;
use crate::gpu::{Buffer, Gpu, Slice};
use crate::matrix::MatrixBackend;
use crate::preconditioner::Amg;
use crate::report::Phases;
use std::sync::Arc;

/// A preconditioner that hides its own vectors, and that it can be captured.
struct Hidden(Amg);

impl Preconditioner<Gpu, f64> for Hidden {
    fn apply(&mut self, r: &Slice<f64>, z: &mut Slice<f64>) -> Result<()> {
        self.0.apply_on_device(r, z)
    }

    fn is_constant_symmetric(&self) -> bool {
        false
    }
}

/// A system with a right-hand side, on the device.
struct System {
    a: Box<dyn Operator<Gpu, f64>>,
    b: Buffer<f64>,
    n: usize,
}

impl System {
    fn new(gpu: &Gpu, problem: &str) -> System {
        let matrix = gallery::parse(problem).unwrap().into_matrix().unwrap();
        let n = matrix.rows();
        let right: Vec<f64> = (0..n).map(|i| (i % 7) as f64 - 2.0).collect();
        System { a: gpu.matrix_operator::<f64>(&matrix).unwrap(), b: gpu.upload(&right).unwrap(), n }
    }

    /// Solves from x, which is zero; residual norms, and how it ended.
    fn solve(
        &self,
        context: &Context,
        krylov: &mut dyn Krylov<Gpu, f64>,
        m: Option<&mut dyn Preconditioner<Gpu, f64>>,
        x: &mut Slice<f64>,
        limit: usize,
    ) -> (Vec<f64>, Result<Next>) {
        let backend = context.gpu().unwrap();
        let (mut history, mut phases) = (Vec::new(), Phases::default());
        let scale = backend.norm(&*self.b);
        let mut best = backend.zeros(self.n).unwrap();
        let mut run = Run {
            backend,
            a: &*self.a,
            m: None,
            null_space: &[],
            context,
            norm: Norm::True,
            target: 1e-8 * scale,
            scale,
            window: 0,
            progress: (f64::INFINITY, 0),
            asymmetric: 0,
            divergence: f64::MAX,
            current: f64::NAN,
            monitor: None,
            direct_check: None,
            best: BestIterate { x: &mut best, is_zero: true, norm: f64::INFINITY },
            limit,
            iterations: 0,
            history: &mut history,
            phases: &mut phases,
        };
        if let Some(m) = m {
            run.m = Some(m);
        }
        let end = krylov.solve(&mut run, &self.b, x, true);
        (history, end)
    }
}

/// Residual norms and solution with a method and this preconditioner.
fn solved(
    context: &Context,
    problem: &str,
    method: &str,
    m: &mut dyn Preconditioner<Gpu, f64>,
) -> (Vec<f64>, Vec<f64>) {
    let gpu = context.gpu().unwrap();
    let system = System::new(gpu, problem);
    let mut x = gpu.zeros(system.n).unwrap();
    let mut krylov = make(method, gpu, system.n, &Config::new()).unwrap();
    let (history, end) = system.solve(context, &mut *krylov, Some(m), &mut x, 60);
    assert_eq!(end.unwrap(), Next::Converged);
    (history, gpu.fetch(&x).unwrap())
}

#[test]
fn a_narrow_preconditioner_with_fused_conversions_gives_the_same_bits() {
    // Entries beyond f16 make the levels scaled.
    for (problem, storage) in [("poisson7:9", "f32"), ("poisson7:9", "f16"), ("jumps:7", "f16")] {
        let context = Context::new("sim").unwrap();
        let mut config = Config::new();
        config.set_str("precision.matrix", storage).unwrap();
        config.set_str("precision.vector", "f32").unwrap();
        let matrix = Arc::new(gallery::parse(problem).unwrap().into_matrix().unwrap());
        let set_up = || Amg::setup(&context, &matrix, &config).unwrap();
        for method in ["cg", "fcg"] {
            let mut amg = set_up();
            assert!(Preconditioner::<Gpu, f64>::narrow(&mut *amg).is_some(), "{problem} in {storage}");
            let fused = solved(&context, problem, method, &mut *amg);
            let separate = solved(&context, problem, method, &mut Hidden(set_up()));
            assert!(fused.0.len() > 5, "{problem} in {storage}: {:?}", fused.0);
            assert_eq!(fused, separate, "{problem} in {storage} with {method}");
        }
    }
}

#[test]
fn an_iteration_is_replayed_for_any_x_with_one_synchronisation() {
    let context = Context::new("sim").unwrap();
    let gpu = context.gpu().unwrap();
    let system = System::new(gpu, "poisson7:9");
    let matrix = Arc::new(gallery::parse("poisson7:9").unwrap().into_matrix().unwrap());
    for (method, vector, preconditioned) in [
        ("cg", "f64", true),
        ("fcg", "f64", true),
        ("cg", "f32", true),
        ("fcg", "f32", true),
        ("cg", "f64", false),
        ("gmres", "f64", true),
        ("gmres", "f64", false),
        ("fgmres", "f32", true),
        ("bicgstab", "f64", true),
        ("bicgstab", "f32", true),
        ("bicgstab", "f64", false),
    ] {
        let what = format!("{method} with vectors of {vector}, preconditioned: {preconditioned}");
        let mut config = Config::new();
        config.set_str("precision.vector", vector).unwrap();
        // The default takes too few iterations here.
        config.set_str("amg.coarsening.type", "pmis").unwrap();
        let set_up = || preconditioned.then(|| Amg::setup(&context, &matrix, &config).unwrap());
        let fresh = || make::<Gpu, f64>(method, gpu, system.n, &Config::new()).unwrap();
        // Nothing is replayed in the first two iterations.
        let (mut amg, mut krylov) = (set_up(), fresh());
        let mut solve = |limit: usize| {
            let m = amg.as_deref_mut().map(|amg| -> &mut dyn Preconditioner<Gpu, f64> { amg });
            let mut x = gpu.zeros(system.n).unwrap();
            // Another address every time.
            let (waits, _other) = (gpu.waits(), gpu.zeros::<f64>(limit).unwrap());
            gpu.start_profile(false);
            let (history, _) = system.solve(&context, &mut *krylov, m, &mut x, limit);
            let launches: usize = gpu.end_profile().iter().map(|kernel| kernel.launches).sum();
            (history, x, launches, gpu.waits() - waits)
        };
        let (first, first_x, ..) = solve(4);
        // The cycle is captured by itself, too. This x is kept, so that the next one has another address.
        let _kept = solve(4);
        let (second, second_x, launches, waits) = solve(4);
        let (longer, _, longer_launches, longer_waits) = solve(9);
        assert_eq!(first, second, "{what}");
        assert_eq!(first[..], longer[..5], "{what}");
        assert_ne!(first_x.address(), second_x.address());
        assert_eq!(gpu.fetch(&first_x).unwrap(), gpu.fetch(&second_x).unwrap(), "{what}");
        assert_eq!(longer_launches, launches, "{what}");
        assert!(longer.len() > first.len(), "{what}");
        assert_eq!(longer_waits - waits, longer.len() - first.len(), "{what}");
        // The same bits as without graphs.
        let (mut plain, mut x) = (fresh(), gpu.zeros(system.n).unwrap());
        let mut hidden = set_up().map(Hidden);
        let m = hidden.as_mut().map(|hidden| -> &mut dyn Preconditioner<Gpu, f64> { hidden });
        let (history, _) = system.solve(&context, &mut *plain, m, &mut x, 4);
        assert_eq!(history, first, "{what}");
        assert_eq!(gpu.fetch(&x).unwrap(), gpu.fetch(&first_x).unwrap(), "{what}");
    }
}

#[test]
fn a_residual_and_its_norm_are_one_pass() {
    let context = Context::new("sim").unwrap();
    let gpu = context.gpu().unwrap();
    let system = System::new(gpu, "poisson7:9");
    let solve = |limit: usize| {
        let mut krylov = make::<Gpu, f64>("richardson", gpu, system.n, &Config::new()).unwrap();
        let mut x = gpu.zeros(system.n).unwrap();
        gpu.start_profile(false);
        let (history, end) = system.solve(&context, &mut *krylov, None, &mut x, limit);
        assert_eq!(end.unwrap(), Next::Limit);
        (history, gpu.end_profile().iter().map(|kernel| kernel.launches).sum::<usize>())
    };
    let ((shorter, few), (longer, many)) = (solve(2), solve(6));
    assert_eq!(shorter[..], longer[..3]);
    // The step of x, the residual with parts of its norm, their sum, and a copy in place of a preconditioner.
    assert_eq!(many - few, 4 * 4);
    // x is b after the first iteration, and r = b - A b.
    let mut r = gpu.zeros(system.n).unwrap();
    system.a.residual(&system.b, &system.b, &mut r).unwrap();
    let expected = gpu.norm(&*r) / gpu.norm(&*system.b);
    assert!((longer[1] - expected).abs() <= 1e-14 * expected, "{} should be {expected}", longer[1]);
}

#[test]
fn gmres_replays_one_graph_for_each_basis_size_and_synchronises_once_more_for_a_restart() {
    let context = Context::new("sim").unwrap();
    let gpu = context.gpu().unwrap();
    let system = System::new(gpu, "poisson7:9");
    let matrix = Arc::new(gallery::parse("poisson7:9").unwrap().into_matrix().unwrap());
    for method in ["gmres", "fgmres"] {
        let mut config = Config::new();
        config.set_str("solver.restart", "3").unwrap();
        let set_up = || Amg::setup(&context, &matrix, &config).unwrap();
        let (mut amg, mut krylov) = (set_up(), make::<Gpu, f64>(method, gpu, system.n, &config).unwrap());
        let mut solve = |limit: usize| {
            let (mut x, waits) = (gpu.zeros(system.n).unwrap(), gpu.waits());
            let (history, _) = system.solve(&context, &mut *krylov, Some(&mut *amg), &mut x, limit);
            (history, gpu.fetch(&x).unwrap(), gpu.waits() - waits)
        };
        let (first, first_x, waits) = solve(8);
        let (second, second_x, again) = solve(8);
        let (_, _, shorter) = solve(2);
        // A restart reads the norm of its residual, and writes two scalars.
        assert_eq!((first.len(), waits, shorter), (9, again, waits - 6 - 2 * 3), "{method}");
        assert_eq!((&first, &first_x), (&second, &second_x), "{method}");
        let (mut hidden, mut x) = (Hidden(set_up()), gpu.zeros(system.n).unwrap());
        let mut plain = make::<Gpu, f64>(method, gpu, system.n, &config).unwrap();
        let (history, _) = system.solve(&context, &mut *plain, Some(&mut hidden), &mut x, 8);
        assert_eq!((history, gpu.fetch(&x).unwrap()), (first, first_x), "{method}");
    }
}

/// z = r + c w, where w is the part of the residual before that is orthogonal to r, so long that z·r_before is twice z·r.
struct Skewed {
    gpu: Gpu,
    before: Buffer<f64>,
}

impl Preconditioner<Gpu, f64> for Skewed {
    fn apply(&mut self, r: &Slice<f64>, z: &mut Slice<f64>) -> Result<()> {
        let Skewed { gpu, before } = self;
        let (rr, rb, bb) = (gpu.dot(r, r), gpu.dot(r, before), gpu.dot(before, before));
        gpu.copy(r, z);
        let length = bb - rb * rb / rr;
        if length > 0.0 {
            let c = (2.0 * rr - rb) / length;
            gpu.axpby(c, before, 1.0 - c * rb / rr, z);
        }
        gpu.copy(r, before);
        gpu.status()
    }

    fn is_constant_symmetric(&self) -> bool {
        false
    }

    fn narrowest(&self) -> Option<String> {
        Some("it is skewed".to_string())
    }
}

#[test]
fn the_check_of_symmetry_comes_before_the_step() {
    let context = Context::new("sim").unwrap();
    let gpu = context.gpu().unwrap();
    let system = System::new(gpu, "poisson7:5");
    let solve = |limit: usize| {
        let mut m = Skewed { gpu: gpu.clone(), before: gpu.zeros(system.n).unwrap() };
        let (mut krylov, mut x) = (make("fcg", gpu, system.n, &Config::new()).unwrap(), gpu.zeros(system.n).unwrap());
        let (history, end) = system.solve(&context, &mut *krylov, Some(&mut m), &mut x, limit);
        (history, end, gpu.fetch(&x).unwrap())
    };
    let (history, end, x) = solve(60);
    let error = end.unwrap_err();
    assert_eq!(error.status, Status::PrecisionLost, "{error}");
    assert_eq!(history.len(), 1 + MAX_ASYMMETRIC);
    let (shorter, end, before) = solve(MAX_ASYMMETRIC);
    assert_eq!((end.unwrap(), shorter, before), (Next::Limit, history, x));
}

#[test]
fn the_iterations_that_are_left_follow_from_the_decay_of_the_residual() {
    let left = |norms: &[f64], target: f64| super::run::iterations_left(norms.iter().copied(), target, 1000);
    assert_eq!(left(&[1.0, 0.5, 0.1], 1e-4), 6);
    // The smallest counts, also where the last is larger; one below the target leaves none.
    assert_eq!((left(&[10.0, 1.0, 5.0], 0.1), left(&[10.0, 1e-3, 5.0], 0.1)), (2, 0));
    // Nothing is known where the norms have not fallen, or have fallen by little.
    assert_eq!((left(&[1.0, 3.0, 1.0], 1e-8), left(&[1.0, 1.0 - 1e-15], 1e-8)), (1000, 1000));
    assert_eq!((left(&[1.0], 1e-8), left(&[], 1e-8), left(&[1.0, 0.5], 0.0)), (1000, 1000, 1000));
}

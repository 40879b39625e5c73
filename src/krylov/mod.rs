//! Krylov methods, written once for all backends.

mod bicgstab;
mod cg;
mod fcg;
mod fgmres;
mod gmres;
mod richardson;

use crate::backend::{Apart, Backend, Operator, Preconditioner};
use crate::config::Config;
use crate::context::{Context, LogLevel};
use crate::error::{Error, Result, Status, fail};
use crate::registry::registry;
use crate::report::Phases;
use crate::scalar::Scalar;

/// A method with its workspace.
pub trait Krylov<B: Backend, T: Scalar>: Send {
    /// Iterates on A x = b until the run says something other than `Continue`, and returns that. With `zero_guess` x holds zeros. Operator and
    /// preconditioner are those of the solve before, unless [`Krylov::forget`] came between.
    fn solve(
        &mut self,
        run: &mut Run<'_, B, T>,
        b: &B::Slice<T>,
        x: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<Next>;
    /// Before operator or preconditioner change.
    fn forget(&mut self) {}
    /// Bytes of the workspace.
    fn bytes(&self) -> usize;
    /// Whether the method has M r at hand in every iteration, so that it can stop on the norm of it.
    fn has_preconditioned_residual(&self) -> bool {
        false
    }
}

/// Which norm is compared with the tolerance and written down, in relation to the same norm of the right-hand side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Norm {
    /// |r|.
    True,
    /// |M r|.
    Preconditioned,
}

/// A residual that a method carries along says nothing about x below this share of the right-hand side, times the rounding unit of the
/// vectors: recurrences go on falling to underflow while b - Ax has long stopped.
const CARRIED: f64 = 0.25;

/// An iteration makes progress when the residual norm falls below this share of what it was at the last progress.
const PROGRESS: f64 = 0.9;

/// Iterations in a row in which a narrow preconditioner may be far from symmetric.
const ASYMMETRIC: usize = 20;

registry! {
    /// The method of this name, with workspace for vectors of `n` elements.
    fn make<B: Backend, T: Scalar>(backend: &B, n: usize, config: &Config) -> Result<Box<dyn Krylov<B, T>>>;
    "cg" => Ok(Box::new(cg::Cg::<B, T>::new(backend, n)?));
    "fcg" => Ok(Box::new(fcg::Fcg::<B, T>::new(backend, n)?));
    "gmres" => Ok(Box::new(gmres::Gmres::<B, T>::new(backend, n, config.int("solver.restart"))?));
    "fgmres" => Ok(Box::new(fgmres::Fgmres::<B, T>::new(backend, n, config.int("solver.restart"))?));
    "bicgstab" => Ok(Box::new(bicgstab::BiCgStab::<B, T>::new(backend, n)?));
    "richardson" => Ok(Box::new(richardson::Richardson::<B, T>::new(backend, n)?));
}

/// One solve as the methods see it: operator, preconditioner, when to stop, and what is written down.
pub struct Run<'a, B: Backend, T: Scalar> {
    /// Where vectors live.
    pub backend: &'a B,
    /// A.
    pub a: &'a dyn Operator<B, T>,
    /// M; `None` is the identity.
    pub m: Option<&'a mut dyn Preconditioner<B, T>>,
    /// Orthonormal vectors that A maps to zero; preconditioned vectors, and with them x, are kept orthogonal to them.
    pub null_space: &'a [B::Buffer<T>],
    /// For the log.
    pub context: &'a Context,
    /// Which norm counts.
    pub norm: Norm,
    /// Residual norm at which to stop.
    pub target: f64,
    /// Norm of the right-hand side, which histories are relative to.
    pub scale: f64,
    /// Iterations without progress that end the solve; 0 is no end.
    pub window: usize,
    /// Residual norm and iteration of the last progress.
    pub progress: (f64, usize),
    /// Iterations in a row in which the preconditioner was far from symmetric.
    pub asymmetric: usize,
    /// Iteration limit.
    pub limit: usize,
    /// Iterations done.
    pub iterations: usize,
    /// Relative residual norms, from the initial guess on.
    pub history: &'a mut Vec<f64>,
    /// Seconds of operator and preconditioner.
    pub phases: &'a mut Phases,
}

/// What a method does after it has recorded a residual norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Iterate.
    Continue,
    /// The tolerance is reached.
    Converged,
    /// The iteration limit is reached.
    Limit,
    /// The residual norm no longer falls.
    Stagnated,
}

impl<B: Backend, T: Scalar> Run<'_, B, T> {
    /// y = A x.
    pub fn operator(&mut self, x: &B::Slice<T>, y: &mut B::Slice<T>) -> Result<()> {
        let a = self.a;
        self.phases.time("operator", || a.apply(T::ONE, x, T::ZERO, y))
    }

    /// r = b - A x.
    pub fn residual(&mut self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<()> {
        let a = self.a;
        self.phases.time("operator", || a.residual(b, x, r))
    }

    /// r = b - A x, and its norm.
    pub fn residual_norm(&mut self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<f64> {
        let (backend, a) = (self.backend, self.a);
        if a.fuses(1) {
            return self.phases.time("operator", || backend.residual_norm(a, b, x, r));
        }
        self.residual(b, x, r)?;
        Ok(backend.norm(r))
    }

    /// The residual of the initial guess, and its norm.
    pub fn initial_residual_norm(
        &mut self,
        b: &B::Slice<T>,
        x: &B::Slice<T>,
        r: &mut B::Slice<T>,
        zero_guess: bool,
    ) -> Result<f64> {
        if zero_guess {
            self.backend.copy(b, r);
            return Ok(self.backend.norm(r));
        }
        self.residual_norm(b, x, r)
    }

    /// The residual of the initial guess, which is recorded with the norm that counts; z = M r when the iteration goes on.
    pub fn start_with(
        &mut self,
        b: &B::Slice<T>,
        x: &B::Slice<T>,
        (r, z): (&mut B::Slice<T>, &mut B::Slice<T>),
        zero_guess: bool,
    ) -> Result<Next> {
        if self.norm == Norm::True {
            let norm = self.initial_residual_norm(b, x, r, zero_guess)?;
            return self.record_true(norm, r, z, Self::start);
        }
        if zero_guess {
            self.backend.copy(b, r);
        } else {
            self.residual(b, x, r)?;
        }
        self.record_preconditioned(r, z, Self::start)
    }

    /// The residual of x after an iteration, which is counted and recorded with the norm that counts; z = M r when the iteration goes on.
    pub fn step_with_residual(
        &mut self,
        b: &B::Slice<T>,
        x: &B::Slice<T>,
        (r, z): (&mut B::Slice<T>, &mut B::Slice<T>),
    ) -> Result<Next> {
        if self.norm == Norm::True {
            let norm = self.residual_norm(b, x, r)?;
            return self.record_true(norm, r, z, Self::step);
        }
        self.residual(b, x, r)?;
        self.record_preconditioned(r, z, Self::step)
    }

    /// z = M r.
    pub fn precondition(&mut self, r: &B::Slice<T>, z: &mut B::Slice<T>) -> Result<()> {
        match &mut self.m {
            Some(m) => self.phases.time("preconditioner", || m.apply(r, z))?,
            None => self.backend.copy(r, z),
        }
        self.project(z);
        Ok(())
    }

    /// Removes what x has of the null space.
    pub fn project(&self, x: &mut B::Slice<T>) {
        project(self.backend, self.null_space, x);
    }

    /// Counts an iteration and records |M r| for the residual r after it, where that is the norm that counts; z = M r.
    pub fn step_preconditioned(&mut self, r: &B::Slice<T>, z: &mut B::Slice<T>) -> Result<Next> {
        self.record_preconditioned(r, z, Self::step)
    }

    /// The preconditioner, where its result may stay in its own vectors: where nothing else is done with it.
    pub fn apart(&mut self) -> Option<&mut dyn Apart<B, T>> {
        if self.norm == Norm::Preconditioned || !self.null_space.is_empty() {
            return None;
        }
        self.m.as_mut()?.apart()
    }

    /// z = M r where the preconditioner has the residual of the last step and keeps z; false where it does not.
    pub fn precondition_apart(&mut self) -> Result<bool> {
        if self.apart().is_none() {
            return Ok(false);
        }
        let Some(apart) = self.m.as_mut().and_then(|m| m.apart()) else { unreachable!("it was just there") };
        self.phases.time("preconditioner", || apart.apply())?;
        Ok(true)
    }

    /// Whether an iteration does the same operations whatever its numbers are, and the host looks at none of them on the way.
    pub fn is_fixed(&self) -> bool {
        self.norm == Norm::True && self.null_space.is_empty() && self.m.as_ref().is_none_or(|m| m.is_fixed())
    }

    fn record_preconditioned(
        &mut self,
        r: &B::Slice<T>,
        z: &mut B::Slice<T>,
        record: fn(&mut Self, f64) -> Result<Next>,
    ) -> Result<Next> {
        self.precondition(r, z)?;
        record(self, self.backend.norm(z))
    }

    fn record_true(
        &mut self,
        norm: f64,
        r: &B::Slice<T>,
        z: &mut B::Slice<T>,
        record: fn(&mut Self, f64) -> Result<Next>,
    ) -> Result<Next> {
        let next = record(self, norm)?;
        if next == Next::Continue {
            self.precondition(r, z)?;
        }
        Ok(next)
    }

    /// Records the norm of the initial residual.
    pub fn start(&mut self, norm: f64) -> Result<Next> {
        if self.history.is_empty() {
            self.history.push(norm / self.scale);
        }
        self.judge(norm, self.target)
    }

    /// Counts an iteration and records the residual norm after it. Below what a carried residual can tell, `Converged` is an
    /// invitation to compute it anew.
    pub fn step(&mut self, norm: f64) -> Result<Next> {
        self.iterations += 1;
        self.history.push(norm / self.scale);
        let (iteration, relative) = (self.iterations, norm / self.scale);
        self.context.log(LogLevel::Debug, || format!("iteration {iteration}: relative residual {relative:.3e}"));
        self.judge(norm, self.target.max(CARRIED * T::EPSILON.to_f64() * self.scale))
    }

    fn judge(&mut self, norm: f64, target: f64) -> Result<Next> {
        if !norm.is_finite() {
            self.backend.status()?;
            return fail!(NonFinite, "the residual norm is {norm} after iteration {}", self.iterations);
        }
        if norm < PROGRESS * self.progress.0 {
            self.progress = (norm, self.iterations);
        }
        Ok(if norm <= target {
            Next::Converged
        } else if self.iterations >= self.limit {
            Next::Limit
        } else if self.window > 0 && self.iterations - self.progress.1 >= self.window {
            Next::Stagnated
        } else {
            Next::Continue
        })
    }

    /// Whether the preconditioner is narrower than the method's vectors, so that a failure may be its rounding: what is narrowest.
    pub fn narrowest(&self) -> Option<String> {
        self.m.as_ref().and_then(|m| m.narrowest())
    }

    /// After a failure: what the preconditioner lost without being able to tell, on the residual of x, or on b where x is not finite any more.
    /// Overwrites r.
    pub fn examine(&mut self, b: &B::Slice<T>, x: &B::Slice<T>, r: &mut B::Slice<T>) -> Result<Option<Error>> {
        if B::LOOKS || self.m.is_none() {
            return Ok(None);
        }
        if self.backend.peak(x).is_finite() {
            self.residual(b, x, r)?;
        } else {
            self.backend.copy(b, r);
        }
        match self.m.as_mut().map_or(Ok(()), |m| m.examine(r)) {
            Err(error) if error.status == Status::PrecisionLost => Ok(Some(error)),
            result => result.map(|()| None),
        }
    }

    /// Makes the preconditioner more precise after a failure; false when it is what was asked for.
    pub fn widen(&mut self, reason: &str) -> Result<bool> {
        self.asymmetric = 0;
        self.progress = (f64::INFINITY, self.iterations);
        match &mut self.m {
            Some(m) => self.phases.time("promotion", || m.widen(reason)),
            None => Ok(false),
        }
    }

    /// Whether [`Run::watch_symmetry`] may fail in this iteration.
    pub fn may_lose_symmetry(&self) -> bool {
        self.asymmetric + 1 >= ASYMMETRIC && self.narrowest().is_some()
    }

    /// Counts iterations in which z·r of the residual before is more than z·r; a narrow preconditioner that does that again and again has
    /// lost its symmetry.
    pub fn watch_symmetry(&mut self, share: f64) -> Result<()> {
        self.asymmetric = if share > 1.0 { self.asymmetric + 1 } else { 0 };
        if self.asymmetric < ASYMMETRIC {
            return Ok(());
        }
        match self.narrowest() {
            Some(narrowest) => fail!(
                PrecisionLost,
                "the preconditioner has not been symmetric in {ASYMMETRIC} iterations up to {}; {narrowest}",
                self.iterations
            ),
            None => Ok(()),
        }
    }

    /// An error that tells which property is missing.
    pub fn breakdown<R>(&self, what: &str) -> Result<R> {
        fail!(Breakdown, "in iteration {}: {what}", self.iterations + 1)
    }
}

/// x -= (u·x) u for each of the orthonormal vectors u.
pub fn project<B: Backend, T: Scalar>(backend: &B, basis: &[B::Buffer<T>], x: &mut B::Slice<T>) {
    for u in basis {
        let share = backend.dot(u, x);
        backend.axpby(T::from_f64(-share), u, T::ONE, x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::gpu::{Buffer, Gpu, Slice};
    use crate::matrix::MatrixBackend;
    use crate::preconditioner::Amg;
    use std::sync::Arc;

    /// A preconditioner that does not tell that it has vectors of its own.
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
    fn a_preconditioner_that_keeps_its_vectors_apart_gives_the_same_bits() {
        // Entries beyond f16 make the levels scaled.
        for (problem, storage) in [("poisson7:9", "f32"), ("poisson7:9", "f16"), ("jumps:7", "f16")] {
            let context = Context::new("sim:32").unwrap();
            let mut config = Config::new();
            config.set_str("precision.matrix", storage).unwrap();
            config.set_str("precision.vector", "f32").unwrap();
            let matrix = Arc::new(gallery::parse(problem).unwrap().into_matrix().unwrap());
            let set_up = || Amg::setup(&context, &matrix, &config).unwrap();
            for method in ["cg", "fcg"] {
                let mut amg = set_up();
                assert!(Preconditioner::<Gpu, f64>::apart(&mut amg).is_some(), "{problem} in {storage}");
                let apart = solved(&context, problem, method, &mut amg);
                let together = solved(&context, problem, method, &mut Hidden(set_up()));
                assert!(apart.0.len() > 5, "{problem} in {storage}: {:?}", apart.0);
                assert_eq!(apart, together, "{problem} in {storage} with {method}");
            }
        }
    }

    #[test]
    fn an_iteration_is_repeated_by_the_device_for_any_x_and_waited_for_once() {
        let context = Context::new("sim:32").unwrap();
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
            let set_up = || preconditioned.then(|| Amg::setup(&context, &matrix, &config).unwrap());
            let fresh = || make::<Gpu, f64>(method, gpu, system.n, &Config::new()).unwrap();
            // Nothing is repeated in the first two iterations.
            let (mut amg, mut krylov) = (set_up(), fresh());
            let mut solve = |limit: usize| {
                let m = amg.as_mut().map(|amg| -> &mut dyn Preconditioner<Gpu, f64> { amg });
                let mut x = gpu.zeros(system.n).unwrap();
                // Another address every time.
                let (waits, _other) = (gpu.waits(), gpu.zeros::<f64>(limit).unwrap());
                gpu.start_profile(false);
                let (history, _) = system.solve(&context, &mut *krylov, m, &mut x, limit);
                let launches: usize = gpu.end_profile().iter().map(|kernel| kernel.launches).sum();
                (history, x, launches, gpu.waits() - waits)
            };
            let (first, first_x, ..) = solve(4);
            // Cycles of their own are captured, too. Its x stays, so that the next one has another address.
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
            // The same as launches alone give.
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
        let context = Context::new("sim:32").unwrap();
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
    fn gmres_repeats_an_iteration_in_each_place_of_its_basis_and_waits_once_more_for_a_restart() {
        let context = Context::new("sim:32").unwrap();
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
                let (history, _) = system.solve(&context, &mut *krylov, Some(&mut amg), &mut x, limit);
                (history, gpu.fetch(&x).unwrap(), gpu.waits() - waits)
            };
            let (first, first_x, waits) = solve(8);
            let (second, second_x, again) = solve(8);
            let (_, _, shorter) = solve(2);
            // A restart looks at the norm of its residual, and writes two numbers.
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
    fn what_ends_a_solve_for_its_symmetry_comes_before_the_step() {
        let context = Context::new("sim:32").unwrap();
        let gpu = context.gpu().unwrap();
        let system = System::new(gpu, "poisson7:5");
        let solve = |limit: usize| {
            let mut m = Skewed { gpu: gpu.clone(), before: gpu.zeros(system.n).unwrap() };
            let (mut krylov, mut x) =
                (make("fcg", gpu, system.n, &Config::new()).unwrap(), gpu.zeros(system.n).unwrap());
            let (history, end) = system.solve(&context, &mut *krylov, Some(&mut m), &mut x, limit);
            (history, end, gpu.fetch(&x).unwrap())
        };
        let (history, end, x) = solve(60);
        let error = end.unwrap_err();
        assert_eq!(error.status, Status::PrecisionLost, "{error}");
        assert_eq!(history.len(), 1 + ASYMMETRIC);
        let (shorter, end, before) = solve(ASYMMETRIC);
        assert_eq!((end.unwrap(), shorter, before), (Next::Limit, history, x));
    }
}

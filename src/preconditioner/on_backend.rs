//! An approximate inverse on the device of a context, as set-up leaves it.

use crate::amg::finest::{Finest, NarrowVectors, Outcome};
use crate::amg::hierarchy::{Renewal, SetupData};
use crate::amg::plan::Plan;
use crate::backend::{AnyMut, AnyRef, Backend, Beta, NarrowPreconditioner};
use crate::error::Result;
use crate::gpu::{self, Conversion, DeviceCgStep, Gpu, Graphs, Staging};
use crate::host::Host;
use crate::report::{FsaiReport, Phases};
use crate::scalar::{Scalar, SliceMut, SliceRef};
use std::sync::Arc;

/// The result of set-up. It is on the device of the context.
pub(super) struct OnBackend {
    pub levels: Levels,
    /// The levels for multivectors of so many vectors, with the matrices of the others, unless there can be none; not there
    /// until they are needed.
    pub multivectors: Option<(usize, Option<Levels>)>,
    pub plan: Plan,
    /// Symbolic data for updates.
    pub data: Arc<dyn SetupData>,
    pub renewal: Renewal,
    pub phases: Phases,
    /// Where set-up ran, and why.
    pub setup_place: String,
    /// What is to be told about an FSAI.
    pub fsai: Option<FsaiReport>,
}

/// What is applied.
pub(super) enum Levels {
    Host(Box<dyn Finest<Host>>),
    Gpu(OnGpu),
}

/// The same on a GPU, and staging for vectors of the host.
pub(super) struct OnGpu {
    pub gpu: Gpu,
    pub top: Box<dyn Finest<Gpu>>,
    pub staging: Staging,
    pub graphs: Graphs,
}

impl OnGpu {
    pub fn new(gpu: &Gpu, top: Box<dyn Finest<Gpu>>) -> OnGpu {
        OnGpu { gpu: gpu.clone(), top, staging: Staging::default(), graphs: Graphs::default() }
    }

    /// One application to vectors of the device, without a synchronisation. [`OnGpu::lost`] checks its result afterwards.
    pub fn cycle<T: Scalar>(&mut self, b: &gpu::Slice<T>, x: &mut gpu::Slice<T>) -> Result<()> {
        let OnGpu { gpu, top, graphs, .. } = self;
        let capturable = top.is_capturable();
        let mut apply = |b: &gpu::Slice<T>, x: &mut gpu::Slice<T>| {
            match (Gpu::any_ref(b), Gpu::any_mut(x)) {
                (AnyRef::F64(b), AnyMut::F64(x)) => top.apply_f64(b, x)?,
                (AnyRef::F32(b), AnyMut::F32(x)) => top.apply_f32(b, x)?,
                _ => unreachable!("b and x have the same type"),
            };
            Ok(())
        };
        if capturable && !gpu.is_distributed() { graphs.run(gpu, b, x, &mut apply) } else { apply(b, x) }
    }

    /// The level where the last application, which computed x from b, became not finite. `None` where x is finite or b is not.
    pub fn lost<T: Scalar>(&self, b: &gpu::Slice<T>, x: &gpu::Slice<T>) -> Result<Option<usize>> {
        let lost = !self.gpu.max_norm(x).is_finite() && self.gpu.max_norm(b).is_finite();
        let level = lost.then(|| self.top.lost());
        self.gpu.status().map(|()| level)
    }

    /// One application to vectors of the host; the result is as for [`OnGpu::lost`] where it is asked for.
    pub fn cycle_for_host<T: Scalar>(&mut self, b: &[T], x: &mut [T], watched: bool) -> Result<Option<usize>> {
        let mut staging = std::mem::take(&mut self.staging);
        let gpu = self.gpu.clone();
        let (own_b, own_x) = staging.vectors::<T>(&gpu, b.len())?;
        gpu.write(b, own_b)?;
        self.cycle(own_b, own_x)?;
        gpu.read(own_x, x)?;
        let lost = match watched && gpu.any(!x.iter().all(|x| x.is_finite())) {
            true => self.lost(own_b, own_x)?,
            false => None,
        };
        self.staging = staging;
        Ok(lost)
    }

    /// The vectors of the finest level; the caller has checked that it has its own.
    fn own_vectors(&mut self) -> Result<NarrowVectors<'_, Gpu>> {
        match self.top.narrow_vectors()? {
            Some(own) => Ok(own),
            None => unreachable!("the caller checked for narrow vectors"),
        }
    }
}

/// The conversion between the vectors of a Krylov method and those of the finest level.
fn conversion<'a>(own: &NarrowVectors<'a, Gpu>) -> Conversion<'a> {
    Conversion { factor: own.factor, unit: own.unit, d: own.d, guard: own.guard }
}

/// A method in f64 with a finest level in f32.
impl<T: Scalar> NarrowPreconditioner<Gpu, T> for OnGpu {
    fn update_solution(
        &mut self,
        step: &mut DeviceCgStep,
        (p, q): (&gpu::Slice<T>, &gpu::Slice<T>),
        x: &mut gpu::Slice<T>,
        r: &mut gpu::Slice<T>,
    ) -> Result<()> {
        let own = self.own_vectors()?;
        match (Gpu::any_ref(p), Gpu::any_ref(q), Gpu::any_mut(x), Gpu::any_mut(r)) {
            (AnyRef::F64(p), AnyRef::F64(q), AnyMut::F64(x), AnyMut::F64(r)) => {
                step.update_solution_narrow((p, q), x, r, (&conversion(&own), own.b))
            }
            _ => unreachable!("the caller checked for narrow vectors"),
        }
    }

    fn apply(&mut self) -> Result<()> {
        let OnGpu { gpu, top, graphs, .. } = self;
        let capturable = top.is_capturable();
        let Some(NarrowVectors { applied, b, x, .. }) = top.narrow_vectors()? else {
            unreachable!("the caller checked for narrow vectors")
        };
        if !capturable {
            return applied.apply(b, x);
        }
        graphs.run(gpu, b, x, &mut |b, x| applied.apply(b, x))
    }

    fn dots(&mut self, step: &mut DeviceCgStep, r: &gpu::Slice<T>, beta: Beta<&gpu::Slice<T>>) -> Result<()> {
        let own = self.own_vectors()?;
        let beta = beta.map(|q| match Gpu::any_ref(q) {
            AnyRef::F64(q) => q,
            AnyRef::F32(_) => unreachable!("q and r have the same type"),
        });
        match Gpu::any_ref(r) {
            AnyRef::F64(r) => step.dots_narrow((&conversion(&own), own.x), r, beta),
            AnyRef::F32(_) => unreachable!("the caller checked for narrow vectors"),
        }
    }

    fn update_direction(&mut self, step: &mut DeviceCgStep, p: &mut gpu::Slice<T>) -> Result<()> {
        let own = self.own_vectors()?;
        match Gpu::any_mut(p) {
            AnyMut::F64(p) => step.update_direction_narrow((&conversion(&own), own.x), p),
            AnyMut::F32(_) => unreachable!("the caller checked for narrow vectors"),
        }
    }
}

/// One application on the host. Returns the level at which it lost precision, if it did.
pub(super) fn host_cycle<T: Scalar>(top: &mut dyn Finest<Host>, b: &[T], x: &mut [T]) -> Result<Option<usize>> {
    let outcome = match (T::slice_ref(b), T::slice_mut(x)) {
        (SliceRef::F64(b), SliceMut::F64(x)) => top.apply_f64(b, x),
        (SliceRef::F32(b), SliceMut::F32(x)) => top.apply_f32(b, x),
        _ => unreachable!("b and x have the same type"),
    };
    Ok(match outcome? {
        Outcome::Lost(level) => Some(level),
        Outcome::Done => None,
    })
}

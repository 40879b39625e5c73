//! Copies of a matrix with its unknowns in another order.

use super::device_storage::{DeviceStorage, with_device};
use super::{DeviceMatrix, Matrix, MatrixStorage, Values};
use crate::backend::reorder::{Locality, NodeShape};
use crate::context::Context;
use crate::error::{Result, try_vec};
use crate::gpu::setup::DeviceCsr;
use crate::gpu::setup::reorder::{DeviceNodes, DevicePermutation};
use crate::gpu::{self, Gpu};
use crate::host::reorder::{self, Nodes, Permutation as HostPermutation};
use crate::matrix::UnknownFunctions;
use crate::scalar::{Number, Precision, Scalar};
use crate::sparse::{NearNullSpace, Structure};
use crate::sync::lock;
use std::sync::{Arc, RwLock};

/// Another order of the nodes of a matrix, where a context computes.
#[derive(Clone)]
pub enum Permutation {
    /// On the host.
    Host(Arc<HostPermutation>),
    /// In the memory of a GPU.
    Device(Gpu, Arc<DevicePermutation>),
}

impl Permutation {
    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Permutation::Host(permutation) => permutation.bytes(),
            Permutation::Device(_, permutation) => permutation.bytes(),
        }
    }

    /// Calls the function with the elements of a node and the old number of each node, on the host.
    fn with_order<R>(&self, work: impl FnOnce(usize, &[i32]) -> Result<R>) -> Result<R> {
        match self {
            Permutation::Host(p) => work(p.shape.width, &p.order),
            Permutation::Device(gpu, p) => work(p.shape.width, &gpu.fetch(&p.order)?),
        }
    }
}

/// What is known about the order of a matrix, and a copy in another one.
pub(crate) struct Reordered {
    pub shape: NodeShape,
    /// The locality of the matrix as it is.
    pub before: Locality,
    /// That in the order of clusters, where it was computed.
    pub after: Option<Locality>,
    /// The copy in that order, where it pays.
    pub copy: Option<(Arc<Matrix>, Permutation)>,
}

/// The arrays of a copy, and its order.
type Made = (MatrixStorage, Permutation);

/// The least common multiple.
fn common(a: usize, b: usize) -> usize {
    (1..=b).map(|k| k * a).find(|multiple| multiple.is_multiple_of(b)).unwrap_or(a)
}

/// The GPU on which a context computes.
pub(super) fn gpu_of(context: &Context) -> Option<&Gpu> {
    context.gpu().filter(|_| gpu::IS_BUILT)
}

impl Matrix {
    /// The nodes that a renumbering of this matrix keeps together: blocks, nodes of the near-null space, or points of so many functions that
    /// are numbered point by point. None where they do not divide its rows.
    fn node_shape(&self, functions: usize) -> Option<NodeShape> {
        let space = self.near_null_space();
        let dofs = space.map_or(1, |space| space.dofs_per_node);
        let width = common(common(self.block.rows, dofs), functions.max(1));
        let shape = NodeShape { unit: width / self.block.rows, width, values: self.block.len() };
        self.rows().is_multiple_of(width).then_some(shape)
    }

    /// Whether another order of its unknowns may pay.
    pub(crate) fn is_badly_ordered(&self, context: &Context, functions: usize) -> Result<bool> {
        let Some(shape) = self.node_shape(functions) else { return Ok(false) };
        Ok(self.locality(context, shape)?.is_bad(shape))
    }

    /// Its locality, measured where it is.
    fn locality(&self, context: &Context, shape: NodeShape) -> Result<Locality> {
        match (&self.storage, gpu_of(context)) {
            (MatrixStorage::Device(device), Some(gpu)) if device.gpu().is_same(gpu) => {
                let pattern = with_device!(device.arrays.read()?, a => a.pattern());
                DeviceNodes::new(&pattern, shape.unit).locality(gpu, shape, None)
            }
            _ => {
                let (structure, _) = self.copied()?;
                let nodes = Nodes::new(structure.view(&[]), shape.unit);
                context.run(self.entries(), || nodes.locality(shape, None))
            }
        }
    }

    /// Measures the locality of a square matrix in rows, and where it is bad, or with `always`, that in the order of clusters. Where that pays,
    /// or always, the copy is P A Pᵀ where the context computes, with the near-null space and the functions in the new order. It counts as
    /// many changes of its values, and what is known of its diagonal names rows of the caller's. None where the matrix cannot be renumbered.
    pub(crate) fn reordered(&self, context: &Context, functions: usize, always: bool) -> Result<Option<Reordered>> {
        let Some(shape) = self.node_shape(functions) else { return Ok(None) };
        let before = self.locality(context, shape)?;
        if !always && !before.is_bad(shape) {
            return Ok(Some(Reordered { shape, before, after: None, copy: None }));
        }
        let changes = self.changes(context)?;
        let pays = |after: &Locality| always || after.pays(&before, shape);
        let (after, made) = match (gpu_of(context), self.precision()) {
            (Some(gpu), Precision::F32) => on_device::<f32>(gpu, &self.device(gpu)?, shape, pays)?,
            (Some(gpu), _) => on_device::<f64>(gpu, &self.device(gpu)?, shape, pays)?,
            (None, _) => context.run(self.entries(), || self.on_host(shape, pays))?,
        };
        let copy = match made {
            Some((storage, permutation)) => {
                let diagonal = lock(self.diagonal.lock()).clone();
                let copy = Matrix::at(storage, self.size, self.block, self.nnz, diagonal);
                copy.take_permuted_unknowns_of(self, &permutation)?;
                copy.set_changes(changes);
                Some((Arc::new(copy), permutation))
            }
            None => None,
        };
        Ok(Some(Reordered { shape, before, after: Some(after), copy }))
    }

    fn on_host(&self, shape: NodeShape, pays: impl Fn(&Locality) -> bool) -> Result<(Locality, Option<Made>)> {
        let (structure, values) = self.copied()?;
        let nodes = Nodes::new(structure.view(&[]), shape.unit);
        let order = nodes.breadth_first_order(shape)?;
        let after = nodes.locality(shape, Some(&order))?;
        if !pays(&after) {
            return Ok((after, None));
        }
        let (offsets, columns) = order.pattern(&structure.view::<f64>(&[]))?;
        let values = permuted_values(&order, &structure, &values, (&offsets, &columns))?;
        let structure = Structure::new(structure.rows, structure.cols, structure.block, offsets, columns);
        let storage = MatrixStorage::Host { structure: Arc::new(structure), values: RwLock::new(values) };
        Ok((after, Some((storage, Permutation::Host(Arc::new(order))))))
    }

    /// Takes over the values of the matrix of which this is the copy in another order, which were checked.
    pub(crate) fn update_reordered(&self, of: &Matrix, context: &Context, order: &Permutation) -> Result<()> {
        fn with_values<T: Number>(
            gpu: &Gpu,
            order: &DevicePermutation,
            own: &DeviceCsr<T>,
            of: &Matrix,
        ) -> Result<DeviceCsr<T>> {
            let pattern = own.pattern();
            Ok(pattern.with(order.values(gpu, &of.device::<T>(gpu)?, &pattern)?))
        }
        let changes = of.changes(context)?;
        match (&self.storage, order) {
            (MatrixStorage::Host { structure, values: own }, Permutation::Host(permutation)) => {
                let new = context.run(self.entries(), || {
                    let (callers, values) = of.copied()?;
                    permuted_values(permutation, &callers, &values, structure.own_arrays())
                })?;
                *lock(own.write()) = new;
            }
            (MatrixStorage::Device(device), Permutation::Device(gpu, permutation)) => {
                let new = match device.arrays.read()? {
                    DeviceMatrix::F64(own) => DeviceMatrix::F64(with_values(gpu, permutation, &own, of)?),
                    DeviceMatrix::F32(own) => DeviceMatrix::F32(with_values(gpu, permutation, &own, of)?),
                };
                device.arrays.replace(new);
                *lock(device.copy.lock()) = None;
            }
            _ => unreachable!("the copy is where its order is"),
        }
        self.replaced(lock(of.diagonal.lock()).clone().flatten());
        self.set_changes(changes);
        Ok(())
    }

    fn take_permuted_unknowns_of(&self, other: &Matrix, order: &Permutation) -> Result<()> {
        let (space, functions) = (other.near_null_space(), other.functions());
        if space.is_none() && functions.is_none() {
            return Ok(());
        }
        order.with_order(|width, order| {
            if let Some(space) = &space {
                let NearNullSpace { dofs_per_node, count, ref vectors } = **space;
                let mut new = try_vec(vectors.len(), 0.0)?;
                let rows = self.rows().max(1);
                for (old, new) in vectors.chunks_exact(rows).zip(new.chunks_exact_mut(rows)) {
                    reorder::gather(order, width, old, new);
                }
                let space = NearNullSpace { dofs_per_node, count, vectors: new };
                *lock(self.near_null_space.write()) = Some(Arc::new(space));
            }
            if let Some(functions) = &functions {
                let mut of = try_vec(functions.of.len(), 0_u8)?;
                for (new, old) in of.chunks_exact_mut(width).zip(order) {
                    new.copy_from_slice(&functions.of[*old as usize * width..][..width]);
                }
                *lock(self.functions.write()) = Some(Arc::new(UnknownFunctions { count: functions.count, of }));
            }
            Ok(())
        })
    }
}

/// As [`Matrix::on_host`], on a GPU.
fn on_device<T: Scalar>(
    gpu: &Gpu,
    a: &DeviceCsr<T>,
    shape: NodeShape,
    pays: impl Fn(&Locality) -> bool,
) -> Result<(Locality, Option<Made>)>
where
    DeviceMatrix: From<DeviceCsr<T>>,
{
    gpu.begin_step(None, "reorder");
    let pattern = a.pattern();
    let nodes = DeviceNodes::new(&pattern, shape.unit);
    let order = nodes.breadth_first_order(gpu, shape)?;
    let after = nodes.locality(gpu, shape, Some(&order))?;
    if !pays(&after) {
        return Ok((after, None));
    }
    let pattern = order.pattern(gpu, &pattern)?;
    let values = order.values(gpu, a, &pattern)?;
    let storage = MatrixStorage::Device(DeviceStorage::new(gpu, pattern.with(values).into(), 0));
    Ok((after, Some((storage, Permutation::Device(gpu.clone(), Arc::new(order))))))
}

/// The values of the copy of a matrix in another order, whose offsets and columns are given.
fn permuted_values(
    permutation: &HostPermutation,
    structure: &Structure,
    values: &Values,
    (offsets, columns): (&[i64], &[i32]),
) -> Result<Values> {
    Ok(match values {
        Values::F64(values) => permutation.values(&structure.view(values.as_slice()), offsets, columns)?.into(),
        Values::F32(values) => permutation.values(&structure.view(values.as_slice()), offsets, columns)?.into(),
    })
}

#[cfg(feature = "unit-tests")]
mod tests {
    use super::*;
    use crate::gallery;
    use crate::sparse::Block;

    fn matrix(name: &str) -> Matrix {
        gallery::parse(name).unwrap().into_matrix().unwrap()
    }

    #[test]
    fn nodes_are_what_blocks_modes_and_functions_keep_together() {
        let width = |matrix: &Matrix, functions: usize| matrix.node_shape(functions).map(|s| (s.unit, s.width));
        assert_eq!(width(&matrix("poisson5:6"), 0), Some((1, 1)));
        assert_eq!(width(&matrix("poisson5:6"), 4), Some((4, 4)));
        assert_eq!(width(&matrix("poisson5:6"), 7), None);
        assert_eq!(width(&matrix("elasticity:2"), 3), Some((1, 3)));
        assert_eq!(width(&matrix("elasticity:2"), 6), Some((2, 6)));
        let scalar = matrix("poisson5:6");
        scalar.set_near_null_space(2, 1, vec![1.0; 36]).unwrap();
        assert_eq!(width(&scalar, 3), Some((6, 6)));
    }

    #[test]
    fn near_null_spaces_functions_and_new_values_are_in_the_new_order() {
        let context = Context::new("host:2").unwrap();
        let a = matrix("shuffled:elasticity:3");
        let functions: Vec<i32> = (0..a.rows() as i32).map(|i| i / 5 % 2).collect();
        a.set_functions(2, &functions).unwrap();
        let Some((copy, order)) = a.reordered(&context, 0, true).unwrap().and_then(|r| r.copy) else { panic!() };
        let Permutation::Host(p) = &order else { panic!() };
        let (old, new) = (a.near_null_space().unwrap(), copy.near_null_space().unwrap());
        let (rows, given) = (a.rows(), copy.functions().unwrap());
        for (node, from) in p.order.iter().enumerate() {
            for c in 0..3 {
                let (to, from) = (node * 3 + c, *from as usize * 3 + c);
                assert_eq!(new.vectors[4 * rows + to], old.vectors[4 * rows + from]);
                assert_eq!(i32::from(given.of[to]), functions[from]);
            }
        }
        let doubled =
            |matrix: &Matrix| matrix.shared::<f64>().unwrap().values.as_slice().iter().map(|v| 2.0 * v).collect();
        let (values, wanted): (Vec<f64>, Vec<f64>) = (doubled(&a), doubled(&copy));
        a.update_values(values.into()).unwrap();
        copy.update_reordered(&a, &context, &order).unwrap();
        assert_eq!(copy.shared::<f64>().unwrap().values.as_slice(), wanted);
        assert_eq!(copy.known_changes(), a.known_changes());
        assert_eq!(copy.block(), Block::square(3));
    }
}

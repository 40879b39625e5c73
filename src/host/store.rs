//! What the host computed, stored where the solve phase runs.

use super::Host;
use super::distributed::divided;
use super::matrix::HostMatrix;
use crate::backend::setup::{StorageHint, Store};
use crate::backend::{Colours, Operator, StorageFactory};
use crate::error::Result;
use crate::scalar::{Number, Scalar};
use crate::sparse::{Coloured, ColouredStencil, Colouring, OwnRows};

/// As it is on the host, copied to a GPU.
impl<B: StorageFactory> Store<B> for Host {
    fn operator<S: Number, X: Number, Y: Number>(
        &self,
        to: &B,
        a: HostMatrix<S>,
        hint: StorageHint,
        rows: &mut Option<OwnRows>,
    ) -> Result<Box<dyn Operator<B, X, Y>>> {
        match a {
            HostMatrix::Rows(a) => to.matrix_of_level(a, hint.columns, hint.sums, rows),
            HostMatrix::Divided(a) => {
                let (own, known) = a.stored()?;
                rows.get_or_insert(known);
                to.matrix_of_level(own, hint.columns, hint.sums, rows)
            }
            HostMatrix::Stencil(a) => to.stencil(a, hint.sums),
            HostMatrix::Transfer(a) => to.grid_transfer(a, hint.sums),
        }
    }

    fn array<S: Number>(&self, to: &B, values: Vec<S>) -> Result<B::Buffer<S>> {
        to.array(values)
    }

    fn rows_of_level<T: Scalar, S: Number>(&self, to: &B, a: &HostMatrix<T>, values: Vec<S>) -> Result<B::Buffer<S>> {
        match a {
            HostMatrix::Divided(_) => to.own_array(values),
            _ => to.array(values),
        }
    }

    fn dense<S: Number, V: Number>(&self, to: &B, n: usize, values: Vec<S>) -> Result<Box<dyn Operator<B, V>>> {
        to.dense(n, values)
    }

    fn factorised<T: Scalar, V: Number>(&self, to: &B, a: &HostMatrix<T>) -> Result<Option<Box<dyn Operator<B, V>>>> {
        match self.divided(a) {
            Some((over, a)) => to.factorised(&divided::gathered(over, a)?.into_shared()),
            None => to.factorised(&*a.to_rows()?),
        }
    }

    fn colours<S: Number, V: Number>(
        &self,
        to: &B,
        a: HostMatrix<S>,
        inverse: Vec<S>,
        colouring: Option<Colouring>,
        shared: bool,
    ) -> Result<Box<dyn Colours<B, V>>> {
        let a = match a {
            HostMatrix::Stencil(matrix) => {
                return to.stencil_colours(ColouredStencil { matrix, inverse, lines: None, shared });
            }
            a => a.to_rows()?.into_owned(),
        };
        let colouring = match colouring {
            Some(colouring) => colouring,
            None => Colouring::new(&a.structure.view::<f64>(&[]))?,
        };
        to.colours(Coloured { inverse, colouring, matrix: a, shared })
    }

    fn lines<S: Number, V: Number>(
        &self,
        to: &B,
        a: HostMatrix<S>,
        (axis, factors): (usize, Vec<S>),
        shared: bool,
    ) -> Result<Box<dyn Colours<B, V>>> {
        let matrix = a.on_grid()?.clone();
        to.stencil_colours(ColouredStencil { matrix, inverse: factors, lines: Some(axis), shared })
    }
}

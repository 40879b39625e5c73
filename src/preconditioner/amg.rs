//! AMG as a preconditioner.

use super::build::device_objection;
use super::{Inverse, Method, defaults, estimate};
use crate::amg::hierarchy::{Builder, LevelMatrices};
use crate::config::Config;
use crate::context::Context;
use crate::error::Result;
use crate::gpu;
use crate::host::Host;
use crate::matrix::Matrix;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A hierarchy that is set up; one `apply` is one cycle from a zero guess.
pub struct Amg(Inverse);

impl Deref for Amg {
    type Target = Inverse;

    fn deref(&self) -> &Inverse {
        &self.0
    }
}

impl DerefMut for Amg {
    fn deref_mut(&mut self) -> &mut Inverse {
        &mut self.0
    }
}

impl Amg {
    /// Builds the hierarchy of a square matrix.
    pub fn setup(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Amg> {
        Inverse::setup(Method::Amg, context, matrix, config).map(Amg)
    }

    /// The matrices of the levels that [`Amg::setup`] computes, finest first, for inspection.
    pub fn level_matrices(context: &Context, matrix: &Arc<Matrix>, config: &Config) -> Result<Vec<LevelMatrices>> {
        matrix.check_not_distributed("a look at the levels")?;
        let context = &context.with_own_scratch()?;
        let config = &defaults::effective(Some(Method::Amg), context, matrix, config, false)?.config;
        let (near_null_space, functions) = (matrix.near_null_space(), matrix.functions());
        let builder = Builder { context, config, matrix, near_null_space, functions, plan: None };
        context.run(matrix.entries(), || match context.gpu() {
            Some(gpu) if gpu::IS_BUILT && device_objection(&builder)?.is_none() => builder.level_matrices(gpu),
            _ => builder.level_matrices(&Host::new(context)),
        })
    }

    /// Estimated bytes of `setup` with these options. On the host: bytes of the hierarchy, from a sample of at most 20,000
    /// rows, or 160,000 of irregular graphs. On a GPU: peak bytes of set-up, from samples of at most 1,048,576 rows, regardless of the memory limit of the context; exact for
    /// matrices that are not larger.
    pub fn memory_estimate(context: &Context, matrix: &Matrix, config: &Config) -> Result<usize> {
        estimate::alone(Method::Amg, context, matrix, config)
    }
}

impl Inverse {
    /// The value of an option as the last set-up used it.
    pub(super) fn amg_option(&self, key: &str) -> Result<String> {
        let value = self.config.get(key)?;
        let builder = Builder {
            context: &self.context,
            config: &self.config,
            matrix: &self.matrix,
            near_null_space: self.near_null_space.clone(),
            functions: self.functions.clone(),
            plan: None,
        };
        Ok(match key {
            _ if value != "auto" => value,
            "amg.coarsening.type" => builder.coarsening().name.to_string(),
            "amg.strength.type" => builder.coarsening().strength.to_string(),
            "amg.interpolation.type" => builder.coarsening().interpolation.to_string(),
            "amg.smoother.type" => builder.smoother().name.to_string(),
            "amg.smoother.coarse_type" => builder.coarse_smoother().name.to_string(),
            _ => value,
        })
    }
}

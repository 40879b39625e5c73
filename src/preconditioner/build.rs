//! Set-up of an approximate inverse where the options say.

use super::on_backend::{Levels, OnBackend, OnGpu};
use super::{Method, fsai, jacobi};
use crate::amg::hierarchy::{Builder, Built, SetupData, SetupOn};
use crate::backend::Backend;
use crate::backend::fsai::FsaiFactor;
use crate::comm::{Distribution, unavailable};
use crate::error::{Result, fail};
use crate::gpu::{self, Gpu};
use crate::host::Host;
use crate::report::FsaiReport;
use std::sync::Arc;
use std::time::Instant;

/// Sets up, or with data of an earlier set-up for the same pattern updates.
/// Over ranks every rank computes all of it and keeps its rows, or, where that is divided, its part.
pub(super) fn build(
    method: Method,
    builder: &Builder<'_>,
    data: Option<&dyn SetupData>,
    over: Option<(&Arc<Distribution>, bool)>,
) -> Result<OnBackend> {
    let start = Instant::now();
    let (context, host) = (builder.context, Host::new(builder.context));
    let mut result = match context.gpu() {
        Some(gpu) if gpu::IS_BUILT && over.is_some() => {
            let Some((over, is_divided)) = over else { unreachable!("it was there") };
            let to = gpu.over(over)?;
            let (built, fsai) = match objection_over_ranks(method, builder, is_divided)? {
                None => {
                    let setup = if is_divided { gpu.dividing(over) } else { gpu.clone() };
                    build_on(method, builder, &setup, &to, data, None)?
                }
                Some(reason) => {
                    let host = if is_divided { host.dividing(over) } else { host };
                    build_on(method, builder, &host, &to, data, Some(reason))?
                }
            };
            let Built { top, plan, data, renewal, phases, setup_place } = built;
            let levels = Levels::Gpu(OnGpu::new(&to, top));
            OnBackend { levels, multivectors: None, plan, data, renewal, phases, setup_place, fsai }
        }
        Some(gpu) if gpu::IS_BUILT => {
            let (built, fsai) = match objection(method, builder)? {
                None => build_on(method, builder, gpu, gpu, data, None)?,
                Some(reason) => build_on(method, builder, &host, gpu, data, Some(reason))?,
            };
            let Built { top, plan, data, renewal, phases, setup_place } = built;
            let levels = Levels::Gpu(OnGpu::new(gpu, top));
            OnBackend { levels, multivectors: None, plan, data, renewal, phases, setup_place, fsai }
        }
        _ => {
            if builder.config.text("amg.setup") == "device" {
                return fail!(Unsupported, "option \"amg.setup\" is \"device\", and the context is on the host");
            }
            let to = over.map_or(host.clone(), |(over, _)| host.over(over));
            let host = match over {
                Some((over, true)) => host.dividing(over),
                _ => host,
            };
            let (built, fsai) = build_on(method, builder, &host, &to, data, None)?;
            let Built { top, plan, data, renewal, phases, setup_place } = built;
            OnBackend { levels: Levels::Host(top), multivectors: None, plan, data, renewal, phases, setup_place, fsai }
        }
    };
    result.phases.add("total", start.elapsed().as_secs_f64());
    Ok(result)
}

/// The same on a set-up backend for a solve backend; `reason` tells why, if there was another choice.
fn build_on<S: SetupOn<B> + FsaiFactor, B: Backend>(
    method: Method,
    builder: &Builder<'_>,
    setup: &S,
    to: &B,
    data: Option<&dyn SetupData>,
    reason: Option<String>,
) -> Result<(Built<B>, Option<FsaiReport>)> {
    if method == Method::Amg {
        return Ok((builder.build(setup, to, data, reason)?, None));
    }
    let waits = setup.waits();
    let (mut built, fsai) = setup.run(builder.matrix.entries(), || match method {
        Method::Fsai | Method::TransposedFsai => {
            let transposes = method == Method::TransposedFsai;
            fsai::build(builder, setup, to, data, transposes).map(|(built, fsai)| (built, Some(fsai)))
        }
        _ => jacobi::build(builder, setup, to).map(|built| (built, None)),
    })?;
    built.setup_place = S::setup_place(setup.waits() - waits);
    if let Some(reason) = reason {
        built.setup_place += &format!(": {reason}");
    }
    Ok((built, fsai))
}

/// The reason why set-up for a GPU runs on the host, if it does.
fn objection(method: Method, builder: &Builder<'_>) -> Result<Option<String>> {
    match method {
        Method::Amg => device_objection(builder),
        _ => Ok((builder.config.text("amg.setup") == "host").then(|| "the options say so".to_string())),
    }
}

/// The reason why set-up over ranks runs on the host, if it does; an error if the options do not allow it.
fn objection_over_ranks(method: Method, builder: &Builder<'_>, is_divided: bool) -> Result<Option<String>> {
    let reason = match method {
        Method::Amg => device_objection(builder)?.or_else(|| builder.objection_over_ranks(is_divided)),
        _ => Some("ranks set up there".to_string()),
    };
    match reason {
        Some(reason) if builder.config.text("amg.setup") == "device" => {
            unavailable("amg.setup \"device\"", &format!("use \"host\" or \"auto\": {reason}"))
        }
        reason => Ok(reason),
    }
}

/// The reason why set-up of a hierarchy for a GPU runs on the host, if it does; an error if the options do not allow it.
pub(super) fn device_objection(builder: &Builder<'_>) -> Result<Option<String>> {
    let reason = match builder.config.choice("amg.setup").as_deref() {
        Some("host") => return Ok(Some("the options say so".to_string())),
        _ => builder.objection::<Gpu, Gpu>(),
    };
    match reason {
        Some(reason) if builder.config.text("amg.setup") == "device" => {
            fail!(Unsupported, "option \"amg.setup\" is \"device\", but {reason}")
        }
        reason => Ok(reason),
    }
}

//! `AMGX_resources_handle`: the devices that objects live on. Contexts are opened when the first object needs them.

use crate::boundary::{Failure, Result, call, fail, required, write};
use crate::config::{Config, Parameters};
use crate::handles::{self, lock};
use crate::mode::Mode;
use crate::mpi;
use crate::native::Context;
use crate::ranks::{Ranks, agree};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Names the device that the modes beginning with d use, as Terrace spells devices: `host`, `cuda:1`, `hip:0`, `sim`.
pub const DEVICE_VARIABLE: &str = "TERRACE_AMGX_DEVICE";

/// Where objects live.
pub struct Resources {
    /// Number of the GPU.
    number: c_int,
    /// What the configuration said when the resources were made.
    pub parameters: Parameters,
    host: Mutex<Option<Arc<Context>>>,
    device: Mutex<Option<Arc<Context>>>,
    /// The ranks of the communicator, if there are several.
    ranks: Option<Arc<Ranks>>,
    /// Whether the contexts of host and device know them.
    joined: [AtomicBool; 2],
}

impl Resources {
    fn new(config: &Config, number: c_int, ranks: Option<Ranks>) -> Resources {
        let (host, device, joined) = Default::default();
        Resources { number, parameters: config.parameters(), host, device, ranks: ranks.map(Arc::new), joined }
    }

    /// The ranks of the communicator, if there are several.
    pub fn ranks(&self) -> Option<&Arc<Ranks>> {
        self.ranks.as_ref()
    }

    /// Whether this rank prints what all of them know.
    pub fn is_first(&self) -> bool {
        self.ranks.as_ref().is_none_or(|ranks| ranks.rank == 0)
    }

    /// Collective: the context of a mode, which knows its ranks.
    pub fn over_ranks(&self, mode: Mode, ranks: &Ranks) -> Result<Arc<Context>> {
        let context = ranks.agree(self.context(mode))?;
        let joined = &self.joined[usize::from(mode.on_device)];
        if ranks.most([i64::from(!joined.load(Ordering::Relaxed))])? == [1] {
            context.set_ranks(ranks)?;
            joined.store(true, Ordering::Relaxed);
        }
        Ok(context)
    }

    /// The context of a mode.
    pub fn context(&self, mode: Mode) -> Result<Arc<Context>> {
        let mut place = lock(if mode.on_device { &self.device } else { &self.host });
        if let Some(context) = &*place {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(if mode.on_device { self.open_device(mode)? } else { Context::new("host")? });
        self.set_threads(&context, mode)?;
        *place = Some(Arc::clone(&context));
        Ok(context)
    }

    /// Set-up over ranks calls MPI on the threads of a context.
    fn set_threads(&self, context: &Context, mode: Mode) -> Result<()> {
        let Some(ranks) = &self.ranks else { return Ok(()) };
        let named = if mode.on_device { std::env::var(DEVICE_VARIABLE).unwrap_or_default() } else { String::new() };
        if !named.starts_with("host:") {
            return context.set_threads(ranks.threads);
        }
        match context.threads()? {
            threads if threads > 1 && !ranks.may_thread => fail!(
                NotSupportedTarget,
                "{DEVICE_VARIABLE} is {named}, and MPI was initialised for one thread; call MPI_Init_thread with \
                 MPI_THREAD_SERIALIZED"
            ),
            _ => Ok(()),
        }
    }

    fn open_device(&self, mode: Mode) -> Result<Context> {
        if let Ok(named) = std::env::var(DEVICE_VARIABLE) {
            return Context::new(&named)
                .map_err(|failure| Failure { message: format!("{DEVICE_VARIABLE}: {}", failure.message), ..failure });
        }
        let number = self.number;
        let failure = match Context::new(&format!("cuda:{number}")) {
            Ok(context) => return Ok(context),
            Err(failure) => failure,
        };
        match Context::new(&format!("hip:{number}")) {
            Ok(context) => Ok(context),
            Err(_) => fail!(
                NotSupportedTarget,
                "mode {} needs a GPU: {}; the modes hDDI, hDFI and hFFI run on the CPU, and {DEVICE_VARIABLE}=host lets {} do so, too",
                mode.name(),
                failure.message,
                mode.name()
            ),
        }
    }
}

/// Makes resources on one device; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_resources_create_simple(rsc: *mut *mut c_void, cfg: *mut c_void) -> c_int {
    call(|| {
        required(rsc, "rsc")?;
        let config = handles::get::<Config>(cfg, "cfg")?;
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write(rsc, "rsc", handles::insert(Resources::new(&config, 0, None))) }
    })
}

/// Makes resources for the ranks of a communicator; see the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_resources_create(
    rsc: *mut *mut c_void,
    cfg: *mut c_void,
    comm: *mut c_void,
    device_num: c_int,
    devices: *const c_int,
) -> c_int {
    call(|| {
        let given = || {
            required(rsc, "rsc")?;
            let config = handles::get::<Config>(cfg, "cfg")?;
            if device_num != 1 {
                return fail!(NotSupportedTarget, "device_num is {device_num}; accepted: 1 device for each rank");
            }
            required(devices, "devices")?;
            // SAFETY: one number, as device_num says.
            let number = unsafe { *devices };
            if number < 0 {
                return fail!(BadParameters, "devices[0] is {number}; accepted: 0 or more");
            }
            Ok((config, number))
        };
        // SAFETY: null or a pointer to a communicator, as the header asks.
        let ranks = unsafe { mpi::ranks(comm) }?;
        let (config, number) = agree(ranks.as_ref(), given())?;
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write(rsc, "rsc", handles::insert(Resources::new(&config, number, ranks))) }
    })
}

/// Ends the handle; objects that use the resources keep them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_resources_destroy(rsc: *mut c_void) -> c_int {
    call(|| handles::remove::<Resources>(rsc, "rsc"))
}

//! `AMGX_resources_handle`: the devices that objects live on. Contexts are opened when the first object needs them.

use crate::boundary::{Failure, Result, call, fail, required, write};
use crate::config::{Config, Parameters};
use crate::handles::{self, lock};
use crate::mode::Mode;
use crate::native::Context;
use crate::ranks;
use std::ffi::{c_int, c_void};
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
}

impl Resources {
    fn new(config: &Config, number: c_int) -> Resources {
        let (host, device) = Default::default();
        Resources { number, parameters: config.parameters(), host, device }
    }

    /// The context of a mode.
    pub fn context(&self, mode: Mode) -> Result<Arc<Context>> {
        let mut place = lock(if mode.on_device { &self.device } else { &self.host });
        if let Some(context) = &*place {
            return Ok(Arc::clone(context));
        }
        let context = Arc::new(if mode.on_device { self.open_device(mode)? } else { Context::new("host")? });
        *place = Some(Arc::clone(&context));
        Ok(context)
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
        unsafe { write(rsc, "rsc", handles::insert(Resources::new(&config, 0))) }
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
        required(rsc, "rsc")?;
        let config = handles::get::<Config>(cfg, "cfg")?;
        if device_num != 1 {
            return fail!(NotSupportedTarget, "device_num is {device_num}; accepted: 1 device for each rank");
        }
        required(devices, "devices")?;
        // SAFETY: null or a pointer to a communicator, as the header asks.
        let ranks = unsafe { ranks::size(comm) };
        if ranks > 1 {
            return fail!(NotSupportedTarget, "comm has {ranks} ranks; accepted: 1");
        }
        // SAFETY: one number, as device_num says.
        let number = unsafe { *devices };
        if number < 0 {
            return fail!(BadParameters, "devices[0] is {number}; accepted: 0 or more");
        }
        // SAFETY: not null, and valid for a write as the header asks.
        unsafe { write(rsc, "rsc", handles::insert(Resources::new(&config, number))) }
    })
}

/// Ends the handle; objects that use the resources keep them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn AMGX_resources_destroy(rsc: *mut c_void) -> c_int {
    call(|| handles::remove::<Resources>(rsc, "rsc"))
}

//! The functions of a vendor's driver, loaded at run time. CUDA and HIP have the same ones under other names, so one
//! table serves both. A missing library or symbol is a status. Errors carry the message of the driver.

use crate::error::{Error, Result, Status, fail};
use libloading::Library;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use terrace_kernels::Images;

/// A stream, event, module, function, pool, graph or context of the driver.
pub(super) type Handle = *mut c_void;

/// Vendor of the driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Vendor {
    Cuda,
    Hip,
}

impl Vendor {
    pub fn name(self) -> &'static str {
        match self {
            Vendor::Cuda => "CUDA",
            Vendor::Hip => "HIP",
        }
    }

    /// The compiler of its kernels.
    pub fn compiler(self) -> &'static str {
        match self {
            Vendor::Cuda => "nvcc",
            Vendor::Hip => "clang for AMD GPUs",
        }
    }

    /// The kernels that this build has for its devices.
    pub fn images(self) -> Option<&'static Images> {
        match self {
            Vendor::Cuda => terrace_kernels::CUDA.as_ref(),
            Vendor::Hip => terrace_kernels::HIP.as_ref(),
        }
    }

    /// File names of the driver's library, newest first.
    fn libraries(self) -> &'static [&'static str] {
        match self {
            Vendor::Cuda => &["libcuda.so.1", "libcuda.so"],
            Vendor::Hip => &["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"],
        }
    }
}

/// Kind and place of a pool's memory, as both drivers take it.
#[repr(C)]
pub(super) struct PoolProperties {
    /// 1 is memory of a device.
    pub allocation_type: c_int,
    pub handle_types: c_int,
    /// 1 is a device.
    pub location_type: c_int,
    pub location_id: c_int,
    pub security_attributes: *mut c_void,
    pub max_size: usize,
    pub reserved: [u8; 56],
}

/// Error codes that are handled separately.
pub(super) const SUCCESS: c_int = 0;
const OUT_OF_MEMORY: c_int = 2;
pub(super) const NOT_FOUND: c_int = 500;

macro_rules! functions {
    ($($field:ident($($argument:ty),*) = $cuda:literal, $hip:literal;)*) => {
        /// The functions of both drivers; each returns an error code.
        pub(super) struct Functions {
            $(pub $field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Functions {
            fn load(library: &Library, vendor: Vendor) -> Result<Functions> {
                Ok(Functions {
                    $($field: symbol(library, vendor, if vendor == Vendor::Cuda { $cuda } else { $hip })?,)*
                })
            }
        }
    };
}

functions! {
    init(c_uint) = "cuInit", "hipInit";
    device_count(*mut c_int) = "cuDeviceGetCount", "hipGetDeviceCount";
    device(*mut c_int, c_int) = "cuDeviceGet", "hipDeviceGet";
    device_name(*mut c_char, c_int, c_int) = "cuDeviceGetName", "hipDeviceGetName";
    stream_create(*mut Handle, c_uint) = "cuStreamCreate", "hipStreamCreateWithFlags";
    stream_destroy(Handle) = "cuStreamDestroy_v2", "hipStreamDestroy";
    stream_synchronize(Handle) = "cuStreamSynchronize", "hipStreamSynchronize";
    stream_wait_event(Handle, Handle, c_uint) = "cuStreamWaitEvent", "hipStreamWaitEvent";
    event_create(*mut Handle, c_uint) = "cuEventCreate", "hipEventCreateWithFlags";
    event_record(Handle, Handle) = "cuEventRecord", "hipEventRecord";
    event_destroy(Handle) = "cuEventDestroy_v2", "hipEventDestroy";
    pointer_attribute(*mut c_void, c_int, u64) = "cuPointerGetAttribute", "hipPointerGetAttribute";
    begin_capture(Handle, c_int) = "cuStreamBeginCapture_v2", "hipStreamBeginCapture";
    end_capture(Handle, *mut Handle) = "cuStreamEndCapture", "hipStreamEndCapture";
    graph_instantiate(*mut Handle, Handle, u64) = "cuGraphInstantiateWithFlags", "hipGraphInstantiateWithFlags";
    graph_launch(Handle, Handle) = "cuGraphLaunch", "hipGraphLaunch";
    graph_instance_destroy(Handle) = "cuGraphExecDestroy", "hipGraphExecDestroy";
    graph_destroy(Handle) = "cuGraphDestroy", "hipGraphDestroy";
    pool_create(*mut Handle, *const PoolProperties) = "cuMemPoolCreate", "hipMemPoolCreate";
    pool_set_attribute(Handle, c_int, *mut c_void) = "cuMemPoolSetAttribute", "hipMemPoolSetAttribute";
    pool_trim(Handle, usize) = "cuMemPoolTrimTo", "hipMemPoolTrimTo";
    memory_info(*mut usize, *mut usize) = "cuMemGetInfo_v2", "hipMemGetInfo";
    pool_destroy(Handle) = "cuMemPoolDestroy", "hipMemPoolDestroy";
    allocate(*mut u64, usize, Handle, Handle) = "cuMemAllocFromPoolAsync", "hipMallocFromPoolAsync";
    free(u64, Handle) = "cuMemFreeAsync", "hipFreeAsync";
    pinned_allocate(*mut *mut c_void, usize, c_uint) = "cuMemHostAlloc", "hipHostMalloc";
    pinned_free(*mut c_void) = "cuMemFreeHost", "hipHostFree";
    copy_in(u64, *const c_void, usize, Handle) = "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync";
    copy_out(*mut c_void, u64, usize, Handle) = "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync";
    clear(u64, u8, usize, Handle) = "cuMemsetD8Async", "hipMemsetD8Async";
    module_load(*mut Handle, *const c_void) = "cuModuleLoadData", "hipModuleLoadData";
    module_unload(Handle) = "cuModuleUnload", "hipModuleUnload";
    module_function(*mut Handle, Handle, *const c_char) = "cuModuleGetFunction", "hipModuleGetFunction";
    launch(Handle, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Handle, *mut *mut c_void, *mut *mut c_void)
        = "cuLaunchKernel", "hipModuleLaunchKernel";
}

type Text = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
type HipText = unsafe extern "C" fn(c_int) -> *const c_char;
type OfContext = unsafe extern "C" fn(*mut Handle) -> c_int;
type OfDevice = unsafe extern "C" fn(*mut c_int) -> c_int;

/// The functions with different signatures: the current device or context of a thread, and error messages.
enum Own {
    Cuda {
        current: OfContext,
        set_current: unsafe extern "C" fn(Handle) -> c_int,
        retain: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
        release: unsafe extern "C" fn(c_int) -> c_int,
        texts: [Text; 2],
    },
    Hip {
        current: OfDevice,
        set_current: unsafe extern "C" fn(c_int) -> c_int,
        version: OfDevice,
        texts: [HipText; 2],
    },
}

/// A driver that is loaded and started.
pub(super) struct Driver {
    pub vendor: Vendor,
    pub functions: Functions,
    own: Own,
    /// The functions are in it.
    _library: Library,
}

fn symbol<T: Copy>(library: &Library, vendor: Vendor, name: &str) -> Result<T> {
    // SAFETY: only looked up; the types are those of the driver's headers.
    match unsafe { library.get::<T>(name.as_bytes()) } {
        Ok(found) => Ok(*found),
        Err(_) => fail!(Device, "the {} driver is too old: it has no {name}", vendor.name()),
    }
}

impl Driver {
    /// Loads and starts the driver.
    pub fn load(vendor: Vendor) -> Result<Driver> {
        // SAFETY: initialisers of the driver's library are its own affair.
        let library = vendor.libraries().iter().find_map(|name| unsafe { Library::new(*name) }.ok());
        let Some(library) = library else {
            let file = vendor.libraries().last().copied().unwrap_or_default();
            return fail!(Device, "no {} driver: {file} could not be loaded", vendor.name());
        };
        let functions = Functions::load(&library, vendor)?;
        let own = match vendor {
            Vendor::Cuda => Own::Cuda {
                current: symbol(&library, vendor, "cuCtxGetCurrent")?,
                set_current: symbol(&library, vendor, "cuCtxSetCurrent")?,
                retain: symbol(&library, vendor, "cuDevicePrimaryCtxRetain")?,
                release: symbol(&library, vendor, "cuDevicePrimaryCtxRelease_v2")?,
                texts: [symbol(&library, vendor, "cuGetErrorString")?, symbol(&library, vendor, "cuGetErrorName")?],
            },
            Vendor::Hip => Own::Hip {
                current: symbol(&library, vendor, "hipGetDevice")?,
                set_current: symbol(&library, vendor, "hipSetDevice")?,
                version: symbol(&library, vendor, "hipRuntimeGetVersion")?,
                texts: [symbol(&library, vendor, "hipGetErrorString")?, symbol(&library, vendor, "hipGetErrorName")?],
            },
        };
        let driver = Driver { vendor, functions, own, _library: library };
        // SAFETY: any thread may do this at any time.
        driver.check(unsafe { (driver.functions.init)(0) }, "start")?;
        Ok(driver)
    }

    /// A result of the driver as one of this crate.
    pub fn check(&self, result: c_int, what: &str) -> Result<()> {
        if result == SUCCESS {
            return Ok(());
        }
        let [sentence, name] = match &self.own {
            Own::Cuda { texts, .. } => texts.map(|get| {
                let mut text = std::ptr::null();
                // SAFETY: the driver points to a text of its own, or fails and leaves null.
                unsafe { get(result, &mut text) };
                text
            }),
            // SAFETY: a text of the driver.
            Own::Hip { texts, .. } => texts.map(|get| unsafe { get(result) }),
        }
        .map(|text| match text.is_null() {
            true => format!("error {result}"),
            // SAFETY: a text of the driver, which stays.
            false => unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
        });
        let status = if result == OUT_OF_MEMORY { Status::OutOfMemory } else { Status::Device };
        Err(Error::new(status, format!("{}, {what}: {sentence} ({name})", self.vendor.name())))
    }

    /// Names of the devices.
    pub fn devices(&self) -> Result<Vec<String>> {
        let mut count: c_int = 0;
        // SAFETY: writes one number.
        self.check(unsafe { (self.functions.device_count)(&mut count) }, "count of devices")?;
        (0..count).map(|number| self.device(number).map(|(_, name)| name)).collect()
    }

    /// The driver's number of a device, and its name.
    pub fn device(&self, number: c_int) -> Result<(c_int, String)> {
        let mut device = 0;
        let mut name = [0_u8; 256];
        // SAFETY: each writes what its arguments have room for.
        unsafe {
            self.check((self.functions.device)(&mut device, number), "device")?;
            let written = (self.functions.device_name)(name.as_mut_ptr().cast(), name.len() as c_int, device);
            self.check(written, "name of a device")?;
        }
        let name = CStr::from_bytes_until_nul(&name).map(CStr::to_string_lossy).unwrap_or_default();
        Ok((device, name.into_owned()))
    }

    /// What a thread must have made current to work on a device: CUDA's primary context, which the program shares, or
    /// HIP's device number. It is given back by [`Driver::release`].
    pub fn retain(&self, device: c_int) -> Result<usize> {
        match &self.own {
            Own::Cuda { retain, .. } => {
                let mut context = std::ptr::null_mut();
                // SAFETY: writes one handle.
                self.check(unsafe { retain(&mut context, device) }, "context")?;
                Ok(context.addr())
            }
            Own::Hip { .. } => Ok(device as usize),
        }
    }

    pub fn release(&self, device: c_int) {
        if let Own::Cuda { release, .. } = &self.own {
            // SAFETY: retained once. An error has nowhere to go.
            let _ = unsafe { release(device) };
        }
    }

    /// The current device or context of this thread.
    fn current(&self) -> Result<usize> {
        match &self.own {
            Own::Cuda { current, .. } => {
                let mut context = std::ptr::null_mut();
                // SAFETY: writes one handle.
                self.check(unsafe { current(&mut context) }, "context").map(|()| context.addr())
            }
            Own::Hip { current, .. } => {
                let mut device = 0;
                // SAFETY: writes one number.
                self.check(unsafe { current(&mut device) }, "device").map(|()| device as usize)
            }
        }
    }

    fn set_current(&self, current: usize) -> Result<()> {
        // SAFETY: what `retain` or `current` gave, which is still there.
        let result = match &self.own {
            Own::Cuda { set_current, .. } => unsafe { set_current(current as Handle) },
            Own::Hip { set_current, .. } => unsafe { set_current(current as c_int) },
        };
        self.check(result, "context")
    }

    /// Makes a device current until the guard is dropped, which restores the previous one.
    pub fn enter(&self, wanted: usize) -> Result<Entered<'_>> {
        let before = self.current()?;
        if before != wanted {
            self.set_current(wanted)?;
        }
        Ok(Entered { driver: self, before, changed: before != wanted })
    }

    /// The value of the memory-type attribute of a pointer that means device memory.
    pub fn device_memory(&self) -> c_int {
        let mut version = 0;
        match &self.own {
            Own::Cuda { .. } => 2,
            // HIP 6 gave its kinds of memory the numbers of CUDA.
            // SAFETY: writes one number.
            Own::Hip { version: get, .. } => match unsafe { get(&mut version) } {
                SUCCESS if version >= 60_000_000 => 2,
                _ => 1,
            },
        }
    }
}

/// A device is current in this thread until this is dropped.
pub(super) struct Entered<'a> {
    driver: &'a Driver,
    before: usize,
    changed: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.changed {
            // An error cannot be returned from here.
            let _ = self.driver.set_current(self.before);
        }
    }
}

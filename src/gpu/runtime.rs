//! The contract of a GPU runtime: memory, copies, launches in order on one stream, and graphs.

use super::Slice;
use super::signature::Type;
use crate::error::Result;
use crate::scalar::{Element, ElementType, Number};
use std::ffi::c_void;
use std::marker::PhantomData;

/// Threads of a block.
pub(super) const BLOCK: usize = 256;

/// Most arguments of a kernel.
pub(super) const MAX_ARGUMENTS: usize = 24;

/// A kernel of the runtime that found it.
#[derive(Clone, Copy)]
pub(super) struct Kernel(pub usize);

// SAFETY: a handle; who uses it goes through the runtime that made it.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// An array as kernels take it: `In` and `Out` of `kernels/portability.h`. It borrows the array for the launch.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    array: Array<'a>,
    /// For profiles; not passed to kernels.
    bytes: u64,
    /// Type of the elements; none if the name of the kernel or another argument determines it.
    element: Option<ElementType>,
}

impl<'a> View<'a> {
    /// An argument that the kernel does not read.
    pub const NONE: View<'static> =
        View { array: Array { address: 0, len: 0, of: PhantomData }, bytes: 0, element: None };

    /// All of an array.
    pub fn of<T: Element>(slice: &'a Slice<T>) -> View<'a> {
        let (address, len, bytes) = (slice.address(), slice.len() as i64, (slice.len() * size_of::<T>()) as u64);
        View { array: Array { address, len, of: PhantomData }, bytes, element: Some(T::TYPE) }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.array.len as usize
    }

    /// Address and bytes.
    pub fn span(&self) -> (u64, u64) {
        (self.array.address, self.bytes)
    }

    /// The same memory as `len` elements of a type that the name of the kernel determines.
    pub fn erased(self, len: usize) -> View<'a> {
        assert!(len as u64 <= self.bytes);
        View { array: Array { len: len as i64, ..self.array }, element: None, ..self }
    }

    /// The same elements as unsigned numbers of their size, for kernels that move values of any type.
    pub fn bits(self) -> View<'a> {
        View { element: self.element.map(ElementType::bits), ..self }
    }

    /// The same array for a kernel that reads `part` of `whole` elements of it; profiles count these.
    pub fn share(self, part: usize, whole: usize) -> View<'a> {
        let bytes = self.bytes as u128 * part as u128 / whole.max(1) as u128;
        View { bytes: bytes as u64, ..self }
    }

    /// The part that is passed to kernels.
    pub fn array(self) -> Array<'a> {
        self.array
    }
}

/// The unsigned integer of a format's size, in the names of kernels that move values of any type.
pub(super) fn bits_of<S: Number>() -> &'static str {
    match size_of::<S>() {
        8 => "u64",
        4 => "u32",
        _ => "u16",
    }
}

/// An array as a member of a struct that kernels take by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Array<'a> {
    address: u64,
    len: i64,
    of: PhantomData<&'a ()>,
}

impl Array<'_> {
    /// The device address; 0 when it is empty.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Elements.
    pub fn len(self) -> usize {
        self.len as usize
    }
}

/// The number of a format in `kernels/portability.h`.
pub(super) fn tag<T: Number>() -> i32 {
    T::PRECISION as i32
}

/// A type that kernels take by value.
///
/// # Safety
/// The kernel's type has the same size and layout.
pub(super) unsafe trait Argument {
    /// Pointer to the value, and its size.
    fn parts(&self) -> (*mut c_void, u8);
    /// Its type.
    fn kind(&self) -> Type;
    /// The array that it is.
    fn view(&self) -> Option<View<'_>> {
        None
    }
}

macro_rules! argument {
    ($($t:ty),*) => {
        $(
            // SAFETY: a C type, or one with the layout of one.
            unsafe impl Argument for $t {
                fn parts(&self) -> (*mut c_void, u8) {
                    ((&raw const *self).cast_mut().cast(), size_of::<$t>() as u8)
                }
                fn kind(&self) -> Type {
                    Type::Value(stringify!($t))
                }
            }
        )*
    };
}

argument!(i32, i64, f64);

// SAFETY: begins with the members of `Array`, which are those of `In` and `Out`.
unsafe impl Argument for View<'_> {
    fn parts(&self) -> (*mut c_void, u8) {
        ((&raw const *self).cast_mut().cast(), size_of::<Array<'_>>() as u8)
    }

    fn kind(&self) -> Type {
        Type::Array(self.element)
    }

    fn view(&self) -> Option<View<'_>> {
        Some(*self)
    }
}

/// Where the arguments of a launch lie, their sizes and types.
pub(super) struct Arguments {
    pub pointers: [*mut c_void; MAX_ARGUMENTS],
    pub sizes: [u8; MAX_ARGUMENTS],
    pub types: [Type; MAX_ARGUMENTS],
    pub count: usize,
}

/// A captured graph.
pub(super) trait Graph: Send + Sync {
    /// Replays it in order on the stream.
    fn replay(&self) -> Result<()>;
}

/// The kind of memory at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// Host memory.
    Host,
    /// Memory of this device.
    Here,
    /// Memory of another device.
    Device(usize),
}

/// One device with a stream, its own or the caller's. All work is ordered on the stream. Calls are asynchronous unless
/// they say otherwise.
pub(super) trait Runtime: Send + Sync {
    /// Name of the device, for messages.
    fn description(&self) -> String;
    /// Device memory, aligned to 256 bytes.
    fn allocate(&self, bytes: usize) -> Result<u64>;
    /// Frees memory of `allocate`.
    fn free(&self, address: u64);
    /// Synchronises, and returns unused memory of the pool to the system.
    fn trim(&self);
    /// Free bytes of the device, if known.
    fn free_memory(&self) -> Result<Option<usize>>;
    /// Sets bytes to zero.
    fn clear(&self, address: u64, bytes: usize) -> Result<()>;
    /// Copies from the host; returns when `from` has been read.
    fn copy_in(&self, from: &[u8], to: u64) -> Result<()>;
    /// Copies to the host. Synchronises.
    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<()>;
    /// The kind of memory at an address.
    fn locate(&self, address: u64) -> Memory;
    /// Makes the stream wait for the default stream, where callers without a stream of their own work.
    fn follow_default_stream(&self) -> Result<()>;
    /// Launches work on the default stream of a simulated GPU, which is done when a stream waits for it.
    #[cfg(feature = "unit-tests")]
    fn begin_on_default_stream(&self, _: Box<dyn FnOnce() + Send + Sync>) {
        unreachable!("only the simulation defers work of a caller");
    }
    /// Launches all further work on this stream of the caller, after earlier work; 0 is the runtime's own stream.
    ///
    /// # Safety
    /// A stream of this device, which lives until another is set or the runtime ends.
    unsafe fn use_stream(&self, stream: usize) -> Result<()>;
    /// Waits for all work.
    fn synchronize(&self) -> Result<()>;
    /// Whether a caller can put work between what is launched, by its stream. Not on a simulated GPU, which runs work later.
    fn is_stream_ordered(&self) -> bool {
        true
    }
    /// A kernel by its name.
    fn kernel(&self, name: &str) -> Result<Kernel>;
    /// Runs a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and the arrays among them live until the work is done.
    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()>;
    /// Calls the closure with the handle of the stream, with the device current in this thread: for CUDA libraries.
    fn on_cuda(&self, _: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        crate::error::fail!(Unsupported, "this needs a CUDA device, not {}", self.description())
    }
    /// Captures the launches of `work` without running them. `work` neither synchronises nor copies to the host.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>>;
}

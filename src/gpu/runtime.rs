//! What a GPU must be able to do, whoever made it: memory, copies, launches in order on one stream, and graphs of launches.

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
    /// For the one who counts them; kernels take what is above alone.
    bytes: u64,
    /// Of its elements; none where they are of a type that something else tells.
    element: Option<ElementType>,
}

impl<'a> View<'a> {
    /// For an argument that the kernel does not look at.
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

    /// Where it lies, and its bytes.
    pub fn span(&self) -> (u64, u64) {
        (self.array.address, self.bytes)
    }

    /// The same memory as `len` elements of a type that the name of the kernel tells.
    pub fn erased(self, len: usize) -> View<'a> {
        assert!(len as u64 <= self.bytes);
        View { array: Array { len: len as i64, ..self.array }, element: None, ..self }
    }

    /// The same elements as unsigned numbers of their size, for kernels that move values of any type.
    pub fn bits(self) -> View<'a> {
        View { element: self.element.map(ElementType::bits), ..self }
    }

    /// What kernels take of it.
    pub fn array(self) -> Array<'a> {
        self.array
    }
}

/// An array within what kernels take by value.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Array<'a> {
    address: u64,
    len: i64,
    of: PhantomData<&'a ()>,
}

impl Array<'_> {
    /// Where it lies; 0 when it is empty.
    pub fn address(self) -> u64 {
        self.address
    }

    /// Elements.
    pub fn len(self) -> usize {
        self.len as usize
    }
}

/// A format as `kernels/portability.h` numbers them.
pub(super) fn tag<T: Number>() -> i32 {
    T::PRECISION as i32
}

/// A type that kernels take by value.
///
/// # Safety
/// The kernel's type has the same size and layout.
pub(super) unsafe trait Argument {
    /// Where the value lies, and its size.
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

/// Launches that were captured, to be run again in one piece.
pub(super) trait Graph: Send + Sync {
    /// Runs them, in order with everything else on the stream.
    fn replay(&self) -> Result<()>;
}

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Memory {
    /// To the host.
    Host,
    /// To this device.
    Here,
    /// To another device, by its number.
    Device(usize),
}

/// One device, with a stream of its own or one of the caller's. Everything happens in the order of the calls; calls return before the device
/// is done, unless they say so.
pub(super) trait Runtime: Send + Sync {
    /// The device, for people.
    fn description(&self) -> String;
    /// Device memory, aligned to 256 bytes.
    fn allocate(&self, bytes: usize) -> Result<u64>;
    /// Gives back what `allocate` gave.
    fn free(&self, address: u64);
    /// Gives memory that is not used back to the system, once all work is done.
    fn trim(&self);
    /// Bytes of the device that nobody uses, if it is known.
    fn free_memory(&self) -> Result<Option<usize>>;
    /// Sets bytes to zero.
    fn clear(&self, address: u64, bytes: usize) -> Result<()>;
    /// Copies from the host; waits until `from` may change.
    fn copy_in(&self, from: &[u8], to: u64) -> Result<()>;
    /// Copies to the host; waits for all work before it.
    fn copy_out(&self, from: u64, to: &mut [u8]) -> Result<()>;
    /// Where an address leads.
    fn locate(&self, address: u64) -> Memory;
    /// Lets the stream wait for what was begun on the default stream, on which callers work who have no stream of their own.
    fn follow_default_stream(&self) -> Result<()>;
    /// Puts work of a caller's on the default stream of a simulated GPU, which does it when a stream waits for it and not before.
    #[cfg(test)]
    fn begin_on_default_stream(&self, _: Box<dyn FnOnce() + Send + Sync>) {
        unreachable!("only the simulation holds work of a caller's back");
    }
    /// From here on everything is done on this stream of the caller's, after all that was begun before; 0 is the runtime's own stream.
    ///
    /// # Safety
    /// A stream of this device, which lives until another is set or the runtime ends.
    unsafe fn use_stream(&self, stream: usize) -> Result<()>;
    /// Waits for all work.
    fn synchronize(&self) -> Result<()>;
    /// A kernel by its name.
    fn kernel(&self, name: &str) -> Result<Kernel>;
    /// Runs a kernel.
    ///
    /// # Safety
    /// The arguments are those of the kernel, and the arrays among them live until the work is done.
    unsafe fn launch(&self, kernel: Kernel, blocks: usize, arguments: &mut Arguments) -> Result<()>;
    /// Lets a library of CUDA work on the device, which is that of this thread meanwhile, and on the stream that is handed over.
    fn on_cuda(&self, _: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        crate::error::fail!(Unsupported, "this needs a CUDA device, not {}", self.description())
    }
    /// Captures what `work` launches, without running it. Nothing in it waits or copies to the host.
    fn capture(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Box<dyn Graph>>;
}

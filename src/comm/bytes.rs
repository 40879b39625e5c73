//! Arrays of numbers as the bytes of messages.

use crate::scalar::Element;

/// The bytes of an array.
pub(crate) fn bytes<T: Element>(array: &[T]) -> &[u8] {
    // SAFETY: an element has no padding, so that all of these bytes are initialised, and they live as long as the array.
    unsafe { std::slice::from_raw_parts(array.as_ptr().cast(), size_of_val(array)) }
}

/// The bytes of an array, to be written.
pub(crate) fn bytes_mut<T: Element>(array: &mut [T]) -> &mut [u8] {
    // SAFETY: as above; every pattern of bits is a value of an element, and the array is borrowed for as long.
    unsafe { std::slice::from_raw_parts_mut(array.as_mut_ptr().cast(), size_of_val(array)) }
}

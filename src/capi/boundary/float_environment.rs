//! The floating-point environment of the caller. Programs trap exceptions (`-ffpe-trap`, `feenableexcept`), flush small numbers to zero
//! (`-ffast-math`) or round in another direction. The library computes in the default environment, in which a division by zero in an unused
//! lane of a vector is no event; the caller's is set aside during each call, and set again for callbacks.

use std::cell::Cell;

/// The registers that control floating-point arithmetic in this thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Environment {
    #[cfg(target_arch = "x86_64")]
    sse: u32,
    #[cfg(target_arch = "x86_64")]
    x87: u16,
    #[cfg(target_arch = "aarch64")]
    control: u64,
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
impl Environment {
    /// Nothing is trapped or flushed, and numbers are rounded to nearest.
    const DEFAULT: Environment = Environment { sse: 0x1f80, x87: 0x037f };

    fn current() -> Environment {
        let (mut sse, mut x87) = (0_u32, 0_u16);
        // SAFETY: each stores a register in a local.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &mut sse, options(nostack, preserves_flags));
            std::arch::asm!("fnstcw [{}]", in(reg) &mut x87, options(nostack, preserves_flags));
        }
        Environment { sse, x87 }
    }

    fn set(self) {
        let before = Environment::current();
        // SAFETY: the values came from these registers or are their values at the start of a program. Exceptions that are pending in
        // the x87 unit are cleared, since they would trap as soon as their mask is.
        unsafe {
            if before.sse != self.sse {
                std::arch::asm!("ldmxcsr [{}]", in(reg) &self.sse, options(nostack, preserves_flags, readonly));
            }
            if before.x87 != self.x87 {
                std::arch::asm!("fnclex", "fldcw [{}]", in(reg) &self.x87, options(nostack, preserves_flags));
            }
        }
    }
}

#[cfg(all(target_arch = "aarch64", not(miri)))]
impl Environment {
    /// Nothing is trapped or flushed, and numbers are rounded to nearest.
    const DEFAULT: Environment = Environment { control: 0 };

    fn current() -> Environment {
        let control;
        // SAFETY: reads a register.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nostack, preserves_flags)) };
        Environment { control }
    }

    fn set(self) {
        if Environment::current() != self {
            // SAFETY: the value came from this register or is its value at the start of a program.
            unsafe { std::arch::asm!("msr fpcr, {}", in(reg) self.control, options(nostack, preserves_flags)) };
        }
    }
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
impl Environment {
    #[cfg(all(miri, target_arch = "x86_64"))]
    const DEFAULT: Environment = Environment { sse: 0, x87: 0 };
    #[cfg(all(miri, target_arch = "aarch64"))]
    const DEFAULT: Environment = Environment { control: 0 };
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    const DEFAULT: Environment = Environment {};

    fn current() -> Environment {
        Environment::DEFAULT
    }

    fn set(self) {}
}

thread_local! {
    /// The environment of the program that called the library on this thread.
    static CALLER: Cell<Environment> = const { Cell::new(Environment::DEFAULT) };
}

/// The default environment until this is dropped, then that of the caller.
pub(super) struct Held {
    outer: Environment,
}

impl Held {
    pub fn hold() -> Held {
        let caller = Environment::current();
        Environment::DEFAULT.set();
        // A thread that is ending has no such cell any more; its callbacks run in the default environment.
        Held { outer: CALLER.try_with(|cell| cell.replace(caller)).unwrap_or(caller) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        CALLER.try_with(|cell| cell.replace(self.outer)).unwrap_or(self.outer).set();
    }
}

/// Runs a callback of the caller's in the caller's environment, which it may change.
pub(in crate::capi) fn in_callers<R>(callback: impl FnOnce() -> R) -> R {
    CALLER.try_with(Cell::get).unwrap_or(Environment::DEFAULT).set();
    let result = callback();
    let _ = CALLER.try_with(|cell| cell.set(Environment::current()));
    Environment::DEFAULT.set();
    result
}

#[cfg(all(feature = "unit-tests", target_arch = "x86_64", not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn the_environment_of_the_caller_is_set_aside_and_comes_back() {
        // Flushes to zero and rounds upward, with the flag of inexact results set.
        let odd = Environment { sse: 0x1f80 | 0x8000 | 0x4000 | 0x20, x87: 0x037f };
        let other = Environment { sse: 0x1f80 | 0x8000, x87: 0x027f };
        odd.set();
        let held = Held::hold();
        assert_eq!(Environment::current(), Environment::DEFAULT);
        in_callers(|| {
            assert_eq!(Environment::current(), odd);
            let nested = Held::hold();
            assert_eq!(Environment::current(), Environment::DEFAULT);
            drop(nested);
            assert_eq!(Environment::current(), odd);
            other.set();
        });
        assert_eq!(Environment::current(), Environment::DEFAULT);
        drop(held);
        let after = Environment::current();
        Environment::DEFAULT.set();
        assert_eq!(after, other);
    }
}

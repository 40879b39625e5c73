//! The vector registers of this processor, and loops that are compiled once more for wider ones than every processor of
//! the architecture has.
//!
//! A loop adds in the same order whatever the registers, and products are fused with additions only where the source
//! says so (`mul_add`, which rounds once on every processor), so that all give the same bits. The widest registers have
//! kernels of their own, too (`avx512/`).
//!
//! The environment variable `TERRACE_SIMD` limits what is used, to compare: `baseline`, `avx2` or `avx512`. It is read
//! once.

use std::sync::LazyLock;

/// Registers, from narrow to wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Registers {
    /// What every processor of the architecture has: SSE2, NEON.
    Baseline,
    /// 32 bytes, with fused multiplication and addition.
    Avx2,
    /// 64 bytes.
    Avx512,
}

impl Registers {
    const ALL: [Registers; 3] = [Registers::Baseline, Registers::Avx2, Registers::Avx512];

    /// Name in `TERRACE_SIMD` and in `terrace info`.
    pub fn name(self) -> &'static str {
        match self {
            Registers::Baseline => "baseline",
            Registers::Avx2 => "avx2",
            Registers::Avx512 => "avx512",
        }
    }

    /// What this processor has.
    fn of_processor() -> Registers {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                let has_wider = is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512vl")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("avx512dq")
                    && is_x86_feature_detected!("popcnt");
                return if has_wider { Registers::Avx512 } else { Registers::Avx2 };
            }
        }
        Registers::Baseline
    }
}

/// The registers that loops use: those of this processor, unless the environment or a unit test asks for narrower ones.
pub fn registers() -> Registers {
    #[cfg(feature = "unit-tests")]
    if let Some(limit) = LIMIT.get() {
        return limit;
    }
    of_environment()
}

fn of_environment() -> Registers {
    static USED: LazyLock<Registers> = LazyLock::new(|| {
        let limit = std::env::var("TERRACE_SIMD").ok();
        let limit = Registers::ALL.into_iter().find(|registers| limit.as_deref() == Some(registers.name()));
        Registers::of_processor().min(limit.unwrap_or(Registers::Avx512))
    });
    *USED
}

#[cfg(feature = "unit-tests")]
thread_local! {
    /// What loops of this thread are limited to by a unit test.
    static LIMIT: std::cell::Cell<Option<Registers>> = const { std::cell::Cell::new(None) };
}

/// Runs `work` on this thread with each kind of registers that it may use, from narrow to wide.
#[cfg(feature = "unit-tests")]
pub fn with_each(mut work: impl FnMut(Registers)) {
    for registers in Registers::ALL.into_iter().filter(|registers| *registers <= of_environment()) {
        LIMIT.set(Some(registers));
        work(registers);
        LIMIT.set(None);
    }
}

/// A loop that is compiled for several widths of registers. Its `run` is always inlined.
pub trait Work {
    /// Does the work.
    fn run(self);
}

/// A function, which is to be inlined always. A closure that can be called several times must not be called as one for a
/// single time, which is a function of its own that is not inlined.
pub struct Call<F>(pub F);

impl<F: FnMut()> Work for Call<F> {
    #[inline(always)]
    fn run(mut self) {
        (self.0)();
    }
}

/// Runs a loop with AVX2 where the processor has it. Loops that gain from wider registers have kernels of their own for them; compiled for those, others
/// were not faster.
pub fn with_avx2(work: impl Work) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if registers() >= Registers::Avx2 {
        #[target_feature(enable = "avx2,fma")]
        fn with_feature(work: impl Work) {
            work.run();
        }
        // SAFETY: the processor has the features.
        return unsafe { with_feature(work) };
    }
    work.run();
}

/// A loop that has forms of its own for rows or blocks of some sizes, and one for all. Its `run` is always inlined.
pub trait Specialised {
    /// Does the work, with the forms for some sizes or without them. The bits are the same.
    fn run<const HAS_FORMS: bool>(self);
}

/// Runs a loop with AVX2 where the processor has it, as [`with_avx2`]. Processors of x86 without it are old: they have no forms for some sizes,
/// which would double what is compiled.
pub fn specialised(work: impl Specialised) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if registers() >= Registers::Avx2 {
            #[target_feature(enable = "avx2")]
            fn with_feature(work: impl Specialised) {
                work.run::<true>();
            }
            // SAFETY: the processor has the feature.
            return unsafe { with_feature(work) };
        }
        work.run::<false>();
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    work.run::<true>();
}

/// The result of a loop that is run with AVX2 where the processor has it. Closures for it are to be inlined always: a call would
/// lead to code without them.
pub fn widely<R>(mut work: impl FnMut() -> R) -> R {
    let mut result = None;
    with_avx2(Call(
        #[inline(always)]
        || result = Some(work()),
    ));
    match result {
        Some(result) => result,
        None => unreachable!("the work was done"),
    }
}

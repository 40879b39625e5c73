// One dialect for every place where kernels run: CUDA, HIP, and `sim`, which runs them on the CPU. Kernels see arrays (`In`, `Out`), warp
// operations in which all lanes of a warp take part, shared memory and barriers, and nothing of a vendor.
#pragma once

#ifdef TERRACE_SIGNATURES
// The build script reads the declarations of all kernels from the preprocessed text.
#define KERNEL_OF(blocks, name, ...) KERNEL(name, __VA_ARGS__)
#define KERNEL(name, ...) TERRACE_KERNEL_DECLARATION name(__VA_ARGS__)
#elif defined(TERRACE_SIM)
#include "sim.h"
#elif defined(__HIP__)
#include "hip.h"
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DEVICE __device__ __forceinline__
// A kernel of which this many blocks at least are to fit on a multiprocessor. Left to itself (0) the compiler saves registers until eight do,
// which leaves too few loads of wide values under way.
#define KERNEL_OF(blocks, name, ...) extern "C" __global__ void __launch_bounds__(BLOCK, blocks) name(__VA_ARGS__)
#define KERNEL(name, ...) KERNEL_OF(1, name, __VA_ARGS__)
#define SHARED(type, name, count) __shared__ type name[count]
#define UNROLL _Pragma("unroll")
// A loop that is to stay one: copies of its body would be too many instructions for their cache.
#define ROLLED _Pragma("unroll 1")
// For loops up to a template parameter N: a rare large one would cost as much to compile as all others.
#define UNROLL_SMALL _Pragma("unroll (N <= 4 ? N : 1)")

// Lanes that run in step.
constexpr int WARP = 32;
// Threads of a block, for every kernel.
constexpr int BLOCK = 256;

using f64 = double;
using f32 = float;
using f16 = __half;
using bf16 = __nv_bfloat16;
using i64 = long long;
using i32 = int;
using u64 = unsigned long long;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;

DEVICE double to_f64(f64 v) { return v; }
DEVICE double to_f64(f32 v) { return v; }
DEVICE double to_f64(f16 v) { return __half2float(v); }
DEVICE double to_f64(bf16 v) { return __bfloat162float(v); }
DEVICE float to_f32(f64 v) { return static_cast<float>(v); }
DEVICE float to_f32(f32 v) { return v; }
DEVICE float to_f32(f16 v) { return __half2float(v); }
DEVICE float to_f32(bf16 v) { return __bfloat162float(v); }
DEVICE f16 to_f16(f32 v) { return __float2half_rn(v); }
DEVICE bf16 to_bf16(f32 v) { return __float2bfloat16_rn(v); }
DEVICE i64 bits_of(f64 v) { return __double_as_longlong(v); }
DEVICE f64 f64_of(i64 bits) { return __longlong_as_double(bits); }

// N neighbours of an array, read at once.
template <class T, int N> struct alignas(sizeof(T) * N) Pack {
    T of[N];
};

// Bytes that need not stay in a cache.
template <int BYTES> struct Stream;
template <> struct Stream<1> {
    using type = unsigned char;
};
template <> struct Stream<2> {
    using type = unsigned short;
};
template <> struct Stream<4> {
    using type = unsigned int;
};
template <> struct Stream<8> {
    using type = uint2;
};
template <> struct Stream<16> {
    using type = uint4;
};

// An array that a kernel reads and nothing writes while it runs.
template <class T> struct In {
    const T *data;
    i64 len;
    DEVICE T operator[](i64 i) const { return __ldg(data + i); }
    // Read once: it need not stay in a cache.
    DEVICE T once(i64 i) const { return __ldcs(data + i); }
    // N from i on, a multiple of N, read once.
    template <int N> DEVICE Pack<T, N> pack_once(i64 i) const {
        using Bytes = typename Stream<sizeof(T) * N>::type;
        union Both {
            Bytes bytes;
            Pack<T, N> pack;
            DEVICE Both() {}
        } both;
        both.bytes = __ldcs(reinterpret_cast<const Bytes *>(data + i));
        return both.pack;
    }
    // The same, to be read again.
    template <int N> DEVICE Pack<T, N> pack(i64 i) const {
        using Bytes = typename Stream<sizeof(T) * N>::type;
        union Both {
            Bytes bytes;
            Pack<T, N> pack;
            DEVICE Both() {}
        } both;
        both.bytes = __ldg(reinterpret_cast<const Bytes *>(data + i));
        return both.pack;
    }
    // The rest of the array.
    DEVICE In from(i64 i) const { return In{data + i, len - i}; }
};

// An array that a kernel writes.
template <class T> struct Out {
    T *data;
    i64 len;
    DEVICE T &operator[](i64 i) const { return data[i]; }
    // N from i on, at an address that is a multiple of their size.
    template <int N> DEVICE Pack<T, N> pack(i64 i) const { return *reinterpret_cast<const Pack<T, N> *>(data + i); }
    template <int N> DEVICE void put(i64 i, const Pack<T, N> &v) const { *reinterpret_cast<Pack<T, N> *>(data + i) = v; }
};

// An address of device memory that a kernel finds there.
template <class T> DEVICE T *device_address(u64 address) { return static_cast<T *>(__cvta_global_to_generic(address)); }

DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
DEVICE i64 block_index() { return blockIdx.x; }
DEVICE i64 block_count() { return gridDim.x; }
DEVICE void barrier() { __syncthreads(); }

// The value of the lane whose number differs in the bits of `mask`.
template <class T> DEVICE T shuffle_xor(T v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
// The value of lane `from` of the warp.
template <class T> DEVICE T shuffle(T v, int from) { return __shfl_sync(0xffffffffu, v, from); }

// N neighbouring lanes of a warp, a power of two. All of them take part in each operation; other groups of the warp may be elsewhere.
template <int N> struct Group {
    static_assert(N <= WARP && (N & (N - 1)) == 0, "a power of two");
    static DEVICE int rank() { return thread_index() & (N - 1); }
    // The value of the lane of this rank.
    template <class T> static DEVICE T shuffle(T v, int from) { return __shfl_sync(mask(), v, from, N); }
    // Bit k is the predicate of rank k.
    static DEVICE u64 ballot(bool predicate) {
        const u32 all = __ballot_sync(mask(), predicate);
        return N == 32 ? all : all >> (thread_index() % WARP & ~(N - 1)) & ((1u << N % 32) - 1);
    }
    // What lanes of the group wrote before, all of them read after.
    static DEVICE void barrier() { __syncwarp(mask()); }
    // The smallest value of the group.
    static DEVICE i32 least(i32 v) {
#if __CUDA_ARCH__ >= 800
        return __reduce_min_sync(mask(), v);
#else
        for (int step = N / 2; step > 0; step /= 2) {
            const i32 other = shuffle(v, rank() ^ step);
            v = other < v ? other : v;
        }
        return v;
#endif
    }

  private:
    static DEVICE u32 mask() { return N == 32 ? ~0u : ((1u << N % 32) - 1) << (thread_index() % WARP & ~(N - 1)); }
};

DEVICE int count_bits(u64 bits) { return __popcll(bits); }
// The place of the lowest bit that is set, of which there is one.
DEVICE int lowest_bit(u64 bits) { return __ffsll(static_cast<i64>(bits)) - 1; }

// Integers in global or shared memory that several threads change; each returns what was there before. Sums of numbers that are rounded never
// go this way: their order would be another in each run.
DEVICE i32 atomic_add(i32 &at, i32 v) { return atomicAdd(&at, v); }
DEVICE i64 atomic_add(i64 &at, i64 v) { return static_cast<i64>(atomicAdd(reinterpret_cast<u64 *>(&at), static_cast<u64>(v))); }
DEVICE i32 atomic_max(i32 &at, i32 v) { return atomicMax(&at, v); }
DEVICE u64 atomic_max(u64 &at, u64 v) { return atomicMax(&at, v); }
DEVICE u32 atomic_or(u32 &at, u32 v) { return atomicOr(&at, v); }
// Puts v where `expected` is.
DEVICE i32 atomic_swap_if(i32 &at, i32 expected, i32 v) { return atomicCAS(&at, expected, v); }

// A product that is rounded by itself, and never becomes part of a fused multiply-add: set-up gives the bits of the host.
DEVICE f64 times(f64 a, f64 b) { return __dmul_rn(a, b); }
DEVICE f32 times(f32 a, f32 b) { return __fmul_rn(a, b); }
DEVICE f64 square_root(f64 v) { return __dsqrt_rn(v); }

// D = A B + C for A of 8 x 4, B of 4 x 8, C and D of 8 x 8, by the 32 lanes of a Group<32>: lane l has A(l / 4, l % 4), B(l % 4, l / 4), and
// elements 2 (l % 4) and the next of row l / 4 of C, which become those of D. Each is a chain of fused multiplications and additions, from C on
// in the order of A's columns.
DEVICE void matrix_step(f64 &first, f64 &second, f64 a, f64 b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};" : "+d"(first), "+d"(second) : "d"(a), "d"(b));
#endif
}

#endif

// Conversion in registers. 16-bit numbers are made by way of f32, as on the host.
template <class T> struct As;
template <> struct As<f64> {
    template <class S> static DEVICE f64 of(S v) { return to_f64(v); }
};
template <> struct As<f32> {
    template <class S> static DEVICE f32 of(S v) { return to_f32(v); }
};
template <> struct As<f16> {
    template <class S> static DEVICE f16 of(S v) { return to_f16(to_f32(v)); }
};
template <> struct As<bf16> {
    template <class S> static DEVICE bf16 of(S v) { return to_bf16(to_f32(v)); }
};

// The type of arithmetic on numbers of a format, at least f32.
template <class T> struct WideOf {
    using type = f32;
};
template <> struct WideOf<f64> {
    using type = f64;
};
template <class T> using Wide = typename WideOf<T>::type;

// Formats that are told at run time.
constexpr int F64 = 0;
constexpr int F32 = 1;
constexpr int F16 = 2;
constexpr int BF16 = 3;

// An array whose format is told at run time, where a kernel for each would be too many.
struct Any {
    void *data;
    i64 len;
    template <class T> DEVICE In<T> in() const { return In<T>{static_cast<const T *>(data), len}; }
    template <class T> DEVICE Out<T> out() const { return Out<T>{static_cast<T *>(data), len}; }
};

// Element i of a vector that is computed with in type A, and may be written in the same kernel.
template <class A> DEVICE A load(const Any &x, int format, i64 i);
template <> DEVICE f64 load<f64>(const Any &x, int, i64 i) { return x.out<f64>()[i]; }
template <> DEVICE f32 load<f32>(const Any &x, int format, i64 i) {
    if (format == F16) {
        return to_f32(x.out<f16>()[i]);
    }
    return format == BF16 ? to_f32(x.out<bf16>()[i]) : x.out<f32>()[i];
}
// Element i of an array of any format, in type A.
template <class A> DEVICE A load_any(const Any &x, int format, i64 i) {
    if (format == F64) {
        return As<A>::of(x.in<f64>()[i]);
    }
    if (format == F32) {
        return As<A>::of(x.in<f32>()[i]);
    }
    return format == F16 ? As<A>::of(x.in<f16>()[i]) : As<A>::of(x.in<bf16>()[i]);
}
DEVICE void store(const Any &x, int, i64 i, f64 v) { x.out<f64>()[i] = v; }
DEVICE void store(const Any &x, int format, i64 i, f32 v) {
    if (format == F16) {
        x.out<f16>()[i] = to_f16(v);
    } else if (format == BF16) {
        x.out<bf16>()[i] = to_bf16(v);
    } else {
        x.out<f32>()[i] = v;
    }
}

// The same for N neighbours from i on, at an address that is a multiple of their size.
template <int N, class T, class A> DEVICE void load_pack(const Any &x, i64 i, A *to) {
    const Pack<T, N> pack = x.out<T>().template pack<N>(i);
    UNROLL
    for (int k = 0; k < N; ++k) {
        to[k] = As<A>::of(pack.of[k]);
    }
}
template <int N, class T, class A> DEVICE void store_pack(const Any &x, i64 i, const A *from) {
    Pack<T, N> pack;
    UNROLL
    for (int k = 0; k < N; ++k) {
        pack.of[k] = As<T>::of(from[k]);
    }
    x.out<T>().put(i, pack);
}
template <int N, class A> DEVICE void load_packs(const Any &x, int format, i64 i, A *to) {
    if (format == F64) {
        load_pack<N, f64>(x, i, to);
    } else if (format == F32) {
        load_pack<N, f32>(x, i, to);
    } else if (format == F16) {
        load_pack<N, f16>(x, i, to);
    } else {
        load_pack<N, bf16>(x, i, to);
    }
}
template <int N> DEVICE void store_packs(const Any &x, int, i64 i, const f64 *from) { store_pack<N, f64>(x, i, from); }
template <int N> DEVICE void store_packs(const Any &x, int format, i64 i, const f32 *from) {
    if (format == F32) {
        store_pack<N, f32>(x, i, from);
    } else if (format == F16) {
        store_pack<N, f16>(x, i, from);
    } else {
        store_pack<N, bf16>(x, i, from);
    }
}

DEVICE i64 global_index() { return block_index() * BLOCK + thread_index(); }

// Elements that one thread of a vector operation handles, a block apart from each other: their loads wait for each other's memory together.
constexpr int ELEMENTS = 4;

// The first of them; the others follow at steps of BLOCK.
DEVICE i64 first_element() { return block_index() * (BLOCK * ELEMENTS) + thread_index(); }

// v, rounded to a format that is computed with in its type.
DEVICE f64 rounded(int, f64 v) { return v; }
DEVICE f32 rounded(int format, f32 v) {
    if (format == F16) {
        return to_f32(to_f16(v));
    }
    return format == BF16 ? to_f32(to_bf16(v)) : v;
}

// Every combination that kernels exist for: a format; one of stored values and one of vectors; one of stored values, one of the vector that is
// multiplied, and the type of the sums. Vectors in 16 bits go with stored values in the same format alone. The format of a result is told at
// run time.
#define FOR_FORMATS(DO) DO(f64) DO(f32) DO(f16) DO(bf16)
#define FOR_STORAGE(DO, ...) DO(f64, __VA_ARGS__) DO(f32, __VA_ARGS__) DO(f16, __VA_ARGS__) DO(bf16, __VA_ARGS__)
#define FOR_STORAGE_AND_VECTOR(DO) FOR_STORAGE(DO, f64) FOR_STORAGE(DO, f32) DO(f16, f16) DO(bf16, bf16)
#define FOR_STORAGE_VECTOR_AND_SUM(DO) \
    FOR_STORAGE(DO, f64, f64) FOR_STORAGE(DO, f32, f64) DO(f16, f16, f64) DO(bf16, bf16, f64) \
    FOR_STORAGE(DO, f64, f32) FOR_STORAGE(DO, f32, f32) DO(f16, f16, f32) DO(bf16, bf16, f32)

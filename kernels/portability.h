// One dialect for every place where kernels run: CUDA, HIP, and `sim`, which runs them on the CPU. Kernels see arrays (`In`, `Out`), warp
// operations in which all lanes of a warp take part, shared memory and barriers, and nothing of a vendor.
#pragma once

#ifdef TERRACE_SIM
#include "sim.h"
#elif defined(__HIP__)
#include "hip.h"
#else

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define DEVICE __device__ __forceinline__
#define KERNEL(name, ...) extern "C" __global__ void __launch_bounds__(BLOCK) name(__VA_ARGS__)
#define SHARED(type, name, count) __shared__ type name[count]
#define UNROLL _Pragma("unroll")

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

// An array that a kernel reads and nothing writes while it runs.
template <class T> struct In {
    const T *data;
    i64 len;
    DEVICE T operator[](i64 i) const { return __ldg(data + i); }
    // Read once: it need not stay in a cache.
    DEVICE T once(i64 i) const { return __ldcs(data + i); }
    // The rest of the array.
    DEVICE In from(i64 i) const { return In{data + i, len - i}; }
};

// An array that a kernel writes.
template <class T> struct Out {
    T *data;
    i64 len;
    DEVICE T &operator[](i64 i) const { return data[i]; }
};

DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
DEVICE i64 block_index() { return blockIdx.x; }
DEVICE i64 block_count() { return gridDim.x; }
DEVICE void barrier() { __syncthreads(); }

// The value of the lane whose number differs in the bits of `mask`.
template <class T> DEVICE T shuffle_xor(T v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
// The value of lane `from` of the warp.
template <class T> DEVICE T shuffle(T v, int from) { return __shfl_sync(0xffffffffu, v, from); }

#endif

// Conversion in registers to the type in which a kernel computes.
template <class A> struct Wide;
template <> struct Wide<f64> {
    template <class S> static DEVICE f64 of(S v) { return to_f64(v); }
};
template <> struct Wide<f32> {
    template <class S> static DEVICE f32 of(S v) { return to_f32(v); }
};

DEVICE i64 global_index() { return block_index() * BLOCK + thread_index(); }

// Elements that one thread of a vector operation handles, a block apart from each other: their loads wait for each other's memory together.
constexpr int ELEMENTS = 4;

// The first of them; the others follow at steps of BLOCK.
DEVICE i64 first_element() { return block_index() * (BLOCK * ELEMENTS) + thread_index(); }

// Every combination that kernels exist for. Vectors are f64 or f32, stored values of any format.
#define FOR_VECTORS(DO) DO(f64) DO(f32)
#define FOR_STORAGE_AND_VECTOR(DO) \
    DO(f64, f64) DO(f32, f64) DO(f16, f64) DO(bf16, f64) DO(f64, f32) DO(f32, f32) DO(f16, f32) DO(bf16, f32)
#define FOR_STORAGE_AND_VECTORS(DO) \
    DO(f64, f64, f64) DO(f32, f64, f64) DO(f16, f64, f64) DO(bf16, f64, f64) \
    DO(f64, f32, f64) DO(f32, f32, f64) DO(f16, f32, f64) DO(bf16, f32, f64) \
    DO(f64, f64, f32) DO(f32, f64, f32) DO(f16, f64, f32) DO(bf16, f64, f32) \
    DO(f64, f32, f32) DO(f32, f32, f32) DO(f16, f32, f32) DO(bf16, f32, f32)

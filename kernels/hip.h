// AMD GPUs, by clang alone: its builtins are all that kernels need, so that neither HIP's headers nor its device library must be there to compile
// them. A wavefront has 64 lanes on gfx90a and gfx942, 32 on gfx1100; a warp of the kernels is 32 of them on all.
#pragma once

#define DEVICE __attribute__((device, always_inline)) inline
#define KERNEL_OF(blocks, name, ...) KERNEL(name, __VA_ARGS__)
#define KERNEL(name, ...) \
    extern "C" __attribute__((global)) void __attribute__((amdgpu_flat_work_group_size(BLOCK, BLOCK))) name(__VA_ARGS__)
#define SHARED(type, name, count) __attribute__((shared)) static type name[count]
#define UNROLL _Pragma("unroll")
// A loop that is to stay one: copies of its body would be too many instructions for their cache.
#define ROLLED _Pragma("unroll 1")
#define UNROLL_SMALL _Pragma("unroll N <= 4 ? N : 1")
#define memcpy __builtin_memcpy

// Lanes that run in step. Kernels know warps alone.
#if defined(__GFX9__)
constexpr int WAVEFRONT = 64;
#else
constexpr int WAVEFRONT = 32;
#endif
constexpr int WARP = 32;
constexpr int BLOCK = 256;

using f64 = double;
using f32 = float;
using f16 = _Float16;
using i64 = long long;
using i32 = int;
using u64 = unsigned long long;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;

// Computed with in f32.
struct bf16 {
    u16 bits;
};

DEVICE double to_f64(f64 v) { return v; }
DEVICE double to_f64(f32 v) { return v; }
DEVICE double to_f64(f16 v) { return static_cast<double>(v); }
DEVICE float to_f32(f64 v) { return static_cast<float>(v); }
DEVICE float to_f32(f32 v) { return v; }
DEVICE float to_f32(f16 v) { return static_cast<float>(v); }
DEVICE float to_f32(bf16 v) { return __builtin_bit_cast(float, static_cast<unsigned>(v.bits) << 16); }
DEVICE double to_f64(bf16 v) { return to_f32(v); }
DEVICE f16 to_f16(f32 v) { return static_cast<f16>(v); }
// To the nearest, of two equally near ones to the even; NaN stays NaN.
DEVICE bf16 to_bf16(f32 v) {
    const auto bits = __builtin_bit_cast(unsigned, v);
    return bf16{static_cast<u16>(v != v ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}

DEVICE i64 bits_of(f64 v) { return __builtin_bit_cast(i64, v); }
DEVICE f64 f64_of(i64 bits) { return __builtin_bit_cast(f64, bits); }

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
    using type = unsigned;
};
template <> struct Stream<8> {
    using type = unsigned __attribute__((ext_vector_type(2)));
};
template <> struct Stream<16> {
    using type = unsigned __attribute__((ext_vector_type(4)));
};
template <class T> DEVICE T load_once(const void *from) {
    using Bytes = typename Stream<sizeof(T)>::type;
    return __builtin_bit_cast(T, __builtin_nontemporal_load(static_cast<const Bytes *>(from)));
}

template <class T> struct In {
    const T *data;
    i64 len;
    DEVICE T operator[](i64 i) const { return data[i]; }
    DEVICE T once(i64 i) const { return load_once<T>(data + i); }
    template <int N> DEVICE Pack<T, N> pack_once(i64 i) const { return load_once<Pack<T, N>>(data + i); }
    template <int N> DEVICE Pack<T, N> pack(i64 i) const { return *reinterpret_cast<const Pack<T, N> *>(data + i); }
    DEVICE In from(i64 i) const { return In{data + i, len - i}; }
};
template <class T> struct Out {
    T *data;
    i64 len;
    DEVICE T &operator[](i64 i) const { return data[i]; }
    template <int N> DEVICE Pack<T, N> pack(i64 i) const { return *reinterpret_cast<const Pack<T, N> *>(data + i); }
    template <int N> DEVICE void put(i64 i, const Pack<T, N> &v) const { *reinterpret_cast<Pack<T, N> *>(data + i) = v; }
};

template <class T> DEVICE T *device_address(u64 address) {
    return (T *)reinterpret_cast<__attribute__((address_space(1))) T *>(address);
}

DEVICE int thread_index() { return static_cast<int>(__builtin_amdgcn_workitem_id_x()); }
DEVICE i64 block_index() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE i64 block_count() { return __builtin_amdgcn_grid_size_x() / BLOCK; }
DEVICE void barrier() {
    __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
    __builtin_amdgcn_s_barrier();
    __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}

// 32 bits of another lane of the wavefront.
DEVICE int permute(int bits, int from) { return __builtin_amdgcn_ds_bpermute(from * 4, bits); }

template <class T> DEVICE T from_lane(T v, int from) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "lanes hand on 32 or 64 bits");
    if constexpr (sizeof(T) == 4) {
        return __builtin_bit_cast(T, permute(__builtin_bit_cast(int, v), from));
    } else {
        const auto bits = __builtin_bit_cast(unsigned long long, v);
        const auto low = static_cast<unsigned>(permute(static_cast<int>(bits), from));
        const auto high = static_cast<unsigned>(permute(static_cast<int>(bits >> 32), from));
        return __builtin_bit_cast(T, static_cast<unsigned long long>(high) << 32 | low);
    }
}
template <class T> DEVICE T shuffle_xor(T v, int mask) { return from_lane(v, (thread_index() % WAVEFRONT) ^ mask); }

template <int N> struct Group {
    static_assert(N <= WARP && (N & (N - 1)) == 0, "a power of two");
    static DEVICE int rank() { return thread_index() & (N - 1); }
    template <class T> static DEVICE T shuffle(T v, int from) { return from_lane(v, first() + (from & (N - 1))); }
    static DEVICE u64 ballot(bool predicate) {
#if defined(__GFX9__)
        const u64 all = __builtin_amdgcn_ballot_w64(predicate);
#else
        const u64 all = __builtin_amdgcn_ballot_w32(predicate);
#endif
        return all >> first() & ((1ull << N) - 1);
    }
    static DEVICE void barrier() {
        __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
        __builtin_amdgcn_wave_barrier();
        __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
    }
    static DEVICE i32 least(i32 v) {
        for (int step = N / 2; step > 0; step /= 2) {
            const i32 other = shuffle(v, rank() ^ step);
            v = other < v ? other : v;
        }
        return v;
    }

  private:
    static DEVICE int first() { return thread_index() % WAVEFRONT & ~(N - 1); }
};

template <class T> DEVICE T shuffle(T v, int from) { return Group<WARP>::shuffle(v, from); }

DEVICE int count_bits(u64 bits) { return __builtin_popcountll(bits); }
DEVICE int lowest_bit(u64 bits) { return __builtin_ctzll(bits); }

template <class T> DEVICE T atomic_add(T &at, T v) {
    return __hip_atomic_fetch_add(&at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
template <class T> DEVICE T atomic_max(T &at, T v) {
    return __hip_atomic_fetch_max(&at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE u32 atomic_or(u32 &at, u32 v) {
    return __hip_atomic_fetch_or(&at, v, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
}
DEVICE i32 atomic_swap_if(i32 &at, i32 expected, i32 v) {
    __hip_atomic_compare_exchange_strong(&at, &expected, v, __ATOMIC_RELAXED, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_AGENT);
    return expected;
}

template <class T> DEVICE T times(T a, T b) {
#pragma clang fp contract(off)
    return a * b;
}
DEVICE f64 square_root(f64 v) { return __builtin_sqrt(v); }

// As in portability.h; by exchanges between lanes, because matrix cores of these GPUs have other shapes or none for f64.
DEVICE void matrix_step(f64 &first, f64 &second, f64 a, f64 b) {
    const int lane = Group<32>::rank();
    UNROLL
    for (int k = 0; k < 4; ++k) {
        const f64 left = Group<32>::shuffle(a, lane / 4 * 4 + k);
        first = __builtin_fma(left, Group<32>::shuffle(b, lane % 4 * 8 + k), first);
        second = __builtin_fma(left, Group<32>::shuffle(b, lane % 4 * 8 + 4 + k), second);
    }
}

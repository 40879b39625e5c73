// The CPU as a GPU: every thread of a block is a fiber, warps run in step where they exchange values, and what a GPU would leave undefined
// is an error: accesses outside of an array, shared memory that was not written (it starts as NaN), lanes or threads that do not reach an
// exchange or a barrier which others wait at. sim.cpp, the engine, and sim_unit.cpp, around each kernel file, include this inside of a namespace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#define DEVICE inline
#define UNROLL
#define UNROLL_SMALL
#define ROLLED

constexpr int WARP = 32;
constexpr int BLOCK = 256;

using f64 = double;
using f32 = float;
using i64 = long long;
using i32 = int;
using u64 = unsigned long long;
using u32 = unsigned int;
using u16 = unsigned short;
using u8 = unsigned char;

// Formats that store, and are computed with in f32.
struct f16 {
    std::uint16_t bits;
};
struct bf16 {
    std::uint16_t bits;
};

inline float from_bits(std::uint32_t bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float to_f32(f64 v) { return static_cast<float>(v); }
inline float to_f32(f32 v) { return v; }
inline float to_f32(bf16 v) { return from_bits(static_cast<std::uint32_t>(v.bits) << 16); }
inline float to_f32(f16 v) {
    const std::uint32_t sign = (v.bits & 0x8000u) << 16;
    const std::uint32_t exponent = (v.bits >> 10) & 0x1fu;
    const std::uint32_t fraction = v.bits & 0x3ffu;
    if (exponent == 0) {
        const float tiny = static_cast<float>(fraction) * 0x1p-24f;
        return sign != 0 ? -tiny : tiny;
    }
    const std::uint32_t wide = exponent == 31 ? 255u : exponent + 112u;
    return from_bits(sign | (wide << 23) | (fraction << 13));
}
inline std::uint32_t to_bits(float value) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

// To the nearest, of two equally near ones to the even; NaN stays NaN.
inline bf16 to_bf16(f32 v) {
    const std::uint32_t bits = to_bits(v);
    if (v != v) {
        return bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    }
    return bf16{static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}
inline f16 to_f16(f32 v) {
    const std::uint32_t bits = to_bits(v);
    const std::uint32_t sign = (bits >> 16) & 0x8000u;
    const std::uint32_t size = bits & 0x7fffffffu;
    std::uint32_t rounded;
    if (size > 0x7f800000u) {
        rounded = 0x7e00u | ((size >> 13) & 0x3ffu);
    } else if (size >= 0x477ff000u) { // from halfway between the largest number and the next power of two on
        rounded = 0x7c00u;
    } else if (size >= 0x38800000u) { // a normal number
        rounded = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
    } else { // the sum has the spacing of the smallest numbers, and rounds to it
        rounded = to_bits(from_bits(size) + 0.5f) - to_bits(0.5f);
    }
    return f16{static_cast<std::uint16_t>(sign | rounded)};
}
inline double to_f64(f64 v) { return v; }
inline double to_f64(f32 v) { return v; }
inline double to_f64(f16 v) { return to_f32(v); }
inline double to_f64(bf16 v) { return to_f32(v); }

inline i64 bits_of(f64 v) {
    i64 bits;
    std::memcpy(&bits, &v, sizeof bits);
    return bits;
}
inline f64 f64_of(i64 bits) {
    f64 v;
    std::memcpy(&v, &bits, sizeof v);
    return v;
}

namespace sim {

// Ends the launch with a message; does not return to the kernel.
[[noreturn]] void stop(const char *what, i64 index, i64 len);

// What the running fiber sees.
struct Position {
    int thread;
    i64 block;
    i64 blocks;
};
// A plain thread-local variable, which kernels of all files read without a call.
extern __thread __attribute__((tls_model("initial-exec"))) Position here;
inline const Position &position() { return here; }

void barrier();
// Hands 64 bits to the other lanes of a group of so many, and gets those of all by their ranks; every lane of the group takes part.
const std::uint64_t *exchange(std::uint64_t bits, int lanes);
// A value of another lane of the group.
template <class T> T shuffle(T v, int from, int lanes) {
    static_assert(sizeof(T) <= 8, "a lane hands on at most 64 bits");
    if (from < 0 || from >= lanes) {
        stop("an exchange with a lane", from, lanes);
    }
    std::uint64_t bits = 0;
    std::memcpy(&bits, &v, sizeof v);
    bits = exchange(bits, lanes)[from];
    std::memcpy(&v, &bits, sizeof v);
    return v;
}
// The next `bytes` of the block's shared memory, the same for each of its threads.
void *shared(std::size_t bytes);

using Invoke = void (*)(const void *kernel, void **arguments);

// A kernel by its name.
struct Entry {
    const char *name;
    const void *kernel;
    Invoke invoke;
    // Bytes of each argument.
    const unsigned char *sizes;
    std::size_t count;
    Entry *next;
    Entry(const char *name, const void *kernel, Invoke invoke, const unsigned char *sizes, std::size_t count);
    // Its address is in a list: what could be copied might be made elsewhere and copied to its place.
    Entry(const Entry &) = delete;
};

template <class... A, std::size_t... I>
void invoke_with(void (*kernel)(A...), void **arguments, std::index_sequence<I...>) {
    kernel(*static_cast<A *>(arguments[I])...);
}

template <class... A> struct Sizes {
    static constexpr unsigned char of[] = {sizeof(A)...};
};

template <class... A> void invoke(const void *kernel, void **arguments) {
    auto typed = reinterpret_cast<void (*)(A...)>(const_cast<void *>(kernel));
    invoke_with(typed, arguments, std::index_sequence_for<A...>{});
}

template <class... A> Entry entry(const char *name, void (*kernel)(A...)) {
    return Entry(name, reinterpret_cast<const void *>(kernel), invoke<A...>, Sizes<A...>::of, sizeof...(A));
}

template <class T> struct SharedArray {
    T *data;
    i64 len;
    T &operator[](i64 i) const {
        if (i < 0 || i >= len) {
            stop("an access to shared memory", i, len);
        }
        return data[i];
    }
};

} // namespace sim

#define KERNEL_OF(blocks, name, ...) KERNEL(name, __VA_ARGS__)
#define KERNEL(name, ...) \
    static void name(__VA_ARGS__); \
    static sim::Entry entry_of_##name = sim::entry(#name, name); \
    static void name(__VA_ARGS__)
#define SHARED(type, name, count) \
    sim::SharedArray<type> name { static_cast<type *>(sim::shared(sizeof(type) * (count))), (count) }

template <class T, int N> struct Pack {
    T of[N];
};

template <class T> struct In {
    const T *data;
    i64 len;
    T operator[](i64 i) const {
        if (i < 0 || i >= len) {
            sim::stop("a read", i, len);
        }
        return data[i];
    }
    T once(i64 i) const { return (*this)[i]; }
    template <int N> Pack<T, N> pack_once(i64 i) const {
        if (i % N != 0) {
            sim::stop("a read of neighbours that does not begin at a multiple of their number", i, len);
        }
        Pack<T, N> pack;
        for (int k = 0; k < N; ++k) {
            pack.of[k] = (*this)[i + k];
        }
        return pack;
    }
    template <int N> Pack<T, N> pack(i64 i) const { return pack_once<N>(i); }
    In from(i64 i) const {
        if (i < 0 || i > len) {
            sim::stop("the rest of an array", i, len);
        }
        return In{data + i, len - i};
    }
};

template <class T> struct Out {
    T *data;
    i64 len;
    T &operator[](i64 i) const {
        if (i < 0 || i >= len) {
            sim::stop("a write", i, len);
        }
        return data[i];
    }
    template <int N> Pack<T, N> pack(i64 i) const { return In<T>{data, len}.template pack_once<N>(i); }
    template <int N> void put(i64 i, const Pack<T, N> &v) const {
        for (int k = 0; k < N; ++k) {
            (*this)[i + k] = v.of[k];
        }
    }
};

template <class T> T *device_address(u64 address) { return reinterpret_cast<T *>(address); }

inline int thread_index() { return sim::position().thread; }
inline i64 block_index() { return sim::position().block; }
inline i64 block_count() { return sim::position().blocks; }
inline void barrier() { sim::barrier(); }

template <class T> T shuffle(T v, int from) { return sim::shuffle(v, from, WARP); }
template <class T> T shuffle_xor(T v, int mask) { return shuffle(v, (thread_index() % WARP) ^ mask); }

template <int N> struct Group {
    static_assert(N <= WARP && (N & (N - 1)) == 0, "a power of two");
    static int rank() { return thread_index() & (N - 1); }
    template <class T> static T shuffle(T v, int from) { return sim::shuffle(v, from, N); }
    static u64 ballot(bool predicate) {
        const std::uint64_t *all = sim::exchange(predicate ? 1 : 0, N);
        u64 bits = 0;
        for (int k = 0; k < N; ++k) {
            bits |= static_cast<u64>(all[k]) << k;
        }
        return bits;
    }
    static void barrier() { sim::exchange(0, N); }
    static i32 least(i32 v) {
        const std::uint64_t *all = sim::exchange(static_cast<u32>(v), N);
        for (int k = 0; k < N; ++k) {
            const i32 other = static_cast<i32>(static_cast<u32>(all[k]));
            v = other < v ? other : v;
        }
        return v;
    }
};

inline int count_bits(u64 bits) { return __builtin_popcountll(bits); }
inline int lowest_bit(u64 bits) { return __builtin_ctzll(bits); }

// Fibers change places only where they wait, so these are atomic as they are.
template <class T> T atomic_add(T &at, T v) { return std::exchange(at, static_cast<T>(at + v)); }
template <class T> T atomic_max(T &at, T v) { return std::exchange(at, at < v ? v : at); }
inline u32 atomic_or(u32 &at, u32 v) { return std::exchange(at, at | v); }
inline i32 atomic_swap_if(i32 &at, i32 expected, i32 v) { return std::exchange(at, at == expected ? v : at); }

template <class T> T times(T a, T b) {
    T product = a * b;
#if __FMA__
    // The compiler must not see that it is one.
    asm("" : "+x"(product));
#endif
    return product;
}
inline f64 square_root(f64 v) { return __builtin_sqrt(v); }

// As in portability.h.
inline void matrix_step(f64 &first, f64 &second, f64 a, f64 b) {
    f64 rows[32], columns[32];
    const auto from = [](f64 *to, const std::uint64_t *all) { std::memcpy(to, all, 32 * sizeof *to); };
    from(rows, sim::exchange(static_cast<std::uint64_t>(bits_of(a)), 32));
    from(columns, sim::exchange(static_cast<std::uint64_t>(bits_of(b)), 32));
    const int lane = Group<32>::rank();
    for (int k = 0; k < 4; ++k) {
        first = __builtin_fma(rows[lane / 4 * 4 + k], columns[lane % 4 * 8 + k], first);
        second = __builtin_fma(rows[lane / 4 * 4 + k], columns[lane % 4 * 8 + 4 + k], second);
    }
}

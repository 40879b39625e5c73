// The last levels of a V-cycle in one launch: a list of steps, each of which multiplies a matrix with a vector and makes another vector of the
// result, with a barrier after each. By one block of threads, or by the blocks of a cluster on GPUs that have those. Sums are those of csr.cu and
// dense.cu: the same lanes for each row, and so the same order.
#include "csr.h"

// What a step has on its left: nothing, so that sums are 0; a matrix in CSR, with columns of 32 bits or of 16; a dense one.
constexpr int TAIL_NONE = 0;
constexpr int TAIL_CSR = 1;
constexpr int TAIL_CSR16 = 2;
constexpr int TAIL_DENSE = 3;

// y = A x, z + A x, b - A x, z + D (b - A x), or D b; without a D the last is zero.
constexpr int TAIL_PRODUCT = 0;
constexpr int TAIL_ADD = 1;
constexpr int TAIL_RESIDUAL = 2;
constexpr int TAIL_SWEEP = 3;
constexpr int TAIL_FIRST = 4;

// One of them, as src/gpu/tail.rs writes it. Addresses are 0 for what there is not. y may be z. With w, which goes with a product alone, w = D y, or
// zero without a D: the first sweep on the level that y is the right-hand side of.
struct TailStep {
    i32 kind;
    i32 form;
    // Of the values, and of D.
    i32 storage;
    i32 diagonal;
    // 1 << shift lanes for each row.
    i32 shift;
    i32 reserved;
    i64 rows;
    i64 cols;
    i64 entries;
    u64 offsets;
    u64 bases;
    u64 columns;
    u64 values;
    u64 x;
    u64 b;
    u64 d;
    u64 z;
    u64 y;
    u64 w;
};

constexpr int TAIL_WORDS = sizeof(TailStep) / sizeof(u64);
// Most steps, for which there is room in shared memory.
constexpr int TAIL_STEPS = 64;

// Not by way of `device_address`, with which nvcc 13.0 compiles these kernels for ever.
template <class T> DEVICE In<T> tail_in(u64 address, i64 len) { return In<T>{reinterpret_cast<const T *>(address), len}; }
template <class T> DEVICE Out<T> tail_out(u64 address, i64 len) { return Out<T>{reinterpret_cast<T *>(address), len}; }

// The entries of a row, and what their columns are counted from.
struct TailSpan {
    i64 start;
    i32 base;
    i32 count;
};

// An array that is read again in the next cycle: it may stay in a cache, where what is read once does not displace it.
template <class T> struct TailAgain {
    In<T> from;
    DEVICE T once(int k) const { return from[k]; }
};

// Columns of a dense row.
struct TailCounted {
    DEVICE int once(int k) const { return k; }
};

struct TailLong {
    In<i64> offsets;
    In<i32> columns;
    DEVICE TailSpan span(i64 row) const {
        const i64 start = offsets[row];
        return TailSpan{start, 0, static_cast<i32>(offsets[row + 1] - start)};
    }
    DEVICE TailAgain<i32> from(i64 start) const { return TailAgain<i32>{columns.from(start)}; }
};

struct TailShort {
    In<i64> offsets;
    In<i32> bases;
    In<u16> columns;
    DEVICE TailSpan span(i64 row) const {
        const i64 start = offsets[row];
        return TailSpan{start, bases[row], static_cast<i32>(offsets[row + 1] - start)};
    }
    DEVICE TailAgain<u16> from(i64 start) const { return TailAgain<u16>{columns.from(start)}; }
};

struct TailDense {
    i64 cols;
    DEVICE TailSpan span(i64 row) const { return TailSpan{row * cols, 0, static_cast<i32>(cols)}; }
    DEVICE TailCounted from(i64) const { return TailCounted{}; }
};

struct TailEmpty {
    DEVICE TailSpan span(i64) const { return TailSpan{0, 0, 0}; }
    DEVICE TailCounted from(i64) const { return TailCounted{}; }
};

// A vector that steps write and later ones read.
template <class T> struct TailVector {
    Out<T> x;
    i64 base;
    DEVICE T operator[](i64 i) const { return x[base + i]; }
};

// The rows of a step by so many threads, of which this is number `thread`. What a row needs beside its entries is under way before those, and the
// bounds of the next row as well.
template <class T, class S, class Columns>
DEVICE void tail_rows(const TailStep &s, i64 thread, i64 threads, const Columns &columns) {
    const int lanes = 1 << s.shift;
    const int lane = static_cast<int>(thread) & (lanes - 1);
    const i64 groups = threads >> s.shift;
    const In<S> values = tail_in<S>(s.values, s.entries);
    const Out<T> x = tail_out<T>(s.x, s.cols);
    const Out<T> b = tail_out<T>(s.b, s.rows);
    const Out<T> z = tail_out<T>(s.z, s.rows);
    const Out<T> y = tail_out<T>(s.y, s.rows);
    const Out<T> w = tail_out<T>(s.w, s.rows);
    const Any d = {reinterpret_cast<void *>(s.d), s.rows};
    i64 row = thread >> s.shift;
    TailSpan span = row < s.rows ? columns.span(row) : TailSpan{0, 0, 0};
    // All lanes of a warp go round as often.
    for (i64 first = 0; first < s.rows; first += groups, row += groups) {
        const bool there = row < s.rows;
        const TailSpan now = span;
        if (row + groups < s.rows) {
            span = columns.span(row + groups);
        }
        const T of_b = there && s.b != 0 ? b[row] : T(0);
        const T of_z = there && s.z != 0 ? z[row] : T(0);
        const T of_d = there && s.d != 0 ? load_any<T>(d, s.diagonal, row) : T(0);
        T sum = 0;
        if (there) {
            const TailVector<T> part = {x, now.base};
            sum = row_part<T>(lane, lanes, now.count, columns.from(now.start), TailAgain<S>{values.from(now.start)}, part);
        }
        for (int mask = lanes / 2; mask > 0; mask /= 2) {
            sum += shuffle_xor(sum, mask);
        }
        if (!there || lane != 0) {
            continue;
        }
        T result = sum;
        if (s.form == TAIL_ADD) {
            result = sum + of_z;
        } else if (s.form == TAIL_RESIDUAL) {
            result = of_b - sum;
        } else if (s.form == TAIL_SWEEP) {
            result = of_z + of_d * (of_b - sum);
        } else if (s.form == TAIL_FIRST) {
            result = s.d != 0 ? of_d * of_b : T(0);
        }
        y[row] = result;
        if (s.w != 0) {
            w[row] = s.d != 0 ? of_d * result : T(0);
        }
    }
}

template <class T, class S> DEVICE void tail_matrix(const TailStep &s, i64 thread, i64 threads) {
    const In<i64> offsets = tail_in<i64>(s.offsets, s.rows + 1);
    if (s.kind == TAIL_CSR) {
        tail_rows<T, S>(s, thread, threads, TailLong{offsets, tail_in<i32>(s.columns, s.entries)});
    } else if (s.kind == TAIL_CSR16) {
        tail_rows<T, S>(s, thread, threads, TailShort{offsets, tail_in<i32>(s.bases, s.rows), tail_in<u16>(s.columns, s.entries)});
    } else {
        tail_rows<T, S>(s, thread, threads, TailDense{s.cols});
    }
}

template <class T> DEVICE void tail_step(const TailStep &s, i64 thread, i64 threads) {
    if (s.kind == TAIL_NONE) {
        tail_rows<T, T>(s, thread, threads, TailEmpty{});
    } else if (s.storage == F64) {
        tail_matrix<T, f64>(s, thread, threads);
    } else if (s.storage == F32) {
        tail_matrix<T, f32>(s, thread, threads);
    } else if (s.storage == F16) {
        tail_matrix<T, f16>(s, thread, threads);
    } else {
        tail_matrix<T, bf16>(s, thread, threads);
    }
}

// All steps, by `blocks` blocks of SIZE threads; `wait` is a barrier for all of them.
template <class T, int SIZE, class Wait> DEVICE void tail(i64 count, i64 blocks, const In<u64> &words, const Wait &wait) {
    SHARED(u64, steps, TAIL_STEPS * TAIL_WORDS);
    for (int k = thread_index(); k < count * TAIL_WORDS; k += SIZE) {
        steps[k] = words[k];
    }
    barrier();
    ROLLED
    for (int k = 0; k < count; ++k) {
        const TailStep &s = *reinterpret_cast<const TailStep *>(&steps[k * TAIL_WORDS]);
        tail_step<T>(s, block_index() * SIZE + thread_index(), blocks * SIZE);
        if (k + 1 < count) {
            wait();
        }
    }
}

#ifdef CLUSTERS
#define TAIL(T) \
    CLUSTER_KERNEL(tail_cluster_##T, i64 count, In<u64> steps) { \
        tail<T, CLUSTER_THREADS>(count, CLUSTER, steps, [] { cluster_barrier(); }); \
    }
#else
#define TAIL(T) \
    KERNEL(tail_##T, i64 count, In<u64> steps) { \
        tail<T, BLOCK>(count, 1, steps, [] { barrier(); }); \
    }
#endif
TAIL(f64) TAIL(f32)

// Products of matrices with multivectors. A thread has four vectors of a row: it reads an entry once for all of them, and their elements of x in
// packs of 16 bytes. The `lanes` threads of a row, one or two, read neighbouring packs.
#include "multivector_rows.h"

// Entries whose loads are in flight at the same time.
constexpr int BATCH = 4;

// Adds up to BATCH entries of a row, with columns and values from functions of their number, to the sums of the own vectors.
template <bool ALL, class T, class Column, class Value>
DEVICE void add_batch(int k, int step, int count, const RowThreads &threads, const In<T> &x, const Column &column, const Value &value, T *sums) {
    T v[BATCH] = {};
    T other[BATCH][OWN] = {};
    UNROLL
    for (int i = 0; i < BATCH; ++i) {
        if (ALL || k + i * step < count) {
            v[i] = value(k + i * step);
            threads.load(x, column(k + i * step), other[i]);
        }
    }
    UNROLL
    for (int i = 0; i < BATCH; ++i) {
        UNROLL
        for (int j = 0; j < OWN; ++j) {
            sums[j] += v[i] * other[i][j];
        }
    }
}

// Adds every `step`th entry of a row from the first on.
template <class T, class Column, class Value>
DEVICE void add_row(int first, int step, int count, const RowThreads &threads, const In<T> &x, const Column &column, const Value &value, T *sums) {
    int k = first;
    for (; k + (BATCH - 1) * step < count; k += BATCH * step) {
        add_batch<true, T>(k, step, count, threads, x, column, value, sums);
    }
    if (k < count) {
        add_batch<false, T>(k, step, count, threads, x, column, value, sums);
    }
}

// SELL chunks of 1 << height rows, as in sell.cu.
template <class S, class O, class T>
DEVICE void sell(i64 rows, int shift, int height, const In<i64> &starts, const In<i32> &bases, const In<O> &offsets, const In<S> &values,
                 const In<i32> &order, const In<T> &x, const Epilogue &f) {
    const RowThreads threads(shift);
    const i64 row = global_index() >> (shift - OWN_SHIFT);
    f64 shares[OWN] = {};
    if (row < rows) {
        const i64 chunk = row >> height;
        const int r = static_cast<int>(row & ((1 << height) - 1));
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        const In<i32> own_bases = bases.from(start);
        const In<O> own_offsets = offsets.from(start << height);
        const In<S> own_values = values.from(start << height);
        T sums[OWN] = {};
        add_row<T>(
            0, 1, count, threads, x, [&](int k) { return own_bases[k] + static_cast<i32>(own_offsets[(k << height) + r]); },
            [&](int k) { return As<T>::of(own_values[(k << height) + r]); }, sums);
        apply_to_row<T>(f, threads, order.len > 0 ? order[row] : row, sums, shares);
    }
    store_epilogue_sums<T>(f, threads, shares);
}

// Adds C columns of a block to the sums of ROWS of its rows. `value` gets the row and the column.
template <int ROWS, int C, class T, class Value>
DEVICE void add_columns(const RowThreads &threads, const In<T> &x, i64 column, const Value &value, T (*sums)[OWN]) {
    T v[C][ROWS];
    T other[C][OWN];
    UNROLL
    for (int c = 0; c < C; ++c) {
        threads.load(x, column + c, other[c]);
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            v[c][i] = value(i, c);
        }
    }
    UNROLL
    for (int c = 0; c < C; ++c) {
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            UNROLL
            for (int j = 0; j < OWN; ++j) {
                sums[i][j] += v[c][i] * other[c][j];
            }
        }
    }
}

// SELL chunks of blocks, as in block_sell.cu. A thread has ROWS rows of a block, a divisor of br; they share their elements of x. Neighbouring
// threads have neighbouring block rows.
template <int ROWS, class S, class T>
DEVICE void block_sell(i64 rows, int shift, int height, int br, int bc, const In<i64> &starts, const In<i32> &bases, const In<u16> &offsets,
                       const In<S> &values, const In<i32> &order, const In<T> &x, const Epilogue &f) {
    constexpr int COLUMNS = 3;
    const RowThreads threads(shift);
    const i64 place = global_index() >> (shift - OWN_SHIFT);
    const int r = static_cast<int>(place & ((1 << height) - 1));
    const int parts = br / ROWS;
    const int first = static_cast<int>((place >> height) % parts) * ROWS;
    const i64 chunk = (place >> height) / parts;
    const i64 block_row = (chunk << height) + r;
    f64 shares[OWN] = {};
    if (block_row < rows) {
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        const In<i32> own_bases = bases.from(start);
        const In<u16> own_offsets = offsets.from(start << height);
        const In<S> own_values = values.from((start * br * bc) << height);
        T sums[ROWS][OWN] = {};
        for (int k = 0; k < count; ++k) {
            const i64 column = static_cast<i64>(own_bases[k] + static_cast<i32>(own_offsets[(k << height) + r])) * bc;
            const i64 block = (static_cast<i64>(k) * br + first) * bc;
            int c = 0;
            const auto value = [&](int i, int j) { return As<T>::of(own_values[((block + i * bc + c + j) << height) + r]); };
            for (; c + COLUMNS <= bc; c += COLUMNS) {
                add_columns<ROWS, COLUMNS>(threads, x, column + c, value, sums);
            }
            for (; c < bc; ++c) {
                add_columns<ROWS, 1>(threads, x, column + c, value, sums);
            }
        }
        const i64 row = (order.len > 0 ? order[block_row] : block_row) * br + first;
        UNROLL
        for (int i = 0; i < ROWS; ++i) {
            apply_to_row<T>(f, threads, row + i, sums[i], shares);
        }
    }
    store_epilogue_sums<T>(f, threads, shares);
}

// A row for 32 threads: as many entries at a time as there are threads for. `add` gets the first entry of a thread and their distance. Each of the
// first threads has then the result for one vector.
template <class T, class Add> DEVICE void rows_of_warps(i64 rows, int shift, const Epilogue &f, const Add &add) {
    const RowThreads threads(shift);
    const i64 row = global_index() / 32;
    const int number = thread_index() % 32 >> (shift - OWN_SHIFT);
    T sums[OWN] = {};
    if (row < rows) {
        add(row, threads, number, 32 / threads.lanes, sums);
    }
    T own = 0;
    UNROLL
    for (int j = 0; j < OWN; ++j) {
        for (int mask = 16; mask >= threads.lanes; mask /= 2) {
            sums[j] += shuffle_xor(sums[j], mask);
        }
        own = number == j ? sums[j] : own;
    }
    const f64 term = row < rows && number < OWN ? apply_epilogue(f, threads.element<T>(row, number), own, row) : 0.0;
    f64 shares[OWN];
    UNROLL
    for (int j = 0; j < OWN; ++j) {
        shares[j] = number == j ? term : 0.0;
    }
    store_epilogue_sums<T>(f, threads, shares);
}

// CSR. Columns have 32 bits, or 16 as offsets from the base of their row.
template <class S, class C, class T>
DEVICE void csr(i64 rows, int shift, const In<i64> &offsets, const In<i32> &bases, const In<C> &columns, const In<S> &values, const In<T> &x,
                const Epilogue &f) {
    rows_of_warps<T>(rows, shift, f, [&](i64 row, const RowThreads &threads, int first, int step, T *sums) {
        const i64 start = offsets[row];
        const int count = static_cast<int>(offsets[row + 1] - start);
        const In<C> own_columns = columns.from(start);
        const In<S> own_values = values.from(start);
        const i64 base = sizeof(C) == sizeof(u16) ? bases[row] : 0;
        add_row<T>(
            first, step, count, threads, x, [&](int k) { return base + static_cast<i32>(own_columns[k]); },
            [&](int k) { return As<T>::of(own_values[k]); }, sums);
    });
}

// BSR with blocks of `side` rows and columns; the last ones may exceed the matrix, and are zero there.
template <class S, class T>
DEVICE void bsr(i64 rows, int shift, int side, const In<i64> &offsets, const In<i32> &columns, const In<S> &values, const In<T> &x,
                const Epilogue &f) {
    const i64 cols = x.len >> shift;
    rows_of_warps<T>(rows, shift, f, [&](i64 row, const RowThreads &threads, int first, int step, T *sums) {
        const i64 start = offsets[row / side];
        const int count = static_cast<int>(offsets[row / side + 1] - start) * side;
        const In<i32> own_columns = columns.from(start);
        const In<S> own_values = values.from(start * side * side);
        const int r = static_cast<int>(row % side);
        add_row<T>(
            first, step, count, threads, x,
            [&](int k) {
                const i64 column = static_cast<i64>(own_columns[k / side]) * side + k % side;
                return column < cols ? column : cols - 1;
            },
            [&](int k) { return As<T>::of(own_values[(static_cast<i64>(k / side) * side + r) * side + k % side]); }, sums);
    });
}

// A dense matrix, row by row.
template <class S, class T> DEVICE void dense(i64 n, int shift, const In<S> &values, const In<T> &x, const Epilogue &f) {
    rows_of_warps<T>(n, shift, f, [&](i64 row, const RowThreads &threads, int first, int step, T *sums) {
        const In<S> own = values.from(row * n);
        add_row<T>(
            first, step, static_cast<int>(n), threads, x, [](int k) { return k; },
            [&](int k) { return As<T>::of(own[k]); }, sums);
    });
}

#define MULTIVECTOR_SELL(S, T, BITS) \
    KERNEL(multivector_sell##BITS##_##S##_##T, i64 rows, i32 shift, i32 height, In<i64> starts, In<i32> bases, In<u##BITS> offsets, \
           In<S> values, In<i32> order, In<T> x, Epilogue f) { \
        sell<S, u##BITS, T>(rows, shift, height, starts, bases, offsets, values, order, x, f); \
    }
#define MULTIVECTOR_BLOCK_SELL(S, T, ROWS) \
    KERNEL(multivector_block_sell##ROWS##_##S##_##T, i64 rows, i32 shift, i32 height, i32 br, i32 bc, In<i64> starts, In<i32> bases, \
           In<u16> offsets, In<S> values, In<i32> order, In<T> x, Epilogue f) { \
        block_sell<ROWS, S, T>(rows, shift, height, br, bc, starts, bases, offsets, values, order, x, f); \
    }
#define MULTIVECTOR_PRODUCTS(S, T) \
    MULTIVECTOR_SELL(S, T, 8) \
    MULTIVECTOR_SELL(S, T, 16) \
    MULTIVECTOR_BLOCK_SELL(S, T, 1) \
    MULTIVECTOR_BLOCK_SELL(S, T, 3) \
    KERNEL(multivector_csr_##S##_##T, i64 rows, i32 shift, In<i64> offsets, In<i32> columns, In<S> values, In<T> x, Epilogue f) { \
        csr<S, i32, T>(rows, shift, offsets, columns, columns, values, x, f); \
    } \
    KERNEL(multivector_csr16_##S##_##T, i64 rows, i32 shift, In<i64> offsets, In<i32> bases, In<u16> columns, In<S> values, In<T> x, \
           Epilogue f) { \
        csr<S, u16, T>(rows, shift, offsets, bases, columns, values, x, f); \
    } \
    KERNEL(multivector_bsr_##S##_##T, i64 rows, i32 shift, i32 side, In<i64> offsets, In<i32> columns, In<S> values, In<T> x, Epilogue f) { \
        bsr<S, T>(rows, shift, side, offsets, columns, values, x, f); \
    } \
    KERNEL(multivector_dense_##S##_##T, i64 n, i32 shift, In<S> values, In<T> x, Epilogue f) { dense<S, T>(n, shift, values, x, f); }
FOR_STORAGE(MULTIVECTOR_PRODUCTS, f64) FOR_STORAGE(MULTIVECTOR_PRODUCTS, f32)

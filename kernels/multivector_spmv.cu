// Products of matrices with multivectors. Neighbouring threads have the vectors of one row: they read the same entry, and neighbouring elements
// of x.
#include "multivector.h"
#include "spmv_epilogue.h"

// Entries whose loads are in flight at the same time.
constexpr int BATCH = 4;

// Stores the partial sums of a block of threads, one for each vector. All threads call this, after all rows.
DEVICE void store_epilogue_sums(const Epilogue &f, int shift, f64 share) {
    if (f.summed) {
        store_vector_sums(shift, share, f.parts, block_index());
    }
}

// The vector of this thread.
DEVICE int own_vector(int shift) { return thread_index() & ((1 << shift) - 1); }

// The result of a row, for the vector of this thread.
template <class A> DEVICE f64 apply_to_row(const Epilogue &f, int shift, i64 row, A sum) {
    return apply_epilogue(f, (row << shift) + own_vector(shift), sum, row);
}

// The sum over some entries of a row, with columns and values from functions of their number, for the vector of this thread.
template <class T, class Column, class Value>
DEVICE T row_sum(int first, int step, int count, int shift, const In<T> &x, const Column &column, const Value &value) {
    const int c = own_vector(shift);
    T sum = 0;
    int k = first;
    for (; k + (BATCH - 1) * step < count; k += BATCH * step) {
        T v[BATCH];
        T other[BATCH];
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            v[j] = value(k + j * step);
            other[j] = x[(static_cast<i64>(column(k + j * step)) << shift) + c];
        }
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            sum += v[j] * other[j];
        }
    }
    for (; k < count; k += step) {
        sum += value(k) * x[(static_cast<i64>(column(k)) << shift) + c];
    }
    return sum;
}

// SELL chunks of 1 << height rows, as in sell.cu. A thread for each row and vector.
template <class S, class O, class T>
DEVICE void sell(i64 rows, int shift, int height, const In<i64> &starts, const In<i32> &bases, const In<O> &offsets, const In<S> &values,
                 const In<i32> &order, const In<T> &x, const Epilogue &f) {
    const i64 row = global_index() >> shift;
    f64 share = 0.0;
    if (row < rows) {
        const i64 chunk = row >> height;
        const int r = static_cast<int>(row & ((1 << height) - 1));
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        const In<i32> own_bases = bases.from(start);
        const In<O> own_offsets = offsets.from(start << height);
        const In<S> own_values = values.from(start << height);
        const T sum = row_sum<T>(
            0, 1, count, shift, x, [&](int k) { return own_bases[k] + static_cast<i32>(own_offsets[(k << height) + r]); },
            [&](int k) { return As<T>::of(own_values[(k << height) + r]); });
        share = apply_to_row(f, shift, order.len > 0 ? order[row] : row, sum);
    }
    store_epilogue_sums(f, shift, share);
}

// SELL chunks of blocks, as in block_sell.cu. A thread for each row and vector; neighbouring rows are those of neighbouring block rows.
template <class S, class T>
DEVICE void block_sell(i64 rows, int shift, int height, int br, int bc, const In<i64> &starts, const In<i32> &bases, const In<u16> &offsets,
                       const In<S> &values, const In<i32> &order, const In<T> &x, const Epilogue &f) {
    const i64 place = global_index() >> shift;
    const int r = static_cast<int>(place & ((1 << height) - 1));
    const int row = static_cast<int>((place >> height) % br);
    const i64 chunk = (place >> height) / br;
    const i64 block_row = (chunk << height) + r;
    f64 share = 0.0;
    if (block_row < rows) {
        const i64 start = starts[chunk];
        const int count = static_cast<int>(starts[chunk + 1] - start);
        const In<i32> own_bases = bases.from(start);
        const In<u16> own_offsets = offsets.from(start << height);
        const In<S> own_values = values.from((start * br * bc) << height);
        T sum = 0;
        for (int k = 0; k < count; ++k) {
            const i64 column = static_cast<i64>(own_bases[k] + static_cast<i32>(own_offsets[(k << height) + r])) * bc;
            const i64 first = (static_cast<i64>(k) * br + row) * bc;
            sum += row_sum<T>(
                0, 1, bc, shift, x, [&](int c) { return column + c; },
                [&](int c) { return As<T>::of(own_values[((first + c) << height) + r]); });
        }
        share = apply_to_row(f, shift, (order.len > 0 ? order[block_row] : block_row) * br + row, sum);
    }
    store_epilogue_sums(f, shift, share);
}

// A row for 32 lanes: some vectors, and as many entries at a time as there are lanes for. `sum` gets the first entry of a lane and their distance,
// and returns the sum of the lane.
template <class T, class Sum> DEVICE void rows_of_lanes(i64 rows, int shift, const Epilogue &f, const Sum &sum_of) {
    const i64 row = global_index() / 32;
    const int lane = thread_index() % 32;
    T sum = 0;
    if (row < rows) {
        sum = sum_of(row, lane >> shift, 32 >> shift);
    }
    for (int mask = 16; mask >= 1 << shift; mask /= 2) {
        sum += shuffle_xor(sum, mask);
    }
    f64 share = 0.0;
    if (row < rows && lane < 1 << shift) {
        share = apply_to_row(f, shift, row, sum);
    }
    store_epilogue_sums(f, shift, share);
}

// CSR. Columns have 32 bits, or 16 as offsets from the base of their row.
template <class S, class C, class T>
DEVICE void csr(i64 rows, int shift, const In<i64> &offsets, const In<i32> &bases, const In<C> &columns, const In<S> &values, const In<T> &x,
                const Epilogue &f) {
    rows_of_lanes<T>(rows, shift, f, [&](i64 row, int first, int step) {
        const i64 start = offsets[row];
        const int count = static_cast<int>(offsets[row + 1] - start);
        const In<C> own_columns = columns.from(start);
        const In<S> own_values = values.from(start);
        const i64 base = sizeof(C) == sizeof(u16) ? bases[row] : 0;
        return row_sum<T>(
            first, step, count, shift, x, [&](int k) { return base + static_cast<i32>(own_columns[k]); },
            [&](int k) { return As<T>::of(own_values[k]); });
    });
}

// BSR with blocks of `side` rows and columns; the last ones may exceed the matrix, and are zero there.
template <class S, class T>
DEVICE void bsr(i64 rows, int shift, int side, const In<i64> &offsets, const In<i32> &columns, const In<S> &values, const In<T> &x,
                const Epilogue &f) {
    const i64 cols = x.len >> shift;
    rows_of_lanes<T>(rows, shift, f, [&](i64 row, int first, int step) {
        const i64 start = offsets[row / side];
        const int count = static_cast<int>(offsets[row / side + 1] - start) * side;
        const In<i32> own_columns = columns.from(start);
        const In<S> own_values = values.from(start * side * side);
        const int r = static_cast<int>(row % side);
        return row_sum<T>(
            first, step, count, shift, x,
            [&](int k) {
                const i64 column = static_cast<i64>(own_columns[k / side]) * side + k % side;
                return column < cols ? column : cols - 1;
            },
            [&](int k) { return As<T>::of(own_values[(static_cast<i64>(k / side) * side + r) * side + k % side]); });
    });
}

// A dense matrix, row by row.
template <class S, class T> DEVICE void dense(i64 n, int shift, const In<S> &values, const In<T> &x, const Epilogue &f) {
    rows_of_lanes<T>(n, shift, f, [&](i64 row, int first, int step) {
        const In<S> own = values.from(row * n);
        return row_sum<T>(
            first, step, static_cast<int>(n), shift, x, [](int k) { return k; },
            [&](int k) { return As<T>::of(own[k]); });
    });
}

#define MULTIVECTOR_SELL(S, T, BITS) \
    KERNEL(multivector_sell##BITS##_##S##_##T, i64 rows, i32 shift, i32 height, In<i64> starts, In<i32> bases, In<u##BITS> offsets, \
           In<S> values, In<i32> order, In<T> x, Epilogue f) { \
        sell<S, u##BITS, T>(rows, shift, height, starts, bases, offsets, values, order, x, f); \
    }
#define MULTIVECTOR_PRODUCTS(S, T) \
    MULTIVECTOR_SELL(S, T, 8) \
    MULTIVECTOR_SELL(S, T, 16) \
    KERNEL(multivector_block_sell_##S##_##T, i64 rows, i32 shift, i32 height, i32 br, i32 bc, In<i64> starts, In<i32> bases, In<u16> offsets, \
           In<S> values, In<i32> order, In<T> x, Epilogue f) { \
        block_sell<S, T>(rows, shift, height, br, bc, starts, bases, offsets, values, order, x, f); \
    } \
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

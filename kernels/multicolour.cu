// Multicolour Gauss-Seidel: solves the rows of one colour for their own unknowns, in place, a group of neighbouring lanes for each row. Rows
// of a colour are not coupled, so none reads what another one writes. The rows of the matrix are permuted by colour.
#include "reduce.h"

// Most rows of a block.
constexpr int MAX_BLOCK = 8;

// The unknowns of a block row: with the inverse of the diagonal block where `whole`, or else, with that of the diagonal, by one sweep inside
// the block. `rest` is b less the products with other unknowns, `own` the diagonal block.
template <int N, class S, class A>
DEVICE void solve_block(int n, int whole, int backward, int format, const In<S> &own, const In<S> &inverse, A *rest, A *x) {
    if (whole) {
        for (int r = 0; r < n; ++r) {
            for (int c = 0; c < n; ++c) {
                rest[r] -= As<A>::of(own[r * n + c]) * x[c];
            }
        }
        for (int r = 0; r < n; ++r) {
            A step = 0;
            for (int c = 0; c < n; ++c) {
                step += As<A>::of(inverse[r * n + c]) * rest[c];
            }
            x[r] += step;
        }
        return;
    }
    for (int k = 0; k < n; ++k) {
        const int r = backward ? n - 1 - k : k;
        for (int c = 0; c < n; ++c) {
            rest[r] -= As<A>::of(own[r * n + c]) * x[c];
        }
        x[r] = rounded(format, x[r] + As<A>::of(inverse[r]) * rest[r]);
    }
}

// Rows `first` to `first + count` of those in the order of the colours, of blocks of n rows and columns, at most N; x has the given format.
template <int N, class S, class A>
DEVICE void multicolour(i64 first, i64 count, int lanes, int n, int whole, int backward, const In<i32> &rows,
                        const In<i64> &offsets, const In<i32> &columns, const In<S> &values, const In<S> &inverse,
                        int format, const Any &b, const Any &x) {
    const i64 group = global_index() / lanes;
    const int lane = thread_index() & (lanes - 1);
    const i64 position = first + group;
    A product[N] = {};
    i64 own = -1;
    i64 row = 0;
    if (group < count) {
        row = rows[position];
        const i64 end = offsets[position + 1];
        for (i64 k = offsets[position] + lane; k < end; k += lanes) {
            const i64 column = columns.once(k);
            if (column == row) {
                own = k;
                continue;
            }
            UNROLL
            for (int c = 0; c < N; ++c) {
                if (c < n) {
                    const A other = load<A>(x, format, column * n + c);
                    UNROLL
                    for (int r = 0; r < N; ++r) {
                        if (r < n) {
                            product[r] += As<A>::of(values[(k * n + r) * n + c]) * other;
                        }
                    }
                }
            }
        }
    }
    for (int mask = lanes / 2; mask > 0; mask /= 2) {
        UNROLL
        for (int r = 0; r < N; ++r) {
            product[r] += shuffle_xor(product[r], mask);
        }
        const i64 other = shuffle_xor(own, mask);
        own = other > own ? other : own;
    }
    // Without a diagonal block there is no inverse either.
    if (group < count && lane == 0 && own >= 0) {
        A rest[N];
        A unknown[N];
        UNROLL
        for (int r = 0; r < N; ++r) {
            if (r < n) {
                rest[r] = load<A>(b, format, row * n + r) - product[r];
                unknown[r] = load<A>(x, format, row * n + r);
            }
        }
        const In<S> own_inverse = inverse.from(position * n * (whole ? n : 1));
        solve_block<N>(n, whole, backward, format, values.from(own * n * n), own_inverse, rest, unknown);
        UNROLL
        for (int r = 0; r < N; ++r) {
            if (r < n) {
                store(x, format, row * n + r, unknown[r]);
            }
        }
    }
}

#define MULTICOLOUR(S, A) \
    KERNEL(multicolour_##S##_##A, i64 first, i64 count, i32 lanes, i32 backward, In<i32> rows, In<i64> offsets, \
           In<i32> columns, In<S> values, In<S> inverse, i32 format, Any b, Any x) { \
        multicolour<1, S, A>(first, count, lanes, 1, 0, backward, rows, offsets, columns, values, inverse, format, b, x); \
    } \
    KERNEL(multicolour_blocks_##S##_##A, i64 first, i64 count, i32 lanes, i32 backward, In<i32> rows, \
           In<i64> offsets, In<i32> columns, In<S> values, In<S> inverse, i32 format, Any b, Any x, i32 n, i32 whole) { \
        multicolour<MAX_BLOCK, S, A>(first, count, lanes, n, whole, backward, rows, offsets, columns, values, inverse, \
                                     format, b, x); \
    }
FOR_STORAGE(MULTICOLOUR, f64) FOR_STORAGE(MULTICOLOUR, f32)

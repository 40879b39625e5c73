// The inverse of the coarsest matrix: as in src/host/dense.rs, with its bits. One block of threads factors a panel:
// it finds some pivots, with their rows and columns as they are when each is eliminated. Then all elements of the matrix are
// updated.
#include "numbers.h"

// Elements of a thread, which are a block of threads apart.
constexpr int DENSE_ELEMENTS = 4;

// Status: whether the matrix is not symmetric positive semidefinite, the ordered bits of its largest entry, and the
// number of pivots of the last panel.
constexpr int DENSE_FAILED = 0;
constexpr int DENSE_LARGEST = 1;
constexpr int DENSE_FOUND = 2;

// Largest number of pivots of a panel; the same as in `src/gpu/setup/dense.rs`.
constexpr int PANEL = 16;

constexpr i64 NOT_A_NUMBER = 0x7ff8000000000000ll;

DEVICE void put_format(const Any &out, int format, i64 i, f64 v) {
    if (format == F64) {
        out.out<f64>()[i] = v;
    } else {
        store(out, format, i, to_f32(v));
    }
}

// A sparse matrix of br x bc blocks as a dense one of n rows, which was zero: a thread for each scalar row.
template <class T>
DEVICE void dense_fill(i64 n, int br, int bc, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                       const Out<f64> &a, const Out<u64> &status) {
    const i64 i = global_index();
    f64 largest = 0.0;
    if (i < n) {
        const i64 row = i / br;
        const int r = static_cast<int>(i % br);
        for (i64 k = offsets[row]; k < offsets[row + 1]; ++k) {
            for (int c = 0; c < bc; ++c) {
                f64 &to = a[i * n + static_cast<i64>(columns[k]) * bc + c];
                to += to_f64(values[(k * br + r) * bc + c]);
                largest = magnitude(to) > largest ? magnitude(to) : largest;
            }
        }
    }
    const u64 bits = group_max<WARP>(ordered(largest));
    if (Group<WARP>::rank() == 0) {
        atomic_max(status[DENSE_LARGEST], bits);
    }
}

#define DENSE_FILL(T) \
    KERNEL(dense_fill_##T, i64 n, i32 br, i32 bc, In<i64> offsets, In<i32> columns, In<T> values, Out<f64> a, Out<u64> status) { \
        dense_fill<T>(n, br, bc, offsets, columns, values, a, status); \
    }
FOR_SETUP(DENSE_FILL)

// The symmetric part of a matrix, its diagonal and the diagonal that is left to sweep; a matrix that is not symmetric
// fails.
KERNEL(dense_symmetric, i64 n, In<f64> a, Out<f64> m, Out<f64> diagonal, Out<f64> left, Out<u64> status) {
    const f64 largest = f64_of(static_cast<i64>(status[DENSE_LARGEST]));
    UNROLL
    for (int e = 0; e < DENSE_ELEMENTS; ++e) {
        const i64 at = (block_index() * DENSE_ELEMENTS + e) * BLOCK + thread_index();
        if (at < n * n) {
            const i64 i = at / n;
            const i64 j = at % n;
            const f64 v = a[at];
            const f64 w = a[j * n + i];
            m[at] = 0.5 * (v + w);
            if (i == j) {
                diagonal[i] = v;
                left[i] = v;
            }
            if (magnitude(v - w) > 1e-10 * largest) {
                status[DENSE_FAILED] = 1;
            }
        }
    }
}

// The position of the largest key of all threads, of equal ones the first or the last; -1 if all keys are zero.
// Threads visit positions in ascending order.
struct Best {
    u64 key;
    i64 position;
};
template <bool LAST> DEVICE bool comes_before(const Best &a, const Best &b) {
    return a.key > b.key || (a.key == b.key && a.key != 0 && (LAST ? a.position > b.position : a.position < b.position));
}
template <bool LAST> DEVICE Best block_best(Best own) {
    constexpr int WARPS = BLOCK / WARP;
    SHARED(u64, keys, WARPS);
    SHARED(i64, positions, WARPS);
    UNROLL
    for (int step = WARP / 2; step > 0; step /= 2) {
        const int from = Group<WARP>::rank() ^ step;
        const Best other{Group<WARP>::shuffle(own.key, from), Group<WARP>::shuffle(own.position, from)};
        own = comes_before<LAST>(other, own) ? other : own;
    }
    if (Group<WARP>::rank() == 0) {
        keys[thread_index() / WARP] = own.key;
        positions[thread_index() / WARP] = own.position;
    }
    barrier();
    UNROLL
    for (int w = 0; w < WARPS; ++w) {
        const Best other{keys[w], positions[w]};
        own = comes_before<LAST>(other, own) ? other : own;
    }
    return own;
}

// The next pivot: the one with the largest ratio to its original diagonal entry, of those above `tiny`, or none.
DEVICE i64 next_pivot(i64 n, f64 tiny, const In<f64> &diagonal, const Out<f64> &left) {
    Best own{0, -1};
    for (i64 k = thread_index(); k < n; k += BLOCK) {
        const f64 pivot = left[k];
        const f64 size = magnitude(diagonal[k]);
        if (pivot > times(tiny, size)) {
            const Best next{ordered(pivot / size), k};
            own = comes_before<false>(next, own) ? next : own;
        }
    }
    return block_best<false>(own).position;
}

// A panel of the sweep operator: positions and values of pivots, their rows, and their columns over the pivot, each
// as it is when the pivot is eliminated. `left` is the diagonal of what is not swept, and NaN for what is.
KERNEL(dense_panel, i64 n, f64 tiny, In<f64> diagonal, In<f64> m, Out<f64> left, Out<i64> pivot_rows, Out<f64> pivots, Out<f64> rows,
       Out<f64> factors, Out<u64> status) {
    int found = 0;
    for (; found < PANEL && status[DENSE_FAILED] == 0; ++found) {
        const i64 k = next_pivot(n, tiny, diagonal, left);
        if (k < 0) {
            break;
        }
        const f64 pivot = left[k];
        barrier(); // what is left changes
        for (i64 j = thread_index(); j < n; j += BLOCK) {
            f64 row = m[k * n + j];
            f64 column = m[j * n + k];
            for (int s = 0; s < found; ++s) {
                const f64 of_row = factors[s * n + k];
                row = j == pivot_rows[s] ? of_row : row - times(of_row, rows[s * n + j]);
                column = j == pivot_rows[s] ? column / pivots[s] : column - times(factors[s * n + j], rows[s * n + k]);
            }
            const f64 factor = column / pivot;
            rows[found * n + j] = row;
            factors[found * n + j] = factor;
            left[j] = j == k ? f64_of(NOT_A_NUMBER) : left[j] - times(factor, row);
        }
        if (thread_index() == 0) {
            pivot_rows[found] = k;
            pivots[found] = pivot;
        }
        barrier();
    }
    if (thread_index() == 0) {
        status[DENSE_FOUND] = static_cast<u64>(found);
    }
}

// The same for at most as many rows as threads: each thread keeps its elements of the earlier rows and columns, and
// the thread of a pivot broadcasts its own.
KERNEL(dense_panel_small, i64 n, f64 tiny, In<f64> diagonal, In<f64> m, Out<f64> left, Out<i64> pivot_rows, Out<f64> pivots, Out<f64> rows,
       Out<f64> factors, Out<u64> status) {
    SHARED(f64, of_row, PANEL);
    SHARED(f64, of_column, PANEL);
    SHARED(i64, taken, PANEL);
    SHARED(f64, taken_pivots, PANEL);
    SHARED(f64, next, 1);
    const i64 j = thread_index();
    const bool is_row = j < n;
    const f64 size = is_row ? magnitude(diagonal[j]) : 0.0;
    f64 own_left = is_row ? left[j] : 0.0;
    f64 own_rows[PANEL] = {}, own_factors[PANEL] = {};
    int found = 0;
    const bool has_failed = status[DENSE_FAILED] != 0;
    for (; found < PANEL && !has_failed; ++found) {
        const bool is_one = is_row && own_left > times(tiny, size);
        const i64 k = block_best<false>(is_one ? Best{ordered(own_left / size), j} : Best{0, -1}).position;
        if (k < 0) {
            break;
        }
        const f64 row_before = is_row ? m[k * n + j] : 0.0, column_before = is_row ? m[j * n + k] : 0.0;
        if (j == k) {
            UNROLL
            for (int s = 0; s < PANEL; ++s) {
                of_row[s] = own_factors[s];
                of_column[s] = own_rows[s];
            }
            next[0] = own_left;
        }
        barrier();
        const f64 pivot = next[0];
        f64 row = row_before, column = column_before;
        UNROLL
        for (int s = 0; s < PANEL; ++s) {
            if (s < found) {
                const bool is_taken = j == taken[s];
                row = is_taken ? of_row[s] : row - times(of_row[s], own_rows[s]);
                column = is_taken ? column / taken_pivots[s] : column - times(own_factors[s], of_column[s]);
            }
        }
        const f64 factor = column / pivot;
        UNROLL
        for (int s = 0; s < PANEL; ++s) {
            own_rows[s] = s == found ? row : own_rows[s];
            own_factors[s] = s == found ? factor : own_factors[s];
        }
        own_left = j == k ? f64_of(NOT_A_NUMBER) : own_left - times(factor, row);
        if (is_row) {
            rows[found * n + j] = row;
            factors[found * n + j] = factor;
        }
        if (j == 0) {
            taken[found] = k;
            taken_pivots[found] = pivot;
            pivot_rows[found] = k;
            pivots[found] = pivot;
        }
        barrier();
    }
    if (is_row) {
        left[j] = own_left;
    }
    if (j == 0) {
        status[DENSE_FOUND] = static_cast<u64>(found);
    }
}

// Updates all elements with the steps of a panel, a thread for each.
KERNEL(dense_sweep, i64 n, In<i64> pivot_rows, In<f64> pivots, In<f64> rows, In<f64> factors, Out<f64> m, In<u64> status) {
    const int found = static_cast<int>(status[DENSE_FOUND]);
    const i64 at = global_index();
    if (at >= n * n || found == 0) {
        return;
    }
    const i64 i = at / n;
    const i64 j = at % n;
    f64 factor[PANEL], row[PANEL];
    UNROLL
    for (int s = 0; s < PANEL; ++s) {
        factor[s] = s < found ? factors[s * n + i] : 0.0;
        row[s] = s < found ? rows[s * n + j] : 0.0;
    }
    f64 v = m[at];
    UNROLL
    for (int s = 0; s < PANEL; ++s) {
        if (s < found) {
            const i64 k = pivot_rows[s];
            if (i == k) {
                v = j == k ? -1.0 / pivots[s] : v / pivots[s];
            } else {
                v = j == k ? factor[s] : v - times(factor[s], row[s]);
            }
        }
    }
    m[at] = v;
}

// The result of the sweep, without the part that was not swept. A negative pivot fails.
KERNEL(dense_swept, i64 n, f64 tiny, In<f64> diagonal, In<f64> m, In<f64> left, i32 format, Any out, Out<u64> status) {
    UNROLL
    for (int e = 0; e < DENSE_ELEMENTS; ++e) {
        const i64 at = (block_index() * DENSE_ELEMENTS + e) * BLOCK + thread_index();
        if (at < n * n) {
            const i64 i = at / n;
            const i64 j = at % n;
            const f64 own = left[i];
            const f64 other = left[j];
            if (i == j && own < -times(tiny, magnitude(diagonal[i]))) {
                status[DENSE_FAILED] = 1;
            }
            put_format(out, format, at, own != own && other != other ? -m[at] : 0.0);
        }
    }
}

// One step of Gauss-Jordan elimination with row pivoting, from one pair of arrays to another. Without a pivot above
// `share` of the largest entry, the row of the inverse becomes zero.
KERNEL(dense_eliminate, i64 n, i64 k, f64 share, In<f64> a, In<f64> inverse, Out<f64> a_to, Out<f64> inverse_to, In<u64> status) {
    Best own{0, -1};
    for (i64 i = k + thread_index(); i < n; i += BLOCK) {
        const Best next{ordered(magnitude(a[i * n + k])), i};
        own = comes_before<true>(next, own) ? next : own;
    }
    own = block_best<true>(own);
    const i64 best = own.position < 0 ? k : own.position;
    const f64 pivot = a[best * n + k];
    const bool usable = !(magnitude(pivot) <= times(share, f64_of(static_cast<i64>(status[DENSE_LARGEST]))));
    UNROLL
    for (int e = 0; e < DENSE_ELEMENTS; ++e) {
        const i64 at = (block_index() * DENSE_ELEMENTS + e) * BLOCK + thread_index();
        if (at < n * n) {
            const i64 i = at / n;
            const i64 j = at % n;
            if (!usable) {
                a_to[at] = a[at];
                inverse_to[at] = i == k ? 0.0 : inverse[at];
                continue;
            }
            // Swaps rows k and `best`.
            const i64 from = i == k ? best : i == best ? k : i;
            const f64 row = a[best * n + j] / pivot;
            const f64 inverse_row = inverse[best * n + j] / pivot;
            const f64 factor = a[from * n + k];
            if (i == k) {
                a_to[at] = row;
                inverse_to[at] = inverse_row;
            } else if (factor != 0.0) {
                a_to[at] = a[from * n + j] - times(factor, row);
                inverse_to[at] = inverse[from * n + j] - times(factor, inverse_row);
            } else {
                a_to[at] = a[from * n + j];
                inverse_to[at] = inverse[from * n + j];
            }
        }
    }
}

KERNEL(dense_identity, i64 n, Out<f64> a) {
    const i64 i = global_index();
    if (i < n) {
        a[i * n + i] = 1.0;
    }
}

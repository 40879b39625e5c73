// Numeric phase of smoothed prolongators of blocks; see smoothed.h. Products are added in the order of A's row, with the
// bits of src/host/smoothed.rs.
#include "smoothed.h"

// Values of blocks of A and P_0 that 32 lanes stage in shared memory at a time: those of 27 neighbours with three
// unknowns and six modes.
constexpr int STAGED_VALUES = 736;

// Writes block `block` of P, given the elements of a lane of the same block of A P_0: those in rows r and columns col.
template <int ELEMENTS, class T>
DEVICE void smooth_block(i64 row, i64 block, bool is_own, int n, int c, const int (&r)[ELEMENTS], const int (&col)[ELEMENTS],
                         const T (&sums)[ELEMENTS], const Smoothing<T> &p, const Out<T> &to_values) {
    using Lanes = Group<32>;
    const int rank = Lanes::rank();
    const int width = n * c;
    T products[ELEMENTS];
    UNROLL
    for (int u = 0; u < ELEMENTS; ++u) {
        products[u] = 0;
    }
    for (int d = 0; d < n; ++d) {
        UNROLL
        for (int u = 0; u < ELEMENTS; ++u) {
            const int from = d * c + col[u];
            T factor = Lanes::shuffle(sums[0], from & 31);
            if constexpr (ELEMENTS > 1) {
                const T high = Lanes::shuffle(sums[1], from & 31);
                factor = from < 32 ? factor : high;
            }
            const T d_inverse = rank + 32 * u < width ? p.inverse[(row * n + r[u]) * n + d] : T(0);
            products[u] += times(d_inverse, factor);
        }
    }
    UNROLL
    for (int u = 0; u < ELEMENTS; ++u) {
        const int e = rank + 32 * u;
        if (e < width) {
            const T v = n == 1 ? times(sums[u], times(p.factor, p.inverse[row])) : times(p.factor, products[u]);
            to_values[block * width + e] = is_own ? v + p.tentative[p.entry(row) * width + e] : v;
        }
    }
}

// Stages `count` blocks of A, from `base` on, and those of P_0 in the entries of the lanes.
template <class T, class Stage>
DEVICE void stage_blocks(i64 base, int count, int square, int width, i64 entry, const In<T> &values, const Smoothing<T> &p, Stage &stage, int of_a,
                         int of_p) {
    using Lanes = Group<32>;
    const int rank = Lanes::rank();
    for (int e = rank; e < count * square; e += 32) {
        stage[of_a + e] = values.once(base * square + e);
    }
    for (int start = 0; start < count * width; start += 32) {
        const int e = start + rank;
        const int which = e / width;
        const i64 from = Lanes::shuffle(entry, which < 32 ? which : 0) * width;
        if (e < count * width && p.tentative.len > 0) {
            stage[of_p + e] = p.tentative[from + (e - which * width)];
        }
    }
    Lanes::barrier();
}

// P of n x c blocks with known columns, for A of n x n blocks; ROWS and COLS are n and c if they are known at compile
// time. 32 lanes for a row of any length. A lane has the same elements of all blocks of a row, so it reads only what
// it has written.
template <class T, int ROWS, int COLS>
DEVICE void smoothed_blocks(i64 rows, int rows_of_block, int cols_of_block, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                            const Smoothing<T> &p, const In<i64> &to_offsets, const In<i32> &to_columns, const Out<T> &to_values) {
    using Lanes = Group<32>;
    // Elements of a block per lane; blocks have at most 64.
    constexpr int ELEMENTS_PER_LANE = ROWS > 0 ? (ROWS * COLS + 31) / 32 : 2;
    const int n = ROWS > 0 ? ROWS : rows_of_block;
    const int c = COLS > 0 ? COLS : cols_of_block;
    SHARED(T, stage, BLOCK / 32 * STAGED_VALUES);
    const i64 row = global_index() / 32;
    if (row >= rows) {
        return;
    }
    const int rank = Lanes::rank();
    const int square = n * n;
    const int width = n * c;
    const int capacity = STAGED_VALUES / (square + width) < 32 ? STAGED_VALUES / (square + width) : 32;
    const int of_a = thread_index() / 32 * STAGED_VALUES;
    const int of_p = of_a + capacity * square;
    const i64 begin = offsets[row];
    const i64 end = offsets[row + 1];
    const i64 to = to_offsets[row];
    const i64 to_end = to_offsets[row + 1];
    const i32 own = p.aggregates[row];
    const i32 first_columns = to + rank < to_end ? to_columns[to + rank] : OUTSIDE;
    int r[ELEMENTS_PER_LANE];
    int col[ELEMENTS_PER_LANE];
    UNROLL
    for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
        r[u] = (rank + 32 * u) / c;
        col[u] = (rank + 32 * u) % c;
    }
    const bool at_once = end - begin <= capacity;
    for (i64 e = to * width + rank; !at_once && e < to_end * width; e += 32) {
        to_values[e] = T(0);
    }
    Lanes::barrier();
    for (i64 base = begin; base < end; base += capacity) {
        const int count = end - base < capacity ? static_cast<int>(end - base) : capacity;
        const i64 node = rank < count ? columns[base + rank] : 0;
        const i32 g = rank < count ? p.aggregates[node] : OUTSIDE;
        const i64 entry = g != OUTSIDE ? p.entry(node) : 0;
        stage_blocks(base, count, square, width, entry, values, p, stage, of_a, of_p);
        for (u64 left = Lanes::ballot(g != OUTSIDE); left != 0;) {
            const i32 aggregate = Lanes::shuffle(g, lowest_bit(left));
            const u64 members = Lanes::ballot(g == aggregate);
            left &= ~members;
            const u64 near = Lanes::ballot(first_columns == aggregate);
            i64 block = near != 0 ? to + lowest_bit(near) : -1;
            for (i64 b = to + 32; block < 0; b += 32) {
                const u64 hit = Lanes::ballot(b + rank < to_end && to_columns[b + rank] == aggregate);
                block = hit != 0 ? b + lowest_bit(hit) : -1;
            }
            T sums[ELEMENTS_PER_LANE];
            UNROLL
            for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                const int e = rank + 32 * u;
                sums[u] = at_once || e >= width ? T(0) : to_values[block * width + e];
            }
            for (u64 m = members; m != 0; m &= m - 1) {
                const int which = lowest_bit(m);
                UNROLL
                for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                    if (rank + 32 * u < width) {
                        for (int d = 0; d < n; ++d) {
                            sums[u] += times(stage[of_a + which * square + r[u] * n + d],
                                             stage[of_p + which * width + d * c + col[u]]);
                        }
                    }
                }
            }
            if (at_once) {
                smooth_block(row, block, aggregate == own, n, c, r, col, sums, p, to_values);
            } else {
                UNROLL
                for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
                    if (rank + 32 * u < width) {
                        to_values[block * width + rank + 32 * u] = sums[u];
                    }
                }
            }
        }
        Lanes::barrier();
    }
    for (i64 block = to; !at_once && block < to_end; ++block) {
        T sums[ELEMENTS_PER_LANE];
        UNROLL
        for (int u = 0; u < ELEMENTS_PER_LANE; ++u) {
            sums[u] = rank + 32 * u < width ? to_values[block * width + rank + 32 * u] : T(0);
        }
        smooth_block(row, block, to_columns[block] == own, n, c, r, col, sums, p, to_values);
    }
}

#define SMOOTHED_BLOCKS(T, name, ROWS, COLS) \
    KERNEL_OF(ROWS > 0 ? 3 : 2, smoothed_blocks_##T##_##name, i64 rows, i32 n, i32 c, In<i64> offsets, In<i32> columns, In<T> values, \
              In<i32> aggregates, In<i64> entries, In<T> tentative, In<T> inverse, f64 factor, In<i64> to_offsets, \
              In<i32> to_columns, Out<T> to_values) { \
        const Smoothing<T> p{aggregates, entries, tentative, inverse, As<T>::of(factor)}; \
        smoothed_blocks<T, ROWS, COLS>(rows, n, c, offsets, columns, values, p, to_offsets, to_columns, to_values); \
    }
#define SMOOTHED_BLOCKS_(T) \
    SMOOTHED_BLOCKS(T, any, 0, 0) SMOOTHED_BLOCKS(T, 3x6, 3, 6) SMOOTHED_BLOCKS(T, 6x6, 6, 6)
FOR_SETUP(SMOOTHED_BLOCKS_)

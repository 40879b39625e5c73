// Sorts unsorted rows by column and compacts them.
#include "spgemm.h"

// Columns that are read at once, and columns that a lane ranks at once.
using Four = Pack<i32, 4>;
constexpr int COLUMNS_PER_LANE = 4;

// Rows from begins[row] to ends[row]. With `fill` a zero on the diagonal becomes a one. A row of more than
// MAX_COLUMNS columns goes to the list `overflow`, whose first element is its length.
template <int N, int MAX_COLUMNS, bool VALUES, class T>
DEVICE void spgemm_sort(const Rows &rows, const In<i64> &begins, const In<i64> &ends, const In<i32> &columns, const In<T> &values,
                        const In<i64> &to, const Out<i32> &to_columns, const Out<T> &to_values, bool fill, const Out<i32> &overflow) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(Four, staged, TEAMS *MAX_COLUMNS / 4);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * (MAX_COLUMNS / 4);
    const i64 count = rows.count();
    for (i64 group = block_index() * TEAMS; group < count; group += block_count() * TEAMS) {
        const i64 team = group + thread_index() / N;
        const i64 row = team < count ? rows[team] : 0;
        const i64 from = begins[row];
        const i64 length = ends[row] - from;
        const bool is_row = team < count && length <= MAX_COLUMNS;
        if (team < count && !is_row && lane == 0) {
            overflow[1 + atomic_add(overflow[0], 1)] = static_cast<i32>(row);
        }
        const int n = is_row ? static_cast<int>(length) : 0;
        const int padded = (n + 3) / 4;
        for (int e = lane; e < padded * 4; e += N) {
            staged[first + e / 4].of[e % 4] = e < n ? columns[from + e] : 0x7fffffff;
        }
        Team<N>::barrier();
        const i64 start = to[row];
        // The rank of a column is the number of smaller columns.
        for (int e = lane; e < n; e += COLUMNS_PER_LANE * N) {
            i32 mine[COLUMNS_PER_LANE];
            int rank[COLUMNS_PER_LANE];
            UNROLL
            for (int m = 0; m < COLUMNS_PER_LANE; ++m) {
                const int at = e + m * N;
                mine[m] = at < n ? staged[first + at / 4].of[at % 4] : 0;
                rank[m] = 0;
            }
            for (int b = 0; b < padded; ++b) {
                const Four other = staged[first + b];
                UNROLL
                for (int m = 0; m < COLUMNS_PER_LANE; ++m) {
                    UNROLL
                    for (int i = 0; i < 4; ++i) {
                        rank[m] += other.of[i] < mine[m] ? 1 : 0;
                    }
                }
            }
            UNROLL
            for (int m = 0; m < COLUMNS_PER_LANE; ++m) {
                const int at = e + m * N;
                if (at < n) {
                    to_columns[start + rank[m]] = mine[m];
                    if constexpr (VALUES) {
                        const T value = values[from + at];
                        to_values[start + rank[m]] = fill && mine[m] == row && value == T(0) ? T(1) : value;
                    }
                }
            }
        }
        Team<N>::barrier();
    }
}

#define SPGEMM_SORT(N, MAX_COLUMNS, NAME, VALUES, T) \
    KERNEL(spgemm_sort_##NAME##_##N, i64 n, In<i32> rows, In<i64> begins, In<i64> ends, In<i32> columns, In<T> values, In<i64> to, \
           Out<i32> to_columns, Out<T> to_values, i32 fill, Out<i32> overflow) { \
        spgemm_sort<N, MAX_COLUMNS, VALUES, T>(Rows{n, rows}, begins, ends, columns, values, to, to_columns, to_values, fill != 0, overflow); \
    }
#define SPGEMM_SORTS(NAME, VALUES, T) \
    SPGEMM_SORT(8, 64, NAME, VALUES, T) SPGEMM_SORT(32, 512, NAME, VALUES, T) SPGEMM_SORT(256, 4096, NAME, VALUES, T)
SPGEMM_SORTS(f64, true, f64)
SPGEMM_SORTS(f32, true, f32)
// Kernels without values use no value type; f32 stands in for it.
SPGEMM_SORTS(pattern, false, f32)

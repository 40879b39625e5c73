// Puts rows that lie somewhere, their columns in no order, into their places, by columns.
#include "spgemm.h"

// Columns that are read at once, and that a lane finds places for at once.
using Four = Pack<i32, 4>;
constexpr int MINE = 4;

// Rows that begin and end there. With `fill` a zero on the diagonal becomes a one. Rows of more than MOST columns go to `more`, behind their number.
template <int N, int MOST, bool VALUES, class T>
DEVICE void spgemm_sort(const Rows &rows, const In<i64> &begins, const In<i64> &ends, const In<i32> &columns, const In<T> &values,
                        const In<i64> &to, const Out<i32> &to_columns, const Out<T> &to_values, bool fill, const Out<i32> &more) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(Four, staged, TEAMS *MOST / 4);
    const int lane = Team<N>::rank();
    const int first = thread_index() / N * (MOST / 4);
    const i64 count = rows.count();
    for (i64 group = block_index() * TEAMS; group < count; group += block_count() * TEAMS) {
        const i64 team = group + thread_index() / N;
        const i64 row = team < count ? rows[team] : 0;
        const i64 from = begins[row];
        const i64 length = ends[row] - from;
        const bool is_row = team < count && length <= MOST;
        if (team < count && !is_row && lane == 0) {
            more[1 + atomic_add(more[0], 1)] = static_cast<i32>(row);
        }
        const int n = is_row ? static_cast<int>(length) : 0;
        const int padded = (n + 3) / 4;
        for (int e = lane; e < padded * 4; e += N) {
            staged[first + e / 4].of[e % 4] = e < n ? columns[from + e] : 0x7fffffff;
        }
        Team<N>::barrier();
        const i64 start = to[row];
        // The place of a column is the number of smaller ones.
        for (int e = lane; e < n; e += MINE * N) {
            i32 mine[MINE];
            int place[MINE];
            UNROLL
            for (int m = 0; m < MINE; ++m) {
                const int at = e + m * N;
                mine[m] = at < n ? staged[first + at / 4].of[at % 4] : 0;
                place[m] = 0;
            }
            for (int b = 0; b < padded; ++b) {
                const Four other = staged[first + b];
                UNROLL
                for (int m = 0; m < MINE; ++m) {
                    UNROLL
                    for (int i = 0; i < 4; ++i) {
                        place[m] += other.of[i] < mine[m] ? 1 : 0;
                    }
                }
            }
            UNROLL
            for (int m = 0; m < MINE; ++m) {
                const int at = e + m * N;
                if (at < n) {
                    to_columns[start + place[m]] = mine[m];
                    if constexpr (VALUES) {
                        const T value = values[from + at];
                        to_values[start + place[m]] = fill && mine[m] == row && value == T(0) ? T(1) : value;
                    }
                }
            }
        }
        Team<N>::barrier();
    }
}

#define SPGEMM_SORT(N, MOST, NAME, VALUES, T) \
    KERNEL(spgemm_sort_##NAME##_##N, i64 n, In<i32> rows, In<i64> begins, In<i64> ends, In<i32> columns, In<T> values, In<i64> to, \
           Out<i32> to_columns, Out<T> to_values, i32 fill, Out<i32> more) { \
        spgemm_sort<N, MOST, VALUES, T>(Rows{n, rows}, begins, ends, columns, values, to, to_columns, to_values, fill != 0, more); \
    }
#define SPGEMM_SORTS(NAME, VALUES, T) \
    SPGEMM_SORT(8, 64, NAME, VALUES, T) SPGEMM_SORT(32, 512, NAME, VALUES, T) SPGEMM_SORT(256, 4096, NAME, VALUES, T)
SPGEMM_SORTS(f64, true, f64)
SPGEMM_SORTS(f32, true, f32)
// The type of values that are not there is of no account.
SPGEMM_SORTS(pattern, false, f32)

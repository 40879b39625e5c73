// FSAI of blocks on given patterns; see src/host/fsai.rs. 32 lanes compute a block row, and go on with a later one.
#include "fsai_blocks.h"
#include "fsai_place.h"

// Values on a pattern whose block rows have at most `capacity` blocks beside the diagonal, their last.
template <class T, int N, bool TOLD>
DEVICE void fsai_block_values(i64 rows, int groups, int n, int capacity, f64 smallest, const In<i64> &offsets, const In<i32> &columns,
                              const In<T> &values, const In<T> &diagonals, const In<i64> &pattern_offsets,
                              const In<i32> &pattern_columns, const Out<T> &work, const Out<T> &to, const Out<i32> &breakdowns) {
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const int size = n * n;
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        const i64 begin = pattern_offsets[i];
        const int count = static_cast<int>(pattern_offsets[i + 1] - begin) - 1;
        FsaiBlockSystem<T, N, TOLD, Out<T>> system{work, group * fsai_block_system_size(capacity * n, n), diagonals, n, capacity * n,
                                             As<T>::of(smallest), i};
        const bool is_positive = system.begin();
        bool is_definite = is_positive;
        if (is_definite) {
            // y is A_JI until its rows are computed.
            ROLLED
            for (int at = Lanes::rank(); at < count * size; at += FSAI_LANES) {
                system.y(at / n, at % n) = 0;
            }
            Lanes::barrier();
            ROLLED
            for (i64 e = offsets[i] + Lanes::rank(); e < offsets[i + 1]; e += FSAI_LANES) {
                const int t = columns[e] < i ? fsai_place(columns[e], begin, count, pattern_columns) : -1;
                ROLLED
                for (int at = 0; t >= 0 && at < size; ++at) {
                    system.y(t * n + at % n, at / n) = values[e * size + at];
                }
            }
            Lanes::barrier();
        }
        ROLLED
        for (int t = 0; is_definite && t < count; ++t) {
            const i32 k = pattern_columns[begin + t];
            const int m = t * n;
            ROLLED
            for (int at = Lanes::rank(); at < m * n; at += FSAI_LANES) {
                system.l(m + at / m, at % m) = 0;
            }
            Lanes::barrier();
            ROLLED
            for (i64 e = offsets[k] + Lanes::rank(); e < offsets[k + 1]; e += FSAI_LANES) {
                const int before = columns[e] < k ? fsai_place(columns[e], begin, t, pattern_columns) : -1;
                ROLLED
                for (int at = 0; before >= 0 && at < size; ++at) {
                    system.l(m + at / n, before * n + at % n) = values[e * size + at];
                }
            }
            is_definite = system.append(k);
        }
        if (is_definite) {
            system.solve();
        } else {
            if (Lanes::rank() == 0) {
                atomic_add(breakdowns[0], n);
            }
            ROLLED
            for (int at = Lanes::rank(); at < count * size; at += FSAI_LANES) {
                to[begin * size + at] = 0;
            }
            system.begin();
        }
        // Without a definite system the diagonal block alone is left.
        const i64 last = (begin + count) * size;
        if (!is_positive) {
            system.write_diagonal(to, last);
        } else {
            ROLLED
            for (int at = Lanes::rank(); at < (system.count + 1) * n; at += FSAI_LANES) {
                const int t = at / n;
                system.write(t, at % n, to, t < system.count ? (begin + t) * size : last);
            }
        }
        Lanes::barrier();
    }
}

#define FSAI_BLOCK_VALUES(name, T, N, TOLD) \
    KERNEL(name##_##T, i64 rows, i32 groups, i32 n, i32 capacity, f64 smallest, In<i64> offsets, In<i32> columns, In<T> values, \
           In<T> diagonals, In<i64> pattern_offsets, In<i32> pattern_columns, Out<T> work, Out<T> to, Out<i32> breakdowns) { \
        fsai_block_values<T, N, TOLD>(rows, groups, n, capacity, smallest, offsets, columns, values, diagonals, pattern_offsets, \
                                pattern_columns, work, to, breakdowns); \
    }
#define FSAI_BLOCK_VALUES_3(T) FSAI_BLOCK_VALUES(fsai_block_values_3, T, 3, false)
#define FSAI_BLOCK_VALUES_ANY(T) FSAI_BLOCK_VALUES(fsai_block_values_any, T, FSAI_MAX_BLOCK, true)
FOR_SETUP(FSAI_BLOCK_VALUES_3)
FOR_SETUP(FSAI_BLOCK_VALUES_ANY)

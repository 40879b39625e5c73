// FSAI on given patterns, and such patterns; see src/host/fsai.rs and src/host/fsai/pattern.rs. 32 lanes compute a row, and go on
// with a later one.
#include "fsai_place.h"
#include "fsai_system.h"

// Values on a pattern whose rows have at most `capacity` entries beside the diagonal, their last.
template <class T>
DEVICE void fsai_values(i64 rows, int groups, int capacity, f64 smallest, const In<i64> &offsets, const In<i32> &columns,
                        const In<T> &values, const In<f64> &diagonals, const In<i64> &pattern_offsets,
                        const In<i32> &pattern_columns, const Out<T> &work, const Out<T> &couplings, const Out<T> &to,
                        const Out<i32> &breakdowns) {
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const Out<T> of_i{couplings.data + group * capacity, capacity};
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        const i64 begin = pattern_offsets[i];
        const int count = static_cast<int>(pattern_offsets[i + 1] - begin) - 1;
        const T diagonal = As<T>::of(diagonals[i]);
        FsaiSystem<T> system = fsai_system(work, group, capacity, smallest, diagonal);
        bool is_definite = fsai_is_positive(diagonal);
        if (is_definite) {
            ROLLED
            for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
                of_i[t] = 0;
            }
            Lanes::barrier();
            ROLLED
            for (i64 e = offsets[i] + Lanes::rank(); e < offsets[i + 1]; e += FSAI_LANES) {
                const int t = columns[e] < i ? fsai_place(columns[e], begin, count, pattern_columns) : -1;
                if (t >= 0) {
                    of_i[t] = values[e];
                }
            }
            Lanes::barrier();
        }
        ROLLED
        for (int t = 0; is_definite && t < count; ++t) {
            const i32 k = pattern_columns[begin + t];
            system.begin_row();
            ROLLED
            for (i64 e = offsets[k] + Lanes::rank(); e < offsets[k + 1]; e += FSAI_LANES) {
                const int u = columns[e] < k ? fsai_place(columns[e], begin, t, pattern_columns) : -1;
                if (u >= 0) {
                    system.coupling(u) = values[e];
                }
            }
            is_definite = system.append(As<T>::of(diagonals[k]), of_i[t]);
        }
        if (is_definite) {
            system.solve();
        } else if (Lanes::rank() == 0) {
            atomic_add(breakdowns[0], 1);
        }
        const T psi = is_definite ? system.psi : diagonal;
        const T last = fsai_is_positive(psi) ? 1 / fsai_root(psi) : 0;
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            to[begin + t] = is_definite ? times(system.g[t], last) : T(0);
        }
        if (Lanes::rank() == 0) {
            to[begin + count] = last;
        }
        Lanes::barrier();
    }
}

#define FSAI_VALUES(T) \
    KERNEL(fsai_values_##T, i64 rows, i32 groups, i32 capacity, f64 smallest, In<i64> offsets, In<i32> columns, In<T> values, \
           In<f64> diagonals, In<i64> pattern_offsets, In<i32> pattern_columns, Out<T> work, Out<T> couplings, Out<T> to, \
           Out<i32> breakdowns) { \
        fsai_values<T>(rows, groups, capacity, smallest, offsets, columns, values, diagonals, pattern_offsets, pattern_columns, work, \
                       couplings, to, breakdowns); \
    }
FOR_SETUP(FSAI_VALUES)

// Which entries of a row a pattern keeps.
enum FsaiKeep {
    // Entries with a_ij² > square a_ii a_jj, and the diagonal.
    FSAI_LARGE = 0,
    // The same below the diagonal, with all of the diagonal at the end.
    FSAI_LARGE_LOWER = 1,
    // All entries below the diagonal, with all of the diagonal at the end.
    FSAI_LOWER = 2,
    // Entries of a factor with g_ij² a_jj > square g_ii² a_ii; the diagonal is its last.
    FSAI_LARGE_OF_FACTOR = 3,
};

// Whether the block of value e in rows and columns i and j is kept, for one of its entries at least. The diagonal of a factor is its block
// `last`.
template <class T>
DEVICE bool fsai_keeps(int which, f64 square, int n, i64 i, i32 j, i64 e, i64 last, const In<T> &values, const In<f64> &diagonals) {
    if (which == FSAI_LARGE ? j == i : which == FSAI_LOWER && j < i) {
        return true;
    }
    if (which != FSAI_LARGE && j >= i) {
        return false;
    }
    bool keeps = false;
    ROLLED
    for (int at = 0; at < n * n && !keeps; ++at) {
        const int r = at / n;
        const f64 v = to_f64(values[e * n * n + at]), of_row = diagonals[i * n + r];
        const f64 of_column = diagonals[static_cast<i64>(j) * n + at % n];
        if (which == FSAI_LARGE_OF_FACTOR) {
            const f64 own = to_f64(values[last * n * n + r * (n + 1)]);
            keeps = times(times(v, v), of_column) > times(square, times(times(own, own), of_row));
        } else {
            keeps = times(v, v) > times(square, magnitude(times(of_row, of_column)));
        }
    }
    return keeps;
}

// Counts the blocks of n rows that block rows keep, or writes them as ones at the offsets of the counts. Below the diagonal columns ascend.
template <class T>
DEVICE void fsai_keep(i64 rows, int n, int which, f64 square, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                      const In<f64> &diagonals, const In<i64> &to_offsets, const Out<i32> &to_columns, const Out<f32> &to_values,
                      const Out<i32> &counts) {
    const i64 i = global_index() / FSAI_LANES;
    if (i >= rows) {
        return;
    }
    const i64 begin = offsets[i], end = offsets[i + 1];
    const bool writes = counts.len == 0;
    const i64 to = writes ? to_offsets[i] : 0;
    int kept = 0;
    ROLLED
    for (i64 base = begin; base < end; base += FSAI_LANES) {
        const i64 e = base + Lanes::rank();
        const i32 j = e < end ? columns[e] : 0;
        const bool keeps = e < end && fsai_keeps<T>(which, square, n, i, j, e, end - 1, values, diagonals);
        const u64 all = Lanes::ballot(keeps);
        if (keeps && writes) {
            to_columns[to + kept + rank_among<FSAI_LANES>(all)] = j;
        }
        kept += count_bits(all);
    }
    const bool with_diagonal = which != FSAI_LARGE;
    if (!writes) {
        if (Lanes::rank() == 0) {
            counts[i] = kept + (with_diagonal ? 1 : 0);
        }
        return;
    }
    Lanes::barrier();
    bool falls = false;
    ROLLED
    for (int t = Lanes::rank(); with_diagonal && t + 1 < kept; t += FSAI_LANES) {
        falls = falls || to_columns[to + t] > to_columns[to + t + 1];
    }
    if (Lanes::ballot(falls) != 0) {
        // Odd-even transposition of what was written; rows in no order are rare.
        ROLLED
        for (int round = 0; round < kept; ++round) {
            ROLLED
            for (int t = round % 2 + 2 * Lanes::rank(); t + 1 < kept; t += 2 * FSAI_LANES) {
                const i32 first = to_columns[to + t], second = to_columns[to + t + 1];
                if (second < first) {
                    to_columns[to + t] = second;
                    to_columns[to + t + 1] = first;
                }
            }
            Lanes::barrier();
        }
    }
    ROLLED
    for (int t = Lanes::rank(); t < kept; t += FSAI_LANES) {
        to_values[to + t] = 1;
    }
    if (with_diagonal && Lanes::rank() == 0) {
        to_columns[to + kept] = static_cast<i32>(i);
        to_values[to + kept] = 1;
    }
}

#define FSAI_KEEP(T) \
    KERNEL(fsai_keep_##T, i64 rows, i32 n, i32 which, f64 square, In<i64> offsets, In<i32> columns, In<T> values, In<f64> diagonals, \
           In<i64> to_offsets, Out<i32> to_columns, Out<f32> to_values, Out<i32> counts) { \
        fsai_keep<T>(rows, n, which, square, offsets, columns, values, diagonals, to_offsets, to_columns, to_values, counts); \
    }
FOR_SETUP(FSAI_KEEP)

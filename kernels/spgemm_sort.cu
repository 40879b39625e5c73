// Rows of a product C = A B with few terms: a team of lanes takes all terms of a row, sorts them by column in its registers, and adds those of
// equal columns, which lie side by side, in the order of the row of A. Nothing is looked up, and no lane waits for another one's luck.
#include "spgemm.h"

// Sorts N * E keys, of which lane l has those from l * E on, by bitonic merging. Smaller ones go to lower places in every exchange.
template <int N, int E> DEVICE void team_sort(u32 (&key)[E]) {
    const int lane = Group<N>::rank();
    UNROLL
    for (int size = 2; size <= N * E; size *= 2) {
        // Two sorted sequences side by side, the second one backwards, are merged.
        if (size <= E) {
            UNROLL
            for (int e = 0; e < E; ++e) {
                const int other = e ^ (size - 1);
                if (other > e) {
                    const u32 low = key[e] < key[other] ? key[e] : key[other];
                    key[other] = key[e] < key[other] ? key[other] : key[e];
                    key[e] = low;
                }
            }
        } else {
            const int from = lane ^ (size / E - 1);
            const bool is_low = (lane & size / E / 2) == 0;
            u32 other[E];
            UNROLL
            for (int e = 0; e < E; ++e) {
                other[e] = Group<N>::shuffle(key[E - 1 - e], from);
            }
            UNROLL
            for (int e = 0; e < E; ++e) {
                key[e] = (key[e] < other[e]) == is_low ? key[e] : other[e];
            }
        }
        UNROLL
        for (int stride = size / 4; stride > 0; stride /= 2) {
            if (stride >= E) {
                const int from = lane ^ (stride / E);
                const bool is_low = (lane & stride / E) == 0;
                UNROLL
                for (int e = 0; e < E; ++e) {
                    const u32 other = Group<N>::shuffle(key[e], from);
                    key[e] = (key[e] < other) == is_low ? key[e] : other;
                }
            } else {
                UNROLL
                for (int e = 0; e < E; ++e) {
                    if ((e & stride) == 0) {
                        const u32 low = key[e] < key[e + stride] ? key[e] : key[e + stride];
                        key[e + stride] = key[e] < key[e + stride] ? key[e + stride] : key[e];
                        key[e] = low;
                    }
                }
            }
        }
    }
}

constexpr u32 NOTHING = 0xffffffff;

// Shared memory of a team for its terms: a little more than they need, so that teams of a warp that are at the same place use different banks.
template <int N, int E> DEVICE constexpr int stride() { return N < 32 ? N * (E + 1) : N * E; }

// An entry of a row of A: its row of B, and where the terms go.
struct alignas(16) Step {
    i64 begin;
    i32 length;
    i32 place;
};

// Room of the block for the terms of its rows. T is the type of values, or u8 for none.
template <int N, int E, class T, class Columns, class Values, class Steps, class Left> struct Terms {
    Columns &columns;
    Values &values;
    Steps &steps;
    Left &factors;

    // Brings the terms of a row to shared memory, one after the other in the order of the row of A; gives their number. `lanes` of them, a power of two,
    // read a row of B.
    DEVICE int expand(const Factors &f, const In<T> &left, const In<T> &right, i64 row, int lanes) const {
        const int lane = Group<N>::rank();
        const int own = thread_index() - lane;
        const i64 start = f.offsets[row];
        const int entries = static_cast<int>(f.offsets[row + 1] - start);
        const int at_once = N / lanes;
        const int sub = lane & (lanes - 1);
        const int first = lane / lanes;
        const int start_of_team = thread_index() / N * stride<N, E>();
        int total = start_of_team;
        for (int base = 0; base < entries; base += N) {
            const int count = entries - base < N ? entries - base : N;
            Step mine{0, 0, 0};
            if (lane < count) {
                const i64 j = f.columns[start + base + lane];
                mine.begin = f.begins[j];
                mine.length = static_cast<int>(f.ends[j] - mine.begin);
                if constexpr (sizeof(T) > 1) {
                    factors[own + lane] = left[start + base + lane];
                }
            }
            int sum;
            mine.place = total + group_sum_before<N>(mine.length, sum);
            steps[own + lane] = mine;
            total += sum;
            Group<N>::barrier();
            for (int s = first; s < count; s += STEPS * at_once) {
                Step step[STEPS];
                i32 column[STEPS];
                T value[STEPS];
                UNROLL
                for (int u = 0; u < STEPS; ++u) {
                    const int k = s + u * at_once;
                    step[u] = k < count ? steps[own + k] : Step{0, 0, 0};
                    if (sub < step[u].length) {
                        column[u] = f.right_columns[step[u].begin + sub];
                        if constexpr (sizeof(T) > 1) {
                            value[u] = right[step[u].begin + sub];
                        }
                    }
                }
                UNROLL
                for (int u = 0; u < STEPS; ++u) {
                    if (sub < step[u].length) {
                        const u32 to = step[u].place + sub;
                        columns[to / 4].of[to % 4] = column[u];
                        if constexpr (sizeof(T) > 1) {
                            values[to] = times(factors[own + s + u * at_once], value[u]);
                        }
                    }
                    for (int t = sub + lanes; t < step[u].length; t += lanes) {
                        const u32 to = step[u].place + t;
                        columns[to / 4].of[to % 4] = f.right_columns[step[u].begin + t];
                        if constexpr (sizeof(T) > 1) {
                            values[to] = times(factors[own + s + u * at_once], right[step[u].begin + t]);
                        }
                    }
                }
            }
            Group<N>::barrier();
        }
        return total - start_of_team;
    }
};

// Counts the columns of n rows of C: those of `rows`, or the first n where that is empty. They have at most N * E terms.
template <int N, int E>
DEVICE void spgemm_sort_symbolic(i64 n, int lanes, const In<i32> &rows, const Factors &f, const Out<i32> &counts) {
    constexpr int STRIDE = stride<N, E>();
    SHARED(Four, columns, BLOCK / N *STRIDE / 4);
    SHARED(u8, nothing, 1);
    SHARED(Step, steps, BLOCK);
    const i64 team = global_index() / N;
    if (team >= n) {
        return;
    }
    const i64 row = rows.len > 0 ? rows[team] : team;
    const Terms<N, E, u8, decltype(columns), decltype(nothing), decltype(steps), decltype(nothing)> terms{columns, nothing, steps,
                                                                                                          nothing};
    const int total = terms.expand(f, In<u8>{}, In<u8>{}, row, lanes);
    const int lane = Group<N>::rank();
    const int first = thread_index() / N * stride<N, E>();
    u32 key[E];
    UNROLL
    for (int e = 0; e < E; e += 4) {
        const Four four = columns[(first + lane * E + e) / 4];
        UNROLL
        for (int i = 0; i < 4; ++i) {
            key[e + i] = lane * E + e + i < total ? static_cast<u32>(four.of[i]) : NOTHING;
        }
    }
    team_sort<N, E>(key);
    const u32 before = Group<N>::shuffle(key[E - 1], lane > 0 ? lane - 1 : 0);
    int found = key[0] != NOTHING && (lane == 0 || key[0] != before) ? 1 : 0;
    UNROLL
    for (int e = 1; e < E; ++e) {
        found += key[e] != NOTHING && key[e] != key[e - 1] ? 1 : 0;
    }
    int sum;
    group_sum_before<N>(found, sum);
    if (lane == 0) {
        counts[row] = sum;
    }
}

// Computes n rows of C, as above; `to` says what is written. A key is a column, and below it, in BITS bits, the place of its term.
template <int N, int E, int BITS, int MODE, class T>
DEVICE void spgemm_sort_numeric(i64 n, int lanes, const In<i32> &rows, const Factors &f, const In<T> &left, const In<T> &right,
                                const Result<T> &c) {
    static_assert(1 << BITS == N * E, "as many places as terms");
    constexpr int STRIDE = stride<N, E>();
    SHARED(Four, columns, BLOCK / N *STRIDE / 4);
    SHARED(T, values, BLOCK / N *STRIDE);
    SHARED(Step, steps, BLOCK);
    SHARED(T, factors, BLOCK);
    const i64 team = global_index() / N;
    if (team >= n) {
        return;
    }
    const i64 row = rows.len > 0 ? rows[team] : team;
    const Terms<N, E, T, decltype(columns), decltype(values), decltype(steps), decltype(factors)> terms{columns, values, steps, factors};
    const int terms_of_row = terms.expand(f, left, right, row, lanes);
    const int lane = Group<N>::rank();
    const int first = thread_index() / N * stride<N, E>();
    u32 key[E];
    UNROLL
    for (int e = 0; e < E; e += 4) {
        const Four four = columns[(first + lane * E + e) / 4];
        UNROLL
        for (int i = 0; i < 4; ++i) {
            const int place = lane * E + e + i;
            key[e + i] = place < terms_of_row ? static_cast<u32>(four.of[i]) << BITS | static_cast<u32>(place) : NOTHING;
        }
    }
    team_sort<N, E>(key);

    // Sums of equal columns, each up to its key. One that began in the lane before goes on from what came out there, which is known at once unless a lane
    // has nothing but a column that began before it.
    const auto value = [&](int e) { return key[e] != NOTHING ? values[first + static_cast<int>(key[e] & ((1u << BITS) - 1))] : T(0); };
    const auto is_same = [&](int e) { return key[e] >> BITS == key[e - 1] >> BITS; };
    const u32 before = Group<N>::shuffle(key[E - 1], lane > 0 ? lane - 1 : 0) >> BITS;
    const u32 behind = Group<N>::shuffle(key[0], lane + 1 < N ? lane + 1 : lane) >> BITS;
    const bool goes_on = lane > 0 && key[0] >> BITS == before;
    const bool is_whole = goes_on && key[0] >> BITS == key[E - 1] >> BITS;
    T tail = T(0) + value(0);
    UNROLL
    for (int e = 1; e < E; ++e) {
        tail = (is_same(e) ? tail : T(0)) + value(e);
    }
    T carried = Group<N>::shuffle(tail, lane > 0 ? lane - 1 : 0);
    for (int round = count_bits(Group<N>::ballot(is_whole)); round > 0; --round) {
        if (is_whole) {
            tail = carried;
            UNROLL
            for (int e = 0; e < E; ++e) {
                tail += value(e);
            }
        }
        carried = Group<N>::shuffle(tail, lane > 0 ? lane - 1 : 0);
    }
    T sum[E];
    sum[0] = (goes_on ? carried : T(0)) + value(0);
    UNROLL
    for (int e = 1; e < E; ++e) {
        sum[e] = (is_same(e) ? sum[e - 1] : T(0)) + value(e);
    }

    // The last of equal keys has the whole sum.
    int found = 0;
    UNROLL
    for (int e = 0; e < E; ++e) {
        const bool is_last = e + 1 < E ? key[e] >> BITS != key[e + 1 < E ? e + 1 : e] >> BITS : lane + 1 == N || key[e] >> BITS != behind;
        key[e] = is_last ? key[e] : NOTHING;
        found += key[e] != NOTHING ? 1 : 0;
    }
    int total;
    int at = first + group_sum_before<N>(found, total);
    Group<N>::barrier();
    UNROLL
    for (int e = 0; e < E; ++e) {
        if (key[e] != NOTHING) {
            columns[at / 4].of[at % 4] = static_cast<i32>(key[e] >> BITS);
            values[at] = sum[e];
            ++at;
        }
    }
    Group<N>::barrier();
    const i64 to = c.begins[row];
    for (int k = lane; k < total; k += N) {
        const i32 column = columns[(first + k) / 4].of[(first + k) % 4];
        if constexpr (MODE != KNOWN) {
            c.columns[to + k] = column;
        }
        c.put(to + k, row, column, values[first + k]);
    }
    if constexpr (MODE == AS_FOUND) {
        if (lane == 0) {
            c.ends[row] = to + total;
        }
    }
}

#define SPGEMM_SORT_SYMBOLIC(N, E, TERMS) \
    KERNEL_OF(6, spgemm_symbolic_sort_##TERMS, i64 n, i32 lanes, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, \
           In<i64> ends, In<i32> right_columns, Out<i32> counts, Out<i32>) { \
        spgemm_sort_symbolic<N, E>(n, lanes, rows, Factors{offsets, columns, begins, ends, right_columns}, counts); \
    }
SPGEMM_SORT_SYMBOLIC(4, 8, 32)
SPGEMM_SORT_SYMBOLIC(8, 8, 64)
SPGEMM_SORT_SYMBOLIC(16, 8, 128)
SPGEMM_SORT_SYMBOLIC(32, 8, 256)
SPGEMM_SORT_SYMBOLIC(32, 16, 512)

#define SPGEMM_SORT(NAME, MODE, N, E, BITS, TERMS, T) \
    KERNEL_OF(4, spgemm_##NAME##_sort_##TERMS##_##T, i64 n, i32 lanes, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, \
           In<i64> ends, In<i32> right_columns, In<T> left, In<T> right, In<i64> to, Out<i64> to_ends, Out<i32> to_columns, \
           Out<T> to_values, i32 fill) { \
        spgemm_sort_numeric<N, E, BITS, MODE, T>(n, lanes, rows, Factors{offsets, columns, begins, ends, right_columns}, left, right, \
                                                 Result<T>{to, to_ends, to_columns, to_values, fill}); \
    }
#define SPGEMM_SORT_MODES(N, E, BITS, TERMS, T) \
    SPGEMM_SORT(as_found, AS_FOUND, N, E, BITS, TERMS, T) \
    SPGEMM_SORT(sorted, SORTED, N, E, BITS, TERMS, T) \
    SPGEMM_SORT(known, KNOWN, N, E, BITS, TERMS, T)
#define SPGEMM_SORTS(T) \
    SPGEMM_SORT_MODES(4, 8, 5, 32, T) \
    SPGEMM_SORT_MODES(8, 8, 6, 64, T) \
    SPGEMM_SORT_MODES(16, 8, 7, 128, T) \
    SPGEMM_SORT_MODES(32, 8, 8, 256, T)
SPGEMM_SORTS(f64)
SPGEMM_SORTS(f32)

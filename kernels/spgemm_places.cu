// Renewal of a product C = A B whose factors have other values and the same patterns, as src/host/terms.rs does it: where each term goes in its row of C is found
// once, and kept. A renewal then looks no column up.
#include "spgemm.h"

// Lengths of rows.
KERNEL(spgemm_lengths, i64 rows, In<i64> begins, In<i64> ends, Out<i32> lengths) {
    const i64 row = global_index();
    if (row < rows) {
        lengths[row] = static_cast<i32>(ends[row] - begins[row]);
    }
}

// Places of terms, in 8 or 16 bits.
struct Places {
    Any all;
    i32 wide;
    DEVICE int get(i64 i) const { return wide != 0 ? all.in<u16>().once(i) : all.in<u8>().once(i); }
    DEVICE void put(i64 i, int place) const {
        if (wide != 0) {
            all.out<u16>()[i] = static_cast<u16>(place);
        } else {
            all.out<u8>()[i] = static_cast<u8>(place);
        }
    }
};

// The rows of C: their columns in any order, and where their terms begin.
struct Rows {
    In<i64> begins;
    In<i64> ends;
    In<i32> columns;
    In<i64> terms;
};

// Finds the places of the terms of n rows: those of `rows`, or the first n where that is empty. A row of C fits SLOTS.
template <int N, int SLOTS>
DEVICE void spgemm_places(i64 n, int lanes, const In<i32> &rows, const Factors &f, const Rows &c, const Places &places) {
    constexpr int TEAMS = BLOCK / N;
    SHARED(Four, keys, TEAMS *SLOTS / 4);
    SHARED(u16, place_of, TEAMS *SLOTS);
    SHARED(i64, begins, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(i32, firsts, BLOCK);
    SHARED(i64, sums, BLOCK / WARP);
    const i64 team = global_index() / N;
    if (team >= n) {
        return;
    }
    const int lane = team_rank<N>();
    const int own = thread_index() - lane;
    const int first = thread_index() / N * SLOTS;
    for (int b = lane; b < SLOTS / 4; b += N) {
        keys[first / 4 + b] = Four{{EMPTY, EMPTY, EMPTY, EMPTY}};
    }
    const i64 row = rows.len > 0 ? rows[team] : team;
    const i64 to = c.begins[row];
    const int columns = static_cast<int>(c.ends[row] - to);
    team_barrier<N>();
    for (int k = lane; k < columns; k += N) {
        place_of[first + slot_of<SLOTS>(keys, first, c.columns[to + k])] = static_cast<u16>(k);
    }
    const i64 start = f.offsets[row];
    const i64 entries = f.offsets[row + 1] - start;
    const int steps = N / lanes; // at once
    i64 term = c.terms[row];
    for (i64 base = 0; base < entries; base += N) {
        const int count = entries - base < N ? static_cast<int>(entries - base) : N;
        team_barrier<N>();
        int length = 0;
        if (lane < count) {
            const i64 j = f.columns[start + base + lane];
            begins[own + lane] = f.begins[j];
            length = static_cast<int>(f.ends[j] - f.begins[j]);
            lengths[own + lane] = length;
        }
        int total;
        firsts[own + lane] = team_sum_before<N>(sums, length, total);
        team_barrier<N>();
        for (int k = lane / lanes; k < count; k += steps) {
            for (int t = lane & (lanes - 1); t < lengths[own + k]; t += lanes) {
                const int slot = slot_of<SLOTS>(keys, first, f.right_columns[begins[own + k] + t]);
                places.put(term + firsts[own + k] + t, place_of[first + slot]);
            }
        }
        term += total;
    }
}

// The values of n rows of C, as above; a row fits ROOM. With `fill` a zero on the diagonal becomes a one.
template <int N, int ROOM, class T>
DEVICE void spgemm_renew(i64 n, int lanes, const In<i32> &rows, const Factors &f, const In<T> &left, const In<T> &right, const Rows &c,
                         const Places &places, const Out<T> &to_values, int fill) {
    // A little more, so that teams of a warp that are at the same place use different banks.
    constexpr int STRIDE = N < 32 ? ROOM + N : ROOM;
    SHARED(T, values, BLOCK / N *STRIDE);
    SHARED(i64, begins, BLOCK);
    SHARED(T, factors, BLOCK);
    SHARED(i32, lengths, BLOCK);
    SHARED(i32, firsts, BLOCK);
    SHARED(i64, sums, BLOCK / WARP);
    const i64 team = global_index() / N;
    if (team >= n) {
        return;
    }
    const int lane = team_rank<N>();
    const int own = thread_index() - lane;
    const int first = thread_index() / N * STRIDE;
    const i64 row = rows.len > 0 ? rows[team] : team;
    const i64 to = c.begins[row];
    const int columns = static_cast<int>(c.ends[row] - to);
    for (int k = lane; k < columns; k += N) {
        values[first + k] = 0;
    }
    const i64 start = f.offsets[row];
    const i64 entries = f.offsets[row + 1] - start;
    i64 term = c.terms[row];
    for (i64 base = 0; base < entries; base += N) {
        const int count = entries - base < N ? static_cast<int>(entries - base) : N;
        team_barrier<N>();
        int length = 0;
        if (lane < count) {
            const i64 j = f.columns[start + base + lane];
            factors[own + lane] = left[start + base + lane];
            const i64 begin = f.begins[j];
            begins[own + lane] = begin;
            length = static_cast<int>(f.ends[j] - begin);
            lengths[own + lane] = length;
        }
        int total;
        firsts[own + lane] = team_sum_before<N>(sums, length, total);
        // Steps that are longer than their lanes come one after the other.
        const int width = lanes < N && team_any<N>(sums, length > lanes) ? N : lanes;
        const int steps = N / width;
        const int sub = lane & (width - 1);
        const int step = lane / width;
        team_barrier<N>();
        for (int s = 0; s < count; s += STEPS * steps) {
            int place[STEPS];
            T value[STEPS];
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                const int k = s + u * steps + step;
                const bool is_there = k < count && sub < lengths[own + k];
                place[u] = is_there ? first + places.get(term + firsts[own + k] + sub) : -1;
                value[u] = is_there ? times(factors[own + k], right[begins[own + k] + sub]) : T(0);
            }
            UNROLL
            for (int u = 0; u < STEPS; ++u) {
                for (int now = 0; now < steps; ++now) {
                    if (step == now && place[u] >= 0) {
                        values[place[u]] = values[place[u]] + value[u];
                    }
                    team_barrier<N>();
                }
                const int k = s + u * steps;
                if (steps == 1 && k < count && lengths[own + k] > N) {
                    for (int t = N + lane; t < lengths[own + k]; t += N) {
                        const int more = first + places.get(term + firsts[own + k] + t);
                        values[more] = values[more] + times(factors[own + k], right[begins[own + k] + t]);
                    }
                    team_barrier<N>();
                }
            }
        }
        term += total;
    }
    team_barrier<N>();
    for (int k = lane; k < columns; k += N) {
        const T value = values[first + k];
        to_values[to + k] = fill != 0 && value == T(0) && c.columns[to + k] == row ? T(1) : value;
    }
}

#define SPGEMM_PLACES(N, SLOTS) \
    KERNEL(spgemm_places_##N##_##SLOTS, i64 n, i32 lanes, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, In<i64> ends, \
           In<i32> right_columns, In<i64> to, In<i64> to_ends, In<i32> to_columns, In<i64> terms, Any places, i32 wide) { \
        spgemm_places<N, SLOTS>(n, lanes, rows, Factors{offsets, columns, begins, ends, right_columns}, \
                                Rows{to, to_ends, to_columns, terms}, Places{places, wide}); \
    }
SPGEMM_PLACES(4, 32)
SPGEMM_PLACES(16, 64)
SPGEMM_PLACES(16, 128)
SPGEMM_PLACES(32, 256)
SPGEMM_PLACES(32, 512)
SPGEMM_PLACES(256, 3072)

#define SPGEMM_RENEW(N, ROOM, T) \
    KERNEL(spgemm_renew_##N##_##ROOM##_##T, i64 n, i32 lanes, In<i32> rows, In<i64> offsets, In<i32> columns, In<i64> begins, \
           In<i64> ends, In<T> left, In<T> right, In<i64> to, In<i64> to_ends, In<i32> to_columns, In<i64> terms, Any places, i32 wide, \
           Out<T> to_values, i32 fill) { \
        spgemm_renew<N, ROOM, T>(n, lanes, rows, Factors{offsets, columns, begins, ends, {}}, left, right, \
                                 Rows{to, to_ends, to_columns, terms}, Places{places, wide}, to_values, fill); \
    }
#define SPGEMM_RENEWALS(T) \
    SPGEMM_RENEW(4, 32, T) \
    SPGEMM_RENEW(16, 64, T) \
    SPGEMM_RENEW(16, 128, T) \
    SPGEMM_RENEW(32, 256, T) \
    SPGEMM_RENEW(32, 512, T) \
    SPGEMM_RENEW(256, 3072, T)
SPGEMM_RENEWALS(f64)
SPGEMM_RENEWALS(f32)

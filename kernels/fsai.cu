// Adaptive FSAI; see src/host/fsai.rs. 32 lanes compute a row, and go on with a later one. Each sum is added up in the
// order of the host.
#include "hash_accumulator.h"

constexpr int FSAI_LANES = 32;
using Lanes = Group<FSAI_LANES>;

// The columns next to the pattern of a row: a hash table in global memory. A slot holds the column plus 1, or 0.
template <class T> struct FsaiCandidates {
    Out<i32> keys;
    // Place in the pattern from 1 on, 0 for a column that is not in it.
    Out<i32> places;
    Out<T> couplings;
    Out<T> gradients;
    // The slots in use, and how many there are.
    Out<i32> used;
    Out<i32> counts;
    i64 base;
    i64 list;
    i64 counter;
    int slots;

    // The slot of column k, or -1. With `insert` a new k is inserted; the table has a slot for each.
    DEVICE i64 slot_of(i32 k, bool insert) const {
        int slot = first_slot(k, slots);
        while (true) {
            i32 there = keys[base + slot];
            if (there == 0 && insert) {
                there = atomic_swap_if(keys[base + slot], 0, k + 1);
                if (there == 0) {
                    const i64 at = base + slot;
                    places[at] = 0;
                    couplings[at] = 0;
                    gradients[at] = 0;
                    used[list + atomic_add(counts[counter], 1)] = slot;
                    return at;
                }
            }
            if (there == k + 1) {
                return base + slot;
            }
            if (there == 0) {
                return -1;
            }
            slot = (slot + 1) & (slots - 1);
        }
    }

    DEVICE i64 slot(int number) const { return base + used[list + number]; }
};

template <class T> DEVICE T fsai_root(T v) { return As<T>::of(square_root(to_f64(v))); }

template <class T> DEVICE bool fsai_is_finite(T v) { return v - v == 0; }

// The row of the matrix and the factor that is being computed.
template <class T> struct FsaiRow {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    In<f64> diagonals;
    FsaiCandidates<T> candidates;
    // The pattern; the rows of L one behind the other; y and g.
    Out<i32> pattern;
    Out<T> l;
    Out<T> y;
    Out<T> g;
    T smallest;
    i64 i;
    T diagonal;
    T psi;
    int count;

    static DEVICE i64 begin_of(int row) { return static_cast<i64>(row) * (row + 1) / 2; }

    // The couplings of row i itself.
    DEVICE void begin() {
        ROLLED
        for (i64 e = offsets[i] + Lanes::rank(); e < offsets[i + 1]; e += FSAI_LANES) {
            if (columns[e] < i) {
                const i64 at = candidates.slot_of(columns[e], true);
                candidates.couplings[at] = values[e];
            }
        }
        Lanes::barrier();
    }

    DEVICE int candidate_count() const { return candidates.counts[candidates.counter]; }

    DEVICE void find_gradients() const {
        const int known = candidate_count();
        ROLLED
        for (int c = Lanes::rank(); c < known; c += FSAI_LANES) {
            const i64 at = candidates.slot(c);
            candidates.gradients[at] = candidates.couplings[at];
        }
        Lanes::barrier();
        ROLLED
        for (int t = 0; t < count; ++t) {
            const i64 r = pattern[t];
            const T factor = g[t];
            ROLLED
            for (i64 e = offsets[r] + Lanes::rank(); e < offsets[r + 1]; e += FSAI_LANES) {
                if (columns[e] < i) {
                    const i64 at = candidates.slot_of(columns[e], true);
                    candidates.gradients[at] += times(values[e], factor);
                }
            }
            Lanes::barrier();
        }
    }

    // The slot of the column with the largest decrease, or -1.
    DEVICE i64 best() const {
        const int known = candidate_count();
        T most = 0;
        i32 column = 0;
        i64 found = -1;
        ROLLED
        for (int c = Lanes::rank(); c < known; c += FSAI_LANES) {
            const i64 at = candidates.slot(c);
            if (candidates.places[at] == 0) {
                const i32 k = candidates.keys[at] - 1;
                const T gradient = candidates.gradients[at], decrease = times(gradient, gradient) / As<T>::of(diagonals[k]);
                if (decrease > 0 && fsai_is_finite(decrease) && (found < 0 || decrease > most || (decrease == most && k < column))) {
                    most = decrease;
                    column = k;
                    found = at;
                }
            }
        }
        UNROLL
        for (int step = FSAI_LANES / 2; step > 0; step /= 2) {
            const int other = Lanes::rank() ^ step;
            const T decrease = Lanes::shuffle(most, other);
            const i32 k = Lanes::shuffle(column, other);
            const i64 at = Lanes::shuffle(found, other);
            if (at >= 0 && (found < 0 || decrease > most || (decrease == most && k < column))) {
                most = decrease;
                column = k;
                found = at;
            }
        }
        return found;
    }

    // Adds a column to the pattern. False, and nothing is added, where A would not be positive definite on it.
    DEVICE bool append(i64 at) {
        const i32 k = candidates.keys[at] - 1;
        const T own = As<T>::of(diagonals[k]);
        const i64 row = begin_of(count);
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            l[row + t] = 0;
        }
        Lanes::barrier();
        ROLLED
        for (i64 e = offsets[k] + Lanes::rank(); e < offsets[k + 1]; e += FSAI_LANES) {
            const i64 there = columns[e] < i ? candidates.slot_of(columns[e], false) : -1;
            if (there >= 0 && candidates.places[there] > 0) {
                l[row + candidates.places[there] - 1] = values[e];
            }
        }
        T pivot = own, rhs = -candidates.couplings[at];
        ROLLED
        for (int t = 0; t < count; ++t) {
            Lanes::barrier();
            const T v = l[row + t] / l[begin_of(t) + t];
            pivot -= times(v, v);
            rhs -= times(v, y[t]);
            Lanes::barrier();
            if (Lanes::rank() == 0) {
                l[row + t] = v;
            }
            ROLLED
            for (int u = t + 1 + Lanes::rank(); u < count; u += FSAI_LANES) {
                l[row + u] -= times(v, l[begin_of(u) + t]);
            }
        }
        const T root = fsai_root(pivot), next = rhs / root, reduced = psi - times(next, next);
        if (!(pivot > times(smallest, own)) || !(reduced > times(smallest, diagonal))) {
            return false;
        }
        Lanes::barrier();
        if (Lanes::rank() == 0) {
            l[row + count] = root;
            y[count] = next;
            pattern[count] = k;
            candidates.places[at] = count + 1;
        }
        psi = reduced;
        ++count;
        Lanes::barrier();
        return true;
    }

    // Solves for g.
    DEVICE void solve() const {
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            g[t] = y[t];
        }
        ROLLED
        for (int t = count - 1; t >= 0; --t) {
            Lanes::barrier();
            const i64 row = begin_of(t);
            const T v = g[t] / l[row + t];
            Lanes::barrier();
            if (Lanes::rank() == 0) {
                g[t] = v;
            }
            ROLLED
            for (int u = Lanes::rank(); u < t; u += FSAI_LANES) {
                g[u] -= times(l[row + u], v);
            }
        }
        Lanes::barrier();
    }

    DEVICE void grow(int steps, int entries, f64 tolerance) {
        begin();
        ROLLED
        for (int step = 0; step < steps; ++step) {
            find_gradients();
            const T before = psi;
            bool complete = true;
            ROLLED
            for (int entry = 0; complete && entry < entries; ++entry) {
                const i64 at = best();
                complete = at >= 0 && append(at);
            }
            solve();
            if (!complete || !(to_f64(before - psi) > tolerance * to_f64(before))) {
                break;
            }
        }
    }

    // Empties the table for the next row.
    DEVICE void clear() const {
        const int known = candidate_count();
        ROLLED
        for (int c = Lanes::rank(); c < known; c += FSAI_LANES) {
            candidates.keys[candidates.slot(c)] = 0;
        }
        Lanes::barrier();
        if (Lanes::rank() == 0) {
            candidates.counts[candidates.counter] = 0;
        }
        Lanes::barrier();
    }

    // Writes the row with ascending columns from `to` on.
    DEVICE void write(i64 to, bool is_positive, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths) const {
        const T last = is_positive ? 1 / fsai_root(psi) : 0;
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            int rank = 0;
            ROLLED
            for (int u = 0; u < count; ++u) {
                rank += pattern[u] < pattern[t] ? 1 : 0;
            }
            to_columns[to + rank] = pattern[t];
            to_values[to + rank] = times(g[t], last);
        }
        if (Lanes::rank() == 0) {
            to_columns[to + count] = static_cast<i32>(i);
            to_values[to + count] = last;
            lengths[i] = count + 1;
        }
    }
};

// Rows of at most `capacity` entries beside the diagonal, written at a stride of one more. Each of `groups` teams of
// lanes has a table of `slots`, of which half may be used.
template <class T>
DEVICE void fsai_rows(i64 rows, int groups, int steps, int entries, int capacity, int slots, f64 tolerance, f64 smallest,
                      const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<f64> &diagonals,
                      const Out<i32> &keys, const Out<i32> &places, const Out<T> &couplings, const Out<T> &gradients,
                      const Out<i32> &used, const Out<i32> &counts, const Out<i32> &pattern, const Out<T> &work,
                      const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths) {
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const FsaiCandidates<T> candidates{keys, places, couplings, gradients, used, counts, group * slots, group * (slots / 2), group, slots};
    const i64 triangle = static_cast<i64>(capacity) * (capacity + 1) / 2, own = group * (triangle + 2 * capacity);
    const Out<T> l{work.data + own, triangle}, y{work.data + own + triangle, capacity}, g{work.data + own + triangle + capacity, capacity};
    const Out<i32> own_pattern{pattern.data + group * capacity, capacity};
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        const T diagonal = As<T>::of(diagonals[i]);
        const bool is_positive = diagonal > 0 && fsai_is_finite(diagonal);
        FsaiRow<T> row{offsets, columns, values, diagonals, candidates, own_pattern, l, y, g, As<T>::of(smallest), i, diagonal, diagonal, 0};
        if (is_positive) {
            row.grow(steps, entries, tolerance);
        }
        row.write(i * (capacity + 1), is_positive, to_columns, to_values, lengths);
        row.clear();
    }
}

#define FSAI(T) \
    KERNEL(fsai_##T, i64 rows, i32 groups, i32 steps, i32 entries, i32 capacity, i32 slots, f64 tolerance, f64 smallest, In<i64> offsets, \
           In<i32> columns, In<T> values, In<f64> diagonals, Out<i32> keys, Out<i32> places, Out<T> couplings, Out<T> gradients, \
           Out<i32> used, Out<i32> counts, Out<i32> pattern, Out<T> work, Out<i32> to_columns, Out<T> to_values, Out<i32> lengths) { \
        fsai_rows<T>(rows, groups, steps, entries, capacity, slots, tolerance, smallest, offsets, columns, values, diagonals, keys, \
                     places, couplings, gradients, used, counts, pattern, work, to_columns, to_values, lengths); \
    }
FSAI(f64)
FSAI(f32)

// The length of the longest row.
KERNEL(fsai_longest, i64 rows, In<i64> offsets, Out<i32> longest) {
    const i64 i = global_index();
    i32 length = i < rows ? static_cast<i32>(offsets[i + 1] - offsets[i]) : 0;
    UNROLL
    for (int step = WARP / 2; step > 0; step /= 2) {
        const i32 other = shuffle_xor(length, step);
        length = other > length ? other : length;
    }
    if (thread_index() % WARP == 0) {
        atomic_max(longest[0], length);
    }
}

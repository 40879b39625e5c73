// FSAI with adaptive patterns; see src/host/fsai/adaptive.rs. 32 lanes compute a row, and go on with a later one.
#include "fsai_system.h"
#include "hash_accumulator.h"

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

// The row of the matrix and the factor that is being computed.
template <class T> struct FsaiRow {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    In<f64> diagonals;
    FsaiCandidates<T> candidates;
    Out<i32> pattern;
    FsaiSystem<T> system;
    i64 i;

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
        for (int t = 0; t < system.count; ++t) {
            const i64 r = pattern[t];
            const T factor = system.g[t];
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
                const T gradient = candidates.gradients[at], decrease = times(times(gradient, gradient), 1 / As<T>::of(diagonals[k]));
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
        system.begin_row();
        ROLLED
        for (i64 e = offsets[k] + Lanes::rank(); e < offsets[k + 1]; e += FSAI_LANES) {
            const i64 there = columns[e] < i ? candidates.slot_of(columns[e], false) : -1;
            if (there >= 0 && candidates.places[there] > 0) {
                system.coupling(candidates.places[there] - 1) = values[e];
            }
        }
        if (!system.append(As<T>::of(diagonals[k]), candidates.couplings[at])) {
            return false;
        }
        if (Lanes::rank() == 0) {
            pattern[system.count - 1] = k;
            candidates.places[at] = system.count;
        }
        Lanes::barrier();
        return true;
    }

    // False where the row ended because A is not positive definite.
    DEVICE bool grow(int steps, int entries, f64 tolerance) {
        begin();
        ROLLED
        for (int step = 0; step < steps; ++step) {
            find_gradients();
            const T before = system.psi;
            bool complete = true, is_definite = true;
            ROLLED
            for (int entry = 0; complete && entry < entries; ++entry) {
                const i64 at = best();
                is_definite = at < 0 || append(at);
                complete = at >= 0 && is_definite;
            }
            system.solve();
            if (!complete || !(to_f64(before - system.psi) > tolerance * to_f64(before))) {
                return is_definite;
            }
        }
        return true;
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
        const int count = system.count;
        const T last = is_positive ? 1 / fsai_root(system.psi) : 0;
        ROLLED
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) {
            int rank = 0;
            ROLLED
            for (int u = 0; u < count; ++u) {
                rank += pattern[u] < pattern[t] ? 1 : 0;
            }
            to_columns[to + rank] = pattern[t];
            to_values[to + rank] = times(system.g[t], last);
        }
        if (Lanes::rank() == 0) {
            to_columns[to + count] = static_cast<i32>(i);
            to_values[to + count] = last;
            lengths[i] = count + 1;
        }
    }
};

// Rows of at most `capacity` entries beside the diagonal, written at a stride of one more; with `left` those without a length, which
// kernels/fsai_small.cu left. Each of `groups` teams of
// lanes has a table in `keys`, of which half may be used.
template <class T>
DEVICE void fsai_rows(i64 rows, int groups, int left, int steps, int entries, int capacity, f64 tolerance, f64 smallest,
                      const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<f64> &diagonals,
                      const Out<i32> &keys, const Out<i32> &places, const Out<T> &couplings, const Out<T> &gradients,
                      const Out<i32> &used, const Out<i32> &counts, const Out<i32> &pattern, const Out<T> &work,
                      const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths, const Out<i32> &breakdowns) {
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const int slots = static_cast<int>(keys.len / groups);
    const FsaiCandidates<T> candidates{keys, places, couplings, gradients, used, counts, group * slots, group * (slots / 2), group, slots};
    const Out<i32> own_pattern{pattern.data + group * capacity, capacity};
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        if (left && lengths[i] != 0) {
            continue;
        }
        const T diagonal = As<T>::of(diagonals[i]);
        const bool is_positive = fsai_is_positive(diagonal);
        FsaiRow<T> row{offsets, columns, values, diagonals, candidates, own_pattern,
                       fsai_system(work, group, capacity, smallest, diagonal), i};
        const bool is_definite = is_positive && row.grow(steps, entries, tolerance);
        if (!is_definite && Lanes::rank() == 0) {
            atomic_add(breakdowns[0], 1);
        }
        row.write(i * (capacity + 1), is_positive, to_columns, to_values, lengths);
        row.clear();
    }
}

#define FSAI(T) \
    KERNEL(fsai_##T, i64 rows, i32 groups, i32 left, i32 steps, i32 entries, i32 capacity, f64 tolerance, f64 smallest, In<i64> offsets, \
           In<i32> columns, In<T> values, In<f64> diagonals, Out<i32> keys, Out<i32> places, Out<T> couplings, Out<T> gradients, \
           Out<i32> used, Out<i32> counts, Out<i32> pattern, Out<T> work, Out<i32> to_columns, Out<T> to_values, Out<i32> lengths, \
           Out<i32> breakdowns) { \
        fsai_rows<T>(rows, groups, left, steps, entries, capacity, tolerance, smallest, offsets, columns, values, diagonals, keys, \
                     places, couplings, gradients, used, counts, pattern, work, to_columns, to_values, lengths, breakdowns); \
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

// FSAI with adaptive patterns for rows with few candidates; see src/host/fsai/adaptive.rs. 32 lanes compute a row, and go on
// with a later one. Candidates and the Cholesky factor are in shared memory, what belongs to a column of the pattern in the
// registers of a lane. For each row of A that was added, a list in global memory tells which candidates its entries are, so that
// a column is searched once.
#include "fsai_system.h"
#include "hash_accumulator.h"

// Most candidates of a row, a power of two, and most columns of its pattern beside the diagonal.
constexpr int FSAI_CANDIDATES = 256;
constexpr int FSAI_COLUMNS = 15;
constexpr int FSAI_TRIANGLE = FSAI_COLUMNS * (FSAI_COLUMNS + 1) / 2;
// Slots of the table of candidates, a power of two.
constexpr int FSAI_SLOTS = 512;
constexpr int FSAI_TEAMS = BLOCK / FSAI_LANES;
constexpr int FSAI_NUMBERS = FSAI_TRIANGLE + FSAI_CANDIDATES;
// Entries of a row of A that a list can name.
constexpr i64 FSAI_ENTRIES = 1 << 22;

// One row. A member variable is the same in all lanes unless its comment says otherwise.
template <class T, class Numbers, class Keys, class Table> struct FsaiSmallRow {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    In<f64> diagonals;
    // The rows of L one behind the other, then the gradients of candidates.
    Numbers numbers;
    i64 first_number;
    // Columns k of candidates; ~k in the pattern.
    Keys keys;
    i64 first_key;
    // Candidates plus 1 by a hash of their columns; 0 for none.
    Table table;
    i64 first_slot_of_table;
    // Lists of entries: the place in the row of A times FSAI_CANDIDATES, plus the candidate. The first list is that of row i.
    Out<i32> lists;
    i64 i;
    T diagonal;
    T psi;
    int candidates;
    int count;
    int own_length;
    // Of the column of the pattern that a lane has: column, candidate, begin of its row of A, length of its list, y and g.
    i32 column;
    int candidate;
    i64 begin;
    int length;
    T y;
    T g;

    static DEVICE int begin_of(int row) { return row * (row + 1) / 2; }
    DEVICE T &l(int row, int t) const { return numbers[first_number + begin_of(row) + t]; }
    DEVICE T &gradient(int c) const { return numbers[first_number + FSAI_TRIANGLE + c]; }
    DEVICE i32 &key(int c) const { return keys[first_key + c]; }
    DEVICE i32 &slot(int s) const { return table[first_slot_of_table + s]; }

    // The candidate with column k, or -1.
    DEVICE int find(i32 k) const {
        int at = first_slot(k, FSAI_SLOTS);
        ROLLED
        while (true) {
            const i32 there = slot(at);
            if (there == 0) {
                return -1;
            }
            const i32 other = key(there - 1);
            if (other == k || other == ~k) {
                return there - 1;
            }
            at = (at + 1) & (FSAI_SLOTS - 1);
        }
    }

    // Adds a column that is not there.
    DEVICE void insert(i32 k, int c) const {
        int at = first_slot(k, FSAI_SLOTS);
        ROLLED
        while (atomic_swap_if(slot(at), 0, c + 1) != 0) {
            at = (at + 1) & (FSAI_SLOTS - 1);
        }
    }

    // Lists the entries of row r below i; their columns become candidates. Returns how many there are, -1 if there are too many.
    DEVICE int enlist(i64 r, int list) {
        const i64 from = offsets[r], end = offsets[r + 1];
        int listed = 0;
        ROLLED
        for (i64 base = from; base < end; base += FSAI_LANES) {
            const i64 e = base + Lanes::rank();
            const i32 k = e < end ? columns[e] : 0;
            const bool below = e < end && k < i;
            int c = below ? find(k) : -1;
            const u64 fresh = Lanes::ballot(below && c < 0);
            if (candidates + count_bits(fresh) > FSAI_CANDIDATES || base - from >= FSAI_ENTRIES) {
                return -1;
            }
            if (fresh != 0) {
                const bool is_new = below && c < 0;
                if (is_new) {
                    c = candidates + rank_among<FSAI_LANES>(fresh);
                    key(c) = k;
                    insert(k, c);
                }
                candidates += count_bits(fresh);
                Lanes::barrier();
            }
            const u64 all = Lanes::ballot(below);
            if (below) {
                lists[list * FSAI_CANDIDATES + listed + rank_among<FSAI_LANES>(all)] =
                    static_cast<i32>((e - from) * FSAI_CANDIDATES) + c;
            }
            listed += count_bits(all);
        }
        Lanes::barrier();
        return listed;
    }

    // Half of the gradient of psi for all candidates.
    DEVICE void find_gradients() const {
        ROLLED
        for (int c = Lanes::rank(); c < candidates; c += FSAI_LANES) {
            gradient(c) = 0;
        }
        Lanes::barrier();
        ROLLED
        for (int s = Lanes::rank(); s < own_length; s += FSAI_LANES) {
            const i32 entry = lists[s];
            gradient(entry & (FSAI_CANDIDATES - 1)) = values[offsets[i] + entry / FSAI_CANDIDATES];
        }
        Lanes::barrier();
        ROLLED
        for (int t = 0; t < count; ++t) {
            const T factor = Lanes::shuffle(g, t);
            const i64 from = Lanes::shuffle(begin, t);
            const int listed = Lanes::shuffle(length, t);
            ROLLED
            for (int s = Lanes::rank(); s < listed; s += FSAI_LANES) {
                const i32 entry = lists[(t + 1) * FSAI_CANDIDATES + s];
                gradient(entry & (FSAI_CANDIDATES - 1)) += times(values[from + entry / FSAI_CANDIDATES], factor);
            }
            Lanes::barrier();
        }
    }

    // The candidate with the largest decrease among the first `known`, or -1.
    DEVICE int best(int known) const {
        T most = 0;
        i32 of = 0;
        int found = -1;
        ROLLED
        for (int c = Lanes::rank(); c < known; c += FSAI_LANES) {
            const i32 k = key(c);
            if (k >= 0) {
                const T slope = gradient(c), decrease = times(slope, slope) / As<T>::of(diagonals[k]);
                if (decrease > 0 && fsai_is_finite(decrease) && (found < 0 || decrease > most || (decrease == most && k < of))) {
                    most = decrease;
                    of = k;
                    found = c;
                }
            }
        }
        UNROLL
        for (int step = FSAI_LANES / 2; step > 0; step /= 2) {
            const int other = Lanes::rank() ^ step;
            const T decrease = Lanes::shuffle(most, other);
            const i32 k = Lanes::shuffle(of, other);
            const int c = Lanes::shuffle(found, other);
            if (c >= 0 && (found < 0 || decrease > most || (decrease == most && k < of))) {
                most = decrease;
                of = k;
                found = c;
            }
        }
        return found;
    }

    // The entry of row i in the column of candidate c; 0 where it has none.
    DEVICE T coupling(int c) const {
        ROLLED
        for (int base = 0; base < own_length; base += FSAI_LANES) {
            const int s = base + Lanes::rank();
            const i32 entry = s < own_length ? lists[s] : -1;
            const u64 hit = Lanes::ballot(entry >= 0 && (entry & (FSAI_CANDIDATES - 1)) == c);
            if (hit != 0) {
                return values[offsets[i] + Lanes::shuffle(entry, lowest_bit(hit)) / FSAI_CANDIDATES];
            }
        }
        return 0;
    }

    // The couplings of a row of A with the columns of the pattern: that of its column in each lane.
    DEVICE T couplings(int list, i64 from, int listed) const {
        T mine = 0;
        ROLLED
        for (int base = 0; base < listed; base += FSAI_LANES) {
            const int s = base + Lanes::rank();
            const i32 entry = s < listed ? lists[list * FSAI_CANDIDATES + s] : 0;
            const int c = entry & (FSAI_CANDIDATES - 1);
            const bool is_known = s < listed && key(c) < 0;
            if (Lanes::ballot(is_known) != 0) {
                const T value = is_known ? values[from + entry / FSAI_CANDIDATES] : T(0);
                ROLLED
                for (int u = 0; u < count; ++u) {
                    const int wanted = Lanes::shuffle(candidate, u);
                    const u64 hit = Lanes::ballot(is_known && c == wanted);
                    if (hit != 0) {
                        const T found = Lanes::shuffle(value, lowest_bit(hit));
                        mine = Lanes::rank() == u ? found : mine;
                    }
                }
            }
        }
        return mine;
    }

    // Adds a candidate to the pattern: 1, 0 where A would not be positive definite on it, -1 where there is no room.
    DEVICE int append(int c) {
        const i32 k = key(c);
        const i64 from = offsets[k];
        const int listed = enlist(k, count + 1);
        if (listed < 0) {
            return -1;
        }
        const T own = As<T>::of(diagonals[k]);
        T x = couplings(count + 1, from, listed), pivot = own, rhs = -coupling(c);
        ROLLED
        for (int t = 0; t < count; ++t) {
            const T v = Lanes::shuffle(x, t) / l(t, t);
            pivot -= times(v, v);
            rhs -= times(v, Lanes::shuffle(y, t));
            if (Lanes::rank() == t) {
                x = v;
            } else if (Lanes::rank() > t && Lanes::rank() < count) {
                x -= times(v, l(Lanes::rank(), t));
            }
        }
        const T root = fsai_root(pivot), next = rhs / root, reduced = psi - times(next, next);
        const T smallest = As<T>::of(least);
        if (!(pivot > times(smallest, own)) || !(reduced > times(smallest, diagonal))) {
            return 0;
        }
        if (Lanes::rank() < count) {
            l(count, Lanes::rank()) = x;
        } else if (Lanes::rank() == count) {
            l(count, count) = root;
            key(c) = ~k;
            column = k;
            candidate = c;
            begin = from;
            length = listed;
            y = next;
        }
        psi = reduced;
        ++count;
        Lanes::barrier();
        return 1;
    }

    // Solves for g.
    DEVICE void solve() {
        g = y;
        ROLLED
        for (int t = count - 1; t >= 0; --t) {
            const T v = Lanes::shuffle(g, t) / l(t, t);
            if (Lanes::rank() == t) {
                g = v;
            } else if (Lanes::rank() < t) {
                g -= times(l(t, Lanes::rank()), v);
            }
        }
    }

    // 1, 0 where the row ended because A is not positive definite, -1 where there is no room.
    DEVICE int grow(int steps, int entries, f64 tolerance) {
        own_length = enlist(i, 0);
        if (own_length < 0) {
            return -1;
        }
        ROLLED
        for (int step = 0; step < steps; ++step) {
            find_gradients();
            const T before = psi;
            const int known = candidates;
            bool complete = true, is_definite = true;
            ROLLED
            for (int entry = 0; complete && entry < entries; ++entry) {
                const int c = best(known);
                const int added = c < 0 ? 1 : append(c);
                if (added < 0) {
                    return -1;
                }
                is_definite = added > 0;
                complete = c >= 0 && is_definite;
            }
            solve();
            if (!complete || !(to_f64(before - psi) > tolerance * to_f64(before))) {
                return is_definite ? 1 : 0;
            }
        }
        return 1;
    }

    // Writes the row with ascending columns from `to` on.
    DEVICE void write(i64 to, bool is_positive, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths) const {
        const T last = is_positive ? 1 / fsai_root(psi) : 0;
        int rank = 0;
        ROLLED
        for (int u = 0; u < count; ++u) {
            rank += Lanes::shuffle(column, u) < column ? 1 : 0;
        }
        if (Lanes::rank() < count) {
            to_columns[to + rank] = column;
            to_values[to + rank] = times(g, last);
        }
        if (Lanes::rank() == 0) {
            to_columns[to + count] = static_cast<i32>(i);
            to_values[to + count] = last;
            lengths[i] = count + 1;
        }
    }

    f64 least;
};

// As fsai_rows in kernels/fsai.cu, for a capacity of at most FSAI_COLUMNS. Rows with too many candidates get the length 0 and are
// counted.
template <class T>
DEVICE void fsai_small_rows(i64 rows, int groups, int steps, int entries, int capacity, f64 tolerance, f64 smallest,
                            const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<f64> &diagonals,
                            const Out<i32> &lists, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths,
                            const Out<i32> &counts) {
    SHARED(T, numbers, FSAI_TEAMS * FSAI_NUMBERS);
    SHARED(i32, keys, FSAI_TEAMS * FSAI_CANDIDATES);
    SHARED(i32, table, FSAI_TEAMS * FSAI_SLOTS);
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const i64 team = thread_index() / FSAI_LANES;
    const i64 length = static_cast<i64>(FSAI_COLUMNS + 1) * FSAI_CANDIDATES;
    const Out<i32> own_lists{lists.data + group * length, length};
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        ROLLED
        for (int s = Lanes::rank(); s < FSAI_SLOTS; s += FSAI_LANES) {
            table[team * FSAI_SLOTS + s] = 0;
        }
        Lanes::barrier();
        const T diagonal = As<T>::of(diagonals[i]);
        const bool is_positive = fsai_is_positive(diagonal);
        FsaiSmallRow<T, decltype(numbers) &, decltype(keys) &, decltype(table) &> row{
            offsets, columns, values, diagonals, numbers, team * FSAI_NUMBERS, keys, team * FSAI_CANDIDATES, table,
            team * FSAI_SLOTS, own_lists, i, diagonal, diagonal, 0, 0, 0, 0, 0, 0, 0, 0, 0, smallest};
        const int outcome = is_positive ? row.grow(steps, entries, tolerance) : 0;
        if (Lanes::rank() == 0 && outcome <= 0) {
            atomic_add(counts[outcome < 0 ? 1 : 0], 1);
        }
        if (outcome >= 0) {
            row.write(i * (capacity + 1), is_positive, to_columns, to_values, lengths);
        } else if (Lanes::rank() == 0) {
            lengths[i] = 0;
        }
        Lanes::barrier();
    }
}

#define FSAI_SMALL(T) \
    KERNEL(fsai_small_##T, i64 rows, i32 groups, i32 steps, i32 entries, i32 capacity, f64 tolerance, f64 smallest, In<i64> offsets, \
           In<i32> columns, In<T> values, In<f64> diagonals, Out<i32> lists, Out<i32> to_columns, Out<T> to_values, Out<i32> lengths, \
           Out<i32> counts) { \
        fsai_small_rows<T>(rows, groups, steps, entries, capacity, tolerance, smallest, offsets, columns, values, diagonals, lists, \
                           to_columns, to_values, lengths, counts); \
    }
FOR_SETUP(FSAI_SMALL)

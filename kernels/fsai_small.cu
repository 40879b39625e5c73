// FSAI with adaptive patterns for rows with few candidates; see src/host/fsai/adaptive.rs. 32 lanes compute a row, and go on
// with a later one. Candidates and the Cholesky factor are in shared memory, what belongs to a column of the pattern in the
// registers of a lane. For each row of A that was added, lists in global memory hold its entries below i and which candidates they
// are, so that a column is searched once. Loads are issued ahead of their use: a row has nothing else to hide their latency.
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
// Candidates of a lane.
constexpr int FSAI_OWN = FSAI_CANDIDATES / FSAI_LANES;
// Entries of a row whose loads a lane issues together.
constexpr int FSAI_BATCH = 4;

// One row. A member variable is the same in all lanes unless its comment says otherwise.
template <class T, class Numbers, class Keys, class Table> struct FsaiSmallRow {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    In<f64> diagonals;
    // The rows of L without the diagonal one behind the other, then the gradients of candidates.
    Numbers numbers;
    int first_number;
    // Columns k of candidates; ~k in the pattern.
    Keys keys;
    int first_key;
    // Candidates plus 1 by a hash of their columns; 0 for none.
    Table table;
    int first_slot_of_table;
    // Lists of entries: candidates and values. The first list is that of row i.
    Out<i32> lists;
    Out<T> list_values;
    i64 i;
    T diagonal;
    T psi;
    f64 least;
    int candidates;
    int count;
    int own_length;
    // Candidates whose gradients are known.
    int known;
    // Of the column of the pattern that a lane has: column, candidate, length of its list, y, g, the inverse of the diagonal of L,
    // and the coupling with the next column.
    i32 column;
    int candidate;
    int length;
    T y;
    T g;
    T inverse;
    T x;
    // Inverses of the diagonals of the candidates of a lane.
    T inverse_of[FSAI_OWN];

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

    // Lists the entries of row r below i; their columns become candidates. The couplings with the columns of the pattern go to the
    // lanes that have them. Returns how many entries there are, -1 if there are too many.
    DEVICE int enlist(i64 r, int list) {
        const i64 from = offsets[r], end = offsets[r + 1];
        int listed = 0;
        x = 0;
        ROLLED
        for (i64 base = from + Lanes::rank(); base - Lanes::rank() < end; base += FSAI_BATCH * FSAI_LANES) {
            i32 k[FSAI_BATCH];
            T v[FSAI_BATCH];
            UNROLL
            for (int b = 0; b < FSAI_BATCH; ++b) {
                const i64 e = base + b * FSAI_LANES;
                k[b] = e < end ? columns[e] : static_cast<i32>(i);
                v[b] = e < end ? values[e] : T(0);
            }
            UNROLL
            for (int b = 0; b < FSAI_BATCH; ++b) {
                const bool below = k[b] < i;
                const u64 all = Lanes::ballot(below);
                if (all != 0) {
                    int c = below ? find(k[b]) : -1;
                    const u64 fresh = Lanes::ballot(below && c < 0);
                    if (candidates + count_bits(fresh) > FSAI_CANDIDATES) {
                        return -1;
                    }
                    if (fresh != 0) {
                        if (below && c < 0) {
                            c = candidates + rank_among<FSAI_LANES>(fresh);
                            key(c) = k[b];
                            insert(k[b], c);
                        }
                        candidates += count_bits(fresh);
                        Lanes::barrier();
                    }
                    u64 hits = Lanes::ballot(below && key(below ? c : 0) < 0);
                    ROLLED
                    for (; hits != 0; hits &= hits - 1) {
                        const int hit = lowest_bit(hits), of = Lanes::shuffle(c, hit);
                        const T coupled = Lanes::shuffle(v[b], hit);
                        x = Lanes::rank() < count && candidate == of ? coupled : x;
                    }
                    if (below) {
                        const int at = list * FSAI_CANDIDATES + listed + rank_among<FSAI_LANES>(all);
                        lists[at] = c;
                        list_values[at] = v[b];
                    }
                    listed += count_bits(all);
                }
            }
        }
        Lanes::barrier();
        return listed;
    }

    // Two entries of a list for each lane, of which there may be none.
    struct Ahead {
        int first, second;
        T first_value, second_value;
    };

    DEVICE Ahead load(int list, int listed, int s) const {
        const int at = list * FSAI_CANDIDATES + s;
        const bool has_first = s < listed, has_second = s + FSAI_LANES < listed;
        return {has_first ? lists[at] : -1, has_second ? lists[at + FSAI_LANES] : -1, has_first ? list_values[at] : T(0),
                has_second ? list_values[at + FSAI_LANES] : T(0)};
    }

    // Half of the gradient of psi for all candidates.
    DEVICE void find_gradients() {
        UNROLL
        for (int j = 0; j < FSAI_OWN; ++j) {
            const int c = Lanes::rank() + j * FSAI_LANES;
            if (c < candidates) {
                gradient(c) = 0;
                if (c >= known) {
                    inverse_of[j] = 1 / As<T>::of(diagonals[key(c)]);
                }
            }
        }
        known = candidates;
        Lanes::barrier();
        ROLLED
        for (int s = Lanes::rank(); s < own_length; s += FSAI_LANES) {
            gradient(lists[s]) = list_values[s];
        }
        int listed = Lanes::shuffle(length, 0);
        Ahead next = load(1, count > 0 ? listed : 0, Lanes::rank());
        Lanes::barrier();
        ROLLED
        for (int t = 0; t < count; ++t) {
            const T factor = Lanes::shuffle(g, t);
            const int now = listed;
            Ahead entries = next;
            listed = Lanes::shuffle(length, (t + 1) % FSAI_LANES);
            next = load(t + 2, t + 1 < count ? listed : 0, Lanes::rank());
            ROLLED
            for (int s = Lanes::rank(); s < now; s += 2 * FSAI_LANES) {
                if (s != Lanes::rank()) {
                    entries = load(t + 1, now, s);
                }
                gradient(entries.first) += times(entries.first_value, factor);
                if (entries.second >= 0) {
                    gradient(entries.second) += times(entries.second_value, factor);
                }
            }
            Lanes::barrier();
        }
    }

    // The candidate with the largest decrease among those whose gradients are known, or -1.
    DEVICE int best() const {
        FsaiBest<T> best;
        UNROLL
        for (int j = 0; j < FSAI_OWN; ++j) {
            const int c = Lanes::rank() + j * FSAI_LANES;
            const i32 k = c < known ? key(c) : -1;
            if (k >= 0) {
                const T slope = gradient(c);
                best.offer(times(times(slope, slope), inverse_of[j]), k, c);
            }
        }
        return best.of_all();
    }

    // The entry of row i in the column of candidate c; 0 where it has none.
    DEVICE T coupling(int c) const {
        ROLLED
        for (int base = 0; base < own_length; base += FSAI_LANES) {
            const int s = base + Lanes::rank();
            const int listed = s < own_length ? lists[s] : -1;
            const T value = s < own_length ? list_values[s] : T(0);
            const u64 hit = Lanes::ballot(listed == c);
            if (hit != 0) {
                return Lanes::shuffle(value, lowest_bit(hit));
            }
        }
        return 0;
    }

    // Adds a candidate to the pattern: 1, 0 where A would not be positive definite on it, -1 where the capacity is exceeded.
    DEVICE int append(int c) {
        const i32 k = key(c);
        const T own = As<T>::of(diagonals[k]), of_i = coupling(c);
        const int listed = enlist(k, count + 1);
        if (listed < 0) {
            return -1;
        }
        T pivot = own, rhs = -of_i;
        ROLLED
        for (int t = 0; t < count; ++t) {
            const T v = Lanes::shuffle(times(x, inverse), t);
            pivot -= times(v, v);
            rhs -= times(v, Lanes::shuffle(y, t));
            if (Lanes::rank() == t) {
                x = v;
            } else if (Lanes::rank() > t && Lanes::rank() < count) {
                x -= times(v, l(Lanes::rank(), t));
            }
        }
        const T of_pivot = 1 / fsai_root(pivot), next = times(rhs, of_pivot), reduced = psi - times(next, next);
        const T smallest = As<T>::of(least);
        if (!(pivot > times(smallest, own)) || !(reduced > times(smallest, diagonal))) {
            return 0;
        }
        if (Lanes::rank() < count) {
            l(count, Lanes::rank()) = x;
        } else if (Lanes::rank() == count) {
            inverse = of_pivot;
            key(c) = ~k;
            column = k;
            candidate = c;
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
            const T v = Lanes::shuffle(times(g, inverse), t);
            if (Lanes::rank() == t) {
                g = v;
            } else if (Lanes::rank() < t) {
                g -= times(l(t, Lanes::rank()), v);
            }
        }
    }

    // 1, 0 where the row ended because A is not positive definite, -1 where the capacity is exceeded.
    DEVICE int grow(int steps, int entries, f64 tolerance) {
        own_length = enlist(i, 0);
        if (own_length < 0) {
            return -1;
        }
        ROLLED
        for (int step = 0; step < steps; ++step) {
            find_gradients();
            const T before = psi;
            bool complete = true, is_definite = true;
            ROLLED
            for (int entry = 0; complete && entry < entries; ++entry) {
                const int c = best();
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
};

// As fsai_rows in kernels/fsai.cu, for a capacity of at most FSAI_COLUMNS. Rows with too many candidates get the length 0 and are
// counted.
template <class T>
DEVICE void fsai_small_rows(i64 rows, int groups, int steps, int entries, int capacity, f64 tolerance, f64 smallest,
                            const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const In<f64> &diagonals,
                            const Out<i32> &lists, const Out<T> &list_values, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths,
                            const Out<i32> &counts) {
    SHARED(T, numbers, FSAI_TEAMS * FSAI_NUMBERS);
    SHARED(i32, keys, FSAI_TEAMS * FSAI_CANDIDATES);
    SHARED(i32, table, FSAI_TEAMS * FSAI_SLOTS);
    const i64 group = global_index() / FSAI_LANES;
    if (group >= groups) {
        return;
    }
    const int team = thread_index() / FSAI_LANES;
    const i64 length = static_cast<i64>(FSAI_COLUMNS + 1) * FSAI_CANDIDATES;
    const Out<i32> own_lists{lists.data + group * length, length};
    const Out<T> own_values{list_values.data + group * length, length};
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
            team * FSAI_SLOTS, own_lists, own_values, i, diagonal, diagonal, smallest};
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
    KERNEL_OF(4, fsai_small_##T, i64 rows, i32 groups, i32 steps, i32 entries, i32 capacity, f64 tolerance, f64 smallest, In<i64> offsets, \
           In<i32> columns, In<T> values, In<f64> diagonals, Out<i32> lists, Out<T> list_values, Out<i32> to_columns, Out<T> to_values, Out<i32> lengths, \
           Out<i32> counts) { \
        fsai_small_rows<T>(rows, groups, steps, entries, capacity, tolerance, smallest, offsets, columns, values, diagonals, lists, \
                           list_values, to_columns, to_values, lengths, counts); \
    }
FOR_SETUP(FSAI_SMALL)

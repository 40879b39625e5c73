// FSAI with adaptive patterns of blocks; see src/host/fsai/adaptive.rs. 32 lanes compute a block row, and go on with a later one.
// For each block row of A that was added, a list tells where each candidate is in it, so that a column is searched once. Lists and the
// Cholesky factor are in shared memory, or in global memory where they do not fit.
#include "fsai_blocks.h"

template <class T, int N, bool TOLD, class Numbers, class Keys, class Positions> struct FsaiBlockRow {
    In<i64> offsets;
    In<i32> columns;
    In<T> values;
    // Inverses of the diagonal, one for each scalar row.
    In<T> inverses;
    FsaiBlockSystem<T, N, TOLD, Numbers> system;
    // Decreases of candidates.
    i64 first_decrease;
    // Columns k of candidates, ~k in the pattern; then the candidates of the pattern.
    Keys keys;
    i64 first_key;
    // Lists: for each candidate its position in a row of A from 1 on, 0 where it is not there. The first list is that of row i.
    Positions positions;
    i64 first_position;
    // Most candidates, most columns of the pattern, and most entries of a row of A.
    int most;
    int capacity;
    int longest;
    int candidates;
    // Candidates whose decreases are known.
    int known;

    DEVICE T &decrease(int c) const { return system.numbers[first_decrease + c]; }
    DEVICE i32 &key(int c) const { return keys[first_key + c]; }
    DEVICE i32 &candidate_of(int t) const { return keys[first_key + most + t]; }
    DEVICE auto &position(int list, int c) const { return positions[first_position + static_cast<i64>(list) * most + c]; }
    // Where the block of candidate c begins in row r, whose list this is; -1 where there is none.
    DEVICE i64 block_of(i64 r, int list, int c) const {
        const int at = position(list, c);
        return at == 0 ? -1 : (offsets[r] + at - 1) * (system.n() * system.n());
    }

    // Lists the entries of row r before i; their columns become candidates. False where the capacity is exceeded.
    DEVICE bool enlist(i64 r, int list) {
        const i64 from = offsets[r], end = offsets[r + 1];
        if (end - from > longest) {
            return false;
        }
        ROLLED
        for (i64 base = from; base < end; base += FSAI_LANES) {
            const i64 e = base + Lanes::rank();
            const i32 k = e < end ? columns[e] : static_cast<i32>(system.i);
            const bool before = k < system.i;
            if (Lanes::ballot(before) == 0) {
                continue;
            }
            int c = -1;
            ROLLED
            for (int j = 0; j < candidates; ++j) {
                const i32 other = key(j);
                c = other == k || other == ~k ? j : c;
            }
            const u64 fresh = Lanes::ballot(before && c < 0);
            const int more = count_bits(fresh);
            if (candidates + more > most) {
                return false;
            }
            Lanes::barrier();
            if (before && c < 0) {
                c = candidates + rank_among<FSAI_LANES>(fresh);
                key(c) = k;
                ROLLED
                for (int other = 0; other <= capacity; ++other) {
                    position(other, c) = 0;
                }
            }
            if (before) {
                position(list, c) = static_cast<int>(e - from) + 1;
            }
            candidates += more;
            Lanes::barrier();
        }
        return true;
    }

    // The first-order decrease of log det psi for each candidate.
    DEVICE void find_decreases() {
        const int n = system.n();
        T weights[N];
        UNROLL_SMALL
        for (int s = 0; s < n; ++s) {
            weights[s] = s == 0 ? T(1) : times(system.d[0], system.inverses[s]);
        }
        ROLLED
        for (int c = Lanes::rank(); c < candidates; c += FSAI_LANES) {
            const i32 k = key(c);
            T sum = 0;
            if (k >= 0) {
                T gradient[N][N];
                const i64 own = block_of(system.i, 0, c);
                UNROLL_SMALL
                for (int r = 0; r < n; ++r) {
                    UNROLL_SMALL
                    for (int s = 0; s < n; ++s) {
                        gradient[r][s] = own < 0 ? T(0) : values[own + s * n + r];
                    }
                }
                ROLLED
                for (int t = 0; t < system.count; ++t) {
                    const i64 at = block_of(~key(candidate_of(t)), t + 1, c);
                    if (at >= 0) {
                        UNROLL_SMALL
                        for (int q = 0; q < n; ++q) {
                            UNROLL_SMALL
                            for (int r = 0; r < n; ++r) {
                                const T v = values[at + q * n + r];
                                UNROLL_SMALL
                                for (int s = 0; s < n; ++s) {
                                    gradient[r][s] += times(v, system.g(t * n + q, s));
                                }
                            }
                        }
                    }
                }
                UNROLL_SMALL
                for (int r = 0; r < n; ++r) {
                    const T inverse = inverses[static_cast<i64>(k) * n + r];
                    system.solve_unit(gradient[r]);
                    UNROLL_SMALL
                    for (int s = 0; s < n; ++s) {
                        sum += times(times(times(gradient[r][s], gradient[r][s]), inverse), weights[s]);
                    }
                }
            }
            decrease(c) = sum;
        }
        known = candidates;
        Lanes::barrier();
    }

    // The candidate with the largest decrease among those whose decreases are known, or -1.
    DEVICE int best() const {
        FsaiBest<T> best;
        ROLLED
        for (int c = Lanes::rank(); c < known; c += FSAI_LANES) {
            const i32 k = key(c);
            if (k >= 0) {
                best.offer(decrease(c), k, c);
            }
        }
        return best.of_all();
    }

    // Adds a candidate to the pattern: 1, 0 where A would not be positive definite on it, -1 where the capacity is exceeded.
    DEVICE int append(int c) {
        const i32 k = key(c);
        const int n = system.n(), count = system.count, m = count * n;
        if (!enlist(k, count + 1)) {
            return -1;
        }
        ROLLED
        for (int at = Lanes::rank(); at < m * n; at += FSAI_LANES) {
            const int t = at / (n * n), r = at / n % n, q = at % n;
            const i64 block = block_of(k, count + 1, candidate_of(t));
            system.l(m + r, t * n + q) = block < 0 ? T(0) : values[block + r * n + q];
        }
        const i64 own = block_of(system.i, 0, c);
        ROLLED
        for (int at = Lanes::rank(); at < n * n; at += FSAI_LANES) {
            const int r = at / n, s = at % n;
            system.y(m + r, s) = own < 0 ? T(0) : values[own + s * n + r];
        }
        if (!system.append(k)) {
            return 0;
        }
        if (Lanes::rank() == 0) {
            key(c) = ~k;
            candidate_of(count) = c;
        }
        Lanes::barrier();
        return 1;
    }

    // 1, 0 where the row ended because A is not positive definite, -1 where the capacity is exceeded.
    DEVICE int grow(int steps, int entries, f64 tolerance) {
        candidates = known = 0;
        if (!enlist(system.i, 0)) {
            return -1;
        }
        ROLLED
        for (int step = 0; step < steps; ++step) {
            find_decreases();
            T before[N];
            UNROLL_SMALL
            for (int s = 0; s < system.n(); ++s) {
                before[s] = system.d[s];
            }
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
            system.solve();
            bool falls = false;
            UNROLL_SMALL
            for (int s = 0; s < system.n(); ++s) {
                falls = falls || to_f64(before[s] - system.d[s]) > tolerance * to_f64(before[s]);
            }
            if (!complete || !falls) {
                return is_definite ? 1 : 0;
            }
        }
        return 1;
    }

    // Writes the row with ascending columns from block `to` on.
    DEVICE void write(i64 to, const Out<i32> &to_columns, const Out<T> &to_values, const Out<i32> &lengths) const {
        const int count = system.count, n = system.n();
        ROLLED
        for (int at = Lanes::rank(); at < (count + 1) * n; at += FSAI_LANES) {
            const int t = at / n, q = at % n;
            const i32 column = t < count ? ~key(candidate_of(t)) : static_cast<i32>(system.i);
            int rank = 0;
            ROLLED
            for (int other = 0; other < count; ++other) {
                rank += ~key(candidate_of(other)) < column ? 1 : 0;
            }
            if (q == 0) {
                to_columns[to + rank] = column;
            }
            system.write(t, q, to_values, (to + rank) * (n * n));
        }
        if (Lanes::rank() == 0) {
            lengths[system.i] = count + 1;
        }
    }
};

// Block rows of at most `capacity` blocks beside the diagonal, written at a stride of one more; with `left` those without a length. Rows
// that exceed it get the length 0 and are counted.
template <class T, int N, bool TOLD, class Numbers, class Keys, class Positions>
DEVICE void fsai_block_rows(i64 rows, i64 group, i64 groups, int n, int left, int steps, int entries, int capacity, int most, int longest,
                            f64 tolerance, f64 smallest, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                            const In<T> &diagonals, const In<T> &inverses, Numbers numbers, i64 first_number, Keys keys, i64 first_key,
                            Positions positions, i64 first_position, const Out<i32> &to_columns, const Out<T> &to_values,
                            const Out<i32> &lengths, const Out<i32> &counts) {
    ROLLED
    for (i64 i = group; i < rows; i += groups) {
        if (left && lengths[i] != 0) {
            continue;
        }
        const i64 size = fsai_block_system_size(capacity * n, n);
        FsaiBlockRow<T, N, TOLD, Numbers, Keys, Positions> row{
            offsets, columns, values, inverses,
            FsaiBlockSystem<T, N, TOLD, Numbers>{numbers, first_number, diagonals, n, capacity * n, As<T>::of(smallest), i},
            first_number + size, keys, first_key, positions, first_position, most, capacity, longest};
        const i64 to = i * (capacity + 1);
        if (!row.system.begin()) {
            row.system.write_diagonal(to_values, to * (n * n));
            if (Lanes::rank() == 0) {
                to_columns[to] = static_cast<i32>(i);
                lengths[i] = 1;
                atomic_add(counts[0], n);
            }
            continue;
        }
        const int outcome = row.grow(steps, entries, tolerance);
        if (Lanes::rank() == 0 && outcome <= 0) {
            atomic_add(counts[outcome < 0 ? 1 : 0], outcome < 0 ? 1 : n);
        }
        if (outcome >= 0) {
            row.write(to, to_columns, to_values, lengths);
        } else if (Lanes::rank() == 0) {
            lengths[i] = 0;
        }
        Lanes::barrier();
    }
}

// Sizes of what a team of lanes has in shared memory: scalar columns, candidates, columns of the pattern, and teams of a block of threads.
template <int SCALARS, int CANDIDATES, int COLUMNS, int TEAMS> struct FsaiCapacity {
    static constexpr int scalars = SCALARS, candidates = CANDIDATES, columns = COLUMNS, teams = TEAMS;
    template <int N> static constexpr int NUMBERS = SCALARS * (SCALARS + 1) / 2 + 2 * SCALARS * N + CANDIDATES;
};

template <class T, int N, bool TOLD, class Capacity>
DEVICE void fsai_blocks_in_shared(i64 rows, int groups, int n, int left, int steps, int entries, int capacity, f64 tolerance,
                                  f64 smallest, const In<i64> &offsets, const In<i32> &columns, const In<T> &values,
                                  const In<T> &diagonals, const In<T> &inverses, const Out<i32> &to_columns, const Out<T> &to_values,
                                  const Out<i32> &lengths, const Out<i32> &counts) {
    constexpr int NUMBERS = Capacity::template NUMBERS<N>;
    constexpr int KEYS = Capacity::candidates + Capacity::columns, POSITIONS = (Capacity::columns + 1) * Capacity::candidates;
    SHARED(T, numbers, Capacity::teams * NUMBERS);
    SHARED(i32, keys, Capacity::teams * KEYS);
    SHARED(u8, positions, Capacity::teams * POSITIONS);
    const int team = thread_index() / FSAI_LANES;
    const i64 group = block_index() * Capacity::teams + team;
    if (team >= Capacity::teams || group >= groups) {
        return;
    }
    fsai_block_rows<T, N, TOLD, decltype(numbers) &, decltype(keys) &, decltype(positions) &>(
        rows, group, groups, n, left, steps, entries, capacity, Capacity::candidates, 255, tolerance, smallest, offsets, columns, values,
        diagonals, inverses, numbers, team * NUMBERS, keys, team * KEYS, positions, team * POSITIONS, to_columns, to_values, lengths, counts);
}

#define FSAI_SHARED(name, T, N, TOLD, ...) \
    KERNEL_OF(2, name##_##T, i64 rows, i32 groups, i32 n, i32 left, i32 steps, i32 entries, i32 capacity, f64 tolerance, f64 smallest, \
           In<i64> offsets, In<i32> columns, In<T> values, In<T> diagonals, In<T> inverses, Out<i32> to_columns, Out<T> to_values, \
           Out<i32> lengths, Out<i32> counts) { \
        fsai_blocks_in_shared<T, N, TOLD, FsaiCapacity<__VA_ARGS__>>(rows, groups, n, left, steps, entries, capacity, tolerance, smallest, offsets, \
                                                           columns, values, diagonals, inverses, to_columns, to_values, lengths, counts); \
    }
// As in src/gpu/setup/fsai/blocks.rs.
#define FSAI_SHARED_3(T) FSAI_SHARED(fsai_blocks_3, T, 3, false, 30, 112, 10, 6)
#define FSAI_SHARED_ANY(T) FSAI_SHARED(fsai_blocks_any, T, FSAI_MAX_BLOCK, true, 48, 192, 20, 2)
FOR_SETUP(FSAI_SHARED_3)
FOR_SETUP(FSAI_SHARED_ANY)

// The same in global memory, for any number of columns and candidates.
#define FSAI_BLOCKS_GLOBAL(T) \
    KERNEL(fsai_blocks_global_##T, i64 rows, i32 groups, i32 n, i32 left, i32 steps, i32 entries, i32 capacity, i32 most, \
           f64 tolerance, f64 smallest, In<i64> offsets, In<i32> columns, In<T> values, In<T> diagonals, In<T> inverses, \
           Out<T> numbers, Out<i32> keys, Out<i32> positions, Out<i32> to_columns, Out<T> to_values, Out<i32> lengths, Out<i32> counts) { \
        const i64 group = global_index() / FSAI_LANES; \
        if (group >= groups) { \
            return; \
        } \
        fsai_block_rows<T, FSAI_MAX_BLOCK, true, Out<T>, Out<i32>, Out<i32>>( \
            rows, group, groups, n, left, steps, entries, capacity, most, FSAI_NO_COLUMN, tolerance, smallest, offsets, columns, values, \
            diagonals, inverses, numbers, group * (fsai_block_system_size(capacity * n, n) + most), keys, \
            group * (most + capacity), positions, group * (static_cast<i64>(capacity) + 1) * most, to_columns, to_values, lengths, counts); \
    }
FOR_SETUP(FSAI_BLOCKS_GLOBAL)

// Diagonal blocks, and the inverses of their diagonals; zero blocks where there is none.
template <class T>
DEVICE void fsai_diagonals(i64 rows, int n, const In<i64> &offsets, const In<i32> &columns, const In<T> &values, const Out<T> &diagonals,
                           const Out<T> &inverses) {
    const i64 i = global_index() / FSAI_LANES;
    if (i >= rows) {
        return;
    }
    i64 found = -1;
    ROLLED
    for (i64 base = offsets[i]; base < offsets[i + 1] && found < 0; base += FSAI_LANES) {
        const i64 e = base + Lanes::rank();
        const u64 hit = Lanes::ballot(e < offsets[i + 1] && columns[e] == i);
        found = hit == 0 ? -1 : base + lowest_bit(hit);
    }
    ROLLED
    for (int at = Lanes::rank(); at < n * n; at += FSAI_LANES) {
        const T v = found < 0 ? T(0) : values[found * n * n + at];
        diagonals[i * n * n + at] = v;
        if (at % (n + 1) == 0) {
            inverses[i * n + at / n] = 1 / v;
        }
    }
}

#define FSAI_DIAGONALS(T) \
    KERNEL(fsai_diagonals_##T, i64 rows, i32 n, In<i64> offsets, In<i32> columns, In<T> values, Out<T> diagonals, Out<T> inverses) { \
        fsai_diagonals<T>(rows, n, offsets, columns, values, diagonals, inverses); \
    }
FOR_SETUP(FSAI_DIAGONALS)

// Compacts block rows that were written at a stride. A warp has a row.
#define FSAI_GATHER(T) \
    KERNEL(fsai_gather_##T, i64 rows, i32 stride, i32 size, In<i32> columns, In<T> values, In<i64> to_offsets, Out<i32> to_columns, \
           Out<T> to_values) { \
        const i64 i = global_index() / FSAI_LANES; \
        if (i >= rows) { \
            return; \
        } \
        const i64 from = i * stride, to = to_offsets[i]; \
        const int count = static_cast<int>(to_offsets[i + 1] - to); \
        ROLLED \
        for (int t = Lanes::rank(); t < count; t += FSAI_LANES) { \
            to_columns[to + t] = columns[from + t]; \
        } \
        ROLLED \
        for (int at = Lanes::rank(); at < count * size; at += FSAI_LANES) { \
            to_values[to * size + at] = values[from * size + at]; \
        } \
    }
FOR_SETUP(FSAI_GATHER)

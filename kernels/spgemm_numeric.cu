// Numeric phase of SpGEMM of scalars, C = A B, with the positions that the symbolic phase stored
// (spgemm_symbolic.cu): for each product a_ik b_kj the position of its sum in row i of C. It does no searching, and
// reads no columns of B and C. Rows of B are padded to chunks of four entries, as in the host's symbolic data. For
// each a_ik and each chunk of row k of B a word W holds four positions: a byte each, or 16 bits each where rows of C
// are long.
//
// A team of L lanes computes one row of C with its sums in shared memory. It takes the entries a_ik one after the
// other, so that products are added in the order of the host. The four products of a chunk belong to different sums.
#include "spgemm_numeric.h"

// Row k of B begins with chunk chunks[k]; without such an array every row is one chunk. The position words of row i
// begin at begins[i]; without such an array where the row of A begins.
template <class T, class W> struct NumericFactors {
    In<i64> offsets;
    In<i32> columns;
    In<T> left;
    In<i32> chunks;
    Out<T> right;
    In<i64> begins;
    In<W> words;
};

// Output rows begin at offsets[i], or with chunk chunks[i] and are padded with zeros. With `fill` a zero on the
// diagonal becomes a one; columns are present only then.
template <class T> struct NumericOutput {
    In<i64> offsets;
    In<i32> chunks;
    In<i32> columns;
    Out<T> values;
    bool fill;
    DEVICE i64 begin(i64 row) const { return chunks.len > 0 ? static_cast<i64>(chunks[row]) * CHUNK : offsets[row]; }
};

// Loads COUNT neighbouring values.
template <int COUNT, class T> DEVICE void load_neighbours(const Out<T> &from, i64 at, T *to) {
    constexpr int AT_ONCE = 16 / sizeof(T) < COUNT ? 16 / sizeof(T) : COUNT;
    UNROLL
    for (int e = 0; e < COUNT; e += AT_ONCE) {
        const Pack<T, AT_ONCE> pack = from.template pack<AT_ONCE>(at + e);
        UNROLL
        for (int n = 0; n < AT_ONCE; ++n) {
            to[e + n] = pack.of[n];
        }
    }
}

// The sum at `position` of this team in shared memory. Sum s belongs to lane s % L. There are no bank conflicts
// within a warp.
template <int L> DEVICE int sum_of(u32 position) {
    return static_cast<int>(position) / L * BLOCK + (thread_index() & ~(L - 1)) + static_cast<int>(position) % L;
}

// Adds x b for COUNT products of a chunk, from entry `first` of the chunk on.
template <int L, int COUNT, class T, class W, class Sums> DEVICE void add_products(Sums &sums, W word, int first, T x, const T *b) {
    T sum[COUNT];
    UNROLL
    for (int e = 0; e < COUNT; ++e) {
        const u32 position = Positions<W>::position(word, first + e);
        sum[e] = position != Positions<W>::PADDING ? sums[sum_of<L>(position)] : T(0);
    }
    UNROLL
    for (int e = 0; e < COUNT; ++e) {
        const u32 position = Positions<W>::position(word, first + e);
        if (position != Positions<W>::PADDING) {
            sums[sum_of<L>(position)] = sum[e] + times(x, b[e]);
        }
    }
}

// Every row of B is one chunk, whose entries the lanes of the team share.
template <int L, class T, class W, class Sums> DEVICE void add_single_chunks(const NumericFactors<T, W> &f, bool is_row, i64 row, Sums &sums) {
    constexpr int COUNT = L < CHUNK ? CHUNK / L : 1;
    const i64 end = is_row ? f.offsets[row + 1] : 0;
    const int first = Tile<L>::rank() * COUNT;
    const bool works = L <= CHUNK || first < CHUNK;
    struct Entry {
        i32 column;
        W word;
        T x;
    };
    const auto entry = [&](i64 k) {
        return works && k < end ? Entry{f.columns[k], f.words[k], f.left[k]} : Entry{0, Positions<W>::ALL_PADDING, T(0)};
    };
    const auto load = [&](i64 k, const Entry &entry, T *b) {
        if (works && k < end) {
            load_neighbours<COUNT>(f.right, static_cast<i64>(entry.column) * CHUNK + first, b);
        }
    };
    i64 k = is_row ? f.offsets[row] : 0;
    Entry now = entry(k), next = entry(k + 1);
    T b[COUNT] = {}, ahead[COUNT] = {};
    load(k, now, b);
    for (; Tile<L>::any(k < end); ++k) {
        const Entry later = entry(k + 2);
        load(k + 1, next, ahead);
        // Lanes beyond the last entry of a chunk have no product.
        if (works) {
            add_products<L, COUNT>(sums, now.word, first, now.x, b);
        }
        if constexpr (L > 1) {
            Tile<L>::barrier();
        }
        now = next;
        next = later;
        UNROLL
        for (int e = 0; e < COUNT; ++e) {
            b[e] = ahead[e];
        }
    }
}

// The same for long rows of A: neighbouring lanes load STAGED_ENTRIES neighbouring entries of a row into shared
// memory, in fewer transactions than one read by each team. The exclusive-or of team and entry avoids bank conflicts.
constexpr int STAGED_ENTRIES = 8;
template <int L, class T, class Sums, class Columns, class Words, class Lefts>
DEVICE void add_staged_chunks(const NumericFactors<T, u32> &f, bool is_row, i64 row, Sums &sums, Columns &columns, Words &words, Lefts &lefts) {
    static_assert(L <= CHUNK, "each lane has a part of a chunk");
    constexpr int COUNT = CHUNK / L, TEAMS = BLOCK / L, PARTS = STAGED_ENTRIES / L;
    const int team = thread_index() / L, first = Tile<L>::rank() * COUNT;
    const int warp = thread_index() / WARP * (WARP / L), lane = thread_index() % WARP;
    const i64 begin = is_row ? f.offsets[row] : 0;
    const int length = is_row ? static_cast<int>(f.offsets[row + 1] - begin) : 0;
    // This lane loads entry (part * WARP + lane) % STAGED_ENTRIES of a team of this warp.
    const int its_entry = lane % STAGED_ENTRIES;
    i64 its_begin[PARTS];
    int its_length[PARTS], its_team[PARTS];
    UNROLL
    for (int part = 0; part < PARTS; ++part) {
        const int which = (part * WARP + lane) / STAGED_ENTRIES;
        its_team[part] = warp + which;
        its_begin[part] = shuffle(begin, which * L);
        its_length[part] = shuffle(length, which * L);
    }
    i32 column[PARTS] = {};
    u32 word[PARTS] = {};
    T left[PARTS] = {};
    const auto load = [&](int base) {
        UNROLL
        for (int part = 0; part < PARTS; ++part) {
            const int e = base + its_entry;
            if (e < its_length[part]) {
                const i64 k = its_begin[part] + e;
                column[part] = f.columns[k];
                word[part] = f.words[k];
                left[part] = f.left[k];
            }
        }
    };
    load(0);
    ROLLED
    for (int base = 0; Tile<L>::any(base < length); base += STAGED_ENTRIES) {
        Tile<L>::barrier();
        UNROLL
        for (int part = 0; part < PARTS; ++part) {
            columns[its_entry * TEAMS + (its_team[part] ^ its_entry * 4)] = column[part];
            words[its_entry * TEAMS + (its_team[part] ^ its_entry * 4)] = word[part];
            lefts[its_entry * TEAMS + (its_team[part] ^ its_entry * 2)] = left[part];
        }
        Tile<L>::barrier();
        load(base + STAGED_ENTRIES);
        T b[COUNT] = {}, ahead[COUNT] = {};
        const auto load_b = [&](int e, T *to) {
            if (e < STAGED_ENTRIES && base + e < length) {
                load_neighbours<COUNT>(f.right, static_cast<i64>(columns[e * TEAMS + (team ^ e * 4)]) * CHUNK + first, to);
            }
        };
        load_b(0, b);
        for (int e = 0; e < STAGED_ENTRIES && Tile<L>::any(base + e < length); ++e) {
            load_b(e + 1, ahead);
            if (base + e < length) {
                add_products<L, COUNT>(sums, words[e * TEAMS + (team ^ e * 4)], first, lefts[e * TEAMS + (team ^ e * 2)], b);
            }
            Tile<L>::barrier();
            UNROLL
            for (int c = 0; c < COUNT; ++c) {
                b[c] = ahead[c];
            }
        }
    }
}

// Rows of B have any number of chunks. Each lane takes one chunk at a time.
template <int L, class T, class W, class Sums> DEVICE void add_chunks(const NumericFactors<T, W> &f, bool is_row, i64 row, Sums &sums) {
    const int lane = Tile<L>::rank();
    const i64 end = is_row ? f.offsets[row + 1] : 0;
    i64 group = is_row ? f.offsets[row] : 0;
    i64 word = !is_row ? 0 : f.begins.len > 0 ? f.begins[row] : group;
    // L entries of A, one for each lane, and the next L.
    struct Entry {
        i32 begin;
        i32 count;
        T x;
    };
    const auto entry = [&](i64 k) {
        if (k >= end) {
            return Entry{0, 0, T(0)};
        }
        const i64 column = f.columns[k];
        const i32 begin = f.chunks[column];
        return Entry{begin, f.chunks[column + 1] - begin, f.left[k]};
    };
    Entry entries = entry(group + lane), next_entries = entry(group + L + lane);
    int of = 0, q = lane;
    struct Step {
        bool is_one;
        W word;
        T x;
        T b[CHUNK];
    };
    const auto load = [&](Step &step) {
        const i32 begin = Tile<L>::shuffle(entries.begin, of), count = Tile<L>::shuffle(entries.count, of);
        step.x = Tile<L>::shuffle(entries.x, of);
        step.word = Positions<W>::ALL_PADDING;
        step.is_one = group + of < end;
        if (step.is_one) {
            if (q < count) {
                step.word = f.words[word + q];
                load_neighbours<CHUNK>(f.right, static_cast<i64>(begin + q) * CHUNK, step.b);
            }
            q += L;
            if (q - lane >= count) {
                word += count;
                q = lane;
                ++of;
            }
            if (of == L) {
                of = 0;
                group += L;
                entries = next_entries;
                next_entries = entry(group + L + lane);
            }
        }
    };
    Step now{}, next{};
    load(now);
    while (Tile<L>::any(now.is_one)) {
        load(next);
        add_products<L, CHUNK>(sums, now.word, 0, now.x, now.b);
        if constexpr (L > 1) {
            Tile<L>::barrier();
        }
        now = next;
    }
}

// How chunks of B are read: one chunk for each row, the same with staged entries of A, or any number of chunks.
enum class Staging { SINGLE, STAGED, ANY };

// Computes rows of C with at most SUMS_PER_LANE * L entries, and skips longer ones.
template <int L, Staging STAGING, class T, class W> DEVICE void numeric_rows(i64 count, const In<i32> &list, const NumericFactors<T, W> &f, const NumericOutput<T> &to) {
    SHARED(T, sums, BLOCK *SUMS_PER_LANE);
    const i64 at = global_index() / L;
    const bool is_there = at < count;
    const i64 row = !is_there ? 0 : list.len > 0 ? list[at] : at;
    const i64 start = is_there ? to.begin(row) : 0;
    const i64 length = is_there ? to.begin(row + 1) - start : 0;
    const bool is_row = is_there && length <= SUMS_PER_LANE * L;
    const int lane = Tile<L>::rank();
    for (int e = lane; is_row && e < length; e += L) {
        sums[e / L * BLOCK + thread_index()] = 0;
    }
    if constexpr (L > 1) {
        Tile<L>::barrier();
    }
    if constexpr (STAGING == Staging::SINGLE) {
        add_single_chunks<L>(f, is_row, row, sums);
    } else if constexpr (STAGING == Staging::STAGED) {
        SHARED(i32, columns, BLOCK / L * STAGED_ENTRIES);
        SHARED(u32, words, BLOCK / L * STAGED_ENTRIES);
        SHARED(T, lefts, BLOCK / L * STAGED_ENTRIES);
        add_staged_chunks<L>(f, is_row, row, sums, columns, words, lefts);
    } else {
        add_chunks<L>(f, is_row, row, sums);
    }
    for (int e = lane; is_row && e < length; e += L) {
        const T v = sums[e / L * BLOCK + thread_index()];
        to.values[start + e] = to.fill && v == T(0) && to.columns[start + e] == row ? T(1) : v;
    }
}

#define SPGEMM_NUMERIC_ROWS(L, NAME, STAGING, T, W) \
    KERNEL_OF(4, spgemm_numeric_##NAME##_##L##_##T, i64 count, In<i32> list, In<i64> offsets, In<i32> columns, In<T> left, In<i32> chunks, Out<T> right, \
              In<i64> begins, In<W> words, In<i64> to_offsets, In<i32> to_chunks, In<i32> to_columns, Out<T> values, i32 fill) { \
        numeric_rows<L, Staging::STAGING>(count, list, NumericFactors<T, W>{offsets, columns, left, chunks, right, begins, words}, \
                                NumericOutput<T>{to_offsets, to_chunks, to_columns, values, fill != 0}); \
    }
#define SPGEMM_NUMERIC_OF(T) \
    SPGEMM_NUMERIC_ROWS(2, single, SINGLE, T, u32) \
    SPGEMM_NUMERIC_ROWS(4, single, SINGLE, T, u32) \
    SPGEMM_NUMERIC_ROWS(8, single, SINGLE, T, u32) \
    SPGEMM_NUMERIC_ROWS(16, single, SINGLE, T, u32) \
    SPGEMM_NUMERIC_ROWS(2, staged, STAGED, T, u32) \
    SPGEMM_NUMERIC_ROWS(4, staged, STAGED, T, u32) \
    SPGEMM_NUMERIC_ROWS(2, chunks, ANY, T, u32) \
    SPGEMM_NUMERIC_ROWS(4, chunks, ANY, T, u32) \
    SPGEMM_NUMERIC_ROWS(8, chunks, ANY, T, u32) \
    SPGEMM_NUMERIC_ROWS(16, chunks, ANY, T, u32) \
    SPGEMM_NUMERIC_ROWS(32, single, SINGLE, T, u64) \
    SPGEMM_NUMERIC_ROWS(32, chunks, ANY, T, u64)
SPGEMM_NUMERIC_OF(f64)
SPGEMM_NUMERIC_OF(f32)

// Packs the values of a matrix into chunks: one chunk for each row, or from chunks[row] on.
template <class T> DEVICE void spgemm_pack_chunks(i64 rows, const In<i64> &offsets, const In<T> &values, const In<i32> &chunks, const Out<T> &to) {
    const i64 row = global_index() / CHUNK;
    if (row >= rows) {
        return;
    }
    const i64 begin = offsets[row], end = offsets[row + 1];
    const i64 first = (chunks.len > 0 ? chunks[row] : row) * CHUNK, last = (chunks.len > 0 ? chunks[row + 1] : row + 1) * CHUNK;
    for (i64 e = thread_index() % CHUNK; first + e < last; e += CHUNK) {
        to[first + e] = begin + e < end ? values[begin + e] : T(0);
    }
}
#define SPGEMM_PACK_CHUNKS(T) \
    KERNEL(spgemm_pack_chunks_##T, i64 rows, In<i64> offsets, In<T> values, In<i32> chunks, Out<T> to) { \
        spgemm_pack_chunks<T>(rows, offsets, values, chunks, to); \
    }
SPGEMM_PACK_CHUNKS(f64)
SPGEMM_PACK_CHUNKS(f32)

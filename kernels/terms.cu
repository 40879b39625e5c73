// Values of a product C = A B of scalars, where it is known to which sum each term is added: nothing is looked up, and columns of B and C are not
// read. As `Chunks` in src/host/terms.rs: rows of B are in chunks of four entries, the last one of a row filled up, and a word for each a_ik and each
// chunk of row k of B has the places of the four sums in row i of C: W is a byte for each, or where rows of C are long, 16 bits.
//
// A team of L lanes has a row of C, and its sums in shared memory. Entries a_ik come one after the other, so that sums are added in the order of the
// host; the terms of a chunk are of different sums.
#include "terms.h"

// The factors. Row k of B begins with chunk chunks[k], or with chunk k where there are no such numbers, because every row is one chunk. The words of
// row i begin at begins[i], or where the row of A begins.
template <class T, class W> struct Terms {
    In<i64> offsets;
    In<i32> columns;
    In<T> left;
    In<i32> chunks;
    Out<T> right;
    In<i64> begins;
    In<W> words;
};

// Where rows of C go: they begin at offsets[i], or with chunk chunks[i], and are then filled up with zeros. With `fill` a zero on the diagonal
// becomes a one; only then are there columns.
template <class T> struct Renewed {
    In<i64> offsets;
    In<i32> chunks;
    In<i32> columns;
    Out<T> values;
    bool fill;
    DEVICE i64 begin(i64 row) const { return chunks.len > 0 ? static_cast<i64>(chunks[row]) * CHUNK : offsets[row]; }
};

// COUNT neighbours.
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

// Sums of a team: sum s is of lane s % L, and lanes never meet in a bank, nor do teams of a warp.
template <int L> DEVICE int sum_of(u32 place) {
    return static_cast<int>(place) / L * BLOCK + (thread_index() & ~(L - 1)) + static_cast<int>(place) % L;
}

// Adds x b for COUNT terms of a chunk, from its entry `first` on.
template <int L, int COUNT, class T, class W, class Sums> DEVICE void add_terms(Sums &sums, W word, int first, T x, const T *b) {
    T sum[COUNT];
    UNROLL
    for (int e = 0; e < COUNT; ++e) {
        const u32 place = Word<W>::place(word, first + e);
        sum[e] = place != Word<W>::NOWHERE ? sums[sum_of<L>(place)] : T(0);
    }
    UNROLL
    for (int e = 0; e < COUNT; ++e) {
        const u32 place = Word<W>::place(word, first + e);
        if (place != Word<W>::NOWHERE) {
            sums[sum_of<L>(place)] = sum[e] + times(x, b[e]);
        }
    }
}

// Every row of B is one chunk, whose entries are shared by the lanes of the team.
template <int L, class T, class W, class Sums> DEVICE void add_single_chunks(const Terms<T, W> &f, bool is_row, i64 row, Sums &sums) {
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
        return works && k < end ? Entry{f.columns[k], f.words[k], f.left[k]} : Entry{0, Word<W>::NONE_OF_FOUR, T(0)};
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
        // Lanes behind the last entry of a chunk have no part of a word.
        if (works) {
            add_terms<L, COUNT>(sums, now.word, first, now.x, b);
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

// The same where rows of A are long: neighbouring lanes bring STAGED_ENTRIES neighbouring entries of a row into shared memory, which takes fewer transactions than
// every team reading its own. Teams and entries are mixed so that lanes that write, and lanes that read, have banks of their own.
constexpr int STAGED_ENTRIES = 8;
template <int L, class T, class Sums, class Columns, class Words, class Lefts>
DEVICE void add_staged_chunks(const Terms<T, u32> &f, bool is_row, i64 row, Sums &sums, Columns &columns, Words &words, Lefts &lefts) {
    static_assert(L <= CHUNK, "each lane has a part of a chunk");
    constexpr int COUNT = CHUNK / L, TEAMS = BLOCK / L, TURNS = STAGED_ENTRIES / L;
    const int team = thread_index() / L, first = Tile<L>::rank() * COUNT;
    const int warp = thread_index() / WARP * (WARP / L), lane = thread_index() % WARP;
    const i64 begin = is_row ? f.offsets[row] : 0;
    const int length = is_row ? static_cast<int>(f.offsets[row + 1] - begin) : 0;
    // Entry (turn * WARP + lane) % STAGED_ENTRIES of a team of this warp is this lane's to bring.
    const int its_entry = lane % STAGED_ENTRIES;
    i64 its_begin[TURNS];
    int its_length[TURNS], its_team[TURNS];
    UNROLL
    for (int turn = 0; turn < TURNS; ++turn) {
        const int which = (turn * WARP + lane) / STAGED_ENTRIES;
        its_team[turn] = warp + which;
        its_begin[turn] = shuffle(begin, which * L);
        its_length[turn] = shuffle(length, which * L);
    }
    i32 column[TURNS] = {};
    u32 word[TURNS] = {};
    T left[TURNS] = {};
    const auto load = [&](int base) {
        UNROLL
        for (int turn = 0; turn < TURNS; ++turn) {
            const int e = base + its_entry;
            if (e < its_length[turn]) {
                const i64 k = its_begin[turn] + e;
                column[turn] = f.columns[k];
                word[turn] = f.words[k];
                left[turn] = f.left[k];
            }
        }
    };
    load(0);
    ROLLED
    for (int base = 0; Tile<L>::any(base < length); base += STAGED_ENTRIES) {
        Tile<L>::barrier();
        UNROLL
        for (int turn = 0; turn < TURNS; ++turn) {
            columns[its_entry * TEAMS + (its_team[turn] ^ its_entry * 4)] = column[turn];
            words[its_entry * TEAMS + (its_team[turn] ^ its_entry * 4)] = word[turn];
            lefts[its_entry * TEAMS + (its_team[turn] ^ its_entry * 2)] = left[turn];
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
                add_terms<L, COUNT>(sums, words[e * TEAMS + (team ^ e * 4)], first, lefts[e * TEAMS + (team ^ e * 2)], b);
            }
            Tile<L>::barrier();
            UNROLL
            for (int c = 0; c < COUNT; ++c) {
                b[c] = ahead[c];
            }
        }
    }
}

// Rows of B are any number of chunks, of which each lane has one at a time.
template <int L, class T, class W, class Sums> DEVICE void add_chunks(const Terms<T, W> &f, bool is_row, i64 row, Sums &sums) {
    const int lane = Tile<L>::rank();
    const i64 end = is_row ? f.offsets[row + 1] : 0;
    i64 group = is_row ? f.offsets[row] : 0;
    i64 word = !is_row ? 0 : f.begins.len > 0 ? f.begins[row] : group;
    // L entries of A, one for each lane, and the L after them.
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
        step.word = Word<W>::NONE_OF_FOUR;
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
        add_terms<L, CHUNK>(sums, now.word, 0, now.x, now.b);
        if constexpr (L > 1) {
            Tile<L>::barrier();
        }
        now = next;
    }
}

// How chunks are added.
enum class Way { SINGLE, STAGED, ANY };

// Rows of at most LANE_SUMS * L entries; others are left as they are.
template <int L, Way WAY, class T, class W> DEVICE void terms_rows(i64 count, const In<i32> &list, const Terms<T, W> &f, const Renewed<T> &to) {
    SHARED(T, sums, BLOCK *LANE_SUMS);
    const i64 at = global_index() / L;
    const bool is_there = at < count;
    const i64 row = !is_there ? 0 : list.len > 0 ? list[at] : at;
    const i64 start = is_there ? to.begin(row) : 0;
    const i64 length = is_there ? to.begin(row + 1) - start : 0;
    const bool is_row = is_there && length <= LANE_SUMS * L;
    const int lane = Tile<L>::rank();
    for (int e = lane; is_row && e < length; e += L) {
        sums[e / L * BLOCK + thread_index()] = 0;
    }
    if constexpr (L > 1) {
        Tile<L>::barrier();
    }
    if constexpr (WAY == Way::SINGLE) {
        add_single_chunks<L>(f, is_row, row, sums);
    } else if constexpr (WAY == Way::STAGED) {
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

#define TERMS_ROWS(L, NAME, WAY, T, W) \
    KERNEL_OF(4, terms_##NAME##_##L##_##T, i64 count, In<i32> list, In<i64> offsets, In<i32> columns, In<T> left, In<i32> chunks, Out<T> right, \
              In<i64> begins, In<W> words, In<i64> to_offsets, In<i32> to_chunks, In<i32> to_columns, Out<T> values, i32 fill) { \
        terms_rows<L, Way::WAY>(count, list, Terms<T, W>{offsets, columns, left, chunks, right, begins, words}, \
                                Renewed<T>{to_offsets, to_chunks, to_columns, values, fill != 0}); \
    }
#define TERMS_OF(T) \
    TERMS_ROWS(2, single, SINGLE, T, u32) \
    TERMS_ROWS(4, single, SINGLE, T, u32) \
    TERMS_ROWS(8, single, SINGLE, T, u32) \
    TERMS_ROWS(16, single, SINGLE, T, u32) \
    TERMS_ROWS(2, staged, STAGED, T, u32) \
    TERMS_ROWS(4, staged, STAGED, T, u32) \
    TERMS_ROWS(2, chunks, ANY, T, u32) \
    TERMS_ROWS(4, chunks, ANY, T, u32) \
    TERMS_ROWS(8, chunks, ANY, T, u32) \
    TERMS_ROWS(16, chunks, ANY, T, u32) \
    TERMS_ROWS(32, single, SINGLE, T, u64) \
    TERMS_ROWS(32, chunks, ANY, T, u64)
TERMS_OF(f64)
TERMS_OF(f32)

// The values of a matrix in chunks, one after the other, or where `chunks` tells.
template <class T> DEVICE void terms_chunked(i64 rows, const In<i64> &offsets, const In<T> &values, const In<i32> &chunks, const Out<T> &to) {
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
#define TERMS_CHUNKED(T) \
    KERNEL(terms_chunked_##T, i64 rows, In<i64> offsets, In<T> values, In<i32> chunks, Out<T> to) { \
        terms_chunked<T>(rows, offsets, values, chunks, to); \
    }
TERMS_CHUNKED(f64)
TERMS_CHUNKED(f32)

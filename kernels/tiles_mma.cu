// Tiles of 4 x 4 in rows, times vector, on matrix cores. A step multiplies tiles of A, one above the other, with parts of x that stand in columns beside each
// other: of the products of every tile with every part those are kept in which a tile met its own part, one of eight in f64 and two of eight else. Rows of
// tiles have 1 << shift lanes of a Group<32>, which takes 32 >> shift neighbouring ones. Values of a tile are stored as 16 numbers, or packed: then only its
// entries, row by row, and `marks` has the bits of the entries, as in matrix_tiles.h, and above them the place of the first among the values of its row of
// tiles, which begin at `starts`. A place of its own for each tile lets all loads begin at once.
#include "finish.h"
#include "groups.h"

// A row of tiles as one lane sees it.
struct RowOfTiles {
    i64 first;
    int count;
};

DEVICE RowOfTiles row_of_tiles(const In<i64> &offsets, i64 rows, i64 tile_row) {
    if (tile_row * 4 >= rows) {
        return RowOfTiles{0, 0};
    }
    const i64 first = offsets[tile_row];
    return RowOfTiles{first, static_cast<int>(offsets[tile_row + 1] - first)};
}

// Steps that all rows of the group need, of so many tiles of a row each.
DEVICE int steps_of(const RowOfTiles &own, int tiles) { return group_max<32>((own.count + tiles - 1) / tiles); }

// Element e of a tile with this mark, packed from `start` on.
template <class S> DEVICE f64 packed_element(const In<S> &values, i64 start, u32 mark, int e) {
    return mark >> e & 1u ? to_f64(values[start + (mark >> 16) + count_bits(mark & ((1u << e) - 1u))]) : 0.0;
}

// Sums in f64, by steps of 8 x 4 times 4 x 8: two tiles, of two rows of tiles or of one. Columns of B have the parts of x in turn.
template <bool PACKED, class, class S, class X>
DEVICE f64 sums_in_f64(i64 rows, int shift, int, const In<i64> &offsets, const In<i32> &columns, const In<u32> &marks, const In<i64> &starts,
                       const In<S> &values, const In<X> &x, const Finish &f) {
    constexpr int BATCH = 4;
    const int lane = Group<32>::rank();
    const i64 base = (global_index() / 32) << (5 - shift);
    // The tile of this lane in A and in B: its row of tiles, and which of the tiles of a step it is there.
    const int tiles = 1 << (shift - 4);
    const int above = lane / 16, beside = lane / 4 % 2;
    const i64 tile_row = base + above / tiles;
    const RowOfTiles left = row_of_tiles(offsets, rows, tile_row), right = row_of_tiles(offsets, rows, base + beside / tiles);
    const i64 start = PACKED && left.count > 0 ? starts[tile_row] : 0;
    const int element = lane % 16;
    const int steps = steps_of(left, tiles);
    f64 sums[2] = {0.0, 0.0};
    for (int step = 0; step < steps; step += BATCH) {
        u32 mark[BATCH];
        i32 column[BATCH];
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            const int k = (step + j) * tiles + above % tiles, own = (step + j) * tiles + beside % tiles;
            mark[j] = PACKED && k < left.count ? marks[left.first + k] : 0;
            column[j] = own < right.count ? columns[right.first + own] : -1;
        }
        f64 a[BATCH], b[BATCH];
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            const int k = (step + j) * tiles + above % tiles;
            if constexpr (PACKED) {
                a[j] = packed_element(values, start, mark[j], element);
            } else {
                a[j] = k < left.count ? to_f64(values.once((left.first + k) * 16 + element)) : 0.0;
            }
            const i64 at = static_cast<i64>(column[j]) * 4 + lane % 4;
            b[j] = column[j] >= 0 && at < x.len ? to_f64(x[at]) : 0.0;
        }
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            matrix_step(sums[0], sums[1], a[j], b[j]);
        }
    }
    f64 sum = above == 0 ? sums[0] : sums[1];
    if (tiles == 2) {
        sum += Group<32>::shuffle(sum, lane ^ 16);
    }
    const i64 row = tile_row * 4 + lane / 4 % 4;
    return lane % 4 == 0 && row < rows && (tiles == 1 || above == 0) ? finish(f, row, sum) : 0.0;
}

DEVICE u32 bits_of_f32(f32 v) {
    u32 bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}
DEVICE f32 f32_of(u32 bits) {
    f32 v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

// What matrix cores are given: f16 where matrix and vector are f16, and else bf16, of which others are sums. A bf16 has 8 bits and the range of f32, so that two
// hold an f16, three an f32, and products stay exact. Wider numbers are rounded to f32 before, as everywhere where sums are f32.
template <class S, class X> struct PieceType {
    using type = bf16;
};
template <> struct PieceType<f16, f16> {
    using type = f16;
};
template <class T, class H> struct PiecesOf {
    static constexpr int count = 3;
};
template <> struct PiecesOf<f16, bf16> {
    static constexpr int count = 2;
};
template <class H> struct PiecesOf<H, H> {
    static constexpr int count = 1;
};

// The next piece of each of two numbers, the first in the low bits, and what is left of them.
DEVICE u32 next_piece(f16, f32 &first, f32 &second) {
    const Pack<f16, 2> both = {{to_f16(first), to_f16(second)}};
    u32 bits;
    memcpy(&bits, &both, sizeof bits);
    return bits;
}
DEVICE u32 next_piece(bf16, f32 &first, f32 &second) {
    const u32 low = bits_of_f32(first) & 0xffff0000u, high = bits_of_f32(second) & 0xffff0000u;
    first -= f32_of(low);
    second -= f32_of(high);
    return low >> 16 | high;
}

// Adds products of two rows of a tile and a part of x, piece by piece. Columns of B have the first piece of a part and four
// columns further, in `lower` lanes, the second one; the third comes with another step.
template <class S, class X, class H> DEVICE void multiply(H, int lower, f32 (&v)[8], f32 (&part)[4], f32 (&sums)[4]) {
    constexpr int LEFT = PiecesOf<S, H>::count, RIGHT = PiecesOf<X, H>::count;
    u32 b[(RIGHT + 1) / 2][2];
    UNROLL
    for (int p = 0; p < RIGHT; ++p) {
        const u32 low = next_piece(H(), part[0], part[1]), high = next_piece(H(), part[2], part[3]);
        if (p % 2 == 0) {
            b[p / 2][0] = lower == 0 ? low : 0;
            b[p / 2][1] = lower == 0 ? high : 0;
        } else if (lower == 1) {
            b[p / 2][0] = low;
            b[p / 2][1] = high;
        }
    }
    UNROLL
    for (int p = 0; p < LEFT; ++p) {
        u32 a[4];
        a[0] = next_piece(H(), v[0], v[1]);
        a[1] = next_piece(H(), v[4], v[5]);
        a[2] = next_piece(H(), v[2], v[3]);
        a[3] = next_piece(H(), v[6], v[7]);
        UNROLL
        for (int q = 0; q < (RIGHT + 1) / 2; ++q) {
            matrix_step(H(), sums, a, b[q]);
        }
    }
}
// The same, rounded, with two columns of the tile in a step.
template <class S, class X> DEVICE void multiply(tf32, int lower, f32 (&v)[8], f32 (&part)[4], f32 (&sums)[4]) {
    UNROLL
    for (int c = 0; c < 4; c += 2) {
        const tf32 a[4] = {to_tf32(v[c]), to_tf32(v[4 + c]), to_tf32(v[c + 1]), to_tf32(v[5 + c])};
        const tf32 b[2] = {to_tf32(lower == 0 ? part[c] : 0.0f), to_tf32(lower == 0 ? part[c + 1] : 0.0f)};
        matrix_step(sums, a, b);
    }
}

// Rows 2h and 2h + 1 of a tile: 8 numbers.
template <class S> DEVICE void half_of_tile(const In<S> &values, i64 at, f32 (&to)[8]) {
    constexpr int N = 16 / sizeof(S);
    UNROLL
    for (int c = 0; c < 8; c += N) {
        const Pack<S, N> piece = values.template pack_once<N>(at + c);
        UNROLL
        for (int q = 0; q < N; ++q) {
            to[c + q] = to_f32(piece.of[q]);
        }
    }
}
template <class S> DEVICE void half_of_packed(const In<S> &values, i64 start, u32 mark, int h, f32 (&to)[8]) {
    const In<S> own = values.from(start + (mark >> 16) + count_bits(mark & ((1u << 8 * h) - 1u)));
    const u32 half = mark >> 8 * h;
    int place = 0;
    UNROLL
    for (int e = 0; e < 8; ++e) {
        const bool is_one = half >> e & 1u;
        to[e] = is_one ? to_f32(own[place]) : 0.0f;
        place += is_one ? 1 : 0;
    }
}

// Sums in f32, by steps of 16 x 16 times 16 x 8: 16 tiles, four from each of four quarters of the group, of which 1 << (shift - 3) have a row of tiles
// together. A lane has two rows of a tile of A, 2h above and 2h + 1 eight rows below, and in B the part of x of a tile of the same place in a quarter, whose
// pieces stand four columns apart.
template <bool PACKED, class H, class S, class X>
DEVICE f64 sums_in_f32(i64 rows, int shift, int packed, const In<i64> &offsets, const In<i32> &columns, const In<u32> &marks, const In<i64> &starts,
                       const In<S> &values, const In<X> &x, const Finish &f) {
    constexpr int BATCH = 2;
    const int lane = Group<32>::rank();
    const int t = lane % 4, h = lane / 4 % 2, above = lane / 8, beside = lane / 4 % 4, lower = lane / 16;
    const i64 base = (global_index() / 32) << (5 - shift);
    const int quarters = 1 << (shift - 3), tiles = 4 * quarters;
    const i64 tile_row = base + above / quarters;
    const RowOfTiles left = row_of_tiles(offsets, rows, tile_row), right = row_of_tiles(offsets, rows, base + beside / quarters);
    const i64 start = PACKED && left.count > 0 ? starts[tile_row] : 0;
    const int first = above % quarters * 4 + t, first_beside = beside % quarters * 4 + t;
    const int steps = steps_of(left, tiles);
    f32 sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int step = 0; step < steps; step += BATCH) {
        u32 mark[BATCH];
        i32 column[BATCH];
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            const int k = (step + j) * tiles + first, own = (step + j) * tiles + first_beside;
            mark[j] = PACKED && k < left.count ? marks[left.first + k] : 0;
            column[j] = own < right.count ? columns[right.first + own] : -1;
        }
        f32 value[BATCH][8] = {};
        f32 part[BATCH][4] = {};
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            const int k = (step + j) * tiles + first;
            if constexpr (PACKED) {
                half_of_packed(values, start, mark[j], h, value[j]);
            } else if (k < left.count) {
                half_of_tile(values, (left.first + k) * 16 + 8 * h, value[j]);
            }
            if (column[j] >= 0) {
                const Pack<X, 4> own = part_of<4>(x, column[j], packed != 0);
                UNROLL
                for (int c = 0; c < 4; ++c) {
                    part[j][c] = to_f32(own.of[c]);
                }
            }
        }
        UNROLL
        for (int j = 0; j < BATCH; ++j) {
            multiply<S, X>(H(), lower, value[j], part[j], sums);
        }
    }
    // Lanes t of a row of D have columns 2t and 2t + 1. Tiles of quarter q are to be found in columns q and q + 4.
    const bool is_own = t % 2 == above / 2;
    f32 even = is_own ? sums[above % 2] : 0.0f, odd = is_own ? sums[2 + above % 2] : 0.0f;
    for (int mask = 1; mask < 32; mask *= 2) {
        // Bits of a lane: two of t, one of h, two of the quarter.
        if (mask < 4 || (mask == 8 && quarters > 1) || (mask == 16 && quarters > 2)) {
            even += Group<32>::shuffle(even, lane ^ mask);
            odd += Group<32>::shuffle(odd, lane ^ mask);
        }
    }
    const i64 row = tile_row * 4 + 2 * h + t;
    return t < 2 && row < rows && above % quarters == 0 ? finish(f, row, t == 0 ? even : odd) : 0.0;
}

#define TILES_MMA_OF(NAME, PACKED, H, S, X, A) \
    KERNEL_OF(4, NAME##_##S##_##X##_##A, i64 rows, i32 shift, i32 packed, In<i64> offsets, In<i32> columns, In<u32> marks, In<i64> starts, In<S> values, \
              In<X> x, Finish f) { \
        finish_block(f, sums_in_##A<PACKED, H>(rows, shift, packed, offsets, columns, marks, starts, values, x, f)); \
    }
#define PIECE_TYPE(S, X) PieceType<S, X>::type
#define TILES_MMA(S, X, A) \
    TILES_MMA_OF(tiles_mma, false, PIECE_TYPE(S, X), S, X, A) TILES_MMA_OF(bitmap_mma, true, PIECE_TYPE(S, X), S, X, A)
FOR_STORAGE_VECTOR_AND_SUM(TILES_MMA)
// f32 numbers rounded to TF32, for who asks for it.
#define TILES_TF32(X) TILES_MMA_OF(tiles_tf32, false, tf32, f32, X, f32)
FOR_FORMATS(TILES_TF32)

// Packs tiles: marks, where the values of each row of tiles start, and the values. Rows have the scalar offsets of the matrix; a group for each row of tiles.
template <class T>
DEVICE void tiles_pack(i64 tile_rows, const In<i64> &scalar_offsets, const In<i64> &offsets, const In<u16> &maps, const In<T> &values, const Out<u32> &marks,
                       const Out<i64> &starts, const Out<T> &to) {
    const i64 tile_row = global_index() / 32;
    const int lane = Group<32>::rank();
    const bool is_one = tile_row < tile_rows;
    const i64 first = is_one ? offsets[tile_row] : 0;
    const int count = is_one ? static_cast<int>(offsets[tile_row + 1] - first) : 0;
    const i64 start = is_one ? scalar_offsets[tile_row * 4] : 0;
    if (is_one && lane == 0) {
        starts[tile_row] = start;
    }
    int packed = 0;
    for (int base = 0; base < count; base += 32) {
        const int k = base + lane;
        const u32 map = k < count ? maps[first + k] : 0;
        int end = count_bits(map);
        UNROLL
        for (int step = 1; step < 32; step *= 2) {
            const int before = Group<32>::shuffle(end, lane >= step ? lane - step : lane);
            end += lane >= step ? before : 0;
        }
        int place = packed + end - count_bits(map);
        packed += Group<32>::shuffle(end, 31);
        if (k < count) {
            marks[first + k] = map | static_cast<u32>(place) << 16;
            for (u32 left = map; left != 0; left &= left - 1) {
                to[start + place] = values[(first + k) * 16 + lowest_bit(left)];
                place += 1;
            }
        }
    }
}

#define TILES_PACK(T) \
    KERNEL(tiles_pack_##T, i64 tile_rows, In<i64> scalar_offsets, In<i64> offsets, In<u16> maps, In<T> values, Out<u32> marks, Out<i64> starts, Out<T> to) { \
        tiles_pack<T>(tile_rows, scalar_offsets, offsets, maps, values, marks, starts, to); \
    }
TILES_PACK(u64)
TILES_PACK(u32)
TILES_PACK(u16)

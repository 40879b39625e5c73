// What renewed products share; see terms.cu.
#pragma once
#include "spgemm.h"

// Entries of a chunk of a row of B.
constexpr int CHUNK = 4;
// The places of the four terms of a chunk: bytes, or where rows are long, numbers of 16 bits.
template <class W> struct Word {
    static constexpr int BITS = 2 * sizeof(W);
    // The place of what fills a chunk.
    static constexpr u32 NOWHERE = (1u << BITS) - 1;
    static constexpr W NONE_OF_FOUR = ~W(0);
    static DEVICE u32 place(W word, int e) { return static_cast<u32>(word >> BITS * e) & NOWHERE; }
};
// Most entries of a row that bytes have places for.
constexpr u32 MOST_BYTES = Word<u32>::NOWHERE;
// Sums for each lane of a team.
constexpr int LANE_SUMS = 16;

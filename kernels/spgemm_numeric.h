// Common parts of the symbolic and numeric phase with stored positions; see spgemm_numeric.cu.
#pragma once
#include "spgemm.h"

// Entries of a chunk of a row of B.
constexpr int CHUNK = 4;
// The positions of the four products of a chunk in one word: bytes, or 16 bits each for long rows.
template <class W> struct Positions {
    static constexpr int BITS = 2 * sizeof(W);
    // The position of padding.
    static constexpr u32 PADDING = (1u << BITS) - 1;
    static constexpr W ALL_PADDING = ~W(0);
    static DEVICE u32 position(W word, int e) { return static_cast<u32>(word >> BITS * e) & PADDING; }
};
// Longest row whose positions fit a byte.
constexpr u32 MAX_BYTE_POSITION = Positions<u32>::PADDING;
// Sums of each lane of a team.
constexpr int SUMS_PER_LANE = 16;

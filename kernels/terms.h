// What renewed products share; see terms.cu.
#pragma once
#include "spgemm.h"

// Entries of a chunk of a row of B.
constexpr int CHUNK = 4;
// The place of what fills a chunk, and so one more than the longest row may have.
constexpr u32 NOWHERE = 255;
constexpr u32 NONE_OF_FOUR = 0xffffffffu;
// Sums for each lane of a team.
constexpr int LANE_SUMS = 16;

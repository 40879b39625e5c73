// Numeric-only update of extended+i interpolation: the symbolic data of a row, which depends on the patterns alone.
#pragma once
#include "spgemm.h"
#include "extended_i.h"

// Columns of a row whose weights are computed: those that truncation kept, and one that it dropped, the witness: if
// it is not zero, the row is rescaled.
constexpr int MAX_KEPT = 4;
constexpr int WITNESS = MAX_KEPT;
constexpr int TRACKED = MAX_KEPT + 1;

// The role of an entry of a fine row. In its own row: a coupling to a tracked column (its number), to another column
// of Ĉ_i, to a strong fine neighbour, or else a part of the diagonal. For the rows of its neighbours: a strong
// coupling to a coarse unknown, a weak one whose sign differs from that of the diagonal and which counts, a weak one
// that does not count, or the diagonal itself.
constexpr int ROLE_COARSE = TRACKED;
constexpr int ROLE_FINE = TRACKED + 1;
constexpr int ROLE_DIAGONAL = TRACKED + 2;
constexpr int ROLE_OWN = 7;
constexpr int ROLE_STRONG = 1 << 3;
constexpr int ROLE_WEAK = 2 << 3;
constexpr int ROLE_DID_NOT_COUNT = 3 << 3;
constexpr int ROLE_ITSELF = 4 << 3;
constexpr int ROLE_TO_OTHERS = 7 << 3;

// The symbolic data of a row is a list of 16-bit numbers that begins at a multiple of SYMBOLIC_UNIT. The first unit
// has the number of strong fine neighbours with HAS_DROPPED and HAS_WEAK, the largest number of products of a kept
// column, the number of products of the witness, and the number of weak couplings.
//
// Then follows a unit for each neighbour k: the positions of a_ik in row i and of a_ki in row k, a byte each; the
// number of k's weak couplings to Ĉ_i; and k in two halves.
//
// Then follow the weak couplings of all neighbours: which of k's couplings to coarse unknowns, and which of four
// partial sums it is added to.
//
// Then follow the products of the kept columns, interleaved and padded with NO_PRODUCT: the number of the neighbour,
// and which of its couplings. The products of the witness come last.
constexpr int SYMBOLIC_UNIT = 4;
constexpr int HAS_DROPPED = 1 << 8;
constexpr int HAS_WEAK = 1 << 9;
constexpr int PART_SHIFT = 14;
constexpr int NO_PRODUCT = 0xffff;
// No position: one more than the longest row has.
constexpr int NO_POSITION = 255;

// Words of the head of a fine unknown k: the begin of its row, with flags in the upper bits (the diagonal is
// positive; a weak coupling counts that did not before, or the reverse), and the bits of the sum of its strong
// couplings, in f64.
constexpr int NUMERIC_HEAD = 2;
constexpr i64 HEAD_POSITIVE = 1ll << 62;
constexpr i64 HEAD_CHANGED = 1ll << 61;
constexpr i64 HEAD_BEGIN = HEAD_CHANGED - 1;

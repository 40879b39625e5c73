// Rows of extended+i interpolation that are renewed: what is known of them from the patterns alone.
#pragma once
#include "spgemm.h"
#include "extended_i.h"

// Columns of a row that are followed: those that it keeps, and one that it drops, which tells whether anything is dropped but zeros.
constexpr int RENEWED_KEPT = 4;
constexpr int WITNESS = RENEWED_KEPT;
constexpr int FOLLOWED = RENEWED_KEPT + 1;

// What an entry of a fine row is: in the row itself, a coupling to a member that is followed (its number), to another member, to a strong fine
// neighbour, or else part of the diagonal; and for the rows of its neighbours a strong coupling to a coarse unknown, or a weak one, which counts if its
// sign differs from that of the diagonal, or did not; or the diagonal itself.
constexpr int ROLE_MEMBER = FOLLOWED;
constexpr int ROLE_FINE = FOLLOWED + 1;
constexpr int ROLE_DIAGONAL = FOLLOWED + 2;
constexpr int ROLE_OWN = 7;
constexpr int ROLE_STRONG = 1 << 3;
constexpr int ROLE_WEAK = 2 << 3;
constexpr int ROLE_DID_NOT_COUNT = 3 << 3;
constexpr int ROLE_ITSELF = 4 << 3;
constexpr int ROLE_TO_OTHERS = 7 << 3;

// The script of a row, of numbers of 16 bits, begins at a multiple of SCRIPT_UNIT with the number of strong fine neighbours, HAS_DROPPED and HAS_WEAK; the
// most terms that a column has which is kept; those of the one that is dropped; and the number of weak couplings. Then come, a unit for each neighbour
// k, the place of a_ik in row i and that of a_ki in row k, a byte each, the number of k's weak couplings to members, and k in two halves. After those of
// all weak couplings each, which one it is among the couplings of k to coarse unknowns, and which of four sums it is added to. Then the terms of the columns that are
// kept, one of each after the other, filled up with NO_TERM: the number of the neighbour, and which of its couplings; and last those of the one that is dropped.
constexpr int SCRIPT_UNIT = 4;
constexpr int HAS_DROPPED = 1 << 8;
constexpr int HAS_WEAK = 1 << 9;
constexpr int PART_SHIFT = 14;
constexpr int NO_TERM = 0xffff;
// No place, and so one more than the longest row may have.
constexpr int NO_PLACE = 255;

// Of a fine unknown k: where its row begins, and in higher bits whether its diagonal is positive, and whether a weak coupling counts that did not, or the
// other way round; and the bits of the sum of its strong couplings, in f64.
constexpr int RENEWED_HEAD = 2;
constexpr i64 HEAD_POSITIVE = 1ll << 62;
constexpr i64 HEAD_CHANGED = 1ll << 61;
constexpr i64 HEAD_BEGIN = HEAD_CHANGED - 1;

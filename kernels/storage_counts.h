// What storage in a narrower format loses.
#pragma once
#include "groups.h"
#include "portability.h"

// Adds to counts[0] the stored numbers that are not finite, and to counts[1] those that became too small.
DEVICE void add_counts(i64 too_large, i64 vanished, const Out<i64> &counts) {
    too_large = group_sum<WARP>(too_large);
    vanished = group_sum<WARP>(vanished);
    if (Group<WARP>::rank() == 0) {
        if (too_large != 0) {
            atomic_add(counts[0], too_large);
        }
        if (vanished != 0) {
            atomic_add(counts[1], vanished);
        }
    }
}

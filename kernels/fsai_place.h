// Columns of a row of a given pattern.
#pragma once
#include "portability.h"

// The place of a column in a row of the pattern, whose columns ascend from `begin` on; -1 where it is not among them.
DEVICE int fsai_place(i32 column, i64 begin, int count, const In<i32> &columns) {
    int low = 0, high = count;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (columns[begin + middle] < column) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && columns[begin + low] == column ? low : -1;
}

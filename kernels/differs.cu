// Comparison of patterns.
#include "portability.h"

// Whether two patterns with as many rows and entries are not the same; the last offset is the number of entries. `flag` is 0 before.
KERNEL(differs, i64 rows, i64 entries, In<i64> offsets, In<i32> columns, In<i64> other_offsets, In<i32> other_columns, Out<i64> flag) {
    bool other = false;
    for (i64 k = global_index(); k < entries || k < rows; k += block_count() * BLOCK) {
        other = other || (k < entries && columns[k] != other_columns[k]) || (k < rows && offsets[k] != other_offsets[k]);
    }
    if (other) {
        flag[0] = 1;
    }
}

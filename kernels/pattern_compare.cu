// Comparison of sparsity patterns.
#include "portability.h"

// Sets `flag`, which is 0 before, if two patterns with the same numbers of rows and entries differ. The last offset
// is the number of entries, so it is not compared.
KERNEL(pattern_differs, i64 rows, i64 entries, In<i64> offsets, In<i32> columns, In<i64> other_offsets, In<i32> other_columns, Out<i64> flag) {
    bool other = false;
    for (i64 k = global_index(); k < entries || k < rows; k += block_count() * BLOCK) {
        other = other || (k < entries && columns[k] != other_columns[k]) || (k < rows && offsets[k] != other_offsets[k]);
    }
    if (other) {
        flag[0] = 1;
    }
}

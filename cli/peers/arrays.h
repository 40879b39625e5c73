/* What the drivers for hypre share: arrays of the file that they are given, and medians. */
#pragma once
#include <stdio.h>
#include <stdlib.h>

static void *allocate(size_t bytes) {
    void *array = malloc(bytes + 1);
    if (array == NULL) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    return array;
}

static void *read_array(FILE *file, size_t count, size_t size) {
    void *array = allocate(count * size);
    if (fread(array, size, count, file) != count) {
        fprintf(stderr, "the matrix file is short\n");
        exit(2);
    }
    return array;
}

static int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

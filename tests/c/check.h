/* What the test programs share; the functions are in check.c. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <terrace.h>

/* Ends the program when a condition does not hold. The place goes to the file that CHECK_LOG names, so that stdout and stderr show only
   what the library prints. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) check_failed(__FILE__, __LINE__, #condition);                                                \
    } while (0)

void check_failed(const char *file, int line, const char *condition);

/* The last error of a context, or of this thread for NULL, contains a text. */
int error_has(const terrace_context *context, const char *part);

/* 5-point Laplacian on an n by n grid, base 0. */
typedef struct {
    int64_t rows;
    int32_t *offsets;
    int32_t *columns;
    double *values;
} problem;

problem problem_create(int64_t n);
void problem_destroy(problem *p);
terrace_matrix *problem_matrix(terrace_context *context, const problem *p, terrace_matrix_flags flags);

/* b = A times the vector whose element i is 1 + i mod 7: an exact solution to compare with. */
double *problem_right_hand_side(const problem *p);
int problem_is_solved(const problem *p, const double *x, double tolerance);

#endif

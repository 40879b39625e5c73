/* Checks of the test programs. */
#ifndef CHECK_H
#define CHECK_H

#include <amgx_c.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);           \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* A call that must succeed; its sentence otherwise. */
#define OK(call)                                                                      \
    do {                                                                              \
        AMGX_RC code_ = (call);                                                       \
        if (code_ != AMGX_RC_OK) {                                                    \
            char text_[1024];                                                         \
            AMGX_get_error_string(code_, text_, sizeof text_);                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, text_);     \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* A call that must fail with this code. */
#define FAILS(expected, call)                                                         \
    do {                                                                              \
        AMGX_RC code_ = (call);                                                       \
        if (code_ != (expected)) {                                                    \
            fprintf(stderr, "%s:%d: %s gave %d\n", __FILE__, __LINE__, #call, (int)code_); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

/* Whether the sentence of a code has these words. */
static inline int says(AMGX_RC code, const char *words) {
    char text[2048];
    CHECK(AMGX_get_error_string(code, text, sizeof text) == AMGX_RC_OK);
    if (strstr(text, words) != NULL) return 1;
    fprintf(stderr, "\"%s\" is not in \"%s\"\n", words, text);
    return 0;
}

#endif

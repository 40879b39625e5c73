/* A panic inside the library returns as a status with its message, prints nothing, and the context works on. */
#include "check.h"

int main(void) {
    terrace_context *context = NULL;
    int32_t threads = 0;
    int i;
    CHECK(terrace_context_create("host:2", &context) == TERRACE_SUCCESS);
    for (i = 0; i < 3; ++i) {
        CHECK(terrace_context_raise_panic(context) == TERRACE_ERROR_INTERNAL);
        CHECK(error_has(context, "terrace_context_raise_panic was called"));
    }
    CHECK(terrace_context_get_threads(context, &threads) == TERRACE_SUCCESS && threads == 2);
    CHECK(terrace_context_set_threads(context, 3) == TERRACE_SUCCESS);
    CHECK(terrace_context_destroy(context) == TERRACE_SUCCESS);
    return 0;
}

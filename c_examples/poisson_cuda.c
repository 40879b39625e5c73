/* Solves the 7-point Poisson problem on an n x n x n grid on an NVIDIA GPU, with matrix, right-hand side and solution in device memory and all
 * work on a stream of this program. The CUDA driver is loaded at run time, so that the program builds and starts without CUDA.
 *
 *   poisson_cuda [n [device]]      n is 64 unless given; the device is "cuda:0"
 *
 * With the device "sim" a simulated GPU takes the place of a real one: its device memory is that of the host.
 */
#include "terrace.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Stops with the library's sentence when a call fails. Positive statuses are conditions, not errors. */
#define CHECK(call)                                                                                                    \
    do {                                                                                                               \
        terrace_status status_ = (call);                                                                               \
        if (status_ < 0) {                                                                                             \
            char sentence_[512] = "";                                                                                  \
            terrace_last_error(context, sentence_, sizeof sentence_, NULL);                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, terrace_status_name(status_), sentence_);           \
            exit(EXIT_FAILURE);                                                                                        \
        }                                                                                                              \
    } while (0)

/* The functions of the CUDA driver that this program calls; a program of its own would include cuda.h. */
static struct {
    int (*init)(unsigned);
    int (*device)(int *, int);
    int (*retain)(void **, int);
    int (*release)(int);
    int (*set_current)(void *);
    int (*stream_create)(void **, unsigned);
    int (*stream_synchronize)(void *);
    int (*stream_destroy)(void *);
    int (*allocate)(unsigned long long *, size_t);
    int (*free)(unsigned long long);
    int (*copy_in)(unsigned long long, const void *, size_t, void *);
    int (*copy_out)(void *, unsigned long long, size_t, void *);
} cuda;

static int on_gpu = 0, device = 0;
static void *stream = NULL;

static void check_cuda(int result, const char *what) {
    if (result != 0) {
        fprintf(stderr, "CUDA, %s: error %d\n", what, result);
        exit(EXIT_FAILURE);
    }
}

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (symbol == NULL) {
        fprintf(stderr, "the CUDA driver has no %s\n", name);
        exit(EXIT_FAILURE);
    }
    /* ISO C knows no conversion of this pointer to one of a function. */
    memcpy(function, &symbol, sizeof symbol);
}

/* Makes the primary context of a GPU that of this thread, as CUDA's runtime would, and a stream. */
static void start_cuda(int number) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *primary = NULL;
    if (library == NULL) {
        fprintf(stderr, "there is no CUDA driver\n");
        exit(EXIT_FAILURE);
    }
    find(library, "cuInit", &cuda.init);
    find(library, "cuDeviceGet", &cuda.device);
    find(library, "cuDevicePrimaryCtxRetain", &cuda.retain);
    find(library, "cuDevicePrimaryCtxRelease_v2", &cuda.release);
    find(library, "cuCtxSetCurrent", &cuda.set_current);
    find(library, "cuStreamCreate", &cuda.stream_create);
    find(library, "cuStreamSynchronize", &cuda.stream_synchronize);
    find(library, "cuStreamDestroy_v2", &cuda.stream_destroy);
    find(library, "cuMemAlloc_v2", &cuda.allocate);
    find(library, "cuMemFree_v2", &cuda.free);
    find(library, "cuMemcpyHtoDAsync_v2", &cuda.copy_in);
    find(library, "cuMemcpyDtoHAsync_v2", &cuda.copy_out);
    check_cuda(cuda.init(0), "start");
    check_cuda(cuda.device(&device, number), "device");
    check_cuda(cuda.retain(&primary, device), "context");
    check_cuda(cuda.set_current(primary), "context");
    check_cuda(cuda.stream_create(&stream, 1), "stream");
    on_gpu = 1;
}

static void *allocate(size_t bytes) {
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "%zu bytes could not be allocated\n", bytes);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* Device memory with the content of an array of the host, which is freed; on a simulated GPU the array itself. */
static void *to_device(void *array, size_t bytes) {
    unsigned long long there = 0;
    if (!on_gpu) return array;
    check_cuda(cuda.allocate(&there, bytes), "memory");
    check_cuda(cuda.copy_in(there, array, bytes, stream), "copy");
    check_cuda(cuda.stream_synchronize(stream), "wait");
    free(array);
    return (void *)(size_t)there;
}

static void free_on_device(void *array) {
    if (on_gpu) check_cuda(cuda.free((unsigned long long)(size_t)array), "memory");
    else free(array);
}

/* -Laplace with zero boundary values and mesh width 1, rows in lexicographic order. Returns the number of nonzeros. */
static int32_t assemble(int32_t n, int32_t *row_offsets, int32_t *columns, double *values) {
    int32_t row = 0, k = 0;
    for (int32_t z = 0; z < n; ++z) {
        for (int32_t y = 0; y < n; ++y) {
            for (int32_t x = 0; x < n; ++x, ++row) {
                row_offsets[row] = k;
                if (z > 0) { columns[k] = row - n * n; values[k++] = -1.0; }
                if (y > 0) { columns[k] = row - n; values[k++] = -1.0; }
                if (x > 0) { columns[k] = row - 1; values[k++] = -1.0; }
                columns[k] = row; values[k++] = 6.0;
                if (x < n - 1) { columns[k] = row + 1; values[k++] = -1.0; }
                if (y < n - 1) { columns[k] = row + n; values[k++] = -1.0; }
                if (z < n - 1) { columns[k] = row + n * n; values[k++] = -1.0; }
            }
        }
    }
    row_offsets[row] = k;
    return k;
}

int main(int argc, char **argv) {
    int32_t n = argc > 1 ? atoi(argv[1]) : 64;
    const char *name = argc > 2 ? argv[2] : "cuda:0";
    if (n < 1 || n > 400) {
        fprintf(stderr, "n must be from 1 to 400\n");
        return EXIT_FAILURE;
    }

    /* Says so when there is no such device. */
    terrace_context *context = NULL;
    CHECK(terrace_context_create(name, &context));
    if (strncmp(name, "cuda", 4) == 0) start_cuda(name[4] == ':' ? atoi(name + 5) : 0);
    /* From here on the library works on this program's stream. */
    if (on_gpu) CHECK(terrace_context_set_stream(context, stream));

    int32_t rows = n * n * n;
    int32_t *row_offsets = allocate(((size_t)rows + 1) * sizeof *row_offsets);
    int32_t *columns = allocate(7 * (size_t)rows * sizeof *columns);
    double *values = allocate(7 * (size_t)rows * sizeof *values);
    double *b = allocate((size_t)rows * sizeof *b), *x = allocate((size_t)rows * sizeof *x);
    int32_t nonzeros = assemble(n, row_offsets, columns, values);
    for (int32_t i = 0; i < rows; ++i) {
        b[i] = 1.0;
        x[i] = 0.0;
    }
    printf("Poisson, %d^3 = %d unknowns, %d nonzeros\n", (int)n, (int)rows, (int)nonzeros);
    row_offsets = to_device(row_offsets, ((size_t)rows + 1) * sizeof *row_offsets);
    columns = to_device(columns, (size_t)nonzeros * sizeof *columns);
    values = to_device(values, (size_t)nonzeros * sizeof *values);
    b = to_device(b, (size_t)rows * sizeof *b);
    x = to_device(x, (size_t)rows * sizeof *x);

    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_csr(context, rows, rows, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64,
                                    values, 0, TERRACE_BORROW | TERRACE_SORTED, &matrix));
    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, NULL, &solver));
    CHECK(terrace_solver_setup(solver, matrix));
    CHECK(terrace_solver_solve(solver, TERRACE_F64, 1, b, x, TERRACE_ZERO_GUESS));

    /* Queued behind the solve on the same stream; a kernel of this program could read x there without any wait. */
    double middle = 0.0;
    const double *there = x + rows / 2;
    if (on_gpu) {
        check_cuda(cuda.copy_out(&middle, (unsigned long long)(size_t)there, sizeof middle, stream), "copy");
        check_cuda(cuda.stream_synchronize(stream), "wait");
    } else {
        middle = *there;
    }
    printf("the solution is %.6f in the middle\n", middle);

    terrace_report *report = NULL;
    CHECK(terrace_solver_report(solver, &report));
    size_t needed = 0;
    CHECK(terrace_report_to_text(report, NULL, 0, &needed));
    char *text = allocate(needed);
    CHECK(terrace_report_to_text(report, text, needed, NULL));
    fputs(text, stdout);
    free(text);

    CHECK(terrace_report_destroy(report));
    CHECK(terrace_solver_destroy(solver));
    CHECK(terrace_matrix_destroy(matrix));
    /* The stream must outlive what works on it. */
    CHECK(terrace_context_destroy(context));
    free_on_device(row_offsets);
    free_on_device(columns);
    free_on_device(values);
    free_on_device(b);
    free_on_device(x);
    if (on_gpu) {
        check_cuda(cuda.stream_destroy(stream), "stream");
        check_cuda(cuda.release(device), "context");
    }
    return EXIT_SUCCESS;
}

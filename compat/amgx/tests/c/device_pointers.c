/* Arrays of a program in the memory of a GPU: device_pointers MODE cuda|hip. Everything that is uploaded, replaced and downloaded is in device memory
   once and on the host once, and both have the same bits. Prints the iterations of each block size, or REFUSED and the sentence where there is no GPU. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include <dlfcn.h>
#include <stdint.h>

enum { N = 12, ROWS = N * N, MOST = 5 * ROWS };

typedef unsigned long long address;

static AMGX_Mode mode;
static AMGX_resources_handle rsc;

/* Functions of a driver: those of CUDA and of HIP have the same arguments. */
static struct {
    int (*allocate)(address *, size_t);
    int (*free)(address);
    int (*copy_in)(address, const void *, size_t);
    int (*copy_out)(void *, address, size_t);
} gpu;

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    CHECK(symbol != NULL);
    memcpy(function, &symbol, sizeof symbol);
}

/* The primary context of the device is the one that the library uses. */
static void start_cuda(void *library) {
    int (*init)(unsigned), (*retain)(void **, int), (*use)(void *);
    void *context;
    find(library, "cuInit", &init);
    find(library, "cuDevicePrimaryCtxRetain", &retain);
    find(library, "cuCtxSetCurrent", &use);
    CHECK(init(0) == 0 && retain(&context, 0) == 0 && use(context) == 0);
}

static void start(const char *vendor) {
    int is_cuda = strcmp(vendor, "cuda") == 0;
    void *library = dlopen(is_cuda ? "libcuda.so.1" : "libamdhip64.so", RTLD_NOW);
    CHECK(library != NULL);
    if (is_cuda) start_cuda(library);
    find(library, is_cuda ? "cuMemAlloc_v2" : "hipMalloc", &gpu.allocate);
    find(library, is_cuda ? "cuMemFree_v2" : "hipFree", &gpu.free);
    find(library, is_cuda ? "cuMemcpyHtoD_v2" : "hipMemcpyHtoD", &gpu.copy_in);
    find(library, is_cuda ? "cuMemcpyDtoH_v2" : "hipMemcpyDtoH", &gpu.copy_out);
}

/* An array as the library is given it: on the host, or in device memory. */
typedef struct {
    void *host;
    address device;
    size_t bytes;
} array;

static array make(const void *content, size_t bytes, int on_device) {
    array a = {NULL, 0, bytes};
    if (on_device) {
        CHECK(gpu.allocate(&a.device, bytes) == 0);
        if (content != NULL) CHECK(gpu.copy_in(a.device, content, bytes) == 0);
    } else {
        a.host = calloc(1, bytes);
        CHECK(a.host != NULL);
        if (content != NULL) memcpy(a.host, content, bytes);
    }
    return a;
}

static void *pointer(array a) { return a.host != NULL ? a.host : (void *)(uintptr_t)a.device; }

/* Its content, after which it is no more. */
static void take(array a, void *to) {
    if (a.host != NULL) memcpy(to, a.host, a.bytes);
    else CHECK(gpu.copy_out(to, a.device, a.bytes) == 0);
}

static void drop(array a) {
    if (a.host != NULL) free(a.host);
    else CHECK(gpu.free(a.device) == 0);
}

static size_t matrix_bytes(void) { return AMGX_GET_MODE_VAL(AMGX_MatPrecision, mode) == AMGX_matFloat ? 4 : 8; }
static size_t vector_bytes(void) { return AMGX_GET_MODE_VAL(AMGX_VecPrecision, mode) == AMGX_vecFloat ? 4 : 8; }

static void store(void *to, size_t i, size_t bytes, double value) {
    if (bytes == 4) ((float *)to)[i] = (float)value;
    else ((double *)to)[i] = value;
}

/* The system: a 5-point Laplacian in blocks whose rows are coupled to the next. */
typedef struct {
    int block, entries, others;
    int offsets[ROWS + 1], columns[MOST], beside[ROWS + 1], other_columns[MOST];
    int64_t wide[MOST];
    /* Values with the diagonal among them, those beside it, and the diagonal; then the same in other units. */
    void *values[2], *off[2], *diagonal[2], *right;
} problem;

static void put_block(void *to, int k, const problem *p, double diagonal, double coupling, double scale) {
    int i, j, size = p->block * p->block;
    for (i = 0; i < p->block; ++i)
        for (j = 0; j < p->block; ++j)
            store(to, (size_t)(k * size + i * p->block + j), matrix_bytes(),
                  scale * (i == j ? diagonal : i - j == 1 || j - i == 1 ? coupling : 0));
}

static problem *system_of(int block) {
    static const int dx[] = {0, -1, 0, 1, 0}, dy[] = {-1, 0, 0, 0, 1};
    problem *p = calloc(1, sizeof *p);
    size_t bytes = (size_t)(MOST * block * block) * matrix_bytes();
    int row, side, set, i;
    CHECK(p != NULL);
    p->block = block;
    for (set = 0; set < 2; ++set) {
        p->values[set] = calloc(1, bytes), p->off[set] = calloc(1, bytes), p->diagonal[set] = calloc(1, bytes);
        CHECK(p->values[set] && p->off[set] && p->diagonal[set]);
    }
    for (row = 0; row < ROWS; ++row) {
        for (side = 0; side < 5; ++side) {
            int x = row % N + dx[side], y = row / N + dy[side], is_diagonal = side == 2;
            if (x < 0 || x >= N || y < 0 || y >= N) continue;
            for (set = 0; set < 2; ++set) {
                double scale = set == 0 ? 1 : 3, diagonal = is_diagonal ? 6.5 : -1, coupling = is_diagonal ? -1 : 0;
                put_block(p->values[set], p->entries, p, diagonal, coupling, scale);
                put_block(is_diagonal ? p->diagonal[set] : p->off[set], is_diagonal ? row : p->others, p, diagonal,
                          coupling, scale);
            }
            p->columns[p->entries] = y * N + x;
            p->wide[p->entries++] = y * N + x;
            if (!is_diagonal) p->other_columns[p->others++] = y * N + x;
        }
        p->offsets[row + 1] = p->entries;
        p->beside[row + 1] = p->others;
    }
    p->right = calloc(1, (size_t)(ROWS * block) * vector_bytes());
    CHECK(p->right != NULL);
    for (i = 0; i < ROWS * block; ++i) store(p->right, (size_t)i, vector_bytes(), 1 + i % 7);
    return p;
}

static void end(problem *p) {
    int set;
    for (set = 0; set < 2; ++set) free(p->values[set]), free(p->off[set]), free(p->diagonal[set]);
    free(p->right);
    free(p);
}

/* What came back, in the order in which it was asked for. */
typedef struct {
    unsigned char bytes[1 << 20];
    size_t used;
    int iterations;
} result;

static void receive(result *r, array a) {
    CHECK(r->used + a.bytes <= sizeof r->bytes);
    take(a, r->bytes + r->used);
    r->used += a.bytes;
    drop(a);
}

static void receive_vector(result *r, AMGX_vector_handle vec, const problem *p, int on_device) {
    array a = make(NULL, (size_t)(ROWS * p->block) * vector_bytes(), on_device);
    OK(AMGX_vector_download(vec, pointer(a)));
    receive(r, a);
}

/* The ways in which a matrix is uploaded. */
enum way { PLAIN, BESIDE, GLOBAL, GLOBAL_32, DISTRIBUTED, WAYS };

static void upload(AMGX_matrix_handle mtx, AMGX_config_handle cfg, const problem *p, enum way way, int on_device) {
    size_t size = (size_t)(p->block * p->block) * matrix_bytes();
    int b = p->block, entries = way == BESIDE ? p->others : p->entries, is_wide = way == GLOBAL || way == DISTRIBUTED;
    array offsets = make(way == BESIDE ? p->beside : p->offsets, sizeof p->offsets, on_device);
    array columns = is_wide ? make(p->wide, sizeof p->wide, on_device)
                            : make(way == BESIDE ? p->other_columns : p->columns, sizeof p->columns, on_device);
    array values = make(way == BESIDE ? p->off[0] : p->values[0], (size_t)entries * size, on_device);
    array diagonal = make(p->diagonal[0], ROWS * size, on_device);
    void *beside = way == BESIDE ? pointer(diagonal) : NULL;
    AMGX_distribution_handle dist;
    const int64_t range[] = {0, ROWS};
    switch (way) {
    case GLOBAL:
        OK(AMGX_matrix_upload_all_global(mtx, ROWS, ROWS, entries, b, b, pointer(offsets), pointer(columns),
                                         pointer(values), beside, 1, 1, NULL));
        break;
    case GLOBAL_32:
        OK(AMGX_matrix_upload_all_global_32(mtx, ROWS, ROWS, entries, b, b, pointer(offsets), pointer(columns),
                                            pointer(values), beside, 1, 1, NULL));
        break;
    case DISTRIBUTED:
        OK(AMGX_distribution_create(&dist, cfg));
        OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_OFFSETS, range));
        OK(AMGX_matrix_upload_distributed(mtx, ROWS, ROWS, entries, b, b, pointer(offsets), pointer(columns),
                                          pointer(values), beside, dist));
        OK(AMGX_distribution_destroy(dist));
        break;
    default:
        OK(AMGX_matrix_upload_all(mtx, ROWS, entries, b, b, pointer(offsets), pointer(columns), pointer(values), beside));
    }
    /* The library has copies. */
    drop(offsets), drop(columns), drop(values), drop(diagonal);
}

static void download(result *r, AMGX_matrix_handle mtx, const problem *p, enum way way, int on_device) {
    size_t size = (size_t)(p->block * p->block) * matrix_bytes();
    size_t entries = (size_t)(way == BESIDE ? p->others : p->entries);
    array offsets = make(NULL, sizeof p->offsets, on_device), columns = make(NULL, entries * sizeof(int), on_device);
    array values = make(NULL, entries * size, on_device);
    void *diagonal = NULL;
    OK(AMGX_matrix_download_all(mtx, pointer(offsets), pointer(columns), pointer(values), &diagonal));
    /* It is always on the host. */
    CHECK((diagonal != NULL) == (way == BESIDE) && (diagonal == NULL || memcmp(diagonal, p->diagonal[1], ROWS * size) == 0));
    free(diagonal);
    receive(r, offsets), receive(r, columns), receive(r, values);
}

static void replace(AMGX_matrix_handle mtx, const problem *p, enum way way, int on_device) {
    size_t size = (size_t)(p->block * p->block) * matrix_bytes();
    int entries = way == BESIDE ? p->others : p->entries;
    array values = make(way == BESIDE ? p->off[1] : p->values[1], (size_t)entries * size, on_device);
    array diagonal = make(p->diagonal[1], ROWS * size, on_device);
    OK(AMGX_matrix_replace_coefficients(mtx, ROWS, entries, pointer(values), way == BESIDE ? pointer(diagonal) : NULL));
    drop(values), drop(diagonal);
}

/* Uploads, solves, replaces the values, solves again and downloads. */
static void work(result *r, AMGX_config_handle cfg, const problem *p, enum way way, int on_device) {
    AMGX_matrix_handle mtx;
    AMGX_vector_handle b, x, y;
    AMGX_solver_handle slv;
    AMGX_SOLVE_STATUS status;
    array right = make(p->right, (size_t)(ROWS * p->block) * vector_bytes(), on_device);
    int step;
    OK(AMGX_matrix_create(&mtx, rsc, mode));
    OK(AMGX_vector_create(&b, rsc, mode));
    OK(AMGX_vector_create(&x, rsc, mode));
    OK(AMGX_vector_create(&y, rsc, mode));
    OK(AMGX_solver_create(&slv, rsc, mode, cfg));
    upload(mtx, cfg, p, way, on_device);
    OK(AMGX_vector_upload(b, ROWS, p->block, pointer(right)));
    for (step = 0; step < 2; ++step) {
        if (step == 1) replace(mtx, p, way, on_device);
        OK(step == 0 ? AMGX_solver_setup(slv, mtx) : AMGX_solver_resetup(slv, mtx));
        OK(AMGX_vector_set_zero(x, ROWS, p->block));
        OK(AMGX_solver_solve(slv, b, x));
        OK(AMGX_solver_get_status(slv, &status));
        CHECK(status == AMGX_SOLVE_SUCCESS);
        OK(AMGX_solver_get_iterations_number(slv, &r->iterations));
        receive_vector(r, x, p, on_device);
        OK(AMGX_matrix_vector_multiply(mtx, x, y));
        receive_vector(r, y, p, on_device);
    }
    download(r, mtx, p, way, on_device);
    drop(right);
    OK(AMGX_solver_destroy(slv));
    OK(AMGX_vector_destroy(y));
    OK(AMGX_vector_destroy(x));
    OK(AMGX_vector_destroy(b));
    OK(AMGX_matrix_destroy(mtx));
}

int main(int argc, char **argv) {
    static result on_host, on_device;
    static const int blocks[] = {1, 4};
    AMGX_config_handle cfg;
    AMGX_RC code;
    int i, way;
    CHECK(argc == 3);
    mode = (AMGX_Mode)atoi(argv[1]);
    OK(AMGX_initialize());
    OK(AMGX_config_create(&cfg,
                          "config_version=2, solver(main)=PCGF, main:preconditioner(amg)=AMG, amg:algorithm=AGGREGATION, amg:max_iters=1,"
                          "amg:smoother=BLOCK_JACOBI, main:monitor_residual=1, main:convergence=RELATIVE_INI, main:tolerance=1e-5"));
    OK(AMGX_resources_create_simple(&rsc, cfg));
    {
        AMGX_matrix_handle mtx;
        code = AMGX_matrix_create(&mtx, rsc, mode);
        if (code != AMGX_RC_OK) {
            char text[2048];
            OK(AMGX_get_error_string(code, text, sizeof text));
            printf("REFUSED %d %s\n", (int)code, text);
            return 0;
        }
        OK(AMGX_matrix_destroy(mtx));
    }
    start(argv[2]);
    for (i = 0; i < 2; ++i) {
        problem *p = system_of(blocks[i]);
        for (way = PLAIN; way < WAYS; ++way) {
            on_host.used = on_device.used = 0;
            work(&on_host, cfg, p, (enum way)way, 0);
            work(&on_device, cfg, p, (enum way)way, 1);
            CHECK(on_host.used > 0 && on_host.used == on_device.used && on_host.iterations == on_device.iterations);
            CHECK(memcmp(on_host.bytes, on_device.bytes, on_host.used) == 0);
        }
        printf("blocks of %d: %d iterations\n", p->block, on_device.iterations);
        end(p);
    }
    OK(AMGX_resources_destroy(rsc));
    OK(AMGX_config_destroy(cfg));
    OK(AMGX_finalize());
    return 0;
}

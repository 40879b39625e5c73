/* Bends a cantilever beam: linear elasticity on hexahedra, three displacements for each node, as a BSR matrix with 3x3 blocks.
 * The node coordinates give the library the rigid-body modes, which aggregation must reproduce on every level.
 *
 *   elasticity [n]      2n x n x n elements; n is 8 unless given
 */
#include "terrace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

static void *allocate(size_t count, size_t size) {
    void *memory = calloc(count, size);
    if (memory == NULL) {
        fprintf(stderr, "%zu elements could not be allocated\n", count);
        exit(EXIT_FAILURE);
    }
    return memory;
}

/* Stiffness of a cube with edge h: ke[a][b] is the 3x3 block that couples corner a to corner b. Corner a has the coordinates
 * (a & 1, a >> 1 & 1, a >> 2) in units of h. */
static void element_stiffness(double h, double ke[8][8][3][3]) {
    const double young = 1.0, poisson = 0.3;
    const double lambda = young * poisson / ((1.0 + poisson) * (1.0 - 2.0 * poisson));
    const double mu = young / (2.0 * (1.0 + poisson));
    const double gauss[2] = {0.5 - 0.5 / sqrt(3.0), 0.5 + 0.5 / sqrt(3.0)};

    for (int a = 0; a < 8; ++a)
        for (int b = 0; b < 8; ++b)
            for (int i = 0; i < 3; ++i)
                for (int j = 0; j < 3; ++j)
                    ke[a][b][i][j] = 0.0;

    for (int q = 0; q < 8; ++q) {
        const double at[3] = {gauss[q & 1], gauss[q >> 1 & 1], gauss[q >> 2]};
        double gradient[8][3];
        for (int a = 0; a < 8; ++a) {
            double shape[3], slope[3];
            for (int i = 0; i < 3; ++i) {
                const int upper = a >> i & 1;
                shape[i] = upper ? at[i] : 1.0 - at[i];
                slope[i] = (upper ? 1.0 : -1.0) / h;
            }
            gradient[a][0] = slope[0] * shape[1] * shape[2];
            gradient[a][1] = shape[0] * slope[1] * shape[2];
            gradient[a][2] = shape[0] * shape[1] * slope[2];
        }
        const double weight = h * h * h / 8.0;
        for (int a = 0; a < 8; ++a) {
            for (int b = 0; b < 8; ++b) {
                const double *ga = gradient[a], *gb = gradient[b];
                const double dot = ga[0] * gb[0] + ga[1] * gb[1] + ga[2] * gb[2];
                for (int i = 0; i < 3; ++i)
                    for (int j = 0; j < 3; ++j)
                        ke[a][b][i][j] +=
                            weight * (lambda * ga[i] * gb[j] + mu * ga[j] * gb[i] + (i == j ? mu * dot : 0.0));
            }
        }
    }
}

/* Nodes of the beam. Those with x = 0 are clamped and left out of the system; the others are numbered x fastest. */
typedef struct {
    int nx, ny, nz; /* nodes that are free, in each direction */
    double h;
} beam;

static int node(const beam *g, int x, int y, int z) { return (z * g->ny + y) * g->nx + x; }

/* Pattern: each node couples to its neighbours in the surrounding 3x3x3 nodes, columns ascending. */
static int pattern(const beam *g, int32_t *row_offsets, int32_t *columns) {
    int k = 0;
    for (int z = 0; z < g->nz; ++z)
        for (int y = 0; y < g->ny; ++y)
            for (int x = 0; x < g->nx; ++x) {
                row_offsets[node(g, x, y, z)] = k;
                for (int w = z - 1; w <= z + 1; ++w)
                    for (int v = y - 1; v <= y + 1; ++v)
                        for (int u = x - 1; u <= x + 1; ++u)
                            if (u >= 0 && u < g->nx && v >= 0 && v < g->ny && w >= 0 && w < g->nz)
                                columns[k++] = node(g, u, v, w);
            }
    row_offsets[g->nx * g->ny * g->nz] = k;
    return k;
}

static void add_block(const int32_t *row_offsets, const int32_t *columns, double *values, int row, int column,
                      double block[3][3]) {
    int k = row_offsets[row];
    while (columns[k] != column) ++k;
    for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; ++j)
            values[9 * k + 3 * i + j] += block[i][j];
}

static void assemble(const beam *g, const int32_t *row_offsets, const int32_t *columns, double *values) {
    double ke[8][8][3][3];
    element_stiffness(g->h, ke);
    for (int z = 0; z < g->nz - 1; ++z)
        for (int y = 0; y < g->ny - 1; ++y)
            for (int x = -1; x < g->nx - 1; ++x) /* the first layer of elements has its left nodes clamped */
                for (int a = 0; a < 8; ++a)
                    for (int b = 0; b < 8; ++b) {
                        const int xa = x + (a & 1), xb = x + (b & 1);
                        if (xa < 0 || xb < 0) continue;
                        add_block(row_offsets, columns, values, node(g, xa, y + (a >> 1 & 1), z + (a >> 2)),
                                  node(g, xb, y + (b >> 1 & 1), z + (b >> 2)), ke[a][b]);
                    }
}

int main(int argc, char **argv) {
    const int n = argc > 1 ? atoi(argv[1]) : 8;
    if (n < 1 || n > 100) {
        fprintf(stderr, "n must be from 1 to 100\n");
        return EXIT_FAILURE;
    }
    const beam g = {2 * n, n + 1, n + 1, 1.0 / n};
    const int nodes = g.nx * g.ny * g.nz;
    int32_t *row_offsets = allocate((size_t)nodes + 1, sizeof *row_offsets);
    int32_t *columns = allocate(27 * (size_t)nodes, sizeof *columns);
    const int blocks = pattern(&g, row_offsets, columns);
    double *values = allocate(9 * (size_t)blocks, sizeof *values);
    assemble(&g, row_offsets, columns, values);

    double *coordinates = allocate(3 * (size_t)nodes, sizeof *coordinates);
    double *load = allocate(3 * (size_t)nodes, sizeof *load);
    double *u = allocate(3 * (size_t)nodes, sizeof *u);
    for (int z = 0; z < g.nz; ++z)
        for (int y = 0; y < g.ny; ++y)
            for (int x = 0; x < g.nx; ++x) {
                const int k = node(&g, x, y, z);
                coordinates[3 * k + 0] = (x + 1) * g.h;
                coordinates[3 * k + 1] = y * g.h;
                coordinates[3 * k + 2] = z * g.h;
                if (x == g.nx - 1) load[3 * k + 2] = -1.0 / (g.ny * g.nz); /* a unit force pulls the free end down */
            }
    printf("elasticity, %d nodes, %d unknowns, %d blocks\n\n", nodes, 3 * nodes, blocks);

    terrace_context *context = NULL;
    CHECK(terrace_context_create("host", &context));
    terrace_matrix *matrix = NULL;
    CHECK(terrace_matrix_create_bsr(context, nodes, nodes, 3, TERRACE_I32, row_offsets, TERRACE_I32, columns, TERRACE_F64,
                                    values, 0, TERRACE_BORROW | TERRACE_SORTED, &matrix));
    CHECK(terrace_matrix_set_coordinates(context, matrix, 3, nodes, coordinates));

    terrace_solver *solver = NULL;
    CHECK(terrace_solver_create(context, NULL, &solver));
    CHECK(terrace_solver_setup(solver, matrix));
    terrace_status status = terrace_solver_solve(solver, TERRACE_F64, 1, load, u, TERRACE_ZERO_GUESS);
    CHECK(status);

    terrace_report *report = NULL;
    CHECK(terrace_solver_report(solver, &report));
    char text[4096];
    CHECK(terrace_report_to_text(report, text, sizeof text, NULL));
    fputs(text, stdout);
    printf("\nthe free end sinks by %.6f\n", -u[3 * node(&g, g.nx - 1, g.ny / 2, g.nz / 2) + 2]);

    CHECK(terrace_report_destroy(report));
    CHECK(terrace_solver_destroy(solver));
    CHECK(terrace_matrix_destroy(matrix));
    CHECK(terrace_context_destroy(context));
    free(u);
    free(load);
    free(coordinates);
    free(values);
    free(columns);
    free(row_offsets);
    return status == TERRACE_SUCCESS ? EXIT_SUCCESS : EXIT_FAILURE;
}

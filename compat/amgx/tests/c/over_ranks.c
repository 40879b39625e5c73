/*
 * Distributed entry points on the ranks of mpirun: over_ranks MODE FOLDER [MORE OPTIONS]. Every system is solved, its
 * solution gathered and compared with the one that the right-hand side was made of, and its residual computed here.
 * Prints a line for each, which is the same for any number of ranks.
 */
#include "check.h"
#include <mpi.h>
#include <stdint.h>
#include <stdarg.h>

#define BAD AMGX_RC_BAD_PARAMETERS

enum { NX = 7, NY = 6, NZ = 5, ROWS = NX * NY * NZ, MOST = 2 * ROWS };

static int rank, ranks, is_float_matrix, is_float_vector;
static AMGX_Mode mode;
static AMGX_config_handle cfg;
static AMGX_resources_handle rsc;
static AMGX_matrix_handle a;
static AMGX_vector_handle b, x;
static AMGX_solver_handle slv;

/* Row i of the whole matrix: a Laplacian with coefficients that differ. Returns the number of entries, columns
   descending or ascending. */
static int row_of(int i, int descending, int *columns, double *values) {
    const int at[3] = {i % NX, i / NX % NY, i / (NX * NY)}, end[3] = {NX, NY, NZ}, step[3] = {1, NX, NX * NY};
    int n = 0, axis, k;
    double sum = 0.05;
    for (axis = 2; axis >= 0; --axis) {
        if (at[axis] > 0) {
            columns[n] = i - step[axis];
            values[n++] = -1.0 - 0.1 * ((i - step[axis]) % 5) - 0.1 * (i % 5);
        }
    }
    const int middle = n++;
    for (axis = 0; axis < 3; ++axis) {
        if (at[axis] + 1 < end[axis]) {
            columns[n] = i + step[axis];
            values[n++] = -1.0 - 0.1 * ((i + step[axis]) % 5) - 0.1 * (i % 5);
        }
    }
    for (k = 0; k < n; ++k) sum += k == middle ? 0.0 : -values[k];
    columns[middle] = i, values[middle] = sum;
    for (k = 0; descending && k < n / 2; ++k) {
        const int column = columns[k];
        const double value = values[k];
        columns[k] = columns[n - 1 - k], values[k] = values[n - 1 - k];
        columns[n - 1 - k] = column, values[n - 1 - k] = value;
    }
    return n;
}

/* Entry (i, j) of the block of a value: not symmetric, and dominant where the matrix is. */
static double in_block(double value, int i, int j) {
    return i == j ? value : i < j ? 0.1 * value : -0.05 * value;
}

static double exact(int i) {
    return 1.0 + 0.5 * (i % 7) - 0.25 * (i % 3);
}

/* The rows of this rank, in the numbering of the whole matrix. */
static int own[ROWS], owns;

static void own_range(int first, int end) {
    for (owns = 0; first < end; ++first) own[owns++] = first;
}

static void own_of(const int *partition) {
    int i;
    for (i = owns = 0; i < ROWS; ++i) {
        if (partition[i] == rank) own[owns++] = i;
    }
}

/* Uneven ranges; with an empty one the last rank has none. */
static int first_of(int r, int empty) {
    const int sharing = empty && ranks > 1 ? ranks - 1 : ranks;
    return r >= sharing ? ROWS : ROWS * r * (r + 1) / (sharing * (sharing + 1));
}

static int offsets[ROWS + 1], columns[8 * ROWS], entries;
static int64_t wide[8 * ROWS];
static double doubles[4][32 * ROWS];
static float floats[4][32 * ROWS];

/* Numbers in the format of the mode, in one of four places. */
static void *in_format(int place, int is_float, int n) {
    int k;
    if (!is_float) return doubles[place];
    for (k = 0; k < n; ++k) floats[place][k] = (float)doubles[place][k];
    return floats[place];
}

/* Makes arrays 0, values, and 1, the diagonal, of own rows. */
static void make(int block, int descending, int diagonal_apart, double factor) {
    int i, k, p, q, n, cols[8];
    double values[8];
    entries = offsets[0] = 0;
    for (i = 0; i < owns; ++i) {
        n = row_of(own[i], descending, cols, values);
        for (k = 0; k < n; ++k) {
            const int apart = diagonal_apart && cols[k] == own[i];
            double *to = apart ? doubles[1] + i * block * block : doubles[0] + entries * block * block;
            for (p = 0; p < block; ++p) {
                for (q = 0; q < block; ++q) to[p * block + q] = factor * in_block(values[k], p, q);
            }
            if (!apart) wide[entries] = columns[entries] = cols[k], ++entries;
        }
        offsets[i + 1] = entries;
    }
    in_format(0, is_float_matrix, entries * block * block);
    in_format(1, is_float_matrix, owns * block * block);
}

static void *values(void) {
    return is_float_matrix ? (void *)floats[0] : doubles[0];
}

static void *diagonal(void) {
    return is_float_matrix ? (void *)floats[1] : doubles[1];
}

/* y = A x of the whole matrix. */
static void product(const double *from, double *to, int block) {
    int i, k, p, q, cols[8];
    double vals[8];
    for (i = 0; i < ROWS; ++i) {
        const int n = row_of(i, 0, cols, vals);
        for (p = 0; p < block; ++p) {
            to[i * block + p] = 0;
            for (k = 0; k < n; ++k) {
                for (q = 0; q < block; ++q) to[i * block + p] += in_block(vals[k], p, q) * from[cols[k] * block + q];
            }
        }
    }
}

static double whole[3][MOST];

/* A vector of own rows, in array 2. */
static void *part_of(const double *all, int block) {
    int i, p;
    for (i = 0; i < owns; ++i) {
        for (p = 0; p < block; ++p) doubles[2][i * block + p] = all[own[i] * block + p];
    }
    return in_format(2, is_float_vector, owns * block);
}

static void gather(AMGX_vector_handle vector, double *all, int block) {
    static double here[MOST];
    int i, p, n, of;
    OK(AMGX_vector_get_size(vector, &n, &of));
    CHECK(n == owns && of == block);
    OK(AMGX_vector_download(vector, is_float_vector ? (void *)floats[3] : doubles[3]));
    memset(here, 0, sizeof here);
    for (i = 0; i < owns; ++i) {
        for (p = 0; p < block; ++p) {
            here[own[i] * block + p] = is_float_vector ? (double)floats[3][i * block + p] : doubles[3][i * block + p];
        }
    }
    MPI_Allreduce(here, all, MOST, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double tolerance(void) {
    return is_float_vector ? 2e-3 : is_float_matrix ? 1e-4 : 1e-6;
}

static void say(const char *format, ...) {
    va_list arguments;
    if (rank != 0) return;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
}

/* Solves with the matrix that is set, times a factor, and compares. */
static void solve(const char *name, int block, double factor, int again) {
    double residual = 0, norm = 0, error = 0, sum = 0, told[2] = {0, 0};
    AMGX_SOLVE_STATUS status;
    int i, n, bx, by, iterations, most;
    for (i = 0; i < ROWS * block; ++i) whole[0][i] = exact(i);
    product(whole[0], whole[1], block);
    OK(AMGX_matrix_get_size(a, &n, &bx, &by));
    CHECK(n == owns && bx == block && by == block);
    OK(AMGX_vector_bind(b, a));
    OK(AMGX_vector_bind(x, a));
    OK(AMGX_vector_upload(b, owns, block, part_of(whole[1], block)));
    OK(again ? AMGX_solver_resetup(slv, a) : AMGX_solver_setup(slv, a));
    OK(AMGX_solver_solve_with_0_initial_guess(slv, b, x));
    OK(AMGX_solver_get_status(slv, &status));
    CHECK(status == AMGX_SOLVE_SUCCESS);
    OK(AMGX_solver_get_iterations_number(slv, &iterations));
    MPI_Allreduce(&iterations, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    CHECK(iterations == most && iterations > 0 && iterations < 60);
    gather(x, whole[2], block);
    for (i = 0; i < ROWS * block; ++i) {
        whole[2][i] *= factor;
        error = fmax(error, fabs(whole[2][i] - exact(i)));
        sum += whole[2][i];
    }
    CHECK(error < tolerance());
    product(whole[2], whole[0], block);
    for (i = 0; i < ROWS * block; ++i) {
        residual += (whole[1][i] - whole[0][i]) * (whole[1][i] - whole[0][i]);
        norm += whole[1][i] * whole[1][i];
    }
    CHECK(sqrt(residual / norm) < tolerance());
    /* What the library says of them. */
    OK(AMGX_solver_calculate_residual_norm(slv, a, b, x, told));
    if (is_float_vector) told[0] = ((float *)told)[0];
    CHECK(told[0] <= tolerance() * sqrt(norm) && fabs(told[0] - sqrt(residual)) <= tolerance() * sqrt(norm));
    OK(AMGX_solver_get_iteration_residual(slv, 0, 0, &told[1]));
    CHECK(fabs(told[1] - sqrt(norm)) <= 1e-5 * sqrt(norm));
    say("%s: sum of the solution %.2f\n", name, sum);
}

static int prints;

static void count_prints(const char *text, int length) {
    CHECK(length == (int)strlen(text));
    ++prints;
}

static void global(void) {
    int interleaved[ROWS], i, empty, dominant, pattern, same;
    for (i = 0; i < ROWS; ++i) interleaved[i] = (i * 7 + i / 3) % ranks;
    for (empty = 0; empty < 2; ++empty) {
        own_range(first_of(rank, empty), first_of(rank + 1, empty));
        make(1, 0, 0, 1.0);
        OK(AMGX_matrix_upload_all_global(a, ROWS, owns, entries, 1, 1, offsets, wide, values(), NULL, 1, 1, NULL));
        solve(empty ? "a rank without rows" : "ranges", 1, 1.0, 0);
    }
    OK(AMGX_matrix_check_diag_dominant(a, &dominant));
    CHECK(dominant == 1);
    if (ranks > 1) FAILS(AMGX_RC_NOT_SUPPORTED_TARGET, AMGX_matrix_check_symmetry(a, &pattern, &same));
    make(1, 0, 0, 4.0);
    OK(AMGX_matrix_replace_coefficients(a, owns, entries, values(), NULL));
    solve("replaced coefficients", 1, 4.0, 1);

    /* One rank alone has changed its configuration. */
    if (rank == 0) OK(AMGX_config_add_parameters(&cfg, "main:print_solve_stats=1"));
    solve("printed", 1, 4.0, 1);
    CHECK(rank == 0 ? prints > 0 : prints == 0);

    own_of(interleaved);
    make(1, 1, 0, 1.0);
    OK(AMGX_matrix_upload_all_global_32(a, ROWS, owns, entries, 1, 1, offsets, columns, values(), NULL, 1, 1,
          interleaved));
    solve("interleaved rows", 1, 1.0, 0);
    make(2, 1, 1, 1.0);
    OK(AMGX_matrix_upload_all_global_32(a, ROWS, owns, entries, 2, 2, offsets, columns, values(), diagonal(), 1, 1,
          interleaved));
    solve("blocks with a diagonal apart", 2, 1.0, 0);
    make(2, 1, 1, 2.0);
    OK(AMGX_matrix_replace_coefficients(a, owns, entries, values(), NULL));
    OK(AMGX_matrix_replace_coefficients(a, owns, entries, NULL, diagonal()));
    solve("both replaced", 2, 2.0, 1);

    /* Products, and what comes back. */
    static int rows_back[ROWS + 1], columns_back[8 * ROWS];
    void *apart;
    int nnz;
    for (i = 0; i < 2 * ROWS; ++i) whole[0][i] = exact(i);
    product(whole[0], whole[1], 2);
    OK(AMGX_vector_upload(x, owns, 2, part_of(whole[0], 2)));
    OK(AMGX_matrix_vector_multiply(a, x, b));
    gather(b, whole[2], 2);
    for (i = 0; i < 2 * ROWS; ++i) CHECK(fabs(whole[2][i] - 2 * whole[1][i]) < 1e-4);
    OK(AMGX_matrix_get_nnz(a, &nnz));
    CHECK(nnz == entries);
    OK(AMGX_matrix_download_all(a, rows_back, columns_back, is_float_matrix ? (void *)floats[3] : doubles[3], &apart));
    CHECK(apart != NULL || owns == 0);
    for (i = 0; i < entries; ++i) CHECK(columns_back[i] == columns[i]);
    for (i = 0; i < 4 * entries; ++i) {
        CHECK(is_float_matrix ? floats[3][i] == floats[0][i] : doubles[3][i] == doubles[0][i]);
    }
    free(apart);
}

static void distributions(void) {
    AMGX_distribution_handle dist;
    int64_t starts[9];
    int narrow[9], partition[ROWS], i, r;
    for (r = 0; r <= ranks; ++r) narrow[r] = (int)(starts[r] = first_of(r, 0));
    for (i = 0; i < ROWS; ++i) partition[i] = i / 5 % ranks;
    OK(AMGX_distribution_create(&dist, cfg));
    OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_OFFSETS, starts));
    own_range(first_of(rank, 0), first_of(rank + 1, 0));
    make(1, 1, 0, 1.0);
    OK(AMGX_matrix_upload_distributed(a, ROWS, owns, entries, 1, 1, offsets, wide, values(), NULL, dist));
    solve("offsets", 1, 1.0, 0);
    OK(AMGX_distribution_set_32bit_colindices(dist, 1));
    OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_OFFSETS, narrow));
    OK(AMGX_matrix_upload_distributed(a, ROWS, owns, entries, 1, 1, offsets, columns, values(), NULL, dist));
    solve("offsets of 32 bits", 1, 1.0, 1);
    OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_VECTOR, partition));
    own_of(partition);
    make(2, 0, 0, 1.0);
    OK(AMGX_matrix_upload_distributed(a, ROWS, owns, entries, 2, 2, offsets, columns, values(), NULL, dist));
    solve("a vector of ranks", 2, 1.0, 0);

    if (ranks > 1) {
        /* What does not fit on one rank is an error on all. */
        int bad[ROWS];
        char words[64];
        FAILS(BAD, AMGX_matrix_upload_distributed(a, ROWS, rank == 1 ? owns - 1 : owns, entries, 2, 2, offsets,
              columns, values(), NULL, dist));
        snprintf(words, sizeof words, rank == 1 ? "n is " : "rank 1 of %d: n is ", ranks);
        CHECK(says(BAD, words));
        memcpy(bad, partition, sizeof bad);
        bad[3] = ranks;
        FAILS(BAD, AMGX_matrix_upload_all_global(a, ROWS, owns, entries, 2, 2, offsets, wide, values(), NULL, 1, 1,
              rank == 0 ? bad : partition));
        CHECK(says(BAD, "the partition gives row 3 to "));
        memcpy(bad, partition, sizeof bad);
        if (rank == 1) bad[0] = partition[5], bad[5] = partition[0];
        own_of(bad);
        FAILS(BAD, AMGX_matrix_upload_all_global(a, ROWS, owns, entries, 2, 2, offsets, wide, values(), NULL, 1, 1,
              bad));
        CHECK(says(BAD, "rank 1 has another partition than rank 0"));
        own_of(partition);
        FAILS(BAD, AMGX_matrix_upload_all_global(a, ROWS + rank, owns, entries, 2, 2, offsets, wide, values(), NULL,
              1, 1, partition));
        CHECK(says(BAD, "n_global is "));
        starts[1] += 1;
        OK(AMGX_distribution_set_32bit_colindices(dist, 0));
        OK(AMGX_distribution_set_partition_data(dist, AMGX_DIST_PARTITION_OFFSETS, starts));
        own_range(first_of(rank, 0), first_of(rank + 1, 0));
        make(1, 0, 0, 1.0);
        FAILS(BAD, AMGX_matrix_upload_distributed(a, ROWS, owns, entries, 1, 1, offsets, wide, values(), NULL, dist));
        if (rank == 1) wide[0] = (int64_t)1 << 40;
        FAILS(BAD, AMGX_matrix_upload_all_global(a, ROWS, owns, entries, 1, 1, offsets, wide, values(), NULL, 1, 1,
              NULL));
        FAILS(BAD, AMGX_matrix_upload_all_global(a, ROWS, owns, rank == 1 ? -1 : entries, 1, 1, offsets, wide,
              values(), NULL, 1, 1, NULL));
        /* A vector that does not fit. */
        make(1, 0, 0, 1.0);
        OK(AMGX_matrix_upload_all_global(a, ROWS, owns, entries, 1, 1, offsets, wide, values(), NULL, 1, 1, NULL));
        OK(AMGX_solver_setup(slv, a));
        OK(AMGX_vector_set_zero(b, rank == 1 ? owns + 1 : owns, 1));
        OK(AMGX_vector_set_zero(x, owns, 1));
        FAILS(BAD, AMGX_solver_solve(slv, b, x));
        CHECK(says(BAD, "rhs has "));
    }
    OK(AMGX_distribution_destroy(dist));
}

/* Local columns, own ones first, and the maps for them, where ranks have ranges. */
static void maps(void) {
    int neighbours[8], sizes[2][8], ptrs[2][9], count = 0, i, k, r, next;
    static int send[8][ROWS], receive[8][ROWS], flat[2][8 * ROWS], halo[ROWS], cols[8];
    const int *sends[8], *receives[8];
    double vals[8];
    own_range(first_of(rank, 0), first_of(rank + 1, 0));
    make(1, 0, 0, 1.0);
    for (i = 0; i < ROWS; ++i) halo[i] = -1;
    next = owns;
    ptrs[0][0] = ptrs[1][0] = 0;
    /* Neighbours in descending order, and the halo in the order of its last columns. */
    for (r = ranks - 1; r >= 0; --r) {
        const int first = first_of(r, 0), end = first_of(r + 1, 0);
        int sent = 0, received = 0, j;
        if (r == rank) continue;
        for (j = end - 1; j >= first; --j) {
            for (k = 0; k < entries && columns[k] != j; ++k) continue;
            if (k < entries) receive[count][received++] = halo[j] = next++;
        }
        for (i = owns - 1; i >= 0; --i) {
            int is_needed = 0;
            for (j = first; j < end; ++j) {
                const int n = row_of(j, 0, cols, vals);
                for (k = 0; k < n; ++k) is_needed |= cols[k] == own[i];
            }
            if (is_needed) send[count][sent++] = i;
        }
        if (sent == 0 && received == 0) continue;
        neighbours[count] = r, sizes[0][count] = sent, sizes[1][count] = received;
        sends[count] = send[count], receives[count] = receive[count];
        memcpy(flat[0] + ptrs[0][count], send[count], sizeof(int) * (size_t)sent);
        memcpy(flat[1] + ptrs[1][count], receive[count], sizeof(int) * (size_t)received);
        ptrs[0][count + 1] = ptrs[0][count] + sent, ptrs[1][count + 1] = ptrs[1][count] + received;
        ++count;
    }
    for (k = 0; k < entries; ++k) {
        const int is_own = columns[k] >= own[0] && columns[k] < own[0] + owns;
        columns[k] = is_own ? columns[k] - own[0] : halo[columns[k]];
    }
    OK(AMGX_matrix_comm_from_maps_one_ring(a, 1, count, neighbours, sizes[0], sends, sizes[1], receives));
    OK(AMGX_matrix_upload_all(a, owns, entries, 1, 1, offsets, columns, values(), NULL));
    solve("maps of one ring", 1, 1.0, 0);
    OK(AMGX_matrix_comm_from_maps(a, 1, 1, count, neighbours, ptrs[0], flat[0], ptrs[1], flat[1]));
    OK(AMGX_matrix_upload_all(a, owns, entries, 1, 1, offsets, columns, values(), NULL));
    solve("maps", 1, 1.0, 1);
    if (ranks > 1) {
        if (rank == 1) sizes[1][0] -= 1;
        OK(AMGX_matrix_comm_from_maps_one_ring(a, 1, count, neighbours, sizes[0], sends, sizes[1], receives));
        FAILS(BAD, AMGX_matrix_upload_all(a, owns, entries, 1, 1, offsets, columns, values(), NULL));
        FAILS(BAD, AMGX_matrix_comm_from_maps_one_ring(a, 1, rank == 1 ? -1 : count, neighbours, sizes[0], sends,
              sizes[1], receives));
        FAILS(AMGX_RC_NOT_SUPPORTED_TARGET, AMGX_matrix_comm_from_maps(a, 1, 2, count, neighbours, ptrs[0], flat[0],
              ptrs[1], flat[1]));
    }
    OK(AMGX_matrix_destroy(a));
    OK(AMGX_matrix_create(&a, rsc, mode));
}

static void poisson(void) {
    const int px = 1, py = ranks % 2 == 0 ? 2 : 1, pz = ranks / py, n = 60;
    AMGX_SOLVE_STATUS status;
    double told[2] = {0, 0};
    int rows, bx, by, dominant;
    FAILS(BAD, AMGX_generate_distributed_poisson_7pt(a, b, x, 1, 1, 3, 4, 5, px, py, pz + 1));
    CHECK(says(BAD, "their product must be the number of ranks"));
    OK(AMGX_generate_distributed_poisson_7pt(a, b, x, 1, 1, 3, 4, 5, px, py, pz));
    OK(AMGX_matrix_get_size(a, &rows, &bx, &by));
    CHECK(rows == n);
    OK(AMGX_matrix_check_diag_dominant(a, &dominant));
    CHECK(dominant == 1);
    OK(AMGX_solver_setup(slv, a));
    OK(AMGX_solver_calculate_residual_norm(slv, a, b, x, told));
    if (is_float_vector) told[0] = ((float *)told)[0];
    CHECK(fabs(told[0] - sqrt(n * ranks)) < 1e-4);
    OK(AMGX_solver_solve(slv, b, x));
    OK(AMGX_solver_get_status(slv, &status));
    OK(AMGX_solver_calculate_residual_norm(slv, a, b, x, told));
    if (is_float_vector) told[0] = ((float *)told)[0];
    CHECK(status == AMGX_SOLVE_SUCCESS && told[0] < tolerance());

    /* The same grid by itself, without ranks: its solution has the same sum. */
    AMGX_resources_handle alone;
    AMGX_matrix_handle m;
    AMGX_vector_handle r, s;
    AMGX_solver_handle solver;
    static float narrow[16 * 60];
    static double numbers[16 * 60];
    double sums[2] = {0, 0}, sum;
    int i;
    OK(AMGX_vector_download(x, is_float_vector ? (void *)narrow : numbers));
    for (i = 0; i < n; ++i) sums[0] += is_float_vector ? (double)narrow[i] : numbers[i];
    MPI_Allreduce(&sums[0], &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    OK(AMGX_resources_create_simple(&alone, cfg));
    OK(AMGX_matrix_create(&m, alone, mode));
    OK(AMGX_vector_create(&r, alone, mode));
    OK(AMGX_vector_create(&s, alone, mode));
    OK(AMGX_solver_create(&solver, alone, mode, cfg));
    OK(AMGX_generate_distributed_poisson_7pt(m, r, s, 1, 1, 3 * px, 4 * py, 5 * pz, 1, 1, 1));
    OK(AMGX_solver_setup(solver, m));
    OK(AMGX_solver_solve(solver, r, s));
    OK(AMGX_vector_download(s, is_float_vector ? (void *)narrow : numbers));
    for (i = 0; i < n * ranks; ++i) sums[1] += is_float_vector ? (double)narrow[i] : numbers[i];
    CHECK(fabs(sum - sums[1]) < tolerance() * fabs(sum));
    OK(AMGX_solver_destroy(solver));
    OK(AMGX_vector_destroy(r));
    OK(AMGX_vector_destroy(s));
    OK(AMGX_matrix_destroy(m));
    OK(AMGX_resources_destroy(alone));
    say("Poisson: as by itself\n");
}

static void files(const char *folder) {
    int partition[ROWS], sizes[8] = {0}, i, k, n, nnz, bx, by, count, *rows, *neighbours, *send_sizes, *recv_sizes,
          **send_maps, **recv_maps;
    int *local, cols[8];
    double vals[8];
    void *data, *apart, *rhs, *sol, *global_columns;
    char path[1024];
    snprintf(path, sizeof path, "%s/system.mtx", folder);
    for (i = 0; i < ROWS; ++i) partition[i] = (i * 7 + i / 3) % ranks, ++sizes[partition[i]];
    own_of(partition);
    make(1, 0, 1, 1.0);
    OK(AMGX_matrix_upload_all_global(a, ROWS, owns, entries, 1, 1, offsets, wide, values(), diagonal(), 1, 1,
          partition));
    for (i = 0; i < ROWS; ++i) whole[0][i] = exact(i);
    OK(AMGX_vector_upload(b, owns, 1, part_of(whole[0], 1)));
    OK(AMGX_vector_set_zero(x, owns, 1));
    OK(AMGX_write_system_distributed(a, b, x, path, 1, ranks, sizes, ROWS, partition));
    OK(AMGX_write_system(a, b, x, path));
    if (ranks > 1) {
        FAILS(BAD, AMGX_write_system(a, rank == 1 ? NULL : b, x, path));
        OK(AMGX_write_system(a, b, x, path));
    }

    /* In ranges, and divided as before: the file is in the order of the whole matrix. */
    OK(AMGX_read_system_distributed(a, b, x, path, 1, 0, NULL, 0, NULL));
    own_range(ROWS * rank / ranks, ROWS * (rank + 1) / ranks);
    gather(b, whole[2], 1);
    for (i = 0; i < ROWS; ++i) CHECK(fabs(whole[2][i] - exact(i)) < 1e-6);
    solve("read in ranges", 1, 1.0, 0);
    OK(AMGX_read_system_distributed(a, b, x, path, 1, ranks, sizes, ROWS, partition));
    own_of(partition);
    gather(b, whole[2], 1);
    for (i = 0; i < ROWS; ++i) CHECK(fabs(whole[2][i] - exact(i)) < 1e-6);
    solve("read by a partition", 1, 1.0, 0);
    /* Two partitions for each rank. */
    int twice[ROWS];
    for (i = 0; i < ROWS; ++i) twice[i] = 2 * partition[i] + i % 2;
    OK(AMGX_read_system_distributed(a, b, x, path, 1, 2 * ranks, NULL, ROWS, twice));
    gather(b, whole[2], 1);
    for (i = 0; i < ROWS; ++i) CHECK(fabs(whole[2][i] - exact(i)) < 1e-6);
    if (ranks > 1) {
        sizes[0] += 1;
        FAILS(BAD, AMGX_read_system_distributed(a, b, x, path, 1, ranks, sizes, ROWS, partition));
        sizes[0] -= 1;
        FAILS(BAD, AMGX_read_system_distributed(a, b, x, path, 1, ranks + 1, NULL, 0, NULL));
        FAILS(BAD, AMGX_read_system_distributed(a, b, x, path, 1, ranks, NULL, ROWS - 1, partition));
        FAILS(AMGX_RC_IO_ERROR, AMGX_read_system_distributed(a, b, x, rank == 1 ? "no/such/file" : path, 1, 0, NULL,
              0, NULL));
    }

    OK(AMGX_read_system_global(&n, &nnz, &bx, &by, &rows, &global_columns, &data, &apart, &rhs, &sol, rsc, mode, path,
          1, ranks, sizes,
                               ROWS, partition));
    CHECK(n == owns && bx == 1 && by == 1);
    for (i = 0; i < n; ++i) {
        const int is_whole = apart == NULL, of_row = row_of(own[i], 0, cols, vals);
        int at = rows[i];
        for (k = 0; k < of_row; ++k) {
            if (is_whole || cols[k] != own[i]) CHECK(((int64_t *)global_columns)[at++] == cols[k]);
        }
        CHECK(at == rows[i + 1]);
    }
    OK(AMGX_matrix_upload_all_global(a, ROWS, n, nnz, bx, by, rows, global_columns, data, apart, 1, 1, partition));
    free(rows), free(global_columns), free(data), free(apart), free(rhs), free(sol);
    solve("read as arrays", 1, 1.0, 0);

    OK(AMGX_read_system_maps_one_ring(&n, &nnz, &bx, &by, &rows, &local, &data, &apart, &rhs, &sol, &count,
          &neighbours, &send_sizes, &send_maps,
                                      &recv_sizes, &recv_maps, rsc, mode, path, 1, ranks, sizes, ROWS, partition));
    CHECK(ranks == 1 ? count == 0 : count > 0);
    OK(AMGX_matrix_comm_from_maps_one_ring(a, 1, count, neighbours, send_sizes, (const int **)send_maps, recv_sizes,
          (const int **)recv_maps));
    OK(AMGX_matrix_upload_all(a, n, nnz, bx, by, rows, local, data, apart));
    OK(AMGX_free_system_maps_one_ring(rows, local, data, apart, rhs, sol, count, neighbours, send_sizes, send_maps,
          recv_sizes, recv_maps));
    solve("read with maps", 1, 1.0, 0);
    /* Its order is that of the partition, which the file gets back. */
    OK(AMGX_write_system_distributed(a, b, NULL, path, 1, ranks, NULL, ROWS, partition));
    OK(AMGX_read_system_distributed(a, b, x, path, 1, 0, NULL, 0, NULL));
    own_range(ROWS * rank / ranks, ROWS * (rank + 1) / ranks);
    solve("written with maps", 1, 1.0, 0);
}

int main(int argc, char **argv) {
    char options[1024];
    int device = 0, provided;
    MPI_Comm comm;
    CHECK(argc == 3 || argc == 4);
    mode = (AMGX_Mode)atoi(argv[1]);
    if (AMGX_GET_MODE_VAL(AMGX_MemorySpace, mode) == AMGX_device) {
        MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided);
    } else {
        MPI_Init(&argc, &argv);
    }
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    is_float_matrix = AMGX_GET_MODE_VAL(AMGX_MatPrecision, mode) == AMGX_matFloat;
    is_float_vector = AMGX_GET_MODE_VAL(AMGX_VecPrecision, mode) == AMGX_vecFloat;
    OK(AMGX_initialize());
    snprintf(options, sizeof options,
             "solver(main)=FGMRES, main:preconditioner(amg)=AMG, main:monitor_residual=1, main:convergence=RELATIVE_INI,"
             "main:tolerance=%s, main:store_res_history=1, main:use_scalar_norm=1, amg:max_iters=1, %s",
             is_float_vector ? "1e-5" : "1e-10", argc == 4 ? argv[3] : "amg:smoother=JACOBI_L1");
    OK(AMGX_register_print_callback(count_prints));
    OK(AMGX_config_create(&cfg, options));
    FAILS(BAD, AMGX_resources_create(&rsc, cfg, &comm, 1, rank == 0 ? NULL : &device));
    OK(AMGX_resources_create(&rsc, cfg, &comm, 1, &device));
    OK(AMGX_matrix_create(&a, rsc, mode));
    OK(AMGX_vector_create(&b, rsc, mode));
    OK(AMGX_vector_create(&x, rsc, mode));
    OK(AMGX_solver_create(&slv, rsc, mode, cfg));
    global();
    distributions();
    maps();
    poisson();
    files(argv[2]);
    OK(AMGX_solver_destroy(slv));
    OK(AMGX_vector_destroy(x));
    OK(AMGX_vector_destroy(b));
    OK(AMGX_matrix_destroy(a));
    OK(AMGX_resources_destroy(rsc));
    OK(AMGX_config_destroy(cfg));
    OK(AMGX_finalize());
    MPI_Comm_free(&comm);
    MPI_Finalize();
    return 0;
}

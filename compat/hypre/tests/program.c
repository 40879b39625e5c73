/*
 * A program for hypre, written against its public headers alone. It knows nothing of Terrace: the same executable runs with and without
 * libterrace_hypre.so. Each case solves for a known solution and fails when the error is above what the tolerance allows.
 *
 *   program CASE [N]       prints the case, iterations, error, seconds of set-up and of solve
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mpi.h>
#include <sys/resource.h>
#include <unistd.h>

#include "HYPRE.h"
#include "HYPRE_IJ_mv.h"
#include "HYPRE_krylov.h"
#include "HYPRE_parcsr_ls.h"

struct system {
    HYPRE_IJMatrix A;
    HYPRE_IJVector b, x;
    HYPRE_ParCSRMatrix matrix;
    HYPRE_ParVector right, solution;
    HYPRE_BigInt first, last; /* rows of this rank */
};

static HYPRE_IJVector vector(HYPRE_BigInt first, HYPRE_BigInt last, double (*value)(HYPRE_BigInt))
{
    HYPRE_IJVector v;
    HYPRE_IJVectorCreate(MPI_COMM_WORLD, first, last, &v);
    HYPRE_IJVectorSetObjectType(v, HYPRE_PARCSR);
    HYPRE_IJVectorInitialize(v);
    for (HYPRE_BigInt row = first; row <= last; row++) {
        double entry = value ? value(row) : 0;
        HYPRE_IJVectorSetValues(v, 1, &row, &entry);
    }
    HYPRE_IJVectorAssemble(v);
    return v;
}

static HYPRE_ParVector object(HYPRE_IJVector v)
{
    void *par;
    HYPRE_IJVectorGetObject(v, &par);
    return par;
}

/* Deterministic numbers between 0.5 and 1.5. */
static double known(HYPRE_BigInt row) { return 0.5 + (double)((row * 7919 + 13) % 1009) / 1009; }

static void begin(struct system *s, HYPRE_BigInt rows)
{
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    s->first = rows * rank / ranks;
    s->last = rows * (rank + 1) / ranks - 1;
    HYPRE_IJMatrixCreate(MPI_COMM_WORLD, s->first, s->last, s->first, s->last, &s->A);
    HYPRE_IJMatrixSetObjectType(s->A, HYPRE_PARCSR);
}

/* The right-hand side of the known solution, and a zero guess. */
static void finish(struct system *s)
{
    void *par;
    HYPRE_IJMatrixAssemble(s->A);
    HYPRE_IJMatrixGetObject(s->A, &par);
    s->matrix = par;
    HYPRE_IJVector solution = vector(s->first, s->last, known);
    s->b = vector(s->first, s->last, NULL);
    s->x = vector(s->first, s->last, NULL);
    s->right = object(s->b);
    s->solution = object(s->x);
    HYPRE_ParCSRMatrixMatvec(1.0, s->matrix, object(solution), 0.0, s->right);
    HYPRE_IJVectorDestroy(solution);
}

/* The 7-point Laplacian with Dirichlet boundary, `jump` times as stiff in the upper half, and convection along x. */
static void values_7point(struct system *s, HYPRE_BigInt n, double wind, double jump)
{
    for (HYPRE_BigInt row = s->first; row <= s->last; row++) {
        HYPRE_BigInt at[3] = {row % n, row / n % n, row / (n * n)}, step[3] = {1, n, n * n}, columns[7];
        double values[7] = {0};
        HYPRE_Int count = 1;
        columns[0] = row;
        for (int axis = 0; axis < 3; axis++)
            for (int side = -1; side <= 1; side += 2) {
                HYPRE_BigInt neighbour = at[axis] + side, lower = axis == 2 && neighbour < at[2] ? neighbour : at[2];
                double stiffness = lower >= n / 2 ? jump : 1;
                values[0] += stiffness;
                if (neighbour >= 0 && neighbour < n)
                    columns[count] = row + side * step[axis], values[count++] = -stiffness + (axis == 0 ? side * wind : 0);
            }
        HYPRE_IJMatrixSetValues(s->A, 1, &count, &row, columns, values);
    }
}

static void laplacian(struct system *s, HYPRE_BigInt n, double wind)
{
    begin(s, n * n * n);
    HYPRE_IJMatrixInitialize(s->A);
    values_7point(s, n, wind, 1);
    finish(s);
}

/* Stiffness of a unit cube of eight nodes, three displacements each: Young's modulus 1, Poisson's ratio 0.3, 2 x 2 x 2 points of Gauss. */
static void cube_stiffness(double stiffness[24][24])
{
    double lambda = 0.3 / (1.3 * 0.4), mu = 1 / 2.6, g = 0.5 / sqrt(3);
    memset(stiffness, 0, 24 * 24 * sizeof(double));
    for (int point = 0; point < 8; point++) {
        double at[3] = {0.5 + (point & 1 ? g : -g), 0.5 + (point & 2 ? g : -g), 0.5 + (point & 4 ? g : -g)}, slope[8][3];
        for (int node = 0; node < 8; node++)
            for (int axis = 0; axis < 3; axis++) {
                slope[node][axis] = node >> axis & 1 ? 1 : -1;
                for (int other = 0; other < 3; other++)
                    if (other != axis)
                        slope[node][axis] *= node >> other & 1 ? at[other] : 1 - at[other];
            }
        for (int p = 0; p < 8; p++)
            for (int q = 0; q < 8; q++)
                for (int a = 0; a < 3; a++)
                    for (int b = 0; b < 3; b++) {
                        double dot = slope[p][0] * slope[q][0] + slope[p][1] * slope[q][1] + slope[p][2] * slope[q][2];
                        stiffness[3 * p + a][3 * q + b] += (lambda * slope[p][a] * slope[q][b] + mu * slope[p][b] * slope[q][a] + (a == b ? mu * dot : 0)) / 8;
                    }
    }
}

/* n^3 cubes, held at x = 0: n (n + 1)^2 free nodes; with `apart` all displacements of one direction come first. One rank. */
static void elasticity(struct system *s, HYPRE_BigInt n, int apart)
{
    double stiffness[24][24];
    HYPRE_BigInt m = n + 1, nodes = n * m * m;
    HYPRE_Int *sizes = malloc(3 * nodes * sizeof *sizes);
    cube_stiffness(stiffness);
    begin(s, 3 * nodes);
    for (HYPRE_BigInt row = 0; row < 3 * nodes; row++)
        sizes[row] = 81;
    HYPRE_IJMatrixSetRowSizes(s->A, sizes);
    free(sizes);
    HYPRE_IJMatrixInitialize(s->A);
    for (HYPRE_BigInt cube = 0; cube < n * n * n; cube++) {
        HYPRE_BigInt i = cube % n, j = cube / n % n, k = cube / (n * n), rows[24];
        for (int node = 0; node < 8; node++) {
            HYPRE_BigInt x = i + (node & 1), y = j + (node >> 1 & 1), z = k + (node >> 2 & 1), free_node = x == 0 ? -1 : x - 1 + n * (y + m * z);
            for (int a = 0; a < 3; a++)
                rows[3 * node + a] = free_node < 0 ? -1 : apart ? a * nodes + free_node : 3 * free_node + a;
        }
        for (int p = 0; p < 24; p++) {
            HYPRE_BigInt columns[24];
            double values[24];
            HYPRE_Int count = 0;
            for (int q = 0; q < 24 && rows[p] >= 0; q++)
                if (rows[q] >= 0)
                    columns[count] = rows[q], values[count++] = stiffness[p][q];
            if (count > 0)
                HYPRE_IJMatrixAddToValues(s->A, 1, &count, &rows[p], columns, values);
        }
    }
    finish(s);
}

static HYPRE_BigInt grid; /* for the rotations */

static double rotation(HYPRE_BigInt row, int axis)
{
    HYPRE_BigInt node = row / 3, m = grid + 1;
    double at[3] = {(double)(node % grid + 1), (double)(node / grid % m), (double)(node / (grid * m))};
    int direction = (int)(row % 3), next = (axis + 1) % 3, after = (axis + 2) % 3;
    return direction == next ? -at[after] : direction == after ? at[next] : 0;
}

static double about_x(HYPRE_BigInt row) { return rotation(row, 0); }
static double about_y(HYPRE_BigInt row) { return rotation(row, 1); }
static double about_z(HYPRE_BigInt row) { return rotation(row, 2); }

/* The largest error of the solution. */
static double error_of(struct system *s)
{
    double largest = 0, all;
    for (HYPRE_BigInt row = s->first; row <= s->last; row++) {
        double value;
        HYPRE_IJVectorGetValues(s->x, 1, &row, &value);
        largest = fmax(largest, isfinite(value) ? fabs(value - known(row)) : INFINITY);
    }
    MPI_Allreduce(&largest, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

static int failed;
static double setup_seconds, solve_seconds;

static void tell(const char *name, HYPRE_Int iterations, double error, double bound)
{
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    failed |= !(error <= bound);
    if (rank == 0)
        printf("%s iterations %d error %.2e setup %.4f solve %.4f%s\n", name, (int)iterations, error, setup_seconds, solve_seconds, error <= bound ? "" : " FAILED");
}

static HYPRE_Solver amg_as_preconditioner(void)
{
    HYPRE_Solver amg;
    HYPRE_BoomerAMGCreate(&amg);
    HYPRE_BoomerAMGSetTol(amg, 0.0);
    HYPRE_BoomerAMGSetMaxIter(amg, 1);
    return amg;
}

static HYPRE_Int pcg(struct system *s, HYPRE_Solver preconditioner, HYPRE_PtrToSolverFcn solve, HYPRE_PtrToSolverFcn setup)
{
    HYPRE_Solver solver;
    HYPRE_Int iterations;
    HYPRE_ParCSRPCGCreate(MPI_COMM_WORLD, &solver);
    HYPRE_PCGSetTol(solver, 1e-8);
    HYPRE_PCGSetMaxIter(solver, 500);
    HYPRE_PCGSetTwoNorm(solver, 1);
    HYPRE_PCGSetPrecond(solver, solve, setup, preconditioner);
    double start = MPI_Wtime();
    HYPRE_ParCSRPCGSetup(solver, s->matrix, s->right, s->solution);
    double middle = MPI_Wtime();
    HYPRE_ParCSRPCGSolve(solver, s->matrix, s->right, s->solution);
    setup_seconds = middle - start;
    solve_seconds = MPI_Wtime() - middle;
    HYPRE_PCGGetNumIterations(solver, &iterations);
    HYPRE_ParCSRPCGDestroy(solver);
    return iterations;
}

static HYPRE_Int amg_pcg(struct system *s, HYPRE_Solver amg) { return pcg(s, amg, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSolve, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSetup); }

static void case_pcg(HYPRE_BigInt n, int old_default)
{
    struct system s;
    laplacian(&s, n, 0);
    HYPRE_Solver amg = amg_as_preconditioner();
    if (old_default)
        HYPRE_BoomerAMGSetOldDefault(amg);
    HYPRE_Int iterations = amg_pcg(&s, amg);
    tell(old_default ? "old" : "pcg", iterations, error_of(&s), 1e-5);
    HYPRE_BoomerAMGDestroy(amg);
}

static void case_gmres(HYPRE_BigInt n)
{
    struct system s;
    HYPRE_Solver solver;
    HYPRE_Int iterations;
    laplacian(&s, n, 0.3);
    HYPRE_Solver amg = amg_as_preconditioner();
    HYPRE_ParCSRGMRESCreate(MPI_COMM_WORLD, &solver);
    HYPRE_GMRESSetTol(solver, 1e-9);
    HYPRE_GMRESSetKDim(solver, 30);
    HYPRE_GMRESSetPrecond(solver, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSolve, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSetup, amg);
    HYPRE_ParCSRGMRESSetup(solver, s.matrix, s.right, s.solution);
    HYPRE_ParCSRGMRESSolve(solver, s.matrix, s.right, s.solution);
    HYPRE_GMRESGetNumIterations(solver, &iterations);
    tell("gmres", iterations, error_of(&s), 1e-5);
    HYPRE_ParCSRGMRESDestroy(solver);
    HYPRE_BoomerAMGDestroy(amg);
}

/* BoomerAMG by itself: tolerance, getters, residual, the transposed system, and the error of too few cycles. */
static void case_alone(HYPRE_BigInt n)
{
    struct system s;
    HYPRE_Solver amg;
    HYPRE_Int iterations;
    HYPRE_Real norm, product;
    HYPRE_ParVector residual;
    laplacian(&s, n, 0);
    HYPRE_BoomerAMGCreate(&amg);
    HYPRE_BoomerAMGSetTol(amg, 1e-9);
    HYPRE_BoomerAMGSetMaxIter(amg, 60);
    HYPRE_BoomerAMGSetLogging(amg, 2);
    HYPRE_BoomerAMGSetup(amg, s.matrix, s.right, s.solution);
    failed |= HYPRE_BoomerAMGSolve(amg, s.matrix, s.right, s.solution) != 0;
    HYPRE_BoomerAMGGetNumIterations(amg, &iterations);
    HYPRE_BoomerAMGGetFinalRelativeResidualNorm(amg, &norm);
    HYPRE_BoomerAMGGetResidual(amg, &residual);
    HYPRE_ParVectorInnerProd(residual, residual, &product);
    failed |= !(norm > 0 && norm < 1e-9 && product > 0);
    tell("alone", iterations, error_of(&s), 1e-5);

    HYPRE_ParVectorSetConstantValues(s.solution, 0.0);
    HYPRE_BoomerAMGSolveT(amg, s.matrix, s.right, s.solution);
    HYPRE_BoomerAMGGetNumIterations(amg, &iterations);
    tell("transposed", iterations, error_of(&s), 1e-2); /* hypre's own has no better smoother there */
    HYPRE_ClearAllErrors();

    HYPRE_BoomerAMGSetMaxIter(amg, 2);
    HYPRE_ParVectorSetConstantValues(s.solution, 0.0);
    failed |= HYPRE_CheckError(HYPRE_BoomerAMGSolve(amg, s.matrix, s.right, s.solution), HYPRE_ERROR_CONV) == 0;
    HYPRE_ClearAllErrors();
    HYPRE_BoomerAMGDestroy(amg);
}

/* New values in the same pattern. */
static void case_update(HYPRE_BigInt n)
{
    struct system s;
    laplacian(&s, n, 0);
    HYPRE_Solver amg = amg_as_preconditioner();
    amg_pcg(&s, amg);
    HYPRE_IJMatrixInitialize(s.A);
    values_7point(&s, n, 0, 100);
    finish(&s);
    HYPRE_Int iterations = amg_pcg(&s, amg);
    tell("update", iterations, error_of(&s), 1e-4);
    HYPRE_BoomerAMGDestroy(amg);
}

/* Functions by an array, with all displacements of one direction first. */
static void case_functions(HYPRE_BigInt n)
{
    struct system s;
    elasticity(&s, n, 1);
    HYPRE_BigInt rows = s.last + 1;
    HYPRE_Int *functions = malloc((size_t)rows * sizeof *functions); /* hypre frees it */
    for (HYPRE_BigInt row = 0; row < rows; row++)
        functions[row] = (HYPRE_Int)(row / (rows / 3));
    HYPRE_Solver amg = amg_as_preconditioner();
    HYPRE_BoomerAMGSetNumFunctions(amg, 3);
    HYPRE_BoomerAMGSetDofFunc(amg, functions);
    HYPRE_BoomerAMGSetStrongThreshold(amg, 0.5);
    HYPRE_Int iterations = amg_pcg(&s, amg);
    tell("functions", iterations, error_of(&s), 1e-4);
    HYPRE_BoomerAMGDestroy(amg);
}

/* Rotations as interpolation vectors. */
static void case_modes(HYPRE_BigInt n)
{
    struct system s;
    grid = n;
    elasticity(&s, n, 0);
    HYPRE_IJVector rotations[3] = {vector(s.first, s.last, about_x), vector(s.first, s.last, about_y), vector(s.first, s.last, about_z)};
    HYPRE_ParVector vectors[3] = {object(rotations[0]), object(rotations[1]), object(rotations[2])};
    HYPRE_Solver amg = amg_as_preconditioner();
    HYPRE_BoomerAMGSetNumFunctions(amg, 3);
    HYPRE_BoomerAMGSetNodal(amg, 4);
    HYPRE_BoomerAMGSetNodalDiag(amg, 1);
    HYPRE_BoomerAMGSetStrongThreshold(amg, 0.5);
    HYPRE_BoomerAMGSetInterpVectors(amg, 3, vectors);
    HYPRE_BoomerAMGSetInterpVecVariant(amg, 2);
    HYPRE_BoomerAMGSetInterpVecQMax(amg, 4);
    HYPRE_Int iterations = amg_pcg(&s, amg);
    tell("modes", iterations, error_of(&s), 1e-3);
    HYPRE_BoomerAMGDestroy(amg);
    for (int i = 0; i < 3; i++)
        HYPRE_IJVectorDestroy(rotations[i]);
}

static void case_fsai(HYPRE_BigInt n)
{
    struct system s;
    HYPRE_Solver fsai;
    laplacian(&s, n, 0);
    HYPRE_FSAICreate(&fsai);
    HYPRE_FSAISetMaxSteps(fsai, 15);
    HYPRE_FSAISetMaxStepSize(fsai, 1);
    HYPRE_FSAISetMaxIterations(fsai, 1);
    HYPRE_FSAISetTolerance(fsai, 0.0);
    HYPRE_FSAISetZeroGuess(fsai, 1);
    HYPRE_Int iterations = pcg(&s, fsai, (HYPRE_PtrToSolverFcn)HYPRE_FSAISolve, (HYPRE_PtrToSolverFcn)HYPRE_FSAISetup);
    tell("fsai", iterations, error_of(&s), 1e-4);
    HYPRE_FSAIDestroy(fsai);
}

/* What only hypre can do: an additive cycle. */
static void case_additive(HYPRE_BigInt n)
{
    struct system s;
    laplacian(&s, n, 0);
    HYPRE_Solver amg = amg_as_preconditioner();
    HYPRE_BoomerAMGSetMultAdditive(amg, 0);
    HYPRE_Int iterations = amg_pcg(&s, amg);
    tell("additive", iterations, error_of(&s), 1e-5);
    HYPRE_BoomerAMGDestroy(amg);
}

/* The transpose of a matrix that is not symmetric, before and after an update. */
static void case_transpose(HYPRE_BigInt n)
{
    struct system s;
    HYPRE_Solver amg;
    HYPRE_Int iterations;
    laplacian(&s, n, 0.3);
    HYPRE_BoomerAMGCreate(&amg);
    HYPRE_BoomerAMGSetTol(amg, 1e-9);
    HYPRE_BoomerAMGSetMaxIter(amg, 60);
    for (int step = 0; step < 2; step++) {
        HYPRE_IJVector solution = vector(s.first, s.last, known);
        HYPRE_ParCSRMatrixMatvecT(1.0, s.matrix, object(solution), 0.0, s.right);
        HYPRE_IJVectorDestroy(solution);
        HYPRE_ParVectorSetConstantValues(s.solution, 0.0);
        HYPRE_BoomerAMGSetup(amg, s.matrix, s.right, s.solution);
        HYPRE_BoomerAMGSolveT(amg, s.matrix, s.right, s.solution);
        HYPRE_BoomerAMGGetNumIterations(amg, &iterations);
        tell(step == 0 ? "transpose" : "transpose_updated", iterations, error_of(&s), 1e-1); /* as above */
        HYPRE_ClearAllErrors();
        HYPRE_IJMatrixInitialize(s.A);
        values_7point(&s, n, 0.2, 10);
        finish(&s);
    }
    HYPRE_BoomerAMGDestroy(amg);
}

/* Parameters that are seldom set: a weight of Gauss-Seidel, eigenvalue steps of Chebyshev, and some that Terrace has no use for. */
static void case_seldom(HYPRE_BigInt n)
{
    struct system s;
    laplacian(&s, n, 0);
    HYPRE_Solver amg = amg_as_preconditioner();
    HYPRE_BoomerAMGSetRelaxWt(amg, 1.2);
    HYPRE_BoomerAMGSetMeasureType(amg, 1);
    HYPRE_BoomerAMGSetAggP12MaxElmts(amg, 3);
    HYPRE_BoomerAMGSetKeepTranspose(amg, 1);
    HYPRE_Int iterations = amg_pcg(&s, amg);
    tell("weighted", iterations, error_of(&s), 1e-5);
    HYPRE_BoomerAMGDestroy(amg);

    HYPRE_ParVectorSetConstantValues(s.solution, 0.0);
    amg = amg_as_preconditioner();
    HYPRE_BoomerAMGSetRelaxType(amg, 16);
    HYPRE_BoomerAMGSetChebyEigEst(amg, 20);
    HYPRE_BoomerAMGSetChebyScale(amg, 0);
    iterations = amg_pcg(&s, amg);
    tell("chebyshev", iterations, error_of(&s), 1e-5);
    HYPRE_BoomerAMGDestroy(amg);
}

/* A set-up that one rank refuses, and a solve after it, are errors on every rank; with `narrow` the last rank has no memory left for the set-up. */
static void case_refused(HYPRE_BigInt n, int additive, int narrow)
{
    struct system s;
    struct rlimit before;
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    laplacian(&s, n, 0);
    HYPRE_Solver amg = amg_as_preconditioner();
    /* What Terrace has over ranks, so that TERRACE_HYPRE_STRICT refuses nothing of it. */
    HYPRE_BoomerAMGSetCoarsenType(amg, 8);
    HYPRE_BoomerAMGSetRelaxType(amg, 18);
    if (additive)
        HYPRE_BoomerAMGSetMultAdditive(amg, 0);
    getrlimit(RLIMIT_AS, &before);
    if (narrow && rank == ranks - 1) {
        struct rlimit limit = before;
        unsigned long pages = 0;
        FILE *file = fopen("/proc/self/statm", "r");
        failed |= !file || fscanf(file, "%lu", &pages) != 1;
        if (file)
            fclose(file);
        limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + 65536;
        setrlimit(RLIMIT_AS, &limit);
    }
    HYPRE_Int of_setup = HYPRE_BoomerAMGSetup(amg, s.matrix, s.right, s.solution);
    setrlimit(RLIMIT_AS, &before);
    HYPRE_ClearAllErrors();
    HYPRE_Int of_solve = HYPRE_BoomerAMGSolve(amg, s.matrix, s.right, s.solution);
    HYPRE_ClearAllErrors();
    failed |= of_setup == 0 || of_solve == 0;
    printf("refused on rank %d of %d: set-up %d, solve %d\n", rank, ranks, (int)of_setup, (int)of_solve);
    HYPRE_BoomerAMGDestroy(amg);
}

int main(int count, char **arguments)
{
    const char *name = count > 1 ? arguments[1] : "all";
    HYPRE_BigInt n = count > 2 ? atoi(arguments[2]) : 0;
    int all = strcmp(name, "all") == 0;
    MPI_Init(&count, &arguments);
    HYPRE_Init();
    if (all || !strcmp(name, "pcg"))
        case_pcg(n ? n : 20, 0);
    if (all || !strcmp(name, "old"))
        case_pcg(n ? n : 20, 1);
    if (all || !strcmp(name, "gmres"))
        case_gmres(n ? n : 16);
    if (all || !strcmp(name, "alone"))
        case_alone(n ? n : 16);
    if (all || !strcmp(name, "update"))
        case_update(n ? n : 16);
    if (all || !strcmp(name, "functions"))
        case_functions(n ? n : 6);
    if (all || !strcmp(name, "modes"))
        case_modes(n ? n : 6);
    if (all || !strcmp(name, "fsai"))
        case_fsai(n ? n : 12);
    if (all || !strcmp(name, "additive"))
        case_additive(n ? n : 12);
    if (all || !strcmp(name, "transpose"))
        case_transpose(n ? n : 12);
    if (!strcmp(name, "seldom"))
        case_seldom(n ? n : 16);
    if (!strcmp(name, "refused") || !strcmp(name, "refused_additive") || !strcmp(name, "narrow"))
        case_refused(n ? n : 40, !strcmp(name, "refused_additive"), !strcmp(name, "narrow"));
    HYPRE_Finalize();
    MPI_Finalize();
    return failed;
}

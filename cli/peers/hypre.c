/* Peer for `terrace bench peers` and `terrace bench hypre`: CG of hypre, preconditioned by BoomerAMG or by adaptive FSAI, on a system
 * written by them.
 *
 *   mpirun -np N hypre FILE pmis|hmis|fsai FUNCTIONS REPEAT
 *
 * The file holds int64 rows, nonzeros, coordinates (0 or one for each row); int32 row offsets and columns from 0; f64 values, coordinates
 * and right-hand side.
 * Prints one line of JSON: medians in seconds, iterations (at most 500), true relative residual, operator complexity (for FSAI the entries
 * of G over those of A), and the peak memory of all ranks together.
 */
#include "arrays.h"
#include <HYPRE.h>
#include <HYPRE_IJ_mv.h>
#include <HYPRE_krylov.h>
#include <HYPRE_parcsr_ls.h>
#include <_hypre_parcsr_ls.h> /* the levels and the factor, for the operator complexity */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* One cycle of BoomerAMG as a preconditioner: PMIS or HMIS, extended+i interpolation. */
static HYPRE_Solver boomeramg(int pmis, int functions) {
    HYPRE_Solver amg;
    HYPRE_BoomerAMGCreate(&amg);
    HYPRE_BoomerAMGSetTol(amg, 0.0);
    HYPRE_BoomerAMGSetMaxIter(amg, 1);
    HYPRE_BoomerAMGSetInterpType(amg, 6);
    HYPRE_BoomerAMGSetPMaxElmts(amg, 4);
    HYPRE_BoomerAMGSetStrongThreshold(amg, functions > 1 ? 0.5 : 0.25);
    if (functions > 1) HYPRE_BoomerAMGSetNumFunctions(amg, functions);
    HYPRE_BoomerAMGSetCoarsenType(amg, pmis ? 8 : 10);
    if (pmis) HYPRE_BoomerAMGSetRelaxType(amg, 18);
    return amg;
}

/* FSAI as a preconditioner: 15 steps of one entry. */
static HYPRE_Solver adaptive_fsai(void) {
    HYPRE_Solver fsai;
    HYPRE_FSAICreate(&fsai);
    HYPRE_FSAISetAlgoType(fsai, 1);
    HYPRE_FSAISetMaxSteps(fsai, 15);
    HYPRE_FSAISetMaxStepSize(fsai, 1);
    HYPRE_FSAISetKapTolerance(fsai, 1e-3);
    HYPRE_FSAISetTolerance(fsai, 0.0);
    HYPRE_FSAISetMaxIterations(fsai, 1);
    HYPRE_FSAISetOmega(fsai, 1.0);
    HYPRE_FSAISetZeroGuess(fsai, 1);
    HYPRE_FSAISetPrintLevel(fsai, 0);
    return fsai;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc != 5) return 2;
    FILE *file = fopen(argv[1], "rb");
    if (file == NULL) return 2;
    int pmis = strcmp(argv[2], "pmis") == 0, is_fsai = strcmp(argv[2], "fsai") == 0, functions = atoi(argv[3]), repeat = atoi(argv[4]);
    int64_t *head = read_array(file, 3, sizeof *head);
    int rows = (int)head[0];
    int32_t *offsets = read_array(file, (size_t)rows + 1, sizeof *offsets);
    /* Whole nodes on each rank. */
    int per = (rows / functions + ranks - 1) / ranks * functions;
    int first = rank * per < rows ? rank * per : rows, last = first + per < rows ? first + per : rows;
    int local = last - first, nonzeros = offsets[last] - offsets[first];
    fseek(file, (long)(3 * 8 + 4 * ((long)rows + 1) + 4 * (long)offsets[first]), SEEK_SET);
    int32_t *columns = read_array(file, (size_t)nonzeros, sizeof *columns);
    fseek(file, (long)(3 * 8 + 4 * ((long)rows + 1) + 4 * head[1] + 8 * (long)offsets[first]), SEEK_SET);
    double *values = read_array(file, (size_t)nonzeros, sizeof *values);
    fseek(file, (long)(3 * 8 + 4 * ((long)rows + 1) + 12 * head[1] + 8 * (head[2] + first)), SEEK_SET);
    double *rhs = read_array(file, (size_t)local, sizeof *rhs);
    fclose(file);

    HYPRE_Init();
    HYPRE_IJMatrix A;
    HYPRE_IJMatrixCreate(MPI_COMM_WORLD, first, last - 1, first, last - 1, &A);
    HYPRE_IJMatrixSetObjectType(A, HYPRE_PARCSR);
    int *counts = allocate((size_t)local * sizeof *counts), *numbers = allocate((size_t)local * sizeof *numbers);
    for (int i = 0; i < local; ++i) {
        counts[i] = offsets[first + i + 1] - offsets[first + i];
        numbers[i] = first + i;
    }
    HYPRE_IJMatrixSetRowSizes(A, counts);
    HYPRE_IJMatrixInitialize(A);
    HYPRE_IJMatrixSetValues(A, local, counts, numbers, columns, values);
    HYPRE_IJMatrixAssemble(A);
    free(columns);
    free(values);
    free(offsets);
    HYPRE_IJVector b, x;
    HYPRE_IJVector *vectors[2] = {&b, &x};
    for (int v = 0; v < 2; ++v) {
        HYPRE_IJVectorCreate(MPI_COMM_WORLD, first, last - 1, vectors[v]);
        HYPRE_IJVectorSetObjectType(*vectors[v], HYPRE_PARCSR);
        HYPRE_IJVectorInitialize(*vectors[v]);
        HYPRE_IJVectorSetValues(*vectors[v], local, numbers, rhs);
        HYPRE_IJVectorAssemble(*vectors[v]);
    }
    HYPRE_ParCSRMatrix par_A;
    HYPRE_ParVector par_b, par_x;
    HYPRE_IJMatrixGetObject(A, (void **)&par_A);
    HYPRE_IJVectorGetObject(b, (void **)&par_b);
    HYPRE_IJVectorGetObject(x, (void **)&par_x);

    double *setups = allocate((size_t)repeat * sizeof *setups), *solves = allocate((size_t)repeat * sizeof *solves), residual = 0.0, complexity = 0.0;
    int iterations = 0;
    for (int r = 0; r < repeat; ++r) {
        HYPRE_Solver inverse = is_fsai ? adaptive_fsai() : boomeramg(pmis, functions), cg;
        HYPRE_ParCSRPCGCreate(MPI_COMM_WORLD, &cg);
        HYPRE_PCGSetTol(cg, 1e-8);
        HYPRE_PCGSetMaxIter(cg, 500);
        HYPRE_PCGSetTwoNorm(cg, 1);
        if (is_fsai)
            HYPRE_PCGSetPrecond(cg, (HYPRE_PtrToSolverFcn)HYPRE_FSAISolve, (HYPRE_PtrToSolverFcn)HYPRE_FSAISetup, inverse);
        else
            HYPRE_PCGSetPrecond(cg, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSolve, (HYPRE_PtrToSolverFcn)HYPRE_BoomerAMGSetup, inverse);
        HYPRE_ParVectorSetConstantValues(par_x, 0.0);
        MPI_Barrier(MPI_COMM_WORLD);
        double start = MPI_Wtime();
        HYPRE_ParCSRPCGSetup(cg, par_A, par_b, par_x);
        MPI_Barrier(MPI_COMM_WORLD);
        setups[r] = MPI_Wtime() - start;
        start = MPI_Wtime();
        HYPRE_ParCSRPCGSolve(cg, par_A, par_b, par_x);
        MPI_Barrier(MPI_COMM_WORLD);
        solves[r] = MPI_Wtime() - start;
        HYPRE_PCGGetNumIterations(cg, &iterations);
        HYPRE_PCGGetFinalRelativeResidualNorm(cg, &residual);
        complexity = 0.0;
        if (is_fsai) {
            hypre_ParCSRMatrix *g = hypre_ParFSAIDataGmat((hypre_ParFSAIData *)inverse);
            hypre_ParCSRMatrixSetDNumNonzeros(g);
            complexity = hypre_ParCSRMatrixDNumNonzeros(g) / (double)head[1];
        } else {
            hypre_ParAMGData *data = (hypre_ParAMGData *)inverse;
            hypre_ParCSRMatrix **levels = hypre_ParAMGDataAArray(data);
            for (int level = 0; level < hypre_ParAMGDataNumLevels(data); ++level) {
                hypre_ParCSRMatrixSetDNumNonzeros(levels[level]);
                complexity += hypre_ParCSRMatrixDNumNonzeros(levels[level]) / (double)head[1];
            }
        }
        HYPRE_ParCSRPCGDestroy(cg);
        if (is_fsai)
            HYPRE_FSAIDestroy(inverse);
        else
            HYPRE_BoomerAMGDestroy(inverse);
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double peak = 1024.0 * (double)usage.ru_maxrss, all = 0.0;
    MPI_Reduce(&peak, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        qsort(setups, (size_t)repeat, sizeof *setups, ascending);
        qsort(solves, (size_t)repeat, sizeof *solves, ascending);
        printf("{\"version\": \"%s\", \"setup_seconds\": %.6f, \"solve_seconds\": %.6f, \"iterations\": %d, \"residual\": %.3e, \"operator_complexity\": %.4f, \"peak_bytes\": %.0f}\n",
               HYPRE_RELEASE_VERSION, setups[repeat / 2], solves[repeat / 2], iterations, residual, complexity, all);
    }
    MPI_Finalize();
    return 0;
}

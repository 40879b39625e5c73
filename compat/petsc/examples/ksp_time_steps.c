/*
 * Heat in a material whose conductivity changes from step to step. The pattern of the matrix stays, so that the preconditioner is updated at
 * the second step, stays as it is at the third, for which reuse is asked, and is set up anew at the fourth, whose matrix has couplings to
 * diagonal neighbours, too.
 *
 *     ksp_time_steps -n 32 [-pc_type gamg]
 */

#include <terrace_petsc.h>

/* I - dt div(k grad) on n x n points, k between 1 and `contrast`. */
static PetscErrorCode Assemble(PetscInt n, PetscReal contrast, PetscBool has_corners, Mat matrix)
{
  PetscInt x, y, dx, dy, first, last;

  PetscFunctionBeginUser;
  PetscCall(MatGetOwnershipRange(matrix, &first, &last));
  PetscCall(MatZeroEntries(matrix));
  for (y = 0; y < n; y++) {
    for (x = 0; x < n; x++) {
      const PetscInt row = x + n * y;
      if (row < first || row >= last) continue;
      PetscCall(MatSetValue(matrix, row, row, 0.01, ADD_VALUES));
      for (dy = 0; dy <= 1; dy++) {
        for (dx = 0; dx <= 1; dx++) {
          const PetscInt  neighbour = x + dx + n * (y + dy);
          const PetscReal k         = (x + y) % 7 < 3 ? contrast : 1.0;
          if (neighbour == row || x + dx == n || y + dy == n || (dx && dy && !has_corners)) continue;
          PetscCall(MatSetValue(matrix, row, row, k, ADD_VALUES));
          PetscCall(MatSetValue(matrix, neighbour, neighbour, k, ADD_VALUES));
          PetscCall(MatSetValue(matrix, row, neighbour, -k, ADD_VALUES));
          PetscCall(MatSetValue(matrix, neighbour, row, -k, ADD_VALUES));
        }
      }
    }
  }
  PetscCall(MatAssemblyBegin(matrix, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(matrix, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

/* What the last set-up did. */
static PetscErrorCode Describe(PC pc, PetscBool is_reused, const char **what)
{
  terrace_report *report;
  int64_t         kept = 0;
  PetscBool       is_terrace;

  PetscFunctionBeginUser;
  *what = "";
  PetscCall(PetscObjectTypeCompare((PetscObject)pc, PCTERRACE, &is_terrace));
  if (!is_terrace) PetscFunctionReturn(0);
  PetscCall(PCTerraceGetReport(pc, &report));
  terrace_report_get_int(report, "update_kept_levels", 0, &kept);
  terrace_report_destroy(report);
  *what = is_reused ? ", reused" : kept ? ", updated" : ", set up";
  PetscFunctionReturn(0);
}

int main(int argc, char **argv)
{
  const PetscReal contrasts[4] = {10.0, 12.0, 12.5, 12.5};
  PetscInt        n = 32, step, iterations;
  PetscReal       error;
  const char     *what;
  Mat             matrix;
  Vec             exact, b, x;
  KSP             ksp;
  PC              pc;

  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscCall(TerracePetscRegister());
  PetscCall(PetscOptionsGetInt(NULL, NULL, "-n", &n, NULL));
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, n * n, n * n, 9, NULL, 6, NULL, &matrix));
  PetscCall(MatSetOption(matrix, MAT_NEW_NONZERO_LOCATION_ERR, PETSC_FALSE));
  PetscCall(MatCreateVecs(matrix, &x, &b));
  PetscCall(VecDuplicate(x, &exact));
  PetscCall(VecSetRandom(exact, NULL));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetType(ksp, KSPCG));
  PetscCall(KSPSetTolerances(ksp, 1e-8, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPGetPC(ksp, &pc));
  PetscCall(PCSetType(pc, PCTERRACE));
  PetscCall(KSPSetFromOptions(ksp));
  for (step = 0; step < 4; step++) {
    PetscCall(Assemble(n, contrasts[step], (PetscBool)(step == 3), matrix));
    PetscCall(MatMult(matrix, exact, b));
    PetscCall(KSPSetOperators(ksp, matrix, matrix));
    PetscCall(KSPSetReusePreconditioner(ksp, (PetscBool)(step == 2)));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(KSPGetIterationNumber(ksp, &iterations));
    PetscCall(VecAXPY(x, -1.0, exact));
    PetscCall(VecNorm(x, NORM_INFINITY, &error));
    PetscCall(Describe(pc, (PetscBool)(step == 2), &what));
    PetscCall(PetscPrintf(PETSC_COMM_WORLD, "step %" PetscInt_FMT ": %" PetscInt_FMT " iterations, error %.1e%s\n", step, iterations, (double)error, what));
  }
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&exact));
  PetscCall(VecDestroy(&b));
  PetscCall(VecDestroy(&x));
  PetscCall(MatDestroy(&matrix));
  PetscCall(PetscFinalize());
  return 0;
}

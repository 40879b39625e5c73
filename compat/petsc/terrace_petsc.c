/*
 * libterrace_petsc.so: `-dll_append libterrace_petsc.so -pc_type terrace` for programs that were compiled without Terrace. PETSc calls this
 * function, whose name ends as that of the file, when it loads the library.
 */

#include <terrace_petsc.h>

PETSC_EXTERN PetscErrorCode PetscDLLibraryRegister_terrace_petsc(void)
{
  PetscFunctionBegin;
  PetscCall(TerracePetscRegister());
  PetscFunctionReturn(0);
}

! Contexts of the ranks of an MPI communicator. Compiled by the program's own MPI compiler, with fortran/terrace_mpi.c:
!
!   mpicc -Iinclude -c fortran/terrace_mpi.c -o terrace_mpi_c.o
!   mpif90 fortran/terrace.f90 fortran/terrace_mpi.f90 program.f90 terrace_mpi_c.o -lterrace
!
! The communicator is an integer handle, as `use mpi` has it; that of `use mpi_f08` is comm%MPI_VAL.
module terrace_mpi
  use, intrinsic :: iso_c_binding
  use terrace
  implicit none
  private
  public :: terrace_context_set_mpi

  interface
    function c_set_mpi(context, comm) result(outcome) bind(c, name='terrace_fortran_set_mpi')
      import :: c_ptr, c_int, c_int32_t
      type(c_ptr), value :: context
      integer(c_int), value :: comm
      integer(c_int32_t) :: outcome
    end function
  end interface

contains

  ! Collective. Without `status`, anything but success writes the sentence to standard error and stops the program.
  subroutine terrace_context_set_mpi(context, comm, status)
    type(terrace_context), intent(in) :: context
    integer, intent(in) :: comm
    integer(c_int32_t), intent(out), optional :: status
    integer(c_int32_t) :: outcome
    outcome = c_set_mpi(context%handle, int(comm, c_int))
    if (present(status)) then
      status = outcome
    else if (outcome /= TERRACE_SUCCESS) then
      write (*, '(a)') terrace_status_name(outcome) // ': ' // terrace_last_error(context)
      error stop 1
    end if
  end subroutine

end module

! What an application does with client/cairn.f90; ends with 1 if anything is not as it was.
program fortran_program
  use cairn
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  implicit none
  type(cairn_session) :: session
  real(real64), target :: field(20, 30)
  real(real32), target :: block(4, 5)
  integer(int64), target :: step
  integer(int32), target :: marks(7)
  integer(int64) :: dataset, latest, label
  integer :: i, j, tier
  logical :: reached
  character(len=:), allocatable :: path

  call expect(cairn_open(session, deadline_ms=5000), CAIRN_OK, "open")
  do j = 1, 30
    do i = 1, 20
      field(i, j) = i * 100.0_real64 + j
    end do
  end do
  do j = 1, 5
    do i = 1, 4
      block(i, j) = i * 10.0_real32 + j
    end do
  end do
  marks = [1, 2, 3, 4, 5, 6, 7]
  step = 12
  call expect(cairn_protect(session, 1, field), CAIRN_OK, "protect")
  call expect(cairn_protect_value(session, 2, "step", step), CAIRN_OK, "value")
  call expect(cairn_protect_array(session, 3, "block", block, shape=[6_int64, 9_int64], start=[3_int64, 4_int64], &
    mem_start=[2_int64, 2_int64], count=[2_int64, 3_int64]), CAIRN_OK, "array")
  call expect(cairn_protect(session, 4, marks), CAIRN_OK, "protect marks")
  call expect(cairn_protect(session, 5, field(1:10, :)), CAIRN_INVALID_ARGUMENT, "a section with gaps")
  call expect(cairn_protect_array(session, 6, "b", block, shape=[6_int64], start=[1_int64]), &
    CAIRN_INVALID_ARGUMENT, "too few dimensions")
  call expect(cairn_unprotect(session, 77), CAIRN_NOT_FOUND, "unprotect what is not there")
  if (index(cairn_error(session), "77") == 0) error stop "the error does not name the variable"

  call expect(cairn_checkpoint(session, step, dataset), CAIRN_OK, "checkpoint")
  call expect(cairn_wait(session, dataset, CAIRN_LEVEL_LOCAL, 5000), CAIRN_OK, "wait")
  call expect(cairn_test(session, dataset, CAIRN_LEVEL_LOCAL, reached), CAIRN_OK, "test")
  if (.not. reached) error stop "not reached"
  field = 0
  block(2:3, 2:4) = 0
  marks = 0
  step = 0
  call expect(cairn_latest(session, latest, label), CAIRN_OK, "latest")
  if (latest /= dataset .or. label /= 12) error stop "another dataset"
  call expect(cairn_restore(session, latest), CAIRN_OK, "restore")
  call expect(cairn_restored_tier(session, tier), CAIRN_OK, "tier")
  if (tier /= CAIRN_TIER_CACHE) error stop "another tier"
  if (step /= 12 .or. any(marks /= [1, 2, 3, 4, 5, 6, 7])) error stop "numbers differ"
  do j = 1, 30
    do i = 1, 20
      if (field(i, j) /= i * 100.0_real64 + j) error stop "the field differs"
    end do
  end do
  do j = 1, 5
    do i = 1, 4
      if (block(i, j) /= i * 10.0_real32 + j) error stop "the block differs"
    end do
  end do
  field = 0
  call expect(cairn_resume(session, label), CAIRN_OK, "resume")
  if (label /= 12 .or. field(20, 30) /= 2030) error stop "another step is resumed"
  call expect(cairn_restored_dataset(session, latest), CAIRN_OK, "restored dataset")
  if (latest /= dataset) error stop "another dataset is resumed"
  call expect(cairn_set_fill(session, "block", 0.5_real32), CAIRN_OK, "set fill")
  call expect(cairn_unset_fill(session, "block"), CAIRN_OK, "unset fill")
  step = 0
  call expect(cairn_read(session, dataset, "step", step), CAIRN_OK, "read")
  if (step /= 12) error stop "another step is read"
  call expect(cairn_read(session, dataset, "step", step, start=[0_int64]), CAIRN_INVALID_ARGUMENT, "start 0")
  call expect(cairn_read(session, dataset, "step", marks), CAIRN_FAILED_PRECONDITION, "another type")
  call expect(cairn_read(session, dataset, "block", block(1, :)), CAIRN_INVALID_ARGUMENT, "a section with gaps")
  call expect(cairn_read(session, dataset, "none", step), CAIRN_NOT_FOUND, "read what is not there")
  do i = 1, 4
    call expect(cairn_need_checkpoint(session, reached), CAIRN_OK, "need checkpoint")
    if (reached .neqv. mod(i, 2) == 0) error stop "another need for a checkpoint"
  end do
  do i = 1, 3
    call expect(cairn_should_exit(session, reached), CAIRN_OK, "should exit")
    if (reached .neqv. i == 3) error stop "another word to stop"
  end do
  if (index(cairn_error(session), "enough") == 0) error stop "it is not said why to stop"
  call expect(cairn_restart_file(session, latest, "out.dat", path), CAIRN_OK, "restart file")
  if (path /= "/cache/out.dat") error stop "another path"

  call expect(cairn_set_name(session, "the best  "), CAIRN_OK, "set name")
  call expect(cairn_redundancy(session, "rs:10+2  "), CAIRN_OK, "redundancy")
  call expect(cairn_redundancy(session, "mirror"), CAIRN_INVALID_ARGUMENT, "redundancy of no kind")
  call expect(cairn_checkpoint(session, 14_int64, dataset), CAIRN_OK, "checkpoint with a name")
  call expect(cairn_redundancy(session, " "), CAIRN_OK, "redundancy as before")
  call expect(cairn_find(session, "the best", latest, label), CAIRN_OK, "find")
  if (latest /= dataset .or. label /= 14) error stop "another dataset is found"
  call expect(cairn_find(session, "another", latest, label), CAIRN_NOT_FOUND, "find what is not there")
  call expect(cairn_dataset_name(session, dataset, path), CAIRN_OK, "dataset name")
  if (path /= "the best") error stop "another name"
  call expect(cairn_reject(session, dataset), CAIRN_OK, "reject")
  call expect(cairn_latest(session, latest, label), CAIRN_NOT_FOUND, "latest after it was rejected")
  call expect(cairn_reject(session, 99_int64), CAIRN_NOT_FOUND, "reject what is not there")

  ! Step 666 is damaged: half of it is in the memory.
  call expect(cairn_checkpoint(session, 666_int64), CAIRN_OK, "checkpoint")
  call expect(cairn_resume(session), CAIRN_DIRTY, "resume what is damaged")
  call expect(cairn_checkpoint(session, 13_int64), CAIRN_DIRTY, "checkpoint of half of it")
  call expect(cairn_protect(session, 1, field), CAIRN_OK, "protect anew")
  call expect(cairn_protect_value(session, 2, "step", step), CAIRN_OK, "protect anew")
  call expect(cairn_unprotect(session, 3), CAIRN_OK, "unprotect")
  call expect(cairn_resume(session), CAIRN_DIRTY, "one is left")
  call expect(cairn_unprotect(session, 4), CAIRN_OK, "unprotect")
  call expect(cairn_resume(session), CAIRN_NOT_FOUND, "resume from nothing")
  call expect(cairn_close(session), CAIRN_OK, "close")

contains

  subroutine expect(code, wanted, what)
    integer, intent(in) :: code, wanted
    character(len=*), intent(in) :: what
    if (code == wanted) return
    print '(4a)', what, ": ", cairn_strerror(code), "; " // cairn_error(session)
    error stop 1
  end subroutine

end program

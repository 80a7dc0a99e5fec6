! A vibrating string in Fortran: explicit steps of the wave equation, one process. What Cairn needs is in `protect`,
! `save_state` and `resume`. Options are those of the other examples: --help tells them.
program wave1d
  use, intrinsic :: iso_c_binding, only: c_int
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use cairn
  implicit none

  interface
    integer(c_int) function c_raise(signal) bind(C, name="raise")
      import :: c_int
      integer(c_int), value :: signal
    end function
  end interface

  integer, parameter :: STEP_ID = 1, NOW_ID = 2, BEFORE_ID = 3, SIGKILL = 9
  real(real64), parameter :: PI = acos(-1.0_real64), COURANT_SQUARED = 0.81_real64
  character(len=7), parameter :: TIERS(0:5) = ["none   ", "image  ", "cache  ", "partner", "rebuilt", "prefix "]

  type(cairn_session) :: session
  integer(int64) :: steps = 400, every = 50, points = 100000, die_at = 0
  integer :: level = CAIRN_LEVEL_NONE
  character(len=:), allocatable :: out
  ! With one ghost point at each end, which is fixed.
  real(real64), allocatable, target :: now(:), before(:), next(:)
  integer(int64), target :: step = 0

  call read_options()
  allocate (now(points + 2), before(points + 2), next(points + 2))
  call pluck()
  if (every /= 0) then
    if (cairn_open(session) /= CAIRN_OK) call give_up("open")
    call protect()
    call resume()
  end if
  do while (step < steps)
    call advance(step + 1 == die_at)
    if (every /= 0) then
      if (mod(step, every) == 0) call save_state()
    end if
  end do
  if (allocated(out)) call write_result()
  if (every /= 0) then
    if (cairn_close(session) /= CAIRN_OK) call give_up("close")
  end if
  print "(a, i0)", "done after step ", step

contains

  ! The beginning.
  subroutine pluck()
    integer(int64) :: i
    step = 0
    do i = 1, points + 2
      now(i) = sin(PI * real(i - 1, real64) / real(points + 1, real64)) &
        + 0.3_real64 * sin(7 * PI * real(i - 1, real64) / real(points + 1, real64))
    end do
    before = now
    next = now
  end subroutine

  ! `dies`: only half of the step.
  subroutine advance(dies)
    logical, intent(in) :: dies
    integer(int64) :: i
    do i = 2, points + 1
      if (dies .and. i == points / 2 + 1) then
        if (c_raise(int(SIGKILL, c_int)) /= 0) stop 1
      end if
      next(i) = 2 * now(i) - before(i) + COURANT_SQUARED * (now(i - 1) - 2 * now(i) + now(i + 1))
    end do
    before = now
    now = next
    step = step + 1
  end subroutine

  ! The points inside, without the two fixed ones.
  subroutine protect()
    integer(int64) :: string(1)
    string = points
    if (cairn_protect_value(session, STEP_ID, "step", step) /= CAIRN_OK) call give_up("protect")
    if (cairn_protect_array(session, NOW_ID, "now", now, string, [1_int64], [2_int64], string) /= CAIRN_OK) &
      call give_up("protect")
    if (cairn_protect_array(session, BEFORE_ID, "before", before, string, [1_int64], [2_int64], string) /= CAIRN_OK) &
      call give_up("protect")
  end subroutine

  ! A checkpoint that fails costs only itself: the run goes on and tries again at the next one.
  subroutine save_state()
    integer(int64) :: dataset
    integer :: code
    code = cairn_checkpoint(session, step, dataset)
    if (code == CAIRN_OK .and. level /= CAIRN_LEVEL_NONE) code = cairn_wait(session, dataset, level, 60000)
    if (code /= CAIRN_OK) then
      write (error_unit, "(a, i0, 2a)") "wave1d: checkpoint of step ", step, ": ", cairn_error(session)
    else
      print "(a, i0, a, i0)", "checkpoint of step ", step, " is dataset ", dataset
      flush (6)
    end if
  end subroutine

  subroutine resume()
    integer(int64) :: dataset, stored_step
    integer :: code, tier
    code = cairn_resume(session, stored_step)
    if (code == CAIRN_DIRTY) then ! no copy is whole, and part of one is in the memory
      write (error_unit, "(2a)") "wave1d: ", cairn_error(session)
      call pluck()
      call protect()
    end if
    if (code == CAIRN_NOT_FOUND .or. code == CAIRN_DIRTY) then
      print "(a)", "starting fresh"
      return
    end if
    if (code /= CAIRN_OK) call give_up("resume")
    if (cairn_restored_dataset(session, dataset) /= CAIRN_OK) call give_up("resume")
    if (cairn_restored_tier(session, tier) /= CAIRN_OK) call give_up("resume")
    print "(a, i0, a, i0, 3a)", "resumed from step ", stored_step, " (dataset ", dataset, ", tier ", &
      trim(TIERS(tier)), ")"
    flush (6)
  end subroutine

  subroutine write_result()
    integer :: unit
    open (newunit=unit, file=out, access="stream", form="unformatted", status="replace", action="write")
    write (unit) now, before
    close (unit)
  end subroutine

  subroutine give_up(what)
    character(len=*), intent(in) :: what
    write (error_unit, "(4a)") "wave1d: ", what, ": ", cairn_error(session)
    stop 1, quiet=.true.
  end subroutine

  subroutine read_options()
    integer :: i
    i = 1
    do while (i <= command_argument_count())
      select case (argument(i))
      case ("--help")
        print "(a)", &
          "usage: wave1d [--steps N] [--every N] [--size N] [--out FILE] [--wait LEVEL] [--die-at N]", &
          "  steps to compute [400]; a checkpoint after every N steps, 0: none [50]; points [100000]; write the", &
          "  final state; after each checkpoint wait until it is local or prefix; die in the middle of step N.", &
          "The run's directory is $CAIRN_PREFIX. Start it again after a kill: it goes on from the newest checkpoint."
        stop 0, quiet=.true.
      case ("--steps")
        steps = number(i)
      case ("--every")
        every = number(i)
      case ("--size")
        points = max(number(i), 2_int64)
      case ("--die-at")
        die_at = number(i)
      case ("--out")
        out = argument(i + 1)
      case ("--wait")
        level = level_of(argument(i + 1))
      case default
        call refuse("what is " // argument(i) // "? --help tells the options")
      end select
      i = i + 2
    end do
  end subroutine

  function argument(i) result(text)
    integer, intent(in) :: i
    character(len=:), allocatable :: text
    integer :: length
    if (i > command_argument_count()) call refuse("the last option needs a value")
    call get_command_argument(i, length=length)
    allocate (character(len=length) :: text)
    call get_command_argument(i, text)
  end function

  integer(int64) function number(i)
    integer, intent(in) :: i
    character(len=32) :: text
    integer :: failed
    text = argument(i + 1)
    read (text, *, iostat=failed) number
    if (failed /= 0 .or. number < 0) call refuse(argument(i) // " needs a number")
  end function

  integer function level_of(name)
    character(len=*), intent(in) :: name
    select case (name)
    case ("local")
      level_of = CAIRN_LEVEL_LOCAL
    case ("redundant")
      level_of = CAIRN_LEVEL_REDUNDANT
    case ("prefix")
      level_of = CAIRN_LEVEL_PREFIX
    case default
      level_of = CAIRN_LEVEL_NONE
      call refuse("--wait: " // name // " is none of local, redundant, prefix")
    end select
  end function

  subroutine refuse(why)
    character(len=*), intent(in) :: why
    write (error_unit, "(2a)") "wave1d: ", why
    stop 2, quiet=.true.
  end subroutine

end program

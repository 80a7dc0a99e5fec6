! libcairn for Fortran 2018: cairn.h with optional arguments and the language's own arrays.
!
! Every function returns a code of cairn.h (CAIRN_OK is 0); cairn_error tells the last error in words. The library
! borrows protected memory until you unprotect it, protect its id anew, or close the session: give it the TARGET
! attribute, keep it allocated, and pass contiguous sections only (others are CAIRN_INVALID_ARGUMENT).
!
! Describe arrays as Fortran sees them: fastest dimension first, the first element of a dimension is 1. The dataset
! stores them as C does, slowest dimension first: other programs see the dimensions in reverse order.
module cairn
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  implicit none
  private

  integer, parameter, public :: CAIRN_OK = 0, CAIRN_NOT_FOUND = 1, CAIRN_INVALID_ARGUMENT = 2, &
    CAIRN_FAILED_PRECONDITION = 3, CAIRN_BUSY = 4, CAIRN_RETRY = 5, CAIRN_SUPERSEDED = 6, CAIRN_FAILED = 7, &
    CAIRN_FENCED = 8, CAIRN_RESOURCE_EXHAUSTED = 9, CAIRN_DEADLINE_EXCEEDED = 10, CAIRN_UNAVAILABLE = 11, &
    CAIRN_DATA_LOSS = 12, CAIRN_PERMISSION_DENIED = 13, CAIRN_UNSUPPORTED = 14, CAIRN_FORKED = 15, &
    CAIRN_INTERNAL = 16, CAIRN_DIRTY = 17
  integer, parameter, public :: CAIRN_LEVEL_NONE = 0, CAIRN_LEVEL_FROZEN = 1, CAIRN_LEVEL_CAPTURED = 2, &
    CAIRN_LEVEL_LOCAL = 3, CAIRN_LEVEL_REDUNDANT = 4, CAIRN_LEVEL_PREFIX = 5
  integer, parameter, public :: CAIRN_TIER_NONE = 0, CAIRN_TIER_IMAGE = 1, CAIRN_TIER_CACHE = 2, &
    CAIRN_TIER_PARTNER = 3, CAIRN_TIER_REBUILT = 4, CAIRN_TIER_PREFIX = 5, &
    CAIRN_TIER_REDUNDANT = 6
  ! Flags of cairn_output_begin. (CAIRN_CHECKPOINT, as C has it, would be the function: case does not count.)
  integer, parameter, public :: CAIRN_FLAG_CHECKPOINT = 1, CAIRN_FLAG_OUTPUT = 2, &
    CAIRN_FLAG_GROWING = 4

  integer(c_int32_t), parameter :: TYPE_INT32 = 3, TYPE_INT64 = 4, TYPE_FLOAT = 9, TYPE_DOUBLE = 10
  integer, parameter :: DIMS_MAX = 8, PATH_BYTES = 8192, NAME_MAX = 256, DATASET_NAME_MAX = 1024

  type, public :: cairn_session
    private
    type(c_ptr) :: handle = c_null_ptr
  end type

  type, bind(C) :: c_options
    integer(c_size_t) :: struct_size
    type(c_ptr) :: prefix
    integer(c_int32_t) :: rank
    integer(c_int32_t) :: nranks
    type(c_ptr) :: launch
    type(c_ptr) :: address
    integer(c_int32_t) :: takeover
    integer(c_int32_t) :: deadline_ms
    integer(c_int32_t) :: observer
  end type

  type, bind(C) :: c_stored_info
    integer(c_size_t) :: struct_size
    integer(c_int32_t) :: id, kind, type, ndims
    integer(c_int64_t) :: count, shape(DIMS_MAX), start(DIMS_MAX), box_count(DIMS_MAX)
    integer(c_int32_t) :: nranks
    character(kind=c_char) :: name(NAME_MAX)
  end type

  public :: cairn_open, cairn_close, cairn_protect, cairn_protect_value, cairn_protect_array, cairn_unprotect
  public :: cairn_checkpoint, cairn_test, cairn_wait, cairn_latest, cairn_restore, cairn_restored_tier
  public :: cairn_resume, cairn_restored_dataset, cairn_reject
  public :: cairn_set_name, cairn_find, cairn_dataset_name, cairn_redundancy
  public :: cairn_set_fill, cairn_unset_fill, cairn_read
  public :: cairn_output_begin, cairn_route_file, cairn_output_end, cairn_restart_file
  public :: cairn_should_exit, cairn_need_checkpoint
  public :: cairn_error, cairn_strerror, cairn_version

  ! cairn_protect(session, id, data): data of any rank, also a scalar.
  interface cairn_protect
    module procedure protect_int32, protect_int64, protect_real32, protect_real64
  end interface

  ! cairn_protect_value(session, id, name, data): the same on all ranks.
  interface cairn_protect_value
    module procedure value_int32, value_int64, value_real32, value_real64
  end interface

  ! cairn_protect_array(session, id, name, data, shape, start [, mem_start, count]): `data` is the block in memory;
  ! the box of `count` elements (without it: all of `data`) lies in it from mem_start (without it: 1, 1, ...) on, and
  ! from `start` on in the global array of `shape`.
  interface cairn_protect_array
    module procedure array_int32, array_int64, array_real32, array_real64
  end interface

  ! cairn_set_fill(session, name, value): `value` stands for elements of a global array that no rank has stored.
  interface cairn_set_fill
    module procedure fill_int32, fill_int64, fill_real32, fill_real64
  end interface

  ! cairn_read(session, dataset, name, data [, start]): reads from a global array into `data`, as many elements as it
  ! has in each dimension, from `start` (without it: 1, 1, ...) on. A value has one dimension.
  interface cairn_read
    module procedure read_int32, read_int64, read_real32, read_real64
  end interface

  interface
    integer(c_int) function c_open(options, session) bind(C, name="cairn_open")
      import :: c_int, c_ptr, c_options
      type(c_options), intent(in) :: options
      type(c_ptr), intent(out) :: session
    end function
    integer(c_int) function c_close(session) bind(C, name="cairn_close")
      import :: c_int, c_ptr
      type(c_ptr), value :: session
    end function
    integer(c_int) function c_protect(session, id, data, count, type) bind(C, name="cairn_protect")
      import :: c_int, c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: session, data
      integer(c_int32_t), value :: id, type
      integer(c_int64_t), value :: count
    end function
    integer(c_int) function c_protect_value(session, id, name, data, count, type) bind(C, name="cairn_protect_value")
      import :: c_int, c_ptr, c_int32_t, c_int64_t, c_char
      type(c_ptr), value :: session, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: id, type
      integer(c_int64_t), value :: count
    end function
    integer(c_int) function c_protect_array(session, id, name, data, type, ndims, shape, start, count, mem_count, &
        mem_start) bind(C, name="cairn_protect_array")
      import :: c_int, c_ptr, c_int32_t, c_int64_t, c_char
      type(c_ptr), value :: session, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: id, type, ndims
      integer(c_int64_t), intent(in) :: shape(*), start(*), count(*), mem_count(*), mem_start(*)
    end function
    integer(c_int) function c_unprotect(session, id) bind(C, name="cairn_unprotect")
      import :: c_int, c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), value :: id
    end function
    integer(c_int) function c_checkpoint(session, step, dataset) bind(C, name="cairn_checkpoint")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: step
      integer(c_int64_t), intent(inout) :: dataset
    end function
    integer(c_int) function c_test(session, dataset, level, reached) bind(C, name="cairn_test")
      import :: c_int, c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset
      integer(c_int32_t), value :: level
      integer(c_int32_t), intent(inout) :: reached
    end function
    integer(c_int) function c_wait(session, dataset, level, timeout_ms) bind(C, name="cairn_wait")
      import :: c_int, c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset
      integer(c_int32_t), value :: level, timeout_ms
    end function
    integer(c_int) function c_latest(session, dataset, step) bind(C, name="cairn_latest")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), intent(inout) :: dataset, step
    end function
    integer(c_int) function c_restore(session, dataset) bind(C, name="cairn_restore")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset
    end function
    integer(c_int) function c_resume(session, step) bind(C, name="cairn_resume")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), intent(inout) :: step
    end function
    integer(c_int) function c_restored_dataset(session, dataset) bind(C, name="cairn_restored_dataset")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), intent(inout) :: dataset
    end function
    integer(c_int) function c_reject(session, dataset) bind(C, name="cairn_reject")
      import :: c_int, c_ptr, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset
    end function
    integer(c_int) function c_set_name(session, name) bind(C, name="cairn_set_name")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int) function c_redundancy(session, scheme) bind(C, name="cairn_redundancy")
      import :: c_int, c_ptr, c_char
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: scheme(*)
    end function
    integer(c_int) function c_find(session, name, dataset, step) bind(C, name="cairn_find")
      import :: c_int, c_ptr, c_int64_t, c_char
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(inout) :: dataset, step
    end function
    integer(c_int) function c_dataset_name(session, dataset, name, name_bytes) bind(C, name="cairn_dataset_name")
      import :: c_int, c_ptr, c_size_t, c_char, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset
      character(kind=c_char), intent(inout) :: name(*)
      integer(c_size_t), value :: name_bytes
    end function
    integer(c_int) function c_set_fill(session, name, type, value) bind(C, name="cairn_set_fill")
      import :: c_int, c_ptr, c_int32_t, c_char
      type(c_ptr), value :: session, value
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int32_t), value :: type
    end function
    integer(c_int) function c_read(session, dataset, name, start, count, out) bind(C, name="cairn_read")
      import :: c_int, c_ptr, c_int64_t, c_char
      type(c_ptr), value :: session, out
      integer(c_int64_t), value :: dataset
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int64_t), intent(in) :: start(*), count(*)
    end function
    integer(c_int) function c_stored(session, dataset, index, info) bind(C, name="cairn_stored")
      import :: c_int, c_ptr, c_int64_t, c_stored_info
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset, index
      type(c_stored_info), intent(inout) :: info
    end function
    integer(c_int) function c_restored_tier(session, tier) bind(C, name="cairn_restored_tier")
      import :: c_int, c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), intent(inout) :: tier
    end function
    integer(c_int) function c_should_exit(session, flag) bind(C, name="cairn_should_exit")
      import :: c_int, c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), intent(inout) :: flag
    end function
    integer(c_int) function c_need_checkpoint(session, flag) bind(C, name="cairn_need_checkpoint")
      import :: c_int, c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), intent(inout) :: flag
    end function
    integer(c_int) function c_output_begin(session, step, flags, dataset) bind(C, name="cairn_output_begin")
      import :: c_int, c_ptr, c_int32_t, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: step
      integer(c_int32_t), value :: flags
      integer(c_int64_t), intent(inout) :: dataset
    end function
    integer(c_int) function c_route_file(session, file, path, path_bytes) bind(C, name="cairn_route_file")
      import :: c_int, c_ptr, c_size_t, c_char
      type(c_ptr), value :: session
      character(kind=c_char), intent(in) :: file(*)
      character(kind=c_char), intent(inout) :: path(*)
      integer(c_size_t), value :: path_bytes
    end function
    integer(c_int) function c_output_end(session, valid) bind(C, name="cairn_output_end")
      import :: c_int, c_ptr, c_int32_t
      type(c_ptr), value :: session
      integer(c_int32_t), value :: valid
    end function
    integer(c_int) function c_restart_file(session, dataset, file, path, path_bytes) &
        bind(C, name="cairn_restart_file")
      import :: c_int, c_ptr, c_size_t, c_char, c_int64_t
      type(c_ptr), value :: session
      integer(c_int64_t), value :: dataset
      character(kind=c_char), intent(in) :: file(*)
      character(kind=c_char), intent(inout) :: path(*)
      integer(c_size_t), value :: path_bytes
    end function
    type(c_ptr) function c_error(session) bind(C, name="cairn_error")
      import :: c_ptr
      type(c_ptr), value :: session
    end function
    type(c_ptr) function c_strerror(code) bind(C, name="cairn_strerror")
      import :: c_ptr, c_int
      integer(c_int), value :: code
    end function
    type(c_ptr) function c_version() bind(C, name="cairn_version")
      import :: c_ptr
    end function
    integer(c_size_t) function c_strlen(text) bind(C, name="strlen")
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! An absent argument comes from the environment, or has the default of cairn_options.
  ! observer: joins no launch, and may call cairn_latest, cairn_find, cairn_dataset_name, cairn_read, cairn_test and
  ! cairn_wait only.
  integer function cairn_open(session, prefix, rank, nranks, launch, address, takeover, deadline_ms, observer) &
      result(code)
    type(cairn_session), intent(inout) :: session
    character(len=*), intent(in), optional :: prefix, launch, address
    integer, intent(in), optional :: rank, nranks, deadline_ms
    logical, intent(in), optional :: takeover, observer
    character(kind=c_char), allocatable, target :: c_prefix(:), c_launch(:), c_address(:)
    type(c_options) :: options
    options%struct_size = c_sizeof(options)
    options%prefix = c_null_ptr
    options%launch = c_null_ptr
    options%address = c_null_ptr
    options%rank = -1
    options%nranks = -1
    options%takeover = 0
    options%deadline_ms = 0
    options%observer = 0
    if (present(prefix)) then
      allocate (c_prefix, source=to_c(prefix))
      options%prefix = c_loc(c_prefix)
    end if
    if (present(launch)) then
      allocate (c_launch, source=to_c(launch))
      options%launch = c_loc(c_launch)
    end if
    if (present(address)) then
      allocate (c_address, source=to_c(address))
      options%address = c_loc(c_address)
    end if
    if (present(rank)) options%rank = int(rank, c_int32_t)
    if (present(nranks)) options%nranks = int(nranks, c_int32_t)
    if (present(deadline_ms)) options%deadline_ms = int(deadline_ms, c_int32_t)
    if (present(takeover)) options%takeover = merge(1_c_int32_t, 0_c_int32_t, takeover)
    if (present(observer)) options%observer = merge(1_c_int32_t, 0_c_int32_t, observer)
    code = c_open(options, session%handle)
  end function

  integer function cairn_close(session) result(code)
    type(cairn_session), intent(inout) :: session
    code = c_close(session%handle)
    session%handle = c_null_ptr
  end function

  integer function protect_int32(session, id, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    integer(int32), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect(session, id, c_loc(data), size(data, kind=int64), TYPE_INT32)
  end function

  integer function protect_int64(session, id, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    integer(int64), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect(session, id, c_loc(data), size(data, kind=int64), TYPE_INT64)
  end function

  integer function protect_real32(session, id, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    real(real32), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect(session, id, c_loc(data), size(data, kind=int64), TYPE_FLOAT)
  end function

  integer function protect_real64(session, id, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    real(real64), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect(session, id, c_loc(data), size(data, kind=int64), TYPE_DOUBLE)
  end function

  integer function protect(session, id, place, count, element) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    type(c_ptr), intent(in) :: place
    integer(int64), intent(in) :: count
    integer(c_int32_t), intent(in) :: element
    code = c_protect(session%handle, int(id, c_int32_t), place, int(count, c_int64_t), element)
  end function

  integer function value_int32(session, id, name, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    integer(int32), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect_named(session, id, name, c_loc(data), size(data, kind=int64), TYPE_INT32)
  end function

  integer function value_int64(session, id, name, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    integer(int64), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect_named(session, id, name, c_loc(data), size(data, kind=int64), TYPE_INT64)
  end function

  integer function value_real32(session, id, name, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    real(real32), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect_named(session, id, name, c_loc(data), size(data, kind=int64), TYPE_FLOAT)
  end function

  integer function value_real64(session, id, name, data) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    real(real64), intent(in), target :: data(..)
    code = CAIRN_INVALID_ARGUMENT
    if (is_contiguous(data)) code = protect_named(session, id, name, c_loc(data), size(data, kind=int64), TYPE_DOUBLE)
  end function

  integer function protect_named(session, id, name, place, count, element) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: place
    integer(int64), intent(in) :: count
    integer(c_int32_t), intent(in) :: element
    code = c_protect_value(session%handle, int(id, c_int32_t), to_c(name), place, int(count, c_int64_t), element)
  end function

  integer function array_int32(session, id, name, data, shape, start, mem_start, count) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    integer(int32), intent(in), target :: data(..)
    integer(int64), intent(in) :: shape(:), start(:)
    integer(int64), intent(in), optional :: mem_start(:), count(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = protect_box(session, id, name, c_loc(data), TYPE_INT32, extents(1:rank(data)), shape, start, &
      mem_start, count)
  end function

  integer function array_int64(session, id, name, data, shape, start, mem_start, count) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    integer(int64), intent(in), target :: data(..)
    integer(int64), intent(in) :: shape(:), start(:)
    integer(int64), intent(in), optional :: mem_start(:), count(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = protect_box(session, id, name, c_loc(data), TYPE_INT64, extents(1:rank(data)), shape, start, &
      mem_start, count)
  end function

  integer function array_real32(session, id, name, data, shape, start, mem_start, count) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    real(real32), intent(in), target :: data(..)
    integer(int64), intent(in) :: shape(:), start(:)
    integer(int64), intent(in), optional :: mem_start(:), count(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = protect_box(session, id, name, c_loc(data), TYPE_FLOAT, extents(1:rank(data)), shape, start, &
      mem_start, count)
  end function

  integer function array_real64(session, id, name, data, shape, start, mem_start, count) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    real(real64), intent(in), target :: data(..)
    integer(int64), intent(in) :: shape(:), start(:)
    integer(int64), intent(in), optional :: mem_start(:), count(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = protect_box(session, id, name, c_loc(data), TYPE_DOUBLE, extents(1:rank(data)), shape, start, &
      mem_start, count)
  end function

  ! From fastest first and 1 to slowest first and 0.
  integer function protect_box(session, id, name, place, element, extents, shape, start, mem_start, count) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: place
    integer(c_int32_t), intent(in) :: element
    integer(int64), intent(in) :: extents(:), shape(:), start(:)
    integer(int64), intent(in), optional :: mem_start(:), count(:)
    integer(int64) :: box(size(extents)), first(size(extents))
    integer :: n
    n = size(extents)
    code = CAIRN_INVALID_ARGUMENT
    if (size(shape) /= n .or. size(start) /= n .or. any(start < 1)) return
    box = extents
    first = 1
    if (present(count)) then
      if (size(count) /= n) return
      box = count
    end if
    if (present(mem_start)) then
      if (size(mem_start) /= n .or. any(mem_start < 1)) return
      first = mem_start
    end if
    code = c_protect_array(session%handle, int(id, c_int32_t), to_c(name), place, element, int(n, c_int32_t), &
      shape(n:1:-1), start(n:1:-1) - 1, box(n:1:-1), extents(n:1:-1), first(n:1:-1) - 1)
  end function

  integer function cairn_unprotect(session, id) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(in) :: id
    code = c_unprotect(session%handle, int(id, c_int32_t))
  end function

  integer function fill_int32(session, name, value) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    integer(int32), intent(in), target :: value
    code = c_set_fill(session%handle, to_c(name), TYPE_INT32, c_loc(value))
  end function

  integer function fill_int64(session, name, value) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    integer(int64), intent(in), target :: value
    code = c_set_fill(session%handle, to_c(name), TYPE_INT64, c_loc(value))
  end function

  integer function fill_real32(session, name, value) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    real(real32), intent(in), target :: value
    code = c_set_fill(session%handle, to_c(name), TYPE_FLOAT, c_loc(value))
  end function

  integer function fill_real64(session, name, value) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    real(real64), intent(in), target :: value
    code = c_set_fill(session%handle, to_c(name), TYPE_DOUBLE, c_loc(value))
  end function

  ! Elements that no rank has stored are an error again.
  integer function cairn_unset_fill(session, name) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    code = c_set_fill(session%handle, to_c(name), 0_c_int32_t, c_null_ptr)
  end function

  integer function read_int32(session, dataset, name, data, start) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=*), intent(in) :: name
    integer(int32), intent(inout), target :: data(..)
    integer(int64), intent(in), optional :: start(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    extents(1) = 1
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = read_box(session, dataset, name, c_loc(data), TYPE_INT32, extents(1:max(1, rank(data))), start)
  end function

  integer function read_int64(session, dataset, name, data, start) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=*), intent(in) :: name
    integer(int64), intent(inout), target :: data(..)
    integer(int64), intent(in), optional :: start(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    extents(1) = 1
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = read_box(session, dataset, name, c_loc(data), TYPE_INT64, extents(1:max(1, rank(data))), start)
  end function

  integer function read_real32(session, dataset, name, data, start) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=*), intent(in) :: name
    real(real32), intent(inout), target :: data(..)
    integer(int64), intent(in), optional :: start(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    extents(1) = 1
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = read_box(session, dataset, name, c_loc(data), TYPE_FLOAT, extents(1:max(1, rank(data))), start)
  end function

  integer function read_real64(session, dataset, name, data, start) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=*), intent(in) :: name
    real(real64), intent(inout), target :: data(..)
    integer(int64), intent(in), optional :: start(:)
    integer(int64) :: extents(DIMS_MAX)
    integer :: d
    code = CAIRN_INVALID_ARGUMENT
    if (.not. is_contiguous(data) .or. rank(data) > DIMS_MAX) return
    extents(1) = 1
    do d = 1, rank(data)
      extents(d) = size(data, d, kind=int64)
    end do
    code = read_box(session, dataset, name, c_loc(data), TYPE_DOUBLE, extents(1:max(1, rank(data))), start)
  end function

  ! From fastest first and 1 to slowest first and 0. C does not say how many elements `place` has room for, and of which
  ! type: both must be as in the dataset.
  integer function read_box(session, dataset, name, place, element, extents, start) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=*), intent(in) :: name
    type(c_ptr), intent(in) :: place
    integer(c_int32_t), intent(in) :: element
    integer(int64), intent(in) :: extents(:)
    integer(int64), intent(in), optional :: start(:)
    integer(int64) :: first(size(extents)), index
    type(c_stored_info) :: info
    integer :: n
    n = size(extents)
    first = 1
    code = CAIRN_INVALID_ARGUMENT
    if (present(start)) then
      if (size(start) /= n .or. any(start < 1)) return
      first = start
    end if
    index = 0
    do
      info%struct_size = c_sizeof(info)
      code = c_stored(session%handle, dataset, index, info)
      if (code == CAIRN_NOT_FOUND) exit
      if (code /= CAIRN_OK) return
      if (info%kind /= 0 .and. same_name(info%name, name)) then
        code = CAIRN_FAILED_PRECONDITION
        if (info%type /= element) return
        code = CAIRN_INVALID_ARGUMENT
        if (info%kind == 2 .and. info%ndims /= n .or. info%kind == 1 .and. n /= 1) return
        exit
      end if
      index = index + 1
    end do
    code = c_read(session%handle, dataset, to_c(name), first(n:1:-1) - 1, extents(n:1:-1), place)
  end function

  logical function same_name(stored, name) result(same)
    character(kind=c_char), intent(in) :: stored(NAME_MAX)
    character(len=*), intent(in) :: name
    integer :: i, n
    n = min(len_trim(name), NAME_MAX - 1)
    same = stored(n + 1) == c_null_char
    do i = 1, n
      same = same .and. stored(i) == name(i:i)
    end do
  end function

  ! If step is absent or 0, it is the number of this rank's calls in this launch.
  integer function cairn_checkpoint(session, step, dataset) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in), optional :: step
    integer(int64), intent(out), optional :: dataset
    integer(c_int64_t) :: number, label
    number = 0
    label = 0
    if (present(step)) label = step
    code = c_checkpoint(session%handle, label, number)
    if (present(dataset)) dataset = number
  end function

  integer function cairn_test(session, dataset, level, reached) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    integer, intent(in) :: level
    logical, intent(out) :: reached
    integer(c_int32_t) :: answer
    answer = 0
    code = c_test(session%handle, dataset, int(level, c_int32_t), answer)
    reached = answer /= 0
  end function

  integer function cairn_wait(session, dataset, level, timeout_ms) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    integer, intent(in) :: level, timeout_ms
    code = c_wait(session%handle, dataset, int(level, c_int32_t), int(timeout_ms, c_int32_t))
  end function

  integer function cairn_latest(session, dataset, step) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(out) :: dataset, step
    dataset = 0
    step = 0
    code = c_latest(session%handle, dataset, step)
  end function

  integer function cairn_restore(session, dataset) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    code = c_restore(session%handle, dataset)
  end function

  ! The application cannot use what was restored: no restart chooses this dataset any more.
  integer function cairn_reject(session, dataset) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    code = c_reject(session%handle, dataset)
  end function

  ! Names the dataset that the next checkpoint or output begins, for that one call; blank: no name.
  integer function cairn_set_name(session, name) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    code = c_set_name(session%handle, to_c(name))
  end function

  ! Sets the redundancy of all datasets that begin from now on: single, partner, xor, rs or folder; with the size of the
  ! sets xor:7+1 or rs:4+2. Blank: the default, CAIRN_REDUNDANCY or else the daemon's setting.
  integer function cairn_redundancy(session, scheme) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: scheme
    code = c_redundancy(session%handle, to_c(scheme))
  end function

  ! The newest whole dataset of that name.
  integer function cairn_find(session, name, dataset, step) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: name
    integer(int64), intent(out) :: dataset, step
    dataset = 0
    step = 0
    code = c_find(session%handle, to_c(name), dataset, step)
  end function

  integer function cairn_dataset_name(session, dataset, name) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=:), allocatable, intent(out) :: name
    character(kind=c_char), target :: buffer(DATASET_NAME_MAX)
    buffer(1) = c_null_char
    code = c_dataset_name(session%handle, dataset, buffer, int(DATASET_NAME_MAX, c_size_t))
    name = from_c(c_loc(buffer))
  end function

  ! Calls cairn_latest and cairn_restore, and goes on to older checkpoints as long as they say CAIRN_RETRY.
  ! CAIRN_NOT_FOUND: there is nothing to restart from, and the memory is untouched. CAIRN_DIRTY: there is nothing to
  ! restart from, and some rank's memory may be touched; initialise and protect all variables anew.
  integer function cairn_resume(session, step) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(out), optional :: step
    integer(c_int64_t) :: label
    label = 0
    code = c_resume(session%handle, label)
    if (present(step)) step = label
  end function

  integer function cairn_restored_dataset(session, dataset) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(out) :: dataset
    dataset = 0
    code = c_restored_dataset(session%handle, dataset)
  end function

  integer function cairn_restored_tier(session, tier) result(code)
    type(cairn_session), intent(in) :: session
    integer, intent(out) :: tier
    integer(c_int32_t) :: answer
    answer = 0
    code = c_restored_tier(session%handle, answer)
    tier = answer
  end function

  ! The answer is the same on all ranks; cairn_error says why a flag is true.
  integer function cairn_should_exit(session, flag) result(code)
    type(cairn_session), intent(in) :: session
    logical, intent(out) :: flag
    integer(c_int32_t) :: answer
    answer = 0
    code = c_should_exit(session%handle, answer)
    flag = answer /= 0
  end function

  integer function cairn_need_checkpoint(session, flag) result(code)
    type(cairn_session), intent(in) :: session
    logical, intent(out) :: flag
    integer(c_int32_t) :: answer
    answer = 0
    code = c_need_checkpoint(session%handle, answer)
    flag = answer /= 0
  end function

  integer function cairn_output_begin(session, step, flags, dataset) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: step
    integer, intent(in) :: flags
    integer(int64), intent(out) :: dataset
    dataset = 0
    code = c_output_begin(session%handle, step, int(flags, c_int32_t), dataset)
  end function

  integer function cairn_route_file(session, file, path) result(code)
    type(cairn_session), intent(in) :: session
    character(len=*), intent(in) :: file
    character(len=:), allocatable, intent(out) :: path
    character(kind=c_char), target :: buffer(PATH_BYTES)
    buffer(1) = c_null_char
    code = c_route_file(session%handle, to_c(file), buffer, int(PATH_BYTES, c_size_t))
    path = from_c(c_loc(buffer))
  end function

  integer function cairn_output_end(session, valid) result(code)
    type(cairn_session), intent(in) :: session
    logical, intent(in) :: valid
    code = c_output_end(session%handle, merge(1_c_int32_t, 0_c_int32_t, valid))
  end function

  integer function cairn_restart_file(session, dataset, file, path) result(code)
    type(cairn_session), intent(in) :: session
    integer(int64), intent(in) :: dataset
    character(len=*), intent(in) :: file
    character(len=:), allocatable, intent(out) :: path
    character(kind=c_char), target :: buffer(PATH_BYTES)
    buffer(1) = c_null_char
    code = c_restart_file(session%handle, dataset, to_c(file), buffer, int(PATH_BYTES, c_size_t))
    path = from_c(c_loc(buffer))
  end function

  ! If the session could not be opened: what cairn_open said.
  function cairn_error(session) result(text)
    type(cairn_session), intent(in) :: session
    character(len=:), allocatable :: text
    text = from_c(c_error(session%handle))
  end function

  function cairn_strerror(code) result(text)
    integer, intent(in) :: code
    character(len=:), allocatable :: text
    text = from_c(c_strerror(int(code, c_int)))
  end function

  function cairn_version() result(text)
    character(len=:), allocatable :: text
    text = from_c(c_version())
  end function

  ! Without the blanks at the end, with the zero that C wants.
  function to_c(text) result(copy)
    character(len=*), intent(in) :: text
    character(kind=c_char) :: copy(len_trim(text) + 1)
    integer :: i
    do i = 1, len_trim(text)
      copy(i) = text(i:i)
    end do
    copy(len_trim(text) + 1) = c_null_char
  end function

  function from_c(place) result(text)
    type(c_ptr), intent(in) :: place
    character(len=:), allocatable :: text
    character(kind=c_char), pointer :: letters(:)
    integer :: i
    call c_f_pointer(place, letters, [int(c_strlen(place))])
    allocate (character(len=size(letters)) :: text)
    do i = 1, size(letters)
      text(i:i) = letters(i)
    end do
  end function

end module

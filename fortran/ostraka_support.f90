! SPDX-License-Identifier: Apache-2.0
!! Internal: the one place for errors, strings, the order of shapes, and counting from 1.
module ostraka_support
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_f_pointer, c_loc, c_null_char, c_ptr, c_size_t
  use, intrinsic :: iso_fortran_env, only: error_unit, int32, int64
  use ostraka_c, only: c_error_clear, c_last_error, c_status_meaning, c_status_name
  use ostraka_types, only: OSTRAKA_BF16, OSTRAKA_F16, OSTRAKA_F32, OSTRAKA_F64, OSTRAKA_I32, OSTRAKA_I64, OSTRAKA_OK, &
    OSTRAKA_U8
  implicit none
  private

  public :: ostraka_error_clear, ostraka_last_error, ostraka_status_meaning, ostraka_status_name
  public :: conclude, from_c_string, to_c_string, to_c_strings, reversed, to_c_index, to_c_axis, from_c_axis
  public :: as_int, given, decimal, parameter_text, shape_text, type_text

  !! An optional number, or what it is when it is absent.
  interface given
    procedure :: given_int32, given_int64
  end interface

  character(:), allocatable, save :: own_text  ! of the last failure, when this module found it and not the C library

contains

  !! The end of every procedure: hands the status out, or stops the program with a message when it is an error and the
  !! caller did not ask for `ierr`. `text` is present when the error was found on the Fortran side.
  subroutine conclude(operation, status, ierr, text)
    character(*), intent(in) :: operation
    integer(int32), intent(in) :: status
    integer(int32), intent(out), optional :: ierr
    character(*), intent(in), optional :: text
    character(:), allocatable :: reason

    if (status /= OSTRAKA_OK) then
      if (allocated(own_text)) deallocate(own_text)
      reason = from_c_string(c_last_error())
      if (present(text)) then
        if (len(text) > 0) reason = text
        if (len(text) > 0) own_text = operation // ': ' // text
      end if
    end if
    if (present(ierr)) then
      ierr = status
    else if (status /= OSTRAKA_OK) then
      write(error_unit, '(a)') 'ostraka: ' // operation // ': ' // ostraka_status_name(status) // ': ' // reason
      flush(error_unit)
      error stop 1, quiet=.true.
    end if
  end subroutine

  !! What the last failed call expected and found; '' when there was none.
  function ostraka_last_error() result(text)
    character(:), allocatable :: text

    if (allocated(own_text)) then
      text = own_text
    else
      text = from_c_string(c_last_error())
    end if
  end function

  !! Forgets the text of the last failure.
  subroutine ostraka_error_clear()
    if (allocated(own_text)) deallocate(own_text)
    call c_error_clear()
  end subroutine

  !! The name of a status: 'OK', 'INVALID_ARGUMENT', ...
  function ostraka_status_name(status) result(name)
    integer(int32), intent(in) :: status
    character(:), allocatable :: name

    name = from_c_string(c_status_name(status))
  end function

  !! One sentence that says what a status means.
  function ostraka_status_meaning(status) result(meaning)
    integer(int32), intent(in) :: status
    character(:), allocatable :: meaning

    meaning = from_c_string(c_status_meaning(status))
  end function

  !! A string for C: without trailing blanks, ended by NUL.
  pure function to_c_string(text) result(string)
    character(*), intent(in) :: text
    character(kind=c_char, len=:), allocatable :: string

    string = trim(text) // c_null_char
  end function

  !! A `char**` for C: the addresses of `text`, which holds one string per column.
  subroutine to_c_strings(list, text, addresses)
    character(*), intent(in) :: list(:)
    character(kind=c_char), allocatable, target, intent(out) :: text(:,:)
    type(c_ptr), allocatable, intent(out) :: addresses(:)
    character(kind=c_char, len=:), allocatable :: string
    integer :: i, j

    allocate(text(len(list) + 1, size(list)), addresses(size(list)))
    do j = 1, size(list)
      string = to_c_string(list(j))
      do i = 1, len(string)
        text(i, j) = string(i:i)
      end do
      addresses(j) = c_loc(text(1, j))
    end do
  end subroutine

  !! A copy of a C string; '' for NULL.
  function from_c_string(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i

    interface
      integer(c_size_t) function strlen(string) bind(c, name='strlen')
        import :: c_ptr, c_size_t
        type(c_ptr), value :: string
      end function
    end interface

    text = ''
    if (.not. c_associated(address)) return
    call c_f_pointer(address, characters, [strlen(address)])
    text = repeat(' ', size(characters))
    do i = 1, size(characters)
      text(i:i) = characters(i)
    end do
  end function

  !! Extents in the other language's order: C's dimension 0 is Fortran's last one. Both directions.
  pure function reversed(extents) result(other)
    integer(int64), intent(in) :: extents(:)
    integer(int64) :: other(size(extents))

    other = extents(size(extents):1:-1)
  end function

  !! The index of a tensor for C, from 0.
  pure integer(int32) function to_c_index(index)
    integer(int32), intent(in) :: index

    to_c_index = index - 1
  end function

  !! The number of a mesh axis for C, from 0.
  pure integer(int32) function to_c_axis(axis)
    integer(int32), intent(in) :: axis

    to_c_axis = axis - 1
  end function

  !! The number of a mesh axis for Fortran, from 1.
  pure integer(int32) function from_c_axis(axis)
    integer(int32), intent(in) :: axis

    from_c_axis = axis + 1
  end function

  !! 1 or 0 for an option, what it was without one.
  pure integer(int32) function as_int(option, default)
    logical, intent(in), optional :: option
    integer(int32), intent(in) :: default

    as_int = default
    if (present(option)) as_int = merge(1_int32, 0_int32, option)
  end function

  pure integer(int32) function given_int32(option, default)
    integer(int32), intent(in), optional :: option
    integer(int32), intent(in) :: default

    given_int32 = default
    if (present(option)) given_int32 = option
  end function

  pure integer(int64) function given_int64(option, default)
    integer(int64), intent(in), optional :: option
    integer(int64), intent(in) :: default

    given_int64 = default
    if (present(option)) given_int64 = option
  end function

  !! '-12'
  pure function decimal(number) result(text)
    integer(int64), intent(in) :: number
    character(:), allocatable :: text
    character(20) :: field

    write(field, '(i0)') number
    text = trim(field)
  end function

  !! "parameter 'layer.weight'"
  pure function parameter_text(name) result(text)
    character(*), intent(in) :: name
    character(:), allocatable :: text

    text = "parameter '" // trim(name) // "'"
  end function

  !! 'rank 2, shape (3, 5)'
  pure function shape_text(extents) result(text)
    integer(int64), intent(in) :: extents(:)
    character(:), allocatable :: text
    integer :: i

    text = 'rank ' // decimal(size(extents, kind=int64)) // ', shape ('
    do i = 1, size(extents)
      if (i > 1) text = text // ', '
      text = text // decimal(extents(i))
    end do
    text = text // ')'
  end function

  !! The Fortran type of an element type: 'real(real64)'.
  pure function type_text(dtype) result(text)
    integer(int32), intent(in) :: dtype
    character(:), allocatable :: text

    select case (dtype)
    case (OSTRAKA_F64); text = 'real(real64)'
    case (OSTRAKA_F32); text = 'real(real32)'
    case (OSTRAKA_BF16, OSTRAKA_F16); text = 'integer(int16)'
    case (OSTRAKA_I64); text = 'integer(int64)'
    case (OSTRAKA_I32); text = 'integer(int32)'
    case (OSTRAKA_U8); text = 'integer(int8)'
    case default; text = 'of the unknown type ' // decimal(int(dtype, int64))
    end select
  end function
end module

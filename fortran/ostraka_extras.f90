! SPDX-License-Identifier: Apache-2.0
!! Internal: what a program saves of its own. Use the module `ostraka`.
module ostraka_extras
  use, intrinsic :: iso_c_binding, only: c_char, c_f_pointer, c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  use ostraka_arrays
  use ostraka_buffer, only: buffer_handle, ostraka_buffer_t
  use ostraka_c_checkpoint
  use ostraka_support, only: conclude, from_c_string, to_c_index, to_c_string, to_c_strings
  use ostraka_types
  implicit none
  private
  public :: ostraka_extras_t
  public :: extras_handle

  !! Numbers, arrays and text that are equal on all ranks, and buffers that are sharded over them, by name. Everything
  !! is local. Assignment copies the handle.
  type :: ostraka_extras_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, private :: set_r64, set_r32, set_c64, set_c32, set_i64, set_i32, set_i16, set_i8, set_text
    !! Sets a number, an array (contiguous; integer(int16): bf16 bits) or a text (without its trailing blanks): equal on
    !! all ranks, each of which keeps it. Replaces an earlier value of that name.
    generic, public :: set => set_r64, set_r32, set_c64, set_c32, set_i64, set_i32, set_i16, set_i8, set_text
    procedure, private :: get_r64, get_r32, get_c64, get_c32, get_i64, get_i32, get_i16, get_i8, get_text
    !! Copies a value, what was set or loaded, to a variable of its kind: a number, an array of its shape (see `shape`)
    !! or a list of its elements, or an allocatable text. What is not there, or of another kind, is an error; then a
    !! number or an array stays as it was.
    generic, public :: get => get_r64, get_r32, get_c64, get_c32, get_i64, get_i32, get_i16, get_i8, get_text
    procedure, public :: has
    procedure, public :: shape => value_shape
    procedure, public :: dtype => value_dtype
    procedure, public :: num_values
    procedure, public :: name => value_name
    procedure, public :: add_buffer
    procedure, public :: destroy
  end type

contains

  include 'ostraka_extras_arrays.inc'

  !! An empty set. Overwrites the handle.
  subroutine create(self, ierr)
    class(ostraka_extras_t), intent(out) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('extras%create', c_extras_create(self%handle), ierr)
  end subroutine

  subroutine set_text(self, name, value, ierr)
    class(ostraka_extras_t), intent(in) :: self
    character(*), intent(in) :: name, value
    integer(int32), intent(out), optional :: ierr

    call conclude('extras%set', c_extras_set_text(self%handle, to_c_string(name), to_c_string(value)), ierr)
  end subroutine

  subroutine get_text(self, name, value, ierr)
    class(ostraka_extras_t), intent(in) :: self
    character(*), intent(in) :: name
    character(:), allocatable, intent(out) :: value
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(int32) :: status

    address = c_null_ptr
    status = c_extras_text(self%handle, to_c_string(name), address)
    value = from_c_string(address)
    call conclude('extras%get', status, ierr)
  end subroutine

  !! Whether there is a value of this name.
  subroutine has(self, name, answer, ierr)
    class(ostraka_extras_t), intent(in) :: self
    character(*), intent(in) :: name
    logical, intent(out) :: answer
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: found, status

    found = 0
    status = c_extras_has(self%handle, to_c_string(name), found)
    answer = status == OSTRAKA_OK .and. found /= 0
    call conclude('extras%has', status, ierr)
  end subroutine

  !! The extents of a value in Fortran order: none of a number, the length of a text; complex numbers are pairs.
  subroutine value_shape(self, name, extents, ierr)
    class(ostraka_extras_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    type(ostraka_shape_t) :: shape
    integer(int32) :: dtype, status
    logical :: is_text

    call find(self, name, dtype, is_text, shape, status)
    allocate(extents(shape%ndim), source=shape%extents(:shape%ndim))
    call conclude('extras%shape', status, ierr)
  end subroutine

  !! The element type of a value: OSTRAKA_F64, ...; `is_text`: it is text (and its type OSTRAKA_U8).
  subroutine value_dtype(self, name, dtype, is_text, ierr)
    class(ostraka_extras_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(out) :: dtype
    logical, intent(out), optional :: is_text
    integer(int32), intent(out), optional :: ierr
    type(ostraka_shape_t) :: shape
    integer(int32) :: status
    logical :: found

    call find(self, name, dtype, found, shape, status)
    if (present(is_text)) is_text = found
    call conclude('extras%dtype', status, ierr)
  end subroutine

  !! Number of values. Local.
  subroutine num_values(self, count, ierr)
    class(ostraka_extras_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('extras%num_values', c_extras_num_values(self%handle, count), ierr)
  end subroutine

  !! The name of value `index`, from 1, in the order in which they were first set.
  subroutine value_name(self, index, name, ierr)
    class(ostraka_extras_t), intent(in) :: self
    integer(int32), intent(in) :: index
    character(:), allocatable, intent(out) :: name
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address
    integer(int32) :: status

    address = c_null_ptr
    status = c_extras_name(self%handle, to_c_index(index), address)
    name = from_c_string(address)
    call conclude('extras%name', status, ierr)
  end subroutine

  !! Adds a buffer on the ranks of the network's mesh, with a name for each of its tensors: saved in global coordinates
  !! and loaded in place, whatever the layouts are. Keeps its storage, as another handle would.
  subroutine add_buffer(self, names, buffer, ierr)
    class(ostraka_extras_t), intent(in) :: self
    character(*), intent(in) :: names(:)
    class(ostraka_buffer_t), intent(in) :: buffer
    integer(int32), intent(out), optional :: ierr
    character(kind=c_char), allocatable, target :: text(:,:)
    type(c_ptr), allocatable :: addresses(:)

    call to_c_strings(names, text, addresses)
    call conclude('extras%add_buffer', &
      c_extras_add_buffer(self%handle, buffer_handle(buffer), size(names, kind=int32), addresses), ierr)
  end subroutine

  !! Nulls the handle.
  subroutine destroy(self, ierr)
    class(ostraka_extras_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('extras%destroy', c_extras_destroy(self%handle), ierr)
  end subroutine

  pure type(c_ptr) function extras_handle(extras)
    class(ostraka_extras_t), intent(in) :: extras

    extras_handle = extras%handle
  end function
end module

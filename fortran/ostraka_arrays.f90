! SPDX-License-Identifier: Apache-2.0
!! Internal: shapes, and arrays of the caller with their shape and type. Use the module `ostraka`.
module ostraka_arrays
  use, intrinsic :: iso_c_binding, only: c_loc, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  use ostraka_support, only: decimal, reversed, shape_text, type_text
  use ostraka_types, only: c_shape_t, OSTRAKA_BF16, OSTRAKA_F16, OSTRAKA_F32, OSTRAKA_F64, OSTRAKA_I32, OSTRAKA_I64, &
    OSTRAKA_INVALID_ARGUMENT, OSTRAKA_OK, OSTRAKA_SHAPE_MISMATCH, OSTRAKA_TYPE_MISMATCH, OSTRAKA_U8
  implicit none
  private
  public :: ostraka_shape, ostraka_shape_t, ostraka_tensor, ostraka_tensor_t
  public :: check_contiguous, check_rank, check_shape, check_type, from_c_shape, is_of_pairs, num_elements, &
    tensor_text, to_c_shapes

  integer, parameter :: MAX_RANK = 16  ! 15 of a Fortran array, and the pairs of a complex one

  !! A shape in Fortran order, for lists of shapes of different rank; made by `ostraka_shape`.
  type :: ostraka_shape_t
    integer(int32) :: ndim = 0
    integer(int64) :: extents(MAX_RANK) = 1
  end type

  !! Where an array of the caller stands, its shape and type; made by `ostraka_tensor` and valid as long as the array.
  type :: ostraka_tensor_t
    type(c_ptr) :: address = c_null_ptr
    integer(int32) :: dtype = -1
    logical :: contiguous = .true.
    logical :: pairs = .false.  ! a complex array: `dtype` is its real type, the first extent of `shape` is 2
    type(ostraka_shape_t) :: shape
  end type

  !! A shape of extents in Fortran order (default integers or int64); `ostraka_shape([integer ::])` is a scalar.
  interface ostraka_shape
    module procedure shape_of_int32, shape_of_int64
  end interface

  !! Describes an array of any rank; the array has the attribute target. A complex array is a tensor of pairs of its
  !! real type: real and imaginary part are a first dimension of 2.
  interface ostraka_tensor
    module procedure tensor_r64, tensor_r32, tensor_c64, tensor_c32, tensor_i64, tensor_i32, tensor_i16, tensor_i8
  end interface

contains

  !! Extents in Fortran order.
  pure function shape_of_int64(extents) result(shape)
    integer(int64), intent(in) :: extents(:)
    type(ostraka_shape_t) :: shape

    if (size(extents) <= MAX_RANK) then
      shape%ndim = size(extents, kind=int32)
      shape%extents(:size(extents)) = extents
    else
      shape%ndim = -1  ! more than any array has: for the library to refuse
    end if
  end function

  !! The same for default integers.
  pure function shape_of_int32(extents) result(shape)
    integer(int32), intent(in) :: extents(:)
    type(ostraka_shape_t) :: shape

    shape = shape_of_int64(int(extents, int64))
  end function

  function tensor_r64(array) result(tensor)
    real(real64), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_F64
    include 'ostraka_tensor.inc'
  end function

  function tensor_r32(array) result(tensor)
    real(real32), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_F32
    include 'ostraka_tensor.inc'
  end function

  function tensor_c64(array) result(tensor)
    complex(real64), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_F64
    include 'ostraka_tensor.inc'
    call to_pairs(tensor)
  end function

  function tensor_c32(array) result(tensor)
    complex(real32), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_F32
    include 'ostraka_tensor.inc'
    call to_pairs(tensor)
  end function

  function tensor_i64(array) result(tensor)
    integer(int64), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_I64
    include 'ostraka_tensor.inc'
  end function

  function tensor_i32(array) result(tensor)
    integer(int32), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_I32
    include 'ostraka_tensor.inc'
  end function

  function tensor_i16(array) result(tensor)
    integer(int16), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_BF16
    include 'ostraka_tensor.inc'
  end function

  function tensor_i8(array) result(tensor)
    integer(int8), intent(in), target :: array(..)
    integer(int32), parameter :: dtype = OSTRAKA_U8
    include 'ostraka_tensor.inc'
  end function

  pure subroutine to_pairs(tensor)
    type(ostraka_tensor_t), intent(inout) :: tensor

    tensor%pairs = .true.
    tensor%shape%ndim = tensor%shape%ndim + 1
    tensor%shape%extents = [2_int64, tensor%shape%extents(:MAX_RANK - 1)]
  end subroutine

  !! Whether a tensor of this shape can hold complex numbers.
  pure logical function is_of_pairs(shape)
    type(ostraka_shape_t), intent(in) :: shape

    is_of_pairs = shape%ndim > 0 .and. shape%extents(1) == 2
  end function

  !! 'tensor 2'
  pure function tensor_text(index) result(text)
    integer(int32), intent(in) :: index
    character(:), allocatable :: text

    text = 'tensor ' // decimal(int(index, int64))
  end function

  !! Number of elements.
  pure integer(int64) function num_elements(shape)
    type(ostraka_shape_t), intent(in) :: shape

    num_elements = product(shape%extents(:shape%ndim))
  end function

  !! Shapes for C: `c_shapes` points into `extents`, which is one column per shape in C order.
  subroutine to_c_shapes(shapes, extents, c_shapes)
    type(ostraka_shape_t), intent(in) :: shapes(:)
    integer(int64), allocatable, target, intent(out) :: extents(:,:)
    type(c_shape_t), allocatable, intent(out) :: c_shapes(:)
    integer :: i, n

    allocate(extents(MAX_RANK, size(shapes)), source=0_int64)
    allocate(c_shapes(size(shapes)))
    do i = 1, size(shapes)
      n = shapes(i)%ndim
      c_shapes(i)%ndim = shapes(i)%ndim
      c_shapes(i)%extents = c_loc(extents(1, i))
      extents(:n, i) = reversed(shapes(i)%extents(:n))
    end do
  end subroutine

  !! The shape that C handed out.
  pure function from_c_shape(ndim, extents) result(shape)
    integer(int32), intent(in) :: ndim
    integer(int64), intent(in) :: extents(:)
    type(ostraka_shape_t) :: shape

    shape = ostraka_shape(reversed(extents(:ndim)))
  end function

  !! Refuses a section of an array: its elements do not lie side by side.
  subroutine check_contiguous(what, tensor, status, text)
    character(*), intent(in) :: what
    type(ostraka_tensor_t), intent(in) :: tensor
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(inout) :: text

    if (status /= OSTRAKA_OK .or. tensor%contiguous) return
    status = OSTRAKA_INVALID_ARGUMENT
    text = what // ': the array is not contiguous'
  end subroutine

  !! Refuses an array of another kind than the element type `dtype`; `pairs`: the array is complex.
  subroutine check_type(what, dtype, array_dtype, status, text, pairs)
    character(*), intent(in) :: what
    integer(int32), intent(in) :: dtype, array_dtype
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(inout) :: text
    logical, intent(in), optional :: pairs
    character(:), allocatable :: array_text

    if (status /= OSTRAKA_OK .or. dtype == array_dtype) return
    if (dtype == OSTRAKA_F16 .and. array_dtype == OSTRAKA_BF16) return  ! both are int16
    status = OSTRAKA_TYPE_MISMATCH
    array_text = type_text(array_dtype)
    if (present(pairs)) then
      if (pairs) array_text = 'complex' // array_text(len('real') + 1:)
    end if
    text = what // ' is ' // type_text(dtype) // ', the array or pointer is ' // array_text
  end subroutine

  !! Refuses a pointer of another rank than the shape.
  subroutine check_rank(what, shape, ndim, status, text)
    character(*), intent(in) :: what
    type(ostraka_shape_t), intent(in) :: shape
    integer, intent(in) :: ndim
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(inout) :: text

    if (status /= OSTRAKA_OK .or. shape%ndim == ndim) return
    status = OSTRAKA_SHAPE_MISMATCH
    text = what // ' has ' // shape_text(shape%extents(:shape%ndim)) // ', the pointer rank ' // &
      decimal(int(ndim, int64))
  end subroutine

  !! Refuses an array of another shape than `expected`, but a list (rank 1) of all elements is let through. A list of
  !! complex numbers fits a tensor of pairs only.
  subroutine check_shape(what, expected, tensor, status, text)
    character(*), intent(in) :: what
    type(ostraka_shape_t), intent(in) :: expected
    type(ostraka_tensor_t), intent(in) :: tensor
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(inout) :: text
    character(:), allocatable :: array_text
    logical :: fits

    if (status /= OSTRAKA_OK) return
    if (tensor%shape%ndim == merge(2, 1, tensor%pairs)) then
      fits = num_elements(tensor%shape) == num_elements(expected)
      if (tensor%pairs) fits = fits .and. is_of_pairs(expected)
    else if (tensor%shape%ndim == expected%ndim) then
      fits = all(tensor%shape%extents(:expected%ndim) == expected%extents(:expected%ndim))
    else
      fits = .false.
    end if
    if (fits) return
    status = OSTRAKA_SHAPE_MISMATCH
    array_text = ', the array '
    if (tensor%pairs) array_text = ', the complex array as pairs '
    text = what // ' has ' // shape_text(expected%extents(:expected%ndim)) // array_text // &
      shape_text(tensor%shape%extents(:tensor%shape%ndim))
  end subroutine
end module

! SPDX-License-Identifier: Apache-2.0
!! Internal: Fortran pointers to memory of the library. Use the module `ostraka`.
module ostraka_pointers
  use, intrinsic :: iso_c_binding, only: c_associated, c_f_pointer, c_loc, c_ptr
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, int8, real32, real64
  implicit none
  private
  public :: point_to

  !! `call point_to(values, address, extents)`: `values`, a pointer of any kind and rank, sees the memory at `address`.
  !! `extents` may be longer than the rank. A scalar with extents(1) = 0 is not there and gives a null pointer.
  interface point_to
    module procedure r64_0, r64_1, r64_2, r64_3, r64_4, r32_0, r32_1, r32_2, r32_3, r32_4
    module procedure c64_0, c64_1, c64_2, c64_3, c64_4, c32_0, c32_1, c32_2, c32_3, c32_4
    module procedure i16_0, i16_1, i16_2, i16_3, i16_4, i64_1, i32_1, i8_1
  end interface

  integer(int64), target, save :: nothing = 0  ! what zero-sized pointers point to

contains

  !! C may give NULL for no elements, which no Fortran pointer can be made of.
  function usable(address)
    type(c_ptr), intent(in) :: address
    type(c_ptr) :: usable

    usable = address
    if (.not. c_associated(address)) usable = c_loc(nothing)
  end function

  subroutine r64_0(values, address, extents)
    real(real64), pointer, intent(out) :: values
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    nullify(values)
    if (extents(1) > 0) call c_f_pointer(usable(address), values)
  end subroutine

  subroutine r64_1(values, address, extents)
    real(real64), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine r64_2(values, address, extents)
    real(real64), pointer, intent(out) :: values(:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:2))
  end subroutine

  subroutine r64_3(values, address, extents)
    real(real64), pointer, intent(out) :: values(:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:3))
  end subroutine

  subroutine r64_4(values, address, extents)
    real(real64), pointer, intent(out) :: values(:,:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:4))
  end subroutine

  subroutine r32_0(values, address, extents)
    real(real32), pointer, intent(out) :: values
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    nullify(values)
    if (extents(1) > 0) call c_f_pointer(usable(address), values)
  end subroutine

  subroutine r32_1(values, address, extents)
    real(real32), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine r32_2(values, address, extents)
    real(real32), pointer, intent(out) :: values(:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:2))
  end subroutine

  subroutine r32_3(values, address, extents)
    real(real32), pointer, intent(out) :: values(:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:3))
  end subroutine

  subroutine r32_4(values, address, extents)
    real(real32), pointer, intent(out) :: values(:,:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:4))
  end subroutine

  subroutine c64_0(values, address, extents)
    complex(real64), pointer, intent(out) :: values
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    nullify(values)
    if (extents(1) > 0) call c_f_pointer(usable(address), values)
  end subroutine

  subroutine c64_1(values, address, extents)
    complex(real64), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine c64_2(values, address, extents)
    complex(real64), pointer, intent(out) :: values(:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:2))
  end subroutine

  subroutine c64_3(values, address, extents)
    complex(real64), pointer, intent(out) :: values(:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:3))
  end subroutine

  subroutine c64_4(values, address, extents)
    complex(real64), pointer, intent(out) :: values(:,:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:4))
  end subroutine

  subroutine c32_0(values, address, extents)
    complex(real32), pointer, intent(out) :: values
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    nullify(values)
    if (extents(1) > 0) call c_f_pointer(usable(address), values)
  end subroutine

  subroutine c32_1(values, address, extents)
    complex(real32), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine c32_2(values, address, extents)
    complex(real32), pointer, intent(out) :: values(:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:2))
  end subroutine

  subroutine c32_3(values, address, extents)
    complex(real32), pointer, intent(out) :: values(:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:3))
  end subroutine

  subroutine c32_4(values, address, extents)
    complex(real32), pointer, intent(out) :: values(:,:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:4))
  end subroutine

  subroutine i64_1(values, address, extents)
    integer(int64), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine i32_1(values, address, extents)
    integer(int32), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine i16_0(values, address, extents)
    integer(int16), pointer, intent(out) :: values
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    nullify(values)
    if (extents(1) > 0) call c_f_pointer(usable(address), values)
  end subroutine

  subroutine i16_1(values, address, extents)
    integer(int16), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine

  subroutine i16_2(values, address, extents)
    integer(int16), pointer, intent(out) :: values(:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:2))
  end subroutine

  subroutine i16_3(values, address, extents)
    integer(int16), pointer, intent(out) :: values(:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:3))
  end subroutine

  subroutine i16_4(values, address, extents)
    integer(int16), pointer, intent(out) :: values(:,:,:,:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:4))
  end subroutine

  subroutine i8_1(values, address, extents)
    integer(int8), pointer, intent(out) :: values(:)
    type(c_ptr), intent(in) :: address
    integer(int64), intent(in) :: extents(:)

    call c_f_pointer(usable(address), values, extents(:1))
  end subroutine
end module

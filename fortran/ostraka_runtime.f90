! SPDX-License-Identifier: Apache-2.0
!! Internal: start and stop of the library, bf16. Use the module `ostraka`.
module ostraka_runtime
  use, intrinsic :: iso_fortran_env, only: int16, int32, real32
  use ostraka_c, only: c_finalize, c_initialize, c_is_initialized, c_version_string
  use ostraka_support, only: conclude, from_c_string
  implicit none
  private
  public :: ostraka_bf16_to_real32, ostraka_finalize, ostraka_initialize, ostraka_is_initialized, &
    ostraka_real32_to_bf16, ostraka_version_string

contains

  !! Starts the library, after MPI_Init. Local, counted: call it once per `ostraka_finalize`.
  subroutine ostraka_initialize(ierr)
    integer(int32), intent(out), optional :: ierr

    call conclude('initialize', c_initialize(), ierr)
  end subroutine

  !! Stops the library, after all handles are destroyed and before MPI_Finalize. Local.
  subroutine ostraka_finalize(ierr)
    integer(int32), intent(out), optional :: ierr

    call conclude('finalize', c_finalize(), ierr)
  end subroutine

  !! Whether the library is started.
  logical function ostraka_is_initialized()
    ostraka_is_initialized = c_is_initialized() /= 0
  end function

  !! '0.1.0'
  function ostraka_version_string() result(version)
    character(:), allocatable :: version

    version = from_c_string(c_version_string())
  end function

  !! The exact value of a bf16 whose 16 bits are held by an integer(int16).
  elemental real(real32) function ostraka_bf16_to_real32(bits)
    integer(int16), intent(in) :: bits

    ostraka_bf16_to_real32 = transfer(shiftl(int(bits, int32), 16), 1.0_real32)
  end function

  !! The bits of the nearest bf16, ties to even. NaN stays NaN, too large values become infinite.
  elemental integer(int16) function ostraka_real32_to_bf16(value)
    real(real32), intent(in) :: value
    integer(int32), parameter :: magnitude = huge(1_int32)
    integer(int32), parameter :: infinity = int(z'7F800000', int32)
    integer(int32) :: bits

    bits = transfer(value, bits)
    if (iand(bits, magnitude) > infinity) then
      bits = ior(shiftr(bits, 16), int(z'40', int32))  ! quiet: cutting the payload must not make an infinity
    else
      bits = shiftr(bits + int(z'7FFF', int32) + ibits(bits, 16, 1), 16)
    end if
    ! From 0 ... 65535 to the same 16 bits; int() of a value beyond the kind's range is not portable.
    ostraka_real32_to_bf16 = int(bits - merge(65536_int32, 0_int32, bits > 32767_int32), int16)
  end function
end module

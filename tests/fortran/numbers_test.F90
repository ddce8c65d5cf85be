! SPDX-License-Identifier: Apache-2.0
!! Constants, struct sizes, texts, bf16: what needs one rank only.
program numbers_test
  use, intrinsic :: ieee_arithmetic, only: ieee_is_nan, ieee_quiet_nan, ieee_value
  use, intrinsic :: iso_c_binding, only: c_char, c_int32_t, c_int64_t, c_null_char, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int16, int32, int64, real32
  use checks
  use ostraka
  use ostraka_types, only: c_adamw_config_t, c_fsdp_config_t, c_group_options_t, c_sgd_config_t, c_shape_t
  use ostraka_c_fsdp, only: c_adamw_config_init_versioned, c_fsdp_config_init_versioned, &
    c_group_options_init_versioned, c_memory_report_init_versioned, c_sgd_config_init_versioned
  implicit none

  interface
    integer(c_int32_t) function c_side_constant(name) bind(c)
      import
      character(kind=c_char), intent(in) :: name(*)
    end function
    integer(c_int64_t) function c_side_size(which) bind(c)
      import
      integer(c_int32_t), value :: which
    end function
  end interface

  call start()
  call check_constants()
  call check_structs()
  call check_texts()
  call check_bf16()
  call finish()

contains

  subroutine constant(name, value)
    character(*), intent(in) :: name
    integer(int32), intent(in) :: value

    call expect(value >= 0 .and. c_side_constant(name // c_null_char) == value, __LINE__, name // ' differs from C')
  end subroutine

  subroutine check_constants()
    call constant('OSTRAKA_OK', OSTRAKA_OK)
    call constant('OSTRAKA_INVALID_ARGUMENT', OSTRAKA_INVALID_ARGUMENT)
    call constant('OSTRAKA_INVALID_STATE', OSTRAKA_INVALID_STATE)
    call constant('OSTRAKA_INVALID_HANDLE', OSTRAKA_INVALID_HANDLE)
    call constant('OSTRAKA_SHAPE_MISMATCH', OSTRAKA_SHAPE_MISMATCH)
    call constant('OSTRAKA_TYPE_MISMATCH', OSTRAKA_TYPE_MISMATCH)
    call constant('OSTRAKA_NOT_SUPPORTED', OSTRAKA_NOT_SUPPORTED)
    call constant('OSTRAKA_OUT_OF_MEMORY', OSTRAKA_OUT_OF_MEMORY)
    call constant('OSTRAKA_INPUT_OUTPUT', OSTRAKA_INPUT_OUTPUT)
    call constant('OSTRAKA_COMMUNICATION', OSTRAKA_COMMUNICATION)
    call constant('OSTRAKA_RANKS_DISAGREE', OSTRAKA_RANKS_DISAGREE)
    call constant('OSTRAKA_TIME_OUT', OSTRAKA_TIME_OUT)
    call constant('OSTRAKA_USER_FAILURE', OSTRAKA_USER_FAILURE)
    call constant('OSTRAKA_FAILED', OSTRAKA_FAILED)
    call constant('OSTRAKA_INTERNAL', OSTRAKA_INTERNAL)
    call constant('OSTRAKA_F64', OSTRAKA_F64)
    call constant('OSTRAKA_F32', OSTRAKA_F32)
    call constant('OSTRAKA_BF16', OSTRAKA_BF16)
    call constant('OSTRAKA_F16', OSTRAKA_F16)
    call constant('OSTRAKA_I64', OSTRAKA_I64)
    call constant('OSTRAKA_I32', OSTRAKA_I32)
    call constant('OSTRAKA_U8', OSTRAKA_U8)
    call constant('OSTRAKA_REPLICATE', OSTRAKA_KIND_REPLICATE)
    call constant('OSTRAKA_SHARD', OSTRAKA_KIND_SHARD)
    call constant('OSTRAKA_PARTIAL', OSTRAKA_KIND_PARTIAL)
    call constant('OSTRAKA_SUM', OSTRAKA_SUM)
    call constant('OSTRAKA_MEAN', OSTRAKA_MEAN)
    call constant('OSTRAKA_MAX', OSTRAKA_MAX)
    call constant('OSTRAKA_MIN', OSTRAKA_MIN)
    call constant('OSTRAKA_PROD', OSTRAKA_PROD)
    call constant('OSTRAKA_REFERENCE', OSTRAKA_REFERENCE)
    call constant('OSTRAKA_PLANNED', OSTRAKA_PLANNED)
    call constant('OSTRAKA_RAGGED', OSTRAKA_RAGGED)
    call constant('OSTRAKA_FLAT', OSTRAKA_FLAT)
    call constant('OSTRAKA_TENSOR_ATOMIC', OSTRAKA_TENSOR_ATOMIC)
    call constant('OSTRAKA_AUTOMATIC', OSTRAKA_AUTOMATIC)
    call constant('OSTRAKA_ATOM_ELEMENT', OSTRAKA_ATOM_ELEMENT)
    call constant('OSTRAKA_ATOM_LAST_DIMS', OSTRAKA_ATOM_LAST_DIMS)
    call constant('OSTRAKA_ATOM_ROW', OSTRAKA_ATOM_ROW)
    call constant('OSTRAKA_ATOM_BLOCK', OSTRAKA_ATOM_BLOCK)
    call constant('OSTRAKA_ATOM_TENSOR', OSTRAKA_ATOM_TENSOR)
    call constant('OSTRAKA_NO_SHARD', OSTRAKA_NO_SHARD)
    call constant('OSTRAKA_ZERO_3', OSTRAKA_ZERO_3)
    call constant('OSTRAKA_NORM_L1', OSTRAKA_NORM_L1)
    call constant('OSTRAKA_NORM_L2', OSTRAKA_NORM_L2)
    call constant('OSTRAKA_NORM_MAX', OSTRAKA_NORM_MAX)
    call constant('OSTRAKA_MEMORY_OTHER', OSTRAKA_MEMORY_OTHER)
    call constant('OSTRAKA_MEMORY_PARAMETERS', OSTRAKA_MEMORY_PARAMETERS)
    call constant('OSTRAKA_MEMORY_GRADIENTS', OSTRAKA_MEMORY_GRADIENTS)
    call constant('OSTRAKA_MEMORY_OPTIMIZER_STATE', OSTRAKA_MEMORY_OPTIMIZER_STATE)
    call constant('OSTRAKA_MEMORY_TRANSIENT', OSTRAKA_MEMORY_TRANSIENT)
    call constant('OSTRAKA_DEVICE_HOST', OSTRAKA_DEVICE_HOST)
    call constant('OSTRAKA_DEVICE_CUDA', OSTRAKA_DEVICE_CUDA)
  end subroutine

  !! Sizes as C has them, and the defaults that C writes arrive in the right members.
  subroutine check_structs()
    type(ostraka_placement_t) :: placement
    type(c_shape_t) :: shape
    type(c_fsdp_config_t) :: fsdp
    type(c_adamw_config_t) :: adamw
    type(c_sgd_config_t) :: sgd
    type(ostraka_memory_report_t) :: report
    type(ostraka_atom_t) :: atom
    type(c_group_options_t) :: group

    call expect(c_sizeof(placement) == c_side_size(0), __LINE__)
    call expect(c_sizeof(shape) == c_side_size(1), __LINE__)
    call expect(c_sizeof(fsdp) == c_side_size(2), __LINE__)
    call expect(c_sizeof(adamw) == c_side_size(3), __LINE__)
    call expect(c_sizeof(sgd) == c_side_size(4), __LINE__)
    call expect(c_sizeof(report) == c_side_size(5), __LINE__)
    call expect(c_sizeof(atom) == c_side_size(6), __LINE__)
    call expect(c_sizeof(group) == c_side_size(7), __LINE__)
    call expect(atom%kind == OSTRAKA_ATOM_ELEMENT .and. atom%count == 1, __LINE__)

    call expect(c_fsdp_config_init_versioned(fsdp, c_side_size(2), 2) == OSTRAKA_OK, __LINE__)
    call expect(fsdp%struct_size == c_sizeof(fsdp) .and. fsdp%version == 2, __LINE__)
    call expect(all([fsdp%recipe, fsdp%reduction, fsdp%gradient_slots, fsdp%broadcast, fsdp%main_dtype, &
      fsdp%compute_dtype] == [OSTRAKA_ZERO_3, OSTRAKA_MEAN, 2, 0, -1, -1]), __LINE__)
    call expect(c_adamw_config_init_versioned(adamw, c_side_size(3), 1) == OSTRAKA_OK, __LINE__)
    call expect(adamw%struct_size == c_sizeof(adamw) .and. adamw%version == 1, __LINE__)
    call expect(all([adamw%learning_rate, adamw%beta1, adamw%beta2, adamw%epsilon, adamw%weight_decay] == &
      [1d-3, 0.9d0, 0.999d0, 1d-8, 1d-2]), __LINE__)
    call expect(c_sgd_config_init_versioned(sgd, c_side_size(4), 1) == OSTRAKA_OK, __LINE__)
    call expect(sgd%struct_size == c_sizeof(sgd) .and. sgd%version == 1, __LINE__)
    call expect(all([sgd%learning_rate, sgd%momentum, sgd%weight_decay] == [1d-3, 0d0, 0d0]), __LINE__)
    call expect(c_group_options_init_versioned(group, c_side_size(7), 1) == OSTRAKA_OK, __LINE__)
    call expect(group%struct_size == c_sizeof(group) .and. group%version == 1 .and. group%max_dims == -1, __LINE__)
    call expect(all([group%learning_rate_factor, group%weight_decay] == [-1d0, -1d0]), __LINE__)
    call expect(c_memory_report_init_versioned(report, c_side_size(5), 2) == OSTRAKA_OK, __LINE__)
    call expect(report%struct_size == c_sizeof(report) .and. report%version == 2, __LINE__)
  end subroutine

  subroutine check_texts()
    type(ostraka_mesh_t) :: nothing
    integer(int32) :: number, ierr

    call expect(ostraka_is_initialized(), __LINE__)
    call expect(index(ostraka_version_string(), '.') > 0, __LINE__)
    call expect(ostraka_status_name(OSTRAKA_SHAPE_MISMATCH) == 'SHAPE_MISMATCH', __LINE__)
    call expect(ostraka_status_name(4711) == 'UNKNOWN', __LINE__)
    call expect(len(ostraka_status_meaning(OSTRAKA_TIME_OUT)) > 10, __LINE__)
    call expect(ostraka_last_error() == '', __LINE__)
    call nothing%rank(number, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'mesh')
    call ostraka_error_clear()
    call expect(ostraka_last_error() == '', __LINE__)
    call ostraka_initialize(ierr)  ! counted
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call ostraka_finalize(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call expect(ostraka_is_initialized(), __LINE__)
  end subroutine

  subroutine check_bf16()
    real(real32), parameter :: exact(*) = [0.0, 1.0, -2.5, 0.0078125, 1.0e38, -3.0]
    integer(int16) :: bits
    real(real32) :: value
    integer :: i

    value = ostraka_bf16_to_real32(ostraka_real32_to_bf16(exact(5)))
    call expect(abs(value - exact(5)) <= exact(5) / 256, __LINE__)
    do i = 1, size(exact)
      if (i == 5) cycle
      call expect(ostraka_bf16_to_real32(ostraka_real32_to_bf16(exact(i))) == exact(i), __LINE__)
    end do
    call expect(ostraka_real32_to_bf16(1.0) == int(z'3F80', int16), __LINE__)
    call expect(ostraka_real32_to_bf16(-1.0) == int(z'3F80', int16) - 32768_int32, __LINE__)
    call expect(ostraka_bf16_to_real32(ostraka_real32_to_bf16(1 + 2.0**(-8))) == 1.0, __LINE__)  ! a tie, to even
    call expect(ostraka_bf16_to_real32(ostraka_real32_to_bf16(1 + 3 * 2.0**(-8))) == 1 + 2.0**(-6), __LINE__)
    call expect(ostraka_bf16_to_real32(ostraka_real32_to_bf16(1 + 2.0**(-8) + 2.0**(-20))) == 1 + 2.0**(-7), __LINE__)
    call expect(ostraka_bf16_to_real32(ostraka_real32_to_bf16(huge(value))) > huge(value), __LINE__)
    value = ieee_value(value, ieee_quiet_nan)
    call expect(ieee_is_nan(ostraka_bf16_to_real32(ostraka_real32_to_bf16(value))), __LINE__)
    do i = -32768, 32767  ! every bf16 there and back
      bits = int(i, int16)
      value = ostraka_bf16_to_real32(bits)
      if (ieee_is_nan(value)) cycle
      if (ostraka_real32_to_bf16(value) /= bits) call expect(.false., __LINE__)
    end do
    call expect(all(ostraka_real32_to_bf16([0.5, 2.0]) == [int(z'3F00', int16), int(z'4000', int16)]), __LINE__)
  end subroutine
end program

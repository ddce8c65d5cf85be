! SPDX-License-Identifier: Apache-2.0
!! Internal: the GPU of this process. Use the module `ostraka`.
module ostraka_device
  use, intrinsic :: iso_c_binding, only: c_intptr_t, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_c, only: c_copy_now, c_cuda_device, c_has_device, c_is_device_memory, &
    c_native_compute_stream, c_select_cuda_device, c_set_compute_stream
  use ostraka_support, only: conclude
  implicit none
  private
  public :: ostraka_copy_now, ostraka_cuda_device, ostraka_has_device, ostraka_is_device_memory, &
    ostraka_native_compute_stream, ostraka_select_cuda_device, ostraka_set_compute_stream

  !! Makes a stream of the caller, which outlives its use here, the compute stream of the GPU: a cudaStream_t as type(c_ptr)
  !! or as integer(c_intptr_t), which is CUDA Fortran's cuda_stream_kind and OpenACC's acc_get_cuda_stream. c_null_ptr or 0:
  !! the library's own again. What the old one has queued comes before what the new one gets. Local.
  interface ostraka_set_compute_stream
    module procedure set_stream_address, set_stream_number
  end interface

  !! The compute stream of the GPU, in the same two forms: what the caller queues on it comes behind what the library has
  !! queued, and before what he asks for next. Local.
  interface ostraka_native_compute_stream
    module procedure get_stream_address, get_stream_number
  end interface

contains

  !! Whether memory and streams of OSTRAKA_DEVICE_HOST or OSTRAKA_DEVICE_CUDA can be had. Local, also before
  !! ostraka_initialize.
  subroutine ostraka_has_device(device, has, ierr)
    integer(int32), intent(in) :: device
    logical, intent(out) :: has
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: found, status

    found = 0
    status = c_has_device(device, found)
    has = found /= 0
    call conclude('has_device', status, ierr)
  end subroutine

  !! Which GPU of this machine the process uses, from 0: what ostraka_select_cuda_device said, else OSTRAKA_DEVICE=cuda:N,
  !! else the rank on this machine that the launcher tells, modulo the number of GPUs. Local.
  subroutine ostraka_cuda_device(index, ierr)
    integer(int32), intent(out) :: index
    integer(int32), intent(out), optional :: ierr

    index = -1
    call conclude('cuda_device', c_cuda_device(index), ierr)
  end subroutine

  !! Chooses it, from 0, before ostraka_initialize. Local.
  subroutine ostraka_select_cuda_device(index, ierr)
    integer(int32), intent(in) :: index
    integer(int32), intent(out), optional :: ierr

    call conclude('select_cuda_device', c_select_cuda_device(index), ierr)
  end subroutine

  subroutine set_stream_address(stream, ierr)
    type(c_ptr), intent(in) :: stream
    integer(int32), intent(out), optional :: ierr

    call conclude('set_compute_stream', c_set_compute_stream(stream), ierr)
  end subroutine

  subroutine set_stream_number(stream, ierr)
    integer(c_intptr_t), intent(in) :: stream
    integer(int32), intent(out), optional :: ierr

    call set_stream_address(transfer(stream, c_null_ptr), ierr)
  end subroutine

  subroutine get_stream_address(stream, ierr)
    type(c_ptr), intent(out) :: stream
    integer(int32), intent(out), optional :: ierr

    stream = c_null_ptr
    call conclude('native_compute_stream', c_native_compute_stream(stream), ierr)
  end subroutine

  subroutine get_stream_number(stream, ierr)
    integer(c_intptr_t), intent(out) :: stream
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: address

    call get_stream_address(address, ierr)
    stream = transfer(address, stream)
  end subroutine

  !! Whether the GPU reads and writes at an address, and hosts need copies. Local.
  subroutine ostraka_is_device_memory(address, is_device, ierr)
    type(c_ptr), intent(in) :: address
    logical, intent(out) :: is_device
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: found, status

    found = 0
    status = c_is_device_memory(address, found)
    is_device = found /= 0
    call conclude('is_device_memory', status, ierr)
  end subroutine

  !! Copies between memory of the device and of the host, or within one, on the compute stream; complete on return. Local.
  subroutine ostraka_copy_now(device, from, to, bytes, ierr)
    integer(int32), intent(in) :: device
    type(c_ptr), intent(in) :: from, to
    integer(int64), intent(in) :: bytes
    integer(int32), intent(out), optional :: ierr

    call conclude('copy_now', c_copy_now(device, from, to, bytes), ierr)
  end subroutine
end module

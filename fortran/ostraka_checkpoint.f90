! SPDX-License-Identifier: Apache-2.0
!! Internal: checkpoint files. Use the module `ostraka`.
module ostraka_checkpoint
  use, intrinsic :: iso_c_binding, only: c_associated, c_char, c_loc, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_c_checkpoint
  use ostraka_ddp, only: ddp_handle, ostraka_ddp_t
  use ostraka_extras, only: extras_handle, ostraka_extras_t
  use ostraka_fsdp, only: context_handle, ostraka_fsdp_context_t
  use ostraka_optim, only: optimizer_handle, ostraka_optimizer_t
  use ostraka_support, only: as_int, conclude, from_c_string, to_c_string, to_c_strings
  use ostraka_types
  implicit none
  private
  public :: ostraka_async_save_t, ostraka_load, ostraka_save

  !! `call ostraka_save(path, context_or_ddp, optimizer, extras, sync, ierr)`: one plain HDF5 file with main weights,
  !! frozen ones too, the state and steps of the optimizer, and what the program adds. The file gets its name when it is
  !! whole: until then, and when anything fails, `path` is what it was, with one exception: an error that says that the
  !! file is complete, but its name may not be on the disk; then `path` is the new file. `sync` (.true.): it is on the
  !! disk by then; .false.: a crash of the machine may lose it. An error while an asynchronous save is in flight on any
  !! rank. Collective; a rank waits at most OSTRAKA_TIMEOUT_S for the writing of the others.
  interface ostraka_save
    module procedure save_context, save_ddp
  end interface

  !! `call ostraka_load(path, context_or_ddp, optimizer, extras, strict, patterns, state, verify, missing, unexpected,
  !! ierr)`: reads what a save wrote on any number of ranks, with any recipe, layout and floating type; values of
  !! `extras` become those of the file, its buffers are loaded into. `strict` (.true.): tensors that the file lacks or
  !! has beyond those asked for are an error; .false.: what both have is loaded, and the rest is in `missing` and
  !! `unexpected`, a name to a line. `patterns`: only tensors of these names, with * and ?. `state` (.true.); .false.:
  !! optimizer state and steps stay, and the file's are ignored. `verify` (.true.): checksums are compared. Errors
  !! before tensors are read change nothing; later ones, also damaged bytes, leave the tensors undefined. Collective; a
  !! rank waits at most OSTRAKA_TIMEOUT_S for the reading of the others.
  interface ostraka_load
    module procedure load_context, load_ddp
  end interface

  !! A save that goes on while training does. Assignment copies the handle.
  type :: ostraka_async_save_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: start_context, start_ddp
    !! `call save%start(path, context_or_ddp, optimizer, extras, sync, ierr)`: copies what this rank writes and returns:
    !! weights may change. A thread writes the copy. One save may be in flight. Collective. Overwrites the handle, so
    !! destroy that of an earlier save before; a start that fails leaves it what it was.
    generic, public :: start => start_context, start_ddp
    procedure, public :: test
    procedure, public :: wait => save_wait
    procedure, public :: staging_bytes
    procedure, public, nopass :: release_memory
    procedure, public :: destroy
  end type

contains

  subroutine save_context(path, context, optimizer, extras, sync, ierr)
    character(*), intent(in) :: path
    class(ostraka_fsdp_context_t), intent(in) :: context
    include 'ostraka_checkpoint_save.inc'
    if (status == OSTRAKA_OK) status = c_save(to_c_string(path), context_handle(context), handles(1), handles(2), &
      options)
    call conclude('ostraka_save', status, ierr, text)
  end subroutine

  subroutine save_ddp(path, ddp, optimizer, extras, sync, ierr)
    character(*), intent(in) :: path
    class(ostraka_ddp_t), intent(in) :: ddp
    include 'ostraka_checkpoint_save.inc'
    if (status == OSTRAKA_OK) status = c_save_ddp(to_c_string(path), ddp_handle(ddp), handles(1), handles(2), &
      options)
    call conclude('ostraka_save', status, ierr, text)
  end subroutine

  subroutine load_context(path, context, optimizer, extras, strict, patterns, state, verify, missing, unexpected, ierr)
    character(*), intent(in) :: path
    class(ostraka_fsdp_context_t), intent(in) :: context
    include 'ostraka_checkpoint_load.inc'
    if (status == OSTRAKA_OK) status = c_load(to_c_string(path), context_handle(context), handles(1), handles(2), &
      options)
    if (present(missing)) missing = left_out(status, 1)
    if (present(unexpected)) unexpected = left_out(status, 2)
    call conclude('ostraka_load', status, ierr, text)
  end subroutine

  subroutine load_ddp(path, ddp, optimizer, extras, strict, patterns, state, verify, missing, unexpected, ierr)
    character(*), intent(in) :: path
    class(ostraka_ddp_t), intent(in) :: ddp
    include 'ostraka_checkpoint_load.inc'
    if (status == OSTRAKA_OK) status = c_load_ddp(to_c_string(path), ddp_handle(ddp), handles(1), handles(2), &
      options)
    if (present(missing)) missing = left_out(status, 1)
    if (present(unexpected)) unexpected = left_out(status, 2)
    call conclude('ostraka_load', status, ierr, text)
  end subroutine

  subroutine start_context(self, path, context, optimizer, extras, sync, ierr)
    class(ostraka_async_save_t), intent(inout) :: self
    character(*), intent(in) :: path
    class(ostraka_fsdp_context_t), intent(in) :: context
    include 'ostraka_checkpoint_save.inc'
    if (status == OSTRAKA_OK) status = c_async_save_start(to_c_string(path), context_handle(context), handles(1), &
      handles(2), options, self%handle)
    call conclude('async_save%start', status, ierr, text)
  end subroutine

  subroutine start_ddp(self, path, ddp, optimizer, extras, sync, ierr)
    class(ostraka_async_save_t), intent(inout) :: self
    character(*), intent(in) :: path
    class(ostraka_ddp_t), intent(in) :: ddp
    include 'ostraka_checkpoint_save.inc'
    if (status == OSTRAKA_OK) status = c_async_save_start_ddp(to_c_string(path), ddp_handle(ddp), handles(1), &
      handles(2), options, self%handle)
    call conclude('async_save%start', status, ierr, text)
  end subroutine

  !! Whether the file is complete and has its name. What went wrong on any rank is an error on all, once. Collective.
  subroutine test(self, is_done, ierr)
    class(ostraka_async_save_t), intent(in) :: self
    logical, intent(out) :: is_done
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: found, status

    found = 0
    status = c_async_save_test(self%handle, found)
    is_done = status == OSTRAKA_OK .and. found /= 0
    call conclude('async_save%test', status, ierr)
  end subroutine

  !! The same when it is. Collective.
  subroutine save_wait(self, ierr)
    class(ostraka_async_save_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('async_save%wait', c_async_save_wait(self%handle), ierr)
  end subroutine

  !! Bytes that this rank copied. Local.
  subroutine staging_bytes(self, bytes, ierr)
    class(ostraka_async_save_t), intent(in) :: self
    integer(int64), intent(out) :: bytes
    integer(int32), intent(out), optional :: ierr

    bytes = 0
    call conclude('async_save%staging_bytes', c_async_save_staging_bytes(self%handle, bytes), ierr)
  end subroutine

  !! Gives the memory back that the copy of the last save left for the next one, which then takes longer to start. Does
  !! nothing to a save in flight. Local.
  subroutine release_memory(ierr)
    integer(int32), intent(out), optional :: ierr

    call conclude('async_save%release_memory', c_async_save_release_memory(), ierr)
  end subroutine

  !! Waits for this rank's writing, drops a file that test or wait did not complete, and nulls the handle. Local.
  subroutine destroy(self, ierr)
    class(ostraka_async_save_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('async_save%destroy', c_async_save_destroy(self%handle), ierr)
  end subroutine

  !! --- what these share

  subroutine fill_save_options(options, status, sync)
    type(c_save_options_t), intent(out) :: options
    integer(int32), intent(out) :: status
    logical, intent(in), optional :: sync

    status = c_save_options_init_versioned(options, int(c_sizeof(options), int64), OSTRAKA_SAVE_OPTIONS_VERSION)
    if (status == OSTRAKA_OK) options%sync = as_int(sync, options%sync)
  end subroutine

  !! `options` refers to `addresses`, and they to `names`.
  subroutine fill_load_options(options, names, addresses, status, strict, patterns, state, verify)
    type(c_load_options_t), intent(out) :: options
    character(kind=c_char), allocatable, target, intent(out) :: names(:,:)
    type(c_ptr), allocatable, target, intent(out) :: addresses(:)
    integer(int32), intent(out) :: status
    logical, intent(in), optional :: strict, state, verify
    character(*), intent(in), optional :: patterns(:)

    status = c_load_options_init_versioned(options, int(c_sizeof(options), int64), OSTRAKA_LOAD_OPTIONS_VERSION)
    if (status /= OSTRAKA_OK) return
    options%strict = as_int(strict, options%strict)
    options%state = as_int(state, options%state)
    options%verify = as_int(verify, options%verify)
    if (.not. present(patterns)) return
    if (size(patterns) == 0) return
    call to_c_strings(patterns, names, addresses)
    options%num_patterns = size(patterns, kind=int32)
    options%patterns = c_loc(addresses)
  end subroutine

  !! What the last load left out, if it succeeded: 1: missing, 2: unexpected. (Optional deferred-length arguments
  !! are not passed on: gfortran 12 loses their length.)
  function left_out(status, which) result(text)
    integer(int32), intent(in) :: status
    integer, intent(in) :: which
    character(:), allocatable :: text
    type(c_ptr) :: addresses(2)

    text = ''
    if (status /= OSTRAKA_OK) return
    addresses = c_null_ptr
    if (c_load_left_out(addresses(1), addresses(2)) == OSTRAKA_OK) text = from_c_string(addresses(which))
  end function

  !! Of the optimizer and the extras, null where they are absent; a null one that is there was forgotten to be created.
  subroutine find_handles(handles, status, text, optimizer, extras)
    type(c_ptr), intent(out) :: handles(2)
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(out) :: text
    class(ostraka_optimizer_t), intent(in), optional :: optimizer
    class(ostraka_extras_t), intent(in), optional :: extras

    handles = c_null_ptr
    text = ''
    if (present(optimizer)) then
      handles(1) = optimizer_handle(optimizer)
      if (.not. c_associated(handles(1))) text = 'optimizer'
    end if
    if (present(extras)) then
      handles(2) = extras_handle(extras)
      if (.not. c_associated(handles(2))) text = 'extras'
    end if
    if (len(text) == 0 .or. status /= OSTRAKA_OK) return
    status = OSTRAKA_INVALID_HANDLE
    text = 'the ' // text // ' handle is null: it was not created yet, or destroyed'
  end subroutine
end module

! SPDX-License-Identifier: Apache-2.0
!! Internal: the mesh and placements on its axes. Use the module `ostraka`.
module ostraka_mesh
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32, int64
  use ostraka_c
  use ostraka_support, only: conclude, decimal, from_c_axis, to_c_axis, to_c_string, to_c_strings
  use ostraka_types, only: OSTRAKA_INVALID_ARGUMENT, OSTRAKA_KIND_PARTIAL, OSTRAKA_KIND_REPLICATE, &
    OSTRAKA_KIND_SHARD, OSTRAKA_OK, OSTRAKA_SUM, ostraka_placement_t
  implicit none
  private
  public :: ostraka_mesh_t, ostraka_mesh_create, ostraka_partial, ostraka_replicate, ostraka_shard
  public :: check_placements, check_placements_of, mesh_handle

  !! The ranks of a communicator on named axes, outermost first. Assignment copies the handle, not the mesh.
  type :: ostraka_mesh_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: destroy
    procedure, public :: dims
    procedure, public :: device => mesh_device
    procedure, public :: rank => mesh_rank
    procedure, public :: size => mesh_size
    procedure, public :: axis => axis_of_name
    procedure, public :: axis_size
    procedure, public :: coordinate
    procedure, public :: memory
  end type

  !! `mesh%create` as a procedure; the module ostraka_mpi_f08 adds the form for type(MPI_Comm).
  interface ostraka_mesh_create
    module procedure create
  end interface

contains

  !! Creates a mesh over the communicator, which is duplicated. Collective over `comm`. Overwrites the handle.
  !! `sizes`: ranks per axis, default all ranks on one axis; `names`: one per axis, default 'axis0', 'axis1', ...
  !! `device`: OSTRAKA_DEVICE_HOST or OSTRAKA_DEVICE_CUDA, where the memory of what is created on it lies; default: where
  !! the environment variable OSTRAKA_DEVICE says. Equal on all ranks.
  subroutine create(self, comm, sizes, names, device, ierr)
    class(ostraka_mesh_t), intent(out) :: self
    integer, intent(in) :: comm
    integer(int32), intent(in), optional :: sizes(:)
    character(*), intent(in), optional :: names(:)
    integer(int32), intent(in), optional :: device
    integer(int32), intent(out), optional :: ierr
    character(kind=c_char), allocatable, target :: c_names(:,:)
    type(c_ptr), allocatable :: name_addresses(:)
    integer(int32) :: dims, status

    dims = 1
    if (present(sizes)) dims = size(sizes, kind=int32)
    if (present(names)) then
      if (size(names) /= dims) then
        call conclude('mesh%create', OSTRAKA_INVALID_ARGUMENT, ierr, decimal(size(names, kind=int64)) // &
          ' names for ' // decimal(int(dims, int64)) // ' axes')
        return
      end if
      call to_c_strings(names, c_names, name_addresses)
    end if
    ! what is absent, or not allocated, is NULL in C
    if (present(device)) then
      status = c_mesh_create_on_f(int(comm, c_int), dims, sizes, name_addresses, device, self%handle)
    else
      status = c_mesh_create_f(int(comm, c_int), dims, sizes, name_addresses, self%handle)
    end if
    call conclude('mesh%create', status, ierr)
  end subroutine

  !! Destroys the mesh. Collective when nothing else (buffers, contexts) uses its communicators. Nulls the handle.
  subroutine destroy(self, ierr)
    class(ostraka_mesh_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%destroy', c_mesh_destroy(self%handle), ierr)
  end subroutine

  !! Number of axes.
  subroutine dims(self, count, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%dims', c_mesh_dims(self%handle, count), ierr)
  end subroutine

  !! Where the memory of what is created on it lies: OSTRAKA_DEVICE_HOST or OSTRAKA_DEVICE_CUDA.
  subroutine mesh_device(self, device, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(out) :: device
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%device', c_mesh_device(self%handle, device), ierr)
  end subroutine

  !! This rank, from 0 as in MPI.
  subroutine mesh_rank(self, rank, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(out) :: rank
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%rank', c_mesh_rank(self%handle, rank), ierr)
  end subroutine

  !! Number of ranks.
  subroutine mesh_size(self, size, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(out) :: size
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%size', c_mesh_size(self%handle, size), ierr)
  end subroutine

  !! The number of the axis of that name, from 1 at the outermost axis.
  subroutine axis_of_name(self, name, axis, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(out) :: axis
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: c_axis, status

    c_axis = 0
    status = c_mesh_axis(self%handle, to_c_string(name), c_axis)
    axis = from_c_axis(c_axis)
    call conclude('mesh%axis', status, ierr)
  end subroutine

  !! Number of ranks on an axis.
  subroutine axis_size(self, axis, size, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(in) :: axis
    integer(int32), intent(out) :: size
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%axis_size', c_mesh_axis_size(self%handle, to_c_axis(axis), size), ierr)
  end subroutine

  !! This rank's place on an axis, from 0 like a rank.
  subroutine coordinate(self, axis, place, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(in) :: axis
    integer(int32), intent(out) :: place
    integer(int32), intent(out), optional :: ierr

    call conclude('mesh%coordinate', c_mesh_coordinate(self%handle, to_c_axis(axis), place), ierr)
  end subroutine

  !! Bytes of one kind (OSTRAKA_MEMORY_OTHER, ...) on this rank that what was created on the mesh has in use now, and at
  !! most so far. Buffers are of kind OTHER, scratch of redistributions is TRANSIENT; contexts report their own memory.
  !! Storage counts in multiples of 64 bytes, and not at all while it is released or is memory of the caller.
  subroutine memory(self, kind, in_use, peak, ierr)
    class(ostraka_mesh_t), intent(in) :: self
    integer(int32), intent(in) :: kind
    integer(int64), intent(out) :: in_use, peak
    integer(int32), intent(out), optional :: ierr

    in_use = 0
    peak = 0
    call conclude('mesh%memory', c_mesh_memory(self%handle, kind, in_use, peak), ierr)
  end subroutine

  !! The whole range on every rank of the axis.
  pure type(ostraka_placement_t) function ostraka_replicate()
    ostraka_replicate = ostraka_placement_t(OSTRAKA_KIND_REPLICATE, OSTRAKA_SUM)
  end function

  !! A contiguous part of the range on each rank of the axis.
  pure type(ostraka_placement_t) function ostraka_shard()
    ostraka_shard = ostraka_placement_t(OSTRAKA_KIND_SHARD, OSTRAKA_SUM)
  end function

  !! The whole range, still to be reduced over the axis by `op`: OSTRAKA_SUM (default), OSTRAKA_MEAN,
  !! OSTRAKA_MAX, OSTRAKA_MIN or OSTRAKA_PROD. OSTRAKA_MEAN is for floating types only.
  pure type(ostraka_placement_t) function ostraka_partial(op)
    integer(int32), intent(in), optional :: op

    ostraka_partial = ostraka_placement_t(OSTRAKA_KIND_PARTIAL, OSTRAKA_SUM)
    if (present(op)) ostraka_partial%op = op
  end function

  !! The C handle, for the other modules of this library.
  pure type(c_ptr) function mesh_handle(mesh)
    class(ostraka_mesh_t), intent(in) :: mesh

    mesh_handle = mesh%handle
  end function

  !! The start of each create: one placement per mesh axis.
  subroutine check_placements_of(mesh, placements, status, text)
    class(ostraka_mesh_t), intent(in) :: mesh
    type(ostraka_placement_t), intent(in) :: placements(:)
    integer(int32), intent(out) :: status
    character(:), allocatable, intent(out) :: text
    integer(int32) :: dims

    dims = 0
    status = c_mesh_dims(mesh_handle(mesh), dims)
    call check_placements(placements, dims, status, text)
  end subroutine

  !! C reads one placement per mesh axis. `status` tells whether the number of axes could be found.
  subroutine check_placements(placements, num_axes, status, text)
    type(ostraka_placement_t), intent(in) :: placements(:)
    integer(int32), intent(in) :: num_axes
    integer(int32), intent(inout) :: status
    character(:), allocatable, intent(out) :: text

    text = ''
    if (status /= OSTRAKA_OK .or. size(placements) == num_axes) return
    status = OSTRAKA_INVALID_ARGUMENT
    text = decimal(size(placements, kind=int64)) // ' placements for ' // decimal(int(num_axes, int64)) // ' mesh axes'
  end subroutine

end module

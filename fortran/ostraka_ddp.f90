! SPDX-License-Identifier: Apache-2.0
!! Internal: data parallelism with whole weights and overlapped reductions of gradients. Use the module `ostraka`.
module ostraka_ddp
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int32_t, c_loc, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use ostraka_arrays
  use ostraka_c, only: c_copy_now, c_is_device_memory, c_last_error
  use ostraka_c_ddp
  use ostraka_c_fsdp, only: c_memory_report_init_versioned
  use ostraka_mesh, only: mesh_handle, ostraka_mesh_t
  use ostraka_pointers, only: point_to
  use ostraka_support, only: as_int, conclude, from_c_string, parameter_text, to_c_string, to_c_strings, &
    type_text
  use ostraka_types
  implicit none
  private
  public :: ostraka_ddp_t
  public :: ddp_handle

  !! Whole weights on every rank, gradients that are reduced bucket by bucket while the backward pass goes on,
  !! optionally with a sharded optimizer. Assignment copies the handle, not the object.
  type :: ostraka_ddp_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: create_on_mesh, create_on_comm
    !! On a mesh, or on all ranks of an integer communicator as one axis. Collective.
    generic, public :: create => create_on_mesh, create_on_comm
    procedure, public :: destroy
    procedure, private :: add_parameter_int32, add_parameter_int64
    !! Declares a parameter 'module.parameter', in the order of a forward pass; `extents` in Fortran order, [integer ::]
    !! for a scalar. `dtype`: storage type of the weights, OSTRAKA_F64 (default), OSTRAKA_F32 or OSTRAKA_BF16.
    !! `trainable`: default .true., else there is no gradient. `expert`: default .false., else its gradient is reduced
    !! over the expert mesh. `shared_embedding`: default .false., else it has a bucket of its own where the optimizer is
    !! sharded. Local.
    generic, public :: add_parameter => add_parameter_int32, add_parameter_int64
    procedure, public :: finalize => ddp_finalize
    procedure, private :: set_parameter_r64, set_parameter_r32
    procedure, private :: set_parameter_ptr
    !! Copies the whole weight: a contiguous real32 or real64 array of the parameter's shape, or a list of its elements.
    !! Local; every rank passes the same values, or broadcast_params follows.
    !! `(name, dtype, address, count)`: the same from `count` elements at a type(c_ptr).
    generic, public :: set_parameter => set_parameter_r64, set_parameter_r32, set_parameter_ptr
    procedure, public :: broadcast_params
    procedure, public :: parameter_shape
    procedure, private :: parameter_r64_0, parameter_r64_1, parameter_r64_2, parameter_r64_3, parameter_r64_4
    procedure, private :: parameter_r32_0, parameter_r32_1, parameter_r32_2, parameter_r32_3, parameter_r32_4
    procedure, private :: parameter_i16_0, parameter_i16_1, parameter_i16_2, parameter_i16_3, parameter_i16_4
    procedure, private :: parameter_ptr
    !! The whole weight in its Fortran shape and storage type (bf16: integer(int16)), in the same memory until destroy.
    !! A caller that updates weights itself, without a sharded optimizer, writes to it. Local.
    !! `(name, dtype, address, count)`: its address as type(c_ptr) and its number of elements.
    generic, public :: parameter => parameter_r64_0, parameter_r64_1, parameter_r64_2, parameter_r64_3, &
      parameter_r64_4, parameter_r32_0, parameter_r32_1, parameter_r32_2, parameter_r32_3, parameter_r32_4, &
      parameter_i16_0, parameter_i16_1, parameter_i16_2, parameter_i16_3, parameter_i16_4, parameter_ptr
    procedure, private :: gradient_r64_0, gradient_r64_1, gradient_r64_2, gradient_r64_3, gradient_r64_4
    procedure, private :: gradient_r32_0, gradient_r32_1, gradient_r32_2, gradient_r32_3, gradient_r32_4
    procedure, private :: gradient_i16_0, gradient_i16_1, gradient_i16_2, gradient_i16_3, gradient_i16_4
    procedure, private :: gradient_ptr
    !! Where to write the whole gradient g = beta*g + contribution: with beta = 0 the memory is undefined, with beta = 1
    !! it holds earlier contributions. Without `beta` it is zero where it was undefined (on a GPU the host waits for
    !! that): add to it. Local.
    !! `(name, dtype, address, count, beta)`: as type(c_ptr); `beta` is a real64.
    generic, public :: gradient => gradient_r64_0, gradient_r64_1, gradient_r64_2, gradient_r64_3, gradient_r64_4, &
      gradient_r32_0, gradient_r32_1, gradient_r32_2, gradient_r32_3, gradient_r32_4, gradient_i16_0, &
      gradient_i16_1, gradient_i16_2, gradient_i16_3, gradient_i16_4, gradient_ptr
    procedure, public :: gradient_dtype
    procedure, public :: gradient_ready
    procedure, public :: set_uses
    procedure, public :: begin_no_sync
    procedure, public :: end_no_sync
    procedure, public :: is_syncing
    procedure, public :: start_grad_sync
    procedure, public :: finish_grad_sync
    procedure, public :: fail_step
    procedure, public :: zero_grad_buffer
    procedure, public :: scale_gradients
    procedure, private :: main_gradient_r64, main_gradient_r32
    procedure, private :: main_gradient_ptr
    !! This rank's elements of the reduced gradient (all of it, or with a sharded optimizer a part) and the number of
    !! elements before them in the tensor, until zero_grad_buffer. The pointer has the kind of the main type. Local.
    !! `(name, dtype, address, count, offset)`: as type(c_ptr).
    generic, public :: main_gradient => main_gradient_r64, main_gradient_r32, main_gradient_ptr
    procedure, public :: offload_grad_buffers
    procedure, public :: restore_grad_buffers
    procedure, public :: start_param_sync
    procedure, public :: pre_forward
    procedure, public :: enable_forward_pre_hook
    procedure, public :: disable_forward_pre_hook
    procedure, public :: has_forward_pre_hook
    procedure, public :: ensure_ready
    procedure, public :: reset_param_sync_dispatch_state
    procedure, public :: free_overlap_buffers
    procedure, public :: memory
  end type

contains

  include 'ostraka_ddp_arrays.inc'
  include 'ostraka_ddp_pointers.inc'
  include 'ostraka_ddp_steps.inc'

  !! Creates one with communicators of its own. Collective over the mesh. Overwrites the handle. Defaults: `expert_mesh`
  !! none, `scaling` of gradients OSTRAKA_SCALING_MEAN (or OSTRAKA_SCALING_PRE_SCALE, OSTRAKA_SCALING_SUM),
  !! `bucket_size` max(40000000, 1000000 * ranks) elements, or `num_buckets` in each buffer, `disable_bucketing` .false.
  !! (.true.: one), `sharded_optimizer` .false., with it `pad_for_bandwidth` .false., `arrangement`
  !! OSTRAKA_ARRANGEMENT_PACKED (or OSTRAKA_ARRANGEMENT_LAYER_WISE) and `overlap_param_gather` .false. (.true.: weights
  !! are gathered ahead of use); `overlap_grad_reduce` .true. (.false.: one bucket, reduced in finish_grad_sync;
  !! gradient_ready may be left out), `uses` 1 contribution to each gradient in a backward pass (or OSTRAKA_USES_AUTO);
  !! `main_dtype` of main weights and optimizer state and `gradient_dtype` (or OSTRAKA_BF16): f64 for f64, else f32;
  !! `f32_accumulators`, patterns of names with * and ?, bf16 gradients that are accumulated in f32: none.
  subroutine create_on_mesh(self, mesh, expert_mesh, scaling, bucket_size, num_buckets, disable_bucketing, &
    sharded_optimizer, pad_for_bandwidth, arrangement, overlap_grad_reduce, overlap_param_gather, uses, main_dtype, &
    gradient_dtype, f32_accumulators, ierr)
    class(ostraka_ddp_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    class(ostraka_mesh_t), intent(in), optional :: expert_mesh
    integer(int32), intent(in), optional :: scaling, num_buckets, arrangement, uses, main_dtype, gradient_dtype
    integer(int64), intent(in), optional :: bucket_size
    logical, intent(in), optional :: disable_bucketing, sharded_optimizer, pad_for_bandwidth, overlap_grad_reduce, &
      overlap_param_gather
    character(*), intent(in), optional :: f32_accumulators(:)
    integer(int32), intent(out), optional :: ierr
    type(c_ddp_config_t) :: config
    character(kind=c_char), allocatable, target :: names(:,:)
    type(c_ptr), allocatable, target :: addresses(:)
    type(c_ptr) :: experts
    integer(int32) :: status

    experts = c_null_ptr
    if (present(expert_mesh)) experts = mesh_handle(expert_mesh)
    status = c_ddp_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_DDP_CONFIG_VERSION)
    if (status == OSTRAKA_OK) then
      if (present(scaling)) config%scaling = scaling
      if (present(bucket_size)) config%bucket_size = bucket_size
      if (present(num_buckets)) config%num_buckets = num_buckets
      config%disable_bucketing = as_int(disable_bucketing, config%disable_bucketing)
      config%sharded_optimizer = as_int(sharded_optimizer, config%sharded_optimizer)
      config%pad_for_bandwidth = as_int(pad_for_bandwidth, config%pad_for_bandwidth)
      if (present(arrangement)) config%arrangement = arrangement
      config%overlap_grad_reduce = as_int(overlap_grad_reduce, config%overlap_grad_reduce)
      config%overlap_param_gather = as_int(overlap_param_gather, config%overlap_param_gather)
      if (present(uses)) config%uses = uses
      if (present(main_dtype)) config%main_dtype = main_dtype
      if (present(gradient_dtype)) config%gradient_dtype = gradient_dtype
      if (present(f32_accumulators)) then
        call to_c_strings(f32_accumulators, names, addresses)
        config%num_f32_accumulators = size(addresses, kind=int32)
        if (size(addresses) > 0) config%f32_accumulators = c_loc(addresses)
      end if
      status = c_ddp_create(mesh_handle(mesh), config, experts, self%handle)
    end if
    call conclude('ddp%create', status, ierr)
  end subroutine

  !! The mesh lives as long as what is made on it.
  subroutine create_on_comm(self, comm, scaling, bucket_size, num_buckets, disable_bucketing, sharded_optimizer, &
    pad_for_bandwidth, arrangement, overlap_grad_reduce, overlap_param_gather, uses, main_dtype, gradient_dtype, &
    f32_accumulators, ierr)
    class(ostraka_ddp_t), intent(out) :: self
    integer, intent(in) :: comm
    integer(int32), intent(in), optional :: scaling, num_buckets, arrangement, uses, main_dtype, gradient_dtype
    integer(int64), intent(in), optional :: bucket_size
    logical, intent(in), optional :: disable_bucketing, sharded_optimizer, pad_for_bandwidth, overlap_grad_reduce, &
      overlap_param_gather
    character(*), intent(in), optional :: f32_accumulators(:)
    integer(int32), intent(out), optional :: ierr
    type(ostraka_mesh_t) :: mesh
    integer(int32) :: ignored

    call mesh%create(comm, ierr=ierr)
    if (present(ierr)) then
      if (ierr /= OSTRAKA_OK) return
    end if
    call self%create(mesh, scaling=scaling, bucket_size=bucket_size, num_buckets=num_buckets, &
      disable_bucketing=disable_bucketing, sharded_optimizer=sharded_optimizer, pad_for_bandwidth=pad_for_bandwidth, &
      arrangement=arrangement, overlap_grad_reduce=overlap_grad_reduce, overlap_param_gather=overlap_param_gather, &
      uses=uses, main_dtype=main_dtype, gradient_dtype=gradient_dtype, f32_accumulators=f32_accumulators, ierr=ierr)
    call mesh%destroy(ignored)
  end subroutine

  !! Destroys it and nulls the handle. Collective.
  subroutine destroy(self, ierr)
    class(ostraka_ddp_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('ddp%destroy', c_ddp_destroy(self%handle), ierr)
  end subroutine

  subroutine add_parameter_int64(self, name, extents, dtype, trainable, expert, shared_embedding, ierr)
    class(ostraka_ddp_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(in) :: extents(:)
    integer(int32), intent(in), optional :: dtype
    logical, intent(in), optional :: trainable, expert, shared_embedding
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: c_extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)
    integer(int32) :: type, flags

    type = OSTRAKA_F64
    if (present(dtype)) type = dtype
    flags = OSTRAKA_DDP_FROZEN * (1 - as_int(trainable, 1_int32)) + OSTRAKA_DDP_EXPERT * as_int(expert, 0_int32) + &
      OSTRAKA_DDP_SHARED_EMBEDDING * as_int(shared_embedding, 0_int32)
    call to_c_shapes([ostraka_shape(extents)], c_extents, c_shapes)
    call conclude('ddp%add_parameter', &
      c_ddp_add_parameter(self%handle, to_c_string(name), c_shapes(1), type, flags), ierr)
  end subroutine

  subroutine add_parameter_int32(self, name, extents, dtype, trainable, expert, shared_embedding, ierr)
    class(ostraka_ddp_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(in) :: extents(:)
    integer(int32), intent(in), optional :: dtype
    logical, intent(in), optional :: trainable, expert, shared_embedding
    integer(int32), intent(out), optional :: ierr

    call self%add_parameter(name, int(extents, int64), dtype, trainable, expert, shared_embedding, ierr)
  end subroutine

  !! Ends set-up: lays out and allocates; weights are zero. Collective. OSTRAKA_OUT_OF_MEMORY on all ranks when one has
  !! too little.
  subroutine ddp_finalize(self, ierr)
    class(ostraka_ddp_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('ddp%finalize', c_ddp_finalize(self%handle), ierr)
  end subroutine

  !! The extents of a parameter in Fortran order; none for a scalar. Local, after finalize.
  subroutine parameter_shape(self, name, extents, ierr)
    class(ostraka_ddp_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    type(ostraka_shape_t) :: shape
    integer(int32) :: status

    call find_shape(self, name, shape, status)
    allocate(extents(shape%ndim), source=shape%extents(:shape%ndim))
    call conclude('ddp%parameter_shape', status, ierr)
  end subroutine

  !! Bytes on this rank; num_elements: of the parameters of this rank. Local.
  subroutine memory(self, report, ierr)
    class(ostraka_ddp_t), intent(in) :: self
    type(ostraka_memory_report_t), intent(out) :: report
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status

    status = c_memory_report_init_versioned(report, int(c_sizeof(report), int64), OSTRAKA_MEMORY_REPORT_VERSION)
    if (status == OSTRAKA_OK) status = c_ddp_memory(self%handle, report)
    call conclude('ddp%memory', status, ierr)
  end subroutine

  !! The C handle, for the other modules of this library.
  pure type(c_ptr) function ddp_handle(ddp)
    class(ostraka_ddp_t), intent(in) :: ddp

    ddp_handle = ddp%handle
  end function
end module

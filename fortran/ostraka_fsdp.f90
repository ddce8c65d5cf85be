! SPDX-License-Identifier: Apache-2.0
!! Internal: fully sharded data parallelism. Use the module `ostraka`.
module ostraka_fsdp
  use, intrinsic :: iso_c_binding, only: c_double, c_f_pointer, c_funloc, c_int32_t, c_int64_t, c_loc, c_null_ptr, &
    c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use ostraka_arrays
  use ostraka_c, only: c_last_error, c_mesh_dims
  use ostraka_c_fsdp
  use ostraka_fsdp_config, only: make_fsdp_config
  use ostraka_mesh, only: mesh_handle, ostraka_mesh_t
  use ostraka_pointers, only: point_to
  use ostraka_support, only: as_int, conclude, from_c_string, given, parameter_text, to_c_string, type_text
  use ostraka_types
  implicit none
  private
  public :: ostraka_fsdp_context_t, ostraka_fsdp_module_t
  public :: ostraka_fill
  public :: context_handle

  abstract interface
    !! Gives the values of elements first, first + 1, ... of a parameter, counted from 1 in array element order.
    subroutine ostraka_fill(first, values)
      import
      integer(int64), intent(in) :: first
      real(real64), intent(out) :: values(:)
    end subroutine
  end interface

  type :: fill_t
    procedure(ostraka_fill), pointer, nopass :: call => null()
  end type

  !! One part of a model whose weights are gathered together. Dies with its context. Assignment copies the handle.
  type :: ostraka_fsdp_module_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: add_parameter_int32, add_parameter_int64
    !! Declares a parameter of a module that is not built yet; `extents` in Fortran order, [integer ::] for a scalar.
    !! `dtype`: storage type of the weights, OSTRAKA_F64 (default), OSTRAKA_F32 or OSTRAKA_BF16 (then handed out as
    !! real32). `trainable`: default .true., else there is no gradient. Local.
    generic, public :: add_parameter => add_parameter_int32, add_parameter_int64
    procedure, public :: set_precision
    procedure, public :: add_module => module_add_module
    procedure, public :: tie_parameter
    procedure, public :: set_allow_unused
    procedure, private :: set_prefetch_int32, set_prefetch_int64
    !! How many elements of weights are gathered ahead when this module starts: -1: one module; 0: none; else whole
    !! modules until so many are reached. Until finalize, equal on all ranks. Local.
    generic, public :: set_prefetch => set_prefetch_int32, set_prefetch_int64
    procedure, public :: set_gradient_divisor
    procedure, public :: build
    procedure, private :: set_parameter_r64, set_parameter_r32
    procedure, private :: set_parameter_ptr
    !! Copies this rank's part of the whole weight: a contiguous real32 or real64 array of the parameter's shape, or a
    !! list of its elements; every rank passes the same values. Local before finalize; later all ranks call it in the
    !! same order, and it may wait until the others have let the weights go.
    !! `(name, dtype, address, count)`: the same from `count` elements at a type(c_ptr).
    generic, public :: set_parameter => set_parameter_r64, set_parameter_r32, set_parameter_ptr
    procedure, private :: set_from_root_r64, set_from_root_r32
    !! The same from the array of rank `root` of the mesh (from 0); the others pass an array of the same size and kind.
    !! Collective.
    generic, public :: set_from_root => set_from_root_r64, set_from_root_r32
    procedure, public :: initialise
    procedure, public :: pre_forward
    procedure, public :: post_forward
    procedure, public :: pre_backward
    procedure, public :: post_backward
    procedure, public :: skip_forward
    procedure, public :: skip_backward
    procedure, public :: unshard
    procedure, public :: reduce_gradients
    procedure, public :: reshard
    procedure, private :: parameter_r64_0, parameter_r64_1, parameter_r64_2, parameter_r64_3, parameter_r64_4
    procedure, private :: parameter_r32_0, parameter_r32_1, parameter_r32_2, parameter_r32_3, parameter_r32_4
    procedure, private :: parameter_ptr
    !! The whole weight in its Fortran shape, read-only, between pre_* and the matching post_*. Local.
    !! `(name, dtype, address, count)`: its address as type(c_ptr) and its number of elements.
    generic, public :: parameter => parameter_r64_0, parameter_r64_1, parameter_r64_2, parameter_r64_3, &
      parameter_r64_4, parameter_r32_0, parameter_r32_1, parameter_r32_2, parameter_r32_3, parameter_r32_4, &
      parameter_ptr
    procedure, private :: gradient_r64_0, gradient_r64_1, gradient_r64_2, gradient_r64_3, gradient_r64_4
    procedure, private :: gradient_r32_0, gradient_r32_1, gradient_r32_2, gradient_r32_3, gradient_r32_4
    procedure, private :: gradient_ptr
    !! Where to write the whole gradient g = beta*g + contribution, between pre_backward and post_backward: with
    !! beta = 0 the memory is undefined, with beta = 1 it holds earlier contributions. Local.
    !! `(name, dtype, address, count, beta)`: as type(c_ptr); `beta` is a real64.
    generic, public :: gradient => gradient_r64_0, gradient_r64_1, gradient_r64_2, gradient_r64_3, gradient_r64_4, &
      gradient_r32_0, gradient_r32_1, gradient_r32_2, gradient_r32_3, gradient_r32_4, gradient_ptr
    procedure, private :: main_gradient_r64, main_gradient_r32
    procedure, private :: main_gradient_ptr
    !! This rank's elements of the reduced gradient (all with no_shard, unless ranks share memory) and the number of
    !! elements before them in the tensor, until the next pre_backward or zero_grad. The pointer has the kind of the
    !! main type. Local.
    !! `(name, dtype, address, count, offset)`: as type(c_ptr).
    generic, public :: main_gradient => main_gradient_r64, main_gradient_r32, main_gradient_ptr
    procedure, public :: parameter_shape
  end type

  !! Modules on a mesh, and what runs between them. Assignment copies the handle, not the context.
  type :: ostraka_fsdp_context_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: destroy
    procedure, public :: add_module
    procedure, public :: finalize => context_finalize
    procedure, public :: begin_backward
    procedure, public :: finish_backward
    procedure, public :: skip_microbatch
    procedure, public :: fail_step
    procedure, public :: set_last_microbatch
    procedure, public :: zero_grad
    procedure, public :: begin_inference
    procedure, public :: end_inference
    procedure, public :: memory
    procedure, public :: node_memory
  end type

contains

  include 'ostraka_fsdp_arrays.inc'
  include 'ostraka_fsdp_pointers.inc'
  include 'ostraka_fsdp_schedule.inc'

  !! Creates a context with communicators of its own. Collective over the mesh. Overwrites the handle. Defaults:
  !! `recipe` OSTRAKA_ZERO_3 (or OSTRAKA_NO_SHARD, OSTRAKA_ZERO_1, OSTRAKA_ZERO_2; on two or more axes OSTRAKA_HSDP,
  !! OSTRAKA_HFSDP, OSTRAKA_ZERO_1_ZERO_2), `reduction` of gradients over ranks OSTRAKA_MEAN (or OSTRAKA_SUM),
  !! `gradient_slots` 2 reductions in flight, `broadcast` .false. (replicated weights are compared, not copied),
  !! `main_dtype` of main weights, gradients and optimizer state: f64 for f64, else f32; `compute_dtype` OSTRAKA_F64 or
  !! OSTRAKA_F32 in which whole weights are handed out, `reduction_dtype` in which gradients are taken: likewise.
  !! `prefetch`, elements of weights gathered ahead: -1 (one module), 0 (none), or whole modules until so many are
  !! reached; `unified_stream` .false.: gathers and reductions do not take turns. `gradient_slot_bytes`, what the slots of
  !! all ranks of a node may hold together (there are fewer, but one, where so many are larger): -1 (the last-level
  !! caches of the machine where all ranks share one node, else no bound).
  !! Placements chosen by hand instead of `recipe`, one per axis, all three: `parameter_placements`,
  !! `gradient_placements` (while micro-batches add up) and `optimizer_placements`.
  subroutine create(self, mesh, recipe, reduction, gradient_slots, broadcast, main_dtype, compute_dtype, &
    reduction_dtype, parameter_placements, gradient_placements, optimizer_placements, prefetch, unified_stream, &
    gradient_slot_bytes, ierr)
    class(ostraka_fsdp_context_t), intent(out) :: self
    class(ostraka_mesh_t), intent(in) :: mesh
    integer(int32), intent(in), optional :: recipe, reduction, gradient_slots
    logical, intent(in), optional :: broadcast
    integer(int32), intent(in), optional :: main_dtype, compute_dtype, reduction_dtype
    integer(int64), intent(in), optional :: prefetch, gradient_slot_bytes
    logical, intent(in), optional :: unified_stream
    type(ostraka_placement_t), intent(in), optional, target, contiguous :: parameter_placements(:), &
      gradient_placements(:), optimizer_placements(:)
    integer(int32), intent(out), optional :: ierr
    type(c_fsdp_config_t) :: config
    integer(int32) :: dims, status
    character(:), allocatable :: text

    dims = 0
    status = c_mesh_dims(mesh_handle(mesh), dims)
    call make_fsdp_config(config, dims, status, text, recipe, reduction, gradient_slots, broadcast, main_dtype, &
      compute_dtype, reduction_dtype, parameter_placements, gradient_placements, optimizer_placements, prefetch, &
      unified_stream, gradient_slot_bytes)
    if (status == OSTRAKA_OK) status = c_fsdp_context_create(mesh_handle(mesh), config, self%handle)
    call conclude('context%create', status, ierr, text)
  end subroutine

  !! Destroys the context and its modules and nulls the handle; the modules' handles are dead. Collective.
  subroutine destroy(self, ierr)
    class(ostraka_fsdp_context_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('context%destroy', c_fsdp_context_destroy(self%handle), ierr)
  end subroutine

  !! Adds a module to a context that is not finalised. Names are distinct. Local. Overwrites the module's handle.
  subroutine add_module(self, name, new_module, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    character(*), intent(in) :: name
    class(ostraka_fsdp_module_t), intent(out) :: new_module
    integer(int32), intent(out), optional :: ierr

    call conclude('context%add_module', &
      c_fsdp_context_add_module(self%handle, to_c_string(name), new_module%handle), ierr)
  end subroutine

  !! Completes set-up: all ranks built the same modules, replicated weights are compared or copied. Collective.
  subroutine context_finalize(self, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('context%finalize', c_fsdp_context_finalize(self%handle), ierr)
  end subroutine

  !! Waits for all reductions. When a rank failed, all ranks get its status and text and gradients are dropped.
  !! Collective.
  subroutine finish_backward(self, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('context%finish_backward', c_fsdp_context_finish_backward(self%handle), ierr)
  end subroutine

  !! This rank cannot go on with the present step: it skips its hooks and calls finish_backward. Local.
  subroutine fail_step(self, message, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    character(*), intent(in) :: message
    integer(int32), intent(out), optional :: ierr

    call conclude('context%fail_step', c_fsdp_context_fail_step(self%handle, to_c_string(message)), ierr)
  end subroutine

  !! .false.: more micro-batches follow; .true. (default): the next backward pass is the last of the step. Local.
  subroutine set_last_microbatch(self, is_last, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    logical, intent(in) :: is_last
    integer(int32), intent(out), optional :: ierr

    call conclude('context%set_last_microbatch', &
      c_fsdp_context_set_last_microbatch(self%handle, merge(1_int32, 0_int32, is_last)), ierr)
  end subroutine

  !! Forgets all gradients; the optimizer's step does not. Local.
  subroutine zero_grad(self, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('context%zero_grad', c_fsdp_context_zero_grad(self%handle), ierr)
  end subroutine

  !! From here to end_inference weights are whole on every rank and hooks are local. Collective.
  subroutine begin_inference(self, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('context%begin_inference', c_fsdp_context_begin_inference(self%handle), ierr)
  end subroutine

  !! Back to shards. Collective.
  subroutine end_inference(self, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('context%end_inference', c_fsdp_context_end_inference(self%handle), ierr)
  end subroutine

  !! Bytes on this rank. Local.
  subroutine memory(self, report, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    type(ostraka_memory_report_t), intent(out) :: report
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status

    status = c_memory_report_init_versioned(report, int(c_sizeof(report), int64), OSTRAKA_MEMORY_REPORT_VERSION)
    if (status == OSTRAKA_OK) status = c_fsdp_context_memory(self%handle, report)
    call conclude('context%memory', status, ierr)
  end subroutine

  !! Bytes on this rank's node: the sums over its ranks; num_elements stays that of the model. Collective.
  subroutine node_memory(self, report, ierr)
    class(ostraka_fsdp_context_t), intent(in) :: self
    type(ostraka_memory_report_t), intent(out) :: report
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status

    status = c_memory_report_init_versioned(report, int(c_sizeof(report), int64), OSTRAKA_MEMORY_REPORT_VERSION)
    if (status == OSTRAKA_OK) status = c_fsdp_context_node_memory(self%handle, report)
    call conclude('context%node_memory', status, ierr)
  end subroutine

  !! Types of this module's parameters; one that is absent is as the context says. Before build, the same on all ranks.
  !! Local.
  subroutine set_precision(self, main_dtype, compute_dtype, reduction_dtype, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(in), optional :: main_dtype, compute_dtype, reduction_dtype
    integer(int32), intent(out), optional :: ierr

    call conclude('module%set_precision', c_fsdp_module_set_precision(self%handle, given(main_dtype, -1_int32), &
      given(compute_dtype, -1_int32), given(reduction_dtype, -1_int32)), ierr)
  end subroutine

  !! Lays out and allocates the module's parameters (zero). Collective over the mesh. OSTRAKA_OUT_OF_MEMORY on all ranks
  !! when one has too little; then the module has no parameters: add smaller ones and build again.
  subroutine build(self, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('module%build', c_fsdp_module_build(self%handle), ierr)
  end subroutine

  !! The module is about to run: its weights are whole on return. Collective, as are the other hooks.
  subroutine pre_forward(self, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('module%pre_forward', c_fsdp_module_pre_forward(self%handle), ierr)
  end subroutine

  !! The module has run: pointers to its weights are dead.
  subroutine post_forward(self, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('module%post_forward', c_fsdp_module_post_forward(self%handle), ierr)
  end subroutine

  !! The module's backward pass is about to run: weights whole, gradients ready to be written.
  subroutine pre_backward(self, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('module%pre_backward', c_fsdp_module_pre_backward(self%handle), ierr)
  end subroutine

  !! The gradients are written: their reduction starts, pointers to weights and gradients are dead.
  subroutine post_backward(self, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('module%post_backward', c_fsdp_module_post_backward(self%handle), ierr)
  end subroutine

  !! Gathers the weights now and keeps them until reshard; meanwhile gradients may be written, too. `ahead`: what is
  !! gathered besides, OSTRAKA_AHEAD_NONE (default), OSTRAKA_AHEAD_FORWARD or OSTRAKA_AHEAD_BACKWARD. Collective.
  subroutine unshard(self, ahead, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(in), optional :: ahead
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: status

    if (present(ahead)) then
      status = c_fsdp_module_unshard_ahead(self%handle, ahead)
    else
      status = c_fsdp_module_unshard(self%handle)
    end if
    call conclude('module%unshard', status, ierr)
  end subroutine

  !! Ends unshard: pointers to the weights are dead. Collective.
  subroutine reshard(self, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('module%reshard', c_fsdp_module_reshard(self%handle), ierr)
  end subroutine

  !! The extents of a parameter in Fortran order; none for a scalar. Local.
  subroutine parameter_shape(self, name, extents, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), allocatable, intent(out) :: extents(:)
    integer(int32), intent(out), optional :: ierr
    type(ostraka_shape_t) :: shape
    integer(int32) :: status

    call find_shape(self, name, shape, status)
    allocate(extents(shape%ndim), source=shape%extents(:shape%ndim))
    call conclude('module%parameter_shape', status, ierr)
  end subroutine

  subroutine add_parameter_int64(self, name, extents, dtype, trainable, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int64), intent(in) :: extents(:)
    integer(int32), intent(in), optional :: dtype
    logical, intent(in), optional :: trainable
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: c_extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)

    call to_c_shapes([ostraka_shape(extents)], c_extents, c_shapes)
    call conclude('module%add_parameter', c_fsdp_module_add_parameter(self%handle, to_c_string(name), &
      c_shapes(1), given(dtype, OSTRAKA_F64), as_int(trainable, 1_int32)), ierr)
  end subroutine

  subroutine add_parameter_int32(self, name, extents, dtype, trainable, ierr)
    class(ostraka_fsdp_module_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(in) :: extents(:)
    integer(int32), intent(in), optional :: dtype
    logical, intent(in), optional :: trainable
    integer(int32), intent(out), optional :: ierr

    call self%add_parameter(name, int(extents, int64), dtype, trainable, ierr)
  end subroutine

  !! The C handle, for the other modules of this library.
  pure type(c_ptr) function context_handle(context)
    class(ostraka_fsdp_context_t), intent(in) :: context

    context_handle = context%handle
  end function
end module

! SPDX-License-Identifier: Apache-2.0
!! Internal: dry runs. Use the module `ostraka`.
module ostraka_plan
  use, intrinsic :: iso_c_binding, only: c_char, c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use ostraka_arrays, only: ostraka_shape, to_c_shapes
  use ostraka_c_fsdp, only: c_memory_report_init_versioned
  use ostraka_c_plan
  use ostraka_fsdp_config, only: make_fsdp_config
  use ostraka_support, only: as_int, conclude, decimal, from_c_string, given, to_c_axis, to_c_index, to_c_string, &
    to_c_strings
  use ostraka_types
  implicit none
  private
  public :: ostraka_plan_t, ostraka_cheapest_plan

  integer(int64), parameter :: anything = -1  ! bytes that a rank or a node may hold

  !! What a context would hold, send and take for a step, asked before anything is allocated. Local, needs neither MPI nor
  !! ostraka_initialize. Units and axes count from 1, ranks and nodes from 0. What is added counts from the next compute
  !! on. Assignment copies the handle, not the plan.
  type :: ostraka_plan_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create
    procedure, public :: destroy
    procedure, public :: add_unit
    procedure, private :: add_parameter_int32, add_parameter_int64
    !! Declares a parameter of each module of `unit` (from 1), as module%add_parameter does: `extents` in Fortran order,
    !! `dtype` OSTRAKA_F64 by default, `trainable` .true. by default.
    generic, public :: add_parameter => add_parameter_int32, add_parameter_int64
    procedure, public :: set_precision
    procedure, private :: set_prefetch_int32, set_prefetch_int64
    !! How many elements of weights are gathered ahead where modules of `unit` start, as module%set_prefetch.
    generic, public :: set_prefetch => set_prefetch_int32, set_prefetch_int64
    procedure, public :: set_gradient_divisor
    procedure, public :: set_times
    procedure, public :: set_link
    procedure, public :: set_nodes
    procedure, public :: compute
    procedure, public :: memory
    procedure, public :: node_memory
    procedure, public :: bytes
    procedure, public :: node_bytes
    procedure, public :: traffic
    procedure, public :: carrier
    procedure, public :: summary
    procedure, public :: fits
    procedure, public :: compare
    procedure, public :: largest
  end type

contains

  !! Creates a plan for a mesh of these axis sizes, which need not exist. Overwrites the handle. `names`: one per axis. The
  !! arguments of context%create, from `recipe` to `gradient_slot_bytes`, mean the same here. Defaults of the others:
  !! `backend` OSTRAKA_BACKEND_NODE; `ranks_per_node` 0: all ranks on one node; `micro_batches` of a step 1; `optimizer`
  !! OSTRAKA_UPDATE_ADAMW; `fuse_with_reduction` .false.; `rank` that is reported: the one that holds most; `cache_bytes`
  !! of a node, -1: those of this machine. For seconds: `latency` and `bandwidth` (bytes a second) of the network, then of
  !! ranks that share memory; the bytes a second of a rank's own memory; `overlap`, the share of gathers and
  !! reductions beside the arithmetic: 1 for NCCL, else 0.
  subroutine create(self, sizes, names, recipe, reduction, gradient_slots, broadcast, main_dtype, compute_dtype, &
    reduction_dtype, parameter_placements, gradient_placements, optimizer_placements, prefetch, unified_stream, &
    gradient_slot_bytes, backend, ranks_per_node, micro_batches, optimizer, fuse_with_reduction, rank, cache_bytes, &
    network_latency_s, network_bandwidth, node_latency_s, node_bandwidth, memory_bandwidth, overlap, ierr)
    class(ostraka_plan_t), intent(out) :: self
    integer(int32), intent(in) :: sizes(:)
    character(*), intent(in), optional :: names(:)
    integer(int32), intent(in), optional :: recipe, reduction, gradient_slots
    logical, intent(in), optional :: broadcast
    integer(int32), intent(in), optional :: main_dtype, compute_dtype, reduction_dtype
    type(ostraka_placement_t), intent(in), optional, target, contiguous :: parameter_placements(:), &
      gradient_placements(:), optimizer_placements(:)
    integer(int64), intent(in), optional :: prefetch, gradient_slot_bytes
    logical, intent(in), optional :: unified_stream
    integer(int32), intent(in), optional :: backend, ranks_per_node, micro_batches, optimizer, rank
    logical, intent(in), optional :: fuse_with_reduction
    integer(int64), intent(in), optional :: cache_bytes
    real(real64), intent(in), optional :: network_latency_s, network_bandwidth, node_latency_s, node_bandwidth, &
      memory_bandwidth, overlap
    integer(int32), intent(out), optional :: ierr
    character(kind=c_char), allocatable, target :: c_names(:,:)
    type(c_ptr), allocatable :: name_addresses(:)
    type(c_fsdp_config_t) :: context
    type(c_plan_config_t) :: config
    integer(int32) :: dims, status
    character(:), allocatable :: text

    dims = size(sizes, kind=int32)
    if (present(names)) then
      if (size(names) /= dims) then
        call conclude('plan%create', OSTRAKA_INVALID_ARGUMENT, ierr, decimal(size(names, kind=int64)) // &
          ' names for ' // decimal(int(dims, int64)) // ' axes')
        return
      end if
      call to_c_strings(names, c_names, name_addresses)
    end if
    status = c_plan_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_PLAN_CONFIG_VERSION)
    call make_fsdp_config(context, dims, status, text, recipe, reduction, gradient_slots, broadcast, main_dtype, &
      compute_dtype, reduction_dtype, parameter_placements, gradient_placements, optimizer_placements, prefetch, &
      unified_stream, gradient_slot_bytes)
    if (status == OSTRAKA_OK) then
      if (present(backend)) config%backend = backend
      if (present(ranks_per_node)) config%ranks_per_node = ranks_per_node
      if (present(micro_batches)) config%micro_batches = micro_batches
      if (present(optimizer)) config%optimizer = optimizer
      config%fuse_with_reduction = as_int(fuse_with_reduction, config%fuse_with_reduction)
      if (present(rank)) config%rank = rank
      if (present(cache_bytes)) config%cache_bytes = cache_bytes
      if (present(network_latency_s)) config%network_latency_s = network_latency_s
      if (present(network_bandwidth)) config%network_bandwidth = network_bandwidth
      if (present(node_latency_s)) config%node_latency_s = node_latency_s
      if (present(node_bandwidth)) config%node_bandwidth = node_bandwidth
      if (present(memory_bandwidth)) config%memory_bandwidth = memory_bandwidth
      if (present(overlap)) config%overlap = overlap
      status = c_plan_create(dims, sizes, name_addresses, context, config, self%handle)
    end if
    call conclude('plan%create', status, ierr, text)
  end subroutine

  !! Destroys the plan and nulls the handle. Local.
  subroutine destroy(self, ierr)
    class(ostraka_plan_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%destroy', c_plan_destroy(self%handle), ierr)
  end subroutine

  !! Adds `count` (default 1) equal modules, one behind the other, inside the one module of unit `parent` or outermost.
  !! `unit` receives its number, from 1.
  subroutine add_unit(self, name, unit, count, parent, ierr)
    class(ostraka_plan_t), intent(in) :: self
    character(*), intent(in) :: name
    integer(int32), intent(out) :: unit
    integer(int32), intent(in), optional :: count, parent
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: around, status

    around = -1
    unit = -1
    status = OSTRAKA_OK
    if (present(parent)) then
      around = to_c_index(parent)
      if (around < 0) status = OSTRAKA_INVALID_ARGUMENT  ! -1 is none in C
    end if
    if (status /= OSTRAKA_OK) then
      call conclude('plan%add_unit', status, ierr, 'expected a parent >= 1, found ' // decimal(int(parent, int64)))
      return
    end if
    status = c_plan_add_unit(self%handle, to_c_string(name), given(count, 1_int32), around, unit)
    unit = unit + 1
    call conclude('plan%add_unit', status, ierr)
  end subroutine

  subroutine add_parameter_int64(self, unit, name, extents, dtype, trainable, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    character(*), intent(in) :: name
    integer(int64), intent(in) :: extents(:)
    integer(int32), intent(in), optional :: dtype
    logical, intent(in), optional :: trainable
    integer(int32), intent(out), optional :: ierr
    integer(int64), allocatable, target :: c_extents(:,:)
    type(c_shape_t), allocatable :: c_shapes(:)

    call to_c_shapes([ostraka_shape(extents)], c_extents, c_shapes)
    call conclude('plan%add_parameter', c_plan_add_parameter(self%handle, to_c_index(unit), to_c_string(name), &
      c_shapes(1), given(dtype, OSTRAKA_F64), as_int(trainable, 1_int32)), ierr)
  end subroutine

  subroutine add_parameter_int32(self, unit, name, extents, dtype, trainable, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    character(*), intent(in) :: name
    integer(int32), intent(in) :: extents(:)
    integer(int32), intent(in), optional :: dtype
    logical, intent(in), optional :: trainable
    integer(int32), intent(out), optional :: ierr

    call self%add_parameter(unit, name, int(extents, int64), dtype, trainable, ierr)
  end subroutine

  !! Types of the parameters of `unit`; one that is absent is as the configuration says.
  subroutine set_precision(self, unit, main_dtype, compute_dtype, reduction_dtype, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    integer(int32), intent(in), optional :: main_dtype, compute_dtype, reduction_dtype
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%set_precision', c_plan_set_precision(self%handle, to_c_index(unit), given(main_dtype, -1_int32), &
      given(compute_dtype, -1_int32), given(reduction_dtype, -1_int32)), ierr)
  end subroutine

  subroutine set_prefetch_int64(self, unit, elements, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    integer(int64), intent(in) :: elements
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%set_prefetch', c_plan_set_prefetch(self%handle, to_c_index(unit), elements), ierr)
  end subroutine

  subroutine set_prefetch_int32(self, unit, elements, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    integer(int32), intent(in) :: elements
    integer(int32), intent(out), optional :: ierr

    call self%set_prefetch(unit, int(elements, int64), ierr)
  end subroutine

  !! Each contribution to gradients of `unit` is divided by `divisor` > 0, as module%set_gradient_divisor.
  subroutine set_gradient_divisor(self, unit, divisor, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    real(real64), intent(in) :: divisor
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%set_gradient_divisor', c_plan_set_gradient_divisor(self%handle, to_c_index(unit), divisor), ierr)
  end subroutine

  !! Seconds of arithmetic of one module of `unit` in a micro-batch, without modules inside it; default 0.
  subroutine set_times(self, unit, forward_s, backward_s, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    real(real64), intent(in) :: forward_s, backward_s
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%set_times', c_plan_set_times(self%handle, to_c_index(unit), forward_s, backward_s), ierr)
  end subroutine

  !! Latency and bandwidth (bytes a second) of an axis (from 1) instead of the network's.
  subroutine set_link(self, axis, latency_s, bandwidth, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: axis
    real(real64), intent(in) :: latency_s, bandwidth
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%set_link', c_plan_set_link(self%handle, to_c_axis(axis), latency_s, bandwidth), ierr)
  end subroutine

  !! Which node (from 0) each rank is on, instead of `ranks_per_node`: one number for every rank of the mesh.
  subroutine set_nodes(self, nodes, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: nodes(:)
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%set_nodes', c_plan_set_nodes(self%handle, size(nodes, kind=int32), nodes), ierr)
  end subroutine

  !! Carries the plan out. The errors that calls of a context would end in name unit, parameter or setting.
  subroutine compute(self, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('plan%compute', c_plan_compute(self%handle), ierr)
  end subroutine

  include 'ostraka_plan_answers.inc'

  !! Whether the peaks of rank and node stay within these bytes; absent: any amount.
  subroutine fits(self, answer, rank_bytes, node_bytes, ierr)
    class(ostraka_plan_t), intent(in) :: self
    logical, intent(out) :: answer
    integer(int64), intent(in), optional :: rank_bytes, node_bytes
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: found, status

    found = 0
    status = c_plan_fits(self%handle, given(rank_bytes, anything), given(node_bytes, anything), found)
    answer = found /= 0
    call conclude('plan%fits', status, ierr)
  end subroutine

  !! The plan with each of `recipes` instead of its own recipe or placements: computed plans of their own. That of a
  !! recipe that needs more axes answers with that error.
  subroutine compare(self, recipes, plans, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: recipes(:)
    type(ostraka_plan_t), allocatable, intent(out) :: plans(:)
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: handles(size(recipes))
    integer(int32) :: status

    handles = c_null_ptr
    status = c_plan_compare(self%handle, size(recipes, kind=int32), recipes, handles)
    allocate(plans(size(recipes)))
    plans%handle = handles
    call conclude('plan%compare', status, ierr)
  end subroutine

  !! Which of these computed plans (from 1) stays within the bytes of a rank and a node, and takes least time for a step;
  !! 0: none does.
  subroutine ostraka_cheapest_plan(plans, index, rank_bytes, node_bytes, ierr)
    type(ostraka_plan_t), intent(in) :: plans(:)
    integer(int32), intent(out) :: index
    integer(int64), intent(in), optional :: rank_bytes, node_bytes
    integer(int32), intent(out), optional :: ierr
    type(c_ptr) :: handles(size(plans))
    integer(int32) :: status

    index = -1
    handles = plans%handle
    status = c_plan_cheapest(size(plans, kind=int32), handles, given(rank_bytes, anything), given(node_bytes, anything), index)
    index = index + 1
    call conclude('ostraka_cheapest_plan', status, ierr)
  end subroutine

  !! The largest number of modules of `unit` (from 1) that stays within the bytes of a rank and a node, those of other
  !! units unchanged; 0: not even one. One of the two is needed.
  subroutine largest(self, unit, count, rank_bytes, node_bytes, ierr)
    class(ostraka_plan_t), intent(in) :: self
    integer(int32), intent(in) :: unit
    integer(int32), intent(out) :: count
    integer(int64), intent(in), optional :: rank_bytes, node_bytes
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('plan%largest', &
      c_plan_largest(self%handle, to_c_index(unit), given(rank_bytes, anything), given(node_bytes, anything), count), ierr)
  end subroutine
end module

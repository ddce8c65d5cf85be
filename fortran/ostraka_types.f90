! SPDX-License-Identifier: Apache-2.0
!! Internal: the numbers and structs of the C headers (status.h, types.h, fsdp.h, ddp.h, optim.h, checkpoint.h). Use the module
!! `ostraka`.
module ostraka_types
  use, intrinsic :: iso_c_binding, only: c_double, c_int32_t, c_int64_t, c_null_ptr, c_ptr
  use, intrinsic :: iso_fortran_env, only: int32
  implicit none
  public
  private :: c_double, c_int32_t, c_int64_t, c_null_ptr, c_ptr, int32

  !! Status numbers, see `ostraka_status_meaning`.
  integer(int32), parameter :: OSTRAKA_OK = 0
  integer(int32), parameter :: OSTRAKA_INVALID_ARGUMENT = 10
  integer(int32), parameter :: OSTRAKA_INVALID_STATE = 11
  integer(int32), parameter :: OSTRAKA_INVALID_HANDLE = 12
  integer(int32), parameter :: OSTRAKA_SHAPE_MISMATCH = 13
  integer(int32), parameter :: OSTRAKA_TYPE_MISMATCH = 14
  integer(int32), parameter :: OSTRAKA_NOT_SUPPORTED = 20
  integer(int32), parameter :: OSTRAKA_OUT_OF_MEMORY = 30
  integer(int32), parameter :: OSTRAKA_INPUT_OUTPUT = 40
  integer(int32), parameter :: OSTRAKA_COMMUNICATION = 50
  integer(int32), parameter :: OSTRAKA_RANKS_DISAGREE = 51
  integer(int32), parameter :: OSTRAKA_TIME_OUT = 52
  integer(int32), parameter :: OSTRAKA_USER_FAILURE = 53
  integer(int32), parameter :: OSTRAKA_FAILED = 60
  integer(int32), parameter :: OSTRAKA_INTERNAL = 90

  !! Element types. Raw access to BF16 and F16 is integer(int16), to U8 integer(int8).
  integer(int32), parameter :: OSTRAKA_F64 = 0
  integer(int32), parameter :: OSTRAKA_F32 = 1
  integer(int32), parameter :: OSTRAKA_BF16 = 2
  integer(int32), parameter :: OSTRAKA_F16 = 3
  integer(int32), parameter :: OSTRAKA_I64 = 4
  integer(int32), parameter :: OSTRAKA_I32 = 5
  integer(int32), parameter :: OSTRAKA_U8 = 6

  !! Kinds of a placement (C: OSTRAKA_REPLICATE ...; Fortran ignores case, and ostraka_replicate() is a function here).
  integer(int32), parameter :: OSTRAKA_KIND_REPLICATE = 0
  integer(int32), parameter :: OSTRAKA_KIND_SHARD = 1
  integer(int32), parameter :: OSTRAKA_KIND_PARTIAL = 2

  !! Reductions.
  integer(int32), parameter :: OSTRAKA_SUM = 0
  integer(int32), parameter :: OSTRAKA_MEAN = 1
  integer(int32), parameter :: OSTRAKA_MAX = 2
  integer(int32), parameter :: OSTRAKA_MIN = 3
  integer(int32), parameter :: OSTRAKA_PROD = 4

  !! Layout policies.
  integer(int32), parameter :: OSTRAKA_REFERENCE = 0
  integer(int32), parameter :: OSTRAKA_PLANNED = 1
  integer(int32), parameter :: OSTRAKA_RAGGED = 2
  integer(int32), parameter :: OSTRAKA_FLAT = 3
  integer(int32), parameter :: OSTRAKA_TENSOR_ATOMIC = 4
  integer(int32), parameter :: OSTRAKA_AUTOMATIC = 5

  !! Kinds of atoms. A row is a slice of the last index, the last dimensions of C are Fortran's first.
  integer(int32), parameter :: OSTRAKA_ATOM_ELEMENT = 0
  integer(int32), parameter :: OSTRAKA_ATOM_LAST_DIMS = 1
  integer(int32), parameter :: OSTRAKA_ATOM_ROW = 2
  integer(int32), parameter :: OSTRAKA_ATOM_BLOCK = 3
  integer(int32), parameter :: OSTRAKA_ATOM_TENSOR = 4

  !! What unshard gathers ahead: nothing, or what is behind the module in the order of a pass.
  integer(int32), parameter :: OSTRAKA_AHEAD_NONE = 0
  integer(int32), parameter :: OSTRAKA_AHEAD_FORWARD = 1
  integer(int32), parameter :: OSTRAKA_AHEAD_BACKWARD = 2

  !! Recipes of fully sharded data parallelism.
  integer(int32), parameter :: OSTRAKA_NO_SHARD = 0
  integer(int32), parameter :: OSTRAKA_ZERO_1 = 1
  integer(int32), parameter :: OSTRAKA_ZERO_2 = 2
  integer(int32), parameter :: OSTRAKA_ZERO_3 = 3
  !! On meshes of two or more axes, whose innermost axis shards.
  integer(int32), parameter :: OSTRAKA_HSDP = 4
  integer(int32), parameter :: OSTRAKA_HFSDP = 5
  integer(int32), parameter :: OSTRAKA_ZERO_1_ZERO_2 = 6

  !! What a gradient that a ddp reduced is: the sum over the ranks divided by their number, the sum of what was divided
  !! by it before, or the sum.
  integer(int32), parameter :: OSTRAKA_SCALING_MEAN = 0
  integer(int32), parameter :: OSTRAKA_SCALING_PRE_SCALE = 1
  integer(int32), parameter :: OSTRAKA_SCALING_SUM = 2

  !! How a ddp arranges parameters: one behind the other, or every one whole in one shard.
  integer(int32), parameter :: OSTRAKA_ARRANGEMENT_PACKED = 0
  integer(int32), parameter :: OSTRAKA_ARRANGEMENT_LAYER_WISE = 1

  !! Flags of a parameter of a ddp.
  integer(int32), parameter :: OSTRAKA_DDP_FROZEN = 1
  integer(int32), parameter :: OSTRAKA_DDP_EXPERT = 2
  integer(int32), parameter :: OSTRAKA_DDP_SHARED_EMBEDDING = 4

  !! A ddp counts contributions in one backward pass and expects as many in those that follow.
  integer(int32), parameter :: OSTRAKA_USES_AUTO = -1

  !! What carries collectives: MPI, memory that the ranks of a node share (and MPI between nodes), NCCL between GPUs.
  integer(int32), parameter :: OSTRAKA_BACKEND_MPI = 0
  integer(int32), parameter :: OSTRAKA_BACKEND_NODE = 1
  integer(int32), parameter :: OSTRAKA_BACKEND_NCCL = 2

  !! What a plan's weights are updated by.
  integer(int32), parameter :: OSTRAKA_UPDATE_NONE = 0
  integer(int32), parameter :: OSTRAKA_UPDATE_SGD = 1
  integer(int32), parameter :: OSTRAKA_UPDATE_SGD_MOMENTUM = 2
  integer(int32), parameter :: OSTRAKA_UPDATE_ADAMW = 3

  !! Norms of gradients: sum |g|, sqrt(sum g**2), max |g|.
  integer(int32), parameter :: OSTRAKA_NORM_L1 = 1
  integer(int32), parameter :: OSTRAKA_NORM_L2 = 2
  integer(int32), parameter :: OSTRAKA_NORM_MAX = 3

  !! Kinds of memory; a context reports its own in an ostraka_memory_report_t.
  integer(int32), parameter :: OSTRAKA_MEMORY_OTHER = 0
  integer(int32), parameter :: OSTRAKA_MEMORY_PARAMETERS = 1
  integer(int32), parameter :: OSTRAKA_MEMORY_GRADIENTS = 2
  integer(int32), parameter :: OSTRAKA_MEMORY_OPTIMIZER_STATE = 3
  integer(int32), parameter :: OSTRAKA_MEMORY_TRANSIENT = 4

  !! Where memory lies.
  integer(int32), parameter :: OSTRAKA_DEVICE_HOST = 0
  integer(int32), parameter :: OSTRAKA_DEVICE_CUDA = 1

  !! Versions of the structs below.
  integer(int32), parameter :: OSTRAKA_FSDP_CONFIG_VERSION = 4
  integer(int32), parameter :: OSTRAKA_DDP_CONFIG_VERSION = 1
  integer(int32), parameter :: OSTRAKA_MEMORY_REPORT_VERSION = 2
  integer(int32), parameter :: OSTRAKA_ADAMW_CONFIG_VERSION = 1
  integer(int32), parameter :: OSTRAKA_SGD_CONFIG_VERSION = 1
  integer(int32), parameter :: OSTRAKA_GROUP_OPTIONS_VERSION = 1
  integer(int32), parameter :: OSTRAKA_SAVE_OPTIONS_VERSION = 1
  integer(int32), parameter :: OSTRAKA_LOAD_OPTIONS_VERSION = 1
  integer(int32), parameter :: OSTRAKA_PLAN_CONFIG_VERSION = 1
  integer(int32), parameter :: OSTRAKA_PLAN_BYTES_VERSION = 1
  integer(int32), parameter :: OSTRAKA_PLAN_TRAFFIC_VERSION = 1
  integer(int32), parameter :: OSTRAKA_PLAN_SUMMARY_VERSION = 1

  !! C hands out shapes of at most this many dimensions.
  integer, parameter :: MAX_DIMS = 8

  !! One placement on one mesh axis, made by ostraka_replicate(), ostraka_shard() or ostraka_partial(op).
  type, bind(c) :: ostraka_placement_t
    integer(c_int32_t) :: kind = OSTRAKA_KIND_REPLICATE
    integer(c_int32_t) :: op = OSTRAKA_SUM
  end type

  !! What no cut of a tensor may split: ostraka_atom_t(OSTRAKA_ATOM_ROW), ostraka_atom_t(OSTRAKA_ATOM_BLOCK, 16).
  type, bind(c) :: ostraka_atom_t
    integer(c_int32_t) :: kind = OSTRAKA_ATOM_ELEMENT
    integer(c_int32_t) :: count = 1
  end type

  !! A shape as C sees it: extents in C order.
  type, bind(c) :: c_shape_t
    integer(c_int32_t) :: ndim = 0
    type(c_ptr) :: extents = c_null_ptr
  end type

  type, bind(c) :: c_fsdp_config_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: recipe
    integer(c_int32_t) :: reduction
    integer(c_int32_t) :: gradient_slots
    integer(c_int32_t) :: broadcast
    integer(c_int32_t) :: main_dtype
    integer(c_int32_t) :: compute_dtype
    integer(c_int32_t) :: reserved
    type(c_ptr) :: parameter_placements
    type(c_ptr) :: gradient_placements
    type(c_ptr) :: optimizer_placements
    integer(c_int32_t) :: reduction_dtype
    integer(c_int32_t) :: unified_stream
    integer(c_int64_t) :: prefetch
    integer(c_int64_t) :: gradient_slot_bytes
  end type

  type, bind(c) :: c_ddp_config_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: scaling
    integer(c_int64_t) :: bucket_size
    integer(c_int32_t) :: num_buckets
    integer(c_int32_t) :: disable_bucketing
    integer(c_int32_t) :: sharded_optimizer
    integer(c_int32_t) :: pad_for_bandwidth
    integer(c_int32_t) :: arrangement
    integer(c_int32_t) :: overlap_grad_reduce
    integer(c_int32_t) :: overlap_param_gather
    integer(c_int32_t) :: uses
    integer(c_int32_t) :: main_dtype
    integer(c_int32_t) :: gradient_dtype
    integer(c_int32_t) :: num_f32_accumulators
    integer(c_int32_t) :: reserved
    type(c_ptr) :: f32_accumulators
  end type

  !! Bytes on this rank: weights at rest, main gradients, moments, gathered weights and gradient slots now and at most;
  !! num_elements: elements of the whole model over all ranks, without padding; reserved_bytes: taken from the system for
  !! all of this. Of memory that the ranks of a node share a rank counts its own part.
  type, bind(c) :: ostraka_memory_report_t
    integer(c_int64_t) :: struct_size = 0
    integer(c_int32_t) :: version = 0
    integer(c_int32_t) :: reserved = 0
    integer(c_int64_t) :: parameters = 0
    integer(c_int64_t) :: gradients = 0
    integer(c_int64_t) :: optimizer_state = 0
    integer(c_int64_t) :: transient = 0
    integer(c_int64_t) :: transient_peak = 0
    integer(c_int64_t) :: num_elements = 0
    integer(c_int64_t) :: reserved_bytes = 0
  end type

  type, bind(c) :: c_adamw_config_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: reserved
    real(c_double) :: learning_rate
    real(c_double) :: beta1
    real(c_double) :: beta2
    real(c_double) :: epsilon
    real(c_double) :: weight_decay
  end type

  type, bind(c) :: c_sgd_config_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: reserved
    real(c_double) :: learning_rate
    real(c_double) :: momentum
    real(c_double) :: weight_decay
  end type

  type, bind(c) :: c_group_options_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: max_dims
    real(c_double) :: learning_rate_factor
    real(c_double) :: weight_decay
  end type

  type, bind(c) :: c_save_options_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: sync
  end type

  type, bind(c) :: c_load_options_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: strict
    integer(c_int32_t) :: state
    integer(c_int32_t) :: verify
    integer(c_int32_t) :: num_patterns
    integer(c_int32_t) :: reserved
    type(c_ptr) :: patterns
  end type

  type, bind(c) :: c_plan_config_t
    integer(c_int64_t) :: struct_size
    integer(c_int32_t) :: version
    integer(c_int32_t) :: backend
    integer(c_int32_t) :: ranks_per_node
    integer(c_int32_t) :: micro_batches
    integer(c_int32_t) :: optimizer
    integer(c_int32_t) :: fuse_with_reduction
    integer(c_int32_t) :: rank
    integer(c_int32_t) :: reserved
    integer(c_int64_t) :: cache_bytes
    real(c_double) :: network_latency_s
    real(c_double) :: network_bandwidth
    real(c_double) :: node_latency_s
    real(c_double) :: node_bandwidth
    real(c_double) :: memory_bandwidth
  end type

  !! Bytes of a plan by purpose, of a rank or of all ranks of a node; what ranks share counts once for a node, and in its
  !! own part for a rank. At rest: model weights, main weights of another type or place, main gradients, addends (reduced
  !! contributions on their way into main gradients), moments; at most: gradient slots, gathered weights, scratch, these
  !! together; of all this, in /dev/shm; sum at rest, and with the transient peak.
  type, bind(c) :: ostraka_plan_bytes_t
    integer(c_int64_t) :: struct_size = 0
    integer(c_int32_t) :: version = 0
    integer(c_int32_t) :: reserved = 0
    integer(c_int64_t) :: model_weights = 0
    integer(c_int64_t) :: main_weights = 0
    integer(c_int64_t) :: main_gradients = 0
    integer(c_int64_t) :: addends = 0
    integer(c_int64_t) :: moments = 0
    integer(c_int64_t) :: slots_peak = 0
    integer(c_int64_t) :: gathered_peak = 0
    integer(c_int64_t) :: scratch_peak = 0
    integer(c_int64_t) :: transient_peak = 0
    integer(c_int64_t) :: shared_memory = 0
    integer(c_int64_t) :: total = 0
    integer(c_int64_t) :: peak = 0
  end type

  !! Collectives of one axis in one step of a plan, of a rank; `size`: ranks of the axis. Bytes that leave and reach the
  !! rank (what ranks read in each other's memory does not), and of the wholes that were gathered or reduced.
  type, bind(c) :: ostraka_plan_traffic_t
    integer(c_int64_t) :: struct_size = 0
    integer(c_int32_t) :: version = 0
    integer(c_int32_t) :: size = 0
    integer(c_int64_t) :: allgathers = 0
    integer(c_int64_t) :: reduce_scatters = 0
    integer(c_int64_t) :: allreduces = 0
    integer(c_int64_t) :: agreements = 0
    integer(c_int64_t) :: sent = 0
    integer(c_int64_t) :: received = 0
    integer(c_int64_t) :: moved = 0
  end type

  !! Of a plan: recipe, the rank that is reported (from 0), its node and the ranks there; slots of the ring, bounds
  !! applied; elements of all parameters, and what layouts add; bytes of the rank at rest per parameter, and the same from
  !! types and numbers of parts alone; seconds of a step, of these in modules, and the rest that no arithmetic hides.
  type, bind(c) :: ostraka_plan_summary_t
    integer(c_int64_t) :: struct_size = 0
    integer(c_int32_t) :: version = 0
    integer(c_int32_t) :: recipe = 0
    integer(c_int32_t) :: rank = 0
    integer(c_int32_t) :: node = 0
    integer(c_int32_t) :: node_ranks = 0
    integer(c_int32_t) :: gradient_slots = 0
    integer(c_int64_t) :: num_elements = 0
    integer(c_int64_t) :: padding_elements = 0
    real(c_double) :: bytes_per_parameter = 0
    real(c_double) :: formula_bytes_per_parameter = 0
    real(c_double) :: step_s = 0
    real(c_double) :: arithmetic_s = 0
    real(c_double) :: exposed_s = 0
  end type
end module

/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs from C: which one, meshes of them, addresses, the caller's own stream. On the double of CUDA; elsewhere what
 * builds without CUDA refuse. A program of its own, since a GPU is chosen before the library starts.
 */
#include "check.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

static ostraka_mesh_t make_mesh_on(int32_t device) {
  ostraka_mesh_t mesh = NULL;
  int32_t found = -1;
  CHECK_OK(ostraka_mesh_create_on(MPI_COMM_WORLD, 1, NULL, NULL, device, &mesh));
  CHECK_OK(ostraka_mesh_device(mesh, &found));
  CHECK_INT(found, device);
  return mesh;
}

/* The same answer for all ranks, also where one rank alone is wrong. */
static void wrong_devices(void) {
  ostraka_mesh_t mesh = NULL;
  int32_t number = 0;
  CHECK_FAILS(ostraka_mesh_create_on(MPI_COMM_WORLD, 1, NULL, NULL, check_rank == check_ranks - 1 ? 7 : 0, &mesh),
              OSTRAKA_INVALID_ARGUMENT, "device 0 (host) or 1 (cuda), found 7");
  CHECK_FAILS(ostraka_mesh_create_on_f(MPI_Comm_c2f(MPI_COMM_WORLD), 1, NULL, NULL, -2, &mesh),
              OSTRAKA_INVALID_ARGUMENT, "found -2");
  CHECK(mesh == NULL);
  CHECK_FAILS(ostraka_has_device(2, &number), OSTRAKA_INVALID_ARGUMENT, "found 2");
  CHECK_FAILS(ostraka_has_device(0, NULL), OSTRAKA_INVALID_ARGUMENT, "'has' is null");
  CHECK_FAILS(ostraka_cuda_device(NULL), OSTRAKA_INVALID_ARGUMENT, "'index' is null");
  CHECK_FAILS(ostraka_native_compute_stream(NULL), OSTRAKA_INVALID_ARGUMENT, "'stream' is null");
  CHECK_FAILS(ostraka_is_device_memory(&number, NULL), OSTRAKA_INVALID_ARGUMENT, "'is_device' is null");
  CHECK_FAILS(ostraka_mesh_device(NULL, &number), OSTRAKA_INVALID_HANDLE, "mesh");
  CHECK_FAILS(ostraka_copy_now(5, &number, &number, 4), OSTRAKA_INVALID_ARGUMENT, "found 5");
  CHECK_FAILS(ostraka_copy_now(0, NULL, &number, 4), OSTRAKA_INVALID_ARGUMENT, "address is null");
  CHECK_FAILS(ostraka_copy_now(0, &number, &number, -1), OSTRAKA_INVALID_ARGUMENT, "found -1");
}

/* The host is a device, too. */
static void hosts(void) {
  const int64_t from[2] = {5, 7};
  int64_t to[2] = {0};
  int32_t has = -1;
  CHECK_OK(ostraka_has_device(OSTRAKA_DEVICE_HOST, &has));
  CHECK_INT(has, 1);
  CHECK_OK(ostraka_is_device_memory(from, &has));
  CHECK_INT(has, 0);
  CHECK_OK(ostraka_copy_now(OSTRAKA_DEVICE_HOST, from, to, sizeof from));
  CHECK(to[0] == 5 && to[1] == 7);
  ostraka_mesh_t mesh = make_mesh_on(OSTRAKA_DEVICE_HOST);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

/* Asked for everywhere, there with a recent NCCL, and otherwise as any other memory. */
static void symmetric_memory(int32_t device, int32_t expected) {
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0};
  const int64_t extent = 12;
  const ostraka_shape_t shape = {1, &extent};
  const double values[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  double found[12] = {0};
  int32_t is_symmetric = -1;
  void* address = NULL;
  int64_t count = 0, offset = 0;
  ostraka_mesh_t mesh = make_mesh_on(device);
  ostraka_layout_t layout = NULL;
  ostraka_buffer_t own = NULL, whole = NULL;
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &shape, 0, NULL, check_ranks, 1, 1, &layout));
  CHECK_OK(ostraka_buffer_create_symmetric(mesh, &shard, layout, OSTRAKA_F64, &own));
  CHECK_OK(ostraka_buffer_is_symmetric_memory(own, &is_symmetric));
  CHECK_INT(is_symmetric, expected);
  CHECK_OK(ostraka_buffer_rendezvous(own, 0));
  CHECK_OK(ostraka_buffer_copy_from(own, 0, values, 12));
  CHECK_OK(ostraka_buffer_allgather(own, 0, NULL, &whole));
  CHECK_OK(ostraka_buffer_tensor_range(whole, 0, &address, &count, &offset));
  CHECK_OK(ostraka_copy_now(device, address, found, sizeof found));
  CHECK(memcmp(found, values, sizeof found) == 0);
  CHECK_FAILS(ostraka_buffer_rendezvous(own, 1), OSTRAKA_INVALID_ARGUMENT, "found 1");
  CHECK_FAILS(ostraka_buffer_is_symmetric_memory(own, NULL), OSTRAKA_INVALID_ARGUMENT, "'is_symmetric' is null");
  CHECK_FAILS(ostraka_buffer_create_symmetric(mesh, &shard, layout, 99, &whole), OSTRAKA_INVALID_ARGUMENT, "99");
  CHECK_OK(ostraka_buffer_release_storage(own));
  CHECK_FAILS(ostraka_buffer_rendezvous(own, 0), OSTRAKA_INVALID_STATE, "released");
  CHECK_OK(ostraka_buffer_destroy(&own));
  CHECK_OK(ostraka_buffer_destroy(&whole));
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

#ifdef OSTRAKA_TEST_HAS_CUDA
#include <cuda_runtime_api.h>

enum { COUNT = 12 };

/* Before the library starts; each rank has a GPU of its own, whatever the environment says. */
static void choice(void) {
  int32_t number = -1;
  setenv("OSTRAKA_DEVICE", "cuda:15", 1);
  CHECK_OK(ostraka_has_device(OSTRAKA_DEVICE_CUDA, &number));
  CHECK_INT(number, 1);
  CHECK_OK(ostraka_cuda_device(&number));
  CHECK_INT(number, 15);
  CHECK_FAILS(ostraka_select_cuda_device(99), OSTRAKA_INVALID_ARGUMENT, "0 to 15");
  CHECK_OK(ostraka_select_cuda_device(check_rank + 4));
  CHECK_OK(ostraka_cuda_device(&number));
  CHECK_INT(number, check_rank + 4);
}

static void choice_in_use(void) {
  CHECK_FAILS(ostraka_select_cuda_device(9), OSTRAKA_INVALID_STATE, "in use");
  CHECK_OK(ostraka_select_cuda_device(check_rank + 4));
}

static void check_elements(const double* address, int64_t count, double first, double step) {
  double found[COUNT] = {0};
  int32_t is_device = 0;
  CHECK_OK(ostraka_is_device_memory(address, &is_device));
  CHECK_INT(is_device, count > 0);
  CHECK_OK(ostraka_copy_now(OSTRAKA_DEVICE_CUDA, address, found, count * (int64_t)sizeof(double)));
  for (int64_t k = 0; k < count; ++k)
    CHECK_NEAR(found[k], first + step * (double)k, 0);
}

/* Elements come from the host and go back; addresses are the GPU's. */
static void buffers(void) {
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0};
  const int64_t extent = COUNT;
  const ostraka_shape_t shape = {1, &extent};
  double values[COUNT];
  const void* const tensors[] = {values};
  for (int k = 0; k < COUNT; ++k)
    values[k] = 3 * k;
  ostraka_mesh_t mesh = make_mesh_on(OSTRAKA_DEVICE_CUDA);
  ostraka_buffer_t parts = NULL, whole = NULL;
  void *local = NULL, *address = NULL;
  int64_t count = 0, begin = 0;
  CHECK_OK(ostraka_buffer_distribute(mesh, &shard, NULL, 1, &shape, OSTRAKA_F64, tensors, &parts));
  CHECK_OK(ostraka_buffer_tensor_range(parts, 0, &local, &count, &begin));
  check_elements(local, count, 3 * (double)begin, 3);
  CHECK_OK(ostraka_buffer_allgather(parts, 0, NULL, &whole));
  CHECK_OK(ostraka_buffer_local(whole, &address, &count, &begin));
  CHECK(count >= COUNT && begin == 0);
  check_elements(address, COUNT, 0, 3);
  CHECK_OK(ostraka_buffer_destroy(&parts));
  CHECK_OK(ostraka_buffer_destroy(&whole));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

/* What the caller queues on a stream of his own comes before what he asks of buffers, and behind it. */
static void own_stream(void) {
  const ostraka_placement_t partial = {OSTRAKA_PARTIAL, OSTRAKA_SUM};
  const int64_t extent = COUNT;
  const ostraka_shape_t shape = {1, &extent};
  ostraka_mesh_t mesh = make_mesh_on(OSTRAKA_DEVICE_CUDA);
  ostraka_buffer_t own = NULL, sum = NULL;
  void *address = NULL, *result = NULL;
  int64_t count = 0, begin = 0;
  int64_t values[COUNT];
  cudaStream_t stream = NULL;
  void *library = NULL, *found = NULL;
  CHECK_INT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  CHECK_OK(ostraka_native_compute_stream(&library));
  CHECK(library != NULL && library != (void*)stream);
  CHECK_OK(ostraka_set_compute_stream(stream));
  CHECK_OK(ostraka_native_compute_stream(&found));
  CHECK(found == (void*)stream);
  CHECK_OK(ostraka_buffer_empty(mesh, &partial, 1, &shape, OSTRAKA_I64, &own));
  CHECK_OK(ostraka_buffer_tensor_range(own, 0, &address, &count, &begin));
  for (int repeat = 1; repeat <= 20; ++repeat) {
    if (repeat == 11) { /* goes on with the library's own */
      CHECK_OK(ostraka_set_compute_stream(NULL));
      CHECK_OK(ostraka_native_compute_stream(&found));
      CHECK(found != NULL && found != (void*)stream);
    }
    cudaMemsetAsync(address, repeat, COUNT * sizeof(int64_t), (cudaStream_t)found);
    CHECK_OK(ostraka_buffer_allreduce(own, 0, NULL, &sum));
    CHECK_OK(ostraka_buffer_tensor_range(sum, 0, &result, &count, &begin));
    CHECK_OK(ostraka_copy_now(OSTRAKA_DEVICE_CUDA, result, values, sizeof values));
    int64_t expected = 0;
    memset(&expected, repeat, sizeof expected);
    for (int k = 0; k < COUNT; ++k)
      CHECK_INT(values[k], expected * check_ranks);
    CHECK_OK(ostraka_buffer_destroy(&sum));
  }
  CHECK_OK(ostraka_buffer_allreduce(own, 0, NULL, &sum));
  CHECK_OK(ostraka_buffer_destroy(&sum));
  CHECK_OK(ostraka_buffer_destroy(&own));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
  CHECK_INT(cudaStreamDestroy(stream), cudaSuccess);
}

static void contribute(ostraka_ddp_t ddp, const char* name, cudaStream_t stream) {
  double values[COUNT];
  void* address = NULL;
  int64_t count = 0;
  double beta = -1;
  for (int k = 0; k < COUNT; ++k)
    values[k] = check_rank;
  CHECK_OK(ostraka_ddp_gradient(ddp, name, OSTRAKA_F64, &address, &count, &beta));
  CHECK_INT(count, COUNT);
  CHECK_NEAR(beta, 0, 0);
  if (check_rank == 0)
    cudaMemsetAsync(address, 0, sizeof values, stream); /* not waited for */
  else
    CHECK_OK(ostraka_copy_now(OSTRAKA_DEVICE_CUDA, values, address, sizeof values));
  CHECK_OK(ostraka_ddp_gradient_ready(ddp, name));
}

/* Whole weights and their gradients; what the caller queues on his stream comes before reductions. */
static void data_parallel(int32_t sharded) {
  static const char* const names[] = {"a.w", "b.w"};
  enum { STEPS = 3 };
  const double mean = (check_ranks - 1) / 2.0;
  const int64_t extent = COUNT;
  const ostraka_shape_t shape = {1, &extent};
  double values[COUNT];
  ostraka_mesh_t mesh = make_mesh_on(OSTRAKA_DEVICE_CUDA);
  ostraka_ddp_t ddp = NULL;
  ostraka_optimizer_t optimizer = NULL;
  ostraka_ddp_config_t config;
  ostraka_sgd_config_t sgd;
  cudaStream_t stream = NULL;
  CHECK_INT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  CHECK_OK(ostraka_set_compute_stream(stream));
  CHECK_OK(ostraka_ddp_config_init(&config));
  config.bucket_size = COUNT;
  config.sharded_optimizer = config.overlap_param_gather = sharded;
  CHECK_OK(ostraka_ddp_create(mesh, &config, NULL, &ddp));
  for (int p = 0; p < 2; ++p)
    CHECK_OK(ostraka_ddp_add_parameter(ddp, names[p], shape, OSTRAKA_F64, 0));
  CHECK_OK(ostraka_ddp_finalize(ddp));
  for (int k = 0; k < COUNT; ++k)
    values[k] = 2 * k;
  for (int p = 0; p < 2; ++p)
    CHECK_OK(ostraka_ddp_set_parameter(ddp, names[p], OSTRAKA_F64, values, COUNT));
  CHECK_OK(ostraka_sgd_config_init(&sgd));
  sgd.learning_rate = 0.5;
  CHECK_OK(ostraka_sgd_create_ddp(ddp, &sgd, &optimizer));
  for (int step = 0; step < STEPS; ++step) {
    CHECK_OK(ostraka_ddp_zero_grad_buffer(ddp));
    CHECK_OK(ostraka_ddp_pre_forward(ddp, "a"));
    contribute(ddp, "b.w", stream);
    contribute(ddp, "a.w", stream);
    CHECK_OK(ostraka_ddp_finish_grad_sync(ddp, 0));
    CHECK_OK(ostraka_optimizer_step(optimizer));
  }
  for (int p = 0; p < 2; ++p) {
    const void* gradient = NULL;
    void* weight = NULL;
    int64_t count = 0, offset = 0;
    CHECK_OK(ostraka_ddp_main_gradient(ddp, names[p], OSTRAKA_F64, &gradient, &count, &offset));
    check_elements(gradient, count, mean, 0);
    CHECK_OK(ostraka_ddp_parameter(ddp, names[p], OSTRAKA_F64, &weight, &count));
    check_elements(weight, count, -0.5 * STEPS * mean, 2);
  }
  CHECK_OK(ostraka_optimizer_destroy(&optimizer));
  CHECK_OK(ostraka_ddp_destroy(&ddp));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
  CHECK_OK(ostraka_set_compute_stream(NULL));
  CHECK_INT(cudaStreamDestroy(stream), cudaSuccess);
}

/* Ranks must want the same. */
static void different_devices(void) {
  ostraka_mesh_t mesh = NULL;
  if (check_ranks > 1)
    CHECK_FAILS(ostraka_mesh_create_on(MPI_COMM_WORLD, 1, NULL, NULL, check_rank == 0, &mesh), OSTRAKA_RANKS_DISAGREE,
                "the device");
}

static void gpus(void) {
  buffers();
  choice_in_use();
  own_stream();
  data_parallel(0);
  data_parallel(1);
  different_devices();
  setenv("OSTRAKA_DOUBLE_NCCL", "23007", 1);
  symmetric_memory(OSTRAKA_DEVICE_CUDA, 1);
  setenv("OSTRAKA_DOUBLE_NCCL", "22809", 1);
  symmetric_memory(OSTRAKA_DEVICE_CUDA, 0);
}
#else
static void choice(void) {}

/* Every way to a GPU says which build has it, and nothing changes. */
static void gpus(void) {
  int32_t number = -1;
  int64_t value = 0;
  void* stream = NULL;
  ostraka_mesh_t mesh = NULL;
  CHECK_OK(ostraka_has_device(OSTRAKA_DEVICE_CUDA, &number));
  CHECK_INT(number, 0);
  CHECK_FAILS(ostraka_cuda_device(&number), OSTRAKA_NOT_SUPPORTED, "preset cuda");
  CHECK_FAILS(ostraka_select_cuda_device(0), OSTRAKA_NOT_SUPPORTED, "preset cuda");
  CHECK_FAILS(ostraka_set_compute_stream(NULL), OSTRAKA_NOT_SUPPORTED, "preset cuda");
  CHECK_FAILS(ostraka_native_compute_stream(&stream), OSTRAKA_NOT_SUPPORTED, "preset cuda");
  CHECK(stream == NULL);
  CHECK_FAILS(ostraka_copy_now(OSTRAKA_DEVICE_CUDA, &value, &value, 8), OSTRAKA_NOT_SUPPORTED, "preset cuda");
  CHECK_FAILS(ostraka_mesh_create_on(MPI_COMM_WORLD, 1, NULL, NULL, OSTRAKA_DEVICE_CUDA, &mesh), OSTRAKA_NOT_SUPPORTED,
              "preset cuda");
  CHECK(mesh == NULL);
  CHECK_OK(ostraka_mesh_create_on(MPI_COMM_WORLD, 1, NULL, NULL, -1, &mesh));
  CHECK_OK(ostraka_mesh_device(mesh, &number));
  CHECK_INT(number, OSTRAKA_DEVICE_HOST);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
#endif

int main(int argc, char** argv) {
  check_start(&argc, &argv);
  choice();
  CHECK_OK(ostraka_initialize());
  wrong_devices();
  hosts();
  symmetric_memory(OSTRAKA_DEVICE_HOST, 0);
  gpus();
  CHECK_OK(ostraka_finalize());
  return check_finish();
}

/* SPDX-License-Identifier: Apache-2.0
 *
 * Learns to read handwritten digits with a network whose weights, gradients and optimizer state are sharded over all
 * ranks. The arithmetic is the program's own (digits_network.c), called from the step in digits_step.c; Ostraka owns
 * where the bytes are.
 *
 *   mpiexec -n 4 digits [DATA_FILE] [EPOCHS]
 *
 * DATA_FILE: by default the environment's DIGITS_DATA, else data/digits.csv. EPOCHS: by default 30. The exit status is
 * 1 on errors, and when 30 epochs or more do not bring the test accuracy above 96 %.
 */
#include "digits_step.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { FULL_EPOCHS = 30, MAX_EPOCHS = 1000000, PRINT_EVERY = 5 };
static const double needed_accuracy = 96.0;

/* One layer is one module: gathered, used and released as a whole. */
static void add_layer(trainer_t* trainer, int l) {
  static float initial[WIDEST * WIDEST];
  const int64_t inputs = widths[l], outputs = widths[l + 1];
  const ostraka_shape_t weight_shape = {2, (const int64_t[]){outputs, inputs}};
  const ostraka_shape_t bias_shape = {1, &outputs};
  char name[24];
  snprintf(name, sizeof name, "layer%d", l);

  CHECK(ostraka_fsdp_context_add_module(trainer->context, name, &trainer->layers[l]));
  CHECK(ostraka_fsdp_module_add_parameter(trainer->layers[l], "weight", weight_shape, OSTRAKA_F32, 1));
  CHECK(ostraka_fsdp_module_add_parameter(trainer->layers[l], "bias", bias_shape, OSTRAKA_F32, 1));
  CHECK(ostraka_fsdp_module_build(trainer->layers[l]));

  /* Uniform, of variance 2 / inputs, which ReLU layers need to keep the size of their signal. Biases are built zero. */
  const double bound = sqrt(6.0 / (double)inputs);
  const uint32_t steps = UINT32_C(1) << 24;
  for (int64_t k = 0; k < outputs * inputs; ++k)
    initial[k] = (float)(bound * (2.0 * digits_random(&trainer->random_state, steps) / steps - 1.0));
  CHECK(ostraka_fsdp_module_set_parameter(trainer->layers[l], "weight", OSTRAKA_F32, initial, outputs * inputs));
}

static void set_up(trainer_t* trainer) {
  const char* const names[] = {"data"};
  CHECK(ostraka_mesh_create(MPI_COMM_WORLD, 1, &trainer->size, names, &trainer->mesh));

  ostraka_fsdp_config_t config;
  CHECK(ostraka_fsdp_config_init(&config));
  config.recipe = OSTRAKA_ZERO_3;
  config.reduction = OSTRAKA_SUM; /* ranks have different numbers of rows: the loss divides by the global number */
  CHECK(ostraka_fsdp_context_create(trainer->mesh, &config, &trainer->context));
  for (int l = 0; l < LAYERS; ++l)
    add_layer(trainer, l);
  CHECK(ostraka_fsdp_context_finalize(trainer->context));
  CHECK(ostraka_adamw_create(trainer->context, NULL, &trainer->optimizer)); /* the defaults: learning rate 1e-3 */
}

static void tear_down(trainer_t* trainer) {
  CHECK(ostraka_optimizer_destroy(&trainer->optimizer));
  CHECK(ostraka_fsdp_context_destroy(&trainer->context));
  CHECK(ostraka_mesh_destroy(&trainer->mesh));
}

static ostraka_status_t train(trainer_t* trainer, int32_t* rows, int epochs) {
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double loss = 0, total = 0;
    digits_shuffle(rows, DIGITS_TRAIN_ROWS, &trainer->random_state);
    for (int64_t begin = 0; begin < DIGITS_TRAIN_ROWS; begin += BATCH) {
      const int64_t left = DIGITS_TRAIN_ROWS - begin;
      const ostraka_status_t status = train_step(trainer, rows + begin, left < BATCH ? left : BATCH, &loss);
      if (status != OSTRAKA_OK)
        return status;
    }
    if (epoch % PRINT_EVERY != 0 && epoch != epochs)
      continue;
    MPI_Reduce(&loss, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (trainer->rank == 0)
      printf("epoch %3d: training loss %.5f\n", epoch, total / DIGITS_TRAIN_ROWS);
  }
  return OSTRAKA_OK;
}

/* In per cent; negative when a rank failed. */
static double test_accuracy(trainer_t* trainer, const int32_t* rows) {
  int64_t first = 0, local[2] = {0, 0}, all[2];
  const int64_t count = my_part(trainer, DIGITS_TEST_ROWS, &first);
  /* Hooks are local in here: ranks may run different numbers of forward passes. */
  CHECK(ostraka_fsdp_context_begin_inference(trainer->context));
  local[1] = test_rows(trainer, rows + first, count, &local[0]) != OSTRAKA_OK;
  CHECK(ostraka_fsdp_context_end_inference(trainer->context));
  MPI_Allreduce(local, all, 2, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  return all[1] > 0 ? -1.0 : 100.0 * (double)all[0] / DIGITS_TEST_ROWS;
}

static void print_memory(const trainer_t* trainer) {
  ostraka_memory_report_t memory;
  CHECK(ostraka_memory_report_init(&memory));
  CHECK(ostraka_fsdp_context_memory(trainer->context, &memory));
  const int64_t local[] = {memory.parameters, memory.gradients, memory.optimizer_state, memory.transient_peak};
  int64_t largest[4];
  MPI_Reduce(local, largest, 4, MPI_INT64_T, MPI_MAX, 0, MPI_COMM_WORLD);
  if (trainer->rank != 0)
    return;
  printf("bytes per rank (the largest), for %lld parameters over all ranks:\n", (long long)memory.num_elements);
  printf("  weights %lld, gradients %lld, optimizer state %lld, transient peak %lld\n", (long long)largest[0],
         (long long)largest[1], (long long)largest[2], (long long)largest[3]);
}

static int run(trainer_t* trainer, int epochs) {
  int32_t training[DIGITS_TRAIN_ROWS], testing[DIGITS_TEST_ROWS];
  double accuracy = -1.0; /* as when a rank failed */
  digits_split(training, testing);
  CHECK(ostraka_initialize());
  set_up(trainer);
  if (train(trainer, training, epochs) == OSTRAKA_OK)
    accuracy = test_accuracy(trainer, testing);
  if (accuracy >= 0) {
    if (trainer->rank == 0)
      printf("test accuracy: %.2f %%\n", accuracy);
    print_memory(trainer);
  }
  tear_down(trainer);
  CHECK(ostraka_finalize());
  return accuracy < 0 || (epochs >= FULL_EPOCHS && accuracy <= needed_accuracy);
}

/* Rank 0 reads; all ranks learn whether that went well. */
static int load(trainer_t* trainer, const char* path) {
  char message[1024];
  int failed = 0;
  if (trainer->rank == 0) {
    failed = digits_load(&trainer->digits, path, message, sizeof message);
    if (failed)
      fprintf(stderr, "digits: %s\n", message);
  }
  MPI_Bcast(&failed, 1, MPI_INT, 0, MPI_COMM_WORLD);
  if (!failed)
    MPI_Bcast(&trainer->digits, (int)sizeof trainer->digits, MPI_BYTE, 0, MPI_COMM_WORLD);
  return failed;
}

int main(int argc, char** argv) {
  static trainer_t trainer = {.random_state = 2024};
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &trainer.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &trainer.size);

  const char* path = argc > 1 ? argv[1] : getenv("DIGITS_DATA");
  char* end = NULL;
  const long epochs = argc > 2 ? strtol(argv[2], &end, 10) : FULL_EPOCHS;
  int exit_status = 1;
  if (argc > 3 || epochs < 1 || epochs > MAX_EPOCHS || (end != NULL && *end != '\0')) {
    if (trainer.rank == 0)
      fprintf(stderr, "usage: digits [DATA_FILE] [EPOCHS], EPOCHS from 1 to %d\n", MAX_EPOCHS);
  } else if (load(&trainer, path != NULL ? path : "data/digits.csv") == 0) {
    exit_status = run(&trainer, (int)epochs);
  }
  MPI_Finalize();
  return exit_status;
}

// SPDX-License-Identifier: Apache-2.0
// OSTRAKA_CHECK=1 finds writes to weights that were handed out to be read.
#include "network.hpp"

#include <csetjmp>
#include <csignal>

namespace ostraka::fsdp::test {
namespace {

sigjmp_buf before_write;
extern "C" void leave_write(int) { siglongjmp(before_write, 1); }

/// Whether the system stopped the write.
bool write_is_stopped(void* address) {
  struct sigaction action = {}, earlier = {};
  action.sa_handler = leave_write;
  sigaction(SIGSEGV, &action, &earlier);
  const bool was_stopped = sigsetjmp(before_write, 1) != 0;
  if (!was_stopped)
    *static_cast<volatile double*>(address) = 7;
  sigaction(SIGSEGV, &earlier, nullptr);
  return was_stopped;
}

Options make_options(Recipe recipe, DType storage) {
  Options options;
  options.net = mlp({3, 6, 2});
  options.config = make_config(recipe);
  options.storage = storage;
  return options;
}

template <class T>
void write_before_a_step(const buffer::MeshPtr& mesh, Recipe recipe, DType storage) {
  Training<T> training(mesh, make_options(recipe, storage));
  training.context().zero_grad();
  FsdpModule& module = training.module(0);
  module.unshard();
  const void* weight = module.parameter("weight", training.compute_dtype());
  int stops = rank == ranks - 1 && write_is_stopped(const_cast<void*>(weight)) ? 1 : 0;
  module.reshard();
  MPI_Allreduce(MPI_IN_PLACE, &stops, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  training.pass(0);
  if (stops != 0)
    training.context().finish_backward();
  else
    expect_error(Status::INVALID_STATE, [&] { training.context().finish_backward(); },
                 {"'layer0.weight'", "were written while module 'layer0' was in use", "read-only"});
}

TEST(ReadOnly, AWriteIsStoppedOrReportedOnAllRanks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    write_before_a_step<double>(mesh, recipe, DType::f64);
    write_before_a_step<float>(mesh, recipe, DType::bf16);
  }
}

} // namespace
} // namespace ostraka::fsdp::test

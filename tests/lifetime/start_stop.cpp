// SPDX-License-Identifier: Apache-2.0
// Walks through the steps of its argument from C++ and prints what each did.
#include "start_stop.h"

#include <ostraka/base/error.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/fsdp/fsdp_module.hpp>
#include <ostraka/optim/optimizer.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <cstdio>
#include <optional>

using namespace ostraka;

namespace {

// Of static storage: what is never destroyed ends behind main.
struct Objects {
  buffer::MeshPtr mesh;
  std::optional<buffer::DBuffer> buffer;
  std::shared_ptr<fsdp::FsdpContext> context;
  fsdp::FsdpModule* module = nullptr;
  std::unique_ptr<optim::Optimizer> optimizer;
};
Objects objects;

void create() {
  objects.mesh = mesh::DeviceMesh::create_line(MPI_COMM_WORLD);
  objects.buffer = buffer::DBuffer::empty(objects.mesh, {layout::shard()}, {{6}}, DType::f64);
  objects.context = fsdp::FsdpContext::create(objects.mesh);
  objects.module = &objects.context->add_module("m");
  objects.module->add_parameter({"w", {6}, DType::f64});
  objects.module->build();
  objects.context->finalize();
  objects.optimizer = optim::make_sgd(objects.context->named_states(), {});
}

void gather() {
  expect(objects.buffer.has_value(), Status::INVALID_HANDLE, "start_stop: there is no buffer");
  objects.buffer->allgather(0);
}

void use() {
  expect(objects.context != nullptr, Status::INVALID_HANDLE, "start_stop: there is nothing to use");
  objects.context->begin_inference();
  objects.module->pre_forward();
  objects.module->post_forward();
  objects.context->end_inference();
}

void step(char letter) {
  switch (letter) {
  case 'M':
    MPI_Init(nullptr, nullptr);
    break;
  case 'm':
    MPI_Finalize();
    break;
  case 'K':
    start_stop_kokkos_initialize();
    break;
  case 'k':
    start_stop_kokkos_finalize();
    break;
  case 'I':
    runtime::initialize();
    break;
  case 'i':
    runtime::finalize();
    break;
  case 'C':
    create();
    break;
  case 'U':
    use();
    break;
  case 'G':
    gather();
    break;
  default:
    objects = Objects();
  }
}

} // namespace

int main(int argc, char** argv) {
  for (const char* letter = argc > 1 ? argv[1] : ""; *letter != '\0'; ++letter) {
    try {
      step(*letter);
      std::printf("%c OK\n", *letter);
    } catch (const Error& error) {
      std::printf("%c %s %s\n", *letter, name(error.status()), error.what());
    }
    std::fflush(stdout);
  }
  std::printf("end\n");
}

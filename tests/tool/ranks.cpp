// SPDX-License-Identifier: Apache-2.0
// Writes a file of the library for the tool, and reads one that the tool made. usage: ranks save|load FILE
#include "support/elements.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <cstdio>
#include <cstring>
#include <functional>
#include <string>

using namespace ostraka;
using buffer::DBuffer;
using buffer::NamedState;

namespace {

// As library_test.py has it.
double value_of(int tensor, std::int64_t element) { return static_cast<double>((tensor * 37 + element * 11) % 251); }

/// Calls visit(own part, index in the part, type, value) for this rank's elements; tensors are counted from `first`.
void for_each_element(const DBuffer& buffer, int first, const std::function<void(void*, std::int64_t, double)>& visit) {
  for (int i = 0; i < buffer.layout()->num_tensors(); ++i) {
    const auto own = buffer.tensor_range(i);
    for (std::int64_t k = 0; k < own.count; ++k)
      visit(own.data, k, value_of(first + i, own.offset + k));
  }
}

void fill(const DBuffer& buffer, int first) {
  for_each_element(buffer, first, [&](void* data, std::int64_t k, double value) {
    test::set_element(data, k, buffer.dtype(), value);
  });
}

void expect_filled(const DBuffer& buffer, int first) {
  for_each_element(buffer, first, [&](void* data, std::int64_t k, double value) {
    const double found = test::element(data, k, buffer.dtype());
    expect(found == value, Status::INTERNAL, "expected ", value, ", found ", found);
  });
}

checkpoint::Content make_content(const buffer::MeshPtr& mesh) {
  checkpoint::Content content;
  NamedState net, half;
  net.tensor_names = {"net.weight", "net/bias", "net.none"};
  net.main_weight = DBuffer::empty(mesh, {layout::shard()}, {{5, 7}, {3}, {0, 2}}, DType::f64);
  net.state["exp_avg"] = DBuffer(mesh, net.main_weight.placements(), net.main_weight.layout(), DType::f64);
  net.other_names = {{"head.weight", 0}};
  half.tensor_names = {"half.weight"};
  half.main_weight = DBuffer::empty(mesh, {layout::shard()}, {{4, 6}}, DType::bf16);
  content.states = {net, half};
  return content;
}

void save(const std::string& path, const buffer::MeshPtr& mesh) {
  checkpoint::Content content = make_content(mesh);
  fill(content.states[0].main_weight, 0);
  fill(content.states[0].state.at("exp_avg"), 10);
  fill(content.states[1].main_weight, 3);
  content.fields.push_back({{"temperature"}, DBuffer::empty(mesh, {layout::shard()}, {{4, 4}}, DType::f32)});
  fill(content.fields[0].values, 20);
  content.user.set_f64("time", 0.25);
  content.user.set_text("case", "cold");
  content.steps = 12;
  checkpoint::save(path, content);
}

void load(const std::string& path, const buffer::MeshPtr& mesh) {
  checkpoint::Content content = make_content(mesh);
  checkpoint::load(path, content);
  expect_filled(content.states[0].main_weight, 0);
  expect_filled(content.states[0].state.at("exp_avg"), 10);
  expect_filled(content.states[1].main_weight, 3);
  expect(content.steps == 12, Status::INTERNAL, "expected 12 steps, found ", content.steps.value_or(-1));
}

void run(const std::string& verb, const std::string& path) {
  const runtime::Session session;
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  (verb == "save" ? save : load)(path, mesh);
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int status = 0;
  try {
    run(argc > 2 ? argv[1] : "", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ranks: %s\n", error.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}

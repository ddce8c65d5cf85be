// SPDX-License-Identifier: Apache-2.0
// NamedStates made by hand and textbook optimizers, element by element. The reference computes in long double; for f32
// it rounds what the library stores (weights and state) to float.
#pragma once

#include "support/any_memory.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/layout/builders.hpp>
#include <ostraka/optim/optimizer.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::optim::test {

using namespace ostraka::test;
using buffer::DBuffer;
using buffer::NamedState;

inline buffer::MeshPtr make_mesh(const std::vector<int>& sizes = {ranks}) {
  setenv("OSTRAKA_CHECK", "1", 0);
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, sizes);
}

/// All ways to place a buffer, on a line and on grids. Collective.
inline std::vector<std::pair<buffer::MeshPtr, layout::Placements>> all_placements() {
  const layout::Placement whole = layout::replicate(), cut = layout::shard();
  const auto line = make_mesh();
  std::vector<std::pair<buffer::MeshPtr, layout::Placements>> result{{line, {cut}}, {line, {whole}}};
  for (int outer = 1; outer <= ranks; ++outer)
    if (ranks % outer == 0) {
      const auto grid = make_mesh({outer, ranks / outer});
      for (const layout::Placements& placements : {layout::Placements{cut, cut}, {whole, cut}, {whole, whole}})
        result.emplace_back(grid, placements);
    }
  return result;
}

/// Counts what the optimizer asks of a state.
struct Calls {
  int check_update = 0;
  int before_update = 0;
  int refresh = 0;
  int publish = 0;
  bool has_gradient = true;
};

/// A state of `shapes` in a planned layout with much padding.
inline NamedState make_state(const buffer::MeshPtr& mesh, const std::vector<layout::Shape>& shapes, DType dtype,
                             const layout::Placements& placements, const std::string& prefix,
                             const std::shared_ptr<Calls>& calls) {
  const auto plan =
      std::make_shared<layout::GlobalLayout>(layout::build_planned(shapes, mesh->size(), {.tensor = 8, .segment = 4}));
  NamedState state;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    state.tensor_names.push_back(prefix + ".p" + std::to_string(i));
  state.main_weight = DBuffer(mesh, placements, plan, dtype);
  state.main_gradient = DBuffer(mesh, placements, plan, dtype);
  state.has_gradient = [calls] { return calls->has_gradient; };
  state.check_update = [calls] { ++calls->check_update; };
  state.before_update = [calls] { ++calls->before_update; };
  state.refresh = [calls] { ++calls->refresh; };
  state.publish = [calls] { ++calls->publish; };
  return state;
}

/// Sets every element of this rank's part: value(tensor, index inside the tensor).
template <class Value>
void fill(const DBuffer& buffer, Value&& value) {
  for (int t = 0; t < buffer.layout()->num_tensors(); ++t) {
    const buffer::TensorRange own = buffer.tensor_range(t);
    std::vector<double> values;
    for (std::int64_t i = 0; i < own.count; ++i)
      values.push_back(value(t, own.offset + i));
    const std::vector<std::byte> bytes = encode(values, buffer.dtype());
    write_at(own.data, bytes.data(), static_cast<std::int64_t>(bytes.size()));
  }
}

/// Calls check(value, tensor, index inside the tensor) for every element of this rank.
template <class Check>
void for_elements(const DBuffer& buffer, Check&& check) {
  for (int t = 0; t < buffer.layout()->num_tensors(); ++t) {
    const buffer::TensorRange own = buffer.tensor_range(t);
    const std::vector<double> values = elements_at(own.data, own.count, buffer.dtype());
    for (std::int64_t i = 0; i < own.count; ++i)
      check(values[static_cast<std::size_t>(i)], t, own.offset + i);
  }
}

inline void expect_zero_padding(const DBuffer& buffer, const std::string& what) {
  const layout::Range& range = buffer.range();
  const std::vector<double> values = elements_at(buffer.data(), buffer.numel(), buffer.dtype());
  for (const layout::Range& gap : buffer.layout()->gaps(range))
    for (std::int64_t i = gap.begin - range.begin; i < gap.end - range.begin; ++i)
      EXPECT_EQ(values[static_cast<std::size_t>(i)], 0) << what << ", local element " << i;
}

inline double weight_value(int t, std::int64_t i) { return std::sin(1.0 + 3 * t + 0.7 * static_cast<double>(i)); }
/// Of step 1, 2, ...; some are 0.
inline double gradient_value(int t, std::int64_t i, int step) {
  return i % 5 == 4 ? 0 : std::cos(2.0 + t + 0.3 * static_cast<double>(i) + 1.1 * step) * (i % 3 == 0 ? 1e-3 : 1.0);
}

/// One element and what an optimizer keeps for it; formulas as in their papers.
struct Element {
  long double w, m = 0, v = 0;

  void adamw(const AdamWConfig& c, long double rate, long double g, int t) {
    w -= rate * c.weight_decay * w;
    m = c.beta1 * m + (1 - static_cast<long double>(c.beta1)) * g;
    v = c.beta2 * v + (1 - static_cast<long double>(c.beta2)) * g * g;
    const long double m_hat = m / (1 - std::pow(static_cast<long double>(c.beta1), t));
    const long double v_hat = v / (1 - std::pow(static_cast<long double>(c.beta2), t));
    w -= rate * m_hat / (std::sqrt(v_hat) + c.epsilon);
  }
  void sgd(const SgdConfig& c, long double rate, long double g) {
    m = c.momentum * m + g + c.weight_decay * w;
    w -= rate * m;
  }
};

/// The value that a buffer of `dtype` holds after set_element(value).
inline double stored(double value, DType dtype) {
  std::byte bytes[8];
  set_element(bytes, 0, dtype, value);
  return element(bytes, 0, dtype);
}

} // namespace ostraka::optim::test

// SPDX-License-Identifier: Apache-2.0
// Ways to take a step of the network: forward, backward, gradients summed over the ranks, each rank keeping a part.
#pragma once

#include "network.hpp"
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/optim/optimizer.hpp>

#include <mpi.h>

#include <memory>
#include <vector>

namespace ostraka::bench {

/// What a step does beside f32 arithmetic.
struct Kind {
  DType storage = DType::f32; ///< of the weights, which the arithmetic reads as they are: f32 or bf16
  bool updates = false;       ///< AdamW
  bool fuses = false;         ///< the update with the reduction
  bool is_bounded = true;     ///< the ring of two gradient slots, by the size of the caches, which is the default
};

/// The arithmetic alone in private memory, without gradients of others.
class LonelyStep {
public:
  /// `buffers` whole gradients, used in turn; updates on the part of one of `ranks` ranks.
  LonelyStep(const std::vector<std::vector<float>>& weights, int buffers, const Kind& kind, int ranks);
  void operator()();
  /// The first half of it.
  void forward();
  float* gradient(int layer) { return gradients_[static_cast<std::size_t>(layer) % gradients_.size()].data(); }

private:
  template <class T>
  void forward_through(const std::vector<std::vector<T>>& weights);
  template <class T>
  void pass(const std::vector<std::vector<T>>& weights);

  const std::vector<std::vector<float>>& weights_;
  std::vector<std::vector<bfloat16>> half_weights_; ///< read instead, unless empty
  std::vector<std::vector<float>> gradients_;
  std::vector<AdamSlice> slices_;
  int steps_ = 0;
  Network network_;
};

/// What a code does with MPI alone: gathers a layer before each use, reduces its gradient after. Nothing is gained by
/// calling MPI_Wait later, as it moves data when called (spec/backends.md 0.5).
class StockStep {
public:
  StockStep(const std::vector<std::vector<float>>& weights, MPI_Comm group);
  void operator()();
  void gather_all();

private:
  void gather(int layer);

  MPI_Comm group_;
  int part_ = 0;
  std::vector<std::vector<float>> shards_, main_gradients_;
  std::vector<float> weight_, gradient_;
  Network network_;
};

/// The library's, on the back end that OSTRAKA_BACKEND names when it is made.
class LibraryStep {
public:
  LibraryStep(const std::vector<std::vector<float>>& weights, const Kind& kind);
  void operator()();
  const buffer::MeshPtr& mesh() const { return context_->mesh(); }
  buffer::TensorRange main_gradient(int layer) const;
  /// Makes the weights of all layers readable, one after the other.
  void gather_all();
  /// The arithmetic alone on weights of node memory, of which the ranks read one copy: forward and, where there are
  /// `gradients`, which are used in turn, backward.
  void compute(std::vector<std::vector<float>>& gradients);

private:
  template <class T>
  const T* weight(int layer) const;
  template <class T>
  void pass();
  template <class T>
  void compute_as(std::vector<std::vector<float>>& gradients);

  DType storage_;
  std::shared_ptr<fsdp::FsdpContext> context_;
  std::vector<fsdp::FsdpModule*> modules_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Network network_;
};

} // namespace ostraka::bench

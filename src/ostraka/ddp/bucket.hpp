// SPDX-License-Identifier: Apache-2.0
// Parameters whose gradients are reduced and whose weights are gathered together. Source: seed 004,
// spec/megatron_fsdp.md 5.1 - 5.4.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/ddp/resources.hpp>
#include <ostraka/ddp/weights.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::ddp {

/// What a bucket holds.
struct Contents {
  buffer::LayoutPtr layout;
  std::vector<std::string> names; ///< full names, one per tensor of the layout
  DType weight;
  DType gradient;
  DType main;
  bool is_sharded; ///< the optimizer is
};

/// Contiguous memory of the buffer that a bucket is part of; the bucket begins at element `first` of each.
struct BufferMemory {
  std::shared_ptr<memory::Storage> weights;
  std::shared_ptr<memory::Storage> gradients;
  std::int64_t first = 0;
};

class OSTRAKA_API Bucket {
public:
  /// `name` is for messages. Gradients are zero. Local.
  Bucket(std::shared_ptr<Resources> resources, std::shared_ptr<Ranks> ranks, const std::string& name, Contents contents,
         const BufferMemory& memory);

  const std::vector<std::string>& names() const { return contents_.names; }
  Weights& weights() { return weights_; }
  const Weights& weights() const { return weights_; }

  struct Gradient {
    void* data;
    bool accumulate; ///< the memory holds earlier contributions (beta = 1)
  };
  DType gradient_dtype(int tensor) const;
  /// Where the whole gradient of `tensor` is written.
  Gradient gradient(int tensor);
  bool is_written(int tensor) const { return written_[tensor] != 0; }

  /// Gradients that nobody wrote are zero, and what is reduced is complete (compute queue).
  void prepare_reduction();
  /// Queues the reduction, behind which the whole is reduced, or, with a sharded optimizer and unless `all_reduce` (or
  /// 16-bit sums over several axes), this rank's part of it (reduce queue).
  void start_reduction(bool all_reduce);
  /// Queues what brings the reduced parts of all ranks together, if that is still to be done (reduce queue).
  void complete_whole();
  /// main_gradient() follows from what was reduced (compute queue).
  void finish_reduction();
  /// Gradients count as zero: the next contributions start anew.
  void zero_grad();
  /// Overwrites gradients with zeros, in memory that may have been another's.
  void clear_gradients();
  void scale_gradients(double factor);
  /// This rank's elements of the reduced gradient, main type.
  const buffer::DBuffer& main_gradient() const { return main_gradient_; }

  /// Memory of gradients that is no part of the buffer.
  std::vector<std::shared_ptr<memory::Storage>> own_gradient_storages() const;

  /// Without the functions, which the owner adds.
  buffer::NamedState named_state() const;

private:
  bool is_rounded_between_axes() const;
  void copy_accumulators(bool into_gradients);

  std::shared_ptr<Resources> resources_;
  std::shared_ptr<Ranks> ranks_;
  Contents contents_;
  Weights weights_;

  buffer::DBuffer gradients_;     ///< whole
  buffer::DBuffer reduced_;       ///< this rank's part of gradients_
  buffer::DBuffer main_gradient_; ///< the same elements in the main type; reduced_ itself where types agree
  buffer::DBuffer accumulators_;  ///< whole, f32; refers to nothing unless some tensor has one
  std::vector<char> accumulates_; ///< [tensor] contributions add up in accumulators_
  std::vector<char> written_;     ///< [tensor] has contributions
  bool is_whole_reduced_ = false;
};

} // namespace ostraka::ddp

// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"

#include <limits>
#include <string>

namespace ostraka::bench {

LonelyStep::LonelyStep(const std::vector<std::vector<float>>& weights, int buffers, const Kind& kind, int ranks)
    : weights_(weights), gradients_(static_cast<std::size_t>(buffers), std::vector<float>(layer_elements)) {
  if (kind.storage == DType::bf16)
    for (const std::vector<float>& weight : weights)
      half_weights_.emplace_back(weight.begin(), weight.end());
  for (int layer = 0; kind.updates && layer < num_layers; ++layer)
    slices_.emplace_back(layer_elements / ranks);
}

template <class T>
void LonelyStep::forward_through(const std::vector<std::vector<T>>& weights) {
  for (int layer = 0; layer < num_layers; ++layer)
    network_.forward(layer, weights[static_cast<std::size_t>(layer)].data());
}

void LonelyStep::forward() {
  if (half_weights_.empty())
    forward_through(weights_);
  else
    forward_through(half_weights_);
}

template <class T>
void LonelyStep::pass(const std::vector<std::vector<T>>& weights) {
  forward_through(weights);
  for (int layer = num_layers - 1; layer >= 0; --layer)
    network_.backward(layer, weights[static_cast<std::size_t>(layer)].data(), gradient(layer));
}

void LonelyStep::operator()() {
  if (half_weights_.empty())
    pass(weights_);
  else
    pass(half_weights_);
  ++steps_;
  for (AdamSlice& slice : slices_)
    slice.update(steps_);
}

StockStep::StockStep(const std::vector<std::vector<float>>& weights, MPI_Comm group)
    : group_(group), weight_(layer_elements), gradient_(layer_elements) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(group, &rank);
  MPI_Comm_size(group, &ranks);
  part_ = static_cast<int>(layer_elements / ranks);
  for (const std::vector<float>& weight : weights) {
    const auto begin = weight.begin() + std::ptrdiff_t{rank} * part_;
    shards_.emplace_back(begin, begin + part_);
  }
  main_gradients_.assign(num_layers, std::vector<float>(static_cast<std::size_t>(part_)));
}

void StockStep::gather(int layer) {
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallgather(shards_[static_cast<std::size_t>(layer)].data(), part_, MPI_FLOAT, weight_.data(), part_, MPI_FLOAT,
                 group_, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
}

void StockStep::gather_all() {
  for (int layer = 0; layer < num_layers; ++layer)
    gather(layer);
}

void StockStep::operator()() {
  for (int layer = 0; layer < num_layers; ++layer) {
    gather(layer);
    network_.forward(layer, weight_.data());
  }
  for (int layer = num_layers - 1; layer >= 0; --layer) {
    gather(layer);
    network_.backward(layer, weight_.data(), gradient_.data());
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ireduce_scatter_block(gradient_.data(), main_gradients_[static_cast<std::size_t>(layer)].data(), part_,
                              MPI_FLOAT, MPI_SUM, group_, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }
}

LibraryStep::LibraryStep(const std::vector<std::vector<float>>& weights, const Kind& kind) : storage_(kind.storage) {
  fsdp::ContextConfig config;
  config.reduction = layout::ReduceOp::sum;
  config.compute_dtype = kind.storage;
  if (!kind.is_bounded)
    config.gradient_slot_bytes = std::numeric_limits<std::int64_t>::max();
  context_ = fsdp::FsdpContext::create(mesh::DeviceMesh::create_line(MPI_COMM_WORLD), config);
  for (int layer = 0; layer < num_layers; ++layer) {
    fsdp::FsdpModule& module = context_->add_module("layer" + std::to_string(layer));
    module.add_parameter({"weight", {dim, dim}, kind.storage});
    module.build();
    module.set_parameter("weight", weights[static_cast<std::size_t>(layer)].data(), layer_elements, DType::f32);
    modules_.push_back(&module);
  }
  context_->finalize();
  if (kind.updates)
    optimizer_ = optim::make_adamw(context_->named_states(), {.learning_rate = 1e-6}); // rows keep their size
  if (kind.fuses)
    optimizer_->fuse_with_reduction();
}

void LibraryStep::operator()() {
  context_->zero_grad();
  if (storage_ == DType::bf16)
    pass<bfloat16>();
  else
    pass<float>();
  context_->finish_backward();
  if (optimizer_ != nullptr)
    optimizer_->step();
}

template <class T>
const T* LibraryStep::weight(int layer) const {
  return static_cast<const T*>(modules_[static_cast<std::size_t>(layer)]->parameter("weight", storage_));
}

template <class T>
void LibraryStep::pass() {
  for (int layer = 0; layer < num_layers; ++layer) {
    fsdp::FsdpModule& module = *modules_[static_cast<std::size_t>(layer)];
    module.pre_forward();
    network_.forward(layer, weight<T>(layer));
    module.post_forward();
  }
  for (int layer = num_layers - 1; layer >= 0; --layer) {
    fsdp::FsdpModule& module = *modules_[static_cast<std::size_t>(layer)];
    module.pre_backward();
    network_.backward(layer, weight<T>(layer), static_cast<float*>(module.gradient("weight", DType::f32).data));
    module.post_backward();
  }
}

void LibraryStep::gather_all() {
  for (fsdp::FsdpModule* module : modules_) {
    module->unshard();
    module->reshard();
  }
}

void LibraryStep::compute(std::vector<std::vector<float>>& gradients) {
  for (fsdp::FsdpModule* module : modules_)
    module->unshard();
  if (storage_ == DType::bf16)
    compute_as<bfloat16>(gradients);
  else
    compute_as<float>(gradients);
  for (fsdp::FsdpModule* module : modules_)
    module->reshard();
}

template <class T>
void LibraryStep::compute_as(std::vector<std::vector<float>>& gradients) {
  for (int layer = 0; layer < num_layers; ++layer)
    network_.forward(layer, weight<T>(layer));
  for (int layer = num_layers - 1; layer >= 0 && !gradients.empty(); --layer)
    network_.backward(layer, weight<T>(layer), gradients[static_cast<std::size_t>(layer) % gradients.size()].data());
}

buffer::TensorRange LibraryStep::main_gradient(int layer) const {
  return modules_[static_cast<std::size_t>(layer)]->main_gradient("weight", DType::f32);
}

} // namespace ostraka::bench

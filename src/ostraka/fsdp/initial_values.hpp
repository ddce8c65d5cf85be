// SPDX-License-Identifier: Apache-2.0
// Values of replicated weights that every rank is given whole, although each may keep a part only: what ranks compare,
// or take from rank 0, before training starts.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/fsdp/resources.hpp>
#include <ostraka/memory/device_arena.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace ostraka::fsdp {

/// Writes elements [first, first + count) of a tensor, C order, to `out`, which is of type `dtype` and
/// memory of the host.
using Fill = std::function<void(std::int64_t first, std::int64_t count, void* out, DType dtype)>;

class InitialValues {
public:
  /// Of weights whose main copy is like `main`. Rank 0 keeps the values where it decides for all, else every
  /// rank keeps hashes.
  InitialValues(std::shared_ptr<Resources> resources, const buffer::DBuffer& main);

  /// This rank was given the whole tensor `index`.
  void keep(int index, const void* data, std::int64_t count, DType dtype);
  /// This rank was given what writes its part; where rank 0 decides for all, it asks for the whole tensor.
  void keep(int index, const Fill& fill);
  /// Equal on ranks that were given equal values, once converted to the main type.
  std::int64_t hash(int index) const;
  /// main = this rank's part of what rank 0 was given. Collective over the mesh.
  void broadcast(const buffer::DBuffer& main) const;

private:
  buffer::DBuffer make_whole(buffer::LayoutPtr layout) const;
  buffer::DBuffer make_zero(int index) const;

  std::shared_ptr<Resources> resources_;
  std::shared_ptr<memory::Arena> arena_ = memory::make_arena(resources_->mesh->device()); ///< goes with set-up
  buffer::LayoutPtr layout_;
  DType dtype_;
  buffer::DBuffer values_;
  std::vector<std::optional<std::int64_t>> hashes_; ///< [tensor], of those that were given
};

} // namespace ostraka::fsdp

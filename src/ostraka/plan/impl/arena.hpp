// SPDX-License-Identifier: Apache-2.0
// An arena without memory: it places blocks as every arena does, at addresses that nobody may use.
#pragma once

#include <ostraka/base/checked.hpp>
#include <ostraka/memory/storage.hpp>

#include <array>
#include <memory>

namespace ostraka::plan::impl {

constexpr std::int64_t page = 4096;

class Arena final : public memory::Arena {
public:
  explicit Arena(std::int64_t granularity) : memory::Arena(granularity) {}

  runtime::Device device() const override { return runtime::Device::host; }

  /// Begin of the space of addresses in which an offset of the arena lies, and such an offset.
  static std::int64_t space_of(std::int64_t offset) { return offset / space_bytes * space_bytes; }
  static std::int64_t offset_of(const memory::Storage& storage) {
    return reinterpret_cast<std::intptr_t>(storage.data()) - base;
  }
  /// Bytes of whole pages that both spaces take from the system.
  std::int64_t committed() const { return committed_[0] + committed_[1]; }

protected:
  AddressSpace reserve() override {
    return {reinterpret_cast<std::byte*>(base + spaces_++ * space_bytes), space_bytes};
  }
  void commit(const AddressSpace& space, std::int64_t, std::int64_t bytes) override {
    const std::int64_t index = (reinterpret_cast<std::intptr_t>(space.data) - base) / space_bytes;
    committed_[static_cast<std::size_t>(index)] = round_up(bytes, page, "arena: bytes");
  }
  void decommit(const AddressSpace&, std::int64_t, std::int64_t) override {}
  void poison(std::byte*, std::int64_t) override {}

private:
  static constexpr std::int64_t space_bytes = std::int64_t{1} << 50;
  static constexpr std::int64_t base = std::int64_t{1} << 52;

  std::int64_t spaces_ = 0;
  std::array<std::int64_t, 2> committed_{};
};

/// Bytes for one purpose.
struct Meter {
  std::int64_t in_use = 0;
  std::int64_t peak = 0;
};

/// Storage whose bytes, rounded as the arena does, count for a purpose.
class Piece {
public:
  Piece() = default;
  Piece(std::shared_ptr<Arena> arena, std::int64_t bytes, memory::Kind kind, Meter& meter, bool takes = true)
      : storage_(std::make_unique<memory::Storage>(std::move(arena), bytes, kind, false)), meter_(&meter) {
    if (takes)
      take();
  }

  bool is_there() const { return storage_ != nullptr; }
  const memory::Storage& storage() const { return *storage_; }
  void take() {
    change([this] { storage_->reallocate(); });
  }
  void give_back() {
    change([this] { storage_->release(); });
  }

private:
  template <class Change>
  void change(Change&& body) {
    const memory::Usage& usage = storage_->arena()->usage(storage_->kind());
    const std::int64_t before = usage.in_use;
    body();
    meter_->in_use += usage.in_use - before;
    meter_->peak = std::max(meter_->peak, meter_->in_use);
  }

  std::unique_ptr<memory::Storage> storage_;
  Meter* meter_ = nullptr;
};

} // namespace ostraka::plan::impl

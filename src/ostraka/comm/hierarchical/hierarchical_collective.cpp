// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/hierarchical/impl/hierarchical_collective.hpp>

namespace ostraka::comm::impl {

std::vector<const std::byte*> HierarchicalCollective::inputs(const std::byte* own) const {
  std::vector<const std::byte*> all;
  for (int local = 0; local < size(); ++local)
    all.push_back(local == rank() ? own : data_of(local));
  return all;
}

void HierarchicalCollective::choose_landing(std::byte* out, std::int64_t packed) {
  landing_ = out;
  if (size() == 1 || packed == 0 || is_written_once())
    return; // nobody looks
  if (const auto found = node::locate(out)) {
    notice_.out = *found;
    return;
  }
  notice_.out = room(packed);
  notice_.is_packed = true;
  landing_ = shown(notice_.out);
}

std::byte* HierarchicalCollective::landing(int local, std::int64_t offset, std::int64_t position) const {
  if (local == rank())
    return landing_ + (notice_.is_packed ? position : offset);
  return out_of(local) + (group_->channel.notice(local, description.sequence).is_packed ? position : offset);
}

namespace {

class Agreed final : public HierarchicalCollective {
public:
  Agreed(LinePtr line, std::unique_ptr<Collective> operation)
      : HierarchicalCollective(std::move(line)), operation_(std::move(operation)) {}

private:
  void prepare() override {}

  bool work() override {
    if (!operation_->is_started) {
      operation_->description = description;
      operation_->is_started = true;
      operation_->start();
    }
    return operation_->test();
  }

  bool will_send_again() const override { return !operation_->is_started || operation_->will_start_again(); }

  std::unique_ptr<Collective> operation_;
};

} // namespace

std::unique_ptr<Collective> make_agreed(LinePtr line, std::unique_ptr<Collective> operation) {
  return std::make_unique<Agreed>(std::move(line), std::move(operation));
}

} // namespace ostraka::comm::impl

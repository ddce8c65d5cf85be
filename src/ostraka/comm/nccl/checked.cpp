// SPDX-License-Identifier: Apache-2.0
// OSTRAKA_CHECK=1: before an operation starts, the ranks compare over the host what each of them is about to do, since
// NCCL hangs or moves wrong data where they differ.
#include <ostraka/comm/impl/record.hpp>
#include <ostraka/comm/nccl/impl/launch.hpp>

#include <vector>

namespace ostraka::comm::nccl {

namespace {

using comm::impl::Record;

class Checked final : public Collective {
public:
  Checked(LinePtr line, std::unique_ptr<Collective> operation)
      : line_(std::move(line)), operation_(std::move(operation)),
        records_(std::make_shared<std::vector<Record>>(static_cast<std::size_t>(line_->size))) {}

  bool is_stream_ordered() const override { return operation_->is_stream_ordered(); }

  void start() override {
    operation_->description = description;
    operation_->mark_ready(execution());
    (*records_)[static_cast<std::size_t>(line_->rank)] = Record(description);
    const std::shared_ptr<memory::Storage> storage(
        new memory::Storage(records_->data(), static_cast<std::int64_t>(records_->size() * sizeof(Record)),
                            runtime::Device::host),
        [kept = records_](memory::Storage* wrapped) { delete wrapped; });
    const Operand all{storage, 0}, own{storage, static_cast<std::int64_t>(sizeof(Record)) * line_->rank};
    const auto queue = runtime::make_host_queue(line_->name + " comparison");
    line_->host->allgather(*queue, own, all, layout::Segments::equal(line_->size, sizeof(Record)), DType::u8);
    compared_ = queue->record();
    queue_ = queue;
  }

  bool test() override {
    if (!operation_->is_started) {
      if (!compared_.is_done())
        return false;
      if (compared_.error())
        std::rethrow_exception(compared_.error());
      comm::impl::expect_agreement(line_->size, line_->name, description.sequence,
                                   [&](int k) -> const Record& { return (*records_)[static_cast<std::size_t>(k)]; });
      operation_->is_started = true;
      operation_->start();
    }
    return operation_->test();
  }

  bool will_start_again() const override { return !operation_->is_started || operation_->will_start_again(); }

private:
  LinePtr line_;
  std::unique_ptr<Collective> operation_;
  std::shared_ptr<std::vector<Record>> records_;
  std::shared_ptr<runtime::Stream> queue_;
  runtime::Event compared_;
};

} // namespace

std::unique_ptr<Collective> make_checked(LinePtr line, std::unique_ptr<Collective> operation) {
  return std::make_unique<Checked>(std::move(line), std::move(operation));
}

} // namespace ostraka::comm::nccl

// SPDX-License-Identifier: Apache-2.0
// OSTRAKA_CHECK=1: before an operation starts, the ranks compare what each of them is about to do. Only operations that
// agree are started, so neither a mixed-up order nor a different size can hang or move wrong data.
#include <ostraka/comm/impl/record.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <vector>

namespace ostraka::comm::impl {

namespace {

class Checked final : public MpiCollective {
public:
  Checked(GroupPtr group, std::unique_ptr<Collective> operation)
      : MpiCollective(std::move(group)), operation_(std::move(operation)) {}

  void start() override {
    operation_->description = description;
    own_ = Record(description);
    records_.resize(static_cast<std::size_t>(group_->size));
    check(MPI_Iallgather(&own_, sizeof(Record), MPI_BYTE, records_.data(), sizeof(Record), MPI_BYTE, group_->comm,
                         &request_));
  }

  bool test() override {
    if (!operation_->is_started) {
      if (!is_complete(request_))
        return false;
      compare();
      operation_->start();
      operation_->is_started = true;
    }
    return operation_->test();
  }

  bool will_start_again() const override { return !operation_->is_started || operation_->will_start_again(); }

private:
  void compare() const {
    expect_agreement(group_->size, group_->name, description.sequence,
                     [&](int k) -> const Record& { return records_[static_cast<std::size_t>(k)]; });
  }

  std::unique_ptr<Collective> operation_;
  Record own_;
  std::vector<Record> records_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

} // namespace

std::unique_ptr<Collective> make_checked(GroupPtr group, std::unique_ptr<Collective> operation) {
  if (!group->settings.checks)
    return operation;
  return std::make_unique<Checked>(std::move(group), std::move(operation));
}

} // namespace ostraka::comm::impl

// SPDX-License-Identifier: Apache-2.0
// An all-to-all of arbitrary parts as messages between the ranks that have something for each other. Nothing is packed:
// a message of several parts is described to MPI by a type.
#include <ostraka/base/checked.hpp>
#include <ostraka/comm/impl/own_transfers.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <algorithm>

namespace ostraka::comm::impl {

namespace {

constexpr int tag = 1; // messages of two ranks match in the order in which operations start

class Exchange final : public MpiCollective {
public:
  Exchange(GroupPtr group, Operand in, std::vector<Transfer> sends, Operand out, std::vector<Transfer> receives,
           DType dtype)
      : MpiCollective(std::move(group)), in_(std::move(in)), sends_(std::move(sends)), out_(std::move(out)),
        receives_(std::move(receives)), dtype_(dtype) {}

  void start() override {
    post(receives_, out_.data(), [&](void* data, int count, MPI_Datatype type, int peer, MPI_Request* request) {
      return MPI_Irecv(data, count, type, peer, tag, group_->comm, request);
    });
    post(sends_, in_.data(), [&](void* data, int count, MPI_Datatype type, int peer, MPI_Request* request) {
      return MPI_Isend(data, count, type, peer, tag, group_->comm, request);
    });
    copy_own(group_->rank, in_.data(), sends_, out_.data(), receives_, size_of(dtype_));
  }

  bool test() override {
    int flag = 0;
    check(MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &flag, MPI_STATUSES_IGNORE));
    return flag != 0;
  }

private:
  /// Consecutive parts of one peer, at most the count limit in all.
  struct Message {
    int peer;
    std::vector<int> counts;
    std::vector<MPI_Aint> offsets; ///< bytes
  };

  // Both sides cut the elements of a pair after every `limit` of them, so that the messages fit.
  template <class Post>
  void post(const std::vector<Transfer>& transfers, std::byte* data, Post&& call) {
    const std::int64_t limit = group_->settings.count_limit;
    Message message{-1, {}, {}};
    std::int64_t room = 0;
    for (const Transfer& transfer : transfers) {
      if (transfer.peer == group_->rank)
        continue;
      for (std::int64_t done = 0; done < transfer.count;) {
        if (transfer.peer != message.peer || room == 0) {
          flush(message, data, call);
          message.peer = transfer.peer;
          room = limit;
        }
        const std::int64_t count = std::min(transfer.count - done, room);
        message.counts.push_back(static_cast<int>(count));
        message.offsets.push_back((transfer.offset + done) * size_of(dtype_));
        done += count;
        room -= count;
      }
    }
    flush(message, data, call);
  }

  template <class Post>
  void flush(Message& message, std::byte* data, Post&& call) {
    if (message.counts.empty())
      return;
    requests_.push_back(MPI_REQUEST_NULL);
    if (message.counts.size() == 1) {
      check(call(data + message.offsets[0], message.counts[0], mpi_type(dtype_), message.peer, &requests_.back()));
    } else {
      MPI_Datatype parts = MPI_DATATYPE_NULL;
      const int number = narrow(static_cast<std::int64_t>(message.counts.size()), "exchange: parts of a message");
      check(MPI_Type_create_hindexed(number, message.counts.data(), message.offsets.data(), mpi_type(dtype_), &parts));
      check(MPI_Type_commit(&parts));
      const int code = call(data, 1, parts, message.peer, &requests_.back());
      MPI_Type_free(&parts); // lives until the message is complete
      check(code);
    }
    message.counts.clear();
    message.offsets.clear();
  }

  Operand in_;
  std::vector<Transfer> sends_;
  Operand out_;
  std::vector<Transfer> receives_;
  DType dtype_;
  std::vector<MPI_Request> requests_;
};

} // namespace

std::unique_ptr<Collective> make_exchange(GroupPtr group, Operand in, std::vector<Transfer> sends, Operand out,
                                          std::vector<Transfer> receives, DType dtype) {
  return std::make_unique<Exchange>(std::move(group), std::move(in), std::move(sends), std::move(out),
                                    std::move(receives), dtype);
}

} // namespace ostraka::comm::impl
